"""What a model may do: six tools bound to one lent memory, and any that the caller adds."""

from __future__ import annotations

import copy
import inspect
import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memlab.errors import InvalidInput, MemlabError, NotApproved
from memlab.records import KINDS, Applied, Delete, Limits, Proposal, Put, Record
from memlab.store import LentMemory
from memlab.text import canonical, clean, visible

FOLDER = "demo_application"
PATH_CHARS = 128
CONTENT_CHARS = 4096
FOUND_MOST = 10  # records that one search or recall of the model gives back

_MOST_DEPTH = 32  # levels of objects and lists
_ARGUMENT_CHARS = 20_000  # longer arguments are refused unread
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEVICES = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing a model may call.

    Attributes:
        parameters: JSON Schema of an object. A field that it does not name is refused, unless it
            says `additionalProperties` itself.
        run: Called with the arguments by name; where it takes one thing that `parameters` does
            not name, with the whole dict. Returns anything that is JSON, or a dict with `ok`; may
            be async.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[..., Any]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InvalidInput("name", "of a tool must be 1 to 64 letters, digits, '_' or '-'.")
        if not callable(self.run):
            raise InvalidInput("run", "of a tool must be a function.")
        if self.parameters.get("type") != "object":
            raise InvalidInput("parameters", "must be a JSON Schema of type object.")

    def to_dict(self) -> dict[str, Any]:
        """Return the description in OpenAI's form; fields it does not name are not allowed."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": copy.deepcopy({"additionalProperties": False, **self.parameters}),
            },
        }

    def call(self, arguments: dict[str, Any]) -> Any:
        """Run it with arguments that were checked; what comes back may have to be awaited."""
        try:
            takes = list(inspect.signature(self.run).parameters.values())
        except ValueError:  # a builtin without a signature
            takes = []
        named = self.parameters.get("properties", ())
        if len(takes) == 1 and takes[0].kind in _BY_PLACE and takes[0].name not in named:
            return self.run(arguments)
        return self.run(**arguments)


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave: `data` for the model, the rest for the record of the turn."""

    data: dict[str, Any]
    applied: Applied | None = None
    proposal: Proposal | None = None
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one agent. Whatever goes wrong in a call is a result, never an exception."""

    tools: Mapping[str, Tool]
    _validators: dict[str, Any] = field(default_factory=dict)

    def descriptions(self) -> list[dict[str, Any]]:
        """Return what a model is told of the tools, in a fixed order."""
        return [tool.to_dict() for tool in self.tools.values()]

    async def run(self, name: str, arguments: object) -> Result:
        """Run one call. `arguments` is the JSON text that the model wrote."""
        tool = self.tools.get(name)
        if tool is None:
            shown = visible(str(name)[:64])
            return _failed(f"there is no tool {shown!r}. There are: {', '.join(self.tools)}.")
        try:
            read = _arguments(arguments)
            self._check(tool, read)
            result = tool.call(read)
            if inspect.isawaitable(result):
                result = await result
            return _packed(result)
        except MemlabError as error:
            asked = error.proposal if isinstance(error, NotApproved) else None
            return _failed(str(error), asked if isinstance(asked, Proposal) else None)
        except Exception as error:
            # Its text could hold a path or a secret of this machine: the model gets the type.
            return _failed(f"the tool failed with {type(error).__name__}.")

    def _check(self, tool: Tool, arguments: dict[str, Any]) -> None:
        if tool.name not in self._validators:
            from jsonschema import Draft202012Validator  # 90 ms: only when a tool is called

            schema = tool.to_dict()["function"]["parameters"]
            self._validators[tool.name] = Draft202012Validator(schema)
        for error in self._validators[tool.name].iter_errors(arguments):
            raise InvalidInput("arguments", _broken(error))


def toolbox(
    memory: LentMemory,
    limits: Limits,
    workspace: Path | None = None,
    store_folder: Path | None = None,
    more: Iterable[Tool] = (),
) -> Toolbox:
    """Return the tools bound to one lent memory; `write_demo_file` only with a workspace."""
    tools = memory_tools(memory, limits)
    if workspace is not None:
        tools.append(demo_tool(Path(workspace), store_folder))
    tools.extend(more)
    named = {tool.name: tool for tool in tools}
    if len(named) < len(tools):
        raise InvalidInput("tools", "two tools have the same name. Rename one.")
    return Toolbox(named)


# Memory -----------------------------------------------------------------------------------------


def memory_tools(memory: LentMemory, limits: Limits) -> list[Tool]:
    """Return the five tools over one user's memories."""
    kind = {"type": "string", "enum": list(KINDS)}
    key = {"type": "string", "pattern": "^[a-z][a-z0-9_.:-]*$", "maxLength": limits.key_chars}
    value = {"type": "string", "minLength": 1, "maxLength": limits.value_chars}
    limit = {"type": "integer", "minimum": 1, "maximum": FOUND_MOST}
    reason = {"type": "string", "maxLength": 200}

    def query(chars: int) -> dict[str, Any]:
        return {"type": "string", "maxLength": chars}

    def get(kind: str, key: str) -> Result:
        record = memory.get(kind, key)
        shown = record.for_model() if record else None
        return Result({"ok": True, "record": shown}, records=(record,) if record else ())

    def search(query: str, limit: int = 5, kind: str | None = None) -> Result:
        return _listed(memory.search(query, limit, kind))

    def recall(query: str, limit: int = 5, kind: str | None = None) -> Result:
        return _listed([hit.record for hit in memory.recall(query, limit, kind)])

    def put(kind: str, key: str, value: str, reason: str = "") -> Result:
        return _done(memory.apply(Put(kind, key, value), reason))

    def delete(kind: str, key: str, reason: str = "") -> Result:
        return _done(memory.apply(Delete(kind, key), reason))

    return [
        Tool(
            "memory_get",
            "Read one memory by its exact kind and key.",
            _schema({"kind": kind, "key": key}),
            get,
        ),
        Tool(
            "memory_search",
            "List the memories that contain the query literally, in any case, the latest first.",
            _schema({"query": query(limits.query_chars)}, {"limit": limit, "kind": kind}),
            search,
        ),
        Tool(
            "memory_recall",
            "List the memories that answer a question best, best first.",
            _schema({"query": query(limits.task_chars)}, {"limit": limit, "kind": kind}),
            recall,
        ),
        Tool(
            "memory_put",
            "Store one value under a kind and a key. It is stored only if the person has approved "
            "exactly this; otherwise it is put before them, and the result says so.",
            _schema({"kind": kind, "key": key, "value": value}, {"reason": reason}),
            put,
        ),
        Tool(
            "memory_delete",
            "Delete one memory and its history. The same approval is needed.",
            _schema({"kind": kind, "key": key}, {"reason": reason}),
            delete,
        ),
    ]


