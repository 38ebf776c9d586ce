"""The pytest plugin of the testing kit; pytest loads it by itself (the entry point `retinue`).

Loading it imports nothing of the actor core and no trio: a test run that uses no actors pays nothing for it.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from retinue.actors.runtime.system import ActorSystem
    from retinue.actors.testing.clock import VirtualClock

__all__: list[str] = []

FIXTURE: Final = "actor_system"
MARKER: Final = "actor_system"
OWN_OPTIONS: Final = ("checks",)
"""Options of the marker that are the plugin's own; the others are those of `rt.ActorSystem`."""

_reports: pytest.StashKey[list[str]] = pytest.StashKey()
_seed: pytest.StashKey[int] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The command line."""
    group = parser.getgroup("retinue", "actor systems (retinue)")
    group.addoption(
        "--retinue-seed",
        type=int,
        default=None,
        metavar="N",
        help="the seed for the order of tasks in tests with the fixture actor_system; default: another one each time, which a failed test prints",
    )
    group.addoption(
        "--retinue-shuffle",
        action="store_true",
        help="give ready actors their turns in an order that the seed decides, too (default: first come, first served)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**options): options of rt.ActorSystem for the fixture {FIXTURE}; checks=False leaves the checks after the test out",
    )
    seed = config.getoption("--retinue-seed")
    config.stash[_seed] = random.SystemRandom().randrange(2**31) if seed is None else seed


# -- the fixtures ------------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def actor_system(request: pytest.FixtureRequest) -> AsyncIterator[ActorSystem]:
    """A running `rt.ActorSystem`, which the test holds: it acts under the root context. Options: `@pytest.mark.actor_system(seed=7, loopback=True)`.

    It is stopped after the test, which fails where something is left: actors, their threads, timers, unanswered asks, or messages that are nowhere.
    """
    from retinue.actors.runtime.system import ActorSystem
    from retinue.actors.testing.checks import leaks, waiting_asks

    options = _options(request.node)
    checks = options.pop("checks", True)
    if request.config.getoption("--retinue-shuffle"):
        options.setdefault("seed", request.config.stash[_seed])
    options.setdefault("name", "test")
    found: list[str] = []
    async with ActorSystem(**options) as system:
        yield system
        if checks:
            found = waiting_asks(system)
        _note(request.node, system)
    if checks:
        found += leaks(system)
        if found:
            raise AssertionError("\n  ".join([f"the test has left something behind in the system {system.name!r}:", *found]))


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A `retinue.testing.VirtualClock` for the test, which has to name it among its parameters: hours pass at once, and never while a thread works."""
    from retinue.actors.testing.clock import VirtualClock

    return VirtualClock()


def _options(item: pytest.Item) -> dict[str, Any]:
    """Those of all markers, the nearest first."""
    options: dict[str, Any] = {}
    for marker in item.iter_markers(MARKER):
        if marker.args:
            pytest.fail(f"@pytest.mark.{MARKER} takes options by name, as rt.ActorSystem does", pytrace=False)
        for name, value in marker.kwargs.items():
            options.setdefault(name, value)
    return options


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Says what is missing where nothing would run the asynchronous fixture."""
    if fixturedef.argname != FIXTURE or fixturedef.func.__module__ != __name__:
        return
    if "anyio_backend" in request.fixturenames:
        return
    if not request.config.pluginmanager.hasplugin("trio"):
        pytest.fail(f"the fixture {FIXTURE} is run by pytest-trio, which is not installed: pip install pytest-trio", pytrace=False)
    if request.node.get_closest_marker("trio") is None:
        pytest.fail(
            f"the fixture {FIXTURE} is for tests that run under trio: make this one `async def`, and set `trio_mode = true` in pytest's configuration "
            "(or mark it with @pytest.mark.trio); a plain test uses `with retinue.sync.ActorSystem() as system`",
            pytrace=False,
        )


# -- the order, and the report -----------------------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Seeds trio's scheduler for the test."""
    if FIXTURE not in getattr(item, "fixturenames", ()) or not item.config.pluginmanager.hasplugin("trio"):
        return (yield)
    from retinue.actors.testing.scheduling import deterministic

    with deterministic(item.config.stash[_seed]):
        return (yield)


def _note(item: pytest.Item, system: ActorSystem) -> None:
    """Keeps what a report of a failure says of the system: as it is when the test is over, and the system not stopped yet."""
    counts = system.statistics()
    letters = ", ".join(f"{reason} {count}" for reason, count in counts.dead_letters_by_reason.items() if count)
    handled = f"{counts.handled} handled, {counts.dead_letters} dead letters{f' ({letters})' if letters else ''}, {counts.queued} queued"
    lines = [f"system {counts.name!r}: {counts.sent} messages sent, {handled}; {counts.actors} actors alive of {counts.spawned}"]
    lines += [
        f"  {actor.path} ({actor.type}): {actor.state}, {actor.queued} queued, {actor.handled} handled, {actor.failures} failures"
        for actor in system.actors()
        if actor.queued or actor.failures or actor.state != "idle"
    ][:20]
    lines += [f"  dead letter: {letter!r}" for letter in list(system.dead_letters.recent)[-5:]]
    item.stash[_reports] = lines


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Adds the seed and the counts to the report of a failed test."""
    report: Any = yield
    if report.failed and call.when == "call" and FIXTURE in getattr(item, "fixturenames", ()):
        shuffled = " --retinue-shuffle" if item.config.getoption("--retinue-shuffle") else ""
        seed = f"the order of tasks: --retinue-seed={item.config.stash[_seed]}{shuffled} repeats it"
        report.sections.append(("retinue", "\n".join([seed, *item.stash.get(_reports, [])])))
    return report  # type: ignore[no-any-return]
