"""Wires: which messages reach which actor from outside, and how they and their answers are bytes.

Each class of actors has a wire of its own, with the messages that its handlers take and no other: a message that the addressed actor does not handle cannot even be
decoded, and two classes may use one name for different messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.coercing import addressed
from retinue.actors.runtime.watch import Terminated
from retinue.errors import ActorStopped, DefinitionError, Denied, GatewayError, WireError
from retinue.gateway.guard import check_some
from retinue.mailbox.wire import WireRegistry
from retinue.mailbox.wire_json import Limits

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.handlers import HandlerInfo
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.gateway.bounds import Bounds
    from retinue.gateway.guard import Caller

__all__ = ["Target", "Wire", "Wires"]

MOST_WIRES: Final = 512
"""Classes of actors whose wires are kept; beyond that they are made anew."""

MOST_LISTED: Final = 1_000
"""Actors that are described at one time; any other one is described by its path."""

MOST_SEEN: Final = 1_024
"""Actors that somebody has asked for, and that are known for a while after their end; the oldest are forgotten."""

MAX_DEPTH: Final = 64
"""Levels of objects and arrays in a message, and in an answer."""

_PATH: Final = re.compile(r"/user(?:/[A-Za-z0-9_=][A-Za-z0-9_.@:~+=-]{0,2047}){1,64}", re.ASCII)


class Wire:
    """The messages of one class of actors.

    Attributes:
        registry: What encodes and decodes them.
        handlers: The handler of each message, by the message's wire name.
    """

    __slots__ = ("handlers", "registry")

    def __init__(self, cell: Cell, limits: Limits) -> None:
        self.registry = WireRegistry(limits)
        self.handlers: dict[str, HandlerInfo] = {}
        for handler in cell.handlers.values():
            if handler.message is Terminated:
                continue  # the runtime's own word, which nobody else may say
            try:
                self.handlers[self.registry.register(handler.message)] = handler
            except DefinitionError:  # two messages of one name: the first has it
                continue


@attrs.frozen(eq=False)
class Target:
    """An actor that is addressed from outside."""

    cell: Cell
    wire: Wire

    @property
    def ref(self) -> Ref[Any]:
        """How it is talked to."""
        return self.cell.ref


class Wires:
    """Finds actors and their wires.

    Args:
        kernel: The system.
        bounds: How long a reply may be.
        open_handlers: Whether handlers without `requires` can be reached.
    """

    __slots__ = ("_kernel", "_known", "_limits", "_open", "_seen")

    def __init__(self, kernel: Kernel, bounds: Bounds, *, open_handlers: bool) -> None:
        self._kernel = kernel
        self._limits = Limits(max_bytes=max(bounds.max_reply, bounds.max_body), max_depth=MAX_DEPTH)
        self._known: dict[Any, Wire] = {}
        self._seen: dict[str, Cell] = {}
        self._open = open_handlers

    def of(self, cell: Cell) -> Wire:
        """The wire of an actor."""
        cls = cell.spec.cls
        wire = self._known.get(cls)
        if wire is None:
            if len(self._known) >= MOST_WIRES:
                self._known.clear()
            wire = self._known[cls] = Wire(cell, self._limits)
        return wire

    def target(self, path: str, caller: Caller, *, ended: bool = False) -> Target:
        """The living actor at a path under `/user`; with `ended`, also one that has ended since somebody asked for it.

        Raises:
            GatewayError: There is none ("not_found").
            ActorStopped: There is none any more: one that was asked for here before has ended.
            Denied: The caller's token permits nothing at all.
        """
        check_some(caller.context, "the gateway")
        ref = self._kernel.names.address(path) if _PATH.fullmatch(path) else None
        if ref is None:
            seen = self._seen.get(path)
            if seen is not None and ended:
                return Target(seen, self.of(seen))
            if seen is not None:
                raise ActorStopped(f"the actor at {path} has ended. Nothing was done.", path=path, begun=False)
            shown = f"at {path[:200]}" if _PATH.fullmatch(path) else "there: a path is /user/NAME, and further /NAME below that"
            raise GatewayError(f"there is no actor {shown}", reason="not_found", delivered=False)
        if self._seen.get(path) is not ref._cell:
            self._seen.pop(path, None)
            if len(self._seen) >= MOST_SEEN:
                del self._seen[next(iter(self._seen))]
            self._seen[path] = ref._cell
        return Target(ref._cell, self.of(ref._cell))

    def message(self, target: Target, data: Any, caller: Caller, *, streamed: bool = False) -> tuple[Any, HandlerInfo]:
        """The message that a JSON value stands for, and its handler; `streamed`: where a stream is wanted.

        Raises:
            WireError: It is none ("malformed", "invalid_fields"), or none that the actor takes ("unknown_type").
            Denied: The handler has no `requires`, and this gateway does not reach such handlers.
        """
        message = target.wire.registry.load(data)
        handler, message = addressed(target.cell, message, streamed=streamed)
        self.check_open(target, handler, caller)
        return message, handler

    def check_open(self, target: Target, handler: HandlerInfo, caller: Caller) -> None:
        """Raises Denied for a handler without `requires` where such handlers are not reached."""
        if handler.requires is None and not self._open:
            raise Denied(
                f"{target.cell.path} takes {handler.info.label} without any permission, and this gateway reaches only handlers with requires= (open_handlers=False)",
                path=target.cell.path,
                subject=caller.context.subject,
            )

    def typed(self, path: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """JSON values as those of a message's fields, by name, where the actor lives and the values fit; what does not stays as it is."""
        ref = self._kernel.names.address(path) if _PATH.fullmatch(path) else None
        if ref is None:
            return values
        wire = self.of(ref._cell)
        infos = (handler.info for handler in wire.handlers.values())
        info = next((info for info in infos if name in (info.name, info.cls.__qualname__)), None)
        if info is None:
            return values
        made = dict(values)
        for field, value in values.items():
            kind = info.field_types.get(field)
            if kind is not None:
                try:
                    made[field] = wire.registry.load_value(value, kind)
                except WireError:
                    continue  # a part of a field that is an object, or nothing that fits: the desk looks at it
        return made

    def reachable(self, caller: Caller, path: str | None = None) -> list[tuple[Cell, dict[str, HandlerInfo]]]:
        """Living actors (that of the path, or the first 1,000), each with those of its messages that the caller's context may be permitted."""
        if path is None:
            cells = self._first(MOST_LISTED)
        else:
            ref = self._kernel.names.address(path) if _PATH.fullmatch(path) else None
            cells = [ref._cell] if ref is not None else []
        return [(cell, self.handlers(cell, caller)) for cell in cells]

    def handlers(self, cell: Cell, caller: Caller) -> dict[str, HandlerInfo]:
        """Those of an actor's messages that the caller's context may be permitted, by their wire names."""
        permissions = caller.context.permissions
        return {
            name: handler
            for name, handler in self.of(cell).handlers.items()
            if (self._open if handler.requires is None else permissions.may_permit(handler.requires))
        }

    def _first(self, most: int) -> list[Cell]:
        """So many living actors, parents before children; no more are looked at than that and their parents' other children."""
        found: list[Cell] = []
        waiting = [iter((self._kernel.user.children or {}).values())]
        while waiting and len(found) < most:
            cell = next(waiting[-1], None)
            if cell is None:
                waiting.pop()
                continue
            if cell.state != DEAD:
                found.append(cell)
            if cell.children:
                waiting.append(iter(cell.children.values()))
        return found
