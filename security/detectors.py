"""What personal data and secrets look like in a text: detectors for `text_filter`. Each is linear in what it looks at, and looks at little."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import attrs

from retinue.security.safe_patterns import pattern_detector
from retinue.security.text_filter import NOTHING, WAIT, Detector, Verdict

__all__ = ["CARD", "EMAIL", "KEY", "KINDS", "SECRET", "SSN", "WEB_TOKEN"]

# -- social security numbers -----------------------------------------------------------------------------------------------------------------------------

_SSN = re.compile(r"[0-9]{3}([- ])[0-9]{2}\1[0-9]{4}(?![0-9])")
_SSN_LENGTH: Final = 11


def _ssn(text: str, place: int, whole: bool) -> Verdict:
    known = len(text) - place
    if not whole and known <= _SSN_LENGTH and all(_SSN_SHAPE[index](text[place + index]) for index in range(known)):
        return WAIT
    match = _SSN.match(text, place)
    return NOTHING if match is None else Verdict(match.end())


def _digit(character: str) -> bool:
    return "0" <= character <= "9"


def _dash(character: str) -> bool:
    return character in "- "


_SSN_SHAPE: Final = (*[_digit] * 3, _dash, *[_digit] * 2, _dash, *[_digit] * 4)

SSN: Final = Detector("a social security number", re.compile(r"(?<![0-9])[0-9]"), _ssn)

# -- payment cards ---------------------------------------------------------------------------------------------------------------------------------------

_LEAST, _MOST = 13, 19


def _card(text: str, place: int, whole: bool) -> Verdict:
    """The longest number of 13 to 19 digits from here, single blanks or dashes between them, that ends where the digits end and has its check digit right."""
    digits: list[int] = []
    found = -1
    index, end = place, len(text)
    while index < end:
        character = text[index]
        if _digit(character):
            if len(digits) == _MOST:
                break  # more digits follow: what ended here is no number
            digits.append(ord(character) - 48)
            index += 1
            if len(digits) >= _LEAST and index < end and not _digit(text[index]) and _luhn(digits):
                found = index
        elif character in " -" and index > place and _digit(text[index - 1]) and len(digits) < _MOST:
            index += 1
        else:
            return NOTHING if found < 0 else Verdict(found)
    if index == end:
        if not whole:
            return WAIT
        if len(digits) >= _LEAST and _digit(text[end - 1]) and _luhn(digits):
            found = end
    return NOTHING if found < 0 else Verdict(found)


def _luhn(digits: list[int]) -> bool:
    total = 0
    for index, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if index % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0 and any(digits)


CARD: Final = Detector("a card number", re.compile(r"(?<![0-9])[0-9]"), _card)

# -- e-mail addresses ------------------------------------------------------------------------------------------------------------------------------------

_LOCAL: Final = 128
_DOMAIN: Final = 255
_BEFORE = re.compile(rf"[\w.%+-]{{1,{_LOCAL}}}")
_AFTER = re.compile(rf"[A-Za-z0-9.-]{{0,{_DOMAIN}}}")
_HOST = re.compile(r"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*\.[A-Za-z]{2,24}(?![A-Za-z0-9-])")


def _email(text: str, place: int, whole: bool) -> Verdict:
    end = len(text)
    local = _BEFORE.match(text, place)
    if local is None:
        return NOTHING
    at = local.end()
    if at == end:
        return NOTHING if whole else WAIT
    if text[at] != "@":
        return NOTHING
    domain = _AFTER.match(text, at + 1)
    if domain is None or (domain.end() == end and not whole and domain.end() - at <= _DOMAIN):
        return WAIT if not whole else NOTHING
    host = domain[0].rstrip(".-")
    match = _HOST.fullmatch(host)
    return NOTHING if match is None else Verdict(at + 1 + len(host))


# A word is looked at where an @ stands behind it, or nothing yet.
EMAIL: Final = Detector("an e-mail address", re.compile(rf"(?<![\w.%+-])[\w.%+-]{{1,{_LOCAL}}}+(?:@|\Z)"), _email)

# -- name = secret ---------------------------------------------------------------------------------------------------------------------------------------

_PLAIN = "password passwd passphrase passcode pwd secret token credential credentials authorization"
_KEYS = "api access private secret signing encryption client ssh auth"
_TOKENS = "access refresh auth api bearer session id csrf bot"
_NAMES: Final = tuple(
    sorted(
        {
            *_PLAIN.split(),
            *(f"{word}{joint}key" for word in _KEYS.split() for joint in ("", "_", "-", " ")),
            *(f"{word}{joint}token" for word in _TOKENS.split() for joint in ("", "_", "-", " ")),
            *(f"client{joint}secret" for joint in ("", "_", "-", " ")),
        },
        key=lambda name: (-len(name), name),
    )
)
_NAME = re.compile("|".join(map(re.escape, _NAMES)), re.IGNORECASE | re.ASCII)
_PREFIXES: Final = frozenset(name[:length] for name in _NAMES for length in range(1, len(name) + 1))
_LONGEST_NAME: Final = len(_NAMES[0])
_TO_SIGN = re.compile(r"[\"']?[ \t]{0,4}")
_TO_VALUE = re.compile(r"[ \t]{0,4}[\"']?")
_VALUE = re.compile(r"[^\s\"'&,;<>)}\]]{2}")
_MORE = re.compile(r"[^\s\"'&,;<>)}\]]+")
_HIDDEN: Final = "[redacted]"


def _secret(text: str, place: int, whole: bool) -> Verdict:
    end = len(text)
    rest = text[place : place + _LONGEST_NAME]
    if not whole and place + len(rest) == end and rest.lower() in _PREFIXES:
        return WAIT  # the name may go on
    name = _NAME.match(text, place)
    if name is None:
        return NOTHING
    sign = _TO_SIGN.match(text, name.end())
    assert sign is not None
    if sign.end() == end:
        return NOTHING if whole else WAIT
    if text[sign.end()] not in "=:":
        return NOTHING
    begin = _TO_VALUE.match(text, sign.end() + 1)
    assert begin is not None
    value = begin.end()
    known = text[value : value + len(_HIDDEN)]
    if known == _HIDDEN:
        return NOTHING
    if not whole and (len(known) < 2 or (len(known) < len(_HIDDEN) and _HIDDEN.startswith(known))):
        # A blank or a quote that is yet to come moves the value's beginning.
        return WAIT if not known or _MORE.fullmatch(known) else NOTHING
    if _VALUE.match(text, value) is None:
        return NOTHING
    return Verdict(value + 2, value, _MORE)


def _beginnings(names: Iterable[str], before: str = "", *, any_case: bool = False) -> re.Pattern[str]:
    """The first three characters of each name, or fewer at the end of what is known: most places of a text are neither, and are not looked at.

    Written as a tree, letter by letter: as a list of words, and with IGNORECASE, `re` takes ten times as long.
    """

    def one(character: str) -> str:
        return f"[{character.lower()}{character.upper()}]" if any_case and character.isalpha() else re.escape(character)

    def tree(tails: set[str]) -> str:
        if "" in tails:
            return ""
        branches = [one(first) + tree({tail[1:] for tail in tails if tail[0] == first}) for first in sorted({tail[0] for tail in tails})]
        return f"(?:{'|'.join(branches)}|\\Z)"

    # At the end of what is known there is no character to begin with: the tree's own \Z is for what comes after one.
    return re.compile(before + tree({name[:3] for name in names}).removesuffix("|\\Z)") + ")")


SECRET: Final = Detector("a secret under its name", _beginnings(_NAMES, any_case=True), _secret)

# -- keys that say whose they are ------------------------------------------------------------------------------------------------------------------------

_WHOSE: Final = tuple("sk- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xoxb- xoxp- AKIA ASIA AIza hf_ npm_ pypi-".split())  # noqa: SIM905 -- reads better

KEY: Final = attrs.evolve(pattern_detector(rf"\b(?:{'|'.join(_WHOSE)})[A-Za-z0-9_-]{{12,}}", "a key"), first=_beginnings(_WHOSE, r"\b"))
WEB_TOKEN: Final = attrs.evolve(
    pattern_detector(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{8,})?", "a token"), first=_beginnings(["eyJ"], r"\b")
)

KINDS: Final = {"ssn": SSN, "card": CARD, "email": EMAIL, "secret": SECRET}
"""The detectors by the words that guardrails take."""
