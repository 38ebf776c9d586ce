"""How a plain script comes into its system and out of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from retinue.actors.runtime.errors import WrongEventLoop
from retinue.actors.runtime.loops import loop_here
from retinue.actors.runtime.portal import PULSE

if TYPE_CHECKING:
    from retinue._twin import Twin

__all__ = ["check_no_loop", "join"]


def check_no_loop() -> None:
    """Raises WrongEventLoop where a loop runs in this thread: everything in the script's block would stop it."""
    library = loop_here()
    if library is None:
        return
    instead = "retinue.ActorSystem" if library == "trio" else "retinue.aio.ActorSystem"
    raise WrongEventLoop(
        f"retinue.sync.ActorSystem was entered in a thread where {library} runs, which would stand still with every call. Use "
        f"`async with {instead}(…) as system` there ({'a notebook' if library == 'asyncio' else 'an async function'} can await), or put what blocks into a thread of its own, "
        f"with {library}.{'to_thread.run_sync' if library == 'trio' else 'to_thread'}"
    )


def join(twin: Twin, ended: threading.Event, error: BaseException | None) -> BaseException | None:
    """Waits for the system's end; returns the Ctrl-C that came meanwhile and ended it at once."""
    interrupted: BaseException | None = None
    while True:
        try:
            # Not `thread.join`: interrupted, that takes the thread for ended (bpo-45274).
            if ended.wait(PULSE):
                break
            if not twin.alive():
                if error is None:
                    raise twin.stuck_error()
                return interrupted
        except KeyboardInterrupt as again:
            if interrupted is not None:
                raise
            interrupted = again
            twin.interrupt()
    assert twin.thread is not None
    twin.thread.join()  # only its very last instructions are left
    return interrupted
