"""The keys of one desk: public ones for whoever redeems, read again when their file changes; the private one only to approve."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn, final

from retinue.security.approval_keys import PUBLIC_NAME, SigningKey, VerifyingKeys, load_verifying, open_signing
from retinue.security.errors import ApprovalError, KeyFileError
from retinue.security.private_files import Signature, signature_of

__all__ = ["DeskKeys"]


@final
class DeskKeys:
    """The keys of the folder, or a pair in memory where there is none.

    Args:
        folder: The folder of data.
    """

    __slots__ = ("_ephemeral", "_folder", "_known", "_seen")

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._ephemeral: SigningKey | None = None
        self._known: VerifyingKeys | None = None
        self._seen: Signature | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("the keys of a desk are neither copied nor pickled")

    def signing(self) -> SigningKey:
        """The private key, read from its file now; made where there is none. For the approving side.

        Raises:
            KeyFileError: The file cannot be used.
        """
        if self._folder is not None:
            return open_signing(self._folder)
        if self._ephemeral is None:
            self._ephemeral = SigningKey.ephemeral()
        return self._ephemeral

    def verifying(self) -> VerifyingKeys:
        """The public keys that are trusted now. Another process may add one, or take one away, at any time: the file is looked at (one `lstat`), and read where it
        has changed.

        Raises:
            ApprovalError: There are none, or they cannot be used (reason "unknown_key" or "key").
        """
        if self._folder is None:
            if self._ephemeral is None:
                raise ApprovalError(
                    "this system has approved nothing yet, and keeps its keys in memory (no data_dir).", reason="unknown_key"
                )
            return self._ephemeral.verifying
        try:
            seen = signature_of(self._folder / PUBLIC_NAME)
        except OSError:
            self._known = self._seen = None
            raise ApprovalError(f"nothing was approved in {self._folder} yet: it has no {PUBLIC_NAME}.", reason="unknown_key") from None
        if self._known is None or seen != self._seen:
            self._known = None
            try:
                self._known = load_verifying(self._folder)
            except KeyFileError as error:
                raise ApprovalError(f"no approval can be checked: {error}", reason="key") from error
            self._seen = seen
        return self._known
