"""Sealed tokens: a security context as text, for the borders between our own processes.

Whoever has the key seals and opens (`Sealer`); whoever holds a token can attenuate it without any key (`attenuate`), in any process, and
nobody can widen one. Opened, a token is exactly what narrowing the sealed context by the same restrictions would have given.

A token is a bearer's: who has it, has its authority, as long as it lasts. Keep it out of logs, and its life short.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NoReturn, final

import attrs

from retinue.security.audit import AuditLog
from retinue.security.authority import Authority
from retinue.security.context import SecurityContext
from retinue.security.errors import AuditUnavailable, AuthorityError, DefinitionError, Denied, Revoked, TokenError
from retinue.security.keys import Key, KeyFile, KeyRing
from retinue.security.limits import Limits
from retinue.security.restrictions import MAX_SECONDS, Permission, Restriction, allow, joined, restriction_of
from retinue.security.revocations import Revocations, check_token_id
from retinue.security.seal_content import Content, check_audience, content_of, first_data, further_data
from retinue.security.seal_frame import account_key, add_block, block_text, first_token, macs_of, parse_frame, seal_key

__all__ = ["Sealer", "TokenInfo", "attenuate", "inspect"]

DEFAULT_SECONDS: Final = 3600.0
"""How long a token lasts where nobody says."""

SKEW_MS: Final = 5000
"""How far ahead the clock of who sealed may be."""

MAX_SEALED: Final = 65_536
"""Tokens of one sealer that have not expired."""

KEPT: Final = 1024
"""Opened tokens that a sealer remembers."""

KEPT_OF_ROOT: Final = 256
KEPT_CHARACTERS: Final = 2**20
"""The same of tokens that were attenuated from one, and the characters of these: one holder who makes many puts out its own, and nobody else's."""


@attrs.frozen
class TokenInfo:
    """What a token says of itself. Nothing of it is verified: anybody can write such a text.

    Attributes:
        kid: The name of the key that it says it was sealed with.
        ids: The id of each block, the root's first; revoking one ends the token, and all that were attenuated from that block on.
        subject: Whom it speaks for.
        tenant: The tenant, or None.
        project: The project, or None.
        session: The session, or None.
        audiences: For whom it is; empty: whoever has the key.
        issued_ms: When it was sealed, in milliseconds since the epoch.
        expires_ms: When it ends, in milliseconds since the epoch; `NEVER` (2**63 - 1) if it does not.
        restrictions: What each block permits, as it would be typed.
    """

    kid: str
    ids: tuple[str, ...]
    subject: str
    tenant: str | None
    project: str | None
    session: str | None
    audiences: frozenset[str]
    issued_ms: int
    expires_ms: int
    restrictions: tuple[str, ...]


def inspect(token: str) -> TokenInfo:
    """What a token says, without a key and therefore without any verification: to look at, not to decide by.

    Raises:
        TokenError: It cannot be read: "malformed", "too_large" or "content".
    """
    frame = parse_frame(token)
    content = content_of(frame)
    return TokenInfo(
        kid=frame.kid,
        ids=content.ids,
        subject=content.principal.subject,
        tenant=content.principal.tenant,
        project=content.principal.project,
        session=content.principal.session,
        audiences=content.audiences,
        issued_ms=content.issued_ms,
        expires_ms=content.limits.deadline_ms,
        restrictions=tuple(map(repr, content.restrictions)),
    )


def attenuate(token: str, *restrictions: Restriction | str | Iterable[Permission], audience: str | None = None) -> str:
    """A token that permits what this one does and what each restriction does, and nothing else. It takes no key, and does not verify.

    Args:
        token: A sealed token.
        restrictions: As for `SecurityContext.narrow`. `expires(seconds=)` counts from now, by this process's clock.
        audience: Who alone may open it; where an earlier block names another, nobody can.

    Raises:
        TokenError: The token is malformed, or it would be too large.
        DefinitionError: A restriction or the audience is none.
        PatternError: A pattern is malformed.
    """
    if sum(type(restriction) is str for restriction in restrictions) > 1:
        raise DefinitionError(
            "attenuate() was given several bare patterns, which could mean any of them or all of them. Pass them as one list."
        )
    now_ms = time.time_ns() // 1_000_000
    each = [
        restriction.resolved(now_ms)
        if type(restriction) is Restriction
        else allow(restriction)
        if isinstance(restriction, str)
        else restriction_of(restriction, now_ms)
        for restriction in restrictions
    ]
    return add_block(token, block_text(further_data(joined(each), check_audience(audience))))


