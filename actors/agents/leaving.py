"""What is left of a run that nobody goes on with: runs that are parked in agents within, sessions that were for it alone, requests that people need not answer.

Whoever is within is told, under the authority of the run. Where that has ended, and where the run was forgotten while somebody else worked, the rest waits in the
keeper until the same subject asks again: no other authority may do it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import trio

from retinue.actors.agents.keys import session_of
from retinue.actors.agents.message import Cancel
from retinue.actors.runtime.deciding import take_back
from retinue.actors.runtime.derivation import check_alive
from retinue.security.errors import AuthorityError, RetinueError

if TYPE_CHECKING:
    from retinue.actors.agents.keeping import Keeper
    from retinue.actors.agents.state import ParkedCall
    from retinue.actors.runtime.context import ActorContext
    from retinue.security.context import SecurityContext

__all__ = ["NOBODY", "Left", "Owner", "leave", "leave_all", "left_of", "owner_of", "say_what_was_left"]

_log = logging.getLogger("retinue.agents")

Owner: TypeAlias = "tuple[str, str | None, str | None]"
"""For whom a run goes: subject, tenant, and the session of their authority."""

NOBODY: Owner = ("", None, None)

TAKING_BACK: Final = 2.0
"""Seconds that the desk has for taking requests back, however many; a run that ends waits no longer for it, nor one that begins."""


@attrs.frozen
class Left:
    """What is left of a run.

    Attributes:
        owner: For whom it went.
        messages: What agents within are to be told, and who.
        requests: The ids of what people were asked.
        runs: The ids of runs that are over: what else people were asked for them, also where the run was cancelled before it heard of it.
    """

    owner: Owner = NOBODY
    messages: Sequence[tuple[Any, Any]] = ()
    requests: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How much it is."""
        return len(self.messages) + len(self.requests) + len(self.runs)


def owner_of(security: SecurityContext) -> Owner:
    """For whom a run under this authority goes."""
    return security.subject, security.tenant, security.session


def left_of(waiting: Iterable[ParkedCall], owner: Owner, subject: str | None = None, tenant: str | None = None) -> Left:
    """What is left of calls that wait: the runs of agents within, and what people were asked for the calls themselves.

    Args:
        waiting: The calls.
        owner: For whom the run went.
        subject, tenant: As in `Cancel`.
    """
    messages: list[tuple[Any, Any]] = []
    requests: list[str] = []
    for call in waiting:
        if call.inner is None:
            requests.extend(request.id for request in call.requests)
        elif call.agent is not None:  # that one takes back what it has asked for
            messages.append((call.agent, Cancel(session_of(call.inner), call.inner, subject, tenant)))
    return Left(owner, messages, tuple(requests))


async def leave(ctx: ActorContext, keeper: Keeper, left: Left) -> None:
    """Tells whoever is within, without waiting for it: they hear of it before all that they are asked from now on. Takes back the requests that no other session waits for.

    Args:
        ctx: Of the actor whose turn it is.
        keeper: Where that one's sessions are; the run is in none of them any more.
        left: What is left.
    """
    await _leave_all(ctx, keeper, [left])


async def _leave_all(ctx: ActorContext, keeper: Keeper, several: Iterable[Left]) -> None:
    asked: dict[Owner, tuple[list[str], list[str]]] = {}
    for left in several:
        if left.messages:
            _tell(ctx, keeper, left)
        requests = [request for request in left.requests if not keeper.waits(request)]
        if requests or left.runs:
            ids, runs = asked.setdefault(left.owner, ([], []))
            ids.extend(requests)
            runs.extend(left.runs)
    if asked:  # one bound for all of them: whoever asks now waits for it
        with trio.move_on_after(TAKING_BACK, shield=True) as scope:
            try:
                for owner, (ids, runs) in asked.items():
                    await take_back(ctx._cell.kernel, owner, ids, runs)
            except RetinueError as error:  # the system ends, or the desk cannot be used
                _log.info("%s: what people were asked for runs that are over could not be taken back: %s", ctx.path, error)
        if scope.cancelled_caught:
            _log.warning("%s: what people were asked for runs that are over was not taken back within %g s", ctx.path, TAKING_BACK)


def _tell(ctx: ActorContext, keeper: Keeper, left: Left) -> None:
    try:
        check_alive(ctx._cell.kernel, ctx.security, ctx._cell)
    except AuthorityError:
        keeper.leave(attrs.evolve(left, requests=(), runs=()))
        return
    for ref, message in left.messages:
        try:
            ref.tell(message)
        except RetinueError:  # it has ended, or knows nothing of this: then nothing is kept there either
            continue


async def leave_all(ctx: ActorContext, keeper: Keeper) -> None:
    """The agent ends, and with it all that is parked in it: nobody goes on with any of that. In its `on_stop`.

    Agents within are told where the ending one works with the system's own authority, which may give up what is another subject's; where not, their runs are given up there.
    """
    lefts = [left for one in tuple(keeper.left) for left in keeper.take_left(*one)]
    lefts = [attrs.evolve(left, messages=()) for left in lefts]  # whose authority had ended, or who never came back
    for state in keeper.take_parked():
        for parked in state.parked.values():
            subject, tenant, _ = parked.owner
            left = parked.left(subject, tenant) if ctx.is_root else parked.left()
            messages = [one for one in left.messages if ctx.is_root and not one[0]._cell.closed]
            lefts.append(attrs.evolve(left, messages=messages))
    await _leave_all(ctx, keeper, lefts)


async def say_what_was_left(ctx: ActorContext, keeper: Keeper) -> None:
    """Does what was left for the subject that asks now."""
    await _leave_all(ctx, keeper, keeper.take_left(ctx.security.subject, ctx.security.tenant))
