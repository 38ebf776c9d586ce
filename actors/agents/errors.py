"""The errors of the agents.

    AgentError
    ├── BadInput (ValueError)
    ├── RunLimitReached
    ├── RunCancelled
    ├── RunParked
    ├── NoSuchRun
    ├── HookBlocked
    ├── GuardrailBlocked
    ├── OutputInvalid (ValueError)
    ├── OutputRefused
    ├── HandoffLimit
    ├── RoutingFailed
    ├── TeamError
    │   ├── NoSuchMember (LookupError)
    │   ├── MemberPaused
    │   ├── TeamDiverged
    │   └── VoteUndecided
    └── BadState (ValueError)
        └── UnknownStateKey (KeyError)

A run that ends in one of these is never a success; what each says of the session's memory stands in its docstring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from retinue.security.errors import RetinueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from retinue.actors.llm.usage import Usage

__all__ = [
    "AgentError",
    "BadInput",
    "BadState",
    "GuardrailBlocked",
    "HandoffLimit",
    "HookBlocked",
    "MemberPaused",
    "NoSuchMember",
    "NoSuchRun",
    "OutputInvalid",
    "OutputRefused",
    "RoutingFailed",
    "RunCancelled",
    "RunLimitReached",
    "RunParked",
    "TeamDiverged",
    "TeamError",
    "UnknownStateKey",
    "VoteUndecided",
]


class AgentError(RetinueError):
    """The root of what goes wrong with an agent's run."""

    code: ClassVar[str] = "agent"


class BadInput(AgentError, ValueError):
    """What the agent was told cannot be a turn's input: empty, too large, of a type that no model takes. Nothing was remembered.

    Attributes:
        option: Which option of a `Run` is not for the one that was asked; "" where it is none of these.
        path: Who has refused it; "" where nobody says.
    """

    code: ClassVar[str] = "agent.input"

    def __init__(self, text: str = "", *, option: str = "", path: str = "") -> None:
        super().__init__(text)
        self.option = option
        self.path = path


class RunLimitReached(AgentError):
    """The run came to one of its limits and stopped; what it had done so far is in memory, marked partial. (Of a team's run nothing is in the team's own.)

    Attributes:
        limit: Which of the limits, by its name in `RunLimits` ("model_calls", "tokens", …); "tree." and a name in `TreeLimits`; "max_turns" of a talk.
        usage: What the run had used, where that is known.
        partial: What the model had said so far; "" where it had said nothing.
    """

    code: ClassVar[str] = "run.limit"

    def __init__(self, text: str, *, limit: str, usage: Usage | None = None, partial: str = "") -> None:
        super().__init__(text)
        self.limit = limit
        self.usage = usage
        self.partial = partial


class RunCancelled(AgentError):
    """The run was stopped by somebody who may stop it; nothing of it is in memory."""

    code: ClassVar[str] = "run.cancelled"


class RunParked(AgentError):
    """The session's last run waits for a person, so that it takes no new message: resume the run, or cancel it.

    Attributes:
        run: The run's id, for `Resume(run)`.
    """

    code: ClassVar[str] = "run.parked"

    def __init__(self, text: str, *, run: str | None = None) -> None:
        super().__init__(text)
        self.run = run


class NoSuchRun(AgentError):
    """There is no parked run of that id in the asker's session: it never was, has been resumed, was cancelled, or is another subject's."""

    code: ClassVar[str] = "run.unknown"

    def __init__(self, text: str, *, run: str | None = None) -> None:
        super().__init__(text)
        self.run = run


class HookBlocked(AgentError):
    """A hook blocked the run; nothing of the turn is in memory.

    Attributes:
        phase: The phase that the hook blocked ("before_run", …).
        hook: The hook's name.
        reason: What it gave as its reason; for a policy hook that failed, what kind of failure ("time-out", the exception's type), never its text.
    """

    code: ClassVar[str] = "hook.blocked"

    def __init__(self, text: str, *, phase: str = "", hook: str = "", reason: str = "") -> None:
        super().__init__(text)
        self.phase = phase
        self.hook = hook
        self.reason = reason


