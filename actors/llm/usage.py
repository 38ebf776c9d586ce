"""What a model's answer used up: tokens and money, where they are known."""

from __future__ import annotations

from typing import Any, Final

import attrs

from retinue.mailbox.constructors import quicken

__all__ = ["MOST_USED", "NO_USAGE", "Usage", "sound", "used_too"]

MOST_USED: Final = 2**62 - 1
"""Of tokens and of money that can be true: two of these can be added."""


@attrs.frozen
class Usage:
    """What one answer used, or several together (`a + b`). None is "not known", which is never the same as 0: a sum with it is None too.

    Attributes:
        requests: How many answers are counted; default 1.
        prompt_tokens: Tokens of the requests as the endpoint counted them, those that it had cached included.
        completion_tokens: Tokens of the answers, those of the reasoning included.
        cached_tokens: How many of `prompt_tokens` were read from the endpoint's cache.
        reasoning_tokens: How many of `completion_tokens` were reasoning.
        cost_micro_usd: The price in millionths of a US dollar.
    """

    __immutable__ = True

    requests: int = 1
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_micro_usd: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Tokens of requests and answers together; None where one of the two is not known."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.prompt_tokens + self.completion_tokens

    @property
    def is_complete(self) -> bool:
        """Whether the tokens of every counted request and answer are known."""
        return self.prompt_tokens is not None and self.completion_tokens is not None

    def __add__(self, other: Usage) -> Usage:
        if not isinstance(other, Usage):
            return NotImplemented
        # Sums spelled out: it is added up after every call of a model.
        prompt, more_prompt = self.prompt_tokens, other.prompt_tokens
        completion, more_completion = self.completion_tokens, other.completion_tokens
        cached, more_cached = self.cached_tokens, other.cached_tokens
        reasoning, more_reasoning = self.reasoning_tokens, other.reasoning_tokens
        cost, more_cost = self.cost_micro_usd, other.cost_micro_usd
        return Usage(
            self.requests + other.requests,
            None if prompt is None or more_prompt is None else prompt + more_prompt,
            None if completion is None or more_completion is None else completion + more_completion,
            None if cached is None or more_cached is None else cached + more_cached,
            None if reasoning is None or more_reasoning is None else reasoning + more_reasoning,
            None if cost is None or more_cost is None else cost + more_cost,
        )


quicken(Usage)


NO_USAGE = Usage(0, 0, 0, 0, 0, 0)
"""Nothing used; where a sum starts."""


def sound(usage: Any) -> Usage | None:
    """What of a usage can be true, so that it may be counted: who wrote a deployment or a member may say anything, and numbers below zero would give something back.

    Args:
        usage: What was said.

    Returns:
        It itself where it can be; else one whose impossible numbers are None, "not known"; None for None.
    """
    if usage is None:
        return None
    if usage.__class__ is Usage and _true(usage.prompt_tokens) and _true(usage.completion_tokens) and _true(usage.cost_micro_usd):
        return usage
    prompt, answer, cost = (
        number if _true(number) else None
        for number in (getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens", "cost_micro_usd"))
    )
    return Usage(1, prompt, answer, cost_micro_usd=cost)


def used_too(before: Usage | None, usage: Any) -> Usage | None:
    """A sum with what can be true of a usage that was said; None where nothing was."""
    counted = sound(usage)
    return before if counted is None else counted if before is None else before + counted


def _true(number: Any) -> bool:
    return number is None or (number.__class__ is int and 0 <= number <= MOST_USED)
