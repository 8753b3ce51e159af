"""The live model, against a server of our own on loopback."""

import asyncio
import json
import os
import subprocess
import sys
import traceback

import pytest
from openai_server import USAGE, Answer, OpenAIServer, calls, completion, failure, text

from memlab import MemoryAgent, Put
from memlab.errors import InvalidInput, ModelError
from memlab.models import LiveModel
from memlab.text import canonical

KEY = "sk-secret-0123456789"
MESSAGES = [
    {"role": "system", "content": "rules"},
    {"role": "user", "content": '{"task": "你好 – hello"}'},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "memory_get",
            "description": "Read one memory.",
            "parameters": {
                "type": "object",
                "properties": {"key": {"type": "string"}},
                "additionalProperties": False,
            },
        },
    }
]


def live(server, **options):
    options = {"max_retries": 0} | options
    return LiveModel("test-model", api_key=KEY, base_url=server.url, **options)


def ask(server, messages=MESSAGES, tools=TOOLS, **options):
    async def once():
        async with live(server, **options) as model:
            return await model.complete(messages, tools)

    return asyncio.run(once())


def failed(server, **options):
    """Ask, expect a failure, and make sure that nothing of it shows the key."""
    with pytest.raises(ModelError) as caught:
        ask(server, **options)
    shown = "".join(traceback.format_exception(caught.value))
    error: BaseException | None = caught.value
    while error:
        shown += str(error) + repr(error)
        error = error.__cause__ or error.__context__
    assert KEY not in shown
    return caught.value


# Replies


def test_a_text_reply_comes_back_as_the_assistant_message():
    with OpenAIServer(text("hello")) as server:
        assert ask(server) == {"role": "assistant", "content": "hello"}


def test_parallel_calls_come_back_in_order_with_their_ids():
    answer = calls(("memory_get", '{"key": "a"}'), ("memory_get", '{"key": "乙"}'))
    with OpenAIServer(answer) as server:
        reply = ask(server)

    assert set(reply) == {"role", "content", "tool_calls"}
    assert reply["content"] is None
    assert [each["id"] for each in reply["tool_calls"]] == ["id_0", "id_1"]
    assert reply["tool_calls"][1] == {
        "id": "id_1",
        "type": "function",
        "function": {"name": "memory_get", "arguments": '{"key": "乙"}'},
    }


def test_calls_that_are_null_are_dropped_with_all_that_we_do_not_know():
    message = {"role": "assistant", "content": "hi", "tool_calls": None, "annotations": [1]}
    with OpenAIServer(completion(message)) as server:
        assert ask(server) == {"role": "assistant", "content": "hi"}


def test_broken_arguments_are_left_for_the_loop_to_refuse():
    with OpenAIServer(calls(("memory_get", '{"key": "a'))) as server:
        reply = ask(server)

    assert reply["tool_calls"][0]["function"]["arguments"] == '{"key": "a'


# What is sent


def test_exactly_the_given_messages_and_tools_arrive():
    with OpenAIServer(text("hello")) as server:
        ask(server)

    (body,) = server.bodies
    assert body == {"model": "test-model", "messages": MESSAGES, "tools": TOOLS}
    sent = {"messages": body["messages"], "tools": body["tools"]}
    assert len(canonical(sent)) == len(canonical({"messages": MESSAGES, "tools": TOOLS}))
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.headers[0][":path"] == "/v1/chat/completions"


def test_a_whole_exchange_arrives_as_it_was_given():
    called = {"id": "c1", "type": "function", "function": {"name": "memory_get", "arguments": "{}"}}
    exchange = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"ok": true}'},
    ]
    with OpenAIServer(text("hello")) as server:
        ask(server, messages=exchange)

    assert server.bodies[0]["messages"] == exchange


def test_no_tools_are_sent_where_there_are_none():
    with OpenAIServer(text("hello")) as server:
        ask(server, tools=[])

    assert "tools" not in server.bodies[0]


