"""The twins adopt pykka actors, as the system on trio does."""

from __future__ import annotations

from collections.abc import Iterator

import pykka
import pytest

import retinue as rt
from pykka_program import MESSAGES, Balance, Deposit, Till
from quiet_threads import PATIENCE
from retinue import aio, sync
from twin_asyncio import under_asyncio


@pytest.fixture(autouse=True)
def _the_program_ends() -> Iterator[None]:
    yield
    pykka.ActorRegistry.stop_all(timeout=PATIENCE)


def test_a_plain_script_joins_and_gates_its_pykka_actors() -> None:
    actor = Till.start(3)
    with sync.ActorSystem("shop") as system:
        till = system.adopt(actor, messages=MESSAGES, requires={Deposit: "till.deposit"}, name="till")
        assert till.ask(Balance()) == 3
        with pytest.raises(rt.Denied):
            till.ask(Deposit(1), context=system.authority.mint("nobody", []))
        assert till.ask(Deposit(1), block=False).get(timeout=PATIENCE) == 4
        watch = system.watch(till)
        actor.stop()
        assert watch.wait(timeout=PATIENCE).reason == "stopped"
        with pytest.raises(rt.ActorStopped):
            system.adopt(actor, messages=MESSAGES)


@under_asyncio
async def test_a_program_under_asyncio_does_too() -> None:
    async with aio.ActorSystem("shop") as system:
        till = await system.adopt(Till.start(3), messages=MESSAGES, name="till")
        assert await till.ask(Deposit(1)) == 4
        with pytest.raises(rt.DefinitionError):
            await system.adopt(None, messages=MESSAGES)  # type: ignore[arg-type]
