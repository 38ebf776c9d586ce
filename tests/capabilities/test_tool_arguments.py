"""How the arguments that a model wrote become a call: what is read, what is mended, what is told."""

from __future__ import annotations

import datetime as dt
import enum
import json
import logging
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import annotated_types
import attrs
import pydantic
import pytest

import retinue as rt
from retinue.capabilities.errors import BadArguments
from retinue.capabilities.tools import tool_of
from retinue.security.records import Member, Record


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Stop:
    name: str
    minutes: int = 5


@attrs.frozen
class Other:
    name: int


class Entry(TypedDict):
    key: str


class Spot(NamedTuple):
    row: int


class Form(pydantic.BaseModel):
    size: int


@attrs.frozen
class Left:
    child: Left | Right | None
    kind: Literal["left"]


@attrs.frozen
class Right:
    child: Left | Right | None
    kind: Literal["right"]


def get_weather(city: str, days: int = 1) -> str:
    return f"{city}: {days}"


def ping() -> str:
    return "pong"


def tool_for(annotation: Any) -> rt.Tool[Any, Any]:
    def example(value: str) -> Any:
        return value

    example.__annotations__["value"] = annotation
    (tool,) = tool_of(example)
    return tool


def read(annotation: Any, written: Any) -> Any:
    tool = tool_for(annotation)
    return tool.invoke(tool.decode(json.dumps({"value": written})))


def refusal(tool: rt.Tool[Any, Any], arguments: Any, **options: Any) -> BadArguments:
    with pytest.raises(BadArguments) as caught:
        tool.decode(arguments, **options)
    assert caught.value.tool == tool.name
    return caught.value


(WEATHER,) = tool_of(get_weather)
(PING,) = tool_of(ping)


def test_every_parameter_that_is_wrong_is_named_at_once_with_what_was_expected_and_what_came() -> None:
    error = refusal(WEATHER, '{"days": "many", "citty": "Rome"}')
    assert [(problem.where, problem.expected, problem.got, problem.hint) for problem in error.problems] == [
        ("city", "a string", "nothing", ""),
        ("days", "an integer", "the string 'many'", ""),
        ("citty", "no such name, but one of: city, days", "a value", "did you mean 'city'?"),
    ]
    for part in ("city", "many", "an integer", "did you mean 'city'", '"days": an integer, optional', "nothing was run"):
        assert part in str(error)


@pytest.mark.parametrize(
    "written",
    ['{"city": "Par', '{"city": "Paris", "days":', '{"city"', "{", "", "  ", "Paris", '{"city": "Paris"} {"city": "Rome"}', "[", "null"],
)
def test_what_is_no_json_is_an_error_and_never_an_empty_object(written: str) -> None:
    error = refusal(WEATHER, written)
    assert "Nothing was run" in str(error) or "nothing was run" in str(error)
    assert '"city": a string' in str(error)


def test_the_place_where_json_is_broken_is_told() -> None:
    error = refusal(WEATHER, '{"city": "Paris" "days": 2}')
    assert error.position == 17
    assert "character 17" in str(error)


@pytest.mark.parametrize(
    "written",
    [
        '{"city": "Paris", "days": 2,}',
        "{'city': 'Paris', 'days': 2}",
        '```json\n{"city": "Paris", "days": 2}\n```',
        '\ufeff{"city": "Paris", "days": 2}',
        ' \n{"city": "Paris", "days": 2}\n ',
        json.dumps(json.dumps({"city": "Paris", "days": 2})),
        '{"city": "Paris", "days": "2"}',
        '{"city": "Paris", "days": 2.0}',
    ],
)
def test_a_slip_where_only_one_thing_can_be_meant_is_mended(written: str) -> None:
    assert WEATHER.call(WEATHER.decode(written)) == {"city": "Paris", "days": 2}


