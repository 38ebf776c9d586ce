"""What a tool gives, as a text for a model."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.actors.tools.rendering import Joined, bounded, error_text, text_of
from retinue.security.whole_texts import whole


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Place:
    name: str
    at: tuple[int, ...] = ()


@dataclasses.dataclass
class Trip:
    to: Place
    cost: decimal.Decimal


class Rude:
    def __repr__(self) -> str:
        raise ValueError("no")


class Text(str):  # noqa: SLOT000
    def __str__(self) -> str:
        raise ValueError("no")


ring: list[Any] = []
ring.append(ring)
deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "done, no output"),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        (["世界", 1], '["世界", 1]'),
        ({"a": None}, '{"a": null}'),
        (Place("Rome", (1, 2)), '{"name": "Rome", "at": [1, 2]}'),
        (Trip(Place("Rome"), decimal.Decimal("1.50")), '{"to": {"name": "Rome", "at": []}, "cost": "1.50"}'),
        (Colour.RED, '"red"'),
        ({3, 1, 2}, "[1, 2, 3]"),
        (b"bytes", '"bytes"'),
        (datetime.date(2026, 11, 30), '"2026-11-30"'),
        (pathlib.PurePosixPath("a/b"), '"a/b"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (collections.OrderedDict(a=1), '{"a": 1}'),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (ring, "[[...]]"),
        (Rude(), "<Rude, which cannot be shown>"),
        (Text("a text"), "a text"),
        ("\ud83d\ude00 \ud83d", "😀 \ufffd"),
        (["\ud83d"], '["\ufffd"]'),
    ],
)
def test_a_value_has_its_text(value: Any, text: str) -> None:
    assert text_of(value) == text


shared: Any = ["x"]
for _ in range(60):
    shared = [shared, shared]
shared_places: Any = Place("Rome")
for _ in range(60):
    shared_places = Place("Rome", (shared_places, shared_places))
errors: Exception = ValueError("x")
for _ in range(60):
    errors = ExceptionGroup("all", [errors] * 5)


@pytest.mark.parametrize("value", [shared, {"a": shared}, (1, shared), shared_places, [ring, shared], {"a": ["x" * 1_000_000] * 1_000}])
def test_what_is_in_a_value_in_very_many_places_is_written_to_a_bound(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.actors.tools.rendering.LONGEST_TEXT", 100_000)
    monkeypatch.setattr("retinue.actors.tools.rendering.CUT", 10_000)
    assert 0 < len(text_of(value)) < 11_000


def test_a_group_whose_exceptions_are_in_it_very_often_has_a_short_text() -> None:
    assert error_text(errors).count("ExceptionGroup") <= 21


def test_what_nests_too_deep_has_some_text_all_the_same() -> None:
    assert text_of(deep)


@given(st.text(st.characters(exclude_categories=())))
def test_a_clean_text_can_be_sent_and_a_proper_one_is_left_alone(text: str) -> None:
    cleaned = whole(text)
    cleaned.encode()
    assert whole(cleaned) == cleaned
    if text.isprintable():
        assert cleaned == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@settings(max_examples=10)
@given(json_values.filter(lambda value: not isinstance(value, str) and value is not None))
def test_data_can_be_read_back(value: Any) -> None:
    assert json.loads(text_of(value)) == value


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_a_bounded_text_keeps_head_and_tail(text: str, limit: int) -> None:
    found = bounded(text, limit)
    if len(text) <= limit:
        assert found == text
    else:
        tail = limit // 3
        assert found.startswith(text[: limit - tail]) and found.endswith(text[len(text) - tail :]) and len(found) < limit + 80


@settings(max_examples=30)
@given(st.lists(st.text(max_size=5)))
def test_texts_are_joined_as_they_are(items: list[str]) -> None:
    joined = Joined()
    for item in items:
        joined.add(item)
    assert joined.text() == ("".join(items).removesuffix("\n") if items else "done, no output")


def test_more_items_than_can_be_kept_lose_their_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.actors.tools.rendering.LONGEST_TEXT", 1_000)
    joined = Joined()
    for number in range(10_000):
        joined.add(f"{number};")
    text = joined.text()
    assert len(text) < 3_000 and text.startswith("0;1;") and text.endswith("9999;")


def test_an_exception_is_told_by_its_type_and_text() -> None:
    assert error_text(ValueError("no \ud83d")) == "ValueError: no \ufffd"
    assert error_text(ValueError()) == "ValueError"
    assert len(error_text(ValueError("x" * 10_000))) < 2_100

    class Odd(Exception):
        def __str__(self) -> str:
            raise TypeError

    assert error_text(Odd()).endswith("Odd")
