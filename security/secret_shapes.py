"""What secrets are called, and what they look like."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

__all__ = ["REDACTED", "hide_secrets", "is_secret_name"]

REDACTED: Final = "[redacted]"

MAX_NAME: Final = 200
"""Characters of a name that are looked at."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A word that makes any name with it a secret's.
_SECRET: Final = _words(
    "password passwords passwd pwd passphrase passcode secret secrets authorization bearer cookie cookies credential credentials jwt pin cvv cvc"
    " otp totp apikey apikeys accesskey secretkey privatekey authtoken accesstoken refreshtoken idtoken sessionid sessiontoken clientsecret ssn iban"
)
# Words that do so together with one of the second column, in this order and side by side.
_PAIRS: Final[dict[str, frozenset[str]]] = {
    first: frozenset({"key", "keys"})
    for first in ("api", "access", "private", "secret", "signing", "encryption", "master", "ssh", "auth", "account", "shared", "hmac")
} | {
    "session": frozenset({"id", "key"}),
    "pass": frozenset({"word", "phrase", "code"}),
    "pre": frozenset({"shared"}),
    "card": frozenset({"number"}),
}
# `token` is a secret and `tokens` a number, unless another word says otherwise.
_COUNTING: Final = _words(
    "max min count counts limit limits num number total usage used budget cost price per length size type types rate prompt completion"
    " input output reasoning cached remaining estimate estimated tokenizer index"
)
_HOLDING: Final = _words("access refresh auth api bearer session security id csrf xsrf device push bot user personal")
# Last words of names that speak about a secret, and not of one: `password_policy`, `token_type`.
_ABOUT: Final = _words("policy field name required strength rules changed expires expiry age type")


def is_secret_name(name: str, value: Any = "") -> bool:
    """Whether what stands under this name is a secret; `value` tells a token from a number of tokens."""
    words = [word.lower() for word in _WORD.findall(name[:MAX_NAME])]
    if not words or value is None or type(value) is bool or words[-1] in _ABOUT or words[0] == "public":
        return False
    found = set(words)
    if found & _SECRET or words[-1] == "auth":
        return True
    if any(second in _PAIRS.get(first, ()) for first, second in pairwise(words)):
        return True
    if issubclass(type(value), int | float) or found & _COUNTING:
        return False
    return "token" in found or ("tokens" in found and bool(found & _HOLDING))


class _Shape:
    """A pattern, and what a text has in it where the pattern fits: to look for that is a hundred times faster than to try the pattern at each character."""

    __slots__ = ("marks", "pattern", "words")

    def __init__(self, pattern: str, words: str, marks: str = "", flags: int = re.IGNORECASE) -> None:
        self.pattern = re.compile(pattern, flags)
        self.words = tuple(words.split())
        self.marks = tuple(marks)

    def may_be_in(self, lowered: str) -> bool:
        # Plain loops: any() over a generator would take as long as the looking.
        for mark in self.marks:
            if mark in lowered:
                break
        else:
            if self.marks:
                return False
        for word in self.words:  # noqa: SIM110
            if word in lowered:
                return True
        return False


_EXACT: Final = 0  # no flag: case matters

# Every pattern is linear: no repetition within a repetition, and each begins with something fixed.
# What is kept of a match is its first group.
_SHAPES: Final = (
    # A private key, to its end or to the text's.
    _Shape(
        r"()-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:(?!-----END )[\s\S])*(?:-----END [A-Z0-9 ]{0,40}-----)?",
        "-----begin",
        flags=_EXACT,
    ),
    # The header's value of HTTP's schemes.
    _Shape(
        r"\b((?:bearer|basic|digest|negotiate|token)\s{1,4})(?=[A-Za-z0-9._~+/=-]{0,400}[0-9=._~+/-])[A-Za-z0-9._~+/=-]{8,}",
        "bearer basic digest negotiate token",
    ),
    _Shape(
        r"((?:proxy-)?authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:(?:bearer|basic|digest|negotiate|token)\s{1,4})?)[^\s\"',;]{3,}",
        "authorization",
        "=:",
    ),
    _Shape(r"((?:set-)?cookie[\"']?\s{0,4}:\s{0,4})[^\r\n\"']{3,}", "cookie", ":"),
    # A token of ours (before JSON web tokens, which its blocks may look like), and those.
    _Shape(r"()\brt1\.[0-9a-f]{1,32}\.[A-Za-z0-9_.-]+", "rt1.", flags=_EXACT),
    _Shape(r"()\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*){0,3}", "eyj", flags=_EXACT),
    # Keys that say whose they are.
    _Shape(
        r"()\b(?:sk-[A-Za-z0-9_-]{8,}|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
        r"|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|hf_[A-Za-z0-9]{20,}"
        r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|ya29\.[A-Za-z0-9_-]{20,})",
        "sk- _live_ _test_ gho_ ghp_ ghs_ ghu_ ghr_ github_pat_ glpat- xox akia asia aiza hf_ npm_ pypi- sg. ya29.",
        flags=_EXACT,
    ),
    # The user's part of a URL: up to the last @ before the path, as readers of URLs differ in which one counts.
    _Shape(r"([a-z][a-z0-9+.-]{1,20}://)[^\s/?#\"'<>]{1,500}(?=@)", "://", "@"),
    # name=value and "name": "value" in a text.
    _Shape(
        r"((?:pass(?:word|wd|phrase|code)|pwd|secret(?:[_-]?key)?|api[_-]?key|access[_-]?key|private[_-]?key|[a-z]{2,10}[_-]?token|\btoken|signature|\bsig)"
        r"[\"']?\s{0,4}[=:]\s{0,4}[\"']?)(?!\[redacted\])[^\s\"'&,;<>)}\]]{2,}",
        "pass pwd secret key token sig",
        "=:",
    ),
)

_LETTERS_OF_ASCII: Final = re.compile("[\u0130\u0131\u017f\u212a]")
"""Letters beyond ASCII that a pattern without case takes for an i, an s or a k."""

_SHORTEST: Final = 6
"""Characters that a pattern fits at least: `pwd=ab`."""


def hide_secrets(text: str) -> str:
    """The text with "[redacted]" in the place of what has the shape of a secret."""
    if len(text) < _SHORTEST:
        return text
    # What one pattern puts in makes no other one fit: so it is enough to have looked once.
    lowered = text.lower()
    every = not text.isascii() and _LETTERS_OF_ASCII.search(text) is not None
    for shape in _SHAPES:
        if every or shape.may_be_in(lowered):
            text = shape.pattern.sub(rf"\1{REDACTED}", text)
    return text
