"""The page about testing says what the kit does: names and defaults are compared with it."""

from __future__ import annotations

import inspect
import re

import pytest

from housekeeping import ROOT
from retinue import testing
from retinue.actors.hosts.thread import JOIN_TIMEOUT
from retinue.actors.testing import clock, plugin, probe

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
PAGES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("testing*.md")))


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_of_the_kit_is_on_its_pages(name):
    assert re.search(rf"\b{name}\b", PAGES)


def default(function: object, name: str) -> object:
    return inspect.signature(function).parameters[name].default


def test_the_defaults_of_the_clock_are_as_written():
    assert [default(testing.VirtualClock, name) for name in ("rate", "autojump", "threshold", "hang_after")] == [0, True, 0, 30]
    assert clock.HANG_AFTER == 30 and JOIN_TIMEOUT == 2
    for row in ("| `rate` | 0 |", "| `autojump` | True |", "| `threshold` | 0 s |", "| `hang_after` | 30 s |"):
        assert row in PAGE
    assert "A thread whose actor is to end has 2 s" in PAGE


def test_the_defaults_of_the_probe_are_as_written():
    assert default(testing.Probe.expect, "timeout") == default(testing.Probe.fish, "timeout") == probe.EXPECT_TIMEOUT == 3
    assert default(testing.Probe.expect_nothing, "within") == 0.1
    assert re.search(r"probe.expect\(what\)`.*\| 3 s \|", PAGE) and re.search(r"probe.fish\(what\)`.*\| 3 s \|", PAGE)
    assert re.search(r"probe.expect_nothing\(\)`.*\| 0.1 s \|", PAGE)
    assert f"at most {probe.MOST_KEPT:,}" in PAGE


def test_the_defaults_of_waiting_for_idle_are_as_written():
    assert (default(testing.wait_idle, "timers"), default(testing.wait_idle, "timeout")) == (False, 30)
    assert "wait_idle(system, timers=False, timeout=30)" in PAGE


def test_the_options_of_the_command_line_and_the_fixtures_are_on_the_page():
    source = inspect.getsource(plugin)
    assert set(re.findall(r'"(--retinue-[a-z]+)"', source)) == set(re.findall(r"--retinue-[a-z]+", PAGE))
    for fixture in ("actor_system", "virtual_clock"):
        assert hasattr(plugin, fixture) and f"**`{fixture}`**" in PAGE
