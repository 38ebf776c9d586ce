"""Blocking actors: constructor, hooks and handlers in a thread of their own, everything else as for any actor."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import pykka
import pytest
import trio

import retinue as rt
from quiet_threads import PATIENCE, open_after


@rt.message
class Where(rt.Request[threading.Thread]):
    """Which thread handles this?"""


@rt.message
class Add(rt.Request[int]):
    number: int


@rt.message
class Fail(rt.Request[int]):
    error: BaseException


@rt.message
class Wait(rt.Request[bool]):
    gate: threading.Event


@rt.message
class Meet(rt.Request[int]):
    barrier: threading.Barrier


@rt.message
class Call(rt.Request[Any]):
    """Call a function with the actor."""

    function: Any


class Worker(rt.Actor, blocking=True):
    def __init__(self, seen: list[Any] | None = None) -> None:
        self.seen = [] if seen is None else seen
        self.total = 0
        self.seen.append(("constructor", threading.current_thread()))

    def on_start(self) -> None:
        self.seen.append(("on_start", threading.current_thread()))

    def on_stop(self, reason: Any) -> None:
        self.seen.append((f"on_stop {reason}", threading.current_thread()))

    @rt.handler
    def where(self, _: Where) -> threading.Thread:
        return threading.current_thread()

    @rt.handler
    def add(self, message: Add) -> int:
        self.total += message.number
        self.seen.append(message.number)
        return self.total

    @rt.handler
    def fail(self, message: Fail) -> int:
        raise message.error

    @rt.handler
    def wait(self, message: Wait) -> bool:
        return message.gate.wait(PATIENCE)

    @rt.handler
    def meet(self, message: Meet) -> int:
        return message.barrier.wait(PATIENCE)

    @rt.handler
    def call(self, message: Call) -> Any:
        return message.function(self)


class Quick(rt.Actor):
    def __init__(self, seen: list[Any] | None = None) -> None:
        self.seen = [] if seen is None else seen

    @rt.handler
    def add(self, message: Add) -> int:
        self.seen.append((message.number, self.ctx.sender, self.ctx.security))
        return message.number


async def test_constructor_hooks_and_handlers_run_in_one_thread_that_is_not_the_loops() -> None:
    seen: list[Any] = []
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker, seen, name="worker")
        thread = await worker.ask(Where())
    assert [what for what, _ in seen] == ["constructor", "on_start", "on_stop system_closed"]
    assert {found for _, found in seen} == {thread}
    assert thread is not threading.current_thread()
    assert thread.name == "retinue /user/worker"
    assert thread.daemon


async def test_the_loop_goes_on_while_a_handler_blocks() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem("threads") as system:
        worker, quick = await system.spawn(Worker), await system.spawn(Quick)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.ask, Wait(gate))
            await trio.testing.wait_all_tasks_blocked()
            assert await quick.ask(Add(3)) == 3
            quick.tell(Add(4))
            await trio.testing.wait_all_tasks_blocked()
            assert quick._cell.handled == 2  # by a worker of the scheduler: the one that waits for the thread is not the only one
            gate.set()


async def test_blocking_actors_run_beside_each_other() -> None:
    barrier = threading.Barrier(4)
    places: list[int] = []
    async with rt.ActorSystem("threads") as system:
        workers = [await system.spawn(Worker) for _ in range(4)]

        async def ask(ref: rt.Ref[Worker]) -> None:
            places.append(await ref.ask(Meet(barrier)))

        async with trio.open_nursery() as nursery:
            for worker in workers:
                nursery.start_soon(ask, worker)
    assert sorted(places) == [0, 1, 2, 3]


async def test_messages_are_handled_one_at_a_time_in_the_order_they_were_sent() -> None:
    seen: list[Any] = []
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker, seen)
        for number in range(200):
            assert worker.tell(Add(number)).accepted
        assert await worker.ask(Add(200)) == sum(range(201))
        counts = system.statistics()
    assert [number for number in seen if isinstance(number, int)] == list(range(201))
    assert (counts.sent, counts.handled, counts.queued) == (201, 201, 0)


async def test_a_failure_restarts_the_actor_in_a_new_thread_under_the_same_ref() -> None:
    seen: list[Any] = []
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker, seen)
        first = await worker.ask(Where())
        assert await worker.ask(Add(5)) == 5
        error = LookupError("broken")
        with pytest.raises(LookupError, match="broken") as caught:
            await worker.ask(Fail(error))
        assert caught.value is error
        assert "fail" in [entry.name for entry in caught.traceback]  # the handler's own frame
        assert await worker.ask(Add(1)) == 1
        second = await worker.ask(Where())
    assert second is not first
    assert not first.is_alive()
    assert [what for what, _ in (entry for entry in seen if isinstance(entry, tuple))] == [
        "constructor",
        "on_start",
        "on_stop restart",
        "constructor",
        "on_start",
        "on_stop system_closed",
    ]
    assert ("on_stop restart", first) in seen


class Unstartable(rt.Actor, blocking=True):
    def __init__(self, where: str) -> None:
        self.where = where
        if where == "constructor":
            raise LookupError("no constructor today")

    def on_start(self) -> None:
        if self.where == "on_start":
            raise LookupError("no start today")


@pytest.mark.parametrize("where", ["constructor", "on_start"])
async def test_an_error_of_the_start_is_raised_to_the_spawner_and_nothing_is_left(where: str) -> None:
    async with rt.ActorSystem("threads") as system:
        with pytest.raises(LookupError, match="today"):
            await system.spawn(Unstartable, where, name="x")
        assert not [thread for thread in threading.enumerate() if thread.name == "retinue /user/x"]
        assert system.actors() == []
        assert (await system.spawn(Unstartable, "", name="x")).path == "/user/x"


async def test_a_machine_without_threads_fails_the_spawn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rt.ActorSystem("threads") as system:
        with monkeypatch.context() as patch:

            def start(_: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            patch.setattr(threading.Thread, "start", start)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await system.spawn(Worker)
        assert pykka.ActorRegistry.get_all() == []
        assert await (await system.spawn(Worker)).ask(Add(1)) == 1


class Neighbour(pykka.ThreadingActor):
    """Somebody else's pykka actor in the same process."""

    use_daemon_thread = True

    def on_receive(self, message: Any) -> Any:
        return message


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_a_fatal_error_in_a_handler_ends_its_system_and_nobody_elses_pykka_actors(kind: type[BaseException]) -> None:
    neighbour = Neighbour.start()
    try:
        async with rt.ActorSystem("other") as other:
            worker = await other.spawn(Worker)
            with pytest.raises(kind, match="out"):
                async with rt.ActorSystem("ending") as system:
                    with pytest.raises(rt.ActorStopped, match=kind.__name__):
                        await (await system.spawn(Worker)).ask(Fail(kind("out")))
                    await trio.sleep_forever()
            assert await worker.ask(Add(1)) == 1
        assert neighbour.ask("alive") == "alive"
    finally:
        neighbour.stop()


