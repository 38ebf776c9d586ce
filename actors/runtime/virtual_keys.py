"""The keys of virtual actors, and the segments of paths that stand for them.

A key that is a legal name of an actor is its own segment. In any other key, what no name may hold is written as its UTF-8 bytes, `=` and two hexadecimal digits each:
`J=C3=B6rg`, `a=2Fb`. `=` itself is always written so, and no name holds one; hence different keys have different segments, and every segment has one key.
"""

from __future__ import annotations

import re
from typing import Final

from retinue.security.errors import DefinitionError

__all__ = ["MAX_KEY", "check_key", "key_of", "segment_of"]

MAX_KEY: Final = 512
"""Characters of a key, at most."""

_LEGAL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:~+-]{0,127}", re.ASCII)
_FIRST: Final = re.compile(r"[^A-Za-z0-9_]", re.ASCII)
_OTHER: Final = re.compile(r"[^A-Za-z0-9_.@:~+-]", re.ASCII)
_WRITTEN: Final = re.compile(r"(?:=[0-9A-F]{2})+", re.ASCII)


def check_key(key: object) -> str:
    """A legal key: a str of 1 to 512 characters, whichever they are. Else a DefinitionError."""
    if not isinstance(key, str):
        raise DefinitionError(f"the key of a virtual actor is a str, not an object of type {type(key).__name__}; write str(…) around it")
    if not 1 <= len(key) <= MAX_KEY:
        raise DefinitionError(
            f"the key of a virtual actor has 1 to {MAX_KEY} characters, and this one has {len(key)}; use a shorter text that is as unique"
        )
    return str.__str__(key)


def segment_of(key: str) -> str:
    """The last part of the path of the key's actor."""
    if _LEGAL.fullmatch(key):
        return key
    first = key[0]
    return (_bytes_of(first) if _FIRST.match(first) else first) + _OTHER.sub(lambda found: _bytes_of(found[0]), key[1:])


def _bytes_of(character: str) -> str:
    return "".join(f"={byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def key_of(segment: str) -> str | None:
    """The key that a part of a path stands for; None where it stands for none."""
    try:
        key = _WRITTEN.sub(lambda found: bytes.fromhex(found[0].replace("=", "")).decode("utf-8", "surrogatepass"), segment)
    except UnicodeDecodeError:
        return None
    return key if 1 <= len(key) <= MAX_KEY and segment_of(key) == segment else None
