"""Contract point 6: what a failure leads to, by restart type, directive and exception type."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Answer, Boom, Break, Declared, Double, Forbidden, Hold, Leave, Note, Notes, Plain, Refuse
from core_hosts import Host, conserved, reasons
from core_latch import Latch


class SpecialBoom(Boom):
    pass


@rt.message
class Raise(rt.Request[int]):
    """Raise what the actor was given under this word."""

    word: str


class Raiser(rt.Actor):
    def __init__(self, errors: dict[str, Callable[[], BaseException]]) -> None:
        self.errors = errors
        self.numbers: list[int] = []

    @rt.handler
    def raise_it(self, message: Raise) -> int:
        error = self.errors[message.word]()
        raise error

    @rt.handler
    def note(self, message: Note) -> None:
        self.numbers.append(message.number)

    @rt.handler
    def notes(self, _: Notes) -> list[int]:
        return list(self.numbers)


async def state_after(system: rt.ActorSystem, ref: rt.Ref[Any], message: rt.Request[int], error: type[BaseException]) -> str:
    """What became of the actor that failed on the message: "resumed", "restarted" or "stopped"."""
    ref.tell(Note(1))
    with pytest.raises(error):
        await ref.ask(message)
    try:
        numbers = await ref.ask(Notes())
    except rt.ActorStopped:
        return "stopped"
    return "resumed" if numbers == [1] else "restarted"


async def test_a_failed_actor_is_restarted_unless_told_otherwise(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        assert await state_after(system, ref, Break(), Boom) == "restarted"
        actor = system.actors()[0]
        assert (actor.failures, actor.restarts) == (1, 1)
        assert conserved(system)


async def test_a_failed_tell_is_supervised_like_a_failed_ask(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        ref.tell(Note(1))
        ref.tell(Break())
        assert await ref.ask(Notes()) == []
        actor = system.actors()[0]
        assert (actor.failures, actor.restarts) == (1, 1)
        assert conserved(system)


async def test_the_failing_message_is_consumed(host: Host) -> None:
    async with host.system() as system:
        log: list[Any] = []
        ref = await system.spawn(host.hooked, log)
        ref.tell(Break())
        ref.tell(Note(1))
        assert await ref.ask(Notes()) == [1]
        assert log == ["start", "stop: restart", "start", 1]
        assert reasons(system) == {"poison": 1}


@pytest.mark.parametrize(
    ("restart", "after_failure", "after_stop"),
    [("permanent", "restarted", "restarted"), ("transient", "restarted", "stopped"), ("temporary", "stopped", "stopped")],
)
async def test_the_restart_type_decides(host: Host, restart: Any, after_failure: str, after_stop: str) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, supervision=rt.Supervision(restart=restart))
        assert await state_after(system, ref, Break(), Boom) == after_failure
        ref = await system.spawn(host.plain, supervision=rt.Supervision(restart=restart))
        ref.tell(Note(1))
        ref.tell(Leave())
        await system.wait_quiet()
        if after_stop == "stopped":
            assert not ref.alive
        else:
            assert await ref.ask(Notes()) == []
        assert conserved(system)


async def test_a_permanent_actor_stays_stopped_when_its_holder_stops_it(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, supervision=rt.Supervision(restart="permanent"))
        await ref.stop()
        assert not ref.alive


@pytest.mark.parametrize(
    ("directive", "state"), [("resume", "resumed"), ("restart", "restarted"), ("stop", "stopped"), ("escalate", "stopped")]
)
async def test_the_directive_for_the_exception_type_decides(host: Host, directive: Any, state: str) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, supervision=rt.Supervision(on={Boom: directive}))
        assert await state_after(system, ref, Break(), Boom) == state
        assert conserved(system)


async def test_the_nearest_type_in_the_exceptions_hierarchy_decides(loop_host: Host) -> None:
    errors: dict[str, Callable[[], BaseException]] = {"special": SpecialBoom, "boom": Boom, "key": lambda: KeyError("x")}
    supervision = rt.Supervision(on={Exception: "stop", Boom: "restart", SpecialBoom: "resume"})
    async with loop_host.system() as system:
        for word, error, state in (("special", SpecialBoom, "resumed"), ("boom", Boom, "restarted"), ("key", KeyError, "stopped")):
            ref = await system.spawn(Raiser, errors, supervision=supervision)
            assert await state_after(system, ref, Raise(word), error) == state


async def test_a_type_that_no_directive_names_is_treated_as_usual(loop_host: Host) -> None:
    errors: dict[str, Callable[[], BaseException]] = {"key": lambda: KeyError("x")}
    async with loop_host.system() as system:
        ref = await system.spawn(Raiser, errors, supervision=rt.Supervision(on={Boom: "resume"}))
        assert await state_after(system, ref, Raise("key"), KeyError) == "restarted"
        ref = await system.spawn(Raiser, errors, supervision=rt.Supervision(restart="temporary", on={Boom: "resume"}))
        assert await state_after(system, ref, Raise("key"), KeyError) == "stopped"


async def test_a_temporary_actor_is_never_restarted_but_may_resume(loop_host: Host) -> None:
    errors: dict[str, Callable[[], BaseException]] = {"boom": Boom, "key": lambda: KeyError("x")}
    supervision = rt.Supervision(restart="temporary", on={Boom: "resume", KeyError: "restart"})
    async with loop_host.system() as system:
        ref = await system.spawn(Raiser, errors, supervision=supervision)
        assert await state_after(system, ref, Raise("boom"), Boom) == "resumed"
        with pytest.raises(KeyError):
            await ref.ask(Raise("key"))
        await system.wait_quiet()
        assert not ref.alive


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (lambda: ExceptionGroup("g", [SpecialBoom()]), "resumed"),
        (lambda: ExceptionGroup("g", [SpecialBoom(), Boom()]), "restarted"),
        (lambda: ExceptionGroup("g", [ExceptionGroup("h", [Boom(), KeyError("x")]), SpecialBoom()]), "stopped"),
    ],
    ids=["one leaf", "the stronger of two", "nested"],
)
async def test_an_exception_group_is_decided_on_its_leaves_and_the_strongest_wins(
    loop_host: Host, make: Callable[[], BaseException], state: str
) -> None:
    supervision = rt.Supervision(on={KeyError: "stop", Boom: "restart", SpecialBoom: "resume"})
    async with loop_host.system() as system:
        ref = await system.spawn(Raiser, {"group": make}, supervision=supervision)
        assert await state_after(system, ref, Raise("group"), ExceptionGroup) == state


async def test_a_handler_whose_nursery_fails_twice_fails_once(loop_host: Host) -> None:
    class Nursery(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.one)
                nursery.start_soon(self.one)
            return 0

        async def one(self) -> None:
            raise Boom

    async with loop_host.system() as system:
        ref = await system.spawn(Nursery, supervision=rt.Supervision(on={Boom: "resume"}))
        ref.tell(Note(1))
        ref.tell(Hold())
        assert await ref.ask(Notes()) == [1]
        assert system.actors()[0].failures == 1


# -- answers, not failures -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "error"),
    [(Declared(), Answer), (Refuse(), rt.Reject), (Forbidden(), rt.Denied)],
    ids=["declared", "reject", "denied"],
)
async def test_an_answer_is_no_failure(host: Host, message: rt.Request[int], error: type[Exception]) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, grant=["core.other"])
        assert await state_after(system, ref, message, error) == "resumed"
        ref.tell(message)
        assert await ref.ask(Notes()) == [1]
        assert (system.actors()[0].failures, system.actors()[0].restarts) == (0, 0)
        assert conserved(system)


async def test_answers_are_recognised_in_groups_too(loop_host: Host) -> None:
    class Grouped(Plain):
        @rt.handler(raises=Answer)
        async def hold(self, message: Hold) -> int:
            raise ExceptionGroup("two", [Answer("a"), rt.Reject("b")])

        @rt.handler(raises=Answer)
        async def double(self, message: Double) -> int:
            raise ExceptionGroup("mixed", [Answer("a"), Boom("b")])

    async with loop_host.system() as system:
        ref = await system.spawn(Grouped)
        assert await state_after(system, ref, Hold(), ExceptionGroup) == "resumed"
        assert await state_after(system, ref, Double(1), ExceptionGroup) == "restarted"


async def test_a_subclass_of_a_declared_exception_is_an_answer_too(loop_host: Host) -> None:
    class Declarer(Plain):
        @rt.handler(raises=(KeyError, Boom))
        async def hold(self, message: Hold) -> int:
            raise SpecialBoom

    async with loop_host.system() as system:
        assert await state_after(system, await system.spawn(Declarer), Hold(), SpecialBoom) == "resumed"


async def test_a_declared_exception_of_one_handler_is_a_failure_in_another(loop_host: Host) -> None:
    class Declarer(Plain):
        @rt.handler
        async def hold(self, message: Hold) -> int:
            raise Answer

    async with loop_host.system() as system:
        assert await state_after(system, await system.spawn(Declarer), Hold(), Answer) == "restarted"


# -- what is logged --------------------------------------------------------------------------------------------------------------------------------


async def test_a_failed_tell_is_logged_as_an_error_with_its_traceback(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, name="fragile")
        ref.tell(Break("the text"))
        await ref.ask(Notes())
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert errors[0].name == "retinue.runtime"
    assert "/user/fragile" in errors[0].getMessage() and "Break" in errors[0].getMessage()
    assert "the text" in caplog.text and "raise Boom" in caplog.text


async def test_a_failed_ask_is_not_logged_as_an_error_for_its_asker_hears_of_it(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        with pytest.raises(Boom):
            await ref.ask(Break())
        await ref.ask(Notes())
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


# -- escalation ------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Child(rt.Request[rt.Ref]):  # type: ignore[type-arg]
    """Answers the child's ref."""


