"""`key=value` on the command line, as the fields of a message: converted by the JSON Schema that the system describes the message with.

- `item=tea`: text where the schema takes text, else read as JSON (`amount=5`, `fast=true`).
- `item:="tea"`: JSON, whatever the schema says.
- `note=@FILE`: the content of a file (`@-`: standard input), as text, JSON or, for bytes, as base64; `note:=@FILE`: a file of JSON. A text that begins with `@` is
  written with two.
- `customer.name=Ada`: a field of a field. `tags[]=a tags[]=b`: items of a list.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

import attrs
import click

__all__ = ["body_of", "nearest"]

_ARGUMENT: Final = re.compile(r"(?P<key>[^=:@\s]+(?:\[\])?)(?P<sign>:?=)(?P<text>.*)", re.DOTALL)
_LARGEST: Final = 16 * 1024 * 1024

MOST_ALTERNATIVES: Final = 1_000
"""Schemas of one value that are told apart."""

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "integer": (int,), "number": (int, float), "boolean": (bool,), "null": (type(None),), "array": (list,), "object": (dict,), "string": (str,),
}  # fmt: skip


@attrs.frozen
class Schemas:
    """The schemas of one description, by their names."""

    components: Mapping[str, Any]

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """The schema itself, where it is a reference to another."""
        for _ in range(20):
            if not isinstance(schema, Mapping):
                return {}
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = self.components.get(reference.rpartition("/")[2])
        return {}

    def alternatives(self, schema: Any) -> list[Mapping[str, Any]]:
        """The schemas of which one is to hold; each once, and at most 1,000."""
        found: list[Mapping[str, Any]] = []
        seen: set[int] = set()
        left = [schema]
        while left and len(found) < MOST_ALTERNATIVES:
            one = self.resolved(left.pop())
            if id(one) in seen:
                continue
            seen.add(id(one))
            choices = one.get("anyOf") or one.get("oneOf")
            if isinstance(choices, list):
                left += reversed(choices)
            else:
                found.append(one)
        return found or [{}]


def body_of(description: Mapping[str, Any], name: str, arguments: Iterable[str]) -> dict[str, Any]:
    """The body of a message, from what was typed.

    Args:
        description: What the gateway says of its messages.
        name: The message's wire name, which is in it.
        arguments: `key=value`, each.

    Raises:
        click.UsageError: An argument is malformed, of no field, or of another type; or one is missing.
    """
    schemas = Schemas(description.get("components", {}).get("schemas", {}))
    schema = description["x-retinue-messages"][name].get("schema", {})
    body: dict[str, Any] = {}
    for argument in arguments:
        match = _ARGUMENT.fullmatch(argument)
        if match is None:
            raise click.UsageError(f"{argument[:80]!r} is no argument: write key=value, or key:=JSON")
        _put(body, schemas, schema, match["key"], match["sign"] == ":=", match["text"])
    _check_complete(body, schemas, schema, "")
    return body


def nearest(name: str, candidates: Iterable[str]) -> str:
    """`; did you mean …?`, or the candidates where they are few."""
    known = sorted(candidates)
    matches = get_close_matches(name, known, n=2, cutoff=0.5)
    if matches:
        return f"; did you mean {' or '.join(matches)}?"
    return f"; there are {', '.join(known)}" if 0 < len(known) <= 12 else ""


def _put(body: dict[str, Any], schemas: Schemas, schema: Any, key: str, is_json: bool, text: str) -> None:
    appended = key.endswith("[]")
    parts = key.removesuffix("[]").split(".")
    if not all(parts):
        raise click.UsageError(f"{key!r} names no field: write it as field, or as field.part")
    target = body
    for number, part in enumerate(parts):
        shown = ".".join(parts[: number + 1])
        schema = _field(schemas, schema, part, shown)
        if number < len(parts) - 1:
            target = target.setdefault(part, {})
            if not isinstance(target, dict):
                raise click.UsageError(f"{shown} is given as a whole and in parts: choose one")
    last = parts[-1]
    if appended:
        items = target.setdefault(last, [])
        if not isinstance(items, list):
            raise click.UsageError(f"{key} is given as a whole and in parts: choose one")
        items.append(_value(schemas, _items(schemas, schema), key, is_json, text))
    elif last in target:
        raise click.UsageError(f"{key} is given twice; of a list, write {key}[]=… for each item")
    else:
        target[last] = _value(schemas, schema, key, is_json, text)


def _field(schemas: Schemas, schema: Any, name: str, shown: str) -> Any:
    """The schema of one field, of a class or of a mapping."""
    names: set[str] = set()
    for choice in schemas.alternatives(schema):
        properties = choice.get("properties", {})
        if name in properties:
            return properties[name]
        further = choice.get("additionalProperties", choice == {})
        if further is True:
            return {}
        if isinstance(further, Mapping):
            return further
        names |= set(properties)
    where = f" of {shown.rpartition('.')[0]}" if "." in shown else ""
    raise click.UsageError(f"there is no field {name!r}{where}{nearest(name, names) if names else ': it takes none'}")


def _items(schemas: Schemas, schema: Any) -> Any:
    return next((choice["items"] for choice in schemas.alternatives(schema) if "items" in choice), {})


def _value(schemas: Schemas, schema: Any, key: str, is_json: bool, text: str) -> Any:
    choices = schemas.alternatives(schema)
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        raw = _read(key, text[1:])
        if not is_json and any(choice.get("contentEncoding") == "base64" for choice in choices):
            return base64.b64encode(raw).decode("ascii")
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"{key}: the file is no UTF-8 text (at byte {error.start})") from None
    if is_json:
        return _json(key, text)
    if any(_takes_text(choice, text) for choice in choices):
        return text
    listed = [value for choice in choices for value in choice.get("enum", [])]
    value = _json(key, text, f": {_expected(choices)}")
    if not any(_fits(choice, value) for choice in choices) and not any(value == one and type(value) is type(one) for one in listed):
        raise click.UsageError(f"{key}: {_expected(choices)}, not {text[:60]!r}")
    return value


def _takes_text(choice: Mapping[str, Any], text: str) -> bool:
    if "const" in choice:
        return bool(choice["const"] == text)
    if "enum" in choice:
        return text in choice["enum"]
    return choice.get("type", "string") == "string" and "properties" not in choice


def _fits(choice: Mapping[str, Any], value: Any) -> bool:
    """Whether a value is of the right kind; the system looks at the rest."""
    if "enum" in choice or "const" in choice:
        return False
    kinds = _KINDS.get(choice.get("type", ""), ())
    return type(value) in kinds


def _expected(choices: Iterable[Mapping[str, Any]]) -> str:
    words: list[str] = []
    for choice in choices:
        if "enum" in choice:
            words += [json.dumps(value) if not isinstance(value, str) else value for value in choice["enum"]]
        elif "const" in choice:
            words.append(json.dumps(choice["const"]))
        else:
            words.append(str(choice.get("type", "a value")))
    return f"it takes {' or '.join(dict.fromkeys(words))}"


def _json(key: str, text: str, hint: str = "") -> Any:
    from retinue.mailbox.errors import WireError
    from retinue.mailbox.wire_json import Limits, parse

    try:
        return parse(text.encode("utf-8", "surrogatepass"), Limits(max_bytes=_LARGEST))
    except WireError as error:
        raise click.UsageError(f"{key}{hint or f': {error}'}{f', not {text[:60]!r}' if hint else ''}") from None


def _read(key: str, name: str) -> bytes:
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            # Not to be waited for: the other end of a pipe may never come, and a device may never end.
            with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise click.UsageError(
                        f"{key}: {name} is no regular file. What comes through a pipe is given on standard input: {key}=@-"
                    )
                raw = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise click.UsageError(f"{key}: {name} cannot be read: {why}. (A text that begins with @ is written with two.)") from None
    if len(raw) > _LARGEST:
        raise click.UsageError(f"{key}: {name} is larger than {_LARGEST:,} bytes")
    return raw


def _check_complete(value: Any, schemas: Schemas, schema: Any, where: str) -> None:
    """Refuse a body, or a part of one that was given by its fields, in which something is missing."""
    choices = schemas.alternatives(schema)
    if len(choices) != 1 or not isinstance(value, dict):
        return
    properties = choices[0].get("properties", {})
    missing = [f"{where}{name}" for name in choices[0].get("required", []) if name not in value]
    if missing:
        raise click.UsageError(
            f"{missing[0]}= is missing: {_expected(schemas.alternatives(properties.get(missing[0].rpartition('.')[2], {})))}"
        )
    for name, inner in value.items():
        if name in properties:
            _check_complete(inner, schemas, properties[name], f"{where}{name}.")
