"""Turns that wait for the desk: whatever ends the turn ends the waiting, and what was spent by then is not run."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import retinue as rt
from consent_actors import WAYS, Plain, Shielded, Worker
from core_authority import error_of, tie_clock
from core_hosts import conserved
from core_puppet import Call
from fake_desk import FakeDesk, with_desk


@pytest.mark.parametrize("way", ["inline", "inline, async", "queued", "stream"])
@pytest.mark.parametrize("step", ["consider", "spend", "spent"])
async def test_an_asker_that_gives_up_while_the_desk_is_at_it(way: str, step: str, autojump_clock: MockClock) -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        limited = system.authority.mint("ada", ["work.**", rt.limit(calls=5)])
        token = desk.approve((await error_of(WAYS[way](worker, context=limited))).request)
        hold = desk.holds[step] = trio.Event()
        late: list[Any] = []

        async def ask() -> None:
            late.append(await error_of(WAYS[way](worker, context=limited, approvals=[token], timeout=3)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(4)
            if step != "consider":
                (balance,) = await system.budgets.balance(limited)
                assert balance.reserved.calls == 1, "the spending goes on, whoever has given up"
            hold.set()
        await system.wait_quiet()
        assert isinstance(late[0], rt.AskTimeout)
        assert log == []
        assert desk.outcomes == ({} if step == "consider" else {token: "not run"})
        (balance,) = await system.budgets.balance(limited)
        assert (balance.spent.calls, balance.reserved.calls) == (0, 0)
        desk.holds.clear()
        if step == "consider":
            await WAYS[way](worker, context=limited, approvals=[token])
            assert [jti for _, jti in log] == [token]
        assert conserved(system)


@pytest.mark.parametrize("step", ["consider", "spend"])
async def test_a_shielded_handler_is_not_begun_for_one_that_gave_up_before(step: str, autojump_clock: MockClock) -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        token = desk.approve((await error_of(worker.ask(Shielded()))).request)
        desk.holds[step] = trio.Event()
        assert isinstance(await error_of(worker.ask(Shielded(), approvals=[token], timeout=3)), rt.AskTimeout)
        desk.holds[step].set()
        await system.wait_quiet()
        assert log == [] and desk.spent == ([] if step == "consider" else [token])
        assert conserved(system)


async def test_one_that_is_detached_goes_on_without_its_asker(autojump_clock: MockClock) -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        token = desk.approve((await error_of(worker.ask(Plain()))).request)
        desk.holds["consider"] = trio.Event()
        assert isinstance(await error_of(worker.ask(Plain(), approvals=[token], timeout=3, detached=True)), rt.AskTimeout)
        desk.holds["consider"].set()
        await system.wait_quiet()
        assert log == [("plain", token)]


@pytest.mark.parametrize("step", ["consider", "spend"])
async def test_a_stop_of_the_actor_ends_the_wait_and_nothing_is_run(step: str, autojump_clock: MockClock) -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        token = desk.approve((await error_of(worker.ask(Plain()))).request)
        hold = desk.holds[step] = trio.Event()
        found: list[Any] = []

        async def ask() -> None:
            found.append(await error_of(worker.ask(Plain(), approvals=[token])))

        async def stop() -> None:
            await worker.stop(grace=2)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            nursery.start_soon(stop)
            await trio.sleep(3)
            hold.set()
        assert isinstance(found[0], rt.ActorStopped)
        assert log == [] and desk.outcomes == ({} if step == "consider" else {token: "not run"})
        assert conserved(system)


async def test_the_end_of_the_system_waits_for_outcomes_and_not_for_people(autojump_clock: MockClock) -> None:
    log: list[Any] = []
    found: list[Any] = []
    desk = FakeDesk()

    async def ask(worker: rt.Ref[Worker], text: str, token: str) -> None:
        found.append(await error_of(worker.ask(Plain(text), approvals=[token])))

    async with trio.open_nursery() as nursery:
        async with rt.ActorSystem(grace=2) as system:
            with_desk(system, desk)
            worker, other = await system.spawn(Worker, log), await system.spawn(Worker, log)
            token = desk.approve((await error_of(worker.ask(Plain("done")))).request)
            desk.holds["outcome"] = trio.Event()
            await ask(worker, "done", token)
            desk.holds["consider"] = trio.Event()
            nursery.start_soon(ask, other, "waits", "no token")
            await wait_all_tasks_blocked()
            nursery.start_soon(_later, 4, desk.holds["outcome"])
            began = trio.current_time()
        assert trio.current_time() - began == pytest.approx(4)
    assert found[0] == f"done by {token}" and isinstance(found[1], rt.ActorStopped)
    assert desk.outcomes == {token: "succeeded"}


async def _later(seconds: float, event: trio.Event) -> None:
    await trio.sleep(seconds)
    event.set()


async def test_the_authority_may_end_while_the_desk_considers(autojump_clock: MockClock) -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        tie_clock(system)
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        ada = system.authority.mint("ada", ["work.**", rt.expires(seconds=3)])
        bob = system.authority.mint("bob", ["work.**"])
        tokens = [desk.approve((await error_of(worker.ask(Plain(), context=context))).request) for context in (ada, bob)]
        desk.holds["consider"] = trio.Event()
        late = await error_of(worker.ask(Plain(), context=ada, approvals=tokens))
        assert isinstance(late, rt.AskTimeout) and isinstance(late.__cause__, rt.Expired)
        found: list[Any] = []

        async def ask() -> None:
            found.append(await error_of(worker.ask(Plain(), context=bob, approvals=tokens)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            system.authority.revoke(bob)
            desk.holds["consider"].set()
        assert isinstance(found[0], rt.Revoked)
        assert log == [] and desk.spent == []


async def test_racers_with_one_token_come_to_one_effect() -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        workers = [await system.spawn(Worker, log, name=name) for name in ("one", "two")]
        ada = system.authority.mint("ada", ["work.**", rt.limit(calls=40)])
        token = desk.approve((await error_of(workers[0].ask(Plain(), context=ada))).request)
        found: list[Any] = []

        async def race(worker: rt.Ref[Worker]) -> None:
            found.append(await error_of(worker.ask(Plain(), context=ada, approvals=[token])))

        async with trio.open_nursery() as nursery:
            for number in range(32):
                nursery.start_soon(race, workers[number % 2])
        assert [one for one in found if isinstance(one, str)] == [f"plain by {token}"]
        assert log == [("plain", token)]
        (balance,) = await system.budgets.balance(ada)
        assert (balance.spent.calls, balance.reserved.calls) == (1, 0)
        assert conserved(system)


async def test_a_desk_that_asks_the_waiting_actor_waits_for_the_askers_patience(autojump_clock: MockClock) -> None:
    """The desk works as the system, so it is no part of a ring that could be found; the asker's time-out ends it."""
    async with rt.ActorSystem() as system:
        worker = await system.spawn(Worker, [])

        class Curious(FakeDesk):
            async def consider(self, question: Any, approvals: Any) -> Any:
                return await worker.ask(Call(lambda _: None))

        with_desk(system, Curious())
        assert isinstance(await error_of(worker.ask(Plain(), timeout=3)), rt.AskTimeout)
        await system.wait_quiet()
        assert conserved(system)
