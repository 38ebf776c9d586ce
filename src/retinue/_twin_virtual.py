"""Regions of virtual actors, for both twins. What each method takes and raises is said where it is done: `actors.runtime.virtual`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from retinue import aio, sync
    from retinue.actors.runtime.virtual import Virtual

__all__ = ["AioVirtual", "SyncVirtual"]

A_co = TypeVar("A_co", covariant=True)


class _Region(Generic[A_co]):
    """What both have in common.

    Attributes:
        core: The region itself, for messages and for actors.
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

    def __repr__(self) -> str:
        return repr(self.core)

    async def _active(self) -> tuple[str, ...]:
        return self.core.active()


class SyncVirtual(_Region[A_co]):
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


class AioVirtual(_Region[A_co]):
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
