"""What an agent is, made ready once: everything that its sessions share and none of them changes."""

from __future__ import annotations

import difflib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from retinue.actors.agents.handoffs import PREFIX
from retinue.actors.llm.messages import ChatMessage, Complete, ToolSpec
from retinue.capabilities.artifacts import ArtifactStore, reader_tool
from retinue.capabilities.tools import Tool, tool_of
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.aggregators import Aggregator, Conversation
    from retinue.actors.agents.guarding import Guards
    from retinue.actors.agents.handing_over import Offer
    from retinue.actors.agents.hooks import Hooks
    from retinue.actors.agents.message import RunLimits
    from retinue.actors.agents.output import OutputType
    from retinue.actors.llm.deployment import Deployment
    from retinue.actors.runtime.ref import Ref

__all__ = ["READ", "Asking", "Definition", "Seat", "ToolBox", "checked_asking", "spec_of", "tools_of"]

READ: Final = "read_result"
"""The tool by which the model reads on in an output that was too long for it. No other tool may have its name."""

SHOWN: Final = 50
"""Names of tools that the text about an unknown one lists."""

AGENT: Final = "__retinue_agent__"
"""On the function of a tool that stands for an agent: the agent."""


class Seat:
    """A tool and the actor that carries it out; or, where the tool stands for an agent, the actor whose gate decides, and the agent."""

    __slots__ = ("agent", "executor", "tool")

    def __init__(self, tool: Tool[Any, Any], executor: Ref[Any], agent: Ref[Any] | None = None) -> None:
        self.tool = tool
        self.agent = agent
        self.executor: Any = executor  # what it takes and gives is the tool's


class ToolBox:
    """The tools of a run.

    Attributes:
        seats: Them by name; each under its provider's name as well.
        specs: What the model is told of them.
        names: Their names.
        request: A request with them, of no conversation, to make others from; None until there was one.
    """

    __slots__ = ("names", "request", "seats", "specs")

    def __init__(self, seats: Iterable[Seat]) -> None:
        self.request: Complete | None = None
        self.seats: dict[str, Seat] = {}
        self.names: list[str] = []
        specs = []
        for seat in seats:
            tool = seat.tool
            self.seats[tool.wire_name] = self.seats[tool.name] = seat
            self.names.append(tool.name)
            specs.append(spec_of(tool))
        self.specs = tuple(specs)

    def with_more(self, seats: Iterable[Seat]) -> ToolBox:
        """These tools and others."""
        own = {id(seat): seat for seat in self.seats.values()}
        return ToolBox([*own.values(), *seats])

    def unknown(self, name: str, more: Iterable[str] = ()) -> str:
        """What a model is told that calls a tool that is not there; there are `more` that are no tools of the box."""
        names = [*self.names, *more]
        if not names:
            return f"there is no tool {_shown(name)}: there are none here, answer without"
        near, why, or_else = difflib.get_close_matches(name[:100], names, 1), "", ""
        if name.startswith(PREFIX) and any(
            each.startswith(PREFIX) for each in more
        ):  # what all handoffs begin with makes none of them like another
            near = [
                PREFIX + each
                for each in difflib.get_close_matches(name[len(PREFIX) : 100], [each.removeprefix(PREFIX) for each in more], 1)
            ]
            why, or_else = " now: nobody of that name is at work to whom you may hand over", "; or go on yourself"
        meant = f" Did you mean {near[0]}?" if near else ""
        rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return f"there is no tool {_shown(name)}{why}.{meant} The tools are: {', '.join(names[:SHOWN])}{rest}{or_else}"


def spec_of(tool: Tool[Any, Any]) -> ToolSpec:
    """What a model is told of a tool."""
    name, description, parameters = tool.spec
    return ToolSpec(name, description, parameters, True if tool.strict else None)


class Asking:
    """How the model is asked: the fields of `Complete` that are the same in every request of an agent."""

    __slots__ = ("extra", "max_tokens", "parallel_tool_calls", "reasoning_effort", "seed", "stop", "temperature", "tool_choice")

    def __init__(
        self,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: tuple[str, ...] = (),
        seed: int | None = None,
        tool_choice: str | None = None,
        parallel_tool_calls: bool | None = None,
        reasoning_effort: str | None = None,
        extra: Mapping[str, Any] | str | None = None,
    ) -> None:
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.stop = stop
        self.seed = seed
        self.tool_choice = tool_choice
        self.parallel_tool_calls = parallel_tool_calls
        self.reasoning_effort = reasoning_effort
        self.extra = extra if extra is None or isinstance(extra, str) else json.dumps(dict(extra), ensure_ascii=False)


SAYS_NOTHING: Final = (ChatMessage("user", "-"),)
"""A conversation, for requests that are looked at before there is one."""


