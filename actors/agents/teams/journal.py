"""What a team's run has been answered so far, by the number of the question: so that a run that was parked can be run again from its beginning and asks nobody twice.

A number is a path: `(3,)` is the fourth step of the run; `(3, 1, 0)` the first step of the second branch of what was begun at once in that step. So it is the same
however the branches are interleaved.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from retinue.actors.agents.errors import TeamDiverged, TeamError

if TYPE_CHECKING:
    from retinue.actors.agents.teams.roster import Place
    from retinue.actors.runtime.ref import Ref
    from retinue.security.approvals import ApprovalRequest

__all__ = ["Answered", "Branch", "Failed", "Journal", "ParkedAsk", "Parking", "branch_in_force"]

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
    """

    what: Any
    error: Exception


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


Entry: TypeAlias = Answered | Failed | ParkedAsk


class Journal:
    """The steps of one run.

    Attributes:
        entries: Them by number.
        seen: Which members the run has seen before which step.
    """

    __slots__ = ("entries", "seen")

    def __init__(self, entries: dict[Number, Entry] | None = None, seen: dict[Number, tuple[str, ...]] | None = None) -> None:
        self.entries = {} if entries is None else entries
        self.seen = {} if seen is None else seen

    def copy(self) -> Journal:
        """The same, to be gone on with."""
        return Journal(dict(self.entries), dict(self.seen))

    @property
    def waiting(self) -> list[ParkedAsk]:
        """What waits for a person, in the order of the steps."""
        return [entry for _, entry in sorted(self.entries.items()) if isinstance(entry, ParkedAsk)]

    def find(self, number: Number, what: Any, path: str) -> Entry | None:
        """What there is of a step. Raises TeamDiverged where that was another one, TeamError after too many."""
        entry = self.entries.get(number)
        if entry is None:
            if len(self.entries) >= MAX_STEPS:
                raise TeamError(f"{path}: a run of a team has {MAX_STEPS:,} steps at most: give its forward an end")
            return None
        if not _same(entry.what, what):
            shown = ".".join(map(str, number))
            raise TeamDiverged(
                f"{path}: the run goes on after a decision, and its step {shown} is not what it was before: {_shown(entry.what)} then, {_shown(what)} now. What "
                "`forward` does has to follow from the message, run.state and the answers; what comes from elsewhere (time, chance, files) goes through run.decide(…)"
            )
        return entry


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # data that cannot be compared: only the very same is
        return one is other


def _shown(what: Any) -> str:
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
