"""What one run has used of its limits: looked at before each call, and settled after it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NoReturn

import trio

from retinue.actors.agents.errors import RunLimitReached
from retinue.actors.llm.usage import Usage
from retinue.security.limits import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retinue.actors.agents.message import RunLimits
    from retinue.actors.llm.messages import ChatMessage, ToolSpec
    from retinue.actors.runtime.spending import Budget
    from retinue.capabilities.budgets import Reservation

__all__ = ["Spent"]

CHARACTERS_A_TOKEN: Final = 3
"""A low guess: what is reserved for a prompt is rather too much than too little. What it really took is settled afterwards."""

TOKENS_A_MESSAGE: Final = 8


class Spent:
    """What a run has used.

    Args:
        limits: How much it may use.
        now: The clock, in seconds.
    """

    __slots__ = (
        "_capped",
        "_dearest",
        "_ends",
        "_now",
        "_prompt",
        "_reserved",
        "bad_calls",
        "limits",
        "model_calls",
        "tool_calls",
        "usage",
    )

    def __init__(self, limits: RunLimits, now: Callable[[], float] = trio.current_time) -> None:
        self.limits = limits
        self._now = now
        self._ends = math.inf if limits.seconds is None else now() + limits.seconds
        self._capped = limits.tokens is not None or limits.cost_micro_usd is not None
        self._dearest = 1
        self._prompt = 0
        self._reserved: tuple[Budget, Reservation] | None = None
        self.model_calls = 0
        self.tool_calls = 0
        self.bad_calls = 0
        self.usage: Usage | None = None

    @property
    def counts(self) -> tuple[int, int, int]:
        """Model calls, tool calls and bad calls until now."""
        return self.model_calls, self.tool_calls, self.bad_calls

    def go_on(self, counts: tuple[int, int, int], usage: Usage | None) -> None:
        """Goes on from what a run had used when it was parked. Its seconds begin anew: those of the person who decided are not the run's."""
        self.model_calls, self.tool_calls, self.bad_calls = counts
        self.usage = usage

    # -- seconds -------------------------------------------------------------------------------------------------------------------------------------

    def timeout(self) -> float | None:
        """Seconds that the next call may take; None where the run has no limit of its own.

        Raises:
            RunLimitReached: There are none left.
        """
        if self._ends == math.inf:
            return None
        left = self._ends - self._now()
        if left <= 0:
            self.over("seconds")
        return left

    # -- calls of the model --------------------------------------------------------------------------------------------------------------------------

    def before_model(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], max_tokens: int | None, budget: Budget | None
    ) -> int | None:
        """Counts one more model call, and reserves what it may cost at most.

        Args:
            messages, tools, max_tokens: What is to be asked.
            budget: What the authority may spend, where it is limited.

        Returns:
            How many tokens the answer may have: `max_tokens`, or fewer where less is left.

        Raises:
            RunLimitReached: That is more than is left of the run's limits.
            BudgetExceeded: It is more than is left of the authority's.
        """
        most = self.limits.model_calls
        if most is not None and self.model_calls >= most:
            self.over("model_calls")
        if self._capped or budget is not None:
            max_tokens = self._reserve(messages, tools, max_tokens, budget)
        self.model_calls += 1
        return max_tokens

    def _reserve(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], max_tokens: int | None, budget: Budget | None
    ) -> int | None:
        limits, usage = self.limits, self.usage
        characters = sum(_size(each.content) + sum(_size(call.arguments) for call in each.tool_calls) for each in messages)
        characters += sum(_size(each.description) + _size(each.parameters) for each in tools)
        prompt = characters // CHARACTERS_A_TOKEN + TOKENS_A_MESSAGE * len(messages) + 1
        left = math.inf
        if limits.tokens is not None:
            used = 0 if usage is None else usage.total_tokens
            if used is None:
                self.over("tokens", "the model does not say how many tokens it used, so that the limit cannot be kept")
            left = limits.tokens - used - prompt
            if left < 1:
                self.over("tokens")
        if limits.cost_micro_usd is not None:
            cost = 0 if usage is None else usage.cost_micro_usd
            if cost is None:
                self.over("cost_micro_usd", "the price of the model is not known, so that the limit cannot be kept")
            if cost + self._dearest > limits.cost_micro_usd:
                self.over("cost_micro_usd")
        if budget is not None:
            left = min(left, self._reserve_budget(budget, prompt, max_tokens))
        if left == math.inf:
            return max_tokens
        return int(left) if max_tokens is None else min(max_tokens, int(left))

    def _reserve_budget(self, budget: Budget, prompt: int, max_tokens: int | None) -> float:
        """Reserves on the authority's accounts; how many tokens the answer may have by them."""
        tokens = cost = math.inf
        for balance in budget.balance():
            if balance.remaining.tokens != UNLIMITED:
                tokens = min(tokens, balance.remaining.tokens)
            if balance.remaining.cost_micro_usd != UNLIMITED:
                cost = min(cost, balance.remaining.cost_micro_usd)
        if tokens == cost == math.inf:
            return math.inf
        answer = math.inf if tokens == math.inf else max(1, tokens - prompt)
        if max_tokens is not None:
            answer = min(answer, max_tokens)
        reservation = budget.reserve(
            tokens=0 if tokens == math.inf else prompt + int(answer), cost_micro_usd=0 if cost == math.inf else self._dearest
        )
        self._prompt = prompt
        self._reserved = (budget, reservation)
        return answer

    def after_model(self, usage: Usage) -> None:
        """Settles a model call with what it took.

        Raises:
            RunLimitReached: What it took is not known, and there is a limit on it.
        """
        before = self.usage
        self.usage = usage if before is None else before + usage
        if usage.cost_micro_usd is not None and usage.cost_micro_usd > self._dearest:
            self._dearest = usage.cost_micro_usd
        held, self._reserved = self._reserved, None
        if held is not None:
            budget, reservation = held
            budget.settle(reservation, tokens=usage.total_tokens, cost_micro_usd=usage.cost_micro_usd)

    def model_failed(self, heard: int = 0) -> None:
        """Settles a model call that was not answered to its end.

        Args:
            heard: Characters that the model had said until then. None: what was reserved is given back, for most often nothing was taken. Else the prompt was read
                and they were written: who leaves each stream in its middle is not served for nothing. It is guessed as it was for the reservation.
        """
        held, self._reserved = self._reserved, None
        if held is None:
            return
        budget, reservation = held
        if heard:
            tokens = min(reservation.amounts.tokens, self._prompt + heard // CHARACTERS_A_TOKEN + 1)
            budget.settle(reservation, tokens=tokens)  # of the cost what was reserved
        else:
            budget.release(reservation)

    # -- calls of tools ------------------------------------------------------------------------------------------------------------------------------

    def before_tools(self, count: int) -> None:
        """Counts tool calls. Raises RunLimitReached where they are more than are left; none of them is to run then."""
        most = self.limits.tool_calls
        if most is not None and self.tool_calls + count > most:
            self.over("tool_calls")
        self.tool_calls += count

    def bad_call(self) -> bool:
        """Counts a call that could not be carried out as it was written; says whether there were too many."""
        self.bad_calls += 1
        most = self.limits.bad_calls
        return most is not None and self.bad_calls > most

    def over(self, limit: str, why: str = "") -> NoReturn:
        """Ends the run. What it said until then is put in by whoever catches this."""
        value: Any = getattr(self.limits, limit)
        reason = f": {why}" if why else ""
        raise RunLimitReached(
            f"the run has reached its limit {limit}={value:,}{reason}; it stopped, and what it did until then is in memory. "
            f"Give more with RunLimits({limit}=…)",
            limit=limit,
            usage=self.usage,
        )


def _size(text: str) -> int:
    """The length of a text in characters of English: others take more tokens, as they take more bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