class Parent(Plain):
    """Has one child, spawned at its start."""

    def __init__(self, child: Callable[[], Any], log: list[Any] | None = None) -> None:
        super().__init__(log)
        self.make = child

    async def on_start(self) -> None:
        self.log.append("parent starts")
        cls, options = self.make()
        self.child = await self.ctx.spawn(cls, self.log, **options)

    def on_stop(self, reason: str) -> None:
        self.log.append(f"parent stops: {reason}")

    @rt.handler
    def get_child(self, _: Child) -> rt.Ref:  # type: ignore[type-arg]
        return self.child


async def test_an_escalated_failure_is_the_parents_failure(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []

        def make() -> Any:
            return loop_host.hooked, {"supervision": rt.Supervision(on={Boom: "escalate"}), "name": "child"}

        parent = await system.spawn(Parent, make, log, name="parent")
        child = await parent.ask(Child())
        await parent.ask(Note(1))
        with pytest.raises(Boom):
            await child.ask(Break())
        assert await parent.ask(Notes()) == []  # the parent was restarted, and so there is a new child
        assert log == ["parent starts", "start", 1, "stop: failed", "parent stops: restart", "parent starts", "start"]
        assert not child.alive
        assert (await parent.ask(Child())).path == child.path == "/user/parent/child"
        assert conserved(system)


async def test_the_failure_of_a_child_that_is_being_stopped_is_no_failure_of_its_parent(loop_host: Host) -> None:
    async with loop_host.system() as system:

        class Falling(Plain):
            @rt.handler
            def double(self, message: Double) -> int:
                self.ctx.stop()
                raise Boom

        def make() -> Any:
            return Falling, {"supervision": rt.Supervision(on={Boom: "escalate"})}

        parent = await system.spawn(Parent, make)
        child = await parent.ask(Child())
        await parent.ask(Note(1))
        child.tell(Double(1))
        await system.wait_quiet()
        assert not child.alive
        assert await parent.ask(Notes()) == [1]
        assert [actor.failures for actor in system.actors()] == [0]


async def test_the_parents_supervision_decides_on_what_its_child_escalates(loop_host: Host) -> None:
    async with loop_host.system() as system:

        def make() -> Any:
            return loop_host.plain, {"supervision": rt.Supervision(on={Boom: "escalate"})}

        parent = await system.spawn(Parent, make, supervision=rt.Supervision(on={Boom: "resume"}))
        child = await parent.ask(Child())
        parent.tell(Note(1))
        child.tell(Break())
        await system.wait_quiet()
        assert await parent.ask(Notes()) == [1]
        assert not child.alive
        assert system.statistics().actors == 1


async def test_a_failure_escalates_through_as_many_parents_as_say_so(loop_host: Host) -> None:
    escalate = rt.Supervision(on={Boom: "escalate"})
    log: list[Any] = []
    async with loop_host.system() as system:

        def inner() -> Any:
            return loop_host.plain, {"supervision": escalate}

        class Middle(Parent):
            def __init__(self, log: list[Any]) -> None:
                super().__init__(inner, log)

        top = await system.spawn(Parent, lambda: (Middle, {"supervision": escalate}), log, supervision=escalate)
        other = await system.spawn(loop_host.plain)
        middle = await top.ask(Child())
        child = await middle.ask(Child())
        watch = await system.watch(top)
        child.tell(Break("from below"))
        terminated = await watch.wait()
        assert terminated.reason == "failed" and str(terminated.error) == "from below"
        assert not middle.alive and not child.alive
        assert await other.ask(Double(1)) == 2  # right under /user that stops this actor only
        assert conserved(system)


async def test_a_failure_right_under_user_stops_this_actor_only(host: Host) -> None:
    async with host.system() as system:
        failing = await system.spawn(host.plain, supervision=rt.Supervision(on={Boom: "escalate"}))
        other = await system.spawn(host.plain)
        watch = await system.watch(failing)
        failing.tell(Break("why"))
        terminated = await watch.wait()
        assert (terminated.ref, terminated.reason, str(terminated.error)) == (failing, "failed", "why")
        assert await other.ask(Double(1)) == 2


# -- in tasks of its own ---------------------------------------------------------------------------------------------------------------------------


async def test_a_failure_in_a_task_of_the_actor_is_a_failure_of_the_actor(loop_host: Host) -> None:
    class Starter(Plain):
        @rt.handler
        def hold(self, message: Hold) -> int:
            self.ctx.start_soon(self.work)
            return 0

        async def work(self) -> None:
            await trio.lowlevel.checkpoint()
            raise Boom("in the background")

    async with loop_host.system() as system:
        ref = await system.spawn(Starter)
        ref.tell(Note(1))
        await ref.ask(Hold())
        with trio.fail_after(60):
            while system.actors()[0].failures == 0:
                await trio.lowlevel.checkpoint()
        assert await ref.ask(Notes()) == []
        assert conserved(system)


async def test_a_resident_loop_that_fails_restarts_the_actor_and_its_loop(loop_host: Host, autojump_clock: MockClock) -> None:
    starts: list[int] = []

    class Resident(Plain):
        async def run(self) -> None:
            starts.append(1)
            await trio.sleep(1)
            raise Boom

    async with loop_host.system() as system:
        ref = await system.spawn(Resident)
        await trio.sleep(3.5)
        assert len(starts) >= 3
        assert ref.alive
        assert system.actors()[0].failures == len(starts) - 1


# -- fatal errors ----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fatal", [SystemExit, KeyboardInterrupt])
async def test_a_system_exit_in_a_handler_answers_its_asker_first_and_then_ends_the_system(
    loop_host: Host, fatal: type[BaseException]
) -> None:
    caught: list[BaseException] = []
    errors: dict[str, Callable[[], BaseException]] = {"fatal": fatal}
    with pytest.raises(fatal):
        async with loop_host.system() as system:
            ref = await system.spawn(Raiser, errors)
            try:
                await ref.ask(Raise("fatal"))
            except rt.ActorStopped as error:
                caught.append(error)
            await trio.sleep_forever()
    assert isinstance(caught[0].__cause__, fatal)
    assert conserved(system)


# -- descriptions that cannot be -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"restart": "always"},
        {"strategy": "one_for_none"},
        {"on": {ValueError: "explode"}},
        {"on": {"ValueError": "restart"}},
        {"on": {int: "restart"}},
        {"backoff": (5, 1)},
        {"backoff": (-1, 1)},
        {"backoff": (0, math.inf)},
        {"backoff": 5},
        {"backoff": ("a", "b")},
        {"intensity": (-1, 60)},
        {"intensity": (10, 0)},
        {"intensity": (1.5, 60)},
        {"intensity": (math.inf, 60)},
        {"intensity": (math.nan, 60)},
        {"intensity": 5},
    ],
    ids=str,
)
def test_a_supervision_that_cannot_be_is_refused_when_it_is_described(options: dict[str, Any]) -> None:
    with pytest.raises(rt.DefinitionError, match=next(iter(options))):
        rt.Supervision(**options)


