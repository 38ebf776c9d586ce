"""Commands: lists of plain strings, of which the first is a listed program."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.security.argv import MAX_ARGUMENT_BYTES, MAX_ARGUMENTS, check_argv
from retinue.security.errors import GuardRefused

PROGRAMS = {"git": Path("/usr/bin/git"), "cd": "/usr/bin/cd", "ls": PurePosixPath("/bin/ls")}


class Text(str):
    __slots__ = ()


class Items(list):
    pass


class Pair(tuple):
    __slots__ = ()


def refusal(argv, programs=PROGRAMS, **limits):
    with pytest.raises(GuardRefused) as caught:
        check_argv(argv, programs, **limits)
    assert caught.value.what == "argv"
    return str(caught.value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_listed_program_is_started_by_its_absolute_path_and_its_arguments_stay_as_they_are(name):
    arguments = ["", " ", "&& rm -rf /", "$(id)", "*", "ü\n", "--", "-x", "a\tb"]
    assert check_argv([name, *arguments], PROGRAMS) == (str(PROGRAMS[name]), *arguments)
    assert check_argv((name,), PROGRAMS) == (str(PROGRAMS[name]),)


@pytest.mark.parametrize(
    "command",
    ["ls", "cd x && anything", "", b"ls", bytearray(b"ls"), None, {"ls": 1}, {"ls"}, iter(["ls"]), Items(["ls"]), Pair(["ls"]), 7],
)
def test_anything_but_a_list_or_a_tuple_is_refused(command):
    assert ("not one string" if isinstance(command, str | bytes) else "not an object of type") in refusal(command)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "LS",
        "ls ",
        " ls",
        "ls\n",
        "/bin/ls",
        "./ls",
        "../bin/ls",
        "bin/ls",
        "rm",
        "sh",
        "bash",
        "env",
        "xargs",
        "sudo",
        "nice",
        "timeout",
        "python3",
        "l*",
        "ls;id",
        "ｌｓ",
    ],
)
def test_a_program_that_is_not_listed_is_refused_wrappers_and_shells_like_any_other(name):
    assert "not one of those that may be started: cd, git, ls" in refusal([name, "-c", "ls"])


def test_an_allowed_first_word_allows_nothing_behind_it():
    """anthropics/claude-code #28784: `cd:*` also permitted `cd x && anything`."""
    refusal("cd x && anything")
    refusal(["cd x && anything"])
    assert check_argv(["cd", "x && anything"], PROGRAMS) == ("/usr/bin/cd", "x && anything")  # a folder of that name; nothing runs it


@pytest.mark.parametrize("programs", ["ls", ["ls"], {"ls"}, 5, True, object()])
def test_a_list_of_programs_that_is_none_starts_nothing(programs):
    with pytest.raises(GuardRefused, match=r"a dict of names .* Give \{'git': '/usr/bin/git'\}"):
        check_argv(["ls"], programs)


@pytest.mark.parametrize("most", [None, "5", 5.0, True, Decimal("NaN")])
@pytest.mark.parametrize("name", ["max_arguments", "max_bytes"])
def test_a_bound_that_is_no_whole_number_starts_nothing(name, most):
    with pytest.raises(GuardRefused, match="whole numbers"):
        check_argv(["ls"], PROGRAMS, **{name: most})


@pytest.mark.parametrize("argument", [1, True, None, b"x", 1.5, ["x"], Text("x"), Path("x")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_argument_is_a_plain_str(argument, place):
    argv = ["ls", "a", "b"]
    argv[place] = argument
    assert type(argument).__name__ in refusal(argv)


@pytest.mark.parametrize(("argument", "word"), [("a\0b", "NUL"), ("\0", "NUL"), ("\ud800", "surrogate"), ("a\udcffb", "surrogate")])
def test_what_the_program_would_see_otherwise_is_refused_and_not_repeated(argument, word):
    text = refusal(["ls", "top secret", argument])
    assert word in text
    assert "argument 2" in text
    assert "top secret" not in text


def test_the_limits_are_what_they_say():
    assert len(check_argv(["ls", *["x"] * (MAX_ARGUMENTS - 1)], PROGRAMS)) == MAX_ARGUMENTS
    assert "1,001 arguments" in refusal(["ls", *["x"] * MAX_ARGUMENTS])
    room = MAX_ARGUMENT_BYTES - len("ls") - 2
    assert check_argv(["ls", "x" * room], PROGRAMS)
    assert "100,001 bytes" in refusal(["ls", "x" * (room + 1)])
    assert "100,001 bytes" in refusal(["ls", "ü" * (room // 2) + "x" * (room % 2 + 1)])
    refusal(["ls", "a", "b"], max_arguments=2)
    refusal(["ls", "abc"], max_bytes=6)
    assert check_argv(["ls", "abc"], PROGRAMS, max_arguments=2, max_bytes=7)


def test_an_empty_list_of_programs_or_of_arguments_permits_nothing():
    assert "the list of programs is empty" in refusal(["ls"], {})
    assert "empty" in refusal([])
    assert "empty" in refusal(())


@pytest.mark.parametrize("path", ["ls", "./ls", "../bin/ls", "/usr/../bin/ls", "/bin//ls", "/bin/ls/", "//bin/ls", "/bin/\0ls", "", "~/ls"])
def test_a_list_of_programs_that_can_be_read_in_two_ways_is_refused(path):
    assert "the list of programs is wrong" in refusal(["ls"], {"ls": path})


@pytest.mark.parametrize("name", ["", "bin/ls", "/bin/ls"])
def test_a_programs_name_has_no_folder(name):
    assert "wrong" in refusal([name], {name: "/bin/ls"})


def test_what_was_checked_is_what_is_returned_whatever_becomes_of_the_list():
    argv = ["ls", "a"]
    checked = check_argv(argv, PROGRAMS)
    argv[0] = "rm"
    assert checked == ("/bin/ls", "a")


def test_what_is_returned_runs_without_a_shell():
    argv = check_argv(["python", "-c", "import sys; print(sys.argv[1:])", "a b", "$HOME", "; id"], {"python": Path(sys.executable)})
    done = subprocess.run(argv, shell=False, env={}, capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.stdout.strip() == "['a b', '$HOME', '; id']"


@given(st.one_of(st.text(), st.lists(st.one_of(st.text(), st.sampled_from(["ls", "git"]), st.integers(), st.binary()), max_size=4)))
def test_whatever_comes_it_is_a_listed_program_with_these_very_arguments_or_refused(argv):
    try:
        checked = check_argv(argv, PROGRAMS)
    except GuardRefused:
        return
    assert type(argv) is list
    assert argv[0] in PROGRAMS
    assert checked == (str(PROGRAMS[argv[0]]), *argv[1:])
