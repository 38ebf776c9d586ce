"""Contract point 7: spawn awaits the start and raises what it raises; an actor is started or fully undone."""

from __future__ import annotations

import abc
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import retinue as rt
from core_actors import Boom, Break, Double, Note, Notes, Plain
from core_hosts import Host, conserved, reasons
from core_latch import Latch
from steady_ids import steady


class Child(rt.Actor):
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def on_stop(self, reason: str) -> None:
        self.log.append(f"child stops: {reason}")


class Slow(Plain):
    """Takes several steps to start, and writes down which."""

    async def on_start(self) -> None:
        self.log.append("starting")
        self.ctx.start_soon(self.work)
        await trio.lowlevel.checkpoint()
        await self.ctx.spawn(Child, self.log, name="child")
        await trio.lowlevel.checkpoint()
        self.log.append("started")

    async def work(self) -> None:
        self.log.append("task starts")
        try:
            await trio.sleep_forever()
        finally:
            self.log.append("task ends")

    def on_stop(self, reason: str) -> None:
        self.log.append(f"stop: {reason}")


async def test_spawn_returns_once_the_actor_has_started(host: Host) -> None:
    async with host.system() as system:
        log: list[Any] = []
        await system.spawn(host.hooked, log)
        assert log == ["start"]


async def test_spawn_awaits_an_async_start(loop_host: Host, autojump_clock: MockClock) -> None:
    class Sleeper(Plain):
        async def on_start(self) -> None:
            await trio.sleep(10)
            self.log.append("started")

    async with loop_host.system() as system:
        log: list[Any] = []
        began = trio.current_time()
        await system.spawn(Sleeper, log)
        assert log == ["started"]
        assert trio.current_time() - began == pytest.approx(10)


async def test_arguments_go_to_the_constructor(host: Host) -> None:
    class Made(host.plain):  # type: ignore[misc,name-defined]
        def __init__(self, *numbers: int, log: list[Any], **words: str) -> None:
            super().__init__(log)
            log.append((numbers, words))

    async with host.system() as system:
        log: list[Any] = []
        await system.spawn(Made, 1, 2, log=log, extra="word")
        assert log == [((1, 2), {"extra": "word"})]


async def test_the_error_of_the_constructor_is_raised_to_the_spawner_and_nothing_is_left(host: Host) -> None:
    class Broken(host.plain):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            raise Boom("in the constructor")

    async with host.system() as system:
        with pytest.raises(Boom, match="in the constructor"):
            await system.spawn(Broken, name="broken")
        assert system.actors() == []
        assert system.registry.get("/user/broken") is None
        await system.spawn(host.plain, name="broken")  # the name is free
        assert reasons(system) == {}
        assert conserved(system)


async def test_the_error_of_on_start_is_raised_to_the_spawner_and_nothing_is_left(host: Host) -> None:
    class Broken(host.plain):  # type: ignore[misc,name-defined]
        def on_start(self) -> None:
            raise Boom("in on_start")

    async with host.system() as system:
        with pytest.raises(Boom, match="in on_start"):
            await system.spawn(Broken, name="broken")
        assert system.actors() == []
        await system.spawn(host.plain, name="broken")
        assert reasons(system) == {}
        assert conserved(system)


async def test_an_async_start_that_fails_ends_what_it_had_begun(loop_host: Host) -> None:
    class Broken(Slow):
        async def on_start(self) -> None:
            await super().on_start()
            await trio.lowlevel.checkpoint()
            raise Boom

    async with loop_host.system() as system:
        log: list[Any] = []
        with pytest.raises(Boom):
            await system.spawn(Broken, log, name="broken")
        await system.wait_quiet()
        assert log[-2:] == ["child stops: stopped", "task ends"]
        assert "stop" not in str(log[:-2])  # on_stop belongs to actors that have started
        assert system.actors() == []
        assert system.registry.get("/user/broken/child") is None


