"""Unions on the wire: which member a JSON value is must always be plain."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin

from retinue.mailbox.annotations import bare
from retinue.mailbox.wire_codec import OBJECT, Codec, CodecOf, Refused, at, expected, json_kind, unfit
from retinue.mailbox.wire_scalars import ANY, literal_codec

__all__ = ["union_codec"]


def union_codec(codec_of: CodecOf, union: Any) -> Codec:
    """Bare where the JSON value alone tells which member it is, else `{"type": tag, "body": …}` for all but JSON's own scalars."""
    members = _members(union)
    if Any in members or object in members:
        return ANY
    literals = tuple(value for member in members if get_origin(member) is Literal for value in get_args(member))
    codecs = [codec_of(member) for member in members if get_origin(member) is not Literal]
    plain = sorted((codec for codec in codecs if codec.plain), key=lambda codec: codec.tag == "int")  # an int after a float: it wins below
    covered = frozenset[str]().union(*(codec.kinds for codec in plain))
    if literals:
        literal = literal_codec(literals)
        if not (literal.plain and literal.kinds <= {kind for codec in plain if codec.tag != "float" for kind in codec.kinds}):
            literal.plain = False
            codecs.append(literal)
        # else it adds nothing: `Literal["auto"] | str` is a str
    marked = [codec for codec in codecs if not codec.plain]
    tagged = len(marked) > 1 or any(codec.kinds & covered for codec in marked)
    by_tag = {codec.tag: codec for codec in marked}
    if tagged and len(by_tag) != len(marked):
        raise Refused(f"is a union of several {_twice(marked)}, which cannot be told apart: wrap them in attrs classes of different names")
    by_kind = {name: codec for codec in plain for name in codec.kinds}
    if marked and not tagged:
        by_kind |= dict.fromkeys(marked[0].kinds, marked[0])
    names = ", ".join(codec.tag for codec in codecs)

    def dump(value: Any) -> Any:
        for codec in marked:
            if codec.accepts(value):
                return {"type": codec.tag, "body": at(codec.dump, value, "body")} if tagged else codec.dump(value)
        for codec in plain:
            if codec.accepts(value):
                return codec.dump(value)
        if type(value) is int and "real" in by_kind and "integer" in by_kind:
            return by_kind["real"].dump(value)
        raise unfit(f"one of {names}", value)

    def load(value: Any) -> Any:
        codec = by_kind.get(json_kind(value))
        if codec is not None:
            return codec.load(value)
        if tagged and type(value) is dict and value.keys() == {"type", "body"} and type(value["type"]) is str:
            codec = by_tag.get(value["type"])
            if codec is not None:
                return at(codec.load, value["body"], "body")
        raise expected(f"one of {names}{', the type named' if tagged else ''}", value)

    kinds = covered | (OBJECT if tagged else frozenset[str]().union(*(codec.kinds for codec in marked)))
    return Codec("Union", kinds, lambda value: any(codec.accepts(value) for codec in codecs), dump, load)


def _members(kind: Any) -> list[Any]:
    found: list[Any] = []
    for member in get_args(kind):
        inner = bare(member)
        if get_origin(inner) in (Union, types.UnionType):
            found.extend(_members(inner))
        elif inner not in found:
            found.append(inner)
    return found


def _twice(codecs: list[Codec]) -> str:
    tags = [codec.tag for codec in codecs]
    return next(tag for tag in tags if tags.count(tag) > 1)
