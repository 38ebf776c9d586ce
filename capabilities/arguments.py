"""The arguments of a call, from the JSON text that a model wrote: read, mended where only one thing can be meant, checked, and told of where they do not fit.

First as JSON says it and strictly; that is what nearly every call is. What fails is read again leniently: see `repair` for slips of syntax, `schema_lenient` for values
that are there in another form. A value is never made up, and a text that was cut off is never mended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from cattrs.errors import ClassValidationError

from retinue.capabilities.errors import BadArguments
from retinue.capabilities.json_reading import BrokenJson, plain, read, read_exactly, read_with, without_surrogates
from retinue.capabilities.repair import repair
from retinue.capabilities.schema_records import problems_of
from retinue.capabilities.schema_shapes import Misfit, shown
from retinue.capabilities.tool_problems import Problem

__all__ = ["Reader", "explained"]

MOST_PROBLEMS: Final = 20
"""Problems that a text names."""

_AROUND: Final = 30
_log = logging.getLogger("retinue.tools")

Build = Callable[[Any, Any], Any]
"""Gives the object for a mapping by name; raises Misfit or cattrs' ClassValidationError."""


class Reader:
    """Reads the arguments of one tool, or one value of an output type.

    Args:
        label: What it is for, in texts: a tool's name.
        strict: Gives the value for parsed JSON, as it is.
        lenient: Makes what gives it leniently; asked once, when it is needed for the first time.
        target: The class, the second argument of both.
        words: The names that there are, and what is expected under each.
        aliases: What a field is called in JSON, where that is another name.
        empty: Whether no text at all, or null, stands for an empty object: there are no parameters.
        is_object: Whether JSON has to be an object. Default True.
        what: What is read, in texts. Default "arguments".
    """

    __slots__ = ("_aliases", "_empty", "_is_object", "_label", "_lenient", "_make_lenient", "_strict", "_target", "_what", "_words")

    def __init__(
        self,
        label: str,
        strict: Build,
        lenient: Callable[[], Build],
        target: Any,
        words: Mapping[str, str],
        *,
        aliases: Mapping[str, str],
        empty: bool = False,
        is_object: bool = True,
        what: str = "arguments",
    ) -> None:
        self._label = label
        self._strict = strict
        self._make_lenient = lenient
        self._lenient: Build | None = None
        self._target = target
        self._words = dict(words)
        self._aliases = dict(aliases)
        self._empty = empty
        self._is_object = is_object
        self._what = what

    def read(self, arguments: str | Mapping[str, Any], *, truncated: bool = False, notes: list[str] | None = None) -> Any:
        """The value.

        Args:
            arguments: A JSON text, or a mapping of JSON values by name.
            truncated: Whether the text was cut off; then nothing is mended.
            notes: Where what was mended is told, a sentence each.

        Raises:
            BadArguments: They do not fit.
        """
        if type(arguments) is str:
            try:
                value = read_with(plain, arguments)
                if type(value) is dict or not self._is_object:
                    return self._strict(value, self._target)
            except (BrokenJson, ClassValidationError, Misfit, RecursionError):
                pass
            return self._again(arguments, truncated, notes)
        if isinstance(arguments, Mapping):
            try:
                given = without_surrogates(dict(arguments))
            except RecursionError:
                raise self._unfit([Problem("", "fewer arrays and objects within each other", "more")]) from None
            except BrokenJson as error:
                raise self._unfit([Problem("", "different keys", str(error))]) from None
            try:
                return self._strict(given, self._target)
            except (ClassValidationError, Misfit, RecursionError):
                return self._leniently(given)
        raise BadArguments(
            f"the arguments of {self._label!r} are a JSON text or a mapping by name, not {shown(arguments)}. Nothing was run.",
            tool=self._label,
        )

    def _again(self, text: str, truncated: bool, notes: list[str] | None) -> Any:
        """The second reading of a text."""
        if self._empty and text.strip() in ("", "null"):
            return self._strict({}, self._target)
        meant = text
        try:
            value = read_exactly(text)
        except BrokenJson as error:
            mended = repair(text) if error.syntax and not truncated else None
            if mended is None or mended == text:
                raise self._broken(text, error, truncated) from None
            meant = mended
            try:
                value = read_exactly(meant)
            except BrokenJson as still:
                raise self._broken(text, still, truncated) from None
            self._note(notes, f"the {self._what} of {self._label!r} were no JSON, and a slip of syntax in them was mended")
        if type(value) is str and self._is_object and not truncated:
            inner = _object_in(value)
            if inner is not None:
                meant, value = value, inner
                self._note(notes, f"the {self._what} of {self._label!r} were JSON within a JSON string, and were taken out of it")
        if meant is not text and type(value) is dict:
            try:
                return self._strict(read(meant), self._target)
            except (ClassValidationError, Misfit, RecursionError):
                pass
        made = self._leniently(value)
        self._note(
            notes,
            f"a value in the {self._what} of {self._label!r} was written in another form than the schema's, and was read as what it says",
        )
        return made

    def _leniently(self, value: Any) -> Any:
        if self._is_object and type(value) is not dict:
            raise self._unfit([Problem("", "a JSON object", shown(value))])
        lenient = self._lenient
        if lenient is None:
            lenient = self._lenient = self._make_lenient()
        try:
            return lenient(value, self._target)
        except (ClassValidationError, Misfit) as error:
            raise self._unfit(problems_of(error, self._words, self._aliases)) from None
        except RecursionError:
            raise self._unfit([Problem("", "fewer arrays and objects within each other", "more")]) from None

    def _note(self, notes: list[str] | None, text: str) -> None:
        _log.debug("%s", text)
        if notes is not None:
            notes.append(text)

    def _broken(self, text: str, error: BrokenJson, truncated: bool) -> BadArguments:
        at = error.position
        where = ""
        if at is not None:
            where = f" at character {at}: {text[max(0, at - _AROUND) : at]!r} and then {text[at : at + _AROUND]!r}"
        cut = " The reply was cut off at its greatest length, so the text is not whole: write less in one call." if truncated else ""
        return BadArguments(
            f"the {self._what} of {self._label!r} are no JSON that can be read: {error}{where}.{cut} Nothing was run. Write one JSON object: {self.expected}",
            tool=self._label,
            position=at,
        )

    def _unfit(self, problems: list[Problem]) -> BadArguments:
        return BadArguments(
            explained(f"the {self._what} of {self._label!r} do not fit, and nothing was run:", problems, self.expected),
            tool=self._label,
            problems=problems,
        )

    @property
    def expected(self) -> str:
        """What is expected, in one line."""
        if not self._is_object:
            return next(iter(self._words.values()), "a JSON value")
        return f"{{{', '.join(f'{chr(34)}{name}{chr(34)}: {words}' for name, words in self._words.items())}}}"


def _object_in(text: str) -> dict[str, Any] | None:
    """The object that a string is the JSON text of, or None: some models encode arguments twice."""
    try:
        value = read_exactly(text)
    except BrokenJson:
        return None
    return value if type(value) is dict else None


def explained(head: str, problems: list[Problem], expected: str) -> str:
    """A text for the model: each problem on a line, and what is expected."""
    lines = [f"- {problem}" for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"- and {len(problems) - MOST_PROBLEMS} more")
    return "\n".join([head, *lines, f"Expected: {expected}"])