async def test_somebody_elses_stop_all_and_broadcast_do_not_reach_our_threads() -> None:
    neighbour = Neighbour.start()
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker)
        assert pykka.ActorRegistry.get_all() == [neighbour]
        pykka.ActorRegistry.broadcast("anybody there?")
        pykka.ActorRegistry.stop_all()
        assert await worker.ask(Add(2)) == 2


# -- deadlines -------------------------------------------------------------------------------------------------------------------------------------


async def test_a_time_out_resolves_at_the_deadline_while_the_handler_runs_on_and_its_answer_is_a_dead_letter() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker, name="worker")
        with pytest.raises(rt.AskTimeout, match=r"/user/worker did not answer Wait within 0\.05 s.*cannot be cancelled"):
            await worker.ask(Wait(gate), timeout=0.05)
        assert not gate.is_set()
        assert system.statistics().queued == 1  # it is still at it
        gate.set()
        assert await worker.ask(Add(1)) == 1  # the same incarnation goes on
        (letter,) = system.dead_letters.recent
        counts = system.statistics()
    assert (letter.reason, letter.message, letter.target) == ("late_reply", True, "/user/worker")
    assert counts.sent == counts.handled == 2


async def test_a_queued_request_that_times_out_is_withdrawn() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem("threads") as system:
        seen: list[Any] = []
        worker = await system.spawn(Worker, seen)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.ask, Wait(gate))
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(rt.AskTimeout, match="was not carried out"):
                await worker.ask(Add(7), timeout=0.05)
            gate.set()
        assert await worker.ask(Add(1)) == 1
    assert 7 not in seen


async def test_a_handler_whose_asker_was_cancelled_runs_on_and_the_actor_keeps_its_state() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker)
        await worker.ask(Add(10))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.ask, Wait(gate))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        gate.set()
        assert await worker.ask(Add(1)) == 11
        assert system.statistics().dead_letters_by_reason["late_reply"] == 1


# -- what a handler may do in its thread -------------------------------------------------------------------------------------------------------------


async def test_a_tell_from_the_thread_acts_under_the_turn() -> None:
    seen: list[Any] = []
    async with rt.ActorSystem("threads") as system:
        worker, quick = await system.spawn(Worker), await system.spawn(Quick, seen)
        narrow = system.authority.root.narrow(["shop.**"])
        receipt = await worker.ask(Call(lambda _: quick.tell(Add(1))), context=narrow)
        await system.wait_quiet()
    assert (receipt.accepted, receipt.reason) == (True, "handed_over")
    ((number, sender, security),) = seen
    assert (number, sender) == (1, worker)
    assert security.permissions == narrow.permissions


async def test_a_tell_of_a_wrong_type_raises_in_the_thread() -> None:
    async with rt.ActorSystem("threads") as system:
        worker, quick = await system.spawn(Worker), await system.spawn(Quick)
        with pytest.raises(rt.Unhandled, match="no handler for Where"):
            await worker.ask(Call(lambda _: quick.tell(Where())))


