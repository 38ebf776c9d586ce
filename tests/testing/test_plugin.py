"""The pytest plugin: real runs of pytest, in a process of their own, on small files."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import attrs
import pytest

HEAD = """
import pytest, trio
import retinue as rt
import retinue.testing as rtt

@rt.message
class Note(rt.Message):
    number: int = 0

@rt.message
class Get(rt.Request[int]):
    pass

class Box(rt.Actor):
    def __init__(self, got=None):
        self.got = [] if got is None else got

    @rt.handler
    def note(self, message: Note) -> None:
        self.got.append(message.number)

    @rt.handler
    async def get(self, message: Get) -> int:
        await trio.lowlevel.checkpoint()
        return len(self.got)
"""


@attrs.frozen
class Ran:
    """What a run of pytest came to."""

    code: int
    text: str

    def counts(self) -> dict[str, int]:
        last = [line for line in self.text.splitlines() if " in " in line and re.search(r"\d+ (passed|failed|error)", line)][-1]
        return {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|error)", last)}


def run_pytest(folder: Path, body: str, *options: str, head: str = HEAD, trio_mode: bool = True) -> Ran:
    (folder / "test_it.py").write_text(head + textwrap.dedent(body), encoding="utf-8")
    ini = ["-o", "trio_mode=true"] if trio_mode else []
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "-p",
        "no:anyio",
        *ini,
        *options,
        "test_it.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return Ran(done.returncode, done.stdout + done.stderr)


GOOD = """
@rt.message
class Flow(rt.Stream[int]):
    pass

class Never(rt.Actor):
    @rt.handler
    def get(self, message: Get) -> int:
        self.slot = self.ctx.defer()

    @rt.handler
    async def flow(self, message: Flow):
        yield 1
        await trio.sleep(1000)

class Weak(rt.Actor):
    @rt.handler
    def note(self, message: Note) -> None:
        raise ValueError("secret 42")

    def on_stop(self, reason) -> None:
        raise ValueError

async def read(ref):
    async with ref.stream(Flow()) as items:
        async for _ in items:
            pass

async def test_root(actor_system):
    box = await actor_system.spawn(Box)
    box.tell(Note(1))
    assert await box.ask(Get()) == 1

@pytest.mark.actor_system(loopback=True, seed=3, name="shop")
async def test_options(actor_system):
    assert actor_system.name == "shop"
    box = await actor_system.spawn(Box)
    assert await box.ask(Get()) == 0

@pytest.mark.actor_system(permissions=["nothing.*"])
class TestMarkedClass:
    @pytest.mark.actor_system(name="inner")
    async def test_both(self, actor_system):
        assert actor_system.name == "inner"
        assert not actor_system._kernel.root.allows("other.do")

async def test_time(actor_system, virtual_clock):
    await trio.sleep(3600)
    assert virtual_clock.current_time() == trio.current_time() == 3600
    probe = await rtt.Probe.spawn(actor_system)
    probe.ref.tell(Note(4))
    assert (await probe.expect(Note)).number == 4

@pytest.fixture
async def box(actor_system):
    return await actor_system.spawn(Box)

async def test_own_fixtures(box, nursery):
    nursery.start_soon(box.ask, Get())
    box.tell(Note(1))

@pytest.mark.actor_system(checks=False)
async def test_not_checked(actor_system):
    actor_system._kernel.sent += 1

@pytest.mark.actor_system(dead_letters=["stopped"])
async def test_letters_allowed(actor_system):
    gone = await actor_system.spawn(Box)
    await gone.stop()
    gone.tell(Note(5))

@pytest.fixture
async def own_nursery():
    async with trio.open_nursery() as nursery:
        yield nursery
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

@pytest.mark.parametrize("number", range(5))
async def test_cleans_up(own_nursery, actor_system, number):
    never = await actor_system.spawn(Never)
    own_nursery.start_soon(never.ask, Get())
    own_nursery.start_soon(read, never)
    await actor_system.wait_quiet()

