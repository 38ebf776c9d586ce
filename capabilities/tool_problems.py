"""What is wrong with one argument of a tool call."""

from __future__ import annotations

from typing import ClassVar

import attrs

__all__ = ["Problem"]


@attrs.frozen
class Problem:
    """One thing that is wrong with the arguments of a call.

    Attributes:
        where: The parameter, and the way into it: "city", "stops[2].name". "" stands for the arguments as a whole.
        expected: What would be right: "an integer", "one of 'km', 'miles'".
        got: What came: "the string 'many'"; "nothing" where it is missing.
        hint: What else helps: a name that was probably meant. Default: "".
    """

    __immutable__: ClassVar[bool] = True

    where: str
    expected: str
    got: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.where or 'the arguments'}: expected {self.expected}, got {self.got}{f' ({self.hint})' if self.hint else ''}"
