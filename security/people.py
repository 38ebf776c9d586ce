"""Names of people, compared as a person would see them: for four eyes, where it is safer to ask one too many."""

from __future__ import annotations

import unicodedata
from typing import Final

from retinue.security.visible import is_seen

__all__ = ["same_person"]

# What small letters may be taken for, and those that only look so as capitals (names are compared in small ones); digits and strokes in a name as well.
_LIKE: Final = {
    "a": "аαάɑ", "b": "вβ", "c": "сϲ", "d": "ԁ", "e": "еёεέ", "g": "ԍɡ", "h": "һнհη", "j": "јϳ", "k": "кκ", "l": "i1|ıіїιίϊℓӏɩ", "m": "мμ",
    "n": "ոή", "o": "оοόօ0", "p": "рρ", "q": "ԛ", "s": "ѕ", "t": "тτ", "u": "ս", "v": "νѵ", "w": "ԝωώ", "x": "хχ", "y": "уүγυύϋ", "z": "ζ",
}  # fmt: skip
_SMALL: Final = {ord(one): letter for letter, others in _LIKE.items() for one in others}
_OTHERWISE: Final = {
    **_SMALL,
    **{ord(one): letter for one, letter in (("υ", "u"), ("ύ", "u"), ("ϋ", "u"), ("η", "n"), ("ν", "n"), ("ρ", "p"))},
}


def same_person(one: str, other: str) -> bool:
    """Whether two names could be one person's: equal but for case, blanks, characters that are not seen, and letters that look alike."""
    return not _looks(one).isdisjoint(_looks(other))


def _looks(name: str) -> frozenset[str]:
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    seen = "".join(" " if one.isspace() else one for one in plain if one.isspace() or is_seen(one))
    folded = " ".join(seen.split())
    return frozenset((folded.translate(_SMALL), folded.translate(_OTHERWISE)))
