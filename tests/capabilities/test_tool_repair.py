"""Slips of syntax that are mended, and texts that are left alone because more than one thing can be meant."""

from __future__ import annotations

import json

import pytest

from retinue.capabilities.repair import LONGEST, MAX_DEPTH, repair


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ("{'a': 'b'}", {"a": "b"}),
        ("{'a': 'say \"hi\"'}", {"a": 'say "hi"'}),
        ('{"a": "it\\\'s"}', {"a": "it's"}),
        ("{'a': 'it\\'s'}", {"a": "it's"}),
        ('{"a": None, "b": True, "c": False}', {"a": None, "b": True, "c": False}),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ('{"a": "\x01"}', {"a": "\x01"}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1}```', {"a": 1}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ("{'a': {'b': [None, 'c',],},}", {"a": {"b": [None, "c"]}}),
        ('{"a": "None, True"}', {"a": "None, True"}),
        ('{"a": -1.5e3,}', {"a": -1500.0}),
    ],
)
def test_a_slip_is_mended(written: str, meant: object) -> None:
    mended = repair(written)
    assert mended is not None
    assert json.loads(mended) == meant


@pytest.mark.parametrize(
    "written",
    [
        "",
        "{",
        '{"a": 1',
        '{"a": [1, 2}',
        '{"a": "one',
        '{"a":}',
        '{"a"}',
        '{"a": 1,, "b": 2}',
        "{,}",
        '{"a": "say "hi" to him"}',
        "{'a': 'it's'}",
        '{"a": 01}',
        '{"a": 1_000}',
        '{"a": +1}',
        '{"a": .5}',
        '{"a": 0x10}',
        '{"a": NaN}',
        '{"a": undefined}',
        '{"a": "C:\\dir"}',
        '{"a": "\\x41"}',
        '{"a": "\\u12"}',
        "{a: 1}",
        '{"a": 1} and more',
        '{"a": 1}}',
        '{"a": 1}{"b": 2}',
        '{"a": 1 /* one */}',
        '{"a" "b"}',
        '{"a": 1 "b": 2}',
        '{"a": (1, 2)}',
        '{"a": {1, 2}}',
        'call({"a": 1})',
        '```json\n{"a": 1}',
        '```json\n{"a": 1}\n```\n```json\n{"b": 2}\n```',
        "[" * (MAX_DEPTH + 5) + "]" * (MAX_DEPTH + 5),
        "[" * 100_000,
    ],
)
def test_what_has_no_end_or_more_than_one_meaning_is_left_alone(written: str) -> None:
    assert repair(written) is None


def test_mending_has_a_bound() -> None:
    longest = '{"a": "' + "\n" * (LONGEST - 10) + '",}'
    assert len(longest) == LONGEST
    assert repair(longest) is not None
    assert repair(longest.replace("\n", "\n\n", 1)) is None
    assert repair("```\n" + " " * (LONGEST - 4)) is None
