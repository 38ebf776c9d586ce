"""What personal data and secrets look like in a text: detectors for `text_filter`. Each is linear in what it looks at, and looks at little."""

from __future__ import annotations

import re
from typing import Final

from retinue.security.text_filter import NOTHING, WAIT, Detector, Verdict

__all__ = ["CARD", "EMAIL", "KINDS", "SECRET", "SSN"]

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
        return WAIT if not whole and at - place < _LOCAL else NOTHING
    if text[at] != "@":
        return NOTHING
    domain = _AFTER.match(text, at + 1)
    if domain is None or (domain.end() == end and not whole and domain.end() - at <= _DOMAIN):
        return WAIT if not whole else NOTHING
    host = domain[0].rstrip(".-")
    match = _HOST.fullmatch(host)
    return NOTHING if match is None else Verdict(at + 1 + len(host))


EMAIL: Final = Detector("an e-mail address", re.compile(r"(?<![\w.%+-])[\w.%+-]"), _email)

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


def _beginnings() -> re.Pattern[str]:
    """The first three letters of each name, or fewer at the end of what is known."""
    three = {re.escape(name[:3]) for name in _NAMES}
    fewer = {re.escape(name[:length]) + r"\Z" for name in _NAMES for length in (1, 2)}
    return re.compile("|".join(sorted(three | fewer)), re.IGNORECASE | re.ASCII)


SECRET: Final = Detector("a secret under its name", _beginnings(), _secret)

KINDS: Final = {"ssn": SSN, "card": CARD, "email": EMAIL, "secret": SECRET}
"""The detectors by the words that guardrails take."""
