"""A real JupyterLab and a real Chromium, for what only a browser can tell.

    pytest tests/browser

Chromium is looked for on the path, or named by MEMLAB_CHROMIUM. Without one the tests are skipped,
with MEMLAB_REQUIRE_BROWSER=1 they fail. Screenshots go to a folder that pytest keeps for a while,
or to the one named by MEMLAB_SHOTS.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

import memlab

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = os.environ.get("MEMLAB_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
REQUIRED = os.environ.get("MEMLAB_REQUIRE_BROWSER") == "1"
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
]
START_S = 60


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, its notebooks, and where its kernels put their files."""

    url: str
    token: str
    root: Path
    temporary: Path

    def call(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            body = response.read()
        return json.loads(body) if body else None

    def end_kernels(self) -> None:
        for session in self.call("/api/sessions"):
            self.call(f"/api/sessions/{session['id']}", "DELETE")

    def write(self, name: str, *cells: str) -> str:
        """Put a notebook of these code cells into the Lab; return its name."""
        notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
        notebook.metadata.kernelspec = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(notebook, self.root / name)
        return name

    def copy(self, path: Path) -> str:
        """Put a notebook into the Lab as if it had never been run; return its name."""
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, self.root / path.name)
        return path.name


@pytest.fixture(scope="session")
def lab(tmp_path_factory, chromium):
    """Start JupyterLab on a free port of this machine, with folders of its own."""
    base = tmp_path_factory.mktemp("lab")
    folders = {
        name: base / name.lower()
        for name in (
            *("IPYTHONDIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"),
            *("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"),
            *("TEMP", "TMP", "root"),
        )
    }
    folders["TEMP"] = folders["TMP"] = folders["TMPDIR"]
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    root = folders.pop("root")
    _write_settings(folders["JUPYTERLAB_SETTINGS_DIR"])
    home = str(Path(memlab.__file__).parent.parent)
    environment = {**os.environ, **{name: str(path) for name, path in folders.items()}}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [home, environment.get("PYTHONPATH")]))
    token = secrets.token_hex(16)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
        *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}"),
        "--LabApp.expose_app_in_browser=True",  # so that we can ask for the kernel's state
    ]
    log = base / "server.log"
    with log.open("w", encoding="utf-8") as out:
        server = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        running = Lab(f"http://127.0.0.1:{port}", token, root, folders["TMPDIR"])
        _wait_for(running, server, log)
        yield running
        running.end_kernels()
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(15)


def _write_settings(folder: Path) -> None:
    """Keep the Lab from looking for news in the network, and from pop-ups."""
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    path = folder / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(quiet), encoding="utf-8")


def _wait_for(running: Lab, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            running.call("/api/status")
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                last = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise RuntimeError(f"JupyterLab did not start:\n{last}") from None
            time.sleep(0.1)


@pytest.fixture(scope="session")
def chromium():
    if CHROMIUM is None:
        missing = "no Chromium on the path; name one with MEMLAB_CHROMIUM"
        pytest.fail(missing) if REQUIRED else pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, lab):
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    yield context.new_page()
    context.close()
    lab.end_kernels()


@pytest.fixture(scope="session")
def shots(tmp_path_factory):
    """The folder for screenshots."""
    named = os.environ.get("MEMLAB_SHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
