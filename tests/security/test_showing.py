"""Arguments as a reviewer sees them: what is shown says exactly what is hashed, can be read back, and hides nothing."""

from __future__ import annotations

import datetime as dt
import pathlib
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import approval_values
from approval_values import ARGUMENT_SETS, Access, Colour, Nothing, Pay, Point, unhurried
from retinue.security.canonical import canonical, canonical_of_stored
from retinue.security.errors import CanonicalError
from retinue.security.records import Member, Record
from retinue.security.showing import shown_arguments
from retinue.security.typed_data import arguments_from_text, arguments_to_text
from retinue.security.visible import columns

WORDS: dict[str, Any] = {
    "__builtins__": {},
    "int": int,
    "set": set,
    "frozenset": frozenset,
    "Decimal": Decimal,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": lambda text, fold=0: dt.time.fromisoformat(text).replace(fold=fold),
    "timedelta": dt.timedelta,
    "UUID": uuid.UUID,
    "Path": pathlib.PurePosixPath,
    "WindowsPath": pathlib.PureWindowsPath,
    "approval_values": approval_values,
}


def read_back(lines: list[str]) -> dict[str, Any]:
    """The arguments that the lines say, as Python reads them."""
    found: dict[str, str] = {}
    name = ""
    for whole in lines:
        line = whole
        if line.startswith("  ! ") or line == "(none)":
            continue
        if line[0] not in " ])}":
            # The name is one word, or a literal; ` = ` in a literal comes after a quote.
            end = line.index('" = ') + 1 if line.startswith('"') else line.index(" = ")
            name = str(eval(line[:end], {})) if line.startswith('"') else line[:end]
            line = line[end + 3 :]
            found[name] = ""
        found[name] += line + "\n"
    return {name: eval(f"({text})", WORDS) for name, text in found.items()}


@unhurried
@given(ARGUMENT_SETS, st.sampled_from([20, 40, 100]))
def test_what_is_shown_can_be_read_back_as_what_was_hashed(arguments: dict[str, Any], width: int) -> None:
    lines = shown_arguments(arguments, width=width)
    assert canonical(read_back(lines)) == canonical(arguments)
    assert all(line.isprintable() for line in lines)


@unhurried
@given(ARGUMENT_SETS, ARGUMENT_SETS)
def test_two_different_sets_of_arguments_never_show_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    if canonical(one) != canonical(other):
        assert shown_arguments(one) != shown_arguments(other)


@unhurried
@given(ARGUMENT_SETS)
def test_what_was_stored_shows_as_what_was_given(arguments: dict[str, Any]) -> None:
    assert shown_arguments(arguments_from_text(arguments_to_text(arguments))) == shown_arguments(arguments)


LOOK_ALIKE: list[list[Any]] = [
    [1, "1", 1.0, True, b"1", Decimal(1), Decimal("1.0"), [1], (1,), {1}, frozenset({1})],
    [None, "None", "", [], (), {}, set(), frozenset()],
    [0.0, -0.0, 0, Decimal("-0"), "-0.0"],
    [Colour.RED, "approval_values.Colour.RED", Member("approval_values.Colour.RED", "RED"), Access.READ, 1],
    [Pay("a"), Pay("a", 1), Nothing(), Point("a"), {"to": "a", "amount": 0}, Record("builtins.dict", (("to", "a"), ("amount", 0)))],
    [Record("Decimal", (("x", "1"),)), Record("a b.C", ()), Record('a.B(x=1), "', ()), Record("a.B", ())],
    ["a\u202eb", "a\\u202eb", "ab"],
    ["é", "e\u0301", "e"],
    ["a", "а", " a", "a ", "a\u00a0", "a  ", 'a"', "a\n"],
    [dt.time(1), dt.time(1, fold=1), dt.timedelta(hours=1), "01:00:00"],
    [pathlib.PurePosixPath("a"), pathlib.PureWindowsPath("a"), "a"],
    [10**70, str(10**70), float(10**70), 10**70 + 1],
    [["a", "b"], ['a", "b'], ["a, b"], ["ab"]],
    [{"a": 1, "b": 2}, {'a": 1, "b': 2}],
]


