"""Parked runs under bad luck: readers that leave, models that fail, people who edit. What was done stays known, and is not done again."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import annotated_types as at
import attrs
import pytest
import trio

import retinue as rt
from agent_players import agent_system, calls, read, results
from retinue import llm


class Till:
    """Tools that note what they did; `send` needs a person."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @rt.tool(approval=True)
        async def send(to: str) -> str:
            """Sends.

            Args:
                to: Whom.
            """
            self.done.append(f"sent {to}")
            return f"sent to {to}"

        async def pay(amount: int) -> str:
            """Pays.

            Args:
                amount: How much.
            """
            self.done.append(f"paid {amount}")
            return f"paid {amount}"

        self.tools = [send, pay]


def to(name: str) -> tuple[str, dict[str, Any]]:
    return "send", {"to": name}


async def parked(agent: Any, message: Any, **options: Any) -> rt.ApprovalRequired:
    with pytest.raises(rt.ApprovalRequired) as caught:
        await agent.ask(message, **options)
    return caught.value


async def test_a_reader_who_leaves_while_hooks_look_at_the_resumption_leaves_the_run_parked() -> None:
    till, looking = Till(), trio.Event()
    left: list[bool] = []

    @rt.hook("on_resume")
    async def slow(_: rt.HookContext) -> None:
        if not left:
            looking.set()
            await trio.sleep(60)

    script = [llm.tool_calls(("pay", {"amount": 1}), to("bob")), "Done."]
    async with agent_system(script, tools=till.tools, hooks=[slow]) as (system, agent):
        waiting = await parked(agent, "go")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, agent, rt.Resume(waiting.run))
            await looking.wait()
            nursery.cancel_scope.cancel()
        assert (await agent.ask(rt.GetMemory())).items == ()
        left.append(True)
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
        assert [step.text for step in results(await agent.ask(rt.GetMemory()))] == ["paid 1", "sent to bob"]
    assert till.done == ["paid 1", "sent bob"]


@pytest.mark.parametrize("window", [1, 32])
async def test_a_reader_who_leaves_where_a_person_is_needed_leaves_the_run_parked(window: int) -> None:
    till = Till()
    async with agent_system([llm.tool_calls(to("bob")), "Done."], tools=till.tools) as (system, agent):
        run = ""
        async with agent.stream("go", window=window) as events:
            async for event in events:
                if isinstance(event, rt.ApprovalNeeded):
                    run = event.run
                    await system.approvals.approve(event.requests[0].id, reviewer="carol")
                    break
        assert (await agent.ask(rt.Resume(run))).content == "Done."
    assert till.done == ["sent bob"]


async def test_calls_after_the_approved_one_are_not_made_again_when_the_model_fails_after_them() -> None:
    till = Till()
    script = [
        llm.tool_calls(to("bob")),
        llm.tool_calls(("pay", {"amount": 5})),
        llm.ModelFailed("down", status=503),
        llm.ModelFailed("down", status=503),
        "Done.",
    ]
    async with agent_system(script, tools=till.tools) as (system, agent):
        waiting = await parked(agent, "go")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        for _ in range(2):
            with pytest.raises(llm.ModelFailed):
                await agent.ask(rt.Resume(waiting.run))
        reply = await agent.ask(rt.Resume(waiting.run))
        assert (reply.content, reply.usage.requests) == ("Done.", 3)
        assert [step.text for step in results(await agent.ask(rt.GetMemory()))] == ["sent to bob", "paid 5"]
    assert till.done == ["sent bob", "paid 5"]


async def test_a_call_after_the_approved_one_that_was_interrupted_is_not_made_again_either() -> None:
    till, began = Till(), trio.Event()

    async def launch() -> str:
        """Launches."""
        till.done.append("launched")
        began.set()
        await trio.sleep(60)
        return "never"

    script = [llm.tool_calls(to("bob")), llm.tool_calls(("pay", {"amount": 5}), ("launch", {})), "Done."]
    async with agent_system(script, tools=[*till.tools, launch]) as (system, agent):
        waiting = await parked(agent, "go")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.ask, rt.Resume(waiting.run))
            await began.wait()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
        assert [step.error for step in results(await agent.ask(rt.GetMemory()))] == [None, None, "outcome_unknown"]
    assert sorted(till.done) == ["launched", "paid 5", "sent bob"]


