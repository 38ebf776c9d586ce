"""Arguments as a text that keeps every type: what is read is what was written, and what was not written so is refused."""

from __future__ import annotations

import base64
import decimal
import json
import pathlib
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from approval_values import ARGUMENT_SETS, Access, Colour, Nothing, Pay, Point, unhurried
from plain_values import PLAIN, same
from retinue.security.canonical import canonical, canonical_of_stored
from retinue.security.errors import CanonicalError, DefinitionError
from retinue.security.records import FlagValue, Member, Record
from retinue.security.typed_data import arguments_from_text, arguments_to_text


@unhurried
@given(ARGUMENT_SETS)
def test_what_is_read_has_the_canonical_bytes_of_what_was_written(arguments: dict[str, Any]) -> None:
    again = arguments_from_text(arguments_to_text(arguments))
    assert canonical_of_stored(again) == canonical(arguments)
    assert list(again) == list(arguments), "the order in which a reviewer sees them"


@unhurried
@given(st.dictionaries(st.sampled_from(["a", "b c"]), PLAIN, max_size=2))
def test_plain_data_come_back_as_they_were(arguments: dict[str, Any]) -> None:
    assume("fold=1" not in repr(arguments))  # which says nothing of a moment in a fixed zone, and has no canonical bytes
    assert same(arguments_from_text(arguments_to_text(arguments)), arguments)


@unhurried
@given(ARGUMENT_SETS, ARGUMENT_SETS)
def test_two_texts_are_equal_exactly_for_equal_arguments(one: dict[str, Any], other: dict[str, Any]) -> None:
    equal = canonical(one) == canonical(other) and list(one) == list(other)
    assert (arguments_to_text(one) == arguments_to_text(other)) is equal


@unhurried
@given(ARGUMENT_SETS)
def test_the_text_is_ascii_and_json(arguments: dict[str, Any]) -> None:
    text = arguments_to_text(arguments)
    assert text.isascii()
    assert list(json.loads(text)) == list(arguments)


def test_a_message_comes_back_as_a_record_that_can_be_read_and_stored_again() -> None:
    text = arguments_to_text({"pay": Pay("ACME", [Colour.RED, Access.READ | Access.WRITE]), "at": Point(1), "n": Nothing()})
    arguments = arguments_from_text(text)
    pay = arguments["pay"]
    assert pay == Record(
        "approval_values.Pay",
        (("to", "ACME"), ("amount", [Member("approval_values.Colour", "RED"), FlagValue("approval_values.Access", 3)])),
    )
    assert pay["to"] == "ACME" and arguments["n"] == Record("approval_values.Nothing", ())
    with pytest.raises(KeyError):
        pay["cc"]
    assert arguments_to_text(arguments) == text
    assert "ACME" not in repr(pay), "a record is logged without its values"


def test_a_record_is_no_argument_of_a_call() -> None:
    """Else a sender could pass a record for the message that a person has seen."""
    for stored in (Record("approval_values.Pay", ()), Member("approval_values.Colour", "RED"), FlagValue("approval_values.Access", 1)):
        with pytest.raises(CanonicalError, match="no canonical form"):
            canonical(stored)


def test_records_are_told_apart_by_types_and_never_change() -> None:
    assert Record("a.B", (("x", 1),)) != Record("a.B", (("x", True),))
    assert Record("a.B", (("x", 1),)) != Record("a.C", (("x", 1),))
    assert Record("a.B", (("x", 1),)) == Record("a.B", (("x", 1),)) and hash(Record("a.B", ())) == hash(Record("a.B", ()))
    assert Member("a.B", "x") != "x" and FlagValue("a.B", 1) != Member("a.B", "x")
    for stored in (Record("a.B", ()), Member("a.B", "x"), FlagValue("a.B", 1)):
        with pytest.raises(AttributeError, match="immutable"):
            stored.type_name = "c.D"  # type: ignore[misc]
        with pytest.raises(AttributeError, match="immutable"):
            del stored.type_name


@pytest.mark.parametrize(
    "make",
    [
        lambda: Record("a.B", (("x", 1), ("x", 2))),
        lambda: Record("a.B", (("x y", 1),)),
        lambda: Record("a.B", (("x,y", 1),)),
        lambda: Record(1, ()),  # type: ignore[arg-type]
        lambda: Member("a.B", 1),  # type: ignore[arg-type]
        lambda: FlagValue("a.B", True),
    ],
)
def test_a_record_that_could_be_read_in_two_ways_is_refused(make: Any) -> None:
    with pytest.raises(DefinitionError):
        make()


@attrs.frozen(eq=False)
class Twin:
    x: int