async def test_who_got_the_ref_of_an_actor_that_did_not_start_learns_the_cause(loop_host: Host) -> None:
    class Leaky(Plain):
        async def on_start(self) -> None:
            self.log.append(self.ctx.ref)
            await trio.lowlevel.checkpoint()
            raise Boom("the cause")

    async with loop_host.system() as system:
        log: list[Any] = []
        with pytest.raises(Boom) as caught:
            await system.spawn(Leaky, log)
        ref = log[0]
        with pytest.raises(rt.ActorStopped, match="the cause") as later:
            await ref.ask(Double(1))
        assert later.value.__cause__ is caught.value
        assert ref.tell(Note(1)).reason == "stopped"
        terminated = await (await system.watch(ref)).wait()
        assert terminated.reason == "start_failed" and terminated.error is caught.value


async def test_who_got_the_ref_of_an_actor_whose_constructor_failed_learns_the_cause_too(host: Host) -> None:
    refs: list[rt.Ref[Any]] = []

    class Leaky(host.plain):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            refs.append(self.ctx.ref)
            raise Boom("the cause")

    async with host.system() as system:
        with pytest.raises(Boom) as caught:
            await system.spawn(Leaky)
        with pytest.raises(rt.ActorStopped, match="the cause") as later:
            await refs[0].ask(Double(1))
        assert later.value.__cause__ is caught.value


async def test_wrong_arguments_are_a_type_error_at_the_spawn(host: Host) -> None:
    class Bare(rt.Actor, blocking=host.blocking):
        @rt.handler
        def note(self, _: Note) -> None:
            pass

    async with host.system() as system:
        for arguments, keywords in (((1, 2, 3, 4, 5), {}), ((), {"unknown": 1})):
            with pytest.raises(TypeError):
                await system.spawn(host.plain, *arguments, **keywords)
            with pytest.raises(TypeError):
                await system.spawn(Bare, *arguments, **keywords)
        assert system.actors() == []


class Abstract(rt.Actor, abc.ABC):
    @abc.abstractmethod
    def needed(self) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (Plain(), "not an instance"),
        (rt.Actor, "not rt.Actor itself"),
        (Abstract, "is abstract: it lacks needed"),
        (int, "a class derived from rt.Actor"),
        (lambda: Plain(), "a class derived from rt.Actor"),
        (None, "a class derived from rt.Actor"),
        ("Plain", "a class derived from rt.Actor"),
        (5, "a class derived from rt.Actor"),
        ([], "a class derived from rt.Actor"),
        (Note, "a class derived from rt.Actor"),
    ],
    ids=steady,
)
async def test_what_is_no_actor_class_cannot_be_spawned(wrong: Any, text: str) -> None:
    async with rt.ActorSystem() as system:
        with pytest.raises(rt.DefinitionError, match=text):
            await system.spawn(wrong)
        assert system.actors() == []


# -- names -----------------------------------------------------------------------------------------------------------------------------------------


async def test_a_named_actor_has_its_path_and_an_unnamed_one_its_class_and_a_number(host: Host) -> None:
    async with host.system() as system:
        assert (await system.spawn(host.plain, name="ada")).path == "/user/ada"
        paths = {(await system.spawn(host.plain)).path for _ in range(3)}
        assert len(paths) == 3
        assert all(path.startswith(f"/user/{host.plain.__name__}-") for path in paths)


async def test_a_name_is_unique_among_the_living(host: Host) -> None:
    async with host.system() as system:
        first = await system.spawn(host.plain, name="ada")
        with pytest.raises(rt.NameTaken, match="/user/ada is alive already"):
            await system.spawn(host.plain, name="ada")
        assert await first.ask(Double(1)) == 2
        await first.stop()
        second = await system.spawn(host.plain, name="ada")
        assert second != first and second.path == first.path
        assert await second.ask(Double(1)) == 2
        with pytest.raises(rt.ActorStopped):  # the stale ref does not reach its successor
            await first.ask(Double(1))


@pytest.mark.parametrize(
    "name", ["", "a/b", "/", "..", ".hidden", "-dash", "a b", "ä", "x" * 129, "a\n", 5, b"a", object(), ["a"]], ids=steady
)
async def test_an_illegal_name_is_refused_with_the_rule(name: Any) -> None:
    async with rt.ActorSystem() as system:
        with pytest.raises(rt.DefinitionError, match="name="):
            await system.spawn(Plain, name=name)
        assert system.actors() == []


