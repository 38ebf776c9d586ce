"""What annotations mean: resolving deferred ones late, and telling whether a type promises an immutable value.

Messages may be defined in functions, in notebooks, redefined, and under deferred annotations. So a string is evaluated only when its
meaning is needed, in the namespace of the class that wrote it, together with the few names it needs from the enclosing function.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import inspect
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Generic,
    Literal,
    NewType,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs

__all__ = ["Unresolved", "bare", "evaluate", "field_types", "is_immutable", "local_names", "own_annotations", "substitute", "type_argument"]


class Unresolved:
    """Stands for the type of an annotation whose names cannot be found (yet). The class itself is the mark."""


NamesOf: TypeAlias = Callable[[type], dict[str, Any]]
"""Gives what a class that was defined in a function needs from there to resolve its annotations."""

_WORD = re.compile(r"[^\W\d]\w*")
_FRAMES_TO_LOOK_AT = 32

# All frozen attrs classes share one __setattr__; attrs has no public question for it.
_FROZEN_SETATTR: Any = attrs.make_class("Frozen", [], frozen=True).__setattr__

_ATOMS: frozenset[Any] = frozenset(
    {
        str, int, float, bool, complex, bytes, type(None), range, type(Ellipsis), type(NotImplemented), type,
        decimal.Decimal, fractions.Fraction, uuid.UUID,
        dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone, dt.tzinfo,
        pathlib.PurePath, pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.Path, pathlib.PosixPath, pathlib.WindowsPath,
        types.FunctionType, types.BuiltinFunctionType,
    }
)  # fmt: skip


def own_annotations(cls: type) -> dict[str, Any]:
    """The annotations that the class itself wrote, without its bases' (unresolved names stay names)."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return dict(annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))
    return dict(inspect.get_annotations(cls))


def evaluate(annotation: Any, owner: type, names: dict[str, Any]) -> Any:
    """The type that an annotation of `owner` means, or `Unresolved`. `names` holds what the enclosing function defined."""
    module = sys.modules.get(owner.__module__)
    spoken = {parameter.__name__: parameter for parameter in getattr(owner, "__type_params__", ())}
    local = {owner.__name__: owner, **spoken, **names}
    # get_type_hints is the public evaluator, and it wants something that carries annotations.
    carrier = type("carrier", (), {"__annotations__": {"it": annotation}, "__module__": owner.__module__})
    try:
        return get_type_hints(carrier, dict(vars(module)) if module else {}, local, include_extras=True)["it"]
    except Exception:  # the annotation is anybody's expression, and may fail in any way
        return Unresolved


def local_names(cls: type) -> dict[str, Any]:
    """What the deferred annotations of `cls` need from the functions and classes around it; to be called where the class is defined."""
    qualname = cls.__qualname__
    if "." not in qualname:
        return {}
    words = {word for text in _texts_of(cls) for word in _WORD.findall(text)}
    if not words:
        return {}
    around: set[str] = set()
    while "." in qualname:
        qualname = qualname.rpartition(".")[0].removesuffix(".<locals>")
        around.add(qualname)
    found: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe(1)
    for _ in range(_FRAMES_TO_LOOK_AT):
        if frame is None:
            break
        if frame.f_code.co_qualname in around and frame.f_globals.get("__name__") == cls.__module__:
            local = frame.f_locals
            for word in words - found.keys():
                if word in local:
                    found[word] = local[word]
        frame = frame.f_back
    return found


def _texts_of(cls: type) -> Iterator[str]:
    for annotation in own_annotations(cls).values():
        yield from _texts(annotation)
    for base in cls.__dict__.get("__orig_bases__", ()):
        yield from _texts(base)


def _texts(annotation: Any) -> Iterator[str]:
    if isinstance(annotation, str):
        yield annotation
    elif isinstance(annotation, ForwardRef):
        yield annotation.__forward_arg__
    elif get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _texts(part)


def type_argument(cls: type, root: type, names_of: NamesOf) -> Any:
    """What `cls` put for the one parameter of the generic class `root` that it derives from; `Any` where it put nothing."""
    chosen = _parameters(cls, root, names_of)
    return substitute(next(iter(chosen.values()), Any), {})


