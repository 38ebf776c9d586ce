"""What is left of a run that nobody goes on with: sessions for it alone, runs parked within, requests at the desk. All of it goes, however the run ends."""

from __future__ import annotations

import gc
import time
from types import SimpleNamespace
from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import Hanging
from retinue import llm
from retinue.actors.agents import leaving
from retinue.actors.agents.keeping import Keeper
from team_players import Made, Sender, parked_by


def pieces() -> list[str]:
    """The keys of all sessions of pieces that anybody remembers."""
    keepers = [each for each in gc.get_objects() if isinstance(each, Keeper)]
    return [key for keeper in keepers for key in (*keeper._states, *keeper._parked) if "piece-" in key]


def joined(results: Any) -> str:
    return "|".join(str(one.content) for one in results)


async def pending(system: rt.ActorSystem) -> int:
    await system.wait_quiet()
    return len(await system.approvals.find(status="pending"))


async def approve(system: rt.ActorSystem, waiting: rt.ApprovalRequired) -> None:
    for request in waiting.requests:
        if (await system.approvals.get(request.id)).status == "pending":
            await system.approvals.approve(request.id, reviewer="carol")


async def flaky(system: rt.ActorSystem, sender: Sender, fails: list[bool]) -> rt.AgentSpec:
    """An agent that sends for pieces that begin with "p", and whose model fails after that as often as `fails` says."""

    def says(request: llm.Complete) -> Any:
        last = request.messages[-1]
        if last.role == "user":
            return llm.tool_calls(("send", {"to": last.content})) if last.content.startswith("p") else f"plain {last.content}"
        if fails and fails.pop():
            raise llm.ModelError("down")
        return "done"

    return rt.Agent.spec(model=await system.spawn(llm.Scripted, says), tools=[sender.tool])


@pytest.mark.parametrize("failures", ["raise", "skip"])
async def test_a_run_that_fails_after_a_decision_keeps_its_pieces_sessions_until_it_is_over(failures: str) -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        mapper = await flaky(system, sender, [True])
        team = await system.spawn(rt.MapReduce, mapper=mapper, reducer=joined, failures=failures)
        content = ["p1"] if failures == "skip" else ["p1", "x"]
        waiting = await parked_by(team, rt.AgentMessage(content))
        await approve(system, waiting)
        with pytest.raises(llm.ModelError):
            await team.ask(rt.Resume(waiting.run or ""))
        assert pieces()
        answer = await team.ask(rt.Resume(waiting.run or ""))
        assert answer.content == ("done" if failures == "skip" else "done|plain x") and sender.sent == ["p1"]
        await system.wait_quiet()
        assert not pieces()


async def test_a_run_whose_reducer_waits_too_has_its_pieces_forgotten_once_and_answers() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        mapper, reducer = await flaky(system, sender, []), await sender.agent(system, "boss")
        team = await system.spawn(rt.MapReduce, mapper=mapper, reducer=reducer)
        waiting = await parked_by(team, rt.AgentMessage(["p1", "p2"]))
        await approve(system, waiting)
        waiting = await parked_by(team, rt.Resume(waiting.run or ""))
        await approve(system, waiting)
        assert (await team.ask(rt.Resume(waiting.run or ""))).content == "yes"
        await system.wait_quiet()
        assert not pieces() and sorted(sender.sent) == ["boss", "p1", "p2"]


async def test_pieces_of_an_asker_whose_authority_ends_in_the_middle_are_forgotten_when_that_one_comes_again() -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("desk") as system:
        model = await system.spawn(llm.Scripted, lambda request: request.messages[-1].content)
        hanging = await system.spawn(Hanging, began, ended)
        members = {"fast": rt.Agent.spec(model=model), "slow": rt.Agent.spec(model=hanging)}

        class Routed(rt.AgentDict):
            async def forward(self, run: rt.TeamRun) -> rt.AgentMessage:
                return await run.ask("slow" if "slow" in str(run.message.content) else "fast", run.message)

        team = await system.spawn(rt.MapReduce, mapper=Routed.spec(members), reducer=joined)
        ann = system.authority.mint("ann", ["**"])
        short = ann.narrow(rt.expires(seconds=1))
        with pytest.raises((rt.Expired, rt.AskTimeout)):
            await team.ask(rt.AgentMessage(["a", "slow"]), context=short)
        await system.wait_quiet()
        assert pieces()
        await team.ask(rt.AgentMessage(["b"], session="another"), context=system.authority.mint("bob", ["**"]))
        assert any(":ann" in key for key in pieces())  # nobody else's message does it
        await team.ask(rt.AgentMessage(["b"], session="another"), context=ann)
        await system.wait_quiet()
        assert not pieces()