@pytest.mark.actor_system(failures=[ValueError])
async def test_failures_expected(actor_system):
    (await actor_system.spawn(Weak)).tell(Note())

@pytest.fixture
async def hours(virtual_clock):
    await trio.sleep(3600)
    return trio.current_time

@pytest.fixture
def by_name(request):
    return request.getfixturevalue("virtual_clock")

async def test_clock_of_a_fixture(hours):
    assert hours() == trio.current_time() == 3600

@pytest.mark.usefixtures("virtual_clock")
async def test_clock_of_a_marker():
    await trio.sleep(3600)

async def test_clock_by_name(by_name):
    await trio.sleep(3600)
    assert by_name.current_time() == trio.current_time() == 3600
"""

BAD = """
import contextvars
import threading

go = threading.Event()

class Stuck(rt.Actor, blocking=True):
    @rt.handler
    def note(self, message: Note) -> None:
        go.wait(20)

@pytest.mark.actor_system(grace=0)
async def test_thread(actor_system):
    stuck = await actor_system.spawn(Stuck, name="stuck")
    stuck.tell(Note())

async def asks_in_vain(never):
    with trio.CancelScope(shield=True):
        try:
            await never.ask(Get(), timeout=1000)
        except rt.ActorStopped:
            pass

async def test_ask(actor_system):
    never = await actor_system.spawn(Never, name="never")
    trio.lowlevel.spawn_system_task(asks_in_vain, never, context=contextvars.copy_context())
    await trio.testing.wait_all_tasks_blocked()

async def test_stream(actor_system):
    never = await actor_system.spawn(Never, name="never")
    items = await never.stream(Flow()).__aenter__()
    async for _ in items:
        break

@pytest.mark.actor_system(failures=False)
async def test_failing(actor_system):
    (await actor_system.spawn(Weak, name="weak")).tell(Note())

@pytest.mark.actor_system(failures=[KeyError])
async def test_failing_otherwise(actor_system):
    await actor_system.spawn(Weak, name="weak")

@pytest.mark.actor_system(failures=ValueError)
async def test_odd_failures(actor_system):
    pass

async def test_books(actor_system):
    actor_system._kernel.sent += 1

async def test_cell(actor_system):
    actor_system._kernel.spawned += 1

async def test_fails(actor_system):
    box = await actor_system.spawn(Box, name="box")
    gone = await actor_system.spawn(Box, name="gone")
    await gone.stop()
    gone.tell(Note(5))
    box.tell(Note(6))
    assert await box.ask(Get()) == 2

@pytest.mark.actor_system(7)
async def test_positional(actor_system):
    pass

@pytest.mark.actor_system(sede=7)
async def test_misspelt(actor_system):
    pass

@pytest.mark.actor_system(grace=-1)
async def test_odd(actor_system):
    pass

@pytest.mark.actor_system(dead_letters="stopped")
async def test_odd_letters(actor_system):
    pass

@pytest.mark.actor_system(dead_letters=False)
async def test_letters(actor_system):
    gone = await actor_system.spawn(Box)
    await gone.stop()
    gone.tell(Note(5))

@pytest.mark.actor_system(dead_letters=["expired"])
async def test_other_letters(actor_system):
    gone = await actor_system.spawn(Box)
    await gone.stop()
    gone.tell(Note(5))

async def test_two_clocks(hours, autojump_clock):
    pass

@pytest.fixture
async def late(request):
    return request.getfixturevalue("virtual_clock")

async def test_late(late):
    pass

def test_other():
    go.set()
    assert False
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_pytest(tmp_path_factory.mktemp("ran"), GOOD + BAD, "--retinue-seed=77", "-rp")


def section(ran: Ran, name: str) -> str:
    """What the report says of one failed test."""
    found = re.search(rf"^_+ {name} _+$(.*?)^(_+ \w+ _+|=+ .* =+)$", ran.text, re.MULTILINE | re.DOTALL)
    assert found is not None, ran.text
    return found[1]


