"""A filter for text that comes in pieces: what is found in it is taken out, and what may still become a finding is held back, no more than that.

The law: whatever pieces a text is cut into, what the pieces give, joined, is what the whole text gives at once. It holds because every decision is made at a place
of the text, from left to right, and only when no text that may yet come could change it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, final

import attrs

__all__ = ["NOTHING", "WAIT", "Caught", "Detector", "TextFilter", "Verdict", "filter_text"]

CONTEXT: Final = 64
"""Characters of decided text that detectors may look back at."""


@final
@attrs.frozen
class Verdict:
    """What a detector says of a place.

    Attributes:
        end: Where the finding ends; -1 where there is none, -2 where more text has to be seen first.
        keep: Up to where the text stays as it is (a secret's name before the secret).
        swallow: What goes on belonging to the finding after its end: one character of it.
    """

    end: int
    keep: int = -1
    swallow: re.Pattern[str] | None = None


NOTHING: Final = Verdict(-1)
WAIT: Final = Verdict(-2)

Scan: TypeAlias = Callable[[str, int, bool], Verdict]
"""Looks at a text, at a place of it, knowing whether that is all the text. It may look back 64 characters."""


@final
@attrs.frozen(eq=False)
class Detector:
    """Finds one kind of thing.

    Attributes:
        name: What is found, for the reason of a block.
        first: Matches where a finding may begin, by one character and what stands before it.
        scan: Decides about such a place.
    """

    name: str
    first: re.Pattern[str]
    scan: Scan


class Caught(Exception):
    """Something was found by a filter that shall find nothing.

    Attributes:
        detector: What.
    """

    def __init__(self, detector: str) -> None:
        super().__init__(detector)
        self.detector = detector


@final
class TextFilter:
    """Takes a text in pieces and gives what may be shown of it.

    Args:
        detectors: What is looked for; at one place the first of them that finds something counts.
        replacement: What stands in the place of a finding; None: a finding is an error.
    """

    __slots__ = ("_detectors", "_place", "_replacement", "_start", "_swallow", "_text")

    def __init__(self, detectors: Iterable[Detector], replacement: str | None) -> None:
        self._detectors = tuple(detectors)
        self._replacement = replacement
        self._start = re.compile("|".join(f"(?:{_with_flags(detector.first)})" for detector in self._detectors) or "(?!)")
        self._swallow: re.Pattern[str] | None = None
        self._text = ""
        self._place = 0

    def feed(self, text: str) -> str:
        """One more piece; gives what may be shown now.

        Raises:
            Caught: There is a finding, and no replacement.
        """
        if not text:
            return ""
        self._text = self._text[max(0, self._place - CONTEXT) :] + text
        self._place = min(self._place, CONTEXT)
        return self._go_on(whole=False)

    def finish(self) -> str:
        """No more pieces; gives the rest. The filter is as new then.

        Raises:
            Caught: There is a finding, and no replacement.
        """
        rest = self._go_on(whole=True)
        self._text = ""
        self._place = 0
        self._swallow = None
        return rest

    @property
    def held(self) -> int:
        """Characters that are held back."""
        return len(self._text) - self._place

    def _go_on(self, *, whole: bool) -> str:
        text, place = self._text, self._place
        shown: list[str] = []
        end = len(text)
        while place < end:
            if self._swallow is not None:
                run = self._swallow.match(text, place)
                if run is not None:
                    place = run.end()
                    continue
                self._swallow = None
            start = self._start.search(text, place)
            if start is None:
                shown.append(text[place:])
                place = end
                break
            shown.append(text[place : start.start()])
            place = start.start()
            verdict, detector = self._look(text, place, whole)
            if verdict is WAIT:
                break
            if verdict is NOTHING or detector is None:
                shown.append(text[place])
                place += 1
                continue
            if self._replacement is None:
                self._place = place
                raise Caught(detector.name)
            shown.append(text[place : max(verdict.keep, place)] + self._replacement)
            place = verdict.end
            self._swallow = verdict.swallow
        self._place = place
        return "".join(shown)

    def _look(self, text: str, place: int, whole: bool) -> tuple[Verdict, Detector | None]:
        for detector in self._detectors:
            if detector.first.match(text, place) is None:
                continue
            verdict = detector.scan(text, place, whole)
            if verdict is WAIT or verdict.end > place:
                return verdict, detector
        return NOTHING, None


def filter_text(text: str, detectors: Iterable[Detector], replacement: str | None) -> str:
    """The text at once. Raises Caught as `TextFilter` does."""
    one = TextFilter(detectors, replacement)
    return one.feed(text) + one.finish()


def _with_flags(pattern: re.Pattern[str]) -> str:
    letters = "".join(letter for letter, flag in _LETTERS.items() if pattern.flags & flag)
    return f"(?{letters}:{pattern.pattern})" if letters else pattern.pattern


_LETTERS: Final = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
