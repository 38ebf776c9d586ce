"""The turn that everybody does: a question, a call of a tool, its result, an answer. The model takes no time, so that the framework is what is measured."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness import BrokenBlock

__all__ = ["ANSWER", "ARGUMENTS", "CITY", "DESCRIPTION", "INSTRUCTIONS", "QUESTION", "TOOL", "Tally"]

INSTRUCTIONS = "Answer with the tool's help. Be brief."
QUESTION = "What will the weather be in Paris?"
TOOL = "get_weather"
DESCRIPTION = "Forecast for a city."
CITY = "Paris"
ARGUMENTS = '{"city": "Paris", "days": 2}'
ANSWER = "It will be sunny in Paris."


class Tally:
    """What was done: the tool and the model count themselves, and a block whose counts are not right has measured nothing.

    Attributes:
        calls: Of the tool.
        completions: Of the model.
    """

    __slots__ = ("calls", "completions")

    def __init__(self) -> None:
        self.calls = self.completions = 0

    async def forecast(self, city: str, days: int) -> str:
        """What the tool does."""
        if city != CITY or days != 2:
            raise BrokenBlock(f"the tool was called with {city!r} and {days!r}")
        self.calls += 1
        return f"{city}: sunny for {days} day(s)"

    def check(self, who: str, turns: int, answers: Sequence[str]) -> None:
        """Every turn must have had its two completions, its call and its answer."""
        wrong = [answer for answer in answers if answer != ANSWER]
        if wrong or len(answers) != turns or self.calls != turns or self.completions != 2 * turns:
            raise BrokenBlock(
                f"{who}: {turns} turns had {self.completions} completions, {self.calls} calls of the tool and {len(answers) - len(wrong)} right answers"
                + (f", and wrong ones such as {wrong[0]!r}" if wrong else "")
            )