@pytest.mark.parametrize("name", ["a", "A", "0", "_", "user-1", "a.b@c:d~e+f-g", "x" * 128])
async def test_a_legal_name_is_taken_as_it_is(name: str) -> None:
    async with rt.ActorSystem() as system:
        ref = await system.spawn(Plain, name=name)
        assert ref.path == f"/user/{name}"
        assert system.registry.get(ref.path) == ref


async def test_a_name_cannot_pretend_to_be_an_unnamed_actor(loop_host: Host) -> None:
    async with loop_host.system() as system:
        unnamed = await system.spawn(loop_host.plain)
        word, _, number = unnamed.path.removeprefix("/user/").rpartition("-")
        with pytest.raises(rt.NameTaken):
            await system.spawn(loop_host.plain, name=f"{word}-{number}")
        named = await system.spawn(loop_host.plain, name=f"{word}-{int(number) + 1}")
        later = [await system.spawn(loop_host.plain) for _ in range(3)]
        assert len({ref.path for ref in (unnamed, named, *later)}) == 5
        assert all(system.registry.get(ref.path) == ref for ref in (unnamed, named, *later))


async def test_a_name_is_free_in_the_step_in_which_its_actor_ends(loop_host: Host) -> None:
    async with loop_host.system() as system:
        for number in range(300):
            ref = await system.spawn(loop_host.plain, name="again")
            assert system.registry.get("/user/again") == ref
            if number % 2:
                watch = await system.watch(ref)
                await ref.stop()
                assert watch.terminated is not None
            else:
                await ref.stop()
            assert system.registry.get("/user/again") is None
        assert conserved(system)


async def test_children_of_different_parents_may_have_the_same_name(loop_host: Host) -> None:
    class Parent(Plain):
        async def on_start(self) -> None:
            await self.ctx.spawn(Plain, name="child")

    async with loop_host.system() as system:
        parents = [await system.spawn(Parent, name=word) for word in "ab"]
        assert [system.registry.get(f"{parent.path}/child") is not None for parent in parents] == [True, True]


# -- mail during the start ---------------------------------------------------------------------------------------------------------------------------


async def test_mail_that_comes_during_the_start_waits_for_its_end(loop_host: Host) -> None:
    refs: list[rt.Ref[Any]] = []

    class Opening(Plain):
        async def on_start(self) -> None:
            assert self.latch is not None
            refs.append(self.ctx.ref)
            self.ctx.ref.tell(Note(0))
            await self.latch.wait()
            self.log.append("started")

    async with loop_host.system() as system:
        log: list[Any] = []
        latch = Latch()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(system.spawn, Opening, log, latch)
            await latch.until(entered=1)
            refs[0].tell(Note(1))
            nursery.start_soon(refs[0].ask, Note(2))
            await wait_all_tasks_blocked()
            assert log == []
            latch.open()
        assert log == ["started", 0, 1, 2]
        assert conserved(system)


async def test_mail_for_an_actor_that_fails_to_start_becomes_dead_letters_and_its_askers_are_told(loop_host: Host) -> None:
    refs: list[rt.Ref[Any]] = []

    class Opening(Plain):
        async def on_start(self) -> None:
            assert self.latch is not None
            refs.append(self.ctx.ref)
            await self.latch.wait()
            raise Boom

    async def spawn() -> None:
        with pytest.raises(Boom):
            await system.spawn(Opening, None, latch)

    async def ask() -> None:
        with pytest.raises(rt.ActorStopped):
            await refs[0].ask(Double(1))

    async with loop_host.system() as system:
        latch = Latch()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spawn)
            await latch.until(entered=1)
            refs[0].tell(Note(1))
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            latch.open()
        assert reasons(system) == {"stopped": 2}
        assert conserved(system)


