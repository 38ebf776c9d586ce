"""`retinue serve module:function`: a system that scripts in other processes talk to."""

from __future__ import annotations

import inspect
import math
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from retinue.cli.recording import recorded, trace_options, tracing_of

if TYPE_CHECKING:
    import trio

    from retinue.actors.tracing.tracing import Tracing

__all__ = ["serve"]

SETTLE: Final = 3.0
"""Seconds in which the function may set up actors before the address is printed. It is printed at once when the function returns."""

DATA_DIR: Final = ".retinue"
PORT: Final = 8420
GRACE: Final = 5.0
MOST_RATE: Final = 1e9
MOST_LIFETIME: Final = 366 * 86_400

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@attrs.frozen
class Choice:
    """What the command line says.

    Attributes:
        spec: The function, as it was typed.
        bind: Where to listen, `host:port`.
        name: The system's name.
        audience: Who this is, where tokens are for one of several; None: tokens for anybody.
        data_dir: Its folder.
        grace: Seconds that what is in progress has at the end.
        approval_lifetime: Seconds that a request for a person's consent waits.
        tracing: What is recorded of its runs, if anything.
        gateway: The gateway's other options.
    """

    spec: str
    bind: str
    name: str
    audience: str | None
    data_dir: Path
    grace: float
    approval_lifetime: float
    tracing: Tracing | None
    gateway: dict[str, Any]


