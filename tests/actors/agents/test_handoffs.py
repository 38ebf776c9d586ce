"""A run that hands its conversation over: the tool that its model sees, and what becomes of the call."""

from __future__ import annotations

import ast
import inspect
import json
from typing import Any

import attrs
import pytest
import trio

import retinue as rt
from agent_players import Hanging, agent_system, calls, read, results, said_to
from retinue import llm
from retinue.actors.agents.handoffs import HANDOFF, handoffs_of
from retinue.mailbox.wire import WireRegistry


def over(target: str, reason: str = "", message: str = "", text: str = "") -> llm.Completion:
    """A reply that hands over."""
    return llm.tool_calls((f"transfer_to_{target}", {"reason": reason, "message": message}), text=text)


def add(a: int, b: int) -> int:
    """Adds.

    Args:
        a: One number.
        b: The other.
    """
    return a + b


class Post:
    """A tool that needs a person."""

    def __init__(self) -> None:
        self.sent: list[str] = []

        async def send(to: str) -> str:
            """Sends.

            Args:
                to: Whom.
            """
            self.sent.append(to)
            return f"sent to {to}"

        self.tool = rt.tool(approval=True)(send)


async def test_a_model_that_calls_the_tool_of_a_handoff_ends_the_run_by_it() -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, over("billing", "money", text="I send you on."))) as (_, agent):
        answer = await agent.ask(rt.Run("Hello", handoffs=[rt.Handoff("billing", "Invoices and refunds"), "support"]))
        assert (answer.type, answer.receiver, answer.content, answer.extra) == (HANDOFF, "billing", "I send you on.", {"reason": "money"})
        assert [tool.name for tool in told[0].tools] == ["transfer_to_billing", "transfer_to_support"]
        assert told[0].tools[0].description == "Hand the conversation over to billing. Invoices and refunds"
        assert set(json.loads(told[0].tools[0].parameters)["properties"]) == {"reason", "message"}


async def test_what_the_next_one_is_told_is_what_the_model_says_to_it_or_said_or_at_least_why() -> None:
    script = [over("b", "money", "Refund him.", text="One moment."), over("b", "money", text="One moment."), over("b", "money"), over("b")]
    async with agent_system(script) as (_, agent):
        contents = [(await agent.ask(rt.Run("Hello", handoffs=["b"]))).content for _ in script]
        assert contents == ["Refund him.", "One moment.", "Handed over to b: money", "Handed over to b"]


async def test_memory_holds_a_result_for_each_call_and_the_next_request_is_a_valid_one() -> None:
    told: list[llm.Complete] = []
    script = said_to(told, over("billing", text="I send you on."), "Back again.")
    async with agent_system(script) as (_, agent):
        await agent.ask(rt.Run("Hello", handoffs=["billing"]))
        assert (await agent.ask("And now?")).content == "Back again."
        assert [message.role for message in told[1].messages] == ["user", "assistant", "tool", "assistant", "user"]
        assert told[1].messages[2].content == "handed over to billing"
        assert told[1].tools == ()  # the handoffs were those of one run


async def test_of_two_handoffs_in_one_reply_the_first_counts_and_the_other_is_told_so() -> None:
    script = [llm.tool_calls(("transfer_to_b", {"reason": "second in the list"}), ("transfer_to_a", {}))]
    async with agent_system(script) as (_, agent):
        answer = await agent.ask(rt.Run("Hello", handoffs=["a", "b"]))
        assert answer.receiver == "b"
        first, second = results(await agent.ask(rt.GetMemory()))
        assert (first.ok, second.ok, second.error) == (True, False, "cancelled")
        assert "handed over to b in the same reply" in second.text


async def test_the_other_calls_of_the_reply_are_carried_out_first() -> None:
    order: list[str] = []

    async def slow(name: str) -> str:
        """Works.

        Args:
            name: What it is called.
        """
        await trio.sleep(0.01)
        order.append(name)
        return name

    @rt.hook("on_handoff")
    def note(context: rt.HookContext) -> None:
        order.append(context.payload.target)

    script = [llm.tool_calls(("transfer_to_b", {}), ("slow", {"name": "one"}), ("slow", {"name": "two"}))]
    async with agent_system(script, tools=[slow], hooks=[note]) as (_, agent):
        assert (await agent.ask(rt.Run("Hello", handoffs=["b"]))).receiver == "b"
        assert sorted(order[:2]) == ["one", "two"] and order[2] == "b"
        assert [step.text for step in results(await agent.ask(rt.GetMemory()))] == ["handed over to b", "one", "two"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("transfer_to_nobody", {}), "there is no tool 'transfer_to_nobody'"),
        (("transfer_to_b", '{"reason": '), "no JSON"),
        (("transfer_to_b", {"reason": ["no", "text"]}), "reason"),
        (("transfer_to_b", {"whom": "c"}), "whom"),
    ],
    ids=["unknown", "broken", "misfit", "other"],
)
async def test_a_handoff_that_is_called_wrongly_is_an_error_for_the_model_and_the_run_goes_on(call: Any, told: str) -> None:
    async with agent_system([llm.tool_calls(call), "Then I answer myself."], tools=[add]) as (_, agent):
        answer = await agent.ask(rt.Run("Hello", handoffs=["b"]))
        assert (answer.type, answer.content) == (None, "Then I answer myself.")
        (result,) = results(await agent.ask(rt.GetMemory()))
        assert not result.ok and told in result.text
        assert result.error == ("unknown" if "nobody" in call[0] else "arguments")
        if "nobody" in call[0]:
            assert "transfer_to_b" in result.text and "add" in result.text  # the names that there are


