"""Commands as lists of arguments, with a closed list of programs: no shell, no search, no guessing.

A command line in one string has to be parsed, and whoever checks it parses it differently from the shell that runs it (`cd x && anything`
begins with an allowed `cd`). A list has one meaning. A list can still start another program (`env rm`, `xargs rm`, `python -c …`,
`find -exec …`), and no table of such wrappers is ever complete; so a program is startable because it is listed, and for nothing else.
Whoever lists `bash` or `env` has permitted everything that these can start.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final, NoReturn

from retinue.security.errors import GuardRefused

__all__ = ["MAX_ARGUMENTS", "MAX_ARGUMENT_BYTES", "check_argv"]

MAX_ARGUMENTS: Final = 1_000
"""The most arguments of a command, the program's name included."""

MAX_ARGUMENT_BYTES: Final = 100_000
"""The most bytes (UTF-8) of all arguments together; Linux takes 131,072 for one and refuses more with an error that names nothing."""

_SHOWN_CHARACTERS: Final = 60


def check_argv(
    argv: list[str] | tuple[str, ...],
    programs: Mapping[str, str | PurePath],
    *,
    max_arguments: int = MAX_ARGUMENTS,
    max_bytes: int = MAX_ARGUMENT_BYTES,
) -> tuple[str, ...]:
    """The arguments to start a program with, if it is one of the listed programs.

    Run what is returned without a shell, and with an environment and a folder of your choice, since `PATH`, `LD_PRELOAD` and the like
    steer programs too: `subprocess.run(check_argv(…), shell=False, env={…}, cwd=…, stdin=subprocess.DEVNULL, timeout=…)`, or
    `trio.run_process`. An option is an argument like any other: where some are dangerous (`git --upload-pack=…`), check the arguments
    as well, or put `"--"` before those that come from others.

    Args:
        argv: The program's name and its arguments: a list or a tuple of `str`.
        programs: Every program that may be started: its name → the absolute path of its file. The name is compared exactly; nothing is
            looked for in `PATH`.
        max_arguments: The most arguments, the name included; default 1,000.
        max_bytes: The most bytes of all arguments in UTF-8, with one more for each as its end; default 100,000.

    Returns:
        The program's absolute path, then the arguments, unchanged.

    Raises:
        GuardRefused: Anything else: a string instead of a list, a program that is not listed, an argument that is no plain `str`, has a
            NUL or no UTF-8 form, too many or too long ones, or a list of programs that cannot be used. Its `what` is "argv"; its text
            shows the program's name and never an argument.
    """
    kind: type[object] = type(argv)
    if kind is str or kind is bytes:
        _refuse("a command is a list of arguments, not one string that a shell would take apart. Give ['git', 'status'].")
    if kind is not list and kind is not tuple:
        _refuse(f"a command is a list or a tuple of arguments, not an object of type {kind.__name__}.")
    if not isinstance(programs, Mapping):
        _refuse(
            f"the programs that may be started are a dict of names and absolute paths, not an object of type {type(programs).__name__}. "
            "Give {'git': '/usr/bin/git'} for example."
        )
    if type(max_arguments) is not int or type(max_bytes) is not int:
        _refuse("max_arguments= and max_bytes= are whole numbers.")
    arguments = tuple(argv)  # another thread may change a list between the check and the start
    if not arguments:
        _refuse("the command is empty. Give a program's name and its arguments.")
    if len(arguments) > max_arguments:
        _refuse(
            f"the command has {len(arguments):,} arguments, more than {max_arguments:,}. Pass long lists in a file or on standard input."
        )
    size = sum(_bytes_of(argument, number) + 1 for number, argument in enumerate(arguments))
    if size > max_bytes:
        _refuse(f"the command has {size:,} bytes, more than {max_bytes:,}. Pass long data in a file or on standard input.")
    return (_path_of(arguments[0], programs), *arguments[1:])


def _bytes_of(argument: object, number: int) -> int:
    place = f"argument {number}" if number else "the program's name"
    if type(argument) is not str:
        _refuse(f"{place} is an object of type {type(argument).__name__}. Every argument is a plain str; convert it where it is made.")
    if "\0" in argument:
        _refuse(f"{place} has a NUL character, at which the program would see its end. Leave it out.")
    try:
        return len(argument.encode())
    except UnicodeEncodeError:
        _refuse(f"{place} has half of a surrogate pair, so it is no UTF-8. Leave it out.")


def _path_of(name: str, programs: Mapping[str, str | PurePath]) -> str:
    if not programs:
        _refuse("no program may be started: the list of programs is empty.")
    path = programs.get(name)
    if path is None:
        listed = ", ".join(sorted(map(str, programs)))
        shown = name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}…"
        _refuse(f"the program {shown!r} is not one of those that may be started: {listed}. Names are exact, without a folder.")
    text = str(path)
    if not name or "/" in name or text[:1] != "/" or text[:2] == "//" or "\0" in text or posixpath.normpath(text) != text:
        _refuse(
            f"the list of programs is wrong at {name!r}: it maps names without '/' to absolute paths without '.', '..' and double slashes."
        )
    return text


def _refuse(why: str) -> NoReturn:
    raise GuardRefused(why, what="argv")
