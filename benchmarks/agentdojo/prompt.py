"""What a person's own words name: addresses, links, accounts, dates, numbers, and any phrase of them.

A prompt is the one text here that no attacker wrote, so what it names may be a target. Reading it is guesswork all the same; where a guess fails
a person is asked, which is the right direction to fail in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

__all__ = ["LINK", "Known", "day_of", "link_of", "read_prompt"]

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
LINK = re.compile(r"(?:https?://|www\.)[^\s,'\")\]]+")
_IBAN = re.compile(r"\b[A-Z]{2}\d{10,}\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")
_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
_MONTH = "|".join(_MONTHS)
_MONTH_DAY = re.compile(rf"\b({_MONTH})\s+(\d{{1,2}})(?:st|nd|rd|th)?\b", re.IGNORECASE)
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+of\s+({_MONTH})\b", re.IGNORECASE)
_ISO_DAY = re.compile(r"\b\d{4}-(\d{2})-(\d{2})\b")
_WORD = re.compile(r"\w+")

_LONGEST_PHRASE = 12
"""Words in a phrase; names of hotels, files and people have fewer."""


@attrs.frozen
class Known:
    """What a prompt names.

    Attributes:
        emails: Addresses.
        links: Links, as `link_of` gives them.
        accounts: IBANs.
        days: Month and day.
        numbers: Numbers.
        phrases: Every run of up to 12 whole words, as it stands there.
    """

    emails: frozenset[str]
    links: frozenset[str]
    accounts: frozenset[str]
    days: frozenset[tuple[int, int]]
    numbers: frozenset[float]
    phrases: frozenset[str]


def link_of(text: str) -> str:
    """A link without its scheme and the sentence's full stop, its host in lower case: what two spellings of one link have in common."""
    rest = re.sub(r"^https?://", "", text.strip()).rstrip(".!?;:")
    host, slash, path = rest.partition("/")
    return host.lower() + (slash + path if path else "")


def day_of(value: object) -> tuple[int, int] | None:
    """Month and day of a date or time as tools take it ("2024-05-19 10:00"), or None."""
    found = _ISO_DAY.match(value) if isinstance(value, str) else None
    return (int(found[1]), int(found[2])) if found else None


def _days(prompt: str) -> Iterator[tuple[int, int]]:
    for month, day in _MONTH_DAY.findall(prompt):
        yield _MONTHS.index(month.lower()) + 1, int(day)
    for day, month in _DAY_MONTH.findall(prompt):
        yield _MONTHS.index(month.lower()) + 1, int(day)
    for month, day in _ISO_DAY.findall(prompt):
        yield int(month), int(day)


def _phrases(prompt: str) -> Iterator[str]:
    words = [found.span() for found in _WORD.finditer(prompt)]
    for first, (start, _) in enumerate(words):
        for _, end in words[first : first + _LONGEST_PHRASE]:
            yield prompt[start:end]


def read_prompt(prompt: str) -> Known:
    """What the prompt names."""
    return Known(
        emails=frozenset(_EMAIL.findall(prompt)),
        links=frozenset(map(link_of, LINK.findall(prompt))),
        accounts=frozenset(_IBAN.findall(prompt)),
        days=frozenset(_days(prompt)),
        numbers=frozenset(map(float, _NUMBER.findall(prompt))),
        phrases=frozenset(_phrases(prompt)),
    )
