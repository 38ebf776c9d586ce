"""The desk opens when it is needed first; whoever needed it may be gone by then."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import retinue as rt


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a file"])
@pytest.mark.parametrize("steps", range(4))
async def test_who_is_cancelled_while_the_desk_opens_leaves_it_to_others_in_order(steps: int, kept: bool, tmp_path: Path) -> None:
    async with rt.ActorSystem("office", data_dir=tmp_path if kept else None) as system:

        async def first() -> None:
            with scope:
                await system.approvals.pending()

        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            scope.cancel()
        assert await system.approvals.pending() == ()
