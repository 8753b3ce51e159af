"""The command line: JSON out, messages on standard error, exit codes, and no traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from memlab.cli import build_parser, main


@pytest.fixture
def memlab(tmp_path, capsys, monkeypatch):
    """Return `run(*arguments)`: exit code, standard output and standard error of one command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def run(command, *arguments, user="alice", session="s1", workspace="w"):
        scope = ["--workspace", workspace, "--user", user, "--session", session]
        code = main([command, *arguments, *scope])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return run


def test_what_is_put_can_be_read_again(memlab):
    assert memlab("put", "preference", "tea", "绿茶，不加糖", "--confirm")[0] == 0

    code, out, _ = memlab("get", "preference", "tea", session="s2")

    assert code == 0
    assert json.loads(out)["record"]["value"] == "绿茶，不加糖"
    assert "绿茶" in out  # readable, not escaped


def test_nothing_is_written_without_confirm(memlab, tmp_path):
    for command in (
        ("put", "note", "a", "x"),
        ("delete", "note", "a"),
        ("import", "file"),
        ("approve", "p1"),
        ("reject", "p1"),
    ):
        if command[0] == "import":
            (tmp_path / "file").write_text("", encoding="utf-8")
        code, out, err = memlab(*command)

        assert (code, out) == (2, "")
        assert "--confirm" in err
    assert not (tmp_path / "w").exists()


def test_reading_makes_no_store(memlab, tmp_path):
    for command in (
        *(
            ("get", "note", "a"),
            ("search", "a"),
            ("recall", "a"),
            ("list",),
            ("history", "note", "a"),
        ),
        *(("export",), ("verify",), ("stats",), ("approve",), ("forget",)),
        ("delete", "note", "a", "--confirm"),
    ):
        code, out, err = memlab(*command)

        assert (code, out) == (2, "")
        assert "no memory store" in err
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("put", "wish", "a", "x", "--confirm"),
        ("put", "note", "Upper", "x", "--confirm"),
        ("put", "note", "k" * 65, "x", "--confirm"),
        ("put", "note", "a", "x" * 513, "--confirm"),
        ("put", "note", "a", " \t", "--confirm"),
        ("put", "note", "a", "half \ud800 pair", "--confirm"),
        ("put", "note", "a", "nul \0", "--confirm"),
        ("search", "a", "--limit", "0"),
        ("search", "a", "--limit", "-1"),
        ("search", "a", "--limit", "1.5"),
        ("search", "q" * 129),
        ("chat", "--task", " "),
        ("chat", "--task", "x" * 1201),
        ("chat", "--task", "hello", "--approve", "note", "Bad Key", "x"),
        ("forget", "--idle-days", "nan", "--confirm"),
        ("forget", "--idle-days", "-1", "--confirm"),
        ("get", "note", "a", "--frob"),
        ("frob",),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(memlab, arguments):
    memlab("put", "note", "a", "kept", "--confirm")

    code, out, err = memlab(*arguments)

    assert (code, out) == (2, "")
    assert err.strip()
    assert json.loads(memlab("list")[1])["records"][0]["value"] == "kept"


@pytest.mark.parametrize("name", ["", "a b", "../bob", "-x", "é", "a\n", "x" * 65])
def test_a_bad_user_or_session_name_is_refused(memlab, name):
    for scope in ({"user": name}, {"session": name}):
        assert memlab("put", "note", "a", "x", "--confirm", **scope)[0] == 2


def test_one_user_does_not_see_another(memlab):
    memlab("put", "note", "a", "the canary sings", "--confirm", user="bob")

    for command in (
        *(("get", "note", "a"), ("search", "canary"), ("recall", "canary"), ("list",)),
        *(("history", "note", "a"), ("export",), ("stats",), ("approve",), ("forget",)),
        ("chat", "--task", "What sings?"),
    ):
        _, out, err = memlab(*command)
        assert "canary" not in out + err


def test_chat_asks_before_it_writes_and_approve_writes_once(memlab):
    code, out, _ = memlab("chat", "--task", "Please keep in mind that my bike is a blue Gazelle.")
    answer = json.loads(out)

    assert code == 1  # not completed: it waits
    assert answer["writes"] == []
    assert "stand-in" in answer["model"]
    [waiting] = answer["waiting"]
    assert json.loads(memlab("list")[1])["records"] == []

    assert memlab("approve", waiting["id"], "--confirm")[0] == 0
    assert memlab("approve", waiting["id"], "--confirm")[0] == 2

    code, out, _ = memlab("chat", "--task", "What colour is my bike?", session="s2")
    assert code == 0
    assert "blue Gazelle" in json.loads(out)["text"]


