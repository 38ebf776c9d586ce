"""What an exchange with a model is charged to: the accounts of the authority that it is asked under, by the deployment that does it, once.

Before the exchange the worst case is reserved: the request as it is estimated, and the longest answer that it may have. The request says so (`max_tokens`), so the model
stops there. After it, what it took is settled. It is done where the exchange is, so whoever asks is counted: an agent, a router, a planner, a program's own handler,
whether it reads a stream or waits for an answer. Where several are at it at once, one waits for the others only where what they have reserved (and not what was spent)
is in its way; see `Ledger.lease`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from retinue.actors.llm.errors import BadReply, ModelInterrupted, ModelTimeout, ModelUnreachable, WrongEndpoint
from retinue.actors.llm.events import Completed, ModelEvent, ReasoningDelta, Retrying, TextDelta, ToolCallDelta
from retinue.actors.llm.messages import Complete, Completion
from retinue.actors.llm.usage import MOST_USED, Usage, sound
from retinue.security.accounts import Amounts
from retinue.security.errors import BudgetExceeded
from retinue.security.limits import UNLIMITED, decimal_text

if TYPE_CHECKING:
    from retinue.actors.llm.prices import Price, Tariff
    from retinue.actors.runtime.context import ActorContext
    from retinue.actors.runtime.spending import Budget
    from retinue.capabilities.budgets import Reservation

__all__ = [
    "CHARACTERS_A_TOKEN",
    "LEAST_ANSWER",
    "MOST_ANSWER",
    "Charge",
    "Charged",
    "charged",
    "charged_stream",
    "current_charge",
    "priced",
    "priced_event",
    "prompt_tokens",
]

LEAST_ANSWER: Final = 4_096
"""Tokens that are reserved for an answer whose request does not say how long it may be; or a fourth of what is left, where that is more."""

CHARACTERS_A_TOKEN: Final = 3
"""A low guess: what is reserved for a prompt is rather too much than too little. What it really took is settled afterwards."""

MOST_ANSWER: Final = 8_192
"""Tokens that such a request is given at most: endpoints refuse more than their model can say, and most can say so much."""

TOKENS_A_MESSAGE: Final = 8

_UNKNOWN: Final = Usage()

_log = logging.getLogger("retinue.llm")

_CHARGE: ContextVar[Charge | None] = ContextVar(
    "retinue_charge", default=None
)  # of the exchange that begins in this task, for the client below it


class Charged(Protocol):
    """What does the exchanges: a deployment."""

    price: Price | None
    guesses_usage: bool

    @property
    def ctx(self) -> ActorContext:
        """The deployment's context, for its path."""
        ...

    async def complete_once(self, request: Complete) -> Completion:
        """Answers a request."""
        ...

    def stream_once(self, request: Complete) -> AsyncIterator[ModelEvent]:
        """Answers it in pieces."""
        ...

    async def tariff(self, prompt_tokens: int) -> Tariff | None:
        """What the answer costs; None where that is not known."""
        ...


def current_charge() -> Charge | None:
    """The charge of the exchange that the current task begins; None where nothing is limited."""
    return _CHARGE.get()


def prompt_tokens(request: Complete) -> int:
    """How many tokens a request takes, estimated by its bytes and rather too many."""
    size = 0
    for each in request.messages:
        size += _size(each.content)
        if each.reasoning:
            size += _size(each.reasoning)
        for call in each.tool_calls:
            size += _size(call.name) + _size(call.arguments)
    for tool in request.tools:
        size += _size(tool.name) + _size(tool.description) + _size(tool.parameters)
    if request.output is not None:
        size += _size(request.output.schema)
    return size // CHARACTERS_A_TOKEN + TOKENS_A_MESSAGE * (len(request.messages) + len(request.tools)) + 1


