"""The wire: messages as JSON bytes, `{"type": name, "body": {field: value, …}}`, and back. Never pickle.

Only registered messages cross, each field by its annotation, nothing coerced and nothing ignored. Bytes from anywhere may be given to
`decode`: whatever they are, the only error is WireError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

from retinue.mailbox.errors import WireError
from retinue.mailbox.messages import Message, message_info
from retinue.mailbox.wire_codec import Codec, Refused, expected, unfit
from retinue.mailbox.wire_json import Limits, parse, render
from retinue.mailbox.wire_types import StrictConverter
from retinue.security.errors import DefinitionError

__all__ = ["Limits", "WireRegistry"]

T = TypeVar("T")


class WireRegistry:
    """The messages that one system can send and receive as bytes, and their names.

    What crosses: str, int, float, bool, None, bytes (base64), Decimal, aware datetimes, date, time, timedelta, UUID, paths, enumerations,
    Literal, list, tuple, set, frozenset, dict, unions of these, and attrs classes and dataclasses of these, messages included; under
    `Any` what JSON can say by itself. For other types see `add_type`.

    Args:
        limits: The longest text and the deepest nesting, in both directions. Default: 1 MiB and 64.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits if limits is not None else Limits()
        self._classes: dict[str, type[Message]] = {}
        self._names: dict[type[Message], str] = {}
        self._converter = StrictConverter(
            Codec("Message", frozenset({"object"}), lambda value: isinstance(value, Message), self._dump_named, self._load_named)
        )

    @property
    def limits(self) -> Limits:
        """The longest text and the deepest nesting."""
        return self._limits

    def register(self, cls: type[Message]) -> str:
        """Let messages of this class cross; returns its name. Registering it again is fine.

        A class that was defined again (the same module and qualified name, as in a notebook) takes the place of the older one. Raises
        DefinitionError for a class without `@message`, and for an explicit name that another class has.
        """
        info = message_info(cls)
        cls = info.cls
        name = info.name if info.name is not None else f"{cls.__module__}:{cls.__qualname__}"
        other = self._classes.get(name)
        if other is not None and other is not cls:
            if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise DefinitionError(
                    f"{cls.__module__}.{cls.__qualname__} and {other.__module__}.{other.__qualname__} both have the wire name {name!r}: "
                    "give one of them another name, or another version"
                )
            del self._names[other]
            self._converter.forget()
        self._classes[name] = cls
        self._names[cls] = name
        return name

    def name_of(self, cls: type[Message]) -> str:
        """The wire name of a registered class. Raises WireError ("unknown_type") for another."""
        name = self._names.get(cls)
        if name is None:
            self._refuse_class(cls)
        return name

    def class_of(self, name: str) -> type[Message]:
        """The class registered under a wire name. Raises WireError ("unknown_type") where there is none."""
        cls = self._classes.get(name)
        if cls is None:
            raise WireError(
                f"no message is registered as {name[:200]!r}: spawn an actor that handles it, or register its class", problem="unknown_type"
            )
        return cls

    def add_type(self, cls: type[T], to_json: Callable[[T], Any], from_json: Callable[[Any], T]) -> None:
        """Teach the registry a type: how its values (also of `cls[X]`) become JSON values other than null, and how they come back.

        Whatever `from_json` raises becomes a WireError ("invalid_fields"); it gets any JSON value and must check it.
        """
        self._converter.add(cls, to_json, from_json)

    def encode(self, message: Message) -> bytes:
        """The bytes of a registered message. Raises WireError: "unknown_type", "not_encodable", "too_large" or "too_deep"."""
        if not isinstance(message, Message):
            raise WireError(f"{type(message).__qualname__} is no message: derive it from Message", problem="not_encodable")
        return self._written(type(message).__qualname__, self._dump_named, message)

    def decode(self, data: bytes) -> Message:
        """The message of the bytes. Raises WireError, and nothing else: "malformed", "unknown_type", "invalid_fields", …"""
        value = parse(data, self._limits)
        message: Message = self._read("message", self._load_named, value)
        return message

    def encode_value(self, value: Any, kind: Any) -> bytes:
        """The bytes of a value (a reply, say) of that type; `kind` is what `MessageInfo.reply` gives. Raises WireError."""
        return self._written("value", lambda given: self._converter.codec(kind).dump(given), value)

    def decode_value(self, data: bytes, kind: Any) -> Any:
        """The value of that type that the bytes stand for. Raises WireError, and nothing else."""
        return self._read("value", lambda given: self._converter.codec(kind).load(given), parse(data, self._limits))

    def load(self, value: Any) -> Message:
        """The message of a JSON value that `wire_json.parse` gave, as a part of something larger. Raises WireError, and nothing else."""
        message: Message = self._read("message", self._load_named, value)
        return message

    def load_value(self, value: Any, kind: Any) -> Any:
        """The value of that type that a parsed JSON value stands for, as `decode_value`. Raises WireError, and nothing else."""
        return self._read("value", lambda given: self._converter.codec(kind).load(given), value)

    def __contains__(self, cls: object) -> bool:
        return cls in self._names

    def __iter__(self) -> Iterator[type[Message]]:
        return iter(tuple(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<WireRegistry: {len(self)} messages>"

    def _dump_named(self, message: Any) -> dict[str, Any]:
        if not isinstance(message, Message):
            raise unfit("Message", message)
        try:
            name = self.name_of(type(message))
        except WireError as error:
            raise Refused(str(error), problem=error.problem) from None
        return {"type": name, "body": self._converter.codec(type(message)).dump(message)}

    def _load_named(self, value: Any) -> Message:
        if type(value) is not dict or value.keys() != {"type", "body"} or type(value["type"]) is not str:
            raise Refused('expected {"type": a name, "body": an object} and nothing else', problem="malformed")
        if type(value["body"]) is not dict:
            raise expected("an object as the body", value["body"])
        try:
            cls = self.class_of(value["type"])
        except WireError as error:
            raise Refused(str(error), problem=error.problem) from None
        try:
            message: Message = self._converter.codec(cls).load(value["body"])
        except Refused as refused:
            raise refused.at(cls.__qualname__) from None
        return message

    def _written(self, label: str, dump: Callable[[Any], Any], value: Any) -> bytes:
        try:
            return render(dump(value), self._limits)
        except Refused as refused:
            raise _wire_error(refused, label, "not_encodable") from None
        except WireError as error:
            raise WireError(f"{label}: {error}", problem=error.problem) from None
        except RecursionError:
            raise WireError(f"{label} is nested too deeply to be encoded, or it contains itself", problem="too_deep") from None
        except Exception as error:  # a property or a dunder of a user's class
            raise WireError(f"{label} cannot be encoded: {type(error).__name__} while reading it", problem="not_encodable") from error

    def _read(self, label: str, load: Callable[[Any], Any], value: Any) -> Any:
        try:
            return load(value)
        except Refused as refused:
            raise _wire_error(refused, label, "invalid_fields") from None
        except WireError:
            raise
        except RecursionError:
            raise WireError(f"the {label} is nested too deeply for the stack that was left", problem="too_deep") from None
        except Exception as error:  # an __eq__ or a __hash__ of a user's class
            raise WireError(f"the {label} cannot be built: {type(error).__name__}", problem="invalid_fields") from error

    def _refuse_class(self, cls: Any) -> NoReturn:
        try:
            info = message_info(cls)
        except DefinitionError as error:
            raise WireError(str(error), problem="unknown_type") from None
        newer = self._classes.get(info.name or f"{info.cls.__module__}:{info.label}")
        if newer is not None:
            text = f"{info.label} was defined again after this message was made: make a new one of the new class"
        else:
            text = f"{info.label} is not registered: spawn an actor that handles it, or register the class"
        raise WireError(text, problem="unknown_type")


def _wire_error(refused: Refused, label: str, problem: str) -> WireError:
    path = "".join(f"[{place}]" if isinstance(place, int) else place if place == "[]" else f".{place[:80]}" for place in refused.path)
    where = f"{label}{path}" if label != "message" else path.removeprefix(".") or label
    return WireError(f"{where}: {refused.text}", problem=refused.problem or problem)
