"""examples/maths_agent_that_programs.py"""

from __future__ import annotations

import pytest

import retinue as rt
from example_runner import load_example, run_example
from live_endpoint import run_live
from retinue import llm


@pytest.mark.slow  # three processes, one of which has three seconds to end
def test_programs_are_really_run_mended_and_killed_and_no_session_sees_the_others() -> None:
    printed = run_example("maths_agent_that_programs").splitlines()
    stories = "\n".join(printed).split("problem ")
    for number, senders in ((1, ["user", "agent", "executor", "agent", "executor", "agent"]), (2, ["user", "agent", "executor", "agent"])):
        said = [line.split(":")[0].strip() for line in stories[number].splitlines() if line.startswith("  ") and line[2].isalpha()]
        assert said == senders
    assert "NameError: name 'Fraction' is not defined" in stories[1]
    assert "  => The projection is (1/5, -3/5)." in printed
    assert "  executor: b is known here: False" in printed
    assert "  => The sum is 338350." in printed
    assert "the code did not end within 3 s. The kernel was killed" in stories[3]


async def test_after_three_rounds_the_answer_says_that_there_is_none() -> None:
    example = load_example("maths_agent_that_programs")
    async with rt.ActorSystem() as system:
        before, after = rt.action_processor("python.run", code_parameter="code", tool_type=example.PROGRAM.tool_type)
        executor = await system.spawn(rt.ActionExecutor, [rt.PythonKernel(approval=False, ipython=False)], before=[before], after=[after])
        model = await system.spawn(llm.Scripted, "```python\nprint(6 * 7)\n```\n")
        coder = await system.spawn(example.Coder, {"agent": rt.Agent.spec(model=model), "executor": executor}, name="coder")
        answer = await coder.ask("Go on for ever")
        assert answer.partial
        assert answer.content == "no answer in 3 rounds; the last program gave: 42"
        memory = await coder.ask(rt.GetMemory(path="agent"))
        assert [message.sender for message in memory.messages] == ["user", "agent", "executor", "agent", "executor", "agent"]


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_a_real_endpoint_is_told_how_programs_are_written() -> None:
    printed, asked = run_live("maths_agent_that_programs", "I shall not compute.")
    assert printed.splitlines()[0] == "asking some-model at URL; this may cost money"
    assert "  => I shall not compute." in printed.splitlines()
    assert len(asked) == 3
    assert all("```python\nprint(6 * 7)\n```" in one.json["messages"][0]["content"] and one.json["stop"] == ["\n```\n"] for one in asked)
