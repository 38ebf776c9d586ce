"""Whether a permission set permits anything: as often as some operation among all short ones is permitted, and never where none is."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.security.authority import Authority
from retinue.security.constraints import one_of
from retinue.security.restrictions import allow, deny, label, limit, needs_approval, unlabelled, where

SEGMENTS = ("a", "b", "z0")
OPERATIONS = [".".join(segments) for length in (1, 2, 3, 4) for segments in itertools.product((*SEGMENTS, "fresh"), repeat=length)]

closed = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3).map(".".join)
patterns = st.one_of(closed, closed.map(lambda text: f"{text}.**"), st.just("**"))
several = st.lists(patterns, min_size=0, max_size=3)
layers = st.one_of(
    several.map(lambda names: allow(*names)),
    several.filter(bool).map(lambda names: deny(*names)),
    several.filter(bool).map(lambda names: needs_approval(*names)),
    several.filter(bool).map(lambda names: unlabelled(*names, labels=["web"])),
    several.filter(bool).map(lambda names: where(*names, x=one_of(1))),
    st.just(label("web")),
    st.just(limit(calls=3)),
)


@given(st.lists(layers, max_size=4))
def test_it_permits_something_where_some_short_operation_is_permitted_and_else_nothing(restrictions) -> None:
    authority = Authority()
    permissions = authority.permission_set(["**", *restrictions])
    assert permissions.permits_something is any(map(permissions.may_permit, OPERATIONS))
    assert permissions.permits_something is any(map(permissions.may_permit, OPERATIONS)), "remembered"


@pytest.mark.parametrize(
    ("restrictions", "something"),
    [
        ([], True),
        ([deny("**")], False),
        ([allow("shop.*"), allow("other.op")], False),
        ([allow("shop.*"), allow("*.read")], True),
        ([allow("shop.*"), allow("*.read"), deny("shop.read")], False),
        ([allow("shop.**"), deny("shop.*")], True),
        ([allow("shop.**"), deny("shop.*", "shop.*.**")], False),
        ([allow("shop.read"), deny("shop.**")], False),
        ([allow("shop.read"), needs_approval("shop.**")], True),
        ([deny("*"), deny("*.*"), deny("*.*.*")], True),
        ([deny("*", "*.**")], False),
    ],
)
def test_by_example(restrictions, something) -> None:
    assert Authority().permission_set(["**", *restrictions]).permits_something is something


def test_a_tangled_set_is_answered_soon() -> None:
    names = [".".join(pair) for pair in itertools.product(("a", "*", "b"), repeat=4)]
    restrictions = [allow(*(f"{prefix}{number}.{name}" for number in range(8) for name in names)) for prefix in "xyz"]
    permissions = Authority().permission_set(["**", *restrictions, *[deny(f"n{number}") for number in range(1_000)]])
    began = time.process_time()
    assert permissions.permits_something is False
    assert time.process_time() - began < 10
