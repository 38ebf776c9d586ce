"""Consent that has to come from another person: said by layers, kept through narrowing, data and tokens, and never lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import retinue as rt
from approval_values import unhurried
from permission_strategies import argument_dicts, asked_lists, four_eyes_by_definition, operations, verdict_by_definition
from retinue.security import Authority, restrictions_from_data
from retinue.security.decisions import ALWAYS, ASK, ASKED, ASKED_OF_ANOTHER, NEVER, Asks
from retinue.security.errors import ConstraintError
from retinue.security.keys import KeyRing
from retinue.security.layers import Layer
from retinue.security.operations import Pattern
from retinue.security.rules import Rule
from retinue.security.seal import Sealer, attenuate

AUTHORITY = Authority()


def the_set(asked: list[Any]) -> Any:
    permission_set = AUTHORITY.everything
    for one in asked:
        permission_set = permission_set.meet_restriction(one.restriction, AUTHORITY.now_ms)
    return permission_set


def of(*restrictions: Any) -> Any:
    return AUTHORITY.mint("ada", ["**", *restrictions]).permissions


@unhurried
@given(asked_lists, operations, argument_dicts)
def test_a_set_wants_four_eyes_where_the_definition_does(asked: list[Any], operation: str, arguments: dict[str, Any]) -> None:
    permission_set = the_set(asked)
    decision = permission_set.decision(operation)
    if verdict_by_definition(asked, operation, arguments) == "ask":
        expected = four_eyes_by_definition(asked, operation, arguments)
        assert decision.evaluate(arguments, {}) is ASK
        assert decision.wants_four_eyes(arguments, {}) is expected
        assert permission_set.wants_four_eyes(operation, arguments) is expected


@unhurried
@given(asked_lists, asked_lists, operations, argument_dicts)
def test_narrowing_never_loses_four_eyes(one: list[Any], more: list[Any], operation: str, arguments: dict[str, Any]) -> None:
    wide, narrow = the_set(one), the_set([*one, *more])
    if narrow.decision(operation).evaluate(arguments, {}) is ASK and wide.wants_four_eyes(operation, arguments):
        assert narrow.wants_four_eyes(operation, arguments)


FOUR = rt.needs_approval("fs.*", four_eyes=True)
SMALL = {"n": rt.at_most(1)}


def test_any_layer_that_asks_for_four_eyes_gets_them() -> None:
    plain = rt.needs_approval("fs.*")
    conditional = rt.needs_approval("fs.*", unless=SMALL, four_eyes=True)
    assert of(plain).decision("fs.read") is ASKED and of(FOUR).decision("fs.read") is ASKED_OF_ANOTHER
    assert of(plain, FOUR).wants_four_eyes("fs.read") and of(FOUR, rt.needs_approval("fs.*", unless=SMALL)).wants_four_eyes(
        "fs.read", {"n": 1}
    )
    assert not of(plain).wants_four_eyes("fs.read") and not of(FOUR).wants_four_eyes("web.read") and not of().wants_four_eyes("fs.read")
    for both in (of(conditional), of(plain, conditional)):
        assert not both.wants_four_eyes("fs.read", {"n": 1})
        for odd in ({"n": 2}, {"n": "1"}, {"n": None}, {}, None, {1: 2}, 5):
            assert both.wants_four_eyes("fs.read", odd) is True
    decision = of(plain, conditional).decision("fs.read")
    assert (decision.asks, decision.four_eyes, len(decision.checks), len(decision.four_checks)) == (ALWAYS, Asks.DEPENDS, 0, 1)
    assert of(plain).decision("fs.read").four_eyes is NEVER
    denied = of(rt.deny("fs.*"), FOUR)
    assert not denied.permits("fs.read") and not denied.may_permit("fs.read")


def test_what_cannot_be_looked_at_wants_four_eyes() -> None:
    class Broken(dict[str, Any]):
        def keys(self) -> Any:
            raise RuntimeError("never")

        def __iter__(self) -> Any:
            raise RuntimeError("never")

    assert of(rt.needs_approval("fs.*", unless=SMALL, four_eyes=True)).wants_four_eyes("fs.read", Broken(n=1)) is True


def test_it_is_typed_explained_and_equal_only_to_itself() -> None:
    assert repr(FOUR) == "needs_approval('fs.*', four_eyes=True)"
    assert (
        repr(rt.needs_approval("fs.*", unless=SMALL, four_eyes=True)) == "needs_approval('fs.*', unless={'n': at_most(1)}, four_eyes=True)"
    )
    assert rt.needs_approval("fs.*", four_eyes=True) == FOUR != rt.needs_approval("fs.*")
    assert of(FOUR) is of(FOUR) is not of(rt.needs_approval("fs.*"))
    context = AUTHORITY.mint("ada", ["**", FOUR])
    assert "it needs another person's consent by the layer needs_approval('fs.*', four_eyes=True)" in context.explain("fs.read")
    assert "it needs a person's consent" in AUTHORITY.mint("ada", ["**", rt.needs_approval("fs.*")]).explain("fs.read")


def test_it_is_written_and_read_and_nothing_else_is_read_for_it() -> None:
    data = of(FOUR).to_data()
    assert data == {"layers": [{"kind": "ask", "rules": [{"pattern": "fs.*"}], "four_eyes": True}]}
    assert AUTHORITY.mint("x", ["**", *restrictions_from_data(data)]).permissions is of(FOUR)
    assert of(rt.needs_approval("fs.*")).to_data() == {"layers": [{"kind": "ask", "rules": [{"pattern": "fs.*"}]}]}
    for odd in (False, 1, "true", None, []):
        with pytest.raises(ConstraintError):
            restrictions_from_data({"layers": [{"kind": "ask", "rules": [{"pattern": "fs.*"}], "four_eyes": odd}]})
    for kind in ("allow", "deny"):
        with pytest.raises(ConstraintError, match="four eyes"):
            restrictions_from_data({"layers": [{"kind": kind, "rules": [{"pattern": "fs.*"}], "four_eyes": True}]})


def test_a_sealed_token_keeps_it_and_an_attenuated_one_has_it_added() -> None:
    authority = Authority()
    sealer = Sealer(authority, KeyRing.generate())
    sealed = sealer.seal(authority.mint("ada", ["**", FOUR]))
    assert sealer.unseal(sealed).permissions.wants_four_eyes("fs.read")
    plain = sealer.seal(authority.mint("ada", ["**", rt.needs_approval("fs.*")]))
    assert not sealer.unseal(plain).permissions.wants_four_eyes("fs.read")
    assert sealer.unseal(attenuate(plain, FOUR)).permissions.wants_four_eyes("fs.read")


@pytest.mark.parametrize("odd", [1, None, "yes", 0])
def test_four_eyes_are_true_or_false(odd: Any) -> None:
    with pytest.raises(ConstraintError, match="True or False"):
        rt.needs_approval("fs.*", four_eyes=odd)


@pytest.mark.parametrize("kind", ["allow", "where", "deny", "unlabelled"])
def test_only_a_layer_that_asks_has_them(kind: Any) -> None:
    constraints = (("n", rt.at_most(1)),) if kind == "where" else ()
    labels = frozenset({"web"}) if kind == "unlabelled" else frozenset()
    rules = frozenset((Rule(Pattern("a"), constraints),))
    Layer(kind, rules, labels)
    with pytest.raises(ConstraintError, match="four eyes"):
        Layer(kind, rules, labels, four_eyes=True)
