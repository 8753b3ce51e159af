"""A small OpenAI-compatible server on loopback: it answers from a script and keeps what arrives."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


@dataclass(frozen=True)
class Answer:
    """One answer of the server.

    Attributes:
        body: Bytes are sent as they are, anything else as JSON.
        delay_s: How long the server waits before it answers.
        hang_up: Close the connection without an answer.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    hang_up: bool = False


def completion(message: Any, usage: Any = None, finish: str = "stop") -> Answer:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "test",
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
    }
    return Answer(body | ({"usage": usage} if usage else {}))


def text(words: str | None, usage: Any = None, finish: str = "stop") -> Answer:
    return completion({"role": "assistant", "content": words}, usage, finish)


def calls(*functions: tuple[str, str]) -> Answer:
    """Answer with calls, each given as a name and its arguments in JSON."""
    made = [
        {"id": f"id_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(functions)
    ]
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": made}
    return completion(message, finish="tool_calls")


def vector(words: str, dim: int = 4) -> list[float]:
    """Return what this server thinks of a text: its first character and its length, unscaled."""
    return [float(ord(words[0])), float(len(words)), *[1.0] * dim][:dim]


def embeddings(
    dim: int = 4, change: Callable[[list[Any]], Any] = lambda items: items
) -> Callable[[Any], Answer]:
    """Answer each request with the vectors of its texts.

    Args:
        change: Makes something else of the list of items, each an index and an embedding.
    """

    def answer(sent: Any) -> Answer:
        items = [
            {"object": "embedding", "index": index, "embedding": vector(words, dim)}
            for index, words in enumerate(sent["input"])
        ]
        return Answer({"object": "list", "model": sent["model"], "data": change(items)})

    return answer


def failure(status: int, message: str = "no", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer({"error": {"message": message, "type": "test"}}, status, named)


class OpenAIServer:
    """Gives its answers in order, the last one again and again. Use it in a `with`.

    Args:
        answers: Each an `Answer`, or a function that makes one of the request's JSON.

    Attributes:
        bodies: The JSON of each request, in order of arrival.
        headers: Their headers, names in lower case; and the `:path`, and the `:port` of the client.
    """

    def __init__(self, *answers: Answer | Callable[[Any], Answer]):
        self.answers = list(answers)
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.arrived = threading.Event()
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def open_connections(self) -> int:
        """How many connections the clients hold open, after a moment to let them close."""
        for _ in range(200):
            if not self._http.connections:
                break
            time.sleep(0.005)
        return self._http.connections

    def take(self, body: Any, headers: dict[str, str]) -> Answer:
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            given = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        answer = given(body) if callable(given) else given
        self.arrived.set()
        self._over.wait(answer.delay_s)
        return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for them, so no socket outlives the test
    connections = 0
    _counting = threading.Lock()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._counting:
            self.connections += 1
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._counting:
                self.connections -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was cancelled leaves a broken pipe behind, which is what we test."""


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5  # a client that never lets go does not block the end of the test

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            named = {name.lower(): value for name, value in self.headers.items()}
            named |= {":path": self.path, ":port": str(self.client_address[1])}
            answer = server.take(json.loads(sent), named)
            if answer.hang_up:
                self.close_connection = True
                return
            raw = isinstance(answer.body, bytes)
            body = answer.body if raw else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in ({"Content-Type": "application/json"} | answer.headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
