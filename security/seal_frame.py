"""The frame of a sealed token: text, blocks, and the chain of MACs over them. Nothing of what the blocks say is read here.

    rt1.<kid>.<block>[.<block>…].<mac>

Each block is base64url. The first MAC is made with the key that the kid names, over the kid and the first block; each further one with the
MAC before as its key, over its block; the last one stands at the end. So whoever holds a token can add a block, and nobody can take one
away: for that, the MAC before would be needed. It must never be shown, for whoever has it has the wider token.

The MACs are over the text as it was received. Nothing is decoded before they fit, and nothing that was decoded is ever encoded again to
be checked.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import string
from typing import Any, Final

import attrs

from retinue.security.errors import TokenError
from retinue.security.strict_json import read_json

__all__ = [
    "MAX_BLOCKS",
    "MAX_CHARACTERS",
    "Frame",
    "account_key",
    "add_block",
    "block_data",
    "block_text",
    "first_token",
    "macs_of",
    "parse_frame",
    "seal_key",
]

MAX_CHARACTERS: Final = 2**16
"""Characters in a token."""

MAX_BLOCKS: Final = 32
"""Blocks in a token; so it can be attenuated 31 times."""

_ALPHABET: Final = (string.ascii_letters + string.digits + "-_.").encode("ascii")
_KID: Final = re.compile(r"[0-9a-f]{1,32}", re.ASCII)
_FIRST: Final = b"retinue/ctx/1\0"
_FURTHER: Final = b"retinue/att/1\0"


@attrs.frozen(repr=False)
class Frame:
    """A token in its parts. Its repr does not show them.

    Attributes:
        kid: The name of the key.
        blocks: The blocks as they were received.
        mac: The last MAC as it was received.
    """

    kid: str
    blocks: tuple[str, ...]
    mac: str


def parse_frame(token: object) -> Frame:
    """The parts of a token; nothing is verified.

    Raises:
        TokenError: It is no such text ("malformed"), or has too many blocks or characters ("too_large").
    """
    if type(token) is not str:
        raise TokenError(f"a sealed token is a str, not an object of type {type(token).__name__}.", reason="malformed")
    if len(token) > MAX_CHARACTERS:
        raise TokenError(f"the token has {len(token):,} characters, and {MAX_CHARACTERS:,} are the most.", reason="too_large")
    parts = token.split(".")
    if len(parts) > MAX_BLOCKS + 3:
        raise TokenError(f"the token has more than {MAX_BLOCKS} blocks.", reason="too_large")
    # What is left when everything that may stand in a token is deleted: many times faster than a pattern that says the same.
    odd = not token.isascii() or token.encode("ascii").translate(None, _ALPHABET)
    if odd or len(parts) < 4 or parts[0] != "rt1" or not all(parts) or len(parts[-1]) != 43 or not _KID.fullmatch(parts[1]):
        raise TokenError(_malformed_text(token, parts, odd=bool(odd)), reason="malformed")
    return Frame(parts[1], tuple(parts[2:-1]), parts[-1])


def _malformed_text(token: str, parts: list[str], *, odd: bool) -> str:
    """What is wrong with a text that is no token; nothing of it is shown."""
    if parts[0] != "rt1":
        return "this is no sealed token: those begin with 'rt1.'. Is it wrapped in something, or another kind of token?"
    if odd:
        return "this sealed token has characters that none has, such as a blank or a line end. Was it wrapped, or quoted?"
    if len(parts) < 4 or len(parts[-1]) != 43:
        end = "parts are missing" if len(parts) < 4 else f"its last part has {len(parts[-1])} characters and not 43"
        return f"this sealed token was cut, or something was added: {end} ({len(token):,} characters arrived). Pass it on as a whole."
    return "this sealed token is malformed: a part of it is empty, or its key's name is none. Pass it on as it was sealed."


def seal_key(secret: bytes) -> bytes:
    """The key of the first MAC: a secret that is used for something else as well makes no tokens there."""
    return hmac.digest(secret, b"retinue/seal/1\0", "sha256")


def macs_of(key: bytes, frame: Frame) -> list[bytes]:
    """The MAC after each block, where the last one is what the token says. They are secrets; see above.

    Args:
        key: The `seal_key` of the key that the token names.
        frame: The token.

    Raises:
        TokenError: It is not ("mac").
    """
    mac = hmac.digest(key, _FIRST + f"{frame.kid}.{frame.blocks[0]}".encode("ascii"), "sha256")
    macs = [mac]
    for block in frame.blocks[1:]:
        mac = hmac.digest(mac, _FURTHER + block.encode("ascii"), "sha256")
        macs.append(mac)
    # As text, so that not even the spare bits of the last character can be changed.
    if not hmac.compare_digest(_text(mac), frame.mac):
        raise TokenError("the token was altered, cut, or sealed with another key.", reason="mac")
    return macs


def first_token(kid: str, key: bytes, block: str) -> str:
    """A token of one block; `key` is the `seal_key` of the key of that name."""
    head = f"{kid}.{block}"
    return _checked(f"rt1.{head}.{_text(hmac.digest(key, _FIRST + head.encode('ascii'), 'sha256'))}")


def add_block(token: str, block: str) -> str:
    """The token with one more block; no key is needed.

    Raises:
        TokenError: See `parse_frame`; or it has too many blocks then.
    """
    frame = parse_frame(token)
    if len(frame.blocks) >= MAX_BLOCKS:
        raise TokenError(f"the token has {MAX_BLOCKS} blocks, and cannot be attenuated once more. Seal a new one.", reason="too_large")
    mac = hmac.digest(_bytes(frame.mac), _FURTHER + block.encode("ascii"), "sha256")
    return _checked(f"rt1.{frame.kid}.{'.'.join(frame.blocks)}.{block}.{_text(mac)}")


def account_key(mac: bytes) -> str:
    """A name for what a block's limits are charged to. It is made of the block's MAC, so nobody can choose another token's, and does not show it."""
    return hashlib.sha256(b"retinue/account/1\0" + mac).hexdigest()


def block_text(data: dict[str, Any]) -> str:
    """A block of its data."""
    return _text(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8"))


def block_data(block: str) -> Any:
    """The data of a block, read strictly.

    Raises:
        TokenError: It is none ("content").
    """
    raw = _bytes(block)
    try:
        if _text(raw) != block:
            raise ValueError("its base64 has spare bits")
        return read_json(raw, max_bytes=MAX_CHARACTERS)
    except ValueError as error:
        raise TokenError(f"a block of the token cannot be read: {error}.", reason="content") from None


def _checked(token: str) -> str:
    if len(token) > MAX_CHARACTERS:
        raise TokenError(
            f"the token would have {len(token):,} characters, and {MAX_CHARACTERS:,} are the most. Seal fewer and shorter permissions.",
            reason="too_large",
        )
    return token


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    """The bytes of base64url without padding; of characters that are checked already."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise TokenError("a block of the token is no base64.", reason="content") from None
