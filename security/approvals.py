"""Approvals as data: what a person is asked, and what the consent will be bound to.

A `Binding` says what a consent is good for: this operation with these arguments, for this subject, at this actor, as it is written now. An
`ApprovalRequest` is the question that a person answers. Neither gives any authority: that does a token (`retinue.security.approval_tokens`), which the
approving side signs for a binding.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, final, get_args

import attrs

from retinue.security.canonical import canonical, canonical_of_stored
from retinue.security.errors import ApprovalError, CanonicalError, DefinitionError
from retinue.security.limits import UNLIMITED, moment
from retinue.security.showing import shown_arguments
from retinue.security.typed_data import arguments_from_text, arguments_to_text
from retinue.security.visible import oddities, quoted, visible

__all__ = ["ApprovalRequest", "Binding", "Status", "arguments_digest", "new_id", "stored_digest"]

Status = Literal["pending", "approved", "rejected", "expired", "cancelled"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)

REQUEST_LIFETIME_MS: Final = 7 * 86_400_000
"""How long a request waits for a person: seven days, in milliseconds."""

MAX_REASONS: Final = 64
"""Texts that say why consent is needed, of one request."""

MAX_TEXT: Final = 16_384
"""Characters of such a text, and of a reviewer's note."""

MAX_PATH: Final = 2_048
"""Characters of an actor's path."""

MOST_EDITS: Final = 64
"""Requests in a row, each of which replaces the one before, that are followed to the last."""

ASKER: Final = "whoever asked"
"""The name under which a request is taken back whose run is over."""

GIVEN_UP: Final = "the run that asked was given up"

_MAX_NAME: Final = 255
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ID: Final = re.compile(r"[a-z]{3}_[a-z2-7]{26}", re.ASCII)
_ARGUMENTS: Final = b"retinue/approval/arguments/1\0"


def new_id(prefix: str) -> str:
    """A new random id of 128 bits: three letters, "_", and 26 characters of base32. Requests have "apr", tokens "apt", standing consents "aps"."""
    return f"{prefix}_{base64.b32encode(secrets.token_bytes(16)).decode('ascii').rstrip('=').lower()}"


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """The SHA-256 of the arguments' canonical bytes under a word of its own, 64 hex digits. Types count: 1, True, 1.0 and "1" are four.

    Raises:
        CanonicalError: Something in the arguments is no plain data.
    """
    return _digest(canonical(dict(arguments)))


def stored_digest(arguments: Mapping[str, Any]) -> str:
    """As `arguments_digest`, also of arguments that were read back: the records in them count as what they stand for. For editors, never for the gate.

    Raises:
        CanonicalError: Something in the arguments is no plain data.
    """
    return _digest(canonical_of_stored(dict(arguments)))


def _digest(raw: bytes) -> str:
    return hashlib.sha256(_ARGUMENTS + raw).hexdigest()


def is_id(value: object, prefix: str) -> bool:
    """Whether it is an id that `new_id` makes of the prefix."""
    return type(value) is str and _ID.fullmatch(value) is not None and value.startswith(f"{prefix}_")


def is_name(value: object, most: int = _MAX_NAME) -> bool:
    """Whether it is a `str` of 1 to `most` characters that can be written down."""
    return type(value) is str and 1 <= len(value) <= most and _is_text(value)


def _is_text(value: object, most: int = MAX_TEXT) -> bool:
    return type(value) is str and len(value) <= most and not any("\ud800" <= character <= "\udfff" for character in value)


def is_digest(value: object) -> bool:
    """Whether it is a SHA-256 as 64 hex digits."""
    return type(value) is str and _DIGEST.fullmatch(value) is not None


def is_time(value: object) -> bool:
    """Whether it is a time in milliseconds since the epoch."""
    return type(value) is int and 0 <= value <= UNLIMITED


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise DefinitionError(f"{what} is malformed.")


