"""What adopting builds on in pykka, some of it private: a release that changes it is seen here first."""

from __future__ import annotations

import queue
import sys
import threading
from typing import Any

import pykka
import pytest
from pykka._envelope import Envelope
from pykka.messages import ProxyCall

from pykka_program import Balance, Clerk, Do, Till
from quiet_threads import PATIENCE


class Recorder(pykka.Future[Any]):
    """As the runtime's own future: it holds nothing and waits for nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()

    def set(self, value: Any = None) -> None:
        self.calls.put(("set", value, threading.current_thread()))

    def set_exception(self, exc_info: Any = None) -> None:
        self.calls.put(("set_exception", exc_info or sys.exc_info(), threading.current_thread()))

    def next(self) -> tuple[str, Any, Any]:
        return self.calls.get(timeout=PATIENCE)


@pytest.fixture
def actor() -> Any:
    reference = Till.start()
    yield reference
    reference.stop(timeout=PATIENCE)


def send(actor: Any, message: Any) -> Recorder:
    reply = Recorder()
    actor.actor_inbox.put(Envelope(message, reply_to=reply))
    return reply


def test_an_envelope_carries_a_future_of_another_kind_to_the_actors_thread(actor: Any) -> None:
    kind, value, thread = send(actor, Balance()).next()
    assert (kind, value) == ("set", 0)
    assert thread is not threading.current_thread()


def test_an_exception_is_told_while_it_is_the_current_one_and_the_actor_lives_on(actor: Any) -> None:
    kind, (raised, error, traceback), _ = send(actor, Do(lambda _: {}["missing"])).next()
    assert (kind, raised) == ("set_exception", KeyError)
    assert isinstance(error, KeyError) and traceback is not None
    assert actor.is_alive()


def test_an_exit_is_told_to_nobody_and_ends_every_actor_of_the_process(actor: Any) -> None:
    other = Till.start()

    def leave(_: Any) -> None:
        raise SystemExit(1)

    reply = send(actor, Do(leave))
    assert actor.actor_stopped.wait(PATIENCE)
    assert other.actor_stopped.wait(PATIENCE)
    with pytest.raises(queue.Empty):
        reply.calls.get(timeout=0.05)


def test_what_waits_at_its_end_is_answered_with_an_actor_dead_error_after_the_event(actor: Any) -> None:
    gate, leaving = threading.Event(), threading.Event()
    send(actor, Do(lambda till: (till.stop(), leaving.set(), gate.wait(PATIENCE))))
    assert leaving.wait(PATIENCE)
    reply = send(actor, Balance())
    gate.set()
    kind, (raised, error, _), _ = reply.next()
    assert (kind, raised) == ("set_exception", pykka.ActorDeadError)
    assert isinstance(error, pykka.ActorDeadError)
    assert actor.actor_stopped.is_set() and not actor.is_alive()


def test_a_proxy_call_is_a_public_message_with_named_arguments() -> None:
    clerk = Clerk.start()
    try:
        assert ProxyCall._fields == ("attr_path", "args", "kwargs")
        assert send(clerk, ProxyCall(attr_path=("deposit",), args=(), kwargs={"cents": 3})).next()[:2] == ("set", 3)
    finally:
        clerk.stop(timeout=PATIENCE)


def test_refs_and_proxies_say_what_they_stand_for(actor: Any) -> None:
    assert actor.actor_class is Till
    assert isinstance(actor, pykka.ActorRef)
    assert actor.proxy().actor_ref is actor
    assert isinstance(actor.proxy(), pykka.ActorProxy)
    assert getattr(actor.actor_inbox, "maxsize", 0) == 0
    assert Clerk.on_receive is pykka.Actor.on_receive
    assert isinstance(actor.actor_stopped, threading.Event)


def test_a_stop_without_waiting_returns_at_once(actor: Any) -> None:
    gate = threading.Event()
    send(actor, Do(lambda _: gate.wait(PATIENCE)))
    assert isinstance(actor.stop(block=False), pykka.Future)
    assert actor.is_alive()
    gate.set()
