"""Tools as they are defined: names, options, how they are called, and what they are to the gate."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any
from unittest.mock import MagicMock

import attrs
import pytest
import trio

import retinue as rt
from retinue.actors.tools.executor import spawn_executor
from retinue.capabilities.snapshots import arguments_of, own_copy_and_arguments
from retinue.capabilities.tool_options import OPTION_NAMES, ToolOptions
from retinue.capabilities.tools import tool_of, tools_of
from retinue.mailbox.messages import message_info


def get_weather(city: str, days: int = 1) -> str:
    """Forecast for a city.

    Args:
        city: Name of the city.
        days: How many days ahead.
    """
    return f"{city}: sunny for {days} day(s)"


def test_a_plain_function_is_a_tool_by_its_name_docstring_and_types() -> None:
    (tool,) = tool_of(get_weather)
    assert (tool.name, tool.description, tool.requires) == ("get_weather", "Forecast for a city.", "tool.get_weather")
    assert tool.spec == (
        "get_weather",
        "Forecast for a city.",
        (
            '{"type":"object","properties":{"city":{"type":"string","description":"Name of the city."},'
            '"days":{"type":"integer","description":"How many days ahead.","default":1}},"required":["city"],"additionalProperties":false}'
        ),
    )
    assert tool.decode('{"city": "Paris", "days": 2}') == tool.message(city="Paris", days=2)  # type: ignore[call-arg]


def test_a_decorated_function_is_still_called_as_one() -> None:
    decorated = rt.tool(get_weather)
    assert decorated("Rome") == "Rome: sunny for 1 day(s)"
    assert tool_of(decorated) == (decorated,)
    assert repr(decorated) == f"<Tool 'get_weather': {__name__}.get_weather>"


def test_the_decorators_options_are_the_tools() -> None:
    @rt.tool(
        name="pay", description="Pays.", requires="payments.send", approval=True, risk="L3", four_eyes=True, timeout=3, idempotent=True
    )
    def send_money(cents: int) -> str:
        return str(cents)

    assert (send_money.name, send_money.description, send_money.requires) == ("pay", "Pays.", "payments.send")
    assert (send_money.approval, send_money.risk, send_money.four_eyes, send_money.timeout, send_money.idempotent) == (
        True,
        "L3",
        True,
        3.0,
        True,
    )
    assert message_info(send_money.message).timeout == 33.0  # that of the executor comes first
    assert message_info(send_money.message).label == "pay"


def test_the_signature_of_the_decorator_has_the_defaults_of_the_options() -> None:
    options = ToolOptions()
    parameters = inspect.signature(rt.tool).parameters
    assert {name: parameters[name].default for name in OPTION_NAMES} == {name: getattr(options, name) for name in OPTION_NAMES}
    assert set(parameters) == {"function", "name", "description", *OPTION_NAMES, "unknown"}, "the last takes what is misspelt"


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0}, {"timeout": math.nan}, {"timeout": True}, {"timeout": "60"}, {"approval": "yes"}, {"risk": "high"}, {"four_eyes": True},
        {"blocking": 1}, {"loop": "curio"}, {"process": 1}, {"output_limit": 10}, {"output_limit": 1.5}, {"concurrency": 0}, {"idempotent": None},
    ],
)  # fmt: skip
def test_an_option_of_the_wrong_kind_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(rt.DefinitionError, match=next(iter(options))):
        rt.tool(**options)


def test_options_that_do_not_go_together_are_refused_with_the_way_out() -> None:
    async def fetch(url: str) -> str:
        return url

    with pytest.raises(rt.DefinitionError, match=r"'fetch' .*blocking=True: write a plain `def`"):
        rt.tool(blocking=True)(fetch)
    with pytest.raises(rt.DefinitionError, match=r"'get_weather' .*loop='asyncio': write `async def`"):
        rt.tool(loop="asyncio")(get_weather)
    with pytest.raises(rt.PatternError):
        rt.tool(requires="tool..x")


def test_other_options_make_another_tool_of_the_same_function() -> None:
    tool = rt.tool(get_weather)
    asked = tool.with_options(approval=True)
    assert (tool.approval, asked.approval, asked.function) == (False, True, tool.function)
    assert asked.message is not tool.message
    with pytest.raises(rt.DefinitionError, match="no option 'aproval': there are .*approval"):
        tool.with_options(aproval=True)


@pytest.mark.parametrize("name", ["", "ünique", "with space", "a..b", ".a", "9lives", "x" * 65, "a.b" + "c" * 63])
def test_a_name_that_providers_do_not_take_is_refused_with_the_fix(name: str) -> None:
    with pytest.raises(rt.DefinitionError, match=r"name='…'"):
        rt.tool(name=name)(get_weather)


def test_the_name_for_providers_has_no_dot() -> None:
    tool = rt.tool(name="Weather.get-it")(get_weather)
    assert (tool.name, tool.wire_name, tool.requires, tool.spec[0]) == (
        "Weather.get-it",
        "Weather__get-it",
        "tool.Weather.get-it",
        "Weather__get-it",
    )


def test_each_way_to_write_a_function_is_known_and_only_blocking_ones_go_to_a_thread() -> None:
    async def asynchronous(a: int) -> int:
        await trio.lowlevel.checkpoint()
        return a

    def generator(a: int) -> Iterator[int]:
        yield a

    async def both(a: int) -> AsyncIterator[int]:
        yield a

    class Called:
        """Adds."""

        def __call__(self, a: int) -> int:
            return a

    made = {
        "def": rt.tool(get_weather),
        "async": rt.tool(asynchronous),
        "generator": rt.tool(generator),
        "asyncgen": rt.tool(both),
    }
    assert {kind: tool.kind for kind, tool in made.items()} == {kind: kind for kind in made}
    assert {kind: tool.in_thread for kind, tool in made.items()} == {"def": True, "async": False, "generator": True, "asyncgen": False}
    assert not made["def"].with_options(blocking=False).in_thread
    assert not made["def"].with_options(process=True).in_thread
    named: Any = rt.tool(name="called")(Called())
    assert (named.kind, named.invoke(named.decode({"a": 3}))) == ("def", 3)
    partial: Any = rt.tool(functools.partial(get_weather, days=3))
    assert (partial.name, partial.invoke(partial.decode({"city": "Oslo"}))) == ("get_weather", "Oslo: sunny for 3 day(s)")
    assert asyncio.iscoroutinefunction(made["async"].function)


def test_a_wrapped_function_is_described_by_what_it_wraps() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    (tool,) = tool_of(logged(get_weather))
    assert tool.invoke(tool.decode('{"city": "Rome"}')) == "Rome: sunny for 1 day(s)"
    assert '"Name of the city."' in tool.parameters


def test_parameters_that_go_by_position_only_and_by_keyword_only_are_given_so() -> None:
    def example(a: int, context: rt.ToolContext, /, b: int, *, c: int = 3) -> tuple[Any, ...]:
        return (a, context, b, c)

    (tool,) = tool_of(example)
    context = rt.ToolContext("example")
    message = tool.decode({"a": 1, "b": 2})
    assert tool.invoke(message, context) == (1, context, 2, 3)
    assert (tool.positional, tool.context_parameter) == (("a",), "context")
    assert tool.call(message, context) == {"a": 1, "b": 2, "c": 3, "context": context}


def test_the_context_is_filled_in_and_no_model_can_give_it() -> None:
    def example(text: str, context: rt.ToolContext | None = None) -> Any:
        return context

    (tool,) = tool_of(example)
    assert "context" not in tool.parameters
    assert tool.invoke(tool.decode({"text": "x"}), "the context") == "the context"  # type: ignore[arg-type]
    with pytest.raises(rt.BadArguments, match="context"):
        tool.decode({"text": "x", "context": {}})

    def two(a: rt.ToolContext, b: rt.ToolContext) -> None: ...

    with pytest.raises(rt.DefinitionError, match="second ToolContext"):
        tool_of(two)


@pytest.mark.parametrize("names", [("_x", "x"), ("self_", "message"), ("attrs", "converter"), ("cl", "kwargs"), ("function", "context")])
def test_parameters_may_be_called_anything(names: tuple[str, str]) -> None:
    scope: dict[str, Any] = {}
    exec(f"def example({names[0]}: int, {names[1]}: int = 2): return {names[0]}, {names[1]}", scope)
    (tool,) = tool_of(scope["example"])
    message = tool.decode({names[0]: 1})
    assert tool.invoke(message) == (1, 2)
    assert arguments_of(message) == {names[0]: 1, names[1]: 2}


def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    @rt.tool(name="get_weather")
    def other(city: str) -> str:
        return city

    with pytest.raises(rt.DefinitionError, match=rf"called 'get_weather': {__name__}.get_weather and {__name__}.*other"):
        tools_of([get_weather, other])
    with pytest.raises(rt.DefinitionError, match="two tools"):
        tools_of([rt.tool(name="a.b")(get_weather), rt.tool(name="a__b")(get_weather)])  # providers could not tell them apart
    with pytest.raises(rt.DefinitionError, match="given as a list"):
        tools_of("get_weather")


@pytest.mark.parametrize("given", ["get_weather", 3, None, object(), int, attrs.frozen, dict])
def test_what_is_no_tool_is_refused_with_what_would_be_one(given: Any) -> None:
    if given is attrs.frozen:
        with pytest.raises(rt.DefinitionError, match="has no type"):
            tool_of(given)
    else:
        with pytest.raises(rt.DefinitionError, match=r"give|tools belong to instances"):
            tool_of(given)


def test_an_object_that_has_every_attribute_is_no_tool_for_that() -> None:
    class Agreeable:
        def __getattr__(self, name: str) -> Any:
            return self

        def __call__(self, *args: Any) -> None: ...

    with pytest.raises(rt.DefinitionError):
        tool_of(Agreeable())
    with pytest.raises(rt.DefinitionError):
        tool_of(MagicMock())


def test_what_cannot_describe_itself_is_refused_with_the_fix() -> None:
    with pytest.raises(rt.DefinitionError, match=r"'print' \(builtins.print\): its parameter 'args' is \*args"):
        tool_of(print)
    with pytest.raises(rt.DefinitionError, match="does not tell what it takes"):
        rt.tool(name="most")(max)
    with pytest.raises(rt.DefinitionError, match="description=…"):
        rt.tool(description=3)(get_weather)  # type: ignore[call-overload]


def test_an_object_that_lists_its_tools_stands_for_them() -> None:
    class Shop:
        def __tools__(self) -> list[Any]:
            return [get_weather]

    assert [tool.name for tool in tool_of(Shop())] == ["get_weather"]


def test_the_definition_changes_with_whatever_a_consent_is_about() -> None:
    def build(factor: int, text: str = "Forecast.") -> Any:
        def example(city: str) -> str:
            return city * factor

        example.__doc__ = text
        return rt.tool(example)

    one = build(1)
    assert one.definition == build(1).definition
    others = [
        build(2),
        build(1, "Other."),
        one.with_options(approval=True),
        one.with_options(requires="x.y"),
        one.with_options(timeout=math.inf),
    ]
    assert len({one.definition, *(other.definition for other in others)}) == 6


def test_the_gate_sees_the_arguments_by_name() -> None:
    @rt.tool
    def move(path: str, tags: list[str], how: Annotated[dict[str, int], "how"]) -> None: ...

    message = move.decode({"path": "a", "tags": ["x"], "how": {"n": 1}})
    own, arguments = own_copy_and_arguments(message)
    assert arguments == {"path": "a", "tags": ["x"], "how": {"n": 1}}
    assert own == message
    assert arguments["tags"] is not move.call(message)["tags"]
    assert message_info(move.message).mutable_fields == {"tags", "how"}


async def test_constraints_of_a_caller_hold_for_the_arguments_of_a_tool() -> None:
    @rt.tool(blocking=False)
    def read(path: str) -> str:
        return f"contents of {path}"

    async with rt.ActorSystem("tools") as system:
        executor = await spawn_executor(system, read)
        ada = system.authority.mint("ada", [rt.allow("tool.read", path=rt.within("reports"))])
        result = await executor.ask(read.decode('{"path": "reports/q3.txt"}'), context=ada)
        assert (result.ok, result.text) == (True, "contents of reports/q3.txt")
        for path in ("secrets.txt", "reports/../secrets.txt", ""):
            with pytest.raises(rt.Denied) as denied:
                await executor.ask(read.decode({"path": path}), context=ada)
            assert denied.value.reason == "arguments"


async def test_the_class_of_a_tools_calls_is_one_of_messages_with_a_reply() -> None:
    info = message_info(rt.tool(get_weather).message)
    assert (info.kind, info.reply, list(info.field_types)) == ("request", rt.ToolResult, ["city", "days"])
