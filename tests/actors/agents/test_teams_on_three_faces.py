"""The same teams from trio, from `retinue.sync` and from `retinue.aio`."""

from __future__ import annotations

from typing import Any

import pytest

import retinue as rt
from retinue import llm
from team_players import Echo, Sender
from three_faces import FACES, Face, on_face


@pytest.mark.parametrize("face", FACES)
def test_a_team_is_spawned_asked_streamed_changed_and_resumed_from_each_face(face: str) -> None:
    sender = Sender()

    def model(request: llm.Complete) -> Any:
        return "yes" if request.messages[-1].role == "tool" else llm.tool_calls(("send", {"to": "bob"}))

    def body(face: Face) -> None:
        scripted = face.spawn(llm.Scripted, model, name="model")
        echo = face.spawn(Echo, [], "echo", name="echo")
        # Refs of this face: as they are, in a spec, in a Member, and in a spec's members.
        inner = rt.Sequential.spec([rt.Agent.spec(model=scripted, tools=[sender.tool]), echo])
        team = face.spawn(rt.Sequential, {"first": echo, "inner": inner, "last": rt.Member("last", echo, "the last")}, name="team")
        try:
            face.ask(team, "hi")
            raise SystemExit("nobody was asked")
        except rt.ApprovalRequired as error:
            waiting = error
        face.call(face.system.approvals.approve, waiting.requests[0].id, reviewer="carol")
        answer = face.ask(team, rt.Resume(waiting.run or ""))
        assert (answer.content, answer.sender) == ("echo(echo(yes))", "last")
        assert [message.content for message in face.ask(team, rt.GetMemory()).messages] == ["hi", "echo(echo(yes))"]
        state = face.ask(team, rt.GetState())
        face.ask(team, rt.LoadState(state, "copy"))
        assert face.ask(team, rt.GetState("copy")) == state
        face.ask(team, rt.AddMember("more", rt.Agent.spec(model="scripted:the end")))
        face.ask(team, rt.RemoveMember("inner"))
        assert [member.name for member in face.ask(team, rt.GetMembers())] == ["first", "last", "more"]
        events = face.read(team, rt.AgentMessage("go", session="s"))
        assert {path for path, _ in map(rt.innermost, events)} == {("more",), ()}
        assert events[-1].message.content == "the end"
        within = rt.Sequential.spec({"inner": rt.Agent.spec(model=face.spawn(llm.Scripted, ["a"])), "echo": echo})
        asks = [llm.tool_calls(("ask_team", {"message": "m"}), ("ask_within", {"message": "m"})), "x"]
        tools = [rt.agent_tool(team), rt.agent_tool(within, name="ask_within")]
        boss = face.spawn(rt.Agent, model=face.spawn(llm.Scripted, asks), tools=tools)
        assert face.ask(boss, "go").content == "x"
        assert [step.text for step in face.ask(boss, rt.GetMemory()).steps if step.kind == "tool_result"] == ["the end", "echo(a)"]

    on_face(face, body)
    assert sender.sent == ["bob"]
