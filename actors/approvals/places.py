"""The folder of data as a place for approvals: what others can write or read there is told, and taken from them where that is possible."""

from __future__ import annotations

import logging
from pathlib import Path

from retinue.actors.approvals.tables import FILE
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.files import SIDES
from retinue.security.private_files import Unfit, check_place, make_private

__all__ = ["secure"]

_log = logging.getLogger("retinue.approvals")


def secure(folder: Path) -> None:
    """Looks at the folder, before anything in it is opened; the database's files are made this user's alone, and that is logged.

    Raises:
        StoreUnavailable: Everybody can write in the folder, or others can write a file of another user's: nothing in it can be believed.
    """
    path = folder
    try:
        check_place(folder)
        for suffix in ("", *SIDES):
            path = folder / f"{FILE}{suffix}"
            if make_private(path):
                _log.warning(
                    "%s could be used by others than its owner; it is only its owner's now. Look whether everything in it is yours.", path
                )
    except FileNotFoundError:
        return  # whoever opens it says so
    except Unfit as unfit:
        raise StoreUnavailable(f"{path} {unfit}", reason="failed") from None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be looked at: {error.strerror}.", reason="failed") from error
