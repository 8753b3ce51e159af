"""The notebooks as files: run from top to bottom, short cells, nothing of one machine in them."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import nbformat
import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(
    path for path in FOLDER.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
)
OF_ONE_MACHINE = re.compile(r"/home/|/root/|/tmp/|/var/folders/|[A-Z]:\\+Users|\b0x[0-9a-f]{6,}")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code_cells(notebook):
    """The code cells that hold something to run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def lines(cell):
    return [line for line in cell.source.splitlines() if line.strip()]


def outputs(notebook):
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def words(output):
    """Every text that an output holds, in all its forms (pictures left out)."""
    texts = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
    for form, content in output.get("data", {}).items():
        if not form.startswith("image/") and isinstance(content, str):
            texts.append(content)
    return "\n".join(texts)


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_it_is_a_valid_notebook(notebook):
    nbformat.validate(notebook)


def test_it_was_run_from_top_to_bottom(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]

    assert counts == list(range(1, len(counts) + 1))  # else a strict comparison compares nothing


def test_no_cell_is_empty(notebook):
    assert [cell.id for cell in notebook.cells if not cell.source.strip()] == []


def test_it_holds_no_state_of_widgets(notebook):
    assert "widgets" not in notebook.metadata


def test_it_asks_for_the_plain_python_kernel(notebook):
    assert notebook.metadata.kernelspec.name == "python3"


def test_no_error_was_saved_but_where_the_cell_is_meant_to_raise(notebook):
    surprised = [
        output.ename
        for cell in code_cells(notebook)
        if "raises-exception" not in cell.metadata.get("tags", [])
        for output in cell.outputs
        if output.output_type == "error"
    ]

    assert surprised == []


def test_it_has_30_to_60_cells(notebook):
    assert 30 <= len(notebook.cells) <= 60


def test_no_code_cell_is_over_25_lines(notebook):
    assert [cell.source for cell in code_cells(notebook) if len(lines(cell)) > 25] == []


def test_the_typical_code_cell_is_at_most_5_lines(notebook):
    assert median(len(lines(cell)) for cell in code_cells(notebook)) <= 5


def test_every_picture_is_told_in_words_too(notebook):
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    shown = prose + "\n".join(words(output) for output in outputs(notebook))

    tags = re.findall(r"<img\b[^>]*>", shown)

    assert re.findall(r"!\[\s*\]\(", prose) == []
    assert [tag for tag in tags if not re.search(r"\balt=", tag)] == []
    for cell in code_cells(notebook):
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            said = re.sub(r"<Figure[^>]*>", "", "".join(words(output) for output in cell.outputs))
            assert said.strip(), f"print what the figure shows, in the same cell:\n{cell.source}"


def test_nothing_in_it_is_of_one_machine(notebook):
    texts = [cell.source for cell in notebook.cells] + [words(item) for item in outputs(notebook)]

    assert [found for text in texts for found in OF_ONE_MACHINE.findall(text)] == []


def test_it_never_waits_for_the_keyboard(notebook):
    asking = re.compile(r"(?<![\w.])input\(")

    assert [cell.source for cell in code_cells(notebook) if asking.search(cell.source)] == []


def test_no_cell_hides_its_value_with_a_semicolon(notebook):
    assert [c.source for c in code_cells(notebook) if c.source.rstrip().endswith(";")] == []
