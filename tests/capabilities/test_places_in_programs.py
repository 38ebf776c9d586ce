"""Where something was raised, for logs: how loud it is told, and which lines are shown."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import retinue as rt
from retinue.capabilities.places import level_of, raised_through


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (KeyError("k"), logging.WARNING),
        (SystemExit(1), logging.WARNING),
        (rt.BadInput("no"), logging.INFO),
        (ExceptionGroup("two", [rt.BadInput("no"), rt.BadInput("nor this")]), logging.INFO),
        (ExceptionGroup("two", [rt.BadInput("no"), KeyError("k")]), logging.WARNING),
    ],
    ids=repr,
)
def test_what_an_authors_code_raises_is_told_louder_than_errors_that_say_themselves_what_happened(error: BaseException, level: int) -> None:
    assert level_of(error) == level


def as_module(name: str, function: str) -> Callable[..., Any]:
    """A function of a module of that name."""
    space: dict[str, Any] = {"__name__": name}
    exec(compile(function, f"{name}.py", "exec"), space)
    found: Callable[..., Any] = space["call"]
    return found


HANDS_ON = "def call(first, *others):\n    return first(*others)\n"
RAISES = "def call():\n    raise KeyError('k')\n"


def lines_of(*calls: Callable[..., Any]) -> str:
    try:
        calls[0](*calls[1:])
    except KeyError as error:
        return raised_through(error.with_traceback(error.__traceback__.tb_next if error.__traceback__ else None))
    raise AssertionError


def test_lines_of_the_framework_that_only_led_to_an_authors_are_left_out() -> None:
    ours, carries, theirs = as_module("retinue.a", HANDS_ON), as_module("trio._core", HANDS_ON), as_module("shop", HANDS_ON)
    bug = as_module("shop.bug", RAISES)
    assert [line.split('"')[1] for line in lines_of(ours, theirs, carries, ours, bug).splitlines() if '"' in line] == [
        "shop.py",
        "shop.bug.py",
    ]


def test_lines_of_the_framework_that_an_author_called_are_shown() -> None:
    ours, theirs, raises = as_module("retinue.a", HANDS_ON), as_module("retinues", HANDS_ON), as_module("retinue.b", RAISES)
    shown = [line.split('"')[1] for line in lines_of(ours, theirs, ours, raises).splitlines() if '"' in line]
    assert shown == ["retinues.py", "retinue.a.py", "retinue.b.py"]
    assert "retinue.b.py" in lines_of(ours, raises), "where there is no other, all are"
