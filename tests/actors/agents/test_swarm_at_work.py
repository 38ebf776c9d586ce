"""A swarm whose members come and go, wait for people, are routed to, are stopped, and may do only what the asker may."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from agent_players import Hanging, read, results
from retinue import llm
from swarm_players import Stalling, over, seen_by, swarm_system
from three_faces import FACES, Face, on_face


def route(name: str) -> llm.Completion:
    return llm.tool_calls(("route", {"member": name}))


async def parked(swarm: Any, message: Any, **options: Any) -> rt.ApprovalRequired:
    with pytest.raises(rt.ApprovalRequired) as caught:
        await swarm.ask(message, **options)
    return caught.value


class Till:
    """A tool that needs a person, and what was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        async def pay(amount: int) -> str:
            """Pays.

            Args:
                amount: How much.
            """
            self.paid.append(amount)
            return f"paid {amount}"

        self.tool = rt.tool(approval=True)(pay)


# -- members that come and go --------------------------------------------------------------------------------------------------------------------------------


async def test_a_member_that_is_paused_gets_nothing_and_its_conversation_goes_back_to_the_first() -> None:
    told: list[tuple[str, llm.Complete]] = []
    scripts = {"a": [over("b"), "b is away: I help.", over("b")], "b": ["I am b.", "Back."]}
    async with swarm_system(scripts, told) as (_, swarm):
        assert (await swarm.ask("Hello")).sender == "b"
        await swarm.ask(rt.PauseMember("b"))
        assert (await swarm.ask("And now?")).sender == "a"
        assert told[-1][1].tools == ()  # nobody is left to hand over to
        with pytest.raises(rt.MemberPaused):
            await swarm.ask(rt.AgentMessage("b, please", receiver="b"))
        await swarm.ask(rt.UnpauseMember("b"))
        assert (await swarm.ask("Now?")).content == "Back."


async def test_a_member_that_is_paused_while_another_thinks_is_none_to_hand_over_to_and_the_model_is_told_whom_else() -> None:
    swarms: list[Any] = []
    told: list[llm.Complete] = []

    @rt.tool
    async def look() -> str:
        """Looks."""
        await swarms[0].ask(rt.PauseMember("b"))
        return "seen"

    def at_last(request: llm.Complete) -> str:
        told.append(request)
        return "I do it myself."

    async with swarm_system(
        {"a": [llm.tool_calls(("look", {})), over("b"), at_last], "b": [], "c": []}, agents={"a": {"tools": [look]}}
    ) as (_, swarm):
        swarms.append(swarm)
        answer = await swarm.ask("Hello")
        assert (answer.sender, answer.content) == ("a", "I do it myself.")
        assert told[0].messages[-1].content == (
            "Your handoff to b was not carried out: it is not at work now. You can hand over to c, or go on yourself."
        )


async def test_a_member_that_is_removed_while_it_works_ends_its_work_and_gets_no_more() -> None:
    swarms: list[Any] = []

    @rt.tool
    async def leave() -> str:
        """Leaves."""
        await swarms[0].ask(rt.RemoveMember("b"))
        return "left"

    scripts = {"a": [over("b"), "b is gone."], "b": [llm.tool_calls(("leave", {})), "My last word."]}
    async with swarm_system(scripts, agents={"b": {"tools": [leave]}}) as (_, swarm):
        swarms.append(swarm)
        assert (await swarm.ask("Hello")).content == "My last word."
        assert (await swarm.ask("Still there?")).content == "b is gone."
        assert [member.name for member in await swarm.ask(rt.GetMembers())] == ["a"]


async def test_a_member_that_is_added_is_offered_from_the_next_hop_on() -> None:
    async with swarm_system({"a": ["Alone.", over("new")]}) as (_, swarm):
        assert (await swarm.ask("Hello")).content == "Alone."
        await swarm.ask(rt.AddMember("new", rt.Agent.spec(model="scripted:I am new.", description="Knows it.")))
        assert (await swarm.ask("Somebody else?")).content == "I am new."


