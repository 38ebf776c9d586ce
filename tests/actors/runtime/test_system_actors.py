"""The household: actors that the system runs for itself. Nobody finds them, nothing of them is in the holder's books, and nothing that they do ends the system."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import retinue as rt
from core_authority import error_of
from core_hosts import conserved
from retinue.actors.runtime.current import Delivery, Roots, current


@rt.message
class Do(rt.Request[Any]):
    """Does what it says with the actor: no form of it goes over a wire."""

    script: Any


class Servant(rt.Actor):
    """An actor of the household; what it raises is a failure."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        log.append("begun")

    @rt.handler
    async def do(self, message: Do) -> Any:
        value = message.script(self)
        return await value if hasattr(value, "__await__") else value

    def on_stop(self, reason: rt.StopReason) -> None:
        self.log.append(str(reason))


class Child(rt.Actor, blocking=True):
    @rt.handler
    def do(self, message: Do) -> Any:
        return message.script(self)


class User(rt.Actor):
    @rt.handler
    async def do(self, message: Do) -> Any:
        return await message.script(self)


def fails(_: Any) -> None:
    raise ZeroDivisionError


def leaves(_: Any) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("options", [{}, {"strict": True}, {"loopback": True}, {"seed": 5}, {"events": 99}, {"permissions": []}], ids=str)
async def test_it_works_in_every_system_and_is_in_nobodys_books(options: dict[str, Any]) -> None:
    log: list[Any] = []
    async with rt.ActorSystem(**options) as system:
        kernel = system._kernel
        before = system.statistics()
        servant = await kernel.system_actor(Servant, log, name="servant")
        assert servant.path == "/system/servant"
        assert await kernel.consult(servant.ask, Do(lambda actor: actor.ctx.security.subject)) == "system"
        assert await kernel.consult(servant.ask, Do(_with_a_child)) == ("/system/servant/Child", "system")
        assert isinstance(
            await error_of(kernel.consult(servant.ask, Do(lambda actor: actor.ctx.system.find("/system/servant")))), rt.RetinueError | None
        )
        await system.wait_quiet()
        after = system.statistics()
        assert (after.sent, after.handled, after.spawned, after.stopped, after.actors) == (before.sent, 0, 0, 0, 0)
        assert system.actors() == [] and system.dead_letters.messages == 0
        assert system.events() == [] and await system.audit.entries(allowed=False) == ()
        assert [system.registry.get(path) for path in ("/system", "/system/servant", "servant")] == [None] * 3
        assert conserved(system)
    assert log == ["begun", "system_closed"]


async def _with_a_child(actor: Any) -> Any:
    child = await actor.ctx.spawn(Child, name="Child")
    found = await child.ask(Do(lambda one: (one.ctx.path, one.ctx.security.subject)))
    actor.ctx.ref.tell(Do(lambda _: None))
    return found


async def test_who_has_got_hold_of_a_ref_of_it_is_refused() -> None:
    async with rt.ActorSystem() as system:
        servant = await system._kernel.system_actor(Servant, [], name="servant")
        user = await system.spawn(User)
        for asking in (
            servant.ask(Do(lambda _: "reached")),
            servant.ask(Do(lambda _: "reached"), context=system.authority.mint("ada", ["**"])),
            user.ask(Do(lambda _: servant.ask(Do(lambda _: "reached")))),
        ):
            error = await error_of(asking)
            assert isinstance(error, rt.Denied) and "the system's own" in str(error)
        on_record = [(entry.subject, entry.path) for entry in await system.audit.entries(allowed=False)]
        assert on_record == [(who, "/system/servant") for who in ("root", "ada", "root")]
        servant.tell(Do(fails))
        await system.wait_quiet()
        assert await system._kernel.consult(servant.ask, Do(lambda actor: actor.log)) == ["begun"]


async def test_a_root_that_expires_or_is_narrow_does_not_bind_it(autojump_clock: MockClock) -> None:
    async with rt.ActorSystem(permissions=["fs.read", rt.expires(seconds=1), rt.limit(calls=1, depth=1)]) as system:
        await trio.sleep(5)
        servant = await system._kernel.system_actor(Servant, [], name="servant")
        for _ in range(3):
            assert await system._kernel.consult(servant.ask, Do(_with_a_grandchild)) is True


async def _with_a_grandchild(actor: Any) -> bool:
    child = await actor.ctx.spawn(Servant, [])
    return await child.ask(Do(lambda one: one.ctx.spawn(Servant, []))) is not None