def test_the_fixtures_serve_good_tests_and_say_nothing_of_them(ran):
    assert ran.counts() == {"passed": 16, "failed": 18}, ran.text
    names = ["test_root", "test_options", "test_both", "test_time", "test_own_fixtures", "test_not_checked"]
    names += ["test_letters_allowed", "test_failures_expected", "test_clock_of_a_fixture", "test_clock_of_a_marker", "test_clock_by_name"]
    assert re.findall(r"^PASSED \S+::(\w+)$", ran.text, re.MULTILINE) == names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("test_thread", r"1 threads of blocking actors did not come back and were left behind; alive are: retinue /user/stuck"),
        ("test_ask", r"Get to /user/never is unanswered: the task .*asks_in_vain waits for it, .*test_it\.py:\d+"),
        ("test_stream", r"the stream Flow of /user/never is open: read it to its end, or leave its block"),
        ("test_failing", r"logged as an error: /user/weak failed on Note \(ValueError\)\n.*on_stop\(.*\) failed \(ValueError\)"),
        ("test_failing_otherwise", r"logged as an error: /user/weak: on_stop\(.*\) failed \(ValueError\)"),
        ("test_books", r"1 messages were sent, and 0 handled \+ 0 dead letters \+ 0 queued are 0: 1 are nowhere"),
        ("test_cell", r"1 actors were spawned, and 0 have stopped"),
    ],
)
def test_what_a_test_leaves_behind_fails_it_with_what_and_where(ran, name, text):
    assert "the test has left something behind in the system 'test':" in section(ran, name)
    assert re.search(text, section(ran, name)), section(ran, name)


def test_a_failed_test_says_its_seed_and_how_its_system_was(ran):
    text = section(ran, "test_fails")
    assert text.count("- retinue -") == 1
    assert "the order of tasks: --retinue-seed=77 repeats it" in text
    assert "system 'test': 3 messages sent, 2 handled, 1 dead letters (stopped 1), 0 queued; 1 actors alive of 2" in text
    assert "dead letter: DeadLetter(reason='stopped', message=Note, target='/user/gone'" in text
    assert "- retinue -" not in section(ran, "test_other")


def test_options_of_the_marker_are_those_of_a_system_and_given_by_name(ran):
    assert "takes options by name, as rt.ActorSystem does" in section(ran, "test_positional")
    text = (
        "@pytest.mark.actor_system(sede=…): there is no such option; there are checks, dead_letters, failures, name, data_dir, permissions,"
    )
    assert text in section(ran, "test_misspelt")
    assert "the options stand in @pytest.mark.actor_system" in section(ran, "test_odd")
    assert "give False, True or a list of reasons" in section(ran, "test_odd_letters")
    assert "give False, True or a list of classes of errors" in section(ran, "test_odd_failures")


def test_dead_letters_fail_a_test_that_is_marked_so(ran):
    text = "there are dead letters (stopped: 1): Note to /user/Box-1 (stopped); @pytest.mark.actor_system(dead_letters={}) allows {}"
    assert text.format("False", "none") in section(ran, "test_letters")
    assert text.format("['expired']", "only those reasons") in section(ran, "test_other_letters")


def test_time_is_never_silently_that_of_another_clock(ran):
    assert "the test has two clocks: " in section(ran, "test_two_clocks")
    assert "came when the test ran already, by another clock: name it among the parameters" in section(ran, "test_late")


ORDER = """
async def test_order(actor_system):
    got = []

    class Member(Box):
        @rt.handler
        async def note(self, message: Note) -> None:
            await trio.lowlevel.checkpoint()
            got.append(message.number)

    members = [await actor_system.spawn(Member) for _ in range(6)]
    for number, member in enumerate(members):
        member.tell(Note(number))
    await actor_system.wait_quiet()
    print("order", *got)
    assert False
"""


