"""`retinue.testing`: what users type is there, is public where it lives, and is documented."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

from retinue import testing


def static_imports() -> dict[str, str]:
    for node in ast.parse(inspect.getsource(testing)).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            imports = [statement for statement in node.body if isinstance(statement, ast.ImportFrom)]
            return {alias.name: str(statement.module) for statement in imports for alias in statement.names}
    raise AssertionError("no `if TYPE_CHECKING:` in retinue.testing")


def test_static_tools_see_what_is_loaded_at_run_time():
    assert static_imports() == testing._HOMES
    assert testing.__all__ == sorted(testing._HOMES)


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_is_public_where_it_lives_and_documented(name):
    assert name in importlib.import_module(testing._HOMES[name]).__all__
    assert getattr(testing, name).__doc__.strip()
    assert name in dir(testing)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Prob'"):
        _ = testing.Prob