async def test_a_start_may_ask_others(loop_host: Host) -> None:
    class Asking(Plain):
        def __init__(self, log: list[Any], other: rt.Ref[Any]) -> None:
            super().__init__(log)
            self.other = other

        async def on_start(self) -> None:
            self.log.append(await self.other.ask(Double(4)))

    async with loop_host.system() as system:
        log: list[Any] = []
        await system.spawn(Asking, log, await system.spawn(loop_host.plain))
        assert log == [8]


async def test_a_start_that_asks_its_own_actor_is_told_at_once(loop_host: Host) -> None:
    class Narcissus(Plain):
        async def on_start(self) -> None:
            await self.ctx.ref.ask(Double(1))

    async with loop_host.system() as system:
        with pytest.raises(rt.AskCycle):
            await system.spawn(Narcissus)
        assert system.actors() == []
        assert conserved(system)


# -- cancelled spawns --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(14))
async def test_a_spawn_that_is_cancelled_at_any_step_is_done_or_undone(loop_host: Host, steps: int) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        spawned: list[rt.Ref[Any]] = []
        scope = trio.CancelScope()

        async def spawn() -> None:
            with scope:
                spawned.append(await system.spawn(Slow, log, name="slow"))

        async def cancel() -> None:
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(spawn)
            nursery.start_soon(cancel)
        await system.wait_quiet()
        await wait_all_tasks_blocked()
        if spawned:
            assert await spawned[0].ask(Double(1)) == 2
            await spawned[0].stop()
        assert system.actors() == []
        assert log.count("task starts") == log.count("task ends")
        assert ("started" in log) == ("stop: stopped" in log) or not spawned
        assert reasons(system) == {}
        await system.spawn(Plain, name="slow")  # nothing holds the name
        assert conserved(system)


async def test_a_spawn_that_is_cancelled_before_it_began_starts_nothing(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        with trio.CancelScope() as scope:
            scope.cancel()
            await system.spawn(Slow, log)
        assert scope.cancelled_caught
        await system.wait_quiet()
        await wait_all_tasks_blocked()
        assert log == []
        assert system.actors() == []
        assert reasons(system) == {}
        assert conserved(system)


async def test_a_start_that_ignores_its_cancellation_is_undone_when_it_ends(loop_host: Host, autojump_clock: MockClock) -> None:
    class Stubborn(Plain):
        async def on_start(self) -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)
            self.log.append("started anyway")

    async with loop_host.system() as system:
        log: list[Any] = []
        with trio.move_on_after(1) as scope:
            await system.spawn(Stubborn, log)
        assert scope.cancelled_caught
        await trio.sleep(20)
        assert log == ["started anyway"]
        assert system.actors() == []


# -- children ----------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Hire(rt.Request[rt.Ref]):  # type: ignore[type-arg]
    word: str
    fails: bool = False


class Boss(Plain):
    @rt.handler
    async def hire(self, message: Hire) -> rt.Ref:  # type: ignore[type-arg]
        return await self.ctx.spawn(Failing if message.fails else Plain, name=message.word)


class Failing(Plain):
    def on_start(self) -> None:
        raise Boom("does not start")


async def test_a_handler_spawns_children_of_its_actor(loop_host: Host) -> None:
    family: list[Any] = []

    class Observant(Boss):
        @rt.handler
        def double(self, message: Double) -> int:
            family.extend([self.ctx.parent, self.ctx.children, self.ctx.ref, self.ctx.path])
            return 0

    async with loop_host.system() as system:
        boss = await system.spawn(Observant, name="boss")
        first = await boss.ask(Hire("first"))
        second = await boss.ask(Hire("second"))
        assert (first.path, second.path) == ("/user/boss/first", "/user/boss/second")
        assert await first.ask(Double(1)) == 2
        await boss.ask(Double(1))
        assert family == [None, (first, second), boss, "/user/boss"]


async def test_the_error_of_a_childs_start_is_raised_in_the_handler_that_spawned_it(loop_host: Host) -> None:
    async with loop_host.system() as system:
        boss = await system.spawn(Boss, name="boss")
        with pytest.raises(Boom, match="does not start"):
            await boss.ask(Hire("child", fails=True))
        assert system.registry.get("/user/boss/child") is None
        assert conserved(system)


