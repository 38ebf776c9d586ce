"""Works of the desk on the file's clock: how far it is from this machine's, and the one way back, which is a person's."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from retinue.actors.approvals.ledger import CLOCK_TOLERANCE_MS, RESETS, TIMEOUT, add_event, epoch_of, first, floor_of
from retinue.actors.store.work import Work
from retinue.mailbox.messages import message
from retinue.security.errors import ApprovalError
from retinue.security.limits import moment as shown_moment

if TYPE_CHECKING:
    from sqlite_utils import Database

__all__ = ["Behind", "ClockReset", "ResetClock"]


@attrs.frozen
class ClockReset:
    """What setting the clock back did.

    Attributes:
        before_ms: The latest time that the file had seen; None where it was lost.
        now_ms: What it is now.
        approvals: Approvals that were given and not used, and are void now.
        standing: Standing consents that are void now.
    """

    before_ms: int | None
    now_ms: int
    approvals: int
    standing: int


@message(name="retinue-approvals/Behind@1", timeout=TIMEOUT)
class Behind(Work["int | None"]):
    """Answers with the milliseconds that this machine's clock is behind the file's, where that keeps everything from being decided; else 0. None: it was lost.

    Attributes:
        now_ms: The time.
    """

    reads: ClassVar[bool] = True

    now_ms: int

    def run(self, database: Database) -> int | None:
        """See the class."""
        floor = floor_of(database)
        if floor is None:
            return None
        return floor - self.now_ms if self.now_ms < floor - CLOCK_TOLERANCE_MS else 0


@message(name="retinue-approvals/ResetClock@1", timeout=TIMEOUT)
class ResetClock(Work[ClockReset]):
    """Sets the file's clock back to this machine's, after another was ahead once.

    All that was approved before is void from then on: the rows that tell what was spent may have been forgotten by the clock that was ahead.

    Attributes:
        reviewer: Who says that this machine's clock is right.
        now_ms: The time.
        via: The desk that it is said at.
    """

    full: ClassVar[bool] = True

    reviewer: str
    now_ms: int
    via: str = ""

    def run(self, database: Database) -> ClockReset:
        """See the class. Raises ApprovalError ("clock") where there is nothing to set back."""
        before = floor_of(database)
        if before is not None and self.now_ms >= before - CLOCK_TOLERANCE_MS:
            raise ApprovalError(
                "the file's clock is not ahead of this machine's, so there is nothing to reset, and what was approved stays good.",
                reason="clock",
            )
        epoch = epoch_of(database)
        (approvals,) = database.execute(
            "SELECT COUNT(*) FROM requests WHERE status = 'approved' AND token_expires_ms > ? AND epoch = ? "
            "AND NOT EXISTS (SELECT 1 FROM spent WHERE spent.jti = requests.jti)",
            (self.now_ms, epoch),
        ).fetchone()
        (standing,) = database.execute(
            "SELECT COUNT(*) FROM standing WHERE withdrawn_ms IS NULL AND expires_ms > ? AND epoch = ?", (self.now_ms, epoch)
        ).fetchone()
        number = first(database, "SELECT number FROM marks WHERE name = ?", RESETS)
        database.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (RESETS, 1 if number is None else number["number"] + 1))
        # A row in the place of the other: an UPDATE that sets the clock back is what the table refuses, whoever tries.
        database.execute("DELETE FROM clock")
        database.execute("INSERT INTO clock VALUES (1, ?)", (self.now_ms,))
        detail = f"from {'a clock that was lost' if before is None else shown_moment(before)} to {shown_moment(self.now_ms)}"
        add_event(database, self.now_ms, "clock reset", who=self.reviewer, detail=detail, via=self.via)
        return ClockReset(before, self.now_ms, approvals, standing)
