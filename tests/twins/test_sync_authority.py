"""`retinue.sync`: who acts, and what refs become on their way."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from quiet_threads import PATIENCE, open_after
from retinue.sync import ActorSystem, Ref
from twin_actors import Blocking, Call, Carry, Count, Double, Hold, Note, Who, Worker

# -- who acts ----------------------------------------------------------------------------------------------------------------------------------------


def test_a_script_acts_under_the_root_context_or_one_that_it_gives() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        assert worker.ask(Who()) == (None, "root", True)
        guest = system.authority.mint("guest", ["shop.**"])
        assert worker.ask(Who(), context=guest) == (None, "guest", False)
        assert worker.ask(Who(), context=guest, block=False).get() == (None, "guest", False)


def test_another_systems_context_is_forged() -> None:
    with ActorSystem("script") as system, ActorSystem("other") as other:
        worker = system.spawn(Worker)
        with pytest.raises(rt.ForgedContext):
            worker.tell(Note(1), context=other.authority.root)


USES = {
    "ask": lambda system, ref: ref.ask(Double(1)),
    "future": lambda system, ref: ref.ask(Double(1), block=False),
    "tell": lambda system, ref: ref.tell(Note(1)),
    "send": lambda system, ref: ref.send(Note(1)),
    "stream": lambda system, ref: ref.stream(Count(1)),
    "stop actor": lambda system, ref: ref.stop(),
    "spawn": lambda system, ref: system.spawn(Worker),
    "watch": lambda system, ref: system.watch(ref),
    "statistics": lambda system, ref: system.statistics(),
    "stop": lambda system, ref: system.stop(),
    "names": lambda system, ref: system.registry.names(),
    "quiet": lambda system, ref: system.wait_quiet(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", [Worker, Blocking])
def test_in_a_handler_the_twin_is_refused_at_once(use: str, kind: type[rt.Actor]) -> None:
    with ActorSystem("script") as system:
        other, actor = system.spawn(Worker), system.spawn(kind)
        function = USES[use]
        with pytest.raises(rt.WrongThread, match=r"in a handler|in the thread that runs"):
            actor.ask(Call(lambda _: function(system, other)))


def test_a_future_is_not_waited_for_in_a_handler() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("script") as system:
        worker, other = system.spawn(Worker), system.spawn(Worker)
        future = other.ask(Hold(gate, 4), block=False)
        with pytest.raises(rt.WrongThread, match="would wait for itself"):
            worker.ask(Call(lambda _: future.get()))
        gate.set()
        assert future.get(timeout=PATIENCE) == 4
        assert worker.ask(Call(lambda _: future.get())) == 4  # it is there: nothing to wait for


def test_another_systems_handler_has_no_authority_here() -> None:
    with ActorSystem("script") as system, ActorSystem("other") as other:
        worker, stranger = system.spawn(Worker), other.spawn(Blocking)
        with pytest.raises(rt.NoContext):
            stranger.ask(Call(lambda _: worker.ask(Double(1))))
        with pytest.raises(rt.NoContext):
            stranger.ask(Call(lambda _: system.spawn(Worker)))
        guest = system.authority.mint("guest", ["shop.**"])
        assert stranger.ask(Call(lambda _: worker.ask(Who(), context=guest)))[1] == "guest"


def test_a_thread_that_trio_starts_in_a_handler_has_no_authority() -> None:
    class Delegating(rt.Actor):
        @rt.handler
        async def call(self, message: Call) -> Any:
            return await trio.to_thread.run_sync(message.function, self)

    with ActorSystem("script") as system:
        worker, delegating = system.spawn(Worker), system.spawn(Delegating)
        with pytest.raises(rt.NoContext):
            delegating.ask(Call(lambda _: worker.ask(Double(1))))


# -- refs --------------------------------------------------------------------------------------------------------------------------------------------


def test_refs_are_equal_if_they_address_the_same_actor() -> None:
    with ActorSystem("script") as system:
        worker, other = system.spawn(Worker, name="worker"), system.spawn(Worker)
        again = system.registry.get("/user/worker")
        assert again == worker
        assert hash(again) == hash(worker)
        assert again is not worker
        assert worker != other
        assert worker != "worker"
        assert repr(worker) == "<Ref /user/worker (Worker)>"
        assert worker.alive


def test_a_ref_arrives_as_a_core_ref_and_comes_back_as_a_twins() -> None:
    ends: list[Any] = []
    with ActorSystem("script") as system:
        friend = system.spawn(Worker, name="friend")
        worker = system.spawn(Worker, friend, ends=ends)
        assert worker.ask(Call(lambda actor: type(actor.friend))) is rt.Ref
        found = worker.ask(Carry(friend, [friend, {"deep": (friend, 1)}]))
        assert isinstance(found, Ref)
        assert found == friend
        assert worker.ask(Carry(friend), block=False).get() == friend
        assert worker.ask(Carry(friend.core)) == friend
        plain = [1, 2]
        worker.ask(Carry(None, plain))
    assert ends[0] == (friend.core, [friend.core, {"deep": (friend.core, 1)}])
    assert ends[-1][1] is plain  # what holds no ref is not copied


def test_a_ref_is_not_pickled() -> None:
    import pickle

    with ActorSystem("script") as system:
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(system.spawn(Worker))