def _schema(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _listed(records: list[Record]) -> Result:
    shown = [record.for_model() for record in records]
    return Result({"ok": True, "records": shown}, records=tuple(records))


def _done(applied: Applied) -> Result:
    shown = applied.record.for_model() if applied.record else None
    data = {"ok": True, "effect": applied.effect, "record": shown}
    return Result(data, applied=applied, records=(applied.record,) if applied.record else ())


# Files ------------------------------------------------------------------------------------------


def demo_tool(workspace: Path, store_folder: Path | None = None) -> Tool:
    """Return the tool that writes into `demo_application/` of the workspace, and nowhere else."""

    def write(path: str, content: str) -> dict[str, Any]:
        written = write_demo_file(workspace, path, content, store_folder)
        return {"ok": True, "path": written}

    return Tool(
        "write_demo_file",
        f"Write one text file, by a relative path, into the folder {FOLDER}.",
        _schema(
            {
                "path": {"type": "string", "minLength": 1, "maxLength": PATH_CHARS},
                "content": {"type": "string", "maxLength": CONTENT_CHARS},
            }
        ),
        write,
    )


def write_demo_file(
    workspace: Path, path: str, content: str, store_folder: Path | None = None
) -> str:
    """Write `content` atomically below `demo_application/`; return the path below it, with `/`.

    Raises:
        InvalidInput: the path could lead elsewhere, or the text cannot be written as UTF-8.
            No message holds a path outside `demo_application/`, and nothing is left behind.
    """
    parts = confined(path)
    clean(content, "content", limit=CONTENT_CHARS, blank=True)  # a check: a file is kept verbatim
    made: list[Path] = []
    try:
        folder = Path(os.path.abspath(workspace))
        folder.mkdir(parents=True, exist_ok=True)
        for name in (FOLDER, *parts[:-1]):
            folder = folder / name
            _refuse_alias(folder)
            if not folder.exists():
                folder.mkdir(exist_ok=True)
                made.append(folder)
            if store_folder is not None and _same(folder, store_folder):
                raise InvalidInput("path", "leads into the memory store. Choose another path.")
        target = folder / parts[-1]
        _refuse_alias(target)
        if target.is_dir():
            raise InvalidInput("path", "is a folder. Name a file.")
        _replace(target, content)
    except (OSError, InvalidInput) as error:
        _remove_empty(made)
        if isinstance(error, InvalidInput):
            raise
        why = error.strerror or type(error).__name__  # neither holds a path
        raise InvalidInput("path", f"cannot be written ({why}). Choose another.") from None
    return "/".join(parts)


def confined(path: str) -> list[str]:
    """Return the parts of a relative path that stays below its root on every platform."""
    path = clean(path, "path", limit=PATH_CHARS)
    parts = path.split("/")
    for part in parts:
        if (
            part in ("", ".", "..")
            or part != part.rstrip(". ")
            or part != part.lstrip()
            or set(part) & set('\\:*?"<>|')
            or _DEVICES.fullmatch(part)
            or not part.isprintable()
        ):
            raise InvalidInput(
                "path",
                f"must be a plain relative path below {FOLDER}: no '..', no drive, no '\\', no "
                "empty or reserved part. Choose a name such as app.py.",
            )
    return parts


def _refuse_alias(path: Path) -> None:
    """Refuse a link or anything else that is no plain file or folder, whatever it leads to."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    plain = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)
    junction = getattr(found, "st_reparse_tag", 0)
    if not plain or junction:
        raise InvalidInput("path", "meets a link or a device, which could lead anywhere.")


def _same(folder: Path, other: Path) -> bool:
    """Say whether both are one folder, however they are spelled."""
    return other.exists() and folder.samefile(other)


def _remove_empty(folders: list[Path]) -> None:
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:  # another program has put something there
            return


def _replace(target: Path, content: str) -> None:
    handle, name = tempfile.mkstemp(prefix=".writing-", dir=target.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# Arguments --------------------------------------------------------------------------------------


def _arguments(text: object) -> dict[str, Any]:
    if not isinstance(text, str):
        raise InvalidInput("arguments", "must be JSON text.")
    if len(text) > _ARGUMENT_CHARS:
        raise InvalidInput(
            "arguments", f"have {len(text)} characters; the most allowed is {_ARGUMENT_CHARS}."
        )
    try:
        read = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite
        )
    except InvalidInput:
        raise
    except (ValueError, RecursionError):
        raise InvalidInput("arguments", "are not valid JSON. Send one complete object.") from None
    if not isinstance(read, dict):
        raise InvalidInput("arguments", 'must be an object, as in {"key": "style"}.')
    if _deeper_than(_MOST_DEPTH, read):  # how deep Python itself reads differs by version
        raise InvalidInput("arguments", f"are nested deeper than {_MOST_DEPTH} levels.")
    return read


def _deeper_than(levels: int, value: Any) -> bool:
    """Say whether JSON is nested deeper, without going deeper than that."""
    inner = [value]
    for _ in range(levels + 1):
        inner = [
            each
            for outer in inner
            if isinstance(outer, dict | list)
            for each in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(inner)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise InvalidInput("arguments", "name a field twice.")
    return read


def _no_number(name: str) -> None:
    raise InvalidInput("arguments", f"hold {name[:20]}, which is no number of JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        _no_number(text)
    return number


def _broken(error: Any) -> str:
    """Say which rule of the schema is broken, in few words, whatever was sent."""
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        allowed = set(error.schema.get("properties", ()))
        extra = sorted(set(error.instance) - allowed)[:3]
        shown = ", ".join(repr(visible(str(name)[:40])) for name in extra)
        return f"have fields that are not allowed: {shown}."
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return f"lack {', '.join(missing)}."
    where = ".".join(visible(str(part)[:40]) for part in error.absolute_path) or "the object"
    return f"{where} must match {error.validator} {canonical(error.validator_value)[:200]}."


# Results ----------------------------------------------------------------------------------------


def _packed(result: Any) -> Result:
    """Return what a tool gave as a result that is JSON, and nobody else's to change."""
    if isinstance(result, Result):
        return result
    if not (isinstance(result, dict) and "ok" in result):
        result = {"ok": True, "result": result}
    try:
        text = canonical(result)
        text.encode()  # half of a surrogate pair cannot be sent
        return Result(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return _failed("the tool returned something that is no JSON.")


def _failed(error: str, proposal: Proposal | None = None) -> Result:
    data = {"ok": False, "error": error}
    if proposal is None:
        return Result(data)
    return Result({**data, "proposal": proposal.id, "state": proposal.state}, proposal=proposal)