async def test_the_limits_hold_over_all_resumptions_of_a_run() -> None:
    till = Till()
    script = [llm.tool_calls(to("bob")), *[llm.ModelFailed("down", status=503)] * 2]
    async with agent_system(script, tools=till.tools, limits=rt.RunLimits(model_calls=3)) as (system, agent):
        waiting = await parked(agent, "go")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        for _ in range(2):
            with pytest.raises(llm.ModelFailed):
                await agent.ask(rt.Resume(waiting.run))
        with pytest.raises(rt.RunLimitReached, match="model_calls"):
            await agent.ask(rt.Resume(waiting.run))


@pytest.mark.parametrize("wait", [False, True])
async def test_a_policy_hook_sees_what_a_person_has_changed(wait: bool) -> None:
    till = Till()

    def nothing_to_eve(context: rt.HookContext) -> object:
        return rt.Block("nothing to Eve") if context.arguments.get("to") == "eve" else None

    script = [llm.tool_calls(to("bob")), "I may not."]
    async with agent_system(script, tools=till.tools, hooks=[rt.PolicyHook(nothing_to_eve, ["before_tool_call"])]) as (system, agent):
        answer, step = await decided(system, agent, wait, {"to": "eve"})
    assert answer == "I may not." and till.done == []
    assert (step.error, "nothing to Eve" in step.text) == ("denied", True)


async def test_what_a_hook_makes_of_an_edit_is_asked_anew_for_nobody_has_approved_it() -> None:
    till = Till()

    def to_all(context: rt.HookContext) -> object:
        return rt.Replace({"to": "all"}) if context.arguments.get("to") == "eve" else None

    async with agent_system([llm.tool_calls(to("bob")), "Done."], tools=till.tools, hooks=[rt.hook("before_tool_call")(to_all)]) as (
        system,
        agent,
    ):
        waiting = await parked(agent, "go")
        edited = await system.approvals.edit(waiting.request.id, {"to": "eve"}, reviewer="carol")
        token = await system.approvals.approve(edited.id, reviewer="carol")
        again = await parked(agent, rt.Resume(waiting.run), approvals=[token])
        assert again.request.arguments["to"] == "all" and till.done == []
        await system.approvals.approve(again.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
    assert till.done == ["sent all"]


async def test_an_approval_that_was_spent_before_leaves_the_call_waiting_for_its_own() -> None:
    till = Till()
    async with agent_system([llm.tool_calls(to("bob")), "Done.", llm.tool_calls(to("bob")), "Done again."], tools=till.tools) as (
        system,
        agent,
    ):
        first = await parked(agent, "go")
        token = await system.approvals.approve(first.request.id, reviewer="carol")
        await agent.ask(rt.Resume(first.run), approvals=[token])
        second = await parked(agent, "and again")
        still = await parked(agent, rt.Resume(second.run), approvals=[token])
        assert (still.run, still.request.id) == (second.run, second.request.id) and till.done == ["sent bob"]
        await system.approvals.approve(second.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(second.run), approvals=[token])).content == "Done again."
    assert till.done == ["sent bob"] * 2


