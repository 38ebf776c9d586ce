"""What an actor sees of its system: `self.ctx.system`."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.statistics import SystemStatistics, statistics_of

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref

__all__ = ["SystemView"]


class SystemView:
    """The system's name, its counts, and look-ups. Nothing here can mint, approve, spawn or stop."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def name(self) -> str:
        """The system's name."""
        return self._kernel.name

    def statistics(self) -> SystemStatistics:
        """The system's counts at this moment."""
        kernel = self._kernel
        return statistics_of(kernel) if get_ident() == kernel.thread else kernel.portal.call(statistics_of, kernel)

    def find(self, name: str) -> Ref[Any] | None:
        """The living actor with that path or registered name, or None."""
        return self._kernel.names.get(name)
