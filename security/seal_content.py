"""What the blocks of a sealed token say. It is read only after the MACs have fitted, and even then strictly: whoever holds a token may add blocks."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Final

import attrs

from retinue.security.context import Principal, SecurityContext
from retinue.security.errors import ConstraintError, DefinitionError, PatternError, TokenError
from retinue.security.limits import NO_LIMITS, UNLIMITED, Limits
from retinue.security.permission_data import permission_data, restrictions_from_data
from retinue.security.restrictions import Restriction, joined
from retinue.security.revocations import check_token_id
from retinue.security.seal_frame import Frame, block_data

__all__ = ["Content", "content_of", "first_data", "further_data"]

MAX_AUDIENCE: Final = 255
MAX_NAME: Final = 255
MAX_ACCOUNTS: Final = 1024  # characters
MAX_VIA: Final = 256
_VERSION: Final = 1
_FIRST_KEYS: Final = frozenset({"v", "id", "iat", "sub", "ten", "pro", "ses", "aud", "pol", "perm", "acc", "via"})
_FURTHER_KEYS: Final = frozenset({"id", "aud", "perm"})


@attrs.frozen
class Content:
    """What a token says, all blocks together.

    Attributes:
        ids: The id of each block, the root's first.
        via: The ids of the tokens that the sealed context came out of itself: where one of those is revoked, this one is too.
        principal: Whom it speaks for, and the sealed context's policy version.
        issued_ms: When it was sealed, in milliseconds since the epoch.
        audiences: For whom it is: each of them must be the one who opens it.
        restrictions: What each block permits, the sealed context's own first.
        accounts: The ids of the accounts that the sealed context was charged to, as one name; None where nothing limited what it spends.
    """

    ids: tuple[str, ...]
    via: tuple[str, ...]
    principal: Principal
    issued_ms: int
    audiences: frozenset[str]
    restrictions: tuple[Restriction, ...]
    accounts: str | None

    @property
    def limits(self) -> Limits:
        """The limits of all blocks together."""
        limits = NO_LIMITS
        for restriction in self.restrictions:
            limits = limits.meet(restriction.limits)
        return limits


def check_audience(audience: object) -> str | None:
    """An audience, checked: None, or 1 to 255 characters. Raises DefinitionError."""
    if audience is None or (type(audience) is str and 1 <= len(audience) <= MAX_AUDIENCE and _is_text(audience)):
        return audience
    raise DefinitionError(f"an audience is a str of 1 to {MAX_AUDIENCE} characters, or None for whoever has the key.")


def first_data(context: SecurityContext, limits: Limits, issued_ms: int, audience: str | None, via: tuple[str, ...] = ()) -> dict[str, Any]:
    """The data of a token's first block: the context, with limits that are no wider than its own."""
    permissions = context.permissions
    if len(via) > MAX_VIA:
        raise TokenError(
            f"the context came out of tokens that came out of tokens, {len(via)} of them. Seal one nearer to its root.", reason="too_large"
        )
    return {
        "v": _VERSION,
        "id": secrets.token_hex(12),
        "iat": issued_ms,
        "sub": context.subject,
        "ten": context.tenant,
        "pro": context.project,
        "ses": context.session,
        "aud": audience,
        "pol": context.policy_version,
        "perm": permission_data(permissions.layers, limits, permissions.labels),
        "acc": _accounts_name(context),
        "via": list(via),
    }


def _accounts_name(context: SecurityContext) -> str | None:
    """The same for all contexts that are charged to the same accounts, so that where those are gone, their tokens share one account still."""
    if not context.accounts:
        return None
    name = "+".join(sorted(account.id for account in context.accounts))
    return name if len(name) <= MAX_ACCOUNTS else hashlib.sha256(name.encode("ascii")).hexdigest()


def further_data(restriction: Restriction, audience: str | None) -> dict[str, Any]:
    """The data of a block that attenuates; `expires(seconds=)` must be resolved."""
    return {
        "id": secrets.token_hex(12),
        "aud": audience,
        "perm": permission_data(restriction.layers, restriction.limits, restriction.labels),
    }


def content_of(frame: Frame) -> Content:
    """What the blocks say.

    Raises:
        TokenError: One says something that no block says ("content").
    """
    try:
        first, *others = [_fields(block_data(block), _FURTHER_KEYS if number else _FIRST_KEYS) for number, block in enumerate(frame.blocks)]
        if type(first["v"]) is not int or first["v"] != _VERSION:
            raise _odd("its version is not 1")
        blocks = [first, *others]
        return Content(
            ids=tuple(check_token_id(block["id"]) for block in blocks),
            via=_ids(first["via"]),
            principal=Principal(
                _name(first["sub"]), _optional(first["ten"]), _optional(first["pro"]), _optional(first["ses"]), _name(first["pol"])
            ),
            issued_ms=_count(first["iat"]),
            audiences=frozenset(audience for block in blocks if (audience := check_audience(block["aud"])) is not None),
            restrictions=tuple(joined(restrictions_from_data(block["perm"])) for block in blocks),
            accounts=None if first["acc"] is None else _name(first["acc"], MAX_ACCOUNTS),
        )
    except TokenError as error:
        raise error if error.reason == "content" else _odd("an id is none") from None
    except (ConstraintError, PatternError, DefinitionError) as error:
        raise _odd(str(error)) from None


def _ids(value: object) -> tuple[str, ...]:
    if type(value) is not list or len(value) > MAX_VIA:
        raise _odd("its ids are no list")
    return tuple(map(check_token_id, value))


def _odd(text: str) -> TokenError:
    return TokenError(f"a block of the token says what no block of this version says: {text}", reason="content")


def _fields(data: object, keys: frozenset[str]) -> dict[str, Any]:
    if type(data) is not dict or data.keys() != keys:
        raise _odd("a key is missing or unknown")
    return data


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _name(value: object, most: int = MAX_NAME) -> str:
    if type(value) is not str or not 1 <= len(value) <= most:
        raise _odd("a name is none")
    return value


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= UNLIMITED:
        raise _odd("a number is none")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else _name(value)
