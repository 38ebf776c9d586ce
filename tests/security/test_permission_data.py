"""Permission sets as data: written and read again, and everything that was not written so is refused."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.security import (
    Authority,
    AuthorityError,
    ConstraintError,
    PatternError,
    allow,
    deny,
    expires,
    label,
    limit,
    max_risk,
    needs_approval,
    restrictions_from_data,
    unlabelled,
    where,
)
from retinue.security.constraints import at_most, one_of
from retinue.security.permission_data import restriction_data

AUTHORITY = Authority()
FULL = AUTHORITY.root.narrow(
    allow("fs.read", "a.*"),
    allow("fs.read", open=True, path=one_of("x", "*")),
    where("a.b", n=at_most(3), to=one_of("ACME")),
    deny("a.c"),
    needs_approval("a.d", unless={"n": at_most(1)}),
    needs_approval("a.f", four_eyes=True),
    unlabelled("a.e", labels=["web", "mail"]),
    label("pii"),
    limit(calls=3, tokens=4, cost_usd="0.5", depth=2),
    max_risk("L2"),
    expires(seconds=3600),
).permissions


def read(data):
    permission_set = AUTHORITY.everything
    for restriction in restrictions_from_data(data):
        permission_set = permission_set.meet_restriction(restriction, AUTHORITY.now_ms)
    return permission_set


def test_everything_that_a_set_can_have_is_written_and_read():
    data = FULL.to_data()
    assert read(json.loads(json.dumps(data))) is FULL
    kinds = [restriction.kind for restriction in restrictions_from_data(data)]
    assert sorted(kinds) == ["allow", "allow", "ask", "ask", "deny", "expires", "label", "limit", "risk", "unlabelled", "where"]
    assert read({"layers": []}) is AUTHORITY.everything
    assert AUTHORITY.everything.to_data() == {"layers": []}
    assert AUTHORITY.nothing.to_data() == {"layers": [{"kind": "allow", "rules": []}]}
    assert read(AUTHORITY.nothing.to_data()) is AUTHORITY.nothing


def test_the_data_is_the_same_whatever_the_order_of_making():
    one = AUTHORITY.root.narrow(deny("x", "y"), allow("b", "a"), where("a", x=at_most(1), b=at_most(2))).permissions
    two = Authority().root.narrow(where("a", b=at_most(2), x=at_most(1)), allow("a", "b"), deny("y", "x")).permissions
    assert json.dumps(one.to_data()) == json.dumps(two.to_data())


def test_a_list_that_was_read_can_be_minted():
    context = AUTHORITY.mint("alice", restrictions_from_data(FULL.to_data()))
    assert context.permissions is FULL
    assert not AUTHORITY.mint("alice", restrictions_from_data({"layers": []})).allows("fs.read"), "a list without an allow permits nothing"


def test_a_star_in_a_value_stays_a_star():
    again = read(json.loads(json.dumps(FULL.to_data())))
    assert again.permits("fs.read", {"path": "*"})
    assert not again.permits("fs.read", {"path": "y"})


def test_restrictions_become_data_with_a_deadline_from_now_on():
    data = restriction_data([allow("fs.*"), expires(seconds=60), expires(seconds=90), limit(calls=3)], now_ms=1_000)
    assert data == {"layers": [{"kind": "allow", "rules": [{"pattern": "fs.*"}]}], "limits": {"deadline_ms": 61_000, "calls": 3}}
    assert restriction_data([], 0) == {"layers": []}


def changed(change):
    data = copy.deepcopy(FULL.to_data())
    change(data)
    return data


ALLOW = {"kind": "allow", "rules": [{"pattern": "fs.read"}]}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "everything",
        {},
        {"layers": None},
        {"layers": {}},
        {"layers": [None]},
        {"layers": [ALLOW, ALLOW]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "**"}]}]},
        {"layers": [{"kind": "deny", "rules": []}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "a"}, {"pattern": "a"}]}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "a.**.b"}]}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": 3}]}]},
        {"layers": [{"kind": "allow", "rules": [{}]}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "a", "open": True}]}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "a", "open": 1, "arguments": {"x": {"kind": "absent"}}}]}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "a", "open": False, "arguments": {"x": {"kind": "absent"}}}]}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "a", "arguments": {}}]}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "a", "arguments": {"": {"kind": "absent"}}}]}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "a", "arguments": {"x": {"kind": "regex", "text": ".*"}}}]}]},
        {"layers": [{"kind": "allow", "rules": [{"pattern": "a", "arguments": [["x", {"kind": "absent"}]]}]}]},
        {"layers": [{"kind": "where", "rules": [{"pattern": "a"}]}]},
        {"layers": [{"kind": "deny", "rules": [{"pattern": "a", "arguments": {"x": {"kind": "absent"}}}]}]},
        {"layers": [{"kind": "ask", "rules": [{"pattern": "a", "open": True, "arguments": {"x": {"kind": "absent"}}}]}]},
        {"layers": [{"kind": "unlabelled", "rules": [{"pattern": "a"}]}]},
        {"layers": [{"kind": "unlabelled", "rules": [{"pattern": "a"}], "labels": []}]},
        {"layers": [{"kind": "unlabelled", "rules": [{"pattern": "a"}], "labels": ["b", "a"]}]},
        {"layers": [{"kind": "unlabelled", "rules": [{"pattern": "a"}], "labels": ["a", "a"]}]},
        {"layers": [{"kind": "allow", "rules": [], "labels": ["a"]}]},
        {"layers": [{"kind": "maybe", "rules": []}]},
        {"layers": [{"kind": ["allow"], "rules": []}]},
        {"layers": [{"rules": []}]},
        {"layers": [{"kind": "allow"}]},
        {"layers": [{"kind": "allow", "rules": [], "more": 1}]},
        {"layers": [], "labels": []},
        {"layers": [], "labels": "web"},
        {"layers": [], "labels": [3]},
        {"layers": [], "limits": {}},
        {"layers": [], "limits": {"calls": "3"}},
        {"layers": [], "limits": {"seconds": 3}},
        {"layers": [], "more": []},
        {"layers": [], 3: []},
        changed(lambda data: data.pop("layers")),
        changed(lambda data: data["layers"].append(data["layers"][0])),
        changed(lambda data: data["limits"].update(calls=3.0)),
        {"layers": [{"kind": "allow", "rules": [{"pattern": f"op.n{number}"}]} for number in range(1025)]},
    ],
)
def test_what_was_not_written_so_is_refused(data):
    with pytest.raises((ConstraintError, PatternError)):
        restrictions_from_data(data)


words = st.sampled_from(
    [
        "layers",
        "kind",
        "rules",
        "pattern",
        "arguments",
        "open",
        "labels",
        "limits",
        "calls",
        "allow",
        "deny",
        "where",
        "ask",
        "unlabelled",
        "fs.*",
        "**",
        "web",
        "one_of",
        "values",
        "x",
        "",
    ]
)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | words
json_like = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=12)


@given(
    json_like
    | json_like.map(lambda data: {"layers": [data]})
    | json_like.map(lambda data: {"layers": [{"kind": "allow", "rules": [data]}]})
)
def test_anything_at_all_is_read_exactly_or_refused(data):
    try:
        restrictions = restrictions_from_data(data)
    except AuthorityError:
        return
    assert read(data).to_data() == data
    assert all(restriction.lifetime_ms is None for restriction in restrictions)


@st.composite
def edits(draw):
    """The data of a full set with one place in it replaced or dropped."""
    data = json.loads(json.dumps(FULL.to_data()))
    node = data
    while True:
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        inner = node[key]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            node = inner
            continue
        if draw(st.booleans()):
            node[key] = draw(leaves | st.just([]) | st.just({}))
        else:
            del node[key]
        return data


@given(edits())
def test_an_edit_is_refused_or_reads_as_what_it_says(data):
    try:
        again = read(data)
    except AuthorityError:
        return
    # Only the order of a list may be lost in reading: to write it again gives the sorted form.
    canonical = json.dumps(again.to_data(), sort_keys=True)
    assert json.dumps(read(again.to_data()).to_data(), sort_keys=True) == canonical
