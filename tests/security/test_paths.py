import sys
import unicodedata
from pathlib import PurePosixPath
from urllib.parse import unquote

import pytest
from hypothesis import assume, example, find, given, settings
from hypothesis import strategies as st

from constraint_strategies import odd_objects, paths, unhurried
from laws import examples
from retinue.security import paths as guard
from retinue.security.errors import GuardRefused
from retinue.security.paths import MAX_PATH_BYTES, MAX_SEGMENT_BYTES, check_folder, check_path, is_within


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("reports", ("reports",)),
        ("reports/q3.txt", ("reports", "q3.txt")),
        ("/", ("/",)),
        ("/srv/a/b.txt", ("/", "srv", "a", "b.txt")),
        (".hidden", (".hidden",)),
        ("..hidden/x", ("..hidden", "x")),
        ("a..b/c.", ("a..b", "c.")),
        ("file~", ("file~",)),
        ("a/~b", ("a", "~b")),
        ("a b/c d.txt", ("a b", "c d.txt")),
        ("12:30/x", ("12:30", "x")),
        ("grün/straße/日本語.txt", ("grün", "straße", "日本語.txt")),
        ("レポート１/x", ("レポート１", "x")),  # a full-width digit folds to a plain one, and to nothing worse
        ("100%", ("100%",)),
        ("100%25", ("100%25",)),
        ("a%20b", ("a%20b",)),
        ("[ab]*?/{x}", ("[ab]*?", "{x}")),  # nothing here is a wildcard
        ("$HOME/x", ("$HOME", "x")),
    ],
)
def test_a_path_with_one_meaning_is_taken_apart_as_it_is(path, segments):
    assert check_path(path) == segments


REFUSED_ANYWHERE = [
    # dots
    ".", "..", "./a", "a/.", "a/..", "a/../b", "reports/../secret.txt", "../a", "/..", "/../etc", "/srv/a/../../etc/passwd", "a/./b",
    "...", "a/.../b", "....", ". .", ".. ", " ..", "a/.. /b", "a/ ../b", "a/. ./b", "a/ /b", "\u00a0/x", "\u1680..", "a/\u3000/b", "a/..\u00a0/b",
    # empty segments and slashes
    "", "//", "//etc", "a//b", "a/", "a/b/", "/a/", "///", "a///b", "//server/share",
    # blanks that readers strip
    "a ", "a/b\u3000", "a\u2003",
    # control and invisible characters
    "a\x00b", "a\x00", "a\nb", "a\tb", "a\rb", "a\x1b[0m", "a\x7f", "a\x85b", "a\u2028b", "a\u2029b", "a\u200bb", "a\u202etxt.exe", "a\ufeffb", "a\u2066b",
    ".\u200d./a", "a\u00adb", "a\U000e0041b",
    # backslashes, and what passes for a slash
    "a\\b", "..\\a", "a\\..\\b", "\\\\server\\share", "a\u2215b", "a\u2044b", "a\u29f8b", "a\u2216b", "a\u29f9b", "a\u29f5b",
    # percent-encodings
    "a/%2e%2e/b", "%2e%2e/a", "a/%2E%2E/b", "a/.%2e/b", "a/%2e/b", "%2e", "a%2fb", "a%2Fb", "a%5cb", "a%5Cb", "a%00b", "a/%252e%252e/b",
    "a%252fb", "a%255cb", "a%2500b", "a/%25252e%25252e/b", "%%32%65%%32%65/a", "a%%32fb", "a/%%32e%%32e/b", "a%0ab", "a/%20/b", "a%20",
    "a/..%20/b", "a%c0%afb", "%c0%ae%c0%ae/a", "a%e0%80%afb", "a%ffb", "a%u002fb", "a%U005cb", "%u002e%u002e/a", "a%e2%80%aeb", "a%ed%b0%80b",
    "%ef%bc%8e%ef%bc%8e/a", "a%ef%bc%8fb", f"%{'25' * 20}2e",
    # normalisation
    "\uff0e\uff0e/a", "\uff0e./a", "a/\u2024\u2024/b", "\u2025/a", "a/\u2025", "\u2026/a", "\u2024/a", "a\uff0fb", "a\uff3cb", "a\ufe68b", "a\u2100b", "a\u2105b",
    "\ufe52\ufe52/a", "a/\ufe52./b", "\uff05\uff12\uff45/a", "\uff052e\uff052e/a", "a\uff052fb", "a\u2024\u2024/\u2024\u2024",
    "e\u0301/x", "a\u0308", "\u212b/x",
    # half surrogates
    "a\ud800", "\udc80/x", "a/\udcff",
]  # fmt: skip