def test_what_was_mended_is_told_to_whoever_wants_to_know(caplog: pytest.LogCaptureFixture) -> None:
    notes: list[str] = []
    with caplog.at_level(logging.DEBUG, "retinue.tools"):
        WEATHER.decode('{"city": "Paris", "days": "2",}', notes=notes)
        WEATHER.decode('{"city": "Paris"}', notes=notes)
    assert len(notes) == 2
    assert "mended" in notes[0]
    assert "another form" in notes[1]
    assert caplog.messages == notes


def test_a_text_that_was_cut_off_is_not_mended_even_where_it_could_be() -> None:
    written = '{"city": "Paris",}'
    assert WEATHER.decode(written) == WEATHER.decode('{"city": "Paris"}')
    assert "cut off" in str(refusal(WEATHER, written, truncated=True))
    assert "JSON object" in str(refusal(WEATHER, json.dumps('{"city": "Paris"}'), truncated=True))


@pytest.mark.parametrize("written", ["", " ", "null", "{}"])
def test_no_arguments_at_all_will_do_where_there_are_no_parameters(written: str) -> None:
    assert PING.invoke(PING.decode(written)) == "pong"


def test_a_tool_without_parameters_refuses_what_it_does_not_take() -> None:
    assert refusal(PING, '{"city": "Paris"}').problems[0].where == "city"
    assert "there are none" in str(refusal(PING, '{"city": "Paris"}'))


@pytest.mark.parametrize(
    ("annotation", "written", "value"),
    [
        (float, 3, 3.0),
        (int | float, 3, 3),
        (float | int, 3, 3),
        (str, 5, "5"),
        (str | None, None, None),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (bool, "true", True),
        (Stop, '{"name": "x"}', Stop("x")),
        (list[Stop], ['{"name": "x"}', {"name": 7}], [Stop("x"), Stop("7")]),
        (str | int, "5", "5"),
        (str | list[str], '["a"]', '["a"]'),
        (Literal["1", "2"], 1, "1"),
        (Decimal, "1.50", Decimal("1.50")),
        (Decimal, 3, Decimal(3)),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (dt.datetime, "2026-11-30T09:00:00Z", dt.datetime(2026, 11, 30, 9, tzinfo=dt.UTC)),
        (dt.timedelta, 90, dt.timedelta(seconds=90)),
        (Form, {"size": 3}, Form(size=3)),
        (Entry, {"key": "x"}, {"key": "x"}),
        (Spot, {"row": 3}, Spot(3)),
        (Stop | Other, {"name": 7}, Other(7)),
    ],
    ids=str,
)
def test_a_value_arrives_as_the_type_that_the_function_has(annotation: Any, written: Any, value: Any) -> None:
    made = read(annotation, written)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("annotation", "written"),
    [
        (int, True),
        (int, 1.5),
        (int, None),
        (int, "1.5"),
        (int, "1_000"),
        (int, "0x10"),
        (int, [1]),
        (float, "nan"),
        (float, True),
        (bool, 1),
        (bool, "yes"),
        (str, ["a"]),
        (str, None),
        (list[int], "1, 2"),
        (list[int], {"0": 1}),
        (set[int], 3),
        (dict[str, int], [["a", 1]]),
        (Literal["km"], "KM"),
        (Literal[1], True),
        (Colour, "RED"),
        (dt.date, "30.11.2026"),
        (dt.date, "2026-11-30T09:00:00"),
        (dt.datetime, "2026-11-30"),
        (bytes, "ü"),
        (bytes, 1234),
        (Decimal, "NaN"),
        (Decimal, "1e99999"),
        (tuple[int, str], [1]),
        (Annotated[int, annotated_types.Ge(1)], 0),
        (Annotated[str, annotated_types.MaxLen(3)], "long"),
        (Annotated[int, annotated_types.Predicate(str.isdigit)], 3),
        (Stop, {"name": "x", "minutes": 5, "more": 1}),
        (Form, {"size": "big"}),
    ],
    ids=str,
)
def test_a_value_of_another_kind_is_refused(annotation: Any, written: Any) -> None:
    error = refusal(tool_for(annotation), json.dumps({"value": written}))
    assert error.problems[0].where.startswith("value")


