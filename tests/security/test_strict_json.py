"""Strict JSON: what two readers could read differently is refused, and nothing of it shown."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.security.strict_json import read_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.booleans())
def test_what_is_plain_is_read_as_the_standard_library_reads_it(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    assert read_json(text) == read_json(text.encode("utf-8")) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[1,]",
        '{"a":1,}',
        "{'a':1}",
        "{a:1}",
        "01",
        "+1",
        ".5",
        "1.",
        "0x1",
        "nul",
        "1 2",
        "[1] x",
        "// c\n1",
        "NaN",
        "Infinity",
        "[-Infinity]",
        "1e999",
        "-1e999",
        '{"a":1,"a":1}',
        '{"a":1,"b":{"c":1,"c":2}}',
        '{"a":1,"\\u0061":2}',
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '{"\\ud800":1}',
        '[["\\ud83d"]]',
        '"\ud800"',
        '"a\nb"',
        '"a\x00b"',
        "\ufeff1",
        "1" * 401,
        "1." + "1" * 400,
        "[" * 65 + "]" * 65,
        '{"a":' * 65 + "1" + "}" * 65,
        "[" * 200_000,
    ],
)
def test_everything_else_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        read_json(text)


@pytest.mark.parametrize("raw", [b"\xff", b'"\xc3"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", '"é"'.encode("latin-1"), "1".encode("utf-16")])
def test_bytes_are_utf8(raw: bytes) -> None:
    with pytest.raises(ValueError):
        read_json(raw)


def test_pairs_of_halves_are_whole() -> None:
    assert read_json('"\\ud83d\\ude00"') == "\U0001f600"


def test_brackets_in_texts_do_not_count_as_depth() -> None:
    text = json.dumps(["[{" * 100 + '\\"[[' * 50, "\\", ["]]"]])
    assert read_json(text) == json.loads(text)
    assert read_json("[" * 64 + "]" * 64)
    with pytest.raises(ValueError, match="nested more than 2 deep"):
        read_json("[[[]]]", max_depth=2)


def test_size_is_limited() -> None:
    assert read_json("123", max_bytes=3) == 123
    for data in ("1234", b"1234", '"é"'):
        with pytest.raises(ValueError, match="most that is read"):
            read_json(data, max_bytes=3)


def test_an_error_shows_nothing_of_the_data() -> None:
    for text in ('{"secret": secret}', '["secret", secret', '{"secret":1,"secret":2}'):
        with pytest.raises(ValueError) as caught:
            read_json(text)
        assert "secret" not in str(caught.value)


def test_a_long_text_takes_no_long_time() -> None:
    began = time.thread_time()
    read_json("[" + "[]," * 300_000 + "1]")
    assert time.thread_time() - began < 5
