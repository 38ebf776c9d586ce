"""What one run has used of its own limits: looked at before each call, and counted after it. The budgets of authorities are the deployments' business."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NoReturn

import trio

from retinue.actors.agents.errors import RunLimitReached
from retinue.actors.llm.reserving import prompt_tokens
from retinue.actors.llm.usage import Usage, sound, used_too

if TYPE_CHECKING:
    from collections.abc import Callable

    from retinue.actors.agents.definition import Definition
    from retinue.actors.agents.message import RunLimits
    from retinue.actors.llm.messages import Complete

__all__ = ["Spent"]

UNKNOWN: Final = Usage()

_COST_UNKNOWN: Final = (
    "what a model's answer has cost is not known: say what the model costs where it is spawned (price=llm.Price(input_usd, output_usd)), or install the list of prices "
    "(retinue[prices]). Where the answers do not say their tokens, their cost is not known either"
)
_TOKENS_UNKNOWN: Final = "a model's answer does not say how many tokens it took: limit model_calls or seconds in place of tokens"


class Spent:
    """What a run has used.

    Args:
        limits: How much it may use.
        of: The agent whose run it is, for texts.
        now: The clock, in seconds.
    """

    __slots__ = (
        "_capped",
        "_dearest",
        "_ends",
        "_now",
        "_of",
        "bad_calls",
        "limits",
        "model_calls",
        "tool_calls",
        "usage",
    )

    def __init__(self, limits: RunLimits, of: Definition, now: Callable[[], float] = trio.current_time) -> None:
        self.limits = limits
        self._of = of
        self._now = now
        self._ends = math.inf if limits.seconds is None else now() + limits.seconds
        self._capped = limits.tokens is not None or limits.cost_micro_usd is not None
        self._dearest = 1
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

    def before_model(self, request: Complete) -> int | None:
        """Counts one more model call.

        Args:
            request: What is to be asked.

        Returns:
            How many tokens the answer may have: `max_tokens`, or fewer where less is left.

        Raises:
            RunLimitReached: That is more than is left of the run's limits.
        """
        most = self.limits.model_calls
        if most is not None and self.model_calls >= most:
            self.over("model_calls")
        max_tokens = self._capped_by(request) if self._capped else request.max_tokens
        self.model_calls += 1
        return max_tokens

    def _capped_by(self, request: Complete) -> int | None:
        limits, usage, max_tokens = self.limits, self.usage, request.max_tokens
        if limits.cost_micro_usd is not None:
            cost = 0 if usage is None else usage.cost_micro_usd
            if cost is None:
                self.over("cost_micro_usd", why=_COST_UNKNOWN)
            if cost + self._dearest > limits.cost_micro_usd:
                self.over("cost_micro_usd")
        if limits.tokens is None:
            return max_tokens
        used = 0 if usage is None else usage.total_tokens
        if used is None:
            self.over("tokens", why=_TOKENS_UNKNOWN)
        left = limits.tokens - used - prompt_tokens(request)
        if left < 1:
            self.over("tokens")
        return left if max_tokens is None else min(max_tokens, left)

    def after_model(self, usage: Usage) -> None:
        """Counts what a model call took."""
        usage, before = sound(usage) or UNKNOWN, self.usage
        self.usage = usage if before is None else before + usage
        if usage.cost_micro_usd is not None and usage.cost_micro_usd > self._dearest:
            self._dearest = usage.cost_micro_usd

    # -- calls of tools ------------------------------------------------------------------------------------------------------------------------------

    def used_within(self, usage: Usage | None) -> None:
        """Counts what an agent has used that a tool stands for."""
        self.usage = used_too(self.usage, usage)

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
        """Ends the run. What it said until then is put in by whoever catches this.

        Args:
            limit: The limit's name.
            why: What it is, and what to do, where the run is not at its limit but it cannot be told whether it is.
        """
        value: Any = getattr(self.limits, limit)
        if why:
            told = f"cannot keep its limit {limit}={value:,}: {why}. It stopped, and what it did until then is in memory"
        else:
            more = "max_turns=" if limit == "model_calls" and value == self._of.max_turns else f"RunLimits({limit}=…)"
            told = f"has reached its limit {limit}={value:,}; it stopped, and what it did until then is in memory. Give more with {more}"
        raise RunLimitReached(
            f"{self._of.path}: the run {told}",
            limit=limit,
            usage=self.usage,
        )