async def test_a_spawn_with_something_else_as_its_supervision_is_refused(loop_host: Host) -> None:
    async with loop_host.system() as system:
        for wrong in ("restart", 5, 0, "", [], {}, rt.Supervision, object()):
            with pytest.raises(rt.DefinitionError, match=r"supervision=.*rt\.Supervision"):
                await system.spawn(loop_host.plain, supervision=wrong)  # type: ignore[arg-type]
        assert system.actors() == []


async def test_a_supervision_does_not_change_when_the_mapping_that_it_was_made_of_does(host: Host) -> None:
    on: dict[type[BaseException], Any] = {Boom: "resume"}
    supervision = rt.Supervision(on=on)
    on[Boom] = "stop"
    async with host.system() as system:
        ref = await system.spawn(host.plain, supervision=supervision)
        assert await state_after(system, ref, Break(), Boom) == "resumed"


async def test_a_failure_while_the_actor_stops_does_not_restart_it(host: Host) -> None:
    class Failing(host.holder):  # type: ignore[misc,name-defined]
        @rt.handler
        def double(self, message: Double) -> int:
            self.ctx.stop()
            raise Boom

    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(Failing, None, latch)
        watch = await system.watch(ref)
        ref.tell(Double(1))
        assert (await watch.wait()).reason == "stopped"
        assert conserved(system)