@final
@attrs.frozen
class Binding:
    """What a consent is bound to. Two calls with equal bindings are the same call as far as a reviewer can tell.

    Attributes:
        operation: The operation's dotted name, or None where the handler requires none.
        arguments_digest: `arguments_digest` of its arguments.
        subject: Whom the context speaks for.
        tenant: Its tenant, or None.
        session: Its session, or None.
        audience: The path of the actor that is addressed.
        definition: Digest of what the handler is (`retinue.security.definitions`): a changed handler asks again.
        policy_version: The version of the authority's policy that the context was made under.
        run: The run of an agent or a team that asks, or None where somebody sends the message himself: two runs that want the same are two questions.

    Raises:
        DefinitionError: One of them is malformed.
    """

    operation: str | None
    arguments_digest: str
    subject: str
    tenant: str | None
    session: str | None
    audience: str
    definition: str
    policy_version: str
    run: str | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("operation", "tenant", "session"):
            value = getattr(self, name)
            _check(value is None or is_name(value), f"the {name} of a binding")
        for name in ("subject", "policy_version"):
            _check(is_name(getattr(self, name)), f"the {name} of a binding")
        for name in ("arguments_digest", "definition"):
            _check(is_digest(getattr(self, name)), f"the {name} of a binding")
        _check(is_name(self.audience, MAX_PATH), "the audience of a binding")
        _check(self.run is None or is_name(self.run, MAX_PATH), "the run of a binding")

    @property
    def digest(self) -> str:
        """One text for all of it, 64 hex digits: equal exactly for equal bindings."""
        data = self.to_data()
        if self.run is None:  # as it was before there were runs
            del data["run"]
        return hashlib.sha256(b"retinue/approval/binding/1\0" + canonical(data)).hexdigest()

    def to_data(self) -> dict[str, str | None]:
        """The binding as plain data."""
        return {name: getattr(self, name) for name in BINDING_FIELDS}


BINDING_FIELDS: Final[tuple[str, ...]] = tuple(field.name for field in attrs.fields(Binding))


def binding_from_data(data: object) -> Binding:
    """What `Binding.to_data` gave.

    Raises:
        ApprovalError: It is anything else ("malformed").
    """
    try:
        if type(data) is not dict or {"run", *data} != set(BINDING_FIELDS):  # what is of before there were runs says nothing of one
            raise DefinitionError("a key is missing or unknown.")
        return Binding(**data)
    except DefinitionError as error:
        raise ApprovalError(f"this is no binding of an approval: {error}", reason="malformed") from None


