"""Structured output: the type goes to the model, what comes back is read strictly, and what does not fit is said in words that help."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, Literal, NamedTuple, TypedDict

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from agent_players import agent_system, read, said_to
from retinue import llm
from retinue.actors.agents.output import CORRECTIONS, Misfit, check_mode, choose_mode, output_type


@attrs.frozen
class City:
    """A place.

    Attributes:
        name: What it is called.
        people: How many live there.
    """

    name: str
    people: int
    tags: list[str] = attrs.Factory(list)


@dataclasses.dataclass
class Person:
    first: str
    age: int | None = None


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Row(TypedDict):
    key: str


class Pair(NamedTuple):
    left: int
    right: int


@attrs.frozen
class Tree:
    value: int
    children: list[Tree] = attrs.Factory(list)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (City, '{"name": "Paris", "people": 2}', City("Paris", 2)),
        (Person, '{"first": "Ada"}', Person("Ada")),
        (Row, '{"key": "a"}', {"key": "a"}),
        (Pair, '{"left": 1, "right": 2}', Pair(1, 2)),
        (Tree, '{"value": 1, "children": [{"value": 2}]}', Tree(1, [Tree(2)])),
        (City | Person, '{"value": {"first": "Ada", "age": 3}}', Person("Ada", 3)),
        (list[City], '{"value": [{"name": "a", "people": 1}]}', [City("a", 1)]),
        (list[int], "[1, 2]", [1, 2]),
        (int, '{"value": 3}', 3),
        (int, "3", 3),
        (Mood, '{"value": "good"}', Mood.GOOD),
        (Literal["x", "y"], '"x"', "x"),
        (dict[str, int], '{"value": {"a": 1}}', {"a": 1}),
        (str | None, '{"value": null}', None),
    ],
)
def test_an_answer_of_the_type_is_read(kind: Any, text: str, value: object) -> None:
    made = output_type(kind)
    assert made.decode(text) == value == made.decode(f"Here you are:\n```json\n{text}\n```\nAnything else?")
    schema = json.loads(made.spec.schema)
    assert schema["type"] == "object" and schema == json.loads(made.tool_spec.parameters)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": "Paris", "people": "many"}', ["people", "an integer", "many"]),
        ('{"name": "Paris", "people": true}', ["people"]),
        ('{"name": "Paris"}', ["people", "nothing"]),
        ('{"name": "Paris", "people": 1, "mayor": "x"}', ["mayor"]),
        ('{"name": "Paris", "people": 1.5, "tags": [1, {}]}', ["people", "tags"]),
        ("[]", ["object"]),
        ("Paris has two million people.", ["no JSON"]),
        ('{"name": "Paris", "peop', ["no JSON"]),
        ("", ["empty"]),
        ("  \n", ["empty"]),
        ('{"name": "a", "name": "b", "people": 1}', ["no JSON"]),
    ],
)
def test_an_answer_that_does_not_fit_says_everything_that_is_wrong(text: str, words: list[str]) -> None:
    with pytest.raises(Misfit) as caught:
        output_type(City).decode(text)
    assert all(word in str(caught.value) for word in [*words, "people"]) and "arguments" not in str(caught.value)


def test_an_answer_that_was_cut_off_is_not_mended() -> None:
    with pytest.raises(Misfit, match="cut off"):
        output_type(City).decode('{"name": "Paris", "people": 2', truncated=True)


@settings(max_examples=12)
@given(st.text(max_size=40))
def test_whatever_a_model_answers_is_a_value_or_a_misfit(text: str) -> None:
    for kind in (City, list[int]):
        told = "a value"
        try:
            output_type(kind).decode(text)
        except Misfit as misfit:
            told = str(misfit)
        assert told


@settings(max_examples=10)
@given(
    st.builds(
        City,
        st.text(st.characters(exclude_categories=["Cs"])),
        st.integers(-(2**53), 2**53),
        st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3),
    )
)
def test_what_is_written_as_json_is_read_as_what_it_was(city: City) -> None:
    assert output_type(City).decode(json.dumps(attrs.asdict(city))) == city


def test_the_modes_and_who_gets_which() -> None:
    assert choose_mode(True, True) == "tool" and choose_mode(False, True) == "native" and choose_mode(False, False) == "tool"
    assert check_mode("prompted") == "prompted" and check_mode(None) is None
    with pytest.raises(rt.DefinitionError, match="tool, native, prompted"):
        check_mode("json")


@pytest.mark.parametrize("kind", [object(), lambda: 1, type("Odd", (), {}), list[type], 3])
def test_a_type_without_a_form_in_json_is_refused_with_its_name(kind: Any) -> None:
    with pytest.raises(rt.DefinitionError, match="output="):
        output_type(kind)


def test_a_pydantic_model_may_be_brought() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Point(pydantic.BaseModel):
        x: int

    assert output_type(Point).decode('{"x": 1}') == Point(x=1)
    with pytest.raises(Misfit, match="x"):
        output_type(Point).decode('{"x": "one"}')


def answer(**fields: Any) -> llm.Completion:
    return llm.tool_calls(("final_result", fields))


async def final(agent: Any, streamed: bool) -> Any:
    if streamed:
        last = (await read(agent, "Which city?"))[-1]
        return last.message if isinstance(last, rt.RunEnd) else last
    try:
        return await agent.ask("Which city?")
    except rt.AgentError as error:
        return error


BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])


@BOTH
@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("tool", answer(name="Paris", people=2)),
        ("native", '{"name": "Paris", "people": 2}'),
        ("prompted", 'Sure: {"name": "Paris", "people": 2}'),
    ],
)
async def test_an_agent_answers_with_an_object_in_every_mode(mode: Any, line: Any, streamed: bool) -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, line), output=City, output_mode=mode) as (_, agent):
        reply = await final(agent, streamed)
    assert reply.formatted == City("Paris", 2)
    (request,) = told
    assert [spec.name for spec in request.tools] == (["final_result"] if mode == "tool" else [])
    assert (request.output is not None) == (mode == "native")
    assert ("people" in request.messages[0].content) == (mode == "prompted")


@BOTH
@pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
async def test_an_answer_that_does_not_fit_is_sent_back_with_what_is_wrong_a_bounded_number_of_times(mode: Any, streamed: bool) -> None:
    told: list[llm.Complete] = []
    bad: Any = answer(name="Paris", people="many") if mode == "tool" else '{"name": "Paris", "people": "many"}'
    good: Any = answer(name="Paris", people=2) if mode == "tool" else '{"name": "Paris", "people": 2}'
    async with agent_system(said_to(told, bad, good), output=City, output_mode=mode) as (_, agent):
        reply = await final(agent, streamed)
    assert reply.formatted == City("Paris", 2)
    assert "people" in told[1].messages[-1].content and "an integer" in told[1].messages[-1].content

    told.clear()
    async with agent_system(said_to(told, *[bad] * (CORRECTIONS + 1)), output=City, output_mode=mode) as (_, agent):
        error = await final(agent, streamed)
        memory = await agent.ask(rt.GetMemory())
    assert isinstance(error, rt.OutputInvalid) and error.attempts == CORRECTIONS + 1 == len(told) and "people" in error.problem
    assert memory.items == ()


@BOTH
async def test_a_refusal_is_no_answer(streamed: bool) -> None:
    async with agent_system([llm.Completion(refusal="I would rather not.")], output=City) as (_, agent):
        error = await final(agent, streamed)
    assert isinstance(error, rt.OutputRefused) and error.refusal == "I would rather not."


@BOTH
async def test_tools_are_used_before_the_answer_is_given(streamed: bool) -> None:
    def count(city: str) -> int:
        """Counts people."""
        return len(city)

    script = [llm.tool_calls(("count", {"city": "Paris"})), answer(name="Paris", people=5)]
    async with agent_system(script, output=City, tools=[count]) as (_, agent):
        reply = await final(agent, streamed)
    assert reply.formatted == City("Paris", 5)
