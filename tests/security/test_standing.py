"""Standing consents: they cover what they name and hold to, for whom and until when they say; nothing else, and never for ever."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retinue as rt
from approval_values import ARGUMENTS, KEY, NOW, OTHER_KEY, OTHERS, binding, unhurried
from permission_strategies import WORDS, argument_dicts, conditions, names, operations, patterns
from retinue.security import Authority
from retinue.security.approvals import new_id
from retinue.security.constraints import MISSING
from retinue.security.errors import ApprovalError, ConstraintError, DefinitionError, PatternError
from retinue.security.standing import StandingConsent, read_standing, sign_standing

DAY = 86_400_000
CONSTRAINTS = {"to": rt.one_of("ACME"), "amount": rt.at_most(100)}


def consent(pattern: str = "payments.*", **given_values: Any) -> StandingConsent:
    return StandingConsent.new(
        pattern, **{"approver": "bob", "now_ms": NOW, "lifetime_ms": DAY, "constraints": CONSTRAINTS, **given_values}
    )


def covers(one: StandingConsent, arguments: dict[str, Any] | None = None, now_ms: int = NOW, sources: Any = None, **changes: Any) -> bool:
    arguments = ARGUMENTS if arguments is None else arguments
    answer = one.covers(binding(arguments, **changes), arguments, sources or {}, now_ms)
    assert type(answer) is bool
    return answer


def expected(pattern: str, condition: dict[str, str] | None, is_open: bool, operation: str, arguments: dict[str, Any]) -> bool:
    """The definition, written down a second time."""
    extra = [name for name, value in arguments.items() if value is not None and name not in (condition or ())]
    return (
        names(pattern, operation)
        and all(WORDS[word][1](arguments.get(name, MISSING)) for name, word in (condition or {}).items())
        and (is_open or not extra)
    )


@unhurried
@given(patterns(), st.none() | conditions, st.booleans(), operations, argument_dicts)
def test_a_standing_consent_covers_what_the_definition_says(
    pattern: str, condition: dict[str, str] | None, is_open: bool, operation: str, arguments: dict[str, Any]
) -> None:
    constraints = None if condition is None else {name: WORDS[word][0] for name, word in condition.items()}
    one = consent(pattern, constraints=constraints, open=is_open)
    assert covers(one, arguments, operation=operation) is expected(pattern, condition, is_open, operation, arguments)
    assert read_standing(sign_standing(KEY, one), KEY.verifying) == one


def test_the_law_above_is_not_true_for_empty_reasons() -> None:
    from hypothesis import settings

    seen: list[bool] = []

    @settings(max_examples=300, database=None, derandomize=True)
    @given(patterns(), st.none() | conditions, st.booleans(), operations, argument_dicts)
    def count(pattern: str, condition: dict[str, str] | None, is_open: bool, operation: str, arguments: dict[str, Any]) -> None:
        seen.append(expected(pattern, condition, is_open, operation, arguments))

    count()
    assert sum(seen) / len(seen) > 0.15, f"{sum(seen)} of {len(seen)} calls are covered"


COVERED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"to": "ACME", "amount": 40}),
    ({}, {"to": "ACME", "amount": 100}),
    ({}, {"to": "ACME", "amount": 40, "bcc": None}),
    ({"open": True}, {"to": "ACME", "amount": 40, "bcc": "x"}),
    ({"constraints": None, "open": True}, {"anything": object}),
    ({"constraints": None}, {}),
    ({"constraints": {"to": rt.each(rt.one_of("a", "b"))}}, {"to": ["a", "b"]}),
]
NOT_COVERED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"to": "ACME", "amount": 101}),
    ({}, {"to": "ACME", "amount": "40"}),
    ({}, {"to": "ACME", "amount": True}),
    ({}, {"to": "ACME", "amount": None}),
    ({}, {"to": "ACME"}),
    ({}, {"to": "Acme", "amount": 40}),
    ({}, {"to": ["ACME"], "amount": 40}),
    ({}, {"to": "ACME", "amount": 40, "bcc": "x"}),
    ({}, {"to": "ACME", "amount": 40, "bcc": ""}),
    ({}, {"to": "ACME", "amount": 40, "bcc": []}),
    ({}, {}),
    ({"constraints": None}, {"to": "ACME"}),
    ({"constraints": {}}, {"to": "ACME"}),
    ({"constraints": {"to": rt.each(rt.one_of("a", "b"))}}, {"to": []}),
    ({"constraints": {"to": rt.each(rt.one_of("a", "b"))}}, {"to": ["a", "c"]}),
    ({"constraints": {"to": rt.known_from("ids")}}, {"to": "a"}),
]


@pytest.mark.parametrize(("given_values", "arguments"), [one for one in COVERED if one[1].get("anything") is not object])
def test_these_calls_are_covered(given_values: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert covers(consent(**given_values), arguments) is True


@pytest.mark.parametrize(("given_values", "arguments"), NOT_COVERED)
def test_these_calls_are_asked_about(given_values: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert covers(consent(**given_values), arguments) is False


def test_an_open_consent_without_constraints_covers_all_arguments() -> None:
    assert covers(consent(constraints=None, open=True), {"to": "x", "n": [1, 2]})


def test_a_source_that_is_known_covers_what_is_in_it() -> None:
    authority = Authority()
    authority.source("ids").add("a")
    one = consent(constraints={"to": rt.known_from("ids")})
    assert covers(one, {"to": "a"}, sources=authority.sources)
    assert not covers(one, {"to": "b"}, sources=authority.sources)
    assert not covers(one, {"to": "a"}, sources=Authority().sources)


@pytest.mark.parametrize(
    ("operation", "covered"),
    [
        ("payments.send", True),
        ("payments.refund", True),
        ("payments", False),
        ("payments.send.now", False),
        ("paymentsx.send", False),
        ("mail.send", False),
        (None, False),
    ],
)
def test_the_pattern_names_the_operations(operation: str | None, covered: bool) -> None:
    assert covers(consent(), operation=operation) is covered


@pytest.mark.parametrize("field", ["subject", "tenant", "audience", "definition"])
def test_what_a_consent_is_for_it_is_for_alone(field: str) -> None:
    bound = consent(**{field: getattr(binding(), field)})
    assert covers(bound) and covers(consent(), **{field: OTHERS[field]})
    assert not covers(bound, **{field: OTHERS[field]})
    if field == "tenant":
        assert not covers(bound, tenant=None)


def test_it_ends_and_begins_by_the_millisecond() -> None:
    one = consent()
    assert covers(one, now_ms=NOW + DAY - 1) and not covers(one, now_ms=NOW + DAY)
    assert covers(one, now_ms=NOW - 5_000) and not covers(one, now_ms=NOW - 5_001)
    assert one.covers(binding(), ARGUMENTS) is False, "without a time it is covered at none"
    for odd in (None, float(NOW), str(NOW), True):
        assert one.covers(binding(), ARGUMENTS, {}, odd) is False  # type: ignore[arg-type]


def test_four_eyes_want_another_person_than_the_subject() -> None:
    for approver, covered in (("bob", True), ("alice", False), ("ALICE ", False)):
        one = consent(approver=approver)
        assert one.covers(binding(), ARGUMENTS, {}, NOW, four_eyes=True) is covered
        assert one.covers(binding(), ARGUMENTS, {}, NOW) is True


class Broken(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("never")

    def keys(self) -> Any:
        raise RuntimeError("never")


@pytest.mark.parametrize(
    "arguments", [None, 1, [("to", "ACME")], Broken(to="ACME"), {1: 2}, {"to": object(), "amount": 1}, {"to": float("nan"), "amount": 1}]
)
def test_what_cannot_be_decided_is_asked_about(arguments: Any) -> None:
    for one in (consent(), consent(constraints=None, open=True)):
        assert one.covers(binding(), arguments, {}, NOW) is False
    assert consent().covers(None, ARGUMENTS, {}, NOW) is False  # type: ignore[arg-type]
    assert consent(constraints={"to": rt.known_from("ids")}).covers(binding({"to": "a"}), {"to": "a"}, None, NOW) is False  # type: ignore[arg-type]


def test_other_arguments_than_the_bound_ones_are_asked_about() -> None:
    assert consent().covers(binding({"to": "ACME", "amount": 1}), {"to": "ACME", "amount": 2}, {}, NOW) is False


def test_a_consent_is_signed_and_read_as_it_was() -> None:
    one = consent(
        subject="alice",
        tenant="acme",
        audience="/user/bank",
        definition="a" * 64,
        constraints={**CONSTRAINTS, "x y": rt.any_of(rt.absent(), rt.one_of(1, None))},
    )
    text = sign_standing(KEY, one)
    assert text.startswith("rts1.") and read_standing(text, KEY.verifying) == one
    assert covers(read_standing(text, KEY.verifying))
    for changed in (
        text[:-86] + ("A" if text[-86] != "A" else "B") + text[-85:],
        text[:50] + ("A" if text[50] != "A" else "B") + text[51:],
        sign_standing(OTHER_KEY, one),
        text + "=",
        text[:-1],
        "",
        None,
        "rts1.." * 3,
    ):
        with pytest.raises(ApprovalError) as caught:
            read_standing(changed, KEY.verifying)
        assert caught.value.reason in ("malformed", "signature", "unknown_key")


FIELDS: dict[str, list[Any]] = {
    "v": [0, True, "1", None],
    "id": [None, "x", new_id("apt")],
    "pat": [None, "", "a.**.b", 1, "a*"],
    "sub": ["", 1],
    "ten": ["", 1],
    "aud": ["", 1],
    "args": [None, [], {"to": 1}, {"to": {"kind": "regex"}}, {"": {}}, {"a" * 256: {}}],
    "open": [None, 1, "true"],
    "def": ["x", 1],
    "by": [None, "", 1],
    "iat": [None, -1, "1", NOW + DAY],
    "exp": [None, NOW, NOW + 366 * DAY + 1, "1"],
}


def test_every_field_of_a_signed_consent_is_read_strictly() -> None:
    from retinue.security.signed_frame import sign_frame

    def read(content: dict[str, Any]) -> StandingConsent:
        return read_standing(sign_frame(KEY, "rts1", b"retinue/standing/1\0", content, 2**16), KEY.verifying)

    content = json.loads(json.dumps(consent().to_data()))
    assert read(content).to_data() == content and FIELDS.keys() == content.keys()
    broken = [{**content, field: value} for field, values in FIELDS.items() for value in values]
    broken += [{name: value for name, value in content.items() if name != field} for field in content]
    for odd in (*broken, {**content, "more": 1}):
        with pytest.raises(ApprovalError) as caught:
            read(odd)
        assert caught.value.reason == "malformed"


@pytest.mark.parametrize(
    ("given_values", "error"),
    [
        ({"lifetime_ms": 0}, DefinitionError),
        ({"lifetime_ms": -1}, DefinitionError),
        ({"lifetime_ms": 366 * DAY + 1}, DefinitionError),
        ({"lifetime_ms": 1.5}, DefinitionError),
        ({"approver": ""}, DefinitionError),
        ({"subject": ""}, DefinitionError),
        ({"definition": "x"}, DefinitionError),
        ({"open": 1}, DefinitionError),
        ({"pattern": "a.**.b"}, PatternError),
        ({"constraints": {"to": "ACME"}}, ConstraintError),
        ({"constraints": [("to", rt.one_of("a"))]}, ConstraintError),
    ],
)
def test_a_consent_without_an_end_or_with_something_odd_is_refused(given_values: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        consent(**given_values)


def test_it_is_told_as_a_person_would_say_it() -> None:
    assert consent(subject="alice", audience="/user/bank").text == (
        "always allow 'payments.*' with 'amount': at_most(100), 'to': one_of('ACME'), no other arguments for the subject 'alice' at '/user/bank'"
    )
    assert (
        consent("**", constraints=None, open=True, definition="a" * 64).text
        == "always allow '**' with any other arguments as the handler is now"
    )


def test_adding_a_condition_never_covers_more() -> None:
    calls = [{"to": to, "amount": amount, "bcc": bcc} for to, amount, bcc in itertools.product(("ACME", "x"), (40, 400), (None, "y"))]
    wide = consent(constraints={"to": rt.one_of("ACME", "x")}, open=True)
    narrower = [
        consent(constraints={"to": rt.one_of("ACME")}, open=True),
        consent(constraints={"to": rt.one_of("ACME", "x"), "amount": rt.at_most(100)}, open=True),
        consent(constraints={"to": rt.one_of("ACME", "x")}),
    ]
    for narrow, call in itertools.product(narrower, calls):
        assert not covers(narrow, call) or covers(wide, call)
    assert any(covers(narrow, call) for narrow in narrower for call in calls)
