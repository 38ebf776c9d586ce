"""Executors under a real agent: what it cancels ends, what it closes is gone, and the next request is fine."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import trio

import process_tools
import retinue as rt
from process_tools import is_gone, our_zombies, pids
from retinue import llm


async def agent_with(system: rt.ActorSystem, script: list[Any], tools: list[Any], **options: Any) -> rt.Ref[rt.Agent]:
    model = await system.spawn(llm.Scripted, script, name="model")
    return await system.spawn(rt.Agent, model=model, tools=tools, name="agent", **options)


async def test_an_asker_of_an_agent_who_gives_up_kills_its_tools_process(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "pids"
    tool = rt.tool(process=True)(process_tools.breed)
    script = [llm.tool_calls(("breed", {"seconds": 300, "file": str(file)})), "Fine."]
    async with rt.ActorSystem("office", block_warning=math.inf) as system:
        agent = await agent_with(system, script, [tool])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.ask, "Work")
            found = await trio.to_thread.run_sync(pids, file)
            began = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - began < 1
        for pid in found:
            assert await trio.to_thread.run_sync(is_gone, pid, 1.0)
        assert (await agent.ask("And now?")).content == "Fine."
    assert our_zombies() == []


async def test_a_model_is_told_of_tools_that_hang_exit_and_shout_and_goes_on() -> None:
    @rt.tool(timeout=0.05)
    async def hangs() -> str:
        """Hangs."""
        await trio.sleep_forever()
        return "never"

    @rt.tool
    def quits() -> str:
        """Exits."""
        raise SystemExit(3)

    @rt.tool
    def shouts() -> str:
        """A lot."""
        return "x" * 100_000_000

    script = [llm.tool_calls(("hangs", {}), ("quits", {}), ("shouts", {}), ("leave", {"code": 3})), "Fine."]
    async with rt.ActorSystem("office", block_warning=math.inf) as system:
        agent = await agent_with(system, script, [hangs, quits, shouts, rt.tool(process=True)(process_tools.leave)])
        assert (await agent.ask("Work")).content == "Fine."
        steps = [step for step in (await agent.ask(rt.GetMemory())).steps if step.kind == "tool_result"]
        assert [(step.tool, step.ok, step.error) for step in steps] == [
            ("hangs", False, "timeout"),
            ("quits", False, "raised"),
            ("shouts", True, None),
            ("leave", False, "exit"),
        ]
        assert max(len(step.text) for step in steps) < 40_000


async def test_each_session_of_an_agent_programs_in_a_kernel_of_its_own_that_ends_with_the_agent() -> None:
    script = [
        line
        for _ in range(4)
        for line in (llm.tool_calls(("python.run", {"code": "import os\nx = globals().get('x', 0) + 1\nf'{x} {os.getpid()}'"})), "Done.")
    ]
    async with rt.ActorSystem("office", block_warning=math.inf) as system:
        agent = await agent_with(system, script, [rt.PythonKernel(approval=False, ipython=False)])
        seen: dict[str, list[str]] = {}
        for session in ("a", "b", "a"):
            await agent.ask(rt.AgentMessage("Count", session=session))
            steps = (await agent.ask(rt.GetMemory(session=session))).steps
            seen[session] = [step.text.strip("'") for step in steps if step.kind == "tool_result"]
        (first, second), (other,) = seen["a"], seen["b"]
        assert (first.split()[0], second.split()[0], other.split()[0]) == ("1", "2", "1")
        ids = {int(text.split()[1]) for text in (first, second, other)}
        assert len(ids) == 2
        assert not any(is_gone(pid, 0) for pid in ids)
        await agent.stop()
        assert all([await trio.to_thread.run_sync(is_gone, pid, 1.0) for pid in ids])
    assert our_zombies() == []