def _size(text: str) -> int:
    """The length of a text in characters of English: others take more tokens, as they take more bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _size_of(completion: Completion) -> int:
    return (
        _size(completion.text)
        + _size(completion.reasoning or "")
        + sum(_size(call.name) + _size(call.arguments) for call in completion.tool_calls)
    )


def _capped(request: Complete, most: int | None) -> Complete:
    return Complete(
        request.messages, most, request.temperature, request.stop, request.seed, request.tools, request.tool_choice, request.output,
        request.parallel_tool_calls, request.reasoning_effort, request.extra,
    )  # fmt: skip


class Charge:
    """What one exchange is charged to, from before it begins until it has ended.

    Attributes:
        request: The request as it may be sent: with a limit on its answer.
    """

    __slots__ = ("_budget", "_deployment", "_given", "_heard", "_is_taken", "_prompt", "_reservation", "_tariff", "request")

    def __init__(self, deployment: Charged, budget: Budget, request: Complete) -> None:
        self._deployment = deployment
        self._budget = budget
        self._given = request
        self._prompt = prompt_tokens(request)
        self._tariff: Tariff | None = None
        self._reservation: Reservation | None = None
        self._heard = 0
        self._is_taken = True
        self.request = request

    async def reserve(self) -> None:
        """Reserves the worst case; waits for it where others have reserved it.

        Raises:
            BudgetExceeded: It is not left, or the price is not known where cost is limited.
        """
        self.begin()
        if self._tariff is None and any(balance.remaining.cost_micro_usd != UNLIMITED for balance in self._budget.balance()):
            self._tariff = await self._deployment.tariff(self._prompt)
            if self._tariff is None:
                self._budget.refuse(
                    BudgetExceeded(
                        "the cost is limited, and what this model costs is not known, so the limit could not be kept: nothing was asked. Install the list of "
                        "prices (retinue[prices]), or say what it costs: price=llm.Price(input_usd, output_usd).",
                        resource="cost",
                    )
                )
        answer: int | None = None

        def want(left: Amounts, free: Amounts) -> Amounts:
            nonlocal answer
            answer = self._answer(left, free)
            return self._worst(left, answer)

        self._reservation = await self._budget.lease(want)
        given = self._given
        self.request = given if answer == given.max_tokens else _capped(given, answer)

    def _answer(self, left: Amounts, free: Amounts) -> int | None:
        """How many tokens the answer may have, of what is left, and what of that nobody has reserved; None where nothing limits it."""
        asked = self._given.max_tokens
        whole = self._room(left)
        if whole is None:
            return asked
        if asked is not None:
            return max(1, min(asked, whole))
        fourth, now = self._room(left, share=4), self._room(free)
        assert fourth is not None
        assert now is not None
        return max(1, min(whole, LEAST_ANSWER), min(fourth, now, MOST_ANSWER))

    def _room(self, amounts: Amounts, share: int = 1) -> int | None:
        """How many tokens of an answer there is room for in these amounts, or in that share of them, the request taken off; None where nothing limits it."""
        rooms: list[int] = []
        if amounts.tokens != UNLIMITED:
            rooms.append((amounts.tokens - self._prompt) // share)
        if self._tariff is not None and amounts.cost_micro_usd != UNLIMITED:
            room = self._tariff.answer((amounts.cost_micro_usd - self._tariff.prompt) // share)
            if room is not None:
                rooms.append(room)
        return min(rooms) if rooms else None

    def _worst(self, left: Amounts, answer: int | None) -> Amounts:
        tokens = 0 if left.tokens == UNLIMITED or answer is None else self._prompt + answer
        cost = 0 if left.cost_micro_usd == UNLIMITED or self._tariff is None else self._tariff.cost(answer or 0)
        return Amounts(0, tokens, cost)

    # -- while it goes on ----------------------------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """An attempt begins."""
        self._heard = 0
        self._is_taken = True

    def hear(self, event: ModelEvent) -> None:
        """A piece of the answer has come."""
        if isinstance(event, TextDelta | ReasoningDelta):
            self._heard += _size(event.text)
        elif isinstance(event, ToolCallDelta):
            self._heard += _size(event.arguments)
        elif isinstance(event, Completed):
            self.completed(event.completion)

    def not_taken(self) -> None:
        """The attempt has not come to the model, or was refused."""
        self._is_taken = False

    async def again(self, request: Complete, error: Exception) -> Complete:
        """The request is about to be sent once more after `error`. What that attempt has taken is settled, and the worst case is reserved anew.

        Returns:
            The request as it may be sent now.

        Raises:
            BudgetExceeded: There is not enough left.
        """
        if self._reservation is None or not self._settle_failed(error):
            return request
        return await self.anew(request)

    async def anew(self, request: Complete) -> Complete:
        """The request is about to be sent once more, after an attempt that `failed`: the worst case is reserved anew.

        Returns, raises: As `again`.
        """
        await self.reserve()
        most = self.request.max_tokens
        return request if request.max_tokens == most else _capped(request, most)

    # -- its end -------------------------------------------------------------------------------------------------------------------------------------

    def completed(self, completion: Completion) -> None:
        """Settles it by what the model says that it took; what it does not say counts as the worst case."""
        usage = _taken(self._deployment, self._given, completion)
        self._settle(usage.total_tokens, usage.cost_micro_usd)

    def failed(self, error: BaseException | None) -> None:
        """Settles it where it was not answered to its end: what had been read and said is guessed as it was for the reservation. Does nothing where it is settled.

        Args:
            error: What ended it; None where it just ended.
        """
        if self._reservation is not None and not self._settle_failed(error):
            self._budget.release(self._reservation)
            self._reservation = None

    def _settle_failed(self, error: BaseException | None) -> bool:
        """Settles what a failed attempt has taken; False where that is nothing."""
        partial = getattr(error, "partial", None)
        heard = max(self._heard, _size_of(partial)) if isinstance(partial, Completion) else self._heard
        if not heard and not (self._is_taken and _may_have_taken(error)):
            return False
        assert self._reservation is not None
        amounts = self._reservation.amounts
        answer = heard // CHARACTERS_A_TOKEN + 1 if heard else 0
        if self.request.max_tokens is not None:
            answer = min(answer, self.request.max_tokens)
        tokens = self._prompt + answer
        self._settle(
            min(tokens, amounts.tokens) if amounts.tokens else tokens,
            None if self._tariff is None else min(self._tariff.cost(answer), amounts.cost_micro_usd),
        )
        return True

    def _settle(self, tokens: int | None, cost: int | None) -> None:
        reservation = self._reservation
        if reservation is None:
            return
        over = self._budget.settle(reservation, tokens=tokens, cost_micro_usd=cost)
        self._reservation = None  # not before: what cannot be settled is released
        if over.tokens or over.cost_micro_usd:
            _log.warning(
                "%s: an exchange with a model took %s more than was left: its request was longer than estimated, or its answer than it was told",
                self._deployment.ctx.path,
                " and ".join(_over(over)),
            )


def _over(over: Amounts) -> list[str]:
    found = [f"{over.tokens:,} token{'' if over.tokens == 1 else 's'}"] if over.tokens else []
    return [*found, f"{decimal_text(over.cost_micro_usd, 6)} US dollars"] if over.cost_micro_usd else found


def _taken(deployment: Charged, request: Complete, completion: Completion) -> Usage:
    """What an answer took: as the model says it, or guessed by its text where the deployment does that; its cost by the deployment's price where it is not said."""
    usage, price = sound(getattr(completion, "usage", None)) or _UNKNOWN, deployment.price
    if usage.total_tokens is None and deployment.guesses_usage:
        usage = Usage(1, prompt_tokens(request), _size_of(completion) // CHARACTERS_A_TOKEN + 1, cost_micro_usd=usage.cost_micro_usd)
    if usage.cost_micro_usd is not None or price is None:
        return usage
    cost = price.of(usage)
    if cost is None or cost > MOST_USED:
        return usage  # no answer costs so much: what it says of its tokens cannot be true, and the worst case counts
    return Usage(1, usage.prompt_tokens, usage.completion_tokens, cost_micro_usd=cost)


def priced(deployment: Charged, request: Complete, completion: Completion) -> Completion:
    """The answer with its cost, where the deployment has a price and the answer does not say it: what a budget is charged is what the asker is told, and traces.

    What is no completion, or no usage, is left as it is.
    """
    if deployment.price is None or not isinstance(completion, Completion):
        return completion
    usage = completion.usage
    if not isinstance(usage, Usage) or usage.cost_micro_usd is not None:
        return completion
    cost = _taken(deployment, request, completion).cost_micro_usd
    return completion if cost is None else attrs.evolve(completion, usage=attrs.evolve(usage, cost_micro_usd=cost))


def priced_event(deployment: Charged, request: Complete, event: Completed) -> Completed:
    """The last event of a stream, likewise."""
    completion = priced(deployment, request, event.completion)
    return event if completion is event.completion else Completed(completion)


_MAYBE: Final = (ModelTimeout, ModelUnreachable, ModelInterrupted, BadReply)


def _may_have_taken(error: BaseException | None) -> bool:
    """Whether a model may have read the request, although it has said nothing: it was too slow, the connection broke, the asker has left."""
    return not isinstance(error, Exception) or (isinstance(error, _MAYBE) and not isinstance(error, WrongEndpoint))


async def charged(deployment: Charged, budget: Budget, request: Complete) -> Completion:
    """`deployment.complete_once(request)`, charged to a budget."""
    charge = Charge(deployment, budget, request)
    await charge.reserve()
    _CHARGE.set(charge)
    try:
        completion = priced(deployment, request, await deployment.complete_once(charge.request))
        charge.completed(completion)
    except BaseException as error:
        charge.failed(error)
        raise
    finally:
        _CHARGE.set(None)
    return completion


async def charged_stream(deployment: Charged, budget: Budget, request: Complete) -> AsyncGenerator[ModelEvent, None]:
    """`deployment.stream_once(request)`, charged to a budget: also what was said before whoever reads it has left."""
    charge = Charge(deployment, budget, request)
    await charge.reserve()
    try:
        async with aclosing(deployment.stream_once(charge.request)) as events:  # type: ignore[type-var]  # an async generator
            begun = False
            while True:
                if not begun:
                    _CHARGE.set(charge)  # for the client below, until the answer begins
                try:
                    event = await anext(events, None)
                finally:
                    if not begun:
                        _CHARGE.set(None)
                if event is None:
                    break
                begun = begun or type(event) is not Retrying
                if type(event) is Completed:
                    event = priced_event(deployment, request, event)
                charge.hear(event)
                yield event
    except BaseException as error:
        charge.failed(error)
        raise
    charge.failed(None)
