"""A pykka program as it might be before it meets a system: its actors, and the messages that they are adopted with."""

from __future__ import annotations

import threading
from typing import Any

import pykka

import retinue as rt
from quiet_threads import PATIENCE


@rt.message
class Deposit(rt.Request[int]):
    cents: int


@rt.message
class Balance(rt.Request[int]):
    pass


@rt.message
class Do(rt.Request[Any]):
    """Call a function with the pykka actor, in its thread."""

    function: Any


@rt.message
class Note(rt.Message):
    text: str


class Till(pykka.ThreadingActor):
    """An actor of the kind that looks at what it receives."""

    use_daemon_thread = True

    def __init__(self, cents: int = 0) -> None:
        super().__init__()
        self.cents = cents
        self.received: list[Any] = []

    def on_receive(self, message: Any) -> Any:
        self.received.append(message)
        if isinstance(message, Deposit):
            self.cents += message.cents
            return self.cents
        if isinstance(message, Balance):
            return self.cents
        if isinstance(message, Do):
            return message.function(self)
        return None


class Clerk(pykka.ThreadingActor):
    """An actor of the kind that is used through a proxy."""

    use_daemon_thread = True

    def __init__(self) -> None:
        super().__init__()
        self.cents = 0

    def deposit(self, cents: int) -> int:
        self.cents += cents
        return self.cents

    def balance(self) -> int:
        return self.cents

    def _secret(self) -> int:
        return -1


MESSAGES = (Deposit, Balance, Do, Note, rt.PykkaMessage)


def waits_for(gate: threading.Event) -> Do:
    """Keeps the pykka actor's thread until the event is set."""
    return Do(lambda _: gate.wait(PATIENCE))