async def test_a_member_that_is_edited_goes_on_with_what_it_remembers() -> None:
    told: list[tuple[str, llm.Complete]] = []
    async with swarm_system({"a": ["One.", "Two."], "b": []}, told) as (_, swarm):
        await swarm.ask("First")
        await swarm.ask(rt.EditMember("a", options={"instructions": "Be brief."}))
        assert (await swarm.ask("Second")).content == "Two."
        assert [message.content for message in told[1][1].messages] == ["Be brief.", "First", "One.", "Second"]


async def test_only_who_has_the_operation_changes_the_members() -> None:
    async with swarm_system({"a": [], "b": []}) as (system, swarm):
        ada = system.authority.mint("ada", ["model.complete", "tool.**"])
        for change in (
            rt.PauseMember("b"),
            rt.UnpauseMember("b"),
            rt.RemoveMember("b"),
            rt.EditMember("b", description="Evil."),
            rt.AddMember("c", swarm),
        ):
            with pytest.raises(rt.Denied) as caught:
                await swarm.ask(change, context=ada)
            assert caught.value.operation == "agents.manage"
        assert len(await swarm.ask(rt.GetMembers(), context=ada)) == 2


async def test_all_members_paused_is_an_error_that_says_so() -> None:
    async with swarm_system({"a": [], "b": []}) as (_, swarm):
        for name in ("a", "b"):
            await swarm.ask(rt.PauseMember(name))
        with pytest.raises(rt.RoutingFailed, match=r"all are paused \(a, b\)"):
            await swarm.ask("Hello")


async def test_a_swarm_may_be_a_member_of_a_swarm_and_answers_as_one() -> None:
    told: list[tuple[str, llm.Complete]] = []
    async with swarm_system({"a": [over("inner", message="Yours."), "a again."]}, told) as (system, swarm):
        models = [await system.spawn(llm.Scripted, script) for script in ([over("y")], ["I am y.", "Still y."])]
        inner = {name: rt.Agent.spec(model=model) for name, model in zip("xy", models, strict=True)}
        await swarm.ask(rt.AddMember("inner", rt.Swarm.spec(inner, description="Knows the rest.")))
        assert [((answer := await swarm.ask(text)).sender, answer.content) for text in ("Hello", "More")] == [
            ("inner", "I am y."),
            ("inner", "Still y."),
        ]
        memory = await swarm.ask(rt.GetMemory(path="inner.y"))
        assert [message.content for message in memory.messages] == [
            "a: user: Hello\n    a: Yours.\nx: Handed over to y",
            "I am y.",
            "More",
            "Still y.",
        ]


# -- routes --------------------------------------------------------------------------------------------------------------------------------------------------


async def test_rules_say_who_answers_each_message_and_where_none_fits_the_conversation_stays() -> None:
    scripts = {"desk": ["Desk."], "billing": ["Billing.", "Still billing."], "travel": ["Travel."]}
    async with swarm_system(scripts, route=rt.Rules(("refund", "billing"), ("flight", "travel"))) as (_, swarm):
        asked = ["Hello", "A refund!", "How long?", "And my flight?"]
        assert [(await swarm.ask(text)).sender for text in asked] == ["desk", "billing", "billing", "travel"]


async def test_a_rule_whose_member_is_paused_is_passed_over() -> None:
    rules = rt.Rules(("refund", "billing"), ("refund", "desk"), default="a")
    async with swarm_system({"a": [], "billing": [], "desk": ["Desk."]}, route=rules) as (_, swarm):
        await swarm.ask(rt.PauseMember("billing"))
        assert (await swarm.ask("A refund!")).sender == "desk"


async def test_a_model_chooses_who_answers_and_knows_who_has_the_conversation_and_what_was_said() -> None:
    asked: list[tuple[str, llm.Complete]] = []
    async with rt.ActorSystem("swarm") as system:
        router = await system.spawn(llm.Scripted, [note(asked, route("b")), note(asked, route("b"))])
        members = {name: rt.Agent.spec(model="scripted:I am " + name, description=f"Does {name}.") for name in ("a", "b")}
        swarm = await system.spawn(rt.Swarm, members, route=rt.ModelRouter(router, "b knows all."))
        assert (await swarm.ask("Hello")).sender == "b"
        assert (await swarm.ask("More")).sender == "b"
        first, second = (request.messages for _, request in asked)
        assert "b knows all." in first[0].content and "The conversation is with" not in first[0].content
        assert "The conversation is with b." in second[0].content
        assert second[1].content == "What was said before:\nuser: Hello\nb: I am b\n\nThe message:\nMore"


