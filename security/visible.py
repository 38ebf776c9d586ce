r"""Text as a person may look at it: what is not seen, or looks like something else, is an escape.

A reviewer who decides by what is on the screen must see what will be done. So control characters (a terminal's escapes among them), marks that turn the
direction of the text, characters without width, odd spaces, tags, variation selectors, piles of combining marks, second spellings of one letter, and signs
that look like ASCII punctuation are all written as `\x1b`, `\u202e`, `\U000e0041`, a backslash as two. Different texts stay different, character by character.

What is left to see and still misleads is told in words by `oddities`: letters of several scripts in one word, and text that runs from right to left.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

__all__ = ["columns", "escaped", "is_seen", "oddities", "quoted", "quoted_parts", "visible"]

# What Unicode calls ignorable by default and Python nevertheless printable, and one blank that is a symbol.
_UNSEEN: Final = frozenset(
    map(chr, [0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164, *range(0xFE00, 0xFE10), 0xFFA0])
) | frozenset(map(chr, range(0xE0000, 0xE1000)))

# Look like one of / : . , ; ! ' " ` - _ < > # | \ and are none; where such a sign divides a host, a path or a name, that decides what it says.
_LIKE_ASCII: Final = frozenset(
    "\u01c0\u01c3\u02b9\u02ba\u02bb\u02bc\u02bd\u02c2\u02c3\u02c8\u02ca\u02cb\u02d0\u02d1\u02d7\u0375\u037a\u0387\u0589\u05be\u05c0\u05c3\u05f3\u05f4"
    "\u060c\u066a\u066b\u066c\u06d4\u0701\u0702\u0703\u0704\u07f4\u07f5\u1361\u1362\u1363\u1365\u1680\u16eb\u1802\u1803\u1806\u1809\u1c7e\u2010\u2011\u2012"
    "\u201a\u201b\u201f\u2032\u2033\u2035\u2036\u2038\u2039\u203a\u2041\u2043\u2044\u204f\u2052\u205a\u205d\u2212\u2215\u2216\u2217\u2219\u2223\u2236\u223c"
    "\u22ef\u2571\u2572\u2758\u275b\u275c\u275d\u275e\u276e\u276f\u2768\u2769\u29f5\u29f8\u29f9\u2cba\u2e1a\u2e31\u2e32\u2e34\u2e35"
    "\u4e3f\u4e36\ua4f8\ua4f9\ua4fd\ua4ff\ua60e\ua6f3\ua6fd\ua78c\ua789\U0001d16d"
)

_SECOND_SPELLINGS: Final = (
    "<font>",
    "<wide>",
    "<narrow>",
    "<small>",
    "<vertical>",
    "<noBreak>",
    "<initial>",
    "<medial>",
    "<final>",
    "<isolated>",
)
# Scripts with signs of their own among these; right after one of their letters they are what they seem.
_WITH_SIGNS: Final = frozenset(
    {"ARABIC", "ARMENIAN", "BAMUM", "COPTIC", "ETHIOPIC", "HEBREW", "LISU", "MONGOLIAN", "NKO", "RUNIC", "SYRIAC"}
)

# Ordinary within a text of the Far East, odd within any other.
_WIDE_SIGNS: Final = frozenset(
    map(
        chr,
        [*range(0x3001, 0x3003), *range(0x3008, 0x3012), *range(0x3014, 0x301C), 0x30FB, *range(0xFF01, 0xFF10), *range(0xFF1A, 0xFF21)],
    )
)
_ELLIPSIS: Final = "\u2026"  # plain enough in prose
_MOST_MARKS: Final = 2
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}

# Letters that look Latin; a word of nothing else in a text without any other letter of the script is taken for Latin by a reader.
_LIKE_LATIN: Final = frozenset(
    "аеорсухіјѕԁһԛԝёїӏАВЕЗІЈКМНОРСТУХЅҮԌԚԜЁЇӀ"  # Cyrillic
    "αοικνρτυχγωόίύΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϲϳͿ"  # Greek
    "օսոցհԼՏՍՕ"  # Armenian
)
_CASUAL: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"})
"""Scripts that are written together with Latin words, and whose letters are not mistaken for them."""

_RARE_LATIN: Final = ((0x180, 0x24F), (0x250, 0x2AF), (0x1D00, 0x1DBF), (0x2C60, 0x2C7F), (0xA720, 0xA7FF), (0xAB30, 0xAB6F))
_MOST_WORDS: Final = 8
_MOST_SHOWN: Final = 60


def visible(text: str) -> str:
    """The text with an escape for whatever is not seen or looks like something else. All characters of the result are printable; it has no line end.

    Different texts give different results. An ordinary text in any script is left as it is, but for its backslashes, which are doubled.
    """
    if text.isascii() and text.isprintable():
        return text.replace("\\", "\\\\")
    return "".join(_units(text))


def is_seen(character: str) -> bool:
    """Whether a character is one that a reader sees, or the plain blank: no control character, no mark of direction, nothing without width."""
    return character.isprintable() and character not in _UNSEEN


def escaped(text: str) -> str:
    """The text in printable ASCII: every other character is an escape, a backslash is two."""
    return "".join(one if " " <= one <= "~" and one != "\\" else _escape(one) for one in text)


def quoted_parts(text: str | bytes, width: int) -> list[str]:
    """The text in double quotes, as one Python literal or as several that stand one after the other, none wider than `width` columns where that can be.

    Blanks at an end, and all but the first of several, are escapes too.

    Args:
        text: A text, or bytes, whose literals begin with `b`.
        width: Columns, at least 8.
    """
    prefix = "b" if isinstance(text, bytes) else ""
    room = max(width, 8) - len(prefix) - 2
    parts: list[str] = []
    part: list[str] = []
    used = 0
    for unit in _quotable(text):
        size = columns(unit)
        # A mark stays with its letter, or it would be shown on the quote.
        if used + size > room and not unicodedata.category(unit[0]).startswith("M"):
            parts.append("".join(part))
            part, used = [], 0
        part.append(unit)
        used += size
    parts.append("".join(part))
    return [f'{prefix}"{part}"' for part in parts]


def quoted(text: str | bytes) -> str:
    """The text as one literal in double quotes, however long."""
    return "".join(quoted_parts(text, 12 * len(text) + 8))


def columns(text: str) -> int:
    """How many columns of a terminal the text takes, at most."""
    return len(text) if text.isascii() else sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def _quotable(text: str | bytes) -> Iterator[str]:
    units = (
        [chr(byte) if 32 <= byte < 127 and byte != 92 else _escape(chr(byte)) for byte in text] if isinstance(text, bytes) else _units(text)
    )
    units = list(units)
    last = len(units) - 1
    for number, unit in enumerate(units):
        if unit == '"':
            yield '\\"'
        elif unit == " " and (number in (0, last) or units[number - 1] == " "):
            yield "\\x20"
        else:
            yield unit


def _escape(character: str) -> str:
    number = ord(character)
    short = _SHORT.get(character)
    if short is not None:
        return short
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _units(text: str) -> Iterator[str]:
    """Each character as it is shown: itself or its escape."""
    cluster = ""  # the letter, with the marks on it, that a further mark would be shown on
    last = ""
    wide = False  # whether the character before belongs to a text of the Far East
    for character in text:
        before, last = last, character
        was_wide, wide = wide, unicodedata.east_asian_width(character) == "W" or (wide and character in _WIDE_SIGNS)
        if " " <= character <= "~":
            cluster = character if character.isalnum() else ""
            yield _escape(character) if character == "\\" else character
        elif (_is_unsafe(character) and not _is_of_its_script(before, character)) or (character in _WIDE_SIGNS and not was_wide):
            cluster = ""
            yield _escape(character)
        elif unicodedata.category(character).startswith("M"):
            if _may_carry(cluster, character):
                cluster += character
                yield character
            else:
                yield _escape(character)
        elif 0x1160 < ord(character) < 0x1200 and unicodedata.normalize("NFC", cluster + character) != cluster + character:
            cluster = ""  # half a syllable of Hangul, which is shown as the whole one that has a character of its own
            yield _escape(character)
        else:
            cluster = character if character.isalnum() else ""
            yield character


def _may_carry(cluster: str, mark: str) -> bool:
    """Whether a mark is shown as itself: on a letter, with few others, and not as the second spelling of a letter that has its own character."""
    if not cluster or len(cluster) > _MOST_MARKS or unicodedata.category(mark) == "Me":
        return False
    return unicodedata.normalize("NFC", cluster + mark) == cluster + mark


def _is_of_its_script(letter: str, sign: str) -> bool:
    if sign not in _LIKE_ASCII or not letter.isalpha():
        return False
    script = unicodedata.name(sign, "").split(" ", 1)[0]
    return script in _WITH_SIGNS and script == _script(letter)


def _is_unsafe(character: str) -> bool:
    if not character.isprintable() or character in _UNSEEN or character in _LIKE_ASCII:
        return True
    decomposition = unicodedata.decomposition(character)
    if not decomposition or character in _WIDE_SIGNS:
        return False
    if decomposition.startswith(_SECOND_SPELLINGS) or unicodedata.normalize("NFC", character) != character:
        return True
    return decomposition.startswith("<compat>") and character != _ELLIPSIS and unicodedata.normalize("NFKC", character).isascii()


# -- what is seen and misleads


def oddities(text: str) -> list[str]:
    """What in the text may be taken for something else, each as a sentence with the characters in question; empty for most texts."""
    if text.isascii():
        return []
    found: list[str] = []
    words = [word for word in _words(text) if not word.isascii()]
    clear = {_script(one) for one in text if one.isalpha() and one not in _LIKE_LATIN}
    odd = 0
    for word in dict.fromkeys(words):
        note = _note_of(word, clear)
        if note:
            odd += 1
            if odd <= _MOST_WORDS:
                found.append(note)
    if odd > _MOST_WORDS:
        found.append(f"and {odd - _MOST_WORDS} more words like these")
    if any(unicodedata.bidirectional(one) in ("R", "AL", "AN") for one in text):
        found.append(f"runs from right to left in parts; in the order in which it is stored: {escaped(text)}")
    return found


def _words(text: str) -> Iterator[str]:
    word: list[str] = []
    for character in text:
        if character.isalnum() or unicodedata.category(character).startswith("M"):
            word.append(character)
        elif word:
            yield "".join(word)
            word = []
    if word:
        yield "".join(word)


def _note_of(word: str, clear: set[str]) -> str:
    scripts = {_script(one) for one in word if one.isalpha() or not one.isascii()} - {""}
    if any(one.isdecimal() and not one.isascii() for one in word) and any("0" <= one <= "9" for one in word):
        scripts.add("ASCII digits")
    serious = scripts - _CASUAL
    if len(serious) > 1 or "rare LATIN" in serious:
        what = f"mixes {', '.join(sorted(scripts))}"
    elif len(serious) == 1 and not serious & clear and all(one in _LIKE_LATIN for one in word if not one.isascii()):
        what = f"looks Latin and is {', '.join(serious)}"
    else:
        return ""
    odd = list(dict.fromkeys(one for one in word if not one.isascii()))
    names = ", ".join(f"U+{ord(one):04X} {unicodedata.name(one, '')}".rstrip() for one in odd[:4]) + (", …" if len(odd) > 4 else "")
    shown = visible(word[:_MOST_SHOWN]) + ("…" if len(word) > _MOST_SHOWN else "")
    return f'"{shown}" {what}: {names}'


def _script(character: str) -> str:
    """The script of a letter or digit as the first word of its name says it; good enough to tell that two differ. "" for a mark."""
    number = ord(character)
    if number < 0x80:
        return "LATIN" if character.isalpha() else ""
    if unicodedata.category(character).startswith("M"):
        return ""
    name = unicodedata.name(character, "UNNAMED")
    first = name.split(" ", 1)[0]
    if first == "LATIN" and any(low <= number <= high for low, high in _RARE_LATIN[1:]):
        return "rare LATIN"
    return first