@final
@attrs.frozen
class ApprovalRequest:
    """A question to a person: may this operation be done with these arguments?

    Made by the desk, read everywhere. It is what was known when it was read; the desk knows more later.

    Attributes:
        id: "apr_" and 26 characters.
        status: "pending", or how it ended: "approved", "rejected", "expired", "cancelled".
        binding: What a consent would be bound to.
        stored_arguments: The arguments as a JSON text that keeps their types; `arguments` reads it.
        message_type: The message's wire name, or its qualified name.
        reasons: Why consent is needed, each as a text.
        risk: "L0" to "L3", or None where nobody rated the operation.
        four_eyes: Whether the reviewer has to be another person than the subject.
        context_id: The id of the context; recorded, not bound, since it changes with each narrowing.
        created_ms: When it was asked, in milliseconds since the epoch.
        expires_ms: When it stops waiting.
        decided_ms: When it was decided, or None.
        reviewer: Who decided it, or None.
        reviewer_asserted: Whether the reviewer's name is what code that holds the system, or the command line, said; else it is a sealed token's subject.
        note: What the reviewer wrote.
        edit_of: The id of the request that this one replaces, or None.
        edited_to: The id of the request that replaces this one, or None.
        token: The approval, where the request is approved and whoever reads it may have that; else None.
        batch: The id of the decision that it was decided in together with others, or None.

    Raises:
        DefinitionError: Something is malformed.
        ApprovalError: The arguments are not those of the binding ("arguments").
    """

    id: str
    status: Status
    binding: Binding
    stored_arguments: str = attrs.field(repr=False)
    message_type: str
    reasons: tuple[str, ...]
    risk: str | None
    four_eyes: bool
    context_id: str
    created_ms: int
    expires_ms: int
    decided_ms: int | None = None
    reviewer: str | None = None
    reviewer_asserted: bool = False
    note: str = attrs.field(default="", repr=False)
    edit_of: str | None = None
    edited_to: str | None = None
    token: str | None = attrs.field(default=None, repr=False)
    batch: str | None = None

    def __attrs_post_init__(self) -> None:
        _check(is_id(self.id, "apr"), "the id of a request")
        _check(type(self.status) is str and self.status in STATUSES, "the status of a request")
        _check(type(self.binding) is Binding, "the binding of a request")
        _check(is_name(self.message_type, MAX_PATH), "the message type of a request")
        _check(
            type(self.reasons) is tuple and len(self.reasons) <= MAX_REASONS and all(map(_is_text, self.reasons)),
            "the reasons of a request",
        )
        _check(self.risk is None or (type(self.risk) is str and self.risk in ("L0", "L1", "L2", "L3")), "the risk of a request")
        _check(type(self.four_eyes) is bool and type(self.reviewer_asserted) is bool, "a flag of a request")
        _check(is_name(self.context_id), "the context id of a request")
        _check(is_time(self.created_ms) and is_time(self.expires_ms), "a time of a request")
        _check(self.decided_ms is None or is_time(self.decided_ms), "the decision's time of a request")
        _check(self.reviewer is None or is_name(self.reviewer), "the reviewer of a request")
        _check(_is_text(self.note), "the note of a request")
        _check(self.edit_of is None or is_id(self.edit_of, "apr"), "the request that a request replaces")
        _check(self.edited_to is None or is_id(self.edited_to, "apr"), "the request that replaces a request")
        _check(self.token is None or is_name(self.token, MAX_TEXT), "the token of a request")
        _check(self.batch is None or is_name(self.batch), "the batch of a request")
        if _digest(canonical_of_stored(self._read())) != self.binding.arguments_digest:
            raise ApprovalError(
                f"the request {self.id} shows other arguments than those that its consent would be bound to. Was its store edited?",
                reason="arguments",
            )

    @classmethod
    def new(
        cls,
        binding: Binding,
        arguments: Mapping[str, Any],
        *,
        message_type: str,
        reasons: Iterable[str],
        context_id: str,
        now_ms: int,
        risk: str | None = None,
        four_eyes: bool = False,
        lifetime_ms: int = REQUEST_LIFETIME_MS,
        edit_of: str | None = None,
    ) -> ApprovalRequest:
        """A new request with a new id.

        Args:
            binding: What a consent would be bound to.
            arguments: The arguments, whose digest the binding has.
            message_type: The message's wire name, or its qualified name.
            reasons: Why consent is needed.
            context_id: The id of the context.
            now_ms: The time.
            risk: "L0" to "L3", or None.
            four_eyes: Whether the reviewer has to be another person than the subject.
            lifetime_ms: How long it waits. Default: seven days.
            edit_of: The id of the request that it replaces.

        Raises:
            CanonicalError: The arguments are no plain data.
            ApprovalError: They are not those of the binding ("arguments").
            DefinitionError: Something is malformed.
        """
        texts = [_shortened(text) for text in reasons]
        if len(texts) > MAX_REASONS:
            texts = [*texts[: MAX_REASONS - 1], f"and {len(texts) - MAX_REASONS + 1} more"]
        return cls(
            id=new_id("apr"),
            status="pending",
            binding=binding,
            stored_arguments=arguments_to_text(arguments),
            message_type=message_type,
            reasons=tuple(texts),
            risk=risk,
            four_eyes=four_eyes,
            context_id=context_id,
            created_ms=now_ms,
            expires_ms=min(now_ms + lifetime_ms, UNLIMITED),
            edit_of=edit_of,
        )

    def _read(self) -> dict[str, Any]:
        try:
            return arguments_from_text(self.stored_arguments)
        except CanonicalError as error:
            raise ApprovalError(f"the request {self.id} cannot be shown: {error}", reason="arguments") from None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments by name, read-only and exactly as the gate saw them; a message in them is a `Record`. Each read gives a new one."""
        return MappingProxyType(self._read())

    @property
    def operation(self) -> str | None:
        """The operation, or None where the handler requires none."""
        return self.binding.operation

    @property
    def subject(self) -> str:
        """Whom the context speaks for."""
        return self.binding.subject

    @property
    def tenant(self) -> str | None:
        """The tenant of the context, or None."""
        return self.binding.tenant

    @property
    def session(self) -> str | None:
        """The session of the context, or None."""
        return self.binding.session

    @property
    def audience(self) -> str:
        """The path of the actor that is addressed."""
        return self.binding.audience

    @property
    def run(self) -> str | None:
        """The run of an agent or a team that asks, which begins with the name of its session; None where somebody sends the message himself."""
        return self.binding.run

    def without_token(self) -> ApprovalRequest:
        """The same, for who may see it and not use it."""
        return self if self.token is None else attrs.evolve(self, token=None)

    def shown(self, width: int = 100) -> list[str]:
        """Lines for a person who decides. They have printable characters only, and every argument in full; the token is left out.

        Args:
            width: Columns that a line of arguments has at most, where a value can be broken. Default: 100.
        """
        replaced = (("replaces", self.edit_of), ("replaced by", self.edited_to))
        lines = [
            f"request: {self.id}",
            f"status: {self.status}",
            *_row("operation", self.operation or "(none)"),
            *_row("message", self.message_type),
            *_row("at", self.audience),
            *_row("for", self.subject, quote=True),
            *(_row("tenant", self.tenant, quote=True) if self.tenant is not None else ()),
            *(_row("session", self.session, quote=True) if self.session is not None else ()),
            *(_row("run", self.run, quote=True) if self.run is not None else ()),
            *([f"risk: {self.risk}"] if self.risk is not None else ()),
            *(["reviewer: must be another person than the subject"] if self.four_eyes else ()),
            *(line for reason in self.reasons for line in _row("because", reason)),
            f"asked: {moment(self.created_ms)}",
            f"waits until: {moment(self.expires_ms)}",
            *(f"{name}: {other}" for name, other in replaced if other is not None),
        ]
        if self.decided_ms is not None:
            by = f" by {quoted(self.reviewer)}{' (as asserted)' if self.reviewer_asserted else ''}" if self.reviewer is not None else ""
            lines.append(f"decided: {moment(self.decided_ms)}{by}")
        if self.note:
            lines += _row("note", self.note)
        return [*lines, "arguments:", *(f"  {line}" for line in shown_arguments(self._read(), width=width - 2))]

    def to_data(self) -> dict[str, Any]:
        """The request as plain JSON-able data. A token is in it where this has one: see `without_token`."""
        data: dict[str, Any] = {field.name: getattr(self, field.name) for field in attrs.fields(ApprovalRequest)}
        return {**data, "binding": self.binding.to_data(), "reasons": list(self.reasons)}

    @classmethod
    def from_data(cls, data: object) -> ApprovalRequest:
        """What `to_data` gave; it may come from anywhere.

        Raises:
            ApprovalError: It is anything else ("malformed"), or its arguments are not those of its binding ("arguments").
        """
        names = {field.name for field in attrs.fields(cls)}
        if type(data) is not dict or data.keys() != names or type(data["reasons"]) is not list:
            raise ApprovalError("this is no request for an approval: a key is missing or unknown.", reason="malformed")
        try:
            return cls(**{**data, "binding": binding_from_data(data["binding"]), "reasons": tuple(data["reasons"])})
        except DefinitionError as error:
            raise ApprovalError(f"this is no request for an approval: {error}", reason="malformed") from None


def _row(name: str, text: str, *, quote: bool = False) -> list[str]:
    """A line, and what in its text may be taken for something else."""
    return [f"{name}: {quoted(text) if quote else visible(text)}", *(f"  ! {note}" for note in oddities(text))]


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