@pytest.mark.parametrize("values", LOOK_ALIKE, ids=lambda values: repr(values[0]))
def test_values_that_are_mistaken_for_each_other_show_differently(values: list[Any]) -> None:
    assert len({"\n".join(shown_arguments({"x": value})) for value in values}) == len(values)


def test_a_usual_call_is_read_at_a_glance() -> None:
    arguments = {"to": "ACME", "amount": Decimal("40.00"), "copies": 2, "urgent": True, "ratio": 1.0, "note": None, "tags": ["a", "b"]}
    assert shown_arguments(arguments) == [
        'to = "ACME"',
        'amount = Decimal("40.00")',
        "copies = 2",
        "urgent = True",
        "ratio = 1.0",
        "note = None",
        'tags = ["a", "b"]',
    ]
    assert shown_arguments({"pay": Pay("ACME", Colour.RED)}) == ['pay = approval_values.Pay(to="ACME", amount=approval_values.Colour.RED)']
    assert shown_arguments({}) == ["(none)"]


def test_a_name_that_is_no_word_is_quoted() -> None:
    assert shown_arguments({"from": 1, "x y": 2, "x = 1": 3}) == ['"from" = 1', '"x y" = 2', '"x = 1" = 3']
    assert shown_arguments({"а": 1}) == ['"а" = 1', '  ! "а" looks Latin and is CYRILLIC: U+0430 CYRILLIC SMALL LETTER A']


def test_nothing_is_ever_cut() -> None:
    text = "".join(chr(97 + number % 26) for number in range(100_000))
    lines = shown_arguments({"text": text, "more": ["x"] * 1000})
    assert read_back(lines) == {"text": text, "more": ["x"] * 1000}
    assert max(map(columns, lines)) <= 100


def test_a_long_value_goes_on_over_lines_that_no_value_can_imitate() -> None:
    payments = [{"to": "ACME GmbH", "note": "an invoice with a rather long text"}, {"to": 'x"\n  ! harmless', "note": "y"}]
    assert shown_arguments({"payments": payments, "then": 1}, width=60) == [
        "payments = [",
        "  {",
        '    "note": "an invoice with a rather long text",',
        '    "to": "ACME GmbH"',
        "  },",
        '  {"note": "y", "to": "x\\"\\n \\x20! harmless"}',
        "]",
        "then = 1",
    ]


def test_what_misleads_is_told_below_the_argument_wherever_it_stands() -> None:
    lines = shown_arguments({"a": [{"k": ("pаypal",)}], "b": "x", "c": pathlib.PurePosixPath("pаy"), "d": Pay("аbc"), "e": {"kеy": 1}})
    assert [line[:10] for line in lines] == [
        'a = [{"k":',
        '  ! "pаypa',
        'b = "x"',
        'c = Path("',
        '  ! "pаy" ',
        "d = approv",
        '  ! "аbc" ',
        'e = {"kеy"',
        '  ! "kеy" ',
    ]


@pytest.mark.parametrize("arguments", [{"x": object()}, {"x": float("inf")}, {"x": "\ud800"}])
def test_what_cannot_be_hashed_cannot_be_shown(arguments: dict[str, Any]) -> None:
    with pytest.raises(CanonicalError):
        shown_arguments(arguments)


def test_what_was_stored_of_a_flag_or_an_odd_class_is_shown() -> None:
    stored = {"x": Record("f.<locals>.C", (("n", 1),)), "y": Member("a.B", "x y")}
    assert shown_arguments(stored) == ["x = f.<locals>.C(n=1)", 'y = member("a.B", "x y")']
    assert canonical_of_stored(stored)
