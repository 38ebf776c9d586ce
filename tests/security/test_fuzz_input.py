"""Anything at all, given to whatever takes input: it is taken, or refused with one of our own errors; nothing half done, nothing of another type."""

import contextlib
import datetime as dt
import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue.security import Authority, restrictions_from_data
from retinue.security.audit import verify_chain
from retinue.security.audit_file import AuditFile, read_audit_file
from retinue.security.operations import Pattern


class Odd:
    """Raises wherever somebody compares it or asks whether it is true. (What an iterable raises when it is read is its owner's, and goes through.)"""

    def __eq__(self, other):
        raise ValueError("odd")

    __hash__ = None

    def __bool__(self):
        raise ValueError("odd")


class Text(str):
    __slots__ = ()

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


names = st.sampled_from(
    [
        "fs.read",
        "fs.*",
        "**",
        "*",
        "fs.**",
        "",
        ".",
        "fs..read",
        "fs.read\n",
        "ｆs.read",
        "\x00",
        "fs.\ud800",
        "a" * 300,
        "*.**",
        "**.fs",
        "fs read",
    ]
)
scalars = st.one_of(
    names,
    st.text(max_size=20),
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, -(2**63), 10**400, math.nan, math.inf, -0.0, 1e308, 5e-324]),
    st.floats(),
    st.binary(max_size=10),
    st.decimals(allow_nan=True),
    st.sampled_from(
        [
            Decimal("NaN"),
            Decimal("sNaN"),
            Decimal("1E+999999"),
            Text("fs.read"),
            dt.datetime(2030, 1, 1),  # noqa: DTZ001 - one without a time zone
            dt.datetime.max.replace(tzinfo=dt.UTC),
            object,
            len,
        ]
    ),
    st.builds(Odd),
    st.builds(object),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=5), inner, max_size=3),
        st.builds(iter, st.lists(inner, max_size=2)),
    ),
    max_leaves=4,
)
constraints = st.sampled_from([rt.at_most(1), rt.one_of("a"), rt.within("a/"), rt.absent()])
rather_good = st.one_of(anything, anything, constraints)


def call(function, *arguments, **keywords):
    """What it returns, or None where it refused with one of our errors."""
    with contextlib.suppress(rt.RetinueError):
        return function(*arguments, **keywords)
    return None


MAKERS = [rt.allow, rt.deny, rt.where, rt.needs_approval, rt.label, rt.one_of, rt.within, rt.host, rt.any_of]
ONE_ARGUMENT = [rt.at_most, rt.at_least, rt.max_length, rt.each, rt.known_from, rt.max_risk]


@settings(max_examples=60)
@given(st.sampled_from(MAKERS), st.lists(rather_good, max_size=3))
def test_what_takes_several_things_takes_or_refuses_them(make, given_things):
    call(make, *given_things)


@settings(max_examples=60)
@given(st.sampled_from(ONE_ARGUMENT), rather_good)
def test_what_takes_one_thing_takes_or_refuses_it(make, thing):
    call(make, thing)


@settings(max_examples=60)
@given(rather_good, rather_good, rather_good)
def test_what_takes_options_takes_or_refuses_them(one, two, three):
    call(rt.allow, "fs.*", arguments=one, open=two)
    call(rt.where, "fs.*", arguments={"x": one})
    call(rt.where, "fs.*", arguments=two)
    call(rt.needs_approval, "fs.*", unless=one)
    call(rt.unlabelled, "fs.*", labels=one)
    call(rt.limit, calls=one, tokens=two, cost_usd=three)
    call(rt.limit, depth=one)
    call(rt.expires, seconds=one)
    call(rt.expires, at=one)
    call(rt.between, one, two)
    call(rt.host, "a.example", schemes=one, ports=two)
    call(rt.Capability, one, risk=two)
    call(rt.Capability, "fs.read", effects=one, description=two)


@settings(max_examples=60)
@given(rather_good, st.lists(rather_good, max_size=3))
def test_an_authority_takes_or_refuses_anything_and_gives_nothing_it_should_not(thing, things):
    authority = Authority(["fs.read"])
    for made in (
        call(authority.mint, thing, ["fs.*"]),
        call(authority.mint, "ada", thing),
        call(authority.mint, "ada", things, tenant=thing),
        call(authority.root.narrow, thing),
        call(authority.root.narrow, *things),
        call(authority.root._grant, things),
    ):
        if made is not None:
            assert authority.is_genuine(made)
            assert not made.allows("fs.write")
            assert isinstance(repr(made), str)
    for use in (authority.check, authority.revoke, authority.source, authority.permission_set):
        call(use, thing)
    assert authority.is_genuine(thing) is False
    assert authority.root.allows("fs.read")


