"""The keys of approvals: a private one, which signs and which the approving side alone has, and public ones, which whoever redeems has.

In a folder of data they are two files: `approvals.key`, of mode 600, with the private key; and `approvals.pub`, text that anybody may read, with the
public key of each private one there was, the current one first. So a rotation leaves what was signed before it good for as long as its key stands there. The
names of those that it took out stay there as revoked: an old private key that is copied back signs nothing.
The name of a key is made of the public key, so nothing can claim another's.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, final

from retinue.security.errors import DefinitionError, KeyFileError
from retinue.security.private_files import Unfit, create_private, locked_folder, read_private, read_public, replace_private, replace_public
from retinue.security.strict_json import read_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["SigningKey", "VerifyingKey", "VerifyingKeys", "load_signing", "load_verifying", "open_signing", "rotate"]

PRIVATE_NAME: Final = "approvals.key"
"""The name of the file with the private key, in a folder of data."""

PUBLIC_NAME: Final = "approvals.pub"
"""The name of the file with the public keys, beside it."""

MAX_REVOKED: Final = 256
"""Names of keys that are not trusted any more, in one file; the earliest are forgotten beyond that."""

MAX_KEYS: Final = 32
"""Public keys in one file."""

_KEY_BYTES: Final = 32
_FORMAT: Final = "retinue-approval-key/1"
_MAX_FILE: Final = 2**14
_HEX: Final = frozenset("0123456789abcdef")
_REVOKED: Final = "revoked "
_HEADER: Final = "# Public keys of approvals, the current one first: name, key, when it was made. Whoever can write here can approve.\n"


def _name_of(public: bytes) -> str:
    return hashlib.sha256(b"retinue/approval-key/1\0" + public).hexdigest()[:16]


class _Immutable:
    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable: {name!r} cannot be set.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable: {name!r} cannot be deleted.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is neither copied nor pickled: keep it in its file.")


@final
class VerifyingKey(_Immutable):
    """One public key.

    Args:
        public: The key, 32 bytes.
        created_ms: When it was made, in milliseconds since the epoch.

    Attributes:
        kid: Its name: 16 hex digits, made of the key.

    Raises:
        DefinitionError: It is no such key.
    """

    __slots__ = ("_key", "created_ms", "kid", "public")

    kid: str
    public: bytes
    created_ms: int
    _key: Ed25519PublicKey

    def __init__(self, public: bytes, created_ms: int = 0) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if type(public) is not bytes or len(public) != _KEY_BYTES or type(created_ms) is not int or created_ms < 0:
            raise DefinitionError(f"a public key of approvals has {_KEY_BYTES} bytes, and the time when it was made.")
        for name, value in {
            "public": public,
            "created_ms": created_ms,
            "kid": _name_of(public),
            "_key": Ed25519PublicKey.from_public_bytes(public),
        }.items():
            object.__setattr__(self, name, value)

    def fits(self, signature: bytes, data: bytes) -> bool:
        """Whether the key's owner has signed the data."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return type(other) is VerifyingKey and self.public == other.public

    def __hash__(self) -> int:
        return hash(self.public)

    def __repr__(self) -> str:
        return f"<VerifyingKey {self.kid}>"


@final
class VerifyingKeys(_Immutable):
    """The public keys that are trusted, the current one first.

    Args:
        keys: One key at least, 32 at most, each once.

    Raises:
        DefinitionError: There is none, too many, one twice, or something that is none.
    """

    __slots__ = ("_by_name", "keys")

    keys: tuple[VerifyingKey, ...]
    _by_name: dict[str, VerifyingKey]

    def __init__(self, *keys: VerifyingKey) -> None:
        if any(type(key) is not VerifyingKey for key in keys):
            raise DefinitionError(
                "the keys that are trusted are VerifyingKeys. Use load_verifying(folder), or the `verifying` of a SigningKey."
            )
        by_name = {key.kid: key for key in keys}
        if not 1 <= len(keys) <= MAX_KEYS or len(by_name) != len(keys):
            raise DefinitionError(f"1 to {MAX_KEYS} different keys are trusted, and not {len(keys)}.")
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "_by_name", by_name)

    def find(self, kid: str) -> VerifyingKey | None:
        """The key of that name, or None."""
        return self._by_name.get(kid)

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return type(other) is VerifyingKeys and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return f"<VerifyingKeys {', '.join(key.kid for key in self.keys)}>"