async def test_without_handoffs_such_a_tool_is_an_unknown_one() -> None:
    async with agent_system([over("b"), "I stay."]) as (_, agent):
        assert (await agent.ask("Hello")).content == "I stay."
        assert results(await agent.ask(rt.GetMemory()))[0].error == "unknown"


async def test_a_handoff_that_is_called_as_a_tool_of_the_agent_is_refused_before_the_run() -> None:
    def transfer_to_b() -> str:
        """A tool of that name."""
        return "no"

    async with agent_system(["never said"], tools=[transfer_to_b]) as (_, agent):
        with pytest.raises(rt.DefinitionError, match=r"'transfer_to_b', and a tool of the agent has that name.*tool_name="):
            await agent.ask(rt.Run("Hello", handoffs=["b"]))
        assert (await agent.ask(rt.Run("Hello", handoffs=[rt.Handoff("b", tool_name="to_b")]))).content == "never said"
    async with agent_system(["never said"]) as (_, agent):
        with pytest.raises(rt.DefinitionError, match="two tools are named 'transfer_to_b'"):
            await agent.ask(rt.Run("Hello", handoffs=["b"], tools=[transfer_to_b]))
        assert (await agent.ask(rt.GetMemory())).items == ()


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ("billing", TypeError, "give a sequence"),
        (3, TypeError, "give a sequence"),
        ([3], TypeError, "holds a int"),
        ([""], ValueError, "1 to 128"),
        (["x" * 129], ValueError, "1 to 128"),
        (["a b", "a_b"], ValueError, "both called by 'transfer_to_a_b'"),
        (["b", "b"], ValueError, "both called by"),
        ([f"m{i}" for i in range(129)], ValueError, "more than 128"),
    ],
    ids=["str", "int", "holds", "empty", "long", "alike", "twice", "many"],
)
def test_what_are_no_handoffs_is_refused_where_the_run_is_made(given: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        rt.Run("Hello", handoffs=given)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"target": 3}, TypeError),
        ({"target": "a", "description": None}, TypeError),
        ({"target": "a", "tool_name": "no blanks"}, ValueError),
    ],
    ids=["target", "description", "tool_name"],
)
def test_what_is_no_handoff_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="Handoff"):
        rt.Handoff(**fields)


def test_every_target_has_a_name_that_providers_take_and_no_two_that_lose_letters_share_one() -> None:
    names = ["billing", "billing desk", "财务", "会计", "é", "x" * 64, "x" * 63 + "y"]
    tools = [handoff.tool_name for handoff in handoffs_of(names)]
    assert tools[:2] == ["transfer_to_billing", "transfer_to_billing_desk"]
    assert all(name.isascii() and len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in tools)
    assert len(set(tools)) == len(tools)


async def test_a_streamed_run_tells_of_the_handoff_and_ends_with_it() -> None:
    script = [llm.tool_calls(("transfer_to_b", {"reason": "r"}), ("transfer_to_c", {}), text="On you go.")]
    async with agent_system(script) as (_, agent):
        events = await read(agent, rt.Run("Hello", handoffs=["b", "c"]))
        tools = [(event.name, event.ok) for event in events if isinstance(event, rt.ToolFinished)]
        assert tools == [("transfer_to_b", True), ("transfer_to_c", False)]
        assert [event.name for event in events if isinstance(event, rt.ToolStarted)] == ["transfer_to_b", "transfer_to_c"]
        assert isinstance(events[-1], rt.RunEnd) and events[-1].message.receiver == "b"
        assert "".join(event.text for event in events if isinstance(event, rt.TextDelta)) == "On you go."


