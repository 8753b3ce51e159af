"""The learner's own copy of the course: made once, brought up to date, never written over."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlab.errors import InvalidInput, MemlabError

_LIST = ".memlab-copied.json"  # what we copied, so that a file the learner changed is known


@dataclass(frozen=True, slots=True)
class Copied:
    """What copying did, by name of file, in order."""

    folder: str
    new: tuple[str, ...]
    updated: tuple[str, ...]
    kept: tuple[str, ...]  # changed by the learner, so left alone

    def summary(self) -> str:
        text = f"The course is in {self.folder}: {len(self.new)} new, {len(self.updated)} updated."
        if self.kept:
            text += f" Left alone, for you have changed them: {', '.join(self.kept)}."
        return text

    def to_dict(self) -> dict[str, Any]:
        return {"new": self.new, "updated": self.updated, "kept": self.kept}


def course_folder() -> Path:
    """Return the folder that holds `notebooks` and `data`: of the wheel, or of the checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "_course", package.parent):
        if (folder / "notebooks").is_dir():
            return folder
    raise MemlabError("This installation has no notebooks. Install memlab from a wheel or a clone.")


def copy_course(folder: Path, source: Path | None = None) -> Copied:
    """Copy the course to `folder`; a file that the learner changed is never written over."""
    source = source or course_folder()
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InvalidInput("folder", "must be a real folder, or a name that is free.")
    new, updated, kept = [], [], []
    copied = _read_list(folder)
    try:
        for file in _files(source):
            name = file.relative_to(source).as_posix()
            target, digest = folder.joinpath(*name.split("/")), _digest(file)
            there = _digest(target) if target.exists() else None
            if there == digest:
                pass
            elif there is None:
                new.append(name)
            elif there == copied.get(name):
                updated.append(name)
            else:
                kept.append(name)
                continue
            if there != digest:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
            copied[name] = digest
        text = json.dumps(copied, indent=1, sort_keys=True)
        (folder / _LIST).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InvalidInput(
            "folder", f"cannot be written ({error.strerror}). Choose another."
        ) from None
    return Copied(str(folder), tuple(new), tuple(updated), tuple(kept))


def start_lab(folder: Path, arguments: Sequence[str]) -> int:
    """Start JupyterLab in `folder` with these arguments, and wait until it ends."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise MemlabError('JupyterLab is not installed. Run: pip install "memlab[lab]"')
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.resolve()}"]
    try:
        return subprocess.call([*command, *arguments])
    except KeyboardInterrupt:
        return 0  # how one ends JupyterLab


def _files(source: Path) -> list[Path]:
    found = [*(source / "notebooks").rglob("*.ipynb"), *(source / "data").rglob("*")]
    return sorted(f for f in found if f.is_file() and ".ipynb_checkpoints" not in f.parts)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read_list(folder: Path) -> dict[str, str]:
    try:
        read = json.loads((folder / _LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # then every file that differs counts as changed, and is left alone
    return {str(k): str(v) for k, v in read.items()} if isinstance(read, dict) else {}
