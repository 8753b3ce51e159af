"""The README says what is true: its commands, its snippets, its tables."""

from __future__ import annotations

import argparse
import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CLONE = Path(__file__).parent.parent
TEXT = (CLONE / "README.md").read_text(encoding="utf-8")
README = runpy.run_path(str(CLONE / ".ci" / "readme.py"))  # as .ci/run reads it
BLOCKS = README["blocks"]()
CI_RUN = (CLONE / ".ci" / "run").read_text(encoding="utf-8")
WORKFLOW = (CLONE / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")

SNIPPETS = [
    pytest.param(code, after[2] if after[0] == "text" else "", id=f"snippet{number}")
    for number, ((language, _, code), after) in enumerate(
        zip(BLOCKS, [*BLOCKS[1:], ("", "", "")], strict=True)
    )
    if language == "python"
]
MODULES = re.findall(r"^\| `(\w+)(?:\.py|/)` \|", TEXT, re.MULTILINE)


def commands_of(parser: argparse.ArgumentParser) -> set[str]:
    return {
        name
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name in action.choices
    }


def imports_when_loaded(file: Path) -> set[str]:
    """The modules of memlab that `file` names at its top level."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module == "memlab":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memlab."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            parts = [alias.name.split(".") for alias in node.names]
            names |= {part[1] for part in parts if part[0] == "memlab" and len(part) > 1}
    return names


def test_every_command_is_one_line_and_has_a_name():
    shells = [block for block in BLOCKS if block[0] in ("bash", "powershell")]

    assert shells
    assert all(name and text.count("\n") == 1 for _, name, text in shells)


def test_ci_runs_every_command_of_the_readme_as_it_stands_there():
    named = {name for _, name, _ in BLOCKS if name}
    in_run = set(re.findall(r"\breadme ([a-z-]+)", CI_RUN))
    in_workflow = set(re.findall(r"readme\.py ([a-z-]+)", WORKFLOW))

    assert in_run == {"demo", "test", "demo-uv", "test-uv"}
    assert in_workflow == {"demo", "test", "demo-windows", "test-windows"}
    assert named == in_run | in_workflow


def test_an_unknown_command_name_is_refused():
    with pytest.raises(SystemExit, match="no block 'nonsense'"):
        README["command"]("nonsense")


def test_plain_python_and_windows_run_the_same():
    plain, windows = README["command"]("test"), README["command"]("test-windows")
    plain = plain.replace("python3 -m", "python -m").replace(" &&", ";").replace("/", "\\")

    assert windows.replace("/", "\\") == plain.replace("bin\\", "Scripts\\")


@pytest.mark.parametrize(("code", "output"), SNIPPETS)
def test_a_snippet_runs_in_a_new_process_and_prints_what_the_readme_says(code, output, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )

    assert (done.stdout, done.stderr, done.returncode) == (output, "", 0)


def test_there_is_a_snippet_to_run():
    assert SNIPPETS


def test_every_command_in_the_readme_exists_and_none_is_left_out():
    from memlab.cli import build_parser

    in_code = re.findall(r"`([^`\n]+)`", TEXT) + [text for _, name, text in BLOCKS if name]
    named = {word for code in in_code for word in re.findall(r"\bmemlab ([a-z][\w-]*)", code)}

    assert named == commands_of(build_parser())


def test_the_modules_in_the_readme_are_the_modules_there_are():
    inside = CLONE / "memlab"
    folders = {path.parent.name for path in inside.glob("*/__init__.py")}
    there = {path.stem for path in inside.glob("*.py")} | folders

    assert set(MODULES) == there - {"__init__", "__main__"}
    assert len(set(MODULES)) == len(MODULES)


@pytest.mark.parametrize("module", [name for name in MODULES if name != "classroom"])
def test_a_module_imports_only_what_stands_above_it_in_the_readme(module):
    above = set(MODULES[: MODULES.index(module)])
    inside = CLONE / "memlab"
    files = [inside / f"{module}.py"] if (inside / f"{module}.py").exists() else []

    for file in files or (inside / module).glob("*.py"):
        assert imports_when_loaded(file) <= above | {module}


def test_the_notebooks_in_the_readme_are_the_notebooks_there_are():
    linked = re.findall(r"\]\((notebooks/\w+\.ipynb)\)", TEXT)
    there = sorted(path.relative_to(CLONE).as_posix() for path in CLONE.glob("notebooks/*.ipynb"))

    assert linked == there


def test_links_lead_to_files_of_the_clone():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]

    assert [link for link in links if not (CLONE / link).is_file()] == []


def test_the_workflow_covers_three_systems_and_two_pythons():
    jobs = yaml.safe_load(WORKFLOW)["jobs"]
    systems, pythons = set(), set()
    for job in jobs.values():
        matrix = job["strategy"]["matrix"]
        systems |= set(matrix.get("os", [job["runs-on"]]))
        pythons |= set(matrix["python"])

    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}
    assert pythons == {"3.11", "3.13"}


def test_every_step_of_the_workflow_is_well_formed():
    steps = [step for job in yaml.safe_load(WORKFLOW)["jobs"].values() for step in job["steps"]]

    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "a/b@v1")) for step in steps)
    assert "bash .ci/run" in [step.get("run") for step in steps]
