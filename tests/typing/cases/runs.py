"""Checked by mypy and pyright, never run: both must report an error on exactly the lines that end in `# error`."""

from __future__ import annotations

from typing import Any, assert_type

import retinue as rt


async def runs(agent: rt.Ref[rt.Agent], names: list[str], handoffs: list[rt.Handoff], tools: list[Any]) -> None:
    await agent.ask(rt.Run("x", handoffs=names))
    await agent.ask(rt.Run("x", handoffs=["a", rt.Handoff("b")]))
    await agent.ask(rt.Run("x", tools, handoffs=handoffs, limits=rt.TreeLimits(calls=1)))
    run = rt.Run("x", tools=(runs,), handoffs=(rt.Handoff("a"),))
    assert_type(run.handoffs, tuple[rt.Handoff, ...])
    rt.Run("x", handoffs=[3])  # error
    rt.Run("x", handoffs=rt.Handoff("a"))  # error
    rt.Run("x", handofs=["a"])  # error
