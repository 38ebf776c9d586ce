"""The tool registry: tools by name, in four scopes, of which a narrower one wins.

    default  <  runtime  <  session  <  agent

"default" is what a program offers everywhere, "runtime" what this run of it adds. A tool of a session or of an agent is its owner's alone. In one scope (and of one owner) a name
stands for one tool: a second one is an error, and never quietly wins.
"""

from __future__ import annotations

import difflib
import json
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, final, get_args

import attrs

from retinue.capabilities.tool_class import Tool
from retinue.capabilities.tools import tools_of
from retinue.security.errors import DefinitionError

__all__ = ["SCOPES", "RegisteredTool", "ToolRegistry", "ToolScope", "unknown_tool"]

ToolScope: TypeAlias = Literal["default", "runtime", "session", "agent"]

SCOPES: Final[tuple[ToolScope, ...]] = get_args(ToolScope)
"""From the widest to the narrowest."""

_OWNED: Final = frozenset({"session", "agent"})

_FENCE: Final = re.compile(r"\s*```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)

MOST_TOOLS: Final = 10_000
"""Tools that one registry holds."""


@attrs.frozen
class RegisteredTool:
    """One entry of a registry.

    Attributes:
        tool: The tool.
        scope: "default", "runtime", "session" or "agent".
        owner: Whose it is: a session's or an agent's name; None in the first two scopes.
    """

    tool: Tool[Any, Any]
    scope: ToolScope
    owner: str | None = None


@final
class ToolRegistry:
    """Tools by name and scope. To be used from any thread; given to an agent as one of its tools, it stands for the tools that are in it then.

    Args:
        tools: What is in the scope "default" from the start: what `Agent(tools=…)` takes.
    """

    __slots__ = ("_by_place", "_lock")

    def __init__(self, tools: Iterable[object] = ()) -> None:
        self._by_place: dict[tuple[ToolScope, str | None], dict[str, Tool[Any, Any]]] = {}
        self._lock = threading.Lock()
        self.register(*tools)

    def register(self, *tools: object, scope: ToolScope = "default", owner: str | None = None) -> tuple[Tool[Any, Any], ...]:
        """Add tools: all of them, or none where one of them cannot be.

        Args:
            tools: What `Agent(tools=…)` takes: typed functions, functions with `tool_info`, toolkits, what `@rt.tool` made.
            scope: Where. Default: "default".
            owner: Whose: the session's or agent's name, needed in those two scopes, and in no other.

        Returns:
            The tools, a toolkit's each for itself.

        Raises:
            DefinitionError: One of them is no tool; its name is taken in this scope; or the scope and the owner do not go together.
        """
        place = _place(scope, owner)
        made = tools_of(tools)
        with self._lock:
            there = self._by_place.get(place, {})
            for one in made:
                other = there.get(one.name) or next((known for known in there.values() if known.wire_name == one.wire_name), None)
                if other is not None:
                    raise DefinitionError(
                        f"{'of ' + repr(owner) + ' ' if owner else ''}a tool {one.name!r} is in the scope {scope!r} already: {other.source}, and this one is "
                        f"{one.source}. Remove the first one, give one another name, or register it in a narrower scope, where it wins"
                    )
            if sum(map(len, self._by_place.values())) + len(made) > MOST_TOOLS:
                raise DefinitionError(f"the registry would hold more than {MOST_TOOLS:,} tools: remove those of sessions that have ended")
            if made:
                self._by_place[place] = {**there, **{one.name: one for one in made}}
        return made

    def remove(self, name: str, *, scope: ToolScope = "default", owner: str | None = None) -> bool:
        """Take a tool out of one scope. Whether it was there."""
        place = _place(scope, owner)
        with self._lock:
            there = self._by_place.get(place, {})
            if name not in there:
                return False
            left = {known: one for known, one in there.items() if known != name}
            if left:
                self._by_place[place] = left
            else:
                del self._by_place[place]
        return True

    def forget(self, scope: ToolScope, owner: str | None) -> int:
        """Take out all tools of an owner, whose session or agent has ended. Returns how many that were."""
        with self._lock:
            return len(self._by_place.pop(_place(scope, owner), {}))

    def find(self, name: str, *, session: str | None = None, agent: str | None = None) -> Tool[Any, Any]:
        """The tool that a name stands for, here: of the agent, else of the session, else of the run, else the default one.

        Args:
            name: The name, as it is written or as providers are told it.
            session: For which session. Default: none.
            agent: For which agent. Default: none.

        Raises:
            DefinitionError: There is none; the text names those that are alike.
        """
        tools = self.tools(session=session, agent=agent)
        for one in tools:
            if name in (one.name, one.wire_name):
                return one
        raise unknown_tool(name, [one.name for one in tools])

    def tools(self, *, session: str | None = None, agent: str | None = None) -> tuple[Tool[Any, Any], ...]:
        """All tools that there are here, one a name, in the order that they were registered in, the widest scope first. Arguments as for `find`."""
        found: dict[str, Tool[Any, Any]] = {}
        for scope in SCOPES:
            owner = session if scope == "session" else agent if scope == "agent" else None
            if scope in _OWNED and owner is None:
                continue
            found.update((one.wire_name, one) for one in self._by_place.get((scope, owner), {}).values())
        return tuple(found.values())

    def choose(self, names: str | Iterable[str], *, session: str | None = None, agent: str | None = None) -> tuple[Tool[Any, Any], ...]:
        """Some of them, by name, in the order asked for.

        Args:
            names: The names; or the answer of a model that was to choose, a JSON text, perhaps in a code fence: `["search"]` or `{"tools": [{"name": "search"}]}`. Names
                that differ in upper and lower case only are the same, where but one tool is meant.
            session, agent: As for `find`.

        Raises:
            DefinitionError: The text is none of the two, or a name is unknown.
        """
        wanted = _names_in(names) if isinstance(names, str) else list(names)
        tools = self.tools(session=session, agent=agent)
        found: dict[str, Tool[Any, Any]] = {}
        for name in wanted:
            if not isinstance(name, str):
                raise DefinitionError(f"tools are chosen by name, a str, and there is an object of type {type(name).__name__}")
            exact = [one for one in tools if name in (one.name, one.wire_name)]
            alike = exact or [one for one in tools if name.casefold() in (one.name.casefold(), one.wire_name.casefold())]
            if len(alike) != 1:
                raise unknown_tool(name, [one.name for one in tools])
            found[alike[0].name] = alike[0]
        return tuple(found.values())

    def entries(self) -> tuple[RegisteredTool, ...]:
        """Everything that is registered, the widest scope first."""
        places = sorted(self._by_place.items(), key=lambda item: (SCOPES.index(item[0][0]), item[0][1] or ""))
        return tuple(RegisteredTool(one, scope, owner) for (scope, owner), there in places for one in there.values())

    def __tools__(self) -> tuple[Tool[Any, Any], ...]:
        """What it stands for among an agent's tools: those of the first two scopes."""
        return self.tools()

    def __len__(self) -> int:
        return sum(map(len, tuple(self._by_place.values())))

    def __contains__(self, name: object) -> bool:
        return any(name in (one.name, one.wire_name) for one in self.tools())

    def __repr__(self) -> str:
        return f"<ToolRegistry of {len(self)} tools>"


def unknown_tool(name: str, known: Iterable[str], where: str = "") -> DefinitionError:
    """What is said of a name that stands for no tool, with those that it may have been meant for."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 3, 0.6) or [one for one in names if one.casefold() == name.casefold()]
    meant = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"There {'are' if len(names) != 1 else 'is'} {_listed(names)}."
    return DefinitionError(f"there is no tool {name[:80]!r}{where}. {meant}")


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _place(scope: ToolScope, owner: str | None) -> tuple[ToolScope, str | None]:
    if scope not in SCOPES:
        raise DefinitionError(f"scope={scope!r}: one of {', '.join(SCOPES)}")
    if scope in _OWNED and not (isinstance(owner, str) and owner):
        raise DefinitionError(f"a tool in the scope {scope!r} belongs to somebody: owner='NAME' of the {scope}")
    if scope not in _OWNED and owner is not None:
        raise DefinitionError(
            f"owner={owner!r}: a tool in the scope {scope!r} belongs to nobody; the scopes with owners are session and agent"
        )
    return scope, owner


def _names_in(text: str) -> list[Any]:
    """The names in a model's answer."""
    fenced = _FENCE.fullmatch(text)
    try:
        data: Any = json.loads(fenced[1] if fenced is not None else text)
        if isinstance(data, Mapping) and set(data) == {"tools"}:
            data = data["tools"]
        if isinstance(data, list):
            return [one["name"] if isinstance(one, Mapping) and set(one) == {"name"} else one for one in data]
    except (ValueError, RecursionError):
        pass
    raise DefinitionError(
        f'tools are chosen by a list of names, or by JSON that is one: ["search"] or {{"tools": [{{"name": "search"}}]}}, and not by {text[:80]!r}'
    )
