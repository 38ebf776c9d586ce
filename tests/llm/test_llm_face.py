"""`retinue.llm`: what users type is there, is public where it lives, and is documented."""

from __future__ import annotations

import importlib

import pytest

from retinue import llm
from retinue.actors.llm import errors


@pytest.mark.parametrize("name", [name for name in llm.__all__ if name not in ("ModelEvent", "Role")])
def test_every_name_is_public_where_it_lives_and_documented(name):
    value = getattr(llm, name)
    assert name in importlib.import_module(value.__module__).__all__
    assert value.__doc__.strip()


def test_every_error_of_a_models_can_be_caught_by_its_public_name():
    assert set(errors.__all__) <= set(llm.__all__)
    assert all(issubclass(getattr(errors, name), errors.ModelError) for name in errors.__all__)


def test_the_names_are_in_order():
    assert llm.__all__ == sorted(llm.__all__)