def test_requests_and_usage_are_kept_as_copies():
    async def talk(server):
        messages = [{"role": "user", "content": "one"}]
        async with live(server) as model:
            await model.complete(messages, [])
            messages[0]["content"] = "two"
            await model.complete(messages, [])
        return model

    with OpenAIServer(text("a", usage=USAGE), text("b")) as server:
        model = asyncio.run(talk(server))

    assert [each["messages"][0]["content"] for each in model.requests] == ["one", "two"]
    assert model.usage == [USAGE, None]


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with OpenAIServer(text("hello")) as server:
        assert ask(server)["content"] == "hello"


# Failures


def test_a_busy_server_is_asked_again_as_it_wishes():
    busy = failure(429, retry_after="0.01")
    with OpenAIServer(busy, busy, text("at last")) as server:
        assert ask(server, max_retries=2)["content"] == "at last"

    assert len(server.bodies) == 3


def test_a_server_that_stays_busy_is_a_model_error():
    with OpenAIServer(failure(429, "slow down", retry_after="0.01")) as server:
        error = failed(server, max_retries=2)

    assert error.status == 429
    assert "slow down" in str(error)
    assert "after 2 retries" in str(error)
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("status", "step"),
    [
        (400, "OPENAI_MODEL"),
        (401, "OPENAI_API_KEY"),
        (403, "OPENAI_API_KEY"),
        (404, "OPENAI_BASE_URL"),
        (418, "OPENAI_BASE_URL"),
        (500, "later"),
        (503, "later"),
    ],
)
def test_a_refusal_names_its_status_and_the_next_step(status, step):
    with OpenAIServer(failure(status, f"bad key {KEY}")) as server:
        error = failed(server)

    assert error.status == status
    assert str(status) in str(error)
    assert step in str(error)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Answer(b'{"choices": [{"mess'), "no JSON object"),
        (Answer(b"<html>Login</html>", headers={"Content-Type": "text/html"}), "<html>"),
        (Answer(b"", headers={"Content-Type": "text/plain"}), "no JSON object"),
        (Answer(b"\xff\xfe\x00"), "no JSON object"),
        (Answer(["a list"]), "no JSON object"),
        (Answer(None), "no JSON object"),
        (Answer({}), "no choices"),
        (Answer({"choices": []}), "no choices"),
        (Answer({"choices": None}), "no choices"),
        (Answer({"choices": ["text"]}), "no choices"),
        (Answer({"choices": [{}]}), "without a message"),
        (completion(None), "without a message"),
        (completion({"role": "assistant", "content": [1]}), "another form"),
        (completion({"role": "assistant", "content": None, "tool_calls": [{}]}), "no function"),
        (completion({"role": "assistant", "content": None, "refusal": "No."}), "refused"),
        (text(None), "neither text nor a call"),
        (text("  "), "neither text nor a call"),
        (text("half an ans", finish="content_filter"), "content filter"),
    ],
)
def test_an_answer_of_another_form_is_a_model_error_that_says_what_was_found(answer, found):
    with OpenAIServer(answer) as server:
        error = failed(server)

    assert found in str(error)
    assert error.status == 200


def test_a_page_that_repeats_the_key_is_shown_without_it():
    page = Answer(f"<html>{KEY}</html>".encode(), headers={"Content-Type": "text/html"})
    with OpenAIServer(page) as server:
        assert "[key]" in str(failed(server))


def test_a_closed_connection_is_a_model_error():
    with OpenAIServer(Answer(hang_up=True)) as server:
        error = failed(server)

    assert error.status is None
    assert "OPENAI_BASE_URL" in str(error)


def test_nobody_at_the_address_is_a_model_error():
    with OpenAIServer(text("hello")) as server:
        pass
    error = failed(server)

    assert error.status is None
    assert "could not be reached" in str(error)


def test_no_answer_in_time_is_a_model_error():
    with OpenAIServer(Answer(delay_s=30)) as server:
        error = failed(server, timeout_s=0.1)

    assert "0.1 s" in str(error)
    assert "timeout_s" in str(error)


