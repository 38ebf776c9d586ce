"""What is addressed: an actor that hands each message to the session it belongs to, and never waits for anything itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from retinue.actors.agents.errors import BadInput, NoSuchRun, RunCancelled
from retinue.actors.agents.inputs import MAX_SESSION, checked_session
from retinue.actors.agents.keeping import Keeper
from retinue.actors.agents.keys import Vouchers, session_key, session_of
from retinue.actors.agents.leaving import leave_all
from retinue.actors.agents.message import (
    AgentEvent,
    AgentMessage,
    Cancel,
    ClearMemory,
    Describe,
    GetMemory,
    GetState,
    LoadState,
    Resume,
    Run,
    StreamRun,
)
from retinue.actors.agents.session import memory_of, no_agents_within, session_named
from retinue.actors.agents.specs import AgentSpec
from retinue.actors.agents.views import state_dict
from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.coercing import TakesText
from retinue.actors.runtime.current import current
from retinue.actors.runtime.watch import StopReason
from retinue.mailbox.messages import Message
from retinue.security.errors import DefinitionError, Denied

if TYPE_CHECKING:
    from retinue.actors.runtime.interrupting import Interrupter
    from retinue.actors.runtime.virtual import Virtual

__all__ = ["IDLE", "SESSIONS", "Front"]

SESSIONS: Final = 100_000
"""Sessions that an agent remembers, unless it is told otherwise."""

IDLE: Final = 900.0
"""Seconds after which a session's actor rests; what it remembers stays."""

AT_ONCE: Final = 1_000
"""Sessions that may be at work at the same time, however few are remembered."""

NO_RUN: Final = ". Where that is None, nobody has parked one: send the message once more, with approvals=[token]"


