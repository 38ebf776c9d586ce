"""Memory as plain data by key path, as PyTorch has it for weights: `state_dict`, `load_state_dict`, `reset`. Pure functions.

    {"version": 1, "memory": [{"content": "hi", "sender": "user", …}, {"kind": "tool_calls", …}, …], "writer.memory": […]}

The agent's own memory stands under "memory", an inner agent's under its path and ".memory". Everything in it is JSON: written with `json.dumps` and read with
`json.loads` it gives the same messages and steps, whatever their texts hold. What a message holds besides plain data (an object in `formatted`, bytes) is written as plain
data, and stays that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias, cast, get_args

import attrs

from retinue.actors.agents.contents import plain_field
from retinue.actors.agents.errors import BadState, UnknownStateKey
from retinue.actors.agents.message import AgentMessage, Step, StepKind
from retinue.actors.llm.messages import ToolCall
from retinue.actors.llm.usage import Usage

__all__ = ["VERSION", "load_state_dict", "memory_key", "reset", "state_dict"]

Item: TypeAlias = AgentMessage | Step

VERSION: Final = 1
"""Of the form of the data; one that is newer is not loaded."""

MAX_DEPTH: Final = 100

_KINDS: Final = frozenset(get_args(StepKind))


def memory_key(path: str = "") -> str:
    """The key of the memory of an inner agent; of the agent itself for ""."""
    return f"{path}.memory" if path else "memory"


def state_dict(memories: Mapping[str, Iterable[Item]] | Iterable[Item]) -> dict[str, Any]:
    """Memories as plain data.

    Args:
        memories: An agent's items; or items by the path of the agent whose they are, "" for the outermost.

    Raises:
        BadState: A message holds data that is nested more than 100 levels deep, or in itself.
    """
    by_path = cast("Mapping[str, Iterable[Item]]", memories if isinstance(memories, Mapping) else {"": memories})
    found: dict[str, Any] = {"version": VERSION}
    for path, items in by_path.items():
        key = memory_key(path)
        found[key] = [_entry(item, f"{key}[{index}]") for index, item in enumerate(items)]
    return found


def load_state_dict(state: object, paths: Iterable[str] = ("",)) -> dict[str, tuple[Item, ...]]:
    """What `state_dict` gave, as messages and steps again: all of it, or an error.

    Args:
        state: The data.
        paths: The agents that there are; each has to be in the data, and nothing else may be.

    Returns:
        The items by path.

    Raises:
        UnknownStateKey: A key path is missing, or one too many.
        BadState: Anything else is not as it has to be; the text says where.
    """
    if not isinstance(state, Mapping):
        raise BadState(f"the state is a {type(state).__name__}: give the dict that rt.GetState gave")
    version = state.get("version", VERSION)
    if type(version) is not int or not 1 <= version <= VERSION:
        raise BadState(
            f"the state is of version {version!r}, and this Retinue reads up to {VERSION}: load it with the one that wrote it, or a newer one"
        )
    keys = {memory_key(path): path for path in paths}
    for key in state:
        if key != "version" and key not in keys:
            raise UnknownStateKey(f"the state has {_shown(key)}, and there is no such agent here{_near(key, keys)}", key=str(key))
    for key in keys:
        if key not in state:
            raise UnknownStateKey(
                f"the state has no {key!r}; nothing was loaded. It has {', '.join(map(_shown, state)) or 'nothing'}. Where that agent is newer than the state, begin it "
                f"with state[{key!r}] = []",
                key=key,
            )
    return {path: _items(state[key], key) for key, path in keys.items()}


def reset(paths: Iterable[str], keypath: str | None = None, *, recursive: bool = False) -> tuple[str, ...]:
    """Which memories a reset clears.

    Args:
        paths: The agents that there are, "" the outermost.
        keypath: Clear only this one's.
        recursive: Clear the outermost one's and all others'.

    Returns:
        Their paths.

    Raises:
        UnknownStateKey: There is no agent of that path.
        BadState: Both were given: one says less, the other more.
    """
    known = tuple(paths)
    if keypath is not None and recursive:
        raise BadState(f"reset(keypath={keypath!r}, recursive=True): give one of them; the path alone clears that agent's memory")
    if recursive:
        return known
    wanted = keypath or ""
    if wanted not in known:
        raise UnknownStateKey(f"there is no agent {wanted!r} here{_near(wanted, known)}", key=wanted)
    return (wanted,)


# -- writing ---------------------------------------------------------------------------------------------------------------------------------------------


def _entry(item: Item, where: str) -> dict[str, Any]:
    if isinstance(item, Step):
        return {
            "kind": item.kind,
            "text": item.text,
            "ok": item.ok,
            "call_id": item.call_id,
            "tool": item.tool,
            "calls": [attrs.asdict(call) for call in item.calls],
            "error": item.error,
            "turn": item.turn,
            "reasoning": item.reasoning,
        }
    return {
        "content": _plain(item.content, f"{where}.content"),
        "sender": item.sender,
        "formatted": _plain(item.formatted, f"{where}.formatted"),
        "session": item.session,
        "type": item.type,
        "receiver": item.receiver,
        "extra": None if item.extra is None else _plain(item.extra, f"{where}.extra"),
        "usage": None if item.usage is None else attrs.asdict(item.usage),
        "partial": item.partial,
    }


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    kind = type(value)
    if value is None or kind in (str, bool, int):
        return value
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if depth > MAX_DEPTH:
        raise BadState(f"{where} is nested more than {MAX_DEPTH} levels deep, or in itself: it cannot be written")
    if isinstance(value, Mapping):
        return {str(key): _plain(item, where, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, where, depth + 1) for item in value]
    if isinstance(value, str):
        return str.__str__(value)  # an enumeration's member of texts is its text
    return _plain(plain_field(value), where, depth + 1)


# -- reading ---------------------------------------------------------------------------------------------------------------------------------------------


def _items(entries: Any, key: str) -> tuple[Item, ...]:
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        raise BadState(f"{key} is a {type(entries).__name__}: a list of messages and steps was expected")
    return tuple(_item(entry, f"{key}[{index}]") for index, entry in enumerate(entries))


def _item(entry: Any, where: str) -> Item:
    if not isinstance(entry, Mapping):
        raise BadState(f"{where} is a {type(entry).__name__}: an object was expected")
    return _step(entry, where) if "kind" in entry else _message(entry, where)


_OPTIONAL_TEXT: Final = (str, type(None))
_STEP: Final[dict[str, tuple[type, ...]]] = {
    "kind": (str,), "text": (str,), "ok": (bool,), "call_id": _OPTIONAL_TEXT, "tool": _OPTIONAL_TEXT, "calls": (list, tuple),
    "error": _OPTIONAL_TEXT, "turn": (int,), "reasoning": _OPTIONAL_TEXT,
}  # fmt: skip
_MESSAGE: Final[dict[str, tuple[type, ...]]] = {
    "content": (), "sender": (str,), "formatted": (), "session": (str,), "type": _OPTIONAL_TEXT, "receiver": _OPTIONAL_TEXT,
    "extra": (dict, type(None)), "usage": (dict, type(None)), "partial": (bool,),
}  # fmt: skip
_CALL: Final[dict[str, tuple[type, ...]]] = {
    "id": (str,), "name": (str,), "arguments": (str,), "provider_id": _OPTIONAL_TEXT, "truncated": (bool,),
}  # fmt: skip
_USAGE: Final[dict[str, tuple[type, ...]]] = {field.name: (int, type(None)) for field in attrs.fields(Usage)}


def _fields(entry: Mapping[str, Any], where: str, known: Mapping[str, tuple[type, ...]], needed: tuple[str, ...]) -> dict[str, Any]:
    for name, value in entry.items():
        kinds = known.get(name)
        if kinds is None:
            raise BadState(f"{where} has {_shown(name)}, which is no part of it{_near(name, known)}")
        if kinds and type(value) not in kinds:
            raise BadState(f"{where}.{name} is a {type(value).__name__}: {' or '.join(_words(kind) for kind in kinds)} was expected")
    for name in needed:
        if name not in entry:
            raise BadState(f"{where} has no {name!r}")
    return dict(entry)


def _step(entry: Mapping[str, Any], where: str) -> Step:
    fields = _fields(entry, where, _STEP, ("kind",))
    if fields["kind"] not in _KINDS:
        raise BadState(f"{where}.kind is {fields['kind']!r}: use one of {', '.join(sorted(_KINDS))}")
    calls = []
    for index, call in enumerate(fields.get("calls", ())):
        place = f"{where}.calls[{index}]"
        if not isinstance(call, Mapping):
            raise BadState(f"{place} is a {type(call).__name__}: an object was expected")
        calls.append(ToolCall(**_fields(call, place, _CALL, ("id", "name", "arguments"))))
    fields["calls"] = tuple(calls)
    return Step(**fields)


def _message(entry: Mapping[str, Any], where: str) -> AgentMessage:
    fields = _fields(entry, where, _MESSAGE, ("content", "sender"))
    for name in ("content", "formatted", "extra"):
        if name in fields:
            fields[name] = _plain(fields[name], f"{where}.{name}")
    if fields.get("usage") is not None:
        fields["usage"] = Usage(**_fields(fields["usage"], f"{where}.usage", _USAGE, ()))
    return AgentMessage(**fields)


def _words(kind: type) -> str:
    return {
        "str": "a text",
        "bool": "true or false",
        "int": "an integer",
        "NoneType": "null",
        "list": "a list",
        "tuple": "a tuple",
        "dict": "an object",
    }[kind.__name__]


def _shown(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _near(name: object, known: Iterable[str]) -> str:
    candidates = [one for one in known if one]
    near = get_close_matches(str(name)[:200], candidates, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there is {', '.join(map(repr, candidates[:20]))}" if candidates else ""