def test_what_cannot_be_sent_is_a_model_error():
    with (
        OpenAIServer(text("hello")) as server,
        pytest.raises(ModelError, match="could not be asked"),
    ):
        ask(server, messages=[{"role": "user", "content": object()}])


# One client, closed


def test_one_model_serves_two_event_loops():
    with OpenAIServer(text("hello")) as server:
        model = live(server)
        first = asyncio.run(model.complete(MESSAGES, TOOLS))
        second = asyncio.run(model.complete(MESSAGES, TOOLS))

        assert first == second == {"role": "assistant", "content": "hello"}
        assert server.open_connections == 0


def test_one_loop_keeps_one_connection_until_it_is_closed():
    async def talk(server):
        model = live(server)
        for _ in range(3):
            await model.complete(MESSAGES, TOOLS)
        during = server._http.connections
        await model.aclose()
        await model.aclose()
        after = server.open_connections
        await model.complete(MESSAGES, TOOLS)
        await model.aclose()
        return during, after

    with OpenAIServer(text("hello")) as server:
        assert asyncio.run(talk(server)) == (1, 0)
    assert len(server.bodies) == 4


def test_a_failure_closes_the_connection_and_the_next_call_works():
    async def talk(server):
        model = live(server)
        with pytest.raises(ModelError):
            await model.complete(MESSAGES, TOOLS)
        after = server.open_connections
        reply = await model.complete(MESSAGES, TOOLS)
        await model.aclose()
        return after, reply["content"], model.usage

    with OpenAIServer(failure(500), text("hello", usage=USAGE)) as server:
        assert asyncio.run(talk(server)) == (0, "hello", [USAGE])


def test_a_cancelled_call_passes_the_cancellation_on_and_closes_the_connection():
    async def talk(server):
        model = live(server)
        waiting = asyncio.create_task(model.complete(MESSAGES, TOOLS))
        await asyncio.to_thread(server.arrived.wait, 5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        still_open = server.open_connections
        reply = await model.complete(MESSAGES, TOOLS)
        await model.aclose()
        return still_open, reply["content"], len(model.requests), len(model.usage)

    with OpenAIServer(Answer(delay_s=0.5), text("hello")) as server:
        assert asyncio.run(talk(server)) == (0, "hello", 2, 1)


def test_a_time_limit_around_the_call_is_a_time_out_of_the_caller():
    async def talk(server):
        async with live(server) as model, asyncio.timeout(0.1):
            await model.complete(MESSAGES, TOOLS)

    with OpenAIServer(Answer(delay_s=30)) as server, pytest.raises(TimeoutError):
        asyncio.run(talk(server))


def test_a_cancelled_call_leaves_the_call_beside_it_alone():
    async def talk(server):
        async with live(server) as model:
            slow = asyncio.create_task(model.complete(MESSAGES, TOOLS))
            await asyncio.to_thread(server.arrived.wait, 5)
            other = asyncio.create_task(model.complete(MESSAGES, TOOLS))
            await asyncio.sleep(0.1)
            slow.cancel()
            return (await other)["content"]

    with OpenAIServer(Answer(delay_s=30), Answer(text("hello").body, delay_s=0.3)) as server:
        assert asyncio.run(talk(server)) == "hello"


# Settings


SETTINGS = {"OPENAI_API_KEY": KEY, "OPENAI_MODEL": "test-model"}


@pytest.mark.parametrize("name", sorted(SETTINGS))
@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_a_missing_setting_is_named_and_nothing_else_answers(name, value):
    env = {key: each for key, each in SETTINGS.items() if key != name}
    if value is not None:
        env[name] = value

    with pytest.raises(ModelError, match=f"{name} is .*RuleModel work offline"):
        LiveModel.from_env(env)


def test_the_settings_come_from_the_environment(monkeypatch):
    with OpenAIServer(text("hello")) as server:
        for name, value in SETTINGS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        reply = asyncio.run(LiveModel.from_env().complete(MESSAGES, TOOLS))

    assert reply["content"] == "hello"
    assert server.bodies[0]["model"] == "test-model"


def test_a_given_environment_is_the_only_one_that_is_read(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")

    assert LiveModel.from_env(SETTINGS).base_url == "https://api.openai.com/v1"
    assert LiveModel.from_env(SETTINGS | {"OPENAI_BASE_URL": " "}).base_url.startswith("https:")


def test_the_key_is_not_shown():
    model = LiveModel.from_env(SETTINGS)

    assert KEY not in repr(model) + str(model)
    assert "test-model" in repr(model)


@pytest.mark.parametrize("key", ["ключ-от-всего", "sk two", "sk\n-x", "“sk-x”"])
def test_a_key_that_cannot_be_one_is_refused_unseen(key):
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        LiveModel("m", api_key=key)

    assert key not in str(caught.value)


def test_a_key_with_a_line_end_is_taken_without_it():
    with OpenAIServer(text("hello")) as server:
        model = LiveModel("m", api_key=f"{KEY}\n", base_url=server.url)
        asyncio.run(model.complete(MESSAGES, []))

    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "options", [{"timeout_s": 0}, {"timeout_s": float("nan")}, {"max_retries": -1}]
)
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidInput):
        LiveModel("m", api_key=KEY, **options)