def order(ran: Ran) -> str:
    return re.search(r"order ([\d ]+)", ran.text)[1]


@pytest.mark.slow
def test_a_seed_repeats_an_order(tmp_path):
    first = run_pytest(tmp_path, ORDER, "--retinue-shuffle")
    seed = re.search(r"--retinue-seed=(\d+) --retinue-shuffle repeats it", first.text)[1]
    assert order(run_pytest(tmp_path, ORDER, f"--retinue-seed={seed}", "--retinue-shuffle")) == order(first)
    assert len({order(run_pytest(tmp_path, ORDER, f"--retinue-seed={number}", "--retinue-shuffle")) for number in (1, 1, 2, 3, 4)}) > 2
    assert len({order(run_pytest(tmp_path, ORDER, "--retinue-seed=1")) for _ in range(2)}) == 1


PLAIN = """
def test_plain(actor_system):
    pass

def test_clock(virtual_clock):
    assert virtual_clock.current_time() == 0
"""

ASYNCIO_AUTO = """
import pytest

def pytest_addoption(parser):
    parser.addini("asyncio_mode", "as pytest-asyncio has it", default="auto")

def pytest_configure(config):
    config.pluginmanager.register(object(), "asyncio")
"""


@pytest.mark.slow
def test_beside_an_asyncio_that_takes_all_tests_the_fixture_says_so(tmp_path):
    (tmp_path / "conftest.py").write_text(ASYNCIO_AUTO, encoding="utf-8")
    ran = run_pytest(tmp_path, "async def test_it(actor_system): ...")
    assert "set `asyncio_mode = strict`" in ran.text, ran.text
    assert run_pytest(tmp_path, "async def test_it(actor_system): ...", "-o", "asyncio_mode=strict").counts() == {"passed": 1}


PLAIN_AMONG_OTHERS = """
def test_plain(actor_system):
    pass

def test_plain_by_name(request):
    request.getfixturevalue("actor_system")

@pytest.fixture
async def box(actor_system):
    return await actor_system.spawn(Box)

def test_plain_with_its_own(box):
    pass

async def test_after(actor_system):
    box = await actor_system.spawn(Box)
    assert await box.ask(Get()) == 0

async def test_after_with_its_own(box):
    assert await box.ask(Get()) == 0
"""


def test_without_pytest_trio_the_fixture_says_so(tmp_path):
    ran = run_pytest(tmp_path, PLAIN, "-p", "no:trio", trio_mode=False)
    assert ran.counts() == {"error": 1, "passed": 1}, ran.text
    assert "pytest-trio, which is not installed: pip install pytest-trio" in ran.text


def test_a_plain_test_that_uses_the_fixture_fails_alone(tmp_path):
    ran = run_pytest(tmp_path, PLAIN_AMONG_OTHERS)
    assert ran.counts() == {"error": 2, "failed": 1, "passed": 2}, ran.text
    assert ran.text.count("make this one `async def`") >= 3
    assert "_finalizers" not in ran.text


@pytest.mark.slow
def test_in_a_plain_test_the_fixture_says_what_to_do(tmp_path):
    ran = run_pytest(tmp_path, PLAIN, trio_mode=False)
    assert ran.counts() == {"error": 1, "passed": 1}, ran.text
    assert "make this one `async def`, and set `trio_mode = true`" in ran.text


def test_loading_the_plugin_loads_neither_the_actor_core_nor_trio(tmp_path):
    (tmp_path / "test_empty.py").write_text("", encoding="utf-8")
    options = ["--co", "-q", "-p", "no:trio", "-p", "no:anyio", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
    program = f"import sys, pytest; pytest.main({options}); print('loaded', *(name for name in sys.modules if name.startswith(('retinue', 'trio'))))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    loaded = set(re.search(r"loaded (.*)", done.stdout)[1].split())
    assert loaded == {"retinue", "retinue._homes", "retinue.actors", "retinue.actors.testing", "retinue.actors.testing.plugin"}
