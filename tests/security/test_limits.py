"""Limits and the clock: numbers that only fall, and time that only goes on."""

import datetime
import threading
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.security import Authority, AuthorityError, ConstraintError, Limits, allow, expires, label, limit, max_risk
from retinue.security.clock import Clock
from retinue.security.limits import NEVER, NO_LIMITS, UNLIMITED, cost_in_micro_usd, limits_from_data

NAMES = ["deadline_ms", "calls", "tokens", "cost_micro_usd", "depth", "risk"]
counts = st.integers(0, UNLIMITED) | st.integers(0, 5) | st.just(UNLIMITED)
limits = st.builds(
    Limits, deadline_ms=counts, calls=counts, tokens=counts, cost_micro_usd=counts, depth=st.integers(0, 32), risk=st.integers(0, 3)
)


def test_the_defaults_limit_nothing_but_depth():
    assert (NO_LIMITS.deadline_ms, NO_LIMITS.calls, NO_LIMITS.tokens, NO_LIMITS.cost_micro_usd) == (NEVER, UNLIMITED, UNLIMITED, UNLIMITED)
    assert (NO_LIMITS.depth, NO_LIMITS.risk) == (32, 3)
    assert NEVER == UNLIMITED == 2**63 - 1


@given(limits, limits, limits)
def test_the_meet_is_the_minimum_of_each(a, b, c):
    met = a.meet(b)
    assert [getattr(met, name) for name in NAMES] == [min(getattr(a, name), getattr(b, name)) for name in NAMES]
    assert met == b.meet(a)
    assert hash(met) == hash(b.meet(a))
    assert a.meet(a) is a
    assert met.meet(c) == a.meet(b.meet(c))
    assert a.meet(NO_LIMITS) is a
    assert NO_LIMITS.meet(a) == a
    assert met.meet(a) is met


@given(limits, st.integers(0, NEVER))
def test_a_deadline_is_never_later_than_it_was(a, deadline):
    assert a.until(deadline) == a.meet(Limits(deadline_ms=deadline))


@given(limits)
def test_limits_can_be_written_down_and_read_again(a):
    assert limits_from_data(a.to_data()) == a


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "calls",
        {"calls": "3"},
        {"calls": 3.0},
        {"calls": True},
        {"calls": -1},
        {"calls": 2**63},
        {"calls": None},
        {"calls": UNLIMITED},
        {"depth": 32},
        {"depth": 33},
        {"risk": 3},
        {"risk": 4},
        {"seconds": 3},
        {"calls": 3, "x": 1},
        {3: 3},
    ],
)
def test_what_was_not_written_so_is_not_read(data):
    with pytest.raises(ConstraintError):
        limits_from_data(data)


@pytest.mark.parametrize("name", ["calls", "tokens", "depth"])
@pytest.mark.parametrize("value", [-1, True, False, 1.0, 0.5, "3", 2**63, float("inf"), float("nan"), Decimal(3), [3], object()])
def test_limits_are_whole_numbers_in_range(name, value):
    with pytest.raises(ConstraintError, match=f"{name}"):
        limit(**{name: value})
    with pytest.raises(ConstraintError, match=f"{name}"):
        Limits(**{name: value})
    with pytest.raises(ConstraintError):
        limit(depth=33)


@pytest.mark.parametrize(
    ("cost", "micro"),
    [
        ("0.50", 500000),
        ("0", 0),
        (0, 0),
        (3, 3000000),
        (Decimal("0.000001"), 1),
        (Decimal("1E+3"), 10**9),
        ("12.345678", 12345678),
        ("9223372036854.775807", UNLIMITED),
        (Decimal("0.500000"), 500000),
        ("0000000000001", 1000000),
        (Decimal(0), 0),
    ],
)
def test_a_cost_is_exact(cost, micro):
    assert cost_in_micro_usd(cost) == micro
    assert limit(cost_usd=cost).limits.cost_micro_usd == micro


@pytest.mark.parametrize(
    "cost",
    [
        0.5,
        True,
        -1,
        "-1",
        "",
        "1e3",
        "1_000",
        " 1",
        "1\n",
        "٣",
        "NaN",
        "Infinity",
        "0.0000001",
        Decimal("0.0000001"),
        Decimal("nan"),
        Decimal("inf"),
        Decimal(-1),
        Decimal("1E+99999"),
        Decimal("1E-99999"),
        10**13,
        10**400,
        "9" * 10000,
        None,
        [1],
        b"1",
        "9223372036854.775808",
        Decimal("0.50000000000000000000000000000000000001"),
    ],
)
def test_a_cost_that_is_not_exact_is_refused(cost):
    with pytest.raises(ConstraintError, match="cost"):
        cost_in_micro_usd(cost)


# --- expiring


class Hands:
    """A clock that a test turns."""

    def __init__(self, now=1_000_000):
        self.now = now

    def __call__(self):
        return self.now


def test_seconds_count_from_the_moment_at_which_they_are_applied():
    hands = Hands()
    authority = Authority(clock=hands)
    minute = expires(seconds=60)
    first = authority.mint("alice", ["**", minute])
    hands.now += 30_000
    second = authority.root.narrow(minute)
    set_alone = authority.permission_set(["**", minute])
    assert first.limits.deadline_ms == 1_060_000
    assert second.limits.deadline_ms == set_alone.limits.deadline_ms == 1_090_000
    assert first.narrow(minute).limits.deadline_ms == 1_060_000, "the earlier one counts"
    assert first.narrow(minute) is first
    assert first.narrow(expires(seconds=1)).limits.deadline_ms == 1_031_000
    assert Authority(["**", minute], clock=hands).root.limits.deadline_ms == 1_090_000
    assert first._grant(["**", expires(seconds=0.25)]).limits.deadline_ms == 1_030_250