async def test_one_approval_for_two_calls_that_are_the_same_does_one_of_them_and_the_other_is_asked_anew() -> None:
    till = Till()
    async with agent_system([llm.tool_calls(to("bob"), to("bob")), "Done."], tools=till.tools) as (system, agent):
        waiting = await parked(agent, "go")
        asked = {request.id for request in waiting.requests}
        assert len(asked) == 1
        token = await system.approvals.approve(*asked, reviewer="carol")
        again = await parked(agent, rt.Resume(waiting.run), approvals=[token])
        assert till.done == ["sent bob"] and again.request.id not in asked
        await system.approvals.approve(again.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
    assert till.done == ["sent bob"] * 2


async def test_two_calls_that_are_the_same_and_wait_within_their_run_are_approved_one_by_one() -> None:
    till = Till()
    async with (
        agent_system([llm.tool_calls(to("bob"), to("bob")), "Done."], tools=till.tools, wait_for_approvals=True) as (system, agent),
        trio.open_nursery() as nursery,
    ):

        async def approve() -> None:
            while True:
                for request in await system.approvals.pending():
                    await system.approvals.approve(request.id, reviewer="carol")
                await trio.sleep(0.005)

        nursery.start_soon(approve)
        assert (await agent.ask("go", timeout=20)).content == "Done."
        nursery.cancel_scope.cancel()
    assert till.done == ["sent bob"] * 2


async def decided(system: Any, agent: Any, wait: bool, changes: dict[str, Any]) -> tuple[str, rt.Step]:
    """What an agent answers after its call was edited and approved, and the result of the call."""
    answer = ""
    if wait:
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                nonlocal answer
                answer = (await agent.ask(rt.Run("go", wait_for_approvals=True))).content

            nursery.start_soon(ask)
            with trio.fail_after(5):
                while not (pending := await system.approvals.pending()):
                    await trio.sleep(0.005)
            edited = await system.approvals.edit(pending[0].id, changes, reviewer="carol")
            await system.approvals.approve(edited.id, reviewer="carol")
    else:
        waiting = await parked(agent, "go")
        edited = await system.approvals.edit(waiting.request.id, changes, reviewer="carol")
        await system.approvals.approve(edited.id, reviewer="carol")
        answer = (await agent.ask(rt.Resume(waiting.run))).content
    return answer, results(await agent.ask(rt.GetMemory()))[-1]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Item:
    name: str
    sizes: tuple[int, ...] = ()


class Shop:
    """A tool whose arguments are no plain data."""

    def __init__(self) -> None:
        self.bought: list[Any] = []

        @rt.tool(approval=True)
        async def buy(item: Item, colour: Colour, count: Annotated[int, at.Le(10)]) -> str:
            """Buys.

            Args:
                item: What.
                colour: In which colour.
                count: How many.
            """
            self.bought.append((item, colour, count))
            return "bought"

        self.tools = [buy]
        self.call = llm.tool_calls(("buy", {"item": {"name": "hat", "sizes": [1, 2]}, "colour": "red", "count": 1}))


@pytest.mark.parametrize("wait", [False, True])
async def test_a_call_with_objects_among_its_arguments_can_be_edited_and_carried_out(wait: bool) -> None:
    shop = Shop()
    async with agent_system([shop.call, "Done."], tools=shop.tools) as (system, agent):
        answer, step = await decided(system, agent, wait, {"count": 4})
    assert answer == "Done." and shop.bought == [(Item("hat", (1, 2)), Colour.RED, 4)]
    assert '"colour": "red"' in step.text and '"name": "hat"' in step.text


@pytest.mark.parametrize("wait", [False, True])
async def test_an_edit_is_checked_by_the_tools_own_types(wait: bool) -> None:
    shop = Shop()
    async with agent_system([shop.call, "I cannot."], tools=shop.tools) as (system, agent):
        answer, step = await decided(system, agent, wait, {"count": 99})
    assert answer == "I cannot." and shop.bought == []
    assert step.error == "arguments" and "count" in step.text


async def test_a_tool_of_one_run_may_not_be_named_as_that_by_which_the_model_answers() -> None:
    async def final_result(n: int) -> int:
        """Looks like the answer."""
        return n

    async with agent_system([calls("final_result")], output=Item) as (_, agent):
        with pytest.raises(rt.DefinitionError, match="final_result"):
            await agent.ask(rt.Run("go", tools=[final_result]))


async def test_sessions_with_a_parked_run_are_the_last_to_be_forgotten() -> None:
    till = Till()

    def script(request: llm.Complete) -> Any:
        last = request.messages[-1]
        return "Done." if last.role == "tool" or last.content == "talk" else llm.tool_calls(to(last.content))

    async with agent_system(script, tools=till.tools, sessions=16) as (system, agent):
        waiting = [await parked(agent, rt.AgentMessage(f"w{number}", session=f"w{number}")) for number in range(12)]
        for number in range(8):
            await agent.ask(rt.AgentMessage("talk", session=f"t{number}"))
        kept = [len((await agent.ask(rt.GetMemory(f"t{number}"))).items) for number in range(8)]
        assert kept == [0] * 4 + [2] * 4
        for each in (waiting[0], waiting[-1]):
            await system.approvals.approve(each.request.id, reviewer="carol")
            assert (await agent.ask(rt.Resume(each.run))).content == "Done."
    assert till.done == ["sent w0", "sent w11"]


async def test_hooks_on_errors_are_not_asked_about_a_run_that_is_parked_and_are_about_a_limit() -> None:
    seen: list[str] = []

    @rt.hook("on_error")
    def mask(context: rt.HookContext) -> object:
        seen.append(type(context.payload).__name__)
        return rt.Replace(ValueError("sorry"))

    till = Till()
    async with agent_system([llm.tool_calls(to("bob")), "Done."], tools=till.tools, hooks=[mask]) as (system, agent):
        waiting = await parked(agent, "go")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done." and seen == []
    async with agent_system([calls("pay")], tools=till.tools, hooks=[mask], limits=rt.RunLimits(tool_calls=0)) as (_, agent):
        with pytest.raises(ValueError, match="sorry"):
            await agent.ask("go")
        assert seen == ["RunLimitReached"] and (await agent.ask(rt.GetMemory())).messages[-1].partial


async def test_a_resumed_call_that_was_interrupted_is_not_done_twice_where_its_consent_was_given_in_advance() -> None:
    ran: list[str] = []
    began = trio.Event()

    @rt.tool(approval=True)
    async def slow(to: str) -> str:
        """Is slow.

        Args:
            to: Whom.
        """
        ran.append(to)
        began.set()
        await trio.sleep(60)
        return "never"

    async with agent_system([llm.tool_calls(("slow", {"to": "bob"})), "Done."], tools=[slow]) as (system, agent):
        ada = system.authority.mint("ada", ["**"])
        waiting = await parked(agent, "go", context=ada)
        await system.approvals.always_allow("tool.slow", reviewer="carol", subject="ada", open=True, expires_seconds=3_600)
        async with trio.open_nursery() as nursery:

            async def resume() -> None:
                await agent.ask(rt.Resume(waiting.run), context=ada)

            nursery.start_soon(resume)
            await began.wait()
            nursery.cancel_scope.cancel()
        assert (await agent.ask(rt.Resume(waiting.run), context=ada)).content == "Done."
        assert [step.error for step in results(await agent.ask(rt.GetMemory(), context=ada))] == ["outcome_unknown"]
    assert ran == ["bob"]


async def test_a_result_that_a_hook_kept_back_is_known_when_the_run_goes_on_and_hooks_are_asked_about_it_again() -> None:
    till, looked = Till(), []

    @rt.hook("after_tool_result")
    def once(context: rt.HookContext) -> object:
        looked.append(context.payload.text)
        return rt.Block("not yet") if len(looked) == 1 else None

    async with agent_system([llm.tool_calls(to("bob")), "Done."], tools=till.tools, hooks=[once]) as (system, agent):
        waiting = await parked(agent, "go")
        await system.approvals.approve(waiting.request.id, reviewer="carol")
        with pytest.raises(rt.HookBlocked):
            await agent.ask(rt.Resume(waiting.run))
        assert (await agent.ask(rt.Resume(waiting.run))).content == "Done."
        assert [step.text for step in results(await agent.ask(rt.GetMemory()))] == ["sent to bob"]
    assert till.done == ["sent bob"] and looked == ["sent to bob"] * 2
