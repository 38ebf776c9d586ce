"""How the members of a fail-over or a pool stand: who is ready, who cools down and until when, and who is just being tried again.

What an error says of a member goes by its type and its HTTP status, never by its text: texts hold request ids, and quote what users wrote.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import trio

from retinue.actors.llm.errors import (
    AllMembersFailed,
    BadEndpoint,
    ContentFiltered,
    ContextOverflow,
    EmptyReply,
    KeyRefused,
    ModelError,
    ModelNotInstalled,
    ModelRefused,
    QuotaExceeded,
    RateLimited,
    ScriptEnded,
    ScriptUnused,
)
from retinue.actors.runtime.errors import ActorStopped, AskCancelled
from retinue.mailbox.errors import MailboxFull
from retinue.security.errors import RetinueError

if TYPE_CHECKING:
    from retinue.actors.runtime.ref import Ref

__all__ = ["Cooling", "Member", "MemberState", "Standing"]

_READY: Final = -math.inf
_TRY_LATER: Final = frozenset({408, 409, 425, 429})  # the 4xx that speak of the moment
_NOT_HERE: Final = frozenset({401, 402, 403, 404, 405, 410})  # and those that speak of the member's key, money or address


def _check_seconds(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{what}={value!r}: give seconds, 0 or more")
    return float(value)


class Cooling:
    """How long a member is left alone after what.

    Args:
        cooldown: Seconds after a failure.
        auth_cooldown: Seconds after what will not mend itself: the key, the money, the address, the model's name.
        longest_cooldown: The most seconds that an endpoint's own `Retry-After` counts for.
        on_overflow: Whether a conversation that is too long for one member is taken to the next.

    Raises ValueError for what are no seconds.
    """

    __slots__ = ("auth_cooldown", "cooldown", "longest_cooldown", "on_overflow")

    def __init__(self, cooldown: float, auth_cooldown: float, longest_cooldown: float, on_overflow: bool) -> None:
        self.cooldown = _check_seconds("cooldown", cooldown)
        self.auth_cooldown = _check_seconds("auth_cooldown", auth_cooldown)
        self.longest_cooldown = _check_seconds("longest_cooldown", longest_cooldown)
        self.on_overflow = on_overflow

    def seconds_after(self, error: Exception) -> float | None:
        """Return for how long the member that raised the error is left alone, 0.0 for not at all; None where the error is the asker's own to see.

        The asker's own are refusals of the request itself, which every member would refuse, refusals of the asker's authority, and its deadline.
        """
        if isinstance(error, ModelError):
            return self._after(error)
        if isinstance(error, MailboxFull):
            return 0.0  # busy, and well
        if isinstance(error, ActorStopped):
            return self.auth_cooldown
        if isinstance(error, AskCancelled):
            return self.cooldown
        # Of ours: no permission, no budget, no time, no such message. Of others: the member has a bug, and others may not.
        return None if isinstance(error, RetinueError) else self.cooldown

    def _after(self, error: ModelError) -> float | None:
        if isinstance(error, KeyRefused | QuotaExceeded | BadEndpoint | ModelNotInstalled):
            return self.auth_cooldown
        if isinstance(error, ContextOverflow):
            return 0.0 if self.on_overflow else None
        if isinstance(error, ContentFiltered | ScriptEnded | ScriptUnused):
            return None
        if isinstance(error, EmptyReply):
            return 0.0  # it may be the prompt's fault
        status = error.status
        if status in _NOT_HERE:
            return self.auth_cooldown
        if isinstance(error, ModelRefused) and not isinstance(error, RateLimited) and status not in _TRY_LATER:
            return None
        # ModelFailed, RateLimited and AllMembersFailed say it, others do not.
        said = getattr(error, "retry_after", None)
        if isinstance(error, AllMembersFailed) and said is None:
            return 0.0
        # "After no time at all", or at a time that is past, would have it asked first again by everybody.
        return self.cooldown if said is None or said <= 0 else min(said, self.longest_cooldown)


@attrs.frozen(kw_only=True)
class MemberState:
    """How one member stands.

    Attributes:
        path: Which one.
        state: "ready"; "cooling"; "due", when its cooldown is over and nobody has tried it yet; or "probing", when one asker is trying it.
        seconds: Until its cooldown is over; 0.0 where it does not cool.
        outstanding: Requests that it has now.
        asked: Requests that it has had.
        failed: Those that it failed.
        error: The code of its last failure, such as "model.failed"; None where it never failed.
    """

    __immutable__ = True

    path: str
    state: Literal["ready", "cooling", "due", "probing"]
    seconds: float
    outstanding: int
    asked: int
    failed: int
    error: str | None


class Asking:
    """One request that a member has.

    Attributes:
        fell: How often the member had begun to cool down when it was asked.
        probe: Whether this is to find out if it is well again.
        answered: Whether anything has come.
        scope: Of its wait for that; None where it does not wait.
        slow: Whether it was given up since the member is slow, though it said so itself.
        left: Whether it went on to another member for what befell other requests.
    """

    __slots__ = ("answered", "fell", "left", "probe", "scope", "slow", "tried")

    def __init__(self, fell: int, probe: bool, tried: list[Member]) -> None:
        self.fell = fell
        self.probe = probe
        self.tried = tried
        self.answered = self.slow = self.left = False
        self.scope: trio.CancelScope | None = None


class Member:
    """One member, and what is known of it.

    Attributes:
        ref: Who it is.
        cools_until: When its cooldown is over, on trio's clock; -inf where its last answer was good.
        probing: Whether one asker is trying it after a cooldown.
        outstanding, asked, failed, error: As in `MemberState`.
        askings: The requests that it has.
    """

    __slots__ = ("asked", "askings", "cools_until", "error", "failed", "fell", "probing", "ref")

    def __init__(self, ref: Ref[Any]) -> None:
        self.ref = ref
        self.cools_until = _READY
        self.probing = False
        self.asked = self.failed = self.fell = 0
        self.askings: dict[Asking, None] = {}
        self.error: str | None = None

    @property
    def path(self) -> str:
        """Its actor's path."""
        return self.ref.path

    def is_ready(self, now: float) -> bool:
        """Whether one may ask it: it does not cool, and nobody is finding out whether it is well again."""
        return self.cools_until <= now and not self.probing

    @property
    def outstanding(self) -> int:
        """How many requests it has."""
        return len(self.askings)

    def begin(self, now: float, tried: list[Member]) -> Asking:
        """One more request, which has been to those members. It may be the probe."""
        self.asked += 1
        probe = self.cools_until != _READY and self.cools_until <= now and not self.probing
        self.probing = self.probing or probe
        asking = Asking(self.fell, probe, tried)
        self.askings[asking] = None
        return asking

    def end(self, asking: Asking) -> None:
        """One request less, however it ended."""
        del self.askings[asking]
        if asking.probe:
            self.probing = False

    def answered(self, asking: Asking) -> None:
        """It has begun to answer: it is well, unless it began before a failure. What it goes on to say says nothing new."""
        asking.answered = True
        if asking.fell == self.fell:
            self.cools_until = _READY

    def failed_with(self, error: Exception, seconds: float, now: float) -> None:
        """It has failed, and is left alone for so long. A cooldown is never made shorter by another failure of the same time."""
        self.failed += 1
        self.error = error.code if isinstance(error, ModelError) else type(error).__name__
        if seconds > 0:
            self.fell += 1
            self.cools_until = max(self.cools_until, now + seconds)

    def state(self, now: float) -> MemberState:
        """How it stands."""
        left = max(0.0, self.cools_until - now)
        if left:
            state: Literal["ready", "cooling", "due", "probing"] = "cooling"
        elif self.probing:
            state = "probing"
        else:
            state = "ready" if self.cools_until == _READY else "due"
        return MemberState(
            path=self.path,
            state=state,
            seconds=left,
            outstanding=self.outstanding,
            asked=self.asked,
            failed=self.failed,
            error=self.error,
        )