def test_approvals_given_before_are_used_and_all_are_saved(memlab):
    wanted = [("preference", f"p.{n}", f"wish {n}") for n in range(5)]
    wanted += [("episode", f"e.{n}", f"it happened, {n}") for n in range(5)]
    flags = [part for each in wanted for part in ("--approve", *each)]

    code, out, err = memlab("chat", "--task", "Please save what we agreed on.", *flags)

    assert (code, len(json.loads(out)["writes"])) == (0, 10), err
    records = json.loads(memlab("list")[1])["records"]
    assert {(r["kind"], r["key"], r["value"]) for r in records} == set(wanted)


def test_an_approval_of_the_command_line_ends_with_the_command(memlab):
    memlab("put", "note", "a", "x", "--confirm")

    code, _, err = memlab("chat", "--task", "Hello.", "--approve", "note", "a", "x")

    assert code == 1  # it would change nothing, so it was not used
    assert "taken back" in err
    assert json.loads(memlab("approve")[1])["pending"] == []


def test_a_deletion_can_be_approved_before(memlab):
    memlab("put", "note", "a", "x", "--confirm")

    code, out, _ = memlab("chat", "--task", "Go ahead.", "--approve-delete", "note", "a")

    assert (code, json.loads(out)["writes"][0]["effect"]) == (0, "deleted")
    assert json.loads(memlab("get", "note", "a")[1]) == {"record": None}


def test_a_terminal_is_asked_and_silence_leaves_it_pending(memlab, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    task = ("chat", "--task", "Remember that the shed key hangs behind the door.")
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    code, out, err = memlab(*task)
    assert (code, len(json.loads(out)["waiting"])) == (1, 1)
    assert "Once, for alice" in err
    assert "shed key" in err

    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    code, out, _ = memlab(*task)
    assert (code, list(json.loads(out)["decided"].values())) == (0, ["created"])


def test_lines_of_input_are_tasks(memlab, monkeypatch):
    memlab("put", "note", "boat", "The boat is called Petrel.", "--confirm")
    monkeypatch.setattr("sys.stdin", io.StringIO("What is the boat called?\n\nAnd the boat?\n"))

    code, out, _ = memlab("chat")

    assert code == 0
    assert out.count('"status": "complete"') == 2
    assert "Petrel" in out


def test_live_without_a_key_is_refused_and_never_a_stand_in(memlab):
    code, out, err = memlab("chat", "--live", "--task", "hello")

    assert (code, out) == (2, "")
    assert "OPENAI_" in err


def test_an_export_can_be_imported_and_exported_again(memlab, tmp_path):
    memlab("put", "note", "b", 'quotes " and \\ and 汉字', "--confirm")
    memlab("put", "preference", "a", "x", "--confirm")
    _, exported, _ = memlab("export")
    (tmp_path / "lines").write_text(exported, encoding="utf-8", newline="\n")

    assert memlab("import", "lines", "--confirm", workspace="other")[0] == 0

    assert memlab("export", workspace="other")[1] == exported


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b"[]\n", b'{"version":1,"kind":"note","key":"a"}', b'{"version":9}']
)
def test_a_bad_import_stores_nothing(memlab, tmp_path, content):
    good = b'{"version":1,"kind":"note","key":"ok","value":"fine"}\n'
    (tmp_path / "lines").write_bytes(good + content)

    assert memlab("import", "lines", "--confirm")[0] == 2
    assert memlab("import", "no such file", "--confirm")[0] == 2

    memlab("put", "note", "z", "z", "--confirm")
    assert len(json.loads(memlab("list")[1])["records"]) == 1


def test_a_damaged_file_is_refused_and_left_alone(memlab, tmp_path):
    (tmp_path / "w" / "state").mkdir(parents=True)
    file = tmp_path / "w" / "state" / "memory.sqlite3"
    file.write_bytes(b"this is no database")

    for command in (("list",), ("put", "note", "a", "x", "--confirm"), ("chat", "--task", "hi")):
        code, _, err = memlab(*command)
        assert code == 2
        assert "damaged" in err
    assert file.read_bytes() == b"this is no database"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_link_below_the_workspace_is_refused(memlab, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "state").symlink_to(tmp_path / "elsewhere", target_is_directory=True)

    assert memlab("put", "note", "a", "x", "--confirm")[0] == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_forget_shows_first_and_deletes_only_what_is_stale(memlab):
    memlab("put", "note", "a", "new", "--confirm")

    code, out, err = memlab("forget")
    assert (code, json.loads(out)["would_forget"]) == (2, [])
    assert "--confirm" in err

    code, out, _ = memlab("forget", "--idle-days", "0", "--confirm")
    assert code == 0
    assert [r["key"] for r in json.loads(out)["forgotten"]] == ["a"]


