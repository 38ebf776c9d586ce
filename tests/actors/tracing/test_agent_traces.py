"""What the spans of agents, models and tools say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import Hanging, read
from retinue import llm
from team_players import Made
from trace_reading import one, read_spans, tree_of


def get_weather(city: str) -> str:
    """Weather.

    Args:
        city: Where.
    """
    if city == "Nowhere":
        raise ValueError("no such city")
    return f"sunny in {city}"


@rt.tool(approval=True)
def send(to: str) -> str:
    """Sends.

    Args:
        to: Whom.
    """
    return f"sent to {to}"


def said(text: str, tokens: int, cost: int | None = None) -> llm.Completion:
    """An answer with what it used up."""
    return llm.Completion(text, "tiny-1", llm.Usage(1, tokens, tokens * 2, cost_micro_usd=cost), "stop")


def called(name: str, arguments: dict[str, Any], tokens: int, cost: int | None = None) -> llm.Completion:
    """A tool call with what it used up."""
    made = llm.tool_calls((name, arguments))
    return llm.Completion("", "tiny-1", llm.Usage(1, tokens, tokens * 2, cost_micro_usd=cost), "tool_calls", made.tool_calls)


async def spawned(system: rt.ActorSystem, script: Any, **options: Any) -> Any:
    model = await system.spawn(llm.Scripted, script)
    return await system.spawn(rt.Agent, model=model, **{"name": "agent", "tools": [get_weather], **options})


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
async def test_a_run_is_a_tree_of_its_models_and_tools(streamed: bool, tmp_path: Path) -> None:
    async with rt.ActorSystem("runs", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        agent = await spawned(system, [called("get_weather", {"city": "Rome"}, 10, 5), said("Sunny.", 20, 7)])
        message = rt.AgentMessage("How is Rome?", session="rome")
        await (read(agent, message) if streamed else agent.ask(message))
    spans = read_spans(tmp_path)
    assert tree_of(spans) == [["invoke_agent agent", "chat scripted", "chat scripted", "execute_tool get_weather"]]
    run, first, tool, second = spans
    assert (
        run["gen_ai.operation.name"] == "invoke_agent" and run["gen_ai.agent.name"] == "agent" and run["gen_ai.conversation.id"] == "rome"
    )
    assert first["gen_ai.operation.name"] == "chat" and first["gen_ai.provider.name"] == "scripted" and first.kind == "client"
    assert first["gen_ai.request.model"] == "scripted" and first["gen_ai.response.model"] == "tiny-1"
    assert first["gen_ai.response.finish_reasons"] == ["tool_calls"] and second["gen_ai.response.finish_reasons"] == ["stop"]
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.output_tokens"], first["retinue.cost_micro_usd"]) == (10, 20, 5)
    assert (run["gen_ai.usage.input_tokens"], run["gen_ai.usage.output_tokens"], run["retinue.cost_micro_usd"]) == (30, 60, 12)
    assert tool["gen_ai.operation.name"] == "execute_tool" and tool["gen_ai.tool.name"] == "get_weather"
    assert tool["gen_ai.tool.call.id"].startswith("call") and tool.status == "unset"


async def test_what_an_answer_cost_is_left_out_where_nobody_knows(tmp_path: Path) -> None:
    async with rt.ActorSystem("unknown", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        await (await spawned(system, ["Hello."])).ask("Hi")
    for span in read_spans(tmp_path):
        assert not {"retinue.cost_micro_usd", "gen_ai.usage.input_tokens"} & set(span.attributes)


async def test_a_tool_that_fails_is_an_error_of_its_span_and_not_of_the_run(tmp_path: Path) -> None:
    async with rt.ActorSystem("fails", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        script = [llm.tool_calls(("get_weather", {"city": "Nowhere"}), ("get_weather", {"city": "Rome"})), "Done."]
        await (await spawned(system, script)).ask("Go")
    spans = read_spans(tmp_path)
    tools = [span for span in spans if span.name == "execute_tool get_weather"]
    assert sorted(span.status for span in tools) == ["error", "unset"]
    assert {span.attributes.get("error.type") for span in tools} == {None, "raised"}
    assert len({span["gen_ai.tool.call.id"] for span in tools}) == 2 and one(spans, "invoke_agent agent").status == "unset"


async def test_a_run_that_waits_for_a_person_and_the_one_that_goes_on_are_linked(tmp_path: Path) -> None:
    async with rt.ActorSystem("parks", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        agent = await spawned(system, [llm.tool_calls(("send", {"to": "bob"})), "Sent."], tools=[send])
        with pytest.raises(rt.ApprovalRequired) as required:
            await agent.ask("Write to Bob")
        run, ids = required.value.run, [request.id for request in required.value.requests]
        assert run is not None
        token = await system.approvals.approve(ids[0], reviewer="carol")
        assert (await agent.ask(rt.Resume(run), approvals=[token])).content == "Sent."
    parked, resumed = (span for span in read_spans(tmp_path) if span.name == "invoke_agent agent")
    assert parked.status == resumed.status == "unset" and parked["retinue.run"] == resumed["retinue.run"] == run
    assert parked.events_named("retinue.approval.parked") == [{"retinue.approval.requests": ids, "retinue.run": run}]
    assert resumed.events_named("retinue.approval.resumed") == [{"retinue.approval.requests": ids, "retinue.run": run}]
    assert resumed.events_named("link") == [{"trace_id": parked.trace, "span_id": parked.id}]
    assert resumed.trace != parked.trace and resumed["gen_ai.conversation.id"] == "0"


async def test_a_handoff_is_told_of_on_the_run_that_ends_with_it(tmp_path: Path) -> None:
    async with rt.ActorSystem("hands", data_dir=tmp_path, tracing=rt.Tracing(contents=True)) as system:
        agent = await spawned(system, [llm.tool_calls(("transfer_to_billing", {"reason": "an invoice", "message": "go on"}))])
        answer = await agent.ask(rt.Run("Help", handoffs=(rt.Handoff("billing"),)))
        assert answer.type == "handoff"
    span = one(read_spans(tmp_path), "invoke_agent agent")
    about = {"retinue.handoff.source": "agent", "retinue.handoff.target": "billing", "retinue.handoff.reason": "an invoice"}
    assert span.events_named("retinue.handoff") == [about]
    assert span["retinue.handoff.target"] == "billing" and span["retinue.handoff.reason"] == "an invoice"


async def test_a_run_that_is_cancelled_ends_every_span_below_it(tmp_path: Path) -> None:
    began, ended = trio.Event(), trio.Event()
    async with rt.ActorSystem("cancels", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        model = await system.spawn(Hanging, began, ended)
        agent = await system.spawn(rt.Agent, model=model, name="agent")

        async def ask() -> None:
            with pytest.raises(rt.RunCancelled):
                await agent.ask("Hi")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await began.wait()
            assert await agent.ask(rt.Cancel())
    spans = read_spans(tmp_path)
    assert [span["error.type"] for span in spans if span.name == "invoke_agent agent"] == ["RunCancelled"]
    assert one(spans, "chat hanging")["error.type"] == "AskCancelled"


async def test_an_agent_that_asks_an_agent_is_one_tree_and_its_sums_are_of_all_of_it(tmp_path: Path) -> None:
    async with rt.ActorSystem("nested", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        inner = await spawned(system, [said("Rome.", 100)], name="inner", tools=[])

        async def consult(question: str) -> str:
            """Asks.

            Args:
                question: What.
            """
            return str((await inner.ask(question)).content)

        outer = await spawned(system, [called("consult", {"question": "Where?"}, 1), said("In Rome.", 2)], name="outer", tools=[consult])
        await outer.ask("Where is it?")
    spans = read_spans(tmp_path)
    assert tree_of(spans) == [
        ["invoke_agent outer", ["execute_tool consult", ["invoke_agent inner", "chat scripted"]], "chat scripted", "chat scripted"]
    ]
    assert one(spans, "invoke_agent inner")["gen_ai.usage.input_tokens"] == 100
    assert one(spans, "invoke_agent outer")["gen_ai.usage.input_tokens"] == 103


async def test_a_failover_is_drawn_with_each_member_that_was_asked(tmp_path: Path) -> None:
    async with rt.ActorSystem("failover", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        first = await system.spawn(llm.Scripted, [llm.ModelUnreachable("down")])
        second = await system.spawn(llm.Scripted, ["Here."])
        model = await system.spawn(llm.Failover, [first, second])
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        assert (await agent.ask("Hi")).content == "Here."
    spans = read_spans(tmp_path)
    assert sorted(span.status for span in spans if span.name == "chat scripted") == ["error", "unset"]
    assert tree_of(spans) == [["invoke_agent agent", ["Complete", "chat scripted", "chat scripted"]]]


async def test_what_an_endpoint_calls_itself_is_left_out_where_it_is_no_plain_word(tmp_path: Path) -> None:
    odd = llm.Completion("Hi", "a model\nwith a story in its name", llm.Usage(), "because\nI say so")
    async with rt.ActorSystem("odd", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        await (await spawned(system, [odd])).ask("Hi")
    span = one(read_spans(tmp_path), "chat scripted")
    assert not {"gen_ai.response.model", "gen_ai.response.finish_reasons"} & set(span.attributes)


async def test_a_calls_id_that_is_no_plain_word_is_left_out(tmp_path: Path) -> None:
    odd = llm.Completion("", "tiny-1", llm.Usage(), "tool_calls", (llm.ToolCall("call\nof the canary", "get_weather", '{"city": "Rome"}'),))
    async with rt.ActorSystem("ids", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        await (await spawned(system, [odd, "Sunny."])).ask("Hi")
    tool = one(read_spans(tmp_path), "execute_tool get_weather")
    assert "gen_ai.tool.call.id" not in tool.attributes


async def test_a_long_conversation_is_exported_whole_or_by_its_length(tmp_path: Path) -> None:
    import json

    async with rt.ActorSystem("long", data_dir=tmp_path, tracing=rt.Tracing(contents=True)) as system:
        agent = await spawned(system, ["Hi."] * 30)
        for n in range(30):
            await agent.ask(f"{n} " + "word " * 300)
    chats = [span for span in read_spans(tmp_path) if span.name == "chat scripted"]
    assert [len(json.loads(span["gen_ai.input.messages"])) for span in chats] == [2 * n + 1 for n in range(30)]


async def test_other_messages_of_an_agent_are_plain_spans(tmp_path: Path) -> None:
    async with rt.ActorSystem("memory", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        agent = await spawned(system, ["Hi."])
        await agent.ask(rt.GetMemory())
        await agent.ask(rt.ClearMemory())
    assert tree_of(read_spans(tmp_path)) == ["ClearMemory", "GetMemory"]


async def test_what_was_said_is_exported_in_the_form_of_the_conventions_where_that_is_wanted(tmp_path: Path) -> None:
    import json

    async with rt.ActorSystem("contents", data_dir=tmp_path, tracing=rt.Tracing(contents=True)) as system:
        await (await spawned(system, [called("get_weather", {"city": "Rome"}, 1), "Sunny."])).ask("How is Rome?")
    run, first, tool, _ = read_spans(tmp_path)
    assert json.loads(run["gen_ai.input.messages"])[0]["parts"][0]["content"] == "How is Rome?"
    assert json.loads(run["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "Sunny."}]
    (user,) = json.loads(first["gen_ai.input.messages"])
    assert user == {"role": "user", "parts": [{"type": "text", "content": "How is Rome?"}]}
    (answer,) = json.loads(first["gen_ai.output.messages"])
    assert answer["parts"][0]["name"] == "get_weather" and answer["finish_reason"] == "tool_calls"
    assert json.loads(tool["gen_ai.tool.call.arguments"])["city"] == "Rome" and tool["gen_ai.tool.call.result"] == "sunny in Rome"


async def test_a_swarm_is_one_tree_and_each_handoff_is_told_where_it_was_made(tmp_path: Path) -> None:
    async with rt.ActorSystem("swarm", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        first = await spawned(system, [called("transfer_to_second", {"reason": "it knows"}, 3)], name="first", tools=[])
        second = await spawned(system, [said("Here I am.", 4)], name="second", tools=[])
        swarm = await system.spawn(rt.Swarm, [first, second], start="first", name="swarm")
        assert (await swarm.ask("Who is there?")).content == "Here I am."
    spans = read_spans(tmp_path)
    assert tree_of(spans) == [["invoke_agent swarm", ["invoke_agent first", "chat scripted"], ["invoke_agent second", "chat scripted"]]]
    about = {"retinue.handoff.source": "first", "retinue.handoff.target": "second"}
    assert one(spans, "invoke_agent swarm").events_named("retinue.handoff") == [about]
    assert one(spans, "invoke_agent first").events_named("retinue.handoff") == [about]
    assert one(spans, "invoke_agent swarm")["gen_ai.usage.input_tokens"] == 7


async def test_a_team_that_waits_for_a_person_is_linked_to_the_run_that_goes_on(tmp_path: Path) -> None:
    async with rt.ActorSystem("team", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        member = await spawned(system, [llm.tool_calls(("send", {"to": "bob"})), "Sent."], name="member", tools=[send])
        team = await system.spawn(rt.Sequential, [member], name="team")
        with pytest.raises(rt.ApprovalRequired) as required:
            await team.ask("Write to Bob")
        run = required.value.run
        assert run is not None
        token = await system.approvals.approve(required.value.requests[0].id, reviewer="carol")
        assert (await team.ask(rt.Resume(run), approvals=[token])).content == "Sent."
    parked, resumed = (span for span in read_spans(tmp_path) if span.name == "invoke_agent team")
    assert parked["retinue.run"] == resumed["retinue.run"] == run
    assert resumed.events_named("link") == [{"trace_id": parked.trace, "span_id": parked.id}]


async def test_an_edited_member_is_drawn_under_its_name(tmp_path: Path) -> None:
    async with rt.ActorSystem("team", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        team = await system.spawn(
            rt.Sequential, {"writer": rt.Agent.spec(model="scripted:a"), "sessions": rt.Agent.spec(model="scripted:b")}
        )
        await team.ask(rt.EditMember("writer", options={"instructions": "Be brief."}))
        await team.ask("Write")
    named = {span["gen_ai.agent.name"] for span in read_spans(tmp_path) if span.name.startswith("invoke_agent")}
    assert named == {"Sequential-1", "writer", "sessions"}


async def test_the_sessions_of_pieces_are_forgotten_without_a_span_and_a_memory_that_somebody_clears_has_one(tmp_path: Path) -> None:
    async with rt.ActorSystem("pieces", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        model = await system.spawn(llm.Scripted, "ok", name="model")
        team = await system.spawn(rt.MapReduce, mapper=rt.Agent.spec(model=model), reducer=lambda results: str(len(results)), name="team")
        assert (await team.ask(rt.AgentMessage(["a", "b"]))).content == "2"
        await team.ask(rt.ClearMemory())
    spans = read_spans(tmp_path)
    assert [each.name for each in spans if not each.name.startswith(("invoke_agent", "chat"))] == ["ClearMemory"]
    assert len(spans) == 6


async def test_what_is_asked_after_a_memory_that_there_is_none_of_was_forgotten_has_its_span(tmp_path: Path) -> None:
    class Plain(rt.Actor):
        @rt.handler
        def answer(self, message: rt.AgentMessage) -> rt.AgentMessage:
            return rt.AgentMessage("hi")

    async def forward(run: rt.TeamRun) -> rt.AgentMessage:
        await run.forget("plain", "another")
        return await run.ask("plain", run.message)

    async with rt.ActorSystem("plain", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        team = await system.spawn(Made, {"plain": await system.spawn(Plain)}, forward, name="team")
        assert (await team.ask("hi")).content == "hi"
    assert tree_of(read_spans(tmp_path)) == [["invoke_agent team", "AgentMessage"]]
