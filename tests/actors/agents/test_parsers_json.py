"""A JSON parser gives an object of the first of its types that fits."""

from __future__ import annotations

import dataclasses

import attrs
import pytest

import retinue as rt


@attrs.frozen
class City:
    name: str
    people: int = 0


@dataclasses.dataclass
class Person:
    first: str
    last: str


PARSER = rt.JSONParser("Answer well.", city=City, person=Person)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"name": "Paris", "people": 2}', City("Paris", 2)),
        ('{"first": "Ada", "last": "L"}', Person("Ada", "L")),
        ('```json\n{"name": "Rome"}\n```', City("Rome")),
        ('// a comment\n{"name": "http://x"\n  // another\n}', City("http://x")),
        ('Here it is: {"name": "Oslo"} as you wished.', City("Oslo")),
    ],
)
def test_the_first_type_that_fits_is_what_the_answer_is(text: str, value: object) -> None:
    parsed = PARSER.parse(text)
    assert (parsed.value, parsed.formatted, parsed.status, parsed.calls) == (value, value, "valid", ())


@pytest.mark.parametrize("text", ["", "no", "[1]", '{"name": 3, "last": "x"}', '{"name": "x"', "{" * 1000, "null"])
def test_an_answer_that_fits_none_is_an_error_that_says_why_for_each(text: str) -> None:
    """Lagent A13.9: an UnboundLocalError, and a ValueError for fenced JSON."""
    parsed = PARSER.parse(text)
    assert parsed.status == "error" and parsed.value is None
    assert "As city" in (parsed.error or "") and "As person" in (parsed.error or "")


def test_the_model_is_told_the_types() -> None:
    told = PARSER.instruction() or ""
    assert told.startswith("Answer well.") and '"people"' in told and '"first"' in told
    placed = rt.JSONParser("Before. {format} After.", city=City).instruction() or ""
    assert placed.startswith("Before. ") and placed.endswith(" After.")


def test_a_pydantic_model_may_be_brought() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Point(pydantic.BaseModel):
        x: int
        y: int = 0

    assert rt.JSONParser(point=Point).parse('{"x": 1}').value == Point(x=1)
    assert rt.JSONParser(point=Point).parse('{"x": "one"}').status == "error"
