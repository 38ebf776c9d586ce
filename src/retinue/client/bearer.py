"""The token that a client shows: given as text, or in a file that is its owner's alone."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NoReturn, final

from retinue.security.errors import DefinitionError, KeyFileError, TokenError
from retinue.security.private_files import Signature, Unfit, read_private, signature_of

__all__ = ["Bearer", "TokenFile", "check_token"]

_MAX_TOKEN: Final = 65_536
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,65536}")


def check_token(token: object) -> str:
    """A text that can stand in a header as a token; whether it is a true one only the system knows.

    Raises:
        TokenError: It is empty, too long, or has characters that no token has. The text does not quote it.
        DefinitionError: It is no str.
    """
    if not isinstance(token, str):
        raise DefinitionError(f"a token is a str, or a rt.TokenFile, not an object of type {type(token).__name__}")
    if not token.strip():
        raise TokenError("the token is empty: make one with `retinue token mint`, or sealer.seal(context)", reason="malformed")
    plain = token.strip()
    if len(plain) > _MAX_TOKEN:
        raise TokenError(f"the token has more than {_MAX_TOKEN:,} characters, so it is something else", reason="too_large")
    if not _TOKEN.fullmatch(plain):
        raise TokenError("the token has characters that no token has: look at how it was copied", reason="malformed")
    return plain


@final
class TokenFile:
    """A sealed token in a file of mode 600, as `retinue token mint --out FILE` writes it. Looked at each time it is used: a new token in it counts at once.

    Args:
        path: The file.
    """

    __slots__ = ("_known", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = Path(path).absolute()
        self._known: tuple[str | None, Signature] = (None, ())

    def read(self) -> str:
        """The token.

        Raises:
            KeyFileError: The file is missing, a link, unreadable, or can be used by others than its owner.
            TokenError: What is in it is no token.
        """
        try:
            token, seen = self._known
            if token is not None and seen == signature_of(self.path):
                return token
            raw, seen = read_private(self.path, _MAX_TOKEN + 2)
        except Unfit as unfit:
            raise KeyFileError(f"the token file {self.path} {unfit}") from None
        except OSError as error:
            raise KeyFileError(
                f"the token file {self.path} cannot be read: {error.strerror}. Make it with `retinue token mint --out FILE`"
            ) from None
        try:
            token = check_token(raw.decode("ascii"))
        except UnicodeDecodeError:
            raise TokenError(f"what is in {self.path} is no token", reason="malformed") from None
        self._known = token, seen
        return token

    def __repr__(self) -> str:
        return f"<TokenFile {str(self.path)!r}>"


@final
class Bearer:
    """A token on its way into the header of a request. Neither `repr` nor `str` shows it, and it is not pickled.

    Args:
        token: The token, a `TokenFile`, or the path of one as a `pathlib.Path`. Errors: as for `check_token`.
    """

    __slots__ = ("_source",)

    def __init__(self, token: str | TokenFile | os.PathLike[str]) -> None:
        if isinstance(token, os.PathLike):
            token = TokenFile(token)
        self._source: Final[str | TokenFile] = token if isinstance(token, TokenFile) else check_token(token)

    def reveal(self) -> str:
        """The token itself."""
        return self._source if isinstance(self._source, str) else self._source.read()

    def __repr__(self) -> str:
        return "<Bearer [token]>" if isinstance(self._source, str) else f"<Bearer of {self._source!r}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a token is neither copied nor pickled: give it as text where it is needed.")