def note(asked: list[tuple[str, llm.Complete]], answer: Any) -> Any:
    def say(request: llm.Complete) -> Any:
        asked.append(("router", request))
        return answer

    return say


async def test_a_model_that_names_nobody_twice_ends_the_run_and_one_that_fails_does_so_with_its_own_error() -> None:
    script = ["I transfer to a", "finance", llm.ModelFailed("the provider is down", status=500), "b"]
    async with rt.ActorSystem("swarm") as system:
        router = await system.spawn(llm.Scripted, script)
        members = {name: rt.Agent.spec(model="scripted:Here.") for name in ("a", "b")}
        swarm = await system.spawn(rt.Swarm, members, route=rt.ModelRouter(router))
        with pytest.raises(rt.RoutingFailed) as caught:
            await swarm.ask("Hello")
        assert caught.value.answer == "finance"
        with pytest.raises(llm.ModelFailed, match="the provider is down"):
            await swarm.ask("Hello")
        assert (await swarm.ask(rt.GetMemory())).items == ()
        assert (await swarm.ask("Hello")).sender == "b"


async def test_a_router_asked_for_first_messages_only_leaves_a_conversation_where_it_is_handed_to() -> None:
    async with rt.ActorSystem("swarm") as system:
        router = await system.spawn(llm.Scripted, [route("b")])
        one = await system.spawn(llm.Scripted, [over("a")])
        members = {"a": rt.Agent.spec(model="scripted:I am a."), "b": rt.Agent.spec(model=one)}
        swarm = await system.spawn(rt.Swarm, members, route=rt.ModelRouter(router, each_message=False))
        assert [(await swarm.ask(text)).sender for text in ("Hello", "More")] == ["a", "a"]


async def test_the_model_that_chooses_is_asked_under_the_askers_authority_and_budget() -> None:
    async with rt.ActorSystem("swarm") as system:
        members = {name: rt.Agent.spec(model="scripted:Here.") for name in ("a", "b")}
        swarm = await system.spawn(rt.Swarm, members, route=rt.ModelRouter("scripted:a"))
        eve = system.authority.mint("eve", ["tool.**"])
        with pytest.raises(rt.Denied) as caught:
            await swarm.ask("Hello", context=eve)
        assert caught.value.operation == "model.complete"
        ada = system.authority.mint("ada", ["**", rt.limit(calls=2)])
        assert (await swarm.ask("Hello", context=ada)).sender == "a"
        with pytest.raises(rt.BudgetExceeded):
            await swarm.ask("Hello", context=ada)


@pytest.mark.parametrize("face", FACES)
def test_a_swarm_is_the_same_on_each_face_of_a_system(face: str) -> None:
    def body(on: Face) -> None:
        router = on.spawn(llm.Scripted, [route("b"), route("a")])
        first = on.spawn(llm.Scripted, [over("c")])
        a = on.spawn(rt.Agent, model="scripted:I am a.", name="a")
        b = on.spawn(rt.Agent, model=first, name="b")
        swarm = on.spawn(rt.Swarm, [a, b, ("c", rt.Agent.spec(model="scripted:I am c."))], route=rt.ModelRouter(router))
        assert [on.ask(swarm, text).sender for text in ("Hello", "More")] == ["c", "a"]
        assert [member.name for member in on.ask(swarm, rt.GetMembers())] == ["a", "b", "c"]

    on_face(face, body)


async def test_all_that_a_run_sets_going_the_choice_of_a_member_included_counts_under_the_swarms_limits() -> None:
    told: list[tuple[str, llm.Complete]] = []
    async with rt.ActorSystem("swarm") as system:
        models = [await system.spawn(llm.Scripted, seen_by(name, told, [over(other)] * 9)) for name, other in ("ab", "bc", "ca")]
        members = {name: rt.Agent.spec(model=model) for name, model in zip("abc", models, strict=True)}
        router = await system.spawn(llm.Scripted, seen_by("router", told, [route("b")]))
        swarm = await system.spawn(rt.Swarm, members, route=rt.ModelRouter(router), limits=rt.TreeLimits(calls=4))
        with pytest.raises(rt.RunLimitReached) as caught:
            await swarm.ask("Hello")
        assert caught.value.limit == "tree.calls"
        assert [name for name, _ in told] == ["router", "b", "c", "a"]  # four, and the fifth is not made


