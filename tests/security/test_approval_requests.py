"""Bindings and requests: what is shown is what a consent is bound to, read strictly, and nothing about it changes."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given

from approval_values import ARGUMENT_SETS, ARGUMENTS, NOW, OTHERS, Pay, binding, request, unhurried
from retinue.security.approvals import (
    BINDING_FIELDS,
    ApprovalRequest,
    Binding,
    arguments_digest,
    binding_from_data,
    is_id,
    new_id,
)
from retinue.security.canonical import digest
from retinue.security.errors import ApprovalError, CanonicalError, DefinitionError
from retinue.security.limits import UNLIMITED
from retinue.security.people import same_person
from retinue.security.records import Record


def test_ids_are_random_and_of_one_form() -> None:
    ids = {new_id("apr") for _ in range(1000)}
    assert len(ids) == 1000 and all(is_id(one, "apr") and not is_id(one, "apt") for one in ids)
    assert not any(is_id(odd, "apr") for odd in (None, 1, "", "apr_", "apr_" + "a" * 25, "apr_" + "A" * 26, "apr_" + "a" * 26 + "\n"))


@unhurried
@given(ARGUMENT_SETS)
def test_a_request_shows_the_arguments_that_its_consent_is_bound_to(arguments: dict[str, Any]) -> None:
    made = request(arguments)
    assert ApprovalRequest.from_data(json.loads(json.dumps(made.to_data()))) == made
    assert all(line.isprintable() for line in made.shown())


def test_the_arguments_of_a_request_are_equal_to_what_was_given_and_cannot_be_changed() -> None:
    given_arguments = {"to": "ACME", "amount": 40, "tags": ["a"], "each": {"x": (Decimal("1.0"), None)}}
    made = request(given_arguments)
    assert made.arguments == given_arguments
    with pytest.raises(TypeError):
        made.arguments["amount"] = 41  # type: ignore[index]
    made.arguments["tags"].append("b")
    given_arguments["tags"].append("c")
    assert made.arguments["tags"] == ["a"]
    assert request({"pay": Pay("ACME")}).arguments["pay"] == Record("approval_values.Pay", (("to", "ACME"), ("amount", 0)))


def test_types_count_in_the_digest_of_arguments_and_it_is_no_other_digest() -> None:
    found = {arguments_digest({"x": value}) for value in (1, True, 1.0, "1", Decimal(1), [1], (1,), None)}
    assert len(found) == 8
    assert arguments_digest({"x": 1}) == arguments_digest({"x": 1})
    assert arguments_digest({"x": 1}) != digest({"x": 1}), "a word of its own"
    assert arguments_digest({"a": 1, "b": 2}) == arguments_digest({"b": 2, "a": 1})
    for odd in ({"x": float("nan")}, {"x": object()}, {"x": "\ud800"}, {"x": Record("a.B", ())}):
        with pytest.raises(CanonicalError):
            arguments_digest(odd)


@pytest.mark.parametrize("field", BINDING_FIELDS)
def test_each_field_of_a_binding_makes_it_another(field: str) -> None:
    one, other = binding(), binding(**{field: OTHERS[field]})
    assert one != other and one.digest != other.digest
    assert one == binding() and one.digest == binding().digest
    assert binding_from_data(json.loads(json.dumps(other.to_data()))) == other


def test_a_binding_of_before_there_were_runs_is_one_without() -> None:
    made = binding(run=None)
    data = made.to_data()
    del data["run"]
    assert binding_from_data(data) == made


def test_no_text_of_a_binding_slips_into_its_neighbour() -> None:
    assert binding(tenant="a", session="b").digest != binding(tenant="ab", session=None).digest
    assert binding(tenant=None).digest != binding(tenant="None").digest


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("operation", ""),
        ("operation", 1),
        ("subject", None),
        ("subject", ""),
        ("subject", "a" * 256),
        ("subject", "\ud800"),
        ("tenant", 1),
        ("session", b"s"),
        ("audience", None),
        ("audience", "a" * 2049),
        ("arguments_digest", "A" * 64),
        ("arguments_digest", "a" * 63),
        ("arguments_digest", None),
        ("definition", ""),
        ("policy_version", None),
        ("run", ""),
        ("run", "a" * 2049),
    ],
)
def test_a_malformed_binding_is_refused(field: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=f"the {field}"):
        binding(**{field: value})
    with pytest.raises(ApprovalError) as caught:
        binding_from_data({**binding().to_data(), field: value})
    assert caught.value.reason == "malformed"


@pytest.mark.parametrize("data", [None, [], {}, {**dict.fromkeys(BINDING_FIELDS, "a"), "more": 1}])
def test_data_that_are_no_binding_are_refused(data: Any) -> None:
    with pytest.raises(ApprovalError):
        binding_from_data(data)


def test_a_new_request_is_pending_for_seven_days_and_says_whose_it_is() -> None:
    made = request(risk="L2", four_eyes=True)
    assert (made.status, made.created_ms, made.expires_ms) == ("pending", NOW, NOW + 7 * 86_400_000)
    assert (made.operation, made.subject, made.tenant, made.session, made.audience) == (
        "payments.send",
        "alice",
        "acme",
        "s1",
        "/user/bank",
    )
    assert (made.decided_ms, made.reviewer, made.token, made.note, made.edit_of, made.edited_to, made.batch) == (
        None,
        None,
        None,
        "",
        None,
        None,
        None,
    )
    assert made.risk == "L2" and made.four_eyes and made.id != request().id
    assert request(lifetime_ms=5).expires_ms == NOW + 5 and request(lifetime_ms=UNLIMITED).expires_ms == UNLIMITED


def test_reasons_are_bounded_and_never_refuse_a_request() -> None:
    made = request(reasons=["x" * 20_000, *("y" for _ in range(200))])
    assert len(made.reasons) == 64 and len(made.reasons[0]) == 16_384 and made.reasons[-1] == "and 138 more"
    assert ApprovalRequest.from_data(made.to_data()) == made


def test_other_arguments_than_those_of_the_binding_are_refused() -> None:
    with pytest.raises(ApprovalError) as caught:
        request({"to": "ACME", "amount": 41}, binding=binding(ARGUMENTS))
    assert caught.value.reason == "arguments"
    for text in ('{"to": "ACME", "amount": 41}', '{"to": "ACME", "amount": true}', '{"to":"ACME","amount":40}', "nonsense"):
        with pytest.raises(ApprovalError) as caught:
            ApprovalRequest.from_data({**request().to_data(), "stored_arguments": text})
        assert caught.value.reason == "arguments"
        assert "41" not in str(caught.value)


def test_a_token_is_left_out_where_it_must_not_be_seen() -> None:
    made = attrs.evolve(request(), token="rta1.x.y.z", status="approved")
    assert made.without_token().token is None and made.without_token().to_data()["token"] is None
    assert made.to_data()["token"] == "rta1.x.y.z"
    assert "rta1" not in repr(made) and "rta1" not in "\n".join(made.shown())
    bare = request()
    assert bare.without_token() is bare


def test_a_log_line_of_a_request_shows_no_argument_and_no_note() -> None:
    made = attrs.evolve(request(), note="sesame")
    assert "ACME" not in repr(made) and "sesame" not in repr(made) and made.id in repr(made)


ODD: dict[str, list[Any]] = {
    "id": [None, "apr_1", new_id("apt")],
    "status": ["", "APPROVED", None, "granted", ["pending"]],
    "binding": [None, {}, "x"],
    "stored_arguments": [None, 1],
    "message_type": [None, "", 1],
    "reasons": [None, "because", [1], ["x"] * 65, ["\ud800"]],
    "risk": ["L4", 1, ""],
    "four_eyes": [None, 1, "true"],
    "context_id": [None, ""],
    "created_ms": [None, 1.0, -1, True, 2**63],
    "expires_ms": ["1", None],
    "decided_ms": ["1", -1],
    "reviewer": ["", 1],
    "reviewer_asserted": [None, 0],
    "note": [None, "x" * 16_385, "\ud800"],
    "edit_of": ["x", 1],
    "edited_to": ["x", 1],
    "token": ["", 1],
    "batch": ["", 1],
}


def test_every_field_of_a_request_is_read_strictly() -> None:
    data = request().to_data()
    assert ODD.keys() == data.keys()
    for field, values in ODD.items():
        for value in values:
            with pytest.raises(ApprovalError) as caught:
                ApprovalRequest.from_data({**data, field: value})
            assert caught.value.reason in ("malformed", "arguments"), (field, value)
        with pytest.raises(ApprovalError):
            ApprovalRequest.from_data({name: value for name, value in data.items() if name != field})
    for odd in ({**data, "more": 1}, None, [], "x"):
        with pytest.raises(ApprovalError):
            ApprovalRequest.from_data(odd)


def test_what_a_person_reads_tells_everything_and_hides_nothing() -> None:
    arguments = {"to": "АCME\u202e", "amount": 1}
    made = request(
        arguments,
        binding=binding(arguments, subject="al\x1bice", tenant='x"\nstatus: approved'),
        reasons=["over the limit\n  amount = 0"],
        risk="L3",
        four_eyes=True,
        edit_of=new_id("apr"),
    )
    made = attrs.evolve(
        made, status="rejected", decided_ms=NOW + 1, reviewer="bob", reviewer_asserted=True, note="no\x1b[2J", edited_to=new_id("apr")
    )
    lines = made.shown()
    assert all(line.isprintable() for line in lines)
    for line in (
        f"request: {made.id}",
        "status: rejected",
        "operation: payments.send",
        "message: bank.Pay",
        "at: /user/bank",
        'for: "al\\x1bice"',
        'tenant: "x\\"\\nstatus: approved"',
        'session: "s1"',
        "risk: L3",
        "reviewer: must be another person than the subject",
        "because: over the limit\\n  amount = 0",
        f"replaces: {made.edit_of}",
        f"replaced by: {made.edited_to}",
        'decided: 2027-01-15T08:00:00.001+00:00 by "bob" (as asserted)',
        "note: no\\x1b[2J",
        "arguments:",
        '  to = "АCME\\u202e"',
        "  amount = 1",
    ):
        assert line in lines, (line, lines)
    assert any("mixes CYRILLIC, LATIN" in line for line in lines)
    assert [line for line in lines if line.startswith("status")] == ["status: rejected"]
    assert "operation: (none)" in request(binding=binding(operation=None)).shown()


@pytest.mark.parametrize(
    "other",
    [
        "alice", "Alice", " alice ", "ALICE", "ａlice", "al\u200bice", "\u202ealice", "alice\u00ad", "ali\x00ce", "al\U000e0061ice", "a\ufe0flice", "al\u034fice",
        "аlice", "alіce", "ALIСЕ", "ΑLICE", "αlice", "a1ice", "aIice", "al\u0131ce", "\u3164alice", "alice\n",
    ],
)  # fmt: skip
def test_four_eyes_take_names_that_could_be_one_persons_for_one(other: str) -> None:
    assert same_person("alice", other) and same_person(other, "alice")
    assert not same_person("alice", "alicia")


def test_names_that_look_different_are_two_persons() -> None:
    names = ["alice", "bob", "ali ce", "alicia", "élice", "андрей", "игорь", "γιώργος", "νίκη", "bób", "b0bby"]
    assert not any(same_person(one, other) for one in names for other in names if one is not other)
    assert same_person("ali  ce", " ali\u00a0ce") and same_person("νίκη", "ΝΊΚΗ") and same_person("", "\u200b")


def test_a_binding_is_a_value() -> None:
    assert len({binding(), binding(), binding(subject="x")}) == 2
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        binding().subject = "x"  # type: ignore[misc]
    assert attrs.fields_dict(Binding).keys() == set(BINDING_FIELDS)