REFUSED_AT_THE_BEGINNING = [
    # blanks that readers strip
    " a", " /etc", "\u1680/etc", "\u2003~/x", "\u3000a", "%20a",
    # homes and drives
    "~", "~root", "~/x", "~root/x", "\uff5e/x", "%7e/x", "%7Eroot", "C:", "C:x", "c:/x", "\uff23:/x", "z:..", "%43:/x",
]  # fmt: skip


@pytest.mark.parametrize("path", REFUSED_ANYWHERE + REFUSED_AT_THE_BEGINNING, ids=ascii)
def test_a_path_that_could_be_read_in_two_ways_is_refused(path):
    with pytest.raises(GuardRefused, match="is refused") as caught:
        check_path(path)
    assert caught.value.what == "path"
    assert not is_within(path, "a")
    assert not is_within(path, "/")


@pytest.mark.parametrize("path", REFUSED_ANYWHERE, ids=ascii)
@pytest.mark.parametrize("folder", ["reports", "/srv/a"])
def test_it_is_refused_beneath_a_good_folder_too(folder, path):
    with pytest.raises(GuardRefused):
        check_path(f"{folder}/{path}")
    assert not is_within(f"{folder}/{path}", folder)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a//b", "segment 2 is empty"),
        ("a/b/", "segment 3 is empty"),
        ("a/../b", "segment 2 is made of nothing but dots"),
        ("~/x", "begins with '~'"),
        ("C:/x", "begins with a drive letter"),
        ("a\\b", "Part segments by '/'"),
        ("a/%2e%2e/b", "segment 2 is made of nothing but dots"),
        ("a%2fb", "decoded or normalised, it gains a slash"),
        ("a\uff0fb", "decoded or normalised, it gains a slash"),
        ("e\u0301", "not in Unicode's composed form"),
        ("a%ff", "are no UTF-8"),
        ("a%u002f", "has a '%u' escape"),
        ("a\x00", "has a control character"),
        (f"%{'25' * 30}41", "encoded over and over"),
    ],
)
def test_a_refusal_says_why(path, why):
    with pytest.raises(GuardRefused) as caught:
        check_path(path)
    assert why in str(caught.value)


