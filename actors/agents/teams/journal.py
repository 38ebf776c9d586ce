"""What a team's run has been answered so far, by the number of the question: so that a run that was parked can be run again from its beginning and asks nobody twice.

A number is a path: `(3,)` is the fourth step of the run; `(3, 1, 0)` the first step of the second branch of what was begun at once in that step. So it is the same
however the branches are interleaved.
"""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from retinue.actors.agents.errors import TeamDiverged, TeamError
from retinue.actors.agents.keys import session_of
from retinue.actors.agents.leaving import Left
from retinue.actors.agents.message import Cancel, ClearMemory
from retinue.actors.runtime.ref import Ref

if TYPE_CHECKING:
    from retinue.actors.agents.errors import RunParked
    from retinue.actors.agents.leaving import Owner
    from retinue.actors.agents.teams.roster import Place
    from retinue.security.approvals import ApprovalRequest
    from retinue.security.errors import ApprovalRequired

__all__ = ["Answered", "Branch", "Failed", "Journal", "ParkedAsk", "Parking", "Waits", "branch_in_force", "precedes", "ref_of", "shown"]

Number: TypeAlias = tuple[int, ...]

MAX_STEPS: Final = 100_000
"""Steps of one run."""


class Parking(BaseException):
    """A question waits for a person: the run ends here for now. No `except Exception` is to take it for a failure. Internal."""


@attrs.frozen
class Answered:
    """A step that was answered.

    Attributes:
        what: Who was asked what.
        answer: The answer.
    """

    what: Any
    answer: Any


@attrs.frozen
class Failed:
    """A step that ended in an error.

    Attributes:
        what: Who was asked what.
        error: The error; raised again where the run is run again.
        was: What the step was before it went on after a decision, and failed: whoever was asked has set that run aside still.
        limited: Whether it has come to the run's own limits.
    """

    what: Any
    error: Exception
    was: ParkedAsk | None = None
    limited: bool = False


@attrs.frozen
class ParkedAsk:
    """A step that waits for a person.

    Attributes:
        what: Who was asked what.
        whom: Who was asked: a member's place, or a model.
        run: The run that is parked there; None where the message itself waits.
        requests: What people are asked; none where it only waits for another run in the same session of the same member to end.
        behind: That run.
    """

    what: Any
    whom: Place | Ref[Any]
    run: str | None
    requests: tuple[ApprovalRequest, ...] = ()
    behind: str | None = None


class Waits(Exception):
    """Whoever was asked waits for a person, and with it whoever asks. Internal.

    Args:
        whom: Who was asked.
        error: What it said.
        lane: Where it was asked: there, one comes after the other.
    """

    def __init__(self, whom: Place | Ref[Any], error: ApprovalRequired | RunParked, lane: Any = None) -> None:
        super().__init__(str(error))
        self.whom = whom
        self.error = error
        self.lane = lane


Entry: TypeAlias = Answered | Failed | ParkedAsk


