"""What a handler is, as a digest: a person consents to what the code is now, and a handler that was changed since asks again.

See `retinue.security.definitions` for what counts. What the handler calls does not: for that, raise `system.authority.policy_version`, or the version in the
message's wire name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.mailbox.messages import message_info
from retinue.security.definitions import handler_digest

if TYPE_CHECKING:
    from retinue.actors.runtime.handlers import HandlerInfo

__all__ = ["definition_of"]

MOST_KINDS = 64
"""Classes of messages (subclasses of the one that a handler takes) whose digests a handler remembers."""


def definition_of(handler: HandlerInfo, kind: type) -> str:
    """The digest of a handler for messages of exactly this class, 64 hex digits: the same in each process that runs the same code under the same Python.

    Raises:
        CanonicalError: It cannot be told what the handler is.
    """
    origin = handler.origin
    known = origin.definitions.get(kind)
    if known is None:
        if len(origin.definitions) >= MOST_KINDS:
            origin.definitions.clear()
        known = origin.definitions[kind] = _digest(origin, kind)
    return known


def _digest(handler: HandlerInfo, kind: type) -> str:
    function = handler.function
    options = {
        "message": message_info(kind).name or kind.__qualname__,
        "handles": message_info(handler.message).name or handler.message.__qualname__,
        "handler": function.__qualname__,
        "requires": handler.requires,
        "risk": handler.risk,
        "approval": handler.approval,
        "four_eyes": handler.four_eyes,
        "raises": handler.raises,
        "shield": handler.shield,
    }
    if handler.stated is not None:
        function = _stands_for
        options["stated"] = handler.stated
    return handler_digest(kind, function, wire_name=message_info(kind).name, options=options)


def _stands_for() -> None:
    """In place of a handler that was told what it is; see `HandlerInfo.define`."""
