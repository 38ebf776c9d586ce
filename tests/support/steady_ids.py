"""Names of parameters that are the same in every process: tests that are shared out among several are told by their names."""

from __future__ import annotations

import datetime as dt
import re
import uuid

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


def steady(value: object) -> str:
    """Show a value as `repr` does, without its address and the order of sets; of what differs from run to run, its type."""
    if isinstance(value, uuid.UUID | dt.datetime):
        return type(value).__name__
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(steady, value))) + "}"
    return _ADDRESS.sub("", repr(value))
