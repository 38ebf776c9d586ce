"""Text as a person may look at it: nothing hidden, nothing that moves a cursor, and different texts stay different."""

from __future__ import annotations

import ast
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from approval_values import unhurried
from retinue.security.visible import columns, escaped, oddities, quoted_parts, visible

TRICKY = st.text(
    alphabet='ab \\"\n\x1b\u202e\u200b\u00a0\u00ade\u0301\u0323é\u0430\u05d0\U000e0041\ufe0fxuU20\ud800\u1100\u1161가', max_size=12
)
TEXTS = st.one_of(TRICKY, st.text(max_size=8), st.text(alphabet=st.characters(exclude_categories=()), max_size=6))


def read_back(shown: str) -> str:
    """What an escaped text says."""
    return str(ast.literal_eval('"' + shown.replace('"', '\\"') + '"'))


@unhurried
@given(TEXTS)
@example("\\u202e")
@example("\u202e")
@example("\\\u202e")
def test_what_is_shown_is_printable_and_can_be_read_back(text: str) -> None:
    for show in (visible, escaped):
        shown = show(text)
        assert shown.isprintable()
        assert read_back(shown) == text
    assert escaped(text).isascii()


@unhurried
@given(TEXTS)
def test_what_is_shown_is_in_its_normal_form(text: str) -> None:
    """So two texts that a screen cannot tell apart by the composition of their letters are shown differently."""
    shown = visible(text)
    assert unicodedata.normalize("NFC", shown) == shown


@unhurried
@given(TEXTS, st.integers(1, 30))
def test_quoted_parts_are_literals_that_stand_for_the_text(text: str, width: int) -> None:
    parts = quoted_parts(text, width)
    assert "".join(ast.literal_eval(part) for part in parts) == text
    assert all(part.isprintable() and part.startswith('"') and part.endswith('"') for part in parts)
    assert not any(part.startswith('" ') or "  " in part for part in parts[:1]), "blanks at the beginning, and several of them, are seen"
    assert not parts[-1].endswith(' "')


@unhurried
@given(st.binary(max_size=20), st.integers(1, 30))
def test_quoted_bytes_are_literals_too(data: bytes, width: int) -> None:
    parts = quoted_parts(data, width)
    assert b"".join(ast.literal_eval(part) for part in parts) == data
    assert all(part.isascii() and part.isprintable() for part in parts)


@unhurried
@given(st.text(alphabet="abc é你", max_size=60), st.integers(16, 40))
def test_a_long_text_is_broken_by_columns_and_never_cut(text: str, width: int) -> None:
    assert all(columns(part) <= width for part in quoted_parts(text, width))


