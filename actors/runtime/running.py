"""`rt.run`: trio.run with Ctrl-C done right."""

from __future__ import annotations

import contextvars
import gc
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from retinue.actors.runtime.errors import WrongEventLoop
from retinue.actors.runtime.loops import loop_here
from retinue.actors.runtime.stepping import turn_frame
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.system import ActorSystem

__all__ = ["interrupts", "run", "takes_system"]

T = TypeVar("T")

_systems: contextvars.ContextVar[set[Any] | None] = contextvars.ContextVar("retinue_systems", default=None)


def interrupts() -> set[ActorSystem]:
    """The systems that a Ctrl-C stops: those entered inside this `run`. Outside of it, an empty set that nobody looks at."""
    found = _systems.get()
    return found if found is not None else set()


def run(
    main: Callable[..., Awaitable[T]],
    *arguments: Any,
    grace: float = 5.0,
    gc_threshold: int | None = 20_000,
    clock: trio.abc.Clock | None = None,
) -> T:
    """Runs an async function on trio until it returns. Call it in a plain script.

    The first Ctrl-C cancels `main` and stops its systems in good order: their actors drain for their grace. The second one stops them at once. Either way
    KeyboardInterrupt is raised at the end. No handler is interrupted in the middle by a KeyboardInterrupt, with one exception: one that blocks the loop, so that
    the first Ctrl-C could not even be noticed, by the second.

    Args:
        main: `async def main()`; where its first parameter is called `system` or annotated as `ActorSystem`, it gets a running one there.
        arguments: Passed to `main`.
        grace: The grace of that system, in seconds.
        gc_threshold: Allocations between two passes of the garbage collector over the youngest objects, for this run (CPython's own is 700 or
            2,000: with mail waiting, each message then pays up to a microsecond for it). None leaves it as it is; a higher one stays.
        clock: For tests.

    Raises:
        WrongEventLoop: A loop runs in this thread already.
    """
    _check_main(main)
    wants_system = takes_system(main)
    interrupted = False

    async def body() -> T:
        return await (_with_system(main, arguments, grace) if wants_system else main(*arguments))

    async def guarded() -> T:
        nonlocal interrupted
        _systems.set(set())
        if threading.current_thread() is not threading.main_thread():
            return await body()
        unnoticed = 0
        result: list[T] = []
        scope = trio.CancelScope()

        async def listen() -> None:
            nonlocal interrupted, unnoticed
            with trio.open_signal_receiver(signal.SIGINT) as signals:
                deliver: Any = signal.getsignal(signal.SIGINT)

                def on_interrupt(number: int, frame: FrameType | None) -> None:
                    nonlocal unnoticed
                    unnoticed += 1
                    deliver(number, frame)
                    if unnoticed > 1 and turn_frame(frame) is not None:
                        raise KeyboardInterrupt

                signal.signal(signal.SIGINT, on_interrupt)
                listening.set()
                async for _ in signals:
                    unnoticed = 0
                    for system in list(interrupts()):
                        system.interrupt(hard=interrupted)
                    interrupted = True
                    scope.cancel()

        listening = trio.Event()
        trio.lowlevel.spawn_system_task(listen, context=contextvars.copy_context())
        await listening.wait()
        with scope:
            result.append(await body())
        if interrupted and not result:
            raise KeyboardInterrupt
        return result[0]

    thresholds = gc.get_threshold()
    if gc_threshold is not None and 0 < thresholds[0] < gc_threshold:
        gc.set_threshold(gc_threshold, *thresholds[1:])
    try:
        returned = trio.run(guarded, restrict_keyboard_interrupt_to_checkpoints=True, clock=clock)
    finally:
        gc.set_threshold(*thresholds)
    if interrupted:  # looked at here, for it may have come when `main` had just ended
        raise KeyboardInterrupt
    return returned


async def _with_system(main: Callable[..., Awaitable[T]], arguments: tuple[Any, ...], grace: float) -> T:
    from retinue.actors.runtime.system import ActorSystem

    result: list[T] = []
    async with ActorSystem(grace=grace) as system:
        result.append(await main(system, *arguments))
    return result[0]


def _check_main(main: object) -> None:
    if inspect.iscoroutine(main):
        main.close()
        raise DefinitionError("rt.run takes the async function itself, rt.run(main), not what calling it gave, rt.run(main())")
    if not callable(main):
        raise DefinitionError(f"rt.run takes an async function, not {main!r}")
    if inspect.isfunction(main) and not inspect.iscoroutinefunction(main) and not hasattr(main, "__wrapped__"):
        raise DefinitionError(f"rt.run takes an async function; write `async def {main.__name__}(…)`, or use retinue.sync in a plain one")
    _check_no_loop(getattr(main, "__name__", "main"))


def _check_no_loop(name: str) -> None:
    library = loop_here()
    if library == "trio":
        raise WrongEventLoop(
            f"rt.run was called inside a run of trio, in this very thread: there, await {name}() itself, and enter the system in it with "
            "`async with rt.ActorSystem(…) as system`"
        )
    if library is not None:
        raise WrongEventLoop(
            f"rt.run runs trio, and {library} runs in this thread already, which would stand still meanwhile. Under asyncio (FastAPI, notebooks) use "
            "`async with retinue.aio.ActorSystem(…) as system`, or call rt.run in a thread of its own: `await asyncio.to_thread(rt.run, main)`"
        )


def takes_system(function: Callable[..., object]) -> bool:
    """Whether the function's first parameter is for the actor system: it is called `system` or annotated as `ActorSystem`."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):  # some callables written in C show no signature
        return False
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return False
    annotation: Any = first.annotation  # text where annotations are deferred
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return first.name == "system" or name.rpartition(".")[2] == "ActorSystem"
