"""The state of a team by key path: its own under "memory" and "state", a member's under its name, a dot, and the member's own key. Pure functions.

{"version": 1, "memory": […], "writer.memory": […], "kids.0.memory": […], "kids.1.memory": […]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from retinue.actors.agents.errors import BadState, UnknownStateKey
from retinue.actors.agents.message import AgentMessage, Step
from retinue.actors.agents.views import VERSION, load_state_dict

__all__ = ["MAX_DATA", "checked_state", "first_of", "own_state", "plain_data", "prefixed", "receiver_within"]

Item: TypeAlias = AgentMessage | Step

MAX_DATA: Final = 1_000_000
"""Characters of what a session of a team keeps from run to run besides messages, written as JSON."""

MEMORY: Final = "memory"
STATE: Final = "state"


def plain_data(value: Any, what: str) -> Any:
    """A copy of JSON-like data. Raises BadState for what is none, or is too much of it."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadState(
            f"{what} holds what is no plain data ({error}): give None, bool, int, float, str, and lists and dicts of such"
        ) from None
    if len(text) > MAX_DATA:
        raise BadState(f"{what} has {len(text):,} characters when it is written down, and {MAX_DATA:,} are kept at most: keep less")
    _check_keys(value, what)
    return json.loads(text)


def _check_keys(value: Any, what: str) -> None:
    """Raises BadState for a key that is no text: JSON would make one of it, and the next run would look for another."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            for key in one:
                if not isinstance(key, str):
                    raise BadState(f"{what} has the key {key!r:.100}, which is a {type(key).__name__}: keys are texts, {str(key)!r:.100}")
            left.extend(one.values())
        elif isinstance(one, list | tuple):
            left.extend(one)


def first_of(path: object) -> tuple[str, str]:
    """The first name of a key path, and the rest. Raises UnknownStateKey for what is no path."""
    if not isinstance(path, str):
        raise UnknownStateKey(f"path={path!r:.100} is no key path: give a text such as 'writer' or 'kids.0'", key=str(path)[:100])
    name, _, rest = path.partition(".")
    return name, rest


def receiver_within(receiver: str, member: str) -> str | None:
    """The receiver of what a member is told: its own name is used up, and what stands behind it in a key path is for whoever is within. Another is handed on."""
    name, _, rest = receiver.partition(".")
    return (rest or None) if name == member else receiver


def prefixed(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """A member's state under its name."""
    return {f"{name}.{key}": value for key, value in state.items() if key != "version"}


def checked_state(
    state: object, known: Mapping[str, Mapping[str, Any]], *, remembers: bool
) -> tuple[tuple[Item, ...], dict[str, Any], dict[str, dict[str, Any]]]:
    """What is to be loaded into a team, looked at throughout before anything is.

    Args:
        state: As `GetState` gives it.
        known: The state of each member as it is now, by name: its keys are those that are to be there.
        remembers: Whether the team has a memory of its own.

    Returns:
        The team's own items, what its session keeps besides, and the state of each member.

    Raises:
        UnknownStateKey: A key path is missing, or one too many.
        BadState: Anything else is not as it has to be; the text says where.
    """
    if not isinstance(state, Mapping):
        raise BadState(f"the state is a {type(state).__name__}: give the dict that GetState gave")
    now = {key for name, one in known.items() for key in prefixed(name, one)}
    paths = [key.removesuffix(MEMORY).removesuffix(".") for key in now if key == MEMORY or key.endswith(f".{MEMORY}")]
    if remembers:
        paths.insert(0, "")
    teams = {STATE, *(f"{_outer(path)}{STATE}" for path in paths if path)}
    rest = {}
    for key, value in state.items():
        if key in teams:
            if not isinstance(value, Mapping):
                raise BadState(f"{key} is a {type(value).__name__}: an object was expected")
            plain_data(dict(value), str(key))
        else:
            rest[key] = value
    items = load_state_dict(rest, paths)
    version = {"version": state.get("version", VERSION)}
    inner = {
        name: {**version, **{str(key)[len(name) + 1 :]: value for key, value in state.items() if str(key).startswith(f"{name}.")}}
        for name in known
    }
    own = state.get(STATE)
    return items.get("", ()), {} if own is None else plain_data(dict(own), STATE), inner


def own_state(state: dict[str, Any], data: Mapping[str, Any], *, remembers: bool) -> dict[str, Any]:
    """A team's own part of the state: `state` as `state_dict` makes it, and what the session keeps besides."""
    found = dict(state) if remembers else {key: value for key, value in state.items() if key != MEMORY}
    if data:
        found[STATE] = plain_data(dict(data), STATE)
    return found


def _outer(path: str) -> str:
    """The key prefix of the team that a path's agent is in."""
    outer, _, _ = path.rpartition(".")
    return f"{outer}." if outer else ""
