"""Which tokens are revoked, by their ids; in memory, or in a file that several processes share."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final, final

from retinue.security.errors import TokenError
from retinue.security.private_files import Signature, Unfit, create_private, locked_folder, read_private, replace_private, signature_of
from retinue.security.strict_json import read_json

__all__ = ["Revocations", "check_token_id"]

MAX_REVOKED: Final = 100_000
"""Ids that are kept."""

_FORMAT: Final = "retinue-revocations/1"
_MAX_FILE: Final = 2**23
_ID: Final = re.compile(r"[0-9a-f]{24}", re.ASCII)


def check_token_id(value: object) -> str:
    """The id of a token or of one of its blocks: 24 lower-case hex digits.

    Raises:
        TokenError: It is something else.
    """
    if type(value) is str and _ID.fullmatch(value):
        return value
    raise TokenError("a token's id is 24 lower-case hex digits, as inspect(token).ids shows them.", reason="malformed")


@final
class Revocations:
    """Ids of revoked tokens. Safe to use from any thread.

    Args:
        path: A file that keeps them, of mode 600, made where there is none; what another process revokes in it counts here at once. None
            keeps them in memory, as long as the process lives.

    Attributes:
        path: The file, or None.

    Raises:
        TokenError: The file cannot be used or made.
    """

    __slots__ = ("_known", "_lock", "path")

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path: Final = None if path is None else Path(path).absolute()
        self._lock = threading.Lock()
        self._known: tuple[frozenset[str], Signature] = (frozenset(), ())
        if self.path is not None:
            if not os.path.lexists(self.path):
                try:
                    with locked_folder(self.path):
                        create_private(self.path, _data_of(frozenset()))
                except FileExistsError:
                    pass  # somebody else was faster
                except OSError as error:
                    raise _unusable(self.path, f"cannot be made: {error.strerror}.") from error
            self.ids()

    def ids(self) -> frozenset[str]:
        """All ids that are revoked now.

        Raises:
            TokenError: The file cannot be read any more, so nothing can be said of any token ("revoked").
        """
        ids, seen = self._known
        if self.path is None:
            return ids
        try:
            if seen and seen == signature_of(self.path):
                return ids
            raw, seen = read_private(self.path, _MAX_FILE)
            ids = _ids_of(read_json(raw, max_bytes=_MAX_FILE, max_depth=3))
        except Unfit as unfit:
            raise _unusable(self.path, str(unfit)) from None
        except OSError as error:
            raise _unusable(self.path, f"cannot be read: {error.strerror}.") from error
        except ValueError:
            raise _unusable(self.path, "is malformed.") from None
        self._known = ids, seen
        return ids

    def add(self, ids: Iterable[str]) -> None:
        """Revoke these ids, for good. They are in the file, where there is one, when this returns.

        Raises:
            TokenError: One is no id; there are too many; the file cannot be written. Nothing was revoked then.
        """
        new = frozenset(map(check_token_id, ids))
        with self._lock:
            if self.path is None:
                self._known = _joined(self._known[0], new), ()
                return
            try:
                with locked_folder(self.path):
                    replace_private(self.path, _data_of(_joined(self.ids(), new)))
            except OSError as error:
                raise _unusable(self.path, f"cannot be written: {error.strerror}.") from error
            self.ids()

    def __repr__(self) -> str:
        return f"<Revocations: {len(self._known[0])} ids{'' if self.path is None else f' in {str(self.path)!r}'}>"


def _joined(ids: frozenset[str], new: frozenset[str]) -> frozenset[str]:
    together = ids | new
    if len(together) > MAX_REVOKED:
        raise TokenError(
            f"{MAX_REVOKED:,} tokens are revoked already. Rotate the key twice, which ends all tokens that it sealed, and begin a new file.",
            reason="too_large",
        )
    return together


def _data_of(ids: frozenset[str]) -> bytes:
    return json.dumps({"format": _FORMAT, "revoked": sorted(ids)}, indent=0).encode("ascii") + b"\n"


def _ids_of(data: object) -> frozenset[str]:
    if type(data) is not dict or data.keys() != {"format", "revoked"} or data["format"] != _FORMAT or type(data["revoked"]) is not list:
        raise ValueError("no file of revocations")
    found = data["revoked"]
    if not all(type(item) is str and _ID.fullmatch(item) for item in found):
        raise ValueError("no id")
    return frozenset(found)


def _unusable(path: Path, text: str) -> TokenError:
    return TokenError(f"the file of revocations {path} {text} As long as that is so, no token is accepted.", reason="revoked")