class GuardrailBlocked(AgentError):
    """A guardrail blocked what came in or what would have gone out; it is not in memory.

    Attributes:
        stage: "input", "tool" or "output".
        guardrail: The guardrail's name.
        reason: What it gave as its reason; it never holds the text that was blocked.
    """

    code: ClassVar[str] = "guardrail.blocked"

    def __init__(self, text: str, *, stage: str = "", guardrail: str = "", reason: str = "") -> None:
        super().__init__(text)
        self.stage = stage
        self.guardrail = guardrail
        self.reason = reason


class OutputInvalid(AgentError, ValueError):
    """The model's answer does not fit the agent's output type, and its corrections are used up; nothing of the turn is in memory.

    Attributes:
        problem: What is wrong, as the model was told it.
        attempts: How many answers were tried.
        answer: The last of them, as the model wrote it, where the output guardrails let it through.
    """

    code: ClassVar[str] = "output.invalid"

    def __init__(self, text: str, *, problem: str = "", attempts: int = 1, answer: str = "") -> None:
        super().__init__(text)
        self.problem = problem
        self.attempts = attempts
        self.answer = answer


class OutputRefused(AgentError):
    """The model refused to answer in the output type; nothing of the turn is in memory.

    Attributes:
        refusal: Its words.
    """

    code: ClassVar[str] = "output.refused"

    def __init__(self, text: str, *, refusal: str = "") -> None:
        super().__init__(text)
        self.refusal = refusal


class HandoffLimit(AgentError):
    """A conversation was handed about until one of the swarm's guards stopped it; the swarm remembers nothing of the run.

    Attributes:
        limit: Which of them, by its name in `HandoffGuards` ("hops", "window", "member_seconds", "seconds").
        way: Who had the conversation, in order; () where that is not known.
    """

    code: ClassVar[str] = "handoff.limit"

    def __init__(self, text: str, *, limit: str, way: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.limit = limit
        self.way = tuple(way)


class RoutingFailed(AgentError):
    """A swarm has found nobody to give a message to: no member can be asked, or what chooses among them named none. The swarm remembers nothing of the run.

    Attributes:
        answer: What the model that was to choose answered; "" where no model was asked.
    """

    code: ClassVar[str] = "routing.failed"

    def __init__(self, text: str, *, answer: str = "") -> None:
        super().__init__(text)
        self.answer = answer


class TeamError(AgentError):
    """What goes wrong with a team's run, and is nothing of one of its members' own; the team remembers nothing of the run."""

    code: ClassVar[str] = "team"


class NoSuchMember(TeamError, LookupError):
    """The team has no member of that name: it never had, or it was removed. Nobody was asked.

    Attributes:
        name: The name.
    """

    code: ClassVar[str] = "team.member"

    def __init__(self, text: str, *, name: str = "") -> None:
        super().__init__(text)
        self.name = name


class MemberPaused(TeamError):
    """The member is paused, and gets no new work. It was not asked.

    Attributes:
        name: Its name.
    """

    code: ClassVar[str] = "team.paused"

    def __init__(self, text: str, *, name: str = "") -> None:
        super().__init__(text)
        self.name = name


class TeamDiverged(TeamError):
    """A team's run that was parked has, run again, taken another way than before, so that the answers that it had are not those to what it asks now. It stays parked."""

    code: ClassVar[str] = "team.diverged"


class VoteUndecided(TeamError):
    """A vote has no winner: two answers or more have the same number of votes, and no other has as many. The team remembers nothing of the run.

    Attributes:
        votes: The answers that were voted for with their votes, most first; () where that is not known.
    """

    code: ClassVar[str] = "vote.undecided"

    def __init__(self, text: str, *, votes: Iterable[Sequence[Any]] = ()) -> None:
        super().__init__(text)
        self.votes: tuple[tuple[str, int], ...] = tuple((answer, count) for answer, count in votes)


class BadState(AgentError, ValueError):
    """What `load_state_dict` was given is no state of this agent; nothing of it was loaded."""

    code: ClassVar[str] = "state.invalid"


class UnknownStateKey(BadState, KeyError):
    """A key path is missing, or is none of this agent's; nothing was loaded or cleared.

    Attributes:
        key: The key path.
    """

    code: ClassVar[str] = "state.key"

    def __init__(self, text: str, *, key: str = "") -> None:
        super().__init__(text)
        self.key = key

    def __str__(self) -> str:
        """The text as it is: a KeyError's own would put it in quotes."""
        return str(self.args[0])
