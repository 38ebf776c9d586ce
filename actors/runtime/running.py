"""`rt.run`: trio.run with Ctrl-C done right."""

from __future__ import annotations

import contextvars
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import trio

if TYPE_CHECKING:
    from retinue.actors.runtime.system import ActorSystem

__all__ = ["interrupts", "run"]

T = TypeVar("T")

_systems: contextvars.ContextVar[set[Any] | None] = contextvars.ContextVar("retinue_systems", default=None)


def interrupts() -> set[ActorSystem]:
    """The systems that a Ctrl-C stops: those entered inside this `run`. Outside of it, an empty set that nobody looks at."""
    found = _systems.get()
    return found if found is not None else set()


def run(main: Callable[..., Awaitable[T]], *arguments: Any, grace: float = 5.0, clock: trio.abc.Clock | None = None) -> T:
    """Runs an async function on trio until it returns. Call it in a plain script.

    The first Ctrl-C cancels `main` and stops its systems in good order: their actors drain for their grace. The second one stops them at once. Either way
    KeyboardInterrupt is raised at the end. No handler is ever interrupted in the middle by a KeyboardInterrupt.

    Args:
        main: `async def main()`; or `async def main(system)`, which gets a running `ActorSystem`.
        arguments: Passed to `main`, before anything else.
        grace: The grace of that system, in seconds.
        clock: For tests.
    """
    from retinue.actors.runtime.system import ActorSystem

    wants_system = _wants_system(main, arguments)

    async def body() -> T:
        if not wants_system:
            return await main(*arguments)
        result: list[T] = []
        async with ActorSystem(grace=grace) as system:
            result.append(await main(*arguments, system))
        return result[0]

    async def guarded() -> T:
        _systems.set(set())
        if threading.current_thread() is not threading.main_thread():
            return await body()
        interrupted = False
        result: list[T] = []
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                nonlocal interrupted
                with trio.open_signal_receiver(signal.SIGINT) as signals:
                    listening.set()
                    async for _ in signals:
                        systems = list(interrupts())
                        hard, interrupted = interrupted, True
                        for system in systems:
                            system.interrupt(hard=hard)
                        if hard or not systems:
                            scope.cancel()

            listening = trio.Event()
            nursery.start_soon(listen)
            await listening.wait()
            with trio.CancelScope() as scope:
                result.append(await body())
            nursery.cancel_scope.cancel()
        if interrupted:
            raise KeyboardInterrupt
        return result[0]

    try:
        return trio.run(guarded, restrict_keyboard_interrupt_to_checkpoints=True, clock=clock)
    except BaseExceptionGroup as group:
        raise _single(group) from None


def _single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The nursery of `run` is ours: a single error leaves it as it is."""
    return group.exceptions[0] if len(group.exceptions) == 1 else group


def _wants_system(main: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Whether `main` takes one positional parameter more than was given."""
    try:
        parameters = list(inspect.signature(main).parameters.values())
    except (TypeError, ValueError):
        return False
    required = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    return len(required) == len(arguments) + 1
