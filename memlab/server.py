"""A server that speaks OpenAI's language: how to reach it, and its failures in plain words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from memlab.errors import InvalidInput, ModelError
from memlab.text import cut, visible


class Server:
    """One such server: chat or embeddings, asked or awaited.

    Args:
        key: Is sent to this server and shown nowhere.
        base_url: None or blank: OpenAI's own.
        offline: What to use without any server, for the error about a missing key.
        steps: What to do next, by status, where it is not the usual.

    Raises:
        ModelError: no key, one that cannot be one, or the `openai` package is not installed.
    """

    def __init__(
        self,
        key: str | None,
        base_url: str | None,
        *,
        timeout_s: float,
        max_retries: int,
        offline: str,
        steps: Mapping[int, str],
    ):
        if type(timeout_s) not in (int, float) or not 0 < timeout_s < float("inf"):
            raise InvalidInput("timeout_s", "must be a number of seconds above 0.")
        self.base_url = (base_url or "").strip() or "https://api.openai.com/v1"
        self.timeout_s = float(timeout_s)
        self.max_retries = whole(max_retries, "max_retries", least=0)
        self._steps = {**_USUAL_STEP, **steps}
        self._key = _usable_key(key, offline)
        self._openai = needed("openai", "live", offline)

    def client(self, kind: str, http: str) -> Any:
        """Open a client of the openai class `kind` over its HTTP client `http`."""
        # What is on this machine is no business of a proxy's.
        direct = {"trust_env": False} if _on_this_machine(self.base_url) else {}
        return getattr(self._openai, kind)(
            api_key=self._key,
            base_url=self.base_url,
            timeout=self.timeout_s,
            max_retries=self.max_retries,
            http_client=getattr(self._openai, http)(timeout=self.timeout_s, **direct),
        )

    def asked(self, request: Callable[[], Any]) -> dict[str, Any]:
        """Send a request and return the decoded body of the answer."""
        try:
            answer = request()
            status, text = int(answer.status_code), str(answer.text)
        except Exception as error:
            failure = self.explained(error)
        else:
            return self.decoded(status, text)
        raise failure  # out here the cause, which may print the key, is no longer attached

    def decoded(self, status: int, text: str) -> dict[str, Any]:
        """Return the JSON object that an answer holds."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            return body
        raise ModelError(
            f"The model's server answered with no JSON object ({self._shown(text)!r}). "
            "Check that OPENAI_BASE_URL is an OpenAI-compatible API, or ask again.",
            status,
        )

    def explained(self, error: Exception) -> ModelError:
        """Return the error that says what happened and what to do, without the key."""
        status = getattr(error, "status_code", None)
        if isinstance(error, self._openai.APITimeoutError):
            found = f"did not answer within {self.timeout_s:g} s"
            step = "Try again later, or raise timeout_s."
        elif isinstance(error, self._openai.APIConnectionError):
            found = "could not be reached, or closed the connection"
            step = "Check OPENAI_BASE_URL and the network."
        elif status is None:
            found = f"could not be asked: {type(error).__name__}: {self._shown(str(error))}"
            step = "Check what is sent, OPENAI_BASE_URL and the version of openai."
        else:
            found = f"answered with status {status}: {self._shown(str(error))}"
            step = self._steps.get(status, "Check OPENAI_BASE_URL and the name of the model.")
            if status >= 500:
                step = "The fault is there: try again later."
        lost = isinstance(error, self._openai.APIConnectionError)
        retried = lost or (status is not None and (status in (408, 409, 429) or status >= 500))
        tries = f" (after {self.max_retries} retries)" if retried else ""
        return ModelError(f"The model's server {found}{tries}. {step}", status)

    def _shown(self, text: str) -> str:
        return cut(visible(" ".join(text.replace(self._key, "[key]").split())), 200)


_USUAL_STEP = {
    401: "Check OPENAI_API_KEY.",
    403: "Check that the key of OPENAI_API_KEY may use this model.",
    429: "Wait a while, check the account's quota, or raise max_retries.",
}


def _usable_key(given: str | None, offline: str) -> str:
    if given is None or not given.strip():
        raise ModelError(
            f"OPENAI_API_KEY is {'not set' if given is None else 'blank'}. "
            f"Set it, or pass api_key; {offline}"
        )
    key = given.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelError(
            "OPENAI_API_KEY holds characters that no key has (spaces, quotes from a web page, "
            f"other scripts). Copy it again; {offline}"
        )
    return key


def _on_this_machine(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def needed(module: str, extra: str = "semantic", instead: str = "") -> Any:
    """Import on use, or say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        raise ModelError(
            f"This needs the package {missing}, which is not installed. "
            f'Run: pip install "memlab[{extra}]". {instead}'.rstrip()
        ) from None


def whole(number: object, field: str, least: int = 1) -> int:
    if type(number) is not int or number < least:
        raise InvalidInput(field, f"must be a whole number, {least} or more.")
    return number
