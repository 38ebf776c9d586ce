"""Values of plain data for Hypothesis, made to collide: short texts out of the characters that canonical bytes are built with."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(alphabet="sil:;,n0123fm{}[]tub\n é\U0001f600", max_size=6)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([0.0, -0.0, 1.0, 2.5]),
    FINITE,
    TEXTS,
    st.binary(max_size=4),
    st.decimals(allow_nan=False, allow_infinity=False, places=2),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.uuids(),
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(TEXTS, inner, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Whether two plain values are equal in type and value all the way down, the sign of zero and a Decimal's places included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, frozenset):
        rest = list(other)
        for item in one:
            match = next((candidate for candidate in rest if same(item, candidate)), None)
            if match is None and not any(same(item, candidate) for candidate in rest):
                return False
            rest = [candidate for candidate in rest if not same(item, candidate)]
        return not rest
    return repr(one) == repr(other)
