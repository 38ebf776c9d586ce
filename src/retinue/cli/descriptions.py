"""The description of a system's messages, checked before anything is read out of it: it comes from another process, which may be anybody's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["check_description"]

MOST_SCHEMAS: Final = 100_000
"""Schemas, those within others counted, in one description."""

_LISTS: Final = ("anyOf", "oneOf", "prefixItems")


def check_description(description: Mapping[str, Any]) -> None:
    """Returns where everything that is read out of a description is of the form that a gateway gives it.

    Raises:
        GatewayError: It is not ("malformed").
    """
    from retinue.client.answers import malformed

    try:
        _check(description)
    except _Odd as odd:
        raise malformed("the description of the messages", str(odd)) from None


class _Odd(Exception):
    """What is odd; becomes a GatewayError."""


def _check(description: Mapping[str, Any]) -> None:
    messages = _object(description.get("x-retinue-messages", {}), "its messages")
    schemas: list[Any] = []
    for message in messages.values():
        described = _object(message, "a message")
        if not isinstance(described.get("kind"), str):
            raise _Odd("a message without its kind")
        schemas.append(described.get("schema", {}))
    for names in _object(description.get("x-retinue-actors", {}), "its actors").values():
        _texts(names, "the messages of an actor")
    components = _object(description.get("components", {}), "its components")
    schemas += _object(components.get("schemas", {}), "its schemas").values()
    for count, schema in enumerate(_all(schemas)):
        if count > MOST_SCHEMAS:
            raise _Odd(f"it has more than {MOST_SCHEMAS:,} schemas")
        _check_schema(schema)


def _all(schemas: list[Any]) -> Iterable[Any]:
    """The schemas, and those within them."""
    left = list(schemas)
    while left:
        schema = left.pop()
        yield schema
        if not isinstance(schema, dict):
            continue
        left += schema.get("properties", {}).values()
        for name in _LISTS:
            left += schema.get(name, [])
        left += [schema[name] for name in ("items", "additionalProperties") if name in schema]


def _check_schema(schema: Any) -> None:
    if isinstance(schema, bool):
        return
    found = _object(schema, "a schema")
    _object(found.get("properties", {}), "the properties of a schema")
    _texts(found.get("required", []), "the required properties of a schema")
    for name in (*_LISTS, "enum"):
        if not isinstance(found.get(name, []), list):
            raise _Odd(f"a schema whose {name} is no list")
    for name in ("type", "$ref", "contentEncoding"):
        if not isinstance(found.get(name, ""), str):
            raise _Odd(f"a schema whose {name} is no text")


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Odd(f"{what}: no object")
    return value


def _texts(value: Any, what: str) -> None:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise _Odd(f"{what}: no list of texts")
