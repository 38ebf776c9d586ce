"""Regular expressions of users as detectors: refused where they could run away, and understood well enough to know when a text in pieces has decided a place.

`re` goes back and tries again, so an expression such as `(a+)+b` takes for ever on the right text. What is taken here cannot: a repetition whose pieces can be split in
several ways is refused where it is defined, and a match is looked for in a bounded stretch of text.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import Any, Final

import attrs

from retinue.security.errors import DefinitionError
from retinue.security.text_filter import NOTHING, WAIT, Detector, Verdict

__all__ = ["REACH", "pattern_detector"]

REACH: Final = 512
"""Characters that one match is looked for in. A longer one is taken out to the end of the run of characters that it consists of."""

MAX_PATTERN: Final = 2000
MAX_SMALL: Final = 8
"""Small choices of a pattern (`-?`, `x{0,2}`) that may be tried in all combinations."""

# How `re` itself reads an expression; it has no public name. A test pins what is used of it.
_sre: Any = importlib.import_module("re._parser")
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_CHARACTERS: Final = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN"})
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": r"\d", "CATEGORY_NOT_DIGIT": r"\D", "CATEGORY_SPACE": r"\s", "CATEGORY_NOT_SPACE": r"\S", "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}  # fmt: skip
_SAMPLE: Final = "".join(map(chr, range(0x250))) + "αжあ中٣Ａ３\u2028\U0001f600"
"""By which two classes of characters are compared: it bounds work, it decides nothing about findings."""


class _Unsafe(Exception):
    """Why an expression is refused; becomes a DefinitionError."""


@attrs.define
class _Shape:
    """What an expression consists of.

    Attributes:
        consumed: Sources of all classes of characters that a match may hold.
        first: Those that it may begin with.
        empty: Whether it may match nothing.
        ahead: Characters behind a match that it looks at.
        large, small: Repetitions whose end can be in several places, by how many.
    """

    consumed: list[str] = attrs.Factory(list)
    first: list[str] = attrs.Factory(list)
    empty: bool = True
    ahead: int = 0
    large: int = 0
    small: int = 0


def pattern_detector(pattern: str | re.Pattern[str], name: str | None = None) -> Detector:
    """A detector of what a regular expression matches.

    Args:
        pattern: The expression; flags by `re.compile`.
        name: What a finding is called; default the expression.

    Raises:
        DefinitionError: It is no expression, matches the empty text, looks back, refers back, or could run away; the text says what to write instead.
    """
    where = f"the pattern {getattr(pattern, 'pattern', pattern)!r:.200}"
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError, RecursionError, OverflowError) as error:
        raise DefinitionError(f"{where} is no regular expression: {error}") from None
    if not isinstance(compiled.pattern, str):
        raise DefinitionError(f"{where} is made of bytes: give a str")
    if len(compiled.pattern) > MAX_PATTERN:
        raise DefinitionError(f"{where} has {len(compiled.pattern)} characters: {MAX_PATTERN} are the most")
    try:
        parts = list(_sre.parse(compiled.pattern, compiled.flags & ~re.UNICODE))
        shape = _shape(parts, compiled.flags)
        if shape.large > 1 or shape.small > MAX_SMALL:
            raise _Unsafe(
                "it has several repetitions whose ends can be in many places: put a character between them that they do not match, or bound them"
            )
    except _Unsafe as error:
        raise DefinitionError(f"{where} is not taken: {error}") from None
    if shape.empty:
        raise DefinitionError(f"{where} is not taken: it matches the empty text")
    # At a place that is no beginning of a word nothing has to be held back.
    edge = r"\b" if str(parts[0][0]) == "AT" and str(parts[0][1]) == "AT_BOUNDARY" else ""
    return _detector(compiled, name or f"what matches {compiled.pattern!r:.100}", shape, edge)


def _detector(compiled: re.Pattern[str], name: str, shape: _Shape, edge: str) -> Detector:
    flags = compiled.flags
    first = re.compile(edge + _any_of(shape.first), flags)
    body = _any_of(shape.consumed)
    run = re.compile(f"{body}{{0,{REACH}}}", flags)
    more = re.compile(f"{body}+", flags)
    ahead = shape.ahead + 2  # `\b` and `$` look at one character and at the end behind it

    def scan(text: str, place: int, whole: bool) -> Verdict:
        limit = place + REACH + ahead
        if not whole and limit > len(text):
            match = run.match(text, place)
            stop = place if match is None else match.end()
            if stop == len(text) or stop + ahead > len(text):
                return WAIT
        match = compiled.match(text, place, limit)
        if match is None or match.end() == place:
            return NOTHING
        return Verdict(match.end(), -1, more if match.end() >= place + REACH else None)

    return Detector(name, first, scan)


def _any_of(sources: Iterable[str]) -> str:
    return f"(?:{'|'.join(dict.fromkeys(sources)) or '(?!)'})"


def _shape(sequence: list[Any], flags: int) -> _Shape:
    """What a sequence of the expression's parts consists of. Raises _Unsafe."""
    found = _Shape()
    parts = [(part, _part(part, flags)) for part in sequence]
    for index, (part, shape) in enumerate(parts):
        found.consumed += shape.consumed
        if found.empty:
            found.first += shape.first
            found.empty = shape.empty
        found.ahead = max(found.ahead, shape.ahead)
        found.large += shape.large
        found.small += shape.small
        if str(part[0]) in _REPEATS and str(part[0]) != "POSSESSIVE_REPEAT":
            low, high, _ = part[1]
            if int(low) != int(high) and _overlap(shape.consumed, _following(parts[index + 1 :]), flags):
                if int(high) - int(low) > 4:
                    found.large += 1
                else:
                    found.small += 1
    return found


