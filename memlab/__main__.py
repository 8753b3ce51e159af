"""`python -m memlab` is the command line."""

import sys

from memlab.cli import main

sys.exit(main())
