"""The agent that people address: it hands each message to the session it belongs to, and never waits for anything itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from retinue.actors.agents.aggregators import Aggregator, Conversation, default_aggregator
from retinue.actors.agents.definition import READ, Definition, Seat, ToolBox, checked_asking, tools_of
from retinue.actors.agents.errors import BadInput, NoSuchRun, RunCancelled
from retinue.actors.agents.guarding import compile_guardrails
from retinue.actors.agents.hooks import compile_hooks
from retinue.actors.agents.inputs import MAX_SESSION, checked_session
from retinue.actors.agents.keeping import Keeper
from retinue.actors.agents.keys import Vouchers, session_key
from retinue.actors.agents.message import (
    AgentEvent,
    AgentMessage,
    Cancel,
    ClearMemory,
    GetMemory,
    GetState,
    LoadState,
    Resume,
    Run,
    RunLimits,
    StreamRun,
)
from retinue.actors.agents.output import TOOL_NAME, choose_mode, output_type
from retinue.actors.agents.parking import session_of
from retinue.actors.agents.phases import PHASES
from retinue.actors.agents.session import Session, memory_of, session_named
from retinue.actors.agents.views import state_dict
from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.coercing import TakesText
from retinue.actors.runtime.ref import Ref
from retinue.actors.tools.executor import spawn_executor
from retinue.capabilities.artifacts import ArtifactStore
from retinue.mailbox.messages import Message
from retinue.security.errors import DefinitionError, Denied
from retinue.security.guardrails import STAGES

if TYPE_CHECKING:
    from retinue.actors.agents.parsers import Parser
    from retinue.actors.llm.choose import Choice
    from retinue.actors.llm.deployment import Deployment
    from retinue.actors.runtime.interrupting import Interrupter
    from retinue.actors.runtime.virtual import Virtual

__all__ = ["Agent"]

SESSIONS: Final = 100_000
"""Sessions that an agent remembers, unless it is told otherwise."""

IDLE: Final = 900.0
"""Seconds after which a session's actor rests; what it remembers stays."""

AT_ONCE: Final = 1_000
"""Sessions that may be at work at the same time, however few are remembered."""


