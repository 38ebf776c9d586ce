"""What docstrings say of a tool, in each style that people write."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from retinue.capabilities.docstrings import described_fields, documentation_of

GOOGLE = """Forecast for a city.

More about it.

Args:
    city (str): Name of the city,
        in its own language.
    days (int, optional): How many days ahead: 1 to 7.

Returns:
    A text.
"""
NUMPY = """Forecast for a city.

More about it.

Parameters
----------
city : str
    Name of the city,
    in its own language.
days : int, optional
    How many days ahead: 1 to 7.

Returns
-------
str
    A text.
"""
SPHINX = """Forecast for a city.

More about it.

:param city: Name of the city,
    in its own language.
:param int days: How many days ahead: 1 to 7.
:returns: A text.
"""
EPYDOC = """Forecast for a city.

More about it.

@param city: Name of the city,
    in its own language.
@param days: How many days ahead: 1 to 7.
@return: A text.
"""
LAGENT = """Forecast for a city.

More about it.

    Args:
        city (:class:`str`): Name of the city,
            in its own language.
        days (:class:`Optional[int]`): How many days ahead: 1 to 7.

    Returns:
        :class:`ActionReturn`: A text.
"""
ODD = """Forecast for a city.

More about it.

 city: Name of the city, in its own language.
 days: How many days ahead: 1 to 7.
"""


def function_with(text: str | None) -> Any:
    def example(city: str, days: int = 1) -> None: ...

    example.__doc__ = text
    return example


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX, EPYDOC, LAGENT], ids=["google", "numpy", "sphinx", "epydoc", "lagent"])
def test_each_style_gives_the_same(text: str) -> None:
    found = documentation_of(function_with(text), ["city", "days"])
    assert found.description == "Forecast for a city.\n\nMore about it."
    assert found.parameters == {"city": "Name of the city, in its own language.", "days": "How many days ahead: 1 to 7."}


def test_lines_that_begin_with_a_parameters_name_describe_it() -> None:
    found = documentation_of(function_with(ODD), ["city", "days"])
    assert found.parameters == {"city": "Name of the city, in its own language.", "days": "How many days ahead: 1 to 7."}


@pytest.mark.parametrize("text", [None, "", "   ", "Only this.", "Args:", "Args:\n  :::\n@param", ":param", "x" * 200_000])
def test_any_docstring_will_do(text: str | None) -> None:
    assert documentation_of(function_with(text), ["city", "days"]).parameters == {}


def test_the_fields_of_a_class_are_described_by_its_docstring() -> None:
    @attrs.frozen
    class Stop:
        """A stop.

        Attributes:
            name: What it is called.
            minutes: How long, in minutes.
        """

        name: str
        minutes: int

    assert described_fields(Stop) == {"name": "What it is called.", "minutes": "How long, in minutes."}
