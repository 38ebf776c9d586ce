"""A member that needs a person parks the team's run: it goes on exactly there, and nobody is asked twice."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import retinue as rt
from agent_players import Hanging, read
from retinue import llm
from team_players import Echo, Made, Sender, contents, parked_by


async def decide(system: rt.ActorSystem, requests: Any, *verdicts: bool) -> None:
    for request, verdict in zip(requests, verdicts, strict=True):
        if verdict:
            await system.approvals.approve(request.id, reviewer="carol")
        else:
            await system.approvals.reject(request.id, reviewer="carol", note="no")


async def test_the_run_goes_on_where_the_member_waited_and_asks_nobody_twice() -> None:
    sender, asked = Sender(), []
    async with rt.ActorSystem("teams") as system:
        members = {
            "before": await system.spawn(Echo, asked, "before"),
            "sender": await sender.agent(system, "bob"),
            "after": await system.spawn(Echo, asked, "after"),
        }
        team = await system.spawn(rt.Sequential, members, name="team")
        waiting = await parked_by(team, "hi")
        assert waiting.path == "/user/team"
        assert waiting.operation == "tool.send"
        assert "sender (send) needs a person's approval" in str(waiting)
        assert (sender.sent, [label for label, *_ in asked]) == ([], ["before"])
        assert await contents(team) == []
        await decide(system, waiting.requests, True)
        answer = await team.ask(rt.Resume(waiting.run))
        assert answer.content == "after(yes)"
        assert (sender.sent, [label for label, *_ in asked]) == (["bob"], ["before", "after"])
        assert await contents(team) == ["hi", "after(yes)"]
        assert await contents(team, path="sender") == ["before(hi)", "yes"]


async def test_a_token_that_is_brought_along_reaches_the_member() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, [rt.Sequential.spec([await sender.agent(system, "bob")])])
        waiting = await parked_by(team, "hi")
        token = await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        assert (await team.ask(rt.Resume(waiting.run), approvals=[token])).content == "yes"
        assert sender.sent == ["bob"]


async def test_a_rejection_is_for_the_members_model_and_the_run_goes_on() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, [await sender.agent(system, "bob", "eve")])
        waiting = await parked_by(team, "hi")
        await decide(system, waiting.requests, True, False)
        assert (await team.ask(rt.Resume(waiting.run))).content == "yes,no"
        assert sender.sent == ["bob"]


async def test_siblings_go_on_and_all_that_waits_is_asked_for_at_once() -> None:
    sender, asked = Sender(), []
    async with rt.ActorSystem("teams") as system:
        echo = await system.spawn(Echo, asked, "echo")
        members = {"s1": await sender.agent(system, "bob"), "echo": echo, "s2": await sender.agent(system, "eve")}

        async def forward(run: rt.TeamRun) -> str:
            answers = await run.gather([(name, "go") for name in run.members])
            return ";".join(str(answer.content) for answer in answers)

        team = await system.spawn(Made, members, forward)
        waiting = await parked_by(team, "hi")
        assert [request.arguments["to"] for request in waiting.requests] == ["bob", "eve"]
        assert len(asked) == 1
        await decide(system, waiting.requests[1:], True)
        again = await parked_by(team, rt.Resume(waiting.run))  # one is not decided yet
        assert (again.run, [request.arguments["to"] for request in again.requests]) == (waiting.run, ["bob"])
        assert sender.sent == ["eve"]
        await decide(system, again.requests, True)
        assert (await team.ask(rt.Resume(waiting.run))).content == "yes;echo(go);yes"
        assert (sorted(sender.sent), len(asked)) == (["bob", "eve"], 1)


async def test_a_branch_that_waits_goes_on_with_its_next_step_afterwards() -> None:
    sender, asked = Sender(), []
    async with rt.ActorSystem("teams") as system:
        members = {"sender": await sender.agent(system, "bob"), "a": await system.spawn(Echo, asked, "a")}

        async def forward(run: rt.TeamRun) -> str:
            async def one() -> str:
                return str((await run.ask("a", await run.ask("sender", "go"))).content)

            async def other() -> str:
                for _ in range(3):
                    await run.ask("a", "x")
                return "other"

            return ";".join(await run.together([one, other]))

        team = await system.spawn(Made, members, forward)
        waiting = await parked_by(team, "hi")
        await decide(system, waiting.requests, True)
        assert (await team.ask(rt.Resume(waiting.run))).content == "a(yes);other"
        assert [content for _, _, content in asked] == ["x", "x", "x", "yes"]


async def test_two_asks_of_one_member_at_the_same_time_wait_one_behind_the_other() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(
            Made, {"s": await sender.agent(system, "bob")}, lambda run: gathered(run, [("s", "one"), ("s", "two")]), name="team"
        )
        waiting = await parked_by(team, "hi")
        for _ in range(2):
            assert len(waiting.requests) == 1
            await decide(system, waiting.requests, True)
            try:
                answer = await team.ask(rt.Resume(waiting.run))
            except rt.ApprovalRequired as error:
                waiting = error
        assert answer.content == "yes;yes"
        assert sender.sent == ["bob", "bob"]


async def gathered(run: rt.TeamRun, asks: list[Any]) -> str:
    return ";".join(str(answer.content) for answer in await run.gather(asks))


async def test_no_except_exception_takes_a_wait_for_a_failure() -> None:
    sender, asked = Sender(), []
    async with rt.ActorSystem("teams") as system:
        members = {"sender": await sender.agent(system, "bob"), "other": await system.spawn(Echo, asked, "other")}

        async def forward(run: rt.TeamRun) -> Any:
            try:
                return await run.ask("sender", "go")
            except Exception:
                return await run.ask("other", "instead")

        team = await system.spawn(Made, members, forward)
        waiting = await parked_by(team, "hi")
        assert asked == []
        await decide(system, waiting.requests, True)
        assert (await team.ask(rt.Resume(waiting.run))).content == "yes"


async def test_an_error_that_the_run_has_survived_is_raised_again_and_nobody_is_asked_once_more() -> None:
    sender, asked = Sender(), []
    async with rt.ActorSystem("teams") as system:
        members = {"a": await system.spawn(Echo, asked, "a"), "sender": await sender.agent(system, "bob")}

        async def forward(run: rt.TeamRun) -> Any:
            try:
                await run.ask("a", "fail")
            except ValueError as error:
                return await run.ask("sender", str(error))

        team = await system.spawn(Made, members, forward)
        waiting = await parked_by(team, "hi")
        await decide(system, waiting.requests, True)
        assert (await team.ask(rt.Resume(waiting.run))).content == "yes"
        assert len(asked) == 1


async def test_a_run_that_fails_after_its_decision_stays_parked_and_goes_on_from_there() -> None:
    sender, asked, broken = Sender(), [], [True]

    class Fragile(rt.Actor):
        @rt.handler(raises=Exception)
        async def answer(self, message: rt.AgentMessage) -> Any:
            asked.append(message.content)
            if broken[0]:
                raise ConnectionError("down")
            return "up again"

    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, {"sender": await sender.agent(system, "bob"), "fragile": await system.spawn(Fragile)})
        waiting = await parked_by(team, "hi")
        await decide(system, waiting.requests, True)
        for _ in range(2):
            with pytest.raises(ConnectionError, match="down"):
                await team.ask(rt.Resume(waiting.run))
        broken[0] = False
        assert (await team.ask(rt.Resume(waiting.run))).content == "up again"
        assert (sender.sent, asked) == (["bob"], ["yes"] * 3)
        with pytest.raises(rt.NoSuchRun):
            await team.ask(rt.Resume(waiting.run))


async def test_a_session_with_a_parked_run_takes_no_new_message_and_another_does() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, [await sender.agent(system, "bob")])
        waiting = await parked_by(team, "hi")
        with pytest.raises(rt.RunParked) as caught:
            await team.ask("more")
        assert caught.value.run == waiting.run
        other = await parked_by(team, rt.AgentMessage("hi", session="s"))
        assert other.run != waiting.run


@pytest.mark.parametrize("how", ["session", "run", "clear", "load"])
async def test_a_run_that_is_given_up_is_given_up_by_its_members_too(how: str) -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        inner = rt.Sequential.spec([await sender.agent(system, "bob")])
        team = await system.spawn(
            Made, {"inner": inner, "other": await sender.agent(system, "eve")}, lambda run: gathered(run, [("inner", "x"), ("other", "y")])
        )
        waiting = await parked_by(team, "hi")
        assert len(waiting.requests) == 2
        if how == "load":
            await team.ask(rt.LoadState({"version": 1, "memory": [], "inner.memory": [], "inner.0.memory": [], "other.memory": []}))
        elif how == "clear":
            await team.ask(rt.ClearMemory())
        else:
            assert await team.ask(rt.Cancel() if how == "session" else rt.Cancel(run=waiting.run)) is True
        assert [(await system.approvals.get(request.id)).status for request in waiting.requests] == ["cancelled"] * 2
        with pytest.raises(rt.NoSuchRun):
            await team.ask(rt.Resume(waiting.run))
        assert len((await parked_by(team, "anew")).requests) == 2  # nobody in it waits for the former run
        assert sender.sent == []


async def test_a_run_that_fails_while_a_member_waits_leaves_that_member_free() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        member = await sender.agent(system, "bob")

        async def forward(run: rt.TeamRun) -> str:
            if run.message.content == "both":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(run.ask, "s", "x")
                    await trio.sleep(0.05)
                    raise ValueError("the forward's own")
            return str((await run.ask("s", "x")).content)

        team = await system.spawn(Made, {"s": member}, forward)
        with pytest.raises((ValueError, rt.ApprovalRequired)):
            await team.ask("both")
        await team.ask(rt.Cancel())
        await system.wait_quiet()
        await parked_by(team, "one")


async def test_another_subject_cannot_go_on_with_a_run_nor_give_it_up() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, [await sender.agent(system, "bob")])
        ada, eve = (system.authority.mint(name, ["**"]) for name in ("ada", "eve"))
        waiting = await parked_by(team, "hi", context=ada)
        with pytest.raises(rt.NoSuchRun):
            await team.ask(rt.Resume(waiting.run), context=eve)
        assert await team.ask(rt.Cancel(run=waiting.run), context=eve) is False
        await decide(system, waiting.requests, True)
        assert (await team.ask(rt.Resume(waiting.run), context=ada)).content == "yes"


async def test_the_root_may_give_up_a_subjects_run_with_those_of_its_members() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, [await sender.agent(system, "bob")])
        ada = system.authority.mint("ada", ["**"])
        waiting = await parked_by(team, "hi", context=ada)
        assert await team.ask(rt.Cancel(run=waiting.run, subject="ada")) is True
        await parked_by(team, "again", context=ada)


async def test_a_forward_that_takes_another_way_is_told_so_and_the_run_stays_parked() -> None:
    sender, turns = Sender(), [0]
    async with rt.ActorSystem("teams") as system:

        async def forward(run: rt.TeamRun) -> Any:
            turns[0] += 1
            await run.ask("echo", f"attempt {1 if turns[0] > 2 else turns[0]}")
            return await run.ask("s", "x")

        asked: list[Any] = []
        team = await system.spawn(Made, {"echo": await system.spawn(Echo, asked, "e"), "s": await sender.agent(system, "bob")}, forward)
        waiting = await parked_by(team, "hi")
        await decide(system, waiting.requests, True)
        with pytest.raises(rt.TeamDiverged, match=r"run\.decide"):
            await team.ask(rt.Resume(waiting.run))
        assert (await team.ask(rt.Resume(waiting.run))).content == "yes"
        assert len(asked) == 1


async def test_what_does_not_follow_from_the_answers_goes_through_decide() -> None:
    sender, turns = Sender(), [0]
    async with rt.ActorSystem("teams") as system:

        async def number() -> dict[str, int]:
            turns[0] += 1
            return {"turn": turns[0]}

        async def forward(run: rt.TeamRun) -> Any:
            now = await run.decide(number)
            words = await run.decide(lambda: ["a", 1, None])
            await run.ask("s", f"{now['turn']} {words}")
            return f"{now['turn']}"

        team = await system.spawn(Made, {"s": await sender.agent(system, "bob")}, forward)
        waiting = await parked_by(team, "hi")
        await decide(system, waiting.requests, True)
        assert (await team.ask(rt.Resume(waiting.run))).content == "1"
        assert turns == [1]


async def test_what_forward_does_with_data_that_it_got_or_gave_changes_no_journal_and_no_memory() -> None:
    sender, asked = Sender(), []

    class Data(rt.Actor):
        @rt.handler
        async def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
            asked.append(message.content)
            return rt.AgentMessage({"found": [1]})

    async with rt.ActorSystem("teams") as system:

        async def forward(run: rt.TeamRun) -> Any:
            decided = await run.decide(lambda: {"d": [0]})
            decided["d"].append(9)
            question = {"q": ["x"], "decided": decided}
            answer = await run.ask("data", rt.AgentMessage(question))
            question["q"].append("later")
            answer.content["found"].append(len(answer.content["found"]))
            run.message.content["words"].clear()
            await run.ask("s", "go")
            return rt.AgentMessage({"all": [answer.content]})

        team = await system.spawn(Made, {"data": await system.spawn(Data), "s": await sender.agent(system, "bob")}, forward)
        waiting = await parked_by(team, rt.AgentMessage({"words": ["hi"]}))
        await decide(system, waiting.requests, True)
        answer = await team.ask(rt.Resume(waiting.run))
        assert answer.content == {"all": [{"found": [1, 1]}]}
        answer.content["all"].clear()
        assert await contents(team) == [{"words": ["hi"]}, {"all": [{"found": [1, 1]}]}]
        assert asked == [{"q": ["x"], "decided": {"d": [0, 9]}}]


async def test_the_members_that_a_run_has_seen_are_those_that_it_sees_again() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:

        async def forward(run: rt.TeamRun) -> str:
            return ";".join([str((await run.ask(name, "x")).content) for name in run.members])

        members = {"a": await system.spawn(Echo, [], "a"), "s": await sender.agent(system, "bob"), "b": await system.spawn(Echo, [], "b")}
        team = await system.spawn(Made, members, forward)
        waiting = await parked_by(team, "hi")
        await decide(system, waiting.requests, True)
        await team.ask(rt.RemoveMember("a"))
        await team.ask(rt.AddMember("c", await system.spawn(Echo, [], "c")))
        await team.ask(rt.RemoveMember("s"))  # what it is doing goes on
        assert (await team.ask(rt.Resume(waiting.run))).content == "a(x);yes;b(x)"


async def test_a_model_that_needs_consent_parks_the_run_too() -> None:
    class Dear(rt.Actor):
        @rt.handler(requires="dear.complete", approval=True)
        async def complete(self, message: llm.Complete) -> llm.Completion:
            return llm.Completion("chosen", "dear", finish_reason="stop")

    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(Dear)

        async def forward(run: rt.TeamRun) -> str:
            return (await run.complete(model, llm.Complete((llm.ChatMessage("user", "choose"),)))).text

        team = await system.spawn(Made, [], forward)
        waiting = await parked_by(team, "hi")
        assert (await parked_by(team, rt.Resume(waiting.run))).run == waiting.run
        await decide(system, waiting.requests, True)
        assert (await team.ask(rt.Resume(waiting.run))).content == "chosen"
        waiting = await parked_by(team, "again")
        await decide(system, waiting.requests, False)
        with pytest.raises(rt.Denied, match="has not approved"):
            await team.ask(rt.Resume(waiting.run))


async def test_what_is_left_of_a_runs_limits_holds_when_it_goes_on() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, {"s": await sender.agent(system, "bob"), "t": rt.Agent.spec(model="scripted:x")})
        for calls, fits in ((4, True), (3, False)):
            waiting = await parked_by(team, rt.Run("hi", limits=rt.TreeLimits(calls=calls)))  # a model call
            await decide(system, waiting.requests, True)
            if fits:  # the tool, and a model call of each
                assert (await team.ask(rt.Resume(waiting.run))).content == "x"
            else:
                with pytest.raises(rt.RunLimitReached) as caught:
                    await team.ask(rt.Resume(waiting.run))
                assert caught.value.limit == "tree.calls"


async def test_a_run_may_wait_instead() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, [rt.Sequential.spec([await sender.agent(system, "bob")])])
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def reviewer() -> None:
                while not (pending := await system.approvals.pending()):
                    await trio.sleep(0.01)
                await decide(system, pending, True)

            with trio.fail_after(10):
                assert (await team.ask(rt.Run("hi", wait_for_approvals=True))).content == "yes"


async def test_a_run_that_may_wait_asks_members_that_know_messages_alone() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, [await system.spawn(Echo, [], "echo")])
        for wait in (True, False):
            assert (await team.ask(rt.Run("hi", wait_for_approvals=wait))).content == "echo(hi)"


async def test_a_streamed_run_says_that_it_waits_and_its_sequel_says_only_what_is_new() -> None:
    sender = Sender()
    async with rt.ActorSystem("teams") as system:

        async def forward(run: rt.TeamRun) -> Any:
            await run.handed_off("", "echo", "first")
            await run.ask("echo", "x")
            await run.handed_off("echo", "s", "then")
            await run.ask("s", "go")
            await run.handed_off("s", "", "last")
            return "over"

        team = await system.spawn(Made, {"echo": rt.Agent.spec(model="scripted:hello"), "s": await sender.agent(system, "bob")}, forward)
        events = await read(team, "hi")
        assert [event.reason for event in events if isinstance(event, rt.HandedOff)] == ["first", "then"]
        needed, error = events[-2:]
        assert isinstance(error, rt.ApprovalRequired)
        assert isinstance(needed, rt.ApprovalNeeded)
        assert needed.run == error.run
        within = [event for path, event in map(rt.innermost, events[:-2]) if path == ("s",) and isinstance(event, rt.ApprovalNeeded)]
        assert [one.requests for one in within] == [needed.requests]
        await decide(system, error.requests, True)
        events = await read(team, rt.Resume(error.run))
        assert [event.reason for event in events if isinstance(event, rt.HandedOff)] == ["last"]
        assert {path for path, _ in map(rt.innermost, events)} == {(), ("s",)}
        assert events[-1].message.content == "over"


async def test_cancel_of_a_run_that_goes_on_leaves_it_parked_with_what_it_was_answered() -> None:
    sender, began, ended = Sender(), trio.Event(), trio.Event()
    async with rt.ActorSystem("teams") as system:
        hanging = await system.spawn(Hanging, began, ended)
        team = await system.spawn(rt.Sequential, {"s": await sender.agent(system, "bob"), "h": rt.Agent.spec(model=hanging)})
        waiting = await parked_by(team, "hi")
        await decide(system, waiting.requests, True)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                with pytest.raises(rt.RunCancelled):
                    await team.ask(rt.Resume(waiting.run))

            await began.wait()
            assert await team.ask(rt.Cancel()) is True
            await ended.wait()
        assert sender.sent == ["bob"]
        with pytest.raises(rt.RunParked):
            await team.ask("new")
        assert await team.ask(rt.Cancel(run=waiting.run)) is True
        assert sender.sent == ["bob"]


_VERDICTS = st.lists(st.sampled_from(["approve", "reject", "later", "resume"]), min_size=0, max_size=12)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(actions=_VERDICTS, end=st.sampled_from(["resume", "cancel"]), members=st.integers(1, 3), at_once=st.integers(1, 4))
def test_whatever_is_decided_in_whatever_order_each_call_has_one_outcome(actions: list[str], end: str, members: int, at_once: int) -> None:
    decided_in_some_order(actions, end, members, at_once)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(actions=_VERDICTS, end=st.sampled_from(["resume", "cancel"]), members=st.integers(1, 3), at_once=st.integers(1, 4))
def test_each_call_has_one_outcome_in_many_orders(actions: list[str], end: str, members: int, at_once: int) -> None:
    decided_in_some_order(actions, end, members, at_once)


def decided_in_some_order(actions: list[str], end: str, members: int, at_once: int) -> None:
    async def main() -> None:
        sender, asked = Sender(), []
        async with rt.ActorSystem("teams") as system:
            names = [f"m{number}" for number in range(members)]
            team_members: dict[str, Any] = {name: await sender.agent(system, f"{name}.1", f"{name}.2") for name in names}
            team_members["echo"] = await system.spawn(Echo, asked, "echo")

            async def forward(run: rt.TeamRun) -> str:
                answers = await run.gather([(name, "go") for name in (*names, "echo")], at_once=at_once)
                await run.ask("echo", "after")
                return ";".join(str(answer.content) for answer in answers[:-1])

            team = await system.spawn(Made, team_members, forward)
            waiting = await parked_by(team, "hi")
            run = waiting.run
            verdict: dict[str, bool] = {}
            answer: Any = None
            for action in [*actions, "approve", "reject"] if end == "resume" else actions:
                pending = sorted(await system.approvals.pending(), key=lambda request: request.arguments["to"])
                if action in ("approve", "reject") and pending:
                    verdict[pending[0].arguments["to"]] = action == "approve"
                    await decide(system, pending[:1], action == "approve")
                elif action == "resume" and answer is None:
                    answer = await resumed(team, run)
            if end == "cancel":
                assert await team.ask(rt.Cancel(run=run)) is (answer is None)
            else:
                while answer is None:
                    pending = await system.approvals.pending()
                    for request in pending:
                        verdict[request.arguments["to"]] = True
                    await decide(system, pending, *[True] * len(pending))
                    answer = await resumed(team, run)
                expected = ";".join(",".join("yes" if verdict[f"{name}.{number}"] else "no" for number in (1, 2)) for name in names)
                assert answer.content == expected
                assert sorted(sender.sent) == sorted(name for name, yes in verdict.items() if yes)
                assert [content for _, _, content in asked] == ["go", "after"]
            assert len(set(sender.sent)) == len(sender.sent)
            assert set(sender.sent) <= {name for name, yes in verdict.items() if yes}
            assert [content for _, _, content in asked].count("go") == 1
            with pytest.raises(rt.NoSuchRun):
                await team.ask(rt.Resume(run))

    rt.run(main)


async def resumed(team: Any, run: str | None) -> Any:
    try:
        return await team.ask(rt.Resume(run or ""))
    except rt.ApprovalRequired:  # the rest of it
        return None