def checked_asking(tools: Iterable[str], own: Iterable[str], *, stop: Any = (), **fields: Any) -> Asking:
    """How an agent's model is to be asked, looked at before it ever is.

    Args:
        tools: The names of the agent's tools, as a model is told them.
        own: Those of the tools that every agent has.
        stop: As in `Complete`.
        fields: The others of `Complete`.

    Raises:
        DefinitionError: No request can have such fields: the text says which, and what would be right.
    """
    try:
        asking = Asking(stop=(stop,) if isinstance(stop, str) else tuple(stop), **fields)
        names = dict.fromkeys([*tools, *own])
        Complete(
            SAYS_NOTHING, asking.max_tokens, asking.temperature, asking.stop, asking.seed, tuple(ToolSpec(name) for name in names), asking.tool_choice, None,
            asking.parallel_tool_calls, asking.reasoning_effort, asking.extra,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        text = str(error).replace("Complete.", "Agent.").replace("no tool of the request", "no tool of the agent")
        raise DefinitionError(f"options of the agent: {text}") from None
    return asking


class Definition:
    """An agent, ready to be run. Immutable by agreement: a run holds its own state.

    Attributes:
        name: What it signs its answers with.
        path: Its address.
        model: The deployment that it asks.
        box: Its tools.
        instructions: Its instructions, or the function of a conversation that makes them.
        aggregate: Makes the model's messages of a conversation.
        parser: Finds tool calls in texts, for models that have no other way; or None.
        output: The type of its answers, or None for text.
        mode: How the model is told of that type: "tool", "native" or "prompted".
        hooks, guards: As they were compiled.
        phases, stages: Where hooks and guardrails stand at all.
        limits: How much a run may use.
        max_turns: How many model calls a run has by an option of that name; None where there is none, or another limit is lower.
        wait: Whether a run waits for approvals.
        asking: How the model is asked.
        reserved: Names that no tool may have, not one of a single run either.
        artifacts: Where outputs are that were too long for the model.
        told: The instructions as the model is told them, where they are always the same; None until they were.
        offer: The handoffs of the last run that had some, made ready.
    """

    __slots__ = (
        "_reader", "aggregate", "artifacts", "asking", "box", "guards", "hooks", "instructions", "limits", "max_turns", "mode", "model", "name", "offer", "output", "parser", "path", "phases", "reserved", "stages", "told", "wait",
    )  # fmt: skip

    name: str
    path: str
    model: Ref[Deployment]
    box: ToolBox
    instructions: str | Callable[[Conversation], str | Awaitable[str]]
    aggregate: Aggregator
    parser: Any
    output: OutputType[Any] | None
    mode: str
    hooks: Hooks
    guards: Guards
    phases: frozenset[str]
    stages: frozenset[str]
    reserved: tuple[str, ...]
    limits: RunLimits
    wait: bool
    asking: Asking
    artifacts: ArtifactStore
    _reader: Tool[Any, Any] | None

    def __init__(self) -> None:
        self.offer: Offer | None = None
        self.max_turns: int | None = None
        self._reader = None
        self.told: tuple[ChatMessage, ...] | None = None

    def reader(self) -> Tool[Any, Any]:
        """The tool by which a model reads on in an output that was too long. The session itself answers its calls: what it reads is the session's own."""
        if self._reader is None:
            self._reader = reader_tool(self.artifacts)
        return self._reader


def tools_of(given: Iterable[object], taken: Iterable[str] = ()) -> tuple[Tool[Any, Any], ...]:
    """The tools that a list stands for.

    Raises:
        DefinitionError: It is no list, holds what is no tool, or two tools of one name (`taken` are names that are in use already).
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DefinitionError(f"tools= is a {type(given).__name__}: give a list of functions, tools=[get_weather]")
    found: list[Tool[Any, Any]] = []
    names: dict[str, str] = dict.fromkeys(taken, "the agent's own")
    for one in given:
        for tool in tool_of(one):
            for name in {tool.name, tool.wire_name}:
                if name in names:
                    raise DefinitionError(
                        f"two tools are named {name!r}: {names[name]}, and {_where(tool)}. A model could not tell them apart: give one another name, "
                        f"@rt.tool(name=…), rt.agent_tool(agent, name=…)"
                    )
            names[tool.name] = names[tool.wire_name] = _where(tool)
            found.append(tool)
    return tuple(found)


def _where(tool: Tool[Any, Any]) -> str:
    function: Any = tool.function
    agent = getattr(function, AGENT, None)
    if agent is not None:
        return f"that for the agent {agent.path}" if hasattr(agent, "path") else f"that for {agent!r}"
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', tool.name)}"


def _shown(name: str) -> str:
    return repr(name if len(name) <= 100 else name[:100] + "…")
