"""Approval tokens: a person's consent to one call, signed. `rta1.` and what `signed_frame` says.

A token is bound to everything that a `Binding` has, lives for an hour at most, and is spent once (which the desk sees to: nothing here knows what was
spent). Whoever has it can do nothing but that one call, and only under the authority that the call needs anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import attrs

from retinue.security.approvals import BINDING_FIELDS, Binding, is_id, is_name, is_time, new_id
from retinue.security.errors import ApprovalError, DefinitionError
from retinue.security.people import same_person
from retinue.security.signed_frame import open_frame, sign_frame

if TYPE_CHECKING:
    from retinue.security.approval_keys import SigningKey, VerifyingKeys

__all__ = ["MAX_LIFETIME_MS", "ApprovalToken", "read_token", "sign_token"]

MAX_LIFETIME_MS: Final = 3_600_000
"""The longest that a token lives from the approval on: an hour, in milliseconds."""

SKEW_MS: Final = 5_000
"""How far the approving side's clock may be ahead of who redeems, in milliseconds."""

MAX_CHARACTERS: Final = 2**14
"""Characters in a token."""

_PREFIX: Final = "rta1"
_DOMAIN: Final = b"retinue/approval/1\0"
_VERSION: Final = 1
# Short, because tokens are pasted and passed about. In the order of `BINDING_FIELDS`.
_BOUND: Final = dict(zip(("op", "args", "sub", "ten", "ses", "aud", "def", "pol", "run"), BINDING_FIELDS, strict=True))
_KEYS: Final = frozenset({"v", "jti", "req", *_BOUND, "by", "iat", "exp", "edit"})
_REASONS: Final = {
    "operation": "operation",
    "arguments_digest": "arguments",
    "subject": "subject",
    "tenant": "tenant",
    "session": "session",
    "audience": "audience",
    "definition": "definition",
    "policy_version": "policy",
    "run": "run",
}
_TOLD: Final = {
    "operation": "it is for another operation",
    "arguments": "it is for other arguments",
    "subject": "it is for another subject",
    "tenant": "it is for another tenant",
    "session": "it is for another session",
    "audience": "it is for another actor",
    "definition": "the handler was changed since it was given",
    "policy": "the policy has another version than when it was given",
    "run": "it is for another run",
}


@final
@attrs.frozen
class ApprovalToken:
    """What a token says. Having one of these proves nothing but that `read_token` has checked the signature.

    Attributes:
        jti: Its own id, "apt_" and 26 characters; what is spent, and the idempotency key of what is done.
        request_id: The id of the request that was approved.
        binding: What it is good for.
        approver: Who approved.
        issued_ms: When, in milliseconds since the epoch.
        expires_ms: When it ends.
        edit_of: The id of the request that the approved one replaced, or None.
    """

    jti: str
    request_id: str
    binding: Binding
    approver: str
    issued_ms: int
    expires_ms: int
    edit_of: str | None = None

    def check(self, binding: Binding, now_ms: int, *, four_eyes: bool = False) -> None:
        """Refuse the token for any other call than its own, or at another time.

        Args:
            binding: What the call is.
            now_ms: The time.
            four_eyes: Whether the approver has to be another person than the call's subject.

        Raises:
            ApprovalError: It is for another call ("operation", "arguments", "subject", "tenant", "session", "audience", "definition", "policy", "run"), it
                has ended ("expired"), was given in the future ("not_yet_valid"), or by the subject ("four_eyes"). The text shows neither call.
        """
        if type(binding) is not Binding or type(now_ms) is not int:
            raise DefinitionError("a token is checked against the Binding of a call, at a time in milliseconds.")
        for name, reason in _REASONS.items():
            if getattr(self.binding, name) != getattr(binding, name):
                raise ApprovalError(f"the approval {self.jti} does not fit: {_TOLD[reason]}. Get this call approved.", reason=reason)
        if now_ms >= self.expires_ms:
            raise ApprovalError(f"the approval {self.jti} has expired. Get the call approved again.", reason="expired")
        if self.issued_ms - SKEW_MS > now_ms:
            raise ApprovalError(
                f"the approval {self.jti} was given in the future: the clocks of the two sides differ by more than {SKEW_MS // 1000} s. Set them right.",
                reason="not_yet_valid",
            )
        if four_eyes and same_person(self.approver, binding.subject):
            raise ApprovalError(
                f"the approval {self.jti} was given by its own subject, and the policy asks for another person. Let somebody else approve.",
                reason="four_eyes",
            )


