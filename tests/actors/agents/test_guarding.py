"""Guardrails of an agent: at the input, before tools and at the output, asked and streamed alike."""

from __future__ import annotations

import dataclasses
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

import retinue as rt
from agent_players import agent_system, read, results, said_to
from retinue import llm
from retinue.actors.agents.guarding import NO_GUARDS, compile_guardrails

sent: list[int] = []
BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])


def send(amount: int) -> str:
    """Sends money."""
    sent.append(amount)
    return f"sent {amount}"


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    sent.clear()


async def asked(agent: Any, streamed: bool, message: Any = "hi") -> Any:
    if streamed:
        last = (await read(agent, message))[-1]
        return last.message if isinstance(last, rt.RunEnd) else last
    try:
        return await agent.ask(message)
    except rt.AgentError as error:
        return error


# -- by themselves ---------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [0, 1, [], {}, {"allowed": True}, b"", rt.Replace(3), rt.Replace(None)])
async def test_an_answer_that_is_no_decision_blocks(answer: Any) -> None:
    """LightAgent: 0, [] and {} allowed, and replaced the text."""
    guards = compile_guardrails([rt.guardrail("output", name="odd")(lambda _: answer)])
    with pytest.raises(rt.GuardrailBlocked, match="fails closed") as caught:
        await guards.output("text")
    assert (caught.value.stage, caught.value.guardrail) == ("output", "odd")


async def test_what_a_guardrail_raises_blocks_and_its_text_stays_inside() -> None:
    def broken(_: rt.Guarded) -> None:
        raise ValueError("the card is 4111")

    for stage in ("input", "output"):
        guards = compile_guardrails([rt.guardrail(stage)(broken)])
        with pytest.raises(rt.GuardrailBlocked, match="ValueError") as caught:
            await (guards.output("x") if stage == "output" else guards.input(rt.AgentMessage("x")))
        assert "4111" not in str(caught.value)


async def test_a_guardrail_that_hangs_blocks(autojump_clock: MockClock) -> None:
    @rt.guardrail("input", timeout=2)
    async def hangs(_: rt.Guarded) -> None:
        await trio.sleep_forever()

    with pytest.raises(rt.GuardrailBlocked, match="time-out after 2 s"):
        await compile_guardrails([hangs]).input(rt.AgentMessage("x"))


async def test_allowing_replacing_and_blocking() -> None:
    async def louder(asked: rt.Guarded) -> Any:
        await trio.lowlevel.checkpoint()
        return rt.Replace(asked.text.upper())

    guards = compile_guardrails(
        [rt.guardrail("output")(lambda _: None), rt.guardrail("output")(louder), rt.guardrail("output")(lambda _: True)]
    )
    assert await guards.output("text") == "TEXT"
    for answer in (False, "no", rt.Block("no")):
        with pytest.raises(rt.GuardrailBlocked):
            await compile_guardrails([rt.guardrail("output")(lambda _, answer=answer: answer)]).output("x")


async def test_every_text_in_a_messages_content_is_looked_at() -> None:
    guards = compile_guardrails([rt.privacy_input()])
    content = {"parts": [{"text": "I am ada@corp.example"}, ("123-45-6789", 3)]}
    message = rt.AgentMessage(content)
    found = await guards.input(message)
    assert found.content == {"parts": [{"text": "I am [redacted]"}, ["[redacted]", 3]]} and message.content is content
    clean = rt.AgentMessage({"a": ["b"]})
    assert await guards.input(clean) is clean
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    with pytest.raises(rt.GuardrailBlocked, match="nested too deeply"):
        await guards.input(rt.AgentMessage(deep))


async def test_a_tool_guardrail_cannot_change_arguments_in_place_only_by_saying_so() -> None:
    def sneaky(asked: rt.Guarded) -> None:
        asked.arguments["legs"].append(1)

    arguments = {"legs": []}
    assert await compile_guardrails([rt.guardrail("tool")(sneaky)]).tool("send", arguments) == {"legs": []} == arguments
    put = rt.guardrail("tool")(lambda asked: rt.Replace({"legs": [asked.tool]}))
    assert await compile_guardrails([put]).tool("send", arguments) == {"legs": ["send"]}


PIECES = st.lists(
    st.sampled_from(
        ["4111 1111 ", "1111 1111", " ", "ada@", "corp.example", "ok", "password", "=", "hunter22", "\n", "é", "sk-abcdefgh", "ijklmnop"]
    ),
    max_size=10,
)


@settings(max_examples=12)
@given(PIECES)
def test_a_stream_gives_what_the_whole_answer_gives(pieces: list[str]) -> None:
    patterns = compile_guardrails([rt.output_redaction(), rt.output_redaction(["redacted"], replacement="#", kinds=(), keys=False)])
    function = compile_guardrails([rt.output_redaction(), rt.guardrail("output")(lambda asked: rt.Replace(asked.text[::-1]))])

    async def main() -> None:
        for guards in (patterns, function):
            stream = guards.stream()
            assert stream is not None
            assert "".join([*(stream.feed(piece) for piece in pieces), await stream.finish()]) == await guards.output("".join(pieces))

    trio.run(main)


