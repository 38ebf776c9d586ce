"""What a run asks a person does not outlive it: not the run that is cancelled before it hears of the request, not its agent, not its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from retinue.actors.approvals import works_asking
from retinue.actors.approvals.offline import ApprovalsFile
from retinue.security.approvals import ASKER
from team_players import Made, Sender, parked_by


async def pending(system: rt.ActorSystem) -> int:
    await system.wait_quiet()
    return len(await system.approvals.pending())


async def front_of(system: rt.ActorSystem, of: str, sender: Sender) -> rt.Ref[Any]:
    spec = await sender.agent(system, "bob")
    if of == "agent":
        return await system.spawn(rt.Agent, **spec.options)
    if of == "team":
        return await system.spawn(rt.Sequential, {"inner": spec})
    inner = await system.spawn(rt.Agent, **spec.options, name="inner")

    async def forward(run: rt.TeamRun) -> Any:
        return await run.ask("inner", run.message)

    return await system.spawn(Made, {"inner": inner}, forward)


@pytest.mark.parametrize("of", ["agent", "team", "team of refs"])
async def test_an_agent_that_is_stopped_takes_back_what_its_parked_runs_have_asked(of: str) -> None:
    async with rt.ActorSystem("desk") as system:
        front = await front_of(system, of, Sender())
        ann = system.authority.mint("ann", ["**"])
        waiting = await parked_by(front, "go", context=ann)
        await parked_by(front, rt.AgentMessage("go", session="other"))
        assert await pending(system) == 2
        await front.stop()
        assert await pending(system) == 0
        request = await system.approvals.get(waiting.requests[0].id)
        assert (request.status, request.reviewer) == ("cancelled", ASKER)


async def test_hundreds_of_parked_runs_are_taken_back_within_the_end_of_their_agent() -> None:
    async with rt.ActorSystem("desk") as system:
        agent = await front_of(system, "agent", Sender())
        for number in range(200):
            await parked_by(agent, rt.AgentMessage("go", session=f"{number}"))
        await agent.stop()
        assert await pending(system) == 0


async def test_a_member_that_is_edited_leaves_what_its_parked_run_has_asked_to_the_one_that_goes_on() -> None:
    async with rt.ActorSystem("desk") as system:
        team = await front_of(system, "team", Sender())
        await parked_by(team, "go")
        await team.ask(rt.EditMember("inner", options={"instructions": "Be brief."}))
        await trio.sleep(0.05)  # the former one is stopped
        assert await pending(system) == 1
        await team.ask(rt.Cancel("0"))
        assert await pending(system) == 0


@pytest.mark.parametrize("of", ["agent", "team", "waits"])
@pytest.mark.parametrize("by", ["cancel", "gone", "time"])
async def test_a_run_that_is_cancelled_while_its_request_is_looked_at_leaves_none(of: str, by: str) -> None:
    looked = trio.Event()

    async def reviewer(_request: rt.ApprovalRequest) -> None:
        looked.set()
        await trio.sleep_forever()

    async with rt.ActorSystem("desk", reviewer=reviewer) as system:
        front = await front_of(system, "agent" if of == "waits" else of, Sender())
        message: Any = rt.Run("go", wait_for_approvals=True) if of == "waits" else "go"
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(rt.RetinueError):
                    await front.ask(message, timeout=1.0 if by == "time" else 60.0)

            nursery.start_soon(ask)
            await looked.wait()
            assert len(await system.approvals.pending()) == 1
            if by == "cancel":
                await front.ask(rt.Cancel("0"))
            elif by == "gone":
                nursery.cancel_scope.cancel()
        assert await pending(system) == 0


async def test_a_process_that_ends_takes_back_what_its_parked_runs_have_asked_and_nothing_else(tmp_path: Path) -> None:
    sender = Sender()
    async with rt.ActorSystem("desk", data_dir=tmp_path) as system:
        waiting = await parked_by(await front_of(system, "agent", sender), "go")
        own = await parked_by(await system.spawn(rt.ActionExecutor, [sender.tool]), CALL)
    with ApprovalsFile(tmp_path) as file:
        request, _ = file.get(waiting.requests[0].id)
        assert (request.status, request.reviewer, request.note) == ("cancelled", ASKER, "the run that asked has ended with its process")
        assert [one.id for one in file.find("pending")] == [own.requests[0].id]


CALL = rt.AgentMessage({"name": "send", "parameters": {"to": "bob"}})

DIES = """
import os, sys, trio
import retinue as rt
from retinue import llm

