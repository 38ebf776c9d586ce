"""The frame of a text that an approving side has signed: whose key, what it says, the signature. Tokens and standing consents have one.

    rta1.<kid>.<body>.<signature>

The body is base64url of JSON in one fixed form; the signature is Ed25519 over a word for the kind of text, the key's name, and the body. There is no
field that chooses an algorithm, and the name chooses among the keys that the reader already trusts and nothing else. Nothing of the body is read before
the signature fits, and a body that is not written the one way in which it is written is refused, so that no two texts say the same.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, Final

from retinue.security.errors import ApprovalError
from retinue.security.strict_json import read_json

if TYPE_CHECKING:
    from retinue.security.approval_keys import SigningKey, VerifyingKeys

__all__ = ["SIGNATURE_BYTES", "open_frame", "sign_frame"]

SIGNATURE_BYTES: Final = 64

_BASE64: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_KID: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


def sign_frame(key: SigningKey, prefix: str, domain: bytes, content: dict[str, Any], most: int) -> str:
    """A signed text.

    Args:
        key: The key.
        prefix: What the text begins with, "rta1".
        domain: The word for this kind of text, which no other kind has.
        content: What it says: JSON without floats.
        most: Characters that it may have.

    Raises:
        ApprovalError: It would have more ("malformed").
    """
    head = f"{prefix}.{key.kid}.{_text_of(_encoded(content))}"
    text = f"{head}.{_text_of(key.sign(_signed(domain, head)))}"
    if len(text) > most:
        raise ApprovalError(
            f"what is to be signed takes {len(text):,} characters, and {most:,} are the most. Use shorter names and fewer constraints.",
            reason="malformed",
        )
    return text


def open_frame(keys: VerifyingKeys, prefix: str, domain: bytes, text: object, most: int, what: str) -> dict[str, Any]:
    """What a signed text says.

    Args:
        keys: The keys that are trusted.
        prefix: What such a text begins with.
        domain: The word for this kind of text.
        text: The text; it may come from anywhere.
        most: Characters that it may have.
        what: What such a text is called, for errors.

    Raises:
        ApprovalError: "malformed", "unknown_key" or "signature". Nothing of the text is in the error's.
    """
    if type(text) is not str:
        raise ApprovalError(f"{what} is a str, not an object of type {type(text).__name__}.", reason="malformed")
    if len(text) > most:
        raise ApprovalError(f"{what} has {most:,} characters at most, and this text has {len(text):,}.", reason="malformed")
    parts = text.split(".")
    if len(parts) != 4 or parts[0] != prefix or not _KID.fullmatch(parts[1]) or not _BASE64.fullmatch(parts[2]):
        raise ApprovalError(f"this is not {what}: it has another form, or was cut. Pass it on as it was given.", reason="malformed")
    signature = _bytes_of(parts[3], what)
    key = keys.find(parts[1])
    if key is None:
        raise ApprovalError(
            f"{what} is signed with the key {parts[1]}, which is none of those that are trusted here. Was the key rotated away, or is it another system's?",
            reason="unknown_key",
        )
    if len(signature) != SIGNATURE_BYTES or not key.fits(signature, _signed(domain, text[: -len(parts[3]) - 1])):
        raise ApprovalError(f"the signature does not fit: {what} was altered, or somebody else made it.", reason="signature")
    raw = _bytes_of(parts[2], what)
    try:
        content = read_json(raw, max_bytes=most)
        if type(content) is not dict or _encoded(content) != raw:
            raise ValueError("not canonical")
    except (ValueError, RecursionError):
        raise ApprovalError(f"{what} is signed, but it is not written the way they are written.", reason="malformed") from None
    return content


def _signed(domain: bytes, head: str) -> bytes:
    return domain + head.encode("ascii")


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("utf-8")


def _text_of(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _bytes_of(text: str, what: str) -> bytes:
    try:
        if not _BASE64.fullmatch(text):
            raise ValueError("no base64")
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if _text_of(raw) != text:
            raise ValueError("spare bits")
    except ValueError:
        raise ApprovalError(f"this is not {what}: a part of it is no base64. Pass it on as it was given.", reason="malformed") from None
    return raw