def field_types(cls: type, names_of: NamesOf) -> dict[str, Any]:
    """The types of the fields of an attrs class or a dataclass, in order: resolved (or `Unresolved`), base classes' parameters filled in."""
    fields: Iterable[tuple[str, Any]]
    if attrs.has(cls):
        fields = [(field.name, field.type) for field in attrs.fields(cls)]
    else:
        fields = [(field.name, field.type) for field in dataclasses.fields(cls)]
    found: dict[str, Any] = {}
    for name, annotation in fields:
        owner = next((base for base in cls.__mro__ if name in own_annotations(base)), cls)
        kind = Any if annotation is None else evaluate(annotation, owner, names_of(owner))
        found[name] = kind if owner is cls else substitute(kind, _parameters(cls, owner, names_of))
    return found


def _parameters(cls: type, root: type, names_of: NamesOf) -> dict[Any, Any]:
    """The type parameters of `root`, a base of `cls`, and what `cls` means by each (its own parameters stay)."""
    if cls is root:
        return {parameter: parameter for parameter in getattr(root, "__parameters__", ())}
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(base) or base
        if not isinstance(origin, type) or origin is Generic or not issubclass(origin, root):
            continue
        arguments = [evaluate(argument, cls, names_of(cls)) for argument in get_args(base)]
        given = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
        return {parameter: substitute(value, given) for parameter, value in _parameters(origin, root, names_of).items()}
    return {}


def substitute(annotation: Any, values: Mapping[Any, Any]) -> Any:
    """The annotation with its type variables replaced; those without a value become `Any`."""
    if isinstance(annotation, TypeVar):
        return values.get(annotation, Any)
    parameters = getattr(annotation, "__parameters__", ())
    if parameters and not isinstance(annotation, type):
        chosen = tuple(values.get(parameter, Any) for parameter in parameters)
        if any(value is Unresolved for value in chosen):
            return Unresolved
        try:
            return annotation[chosen]
        except TypeError:  # parameters that are no plain type variables
            return Unresolved
    return annotation


def bare(kind: Any) -> Any:
    """The type under Annotated, Final, NewType and the aliases of the `type` statement."""
    while True:
        origin = get_origin(kind)
        if origin is Annotated or origin is Final:
            kind = get_args(kind)[0]
        elif isinstance(kind, NewType):
            kind = kind.__supertype__
        elif type(kind).__name__ == "TypeAliasType":  # of 3.12
            kind = kind.__value__
        elif kind is None:
            return type(None)
        else:
            return kind


def is_immutable(annotation: Any) -> bool:
    """Whether values of that type are promised to be immutable through and through. Unknown types are not."""
    return _is_immutable(annotation, frozenset())


def _is_immutable(annotation: Any, seen: frozenset[Any]) -> bool:
    origin = get_origin(annotation)
    if origin is None:
        return _is_immutable_class(annotation, seen)
    if origin is Literal or origin is type:
        return True
    if origin is Annotated or origin is Final:
        return _is_immutable(get_args(annotation)[0], seen)
    if origin in (Union, types.UnionType, tuple, frozenset):
        return all(part is Ellipsis or _is_immutable(part, seen) for part in get_args(annotation))
    # A generic class of ours (Ref[Account]) may promise for itself; its arguments are then labels, not contents.
    return bool(getattr(origin, "__immutable__", False))


def _is_immutable_class(annotation: Any, seen: frozenset[Any]) -> bool:
    if annotation is None or annotation in _ATOMS:
        return True
    if isinstance(annotation, NewType):
        return _is_immutable(annotation.__supertype__, seen)
    if not isinstance(annotation, type):
        return False
    if getattr(annotation, "__immutable__", False) or issubclass(annotation, enum.Enum):
        return True
    if annotation in seen:  # a recursive class: as immutable as its other fields
        return True
    seen = seen | {annotation}
    if attrs.has(annotation):
        frozen = annotation.__setattr__ is _FROZEN_SETATTR
    elif dataclasses.is_dataclass(annotation):
        frozen = annotation.__dataclass_params__.frozen  # type: ignore[attr-defined]
    else:
        return False
    return frozen and all(_is_immutable(kind, seen) for kind in field_types(annotation, lambda _: {}).values())
