"""What comes of several questions: answers told with their speakers, failures told of, what was used in all."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import RunLimitReached
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.telling import log_failure, of_function
from retinue.security.errors import BudgetExceeded, DefinitionError, Expired

__all__ = [
    "Failures",
    "answered",
    "checked_failures",
    "checked_number",
    "checked_seconds",
    "ends_the_run",
    "failed",
    "line",
    "spoken",
    "told_of",
]

Failures: TypeAlias = Literal["raise", "skip"]

LONGEST: Final = 500
"""Characters of what is told of one failure."""


def line(speaker: str, text: str) -> str:
    """What somebody said, after the name. The further lines are indented, so that none of them reads as another speaker's."""
    return f"{speaker}: " + "\n    ".join(text.splitlines())


def spoken(answers: Mapping[str, AgentMessage]) -> str:
    """Answers, each after its speaker's name."""
    return "\n".join(line(name, content_text(answer.content)) for name, answer in answers.items())


def told_of(error: Exception) -> str:
    """What is told of a failure: its code and its text."""
    code = getattr(error, "code", None)
    return f"{code if isinstance(code, str) and code else type(error).__name__}: {error}"[:LONGEST]


def failed(errors: Mapping[str, Exception], path: str, *, every: bool) -> dict[str, str]:
    """What is told of failures that do not end a run. Raises those that do: a limit of the whole tree, and the first where every question failed."""
    for error in errors.values():
        if ends_the_run(error):
            raise error
    if every and errors:
        raise next(iter(errors.values()))
    for name, error in errors.items():
        log_failure(path, repr(name), error, "the run goes on without it")
    return {name: told_of(error) for name, error in errors.items()}


def ends_the_run(error: Exception) -> bool:
    """Whether nothing that comes after a failure can go better: what all share is used up."""
    return isinstance(error, BudgetExceeded | Expired) or (isinstance(error, RunLimitReached) and error.limit.startswith("tree."))


async def answered(function: Callable[[], Any], path: str, option: str) -> AgentMessage:
    """The answer that a function of a team's author has given. Raises DefinitionError for what is none.

    Args:
        function: The function, plain or `async def`, with what it is given.
        path: The team's path.
        option: As what the function was given, "Parallel(combine=…)".
    """
    with of_function(f"{option} of {path}"):
        given = function()
        if inspect.isawaitable(given):
            given = await given
    if isinstance(given, str):
        return AgentMessage(given)
    if not isinstance(given, AgentMessage):
        raise DefinitionError(f"{path}: {option} gave a {type(given).__name__}: return a str or an rt.AgentMessage")
    return given


def checked_failures(value: Any, where: str) -> Failures:
    """What is done about failures. Raises DefinitionError for what is neither."""
    if value not in ("raise", "skip"):
        raise DefinitionError(f'{where}(failures={value!r:.80}): give "raise" or "skip"')
    found: Failures = value
    return found


def checked_number(value: Any, field: str, where: str, *, least: int = 1, most: int = 100_000) -> int:
    """A number. Raises DefinitionError for what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise DefinitionError(f"{where}({field}={value!r:.80}): give a whole number, {least:,} to {most:,}")
    return value


def checked_seconds(value: Any, field: str, where: str) -> float:
    """Seconds. Raises DefinitionError for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise DefinitionError(f"{where}({field}={value!r:.80}): give seconds, a number above 0")
    return value
