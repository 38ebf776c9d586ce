"""What holds for every swarm: nobody misses a line or hears one twice, no way is longer than the guards allow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retinue as rt
from retinue.actors.agents.teams.guards import Watch
from retinue.actors.agents.teams.transcript import Transcript

NAMES = ("a", "b", "c")
TALKS = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6), max_size=12)


def lines_of(message: rt.AgentMessage) -> list[str]:
    return str(message.content).splitlines()


@given(TALKS, st.booleans())
def test_each_member_hears_every_line_of_the_others_once_and_in_order(runs: list[list[str]], many: bool) -> None:
    state: dict[str, Any] = {}
    said: list[tuple[str, str]] = []
    heard: dict[str, list[str]] = {name: [] for name in NAMES}
    for number, way in enumerate(runs):
        message = rt.AgentMessage(f"question {number}\nsecond" if many else f"question {number}")
        transcript = Transcript(state, message, NAMES)
        said.append(("user", message.content))
        for hop, member in enumerate(way):
            told = transcript.told(member, way[hop - 1] if hop else "user")
            if told is message:
                heard[member].append(f"user: {message.content}".replace("\n", "\n    "))
            else:
                heard[member].append(str(told.content))
            text = f"{member} at {number}.{hop}"
            transcript.say(member, text)
            said.append((member, text))
        transcript.keep(state, NAMES)
        state = json.loads(json.dumps(state))
    for name in NAMES:
        last = max((place for place, (speaker, _) in enumerate(said) if speaker == name), default=0)
        before = [f"{speaker}: {text}".replace("\n", "\n    ") for speaker, text in said[:last] if speaker != name]
        assert "\n".join(part for part in heard[name] if part) == "\n".join(before)


@given(TALKS, st.integers(0, 400), st.integers(0, 3_000))
def test_what_is_kept_of_a_talk_is_bounded(runs: list[list[str]], count: int, size: int) -> None:
    state: dict[str, Any] = {}
    transcript = Transcript(state, rt.AgentMessage("question"), NAMES)
    for _ in range(count):
        transcript.say("a", "x" * size)
    transcript.keep(state, [*NAMES, *(name for way in runs for name in way)])
    kept = state["transcript"]["lines"]
    assert len(kept) <= 200 and sum(len(text) for _, text in kept) <= 100_000
    assert kept == [] or kept[-1][1] == ("x" * size if count else "question")
    told = Transcript(state, rt.AgentMessage("more"), NAMES).told("b", "user")
    left_out = state["transcript"]["first"]
    assert (f"({left_out} earlier lines are left out)" in str(told.content)) == (left_out > 0)


def test_what_everybody_has_heard_is_kept_no_more_and_who_has_gone_is_waited_for_no_more() -> None:
    state: dict[str, Any] = {}
    for number in range(5):
        transcript = Transcript(state, rt.AgentMessage(f"question {number}"), ["a", "b"])
        transcript.told("a", "user")
        transcript.say("a", "answer")
        transcript.keep(state, ["a", "b"])
    assert len(state["transcript"]["lines"]) == 10
    transcript = Transcript(state, rt.AgentMessage("last"), ["a"])
    transcript.told("a", "user")
    transcript.keep(state, ["a"])
    assert state["transcript"]["lines"] == [] and set(state["transcript"]["heard"]) == {"a"}


@given(
    st.lists(st.sampled_from(NAMES), max_size=60),
    st.none() | st.integers(0, 30),
    st.none() | st.integers(2, 10),
    st.integers(1, 3),
)
def test_no_way_is_longer_or_more_of_the_same_than_the_guards_allow(
    way: list[str], hops: int | None, window: int | None, least: int
) -> None:
    if window is not None and least > window:
        least = window
    watch = Watch(rt.HandoffGuards(hops=hops, window=window, least_different=least), "/user/desk", now=lambda: 0.0)
    gone: list[str] = []
    ended: rt.HandoffLimit | None = None
    for member in way:
        gone.append(member)
        try:
            watch.enter(member)
        except rt.HandoffLimit as error:
            ended = error
            break
    if ended is not None:
        assert ended.way == tuple(gone)
        if ended.limit == "hops":
            assert hops is not None and len(gone) == hops + 2
        else:
            assert window is not None and len(set(gone[-window:])) < least
        gone.pop()  # who was not asked any more
    assert hops is None or len(gone) <= hops + 1
    if window is not None:
        spans = [gone[start : start + window] for start in range(len(gone) - window + 1)]
        assert all(len(set(span)) >= least for span in spans)


def test_the_time_of_a_run_is_shared_by_its_members() -> None:
    now = [0.0]
    watch = Watch(rt.HandoffGuards(member_seconds=20, seconds=30), "/user/desk", now=lambda: now[0])
    assert watch.timeout() == 20
    now[0] = 15
    assert watch.timeout() == 15
    watch.too_slow("a", 14, 15)  # it was somebody else's time-out: nothing is said
    now[0] = 30
    for slow in (watch.timeout, lambda: watch.too_slow("a", 15, 15)):
        with pytest.raises(rt.HandoffLimit) as caught:
            slow()
        assert caught.value.limit == "seconds"
    assert Watch(rt.HandoffGuards(member_seconds=None, seconds=None), "/user/desk", now=lambda: 0.0).timeout() is None