def test_a_number_that_was_meant_as_text_keeps_the_way_it_was_written() -> None:
    assert WEATHER.call(WEATHER.decode('{"city": 1.50}'))["city"] == "1.50"
    assert tool_for(Decimal).call(tool_for(Decimal).decode('{"value": 0.10000000000000000000001}')) == {
        "value": Decimal("0.10000000000000000000001")
    }


def test_one_bad_parameter_does_not_change_how_the_others_are_read() -> None:
    def example(either: Stop | Other, count: int) -> Any:
        return either

    (tool,) = tool_of(example)
    assert tool.invoke(tool.decode('{"either": {"name": 7}, "count": "3"}')) == Other(7)


def test_the_place_within_a_value_is_told() -> None:
    def example(stops: list[Stop], by_name: dict[str, list[int]]) -> None: ...

    (tool,) = tool_of(example)
    error = refusal(tool, '{"stops": [{"name": "a"}, {"minutes": "x"}], "by_name": {"k": [1, "z"]}}')
    assert [problem.where for problem in error.problems] == ["stops[1].name", "stops[1].minutes", "by_name.k[1]"]


@pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number_is_refused(written: str) -> None:
    def example(value: float, other: Any = None) -> None: ...

    (tool,) = tool_of(example)
    refusal(tool, f'{{"value": {written}}}')
    refusal(tool, f'{{"value": 1, "other": [{written}]}}')
    refusal(tool, {"value": float("nan")})


def test_a_key_twice_is_refused() -> None:
    assert "'city' stands twice" in str(refusal(WEATHER, '{"city": "Paris", "city": "Rome"}'))
    assert "twice" in str(refusal(tool_for(Any), '{"value": {"a": 1, "a": 2}}'))


@pytest.mark.parametrize(
    "written",
    [
        "[" * 100_000,
        '{"value": ' * 100 + "1" + "}" * 100,
        '{"value": ' + "[" * 65 + "]" * 65 + "}",
        '{"value": ' + "9" * 10_000 + "}",
        '{"value": ' + "9" * 401 + "}",
    ],
)
def test_numbers_and_nesting_have_a_bound(written: str) -> None:
    refusal(tool_for(Any), written)


def test_a_text_has_a_bound() -> None:
    assert "are the most" in str(refusal(WEATHER, '{"city": "' + "x" * (4 * 2**20) + '"}'))


@pytest.mark.parametrize("written", ['{"city": "a\\ud83db"}', '{"city": "a\ud83db"}'])
def test_half_of_a_surrogate_pair_becomes_the_replacement_character(written: str) -> None:
    assert WEATHER.call(WEATHER.decode(written))["city"] == "a\ufffdb"
    assert WEATHER.call(WEATHER.decode({"city": "a\ud83db"}))["city"] == "a\ufffdb"


def test_characters_of_two_halves_stay_what_they_are() -> None:
    assert WEATHER.call(WEATHER.decode('{"city": "\\ud83d\\ude00 世界"}'))["city"] == "😀 世界"


def test_a_program_may_give_values_as_they_are_and_as_a_store_keeps_them() -> None:
    def example(when: dt.date, colour: Colour, stop: Stop, seen: set[int]) -> None: ...

    (tool,) = tool_of(example)
    wanted = {"when": dt.date(2026, 1, 2), "colour": Colour.RED, "stop": Stop("x"), "seen": {1}}
    assert tool.call(tool.decode(wanted)) == wanted
    stored = {
        "when": dt.date(2026, 1, 2),
        "colour": Member("m.Colour", "RED"),
        "stop": Record("m.Stop", (("name", "x"), ("minutes", 5))),
        "seen": [1],
    }
    assert tool.call(tool.decode(stored)) == wanted


