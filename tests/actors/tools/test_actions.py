"""Lagent's executor contract: every call is answered with one of a closed set of states, also those that are none."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.parsers_text import InterpreterParser, MixedToolParser, PluginParser
from retinue.actors.tools.action_messages import ActionReturn, FunctionCall, GetActions
from retinue.actors.tools.actions import ActionExecutor, action_processor

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@rt.tool
async def get_weather(city: str, days: int = 1) -> str:
    """Weather.

    Args:
        city: Where.
        days: How long.
    """
    ran.append((city, days))
    return f"{city}: sunny for {days}"


@rt.tool
async def fails(how: str) -> str:
    """Fails."""

    class HTTPStatusError(Exception):
        pass

    raise HTTPStatusError("503") if how == "http" else ValueError("odd")


@rt.tool
async def interpreter(command: str) -> str:
    """Runs code."""
    ran.append(command)
    return f"ran {command}"


class Files:
    """Files."""

    secret = "not for models"

    @rt.tool
    async def read(self, path: str) -> str:
        """Reads."""
        ran.append(path)
        return f"content of {path}"

    def reset(self) -> None:
        """Not listed."""
        ran.append("reset")

    def _private(self) -> None:
        """Private."""
        ran.append("private")


async def act(content: Any, *, tools: Any = None, formatted: Any = None, **options: Any) -> AgentMessage:
    async with rt.ActorSystem("actions", block_warning=math.inf) as system:
        executor = await system.spawn(ActionExecutor, [get_weather, fails, Files()] if tools is None else tools, **options)
        return await executor.ask(AgentMessage(content, formatted=formatted, session="s7"))


async def done(content: Any, **options: Any) -> ActionReturn:
    answer = await act(content, **options)
    assert (answer.sender, answer.session) == ("ActionExecutor", "s7")
    assert isinstance(answer.content, ActionReturn)
    return answer.content


@pytest.mark.parametrize("parameters", [{"city": "Paris", "days": 2}, '{"city": "Paris", "days": 2}'])
@pytest.mark.parametrize("form", ["dict", "call"])
async def test_a_call_is_carried_out_in_whichever_form_it_comes(form: str, parameters: Any) -> None:
    content = {"name": "get_weather", "parameters": parameters} if form == "dict" else FunctionCall("get_weather", parameters)
    result = await done(content)
    assert (result.type, result.state, result.valid, result.errmsg) == ("get_weather", "SUCCESS", "OPEN", None)
    assert result.format_result() == "Paris: sunny for 2" and result.args == parameters


async def test_a_toolkits_action_is_called_by_both_names() -> None:
    assert (await done({"name": "Files.read", "parameters": {"path": "a"}})).format_result() == "content of a"


@pytest.mark.parametrize("name", ["Files.reset", "Files._private", "Files.secret", "Files.__init__", "Files.read.x", "Files."])
async def test_what_a_toolkit_does_not_list_is_absent_and_never_called(name: str) -> None:
    result = await done({"name": name, "parameters": {}})
    assert (result.type, result.state, result.valid) == ("InvalidAction", "API_ERROR", "ABSENT")
    assert "Files.read" in str(result.errmsg) and ran == []


@pytest.mark.parametrize("name", ["get_wether", "A.b.c", "", ".", "x" * 10_000, "get_weather.run", "__class__"])
async def test_an_unknown_action_is_told_which_there_are_and_not_its_own_arguments(name: str) -> None:
    result = await done({"name": name, "parameters": {"city": "the arguments"}})
    assert (result.type, result.state, result.valid) == ("InvalidAction", "API_ERROR", "INVALID")
    assert "get_weather" in str(result.errmsg) and "the arguments" not in str(result.errmsg) and len(str(result.errmsg)) < 500 and ran == []


async def test_a_name_that_was_probably_meant_is_named() -> None:
    assert "Did you mean 'get_weather'?" in str((await done({"name": "get_wether", "parameters": {}})).errmsg)


@pytest.mark.parametrize(
    "parameters", [{}, {"city": [3]}, {"city": "x", "z": 1}, "{broken", "[1]", "5", "", 5, None, ["x"], {"city": "x", "days": "many"}]
)
async def test_wrong_arguments_are_said_and_nothing_is_run(parameters: Any) -> None:
    result = await done({"name": "get_weather", "parameters": parameters})
    assert (result.type, result.state, result.valid) == ("get_weather", "ARGS_ERROR", "OPEN") and result.errmsg and ran == []


@pytest.mark.parametrize(
    "content",
    [
        "text",
        None,
        5,
        [],
        {},
        {"name": "get_weather"},
        {"parameters": {}},
        {"name": 5, "parameters": {}},
        {"name": "NoAction", "parameters": {}},
    ],
)
async def test_what_is_no_call_is_answered_all_the_same(content: Any) -> None:
    result = await done(content)
    assert (result.type, result.state, result.valid) == ("NoAction", "API_ERROR", "INVALID") and "get_weather" in str(result.errmsg)


@pytest.mark.parametrize(("how", "state"), [("http", "HTTP_ERROR"), ("else", "API_ERROR")])
async def test_a_failure_has_its_state_and_its_text(how: str, state: str) -> None:
    result = await done({"name": "fails", "parameters": {"how": how}})
    assert (result.state, result.valid) == (state, "OPEN") and "Error" in str(result.errmsg)


async def test_finish_ends_the_work_with_its_response_and_does_not_nest() -> None:
    for parameters, text in (({"response": "42"}, "42"), ({"response": {"a": 1}}, '{"a": 1}'), ("42", "42"), ({"x": 1}, '{"x": 1}')):
        result = await done({"name": "FinishAction", "parameters": parameters})
        assert (result.type, result.state, result.valid, result.format_result()) == ("FinishAction", "SUCCESS", "FINISH", text)


async def test_what_is_not_permitted_is_closed() -> None:
    async with rt.ActorSystem("actions") as system:
        executor = await system.spawn(ActionExecutor, [get_weather, Files()])
        ada = system.authority.mint(subject="ada", permissions=["tool.get_weather"])
        answer = await executor.ask(AgentMessage({"name": "Files.read", "parameters": {"path": "a"}}), context=ada)
        assert (answer.content.state, answer.content.valid) == ("API_ERROR", "CLOSED") and "not permitted" in answer.content.errmsg
        assert (
            await executor.ask(AgentMessage({"name": "get_weather", "parameters": {"city": "x"}}), context=ada)
        ).content.state == "SUCCESS"


async def test_an_action_that_needs_a_consent_raises_and_is_carried_out_with_the_token() -> None:
    @rt.tool(approval=True)
    async def pay(amount: int) -> str:
        """Pays."""
        ran.append(amount)
        return "paid"

    async with rt.ActorSystem("actions") as system:
        executor = await system.spawn(ActionExecutor, [pay])
        message = AgentMessage({"name": "pay", "parameters": {"amount": 5}})
        with pytest.raises(rt.ApprovalRequired) as required:
            await executor.ask(message)
        token = await system.approvals.approve(required.value.requests[0].id, reviewer="carol")
        assert (await executor.ask(message, approvals=[token])).content.format_result() == "paid"
    assert ran == [5]


async def test_the_actions_are_listed_and_the_list_that_was_given_is_left_alone() -> None:
    tools = [get_weather, Files()]
    async with rt.ActorSystem("actions") as system:
        executor = await system.spawn(ActionExecutor, tools, finish=True)
        listed = await executor.ask(GetActions())
    assert [one["name"] for one in listed] == ["get_weather", "Files.read", "FinishAction"]
    assert listed[0]["parameters"]["properties"]["city"]["description"] == "Where."
    assert len(tools) == 2 and json.dumps(listed)


async def test_two_actions_of_one_name_are_refused() -> None:
    async with rt.ActorSystem("actions") as system:
        with pytest.raises(rt.DefinitionError, match="get_weather"):
            await system.spawn(ActionExecutor, [get_weather, get_weather])


# -- hooks


async def test_hooks_see_copies_may_replace_and_may_be_async() -> None:
    content = {"name": "get_weather", "parameters": {"city": "Paris"}}

    def before(message: AgentMessage) -> None:
        message.content["parameters"]["city"] = "Rome"  # in place: on its own copy

    async def after(message: AgentMessage) -> AgentMessage:
        return AgentMessage(message.content.format_result(), sender="hook")

    answer = await act(content, before=[before], after=[after])
    assert (answer.content, answer.sender) == ("Rome: sunny for 1", "hook")
    assert content["parameters"] == {"city": "Paris"}


async def test_a_hook_that_gives_something_else_is_told_what_it_may_give() -> None:
    with pytest.raises(rt.DefinitionError, match="gives an AgentMessage, or None"):
        await act({"name": "get_weather", "parameters": {"city": "x"}}, before=[lambda _: "text"])


def parsed(text: str) -> Any:
    return MixedToolParser([InterpreterParser(), PluginParser()]).parse(text).formatted


CODE = "thought <|action_start|><|interpreter|>\nprint(1)\n<|action_end|>\n"
PLUGIN = 'thought <|action_start|><|plugin|>\n{"name": "get_weather", "parameters": {"city": "Oslo"}}<|action_end|>\n'
BROKEN = "thought <|action_start|><|plugin|>\n{'name': import os; os.system('x')<|action_end|>\n"


async def test_the_processor_makes_calls_of_what_a_parser_found_and_texts_of_what_came_of_them() -> None:
    before, after = action_processor("interpreter")
    options: Any = {"tools": [interpreter, get_weather], "before": [before], "after": [after]}
    code = await act(CODE, formatted={"tool_type": "interpreter", "thought": "thought", "action": "print(1)", "status": 1}, **options)
    assert code.content == "ran print(1)" and isinstance(code.formatted, ActionReturn)
    plugin = await act(PLUGIN, formatted=parsed(PLUGIN), **options)
    assert plugin.content == "Oslo: sunny for 1"


async def test_a_call_whose_parsing_failed_is_never_run_by_another_tool() -> None:
    before, after = action_processor("interpreter")
    found = parsed(BROKEN)
    assert found["status"] == -1
    answer = await act(BROKEN, formatted=found, tools=[interpreter, get_weather], before=[before], after=[after])
    assert ran == [] and "follow the format" in answer.content
    for status in (-1, 1):
        lagent = {"tool_type": "plugin", "thought": "", "action": "import os", "status": status}
        before, after = action_processor("interpreter", tool_type="interpreter")
        answer = await act(BROKEN, formatted=lagent, tools=[interpreter, get_weather], before=[before], after=[after])
        assert ran == []


anything = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@settings(max_examples=30)
@given(st.one_of(anything, st.fixed_dictionaries({"name": st.one_of(anything, st.just("Files.read")), "parameters": anything})), anything)
def test_any_content_is_answered_with_a_state_of_the_closed_set(content: Any, formatted: Any) -> None:
    import trio

    result = trio.run(lambda: act(content, formatted=formatted)).content
    assert result.state in ("SUCCESS", "ARGS_ERROR", "API_ERROR", "HTTP_ERROR")
    assert result.valid in ("OPEN", "CLOSED", "FINISH", "INVALID", "ABSENT")
    assert (result.errmsg is None) == (result.state == "SUCCESS")


# -- conversations


async def test_a_tool_that_keeps_something_for_a_conversation_has_one_for_each_session_and_subject() -> None:
    async with rt.ActorSystem("actions") as system:
        executor = await system.spawn(ActionExecutor, [rt.PythonKernel(approval=False, ipython=False)])

        async def run(code: str, session: str, subject: str = "ada") -> str:
            context = system.authority.mint(subject, ["tool.python"])
            message = AgentMessage(FunctionCall("python.run", {"code": code}), session=session)
            answer = (await executor.ask(message, context=context)).content
            return str(answer.format_result() or answer.errmsg.splitlines()[-1])

        await run("x = 'of a'", "a")
        assert await run("x", "b") == "NameError: name 'x' is not defined"
        assert await run("x", "a", "bob") == "NameError: name 'x' is not defined"
        assert await run("x", "a") == "'of a'"


async def test_sessions_are_at_work_at_the_same_time_and_each_in_its_order() -> None:
    entered, leave, order = trio.Semaphore(0), trio.Event(), []

    @rt.tool(concurrency=4)
    async def slow(name: str) -> str:
        """Waits."""
        order.append(name)
        entered.release()
        await leave.wait()
        return name

    async with rt.ActorSystem("actions") as system:
        executor = await system.spawn(ActionExecutor, [slow])
        async with trio.open_nursery() as nursery:
            for session, name in (("a", "a1"), ("a", "a2"), ("b", "b1")):
                nursery.start_soon(executor.ask, AgentMessage(FunctionCall("slow", {"name": name}), session=session))
                await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(5):
                await entered.acquire()
                await entered.acquire()
            assert order == ["a1", "b1"]
            leave.set()
    assert order == ["a1", "b1", "a2"]


async def test_a_session_without_a_name_is_told_so() -> None:
    async with rt.ActorSystem("actions") as system:
        executor = await system.spawn(ActionExecutor, [get_weather])
        with pytest.raises(rt.BadInput, match="no name of a session"):
            await executor.ask(AgentMessage({"name": "get_weather", "parameters": {"city": "x"}}, session=""))
