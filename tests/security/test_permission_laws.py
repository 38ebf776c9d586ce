"""The laws of permission sets with all that they can have: constraints, consent, labels, limits. By object identity."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from permission_strategies import argument_dicts, asked_lists, operations, verdict_by_definition
from retinue.security import Authority, restrictions_from_data
from retinue.security.decisions import ALLOW, ASK, DENY
from retinue.security.limits import NO_LIMITS

AUTHORITY = Authority()


def the_set(asked):
    permission_set = AUTHORITY.everything
    for one in asked:
        permission_set = permission_set.meet_restriction(one.restriction, AUTHORITY.now_ms)
    return permission_set


sets = asked_lists.map(the_set)


@given(sets, sets, sets)
def test_meet_is_idempotent_commutative_and_associative(a, b, c):
    assert a.meet(a) is a
    assert a.meet(b) is b.meet(a)
    assert a.meet(b).meet(b) is a.meet(b).meet(a) is a.meet(b)
    assert a.meet(b).meet(c) is a.meet(b.meet(c))


@given(asked_lists)
def test_the_order_of_restrictions_does_not_matter(asked):
    assert the_set(asked) is the_set(list(reversed(asked)))
    assert the_set(asked) is the_set([*asked, *asked])


@given(sets, operations, argument_dicts)
def test_everything_is_the_unit_and_nothing_the_bottom(a, operation, arguments):
    assert a.meet(AUTHORITY.everything) is a
    assert AUTHORITY.everything.meet(a) is a
    assert not a.meet(AUTHORITY.nothing).permits(operation, arguments)
    assert not AUTHORITY.nothing.meet(a).may_permit(operation)


@given(asked_lists, operations, argument_dicts)
def test_a_set_says_what_the_definition_says(asked, operation, arguments):
    permission_set = the_set(asked)
    expected = verdict_by_definition(asked, operation, arguments)
    assert permission_set.decision(operation).evaluate(arguments, {}).value == expected
    assert permission_set.permits(operation, arguments) is (expected == "allow")
    assert permission_set.may_permit(operation) or expected == "deny"


@given(asked_lists, asked_lists, operations, argument_dicts)
def test_a_meet_says_what_the_stricter_of_both_says(x, y, operation, arguments):
    a, b = the_set(x), the_set(y)
    met = a.meet(b)
    # Labels are the one thing by which one side can make the other refuse; so each side is asked with the labels of both.
    both = AUTHORITY.everything.meet(AUTHORITY._table.intern(frozenset(), NO_LIMITS, met.labels))
    order = (DENY, ASK, ALLOW)
    verdicts = [one.meet(both).decision(operation).evaluate(arguments, {}) for one in (a, b)]
    assert met.decision(operation).evaluate(arguments, {}) is min(verdicts, key=order.index)
    assert met.permits(operation, arguments) <= (a.permits(operation, arguments) and b.permits(operation, arguments))


@given(sets, sets)
def test_limits_never_rise_and_labels_never_shrink_and_sets_that_differ_in_limits_share_what_they_remember(a, b):
    met = a.meet(b)
    assert met.labels == a.labels | b.labels
    for name in ("deadline_ms", "calls", "tokens", "cost_micro_usd", "depth", "risk"):
        assert getattr(met.limits, name) == min(getattr(a.limits, name), getattr(b.limits, name))
    limited = AUTHORITY._table.intern(a.layers, a.limits.meet(b.limits), a.labels)
    assert limited._decisions is a._decisions
    a.permits("fs.read")
    assert "fs.read" in limited._decisions


@given(sets, st.lists(st.tuples(operations, argument_dicts), min_size=1, max_size=12))
def test_the_memo_answers_like_a_fresh_set_in_any_order(a, asked):
    for operation, arguments in [*asked, *reversed(asked)]:
        fresh = Authority()._table.intern(a.layers, a.limits, a.labels)
        assert a.permits(operation, arguments) is fresh.permits(operation, arguments) is (a.refusing(operation, arguments) == [])
        assert a.permits(operation) is fresh.permits(operation) is (a.refusing(operation) == [])
        assert not a.permits(operation) or a.permits(operation, arguments), "what is permitted unseen is permitted with any arguments"


@given(sets)
def test_data_of_a_set_gives_the_set_again(a):
    data = json.loads(json.dumps(a.to_data()))
    assert data == a.to_data()
    again = AUTHORITY.everything
    for restriction in restrictions_from_data(data):
        again = again.meet_restriction(restriction, AUTHORITY.now_ms)
    assert again is a
    assert again.to_data() == data
    assert AUTHORITY.root.narrow(*restrictions_from_data(data)).permissions is a


@given(sets, operations, argument_dicts)
def test_an_explanation_can_always_be_given_and_agrees(a, operation, arguments):
    text = a.explain(operation, arguments)
    assert (" is permitted" in text) is a.permits(operation, arguments)
    assert len(text) < 6_000


def test_the_generators_permit_often_enough_for_the_laws_to_mean_something():
    verdicts = []

    @settings(max_examples=500, derandomize=True, database=None)
    @given(asked_lists, operations, argument_dicts)
    def collect(asked, operation, arguments):
        verdicts.append((verdict_by_definition(asked, operation, arguments), the_set(asked).decision(operation).verdict.value))

    collect()
    count = len(verdicts)
    assert count >= 300
    for verdict, least in (("allow", 0.15), ("deny", 0.15), ("ask", 0.03)):
        assert sum(one == verdict for one, _ in verdicts) > least * count
    assert sum(by_name == "depends" for _, by_name in verdicts) > 0.15 * count
    assert 0.03 * count < sum(one == "allow" and by_name == "depends" for one, by_name in verdicts)