@final
class SigningKey(_Immutable):
    """The private key. Neither its repr nor anything else shows it.

    Args:
        seed: The key, 32 random bytes.
        created_ms: When it was made, in milliseconds since the epoch.

    Attributes:
        kid: The name of its public key.
        verifying: Its public key, as the only one that is trusted.
        created_ms: As given.

    Raises:
        DefinitionError: It is no such key.
    """

    __slots__ = ("_key", "_seed", "created_ms", "kid", "verifying")

    kid: str
    verifying: VerifyingKeys
    created_ms: int
    _key: Ed25519PrivateKey
    _seed: bytes

    def __init__(self, seed: bytes, created_ms: int = 0) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if type(seed) is not bytes or len(seed) != _KEY_BYTES:
            raise DefinitionError(
                f"a private key of approvals has {_KEY_BYTES} random bytes: use SigningKey.ephemeral(), or open_signing(folder)."
            )
        key = Ed25519PrivateKey.from_private_bytes(seed)
        public = VerifyingKey(key.public_key().public_bytes_raw(), created_ms)
        for name, value in {
            "_key": key,
            "_seed": seed,
            "created_ms": created_ms,
            "kid": public.kid,
            "verifying": VerifyingKeys(public),
        }.items():
            object.__setattr__(self, name, value)

    @classmethod
    def ephemeral(cls) -> Self:
        """A new random key that no file keeps: what it signs is good for as long as somebody remembers its public key."""
        return cls(secrets.token_bytes(_KEY_BYTES), time.time_ns() // 1_000_000)

    def sign(self, data: bytes) -> bytes:
        """The signature, 64 bytes. Only `signed_frame` calls it, with data that begin with the word for what they are."""
        return self._key.sign(data)

    def __repr__(self) -> str:
        return f"<SigningKey {self.kid}>"


def load_signing(folder: str | os.PathLike[str]) -> SigningKey:
    """The private key of a folder of data. The approving side alone calls it.

    Raises:
        KeyFileError: There is none; it is malformed, a link, or not its owner's alone.
    """
    path = Path(folder) / PRIVATE_NAME
    try:
        raw, _ = read_private(path, _MAX_FILE)
    except Unfit as unfit:
        raise KeyFileError(f"the key file {path} {unfit}") from None
    except OSError as error:
        hint = " It is made where approvals are decided, by open_signing(folder)." if isinstance(error, FileNotFoundError) else ""
        raise KeyFileError(f"the key file {path} cannot be read: {error.strerror}.{hint}") from error
    try:
        data = read_json(raw, max_bytes=_MAX_FILE, max_depth=2)
        if type(data) is not dict or data.keys() != {"format", "seed", "created_ms"} or data["format"] != _FORMAT:
            raise ValueError("no key file")
        return SigningKey(_bytes(data["seed"]), data["created_ms"])
    except (ValueError, DefinitionError):
        # Not the cause: its text may show a part of the file.
        raise KeyFileError(
            f"the key file {path} is malformed: take it from a backup, or move it away so that a new one is made; what it has signed stays good."
        ) from None


def load_verifying(folder: str | os.PathLike[str]) -> VerifyingKeys:
    """The public keys of a folder of data; the private one is not looked at and need not be there.

    Raises:
        KeyFileError: There are none; the file is malformed, a link, another user's, or others can write it.
    """
    return _load_public(folder)[0]


def _load_public(folder: str | os.PathLike[str]) -> tuple[VerifyingKeys, list[str]]:
    """The keys that are trusted, and the names of those that are not any more, the latest last."""
    path = Path(folder) / PUBLIC_NAME
    try:
        raw, _ = read_public(path, _MAX_FILE)
    except Unfit as unfit:
        raise KeyFileError(f"the file of public keys {path} {unfit}") from None
    except OSError as error:
        raise KeyFileError(f"the file of public keys {path} cannot be read: {error.strerror}.") from error
    try:
        lines = [line for line in raw.decode("ascii").splitlines() if line and not line.startswith("#")]
        revoked = [_revoked_of(line) for line in lines if line.startswith(_REVOKED)]
        keys = [_public_of(line) for line in lines if not line.startswith(_REVOKED)]
        if any(key.kid in revoked for key in keys):
            raise ValueError("a key that is trusted and is not")
        return VerifyingKeys(*keys), revoked
    except (ValueError, DefinitionError):
        raise KeyFileError(
            f"the file of public keys {path} is malformed: each line has a key's name, the key in hex, and when it was made. Take it from a backup."
        ) from None


def open_signing(folder: str | os.PathLike[str]) -> SigningKey:
    """The private key of a folder of data; both files are made where there is none yet, and the public one is completed where its key is missing.

    Whoever does so at the same time gets the same key.

    Raises:
        KeyFileError: A file exists and cannot be used, or cannot be made.
    """
    place = Path(folder)
    private = place / PRIVATE_NAME
    try:
        with locked_folder(private):
            if not os.path.lexists(private):
                _write_new(private, replace=False)
            key = load_signing(place)
            _publish(place, key, MAX_KEYS)
    except OSError as error:
        raise _unwritable(private, error) from error
    return key


def rotate(folder: str | os.PathLike[str], *, keep: int = 1) -> SigningKey:
    """Make a new private key in the place of the old one, and trust it beside the `keep` latest older ones.

    What was signed with a key that is no longer trusted is refused from then on: tokens, which live for an hour, and standing consents.

    Raises:
        KeyFileError: A file cannot be used or written.
        DefinitionError: `keep` is negative.
    """
    if keep < 0:
        raise DefinitionError(f"rotate(keep={keep}): how many older keys are still trusted counts from 0.")
    place = Path(folder)
    private = place / PRIVATE_NAME
    try:
        with locked_folder(private):
            load_verifying(place)  # before the old key is gone
            _write_new(private, replace=True)
            key = load_signing(place)
            _publish(place, key, keep + 1)
    except OSError as error:
        raise _unwritable(private, error) from error
    return key


def _write_new(path: Path, *, replace: bool) -> None:
    key = SigningKey.ephemeral()
    data = json.dumps({"format": _FORMAT, "seed": key._seed.hex(), "created_ms": key.created_ms}, indent=1).encode("ascii") + b"\n"
    (replace_private if replace else create_private)(path, data)


def _publish(place: Path, key: SigningKey, most: int) -> None:
    """Bring the key's public half to the head of the public file; called under the folder's lock."""
    public = place / PUBLIC_NAME
    known: tuple[VerifyingKey, ...] = ()
    revoked: list[str] = []
    if os.path.lexists(public):
        trusted, revoked = _load_public(place)
        known = trusted.keys
    if key.kid in revoked:
        raise KeyFileError(
            f"the key file {place / PRIVATE_NAME} has the key {key.kid}, which was taken out of trust by a rotation. Move it away, so that a new one is made."
        )
    keys = [*key.verifying.keys, *(one for one in known if one.kid != key.kid)][: min(most, MAX_KEYS)]
    if [one.kid for one in keys] != [one.kid for one in known]:
        gone = [one.kid for one in known if one not in keys]
        lines = [f"{one.kid} {one.public.hex()} {one.created_ms}\n" for one in keys]
        lines += [f"{_REVOKED}{kid}\n" for kid in (*revoked, *gone)[-MAX_REVOKED:]]
        replace_public(public, "".join([_HEADER, *lines]).encode("ascii"))


def _public_of(line: str) -> VerifyingKey:
    kid, public, created_ms = line.split(" ")
    if not created_ms.isdecimal():
        raise ValueError("no time")
    key = VerifyingKey(_bytes(public), int(created_ms))
    if key.kid != kid:
        raise ValueError("another key's name")
    return key


def _revoked_of(line: str) -> str:
    kid = line.removeprefix(_REVOKED)
    if len(kid) != 16 or not _HEX.issuperset(kid):
        raise ValueError("no name of a key")
    return kid


def _bytes(text: Any) -> bytes:
    if type(text) is not str or not _HEX.issuperset(text):
        raise ValueError("no hex")
    return bytes.fromhex(text)


def _unwritable(path: Path, error: OSError) -> KeyFileError:
    return KeyFileError(f"the key file {path} cannot be written: {error.strerror}. Its folder must exist and be writable.")
