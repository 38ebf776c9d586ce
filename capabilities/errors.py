"""The errors of tools and their arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from retinue.security.errors import RetinueError

if TYPE_CHECKING:
    from retinue.capabilities.tool_problems import Problem

__all__ = ["BadArguments", "BadExpression"]


class BadArguments(RetinueError, ValueError):
    """The arguments of a tool call do not fit the tool, or are no JSON; nothing was run. The text is for the model: it can mend its call by it.

    Attributes:
        tool: The tool's name.
        problems: Each parameter that is wrong, what was expected and what came; empty where the text is no JSON.
        position: Where the JSON text is broken, in characters from 0; None where it is not.
    """

    code: ClassVar[str] = "tool.arguments"

    def __init__(self, text: str, *, tool: str, problems: Iterable[Problem] = (), position: int | None = None) -> None:
        super().__init__(text)
        self.tool = tool
        self.problems = tuple(problems)
        self.position = position


class BadExpression(RetinueError, ValueError):
    """An expression for `safe_expression` is none, would become too large, or cannot be calculated. The text is for the model: it can mend its call by it.

    Attributes:
        position: Where in the expression, in characters from 0; None where it is not one place.
    """

    code: ClassVar[str] = "tool.expression"

    def __init__(self, text: str, *, position: int | None = None) -> None:
        super().__init__(text)
        self.position = position
