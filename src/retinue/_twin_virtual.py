"""Regions of virtual actors, for both twins. What each method takes and raises is said where it is done: `actors.runtime.virtual`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from retinue import aio, sync
    from retinue.actors.runtime.virtual import Virtual

__all__ = ["AioVirtual", "SyncVirtual", "TwinVirtual"]

A_co = TypeVar("A_co", covariant=True)


class TwinVirtual(Generic[A_co]):
    """What both have in common.

    Attributes:
        core: The `rt.Virtual` behind it. A twin's region in a message's field, or as a constructor's argument, arrives as that by itself; type checkers want
            `sessions.core` there.
    """

    __slots__ = ("_run", "_wrap", "core")

    def __init__(self, core: Virtual[A_co], run: Callable[[Callable[[], Awaitable[Any]]], Any], wrap: Callable[[Any], Any]) -> None:
        self.core = core
        self._run = run
        self._wrap = wrap

    @property
    def path(self) -> str:
        """The region's address."""
        return self.core.path

    @property
    def alive(self) -> bool:
        """Whether messages are taken."""
        return self.core.alive

    def __eq__(self, other: object) -> bool:
        return self.core._region is other.core._region if isinstance(other, TwinVirtual) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.core._region)

    def __repr__(self) -> str:
        return repr(self.core)

    def __iter__(self) -> NoReturn:
        iter(self.core)  # raises: there is no end of keys
        raise AssertionError

    def __reduce__(self) -> NoReturn:
        self.core.__reduce__()
        raise AssertionError

    async def _active(self) -> tuple[str, ...]:
        return self.core.active()


class SyncVirtual(TwinVirtual[A_co]):
    """The virtual actors of one kind, for a plain script: `sessions["alice"]` is the ref of one."""

    __slots__ = ()

    def __getitem__(self, key: str) -> sync.Ref[A_co]:
        """The ref of a key's actor. It makes no instance: the first message does."""
        ref: sync.Ref[A_co] = self._wrap(self.core[key])
        return ref

    def ref(self, key: str) -> sync.Ref[A_co]:
        """As `sessions[key]`."""
        return self[key]

    def active(self) -> tuple[str, ...]:
        """The keys that have an instance at this moment."""
        keys: tuple[str, ...] = self._run(self._active)
        return keys

    def passivate(self, key: str, *, grace: float | None = None) -> bool:
        """Ends the instance of a key, if there is one."""
        found: bool = self._run(partial(self.core.passivate, key, grace=grace))
        return found

    def stop(self, *, grace: float | None = None) -> None:
        """Stops all instances, and the region with them."""
        self._run(partial(self.core.stop, grace=grace))


class AioVirtual(TwinVirtual[A_co]):
    """The virtual actors of one kind, under asyncio: `sessions["alice"]` is the ref of one."""

    __slots__ = ()

    def __getitem__(self, key: str) -> aio.Ref[A_co]:
        """The ref of a key's actor. It makes no instance: the first message does."""
        ref: aio.Ref[A_co] = self._wrap(self.core[key])
        return ref

    def ref(self, key: str) -> aio.Ref[A_co]:
        """As `sessions[key]`."""
        return self[key]

    async def active(self) -> tuple[str, ...]:
        """The keys that have an instance at this moment."""
        keys: tuple[str, ...] = await self._run(self._active)
        return keys

    async def passivate(self, key: str, *, grace: float | None = None) -> bool:
        """Ends the instance of a key, if there is one."""
        found: bool = await self._run(partial(self.core.passivate, key, grace=grace))
        return found

    async def stop(self, *, grace: float | None = None) -> None:
        """Stops all instances, and the region with them."""
        await self._run(partial(self.core.stop, grace=grace))