def test_the_mapping_that_was_given_is_not_the_callers_own_list() -> None:
    def example(value: Any, items: list[int]) -> None: ...

    (tool,) = tool_of(example)
    given = {"value": {"a": [1]}, "items": [1]}
    call = tool.call(tool.decode(given))
    given["value"]["a"].append(2)  # type: ignore[call-overload, index]
    given["items"].append(2)  # type: ignore[attr-defined]
    assert call == {"value": {"a": [1]}, "items": [1]}


@pytest.mark.parametrize("given", [None, 3, b'{"city": "x"}', ["city"]])
def test_arguments_of_another_kind_are_refused(given: Any) -> None:
    assert "JSON text or a mapping" in str(refusal(WEATHER, given))


def test_a_secret_in_a_wrong_argument_is_not_repeated() -> None:
    error = refusal(tool_for(int), json.dumps({"value": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"}))
    assert "abcdefghij" not in str(error)


def test_a_default_that_can_be_changed_is_a_new_one_for_each_call() -> None:
    def example(items: list[int] = []) -> list[int]:  # noqa: B006
        items.append(1)
        return items

    (tool,) = tool_of(example)
    assert tool.invoke(tool.decode("{}")) == [1]
    assert tool.invoke(tool.decode("{}")) == [1]


@pytest.mark.parametrize("leaf", [None, 5])
@pytest.mark.parametrize("count", [3, "3"])
def test_types_that_contain_each_other_take_no_time_that_doubles_with_each_level(leaf: Any, count: Any) -> None:
    def example(value: Left | Right, count: int) -> Any:
        return value

    (tool,) = tool_of(example)
    written: Any = leaf
    for _ in range(60):
        written = {"child": written, "kind": "right"}
    arguments = json.dumps({"value": written, "count": count})
    if leaf is None:
        assert isinstance(tool.invoke(tool.decode(arguments)), Right)
    else:
        assert "got the number 5" in str(refusal(tool, arguments))


def test_an_argument_with_very_many_problems_names_some_of_them() -> None:
    error = refusal(tool_for(list[int]), json.dumps({"value": ["x"] * 10_000}))
    assert len(str(error)) < 4_000
    assert "and 30 more" in str(error)
    error = refusal(WEATHER, json.dumps({f"name{number}": number for number in range(10_000)}))
    assert len(str(error)) < 4_000


def test_a_mapping_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["value"] = loop
    assert "within each other" in str(refusal(tool_for(Any), loop))


@pytest.mark.parametrize("written", ["0.99999999999999999", "1e-400", "4503599627370497.2", "1e-9999999999999999999999", "1." + "0" * 500])
def test_a_number_that_is_only_nearly_whole_is_no_int(written: str) -> None:
    text = refusal(tool_for(int), f'{{"value": {written}}}')
    assert "expected an integer" in str(text)


def test_minus_zero_keeps_its_sign_where_digits_are_wanted() -> None:
    assert tool_for(str).decode('{"value": -0}').value == "-0"
    assert tool_for(int).decode('{"value": -0}').value == 0


@pytest.mark.parametrize("given", ['{"value": {"\\ud800": 1, "\\ud801": 2}}', {"value": {chr(0xD800): 1, chr(0xD801): 2}}])
def test_two_keys_that_become_one_are_refused(given: Any) -> None:
    assert "twice" in str(refusal(tool_for(dict[str, int]), given))


def test_very_many_arrays_are_refused_and_brackets_in_a_text_are_none() -> None:
    assert "100,000 are the most" in str(refusal(tool_for(list[list[int]]), f'{{"value": [{"[]," * 200_000}[]]}}'))
    text = '[{\\"' * 100_000
    assert tool_for(str).decode(f'{{"value": "{text}"}}').value == '[{"' * 100_000


def test_very_many_unknown_names_are_told_of_in_part() -> None:
    error = refusal(tool_for(int), json.dumps({f"n{number}": 1 for number in range(50_000)}))
    assert len(error.problems) < 60
