"""Records of the audit log, and what makes a chain of them.

Each record's MAC is over all its fields, the MAC of the record before among them. So whoever has the key sees each altered, removed, added
or reordered record; a cut at the end shows only against a head that was kept elsewhere.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, Self, final, get_args

import attrs

from retinue.security.errors import AuditBroken, DefinitionError

__all__ = ["KINDS", "NO_MAC", "AuditEntry", "AuditHead", "Kind", "verify_chain"]

Kind = Literal["decision", "allowed_batch", "approval", "mint", "revoke", "amplification", "outcome", "start"]
KINDS: Final[frozenset[str]] = frozenset(get_args(Kind))

NO_MAC: Final = "0" * 64
"""What the first record has as `previous`."""

MIN_KEY_BYTES: Final = 16


class AuditHead(NamedTuple):
    """The end of a chain at one moment. Kept in another place, it shows a later cut.

    Attributes:
        number: The number of the last record; 0 for an empty chain.
        mac: Its MAC, 64 hex digits.
    """

    number: int
    mac: str

    def __str__(self) -> str:
        return f"{self.number}:{self.mac}"

    @classmethod
    def parse(cls, text: str) -> AuditHead:
        """The head of its text `NUMBER:MAC`.

        Raises:
            AuditBroken: The text is no head.
        """
        number, _, mac = text.strip().partition(":")
        if number.isascii() and number.isdigit() and len(number) < 20 and _is_mac(mac):
            return cls(int(number), mac)
        raise AuditBroken("a head is written NUMBER:MAC, with a MAC of 64 lower-case hex digits, as `retinue audit verify` prints it.")


@final
@attrs.frozen
class AuditEntry:
    """One record of the audit log. Plain data: only `verify_chain`, with the key, says whether it is a true one.

    Attributes:
        number: 1 for the first, then one more each.
        at_ms: When, in milliseconds since the epoch.
        kind: "decision" (a refusal, a question, or an allow of risk L2 or more), "allowed_batch" (`count` allows of one static decision),
            "approval", "mint", "revoke", "amplification" (an actor's own authority was used), "outcome", "start".
        operation: The operation's dotted name, or None where it is not about one.
        allowed: Whether it was allowed.
        reason: A stable word for programs (see `Denied.reason`), or "".
        context: The id of the context it was decided under, or None.
        root: The id of that context's oldest ancestor, or None.
        subject: Whom the context speaks for, or None.
        tenant: The context's tenant, or None.
        path: The path of the actor that was addressed, or None.
        message_type: The name of the message's type, or None.
        arguments_digest: A keyed digest of the arguments (`AuditLog.digest`), or None where there is none.
        policy_version: The policy version of the context, or None.
        detail: A sentence for people, or "".
        count: How many calls the record stands for.
        previous: The MAC of the record before, or 64 zeros.
        mac: HMAC-SHA-256 over all the above, 64 hex digits.
    """

    number: int
    at_ms: int
    kind: Kind
    operation: str | None
    allowed: bool
    reason: str
    context: str | None
    root: str | None
    subject: str | None
    tenant: str | None
    path: str | None
    message_type: str | None
    arguments_digest: str | None
    policy_version: str | None
    detail: str
    count: int
    previous: str
    mac: str

    @property
    def line(self) -> str:
        """The record as one line of JSON, without the line's end; `from_data` of it is the record again."""
        return _line(body_of(self), self.mac)

    @classmethod
    def from_data(cls, data: object) -> Self:
        """The record of decoded JSON.

        Raises:
            AuditBroken: A field is missing, unknown, or not of its type.
        """
        if type(data) is not dict or data.keys() != _TYPES.keys():
            raise AuditBroken(f"an audit record is a JSON object with the fields {', '.join(_FIELDS)}, and nothing else.")
        for name, types in _TYPES.items():
            if type(data[name]) not in types:
                raise AuditBroken(f"in an audit record the field {name!r} has a value of a wrong type.")
        if data["kind"] not in KINDS or not (_is_mac(data["mac"]) and _is_mac(data["previous"])):
            raise AuditBroken("in an audit record the kind or a MAC is malformed.")
        return cls(**data)


_FIELDS: Final = tuple(field.name for field in attrs.fields(AuditEntry))
_OPTIONAL: Final = frozenset(
    {"operation", "context", "root", "subject", "tenant", "path", "message_type", "arguments_digest", "policy_version"}
)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys(_FIELDS, (str,)),
    **dict.fromkeys(_OPTIONAL, (str, type(None))),
    **dict.fromkeys(("number", "at_ms", "count"), (int,)),
    "allowed": (bool,),
}
# Everything but ASCII is escaped, so a line is a line, whatever a subject is called; with exact types and no lone surrogates among the
# texts, two different records never have the same body.
encode: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False, check_circular=False).encode