class Standing:
    """All members, and who is to be asked next.

    Args:
        refs: The members.
        spread: False: the first in line. True: the one with the fewest requests, of several the next in turn.
    """

    __slots__ = ("_spread", "_turn", "members")

    def __init__(self, refs: tuple[Ref[Any], ...], *, spread: bool) -> None:
        self.members = [Member(ref) for ref in refs]
        self._spread = spread
        self._turn = 0

    def choose(self, tried: list[Member], *, last_resort: bool) -> Member | None:
        """Return whom to ask next; None where nobody is left.

        Args:
            tried: Those that this request has been to.
            last_resort: Whether one that cools down may be chosen, where there is no other: the one whose cooldown is over first.
        """
        now = trio.current_time()
        left = [member for member in self.members if member not in tried]
        ready = [member for member in left if member.is_ready(now)]
        if ready:
            return self._pick(ready)
        probed = [member for member in left if member.cools_until <= now]
        if probed:
            return self._pick(probed)
        return min(left, key=lambda member: member.cools_until) if left and last_resort else None

    def has_ready(self, tried: list[Member]) -> bool:
        """Whether somebody else could be asked with good hope."""
        now = trio.current_time()
        return any(member.is_ready(now) for member in self.members if member not in tried)

    def release(self, member: Member) -> None:
        """Tell those requests that wait for a member, and have nothing of it, to go on to another one, where one is ready."""
        for asking in member.askings:
            if asking.scope is not None and not asking.answered and self.has_ready(asking.tried):
                asking.scope.cancel()

    def retry_after(self) -> float | None:
        """Seconds until the first cooldown is over; None where somebody does not cool."""
        now = trio.current_time()
        seconds = min(member.cools_until for member in self.members) - now
        return seconds if seconds > 0 else None

    def _pick(self, members: list[Member]) -> Member:
        if not self._spread:
            return members[0]
        self._turn += 1
        start = self._turn % len(members)
        return min(members[start:] + members[:start], key=lambda member: member.outstanding)