# -- hooks ---------------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "sender"),
    [
        (rt.Block("not at night"), "a"),
        (rt.Replace(rt.HandOver("a", "c", "better", "Take care.")), "c"),
        (rt.Replace(rt.HandOver("a", "z")), "a"),
        (None, "b"),
    ],
    ids=["block", "target", "nobody", "none"],
)
async def test_a_hook_of_the_swarm_may_block_a_handoff_or_send_it_elsewhere(decision: Any, sender: str) -> None:
    told: list[tuple[str, llm.Complete]] = []
    seen: list[rt.HookContext] = []

    @rt.hook("on_handoff")
    def decide(context: rt.HookContext) -> Any:
        seen.append(context)
        return decision

    scripts = {"a": [over("b", "why", "what"), "I stay."], "b": ["I am b."], "c": ["I am c."]}
    async with swarm_system(scripts, told, hooks=[decide]) as (_, swarm):
        assert (await swarm.ask("Hello")).sender == sender
        assert [context.payload for context in seen] == [rt.HandOver("a", "b", "why", "what")]
        assert (seen[0].agent, seen[0].session, seen[0].subject) == ("/user/desk", "0", "root")
        last = told[-1][1].messages[-1].content
        if isinstance(decision, rt.Block):
            assert last.startswith("Your handoff to b was not carried out: not permitted: not at night.")
        elif sender == "a":
            assert "to z was not carried out: there is nobody of that name" in last
        elif sender == "c":
            assert last == "user: Hello\na: Take care."


async def test_a_route_is_seen_by_the_hooks_which_may_change_it_or_end_the_run() -> None:
    told: list[tuple[str, llm.Complete]] = []
    decisions: list[Any] = [rt.Replace(rt.HandOver("", "a", "no", "Say hello.")), rt.Block("closed")]
    hooks = [rt.PolicyHook(lambda _: decisions.pop(0), ["on_handoff"])]
    async with swarm_system({"a": ["I am a."], "b": []}, told, hooks=hooks, route=rt.Rules(("hello", "b"))) as (_, swarm):
        assert (await swarm.ask("Hello")).sender == "a"
        assert told[0][1].messages[-1].content == "Say hello."
        with pytest.raises(rt.HookBlocked, match="closed"):
            await swarm.ask("Hello")


# -- people ----------------------------------------------------------------------------------------------------------------------------------------------------


async def test_what_the_second_member_needs_a_person_for_parks_the_swarms_run_and_goes_on_with_the_right_one() -> None:
    till, told = Till(), []
    scripts = {"a": [over("b", "money")], "b": [llm.tool_calls(("pay", {"amount": 5})), "Paid.", "Anything else?"]}
    async with swarm_system(scripts, told, agents={"b": {"tools": [till.tool]}}) as (system, swarm):
        waiting = await parked(swarm, "My money!")
        assert till.paid == [] and len(waiting.requests) == 1
        with pytest.raises(rt.RunParked):
            await swarm.ask("Hello?")
        token = await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        answer = await swarm.ask(rt.Resume(waiting.run or ""), approvals=[token])
        assert (answer.sender, answer.content, till.paid) == ("b", "Paid.", [5])
        assert [name for name, _ in told] == ["a", "b", "b"]  # nobody was asked twice
        assert (await swarm.ask("Thanks")).sender == "b"
        with pytest.raises(rt.NoSuchRun):
            await swarm.ask(rt.Resume(waiting.run or ""))


async def test_a_run_that_waits_for_a_person_goes_on_as_it_was_though_members_have_changed_meanwhile() -> None:
    till, told = Till(), []
    hooked: list[str] = []
    hooks = [rt.PolicyHook(lambda context: hooked.append(context.payload.target), ["on_handoff"])]
    scripts = {"a": [over("b", "money")], "b": [llm.tool_calls(("pay", {"amount": 5})), over("c")], "c": ["I am c."], "d": ["I am d."]}
    async with swarm_system(
        scripts, told, agents={"b": {"tools": [till.tool]}}, hooks=hooks, route=rt.Rules(("money", "a"), default="d")
    ) as (system, swarm):
        waiting = await parked(swarm, "My money!")
        await swarm.ask(rt.PauseMember("a"))
        await swarm.ask(rt.RemoveMember("d"))
        await system.approvals.approve(waiting.requests[0].id, reviewer="carol")
        assert (await swarm.ask(rt.Resume(waiting.run or ""))).sender == "c"
        assert ([name for name, _ in told], hooked, till.paid) == (["a", "b", "b", "c"], ["a", "b", "c"], [5])


