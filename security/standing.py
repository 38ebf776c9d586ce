"""Standing consents: "always allow this", signed by a person, for calls that would be asked about again and again. `rts1.` and what `signed_frame` says.

A standing consent answers the question whether a person consents, and no other: what the layers of a context refuse, it does not permit. It names
operations by a pattern, holds arguments to constraints, and always ends. What it does not name it does not cover: an argument without a constraint has to
be missing or None, unless the consent is open. So a field that is added to a message later is asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, final

import attrs

from retinue.security.approvals import Binding, arguments_digest, is_digest, is_id, is_name, is_time, new_id
from retinue.security.constraints import NO_SOURCES, Constraint, Source, constraint_from_data
from retinue.security.errors import ApprovalError, ConstraintError, DefinitionError, PatternError
from retinue.security.operations import Pattern
from retinue.security.people import same_person
from retinue.security.rules import MAX_ARGUMENT_LENGTH, Rule, argument_text, checked_constraints
from retinue.security.signed_frame import open_frame, sign_frame

if TYPE_CHECKING:
    from retinue.security.approval_keys import SigningKey, VerifyingKeys

__all__ = ["MAX_LIFETIME_MS", "StandingConsent", "read_standing", "sign_standing"]

MAX_LIFETIME_MS: Final = 366 * 86_400_000
"""The longest that a standing consent lives: 366 days, in milliseconds."""

SKEW_MS: Final = 5_000
"""How far the approving side's clock may be ahead of who asks, in milliseconds."""

MAX_CHARACTERS: Final = 2**16
"""Characters in a signed one."""

MAX_PATH: Final = 2_048
_PREFIX: Final = "rts1"
_DOMAIN: Final = b"retinue/standing/1\0"
_VERSION: Final = 1
_KEYS: Final = frozenset({"v", "id", "pat", "sub", "ten", "aud", "args", "open", "def", "by", "iat", "exp"})