async def test_a_handoff_waits_for_the_person_for_whom_a_call_beside_it_waits() -> None:
    post = Post()
    script = [llm.tool_calls(("transfer_to_b", {"reason": "r"}), ("send", {"to": "bob"}), ("transfer_to_c", {}))]
    async with agent_system(script, tools=[post.tool]) as (system, agent):
        with pytest.raises(rt.ApprovalRequired, match="send needs a person's approval") as caught:
            await agent.ask(rt.Run("Hello", handoffs=["b", "c"]))
        required = caught.value
        assert "transfer_to" not in str(required) and len(required.requests) == 1
        token = await system.approvals.approve(required.requests[0].id, reviewer="carol")
        answer = await agent.ask(rt.Resume(required.run or ""), approvals=[token])
        assert (answer.receiver, post.sent) == ("b", ["bob"])
        assert [(step.tool, step.ok) for step in results(await agent.ask(rt.GetMemory()))] == [
            ("transfer_to_b", True),
            ("send", True),
            ("transfer_to_c", False),
        ]


async def test_a_resumed_run_whose_end_fails_is_resumed_with_its_handoff_once_more() -> None:
    post, failing = Post(), [True]

    def once(context: rt.HookContext) -> object:
        return rt.Block("not yet") if failing.pop() else None

    script = [llm.tool_calls(("send", {"to": "bob"}), ("transfer_to_b", {}))]
    hooks = [rt.PolicyHook(once, ["after_run"])]
    async with agent_system(script, tools=[post.tool], hooks=hooks) as (system, agent):
        with pytest.raises(rt.ApprovalRequired) as caught:
            await agent.ask(rt.Run("Hello", handoffs=["b"]))
        run = caught.value.run or ""
        await system.approvals.approve(caught.value.requests[0].id, reviewer="carol")
        with pytest.raises(rt.HookBlocked):
            await agent.ask(rt.Resume(run))
        failing.append(False)
        assert (await agent.ask(rt.Resume(run))).receiver == "b"
        assert post.sent == ["bob"]  # once


@pytest.mark.parametrize(
    ("decision", "receiver", "told"),
    [
        (rt.Block("not at night"), None, "not permitted: not at night"),
        (rt.Replace(rt.HandOver("agent", "c", "r", "m")), "c", "handed over to c"),
        (rt.Replace(rt.HandOver("agent", "z")), None, "there are only b, c"),
        (rt.Replace("Be kind."), "b", "handed over to b"),
        (rt.Continue(), "b", "handed over to b"),
    ],
    ids=["block", "target", "nobody", "message", "continue"],
)
async def test_a_hook_may_block_a_handoff_or_change_its_target_and_message(decision: Any, receiver: str | None, told: str) -> None:
    seen: list[rt.HandOver] = []

    @rt.hook("on_handoff")
    def decide(context: rt.HookContext) -> Any:
        seen.append(context.payload)
        return decision

    async with agent_system([over("b", "why", "what"), "I stay."], hooks=[decide]) as (_, agent):
        answer = await agent.ask(rt.Run("Hello", handoffs=["b", "c"]))
        assert seen == [rt.HandOver("agent", "b", "why", "what")]
        assert (answer.receiver, answer.content) == (
            receiver,
            {None: "I stay.", "c": "m", "b": "Be kind." if isinstance(decision, rt.Replace) else "what"}[receiver],
        )
        assert told in results(await agent.ask(rt.GetMemory()))[0].text


async def test_a_hook_cannot_say_that_another_hands_over() -> None:
    hooks = [rt.PolicyHook(lambda _: rt.Replace(rt.HandOver("somebody", "b")), ["on_handoff"])]
    async with agent_system([over("b"), "I stay."], hooks=hooks) as (_, agent):
        assert (await agent.ask(rt.Run("Hello", handoffs=["b"]))).content == "I stay."


async def test_a_hook_before_tool_calls_sees_a_handoff_as_a_call_and_may_block_it() -> None:
    hooks = [rt.PolicyHook(lambda context: rt.Block("no") if context.payload.name == "transfer_to_b" else None, ["before_tool_call"])]
    async with agent_system([over("b"), over("c")], hooks=hooks) as (_, agent):
        assert (await agent.ask(rt.Run("Hello", handoffs=["b", "c"]))).receiver == "c"
        assert results(await agent.ask(rt.GetMemory()))[0].text == "not permitted: no"


def test_a_run_with_handoffs_crosses_the_border_of_a_process() -> None:
    wire = WireRegistry()
    wire.register(rt.Run)
    run = rt.Run("Hello", handoffs=["a", rt.Handoff("b", "Knows it.", "to_b")])
    assert wire.decode(wire.encode(run)) == run
    with pytest.raises(rt.WireError):
        wire.decode(wire.encode(run).replace(b"to_b", b"no such name"))


