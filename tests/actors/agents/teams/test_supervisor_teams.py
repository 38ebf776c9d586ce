"""Supervisor and fallback: workers that fail are tried again, and what fails all the same is told to the lead."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from agent_players import Hanging, read, results
from pattern_players import Cast, cast, echo, parked
from retinue import llm
from three_faces import FACES, on_face


class Mortal(rt.Actor):
    """A worker that dies of its first messages.

    Args:
        lives: How many it dies of.
        deaths: Where it notes them; they outlast it.
    """

    def __init__(self, lives: int, deaths: list[str]) -> None:
        self.lives = lives
        self.deaths = deaths

    @rt.handler(open_to_all=True)
    def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
        if len(self.deaths) < self.lives:
            self.deaths.append(str(message.content))
            raise ZeroDivisionError("it died")
        return rt.AgentMessage(f"done: {message.content}", "mortal")


# -- Fallback ----------------------------------------------------------------------------------------------------------------------------------------------


async def test_a_member_that_crashed_is_restarted_and_asked_again() -> None:
    async with cast() as play:
        deaths: list[str] = []
        team = await play.system.spawn(rt.Fallback, [await play.system.spawn(Mortal, 2, deaths, name="mortal")], name="team")
        answer = await team.ask("dig")
        assert (answer.content, answer.sender, deaths) == ("done: dig", "team", ["dig", "dig"])
        assert [name for name, _ in answer.extra["tried"]] == ["0", "0"]


async def test_the_next_one_stands_in_for_a_member_that_fails_and_one_that_has_stopped_is_asked_no_more() -> None:
    async with cast() as play:
        members = await play.agents(a=[llm.ModelFailed("503")], b=["b did it"])
        answer = await (await play.system.spawn(rt.Fallback, members)).ask("go")
        assert answer.content == "b did it" and "503" in answer.extra["tried"][0][1]
        dead = await play.system.spawn(Mortal, 0, [], name="dead")
        await dead.stop()
        team = await play.system.spawn(rt.Fallback, {"dead": dead, "alive": await play.agent("c", llm.ModelFailed("503"), "c did it")})
        answer = await team.ask("go")
        assert answer.content == "c did it" and [name for name, _ in answer.extra["tried"]] == ["dead", "alive"]


async def test_the_members_are_tried_in_turn() -> None:
    async with cast() as play:
        members = [await play.agent(f"e{number}", llm.ModelFailed("503"), f"e{number} did it") for number in range(2)]
        answer = await (await play.system.spawn(rt.Fallback, members)).ask("go")
        assert (answer.content, [name for name, _ in answer.extra["tried"]]) == ("e0 did it", ["0", "1"])


async def test_a_member_that_does_not_answer_in_time_is_tried_again_and_its_run_is_stopped() -> None:
    with_clock = MockClock(autojump_threshold=0)
    trio_now: list[float] = []

    async def play_it() -> None:
        async with cast() as play:
            began, ended = trio.Event(), trio.Event()
            hanging = await play.system.spawn(Hanging, began, ended, name="hanging")
            members = {"slow": rt.Agent.spec(model=hanging), "quick": await play.agent("quick", "here")}
            team = await play.system.spawn(rt.Fallback, members, seconds=30)
            begun = trio.current_time()
            answer = await team.ask("go")
            trio_now.append(trio.current_time() - begun)
            assert answer.content == "here" and ended.is_set()

    await trio.to_thread.run_sync(lambda: trio.run(play_it, clock=with_clock))
    assert 30 <= trio_now[0] < 31


async def test_where_every_try_fails_the_last_error_is_raised_and_there_were_no_more_than_were_asked_for() -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Fallback, await play.agents(a=[llm.ModelFailed(str(n)) for n in range(9)]), retries=3)
        with pytest.raises(llm.ModelFailed, match="3"):
            await team.ask("go")


async def test_what_would_be_the_same_again_is_not_tried_again() -> None:
    async with cast() as play:
        members = await play.agents(a=lambda _: llm.tool_calls(("nothing", {})), b=["never"])
        team = await play.system.spawn(rt.Fallback, members)
        with pytest.raises(rt.RunLimitReached):
            await team.ask("go")
        assert not play.told["b"]


async def test_a_reader_is_told_of_a_try_that_failed() -> None:
    async with cast() as play:
        events = await read(await play.system.spawn(rt.Fallback, await play.agents(a=[llm.ModelFailed("503")], b=["x"])), "go")
    (notice,) = [event for event in events if isinstance(event, rt.Notice)]
    assert notice.kind == "retrying" and "1 of 2" in notice.text and isinstance(events[-1], rt.RunEnd)


async def test_a_member_that_needs_a_person_is_no_failure() -> None:
    @rt.tool(approval=True)
    def do() -> str:
        """Does."""
        return "did"

    async with cast() as play:
        members = {
            "a": await play.agent("a", llm.ModelFailed("503"), llm.tool_calls(("do", {})), "ok", tools=[do]),
        }
        team = await play.system.spawn(rt.Fallback, members)
        waiting = await parked(team)
        token = await play.system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        answer = await team.ask(rt.Resume(waiting.run or ""), approvals=[token])
        assert answer.content == "ok" and len(answer.extra["tried"]) == 1


# -- Supervisor --------------------------------------------------------------------------------------------------------------------------------------------


def delegate(**tasks: str) -> llm.Completion:
    return llm.tool_calls(*((f"ask_{name}", {"message": task}) for name, task in tasks.items()))


async def lead(play: Cast, *script: Any, workers: Any, **options: Any) -> Any:
    return await play.system.spawn(rt.Supervisor, lead=await play.agent("lead", *script), workers=workers, name="team", **options)


async def test_the_lead_gives_work_by_tools_and_sums_up() -> None:
    async with cast() as play:
        workers = {
            "research": await play.agent("research", "It is red.", description="Finds facts."),
            "figures": await play.agent("figures", "42"),
        }
        team = await lead(play, delegate(research="Which colour?", figures="How many?"), "42 red ones.", workers=workers)
        answer = await team.ask("Report")
        assert (answer.content, answer.sender) == ("42 red ones.", "team")
        tools = play.told["lead"][0].tools
        assert [tool.name for tool in tools] == ["ask_research", "ask_figures"] and tools[0].description == "Finds facts."
        assert play.heard("research") == ["Which colour?"]
        assert [message.content for message in play.told["lead"][1].messages if message.role == "tool"] == ["It is red.", "42"]


async def test_workers_that_are_called_in_one_reply_work_at_the_same_time() -> None:
    both = [trio.Event(), trio.Event()]

    async def meet(number: int) -> str:
        """Waits for the other."""
        both[number].set()
        await both[1 - number].wait()
        return "met"

    async with cast() as play:
        workers = {
            name: await play.agent(name, llm.tool_calls(("meet", {"number": number})), "ok", tools=[meet])
            for number, name in enumerate("ab")
        }
        team = await lead(play, delegate(a="go", b="go"), "done", workers=workers)
        with trio.fail_after(10):
            assert (await team.ask("go")).content == "done"


async def test_a_worker_that_dies_is_tried_again_and_one_that_stays_dead_is_told_to_the_lead_which_goes_on() -> None:
    async with cast() as play:
        deaths: list[str] = []
        mortal = await play.system.spawn(Mortal, 1, deaths, name="mortal")
        dead = await play.system.spawn(Mortal, 0, [], name="dead")
        await dead.stop()
        team = await lead(play, delegate(digger="dig", dead="dig too"), "Half of it is done.", workers={"digger": mortal, "dead": dead})
        assert (await team.ask("go")).content == "Half of it is done." and deaths == ["dig"]
        told = [message.content for message in play.told["lead"][1].messages if message.role == "tool"]
        assert told[0] == "done: dig" and "failed" in told[1] and "ActorStopped" in told[1]
        steps = results(await team.ask(rt.GetMemory(path="lead")))
        assert [(step.ok, step.error) for step in steps] == [(True, None), (False, "raised")]


async def test_several_may_stand_in_for_each_other() -> None:
    async with cast() as play:
        dead = await play.system.spawn(Mortal, 0, [], name="dead")
        await dead.stop()
        team = await lead(play, delegate(digger="dig"), "done", workers={"digger": [dead, await play.agent("second", "dug")]})
        await team.ask("go")
        assert [message.content for message in play.told["lead"][1].messages if message.role == "tool"] == ["dug"]


async def test_a_worker_that_needs_a_person_parks_the_whole_and_the_other_is_not_asked_again() -> None:
    done: list[str] = []

    @rt.tool(approval=True)
    def pay(amount: int) -> str:
        """Pays."""
        done.append(str(amount))
        return f"paid {amount}"

    async with cast() as play:
        workers = {
            "payer": await play.agent("payer", llm.tool_calls(("pay", {"amount": 5})), "paid", tools=[pay]),
            "other": await play.agent("other", "ok"),
        }
        team = await lead(play, delegate(payer="pay", other="go"), "all done", workers=workers)
        waiting = await parked(team)
        token = await play.system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        answer = await team.ask(rt.Resume(waiting.run or ""), approvals=[token])
        assert answer.content == "all done" and done == ["5"] and len(play.told["other"]) == 1 and len(play.told["lead"]) == 2


async def test_a_workers_options_are_changed_in_its_own_team() -> None:
    async with cast() as play:
        team = await lead(play, delegate(a="go"), "done", workers=await play.agents(a=["x"]))
        (own,) = [member.ref for member in await team.ask(rt.GetMembers()) if member.name == "a"]
        await own.ask(rt.EditMember("a", options={"instructions": "Be brief."}))
        await team.ask("go")
        assert play.told["a"][0].messages[0].content == "Be brief."


async def test_a_paused_worker_is_no_tool_of_the_lead() -> None:
    async with cast() as play:
        team = await lead(play, "nobody is here", "again", workers=await play.agents(a=echo("a"), b=echo("b")))
        await team.ask(rt.PauseMember("a"))
        await team.ask("go")
        assert [tool.name for tool in play.told["lead"][0].tools] == ["ask_b"]


async def test_a_cancel_reaches_the_workers() -> None:
    async with cast() as play:
        began, ended = trio.Event(), trio.Event()
        hanging = await play.system.spawn(Hanging, began, ended, name="hanging")
        team = await lead(play, delegate(a="go"), workers={"a": rt.Agent.spec(model=hanging)})
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                with pytest.raises(rt.RunCancelled):
                    await team.ask("go")

            nursery.start_soon(run)
            await began.wait()
            await team.ask(rt.Cancel())
            with trio.fail_after(20):
                await ended.wait()


async def test_lead_and_workers_share_one_budget() -> None:
    async with cast() as play:
        team = await lead(
            play,
            *[delegate(a="go", b="go")] * 9,
            workers=await play.agents(a=lambda _: "x", b=lambda _: "y"),
            limits=rt.TreeLimits(calls=7),
        )
        with pytest.raises((rt.RunLimitReached, rt.BudgetExceeded)):
            await team.ask("go")
        assert sum(map(len, play.told.values())) <= 7


async def test_streamed_what_workers_say_comes_under_their_names() -> None:
    async with cast() as play:
        events = await read(await lead(play, delegate(a="go"), "done", workers=await play.agents(a=["found it"])), "go")
    inner = {path for path, event in map(rt.innermost, events) if isinstance(event, rt.TextDelta)}
    assert {path[-1] for path in inner} == {"a", "lead"} and events[-1].message.content == "done"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"workers": {}}, "there are none"),
        ({"workers": {"lead": rt.Agent.spec(model="scripted:x")}}, "named 'lead'"),
        ({"workers": {"a": []}}, "empty list"),
        ({"workers": {"a": 3}}, "is a int"),
        ({"workers": 3}, "give them by name"),
        ({"workers": {"a": rt.Agent.spec(model="scripted:x")}, "retries": -1}, "retries=-1"),
        ({"workers": {"a": rt.Agent.spec(model="scripted:x")}, "worker_seconds": 0}, "worker_seconds=0"),
        ({"workers": {"a": rt.Agent.spec(model="scripted:x")}, "lead": "x"}, r"Supervisor\(lead=…\) is a str"),
    ],
    ids=range(8),
)
async def test_what_cannot_be_one_is_refused_to_the_spawner(options: dict[str, Any], told: str) -> None:
    async with cast() as play:
        with pytest.raises(rt.DefinitionError, match=told):
            await play.system.spawn(rt.Supervisor, **{"lead": rt.Agent.spec(model="scripted:x"), **options})


@pytest.mark.parametrize("face", FACES)
def test_it_is_the_same_from_every_face(face: str) -> None:
    def body(it: Any) -> None:
        model = it.spawn(llm.Scripted, [delegate(a="go"), "done"])
        team = it.spawn(rt.Supervisor, lead=rt.Agent.spec(model=model), workers={"a": rt.Agent.spec(model="scripted:ok")})
        assert it.ask(team, "go").content == "done"

    on_face(face, body)


async def test_a_worker_has_all_its_tries_before_the_lead_is_told_that_it_failed(autojump_clock: MockClock) -> None:
    async with cast() as play:
        members = await play.agents(lead=[llm.tool_calls(("ask_dig", {"message": "dig"})), "sorry"])
        worker = await play.system.spawn(Hanging, trio.Event(), trio.Event(), name="worker")
        team = await play.system.spawn(
            rt.Supervisor, lead=members["lead"], workers={"dig": rt.Agent.spec(model=worker)}, worker_seconds=400
        )
        began = trio.current_time()
        assert (await team.ask("go", timeout=3_600)).content == "sorry"
        assert 1_200 <= trio.current_time() - began < 1_210
        (step,) = [step for step in (await team.ask(rt.GetMemory(path="lead"))).steps if step.kind == "tool_result"]
        assert step.error == "timeout"
