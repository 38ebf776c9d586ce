"""What goes wrong in a team says where: from which member it came, from which piece, and in the log which line raised it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import retinue as rt
from retinue import llm
from team_players import Made


async def error_of(team: Any, message: Any = "x") -> Any:
    with pytest.raises(Exception) as caught:
        await team.ask(message)
    return caught.value


def notes(error: Any) -> list[str]:
    return list(getattr(error, "__notes__", []))


@pytest.mark.parametrize("cls", [rt.Sequential, rt.Parallel])
async def test_an_error_out_of_a_team_names_the_members_that_it_came_through(cls: Any) -> None:
    async with rt.ActorSystem("told") as system:
        sick = await system.spawn(llm.Scripted, [llm.ModelFailed("503", status=503)] * 2)
        inner = rt.Sequential.spec({"ben": rt.Agent.spec(model=sick)})
        team = await system.spawn(cls, {"ann": rt.Agent.spec(model="scripted:x"), "desk": inner}, name="team")
        for _ in range(2):  # the second error has no notes of the first
            error = await error_of(team)
            assert type(error) is llm.ModelFailed
            assert error.status == 503
            assert notes(error) == ["of the member 'ben' of /user/team/desk", "of the member 'desk' of /user/team"]


async def test_a_streamed_members_error_names_it_too_and_once() -> None:
    async with rt.ActorSystem("told") as system:
        sick = await system.spawn(llm.Scripted, [llm.ModelFailed("503")])
        team = await system.spawn(rt.Sequential, {"ben": rt.Agent.spec(model=sick)}, name="team")
        with pytest.raises(llm.ModelFailed) as caught:
            async with team.stream("x") as events:
                async for _ in events:
                    pass
        assert notes(caught.value) == ["of the member 'ben' of /user/team"]


async def test_the_limit_of_a_members_run_and_the_end_of_a_script_name_whose_they_are() -> None:
    async with rt.ActorSystem("told") as system:
        ended = await system.spawn(llm.Scripted, [], name="model")
        looper = await system.spawn(llm.Scripted, lambda _: llm.tool_calls(("now", {})))

        def now() -> str:
            """The time."""
            return "noon"

        limits = rt.RunLimits(model_calls=2)
        team = await system.spawn(rt.Sequential, {"looper": rt.Agent.spec(model=looper, tools=[now], limits=limits)}, name="team")
        error = await error_of(team)
        assert str(error).startswith("/user/team/looper: the run has reached its limit model_calls=2;")
        assert str(error).endswith("Give more with RunLimits(model_calls=…)")
        error = await error_of(await system.spawn(rt.Agent, model=ended))
        assert str(error).startswith("/user/model: the script of the model has 0 lines")


async def test_an_error_of_map_reduce_names_the_piece() -> None:
    def count(request: Any) -> str:
        if "three" in request.messages[-1].content:
            raise ValueError("bad text")
        return "5"

    async with rt.ActorSystem("told") as system:
        mapper = rt.Agent.spec(model=await system.spawn(llm.Scripted, count))
        team = await system.spawn(rt.MapReduce, mapper=mapper, reducer=lambda results: str(len(results)), name="team")
        error = await error_of(team, rt.AgentMessage(["one", "two", "three", "four"]))
        assert notes(error) == ["of the member 'mapper' of /user/team", "in piece 3 of 4"]


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({}, "Give more with max_turns="),
        ({"max_turns": 2, "limits": rt.RunLimits(model_calls=50)}, "Give more with max_turns="),
        ({"limits": rt.RunLimits(model_calls=3)}, "Give more with RunLimits(model_calls=…)"),
        ({"limits": rt.RunLimits(model_calls=3), "max_turns": 9}, "Give more with RunLimits(model_calls=…)"),
    ],
    ids=["neither", "fewer turns", "a limit alone", "a lower limit"],
)
async def test_a_react_agent_whose_turns_are_over_says_which_limit_it_was_and_what_did_not_fit(given: dict[str, Any], advice: str) -> None:
    async with rt.ActorSystem("told") as system:
        error = await error_of(await system.spawn(rt.ReAct, model="scripted:hi", **given))
        assert f"{advice}. The model's last answer did not fit; it was told: Your answer is not taken: no JSON" in str(error)
        error = await error_of(await system.spawn(rt.ReAct, model="scripted:hi"), rt.Run("x", limits=rt.RunLimits(model_calls=50)))
        assert "model_calls=5;" in str(error)
        assert "Give more with max_turns=." in str(error)


async def test_a_react_agents_thoughts_are_told_as_thoughts() -> None:
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    script = ['{"thought": "I add", "action": {"name": "add", "parameters": {"a": 1, "b": 2}}}', '{"thought": "done", "conclusion": "3"}']
    async with rt.ActorSystem("told") as system:
        agent = await system.spawn(rt.ReAct, model=await system.spawn(llm.Scripted, script), tools=[add])
        async with agent.stream("1 + 2?") as events:
            told = [event async for event in events if isinstance(event, llm.TextDelta | llm.ReasoningDelta)]
        assert told == [llm.ReasoningDelta("I add"), llm.ReasoningDelta("done"), llm.TextDelta("3")]


class Bug(rt.Team):
    async def forward(self, run: rt.TeamRun) -> str:
        return str({}[run.message.content])


@pytest.mark.parametrize(
    ("cls", "options"),
    [(rt.Parallel, {"failures": "skip"}), (rt.Fallback, {})],
    ids=["a member that is skipped", "one that another stands in for"],
)
async def test_a_failure_that_a_team_takes_over_is_logged_with_its_lines(cls: Any, options: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("told") as system:
        members = {"bug": Bug.spec(), "well": rt.Agent.spec(model="scripted:well")}
        team = await system.spawn(cls, members, name="team", **options)
        with caplog.at_level(logging.INFO, logger="retinue.agents"):
            assert "well" in (await team.ask("missing")).content
    (record,) = [record for record in caplog.records if record.name == "retinue.agents"]
    assert record.levelno == logging.WARNING
    text = record.getMessage()
    assert text.startswith("/user/team: 'bug' failed (KeyError: 'missing'), and ")
    assert 'test_told_failures.py", line' in text
    assert "return str({}[run.message.content])" in text
    assert "stepping.py" not in text, "what led to it within the framework is left out"


class Refuses(rt.Team):
    async def forward(self, run: rt.TeamRun) -> str:
        raise llm.ModelFailed("no answer")


async def test_a_typed_error_that_a_team_takes_over_is_logged_at_info_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("told") as system:
        members = {"first": Refuses.spec(), "well": rt.Agent.spec(model="scripted:well")}
        team = await system.spawn(rt.Fallback, members, name="team")
        with caplog.at_level(logging.INFO, logger="retinue.agents"):
            await team.ask("hi")
    (record,) = [record for record in caplog.records if record.name == "retinue.agents"]
    assert record.levelno == logging.INFO
    assert record.getMessage() == "/user/team: 'first' failed (ModelFailed: no answer), and somebody is asked again"


async def test_a_failure_of_an_agent_that_is_a_tool_is_logged_with_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("told") as system:
        model = await system.spawn(llm.Scripted, [llm.tool_calls(("ask_bug", {"message": "missing"})), "over"])
        agent = await system.spawn(rt.Agent, model=model, tools=[rt.agent_tool(Bug.spec(), name="ask_bug")], name="agent")
        with caplog.at_level(logging.INFO, logger="retinue.agents"):
            await agent.ask("go")
    (record,) = [record for record in caplog.records if record.name == "retinue.agents"]
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("/user/agent: 'ask_bug' failed (KeyError: 'missing'), and the model is told")
    assert "return str({}[run.message.content])" in record.getMessage()


async def sleeps(run: rt.TeamRun) -> str:
    await asyncio.sleep(0.01)
    return "never"


async def yields(run: rt.TeamRun) -> str:
    await asyncio.sleep(0)
    return "never"


async def test_asyncio_in_a_forward_or_in_instructions_is_told_what_to_write() -> None:
    async def told(conversation: Any) -> str:
        await asyncio.sleep(0.01)
        return "never"

    async with rt.ActorSystem("told") as system:
        for _ in range(2):
            error = await error_of(await system.spawn(Made, {}, sleeps))
            assert type(error) is RuntimeError
            assert str(error).startswith(
                "no running event loop. The system runs on trio, under retinue.aio, too: write trio.sleep for asyncio.sleep."
            )
            assert str(error).endswith("; members are asked at the same time by run.gather and run.together.")
        error = await error_of(await system.spawn(Made, {}, yields))
        assert type(error) is TypeError
        assert "The system runs on trio" in notes(error)[0]
        error = await error_of(await system.spawn(rt.Agent, model="scripted:x", instructions=told))
        assert str(error).endswith('A function that needs asyncio is a tool, with @rt.tool(loop="asyncio").')


def broken(request: llm.Complete) -> str:
    return str(1 / len(request.tools))


async def test_a_script_whose_function_fails_is_logged_with_its_lines_though_somebody_stands_in(caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("told") as system:
        model = await system.spawn(llm.Scripted, broken, name="model")
        members = {"first": rt.Agent.spec(model=model), "well": rt.Agent.spec(model="scripted:well")}
        answer = await (await system.spawn(rt.Fallback, members)).ask("hi")
    assert answer.content == "well"
    (record,) = [record for record in caplog.records if record.name == "retinue.llm"]
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("the script of /user/model has a function that failed (ZeroDivisionError):\n")
    assert "return str(1 / len(request.tools))" in record.getMessage()
