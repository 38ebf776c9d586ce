"""Laws of how members stand, whatever happens to them in whatever order."""

from __future__ import annotations

import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue import llm
from retinue.actors.llm import standing
from retinue.actors.llm.standing import Cooling, Standing

ERRORS = [
    llm.ModelFailed("x", status=500),
    llm.ModelFailed("x", status=503, retry_after=3),
    llm.RateLimited("x", status=429, retry_after=100),
    llm.KeyRefused("x", status=401),
    llm.EmptyReply("x"),
    llm.ModelUnreachable("x"),
]
STEPS = st.lists(st.tuples(st.sampled_from(["answer", "give up", *range(len(ERRORS))]), st.floats(0, 50), st.booleans()), max_size=60)


@settings(max_examples=40)
@given(steps=STEPS, spread=st.booleans(), number=st.integers(1, 4))
def test_whoever_is_asked_was_ready_or_nobody_was(steps, spread, number):
    clock = types.SimpleNamespace(now=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standing.trio, "current_time", lambda: clock.now)
        cooling = Cooling(30.0, 600.0, 3600.0, False)
        members = Standing(tuple(types.SimpleNamespace(path=str(index)) for index in range(number)), spread=spread)
        under_way = []
        for act, pause, stays in steps:
            clock.now += pause
            ready = [member for member in members.members if member.is_ready(clock.now)]
            chosen = members.choose([], last_resort=True)
            assert chosen is not None
            if ready:
                assert chosen in ready
                assert spread or chosen is ready[0]
                assert not spread or chosen.outstanding == min(member.outstanding for member in ready)
            elif all(member.cools_until > clock.now for member in members.members):
                assert chosen.cools_until == min(member.cools_until for member in members.members)
            asking = chosen.begin(clock.now, [])
            assert sum(member.probing for member in members.members if member is chosen) <= 1
            if stays:
                under_way.append((chosen, asking))
                continue
            before = chosen.cools_until
            if act == "answer":
                chosen.answered(asking)
                assert chosen.cools_until <= clock.now
            elif act != "give up":
                chosen.failed_with(ERRORS[act], cooling.seconds_after(ERRORS[act]), clock.now)
                assert chosen.cools_until >= before
            chosen.end(asking)
        for member, asking in under_way:
            before = member.cools_until
            member.answered(asking)
            assert member.cools_until == before or asking.fell == member.fell
            member.end(asking)
        for member in members.members:
            state = member.state(clock.now)
            assert (state.outstanding, member.probing) == (0, False)
            assert state.failed <= state.asked and (state.seconds > 0) == (state.state == "cooling")


@given(tried=st.integers(0, 3))
def test_a_member_that_was_tried_is_not_chosen_again(tried):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standing.trio, "current_time", lambda: 0.0)
        members = Standing(tuple(types.SimpleNamespace(path=str(index)) for index in range(3)), spread=False)
        chosen = members.choose(members.members[:tried], last_resort=True)
        assert chosen is (members.members[tried] if tried < 3 else None)


def test_a_cooldown_is_not_shortened_by_a_later_failure_that_says_less():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standing.trio, "current_time", lambda: 0.0)
        [member] = Standing((types.SimpleNamespace(path="a"),), spread=False).members
        member.failed_with(ERRORS[3], 600.0, 0.0)
        member.failed_with(ERRORS[1], 3.0, 1.0)
        assert member.state(1.0).seconds == 599.0
