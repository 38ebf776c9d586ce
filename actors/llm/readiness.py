"""The client for endpoints, loaded before it is wanted: httpx and its kin take some tenths of a second the first time, in which the loop goes on."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

import trio

__all__ = ["client_loaded"]

CLIENT: Final = "retinue.actors.llm.endpoint"


async def client_loaded() -> None:
    """Loads the client in a thread, unless it is there."""
    if CLIENT not in sys.modules:
        await trio.to_thread.run_sync(import_module, CLIENT)