async def test_a_rejection_is_told_to_the_member_and_the_run_goes_on() -> None:
    till = Till()
    scripts = {"a": [over("b")], "b": [llm.tool_calls(("pay", {"amount": 5})), "I may not pay."]}
    async with swarm_system(scripts, agents={"b": {"tools": [till.tool]}}) as (system, swarm):
        waiting = await parked(swarm, "My money!")
        await system.approvals.reject(waiting.requests[0].id, reviewer="carol", note="no")
        assert (await swarm.ask(rt.Resume(waiting.run or ""))).content == "I may not pay."
        assert till.paid == []


async def test_a_streamed_run_that_is_resumed_tells_only_what_is_new() -> None:
    till = Till()
    scripts = {"a": [over("b", text="One moment.")], "b": [llm.tool_calls(("pay", {"amount": 5})), "Paid."]}
    async with swarm_system(scripts, agents={"b": {"tools": [till.tool]}}) as (system, swarm):
        *events, error = await read(swarm, "My money!")
        assert isinstance(error, rt.ApprovalRequired)
        assert any(isinstance(event, rt.HandedOff) for event in events)
        await system.approvals.approve(error.requests[0].id, reviewer="carol")
        again = await read(swarm, rt.Resume(error.run or ""))
        assert not any(isinstance(event, rt.HandedOff) for event in again)
        assert "".join(event.text for _, event in map(rt.innermost, again) if isinstance(event, rt.TextDelta)) == "Paid."
        assert isinstance(again[-1], rt.RunEnd)


# -- authority ----------------------------------------------------------------------------------------------------------------------------------------------


async def test_a_target_does_what_the_asker_may_and_no_more_than_its_own_grant_and_never_more_than_the_asker() -> None:
    done: list[str] = []

    @rt.tool
    async def act() -> str:
        """Acts."""
        done.append("done")
        return "done"

    async with rt.ActorSystem("swarm") as system:
        acting = [llm.tool_calls(("act", {})), "Over."]
        models = [await system.spawn(llm.Scripted, script) for script in ([over("narrow"), over("wide")], acting, [*acting])]
        members = {
            "a": rt.Agent.spec(model=models[0]),
            "narrow": rt.Agent.spec(model=models[1], tools=[act], grant=["model.complete"]),
            "wide": rt.Agent.spec(model=models[2], tools=[act], grant=["**"]),
        }
        swarm = await system.spawn(rt.Swarm, members, name="desk")
        await swarm.ask("Hello")  # under root
        assert done == []
        (denied,) = results(await swarm.ask(rt.GetMemory(path="narrow")))
        assert denied.error == "denied" and "tool.act" in denied.text
        eve = system.authority.mint("eve", ["model.complete"])
        assert (await swarm.ask(rt.AgentMessage("Hello", session="1"), context=eve)).sender == "wide"
        (denied,) = results(await swarm.ask(rt.GetMemory(session="1", path="wide"), context=eve))
        assert denied.error == "denied" and done == []


async def test_subjects_have_conversations_of_their_own_under_the_same_name() -> None:
    scripts = {"a": [over("b"), "I am a."], "b": ["I am b."]}
    async with swarm_system(scripts) as (system, swarm):
        ada, eve = (system.authority.mint(name, ["**"]) for name in ("ada", "eve"))
        assert (await swarm.ask("Hello", context=ada)).sender == "b"
        assert (await swarm.ask("Hello", context=eve)).sender == "a"


# -- ends --------------------------------------------------------------------------------------------------------------------------------------------------


