"""Fixtures of the tests of the actor core: the hosts, and the clock that belongs to each."""

from __future__ import annotations

import math

import pytest

import retinue as rt
from core_hosts import HOSTS, LOOP_NAMES, NAMES, Host
from retinue.actors.runtime import stepping
from retinue.testing import VirtualClock


@pytest.fixture(params=NAMES)
def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Every host in turn."""
    return prepared(HOSTS[request.param], monkeypatch)


@pytest.fixture(params=LOOP_NAMES)
def loop_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Every host whose actors run in the loop, for what threads cannot do (cancel a handler, jump over time)."""
    return prepared(HOSTS[request.param], monkeypatch)


@pytest.fixture(params=["inline", "by workers", "seeded"])
def turn_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> rt.ActorSystem:
    """A system, not entered yet, for each way that a message takes to its turn: in its asker's task, by the queue, and by the queue in a random order."""
    if request.param == "by workers":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return rt.ActorSystem("turns", block_warning=math.inf, seed=4 if request.param == "seeded" else None)


def prepared(host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    if host.name == "workers":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return host


@pytest.fixture
def host_clock(host: Host) -> VirtualClock:
    """A clock that jumps and waits for threads. Where they work it runs beside, for a test that holds one up to see its asker give up."""
    return VirtualClock(rate=1.0 if host.blocking else 0.0)
