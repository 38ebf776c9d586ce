"""Memory as plain data by key path, and back: all of it or nothing."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import uuid
from pathlib import PurePosixPath
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from agent_players import agent_system
from retinue import llm
from retinue.actors.agents.views import VERSION, load_state_dict, reset, state_dict

CALL = llm.ToolCall("c1", "read", '{"a": 1}')
ITEMS = (
    rt.AgentMessage("hi 😀 \ud83d", sender="user", extra={"a": [1]}),
    rt.Step("tool_calls", "hm", calls=(CALL,), turn=1, reasoning="r"),
    rt.Step("tool_result", "boom", ok=False, call_id="c1", tool="read", error="raised", turn=1),
    rt.AgentMessage(
        {"a": [1, None, 2.5]}, sender="agent", formatted=[1], usage=llm.Usage(2, 3, None), partial=True, type="t", receiver="r"
    ),
)

TEXT = st.text(st.characters(), max_size=6)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OPTIONAL = st.none() | TEXT
NUMBER = st.none() | st.integers(0, 10**9)
MESSAGES = st.builds(
    rt.AgentMessage, PLAIN, TEXT, PLAIN, TEXT, OPTIONAL, OPTIONAL, st.none() | st.dictionaries(TEXT, PLAIN, max_size=2),
    st.none() | st.builds(llm.Usage, st.integers(0, 9), NUMBER, NUMBER, NUMBER, NUMBER, NUMBER), st.booleans(),
)  # fmt: skip
CALLS = st.builds(llm.ToolCall, TEXT, TEXT, TEXT, OPTIONAL, st.booleans())
STEPS = st.builds(
    rt.Step, st.sampled_from(["tool_calls", "tool_result", "attempt", "correction"]), TEXT, st.booleans(), OPTIONAL, OPTIONAL,
    st.lists(CALLS, max_size=2).map(tuple), OPTIONAL, st.integers(0, 99), OPTIONAL,
)  # fmt: skip


@settings(max_examples=12)
@given(st.lists(MESSAGES | STEPS, max_size=5), st.lists(MESSAGES, max_size=2))
def test_what_is_written_as_json_is_read_as_what_it_was(own: list[Any], inner: list[Any]) -> None:
    written = json.loads(json.dumps(state_dict({"": own, "writer": inner})))
    assert load_state_dict(written, ["", "writer"]) == {"": tuple(own), "writer": tuple(inner)}


def test_the_data_stand_under_key_paths_and_say_their_version() -> None:
    found = state_dict({"": ITEMS, "writer": (), "kids.0": ITEMS[:1]})
    assert list(found) == ["version", "memory", "writer.memory", "kids.0.memory"]
    assert found["version"] == VERSION and found["writer.memory"] == [] and found["memory"][0]["content"] == "hi 😀 \ud83d"
    assert state_dict(ITEMS)["memory"] == found["memory"]
    assert load_state_dict({"memory": found["memory"]}) == {"": ITEMS}  # without a version: the first


def test_what_is_no_plain_data_is_written_as_plain_data() -> None:
    @attrs.frozen
    class City:
        name: str
        spots: frozenset[str]

    message = rt.AgentMessage(b"x", formatted=City("Paris", frozenset({"a"})), extra={"n": float("inf"), "t": (1, 2)})  # type: ignore[dict-item]
    (entry,) = state_dict([message])["memory"]
    assert (entry["content"], entry["formatted"], entry["extra"]) == ("b'x'", {"name": "Paris", "spots": ["a"]}, {"n": "inf", "t": [1, 2]})
    (loaded,) = load_state_dict(json.loads(json.dumps(state_dict([message]))))[""]
    assert isinstance(loaded, rt.AgentMessage) and loaded.formatted == {"name": "Paris", "spots": ["a"]}


def test_data_that_hold_themselves_are_refused() -> None:
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(rt.BadState, match=r"memory\[0\]\.content is nested"):
        state_dict([rt.AgentMessage(knot)])


def changed(path: str, value: Any) -> Any:
    state = json.loads(json.dumps(state_dict(ITEMS)))
    *way, last = [int(part) if part.isdecimal() else part for part in path.split("/")]
    place = state
    for part in way:
        place = place[part]
    place[last] = value
    return state


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (None, "is a NoneType"),
        ([], "is a list"),
        (changed("version", 2), "version 2"),
        (changed("version", "1"), "version"),
        (changed("memory", "text"), "list of messages"),
        (changed("memory", None), "list of messages"),
        (changed("memory/0", 3), r"memory\[0\] is a int"),
        (changed("memory/0/sender", 3), r"memory\[0\]\.sender is a int: a text"),
        (changed("memory/0/sendr", "x"), r"memory\[0\] has 'sendr'.*did you mean 'sender'"),
        (changed("memory/0", {"sender": "x"}), r"memory\[0\] has no 'content'"),
        (changed("memory/0/partial", 1), "true or false"),
        (changed("memory/1/kind", "step"), "use one of"),
        (changed("memory/1/calls/0", "c"), r"calls\[0\] is a str"),
        (changed("memory/1/calls/0/arguments", {}), r"calls\[0\]\.arguments is a dict"),
        (changed("memory/1/turn", True), "an integer"),
        (changed("memory/3/usage/requests", "2"), r"usage\.requests"),
        (changed("memory/3/usage/money", 2), "money"),
    ],
)
def test_a_state_that_is_none_is_refused_with_the_place(state: Any, why: str) -> None:
    with pytest.raises(rt.BadState, match=why):
        load_state_dict(state)


@pytest.mark.parametrize(
    ("state", "paths", "key"),
    [
        ({"version": 1}, [""], "memory"),
        ({"memory": []}, ["", "writer"], "writer.memory"),
        ({"memory": [], "writter.memory": []}, ["", "writer"], "writter.memory"),
        ({"memory": [], "x": 1}, [""], "x"),
    ],
)
def test_a_key_path_that_is_missing_or_unknown_is_a_key_error(state: Any, paths: list[str], key: str) -> None:
    with pytest.raises(KeyError) as caught:
        load_state_dict(state, paths)
    assert isinstance(caught.value, rt.UnknownStateKey) and caught.value.key == key and not str(caught.value).startswith("'")


def test_a_reset_clears_one_all_or_the_agents_own() -> None:
    paths = ("", "writer", "writer.inner")
    assert reset(paths) == ("",)
    assert reset(paths, "writer.inner") == ("writer.inner",)
    assert reset(paths, recursive=True) == paths
    with pytest.raises(rt.UnknownStateKey, match="did you mean 'writer'"):
        reset(paths, "writr")
    with pytest.raises(rt.BadState, match="one of them"):
        reset(paths, "writer", recursive=True)


async def test_a_session_is_written_loaded_into_another_and_goes_on_there() -> None:
    told: list[llm.Complete] = []

    def say(request: llm.Complete) -> str:
        told.append(request)
        return "Ada."

    async with agent_system(["Hi, Ada.", say]) as (_, agent):
        await agent.ask(rt.AgentMessage("I am Ada", session="a"))
        state = json.loads(json.dumps(await agent.ask(rt.GetState(session="a"))))
        await agent.ask(rt.LoadState(state, session="b"))
        await agent.ask(rt.AgentMessage("Who am I?", session="b"))
        assert [message.content for message in told[0].messages] == ["I am Ada", "Hi, Ada.", "Who am I?"]
        before = await agent.ask(rt.GetMemory(session="b"))
        state["memory"].append({"sender": "user"})
        with pytest.raises(rt.BadState):
            await agent.ask(rt.LoadState(state, session="b"))
        assert await agent.ask(rt.GetMemory(session="b")) == before


class Colour(str, enum.Enum):  # noqa: UP042 - many are written like this
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), "2026-01-02T03:04:00+00:00"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.time(3, 4), "03:04:00"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (PurePosixPath("a/b"), "a/b"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_times_decimals_and_members_of_enumerations_are_written_as_what_can_be_read_again(value: Any, written: Any) -> None:
    message = rt.AgentMessage({"it": [value]}, formatted=value)
    found = json.loads(json.dumps(state_dict((message,))))["memory"][0]
    assert (found["content"], found["formatted"]) == ({"it": [written]}, written)
    assert json.loads(message.text) == {"it": [written]}