def sign_token(
    key: SigningKey,
    binding: Binding,
    *,
    request_id: str,
    approver: str,
    now_ms: int,
    lifetime_ms: int = MAX_LIFETIME_MS,
    edit_of: str | None = None,
    jti: str | None = None,
) -> str:
    """A token. Only the approving side has a key for it.

    Args:
        key: The private key.
        binding: What it is good for.
        request_id: The id of the request that is approved.
        approver: Who approves.
        now_ms: The time of the approval.
        lifetime_ms: How long it lives: more than 0, an hour at most, which is the default.
        edit_of: The id of the request that the approved one replaced.
        jti: Its id, where the caller has made it already; default a new one.

    Raises:
        DefinitionError: Something is malformed.
        ApprovalError: It would be too long ("malformed").
    """
    if type(lifetime_ms) is not int or not 0 < lifetime_ms <= MAX_LIFETIME_MS:
        raise DefinitionError(f"an approval lives for more than 0 and at most {MAX_LIFETIME_MS:,} ms, an hour from when it is given.")
    content: dict[str, Any] = {
        "v": _VERSION,
        "jti": new_id("apt") if jti is None else jti,
        "req": request_id,
        **{short: getattr(binding, name) for short, name in _BOUND.items()},
        "by": approver,
        "iat": now_ms,
        "exp": now_ms + lifetime_ms,
        "edit": edit_of,
    }
    try:
        _token_of(content)
    except (ValueError, DefinitionError) as error:
        raise DefinitionError(f"no token can say this: {error}") from None
    return sign_frame(key, _PREFIX, _DOMAIN, content, MAX_CHARACTERS)


def read_token(text: object, keys: VerifyingKeys) -> ApprovalToken:
    """What a token says, once its signature was found to fit.

    Args:
        text: The token; it may come from anywhere.
        keys: The public keys that are trusted.

    Raises:
        ApprovalError: It is no token ("malformed"), of a key that is not trusted ("unknown_key"), or altered ("signature").
    """
    content = open_frame(keys, _PREFIX, _DOMAIN, text, MAX_CHARACTERS, "an approval token")
    try:
        return _token_of(content)
    except (ValueError, DefinitionError) as error:
        raise ApprovalError(f"the approval token says what no token of this version says: {error}", reason="malformed") from None


def _token_of(content: dict[str, Any]) -> ApprovalToken:
    content = {"run": None, **content}  # of before there were runs, where it says nothing of one
    if content.keys() != _KEYS:
        raise ValueError("a key is missing or unknown")
    if type(content["v"]) is not int or content["v"] != _VERSION:
        raise ValueError("its version is another")
    if (
        not is_id(content["jti"], "apt")
        or not is_id(content["req"], "apr")
        or not (content["edit"] is None or is_id(content["edit"], "apr"))
    ):
        raise ValueError("an id is none")
    issued, expires = content["iat"], content["exp"]
    if not is_time(issued) or not is_time(expires) or not issued < expires <= issued + MAX_LIFETIME_MS:
        raise ValueError("its times are none")
    if not is_name(content["by"]):
        raise ValueError("its approver is none")
    return ApprovalToken(
        jti=content["jti"],
        request_id=content["req"],
        binding=Binding(**{name: content[short] for short, name in _BOUND.items()}),
        approver=content["by"],
        issued_ms=issued,
        expires_ms=expires,
        edit_of=content["edit"],
    )
