"""There is one book of approvals a system, whoever looks first, and from which thread."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import retinue as rt


async def test_threads_that_look_at_the_same_time_find_the_same_book() -> None:
    together = threading.Barrier(8)

    def look(system: rt.ActorSystem) -> int:
        together.wait(30)
        return id(system.approvals._office)

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            async with rt.ActorSystem("office") as system:
                with ThreadPoolExecutor(8) as pool:
                    assert len(set(pool.map(look, [system] * 8))) == 1
    finally:
        sys.setswitchinterval(switching)
