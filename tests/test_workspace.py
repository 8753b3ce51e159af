"""The learner's copy of the course: what they changed is never written over."""

from __future__ import annotations

import pytest

from memlab.classroom.workspace import copy_course, course_folder, start_lab
from memlab.cli import main
from memlab.errors import InvalidInput, MemlabError


@pytest.fixture
def course(tmp_path):
    source = tmp_path / "source"
    (source / "notebooks").mkdir(parents=True)
    (source / "data").mkdir()
    (source / "notebooks" / "a.ipynb").write_text("first", encoding="utf-8")
    (source / "data" / "d.jsonl").write_text("{}", encoding="utf-8")
    return source


def test_the_course_is_copied(course, tmp_path):
    copied = copy_course(tmp_path / "mine", course)

    assert copied.new == ("data/d.jsonl", "notebooks/a.ipynb")
    assert (tmp_path / "mine" / "notebooks" / "a.ipynb").read_text(encoding="utf-8") == "first"


def test_a_changed_notebook_is_left_alone_and_named(course, tmp_path):
    copy_course(tmp_path / "mine", course)
    mine = tmp_path / "mine" / "notebooks" / "a.ipynb"
    mine.write_text("my own work", encoding="utf-8")
    (course / "notebooks" / "a.ipynb").write_text("second", encoding="utf-8")

    for _ in range(2):
        copied = copy_course(tmp_path / "mine", course)
        assert copied.kept == ("notebooks/a.ipynb",)
        assert "notebooks/a.ipynb" in copied.summary()
    assert mine.read_text(encoding="utf-8") == "my own work"


def test_an_unchanged_notebook_is_brought_up_to_date(course, tmp_path):
    copy_course(tmp_path / "mine", course)
    (course / "notebooks" / "a.ipynb").write_text("second", encoding="utf-8")

    assert copy_course(tmp_path / "mine", course).updated == ("notebooks/a.ipynb",)
    assert copy_course(tmp_path / "mine", course).updated == ()


def test_a_list_of_copies_that_is_damaged_costs_no_work(course, tmp_path):
    copy_course(tmp_path / "mine", course)
    (tmp_path / "mine" / ".memlab-copied.json").write_text("[", encoding="utf-8")
    mine = tmp_path / "mine" / "notebooks" / "a.ipynb"
    mine.write_text("my own work", encoding="utf-8")

    assert copy_course(tmp_path / "mine", course).kept == ("notebooks/a.ipynb",)
    assert mine.read_text(encoding="utf-8") == "my own work"


def test_a_file_in_the_place_of_the_folder_is_refused(course, tmp_path):
    (tmp_path / "mine").write_text("a file", encoding="utf-8")

    with pytest.raises(InvalidInput):
        copy_course(tmp_path / "mine", course)


def test_the_real_course_can_be_found_and_copied_by_the_command(tmp_path, capsys):
    assert (course_folder() / "notebooks" / "00_start_here.ipynb").exists()

    assert main(["lab", "--copy-only", "--folder", str(tmp_path / "mine")]) == 0

    assert (tmp_path / "mine" / "notebooks" / "00_start_here.ipynb").exists()


def test_a_missing_jupyterlab_gives_the_line_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(MemlabError, match="pip install"):
        start_lab(tmp_path, [])