def test_a_path_has_a_largest_size_in_bytes_of_utf8():
    assert check_path("x" * MAX_SEGMENT_BYTES)
    assert check_path("é" * (MAX_SEGMENT_BYTES // 2))
    longest = "/".join(["x" * MAX_SEGMENT_BYTES] * 15 + ["x" * 255])
    assert len(longest) == MAX_PATH_BYTES
    assert check_path(longest)
    for path in ["x" * (MAX_SEGMENT_BYTES + 1), "é" * 128, longest + "x", f"{longest[:-1]}/x", "x/" * 10**6, "é/" * 2000 + "x"]:
        with pytest.raises(GuardRefused, match="longer than"):
            check_path(path)


def test_an_error_text_is_short_and_escaped_whatever_was_given():
    with pytest.raises(GuardRefused) as caught:
        check_path("evil\x1b[31m/\u202e" * 200)
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


class Liar(str):
    __slots__ = ()

    def split(self, *_):
        return ["reports", "x"]


@pytest.mark.parametrize("path", [None, 3, b"reports/x", PurePosixPath("reports/x"), ["reports", "x"], Liar("../x"), object()])
def test_what_is_no_plain_string_is_refused(path):
    with pytest.raises(GuardRefused, match="a path is a plain str"):
        check_path(path)
    assert not is_within(path, "reports")


@given(odd_objects)
@unhurried
def test_no_object_whatsoever_makes_a_path_check_fail_in_another_way(thing):
    with pytest.raises(GuardRefused):
        check_path(thing)


def test_a_folder_may_close_with_one_slash():
    assert check_folder("reports/") == check_folder("reports") == ("reports",)
    assert check_folder("/srv/a/") == ("/", "srv", "a")
    assert check_folder("/") == ("/",)
    for folder in ["reports//", "//", "", "/srv//a/", "./", "../", "reports/../", "~/", None, b"reports/"]:
        with pytest.raises(GuardRefused):
            check_folder(folder)


# The absolute table: laws are blind to a check that is weaker everywhere at once.
@pytest.mark.parametrize(
    ("folder", "inside", "outside"),
    [
        ("reports/", ["reports/q3.txt", "reports/a/b/c", "reports/..x", "reports/reports"],
         ["reports", "reports/", "reports2/x", "report/x", "x", "x/reports/y", "/reports/q3.txt", "Reports/x", "reports/../secret.txt", "reports /x", "./reports/x"]),
        ("/srv/a", ["/srv/a/b", "/srv/a/b/c.txt", "/srv/a/a"], ["/srv/a", "/srv/a/", "/srv/ab", "/srv/ab/c", "/srv/a2/c", "/srv", "/", "/srv/b/a/x", "srv/a/b", "/SRV/a/b", "//srv/a/b", "/srv/a/../b", "/srv//a/b"]),
        ("a/b", ["a/b/c"], ["a/b", "a/c", "a/bc/d", "b/c", "a", "a/b.c/d", "/a/b/c"]),
        ("/", ["/x", "/etc/passwd"], ["/", "x", "", "//", "//x"]),
        ("grün", ["grün/x"], ["grun/x", "gru\u0308n/x", "GRÜN/x", "grün"]),
        ("straße", ["straße/x"], ["strasse/x", "STRASSE/x"]),
        ("a*", ["a*/x"], ["ab/x", "a/x"]),
        ("[ab]", ["[ab]/x"], ["a/x", "b/x"]),
    ],
)  # fmt: skip
def test_a_folder_holds_exactly_these(folder, inside, outside):
    assert [path for path in inside if not is_within(path, folder)] == []
    assert [path for path in outside if is_within(path, folder)] == []


def test_a_malformed_folder_is_an_error_and_not_an_answer():
    with pytest.raises(GuardRefused):
        is_within("reports/x", "reports/..")


def unslashed(text):
    return text.replace("\\", "/")


def unquoted(text):
    return unquote(text, errors="replace")


def folded(text):
    return unicodedata.normalize("NFKC", text)


REWRITES = [unquoted, unslashed, folded, lambda text: unicodedata.normalize("NFD", text)]


def resolved(path):
    """Where a path leads if dots and empty segments are followed: the segments beneath its root, or None where it climbs above it."""
    stack = []
    for segment in path.split("/"):
        if segment == "..":
            if not stack:
                return None
            stack.pop()
        elif segment not in ("", "."):
            stack.append(segment)
    return stack


@given(st.sampled_from(["reports", "/srv/a", "a/b", "/"]), paths(), st.lists(st.sampled_from(REWRITES), max_size=5))
@example("reports", "reports/\uff0e\uff0e/x", [folded])
@example("reports", "reports/%252e%252e/x", [unquoted, unquoted])
@example("reports", "reports/\uff052e\uff052e/x", [folded, unquoted])
@example("reports", "reports/%ef%bc%8e%2e/x", [unquoted, folded])
@settings(unhurried, max_examples=examples(500))
def test_a_path_within_a_folder_stays_there_however_it_is_decoded_and_followed(folder, rest, rewrites):
    path = f"{folder.rstrip('/')}/{rest}"
    assume(is_within(path, folder))
    want = resolved(folder)
    for rewrite in rewrites:
        path = rewrite(path)
        where = resolved(path)
        assert where is not None
        assert where[: len(want)] == want
        assert len(where) > len(want)
        assert path.startswith("/") == folder.startswith("/")


def test_the_paths_of_the_law_are_permitted_often_enough_for_it_to_mean_something():
    seen = []

    @given(paths())
    @settings(unhurried, max_examples=400, database=None, derandomize=True)
    def draw(rest):
        seen.append(is_within(f"reports/{rest}", "reports"))

    draw()
    assert 0.15 < sum(seen) / len(seen) < 0.95


@given(paths())
@settings(unhurried, max_examples=examples(400))
def test_the_short_way_for_usual_paths_says_what_the_checks_in_full_say(path):
    try:
        full = guard._checked(path)
    except GuardRefused:
        full = None
    try:
        short = check_path(path)
    except GuardRefused:
        short = None
    assert short == full


@given(st.text(max_size=30))
@settings(unhurried, max_examples=examples(400))
def test_any_text_is_a_path_or_refused_and_a_path_is_its_segments_again(text):
    try:
        segments = check_path(text)
    except GuardRefused:
        return
    assert "/".join(segments).replace("//", "/", 1) == text


def test_some_text_is_found_that_only_folding_makes_dangerous():
    """The closing check of spellings has something to do: without it these would pass."""
    text = find(st.text(alphabet="a/\uff0e\u2025%2e", max_size=8), lambda text: _passes_plain_checks(text) and not _passes(text))
    assert text


def _passes(path):
    try:
        check_path(path)
    except GuardRefused:
        return False
    return True


def _passes_plain_checks(path):
    try:
        guard._segments(path, path)
    except GuardRefused:
        return False
    return True


def test_every_character_that_folds_to_a_dot_or_a_slash_is_refused_where_it_matters():
    for number in range(0x80, sys.maxunicode + 1):
        character = chr(number)
        fold = folded(character)
        if "/" in fold or "\\" in fold:
            assert not _passes(f"a{character}b")
        if fold and not fold.strip(". "):
            assert not _passes(f"a/{character}/b")
            assert not _passes(f"a/{character}./b")
