"""Agents as tools: a model asks another agent by a tool call, and its answer is the call's result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.definition import AGENT, Seat
from retinue.actors.agents.message import TIMEOUT, AgentMessage
from retinue.actors.agents.names import own_name
from retinue.actors.agents.specs import AgentSpec, can_be_sent
from retinue.actors.runtime.actor import Actor, handler, handlers_of
from retinue.actors.runtime.errors import NameTaken
from retinue.actors.runtime.ref import Ref
from retinue.actors.tools.executor import spawn_executor
from retinue.capabilities.tool_context import ToolContext
from retinue.capabilities.tool_results import ToolResult
from retinue.capabilities.tools import OPTIONS, Tool, tool
from retinue.security.errors import DefinitionError
from retinue.security.spelling import misspelt

if TYPE_CHECKING:
    from retinue.actors.runtime.context import ActorContext
    from retinue.capabilities.artifacts import ArtifactStore
    from retinue.mailbox.messages import Request

__all__ = ["agent_tool", "seat_of"]

OWN: Final = ("model", "sessions")
"""Names of children that an agent has besides."""

LONGEST_NAME: Final = 128
"""Characters of an actor's name."""

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)


def agent_tool(
    agent: Ref[Any] | AgentSpec | Any, *, name: str | None = None, description: str | None = None, timeout: float = TIMEOUT, **options: Any
) -> Tool[Any, Any]:
    """A tool by which a model asks an agent or a team: `tools=[rt.agent_tool(historian, description="Knows history.")]`.

    It has one parameter, `message`. The agent is asked in the session of the same name as that of the agent whose model calls the tool, under the authority of whoever asked
    that one, so with what is left of the same budget. A consent that it needs parks the outer run, which goes on with `rt.Resume`; its events are told as `FromMember`.

    Args:
        agent: Its ref; or a spec, then the agent that has the tool spawns it as its child.
        name: The tool's name. Default: "ask_" and the agent's name; a spec needs one.
        description: What the agent is good for, for the model. Default: the spec's.
        timeout: Seconds that it may take; default 600.
        options: Others of `rt.tool`: requires, approval, risk, four_eyes, output_limit, concurrency.

    Raises:
        DefinitionError: It cannot be such a tool.
    """
    spec = agent if isinstance(agent, AgentSpec) else None
    core: Any = getattr(agent, "core", agent)  # a twin's ref
    if spec is None and not isinstance(core, Ref):
        given = (
            f"the class {agent.__name__}: {agent.__name__}.spec(…)"
            if isinstance(agent, type)
            else f"an object of type {type(agent).__name__}"
        )
        raise DefinitionError(f"agent_tool takes an agent's ref, or a spec such as rt.Agent.spec(model=…), not {given}")
    if spec is None and not can_be_sent(core, AgentMessage):
        raise DefinitionError(
            f"agent_tool takes an agent's ref: {core.path} ({core._cell.spec.cls.__qualname__}) takes no rt.AgentMessage. A tool of any other actor is a function that asks "
            "it by rt.ToolContext"
        )
    unknown = [option for option in options if option not in OPTIONS]
    if unknown:
        raise misspelt("agent_tool", unknown, ("name", "description", *OPTIONS))
    if name is None:
        if spec is not None:
            raise DefinitionError('agent_tool(spec): a spec has no name: agent_tool(spec, name="ask_historian")')
        name = f"ask_{_ODD.sub('_', own_name(core.path))}"[:64]
    if description is None:
        description = spec.description if spec is not None else ""
    if not description:
        description = f"Asks the agent {name.removeprefix('ask_')!r}, and gives its answer."

    async def ask_agent(message: str, context: ToolContext) -> str:
        """Asks another agent.

        Args:
            message: What to ask, with all that it needs to know.
        """
        if spec is not None:
            raise DefinitionError(f"the tool {context.tool!r} stands for a spec, which is spawned by the agent that it is given to")
        return content_text((await context.ask(core, AgentMessage(message))).content)

    setattr(ask_agent, AGENT, spec or core)
    return tool(name=name, description=description, timeout=timeout, **options)(ask_agent)


async def seat_of(ctx: ActorContext, tool: Tool[Any, Any], artifacts: ArtifactStore, *, spawns: bool = True) -> Seat:
    """A tool with the actors that carry it out, as children of the actor whose context it is.

    Raises:
        DefinitionError: It stands for an agent that is to be spawned, and `spawns` says that nobody stays here for whom it would be.
    """
    agent = getattr(tool.function, AGENT, None)
    if agent is None:
        return Seat(tool, await spawn_executor(ctx, tool, name=f"tool-{tool.name}", artifacts=artifacts))
    if isinstance(agent, AgentSpec):
        if not spawns:
            raise DefinitionError(
                f"the tool {tool.name!r} of a single run stands for an agent that is not spawned yet, and would forget everything at its end: spawn it, and give its ref"
            )
        agent = await _spawned(ctx, agent, tool.wire_name)
    return Seat(tool, await ctx.spawn(_gate(tool), name=f"tool-{tool.name}"), agent)


async def _spawned(ctx: ActorContext, spec: AgentSpec, wire_name: str) -> Ref[Any]:
    spec = _cores(spec)
    name = wire_name.removeprefix("ask_") or wire_name
    if name not in OWN:
        try:
            return await spec.spawn(ctx, name)
        except NameTaken:  # by another such tool: "ask_a" beside "a"
            pass
    return await spec.spawn(ctx, f"{name}~~{wire_name}"[:LONGEST_NAME])  # it signs with what stands before the mark


def _cores(value: Any) -> Any:
    """The value with the actors' own refs in the place of a twin's: what a tool is made with goes by no twin."""
    core = getattr(value, "core", None)
    if isinstance(core, Ref):
        return core
    kind = value.__class__
    if kind in (list, tuple, set, frozenset):
        return kind(_cores(one) for one in value)
    if kind is dict:
        return {key: _cores(one) for key, one in value.items()}
    within = getattr(kind, "__with_refs__", None)
    return value if within is None else within(value, _cores)


def _gate(tool: Tool[Any, Any]) -> type[Actor]:
    """The class of an actor that says whether a call of the tool may be: the gate before it decides, as before any tool's executor. Who is asked then, the session asks."""

    def call(self: Any, message: Request[ToolResult]) -> ToolResult:  # noqa: ARG001
        return _MAY_BE

    call.__qualname__ = f"{tool.name}.call"
    call.__annotations__ = {"message": tool.message, "return": ToolResult}
    marked = handler(requires=tool.requires, risk=tool.risk, approval=tool.approval, four_eyes=tool.four_eyes)(call)
    made = type(f"Gate of {tool.name}", (Actor,), {"call": marked, "__module__": __name__, "__doc__": f"Before {tool.name!r}."})
    handlers_of(made)[tool.message].define(tool.definition)
    return made


_MAY_BE: Final = ToolResult(True, "")
