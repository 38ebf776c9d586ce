"""Running a test under asyncio: pytest-trio runs the async ones on trio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from quiet_threads import PATIENCE


def under_asyncio(function: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test under asyncio."""

    @wraps(function)
    def run(*arguments: Any, **keywords: Any) -> None:
        async def main() -> None:
            await asyncio.wait_for(function(*arguments, **keywords), PATIENCE * 3)

        asyncio.run(main())

    return run


async def wait_set(event: threading.Event) -> None:
    """Wait under asyncio until another thread sets the event."""
    assert await asyncio.to_thread(event.wait, PATIENCE)