def in_a_thread(function: Any, *, with_context: bool) -> Any:
    """Run a function in a new thread and hand on what it returns or raises."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run if with_context else run, args=(run,) if with_context else ())
    thread.start()
    thread.join(PATIENCE)
    return outcome[0]


@pytest.mark.parametrize("with_context", [False, True])
async def test_a_thread_that_a_handler_starts_has_no_authority(with_context: bool) -> None:
    async with rt.ActorSystem("threads") as system:
        worker, quick = await system.spawn(Worker), await system.spawn(Quick)

        def start(_: Worker) -> Any:
            return in_a_thread(lambda: quick.tell(Add(1)), with_context=with_context)

        assert isinstance(await worker.ask(Call(start)), rt.NoContext)
        assert quick._cell.handled == 0


async def test_the_context_speaks_of_the_message_in_its_own_thread_only() -> None:
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker)
        message = Call(lambda actor: (actor.ctx.message, actor.ctx.sender, actor.ctx.path))
        assert await worker.ask(message) == (message, None, worker.path)
        foreign = Call(lambda actor: in_a_thread(lambda: actor.ctx.message, with_context=True))
        assert isinstance(await worker.ask(foreign), rt.NoContext)


async def test_context_variables_live_from_message_to_message() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker)
        await worker.ask(Call(lambda _: variable.set(7) and None))
        assert await worker.ask(Call(lambda _: variable.get())) == 7
        assert variable.get() == 0


async def test_the_system_view_works_in_the_thread() -> None:
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker)
        counts = await worker.ask(Call(lambda actor: actor.ctx.system.statistics()))
        assert (counts.sent, counts.handled, counts.queued, counts.actors) == (1, 0, 1, 1)


async def test_a_handler_can_stop_its_actor() -> None:
    seen: list[Any] = []
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker, seen)
        watch = await system.watch(worker)
        worker.tell(Call(lambda actor: actor.ctx.stop() and None))
        terminated = await watch.wait()
        assert (terminated.ref, terminated.reason) == (worker, "stopped")
        assert not worker.tell(Add(1)).accepted
    assert [what for what, _ in seen] == ["constructor", "on_start", "on_stop stopped"]


@pytest.mark.parametrize("what", ["forward", "defer", "start_soon"])
async def test_what_needs_the_loop_is_refused_in_the_thread(what: str) -> None:
    async with rt.ActorSystem("threads") as system:
        worker = await system.spawn(Worker)
        attempts = {
            "forward": lambda actor: actor.ctx.forward(worker, Add(1)),
            "defer": lambda actor: actor.ctx.defer(),
            "start_soon": lambda actor: actor.ctx.start_soon(trio.sleep, 0),
        }
        with pytest.raises(TypeError, match="a blocking actor"):
            await worker.ask(Call(attempts[what]))


async def test_a_coroutine_that_nobody_awaited_is_an_error_with_advice() -> None:
    async with rt.ActorSystem("threads") as system:
        worker, quick = await system.spawn(Worker), await system.spawn(Quick)
        with pytest.raises(TypeError, match=r"without an await.*self\.ctx\.ask\(ref, message\)"):
            await worker.ask(Call(lambda _: quick.ask(Add(1))))


class Watcher(rt.Actor, blocking=True):
    def __init__(self, other: rt.Ref[Any]) -> None:
        self.other = other
        self.ended: list[Any] = []
        self.put_aside = 0

    def on_start(self) -> None:
        self.ctx.watch(self.other)

    @rt.handler
    def ended_(self, message: rt.Terminated) -> None:
        self.ended.append(message.ref)

    @rt.handler
    def which(self, _: Where) -> Any:
        return self.ended

    @rt.handler
    def add(self, message: Add) -> int:
        if message.number and not self.put_aside:
            self.put_aside += 1
            self.ctx.stash()
            return -1
        if not message.number:
            return self.ctx.unstash_all()
        return message.number


async def test_a_blocking_actor_can_watch() -> None:
    async with rt.ActorSystem("threads") as system:
        quick = await system.spawn(Quick)
        watcher = await system.spawn(Watcher, quick)
        await quick.stop()
        assert await watcher.ask(Where()) == [quick]


async def test_a_blocking_actor_can_stash() -> None:
    answers: list[int] = []
    async with rt.ActorSystem("threads") as system:
        watcher = await system.spawn(Watcher, await system.spawn(Quick))

        async def ask(number: int) -> None:
            answers.append(await watcher.ask(Add(number)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 5)
            await trio.testing.wait_all_tasks_blocked()
            await system.wait_quiet()
            assert answers == []
            assert await watcher.ask(Add(0)) == 1
        counts = system.statistics()
    assert answers == [5]
    assert (counts.sent, counts.handled, counts.queued) == (3, 3, 0)
