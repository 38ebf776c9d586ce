"""Fixtures of the tests of the actor core: the hosts, and the clock that belongs to each."""

from __future__ import annotations

import pytest
import trio.abc
import trio.testing

from core_hosts import HOSTS, LOOP_NAMES, NAMES, Host, thread_host_missing


@pytest.fixture(params=NAMES)
def host(request: pytest.FixtureRequest) -> Host:
    """Every host in turn."""
    if request.param == "thread" and thread_host_missing():
        pytest.skip("there is no thread host yet")
    return HOSTS[request.param]


@pytest.fixture(params=LOOP_NAMES)
def loop_host(request: pytest.FixtureRequest) -> Host:
    """Every host whose actors run in the loop, for what threads cannot do (cancel a handler, jump over time)."""
    return HOSTS[request.param]


@pytest.fixture
def host_clock(host: Host) -> trio.abc.Clock | None:
    """A clock that jumps where the actors run in the loop; the real one where threads work, for jumps do not wait for them."""
    return None if host.blocking else trio.testing.MockClock(autojump_threshold=0)