def _is_mac(text: object) -> bool:
    return type(text) is str and len(text) == 64 and not set(text) - set("0123456789abcdef")


def body_of(entry: AuditEntry) -> str:
    """What the MAC is over."""
    return encode({name: getattr(entry, name) for name in _FIELDS[:-1]})


def _line(body: str, mac: str) -> str:
    return f'{body[:-1]},"mac":"{mac}"}}'


def derive_key(key: bytes, purpose: bytes) -> bytes:
    """A key for one purpose: a MAC made for one is of no use for another."""
    return hmac.digest(key, b"retinue/audit/1\0" + purpose, "sha256")


def check_key(key: bytes) -> bytes:
    """The key, if it can be one of an audit log. Raises DefinitionError."""
    if type(key) is not bytes or len(key) < MIN_KEY_BYTES:
        raise DefinitionError(f"the key of an audit log is {MIN_KEY_BYTES} random bytes or more: use KeyRing, or secrets.token_bytes(32).")
    return key


def mac_of(chain_key: bytes, body: str) -> str:
    """The MAC of a record's body."""
    return hmac.digest(chain_key, body.encode("ascii"), "sha256").hex()


def verify_chain(entries: Iterable[AuditEntry], key: bytes, *, head: AuditHead | tuple[int, str] | None = None) -> AuditHead:
    """Check a whole chain, from record 1 on, and return its head.

    Args:
        entries: The records, oldest first.
        key: The key of the log that wrote them.
        head: A head of this chain that was kept elsewhere. Without one, a cut at the end cannot be seen.

    Raises:
        AuditBroken: A record was altered, removed, added or reordered, or the chain ends before the head.
        DefinitionError: The key is too short to be one.
    """
    return check_links(entries, derive_key(check_key(key), b"chain"), AuditHead(0, NO_MAC), None if head is None else AuditHead(*head))


def check_links(entries: Iterable[AuditEntry], chain_key: bytes, start: AuditHead, head: AuditHead | None) -> AuditHead:
    """`verify_chain` for records that follow the head `start`. Raises AuditBroken."""
    number, mac = start
    met = head is None or head == start
    for entry in entries:
        number += 1
        if entry.number != number or entry.previous != mac:
            raise AuditBroken(
                f"audit record {number} does not follow the one before: records were removed, added or reordered.", number=number
            )
        if not is_true(entry, chain_key):
            raise AuditBroken(f"audit record {number} was altered, or written with another key.", number=number)
        mac = entry.mac
        if head is not None and number == head.number:
            if mac != head.mac:
                break
            met = True
    if met:
        return AuditHead(number, mac)
    assert head is not None
    if number < head.number:
        raise AuditBroken(
            f"the audit chain ends at record {number}, and the head that was kept is record {head.number}: the end was cut off."
        )
    raise AuditBroken(
        f"audit record {head.number} is not the one whose head was kept: the head is another log's, or the chain was written anew.",
        number=head.number,
    )


def is_true(entry: AuditEntry, chain_key: bytes) -> bool:
    """Whether the record's MAC is its own. Never raises for what a record may hold."""
    try:
        return hmac.compare_digest(mac_of(chain_key, body_of(entry)), entry.mac)
    except (TypeError, ValueError):  # made by hand, of values that no record has
        return False
