"""The loopback: every message and answer goes through the wire format on its way, as between processes. A host for tests of what crosses a border."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.virtual_refs import VirtualRef
from retinue.mailbox.errors import WireError
from retinue.mailbox.messages import Message
from retinue.mailbox.wire import WireRegistry

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Spec
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["Loopback"]


class Loopback:
    """Encodes to bytes and decodes again, with the system's registry of wire names, which grows with each class that is spawned."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.registry = WireRegistry()
        self.registry.add_type(Ref, self._path_of, self._ref_of)
        self.registry.add_type(VirtualRef, self._path_of, self._virtual_of)

    def register(self, spec: Spec) -> None:
        """Makes the message types of an actor class known."""
        for message in spec.handlers:
            if message is not Message:  # a probe's, which takes any
                self.registry.register(message)

    def message(self, message: Any) -> Any:
        """The message as it arrives on the other side. Raises WireError where it cannot cross."""
        if type(message) not in self.registry:  # a subclass of a message that a handler takes
            self.registry.register(type(message))
        return self.registry.decode(self.registry.encode(message))

    def reply(self, delivery: Delivery, value: Any) -> Any:
        """The answer as it arrives on the other side."""
        assert delivery.handler is not None
        kind = delivery.handler.info.reply
        kind = Any if kind is None else kind
        return self.registry.decode_value(self.registry.encode_value(value, kind), kind)

    def _path_of(self, ref: Any) -> Any:
        return ref.path

    def _ref_of(self, path: Any) -> Any:
        found = self._kernel.names.address(path) if isinstance(path, str) else None
        if found is None:
            raise WireError(f"no living actor has the path {path!r}", problem="invalid_fields")
        return found

    def _virtual_of(self, path: Any) -> Any:
        found = self._ref_of(path)
        if not isinstance(found, VirtualRef):
            raise WireError(f"{path!r} is no path of a virtual actor", problem="invalid_fields")
        return found