async def test_a_cancel_in_the_middle_of_the_second_hop_stops_its_model_and_nothing_is_remembered() -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("swarm") as system:
        hanging = await system.spawn(Hanging, began, ended)
        first = await system.spawn(llm.Scripted, [over("b"), "Here again."])
        swarm = await system.spawn(rt.Swarm, {"a": rt.Agent.spec(model=first), "b": rt.Agent.spec(model=hanging)})
        async with trio.open_nursery() as nursery:

            async def asks() -> None:
                with pytest.raises(rt.RunCancelled):
                    await swarm.ask("Hello")

            nursery.start_soon(asks)
            await began.wait()
            assert await swarm.ask(rt.Cancel()) is True
        with trio.fail_after(5):
            await ended.wait()
        assert (await swarm.ask(rt.GetMemory())).items == ()
        assert (await swarm.ask(rt.GetMemory(path="b"))).items == ()
        assert (await swarm.ask("Hello")).sender == "a"  # who has it is as it was before


@pytest.mark.parametrize(
    ("guards", "limit", "seconds"),
    [
        (rt.HandoffGuards(member_seconds=20), "member_seconds", 20),
        (rt.HandoffGuards(seconds=30), "seconds", 30),
        (rt.HandoffGuards(member_seconds=50, seconds=40), "seconds", 40),
        (rt.HandoffGuards(), "member_seconds", 300),
    ],
    ids=["member", "run", "both", "default"],
)
async def test_a_member_that_does_not_answer_in_time_ends_the_run(
    autojump_clock: MockClock, guards: rt.HandoffGuards, limit: str, seconds: float
) -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("swarm") as system:
        stalling = await system.spawn(Stalling, began, ended)
        first = await system.spawn(llm.Scripted, [over("b")])
        swarm = await system.spawn(rt.Swarm, {"a": rt.Agent.spec(model=first), "b": stalling}, guards=guards)
        at = trio.current_time()
        with pytest.raises(rt.HandoffLimit) as caught:
            await swarm.ask("Hello", timeout=1000)
        assert (caught.value.limit, caught.value.way) == (limit, ("a", "b"))
        assert seconds <= trio.current_time() - at < seconds + 1
        await ended.wait()


async def test_the_askers_own_deadline_is_no_limit_of_the_swarms(autojump_clock: MockClock) -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("swarm") as system:
        stalling = await system.spawn(Stalling, began, ended)
        swarm = await system.spawn(rt.Swarm, {"b": stalling})
        with pytest.raises(rt.AskTimeout):
            await swarm.ask("Hello", timeout=5)
        await ended.wait()


async def test_two_messages_of_one_session_are_answered_one_after_the_other() -> None:
    order: list[str] = []
    began = trio.Event()

    async def work(what: str) -> str:
        """Works.

        Args:
            what: At what.
        """
        order.append(f"{what} begins")
        began.set()
        await trio.sleep(0.01)
        order.append(f"{what} ends")
        return what

    def model(request: llm.Complete) -> Any:
        last = request.messages[-1]
        return f"done {last.content}" if last.role == "tool" else llm.tool_calls(("work", {"what": last.content}))

    async with swarm_system({"a": [model] * 4, "b": []}, agents={"a": {"tools": [work]}}) as (_, swarm):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(swarm.ask, "one")
            await began.wait()
            nursery.start_soon(swarm.ask, "two")
        assert order == ["one begins", "one ends", "two begins", "two ends"]


async def test_two_hundred_sessions_at_once_do_not_bleed_into_each_other() -> None:
    def hand_on(request: llm.Complete) -> Any:
        (said,) = [message.content for message in request.messages if message.role == "user"]
        return over("b" if int(said.partition(" ")[2]) % 2 else "c", message=f"note of {said}")

    def answers(request: llm.Complete) -> str:
        return request.messages[-1].content

    async with swarm_system({"a": [hand_on] * 200, "b": [answers] * 300, "c": [answers] * 300}) as (_, swarm):
        found: dict[int, list[tuple[str, str]]] = {}

        async def talk(number: int) -> None:
            session = f"s{number}"
            first = await swarm.ask(rt.AgentMessage(f"secret {number}", session=session))
            second = await swarm.ask(rt.AgentMessage(f"again {number}", session=session))
            found[number] = [(first.sender, first.content), (second.sender, second.content)]

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(talk, number)
        for number, answered in found.items():
            who = "b" if number % 2 else "c"
            told = f"user: secret {number}\na: note of secret {number}"
            assert answered == [(who, told), (who, f"again {number}")]
