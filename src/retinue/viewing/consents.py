"""What has become of the requests for a person's consent that runs waited for: a look into the folder's file of approvals, which changes nothing in it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from retinue.viewing.errors import TraceFileError
from retinue.viewing.reading import opened_to_read

__all__ = ["states_of"]

_STATE: Final = "SELECT status, expires_ms, edited_to FROM requests WHERE id = ?"


def states_of(folder: Path, requests: Iterable[str]) -> dict[str, str]:
    """The states by the requests' ids: "pending", "approved", "rejected", "expired", "edited" or "cancelled". Those that the file does not have are left out, and so are all
    where there is no file, or none that can be read: then the trace says what it knows.

    Args:
        folder: The system's folder.
        requests: Ids.
    """
    from retinue.actors.approvals.tables import FILE

    wanted = list(requests)
    if not wanted or not (folder / FILE).is_file():
        return {}
    now_ms = time.time_ns() // 10**6
    found: dict[str, str] = {}
    try:
        with closing(opened_to_read(folder / FILE)) as connection:
            for request in wanted:
                for status, expires_ms, edited_to in connection.execute(_STATE, (request,)):
                    late = status == "pending" and expires_ms <= now_ms
                    found[request] = "expired" if late else "edited" if edited_to is not None else str(status)
    except (TraceFileError, sqlite3.Error):
        return {}
    return found
