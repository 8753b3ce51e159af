"""What a model may do: whatever it sends, a call is one result, and nothing outside its reach."""

import asyncio
import json
import os
from contextlib import contextmanager

import pytest

from memlab.errors import InvalidInput, NotApproved
from memlab.records import Delete, Limits, Put
from memlab.store import MemoryStore
from memlab.text import canonical
from memlab.tools import (
    CONTENT_CHARS,
    FOLDER,
    PATH_CHARS,
    Result,
    Tool,
    Toolbox,
    confined,
    toolbox,
    write_demo_file,
)

OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.fixture
def box(alice):
    return toolbox(alice.lend(), Limits())


@pytest.fixture
def workspace(tmp_path):
    return tmp_path / "workspace"


def run(box, name, arguments):
    """Run one call as the loop does; a dict is written as JSON first."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return asyncio.run(box.run(name, text))


def only(run_it, parameters=OBJECT):
    tool = Tool("mine", "A tool of the caller.", parameters, run_it)
    return Toolbox({"mine": tool})


def refusal(result):
    assert result.data["ok"] is False
    assert result.applied is None
    return result.data["error"]


# What is offered


def test_five_tools_are_offered_and_a_sixth_with_a_workspace(alice, workspace):
    memory_tools = ["memory_get", "memory_search", "memory_recall", "memory_put", "memory_delete"]

    assert list(toolbox(alice.lend(), Limits()).tools) == memory_tools
    assert list(toolbox(alice.lend(), Limits(), workspace).tools) == [
        *memory_tools,
        "write_demo_file",
    ]


def test_no_tool_offers_a_user_a_session_or_a_confirmation(alice, workspace):
    for tool in toolbox(alice.lend(), Limits(), workspace).descriptions():
        parameters = tool["function"]["parameters"]
        assert parameters["additionalProperties"] is False
        assert set(parameters["properties"]) <= {
            *("kind", "key", "value", "reason", "query", "limit", "path", "content")
        }


def test_the_limits_stand_in_the_schemas(alice):
    limits = Limits(value_chars=7, key_chars=5, query_chars=6, task_chars=9)
    offered = {
        each["function"]["name"]: each["function"]["parameters"]["properties"]
        for each in toolbox(alice.lend(), limits).descriptions()
    }

    assert offered["memory_put"]["value"]["maxLength"] == 7
    assert offered["memory_put"]["key"]["maxLength"] == 5
    assert offered["memory_search"]["query"]["maxLength"] == 6
    assert offered["memory_recall"]["query"]["maxLength"] == 9
    assert offered["memory_search"]["limit"]["maximum"] == 10


def test_who_changes_a_description_changes_no_rule(box):
    (put,) = [t for t in box.descriptions() if t["function"]["name"] == "memory_put"]
    put["function"]["parameters"]["additionalProperties"] = True
    put["function"]["parameters"]["properties"]["user_id"] = {}
    put["function"]["parameters"]["required"].clear()

    assert "user_id" in refusal(run(box, "memory_put", {"user_id": "bob"}))
    assert "user_id" not in canonical(box.descriptions())


def test_two_tools_of_one_name_are_refused(alice):
    clash = Tool("memory_put", "Mine.", OBJECT, print)

    with pytest.raises(InvalidInput, match="same name"):
        toolbox(alice.lend(), Limits(), more=[clash])


@pytest.mark.parametrize(
    ("name", "parameters", "run_it"),
    [
        ("", OBJECT, print),
        ("two words", OBJECT, print),
        ("x" * 65, OBJECT, print),
        ("naïve", OBJECT, print),
        (None, OBJECT, print),
        ("mine", {"type": "string"}, print),
        ("mine", {}, print),
        ("mine", OBJECT, "print"),
    ],
)
def test_a_tool_that_no_provider_would_take_is_refused_when_it_is_made(name, parameters, run_it):
    with pytest.raises(InvalidInput):
        Tool(name, "", parameters, run_it)


# Arguments


MALFORMED = {
    "truncated": '{"kind": "note", "key": "a"',
    "empty": "",
    "blank": "  ",
    "words": "kind=note",
    "null": "null",
    "array": "[]",
    "number": "3",
    "text": '"note"',
    "true": "true",
    "trailing": '{"kind":"note","key":"a"} {}',
    "twice": '{"kind":"note","key":"a","key":"b"}',
    "twice inside": '{"kind":{"x":1,"x":2},"key":"a"}',
    "not a number": '{"kind":"note","key":NaN}',
    "infinite": '{"kind":"note","key":-Infinity}',
    "too large a number": '{"kind":"note","key":1e999}',
    "too many digits": '{"kind":"note","key":' + "9" * 5000 + "}",
    "many keys": canonical({f"k{n}": n for n in range(100_000)}),
    "deep": "[" * 10_000,
    "deep object": '{"a":' * 3_000 + "1" + "}" * 3_000,
    "a level too deep": '{"a":' * 33 + "1" + "}" * 33,
    "no text": None,
    "data": {"kind": "note"},
}


@pytest.mark.parametrize("arguments", MALFORMED.values(), ids=MALFORMED)
def test_malformed_arguments_are_one_short_refusal_and_the_tool_is_not_run(arguments):
    ran = []
    open_tool = only(
        lambda **given: ran.append(given), {"type": "object", "additionalProperties": True}
    )

    result = asyncio.run(open_tool.run("mine", arguments))

    assert "arguments" in refusal(result)
    assert len(result.data["error"]) < 300
    assert ran == []


def test_arguments_may_be_nested_as_deep_as_any_tool_needs():
    given = {"type": "object", "additionalProperties": True}
    deep = '{"a":' * 32 + "1" + "}" * 32

    result = asyncio.run(only(lambda **given: "ran", given).run("mine", deep))

    assert result.data == {"ok": True, "result": "ran"}


GOOD = {"kind": "note", "key": "a", "value": "x"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"user_id": "bob"}, "user_id"),
        ({"user": "bob"}, "user"),
        ({"session": "s2"}, "session"),
        ({"confirmed": True}, "confirmed"),
        ({"approved": True}, "approved"),
        ({"expect": 1}, "expect"),
        ({"\ud800": 1}, "U+D800"),
        ({"x" * 5000: 1}, "x" * 40),
        ({"value": 3}, "value"),
        ({"value": None}, "value"),
        ({"value": ["x"]}, "value"),
        ({"value": ""}, "value"),
        ({"value": "  "}, "value"),
        ({"value": "x" * 513}, "value"),
        ({"value": "a\0b"}, "value"),
        ({"value": "\ud800"}, "value"),
        ({"kind": "secret"}, "kind"),
        ({"kind": True}, "kind"),
        ({"key": "Style"}, "key"),
        ({"key": "a/../b"}, "key"),
        ({"key": "a\n"}, "key"),
        ({"key": "a" * 65}, "key"),
        ({"key": "记忆"}, "key"),
        ({"reason": "x" * 201}, "reason"),
        ({"reason": "a\0b"}, "reason"),
        ({"reason": "\ud800"}, "reason"),
    ],
)
def test_a_field_too_many_or_a_wrong_value_is_refused_by_name(alice, box, change, named):
    result = run(box, "memory_put", {**GOOD, **change})

    assert named in refusal(result)
    assert len(result.data["error"]) < 500
    assert result.data["error"].encode()
    assert alice.list() == []
    assert alice.approvals.pending() == []


@pytest.mark.parametrize("missing", ["kind", "key", "value"])
def test_a_missing_field_is_refused_by_name(alice, box, missing):
    given = {name: value for name, value in GOOD.items() if name != missing}

    assert missing in refusal(run(box, "memory_put", given))
    assert alice.approvals.pending() == []


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("memory_search", {"query": "a\0b"}),
        ("memory_search", {"query": "\ud800"}),
        ("memory_search", {"query": "x" * 129}),
        ("memory_search", {"query": "x", "limit": 0}),
        ("memory_search", {"query": "x", "limit": -1}),
        ("memory_search", {"query": "x", "limit": 11}),
        ("memory_search", {"query": "x", "limit": 10**9}),
        ("memory_search", {"query": "x", "limit": True}),
        ("memory_search", {"query": "x", "limit": 1.5}),
        ("memory_search", {"query": "x", "limit": "5"}),
        ("memory_search", {"query": "x", "kind": None}),
        ("memory_recall", {"query": "x" * 1201}),
        ("memory_recall", {"query": "a\0b"}),
    ],
)
def test_a_query_or_a_limit_out_of_range_is_refused(box, name, query):
    assert refusal(run(box, name, query))


@pytest.mark.parametrize("name", ["nope", "", "memory_put ", "MEMORY_PUT", "\ud800", "x" * 10_000])
def test_an_unknown_tool_is_a_refusal_that_names_the_known_ones(box, name):
    error = refusal(run(box, name, GOOD))

    assert "memory_put" in error
    assert len(error) < 300
    assert error.encode()


# Memory


def test_a_model_reads_what_is_stored_exactly_and_none_is_no_error(alice, box):
    record = alice.put("note", "a", "x")

    found = run(box, "memory_get", {"kind": "note", "key": "a"})
    missing = run(box, "memory_get", {"kind": "note", "key": "b"})

    assert found.data == {"ok": True, "record": record.for_model()}
    assert found.records == (record,)
    assert missing.data == {"ok": True, "record": None}
    assert missing.records == ()


def test_search_is_literal_and_recall_is_ranked(alice, box):
    alice.put("note", "sale", "100% off today")
    alice.put("note", "trap", "1000 off")

    literal = run(box, "memory_search", {"query": "100%"})
    ranked = run(box, "memory_recall", {"query": "what is off today?"})

    assert [each["key"] for each in literal.data["records"]] == ["sale"]
    assert [each["key"] for each in ranked.data["records"]] == ["sale", "trap"]
    assert [record.key for record in literal.records + ranked.records] == ["sale", "sale", "trap"]


def test_a_search_that_finds_nothing_says_so_without_an_error(box):
    for name in ("memory_search", "memory_recall"):
        assert run(box, name, {"query": "zebra"}).data == {"ok": True, "records": []}


def test_reading_writes_nothing(alice, box):
    alice.put("note", "a", "x")
    before = alice.list()

    for name, arguments in (
        ("memory_get", {"kind": "note", "key": "a"}),
        ("memory_search", {"query": "x"}),
        ("memory_recall", {"query": "x"}),
    ):
        run(box, name, arguments)

    assert alice.list() == before
    assert alice.approvals.pending() == []


@pytest.mark.parametrize("name", ["memory_put", "memory_delete"])
def test_a_change_nobody_approved_is_not_made_and_waits(alice, box, name):
    alice.put("note", "a", "old")
    given = {"kind": "note", "key": "a", "reason": "you said so"}
    if name == "memory_put":
        given["value"] = "new"

    result = run(box, name, given)

    (waiting,) = alice.approvals.pending()
    assert "approval" in refusal(result)
    assert (result.data["proposal"], result.data["state"]) == (waiting.id, "pending")
    assert result.proposal == waiting
    assert waiting.reason == "you said so"
    assert alice.get("note", "a").value == "old"


def test_an_approved_change_is_made_once(alice, box):
    alice.approvals.grant(Put("note", "a", "x"))

    done = run(box, "memory_put", GOOD)

    assert done.data == {
        "ok": True,
        "effect": "created",
        "record": alice.get("note", "a").for_model(),
    }
    assert done.applied.effect == "created"
    alice.put("note", "a", "y")
    assert "approval" in refusal(run(box, "memory_put", GOOD))


def test_an_approval_of_one_change_allows_no_other(alice, box):
    alice.put("note", "a", "old")
    alice.approvals.grant(Put("note", "a", "reviewed"))

    for name, given in (
        ("memory_put", {**GOOD, "value": "changed"}),
        ("memory_put", {**GOOD, "key": "b", "value": "reviewed"}),
        ("memory_put", {**GOOD, "kind": "project", "value": "reviewed"}),
        ("memory_delete", {"kind": "note", "key": "a"}),
    ):
        assert "approval" in refusal(run(box, name, given))

    assert alice.get("note", "a").value == "old"
    assert len(alice.list()) == 1


def test_a_rejected_change_stays_rejected_however_often_it_is_asked_for(alice, box):
    asked = run(box, "memory_put", GOOD).data["proposal"]
    alice.approvals.reject(asked, "not that")

    for _ in range(3):
        result = run(box, "memory_put", GOOD)
        assert "rejected" in refusal(result)
        assert "not that" in result.data["error"]
        assert result.data["state"] == "rejected"
    assert alice.list() == []
    assert alice.approvals.pending() == []


def test_asking_twice_is_one_proposal(alice, box):
    ids = {run(box, "memory_put", GOOD).data["proposal"] for _ in range(5)}

    assert ids == {proposal.id for proposal in alice.approvals.pending()}
    assert len(ids) == 1


def test_deleting_what_is_not_there_keeps_the_approval(alice, box):
    alice.approvals.grant(Delete("note", "a"))

    done = run(box, "memory_delete", {"kind": "note", "key": "a"})

    assert done.data == {"ok": True, "effect": "unchanged", "record": None}
    assert len(alice.lend().approved()) == 1


def test_a_full_list_of_proposals_is_a_refusal_and_not_an_exception(tmp_path):
    limits = Limits(pending_proposals=2)
    with MemoryStore.open(tmp_path / "small", create=True, limits=limits) as store:
        box = toolbox(store.for_user("alice", "s1").lend(), limits)
        errors = [refusal(run(box, "memory_put", {**GOOD, "key": f"k{n}"})) for n in range(3)]

    assert "wait for a decision already" in errors[2]


def test_a_tool_serves_the_user_it_was_made_for(store, alice, box):
    bob = store.for_user("bob", session="s1")
    bob.put("note", "secret", "canary")
    bob.approvals.grant(Put("note", "a", "x"))

    for name, arguments in (
        ("memory_get", {"kind": "note", "key": "secret"}),
        ("memory_search", {"query": "canary"}),
        ("memory_recall", {"query": "canary"}),
        ("memory_delete", {"kind": "note", "key": "secret"}),
        ("memory_put", GOOD),
    ):
        told = canonical(run(box, name, arguments).data)
        assert "canary" not in told
        assert "bob" not in told

    assert bob.get("note", "secret").value == "canary"
    assert bob.get("note", "a") is None
    assert alice.list() == []


def test_no_error_that_a_model_is_told_names_a_folder_of_this_machine(store, box, tmp_path):
    store.close()

    told = [
        run(box, "memory_put", GOOD),
        run(box, "memory_get", {"kind": "note", "key": "a"}),
        run(box, "memory_search", {"query": "x"}),
    ]

    for result in told:
        assert refusal(result)
        assert str(tmp_path) not in result.data["error"]
        assert ".sqlite3" not in result.data["error"]


# Tools of the caller


async def later(text):
    await asyncio.sleep(0)
    return text.upper()


class Speaker:
    def speak(self, text):
        return text.upper()


@pytest.mark.parametrize(
    "run_it",
    [
        lambda text: text.upper(),
        lambda text, loud=True: text.upper(),
        lambda loud=True, text="": text.upper(),
        lambda **given: given["text"].upper(),
        lambda given: given["text"].upper(),
        lambda given, /: given["text"].upper(),
        Speaker().speak,
        later,
        lambda text: later(text),
    ],
    ids=[
        "name",
        "default",
        "default first",
        "any name",
        "dict",
        "place",
        "method",
        "async",
        "awaitable",
    ],
)
def test_a_tool_of_the_caller_may_take_names_or_the_dict_and_may_be_async(run_it):
    assert run(only(run_it), "mine", {"text": "hi"}).data == {"ok": True, "result": "HI"}


def test_a_missing_argument_never_puts_the_dict_in_its_place():
    optional = {"type": "object", "properties": {"text": {"type": "string"}}}
    ran = []

    result = run(only(lambda text: ran.append(text), optional), "mine", {})

    assert "TypeError" in refusal(result)
    assert ran == []


def test_a_tool_without_arguments_is_called_without_any():
    assert run(only(lambda: 3, {"type": "object"}), "mine", {}).data["result"] == 3


def test_a_dict_with_ok_is_the_result_itself():
    told = run(only(lambda text: {"ok": False, "error": "closed"}), "mine", {"text": "x"})

    assert told.data == {"ok": False, "error": "closed"}


@pytest.mark.parametrize("given", [None, 0, "", [], {"a": [1, None]}, {"记忆": "👍"}], ids=repr)
def test_what_a_tool_returns_is_the_result_even_where_it_is_nothing(given):
    assert run(only(lambda text: given), "mine", {"text": "x"}).data == {
        "ok": True,
        "result": given,
    }


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "given",
    [
        object(),
        {1, 2},
        b"bytes",
        float("nan"),
        float("inf"),
        "\ud800",
        10**5000,
        {("a", "b"): 1},
        {1: "a", "b": 2},
        nested(100_000),
        {"ok": True, "value": object()},
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_is_no_json_is_a_refusal(given):
    assert "no JSON" in refusal(run(only(lambda text: given), "mine", {"text": "x"}))


@pytest.mark.parametrize(
    "error",
    [
        OSError(2, "No such file", "/srv/alice/secret.txt"),
        ValueError("/srv/alice/secret.txt"),
        KeyError("/srv/alice/secret.txt"),
        StopIteration("/srv/alice/secret.txt"),
        RecursionError("/srv/alice/secret.txt"),
        TimeoutError("/srv/alice/secret.txt"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_tool_that_raises_is_a_refusal_that_tells_only_the_kind(error):
    def fail(text):
        raise error

    async def fail_later(text):
        await asyncio.sleep(0)
        raise error

    told = refusal(run(only(fail), "mine", {"text": "x"}))
    assert type(error).__name__ in told
    assert "alice" not in told
    assert "alice" not in refusal(run(only(fail_later), "mine", {"text": "x"}))


def test_a_tool_may_refuse_in_the_words_of_the_library():
    def refuse(text):
        raise InvalidInput("text", "must be kinder.")

    def ask(text):
        raise NotApproved("Nobody said yes.", "no proposal of ours")

    assert refusal(run(only(refuse), "mine", {"text": "x"})) == "text: must be kinder."
    assert refusal(run(only(ask), "mine", {"text": "x"})) == "Nobody said yes."


@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError])
def test_who_stops_the_program_stops_it(error):
    async def stopped():
        def stop(text):
            raise error

        with pytest.raises(error):
            await only(stop).run("mine", '{"text":"x"}')

    asyncio.run(stopped())


def test_what_a_tool_keeps_is_not_what_the_model_is_told():
    kept = {"ok": True, "list": [1]}

    told = run(only(lambda text: kept), "mine", {"text": "x"})
    kept["list"].append(2)

    assert told.data == {"ok": True, "list": [1]}


def test_a_schema_without_a_word_on_it_allows_no_other_fields():
    ran = []

    told = run(only(lambda **given: ran.append(given)), "mine", {"text": "x", "user_id": "bob"})

    assert "user_id" in refusal(told)
    assert ran == []


def test_a_wrong_field_deep_inside_is_named_by_where_it_stands():
    inner = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    parameters = {"type": "object", "properties": {"text": inner, "b": {"type": "integer"}}}

    assert "'b'" in refusal(run(only(print, parameters), "mine", {"text": {"b": 1}}))
    assert "b must match type" in refusal(run(only(print, parameters), "mine", {"b": "x"}))


def test_a_result_made_by_a_tool_of_ours_is_passed_on():
    made = Result({"ok": True})

    assert run(only(lambda text: made), "mine", {"text": "x"}) is made


# Files


def everything_under(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize("path", ["app.py", "a/b/c.txt", "记忆.md", ".env", "a b.txt"])
def test_a_file_is_written_below_the_demo_folder(workspace, path):
    assert write_demo_file(workspace, path, "hello\n") == path
    assert (workspace / FOLDER / path).read_bytes() == b"hello\n"


def test_a_file_is_replaced_whole_and_nothing_else_is_left_beside_it(workspace):
    write_demo_file(workspace, "a/app.py", "long " * 100)
    write_demo_file(workspace, "a/app.py", "short")

    assert (workspace / FOLDER / "a" / "app.py").read_text() == "short"
    assert everything_under(workspace) == [FOLDER, f"{FOLDER}/a", f"{FOLDER}/a/app.py"]


@pytest.mark.parametrize("content", ["", "a\r\nb\nc", "e\u0301", "👨‍👩‍👧", "x" * CONTENT_CHARS])
def test_a_text_is_written_exactly_as_it_was_given(workspace, content):
    write_demo_file(workspace, "a.txt", content)

    assert (workspace / FOLDER / "a.txt").read_bytes() == content.encode()


ELSEWHERE = [
    *("", " ", ".", "..", "./a", "a/.", "a/..", "../x", "a/../x", "a/../../x", "../../etc/passwd"),
    *("/abs", "//host/share", "/", "a//b", "a/", "~/x/", "a/./b", "....//x"),
    *("C:x", "C:/x", "C:\\x", "\\x", "a\\..\\x", "..\\x", "\\\\host\\share", "\\\\?\\C:\\x"),
    *("a:stream", "a.txt::$DATA", "a*", "a?", 'a"', "a<b", "a>b", "a|b"),
    *("con", "CON", "nul.txt", "NUL .txt", "aux", "prn.py", "com1", "LPT9.log", "COM¹", "a/nul/b"),
    *("CONIN$", "conout$.txt"),
    *("a.", "a ", " a", "a./b", "a /b", "...", "a\0b", "a\nb", "a\tb", "\ud800", "a\u202eb"),
    *("a\u200bb", "x" * (PATH_CHARS + 1), "/".join("a" * 65)),
    *(None, 3, b"a", ["a"]),
]


@pytest.mark.parametrize("path", ELSEWHERE, ids=ascii)
def test_a_path_that_could_lead_elsewhere_is_refused_and_leaves_nothing(tmp_path, workspace, path):
    with pytest.raises(InvalidInput) as refused:
        write_demo_file(workspace, path, "x")

    assert refused.value.field == "path"
    assert str(tmp_path) not in str(refused.value)
    assert everything_under(tmp_path) == []


def test_the_longest_path_is_allowed():
    assert confined("x" * PATH_CHARS) == ["x" * PATH_CHARS]


def test_a_path_is_the_same_however_its_letters_are_composed():
    assert confined("e\u0301.txt") == confined("é.txt")


@pytest.mark.parametrize("content", ["\ud800", "a\0b", "x" * (CONTENT_CHARS + 1), None, b"x"])
def test_a_text_that_cannot_be_written_leaves_nothing_behind(tmp_path, workspace, content):
    with pytest.raises(InvalidInput) as refused:
        write_demo_file(workspace, "a/b.txt", content)

    assert refused.value.field == "content"
    assert everything_under(tmp_path) == []


def link(target, name):
    """Make a symbolic link, where this machine lets us."""
    name.parent.mkdir(parents=True, exist_ok=True)
    try:
        name.symlink_to(target, target_is_directory=target.is_dir())
    except (OSError, NotImplementedError):
        pytest.skip("this machine makes no symbolic links for us")


@pytest.mark.parametrize("place", [FOLDER, f"{FOLDER}/a", f"{FOLDER}/a/b", f"{FOLDER}/a/b/c.txt"])
@pytest.mark.parametrize("kind", ["outside", "inside", "nowhere"])
def test_a_link_on_the_way_is_refused_wherever_it_leads(tmp_path, workspace, place, kind):
    outside, inside = tmp_path / "outside", workspace / FOLDER / "real"
    outside.mkdir()
    if kind == "inside" and place != FOLDER:
        inside.mkdir(parents=True)
    target = {"outside": outside, "inside": inside, "nowhere": tmp_path / "none"}[kind]
    link(target, workspace / place)
    before = everything_under(tmp_path)

    with pytest.raises(InvalidInput) as refused:
        write_demo_file(workspace, "a/b/c.txt", "x")

    assert str(tmp_path) not in str(refused.value)
    assert everything_under(tmp_path) == before


def test_a_linked_file_is_never_written_through(tmp_path, workspace):
    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    link(secret, workspace / FOLDER / "soft.txt")
    os.link(secret, workspace / FOLDER / "hard.txt")

    for name in ("soft.txt", "hard.txt"):
        with pytest.raises(InvalidInput, match="link"):
            write_demo_file(workspace, name, "x")

    assert secret.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_device_is_not_replaced(workspace):
    (workspace / FOLDER).mkdir(parents=True)
    os.mkfifo(workspace / FOLDER / "pipe")

    with pytest.raises(InvalidInput, match="device"):
        write_demo_file(workspace, "pipe", "x")


def test_a_folder_is_not_replaced_by_a_file_nor_a_file_by_a_folder(workspace):
    write_demo_file(workspace, "a/b.txt", "kept")

    with pytest.raises(InvalidInput, match="folder"):
        write_demo_file(workspace, "a", "x")
    with pytest.raises(InvalidInput):
        write_demo_file(workspace, "a/b.txt/c.txt", "x")

    assert (workspace / FOLDER / "a" / "b.txt").read_text() == "kept"
    assert everything_under(workspace) == [FOLDER, f"{FOLDER}/a", f"{FOLDER}/a/b.txt"]


def test_a_file_in_the_place_of_the_workspace_is_a_clear_refusal(tmp_path):
    (tmp_path / "workspace").write_text("a file")

    with pytest.raises(InvalidInput) as refused:
        write_demo_file(tmp_path / "workspace", "a.txt", "x")

    assert str(tmp_path) not in str(refused.value)


def test_a_name_that_the_disk_refuses_leaves_no_folder_behind(workspace):
    name = "记" * 120  # 120 characters, 360 bytes: more than most disks allow for one name
    try:
        write_demo_file(workspace, f"a/b/{name}", "x")
        expected = [FOLDER, f"{FOLDER}/a", f"{FOLDER}/a/b", f"{FOLDER}/a/b/{name}"]
    except InvalidInput:
        expected = []

    assert everything_under(workspace) == expected


@contextmanager
def nearly_full_disk():
    """Let no file grow beyond 100 bytes in here; Python turns the signal for it into an error."""
    resource = pytest.importorskip("resource", reason="this system limits no file sizes")
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def test_a_full_disk_leaves_the_old_file_and_nothing_new(workspace):
    write_demo_file(workspace, "a.txt", "old")

    with nearly_full_disk():
        for path in ("a.txt", "b/c.txt"):
            with pytest.raises(InvalidInput, match="cannot be written") as refused:
                write_demo_file(workspace, path, "new" * 100)
            assert str(workspace) not in str(refused.value)

    assert everything_under(workspace) == [FOLDER, f"{FOLDER}/a.txt"]
    assert (workspace / FOLDER / "a.txt").read_text() == "old"


@pytest.mark.parametrize("place", ["", "state", "a/state"])
def test_the_folder_of_the_store_is_out_of_reach(workspace, place):
    folder = workspace / FOLDER / place
    with MemoryStore.open(folder, create=True) as store:
        alice = store.for_user("alice", session="s1")
        alice.put("note", "a", "kept")
        box = toolbox(alice.lend(), Limits(), workspace, folder)
        before = everything_under(workspace)
        for name in ("memory.sqlite3", "memory.sqlite3-wal", "new.txt", "deeper/new.txt"):
            path = f"{place}/{name}" if place else name
            told = refusal(run(box, "write_demo_file", {"path": path, "content": "x"}))
            assert "store" in told

        assert everything_under(workspace) == before
        assert alice.get("note", "a").value == "kept"


def test_the_folder_of_the_store_is_out_of_reach_by_another_spelling_too(tmp_path):
    real = tmp_path / "real"
    (real / FOLDER / "state").mkdir(parents=True)
    link(real, tmp_path / "alias")
    store_folder = tmp_path / "alias" / FOLDER / "state"

    with pytest.raises(InvalidInput, match="store"):
        write_demo_file(real, "state/memory.sqlite3", "x", store_folder)

    assert everything_under(real / FOLDER) == ["state"]


@pytest.mark.parametrize("place", [".", "state"])
def test_a_store_beside_the_demo_folder_is_in_nobodys_way(workspace, place):
    with MemoryStore.open(workspace / place, create=True) as store:
        box = toolbox(store.for_user("alice", "s1").lend(), Limits(), workspace, workspace / place)

        told = run(box, "write_demo_file", {"path": "app.py", "content": "x"})

    assert told.data == {"ok": True, "path": "app.py"}


def test_a_refused_path_is_told_to_a_model_without_a_folder_of_this_machine(alice, workspace):
    box = toolbox(alice.lend(), Limits(), workspace)

    for path in ELSEWHERE:
        if isinstance(path, str):
            error = refusal(run(box, "write_demo_file", {"path": path, "content": "x"}))
            assert str(workspace) not in error
            assert len(error) < 300
            assert error.encode()