async def test_a_stream_of_one_that_blocks_shows_nothing_of_what_it_found() -> None:
    stream = compile_guardrails([rt.output_redaction(action="block")]).stream()
    assert stream is not None
    shown = stream.feed("My card is 4111 1111 ")
    with pytest.raises(rt.GuardrailBlocked, match="a card number"):
        shown += stream.feed("1111 1111 .")
    assert shown == "My card is "


@pytest.mark.parametrize("given", [None, "x", 3, [print], [rt.privacy_input], [{}]])
def test_what_is_no_guardrail_is_refused(given: Any) -> None:
    with pytest.raises(rt.DefinitionError, match="guardrails="):
        compile_guardrails(given)
    assert compile_guardrails([]) is NO_GUARDS and NO_GUARDS.stream() is None


# -- in runs ---------------------------------------------------------------------------------------------------------------------------------------------


@BOTH
async def test_a_blocked_input_is_in_no_memory_and_never_comes_back(streamed: bool) -> None:
    """LightAgent B5."""
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, "Fine."), guardrails=[rt.privacy_input(action="block")]) as (_, agent):
        error = await asked(agent, streamed, "My ssn is 123-45-6789")
        assert (await agent.ask(rt.GetMemory())).items == ()
        reply = await asked(agent, streamed, "Hello")
    assert isinstance(error, rt.GuardrailBlocked) and (error.stage, error.reason) == ("input", "it holds a social security number")
    assert "123-45" not in str(error) and reply.content == "Fine."
    assert [message.content for message in told[0].messages] == ["Hello"]


@BOTH
async def test_a_redacted_input_is_what_memory_and_model_get(streamed: bool) -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, "Fine."), guardrails=[rt.privacy_input()]) as (_, agent):
        await asked(agent, streamed, "Write to ada@corp.example")
        memory = await agent.ask(rt.GetMemory())
    assert told[0].messages[-1].content == "Write to [redacted]" == memory.messages[0].content


@BOTH
async def test_secrets_in_an_answer_reach_neither_reader_nor_memory(streamed: bool) -> None:
    line = "The card is 4111 1111 1111 1111, and the password: hunter22. Bye."
    async with agent_system([line], guardrails=[rt.output_redaction()]) as (_, agent):
        if streamed:
            events = await read(agent, "hi")
            shown = "".join(event.text for event in events if isinstance(event, rt.TextDelta))
            assert shown == events[-1].message.content
        else:
            shown = (await agent.ask("hi")).content
        memory = await agent.ask(rt.GetMemory())
    assert shown == "The card is [redacted], and the password: [redacted] Bye." == memory.messages[-1].content


@BOTH
async def test_a_blocked_output_ends_the_run_and_is_in_no_memory(streamed: bool) -> None:
    async with agent_system(["Call 123-45-6789."], guardrails=[rt.output_redaction(action="block")]) as (_, agent):
        error = await asked(agent, streamed)
        items = (await agent.ask(rt.GetMemory())).items
    assert isinstance(error, rt.GuardrailBlocked) and error.stage == "output"
    assert "123-45" not in repr(items)


@BOTH
async def test_a_tool_call_of_high_risk_is_not_carried_out_and_the_model_is_told(streamed: bool) -> None:
    script = [llm.tool_calls(("send", {"amount": 99_999})), "I may not."]
    async with agent_system(script, tools=[send], guardrails=[rt.high_risk_parameter({"amount": lambda value: value > 100})]) as (_, agent):
        reply = await asked(agent, streamed)
        (result,) = results(await agent.ask(rt.GetMemory()))
    assert sent == [] and reply.content == "I may not."
    assert (result.ok, result.error) == (False, "denied") and "amount" in result.text


async def test_arguments_that_a_guardrail_has_put_in_place_are_checked_again() -> None:
    script = [llm.tool_calls(("send", {"amount": 1})), "Done."]
    for put, ok in (({"amount": 5}, True), ({"amount": "many"}, False)):
        async with agent_system(script, tools=[send], guardrails=[rt.guardrail("tool")(lambda _, put=put: rt.Replace(put))]) as (_, agent):
            await agent.ask("Send 1")
            (result,) = results(await agent.ask(rt.GetMemory()))
        assert result.ok is ok
    assert sent == [5]


async def test_a_sensitive_tool_waits_for_a_person() -> None:
    script = [llm.tool_calls(("send", {"amount": 7})), "Done."]
    async with agent_system(script, tools=[send], guardrails=[rt.sensitive_tool_confirmation(["send"])]) as (system, agent):
        with pytest.raises(rt.ApprovalRequired) as caught:
            await agent.ask("Send 7")
        assert sent == []
        token = await system.approvals.approve(caught.value.requests[0].id, reviewer="carol")
        reply = await agent.ask(rt.Resume(caught.value.run), approvals=[token])
    assert sent == [7] and reply.content == "Done."