async def test_a_childs_name_must_be_free_and_legal_too(loop_host: Host) -> None:
    async with loop_host.system() as system:
        boss = await system.spawn(Boss)
        await boss.ask(Hire("taken"))
        with pytest.raises(rt.NameTaken):
            await boss.ask(Hire("taken"))
        boss = await system.spawn(Boss)
        with pytest.raises(rt.DefinitionError):
            await boss.ask(Hire("not/legal"))


async def test_a_start_that_hangs_does_not_keep_its_parent_from_stopping(loop_host: Host, autojump_clock: MockClock) -> None:
    log: list[Any] = []

    class Hanging(Plain):
        async def on_start(self) -> None:
            log.append("starting")
            await trio.sleep_forever()

    class Parent(Plain):
        def on_start(self) -> None:
            self.ctx.start_soon(self.hire)

        async def hire(self) -> None:
            try:
                log.append(await self.ctx.spawn(Hanging))
            except rt.ActorStopped:
                log.append("was stopped")
                raise

    async with loop_host.system() as system:
        parent = await system.spawn(Parent)
        await trio.sleep(1)
        began = trio.current_time()
        await parent.stop(grace=2)
        assert trio.current_time() - began == pytest.approx(2)
        assert log == ["starting", "was stopped"]
        assert system.statistics().actors == 0
        assert conserved(system)


async def test_a_spawn_ends_when_the_request_that_it_serves_is_cancelled(loop_host: Host) -> None:
    class Sleeping(Plain):
        async def on_start(self) -> None:
            self.log.append("starting")
            try:
                await trio.sleep_forever()
            finally:
                self.log.append("cancelled")

    log: list[Any] = []

    class Hirer(Plain):
        @rt.handler
        async def hire(self, message: Hire) -> rt.Ref:  # type: ignore[type-arg]
            return await self.ctx.spawn(Sleeping, log)

    async with loop_host.system() as system:
        boss = await system.spawn(Hirer)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(boss.ask, Hire("x"))
            await wait_all_tasks_blocked()
            assert log == ["starting"]
            nursery.cancel_scope.cancel()
        await system.wait_quiet()
        assert log == ["starting", "cancelled"]
        assert [actor.path for actor in system.actors()] == [boss.path]
        assert conserved(system)


# -- systems that cannot spawn ------------------------------------------------------------------------------------------------------------------------


async def test_a_system_that_has_not_started_or_has_ended_spawns_nothing(host: Host) -> None:
    system = host.system("early")
    with pytest.raises(rt.SystemClosed, match="'early'"):
        await system.spawn(host.plain)
    async with system:
        ref = await system.spawn(host.plain)
    with pytest.raises((rt.SystemClosed, rt.NoContext), match="'early'"):
        await system.spawn(host.plain)
    assert not ref.alive


async def test_an_actor_made_by_hand_says_how_to_spawn_it() -> None:
    with pytest.raises(rt.RetinueError, match=r"spawn it with `await system\.spawn\(Plain"):
        _ = Plain().ctx


async def test_thousands_of_actors_can_be_spawned_and_stopped(loop_host: Host) -> None:
    async with loop_host.system() as system:
        refs = [await system.spawn(Child, []) for _ in range(1000)] + [await system.spawn(Plain) for _ in range(4000)]
        assert system.statistics().actors == 5000
        assert len({ref.path for ref in refs}) == 5000
        for ref in refs[900:1100]:
            await ref.stop()
        assert system.statistics().actors == 4800
    assert not any(ref.alive for ref in refs)
    assert system.statistics().actors == 0


async def test_a_failed_actor_that_is_spawned_again_starts_afresh(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, name="once", supervision=rt.Supervision(restart="temporary"))
        watch = await system.watch(ref)
        ref.tell(Note(1))
        ref.tell(Break())
        await watch.wait()
        again = await system.spawn(host.plain, name="once")
        assert await again.ask(Notes()) == []
