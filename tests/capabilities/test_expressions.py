"""`safe_expression`: looked at before it is done, and every fault of it a text for the model."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from laws import examples
from retinue.capabilities.expressions import evaluate_expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3 - 4 / 2", 7.0),
        ("7 // 2 % 2", 1),
        ("-3 + +4", 1),
        ("True and 0 or 'x'", "x"),
        ("not 1 == 2", True),
        ("1 < 2 <= 2 != 3 > 2 >= 2", True),
        ("3 in [1, 2, 3] and 4 not in (1, 2)", True),
        ("None is None and True is not False", True),
        ("[1, 2] + [3]", [1, 2, 3]),
        ("'ab' + 'cd' * 2", "abcdcd"),
        ("2 * (1, 2)", (1, 2, 1, 2)),
        ("{1, 1, 2}", {1, 2}),
        ("{'a': 1, 'b': [2]}", {"a": 1, "b": [2]}),
        ("[] * 1000000000000", []),
        ("'' * 1000000000000", ""),
        ("'x' * -5", ""),
        ("1e300 * 2", 2e300),
        (" 1 +\n 2", 3),
        ("'#' + '#'", "##"),
        ("'a\\nb'", "a\nb"),
        ("0 and 1 / 0", 0),
    ],
)
def test_what_it_calculates(text: str, value: Any) -> None:
    found = evaluate_expression(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0", "divides by zero"),
        ("1 % 0", "divides by zero"),
        ("100 # base\n- 30 # discount", "comments are not understood"),
        ("1 #", "comments are not understood"),
        ("'''a\nb'''", "a text ends in the line"),
        ("'a\nb'", ""),
        ("-'a'", "there is no - of a str"),
        ("+[1]", "there is no + of a list"),
        ("~1", "~ is not understood"),
        ("~'a'", "~ is not understood"),
        ("{[1]}", "a set holds"),
        ("{[1]: 2}", "the keys of a dict"),
        ("{**{1: 2}}", "stars"),
        ("1 + 'a'", "there is no int + str"),
        ("'%9999999d' % 1", "there is no str % int"),
        ("[1] - [1]", "there is no list - list"),
        ("2 ** 9", "Pow is not understood"),
        ("1 << 9", "LShift is not understood"),
        ("1 | 2", "BitOr is not understood"),
        ("x", "names are not understood"),
        ("__import__('os')", "calls are not understood"),
        ("().__class__", "attributes are not understood"),
        ("[1][0]", "subscripts are not understood"),
        ("1 if 2 else 3", "conditions"),
        ("f'{1}'", "f-strings"),
        ("[x for x in [1]]", "comprehensions"),
        ("lambda: 1", "functions"),
        ("(x := 1)", "assignments"),
        ("[*[1]]", "stars"),
        ("b'x'", "a bytes is not understood"),
        ("1j", "a complex is not understood"),
        ("...", "a ellipsis is not understood"),
        ("1 is 1", "`is` is for None"),
        ("1 < 'a'", "cannot be compared"),
        ("1 in 2", "cannot be compared"),
        ("1e308 * 10", "too large"),
        ("1e999", "too large"),
        ("1" + "0" * 1_500, "too large"),
        ("", "no expression"),
        ("1 +", "no expression"),
        ("a = 1", "no expression"),
        ("import os", "no expression"),
        ("\0", "no expression"),
        ("'\ud800'", "no expression"),
        ("x" * 5_000, "5,000 characters"),
        ("(" * 4_000, "expression"),
        ("-" * 3_000 + "1", "expression"),
        ("not " * 900 + "1", "expression"),
        ("[" * 100 + "]" * 100, "within each other"),
        ("1+" * 200 + "1", "too many parts"),
        ("[" + "1," * 120 + "]", "too large"),
        ("'" + "a" * 3_000 + "' * 2", "too large"),
    ],
)
def test_what_it_refuses_is_told(text: str, why: str) -> None:
    with pytest.raises(rt.BadExpression) as caught:
        evaluate_expression(text)
    assert why.lower() in str(caught.value).lower()
    assert caught.value.code == "tool.expression"


def test_what_would_be_large_is_refused_before_it_is_made() -> None:
    large = [
        "[0] * 50000000",
        "50000000 * [0]",
        "'a' * 500000000",
        "[[0] * 60] * 60",
        "[[[[0] * 8] * 8] * 8] * 8",
        "'a' * 4000 + 'a' * 4000",
        " * ".join(["9" * 300] * 12),
        "[0] * 60 + [0] * 60",
        "(((1,) * 30) * 30) * 30",
    ]
    tracemalloc.start()
    try:
        began = time.perf_counter()
        for text in large:
            with pytest.raises(rt.BadExpression, match="too large"):
                evaluate_expression(text)
        assert tracemalloc.get_traced_memory()[1] < 2**20
        assert time.perf_counter() - began < 5
    finally:
        tracemalloc.stop()


def test_a_place_is_named() -> None:
    with pytest.raises(rt.BadExpression, match=r"at character 5\)") as caught:
        evaluate_expression("1 + foo")
    assert caught.value.position == 4
    with pytest.raises(rt.BadExpression) as caught:
        evaluate_expression("  'äöü' +\n 1")
    assert caught.value.position == 2
    with pytest.raises(rt.BadExpression) as caught:
        evaluate_expression("\n 'äöü' == foo")
    assert caught.value.position == 11
    with pytest.raises(rt.BadExpression, match="not an object of type int"):
        evaluate_expression(5)  # type: ignore[arg-type]


NUMBERS = st.integers(-(10**6), 10**6).map(lambda number: f"({number})")
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "==", " and ", " or "]), inner).map(
        "({0[0]}{0[1]}{0[2]})".format
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_it_calculates_as_python_does(text: str) -> None:
    try:
        wanted = eval(text)
    except ZeroDivisionError:
        with pytest.raises(rt.BadExpression, match="zero"):
            evaluate_expression(text)
    else:
        assert evaluate_expression(text) == wanted


@given(st.text(alphabet="0123456789+-*/%()[]{},.:'\"abcnotrise <>=~|&^\\\n", max_size=60))
@settings(max_examples=examples(300))
def test_whatever_is_written_gives_a_value_or_a_text(text: str) -> None:
    try:
        evaluate_expression(text)
    except rt.BadExpression:
        pass


def test_it_is_a_tool() -> None:
    tool = rt.safe_expression
    assert (tool.name, tool.requires, tool.in_thread) == ("safe_expression", "tool.safe_expression", False)
    assert tool.invoke(tool.decode('{"expression": "2 * 21"}')) == "42"
    assert tool("'a' * 2") == "'aa'"
