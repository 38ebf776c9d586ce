"""Paths, judged by their text alone: what is odd is refused, never repaired.

A permission such as `within("reports/")` and the code that opens a file must agree on what a path means. They can only if the path has
one meaning. So a path that two readers could take for different files (`reports/../secret.txt`, `reports//x`, `reports/%2e%2e/x`, a
full-width dot that some layer folds to a plain one) is no path here. Nothing is looked up: whether a link leads elsewhere is seen only
by opening beneath a folder without following links, which is `retinue.security.beneath`'s part.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final
from urllib.parse import unquote

from retinue.security.errors import GuardRefused

__all__ = ["MAX_PATH_BYTES", "MAX_SEGMENT_BYTES", "check_folder", "check_path", "is_within", "lies_within"]

MAX_PATH_BYTES: Final = 4095
"""Bytes of a path in UTF-8 (Linux's PATH_MAX, its closing NUL left out)."""

MAX_SEGMENT_BYTES: Final = 255
"""Bytes of one segment in UTF-8 (NAME_MAX of the usual file systems)."""

_MAX_FORMS: Final = 16
"""Spellings of one path that decoding may bring up before it is refused for that alone."""

_SHOWN_CHARACTERS: Final = 80

# Control, format (bidirectional overrides, zero widths), lone surrogates, line and paragraph separators. Format characters are refused
# because a person who reads the path in a question cannot see them.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

# No normalisation folds these to a slash or a backslash, but the best-fit tables of legacy code pages do, and eyes do.
_LIKE_SLASHES: Final = frozenset("\u2044\u2215\u2216\u29f5\u29f8\u29f9")

# Most paths are of this kind and short: nothing in them can be refused. (The checks in full cost ten times as much.)
_ORDINARY: Final = re.compile(r"/?[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")

_DRIVE: Final = re.compile(r"[A-Za-z]:")
_UTF16_ESCAPE: Final = re.compile(r"%[uU][0-9A-Fa-f]{4}")


def _refused(path: str, why: str) -> GuardRefused:
    shown = repr(path) if len(path) <= _SHOWN_CHARACTERS else f"{path[:_SHOWN_CHARACTERS]!r}… ({len(path)} characters)"
    return GuardRefused(f"the path {shown} is refused: {why}", what="path")


def _check_segment(whole: str, segment: str, number: int) -> None:
    if not segment:
        raise _refused(whole, f"segment {number} is empty. Write one slash between segments and none at the end.")
    if not segment.replace(".", "").strip():
        raise _refused(whole, f"segment {number} is made of nothing but dots or blanks. Name the file itself, without '.' and '..'.")
    if len(segment if segment.isascii() else segment.encode()) > MAX_SEGMENT_BYTES:
        raise _refused(whole, f"segment {number} is longer than {MAX_SEGMENT_BYTES} bytes. Use a shorter name.")


def _segments(whole: str, form: str) -> tuple[str, ...]:
    """The segments of one spelling (`form`) of the path that was given (`whole`)."""
    if not form:
        raise _refused(whole, "it is empty. Name a file.")
    if not form.isprintable() and any(unicodedata.category(character) in _HIDDEN for character in form):
        raise _refused(whole, "it has a control character, an invisible one, or half of a surrogate pair. Use visible characters.")
    if "\\" in form or not _LIKE_SLASHES.isdisjoint(form):
        raise _refused(whole, "it has a backslash, or a character that passes for a slash. Part segments by '/'.")
    if form[0].isspace() or form[-1].isspace():
        raise _refused(whole, "it begins or ends with a blank, which some readers strip. Leave it out.")
    absolute = form[0] == "/"
    segments = (form[1:] if absolute else form).split("/")
    if absolute and segments == [""]:
        return ("/",)
    for number, segment in enumerate(segments, 1):
        _check_segment(whole, segment, number)
    if absolute:
        return ("/", *segments)
    if segments[0][0] == "~":
        raise _refused(whole, "it begins with '~', which some readers take for a home folder. Write the folder out.")
    if _DRIVE.match(segments[0]):
        raise _refused(whole, "it begins with a drive letter. Write a path without one, its segments parted by '/'.")
    return tuple(segments)


def _check_spellings(path: str) -> None:
    """Refuse a path that becomes another one when a layer below decodes or normalises it, in whatever order and how often."""
    if not unicodedata.is_normalized("NFC", path):
        raise _refused(path, "it is not in Unicode's composed form (NFC). Normalise it where it is made.")
    slashes = path.count("/")
    forms = [path]
    for form in forms:  # grows while it is walked: each new spelling is decoded in its turn
        others = [unicodedata.normalize("NFKC", form)]
        if "%" in form:
            if _UTF16_ESCAPE.search(form):
                raise _refused(path, "it has a '%u' escape. Write the character itself.")
            try:
                others.append(unquote(form, errors="strict"))
            except UnicodeDecodeError:
                raise _refused(path, "it has percent-encoded bytes that are no UTF-8. Write the characters themselves.") from None
        for other in others:
            if other in forms:
                continue
            if len(forms) >= _MAX_FORMS:
                raise _refused(path, "it is encoded over and over. Write the characters themselves.")
            if other.count("/") != slashes:
                raise _refused(path, "decoded or normalised, it gains a slash. Write the characters themselves.")
            _segments(path, other)
            forms.append(other)


def check_path(path: str) -> tuple[str, ...]:
    """The segments of a path, if its text has one meaning only; an absolute path's first one is `"/"`.

    Refused, and never repaired: `.`, `..` and other segments of nothing but dots and blanks; empty segments (a trailing slash is one);
    control characters, invisible characters and lone surrogates; backslashes and what passes for a slash; a `~` or a drive letter at
    the beginning, a blank at the beginning or the end; text that is not NFC; text that is one of these once it is percent-decoded or NFKC-normalised, in any order and
    repeatedly; more than 4,095 bytes, or 255 bytes a segment. Case counts, also where the file system below does not care.

    Raises:
        GuardRefused: See above, or `path` is no plain `str`. Its `what` is "path".
    """
    if type(path) is not str:
        raise GuardRefused(f"a path is a plain str, not an object of type {type(path).__name__}. Pass its text.", what="path")
    if len(path) <= MAX_SEGMENT_BYTES and _ORDINARY.fullmatch(path):
        return ("/", *path[1:].split("/")) if path[0] == "/" else tuple(path.split("/"))
    return _checked(path)


def _checked(path: str) -> tuple[str, ...]:
    """`check_path` for a path of any kind."""
    if len(path) > MAX_PATH_BYTES:
        raise _refused(path, f"it is longer than {MAX_PATH_BYTES} bytes. Use a shorter one.")
    segments = _segments(path, path)
    if not path.isascii() and len(path.encode()) > MAX_PATH_BYTES:  # no surrogates are left that could not be encoded
        raise _refused(path, f"it is longer than {MAX_PATH_BYTES} bytes. Use a shorter one.")
    if not path.isascii() or "%" in path:
        _check_spellings(path)
    return segments


def check_folder(folder: str) -> tuple[str, ...]:
    """`check_path` for a folder: one trailing slash is allowed, and means nothing.

    Raises:
        GuardRefused: As for `check_path`.
    """
    if type(folder) is str and folder[-1:] == "/" and folder.strip("/"):
        return check_path(folder[:-1])
    return check_path(folder)


def lies_within(segments: tuple[str, ...], folder: tuple[str, ...]) -> bool:
    """`is_within` for what `check_path` and `check_folder` returned."""
    return len(segments) > len(folder) and segments[: len(folder)] == folder


def is_within(path: str, folder: str) -> bool:
    """Whether the path names something beneath the folder; a path that `check_path` refuses does not.

    Whole segments are compared: `/srv/ab` is not within `/srv/a`. The folder is not within itself, as `fs.**` does not name `fs`. An
    absolute path is never within a relative folder, nor a relative path within an absolute one.

    Raises:
        GuardRefused: The folder is malformed.
    """
    parts = check_folder(folder)
    try:
        return lies_within(check_path(path), parts)
    except GuardRefused:
        return False