def test_without_the_openai_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(ModelError) as caught:
        LiveModel.from_env(SETTINGS)

    assert 'pip install "memlab[live]"' in str(caught.value)


def test_importing_the_models_does_not_import_openai():
    code = "import sys, json, memlab.models; print(json.dumps(sorted(sys.modules)))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )

    assert not {"openai", "httpx", "pandas"} & set(json.loads(done.stdout))


# A whole turn -----------------------------------------------------------------------------------


@pytest.fixture
def whole_turn(alice):
    """Let an agent answer through a server: two calls at once, a failed one, then words."""
    alice.put("preference", "style", '短句, with "quotes" and \\ and 👍')
    alice.approvals.grant(Put("note", "boat", "它叫 Petrel"))
    put = json.dumps({"kind": "note", "key": "boat", "value": "它叫 Petrel"})
    answers = (
        calls(("memory_put", put), ("memory_get", '{"kind": "note", "key": "none"}')),
        calls(("memory_put", '{"kind": "note"'), ("no_such_tool", "{}")),
        text("Done. 好了。", USAGE),
    )
    with OpenAIServer(*answers) as server:

        async def turn():
            async with live(server) as model:
                return await MemoryAgent(alice, model).ask("Remember what the boat is called.")

        answer = asyncio.run(turn())
        return answer, server.bodies


def test_what_arrives_at_the_server_has_exactly_the_size_that_was_measured(whole_turn):
    answer, bodies = whole_turn

    assert len(bodies) == 3
    for step, body in zip(answer.steps, bodies, strict=True):
        arrived = canonical({"messages": body["messages"], "tools": body["tools"]})
        assert len(arrived) == step.request.chars == sum(step.request.by_part.values())
        assert set(body) == {"model", "messages", "tools"}


def test_what_arrives_is_one_system_message_one_task_and_whole_exchanges(whole_turn):
    _, bodies = whole_turn

    for turn, body in enumerate(bodies):
        roles = [message["role"] for message in body["messages"]]
        assert roles == ["system", "user", *["assistant", "tool", "tool"] * turn]
        task = json.loads(body["messages"][1]["content"])
        assert task["task"] == "Remember what the boat is called."
        asked = [c["id"] for m in body["messages"] for c in m.get("tool_calls") or ()]
        told = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
        assert asked == told
        assert len(set(asked)) == len(asked)


def test_a_live_turn_writes_what_was_approved_and_tells_the_model_of_each_failure(
    whole_turn, alice
):
    answer, bodies = whole_turn

    assert answer.text == "Done. 好了。"
    assert alice.get("note", "boat").value == "它叫 Petrel"
    told = [json.loads(m["content"]) for m in bodies[-1]["messages"] if m["role"] == "tool"]
    assert [each["ok"] for each in told] == [True, True, False, False]
