"""The pytest plugin of the testing kit; pytest loads it by itself (the entry point `retinue`).

Loading it imports nothing of the actor core and no trio: a test run that uses no actors pays nothing for it.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from retinue.actors.runtime.system import ActorSystem
    from retinue.actors.testing.clock import VirtualClock

__all__: list[str] = []

FIXTURE: Final = "actor_system"
MARKER: Final = "actor_system"
CLOCK: Final = "virtual_clock"
OWN_OPTIONS: Final = ("checks", "dead_letters", "failures")
"""Options of the marker that are the plugin's own; the others are those of `rt.ActorSystem`."""

_reports: pytest.StashKey[list[str]] = pytest.StashKey()
_seed: pytest.StashKey[int] = pytest.StashKey()
_clock: pytest.StashKey[VirtualClock] = pytest.StashKey()
_running: pytest.StashKey[bool] = pytest.StashKey()


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
        f"{MARKER}(**options): options of rt.ActorSystem for the fixture {FIXTURE}; checks=False leaves the checks after the test out; "
        "dead_letters=False fails a test that made some, dead_letters=['stopped'] one that made others; "
        "failures=False fails a test in which an actor failed, failures=[ValueError] one in which it did with another error",
    )
    seed = config.getoption("--retinue-seed")
    config.stash[_seed] = random.SystemRandom().randrange(2**31) if seed is None else seed


# -- the fixtures ------------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def actor_system(request: pytest.FixtureRequest) -> AsyncIterator[ActorSystem]:
    """A running `rt.ActorSystem`, which the test holds: it acts under the root context. Options: `@pytest.mark.actor_system(seed=7, loopback=True)`.

    It is stopped after the test, which fails where something is left: actors, their threads, timers, unanswered asks, or messages that are nowhere.
    """
    from retinue.actors.testing.checks import assert_no_dead_letters, leaks, waited_for
    from retinue.actors.testing.logged import logged_errors

    options = _options(request.node)
    checks, letters, failures = (options.pop(name, True) for name in OWN_OPTIONS)
    if request.config.getoption("--retinue-shuffle"):
        options.setdefault("seed", request.config.stash[_seed])
    options.setdefault("name", "test")
    found: list[str] = []
    expected = tuple(failures) if isinstance(failures, Iterable) else ()
    with logged_errors(expected) as logged:
        async with _system(options) as system:
            yield system
            if checks:
                found = await waited_for(system)
            _note(request.node, system)
            if letters is not True:
                try:
                    assert_no_dead_letters(system, allow=letters or ())
                except AssertionError as error:
                    found.append(
                        f"{error}; @pytest.mark.{MARKER}(dead_letters={letters!r}) allows {'only those reasons' if letters else 'none'}"
                    )
    if failures is not True:
        found += logged.lines
    if checks:
        found += leaks(system)
    if found:
        raise AssertionError("\n  ".join([f"the test has left something behind in the system {system.name!r}:", *found]))


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> VirtualClock:
    """A `retinue.testing.VirtualClock` that the test runs under: hours pass at once, and never while a thread works."""
    from retinue.actors.testing.clock import VirtualClock

    if request.node.stash.get(_running, False):
        pytest.fail(
            f"the fixture {CLOCK} came when the test ran already, by another clock: name it among the parameters of the test", pytrace=False
        )
    clock = VirtualClock()
    request.node.stash[_clock] = clock
    return clock


def _options(item: pytest.Item) -> dict[str, Any]:
    """Those of all markers, the nearest first."""
    options: dict[str, Any] = {}
    for marker in item.iter_markers(MARKER):
        if marker.args:
            pytest.fail(f"@pytest.mark.{MARKER} takes options by name, as rt.ActorSystem does", pytrace=False)
        for name, value in marker.kwargs.items():
            options.setdefault(name, value)
    letters = options.get("dead_letters", True)
    if not isinstance(letters, bool) and not (
        isinstance(letters, list | tuple | set) and all(isinstance(reason, str) for reason in letters)
    ):
        pytest.fail(
            f"@pytest.mark.{MARKER}(dead_letters={letters!r}): give False, True or a list of reasons that are expected", pytrace=False
        )
    failures = options.get("failures", True)
    if not isinstance(failures, bool) and not _are_errors(failures):
        pytest.fail(
            f"@pytest.mark.{MARKER}(failures={failures!r}): give False, True or a list of classes of errors that are expected",
            pytrace=False,
        )
    return options


def _are_errors(failures: object) -> bool:
    return isinstance(failures, list | tuple | set) and all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in failures)