async def test_a_slip_in_the_name_of_a_sensitive_tool_is_an_error_of_the_definition() -> None:
    async with rt.ActorSystem("slips") as system:
        model = await system.spawn(llm.Scripted, [], name="model")
        with pytest.raises(rt.DefinitionError, match="did you mean 'send'"):
            await system.spawn(rt.Agent, model=model, tools=[send], guardrails=[rt.sensitive_tool_confirmation("sent")], name="agent")
        await system.spawn(
            rt.Agent, model=model, tools=[send], guardrails=[rt.sensitive_tool_confirmation("later", may_be_missing=True)], name="agent"
        )


@BOTH
async def test_what_is_said_beside_tool_calls_is_redacted_in_memory_too(streamed: bool) -> None:
    line = llm.Completion(text="The password: hunter22.", tool_calls=(llm.ToolCall("1", "send", '{"amount": 1}'),))
    async with agent_system([line, "Done."], tools=[send], guardrails=[rt.output_redaction()]) as (_, agent):
        await asked(agent, streamed)
        memory = await agent.ask(rt.GetMemory())
    assert sent == [1] and "hunter22" not in repr(memory)


@BOTH
async def test_an_answer_of_a_type_is_redacted_in_the_call_that_gave_it_too(streamed: bool) -> None:
    @attrs.frozen
    class Note:
        text: str

    script = [llm.tool_calls(("final_result", {"text": "Write to ada@corp.example"}))]
    async with agent_system(script, output=Note, guardrails=[rt.output_redaction()]) as (_, agent):
        reply = await asked(agent, streamed)
        memory = await agent.ask(rt.GetMemory())
    assert reply.formatted == Note("Write to [redacted]") and "corp.example" not in repr(memory)


@attrs.frozen
class Person:
    mail: str


@dataclasses.dataclass
class Customer:
    mail: str


HIDDEN = [
    {"help@corp.example": "x"},
    {"a": {("help@corp.example", 1): 2}},
    {"help@corp.example"},
    frozenset({"help@corp.example"}),
    Person("help@corp.example"),
    Customer("help@corp.example"),
    {"who": [Person("help@corp.example")]},
    {"card": 4111111111111111},
]


@pytest.mark.parametrize("content", HIDDEN, ids=range(len(HIDDEN)))
async def test_an_input_guardrail_sees_whatever_of_the_content_a_model_would_be_told(content: Any) -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, "fine"), guardrails=[rt.privacy_input()]) as (_, agent):
        await agent.ask(rt.AgentMessage(content))
        memory = await agent.ask(rt.GetMemory())
    for text in (told[0].messages[0].content, str(memory)):
        assert "help@corp" not in text and "41111" not in text and "[redacted]" in text
    async with agent_system([], guardrails=[rt.privacy_input(action="block")]) as (_, agent):
        with pytest.raises(rt.GuardrailBlocked):
            await agent.ask(rt.AgentMessage(content))


async def test_names_that_would_be_the_same_without_what_they_hold_are_blocked() -> None:
    async with agent_system([], guardrails=[rt.privacy_input()]) as (_, agent):
        with pytest.raises(rt.GuardrailBlocked, match="the same"):
            await agent.ask(rt.AgentMessage({"a@corp.example": 1, "b@corp.example": 2}))


async def test_content_without_a_finding_stays_the_very_thing_that_it_was() -> None:
    content = {"who": [Person("nobody")], "n": 5, "set": {1}, "none": None, (1, "a"): True}
    async with agent_system(["fine"], guardrails=[rt.privacy_input()]) as (_, agent):
        await agent.ask(rt.AgentMessage(content))
        assert (await agent.ask(rt.GetMemory())).messages[0].content == content


async def test_the_events_of_tool_calls_show_what_the_output_guardrails_let_through() -> None:
    got: list[str] = []

    async def look_up(mail: str) -> str:
        """Looks somebody up.

        Args:
            mail: Whom.
        """
        got.append(mail)
        return f"{mail} has the card 4111 1111 1111 1111"

    call = llm.Completion(tool_calls=(llm.ToolCall("1", "look_up", '{"mail": "help\\u0040corp.example"}'),))
    async with agent_system([call, "Done."], tools=[look_up], guardrails=[rt.output_redaction()]) as (_, agent):
        events = await read(agent, "go")
    [started] = [event for event in events if isinstance(event, rt.ToolStarted)]
    [finished] = [event for event in events if isinstance(event, rt.ToolFinished)]
    assert got == ["help@corp.example"]
    assert started.arguments == '{"mail": "[redacted]"}' and finished.text == "[redacted] has the card [redacted]"

    @rt.guardrail("output")
    def no_cards(asked: rt.Guarded) -> object:
        return rt.Block("a card") if "card" in asked.text else None

    async with agent_system([call, "Done."], tools=[look_up], guardrails=[no_cards]) as (_, agent):
        events = await read(agent, "go")
    assert [event.text for event in events if isinstance(event, rt.ToolFinished)] == [f"[kept back by {no_cards.name}]"]
    assert isinstance(events[-1], rt.RunEnd)