class Front(Actor, TakesText[AgentMessage, AgentEvent]):
    """What agents and teams of agents have in common. Derive from `Agent` or `Team`, not from this.

    Args:
        sessions: How many sessions are remembered.
        idle: Seconds after which the actor of a session that is not used rests.
    """

    def __init__(self, sessions: int | Keeper = SESSIONS, idle: float = IDLE) -> None:
        kind = type(self).__name__
        self._goes_on = isinstance(sessions, Keeper)  # with what it remembers, where it is restarted
        if isinstance(sessions, Keeper):  # a member that was edited goes on with what it remembers
            self._keeper = sessions
        elif isinstance(sessions, bool) or not isinstance(sessions, int) or not 1 <= sessions <= 1_000_000:
            raise DefinitionError(f"{kind}(sessions={sessions!r:.100}): give how many sessions are remembered, 1 to 1,000,000")
        else:
            self._keeper = Keeper(sessions)
        if isinstance(idle, bool) or not isinstance(idle, int | float) or not idle > 0:
            raise DefinitionError(
                f"{kind}(session_idle={idle!r:.100}): give seconds, more than 0, or math.inf for sessions that never rest"
            )
        self._running: dict[str, Interrupter] = {}
        self._vouchers = Vouchers()
        # The last authority that asked, for which session of its own, and the key of that.
        self._found: tuple[Any, str, str] = (None, "", "")
        self._idle = idle
        self._path = ""
        self._sessions: Virtual[Any]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            if name in ("ask", "tell", "send"):
                raise AttributeError(
                    f"an instance of {kind} that was made by hand has no {name!r}: spawn it, and use the ref, `ref = await system.spawn({kind}, …)`"
                )
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    async def _open(self, session: type[Actor], shared: object) -> None:
        """Makes the place where the sessions live; in `on_start`."""
        self._path = self._keeper.user = self.ctx.path
        self._sessions = await self.ctx.spawn_virtual(
            session,
            shared,
            self._keeper,
            self._running,
            self._vouchers,
            name="sessions",
            idle=self._idle,
            capacity=max(self._keeper.most, AT_ONCE),
        )

    async def on_stop(self, reason: StopReason) -> None:
        """What people are asked for runs that are parked here is taken back: nobody goes on with them. Who overrides this calls it too."""
        keeper: Keeper | None = getattr(self, "_keeper", None)
        # At the system's end the desk sees to that for all of them at once.
        if keeper is None or reason is StopReason.SYSTEM or keeper.user != self._path or (self._goes_on and reason is StopReason.RESTART):
            return
        if keeper.parks or keeper.left:
            await leave_all(self.ctx, keeper)

    @classmethod
    def spec(cls, *arguments: Any, description: str = "", grant: Any = None, **options: Any) -> AgentSpec:
        """One that is not spawned yet, for a team to spawn as its member: `rt.Agent.spec(model=model, instructions="Be brief.", description="writes drafts")`.

        Args:
            arguments, options: What its constructor takes.
            description: What it is good for, as whoever chooses among the members is told.
            grant: As in `spawn`: within this it works, whoever asks.

        Raises:
            DefinitionError: Its constructor does not take these.
        """
        return AgentSpec(cls, arguments, options, description, grant)

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
        security, name, key = self._found
        session = message.session
        if current().security is not security or session.__class__ is not str or session != name:
            key = self._key(session)
        self.ctx.forward(self._sessions[key], message)

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
            raise BadInput(f"{self._path}: GetMemory(recent={recent!r:.100}): give a number of messages, 0 or more, or None for all")
        key, own = self._keys(message)
        if key == own:
            self.ctx.forward(self._sessions[key], message)
            return None
        self._alone(message.path)
        return memory_of(self._keeper.get(key), recent)

    @handler(raises=Exception, open_to_all=True)
    def clear_memory(self, message: ClearMemory) -> Any:
        """Forget a session."""
        if message.subject is None and message.tenant is None:
            self.ctx.forward(self._sessions[self._key(message.session)], message)
        else:
            self._hand_on(message)

    @handler(raises=Exception, open_to_all=True)
    def get_state(self, message: GetState) -> Any:
        """A session as plain data."""
        key, own = self._keys(message)
        if key == own:
            self.ctx.forward(self._sessions[key], message)
            return None
        self._alone(message.path)
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
            return running(RunCancelled(f"{self._path}: the run in session {session!r} was cancelled; memory is as it was before it"))
        if key != self._key(session):
            self._vouchers.leave(key, message)
        self.ctx.forward(self._sessions[key], message)
        return None

    @handler(raises=Exception, open_to_all=True)
    def describe(self, message: Describe) -> Any:  # noqa: ARG002
        """What it is made of."""
        return type(self).__name__

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

    def _alone(self, path: str) -> None:
        """Nobody is in an agent but itself. Raises UnknownStateKey for the key path of anybody else."""
        if path:
            raise no_agents_within(self._path, path)

    # -- whose session -------------------------------------------------------------------------------------------------------------------------------

    def _key(self, session: object, subject: str | None = None, tenant: str | None = None) -> str:
        """The key of a subject's session. Raises BadInput, and Denied for somebody else's."""
        security, known, key = self._found
        if subject is None and tenant is None and current().security is security and session.__class__ is str and session == known:
            return key
        security = self.ctx.security
        name = checked_session(session, self._path)
        owner, of = security.subject, security.tenant
        if subject is not None or tenant is not None:
            for what, value in (("subject", subject), ("tenant", tenant)):
                if value is not None and not isinstance(value, str):
                    raise BadInput(f"{self._path}: {what}= is a {type(value).__name__}: give a text, or leave it out")
            if not self.ctx.is_root and (subject not in (None, owner) or tenant not in (None, of)):
                error = Denied(
                    f"{self._path}: only the system's own root authority may look into a session of another subject; leave subject= and tenant= out",
                    path=self._path,
                    subject=owner,
                    reason="subject",
                )
                raise self.ctx.refusal(error)
            if self.ctx.is_root:
                owner, of = subject or owner, tenant or (of if subject is None else None)
            return session_key(name, owner, of)
        key = session_key(name, owner, of)
        self._found = security, name, key
        return key

    def _session_of(self, run: object) -> str:
        session = session_of(run) if isinstance(run, str) else ""
        if not 1 <= len(session) <= MAX_SESSION:
            shown = repr(run)[:200]
            raise NoSuchRun(
                f"{self._path}: {shown} is no run's id: give the ApprovalRequired that an agent or a team has raised, or its run{NO_RUN if run is None else ''}",
                run=shown,
            )
        return session