class Agent(Actor, TakesText[AgentMessage, AgentEvent]):
    """An agent: a model with instructions, tools and a memory for each subject's sessions.

        agent = await system.spawn(rt.Agent, model="openai:gpt-4.1", tools=[get_weather], name="agent")
        reply = await agent.ask("What is the weather in Paris?")

    It signs its answers with the last part of its path. Each session works on one message at a time; different sessions run concurrently. Whoever asks needs
    `model.complete`, and for each tool that is called its operation.

    Args:
        model: The deployment's ref; a text such as "openai:gpt-4.1", "local:smollm2" or "scripted:Hello!" (see `llm.model`); or what `llm.from_env()` chose.
        tools: Functions, tools and toolkits.
        instructions: What the agent is told to be; or a function of the conversation, plain or `async def`, that says so anew before each model call.
        output: The type of its answers (an attrs class, a dataclass, a pydantic model …), found in `AgentMessage.formatted`. None: text.
        output_mode: How the model is told of it: "tool", "native", "prompted"; None chooses.
        parser: Finds tool calls in the text of models that have no tool calling of their own.
        aggregator: Makes the model's messages of a conversation; default `default_aggregator`.
        hooks: See `compile_hooks`.
        guardrails: See `compile_guardrails`.
        limits: How much one run may use.
        wait_for_approvals: Whether a run waits where a person has to consent; default False: it is parked, and goes on with `Resume`.
        sessions: How many sessions are remembered; default 100,000. As many may be at work at once, and always 1,000.
        session_idle: Seconds after which an unused session's actor rests; default 900. Nothing is forgotten by that.
        max_tokens, temperature, stop, seed, tool_choice, parallel_tool_calls, reasoning_effort, extra: As in `llm.Complete`.

    Raises DefinitionError (to the spawner) for what cannot be an agent: it says which argument, and what would be right.
    """

    def __init__(
        self,
        *,
        model: Ref[Deployment] | Ref[Any] | Choice | str,
        tools: Iterable[object] = (),
        instructions: str | Callable[[Conversation], str | Awaitable[str]] = "",
        output: Any = None,
        output_mode: str | None = None,
        parser: Parser | None = None,
        aggregator: Aggregator = default_aggregator,
        hooks: Iterable[Any] = (),
        guardrails: Iterable[Any] = (),
        limits: RunLimits | None = None,
        wait_for_approvals: bool = False,
        sessions: int = SESSIONS,
        session_idle: float = IDLE,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Iterable[str] = (),
        seed: int | None = None,
        tool_choice: str | None = None,
        parallel_tool_calls: bool | None = None,
        reasoning_effort: str | None = None,
        extra: Mapping[str, Any] | str | None = None,
    ) -> None:
        if not isinstance(model, str | Ref):
            from retinue.actors.llm.choose import Choice

            if not isinstance(model, Choice):
                raise DefinitionError(
                    f'Agent(model=…) is a {type(model).__name__}: give a deployment\'s ref, llm.from_env(), or a text such as "openai:gpt-4.1"'
                )
        if not isinstance(instructions, str) and not callable(instructions):
            raise DefinitionError(
                f"Agent(instructions=…) is a {type(instructions).__name__}: give a str, or a function of the conversation"
            )
        if not callable(aggregator):
            raise DefinitionError(f"Agent(aggregator=…) is a {type(aggregator).__name__}: give a function of the conversation")
        if limits is not None and not isinstance(limits, RunLimits):
            raise DefinitionError(f"Agent(limits=…) is a {type(limits).__name__}: give rt.RunLimits(model_calls=10)")
        if isinstance(sessions, bool) or not isinstance(sessions, int) or not 1 <= sessions <= 1_000_000:
            raise DefinitionError(f"Agent(sessions={sessions!r}): give how many sessions are remembered, 1 to 1,000,000")
        self._model = model
        d = self._definition = Definition()
        d.guards = compile_guardrails(guardrails)
        d.reserved = (READ, TOOL_NAME) if output is not None and output is not str else (READ,)
        self._tools = d.guards.confirmed(tools_of(tools, d.reserved))
        d.guards.check_names(tool.name for tool in self._tools)
        d.instructions = instructions
        d.aggregate = aggregator
        d.parser = parser
        d.output = None if output is None or output is str else output_type(output)
        d.mode = output_mode or choose_mode(bool(self._tools), native=False)
        d.hooks = compile_hooks(hooks)
        d.phases = frozenset(phase for phase in PHASES if d.hooks.has(phase))
        d.stages = frozenset(stage for stage in STAGES if d.guards.has(stage))
        d.limits = limits or RunLimits()
        d.wait = wait_for_approvals
        d.artifacts = ArtifactStore()
        d.asking = checked_asking(
            (tool.wire_name for tool in self._tools),
            d.reserved,
            max_tokens=max_tokens,
            temperature=temperature,
            stop=stop,
            seed=seed,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            reasoning_effort=reasoning_effort,
            extra=extra,
        )
        self._keeper = Keeper(sessions)
        self._running: dict[str, Interrupter] = {}
        self._vouchers = Vouchers()
        self._idle = session_idle
        self._most = sessions
        self._sessions: Virtual[Session]

    async def on_start(self) -> None:
        """Starts the model where a text names it, an executor for each tool, and the place where the sessions live."""
        d, ctx = self._definition, self.ctx
        d.path = ctx.path
        d.name = ctx.path.rpartition("/")[2]
        if isinstance(self._model, Ref):
            d.model = self._model
        else:
            from retinue.actors.llm.naming import model
            from retinue.actors.llm.readiness import client_loaded

            if isinstance(self._model, str) and not self._model.startswith("scripted:"):
                await client_loaded()
            choice = model(self._model) if isinstance(self._model, str) else self._model
            d.model = await choice.spawn(ctx, name="model")
        d.box = ToolBox(
            [Seat(tool, await spawn_executor(ctx, tool, name=f"tool-{tool.name}", artifacts=d.artifacts)) for tool in self._tools]
        )
        self._sessions = await ctx.spawn_virtual(
            Session, d, self._keeper, self._running, self._vouchers, name="sessions", idle=self._idle, capacity=max(self._most, AT_ONCE)
        )

    @classmethod
    def coerce(cls, message: object, *, streamed: bool) -> Message | None:
        """A plain str is what a user says; what is streamed goes on in a form of its own."""
        if isinstance(message, str):
            message = AgentMessage(message)
        elif not isinstance(message, Message | type):
            raise BadInput(
                f"an agent was sent an object of type {type(message).__name__}: give a str, or rt.AgentMessage(content, session=…); it keeps the conversation itself, "
                "so only what is new is said"
            )
        if not streamed:
            return message if isinstance(message, AgentMessage) else None
        return StreamRun(message) if isinstance(message, AgentMessage | Run | Resume) else None

    # -- what is handed on ---------------------------------------------------------------------------------------------------------------------------

    # What these return is ignored: the session answers. What they raise is an answer, whatever it is: nothing that is said restarts an agent, and costs it its memory.

    @handler(raises=Exception, open_to_all=True)
    def answer(self, message: AgentMessage) -> Any:
        """A message for one of the sessions."""
        self.ctx.forward(self._sessions[self._key(message.session)], message)

    @handler(raises=Exception, open_to_all=True)
    def run_with(self, message: Run) -> Any:
        """The same, with options."""
        self.ctx.forward(self._sessions[self._key(session_named(message))], message)

    @handler(raises=Exception, open_to_all=True)
    def resume(self, message: Resume) -> Any:
        """A parked run goes on."""
        self.ctx.forward(self._sessions[self._key(self._session_of(message.run))], message)

    @handler(forwards=True, raises=Exception, open_to_all=True)
    def stream(self, message: StreamRun) -> Any:
        """Any of these, with a reader."""
        request = message.request
        session = self._session_of(request.run) if isinstance(request, Resume) else session_named(request)
        self.ctx.forward(self._sessions[self._key(session)], message)

    @handler(raises=Exception, open_to_all=True)
    def get_memory(self, message: GetMemory) -> Any:
        """What does a session remember?"""
        recent: object = message.recent
        if recent is not None and (isinstance(recent, bool) or not isinstance(recent, int) or recent < 0):
            raise BadInput(
                f"{self._definition.path}: GetMemory(recent={recent!r:.100}): give a number of messages, 0 or more, or None for all"
            )
        key, own = self._keys(message)
        if key == own:
            self.ctx.forward(self._sessions[key], message)
            return None
        return memory_of(self._keeper.get(key), recent)

    @handler(raises=Exception, open_to_all=True)
    def clear_memory(self, message: ClearMemory) -> Any:
        """Forget a session."""
        self._hand_on(message)

    @handler(raises=Exception, open_to_all=True)
    def get_state(self, message: GetState) -> Any:
        """A session as plain data."""
        key, own = self._keys(message)
        if key == own:
            self.ctx.forward(self._sessions[key], message)
            return None
        return state_dict(self._keeper.get(key).items)

    @handler(raises=Exception, open_to_all=True)
    def load_state(self, message: LoadState) -> Any:
        """A session from plain data."""
        self._hand_on(message)

    @handler(raises=Exception, open_to_all=True)
    def cancel(self, message: Cancel) -> Any:
        """Ends what a session is doing. It cannot be told by its own mailbox, which waits for just that."""
        session = self._session_of(message.run) if message.run is not None else message.session
        key = self._key(session, message.subject, message.tenant)
        running = self._running.get(key)
        if running is not None and message.run is None:
            return running(
                RunCancelled(f"{self._definition.path}: the run in session {session!r} was cancelled; memory is as it was before it")
            )
        if key != self._key(session):
            self._vouchers.leave(key, message)
        self.ctx.forward(self._sessions[key], message)
        return None

    def _hand_on(self, message: ClearMemory | LoadState) -> None:
        key, own = self._keys(message)
        if key != own:
            self._vouchers.leave(key, message)
        self.ctx.forward(self._sessions[key], message)

    def _keys(self, message: GetMemory | ClearMemory | GetState | LoadState) -> tuple[str, str]:
        """The key of the session that is meant, and that of the asker's own of this name. What is not its own, only root may name."""
        if message.subject is None and message.tenant is None:
            key = self._key(message.session)
            return key, key
        return self._key(message.session, message.subject, message.tenant), self._key(message.session)

    # -- whose session -------------------------------------------------------------------------------------------------------------------------------

    def _key(self, session: object, subject: str | None = None, tenant: str | None = None) -> str:
        """The key of a subject's session. Raises BadInput, and Denied for somebody else's."""
        name = checked_session(session, self._definition.path)
        security = self.ctx.security
        owner, of = security.subject, security.tenant
        if subject is not None or tenant is not None:
            if not self.ctx.is_root and (subject not in (None, owner) or tenant not in (None, of)):
                error = Denied(
                    f"{self._definition.path}: only the system's own root authority may look into a session of another subject; leave subject= and tenant= out",
                    path=self._definition.path,
                    subject=owner,
                    reason="subject",
                )
                raise self.ctx.refusal(error)
            if self.ctx.is_root:
                owner, of = subject or owner, tenant or (of if subject is None else None)
        return session_key(name, owner, of)

    def _session_of(self, run: object) -> str:
        session = session_of(run) if isinstance(run, str) else ""
        if not 1 <= len(session) <= MAX_SESSION:
            shown = repr(run)[:200]
            raise NoSuchRun(f"{self._definition.path}: {shown} is no run's id: give what ApprovalRequired.run says", run=shown)
        return session
