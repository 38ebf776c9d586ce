"""What stands for a message or a member of an enum where its class is not at hand: in a store, at a reviewer's, in another process.

A record says which class it was and what its fields were, and can do nothing else: it is shown, compared and hashed, and no handler takes
one for the message. It has the canonical bytes of what it stands for in `canonical_of_stored` alone.
"""

from __future__ import annotations

from typing import Any, NoReturn, final

from retinue.security.errors import DefinitionError

__all__ = ["FlagValue", "Member", "Record"]


class _Stored:
    """What the three have in common: they never change, and are equal where nothing about them differs, types included."""

    __slots__ = ("type_name",)

    type_name: str

    def __eq__(self, other: object) -> bool:
        from retinue.security.canonical import canonical_of_stored  # it has to know this module

        if type(other) is not type(self):
            return NotImplemented
        return canonical_of_stored(self) == canonical_of_stored(other)

    def __hash__(self) -> int:
        return hash((type(self), self.type_name))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable: {name!r} cannot be set.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable: {name!r} cannot be deleted.")


def _set(stored: _Stored, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(stored, name, value)


@final
class Record(_Stored):
    """A message, or another attrs class or dataclass, as it was stored.

    Attributes:
        type_name: Module and qualified name of the class.
        fields: The names of its fields with their values, in the class's order. `record["to"]` is the value of one.
    """

    __slots__ = ("fields",)

    fields: tuple[tuple[str, Any], ...]

    def __init__(self, type_name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        names = [name for name, _ in fields]
        if type(type_name) is not str or any(type(name) is not str or not name.isidentifier() for name in names):
            raise DefinitionError("a record has the name of a class, and fields whose names are identifiers.")
        if len(set(names)) != len(names):
            raise DefinitionError("a record has each field once.")
        _set(self, type_name=type_name, fields=fields)

    def __getitem__(self, name: str) -> Any:
        for field, value in self.fields:
            if field == name:
                return value
        raise KeyError(name)

    def __repr__(self) -> str:
        return f"<Record of {self.type_name}: {', '.join(name for name, _ in self.fields)}>"


@final
class Member(_Stored):
    """A member of an enum as it was stored.

    Attributes:
        type_name: Module and qualified name of the enum.
        name: The member's name.
    """

    __slots__ = ("name",)

    name: str

    def __init__(self, type_name: str, name: str) -> None:
        if type(type_name) is not str or type(name) is not str:
            raise DefinitionError("a member has the name of an enum, and its own.")
        _set(self, type_name=type_name, name=name)

    def __repr__(self) -> str:
        return f"<Member {self.type_name}.{self.name}>"


@final
class FlagValue(_Stored):
    """A value of a flag as it was stored: one member, several, or none.

    Attributes:
        type_name: Module and qualified name of the flag.
        number: Its value.
    """

    __slots__ = ("number",)

    number: int

    def __init__(self, type_name: str, number: int) -> None:
        if type(type_name) is not str or type(number) is not int:
            raise DefinitionError("a value of a flag has the name of the flag, and a number.")
        _set(self, type_name=type_name, number=number)

    def __repr__(self) -> str:
        return f"<FlagValue {self.type_name}|{self.number:#x}>"
