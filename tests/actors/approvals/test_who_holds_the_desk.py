"""Only who holds the system is at its desk: code of a handler is not, wherever it goes on, and whatever context it leaves behind."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import retinue as rt
from approval_bank import Bank, Pay, alice_of, request_for, system_on

Decide = Callable[[], Awaitable[Any]]


async def in_a_system_task(decide: Decide) -> None:
    over = trio.Event()

    async def run() -> None:
        await decide()
        over.set()

    trio.lowlevel.spawn_system_task(run)
    await over.wait()


async def in_a_system_task_with_an_empty_context(decide: Decide) -> None:
    over = trio.Event()

    async def run() -> None:
        await decide()
        over.set()

    trio.lowlevel.spawn_system_task(run, context=contextvars.Context())
    await over.wait()


async def in_a_thread_of_its_own_that_comes_back(decide: Decide) -> None:
    token = trio.lowlevel.current_trio_token()
    thread = threading.Thread(target=lambda: trio.from_thread.run(decide, trio_token=token))
    thread.start()
    while thread.is_alive():
        await trio.sleep(0.01)


async def in_a_nursery(decide: Decide) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(decide)


async def in_a_worker_thread_that_comes_back(decide: Decide) -> None:
    await trio.to_thread.run_sync(trio.from_thread.run, decide)


async def in_the_handler(decide: Decide) -> None:
    await decide()


WAYS: list[Callable[[Decide], Awaitable[None]]] = [
    in_the_handler,
    in_a_nursery,
    in_a_system_task,
    in_a_system_task_with_an_empty_context,
    in_a_thread_of_its_own_that_comes_back,
    in_a_worker_thread_that_comes_back,
]


@rt.message
class Go(rt.Request[str]):
    pass


@pytest.mark.parametrize("way", WAYS)
async def test_code_of_a_handler_decides_nothing_wherever_it_goes_on(way: Callable[[Decide], Awaitable[None]]) -> None:
    found: list[Any] = []
    async with system_on() as system:
        bank = await system.spawn(Bank, [], name="bank")
        request = await request_for(bank, Pay("ACME", 40), alice_of(system))

        async def decide() -> None:
            for act in (
                lambda: system.approvals.approve(request.id, reviewer="bob"),
                lambda: system.approvals.always_allow("**", reviewer="bob", subject=None, expires_seconds=60, open=True),
                lambda: system.approvals.get(request.id),
            ):
                try:
                    found.append(await act())
                except rt.RetinueError as error:
                    found.append(error)

        class Agent(rt.Actor):
            @rt.handler
            async def go(self, message: Go) -> str:
                await way(decide)
                return "gone"

        agent = await system.spawn(Agent)
        await agent.ask(Go())
        assert len(found) == 3 and all(isinstance(one, rt.Denied | rt.NoContext) for one in found), found
        assert (await system.approvals.get(request.id)).status == "pending"


async def test_whoever_holds_the_system_decides_in_every_task_that_it_starts() -> None:
    async with system_on() as system:
        bank = await system.spawn(Bank, [], name="bank")
        alice = alice_of(system)
        requests = [await request_for(bank, Pay("ACME", amount), alice) for amount in range(3)]
        decided: list[str] = []

        async def approve(request: rt.ApprovalRequest) -> None:
            decided.append(await system.approvals.approve(request.id, reviewer="bob"))

        await approve(requests[0])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(approve, requests[1])
        await trio.to_thread.run_sync(trio.from_thread.run, approve, requests[2])
        assert len(decided) == 3