@settings(max_examples=60)
@given(rather_good, st.dictionaries(st.text(max_size=5), anything, max_size=3))
def test_a_context_answers_or_refuses_any_question(thing, arguments):
    authority = Authority()
    context = authority.root.narrow(
        rt.where("fs.*", x=rt.within("a/"), n=rt.each(rt.at_most(3))), rt.needs_approval("web.*", unless={"x": rt.one_of("a", 1)})
    )
    for operation, given_arguments in (
        (thing, None),
        ("fs.read", arguments),
        ("web.get", arguments),
        (thing, arguments),
        ("fs.read", thing),
    ):
        assert call(context.allows, operation, given_arguments) in (None, True, False)
        assert isinstance(call(context.explain, operation, given_arguments), str | None)
    call(context.allows, "fs.read", None, risk=thing)
    assert context.allows("fs.read", {"x": thing}) is False


@given(st.text(max_size=40) | names)
def test_a_pattern_is_read_exactly_or_refused(text):
    pattern = call(Pattern, text)
    if pattern is not None:
        assert pattern.text == text
        assert all(segment and segment.isascii() for segment in text.split("."))


@given(anything)
def test_data_of_restrictions_is_read_or_refused(data):
    call(restrictions_from_data, data)


# -- files ------------------------------------------------------------------------------------------------------------------------------------------------


def edited(data, text):
    """A few bytes of it put in, taken away or turned."""
    changed = bytearray(text)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, max(0, len(changed) - 1)))
        how = data.draw(st.sampled_from(["flip", "cut", "insert", "drop", "double"]))
        if how == "flip" and changed:
            changed[place] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "cut":
            del changed[place:]
        elif how == "insert":
            changed[place:place] = data.draw(st.binary(max_size=4))
        elif how == "drop":
            del changed[place : place + data.draw(st.integers(1, 40))]
        else:
            changed[place:place] = changed[: data.draw(st.integers(0, 200))]
    return bytes(changed)


KEY = b"k" * 32


@settings(max_examples=60)
@given(st.data())
def test_an_audit_file_that_was_edited_is_found_out_or_was_cut_at_a_record(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    with contextlib.closing(rt.AuditLog(KEY, sink=AuditFile(path))) as log:
        for number in range(3):
            log.record("decision", allowed=False, operation="fs.read", reason="permission", detail=f"number {number}")
        head = log.head()
    before = path.read_bytes()
    changed = edited(data, before)
    path.write_bytes(changed)
    if changed == before:
        return
    with pytest.raises(rt.RetinueError):
        verify_chain(read_audit_file(path), KEY, head=head)
        raise AssertionError(f"an edit was not noticed: {changed!r}")
    path.write_bytes(changed)
    opened = call(lambda: rt.AuditLog(KEY, sink=AuditFile(path)))
    if opened is not None:
        opened.close()


POLICY = b'version = 1\n\n[[rule]]\noperations = ["fs.read"]\narguments = { path = { within = ["reports/"] } }\nverdict = "allow"\nreason = "reports"\n'


@settings(max_examples=60)
@given(st.data())
def test_a_policy_file_of_any_content_never_permits_more(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("policy") / "policy.toml"
    path.write_bytes(
        data.draw(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")), st.just(None)))
        or edited(data, POLICY)
    )
    policy = rt.policy_from_file(path)
    assert isinstance(policy.name, str)
    call(policy.reload)


@settings(max_examples=60)
@given(st.binary(max_size=80) | st.sampled_from([b"{}", b"[]", b"null", b'{"current": 1}', b"\xff\xfe"]))
def test_a_key_file_of_any_content_is_a_key_file_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(rt.RetinueError):
        rt.KeyFile(path).open()
    assert path.read_bytes() == content, "what is not understood is not overwritten"


# -- clocks -----------------------------------------------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.integers(0, 10**13), st.sampled_from([-1, 2**63, 2**70, None, "now", math.nan, 1.5, True, ValueError("broken"), OSError()])
        ),
        min_size=1,
        max_size=8,
    )
)
def test_time_never_goes_back_and_a_clock_that_fails_permits_nothing_that_ends(readings):
    reading = 10**12

    def clock():
        if isinstance(reading, Exception):
            raise reading
        return reading

    authority = Authority(clock=clock)
    context = authority.mint("ada", ["**", rt.expires(seconds=5)])
    end, ended, latest = context.limits.deadline_ms, False, 10**12
    for reading in readings:  # noqa: B007 - the clock reads it
        now = call(authority.now_ms)
        if now is not None:
            assert type(now) is int
            assert now >= latest
            latest = now
        allowed = call(context.allows, "fs.read")
        ended = ended or latest >= end
        assert allowed in ((None, False) if ended or now is None else (True,))
        assert authority.root.allows("fs.read")