async def test_a_parked_session_that_is_forgotten_for_want_of_room_leaves_nobody_stuck() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        inner = await system.spawn(rt.Agent, **(await sender.agent(system, "bob")).options, name="inner")
        asks = llm.tool_calls(("ask_inner", {"message": "go"}))
        model = await system.spawn(
            llm.Scripted, lambda request: asks if request.messages[-1].role == "user" else request.messages[-1].content
        )

        async def through(run: rt.TeamRun) -> rt.AgentMessage:
            return await run.ask("inner", run.message)

        team = await system.spawn(Made, {"inner": inner}, through, sessions=1)
        agent = await system.spawn(rt.Agent, model=model, tools=[rt.agent_tool(inner)], sessions=1)
        for outer in (team, agent):
            await parked_by(outer, rt.AgentMessage("go", session="first"))
            await parked_by(outer, rt.AgentMessage("go", session="second"))
            waiting = await parked_by(outer, rt.AgentMessage("go", session="first"))  # not RunParked, nor the model told so
            await approve(system, waiting)
            answer = await outer.ask(rt.Resume(waiting.run or ""))
            assert answer.content == "yes"
            await outer.ask(rt.Cancel("second"))
            await inner.ask(rt.Cancel("second"))
        assert await pending(system) == 0


async def test_a_desk_that_does_not_answer_holds_up_who_asks_again_once_and_not_once_for_each_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender, tried = Sender(), list[int]()

    async def take_back(_kernel: object, _owner: object, requests: list[str], _runs: list[str]) -> None:
        tried.append(len(requests))
        await trio.sleep_forever()

    monkeypatch.setattr(leaving, "TAKING_BACK", 0.05)
    monkeypatch.setattr(leaving, "take_back", take_back)
    async with rt.ActorSystem("desk") as system:
        agent = await system.spawn(rt.Agent, sessions=4, **(await sender.agent(system, "bob", "eve")).options)
        ann = system.authority.mint("ann", ["**"])
        for name in "abcd":
            await parked_by(agent, rt.AgentMessage("go", session=name), context=ann)
        for name in "efgh":  # and those of hers are forgotten
            await parked_by(agent, rt.AgentMessage("go", session=name))
        assert not tried
        await parked_by(agent, rt.AgentMessage("go", session="a"), context=ann)
        assert tried == [8]