def _check_rate(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if math.isnan(value) or value <= 0 or MOST_RATE < value < math.inf:
        raise click.BadParameter(f"give a number above 0 and up to {MOST_RATE:,.0f}, or inf for no limit", context, parameter)
    return value


def _check_lifetime(context: click.Context, parameter: click.Parameter, text: str) -> float:
    from retinue.cli.restricting import seconds_of

    seconds = seconds_of(context, parameter, text)
    if seconds is None or not 1 <= seconds <= MOST_LIFETIME:
        raise click.BadParameter(f"{text} is too short or too long: from 1s to 366d", context, parameter)
    return seconds


def _check_grace(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("give seconds, from 0 to 3600", context, parameter)
    return value


class Terminated(BaseException):
    """SIGTERM has come, while a plain function had the main thread."""


@click.command()
@click.argument("spec", metavar="MODULE:FUNCTION")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="The port; 0 is a free one.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DATA_DIR,
    show_default=True,
    help="The system's folder: keys of tokens, revocations, the audit, approvals.",
)
@trace_options
@click.option("--name", default="main", show_default=True, help="The system's name.")
@click.option("--audience", metavar="NAME", help="Who this is, for tokens that are for one of several (`retinue token mint --audience`).")
@click.option("--allowed-host", "hosts", multiple=True, metavar="NAME", help="A further name that clients address it by. May be repeated.")
@click.option("--origin", "origins", multiple=True, metavar="URL", help="A web page's origin that may talk to it. May be repeated.")
@click.option(
    "--rate", type=float, default=200.0, show_default=True, callback=_check_rate, help="Requests a second for one token; inf: no limit."
)
@click.option("--no-open-handlers", is_flag=True, help="Reach only handlers that require an operation.")
@click.option("--allow-remote", is_flag=True, help="Listen on an address that other machines reach, although there is no TLS.")
@click.option(
    "--grace",
    type=click.FloatRange(0, 3600),
    default=GRACE,
    show_default=True,
    callback=_check_grace,
    help="Seconds for what is in progress at the end.",
)
@click.option(
    "--approval-lifetime",
    metavar="LENGTH",
    default="7d",
    show_default=True,
    callback=_check_lifetime,
    help="How long a request for a person's consent waits: 3600, 90s, 8h, 7d; from 1s to 366d.",
)
def serve(
    spec: str,
    host: str,
    port: int,
    data_dir: Path,
    name: str,
    audience: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    rate: float,
    no_open_handlers: bool,
    allow_remote: bool,
    grace: float,
    approval_lifetime: float,
    trace: bool,
    trace_contents: bool,
) -> None:
    """Run a system that scripts in other processes talk to, with a sealed token each.

    FUNCTION is given the system and spawns actors; it may be plain or async, and may return or go on. Then `listening on http://…` is printed, and clients
    (`retinue ask`, `retinue.connect`) reach the actors under /user. Tokens are made by `retinue token mint` with the same --data-dir.

    Ctrl-C and SIGTERM end it in good order: streams end with an error, asks in progress have --grace. A second one ends it at once. It ends as well where
    FUNCTION stops the system, or calls sys.exit. Exit code: 0 after SIGTERM, 130 after Ctrl-C, that of sys.exit, 1 where FUNCTION fails.
    """
    from retinue.cli.targets import find_function
    from retinue.gateway.guard import LOOPBACK
    from retinue.gateway.serving import is_loopback

    if not is_loopback(host) and not allow_remote:
        raise click.UsageError(
            f"--host {host} can be reached from other machines, and there is no TLS: tokens would cross the network in the clear. "
            "Listen on 127.0.0.1 and put a server with TLS (or an SSH tunnel) in front; or say --allow-remote"
        )
    given, data_dir = data_dir, data_dir.absolute()  # before any of the user's code, which may go to another folder
    function = find_function(spec)
    named = f"[{host}]" if ":" in host else host
    options = {
        "hosts": (*LOOPBACK, named, *hosts),
        "origins": origins,
        "open_handlers": not no_open_handlers,
        "rate": rate,
        "burst": 1 if rate == math.inf else max(1, int(2 * rate)),
    }
    choice = Choice(
        spec, f"{named}:{port}", name, audience, data_dir, grace, approval_lifetime, tracing_of(trace, trace_contents, data_dir), options
    )
    _check_signature(function, spec)
    from retinue.errors import RetinueError

    run = _serve_async if inspect.iscoroutinefunction(function) else _serve_plain
    try:
        with recorded(choice.tracing, given):
            code = run(function, choice)
    except Exception as raised:
        error = _alone(raised)
        if isinstance(error, RetinueError):
            raise click.ClickException(f"{type(error).__name__}: {_harmless(str(error))}") from None
        if isinstance(error, OSError):
            raise click.ClickException(f"it cannot listen on {choice.bind}: {error.strerror or error}") from None
        raise error from None
    raise SystemExit(code)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


def _ending(spec: str, error: BaseException) -> int | click.ClickException:
    """What the function's end with an error is for the command: an exit code, or a failure with its text."""
    for leaf in _leaves(error):
        if isinstance(leaf, SystemExit):
            if leaf.code is None or isinstance(leaf.code, int):
                return leaf.code or 0
            return click.ClickException(_harmless(str(leaf.code)))
        if isinstance(leaf, KeyboardInterrupt):
            return _code(signal.SIGINT)
    return _failed(spec, _alone(error))


def _harmless(text: str) -> str:
    """An error's text, as it may stand on a terminal and in a log: without what looks like a secret, and without control characters."""
    from retinue.security.redaction import redact
    from retinue.security.visible import visible

    return visible(str(redact(text)))


def _alone(error: BaseException) -> BaseException:
    """The one error in groups of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _check_signature(function: Callable[..., object], spec: str) -> None:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise click.UsageError(f"{spec} has to take one argument, the system: `async def main(system)` that spawns actors") from None
    except ValueError:  # it shows no signature
        return


def _insist() -> None:
    """A signal that comes while the one before was not even noticed, for something blocks the loop, ends the process at once."""
    unnoticed = 0
    for number in _SIGNALS:
        deliver: Any = signal.getsignal(number)

        def on_signal(number: int, frame: Any, deliver: Any = deliver) -> None:
            nonlocal unnoticed
            unnoticed += 1
            if unnoticed > 1:
                os._exit(128 + number)
            deliver(number, frame)

        signal.signal(number, on_signal)


def _code(number: int) -> int:
    return 0 if number == signal.SIGTERM else 128 + number


def _failed(spec: str, error: BaseException) -> click.ClickException:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
    return click.ClickException(f"{spec} raised {type(error).__name__}: {_harmless(str(error))}{where}")


def _announce(url: str) -> None:
    from retinue.cli.output import say

    say(f"listening on {url}")


# -- an async function, in the same loop ---------------------------------------------------------------------------------------------------------------


def _serve_async(function: Callable[..., Any], choice: Choice) -> int:
    import trio

    return trio.run(_main, function, choice, restrict_keyboard_interrupt_to_checkpoints=True)


async def _main(function: Callable[..., Any], choice: Choice) -> int:
    import trio

    from retinue.actors.runtime.system import ActorSystem
    from retinue.gateway.app import Gateway

    code = 0
    failure: click.ClickException | None = None
    async with ActorSystem(
        choice.name, data_dir=choice.data_dir, grace=choice.grace, approval_lifetime=choice.approval_lifetime, tracing=choice.tracing
    ) as system:
        gateway = Gateway(system, system.sealer(audience=choice.audience), **choice.gateway)
        ready = trio.Event()
        done = trio.Event()

        async def set_up() -> None:
            nonlocal code, failure
            try:
                await function(system)
            except BaseException as error:
                if any(isinstance(leaf, trio.Cancelled) for leaf in _leaves(error)):
                    raise
                if not done.is_set():
                    ending = _ending(choice.spec, error)
                    if isinstance(ending, int):
                        code = ending
                    else:
                        failure = ending
                done.set()
            ready.set()

        async def wait_for_end() -> None:
            assert system._over is not None
            await system._over.wait()  # the function, or what it left running, has stopped the system
            done.set()
            ready.set()

        async def wait_for_signal(*, task_status: trio.TaskStatus[None]) -> None:
            nonlocal code
            with trio.open_signal_receiver(*_SIGNALS) as signals:
                _insist()
                task_status.started()
                code = _code(await anext(signals))
                done.set()
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)  # a second one ends the process, whatever its loop is doing

        async with trio.open_nursery() as nursery:
            await nursery.start(wait_for_signal)
            url = await nursery.start(gateway.serve, choice.bind)
            nursery.start_soon(set_up)
            nursery.start_soon(wait_for_end)
            with trio.move_on_after(SETTLE):
                await ready.wait()
            if failure is None and not done.is_set():
                _announce(url)
            await done.wait()
            await gateway.stop(grace=0.0 if failure is not None else choice.grace)
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code


# -- a plain function, which gets the blocking twin and the main thread --------------------------------------------------------------------------------


def _serve_plain(function: Callable[..., Any], choice: Choice) -> int:
    from retinue.sync import ActorSystem

    def on_signal(number: int, _: object) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)  # the next one ends the process, even where the function catches whatever this one raises
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    code = 0
    with ActorSystem(
        choice.name, data_dir=choice.data_dir, grace=choice.grace, approval_lifetime=choice.approval_lifetime, tracing=choice.tracing
    ) as system:
        stop = _Beside(system, choice)
        try:
            try:
                function(system)
            except (Terminated, KeyboardInterrupt):
                raise
            except BaseException as error:
                ending = _ending(choice.spec, error)
                if not isinstance(ending, int):
                    raise ending from None
                code = ending
            else:
                if not stop.over:
                    _announce(stop.url)
                stop.ended.wait()  # for ever, unless the system is stopped
        except Terminated:
            code = _code(signal.SIGTERM)
        except KeyboardInterrupt:
            code = _code(signal.SIGINT)
        finally:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            stop()
    return code


class _Beside:
    """A gateway in the loop of a blocking twin. Calling it stops it, and waits."""

    def __init__(self, system: Any, choice: Choice) -> None:
        import threading

        from retinue._twin import Call

        self._twin = system._twin
        self._choice = choice
        self._listening = threading.Event()
        self.ended = threading.Event()
        self._gateway: Any = None
        self._error: BaseException | None = None
        self.url = ""
        self._twin.run(Call(self._twin, self._serve, self._deliver))
        self._listening.wait()
        if self._error is not None:
            raise self._error

    @property
    def over(self) -> bool:
        """Whether the gateway, or its system, has ended."""
        system_over = self._twin.core._over
        return self.ended.is_set() or (system_over is not None and system_over.is_set())

    async def _serve(self) -> None:
        import trio

        from retinue.gateway.app import Gateway

        core = self._twin.core
        self._gateway = Gateway(core, core.sealer(audience=self._choice.audience), **self._choice.gateway)
        async with trio.open_nursery() as nursery:
            self.url = await nursery.start(self._gateway.serve, self._choice.bind)
            self._listening.set()

    def _deliver(self, _: Any, error: BaseException | None) -> None:
        self._error = _alone(error) if error is not None else None
        self._listening.set()
        self.ended.set()

    def __call__(self) -> None:
        from retinue._twin import Call

        if not self.ended.is_set():
            self._twin.run(Call(self._twin, partial(self._gateway.stop, grace=self._choice.grace), lambda *_: None))
            self.ended.wait(self._choice.grace + 5.0)
