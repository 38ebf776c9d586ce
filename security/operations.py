"""Operations and the patterns that name them.

An operation is a dotted name in segments: `payments.send`, `fs.read`, `tool.get_weather`. A pattern is one too, with two wildcards,
each a whole segment: `*` stands for exactly one segment, `**` (only at the end) for one or more. The pattern `**` alone is everything.
There is no regex, no `fnmatch` and no part-of-a-segment wildcard: what a pattern permits can be read off it.
"""

from __future__ import annotations

import string
from typing import Final, final

import attrs

from retinue.security.errors import PatternError

__all__ = ["MAX_OPERATION_LENGTH", "Pattern", "check_operation"]

MAX_OPERATION_LENGTH: Final = 255
"""Characters in an operation's name or a pattern, dots included."""

_SEGMENT_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_-")
_SHOWN_CHARACTERS: Final = 80


def _shown(value: object) -> str:
    """`value` for an error's text: escaped, and cut, because it may come from outside and be of any size."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]!r}… ({len(value)} characters)"
    return f"an object of type {type(value).__name__}"


def _plain_name(name: object, what: str, example: str) -> str:
    """An exact `str` of legal length, or `PatternError`."""
    if not isinstance(name, str):
        raise PatternError(f"{what} is a str, not {_shown(name)}. Write it as a dotted name, such as {example!r}.")
    # A subclass (an enum's member, say) may redefine equality, hashing and printing; from here on only its characters count.
    plain = str.__str__(name)
    if not plain or len(plain) > MAX_OPERATION_LENGTH:
        raise PatternError(
            f"{what} has 1 to {MAX_OPERATION_LENGTH} characters; {_shown(plain)} has {len(plain)}. Write, for example, {example!r}."
        )
    return plain


def _check_segment(segment: str, number: int, whole: str, what: str, fix: str) -> None:
    if not segment:
        raise PatternError(f"{_shown(whole)} is not {what}: segment {number} is empty. {fix}")
    if not _SEGMENT_CHARACTERS.issuperset(segment):
        raise PatternError(
            f"{_shown(whole)} is not {what}: segment {number}, {_shown(segment)}, has a character outside A-Z a-z 0-9 _ -. {fix}"
        )


def check_operation(name: str) -> str:
    """The operation's name as a plain `str`, checked.

    One or more segments of `A-Z a-z 0-9 _ -`, parted by dots, at most 255 characters; case counts.

    Raises:
        PatternError: The name is malformed, or has a wildcard (only patterns have those).
    """
    plain = _plain_name(name, "an operation", "fs.read")
    if "*" in plain:
        raise PatternError(
            f"{_shown(plain)} is a pattern, and an operation is wanted. Name the one operation that is meant, such as 'fs.read'."
        )
    for number, segment in enumerate(plain.split("."), 1):
        _check_segment(segment, number, plain, "an operation", "Write segments parted by single dots, such as 'fs.read'.")
    return plain


def _pattern_text(text: object) -> str:
    """The text of a pattern as a plain `str`, checked."""
    plain = _plain_name(text, "a pattern", "fs.*")
    segments = plain.split(".")
    for number, segment in enumerate(segments, 1):
        if segment == "*" or (segment == "**" and number == len(segments)):
            continue
        if segment == "**":
            raise PatternError(
                f"{_shown(plain)} is not a pattern: '**' stands only at the end. Use '*' for exactly one segment in the middle."
            )
        if "*" in segment:
            raise PatternError(
                f"{_shown(plain)} is not a pattern: in segment {number} a wildcard is part of a segment. Use '*' alone, or name each operation."
            )
        _check_segment(segment, number, plain, "a pattern", "Write segments parted by single dots, such as 'fs.read', 'fs.*' or 'fs.**'.")
    return plain


@final
@attrs.frozen(repr=False)
class Pattern:
    """A pattern of operations, parsed once; two patterns are equal if their texts are.

    Raises:
        PatternError: The text is malformed: an empty segment, a `**` that is not last, a wildcard that is only part of a segment.
    """

    text: str = attrs.field(converter=_pattern_text)
    _head: tuple[str, ...] = attrs.field(init=False, eq=False)  # the segments, a closing `**` left out
    _open: bool = attrs.field(init=False, eq=False)  # closes with `**`
    _starred: bool = attrs.field(init=False, eq=False)  # has a `*` among the head

    def __attrs_post_init__(self) -> None:
        segments = self.text.split(".")
        is_open = segments[-1] == "**"
        head = tuple(segments[:-1] if is_open else segments)
        # attrs' own way to set what is derived on a frozen class.
        object.__setattr__(self, "_head", head)
        object.__setattr__(self, "_open", is_open)
        object.__setattr__(self, "_starred", "*" in head)

    @property
    def is_everything(self) -> bool:
        """Whether this is the pattern `**`, which every operation matches."""
        return self._open and not self._head

    def matches(self, operation: str) -> bool:
        """Whether the operation is one that this pattern names.

        Raises:
            PatternError: `operation` is malformed, or is itself a pattern.
        """
        return self.matches_segments(tuple(check_operation(operation).split(".")))

    def matches_segments(self, segments: tuple[str, ...]) -> bool:
        """`matches` for a name that is checked and split already."""
        head = self._head
        if self._open:
            if len(segments) <= len(head):
                return False
        elif len(segments) != len(head):
            return False
        if not self._starred:
            return segments[: len(head)] == head
        # The lengths are settled above: what an open pattern has beyond its head is free.
        return all(want in ("*", have) for want, have in zip(head, segments, strict=False))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"