@pytest.mark.parametrize(
    "given_up", [rt.Cancel("0"), rt.ClearMemory("0"), rt.LoadState({"version": 1, "memory": []})], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("of", ["agent", "team", "tool"])
async def test_requests_of_a_run_that_is_given_up_are_taken_back(given_up: Any, of: str) -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        spec = await sender.agent(system, "bob", "eve")
        if of == "tool":
            asks = llm.tool_calls(("ask_inner", {"message": "go"}))
            tool = rt.agent_tool(spec, name="ask_inner")
            outer = await system.spawn(rt.Agent, model=await system.spawn(llm.Scripted, [asks]), tools=[tool])
        elif of == "team":
            outer = await system.spawn(rt.Sequential, {"inner": spec})
            if isinstance(given_up, rt.LoadState):
                given_up = rt.LoadState({"version": 1, "memory": [], "inner.memory": []})
        else:
            outer = await system.spawn(rt.Agent, **spec.options)
        waiting = await parked_by(outer, "go")
        assert await pending(system) == 2
        await outer.ask(given_up)
        assert await pending(system) == 0
        request = await system.approvals.get(waiting.requests[0].id)
        assert (request.status, request.reviewer) == ("cancelled", "whoever asked") and not sender.sent


@pytest.mark.parametrize("waits", [False, True], ids=["parked", "waits"])
async def test_a_session_that_gives_up_takes_back_its_own_question_and_not_that_of_another_which_wants_the_same(waits: bool) -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system, trio.open_nursery() as nursery:
        agent = await system.spawn(rt.Agent, **(await sender.agent(system, "bob")).options)
        first = await parked_by(agent, rt.AgentMessage("go", session="a"))
        if waits:
            seen: list[rt.AgentEvent] = []

            async def wait() -> None:
                async with agent.stream(rt.Run(rt.AgentMessage("go", session="b"), wait_for_approvals=True)) as events:
                    async for event in events:
                        seen.append(event)

            nursery.start_soon(wait)
            with trio.fail_after(20):
                while not any(isinstance(event, rt.ApprovalNeeded) for event in seen):
                    await trio.sleep(0.01)
            await agent.ask(rt.Cancel("a"))
            [second] = await system.approvals.pending()
            assert second.id != first.requests[0].id
            await system.approvals.approve(second.id, reviewer="carol")
            with trio.fail_after(20):
                while not sender.sent:
                    await trio.sleep(0.01)
        else:
            other = await parked_by(agent, rt.AgentMessage("go", session="b"))
            assert first.requests[0].id != other.requests[0].id
            await agent.ask(rt.Cancel("a"))
            assert await pending(system) == 1
            await agent.ask(rt.Cancel("b"))
            assert await pending(system) == 0


async def test_a_request_that_was_taken_back_elsewhere_is_asked_anew_and_counts_for_no_refusal() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        agent = await system.spawn(rt.Agent, **(await sender.agent(system, "bob")).options)
        waiting = await parked_by(agent, "go")
        await system.approvals.cancel(waiting.requests[0].id, reviewer="whoever asked")  # as it is done for runs that are given up
        anew = await parked_by(agent, rt.Resume(waiting.run or ""))
        assert anew.requests[0].id != waiting.requests[0].id
        await approve(system, anew)
        assert (await agent.ask(rt.Resume(waiting.run or ""))).content == "yes" and sender.sent == ["bob"]


async def test_who_gives_up_does_not_take_back_what_a_person_has_decided() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        agent = await system.spawn(rt.Agent, **(await sender.agent(system, "bob")).options)
        waiting = await parked_by(agent, "go")
        await approve(system, waiting)
        await agent.ask(rt.Cancel("0"))
        assert await pending(system) == 0
        assert (await system.approvals.get(waiting.requests[0].id)).status == "approved"


async def test_a_run_that_waits_itself_and_is_cancelled_takes_its_request_back() -> None:
    sender = Sender()
    async with rt.ActorSystem("desk") as system:
        agent = await system.spawn(rt.Agent, wait_for_approvals=True, **(await sender.agent(system, "bob")).options)
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                with pytest.raises(rt.RunCancelled):
                    await agent.ask("go")

            nursery.start_soon(run)
            with trio.fail_after(20):
                while not await system.approvals.find(status="pending"):
                    await trio.sleep(0.01)
            await agent.ask(rt.Cancel())
        assert await pending(system) == 0


async def test_what_is_left_for_subjects_that_do_not_come_again_is_bounded() -> None:
    from retinue.actors.agents import keeping
    from retinue.actors.agents.leaving import Left

    keeper = Keeper(10)
    began = time.monotonic()
    for number in range(3 * keeping.MOST_LEFT):
        keeper.leave(Left((f"s{number}", None, None), [(None, None)]))
    assert len(keeper.left) == keeping.MOST_LEFT and time.monotonic() - began < 10
    assert not keeper.take_left("s0", None) and keeper.take_left(f"s{3 * keeping.MOST_LEFT - 1}", None)


@pytest.mark.parametrize(("hangs", "told"), [(True, "not taken back within 2 s"), (False, "could not be taken back: the desk is closed")])
async def test_that_people_are_asked_still_for_a_run_that_is_over_is_logged(
    hangs: bool, told: str, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def take_back(*_: Any) -> None:
        if hangs:
            await trio.sleep_forever()
        raise rt.StoreUnavailable("the desk is closed", reason="closed")

    monkeypatch.setattr(leaving, "take_back", take_back)
    caplog.set_level("INFO", "retinue.agents")
    keeper: Any = SimpleNamespace(waits=lambda _: False)
    ctx: Any = SimpleNamespace(path="/user/clerk", _cell=SimpleNamespace(kernel=None))
    await leaving.leave(ctx, keeper, leaving.Left(("ada", None, None), runs=("0/1",)))
    assert "/user/clerk: what people were asked for runs that are over" in caplog.text and told in caplog.text
