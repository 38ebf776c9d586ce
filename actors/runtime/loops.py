"""Which event loop runs in this thread."""

from __future__ import annotations

import sys

import sniffio

__all__ = ["loop_here"]


def loop_here() -> str | None:
    """The library whose loop runs in this thread, and would stand still while the caller blocks: "trio", "asyncio", or None where there is none."""
    try:
        return sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        pass
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:  # a plain callback of asyncio's loop is in no task
        asyncio.get_running_loop()
    except RuntimeError:
        return None
    return "asyncio"
