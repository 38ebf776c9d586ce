"""What Savina's programs compute beside their messages, as its Java code does, so that message patterns equal those of other ports."""

from __future__ import annotations

import math

__all__ = ["PseudoRandom", "busy_wait", "process_item", "sine_squared"]


class PseudoRandom:
    """Savina's own generator: the same numbers in every port."""

    __slots__ = ("_value",)

    def __init__(self, seed: int = 74755) -> None:
        self._value = seed

    def below(self, bound: int) -> int:
        """The next number, from 0 to `bound` - 1."""
        self._value = (self._value * 1309 + 13849) & 65535
        return self._value % bound

    def fraction(self) -> float:
        """The next number, above 0 and at most 1."""
        self._value = (self._value * 1309 + 13849) & 65535
        return 1.0 / (self._value + 1)


def sine_squared(theta: float = 37.2) -> float:
    """The computation of the fork-join programs."""
    sine = math.sin(theta)
    result = sine * sine
    if result <= 0:
        raise ArithmeticError(f"a square of {result}")
    return result


def process_item(term: float, cost: int) -> float:
    """The work on an item of the bounded buffer: `cost` × 100 logarithms."""
    result = term
    random = PseudoRandom(cost)
    if cost > 0:
        for _ in range(cost * 100):
            result += math.log(abs(random.fraction()) + 0.01)
    else:
        result += math.log(abs(random.fraction()) + 0.01)
    return result


def busy_wait(rounds: int, random: PseudoRandom) -> int:
    """Draws so many random numbers and tells how many it was."""
    done = 0
    for _ in range(rounds):
        random.fraction()
        done += 1
    return done