def _system(options: dict[str, Any]) -> ActorSystem:
    """The system, or a failure that names the marker."""
    from retinue.actors.runtime.system import ActorSystem

    known = [*OWN_OPTIONS, *inspect.signature(ActorSystem).parameters]
    if unknown := [name for name in options if name not in known]:
        pytest.fail(f"@pytest.mark.{MARKER}({unknown[0]}=…): there is no such option; there are {', '.join(known)}", pytrace=False)
    try:
        return ActorSystem(**options)
    except Exception as error:
        error.add_note(f"the options stand in @pytest.mark.{MARKER} at the test, its class or its module")
        raise


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Says what is missing where nothing would run the asynchronous fixture."""
    if fixturedef.argname != FIXTURE or fixturedef.func.__module__ != __name__ or (text := _missing(request)) is None:
        return
    try:
        pytest.fail(text, pytrace=False)
    except pytest.fail.Exception as error:
        # As pytest does it for a fixture that fails; without it the fixture is not torn down, and no later test can use it.
        fixturedef.cached_result = (None, fixturedef.cache_key(request), (error, error.__traceback__))  # type: ignore[arg-type]
        raise


def _missing(request: pytest.FixtureRequest) -> str | None:
    """What keeps the asynchronous fixture from being run, and the fix; None where nothing does."""
    config = request.config
    if config.pluginmanager.hasplugin("asyncio") and "auto" in (config.getoption("asyncio_mode", None), config.getini("asyncio_mode")):
        return (
            f"the fixture {FIXTURE} runs under trio, and pytest-asyncio's mode `auto` takes every async test and fixture for asyncio: set "
            "`asyncio_mode = strict` in pytest's configuration, and mark asyncio's tests with @pytest.mark.asyncio"
        )
    if "anyio_backend" in request.fixturenames:
        return None
    if not config.pluginmanager.hasplugin("trio"):
        return f"the fixture {FIXTURE} is run by pytest-trio, which is not installed: pip install pytest-trio"
    if request.node.get_closest_marker("trio") is None:
        return (
            f"the fixture {FIXTURE} is for tests that run under trio: make this one `async def`, and set `trio_mode = true` in pytest's configuration "
            "(or mark it with @pytest.mark.trio); a plain test uses `with retinue.sync.ActorSystem() as system`"
        )
    return None


# -- the clock ---------------------------------------------------------------------------------------------------------------------------------------


def _set_clock(item: pytest.Item) -> None:
    """Has the test run by the virtual clock where only a fixture of it uses that: pytest-trio takes none but those among the test's own parameters."""
    clock = item.stash.get(_clock, None)
    if clock is None or not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(_innermost(item)):
        return
    if "anyio_backend" in item.funcargs:
        backend = item.funcargs["anyio_backend"]
        if not isinstance(backend, tuple) or clock not in backend[1].values():
            fix = f'def anyio_backend({CLOCK}): return "trio", {{"clock": {CLOCK}}}'
            pytest.fail(
                f"the test runs under anyio, which does not know the fixture {CLOCK}: give it the clock by a fixture of your own: {fix}",
                pytrace=False,
            )
        return
    if item.get_closest_marker("trio") is None:
        return  # pytest itself says that nothing runs it
    if any(value is clock for name, value in item.funcargs.items() if name in inspect.signature(_innermost(item)).parameters):
        return
    runs: list[Callable[..., Any]] = [marker.kwargs["run"] for marker in item.iter_markers("trio") if marker.kwargs.get("run") is not None]
    if not runs and item.config.getini("trio_run") == "trio":
        import trio

        runs.append(trio.run)
    if hasattr(item.obj, "hypothesis") or not runs:
        pytest.fail(f"the fixture {CLOCK} is used by another fixture only: name it among the parameters of the test", pytrace=False)

    def run(*args: Any, clock: Any = None, **keywords: Any) -> Any:
        own = item.stash[_clock]
        if clock is not None and clock is not own:
            pytest.fail(f"the test has two clocks: {clock!r} among its parameters, and {CLOCK}, which a fixture of it uses", pytrace=False)
        return runs[0](*args, clock=own, **keywords)

    item.add_marker(pytest.mark.trio(run=run), append=False)


def _innermost(item: pytest.Function) -> Any:
    """The test as it is written, within Hypothesis' wrapping."""
    return item.obj.hypothesis.inner_test if hasattr(item.obj, "hypothesis") else item.obj


# -- the order, and the report -----------------------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Seeds trio's scheduler for the test, and sets its clock."""
    _set_clock(item)
    item.stash[_running] = True
    try:
        return (yield from _seeded(item))
    finally:
        item.stash[_running] = False


def _seeded(item: pytest.Item) -> Generator[None, object, object]:
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
