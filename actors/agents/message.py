"""What is said to an agent, what it answers, and what its memory holds.

Everything here is data. `AgentMessage` is the one type that agents exchange; the other messages ask for a run with options, for one that
goes on after a decision, or for a session's memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.events import ApprovalNeeded, HandedOff, Notice, ReasoningDelta, TextDelta, ToolFinished, ToolStarted, UsageSoFar
from retinue.actors.agents.handoffs import Handoff, handoffs_of
from retinue.actors.agents.teams.tree_limits import TreeLimits
from retinue.actors.llm.messages import ToolCall
from retinue.actors.llm.usage import Usage
from retinue.capabilities.tool_results import ToolErrorKind
from retinue.mailbox.constructors import quicken
from retinue.mailbox.messages import Request, Stream, message
from retinue.security.errors import DefinitionError, RetinueError
from retinue.security.spelling import names_the_nearest

if TYPE_CHECKING:
    from retinue.actors.agents.errors import RunParked
    from retinue.security.errors import ApprovalRequired

__all__ = [
    "LIMITS",
    "AgentEvent",
    "AgentMessage",
    "Cancel",
    "ClearMemory",
    "Describe",
    "FromMember",
    "GetMemory",
    "GetState",
    "LoadState",
    "Memory",
    "Resume",
    "Run",
    "RunEnd",
    "RunLimits",
    "Step",
    "StepKind",
    "StreamRun",
    "innermost",
]

TIMEOUT = 600.0
"""Seconds that a run may take, unless the asker says otherwise."""

StepKind = Literal["tool_calls", "tool_result", "attempt", "correction"]
"""What a step of a run is: the model's reply that calls tools; the result of one call; an answer of the model that was not taken; what
the model was told about it."""


@message(name="retinue/AgentMessage@1", timeout=TIMEOUT)
class AgentMessage(Request["AgentMessage"], Stream["AgentEvent"]):
    """What agents exchange: asked, an agent answers with one; streamed, it answers with events. A plain str given to an agent becomes one.

    Attributes:
        content: What is said; mostly a str.
        sender: Who says it: "user" (the default), or the name of an agent.
        formatted: What a parser or an output type made of `content`.
        session: The conversation it belongs to; default "0". Another subject's session of the same name is another one.
        type: Free for the program.
        receiver: Free for the program.
        extra: Free for the program: JSON-like values.
        usage: Of an answer: what the run used in all; None of any other message.
        partial: Whether the run ended before the answer was complete.
    """

    content: Any
    sender: str = "user"
    formatted: Any = None
    session: str = "0"
    type: str | None = None
    receiver: str | None = None
    extra: Mapping[str, Any] | None = None
    usage: Usage | None = None
    partial: bool = False

    @property
    def text(self) -> str:
        """What is said, as a model is shown it: `content` where that is a str, "" for None, other data as JSON."""
        content = self.content
        return content if content.__class__ is str else content_text(content)


@attrs.frozen
class RunEnd:
    """The end of a streamed run that has an answer.

    Attributes:
        message: The answer.
    """

    message: AgentMessage


@attrs.frozen
class FromMember:
    """What an agent within says: a member of a team, or an agent that is asked as a tool. It nests.

    Attributes:
        member: Its name.
        event: What it says; of its `RunEnd`, too, which is not the end of the stream.
    """

    member: str
    event: AgentEvent


AgentEvent: TypeAlias = (
    TextDelta | ReasoningDelta | ToolStarted | ToolFinished | ApprovalNeeded | UsageSoFar | Notice | HandedOff | FromMember | RunEnd
)
"""What comes out of a streamed run."""


def innermost(event: AgentEvent) -> tuple[tuple[str, ...], AgentEvent]:
    """Who says an event, and the event itself: the names of the members from the outermost to the innermost, () for whoever was streamed.

    Raises DefinitionError for what is no event of an agent's stream.
    """
    path: list[str] = []
    while isinstance(event, FromMember):
        path.append(event.member)
        event = event.event
    if not isinstance(event, AgentEvent):
        raise DefinitionError(f"innermost was given a {type(event).__name__}: give an event of agent.stream(…)")
    return tuple(path), event


LIMITS: Final = ("model_calls", "tool_calls", "bad_calls", "repeated_calls", "tokens", "cost_micro_usd", "seconds")


@names_the_nearest
@attrs.frozen(kw_only=True)
class RunLimits:
    """How much one run may use. Over a limit it ends with `RunLimitReached`. None: no limit.

    Attributes:
        model_calls: Requests to the model; default 25.
        tool_calls: Tool calls; default 100.
        bad_calls: Tool calls that could not be carried out as the model wrote them; default 10.
        repeated_calls: The same call of a tool with the same result, so many times: the next one is not run, and the model is told; goes it on, the run ends.
            Default 3.
        tokens: Tokens of all requests and answers together; default none.
        cost_micro_usd: Millionths of a US dollar; default none. A model whose price is unknown is refused under this limit.
        seconds: Seconds, the waiting for tools included; default none (the asker's own deadline holds besides).
    """

    __immutable__ = True

    model_calls: int | None = 25
    tool_calls: int | None = 100
    bad_calls: int | None = 10
    repeated_calls: int | None = 3
    tokens: int | None = None
    cost_micro_usd: int | None = None
    seconds: float | None = None

    def __attrs_post_init__(self) -> None:
        for name in LIMITS:
            value = getattr(self, name)
            if value is None:
                continue
            kinds = (int, float) if name == "seconds" else int
            least = 2 if name == "repeated_calls" else 1 if name == "model_calls" else 0
            if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value < 2**63:
                raise ValueError(f"RunLimits({name}={value!r}): give a number, {least} or more, or None for no limit")


def _tools(tools: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(tools, str | bytes) or not isinstance(tools, Iterable):
        raise TypeError(f"Run.tools is a {type(tools).__name__}: give a sequence of tools, Run(message, tools=[get_weather])")
    return tuple(tools)


@names_the_nearest
@message(name="retinue/Run@1", timeout=TIMEOUT)
class Run(Request[AgentMessage], Stream["AgentEvent"]):
    """An `AgentMessage` (or a str) with options that hold for this run only.

    Attributes:
        message: What is said; a str is that of a user in session "0".
        tools: Tools that the agent has besides its own while this run lasts.
        limits: `RunLimits`: the lower of these and the agent's own. Or `TreeLimits`, for the run together with all that it sets going.
        wait_for_approvals: Whether the run waits where a tool call needs a person's approval, instead of being parked; None (the
            default): as the agent was made.
        handoffs: To whom this run may hand the conversation over (`Handoff`, or a name): its model sees a tool for each. The answer that does so is of the type
            "handoff": `receiver` is the target, `content` what is said to it, `extra["reason"]` why.
        exit_at: Of an `rt.Sequential`: the last stage of this run, by name or number (from 0; from the number of stages on, it begins again). None: as it was made.
    """

    message: AgentMessage | str
    tools: tuple[Any, ...] = attrs.field(default=(), converter=_tools)
    limits: RunLimits | TreeLimits | None = None
    wait_for_approvals: bool | None = None
    handoffs: tuple[Handoff, ...] = attrs.field(default=(), converter=handoffs_of)
    exit_at: int | str | None = None

    if TYPE_CHECKING:  # what the converters take: not every checker looks there

        def __init__(
            self,
            message: AgentMessage | str,
            tools: Iterable[Any] = (),
            limits: RunLimits | TreeLimits | None = None,
            wait_for_approvals: bool | None = None,
            handoffs: Iterable[Handoff | str] = (),
            exit_at: int | str | None = None,
        ) -> None: ...


def _run_of(run: Any) -> Any:
    return getattr(run, "run", None) if isinstance(run, RetinueError) else run


@message(name="retinue/Resume@1", timeout=TIMEOUT)
class Resume(Request[AgentMessage], Stream["AgentEvent"]):
    """Go on with a run that was parked, after (some of) its tool calls were decided upon.

    Attributes:
        run: The run's id, as `ApprovalRequired.run` gives it; or that error itself, or the `RunParked`.
        wait_for_approvals: As for `Run`.
    """

    run: str = attrs.field(converter=_run_of)
    wait_for_approvals: bool | None = None

    if TYPE_CHECKING:  # `ApprovalRequired.run` is None where no agent asks, which the agent that is to go on with it says

        def __init__(self, run: str | ApprovalRequired | RunParked | None, wait_for_approvals: bool | None = None) -> None: ...


@message(timeout=TIMEOUT)
class StreamRun(Stream[AgentEvent]):
    """What a streamed `AgentMessage`, `Run` or `Resume` becomes on its way; `agent.stream(…)` makes it.

    Attributes:
        request: What was streamed.
    """

    request: AgentMessage | Run | Resume


@attrs.frozen
class Step:
    """What happened between a message and its answer; kept in memory, shown to the model, and no message of anybody's.

    Attributes:
        kind: See `StepKind`.
        text: What the model said, what the tool gave back, or what the model was told.
        ok: Whether the tool call was carried out.
        call_id: Of a tool result: the id of its call.
        tool: Of a tool result: the tool's name.
        calls: Of "tool_calls": the calls, in order.
        error: Why `ok` is False; see `ToolErrorKind`.
        turn: The number of the run in its session, from 1.
        reasoning: What the model thought, where it says.
    """

    __immutable__ = True

    kind: StepKind
    text: str = ""
    ok: bool = True
    call_id: str | None = None
    tool: str | None = None
    calls: tuple[ToolCall, ...] = ()
    error: ToolErrorKind | None = None
    turn: int = 0
    reasoning: str | None = None


quicken(Step)


@attrs.frozen
class Memory:
    """What a session remembers.

    Attributes:
        items: Everything, in order.
        messages: The messages among them.
        steps: The steps among them.
    """

    __immutable__ = True

    items: tuple[AgentMessage | Step, ...] = ()

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The messages, in order."""
        return tuple(item for item in self.items if isinstance(item, AgentMessage))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps, in order."""
        return tuple(item for item in self.items if isinstance(item, Step))


@message(name="retinue/GetMemory@1")
class GetMemory(Request[Memory]):
    """What does a session remember?

    Attributes:
        session: The session; default "0". One that was never used remembers nothing.
        recent: Only the last so many messages, with the steps after the first of them; default all.
        subject: Whose session; only for the system's root authority. Default: the caller's own.
        tenant: Of which tenant; as `subject`.
        path: The key path of an agent within a team ("writer", "kids.0"); default: the one that is asked itself.
    """

    session: str = "0"
    recent: int | None = None
    subject: str | None = None
    tenant: str | None = None
    path: str = ""


@message(name="retinue/ClearMemory@1")
class ClearMemory(Request[None]):
    """Forget a session: what it remembers and what is parked in it. See `GetMemory` for the other attributes.

    Attributes:
        recursive: Whether all agents within forget it, too. Not with `path`.
    """

    session: str = "0"
    subject: str | None = None
    tenant: str | None = None
    path: str = ""
    recursive: bool = False


@message(name="retinue/GetState@1")
class GetState(Request[dict[str, Any]]):
    """A session's memory as plain data by key path (`{"memory": [...], "writer.memory": [...]}`), for `LoadState`. See `GetMemory` for the attributes."""

    session: str = "0"
    subject: str | None = None
    tenant: str | None = None
    path: str = ""


@message(name="retinue/LoadState@1")
class LoadState(Request[None]):
    """Put a session's memory in the place of what it remembers: all of it, or nothing where anything is wrong with it. A parked run is given up.

    Attributes:
        state: As `GetState` gives it.
        session, subject, tenant, path: See `GetMemory`.
    """

    state: Mapping[str, Any]
    session: str = "0"
    subject: str | None = None
    tenant: str | None = None
    path: str = ""


@message(name="retinue/Cancel@1")
class Cancel(Request[bool]):
    """End what a session is doing, now; it gives whether there was anything. Its asker gets `RunCancelled`, and memory is as before the run.

    Attributes:
        session: The session; default "0".
        run: Instead: a parked run, which is given up.
        subject, tenant: See `GetMemory`.
    """

    session: str = "0"
    run: str | None = None
    subject: str | None = None
    tenant: str | None = None


@message(name="retinue/Describe@1")
class Describe(Request[str]):
    """What an agent or a team is made of: an indented tree, a line for each.

    Attributes:
        levels: How many levels of teams are looked into, 0 to 32; default 16.
        within: The paths of the teams that ask this of their members, the outermost first: one of them is not looked into once more.
    """

    levels: int = 16
    within: tuple[str, ...] = ()
