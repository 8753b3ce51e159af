"""What is shipped, what is pinned, what an import costs, and what must stand in no file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import memlab

CLONE = Path(__file__).parent.parent
PROJECT = tomllib.loads((CLONE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINTS = (CLONE / ".ci" / "constraints.txt").read_text(encoding="utf-8")
TOP_LEVEL = {"pyproject.toml", "README.md", "LICENSE", "notebooks", "memlab", "tests", "data"}
ON_USE = {"IPython", "ipywidgets", "jsonschema", "matplotlib", "numpy", "openai", "pandas"}

# Written in pieces, or this file would find itself.
HOSTS = re.compile(r"py" r"pi\.org|python" r"hosted\.org|npm" r"js\.org|deb\.deb" r"ian\.org")
PLACES = re.compile(r"(?<![\w.~/-])/(?:work|root|home|opt)/" r"[a-z]")


def files() -> list[Path]:
    """Every file of the clone that is or would be committed."""
    if not (CLONE / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git clone")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=CLONE, capture_output=True, check=True).stdout
    paths = (CLONE / name for name in listed.decode().split("\0") if name)
    return sorted({path for path in paths if path.is_file()})


def pinned() -> dict[str, str]:
    """The version that the constraints name for this Python on this machine, by package."""
    lines = [Requirement(line) for line in CONSTRAINTS.splitlines()]
    here = [line for line in lines if line.marker is None or line.marker.evaluate()]
    return {canonicalize_name(line.name): str(line.specifier).removeprefix("==") for line in here}


def needed(*wanted: str) -> set[str]:
    """Every package that these requirements bring in here, memlab itself left out."""
    queue, seen = [Requirement(text) for text in wanted], set()
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                queue += [more for more in requires(name, extra) if applies(more, extra)]
    return {name for name, _ in seen} - {"memlab"}


def requires(name: str, extra: str) -> list[Requirement]:
    if name == "memlab":
        own = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
        return [Requirement(text) for text in own]
    return [Requirement(text) for text in metadata.requires(name) or []]


def applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def test_the_top_level_holds_only_what_it_may():
    names = {path.relative_to(CLONE).parts[0] for path in files()}

    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL


def test_the_package_holds_nothing_but_its_modules():
    files = [path for path in (CLONE / "memlab").rglob("*") if path.is_file()]
    strays = [path.name for path in files if path.suffix not in (".py", ".pyc", ".typed")]

    assert strays == []


def test_no_file_names_a_registry_or_a_folder_of_one_machine():
    texts = {path: path.read_bytes().decode("utf-8", "replace") for path in files()}
    found = {
        path.relative_to(CLONE).as_posix(): match.group()
        for path, text in texts.items()
        if (match := HOSTS.search(text) or PLACES.search(text))
    }

    assert found == {}


@pytest.mark.parametrize("names", ["[]", "set(memlab.__all__) - {'panels', 'views'}"])
def test_neither_memlab_nor_its_core_imports_anything_heavy(names):
    code = f"import sys, memlab; [getattr(memlab, name) for name in {names}]; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60)

    assert ON_USE & set(loaded.split()) == set()


def test_all_is_sorted_and_every_name_in_it_is_there():
    assert list(memlab.__all__) == sorted(set(memlab.__all__))
    assert [name for name in memlab.__all__ if not hasattr(memlab, name)] == []


def test_the_installed_command_is_the_function_main():
    module, _, function = PROJECT["scripts"]["memlab"].partition(":")

    assert callable(getattr(import_module(module), function))


def test_the_extra_all_holds_every_other_extra_but_what_is_only_compared_with():
    extras = PROJECT["optional-dependencies"]

    assert Requirement(*extras["all"]).extras == set(extras) - {"all", "bench"}


def test_the_constraints_are_exact_versions_and_nothing_else():
    name_version_marker = re.compile(r"[a-z0-9.-]+==[\w.]+( ; [\w.'()=<>! ]+)?")

    odd = [line for line in CONSTRAINTS.splitlines() if not name_version_marker.fullmatch(line)]
    assert odd == []


def test_every_package_of_the_extras_is_pinned():
    assert needed("memlab[all]") - set(pinned()) == set()
    others = {Requirement(each).name for each in PROJECT["optional-dependencies"]["bench"]}
    assert others - {"memlab"} <= set(pinned())


def test_what_is_installed_is_what_is_pinned():
    pins = pinned()
    installed = {name: metadata.version(name) for name in needed("memlab[all]")}
    other = {name: version for name, version in installed.items() if version != pins.get(name)}

    assert other == {}, "install with: pip install -c .ci/constraints.txt -e '.[all]'"


def test_notebooks_are_tested_on_the_current_kernel_of_the_constraints():
    assert pinned()["ipykernel"].startswith("7.")