@attrs.frozen(eq=False)
class _Opened:
    """A token that was opened before."""

    content: Content
    ids: frozenset[str]  # what may be revoked: the content's, and of the tokens before it
    deadline_ms: int
    context: SecurityContext
    root: str
    size: int


@attrs.define(eq=False)
class _Root:
    """What is remembered of the tokens of one root, the least used first."""

    macs: OrderedDict[bytes, None] = attrs.field(factory=OrderedDict)
    size: int = 0


@final
class Sealer:
    """Seals contexts of one authority, and opens tokens. Safe to use from any thread.

    Args:
        authority: The authority.
        keys: The keys: a ring, a key file (looked at each time, so rotating it counts at once), or the path of one, made where there is none.
        audience: Who this is, where tokens are for one of several: those for others are refused.
        revocations: Which tokens are revoked: an object, or the path of a file. None keeps them in memory.
        audit: Where refused and revoked tokens are recorded; None records nothing. (Opened ones: see `Authority.on_event`.)

    Raises:
        DefinitionError: `keys` or `audience` is none.
        KeyFileError: The key file cannot be used.
        TokenError: The file of revocations cannot be used.
    """

    __slots__ = (
        "_audience",
        "_audit",
        "_authority",
        "_derived",
        "_ids",
        "_keys",
        "_live",
        "_lock",
        "_opened",
        "_roots",
        "_sealed",
        "revocations",
    )

    def __init__(
        self,
        authority: Authority,
        keys: KeyRing | KeyFile | str | os.PathLike[str],
        *,
        audience: str | None = None,
        revocations: Revocations | str | os.PathLike[str] | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        if isinstance(keys, str | os.PathLike):
            keys = KeyFile(keys)
            keys.open()
        elif type(keys) is not KeyRing and type(keys) is not KeyFile:
            raise DefinitionError(
                f"Sealer(keys=…) is a KeyRing, a KeyFile or the path of one, not an object of type {type(keys).__name__}."
            )
        self._authority: Final = authority
        self._keys: Final[KeyRing | KeyFile] = keys
        self._audience: Final = check_audience(audience)
        self._audit: Final = audit
        self.revocations: Final = revocations if isinstance(revocations, Revocations) else Revocations(revocations)
        self._derived: tuple[Key | None, bytes] = (None, b"")  # one attribute, so that both change at once in every thread
        self._lock = threading.Lock()
        self._opened: OrderedDict[bytes, _Opened] = OrderedDict()
        self._roots: dict[str, _Root] = {}
        self._sealed: dict[str, tuple[SecurityContext, int]] = {}
        # A token that was forgotten while its context is still in use is given the same context again.
        self._live: weakref.WeakValueDictionary[bytes, SecurityContext] = weakref.WeakValueDictionary()
        self._ids: weakref.WeakKeyDictionary[SecurityContext, frozenset[str]] = weakref.WeakKeyDictionary()

    def seal(self, context: SecurityContext, *, expires_seconds: float | None = DEFAULT_SECONDS, audience: str | None = None) -> str:
        """A token of the context: whoever holds it has the context's authority.

        Args:
            context: A context of this authority.
            expires_seconds: How long it lasts, at most as long as the context. Default: 3,600. None: as long as the context.
            audience: Who alone may open it. None: whoever has the key.

        Raises:
            Denied: Called inside a handler; or the context is forged, revoked or expired.
            TokenError: The context has more permissions than a token holds ("too_large").
            DefinitionError: A time or an audience is none.
            KeyFileError: The key file cannot be used.
        """
        self._guard()
        audience = check_audience(audience)
        self._authority.check(context)
        now_ms = self._authority.now_ms()
        limits = context.permissions.limits
        if expires_seconds is not None:
            if (type(expires_seconds) is not int and type(expires_seconds) is not float) or not 0 < expires_seconds <= MAX_SECONDS:
                raise DefinitionError(f"seal(expires_seconds=…) is a number above 0 and up to {MAX_SECONDS:,}, or None.")
            limits = limits.meet(Limits(deadline_ms=now_ms + int(expires_seconds * 1000)))
        if limits.deadline_ms <= now_ms:
            raise TokenError("the context has expired, and a token of it would permit nothing.", reason="expired")
        data = first_data(context, limits, now_ms, audience, self._came_from(context))
        key = self._ring().current
        token = first_token(key.kid, self._seal_key(key), block_text(data))
        self._keep(data["id"], context, limits.deadline_ms, now_ms)
        return token

    def unseal(
        self,
        token: str,
        *,
        audience: str | None = None,
        record: bool = True,
        admit: Callable[[str, SecurityContext | None], None] | None = None,
    ) -> SecurityContext:
        """The context that a token stands for: within the root's permissions, and the same object as long as it is in use.

        What a token may spend is counted once for all times that it is opened by this authority.

        Args:
            token: The token, which may come from anywhere.
            audience: Who opens it. None: the sealer's own.
            record: Whether a refusal is recorded here; False for a caller that records refusals itself, many of them at once.
            admit: Called when the token is known to be genuine, and before anything that it says is read: with a name that all tokens have that were
                attenuated from the same one, and the token's context where it was opened before and is remembered (it may be revoked or
                expired). What it raises is raised.

        Raises:
            TokenError: It is refused; `reason` says why.
            Denied: Called inside a handler.
            AuditUnavailable: It could not be recorded.
            KeyFileError: The key file cannot be used.
        """
        self._guard()
        try:
            return self._unseal(token, self._audience if audience is None else check_audience(audience), admit)
        except TokenError as error:
            if self._audit is not None and record:
                self._audit.record("decision", allowed=False, reason="token", detail=f"A sealed token was refused ({error.reason}).")
            raise

    def revoke_token(self, token: str, *, only_this: bool = False) -> None:
        """Refuse a token and all that was attenuated from its root, from now on; contexts that this sealer opened from them are revoked.

        A context that another process has opened already lasts until its deadline there.

        Args:
            token: The token, or the id of one of its blocks (`inspect(token).ids`): then what has this block.
            only_this: Revoke only what was attenuated from this very token, itself included.

        Raises:
            TokenError: It is no genuine token and no id; or it could not be stored.
            Denied: Called inside a handler.
            AuditUnavailable: It is revoked, and a record of that could not be written. Revoking it once more tries again.
        """
        self._guard()
        if type(token) is str and "." not in token:
            revoked = check_token_id(token)
        else:
            frame = parse_frame(token)
            macs_of(self._key_of(frame.kid), frame)
            revoked = content_of(frame).ids[-1 if only_this else 0]
        self.revocations.add([revoked])
        with self._lock:
            for mac in [mac for mac, opened in self._opened.items() if revoked in opened.ids]:
                self._forget(mac)
            ended = [context for context, ids in self._ids.items() if revoked in ids]
        failure: AuthorityError | None = None
        try:
            if self._audit is not None:
                self._audit.record("revoke", allowed=True, detail=f"The token {revoked} was revoked.")
        except AuditUnavailable as error:
            failure = error
        for context in ended:
            try:
                self._authority.revoke(context)
            except AuthorityError as error:  # it is revoked all the same
                failure = error
        if failure is not None:
            raise failure

    def _unseal(
        self, token: str, audience: str | None, admit: Callable[[str, SecurityContext | None], None] | None = None
    ) -> SecurityContext:
        frame = parse_frame(token)
        macs = macs_of(self._key_of(frame.kid), frame)
        mac = macs[-1]
        with self._lock:
            opened = self._opened.get(mac)
            if opened is not None:
                self._opened.move_to_end(mac)
                self._roots[opened.root].macs.move_to_end(mac)
        if opened is None:
            root = account_key(macs[0])
            if admit is not None:
                admit(root, None)
            content = content_of(frame)
            ids = frozenset((*content.ids, *content.via))
            self._check(content, ids, content.limits.deadline_ms, audience)
            opened = self._open(content, ids, macs, root, len(token))
        else:
            if admit is not None:
                admit(opened.root, opened.context)
            self._check(opened.content, opened.ids, opened.deadline_ms, audience)
        try:
            self._authority.check(opened.context)
        except Denied as error:
            raise TokenError("the context of this token was revoked.", reason="revoked") from error
        return opened.context

    def _check(self, content: Content, ids: frozenset[str], deadline_ms: int, audience: str | None) -> None:
        """What may change from one time to the next, and is therefore asked each time."""
        if not self.revocations.ids().isdisjoint(ids):
            raise TokenError("the token was revoked.", reason="revoked")
        now_ms = self._authority.now_ms()
        if content.issued_ms > now_ms + SKEW_MS:
            raise TokenError(
                "the token was sealed in the future: the clock here or there is wrong by more than 5 s.", reason="not_yet_valid"
            )
        if deadline_ms <= now_ms:
            raise TokenError("the token has expired. Ask for a new one.", reason="expired")
        if content.audiences and content.audiences != {audience}:
            raise TokenError("the token is for somebody else. Open it with its audience=, or ask for one without.", reason="audience")

    def _open(self, content: Content, ids: frozenset[str], macs: list[bytes], root: str, size: int) -> _Opened:
        context = self._live.get(macs[-1])
        if context is None:
            names = list(map(account_key, macs))
            if content.accounts is not None:
                names[0] = content.accounts
            with self._lock:
                origin = self._sealed.get(content.ids[0], (None,))[0]
            blocks = [(name, [restriction]) for name, restriction in zip(names, content.restrictions, strict=True)]
            try:
                context = self._authority.adopt(content.principal, blocks, origin=origin, root=root)
            except Revoked as error:
                raise TokenError("the context of this token was revoked.", reason="revoked") from error
        opened = _Opened(content, ids, content.limits.deadline_ms, context, root, size)
        mac = macs[-1]
        with self._lock:
            # Of two who open it at the same time, both get the context of the first.
            opened = self._opened.setdefault(mac, opened)
            self._live.setdefault(mac, opened.context)
            self._ids.setdefault(opened.context, ids)
            kept = self._roots.setdefault(root, _Root())
            if mac not in kept.macs:
                kept.macs[mac] = None
                kept.size += size
            while len(kept.macs) > 1 and (len(kept.macs) > KEPT_OF_ROOT or kept.size > KEPT_CHARACTERS):
                self._forget(next(iter(kept.macs)))
            while len(self._opened) > KEPT:
                self._forget(next(iter(self._opened)))
        return opened

    def _forget(self, mac: bytes) -> None:
        """Forgets an opened token; the lock is held."""
        opened = self._opened.pop(mac)
        kept = self._roots[opened.root]
        del kept.macs[mac]
        kept.size -= opened.size
        if not kept.macs:
            del self._roots[opened.root]

    def _came_from(self, context: SecurityContext) -> tuple[str, ...]:
        """The ids of the tokens that a context came out of, in this sealer, itself or what it descends from or was met with."""
        found: set[str] = set()
        seen: set[SecurityContext] = set()
        waiting = [context]
        with self._lock:
            while waiting and self._ids:
                one = waiting.pop()
                if one not in seen:
                    seen.add(one)
                    found |= self._ids.get(one, frozenset())
                    waiting += one._others if one.parent is None else (one.parent, *one._others)
        return tuple(sorted(found))

    def _keep(self, token_id: str, context: SecurityContext, deadline_ms: int, now_ms: int) -> None:
        # Held until the token ends: were it forgotten, its revocation would be too, and what was spent.
        with self._lock:
            if len(self._sealed) >= MAX_SEALED:
                for old in [name for name, (_, deadline) in self._sealed.items() if deadline <= now_ms]:
                    del self._sealed[old]
            if len(self._sealed) >= MAX_SEALED:
                raise TokenError(
                    f"{MAX_SEALED:,} tokens of this sealer have not expired. Give them shorter lives (expires_seconds=), or attenuate one "
                    "token for several holders.",
                    reason="too_large",
                )
            self._sealed[token_id] = context, deadline_ms

    def _ring(self) -> KeyRing:
        return self._keys if isinstance(self._keys, KeyRing) else self._keys.ring()

    def _key_of(self, kid: str) -> bytes:
        key = self._ring().find(kid)
        if key is None:
            raise TokenError("the token was sealed with a key that is not, or no longer, here. Ask for a new one.", reason="unknown_key")
        return self._seal_key(key)

    def _seal_key(self, key: Key) -> bytes:
        known, derived = self._derived
        if known is not key:
            derived = seal_key(key.secret)
            self._derived = key, derived
        return derived

    def _guard(self) -> None:
        guard = self._authority.guard
        if guard is not None:
            guard()

    def __repr__(self) -> str:
        return f"<Sealer with {self._keys!r}, {len(self._opened)} tokens open>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Sealer is neither copied nor pickled: its keys stay where they are.")
