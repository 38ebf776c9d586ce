"""The page about patterns says what the code does."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import retinue as rt
from housekeeping import ROOT
from retinue.actors.agents.react import MAX_TURNS
from retinue.actors.agents.teams import fallback, group_chat, map_reduce, parallel, termination, transcript

PAGE = (ROOT / "docs" / "patterns.md").read_text(encoding="utf-8")


def test_every_condition_is_in_the_table() -> None:
    kinds = [name for name in termination.__all__ if isinstance(getattr(termination, name), type) and name not in ("Talk", "Termination")]
    assert len(kinds) == 9 and [name for name in kinds if f"rt.{name}(" not in PAGE] == []


@pytest.mark.parametrize(
    "cls",
    [rt.RoundRobin, rt.Selector, rt.Parallel, rt.Debate, rt.MapReduce, rt.Supervisor, rt.Fallback, rt.ReAct],
    ids=lambda cls: cls.__name__,
)
def test_each_options_of_a_pattern_is_named_where_it_is_told_of(cls: Any) -> None:
    told = re.search(rf"^`rt\.{cls.__name__}\((.+?)\)`", PAGE, re.MULTILINE)
    assert told is not None
    names = [name for name in inspect.signature(cls.__init__).parameters if name not in ("self", "options", "limits")]
    assert [name for name in names if not re.search(rf"\b{name}\b", told[1])] == []


def test_the_defaults_are_those_of_the_code() -> None:
    assert f"max_turns={group_chat.MAX_TURNS})" in PAGE and f"max_turns={MAX_TURNS}, template=" in PAGE
    assert f"at_once={parallel.AT_ONCE}, failures" in PAGE and f"max_pieces={map_reduce.MAX_PIECES})" in PAGE
    assert (
        f"retries={fallback.RETRIES}, worker_seconds={fallback.SECONDS:g})" in PAGE
        and f"retries={fallback.RETRIES}, seconds={fallback.SECONDS:g})" in PAGE
    )
    assert f"the last {transcript.LINES} lines" in PAGE