def test_what_has_expired_permits_nothing_and_says_so():
    hands = Hands()
    authority = Authority(clock=hands)
    context = authority.mint("alice", ["fs.*"]).narrow(expires(seconds=10))
    child = context.narrow("fs.read")
    assert context.allows("fs.read")
    hands.now = 1_009_999
    assert child.allows("fs.read")
    assert not authority.expired(child)
    hands.now = 1_010_000
    for one in (context, child):
        assert authority.expired(one)
        assert not one.allows("fs.read")
        assert "'fs.read' is not permitted: the context expired at 1970-01-01T00:16:50.000+00:00" in one.explain("fs.read")
        assert f"(added by narrow(), context {context.id} of 'alice')" in one.explain("fs.read")
    assert context.parent.allows("fs.read")
    assert not authority.expired(authority.root)
    authority.check(child)


def test_a_clock_that_goes_back_extends_nothing():
    hands = Hands()
    authority = Authority(clock=hands)
    context = authority.root.narrow(expires(seconds=10))
    hands.now += 10_000
    assert authority.expired(context)
    hands.now = 5
    assert authority.expired(context)
    assert authority.now_ms() == 1_010_000
    assert authority.root.narrow(expires(seconds=10)).limits.deadline_ms == 1_020_000


@pytest.mark.parametrize("answer", [None, 1.5, True, -1, "now", 2**63])
def test_a_broken_clock_is_an_error_and_permits_nothing_that_expires(answer):
    hands = Hands()
    authority = Authority(clock=hands)
    context = authority.root.narrow(expires(seconds=10))
    hands.now = answer
    with pytest.raises(AuthorityError, match="clock"):
        authority.now_ms()
    with pytest.raises(AuthorityError, match="clock"):
        authority.expired(context)
    assert not context.allows("fs.read")
    assert "clock" in context.explain("fs.read")
    assert authority.root.allows("fs.read"), "what does not expire asks no clock"
    with pytest.raises(AuthorityError, match="clock"):
        authority.root.narrow(expires(seconds=10))


def test_a_clock_that_raises_is_chained():
    def broken():
        raise OSError("no clock")

    with pytest.raises(AuthorityError) as caught:
        Clock(broken).now_ms()
    assert isinstance(caught.value.__cause__, OSError)


def test_the_clock_tells_the_time_and_follows_neither_clock_back(monkeypatch):
    clock = Clock()
    assert abs(clock.now_ms() - time.time() * 1000) < 5_000
    wall = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall + 3_600 * 10**9)
    ahead = clock.now_ms()
    assert ahead >= wall // 10**6 + 3_600_000
    monkeypatch.setattr(time, "time_ns", lambda: wall - 3_600 * 10**9)
    assert clock.now_ms() >= ahead


def test_the_wall_clock_set_back_an_hour_does_not_stop_time(monkeypatch):
    clock = Clock()
    before = clock.now_ms()
    wall, mono = time.time_ns(), time.monotonic_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall - 3_600 * 10**9)
    monkeypatch.setattr(time, "monotonic_ns", lambda: mono + 10 * 10**9)
    assert clock.now_ms() >= before + 9_000


def test_many_threads_see_time_go_on():
    hands = iter(range(10, 100_000))
    lock = threading.Lock()

    def jumping():
        with lock:
            now = next(hands)
        return now if now % 7 else 200_000 + now  # now and then far ahead

    clock = Clock(jumping)
    wrong = []

    def look():
        last = 0
        for _ in range(2_000):
            now = clock.now_ms()
            if now < last:
                wrong.append((last, now))
            last = now

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_time_can_be_given_in_any_zone():
    at = datetime.datetime(2030, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert expires(at=at).limits.deadline_ms == 1_893_456_000_000
    assert not Authority().root.narrow(expires(at=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))).allows("fs.read")


# --- risk


def test_an_operation_that_nobody_rated_is_of_the_highest_risk():
    authority = Authority()
    context = authority.root.narrow(max_risk("L1"))
    assert not context.allows("fs.read")
    assert context.allows("fs.read", risk="L1")
    assert not context.allows("fs.read", risk="L2")
    assert "its risk is L3, and max_risk('L1') permits less (added by narrow()" in context.explain("fs.read")
    rated = {"fs.read": 0, "fs.write": 1, "fs.delete": 3}
    authority.risk_of = rated.get
    assert [name for name in ("fs.read", "fs.write", "fs.delete", "other") if context.allows(name)] == ["fs.read", "fs.write"]
    assert not context.narrow(max_risk("L0")).allows("fs.write")
    assert context.narrow(max_risk("L2")) is context
    for broken in (lambda name: 1 / 0, lambda name: "L0", lambda name: True, lambda name: -1, lambda name: 4):
        authority.risk_of = broken
        assert not context.allows("fs.read")
    with pytest.raises(ConstraintError):
        context.allows("fs.read", risk="low")


@given(limits)
def test_limits_and_labels_do_not_change_what_the_layers_say(a):
    authority = Authority()
    one = authority._table.intern(allow("fs.*").layers, a, label("web").labels)
    assert one.permits("fs.read")
    assert not one.permits("web.get")


@pytest.mark.parametrize(
    "build", [lambda value: limit(calls=value), lambda value: limit(cost_usd=value), lambda value: expires(seconds=value)]
)
def test_a_number_that_python_itself_does_not_show_is_a_typed_error_too(build):
    for value in (10**5_000, -(10**5_000)):
        with pytest.raises(ConstraintError, match="an int of too many digits"):
            build(value)