HIDDEN = {
    "escape sequence of a terminal": "[2J\x1b",
    "8-bit control": "2J\x9b",
    "backspace": "\x08",
    "delete": "\x7f",
    "NUL": "\0",
    "carriage return": "\r",
    "line separator": "\u2028",
    "right-to-left override": "\u202e",
    "left-to-right isolate": "\u2066",
    "Arabic letter mark": "\u061c",
    "zero-width space": "\u200b",
    "zero-width joiner": "\u200d",
    "word joiner": "\u2060",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "no-break space": "\u00a0",
    "ideographic space": "\u3000",
    "thin space": "\u2009",
    "Ogham space": "\u1680",
    "Mongolian vowel separator": "\u180e",
    "Hangul filler": "\u3164",
    "half-width Hangul filler": "\uffa0",
    "Braille blank": "\u2800",
    "combining grapheme joiner": "\u034f",
    "variation selector": "\ufe0f",
    "variation selector of the supplement": "\U000e0100",
    "tag": "\U000e0041",
    "private use": "\ue000",
    "not a character": "\uffff",
    "half of a surrogate pair": "\ud800",
    "interlinear annotation": "\ufff9",
    "musical control": "\U0001d173",
    "combining mark without a letter": " \u0336",
    "mark that encloses": "a\u20dd",
    "third mark on a letter": "q\u0332\u0333\u0331",
    "letter and mark that have a character of their own": "e\u0301",
    "marks out of order": "q\u0301\u0323",
    "halves of a syllable": "\u1100\u1161",
    "second spelling of a letter": "\u212a",
    "mathematical letter": "\U0001d41a",
    "full-width letter": "\uff41",
    "full-width slash": "\uff0f",
    "one dot leader": "\u2024",
    "division slash": "\u2215",
    "ideographic full stop in a name": "m\u3002",
    "full-width stop in a name": "m\uff0e",
    "fraction slash": "\u2044",
    "ratio": "\u2236",
    "modifier colon": "\ua789",
    "Armenian full stop": "\u0589",
    "low quote that looks like a comma": "\u201a",
    "hyphen that is none": "\u2010",
    "minus that is none": "\u2212",
    "click that looks like an exclamation mark": "\u01c3",
    "Greek question mark": "\u037e",
    "ligature": "\ufb01",
    "form of an Arabic letter": "\ufe8d",
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_hides_or_pretends_is_an_escape(text: str) -> None:
    shown = visible(f"x{text}y")
    assert "\\" in shown and shown.isprintable()
    assert text[-1] not in shown
    assert read_back(shown) == f"x{text}y"


ORDINARY = [
    "Grüße aus Köln, 40 € – „bald“ … ½ ™",
    "Ça va? L’été à Nîmes",
    "Привет, Алиса!",
    "Ευχαριστώ πολύ",
    "नमस्ते दुनिया",
    "ภาษาไทยน้ำ",
    "你好，世界？！（测试）：完。",
    "Բարև։",
    "سلام، دنیا۔",
    "日本語のテキスト",
    "한국어",
    "שלום עולם",
    "مرحبا بالعالم",
    "Tiếng Việt",
    "a_b-c.d/e:f@g#h",
    "😀 👍",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_an_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_a_backslash_is_two_so_that_no_escape_can_be_written_by_hand() -> None:
    assert visible("\\u202e") == "\\\\u202e"
    assert visible("\u202e") == "\\u202e"
    assert visible("a\nb\tc\rd") == "a\\nb\\tc\\rd"
    assert visible("\U000e0041") == "\\U000e0041"


def test_every_character_of_unicode_is_shown_as_itself_or_as_its_escape() -> None:
    seen = set()
    for number in range(0, sys.maxunicode + 1, 7):
        shown = visible(chr(number))
        assert shown == chr(number) or shown.startswith("\\")
        seen.add(shown)
    assert len(seen) == len(range(0, sys.maxunicode + 1, 7))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pаypal", "mixes CYRILLIC, LATIN"),
        ("www.раypal.com", "mixes CYRILLIC, LATIN"),
        ("аррӏе", "looks Latin and is CYRILLIC"),
        ("ΑΒΕ", "looks Latin and is GREEK"),
        ("αpple", "mixes GREEK, LATIN"),
        ("gооgle account", "mixes CYRILLIC, LATIN"),
        ("ɡoogle", "rare LATIN"),
        ("ꭰog", "mixes CHEROKEE, LATIN"),
        ("10৪", "ASCII digits"),
        ("a\u0660", "mixes"),
        ("pay שלום 100", "right to left"),
        ("100 ريال", "right to left"),
    ],
)
def test_what_is_seen_and_misleads_is_told(text: str, told: str) -> None:
    notes = oddities(text)
    assert any(told in note for note in notes), notes
    assert all(note.isprintable() for note in notes)


def test_a_note_names_the_characters_and_right_to_left_text_is_told_in_its_order() -> None:
    assert oddities("pаypal") == ['"pаypal" mixes CYRILLIC, LATIN: U+0430 CYRILLIC SMALL LETTER A']
    assert oddities("a אב 1")[-1].endswith(": a \\u05d0\\u05d1 1")


@pytest.mark.parametrize("text", [text for text in ORDINARY if not any(unicodedata.bidirectional(one) in ("R", "AL") for one in text)])
def test_an_ordinary_text_is_not_odd(text: str) -> None:
    assert oddities(text) == []


@pytest.mark.parametrize("text", ["", "plain ASCII", "Tシャツ", "東京Tower", "A4 용지", "Я и ты, а он?"])
def test_scripts_that_are_written_together_are_not_odd(text: str) -> None:
    assert oddities(text) == []


def test_many_odd_words_do_not_flood_the_reader() -> None:
    notes = oddities(" ".join(f"pаy{'x' * number}" for number in range(50)))
    assert len(notes) == 9 and notes[-1] == "and 42 more words like these"
    assert len(oddities("pа" + "y" * 10_000)[0]) < 200
