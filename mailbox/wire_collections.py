"""Collections on the wire: arrays for lists, tuples and sets; objects, or arrays of pairs, for dicts."""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable
from typing import Any, get_args, get_origin

from retinue.mailbox.annotations import bare
from retinue.mailbox.wire_codec import ARRAY, OBJECT, STRING, Codec, CodecOf, Refused, at, each, expected, unfit

__all__ = ["collection_codec"]

_SEQUENCES: dict[Any, tuple[Any, Any]] = {  # annotation → (what a value must be, what is made of an array)
    list: (list, list),
    abc.MutableSequence: (list, list),
    abc.Sequence: ((list, tuple), tuple),
}
_SETS: dict[Any, tuple[Any, Any]] = {
    set: (set, set),
    abc.MutableSet: (set, set),
    frozenset: (frozenset, frozenset),
    abc.Set: ((set, frozenset), frozenset),
}
_MAPPINGS = frozenset({dict, abc.Mapping, abc.MutableMapping})


def collection_codec(codec_of: CodecOf, kind: Any) -> Codec | None:
    """The codec of a collection type, or None for another type. Bare `list` means `list[Any]`."""
    origin = get_origin(kind) or kind
    if origin in _SEQUENCES:
        accepted, make = _SEQUENCES[origin]
        return _array(codec_of, origin, (get_args(kind) or (Any,))[0], accepted, make)
    if origin in _SETS:
        accepted, make = _SETS[origin]
        return _set(codec_of, origin, (get_args(kind) or (Any,))[0], accepted, make)
    if origin is tuple:
        return _tuple(codec_of, kind)
    if origin in _MAPPINGS:
        return _mapping(codec_of, *(get_args(kind) or (Any, Any)))
    return None


def _array(codec_of: CodecOf, origin: Any, item: Any, accepted: Any, make: Any) -> Codec:
    codec = at(codec_of, item, "[]")
    name = origin.__name__

    def dump(value: Any) -> list[Any]:
        if not isinstance(value, accepted):
            raise unfit(name, value)
        return each(codec.dump, value)

    def load(value: Any) -> Any:
        if type(value) is not list:
            raise expected("an array", value)
        return make(each(codec.load, value))

    return Codec(name, ARRAY, lambda value: isinstance(value, accepted), dump, load)


def _set(codec_of: CodecOf, origin: Any, item: Any, accepted: Any, make: Any) -> Codec:
    codec = at(codec_of, item, "[]")
    name = origin.__name__

    def dump(value: Any) -> list[Any]:
        if not isinstance(value, accepted):
            raise unfit(name, value)
        # A set has no order, but one set should have one text.
        return sorted(each(codec.dump, value), key=repr)

    def load(value: Any) -> Any:
        if type(value) is not list:
            raise expected("an array", value)
        items = each(codec.load, value)
        try:
            made = make(items)
        except TypeError:
            raise Refused("expected items that a set can hold") from None
        if len(made) != len(items):
            raise Refused("has the same item twice, which a set cannot")
        return made

    return Codec(name, ARRAY, lambda value: isinstance(value, accepted), dump, load)


def _tuple(codec_of: CodecOf, kind: Any) -> Codec:
    items = get_args(kind)
    if getattr(kind, "__args__", None) is None:  # bare; tuple[()] has arguments, none of them
        return _array(codec_of, tuple, Any, tuple, tuple)
    if len(items) == 2 and items[1] is Ellipsis:
        return _array(codec_of, tuple, items[0], tuple, tuple)
    codecs = [at(codec_of, item, index) for index, item in enumerate(items)]
    size = len(codecs)

    def dump(value: Any) -> list[Any]:
        if not isinstance(value, tuple):
            raise unfit("tuple", value)
        if len(value) != size:
            raise Refused(f"is a tuple of {len(value)} items, annotated with {size}")
        return [at(codec.dump, item, index) for index, (codec, item) in enumerate(zip(codecs, value, strict=True))]

    def load(value: Any) -> Any:
        if type(value) is not list:
            raise expected(f"an array of {size} items", value)
        if len(value) != size:
            raise Refused(f"expected an array of {size} items, got {len(value)}")
        return tuple(at(codec.load, item, index) for index, (codec, item) in enumerate(zip(codecs, value, strict=True)))

    return Codec("tuple", ARRAY, lambda value: isinstance(value, tuple), dump, load)


def _mapping(codec_of: CodecOf, key: Any, item: Any) -> Codec:
    """An object where the keys cross as strings, else an array of pairs."""
    keys = codec_of(str if bare(key) is Any else key)
    items = at(codec_of, item, "[]")
    as_object = keys.kinds == STRING

    def dump(value: Any) -> Any:
        if not isinstance(value, abc.Mapping):
            raise unfit("dict", value)
        written = [[at(keys.dump, k, "key"), at(items.dump, v, k if type(k) is str else "value")] for k, v in value.items()]
        if not as_object:
            return written
        made = dict(written)
        if len(made) != len(written):
            raise Refused("has two keys that are the same on the wire")
        return made

    def load(value: Any) -> Any:
        if type(value) is not (dict if as_object else list):
            raise expected("an object" if as_object else "an array of pairs", value)
        pairs: Iterable[Any] = value.items() if isinstance(value, dict) else value
        made: dict[Any, Any] = {}
        for index, pair in enumerate(pairs):
            if not as_object and (type(pair) is not list or len(pair) != 2):
                raise expected("a pair", pair).at(index)
            place = pair[0] if as_object else index
            try:
                k = at(keys.load, pair[0], place)
                if k in made:
                    raise Refused("is the same key again").at(place)
                made[k] = at(items.load, pair[1], place)
            except TypeError:
                raise Refused("is no key that a dict can hold").at(place) from None
        return made

    return Codec("dict", OBJECT if as_object else ARRAY, lambda value: isinstance(value, abc.Mapping), dump, load)
