"""Several deployments behind one ref: `Failover` asks the first that is well, `Pool` the one with the least to do.

Both know of each member whether it cools down after a failure, and all who ask share what is known. Both go to the next member at once, and only before the
first piece of an answer was passed on: after it, what goes wrong is the reader's to know. Members are asked within the turn of the request, so under the
asker's authority: a member that refuses it is not passed over for one that would not.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final

import trio

from retinue.actors.llm.choose import Choice
from retinue.actors.llm.deployment import Deployment
from retinue.actors.llm.errors import AllMembersFailed, BadReply, ContextOverflow, ModelError, ModelFailed, ModelInterrupted, ModelTimeout
from retinue.actors.llm.events import Completed, ModelEvent, Retrying
from retinue.actors.llm.messages import Complete, Completion
from retinue.actors.llm.naming import model
from retinue.actors.llm.refs import checked_model
from retinue.actors.llm.standing import Asking, Cooling, Member, MemberState, Standing
from retinue.actors.runtime.actor import handler
from retinue.actors.runtime.ref import Ref
from retinue.mailbox.messages import Request, message

__all__ = ["Failover", "GetMembers", "MemberState", "Pool"]

_log = logging.getLogger("retinue.llm")

MOST_MEMBERS: Final = 256
_QUOTED: Final = 8  # members whose errors stand in a text
_LONGEST_QUOTE: Final = 200  # characters of each


@message
class GetMembers(Request[tuple[MemberState, ...]]):
    """Ask a `Failover` or a `Pool` how its members stand. Needs the operation `model.inspect`."""


class Members(Deployment):
    """What `Failover` and `Pool` have in common; see there."""

    spread: ClassVar[bool]
    charges = False

    def __init__(
        self,
        members: Sequence[Ref[Any] | Choice | str],
        *,
        cooldown: float = 30.0,
        auth_cooldown: float = 600.0,
        longest_cooldown: float = 3600.0,
        on_overflow: bool = False,
        concurrency: int = 1024,
    ) -> None:
        super().__init__(concurrency)
        self._members = _checked(members, type(self).__name__)
        self._cooling = Cooling(cooldown, auth_cooldown, longest_cooldown, on_overflow)
        self._standing = Standing((), spread=self.spread)

    async def on_start(self) -> None:
        """Start those members that were given by their names."""
        await super().on_start()
        refs: list[Ref[Any]] = []
        for number, member in enumerate(self._members):
            # No retries: going to the next member at once is what this is for.
            refs.append(member if isinstance(member, Ref) else await member.spawn(self.ctx, name=f"member-{number}", retries=0))
        self._standing = Standing(tuple(refs), spread=self.spread)

    @handler(requires="model.inspect")
    def members(self, message: GetMembers) -> tuple[MemberState, ...]:
        """Tell how the members stand."""
        del message
        now = trio.current_time()
        return tuple(member.state(now) for member in self._standing.members)

    async def complete_once(self, request: Complete) -> Completion:
        """Ask members until one has answered."""
        async with aclosing(self._attempts(request, passed_on=False)) as events:
            async for event in events:
                if type(event) is Completed:
                    return event.completion
        raise BadReply(f"a member of {self.ctx.path} ended its answer without a completion")

    async def stream_once(self, request: Complete) -> AsyncIterator[ModelEvent]:
        """Ask members until one begins to answer, and pass its answer on."""
        async with aclosing(self._attempts(request, passed_on=True)) as events:
            async for event in events:
                yield event

    async def _attempts(self, request: Complete, *, passed_on: bool) -> AsyncGenerator[ModelEvent, None]:
        tried: list[Member] = []
        errors: list[Exception] = []
        last_resort = True
        while (member := self._standing.choose(tried, last_resort=last_resort)) is not None:
            tried.append(member)
            last_resort = last_resort and member.cools_until <= trio.current_time()
            if errors and passed_on:
                yield Retrying(f"{tried[-2].path} failed ({type(errors[-1]).__name__}); {member.path} is asked", len(tried), 0.0)
            begun = False
            asking = member.begin(trio.current_time(), tried)
            try:
                async with aclosing(self._one(member, request, asking)) as events:
                    async for event in events:
                        if passed_on or type(event) is Completed:
                            begun = begun or (passed_on and type(event) is not Retrying)
                            yield event
                return
            except Exception as error:
                seconds = self._cooling.seconds_after(error)
                if seconds is None:
                    raise
                if not asking.left:
                    self._note(member, error, seconds)
                    if seconds and (asking.slow or isinstance(error, ModelTimeout)):
                        self._standing.release(member)  # else each round of those who queue there would wait as long
                if begun:
                    raise _interrupted(error, member) from error
                errors.append(error)
        raise self._all_failed(tried, errors) from errors[-1]

    async def _one(self, member: Member, request: Complete, asking: Asking) -> AsyncGenerator[ModelEvent, None]:
        """One member's answer. Raises what it raises, and ModelFailed where it would wait to try again, or others have waited in vain, while another one is ready."""
        completed = False
        try:
            # No time-out of its own: the asker's deadline holds for what is asked within its turn, and deployments have time-outs.
            async with member.ref.stream(request.as_stream(), timeout=math.inf) as events:
                while (event := await self._next(events, asking, member)) is not None:
                    if type(event) is Retrying:
                        if event.seconds > 0 and self._standing.has_ready(asking.tried):
                            asking.slow = event.code == ModelTimeout.code
                            raise ModelFailed(
                                f"it would try again in {event.seconds:g} s ({event.reason}), and others are ready",
                                retry_after=max(event.seconds, self._cooling.cooldown),
                            )
                    else:
                        member.answered(asking)
                        completed = type(event) is Completed
                    yield event
            if not completed:
                raise BadReply(f"{member.path} ended its answer without a completion: is it a deployment?")
        finally:
            member.end(asking)

    async def _next(self, events: AsyncIterator[ModelEvent], asking: Asking, member: Member) -> ModelEvent | None:
        """The next event; None at the end. Raises ModelFailed where it was told to go on to another member."""
        if asking.answered:
            return await anext(events, None)
        with trio.CancelScope() as asking.scope:
            return await anext(events, None)
        asking.left = True
        raise ModelFailed(f"it had not answered when others had waited for {member.path} in vain, and another one was ready")

    def _note(self, member: Member, error: Exception, seconds: float) -> None:
        member.failed_with(error, seconds, trio.current_time())
        cools = f", it is left alone for {seconds:g} s" if seconds else ""
        _log.warning("%s: the member %s failed (%s)%s", self.ctx.path, member.path, _word(error), cools)

    def _all_failed(self, tried: list[Member], errors: list[Exception]) -> ModelError:
        if all(isinstance(error, ContextOverflow) for error in errors):
            last = errors[-1]
            assert isinstance(last, ContextOverflow)
            return ContextOverflow(str(last), status=last.status, limit=last.limit, used=last.used)
        told = [f"{member.path}: {_word(error)}: {_quoted(error)}" for member, error in zip(tried, errors, strict=True)]
        more = f"; and {len(told) - _QUOTED} more" if len(told) > _QUOTED else ""
        wait = self._standing.retry_after()
        then = "ask again" if wait is None else f"the first is tried again in {wait:.3g} s"
        left = len(self._standing.members) - len(tried)
        alone = f" ({left} more are left alone after earlier failures)" if left else ""
        return AllMembersFailed(
            f"no member of {self.ctx.path} answered{alone}: {'; '.join(told[:_QUOTED])}{more}. {then[0].upper()}{then[1:]}",
            status=getattr(errors[-1], "status", None),
            errors=tuple(errors),
            retry_after=wait,
        )


