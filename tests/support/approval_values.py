"""Bindings, keys, and values of everything that has canonical bytes, for the tests of approvals."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import pathlib
from decimal import Decimal
from typing import Any

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import retinue as rt
from plain_values import FINITE, SCALARS, TEXTS
from retinue.security.approval_keys import SigningKey
from retinue.security.approvals import ApprovalRequest, Binding, arguments_digest

NOW = 1_800_000_000_000
HOUR = 3_600_000
ARGUMENTS: dict[str, Any] = {"to": "ACME", "amount": 40}
KEY = SigningKey(bytes(range(32)), NOW)
OTHER_KEY = SigningKey(bytes(range(1, 33)), NOW)

OTHERS: dict[str, Any] = {
    "operation": "payments.refund",
    "arguments_digest": "b" * 64,
    "subject": "mallory",
    "tenant": "other",
    "session": "s2",
    "audience": "/user/other",
    "definition": "b" * 64,
    "policy_version": "2",
    "run": "s1/r2",
}
"""Another value for each field of a binding."""


def binding(arguments: dict[str, Any] | None = None, **changes: Any) -> Binding:
    made = Binding(
        operation="payments.send",
        arguments_digest=arguments_digest(ARGUMENTS if arguments is None else arguments),
        subject="alice",
        tenant="acme",
        session="s1",
        audience="/user/bank",
        definition="a" * 64,
        policy_version="1",
        run="s1/r1",
    )
    return attrs.evolve(made, **changes)


def request(arguments: dict[str, Any] | None = None, **given: Any) -> ApprovalRequest:
    given = {"message_type": "bank.Pay", "reasons": ["its handler says so"], "context_id": "c1", "now_ms": NOW, **given}
    arguments = ARGUMENTS if arguments is None else arguments
    return ApprovalRequest.new(given.pop("binding", binding(arguments)), arguments, **given)


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Level(enum.IntEnum):
    ONE = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@rt.message
class Pay(rt.Message):
    to: Any
    amount: Any = 0


@rt.message
class Nothing(rt.Message):
    pass


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any


MORE_SCALARS = st.one_of(
    SCALARS,
    st.integers(-(2**70), 2**70),
    st.sampled_from([10**61, -(10**61), Decimal("-0"), Decimal("1E+3"), Decimal("1.0"), Decimal("1.00")]),
    FINITE,
    st.dates(),
    st.times(),
    st.times().map(lambda time: time.replace(fold=1)),
    st.timedeltas(),
    st.datetimes(timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=-3, minutes=30, seconds=7))])),
    st.sampled_from([pathlib.PurePosixPath("a/b"), pathlib.Path("/x"), pathlib.PureWindowsPath("c:/x y")]),
    st.sampled_from([Colour.RED, Colour.GREEN, Level.ONE, Access.READ, Access.READ | Access.WRITE, Access(0), Nothing()]),
    st.text(alphabet='ab "\\\n\x1b\u202e\u200b\u00a0e\u0301é\u0430\u05d0\U000e0041\u0600u20', max_size=12),
)
HASHABLE = st.recursive(
    MORE_SCALARS,
    lambda inner: st.tuples(inner) | st.tuples(inner, inner) | st.frozensets(inner, max_size=3) | st.builds(Point, inner),
    max_leaves=4,
)
VALUES = st.recursive(
    MORE_SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(TEXTS, inner, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
        st.sets(HASHABLE, max_size=3),
        st.builds(Pay, inner, inner),
        st.builds(Point, inner),
    ),
    max_leaves=8,
)
"""Everything that canonical bytes exist for."""

unhurried = settings(suppress_health_check=[HealthCheck.too_slow])
"""For laws over these: the first value takes seconds on a machine that is busy, which says nothing of the law."""

ARGUMENT_SETS = st.dictionaries(st.sampled_from(["to", "amount", "from", "x y", "ключ", "e\u0301"]), VALUES, max_size=3)