async def test_guardrails_at_the_output_see_what_is_handed_over() -> None:
    async with agent_system(
        [over("b", "key sk-1234567890abcdef1234", "The key is sk-1234567890abcdef1234")], guardrails=[rt.output_redaction()]
    ) as (
        _,
        agent,
    ):
        answer = await agent.ask(rt.Run("Hello", handoffs=["b"]))
        assert "sk-1234567890" not in answer.content and "sk-1234567890" not in answer.extra["reason"]


async def test_a_handoff_counts_as_a_tool_call_under_the_limits() -> None:
    async with agent_system([over("b")]) as (_, agent):
        with pytest.raises(rt.RunLimitReached) as caught:
            await agent.ask(rt.Run("Hello", handoffs=["b"], limits=rt.RunLimits(tool_calls=0)))
        assert caught.value.limit == "tool_calls"
        assert results(await agent.ask(rt.GetMemory()))[0].ok is False


async def test_an_answer_of_the_output_type_goes_before_a_handoff_in_the_same_reply() -> None:
    script = [llm.tool_calls(("transfer_to_b", {}), ("final_result", {"value": 3})), over("b")]
    async with agent_system(script, output=int, output_mode="tool") as (_, agent):
        assert (await agent.ask(rt.Run("Hello", handoffs=["b"]))).formatted == 3
        answer = await agent.ask(rt.Run("Hello", handoffs=["b"]))
        assert (answer.receiver, answer.formatted) == ("b", None)


async def test_a_model_that_writes_its_calls_into_its_text_is_told_of_the_handoffs_and_can_make_one() -> None:
    told: list[llm.Complete] = []
    text = '<|action_start|><|plugin|>\n{"name": "transfer_to_b", "parameters": {"reason": "r"}}<|action_end|>'
    async with agent_system(said_to(told, text), parser=rt.PluginParser()) as (_, agent):
        answer = await agent.ask(rt.Run("Hello", handoffs=[rt.Handoff("b", "Knows it.")]))
        assert answer.receiver == "b"
        assert "transfer_to_b(reason, message): Hand the conversation over to b. Knows it." in told[0].messages[0].content


async def test_what_the_caller_does_to_the_answer_changes_nothing_in_memory() -> None:
    async with agent_system([over("b", "why")]) as (_, agent):
        answer = await agent.ask(rt.Run("Hello", handoffs=["b"]))
        answer.extra["reason"] = "changed"
        last = (await agent.ask(rt.GetMemory())).messages[-1]
        assert last.extra == {"reason": "why"}
        state = await agent.ask(rt.GetState())
        await agent.ask(rt.LoadState(state, session="1"))
        assert (await agent.ask(rt.GetMemory(session="1"))).messages[-1].receiver == "b"


async def test_a_run_that_is_cancelled_while_its_other_calls_go_on_hands_nothing_over() -> None:
    began, ended = trio.Event(), trio.Event()

    async def work() -> str:
        """Works."""
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        return ""

    async with agent_system([llm.tool_calls(("transfer_to_b", {}), ("work", {}))], tools=[work]) as (_, agent):
        async with trio.open_nursery() as nursery:

            async def asks() -> None:
                with pytest.raises(rt.RunCancelled):
                    await agent.ask(rt.Run("Hello", handoffs=["b"]))

            nursery.start_soon(asks)
            await began.wait()
            assert await agent.ask(rt.Cancel()) is True
        assert ended.is_set() and (await agent.ask(rt.GetMemory())).items == ()


async def test_sessions_at_once_with_handoffs_of_their_own_do_not_see_those_of_others() -> None:
    def answer(request: llm.Complete) -> llm.Completion:
        return calls(request.tools[0].name)

    async with agent_system([answer] * 60) as (_, agent):
        found: dict[int, str] = {}

        async def one(number: int) -> None:
            run = rt.Run(rt.AgentMessage("Hello", session=str(number)), handoffs=[f"target{number}"])
            found[number] = (await agent.ask(run)).receiver

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(one, number)
        assert found == {number: f"target{number}" for number in range(60)}


async def test_a_streamed_run_with_handoffs_that_is_left_keeps_what_was_said() -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("agents") as system:
        model = await system.spawn(Hanging, began, ended, ("well",))
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        async with agent.stream(rt.Run("Hello", handoffs=["b"])) as events:
            async for event in events:
                assert event == rt.TextDelta("well")
                break
        memory = await agent.ask(rt.GetMemory())
        assert memory.messages[-1].partial and memory.messages[-1].type is None


def test_what_type_checkers_are_told_of_a_run_is_what_it_takes() -> None:
    tree = ast.parse(inspect.getsource(inspect.getmodule(rt.Run)))  # type: ignore[arg-type]
    made = next(each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and each.name == "Run")
    (init,) = [each for each in ast.walk(made) if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    told = [argument.arg for argument in init.args.args[1:]]
    assert told == [field.name for field in attrs.fields(rt.Run)] and len(init.args.defaults) == len(told) - 1