@final
@attrs.frozen
class StandingConsent:
    """What a person has consented to, until it ends or is withdrawn. It is worth nothing but as `read_standing` gives it.

    Attributes:
        id: "aps_" and 26 characters.
        pattern: The operations, as a pattern.
        subject: For whom; None: for every subject.
        tenant: For which tenant; None: for each, and for none.
        audience: At which actor, by its path; None: at every one.
        constraints: What the arguments must be, by their names, sorted.
        open: Whether arguments without a constraint may be given.
        definition: Digest of the handler that it is for; None: for each handler of the operation, changed ones too.
        approver: Who consented.
        issued_ms: When, in milliseconds since the epoch.
        expires_ms: When it ends.

    Raises:
        DefinitionError: One of them is malformed, or it would live longer than 366 days.
        PatternError: The pattern is.
    """

    id: str
    pattern: str
    subject: str | None
    tenant: str | None
    audience: str | None
    constraints: tuple[tuple[str, Constraint], ...]
    open: bool
    definition: str | None
    approver: str
    issued_ms: int
    expires_ms: int
    _rule: Rule = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        fits = (
            is_id(self.id, "aps")
            and type(self.pattern) is str
            and (self.subject is None or is_name(self.subject))
            and (self.tenant is None or is_name(self.tenant))
            and (self.audience is None or is_name(self.audience, MAX_PATH))
            and type(self.open) is bool
            and (self.definition is None or is_digest(self.definition))
            and is_name(self.approver)
            and is_time(self.issued_ms)
            and is_time(self.expires_ms)
        )
        if not fits:
            raise DefinitionError("a standing consent has a name, a path, a digest, a flag or a time that is none.")
        if not self.issued_ms < self.expires_ms <= self.issued_ms + MAX_LIFETIME_MS:
            raise DefinitionError("a standing consent ends: after more than 0 seconds, and after 366 days at the latest.")
        # Checked as those of a restriction, and in the one order that the signed text has.
        if type(self.constraints) is not tuple or self.constraints != checked_constraints(dict(self.constraints), {}, "a standing consent"):
            raise DefinitionError(
                "the constraints of a standing consent are pairs of names and constraints, sorted by name, each name once."
            )
        object.__setattr__(self, "_rule", Rule(Pattern(self.pattern), self.constraints, self.open))

    @classmethod
    def new(
        cls,
        pattern: str,
        *,
        approver: str,
        now_ms: int,
        lifetime_ms: int,
        subject: str | None = None,
        tenant: str | None = None,
        audience: str | None = None,
        constraints: Mapping[str, Constraint] | None = None,
        open: bool = False,  # noqa: A002  # the word for it
        definition: str | None = None,
    ) -> StandingConsent:
        """A new one with a new id, not signed yet.

        Args:
            pattern: The operations.
            approver: Who consents.
            now_ms: The time.
            lifetime_ms: How long it lives, more than 0 and 366 days at most.
            subject: For whom; None: for every subject.
            tenant: For which tenant; None: for each, and for none.
            audience: At which actor; None: at every one.
            constraints: What the arguments must be, by their names. Without any, and closed, it covers calls that have no arguments.
            open: Whether arguments without a constraint may be given. Default False.
            definition: Digest of the handler that it is for; None: for changed ones too.

        Raises:
            DefinitionError: Something is malformed.
            ConstraintError: What an argument must be is no constraint.
            PatternError: The pattern is malformed.
        """
        return cls(
            id=new_id("aps"),
            pattern=pattern,
            subject=subject,
            tenant=tenant,
            audience=audience,
            constraints=checked_constraints(constraints, {}, "a standing consent"),
            open=open,
            definition=definition,
            approver=approver,
            issued_ms=now_ms,
            expires_ms=now_ms + lifetime_ms,
        )

    def covers(
        self,
        binding: Binding,
        arguments: Mapping[str, Any],
        sources: Mapping[str, Source] = NO_SOURCES,
        now_ms: int = 0,
        *,
        four_eyes: bool = False,
    ) -> bool:
        """Whether it consents to a call. Never raises: what cannot be decided is not covered.

        Args:
            binding: What the call is.
            arguments: Its arguments, whose digest the binding has.
            sources: The sources of the authority, by name, for `known_from`.
            now_ms: The time. It is covered at no time by default, since no consent is from 1970.
            four_eyes: Whether the approver has to be another person than the call's subject.
        """
        try:
            return (
                self._is_for(binding, now_ms)
                and not (four_eyes and same_person(self.approver, binding.subject))
                and self._fits(binding, arguments, sources)
            )
        except Exception:
            return False

    def _is_for(self, binding: Binding, now_ms: int) -> bool:
        return (
            type(now_ms) is int
            and self.issued_ms - SKEW_MS <= now_ms < self.expires_ms
            and binding.operation is not None
            and self._rule.pattern.matches_segments(tuple(binding.operation.split(".")))
            and self.subject in (None, binding.subject)
            and self.tenant in (None, binding.tenant)
            and self.audience in (None, binding.audience)
            and self.definition in (None, binding.definition)
        )

    def _fits(self, binding: Binding, arguments: Mapping[str, Any], sources: Mapping[str, Source]) -> bool:
        given = dict(arguments)
        names = {name for name, _ in self.constraints}
        if not self.open and any(value is not None and name not in names for name, value in given.items()):
            return False
        return self._rule.holds(given, sources) and arguments_digest(given) == binding.arguments_digest

    @property
    def text(self) -> str:
        """It as a person would say it; names may be anybody's, so show it with `visible`."""
        for_whom = [
            f"{what} {name!r}"
            for what, name in (("for the subject", self.subject), ("for the tenant", self.tenant), ("at", self.audience))
            if name is not None
        ]
        constraints = [f"{argument_text(name)}: {constraint.text}" for name, constraint in self.constraints]
        others = "any other arguments" if self.open else "no other arguments"
        what = f"always allow {self.pattern!r} with {', '.join([*constraints, others])}"
        return " ".join([what, *for_whom, *(["as the handler is now"] if self.definition is not None else [])])

    def to_data(self) -> dict[str, Any]:
        """It as plain JSON-able data."""
        return {
            "v": _VERSION,
            "id": self.id,
            "pat": self.pattern,
            "sub": self.subject,
            "ten": self.tenant,
            "aud": self.audience,
            "args": {name: constraint.to_data() for name, constraint in self.constraints},
            "open": self.open,
            "def": self.definition,
            "by": self.approver,
            "iat": self.issued_ms,
            "exp": self.expires_ms,
        }


def sign_standing(key: SigningKey, consent: StandingConsent) -> str:
    """The consent as a signed text. Only the approving side has a key for it.

    Raises:
        ApprovalError: It would be too long ("malformed").
    """
    return sign_frame(key, _PREFIX, _DOMAIN, consent.to_data(), MAX_CHARACTERS)


def read_standing(text: object, keys: VerifyingKeys) -> StandingConsent:
    """What a signed standing consent says, once its signature was found to fit.

    Args:
        text: The text; it may come from anywhere.
        keys: The public keys that are trusted.

    Raises:
        ApprovalError: It is none ("malformed"), of a key that is not trusted ("unknown_key"), or altered ("signature").
    """
    content = open_frame(keys, _PREFIX, _DOMAIN, text, MAX_CHARACTERS, "a standing consent")
    try:
        if content.keys() != _KEYS or type(content["v"]) is not int or content["v"] != _VERSION:
            raise DefinitionError("a key is missing or unknown, or its version is another.")
        if type(content["args"]) is not dict or any(len(name) > MAX_ARGUMENT_LENGTH for name in content["args"]):
            raise DefinitionError("its constraints are none.")
        consent = StandingConsent(
            id=content["id"],
            pattern=content["pat"],
            subject=content["sub"],
            tenant=content["ten"],
            audience=content["aud"],
            constraints=tuple(sorted((name, constraint_from_data(one)) for name, one in content["args"].items())),
            open=content["open"],
            definition=content["def"],
            approver=content["by"],
            issued_ms=content["iat"],
            expires_ms=content["exp"],
        )
        if consent.to_data() != content:
            raise DefinitionError("a constraint is not written the way they are written.")
    except (ConstraintError, PatternError, DefinitionError) as error:
        raise ApprovalError(f"the standing consent says what none of this version says: {error}", reason="malformed") from None
    return consent
