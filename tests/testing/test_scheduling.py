"""`deterministic`: the same seed gives the same order of trio's tasks, and with `ActorSystem(seed=)` of turns."""

from __future__ import annotations

import warnings

import pytest
import trio
import trio._core._run

import retinue as rt
from core_actors import Note, Plain
from retinue.testing import deterministic


def order_of_tasks(seed: int) -> list[int]:
    order: list[int] = []

    async def task(number: int) -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            order.append(number)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(task, number)

    with deterministic(seed) as works:
        assert works
        trio.run(main)
    return order


def order_of_turns(seed: int) -> list[object]:
    log: list[object] = []

    class Member(Plain):
        @rt.handler
        async def note(self, message: Note) -> None:
            await trio.lowlevel.checkpoint()
            log.append((self.ctx.path, message.number))

    async def main() -> None:
        async with rt.ActorSystem(seed=seed) as system:
            members = [await system.spawn(Member, name=f"m{number}") for number in range(5)]
            for number in range(3):
                for member in members:
                    member.tell(Note(number))
            await system.wait_quiet()

    with deterministic(seed):
        trio.run(main)
    return log


def test_the_same_seed_gives_the_same_order_of_tasks_and_others_give_others():
    assert all(order_of_tasks(seed) == order_of_tasks(seed) for seed in range(5))
    assert len({tuple(order_of_tasks(seed)) for seed in range(10)}) > 5


def test_the_same_seed_gives_the_same_order_of_turns_and_tasks():
    assert all(order_of_turns(seed) == order_of_turns(seed) for seed in range(5))
    assert len({tuple(order_of_turns(seed)) for seed in range(10)}) > 5


def test_what_it_seeded_is_put_back():
    run = trio._core._run
    before = run._r.getstate(), run._ALLOW_DETERMINISTIC_SCHEDULING
    with pytest.raises(ZeroDivisionError), deterministic(1):
        run._r.random()
        raise ZeroDivisionError
    assert (run._r.getstate(), run._ALLOW_DETERMINISTIC_SCHEDULING) == before


def test_a_trio_without_its_generator_leaves_the_order_random_with_a_warning(monkeypatch):
    monkeypatch.delattr(trio._core._run, "_r")
    with pytest.warns(RuntimeWarning, match="stays random"), deterministic(1) as works:
        assert not works
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.undo()
        with deterministic(1) as works:
            assert works


@pytest.mark.parametrize("seed", [None, 1.5, True, "1"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(rt.DefinitionError, match="whole number"), deterministic(seed):
        pass
