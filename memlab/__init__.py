"""memlab: a memory for LLM agents whose every write was approved by the person it is about."""