class Failover(Members):
    """Deployments in an order of preference: each request goes to the first that does not cool down.

    Staying with the first one keeps the provider's cache of prompts. A member that fails is left alone for a while, by all who ask; when its time is over
    one asker tries it, and the others follow when it has answered. Where all cool down, the one that is ready first is asked.

    Args:
        members: Refs of deployments; or models' names such as "openai:gpt-4.1" and what `llm.model` chose, which it starts, without retries. Others may use the refs too.
        cooldown: Seconds that a member is left alone after a failure, unless the endpoint says how long; default 30.
        auth_cooldown: Seconds after what will not mend itself (key, quota, address, model's name); default 600.
        longest_cooldown: The most that an endpoint's `Retry-After` counts for, in seconds; default 3,600.
        on_overflow: Whether a conversation that is too long for a member is taken to the next one (whose context may be larger); default False.
        concurrency: How many requests at once, 1 to 1,024; default 1,024.

    A request that a member refuses for its own sake (400, a content filter) is not taken to others, and neither is one that the asker's authority does not
    permit. Raises (to the spawner) TypeError or ValueError for members and numbers that cannot be, BadEndpoint for names that cannot.
    """

    spread = False


class Pool(Members):
    """Deployments that share the requests: each goes to the one that has the fewest, of those that do not cool down.

    The arguments, and what happens when a member fails, are those of `Failover`.
    """

    spread = True


def _checked(members: object, kind: str) -> list[Ref[Any] | Choice]:
    if isinstance(members, str | Ref) or not isinstance(members, Sequence):
        raise TypeError(f"members of a {kind} are a {type(members).__name__}: give a list of refs of deployments, or of models' names")
    if not 1 <= len(members) <= MOST_MEMBERS:
        raise ValueError(f"a {kind} of {len(members)} members: give 1 to {MOST_MEMBERS}")
    found: list[Ref[Any] | Choice] = []
    for member in members:
        if isinstance(member, str):
            found.append(model(member))
        elif isinstance(member, Choice):
            found.append(member)
        elif not isinstance(member, Ref):
            raise TypeError(
                f'a member of a {kind} is a {type(member).__name__}: give the ref of a deployment, what llm.model(…) chose, or a name such as "openai:gpt-4.1"'
            )
        elif member in found:
            raise ValueError(f"{member.path} is a member of a {kind} twice: name each member once")
        else:
            found.append(checked_model(member, f"a member of a {kind}"))
    return found


def _interrupted(error: Exception, member: Member) -> ModelInterrupted:
    if isinstance(error, ModelInterrupted):
        return error
    return ModelInterrupted(
        f"the answer of {member.path} broke off after a part of it was passed on ({_word(error)}): {_quoted(error)}",
        status=getattr(error, "status", None),
        partial=getattr(error, "partial", None),
    )


def _word(error: Exception) -> str:
    status = getattr(error, "status", None)
    return type(error).__name__ if status is None else f"{type(error).__name__}, {status}"


def _quoted(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "…"
