"""The pages say what the code does, for timers, topics, pools, virtual actors, adopted actors and the kit: defaults and bounds are compared with it."""

from __future__ import annotations

import inspect
import re
from typing import Any

import attrs
import pytest

import retinue as rt
import retinue.testing as rtt
from housekeeping import ROOT
from retinue import _twin_listening
from retinue.actors.hosts import adopted
from retinue.actors.runtime import (
    derivation,
    fronts,
    pools,
    portal,
    receptionist,
    supervision,
    timers,
    topic_keys,
    topics,
    virtual,
    virtual_keys,
)
from retinue.actors.runtime.receptionist_faces import ActorReceptionist, SystemReceptionist
from retinue.actors.runtime.topic_faces import ActorTopics, SystemTopics
from retinue.actors.testing import clock, probe
from retinue.mailbox import letters, queues

DOCS = ROOT / "docs"


def default_of(function: Any, name: str) -> Any:
    return inspect.signature(function).parameters[name].default


def numbers(text: str) -> list[float]:
    """The numbers that a cell names; a dash is none."""
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def cells(page: str, first: str) -> list[str]:
    """The row of a page's tables whose first cell begins so."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {first}")]
    return [cell.strip() for cell in row.strip("|").split(" | ")]


TIMES = {
    "a report on a publication": [topics.REPORT_TIMEOUT],
    "a [virtual actor](virtual-actors.md) that nobody uses": [virtual.IDLE_TIME],
    "a pool's worker that takes": [fronts.FIRST_DELAY, fronts.LONGEST_DELAY, 100 * supervision.JITTER],
    "a pool whose start failed": [pools.UNDO_TIMEOUT],
    "the interval of a [timer](timers.md)": [timers.MIN_INTERVAL],
    "an adopted pykka actor's end": [adopted.POLL],
    "an adopted pykka actor that is stopped": [adopted.STOP_TIMEOUT],
    "`probe.expect` and": [probe.EXPECT_TIMEOUT],
    "`probe.expect_nothing`": [default_of(rtt.Probe.expect_nothing, "within")],
    "`wait_idle`": [default_of(rtt.wait_idle, "timeout")],
    "a thread that a `VirtualClock`": [clock.HANG_AFTER],
}


@pytest.mark.parametrize("limit", TIMES)
def test_the_map_of_timeouts_has_the_limits_of_the_code(limit: str) -> None:
    assert numbers(cells("timeouts.md", limit)[1]) == TIMES[limit]


BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "messages in a mailbox": (queues.DEFAULT_CAPACITY, None),
    "messages of a [topic]": (topic_keys.DEFAULT_CAPACITY, topic_keys.MOST_CAPACITY),
    "subscriptions, services": (None, topics.MOST_TOPICS),
    "[timers](timers.md) of one": (None, timers.MAX_TIMERS),
    "ticks of one timer": (None, 1),
    "workers of a [pool]": (pools.SIZE, pools.MAX_WORKERS),
    "messages for a group": (queues.DEFAULT_CAPACITY, None),
    "instances of a region": (virtual.CAPACITY, virtual.MAX_CAPACITY),
    "characters of a virtual": (None, virtual_keys.MAX_KEY),
    "levels of actors": (None, derivation.MAX_LEVELS),
    "messages of a stand-in": (None, 1),
    "messages on their way": (None, portal.PORTAL_CAPACITY),
    "items that a [twin]": (None, _twin_listening.BATCH),
    "dead letters that": (default_of(letters.DeadLetters, "keep"), None),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_map_of_bounds_has_those_of_the_code(bound: str) -> None:
    row = cells("mailboxes.md", bound)
    assert [numbers(cell) for cell in row[1:3]] == [[] if number is None else [number] for number in BOUNDS[bound]]


def test_one_bound_counts_subscriptions_and_services_together() -> None:
    assert topics.MOST_TOPICS == receptionist.MOST_SERVICES


def test_the_signatures_have_the_defaults_that_the_pages_name() -> None:
    assert default_of(rt.ActorSystem.spawn_virtual, "idle") == virtual.IDLE_TIME
    assert default_of(rt.ActorSystem.spawn_virtual, "capacity") == virtual.CAPACITY
    assert numbers(cells("virtual-actors.md", "`idle`")[2])[0] == virtual.IDLE_TIME
    assert numbers(cells("virtual-actors.md", "`capacity`")[2]) == [virtual.CAPACITY]
    for kind in ("round_robin", "least_loaded", "broadcast", "work_pulling"):
        assert default_of(getattr(rt.Pool, kind), "size") == pools.SIZE
    assert default_of(rt.Pool.work_pulling, "retries") == 0


@pytest.mark.parametrize(
    "example", sorted([*(ROOT / "examples").glob("*.py"), *(ROOT / "examples").glob("*.sh")]), ids=lambda path: path.name
)
def test_every_example_is_listed_and_tested(example: Any) -> None:
    assert f"`{example.name}`" in (DOCS / "index.md").read_text(encoding="utf-8")
    assert f"(examples/{example.name})" in (ROOT / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in (ROOT / "tests" / "examples").glob("test_*.py")}
    assert f"test_{example.stem}.py" in names or f"test_{example.stem}_example.py" in names


@pytest.mark.parametrize(
    ("page", "thing"),
    [
        ("timers.md", rt.Timers),
        ("topics.md", ActorTopics),
        ("topics.md", SystemTopics),
        ("topics.md", rt.DeliveryReport),
        ("topics.md", rt.Published),
        ("topics.md", rt.Lagged),
        ("observability.md", topics.TopicStatistics),
        ("receptionist.md", ActorReceptionist),
        ("receptionist.md", SystemReceptionist),
        ("virtual-actors.md", rt.Virtual),
        ("pools.md", rt.Pool),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__qualname__,
)
def test_every_part_of_it_is_on_its_page(page: str, thing: Any) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    parts = [field.name for field in attrs.fields(thing)] if attrs.has(thing) else []
    parts += [
        name
        for name, value in vars(thing).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property | classmethod))
    ]
    assert [part for part in parts if not re.search(rf"\b{part}\b", text)] == []