class Journal:
    """The steps of one run.

    Attributes:
        entries: Them by number.
        seen: Which members the run has seen before which step.
        everyone: The same with those that are paused.
        hands_nothing: Members that have refused to be given handoffs, before they did anything.
        known: Members as the run has looked them up: of those that were removed since, it knows what they were.
        retried: Steps that had failed, and are asked once more: what follows them may be another way than before.
        dropped: What waited on such a way, and is no part of the run any more.
        passing: Sessions that are for this run alone, and whose: to be forgotten when it is over.
        strays: Parked runs that are no part of this one and stood in its way, and who was asked when they did.
    """

    __slots__ = ("dropped", "entries", "everyone", "hands_nothing", "known", "passing", "retried", "seen", "strays")

    def __init__(self) -> None:
        self.entries: dict[Number, Entry] = {}
        self.seen: dict[Number, tuple[str, ...]] = {}
        self.everyone: dict[Number, tuple[str, ...]] = {}
        self.hands_nothing: set[str] = set()
        self.known: dict[str, Any] = {}
        self.retried: set[Number] = set()
        self.dropped: list[ParkedAsk] = []
        self.strays: dict[str, Place] = {}
        self.passing: tuple[tuple[Place, str], ...] = ()

    def copy(self) -> Journal:
        """The same, to be gone on with."""
        other = Journal()
        other.strays, other.everyone, other.hands_nothing = dict(self.strays), dict(self.everyone), set(self.hands_nothing)
        other.entries, other.seen, other.known = dict(self.entries), dict(self.seen), dict(self.known)
        other.retried, other.dropped, other.passing = set(self.retried), list(self.dropped), self.passing
        return other

    @property
    def waiting(self) -> list[ParkedAsk]:
        """What waits for a person, in the order of the steps."""
        return [entry for _, entry in sorted(self.entries.items()) if isinstance(entry, ParkedAsk)]

    @property
    def limited(self) -> bool:
        """Whether a step has come to the run's own limits, and `forward` has gone on all the same."""
        return any(isinstance(entry, Failed) and entry.limited for entry in self.entries.values())

    @property
    def held(self) -> list[ParkedAsk]:
        """All that has set a run aside for this one: what waits, and what has failed when it went on, or is on a way that was left."""
        failed = [entry.was for entry in self.entries.values() if isinstance(entry, Failed) and entry.was is not None]
        return [one for one in (*self.waiting, *failed, *self.dropped) if one.run is not None]

    @property
    def asked(self) -> tuple[str, ...]:
        """The ids of what people are asked for what the run has said itself; what a member's run waits for, that has asked."""
        return tuple(request.id for one in (*self.waiting, *self.dropped) if one.run is None for request in one.requests)

    def left(self, owner: Owner, subject: str | None = None, tenant: str | None = None) -> Left:
        """What is left of the run where nobody goes on with it. The arguments are those of `left_of`."""
        messages: list[tuple[Any, Any]] = []
        for one in self.held:
            run = one.run or ""
            messages.append((ref_of(one.whom), Cancel(session_of(run), run, subject, tenant)))
        messages += [(place.member.ref, ClearMemory(session, subject, tenant, recursive=True)) for place, session in self.passing]
        return Left(owner, messages, self.asked)

    def holder(self, run: str) -> tuple[Number, Failed] | None:
        """The step that has failed when it went on with a run which is set aside still."""
        for number, entry in self.entries.items():
            if isinstance(entry, Failed) and entry.was is not None and entry.was.run == run:
                return number, entry
        return None

    def let_go(self, number: Number) -> None:
        """The run that a failed step had set aside was given up."""
        entry = self.entries[number]
        if isinstance(entry, Failed):
            self.entries[number] = attrs.evolve(entry, was=None)

    def behind(self, error: BaseException | None) -> list[BaseException]:
        """The errors of steps from which one has come, itself among them: through causes and groups."""
        known = [entry.error for entry in self.entries.values() if isinstance(entry, Failed)]
        found: list[BaseException] = []
        seen: set[int] = set()
        left = [error]
        while left:
            one = left.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            if any(one is each for each in known):
                found.append(one)
                continue
            if isinstance(one, BaseExceptionGroup):
                left.extend(one.exceptions)
            left.append(one.__cause__ or one.__context__)
        return found

    def put_back(self, errors: Collection[BaseException]) -> None:
        """Steps that have ended in these errors are as they were before: when the run goes on, they are asked once more."""
        for number, entry in list(self.entries.items()):
            if isinstance(entry, Failed) and any(entry.error is error for error in errors):
                self.retried.add(number)
                if entry.was is None:
                    del self.entries[number]
                else:
                    self.entries[number] = entry.was

    def doubtful(self, number: Number) -> bool:
        """Whether a step follows one that is asked once more, so that it may be no part of the run any more."""
        return any(precedes(one, number) for one in self.retried)

    def is_over(self, visited: Collection[Number], path: str) -> bool:
        """Whether nothing waits any more. Raises TeamDiverged where something does that the run has not come to this time.

        Args:
            visited: The steps that it has come to.
            path: The team's path, for texts.
        """
        waiting = [number for number, entry in self.entries.items() if isinstance(entry, ParkedAsk)]
        if any(number in visited for number in waiting):
            return False
        for number in waiting:
            if not self.doubtful(number):
                raise TeamDiverged(
                    f"{path}: the run goes on after a decision, and does not come to its step {'.'.join(map(str, number))}, which waits for a person: "
                    f"{shown(self.entries[number].what)}. What `forward` does has to follow from the message, run.state and the answers; what comes from "
                    "elsewhere goes through run.decide(…)"
                )
            self.drop(number)
        return True

    def drop(self, number: Number) -> None:
        """A step is no part of the run any more."""
        entry = self.entries.pop(number)
        waited = entry if isinstance(entry, ParkedAsk) else entry.was if isinstance(entry, Failed) else None
        if waited is not None:
            self.dropped.append(waited)

    def find(self, number: Number, what: Any, path: str) -> Entry | None:
        """What there is of a step. Raises TeamDiverged where that was another one, TeamError after too many."""
        entry = self.entries.get(number)
        if entry is None:
            if len(self.entries) >= MAX_STEPS:
                raise TeamError(f"{path}: a run of a team has {MAX_STEPS:,} steps at most: give its forward an end")
            return None
        if not _same(entry.what, what):
            if self.doubtful(number):
                self.drop(number)
                return None
            where = ".".join(map(str, number))
            raise TeamDiverged(
                f"{path}: the run goes on after a decision, and its step {where} is not what it was before: {shown(entry.what)} then, {shown(what)} now. What "
                "`forward` does has to follow from the message, run.state and the answers; what comes from elsewhere (time, chance, files) goes through run.decide(…)"
            )
        return entry


def ref_of(whom: Place | Ref[Any]) -> Ref[Any]:
    """Who was asked: a member as it is now, or a model."""
    return whom if isinstance(whom, Ref) else whom.member.ref


def precedes(one: Number, other: Number) -> bool:
    """Whether a step was over when another one began; not so of two in branches that go on at the same time."""
    for place, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return place % 2 == 0 and first < second
    return False


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # data that cannot be compared: only the very same is
        return one is other


def shown(what: Any) -> str:
    """Who was asked what, for texts."""
    return " ".join(str(part)[:80] for part in what[:2]) if isinstance(what, tuple) else str(what)[:160]


class Branch:
    """One line of a run's steps: the run itself, or one of several that it has begun at once.

    Attributes:
        run: The run.
        path: The branch's number.
        steps: How many steps it has made.
        tell: How an event gets from it to the reader; None: straight on.
        label: What it is called for the reader, after the member's name: where one member is asked in several branches; "" where nobody is to be told apart.
    """

    __slots__ = ("label", "path", "run", "steps", "tell")

    def __init__(self, run: Any, path: Number = (), tell: Any = None) -> None:
        self.run = run
        self.path = path
        self.steps = 0
        self.tell = tell
        self.label = ""

    def next(self) -> Number:
        """The number of the next step."""
        number = (*self.path, self.steps)
        self.steps += 1
        return number


branch_in_force: Final[ContextVar[Branch | None]] = ContextVar("retinue_branch", default=None)
"""Inherited by the tasks that a run starts."""
