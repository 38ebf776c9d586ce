"""Secret keys in a file: made once and whole, read by their owner alone, rotated by name.

A `KeyRing` is the keys in memory: the first is the current one, the others are older and still accepted. A `KeyFile` is where they lie: a
plain file of mode 600, owned by who reads it, written beside and moved into place, so that a process killed in the middle leaves either
none or a whole one.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from pathlib import Path
from typing import Any, Final, NoReturn, Self, final

import attrs

from retinue.security.errors import DefinitionError, KeyFileError
from retinue.security.private_files import Signature, Unfit, create_private, locked_folder, read_private, replace_private, signature_of
from retinue.security.strict_json import read_json

__all__ = ["Key", "KeyFile", "KeyRing"]

KEY_BYTES: Final = 32
MAX_KEYS: Final = 32
"""Keys in one ring."""

_FORMAT: Final = "retinue-keys/1"
_MAX_FILE: Final = 2**14
_HEX: Final = frozenset("0123456789abcdef")


def _check_kid(_: object, __: object, value: Any) -> None:
    if type(value) is not str or not 1 <= len(value) <= 32 or not _HEX.issuperset(value):
        raise DefinitionError("the name of a key is 1 to 32 lower-case hex digits: use KeyRing.generate().")


def _check_secret(_: object, __: object, value: Any) -> None:
    if type(value) is not bytes or len(value) != KEY_BYTES:
        raise DefinitionError(f"a key has {KEY_BYTES} random bytes: use KeyRing.generate().")


@final
@attrs.frozen
class Key:
    """One secret key. Its repr does not show it.

    Attributes:
        kid: Its name, which is no secret: tokens say by it which key they want.
        secret: The key, 32 bytes.
        created_ms: When it was made, in milliseconds since the epoch.
    """

    kid: str = attrs.field(validator=_check_kid)
    secret: bytes = attrs.field(validator=_check_secret, repr=False)
    created_ms: int = 0

    @classmethod
    def generate(cls) -> Self:
        """A new random key."""
        return cls(secrets.token_hex(4), secrets.token_bytes(KEY_BYTES), time.time_ns() // 1_000_000)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Key is not pickled: keep it in a KeyFile.")


@final
class KeyRing:
    """Keys in memory, the current one first. Immutable.

    Args:
        keys: One key at least, with different names, 32 at most.

    Raises:
        DefinitionError: There is no key, too many, two of one name, or something that is none.
    """

    __slots__ = ("_by_name", "keys")

    keys: tuple[Key, ...]
    _by_name: dict[str, Key]

    def __init__(self, *keys: Key) -> None:
        if any(type(key) is not Key for key in keys):
            raise DefinitionError("a key ring is made of Keys, and of nothing else. Use KeyRing.generate(), or the ring() of a KeyFile.")
        by_name = {key.kid: key for key in keys}
        if not 1 <= len(keys) <= MAX_KEYS or len(by_name) != len(keys):
            raise DefinitionError(f"a key ring has 1 to {MAX_KEYS} keys of different names, and not {len(keys)}. Use KeyRing.generate().")
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "_by_name", by_name)

    @classmethod
    def generate(cls) -> Self:
        """A ring of one new random key."""
        return cls(Key.generate())

    @property
    def current(self) -> Key:
        """The key that new things are made with."""
        return self.keys[0]

    def find(self, kid: str) -> Key | None:
        """The key of that name, or None."""
        return self._by_name.get(kid)

    def rotated(self, *, keep: int = 1) -> KeyRing:
        """A ring with a new current key, and the `keep` latest of the others."""
        if keep < 0:
            raise DefinitionError(f"KeyRing.rotated(keep={keep}): how many older keys are still accepted counts from 0.")
        new = Key.generate()
        while new.kid in self._by_name:
            new = Key.generate()
        return KeyRing(new, *self.keys[: min(keep, MAX_KEYS - 1)])

    def __len__(self) -> int:
        return len(self.keys)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a KeyRing is immutable: {name!r} cannot be set. Make another one with rotated().")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a KeyRing is immutable: {name!r} cannot be deleted.")

    def __repr__(self) -> str:
        return f"<KeyRing of {', '.join(key.kid for key in self.keys)}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a KeyRing is neither copied nor pickled: keep it in a KeyFile.")


@final
class KeyFile:
    """A file with a key ring. Nothing is read or made before a method is called. Safe to use from any thread.

    Args:
        path: The file; its folder must exist.

    Attributes:
        path: The file.
    """

    __slots__ = ("_known", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = Path(path).absolute()
        self._known: tuple[KeyRing | None, Signature] = (None, ())  # one attribute, so that both change at once in every thread

    def ring(self) -> KeyRing:
        """The ring in the file as it is now; read again only where the file has changed.

        Raises:
            KeyFileError: The file is missing, unreadable, malformed, a link, or not its owner's alone.
        """
        try:
            ring, seen = self._known
            if ring is not None and seen == signature_of(self.path):
                return ring
            raw, seen = read_private(self.path, _MAX_FILE)
        except Unfit as unfit:
            raise KeyFileError(f"the key file {self.path} {unfit}") from None
        except OSError as error:
            hint = " Make it with KeyFile(path).create()." if isinstance(error, FileNotFoundError) else ""
            raise KeyFileError(f"the key file {self.path} cannot be read: {error.strerror}.{hint}") from error
        try:
            ring = _ring_of(read_json(raw, max_bytes=_MAX_FILE, max_depth=4))
        except (ValueError, DefinitionError):
            # Not the cause: its text may show a part of the file.
            raise KeyFileError(
                f"the key file {self.path} is malformed: take it from a backup, or move it away to make a new one."
            ) from None
        self._known = ring, seen
        return ring

    def create(self) -> KeyRing:
        """Make the file with one new key.

        Raises:
            KeyFileError: It exists already, or cannot be made.
        """
        try:
            with locked_folder(self.path):
                create_private(self.path, _data_of(KeyRing.generate()))
        except FileExistsError as error:
            raise KeyFileError(
                f"the key file {self.path} exists already, and what it keeps would be lost. Use open() to read it."
            ) from error
        except OSError as error:
            raise self._unwritable(error) from error
        return self.ring()

    def open(self) -> KeyRing:
        """The ring in the file, which is made with one new key where there is none.

        Raises:
            KeyFileError: It exists and cannot be used, or cannot be made.
        """
        if not os.path.lexists(self.path):
            try:
                with locked_folder(self.path):
                    create_private(self.path, _data_of(KeyRing.generate()))
            except FileExistsError:
                pass  # somebody else was faster: then theirs it is
            except OSError as error:
                raise self._unwritable(error) from error
        return self.ring()

    def rotate(self, *, keep: int = 1) -> KeyRing:
        """Put a new current key into the file, keep the `keep` latest older ones, and forget the rest: what needs those is refused from now on.

        Raises:
            KeyFileError: The file cannot be used or written.
            DefinitionError: `keep` is negative.
        """
        try:
            with locked_folder(self.path):
                replace_private(self.path, _data_of(self.ring().rotated(keep=keep)))
        except OSError as error:
            raise self._unwritable(error) from error
        return self.ring()

    def _unwritable(self, error: OSError) -> KeyFileError:
        return KeyFileError(f"the key file {self.path} cannot be written: {error.strerror}. Its folder must exist and be writable.")

    def __repr__(self) -> str:
        return f"<KeyFile {str(self.path)!r}>"


def _ring_of(data: Any) -> KeyRing:
    if type(data) is not dict or data.keys() != {"format", "keys"} or data["format"] != _FORMAT or type(data["keys"]) is not list:
        raise ValueError("no key file")
    keys = []
    for item in data["keys"]:
        if type(item) is not dict or item.keys() != {"kid", "secret", "created_ms"} or type(item["created_ms"]) is not int:
            raise ValueError("no key")
        secret = item["secret"]
        if type(secret) is not str or not _HEX.issuperset(secret):
            raise ValueError("no key")
        keys.append(Key(item["kid"], bytes.fromhex(secret), item["created_ms"]))
    return KeyRing(*keys)


def _data_of(ring: KeyRing) -> bytes:
    keys = [{"kid": key.kid, "secret": key.secret.hex(), "created_ms": key.created_ms} for key in ring.keys]
    return json.dumps({"format": _FORMAT, "keys": keys}, indent=1).encode("ascii") + b"\n"