@rt.tool(approval=True)
def send(to: str) -> str:
    "Sends."
    return "sent"

async def main():
    async with rt.ActorSystem("desk", data_dir=sys.argv[1]) as system:
        model = await system.spawn(llm.Scripted, lambda request: llm.tool_calls(("send", {"to": "bob"})))
        agent = await system.spawn(rt.Agent, model=model, tools=[send])
        for number in range(int(sys.argv[2])):
            try:
                await agent.ask(rt.AgentMessage("go", session=str(number)))
            except rt.ApprovalRequired as waiting:
                print(waiting.requests[0].id, flush=True)
        os._exit(9)

trio.run(main)
"""


def dead(folder: Path, runs: int) -> list[str]:
    """What the runs of a process have asked that was killed."""
    done = subprocess.run([sys.executable, "-c", DIES, str(folder), str(runs)], capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    return done.stdout.split()


async def test_what_runs_of_a_killed_process_have_asked_is_taken_back_by_the_next_one(tmp_path: Path) -> None:
    [lost] = dead(tmp_path, 1)
    with ApprovalsFile(tmp_path) as file, pytest.raises(rt.ApprovalError, match="has ended with its process") as raised:
        file.approve(lost, reviewer="carol")
    assert raised.value.reason == "expired"
    async with rt.ActorSystem("desk", data_dir=tmp_path) as system:
        await system.approvals.pending()
        await system.approvals.statistics()
        with trio.fail_after(10):
            while (await system.approvals.get(lost)).status == "pending":
                await trio.sleep(0.02)
        assert (await system.approvals.get(lost)).reviewer == ASKER
        new = await parked_by(await front_of(system, "agent", Sender()), "go")
        assert await pending(system) == 1
        with ApprovalsFile(tmp_path) as file:  # of one that lives
            file.approve(new.requests[0].id, reviewer="carol")


async def test_what_runs_of_a_killed_process_have_asked_takes_no_room_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead(tmp_path, 3)
    monkeypatch.setattr(works_asking, "MAX_PENDING_OF_SUBJECT", 3)
    async with rt.ActorSystem("desk", data_dir=tmp_path) as system:
        agent = await front_of(system, "agent", Sender())
        for name in "abc":
            await parked_by(agent, rt.AgentMessage("go", session=name))
        assert await pending(system) == 3


@pytest.mark.parametrize("of", ["agent", "team"])
async def test_a_run_whose_asker_has_left_is_not_parked_for_nobody(of: str) -> None:
    scopes: list[trio.CancelScope] = []

    @rt.hook("on_approval_required")
    def leave(_context: rt.HookContext) -> object:
        while scopes:
            scopes.pop().cancel()
        return rt.Continue()

    async with rt.ActorSystem("desk") as system:
        spec = (await Sender().agent(system, "bob")).with_options({"hooks": [leave]})
        agent = await system.spawn(rt.Agent, **spec.options)
        front = agent if of == "agent" else await system.spawn(rt.Sequential, {"inner": agent})
        with trio.CancelScope() as scope:
            scopes.append(scope)
            await front.ask("go")
        assert scope.cancelled_caught and await pending(system) == 0
        assert not await agent.ask(rt.Cancel("0"))
        assert (await parked_by(front, "go")).run is not None