def test_what_cannot_be_told_apart_in_a_store_is_refused() -> None:
    with pytest.raises(CanonicalError, match="two equal members"):
        arguments_to_text({"twins": {Twin(1), Twin(1)}})


@pytest.mark.parametrize("arguments", [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}, {1: 2}, [("a", 1)], None])
def test_what_is_no_plain_data_is_refused(arguments: Any) -> None:
    with pytest.raises(CanonicalError):
        arguments_to_text(arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"a": 1}x',
        '{"a":1}',  # not the one way in which it is written
        '{"a": 1.0}',
        '{"a": 1, "a": 1}',
        '{"a": NaN}',
        '{"a": {"int": "0x1"}}',
        '{"a": {"int": "1_0"}}',
        '{"a": {"int": 1}}',
        '{"a": 9007199254740992}',
        '{"a": {"float": "nan"}}',
        '{"a": {"float": "inf"}}',
        '{"a": {"float": "1.50"}}',
        '{"a": {"float": 1}}',
        '{"a": {"decimal": "NaN"}}',
        '{"a": {"decimal": " 1"}}',
        '{"a": {"decimal": "x"}}',
        '{"a": {"bytes": "YQ"}}',
        '{"a": {"bytes": "YR=="}}',
        '{"a": {"datetime": "2026-01-01T00:00:00"}}',
        '{"a": {"datetime": "20260101T000000Z"}}',
        '{"a": {"date": "x"}}',
        '{"a": {"time": "10:00:00+00:00"}}',
        '{"a": {"later_time": 1}}',
        '{"a": {"timedelta": [0, 0, 1000000]}}',
        '{"a": {"timedelta": [999999999999, 0, 0]}}',
        '{"a": {"timedelta": 1}}',
        '{"a": {"uuid": "00000000000000000000000000000001"}}',
        '{"a": {"path": "a//b"}}',
        '{"a": {"set": [1, 1]}}',
        '{"a": {"set": [2, 1]}}',
        '{"a": {"set": [[1]]}}',
        '{"a": {"frozenset": {}}}',
        '{"a": {"tuple": {}}}',
        '{"a": {"dict": []}}',
        '{"a": {"dict": {"b": 1, "a": 1}}}',
        '{"a": {}}',
        '{"a": {"int": "0x20000000000000", "float": "1.0"}}',
        '{"a": {"unknown": 1}}',
        '{"a": {"record": ["a.B"]}}',
        '{"a": {"record": ["a.B", [["x", 1], ["x", 1]]]}}',
        '{"a": {"record": ["a.B", [["x y", 1]]]}}',
        '{"a": {"record": [1, []]}}',
        '{"a": {"member": ["a.B"]}}',
        '{"a": {"flag": ["a.B", true]}}',
        '{"a": {"flag": ["a.B", "1"]}}',
        '{"a": "\\ud800"}',
        '{"a": "é"}',  # written as an escape
        '{"a": ' + "[" * 400 + "]" * 400 + "}",
    ],
)
def test_what_was_not_written_so_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(CanonicalError) as caught:
        arguments_from_text(text)
    assert "a.B" not in str(caught.value)


@pytest.mark.parametrize("text", [None, b"{}", 1, ["a"]])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(CanonicalError, match="are a text"):
        arguments_from_text(text)


def test_the_forms_are_the_ones_that_are_documented() -> None:
    arguments = {
        "to": "ACME",
        "amount": Decimal("40.00"),
        "big": 2**53,
        "b": b"a",
        "p": pathlib.Path("x"),
        "t": (1,),
        "d": {"b": 1, "a": None},
    }
    assert json.loads(arguments_to_text(arguments)) == {
        "to": "ACME",
        "amount": {"decimal": "40.00"},
        "big": {"int": "0x20000000000000"},
        "b": {"bytes": base64.b64encode(b"a").decode()},
        "p": {"path": "x"},
        "t": {"tuple": [1]},
        "d": {"dict": {"a": None, "b": 1}},
    }


def test_a_decimal_is_written_the_same_whatever_the_thread_wants_of_decimals() -> None:
    arguments = {"amount": Decimal("1E+3")}
    text = arguments_to_text(arguments)
    with decimal.localcontext(decimal.Context(prec=1, capitals=0)):
        assert arguments_to_text(arguments) == text
        assert canonical_of_stored(arguments_from_text(text)) == canonical(arguments)


def test_deep_and_large_arguments_come_back_too() -> None:
    deep: Any = 1
    for _ in range(62):
        deep = Point(deep)
    for arguments in ({"deep": deep}, {"long": "\U0001f600" * 2**20}, {"many": list(range(100_000))}):
        assert canonical_of_stored(arguments_from_text(arguments_to_text(arguments))) == canonical(arguments)