def test_bytes_that_are_no_text_are_refused_in_a_real_terminal(tmp_path):
    if sys.platform == "win32":
        pytest.skip("arguments are text there")
    command = [sys.executable, "-m", "memlab", "put", "note", "a", b"\xff", "--confirm"]
    scope = ["--workspace", str(tmp_path / "w"), "--user", "alice", "--session", "s1"]

    done = subprocess.run([*command, *scope], capture_output=True, timeout=60)

    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert not (tmp_path / "w").exists()


def test_output_is_utf8_in_any_locale(memlab, tmp_path):
    memlab("put", "note", "a", "汉字", "--confirm")
    env = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    scope = ["--workspace", str(tmp_path / "w"), "--user", "alice", "--session", "s1"]

    done = subprocess.run(
        [sys.executable, "-m", "memlab", "export", *scope], capture_output=True, env=env, timeout=60
    )

    assert "汉字" in done.stdout.decode("utf-8")
    assert b"\r" not in done.stdout


def test_a_reader_that_leaves_early_causes_no_traceback(memlab, tmp_path):
    for n in range(60):
        memlab("put", "note", f"n{n}", "x" * 500, "--confirm")
    scope = ["--workspace", str(tmp_path / "w"), "--user", "alice", "--session", "s1"]
    command = [sys.executable, "-m", "memlab", "export", *scope]

    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.close()
    with child:
        assert b"Traceback" not in child.stderr.read()


@pytest.mark.parametrize(("arguments", "holds", "code"), [([], True, 0), (["demo"], False, 1)])
def test_memlab_alone_is_the_demo_and_its_verdict_is_the_exit_code(
    monkeypatch, arguments, holds, code
):
    monkeypatch.setattr("memlab.demo.demo", lambda: holds)

    assert main(arguments) == code


def test_each_command_explains_itself(capsys):
    commands = build_parser()._subparsers._group_actions[0].choices

    for name in commands:
        assert main([name, "--help"]) == 0
        assert f"usage: memlab {name}" in capsys.readouterr().out


def opener_of_one(tmp_path, monkeypatch, name, text):
    """Write a module with a store of one's own into the folder one stands in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.delitem(sys.modules, name, raising=False)
    return f"{name}:open_store"


def test_the_audit_of_a_broken_store_is_a_page_and_exit_code_1(tmp_path, monkeypatch, capsys):
    text = "print('hello')\ndef open_store(folder, **options):\n    raise OSError('no disk')\n"
    store = opener_of_one(tmp_path, monkeypatch, "audited_broken", text)
    path = list(sys.path)

    assert main(["audit", "--store", store]) == 1

    printed = capsys.readouterr()
    page = printed.out.splitlines()
    assert page[0] == f"Audit of {store}"
    assert page[-1].endswith("BROKEN.")
    assert len(page) <= 60
    assert "hello" in printed.err  # what the store prints is no part of the page
    assert "Traceback" not in printed.err
    assert sys.path == path


def test_the_audit_as_json_has_every_finding_and_the_code_follows_it(tmp_path, monkeypatch, capsys):
    text = "from memlab import MemoryStore\nopen_store = MemoryStore.open\n"
    store = opener_of_one(tmp_path, monkeypatch, "audited_sound", text)
    before = sorted(path.name for path in tmp_path.iterdir())

    code = main(["audit", "--store", store, "--json"])

    read = json.loads(capsys.readouterr().out)
    found = {kit["title"]: kit for kit in read["kits"]}
    assert len(found) == 3
    assert sum(kit["tried"] for kit in found.values()) > 100
    assert found["attacks"]["held"] == found["attacks"]["tried"]
    assert code == (0 if read["holds"] else 1)
    after = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
    assert after == before  # everything happened in temporary folders


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "package.module:opener"),
        ("no_such_module_here:open", "cannot be imported"),
        ("memlab:nothing", "nothing to call"),
        ("audited_falls:open_store", "ValueError"),
        ("audited_leaves:open_store", "SystemExit"),
    ],
)
def test_an_audit_of_what_is_no_opener_is_refused(tmp_path, monkeypatch, capsys, name, says):
    opener_of_one(tmp_path, monkeypatch, "audited_falls", "raise ValueError('half done')\n")
    opener_of_one(tmp_path, monkeypatch, "audited_leaves", "import sys\nsys.exit(0)\n")

    assert main(["audit", "--store", name]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
    assert "Traceback" not in printed.err
