"""`retinue run module:function`: run a user's function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import click

from retinue.cli.recording import recorded, trace_options, tracing_of

__all__ = ["run"]

INTERRUPTED = 130
"""What a shell expects of a command that Ctrl-C ended: 128 and the signal's number."""


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The system's folder: audit, approvals, keys. Default: none, and all of it is in memory.",
)
@trace_options
@click.argument("spec", metavar="MODULE:FUNCTION")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(spec: str, data_dir: Path | None, trace: bool, trace_contents: bool, arguments: tuple[str, ...]) -> None:
    """Run a function, given the actor system where it takes one.

    MODULE is found in the current folder or among the installed packages. FUNCTION may be plain or async. Where its first parameter is
    called `system` or annotated as ActorSystem, it is given one that has just started and is stopped when the function returns (a plain
    function gets the blocking twin of retinue.sync). Options stand before it. ARGUMENTS are handed to it as strings. Ctrl-C stops the system in good order, a second
    one at once; the exit code is 130 then. A class is refused: calling it would run nothing.
    """
    from retinue.cli.targets import find_function

    function = find_function(spec)
    from retinue.actors.runtime.running import takes_system

    wants_system = takes_system(function)
    if data_dir is not None and not wants_system:
        raise click.UsageError(f"--data-dir is the folder of a system, and {spec} takes none: its first parameter is not `system`")
    if (trace or trace_contents) and not wants_system:
        raise click.UsageError(f"--trace records what a system does, and {spec} takes none: its first parameter is not `system`")
    _check_arguments(function, spec, arguments, wants_system=wants_system)
    tracing = tracing_of(trace, trace_contents, data_dir)
    options = {"data_dir": data_dir, "tracing": tracing}
    try:
        with recorded(tracing, data_dir):
            _call(function, arguments, options, wants_system=wants_system)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _call(function: Callable[..., object], arguments: tuple[str, ...], options: dict[str, Any], *, wants_system: bool) -> None:
    if inspect.iscoroutinefunction(function):
        _run_async(cast("Callable[..., Awaitable[object]]", function), arguments, options, wants_system=wants_system)
    elif wants_system:
        from retinue.sync import ActorSystem

        with ActorSystem(**options) as system:
            function(system, *arguments)
    else:
        function(*arguments)


def _run_async(
    function: Callable[..., Awaitable[object]], arguments: tuple[str, ...], options: dict[str, Any], *, wants_system: bool
) -> None:
    import retinue as rt

    async def with_system() -> None:
        async with rt.ActorSystem(**options) as system:
            await function(system, *arguments)

    async def without_system() -> None:  # not a partial: `rt.run` would look at the parameters that are left
        await function(*arguments)

    rt.run(with_system if wants_system else without_system)


def _parameters(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some callables written in C show none
        return None


def _check_arguments(function: Callable[..., object], spec: str, arguments: tuple[str, ...], *, wants_system: bool) -> None:
    signature = _parameters(function)
    if signature is None:
        return
    given: tuple[object, ...] = (None, *arguments) if wants_system else arguments
    try:
        signature.bind(*given)
    except TypeError as error:
        raise click.UsageError(f"{spec}{signature} cannot be called with {len(arguments)} arguments: {error}") from None
