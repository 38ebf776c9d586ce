"""Edited arguments: the new values take the old ones' places only where they are of the message's types, so that what is approved can be asked."""

from __future__ import annotations

import datetime as dt
import pathlib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import attrs

from retinue.mailbox.errors import WireError
from retinue.mailbox.messages import Message, message_info
from retinue.mailbox.wire import WireRegistry
from retinue.security.approvals import ApprovalRequest, stored_digest
from retinue.security.errors import ApprovalError, CanonicalError
from retinue.security.records import FlagValue, Member, Record

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["edited_arguments", "edited_request"]


def edited_request(
    request: ApprovalRequest, changes: Mapping[str, Any], *, reviewer: str, now_ms: int, cls: type[Message] | None = None
) -> ApprovalRequest:
    """The request that takes another one's place.

    Args:
        request: The old one.
        changes: The new values by name; the other arguments stay.
        reviewer: Who edits.
        now_ms: The time.
        cls: The message's class, where it is at hand.

    Raises:
        ApprovalError: A name or a value does not fit, or nothing changes (reason "arguments").
    """
    arguments = edited_arguments(request, changes, cls)
    digest = stored_digest(arguments)
    if digest == request.binding.arguments_digest:
        raise ApprovalError(f"the edit of {request.id} changes nothing: approve it, or give other values.", reason="arguments")
    return ApprovalRequest.new(
        attrs.evolve(request.binding, arguments_digest=digest),
        arguments,
        message_type=request.message_type,
        reasons=(*request.reasons, f"edited by {reviewer}: it replaces {request.id}")[-64:],
        context_id=request.context_id,
        now_ms=now_ms,
        risk=request.risk,
        four_eyes=request.four_eyes,
        lifetime_ms=request.expires_ms - request.created_ms,  # as long as its system lets requests wait
        edit_of=request.id,
    )


def edited_arguments(request: ApprovalRequest, changes: Mapping[str, Any], cls: type[Message] | None = None) -> dict[str, Any]:
    """All arguments after an edit; see `edited_request`."""
    old = dict(request.arguments)
    if not isinstance(changes, Mapping) or not changes:
        raise ApprovalError("an edit has the new values by argument name, one at least.", reason="arguments")
    unknown = [name for name in changes if name not in old]
    if unknown:
        raise ApprovalError(
            f"{request.message_type} has no argument {str(unknown[0])[:80]!r}: it has {', '.join(old) or 'none'}.", reason="arguments"
        )
    made = _of_class(old, changes, cls) if cls is not None else None
    if made is None:
        made = {name: _like(old[name], changes[name], name) if name in changes else old[name] for name in old}
    try:
        stored_digest(made)
    except CanonicalError as error:
        raise ApprovalError(f"an edited argument is no plain data: {error}", reason="arguments") from None
    return made


def _of_class(old: Mapping[str, Any], changes: Mapping[str, Any], cls: type[Message]) -> dict[str, Any] | None:
    """The arguments as fields of the message's class, checked as what comes by the wire; None where the class cannot cross it, or has fields that are records here."""
    types = message_info(cls).field_types
    if types.keys() != old.keys():
        return None
    registry = WireRegistry()
    made = dict(old)
    for name, value in changes.items():
        try:
            made[name] = registry.decode_value(registry.encode_value(value, types[name]), types[name])
        except WireError:
            made[name] = _like(old[name], value, name)
            if isinstance(old[name], _STORED):
                continue  # what stands for a message or a member of an enum is of the old one's class
            try:
                registry.encode_value(made[name], types[name])
            except WireError as error:
                raise ApprovalError(f"the argument {name!r} of {cls.__qualname__} cannot be that: {error}", reason="arguments") from None
    return made


def _like(old: Any, new: Any, name: str) -> Any:
    """The new value as the old one's type. JSON, which a reviewer may have typed, knows fewer types than messages do."""
    kind = type(old)
    if kind is Record:
        return _record(old, new, name)
    if old is None or new is None or type(new) is kind:
        if kind is list and new:
            return [_like(_pattern(old, new), item, name) for item in new]
        return new
    made = _CONVERTERS.get(kind)
    try:
        if made is not None:
            return made(old, new, name)
    except (ValueError, TypeError, InvalidOperation):
        pass
    raise ApprovalError(
        f"the argument {name!r} is of type {kind.__name__}, and the new value of type {type(new).__name__}.", reason="arguments"
    )


def _record(old: Record, new: Any, name: str) -> Record:
    """A message within the arguments: as a record of the same class, or as the new values of some of its fields."""
    fields = dict(old.fields)
    changes = new
    if type(new) is Record and new.type_name == old.type_name:
        changes = dict(new.fields)
    if type(changes) is not dict or not changes.keys() <= fields.keys():
        raise ApprovalError(f"the argument {name!r} is a {old.type_name} with the fields {', '.join(fields)}.", reason="arguments")
    return Record(
        old.type_name,
        tuple((field, _like(value, changes[field], f"{name}.{field}") if field in changes else value) for field, value in old.fields),
    )


def _member(old: Member, new: Any, _: str) -> Member:
    if type(new) is not str:
        raise TypeError
    return Member(old.type_name, new)


def _pattern(old: Any, new: Any) -> Any:
    kinds = {type(item) for item in old}
    return next(iter(old)) if len(kinds) == 1 else next(iter(new))


def _float(_: float, new: Any, __: str) -> float:
    if type(new) is not int:
        raise TypeError
    return float(new)


def _decimal(_: Decimal, new: Any, __: str) -> Decimal:
    if type(new) is not str and type(new) is not int:
        raise TypeError
    return Decimal(new)


def _from_text(read: Callable[[str], Any]) -> Callable[[Any, Any, str], Any]:
    def made(_: Any, new: Any, __: str) -> Any:
        if type(new) is not str:
            raise TypeError
        return read(new)

    return made


def _collection(old: Any, new: Any, name: str) -> Any:
    if type(new) is not list:
        raise TypeError
    return type(old)(_like(_pattern(old, new), item, name) for item in new)


_STORED: Final = (Record, Member, FlagValue)
_CONVERTERS: Final[dict[type, Callable[[Any, Any, str], Any]]] = {
    Member: _member,
    float: _float,
    Decimal: _decimal,
    tuple: _collection,
    set: _collection,
    frozenset: _collection,
    dt.datetime: _from_text(dt.datetime.fromisoformat),
    dt.date: _from_text(dt.date.fromisoformat),
    dt.time: _from_text(dt.time.fromisoformat),
    type(pathlib.Path()): _from_text(pathlib.Path),
    pathlib.PurePosixPath: _from_text(pathlib.PurePosixPath),
}