async def test_its_failures_restart_it_without_end(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        kernel = system._kernel
        servant = await kernel.system_actor(Servant, log, name="servant")
        for _ in range(30):
            with pytest.raises(ZeroDivisionError):
                await kernel.consult(servant.ask, Do(fails))
        assert await kernel.consult(servant.ask, Do(lambda _: "alive")) == "alive"
    assert log.count("begun") == 31


@pytest.mark.parametrize("script", [leaves, lambda actor: actor.ctx.start_soon(_leaves)])
async def test_what_ends_a_system_does_not_end_it_from_here(script: Any, autojump_clock: MockClock) -> None:
    async with rt.ActorSystem() as system:
        kernel = system._kernel
        servant = await kernel.system_actor(Servant, [], name="servant")
        error = await error_of(kernel.consult(servant.ask, Do(script)))
        if script is leaves:
            assert isinstance(error, rt.ActorStopped) and isinstance(error.__cause__, SystemExit) and "whole system" not in str(error)
        await trio.sleep(1)
        assert await kernel.consult(servant.ask, Do(lambda _: "alive")) == "alive"
        assert kernel.fatal is None
        assert await (await system.spawn(User)).ask(Do(_alive)) == "alive"


async def _leaves() -> None:
    raise SystemExit(3)


async def _alive(_: Any) -> str:
    return "alive"


# -- consultations -----------------------------------------------------------------------------------------------------------------------------------------


async def test_a_consultation_runs_as_the_system_whoever_consults() -> None:
    found: list[Any] = []

    async def look() -> str:
        turn = current()
        found.append((turn.__class__, turn.security.subject if turn.__class__ is Delivery else None))
        await trio.lowlevel.checkpoint()
        return "seen"

    async with rt.ActorSystem() as system:
        kernel = system._kernel
        user = await system.spawn(User)
        bob = system.authority.mint("bob", [])
        assert await kernel.consult(look) == "seen"
        assert await user.ask(Do(lambda _: kernel.consult(look)), context=bob) == "seen"
        assert await user.ask(Do(lambda _: kernel.consult(look, holder=True)), context=bob) == "seen"
    assert found == [(Delivery, "system"), (Delivery, "system"), (Roots, None)]


async def test_a_consultation_mints_nothing_unless_the_holder_gave_it() -> None:
    async with rt.ActorSystem() as system:

        async def mint() -> str:
            return system.authority.mint("ada", ["**"]).subject

        with pytest.raises(rt.Denied):
            await system._kernel.consult(mint)
        assert await system._kernel.consult(mint, holder=True) == "ada"


async def test_a_consultation_ends_with_who_waits_for_it_and_what_it_raises_comes_through() -> None:
    async with rt.ActorSystem() as system:
        kernel = system._kernel
        ended: list[str] = []

        async def wait() -> None:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                ended.append("cancelled")
                raise

        async with trio.open_nursery() as nursery:
            nursery.start_soon(kernel.consult, wait)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await wait_all_tasks_blocked()
        assert ended == ["cancelled"]

        async def fail(error: BaseException) -> None:
            raise error

        with pytest.raises(ZeroDivisionError):
            await kernel.consult(fail, ZeroDivisionError())
        for fatal in (SystemExit(3), KeyboardInterrupt()):
            with pytest.raises(RuntimeError, match="ends nothing else") as caught:
                await kernel.consult(fail, fatal)
            assert caught.value.__cause__ is fatal
        with pytest.raises(rt.SystemClosed, match="has not started"):
            await rt.ActorSystem()._kernel.consult(wait)
        with pytest.raises(rt.WrongThread):
            await trio.to_thread.run_sync(lambda: kernel.consult(wait).send(None))


# -- the end -----------------------------------------------------------------------------------------------------------------------------------------------


async def test_it_ends_after_the_actors_of_the_holder_which_may_need_it_to_the_last() -> None:
    log: list[Any] = []

    class Last(rt.Actor):
        async def on_stop(self, _: rt.StopReason) -> None:
            log.append(await kernel.consult(servant.ask, Do(lambda _: "still there")))

    async with rt.ActorSystem() as system:
        kernel = system._kernel
        servant = await kernel.system_actor(Servant, log, name="servant")
        await system.spawn(Last)
    assert log == ["begun", "still there", "system_closed"]
    with pytest.raises(rt.SystemClosed):
        await kernel.consult(_alive, None)
    with pytest.raises(rt.SystemClosed):
        await kernel.system_actor(Servant, log, name="another")


async def test_what_is_to_be_noted_is_noted_before_the_end_but_not_for_ever(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    noted: list[Any] = []

    async def note(seconds: float) -> None:
        await trio.sleep(seconds)
        noted.append(seconds)

    began = trio.current_time()
    async with rt.ActorSystem() as system:
        system._kernel.household.note(note, 3)
        system._kernel.household.note(note, 1_000)
        assert not system._kernel.household.quiet
    assert noted == [3] and trio.current_time() - began == pytest.approx(10)
    with caplog.at_level(logging.WARNING):
        system._kernel.household.note(note, 1)
    assert "counts as unknown" in caplog.text


async def test_a_name_is_taken_once_and_a_start_that_fails_leaves_nothing() -> None:
    class Bad(rt.Actor):
        def __init__(self) -> None:
            raise ZeroDivisionError

    async with rt.ActorSystem() as system:
        kernel = system._kernel
        with pytest.raises(ZeroDivisionError):
            await kernel.system_actor(Bad, name="servant")
        await kernel.system_actor(Servant, [], name="servant")
        with pytest.raises(rt.NameTaken):
            await kernel.system_actor(Servant, [], name="servant")


async def test_a_hard_stop_ends_it_too(autojump_clock: MockClock) -> None:
    class Slow(Servant):
        async def on_stop(self, reason: rt.StopReason) -> None:
            self.log.append("stopping")
            await trio.sleep(1_000)

    log: list[Any] = []
    began = trio.current_time()
    async with rt.ActorSystem() as system:
        await system._kernel.system_actor(Slow, log, name="slow")
    assert log == ["begun", "stopping"]
    assert trio.current_time() - began < 30
