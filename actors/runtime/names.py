"""Names: which ones are legal, and finding an actor by its path or under a name that it registered."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.cell import DEAD, Cell
from retinue.actors.runtime.errors import NameTaken
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.virtual_refs import not_here
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["Names", "cell_of", "check_name", "tie", "untie"]

_log = logging.getLogger("retinue.runtime")

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:~+-]{0,127}")


def check_name(name: object, what: str = "an actor's name") -> str:
    """A legal name of an actor or a system, else a DefinitionError. Letters, digits and `_.@:~+-`, 1 to 128 characters, no `-`, `.` or the like at the start."""
    if not isinstance(name, str):
        raise DefinitionError(f"name={name!r}: {what} is a str")
    if not _NAME.fullmatch(name):
        raise DefinitionError(
            f"name={name!r}: {what} has 1 to 128 letters, digits and _ . @ : ~ + -, begins with a letter, a digit or _, and holds no /"
        )
    return name


def cell_of(ref: object, kernel: Kernel) -> Cell:
    """The cell of a ref of this very system, else a DefinitionError."""
    if not isinstance(ref, Ref):
        raise DefinitionError(f"a ref is wanted, not {ref!r}; spawn returns one, and registry.get(path) finds one")
    if ref._cell.kernel is not kernel:
        raise DefinitionError(f"{ref!r} belongs to another system ({ref._cell.kernel.name!r}, and this is {kernel.name!r})")
    return ref._cell


def tie(cell: Cell, thing: Any) -> None:
    """Lets something hear of the actor's end in the same step, by its `cut()`."""
    extra = cell.extras()
    if extra.ties is None:
        extra.ties = {}
    extra.ties[thing] = None


def untie(cell: Cell, thing: Any) -> None:
    """…or no longer."""
    extra = cell.extra
    if extra is not None and extra.ties is not None:
        extra.ties.pop(thing, None)
        if not extra.ties:
            extra.ties = None


class Names:
    """The registry of a system.

    A path finds an actor while it lives. A name that was registered is given up in the same step in which its actor ends, so a look-up never returns a dead one.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._registered: dict[str, Cell] = {}
        self._of_cell: dict[Cell, set[str]] = {}

    def register(self, name: str, ref: Ref[Any]) -> None:
        """Makes the actor known under a name. Raises NameTaken where another living actor has it, ActorStopped for one that has ended."""
        check_name(name)
        cell = cell_of(ref, self._kernel)
        if self._registered.get(name, cell) is not cell:
            raise NameTaken(f"{name!r} is registered for {self._registered[name].path}; unregister it first or choose another name")
        if cell.state == DEAD:
            raise not_here(
                cell,
                f"is not registered as {name!r}",
                f"others find it with system.registry.address({cell.path!r}), and what they send makes one",
            )
        self._registered[name] = cell
        self._of_cell.setdefault(cell, set()).add(name)

    def unregister(self, name: str) -> None:
        """Gives a name up; one that is not registered is no error."""
        cell = self._registered.pop(name, None)
        if cell is not None:
            names = self._of_cell[cell]
            names.discard(name)
            if not names:
                del self._of_cell[cell]

    def get(self, name: str) -> Ref[Any] | None:
        """The living actor registered under the name, or with the path (`/user/…`), or None."""
        if not isinstance(name, str):
            raise DefinitionError(f"registry.get({name!r}): give a registered name or a path (/user/…), a str")
        cell = self._walk(name) if name.startswith("/") else self._registered.get(name)
        return cell.ref if cell is not None and cell.state != DEAD else None

    def address(self, name: str) -> Ref[Any] | None:
        """As `get`; and the path of a virtual actor is found whether or not it has an instance: what is sent there makes one."""
        found = self.get(name)
        if found is None and name.startswith("/"):
            from retinue.actors.runtime.virtual import address_in

            home, _, segment = name.rpartition("/")
            found = address_in(self._walk(home), segment)
        return found

    def names(self) -> list[str]:
        """The registered names, sorted."""
        return sorted(self._registered)

    def forget(self, cell: Cell) -> None:
        """The actor has ended: what knew it hears of it, in the same step."""
        if self._of_cell:
            for name in self._of_cell.pop(cell, ()):
                del self._registered[name]
        extra = cell.extra
        if extra is not None and extra.ties is not None:
            ties, extra.ties = extra.ties, None
            for tie in ties:
                try:
                    tie.cut()
                except Exception:  # the others hear of it all the same
                    _log.exception("%s: %r could not be told of its end; this is a fault of the runtime", cell.path, tie)

    def _walk(self, path: str) -> Cell | None:
        parts = path.strip("/").split("/")
        cell: Cell | None = self._kernel.user
        if not parts or parts[0] != "user":
            return None
        for part in parts[1:]:
            children = cell.children if cell is not None else None
            if not children:
                return None
            cell = children.get(part)
            number = part.rpartition("-")[2]
            if cell is None and number.isdecimal() and number.isascii():  # an unnamed actor: Class-7
                cell = children.get(int(number))
                if cell is not None and cell.path.rpartition("/")[2] != part:
                    return None
        return cell