def _following(parts: list[tuple[Any, _Shape]]) -> list[str]:
    """What may stand right behind: of nothing, nothing."""
    found: list[str] = []
    for _, shape in parts:
        found += shape.first
        if not shape.empty:
            break
    return found


def _part(part: Any, flags: int) -> _Shape:
    kind, value = str(part[0]), part[1]
    if kind in _CHARACTERS:
        source = _character(kind, value, flags)
        return _Shape([source], [source], empty=False)
    if kind == "SUBPATTERN":
        if value[1] or value[2]:
            raise _Unsafe("it has flags inside: give them to re.compile")
        return _shape(list(value[3]), flags)
    if kind == "ATOMIC_GROUP":
        return _shape(list(value), flags)
    if kind == "BRANCH":
        return _branches([_shape(list(branch), flags) for branch in value[1]])
    if kind in _REPEATS:
        return _repeat(kind, value, flags)
    if kind == "AT":
        if str(value) in ("AT_BEGINNING", "AT_BEGINNING_STRING") and not flags & re.MULTILINE:
            raise _Unsafe("it is bound to the beginning of the whole text; leave the ^ out")
        return _Shape()
    if kind in ("ASSERT", "ASSERT_NOT"):
        if value[0] < 0:
            raise _Unsafe("it looks back (?<…): begin with \\b, or with the character itself")
        width = value[1].getwidth()[1]
        if int(width) > REACH:
            raise _Unsafe("it looks ahead without bound: bound the repetition in (?=…)")
        inner = _shape(list(value[1]), flags)
        return _Shape(ahead=int(width) + inner.ahead, large=inner.large, small=inner.small)
    raise _Unsafe("it refers to what it has matched before: that has no bound")


def _branches(shapes: list[_Shape]) -> _Shape:
    found = _Shape(empty=False)
    for shape in shapes:
        found.consumed += shape.consumed
        found.first += shape.first
        found.empty = found.empty or shape.empty
        found.ahead = max(found.ahead, shape.ahead)
        found.large = max(found.large, shape.large)
        found.small = max(found.small, shape.small)
    found.small += 1  # each branch may be tried
    return found


def _repeat(kind: str, value: Any, flags: int) -> _Shape:
    low, high, inner = int(value[0]), int(value[1]), list(value[2])
    shape = _shape(inner, flags)
    if high > 1 and not _is_one_character(inner) and kind != "POSSESSIVE_REPEAT":
        pieces = [(part, _part(part, flags)) for part in inner]
        last = pieces[-1][1] if pieces else _Shape()
        separated = (
            bool(pieces)
            and str(pieces[-1][0][0]) in _CHARACTERS
            and not _overlap(last.consumed, [source for _, other in pieces[:-1] for source in other.consumed], flags)
        )
        fixed = not shape.large and not shape.small and all(str(part[0]) in _CHARACTERS for part, _ in pieces)
        if not (fixed or (separated and not shape.large)):
            raise _Unsafe(
                "it repeats something that can be split in several ways, as (a+)+ can: end the repeated part with a character that occurs nowhere else in it"
            )
        if separated:
            shape.small = min(shape.small, 1)
    shape.empty = shape.empty or low == 0
    return shape


def _is_one_character(sequence: list[Any]) -> bool:
    while len(sequence) == 1 and str(sequence[0][0]) == "SUBPATTERN":
        sequence = list(sequence[0][1][3])
    return len(sequence) == 1 and str(sequence[0][0]) in _CHARACTERS


def _overlap(left: Iterable[str], right: Iterable[str], flags: int) -> bool:
    """Whether a character of the sample is in both."""
    one, other = re.compile(_any_of(left), flags), re.compile(_any_of(right), flags)
    return any(one.match(character) and other.match(character) for character in _SAMPLE)


def _character(kind: str, value: Any, flags: int) -> str:
    if kind == "LITERAL":
        return _escaped(value)
    if kind == "NOT_LITERAL":
        return f"[^{_escaped(value)}]"
    if kind == "ANY":
        return r"[\s\S]" if flags & re.DOTALL else r"[^\n]"
    items = ""
    for item, what in value:
        word = str(item)
        if word == "NEGATE":
            items = "^" + items
        elif word == "LITERAL":
            items += _escaped(what)
        elif word == "RANGE":
            items += f"{_escaped(what[0])}-{_escaped(what[1])}"
        else:
            items += _CATEGORIES[str(what)]
    return f"[{items}]"


def _escaped(point: int) -> str:
    return f"\\U{point:08x}"
