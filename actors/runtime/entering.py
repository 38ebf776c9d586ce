"""Blocks that are entered with the wrong keyword are told which one is right: Python says only that something is not supported."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from retinue.security.errors import DefinitionError

__all__ = ["EnteredAsync", "EnteredPlainly"]


class EnteredAsync:
    """Something that is entered with `async with`."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers know that it is none

        def __enter__(self) -> NoReturn:
            raise DefinitionError(
                f"{_what(self)} is entered with `async with`, not with `with`: write `async with … as …:` in an `async def`"
            )

        def __exit__(self, *_: object) -> None:
            """Never reached; `with` looks for it before it enters."""


class EnteredPlainly:
    """Something that is entered with `with`."""

    __slots__ = ()

    if not TYPE_CHECKING:

        async def __aenter__(self) -> NoReturn:
            raise DefinitionError(
                f"{_what(self)} is entered with `with`, not with `async with`: it is for plain scripts, and what is awaited is in retinue (trio) and retinue.aio (asyncio)"
            )

        async def __aexit__(self, *_: object) -> None:
            """Never reached; `async with` looks for it before it enters."""


def _what(entered: object) -> str:
    kind = type(entered)
    module = kind.__module__
    return f"{module}.{kind.__name__}" if module in ("retinue.aio", "retinue.sync") else f"this {kind.__name__}"
