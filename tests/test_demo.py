"""The demo is what a newcomer runs first: it must hold, say what it proves, and leave nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from memlab import demo as module
from memlab.demo import DECOY, FACT, WISH, demo, phase
from memlab.store import MemoryStore


def test_the_demo_holds_and_leaves_nothing_behind(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path), "TEMP": str(tmp_path), "TMP": str(tmp_path)}
    home = tmp_path / "home"
    home.mkdir()
    env |= {"HOME": str(home), "USERPROFILE": str(home)}

    done = subprocess.run(
        [sys.executable, "-m", "memlab", "demo"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = [line for line in done.stdout.splitlines() if line.startswith("Holds.")]
    assert len(lines) == 8
    assert "DOES NOT HOLD" not in done.stdout
    assert list(tmp_path.rglob("*")) == [home]


@pytest.mark.parametrize("leak", [DECOY, FACT.value])
def test_the_demo_notices_a_request_that_holds_the_decoy(monkeypatch, capsys, leak):
    real = module._child

    def leaking(name, workspace):
        phase = real(name, workspace)
        return {**phase, "requests": [*phase["requests"], f"leaked: {leak}"]}

    monkeypatch.setattr(module, "_child", leaking)

    assert demo() is (leak != DECOY)
    assert ("DOES NOT HOLD" in capsys.readouterr().out) is (leak == DECOY)


def test_the_second_phase_knows_nothing_where_nothing_was_stored(tmp_path):
    with MemoryStore.open(tmp_path / "state", create=True):
        pass

    told = asyncio.run(phase("second", tmp_path))

    assert WISH.value not in told["text"]
    assert FACT.value not in told["text"]
