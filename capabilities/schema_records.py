"""Classes with fields as tools take them: attrs, dataclasses, TypedDict, NamedTuple, and pydantic models where the user brings them."""

from __future__ import annotations

import dataclasses
import difflib
import heapq
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, get_args, get_origin

import attrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError

from retinue.capabilities.schema_scalars import plain_json
from retinue.capabilities.schema_shapes import MOST_PROBLEMS, Misfit, Shape, Unsupported, joined, kind_of, misfit, shown, under
from retinue.capabilities.tool_problems import Problem

__all__ = [
    "Field", "attributes_of", "is_model", "is_named_tuple", "is_typed_dict", "loader_of_fields", "model_shape", "named_tuple_fields",
    "object_schema", "problems_of", "typed_dict_fields", "unknown",
]  # fmt: skip

_SHOWN_NAMES: Final = 20


@attrs.frozen
class Field:
    """One field of a class.

    Attributes:
        name: Its name.
        annotation: Its type, resolved.
        required: Whether it has no default.
        default: The default where it is a value; else NOTHING.
        description: What it is for; "" if nobody says.
    """

    name: str
    annotation: Any
    required: bool
    default: Any = attrs.field(factory=lambda: attrs.NOTHING)  # as a plain default it would mean that there is none
    description: str = ""


def attributes_of(cls: Any) -> tuple[attrs.Attribute[Any], ...]:
    """The attrs attributes of a class; those of a dataclass are translated."""
    if attrs.has(cls):
        return tuple(attrs.fields(cls))
    given: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        default: Any = attrs.NOTHING if field.default is dataclasses.MISSING else field.default
        if field.default_factory is not dataclasses.MISSING:
            default = attrs.Factory(field.default_factory)
        given[field.name] = attrs.field(default=default, init=field.init, alias=field.name, kw_only=True, metadata=dict(field.metadata))
    return tuple(attrs.fields(attrs.make_class(cls.__name__, given)))


def is_typed_dict(kind: Any) -> bool:
    """Whether it is a TypedDict, of `typing` or of `typing_extensions`."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__total__") and hasattr(kind, "__required_keys__")


def is_named_tuple(kind: Any) -> bool:
    """Whether it is a named tuple."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_model(kind: Any) -> bool:
    """Whether it is a pydantic model; pydantic is not imported for that."""
    return (
        isinstance(kind, type)
        and any(base.__module__.partition(".")[0] == "pydantic" for base in kind.__mro__)
        and hasattr(kind, "model_validate")
    )


def typed_dict_fields(cls: Any, names: Mapping[str, Any]) -> list[Field]:
    """The fields of a TypedDict."""
    fields: list[Field] = []
    for name, hint in _hints(cls, names).items():
        required = name in cls.__required_keys__
        kind = hint
        while True:  # Annotated[NotRequired[…], …] is allowed, as is the other way round
            origin = get_origin(kind)
            word = getattr(origin, "__name__", None) or getattr(origin, "_name", "")
            if word in ("Required", "NotRequired"):
                required = word == "Required"
            elif word != "ReadOnly":
                break
            kind = get_args(kind)[0]
        if get_origin(kind) is Annotated and getattr(get_origin(get_args(kind)[0]), "_name", "") in ("Required", "NotRequired"):
            inner = get_args(kind)[0]
            required = getattr(get_origin(inner), "_name", "") == "Required"
            kind = Annotated[(get_args(inner)[0], *get_args(kind)[1:])]
        fields.append(Field(name, kind, required))
    return fields


def named_tuple_fields(cls: Any, names: Mapping[str, Any]) -> list[Field]:
    """The fields of a named tuple; those of `collections.namedtuple` have no types, and are refused."""
    hints = _hints(cls, names)
    untyped = [name for name in cls._fields if name not in hints]
    if untyped:
        raise Unsupported(f"{cls.__qualname__}, a named tuple whose field {untyped[0]!r} has no type: derive it from typing.NamedTuple")
    return [Field(name, hints[name], name not in cls._field_defaults, cls._field_defaults.get(name, attrs.NOTHING)) for name in cls._fields]


def _hints(cls: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, localns=dict(names), include_extras=True)
    except Exception as error:  # an annotation is anybody's expression
        raise Unsupported(
            f"{cls.__qualname__}, of which an annotation cannot be resolved ({error}): define or import the name at the top of {cls.__module__}"
        ) from None


def loader_of_fields(fields: Iterable[Field], shapes: Mapping[str, Shape], make: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Reads an object with these fields, and gives what was there to `make`. All that is wrong is told at once."""
    required = [field.name for field in fields if field.required]

    def load(value: Any, _: Any = None) -> Any:
        if not isinstance(value, Mapping):
            raise misfit("an object", value)
        made: dict[str, Any] = {}
        wrong = [Misfit([Problem(name, shapes[name].words, "nothing")]) for name in required if name not in value]
        for name, one in value.items():
            if len(wrong) >= MOST_PROBLEMS:
                break
            shape = shapes.get(name)
            if shape is None:
                wrong.append(Misfit([unknown(name, shapes)]))
                continue
            try:
                made[name] = shape.load(one)
            except Misfit as error:
                wrong.append(error.at(name))
        if wrong:
            raise joined(wrong)
        return make(made)

    return load


def object_schema(fields: Iterable[tuple[str, dict[str, Any], bool]]) -> dict[str, Any]:
    """The JSON Schema of an object with fields: name, schema, whether required. Nothing else may be in it."""
    listed = list(fields)
    return {
        "type": "object",
        "properties": {name: schema for name, schema, _ in listed},
        "required": [name for name, _, required in listed if required],
        "additionalProperties": False,
    }


def unknown(name: object, known: Iterable[str]) -> Problem:
    """The problem of a name that nothing has, with the one that was probably meant."""
    names = list(known)
    said = str(name)[:80]
    alike = {_bare(one): one for one in names}
    near = alike.get(_bare(said)) or next(iter(difflib.get_close_matches(said, names, 1)), None)
    listed = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
    return Problem(
        said,
        f"no such name, but one of: {listed}" if names else "no such name: there are none",
        "a value",
        f"did you mean {near!r}?" if near else "",
    )


def _bare(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def problems_of(error: BaseException, words: Mapping[str, str], aliases: Mapping[str, str] = {}) -> list[Problem]:
    """What cattrs found wrong with an object.

    Args:
        error: What it raised.
        words: The names that the object may have, and what is expected under each.
        aliases: What a field is called in the object, where that is another name.
    """
    if isinstance(error, Misfit):
        return list(error.problems)
    if isinstance(error, RecursionError):
        return [Problem("", "less within each other", "too much")]
    if not isinstance(error, ClassValidationError):
        # Raised by the class's own validators and converters: its words are the class author's.
        return [Problem("", "what its class accepts", f"{type(error).__name__}: {str(error)[:200]}")]
    found: list[Problem] = []
    noted, others = error.group_exceptions()
    for inner, note in noted:
        name = aliases.get(note.name, note.name)
        if isinstance(inner, KeyError) and inner.args == (name,):
            found.append(Problem(name, words.get(name, "a value"), "nothing"))
        else:
            found += [under(problem, name) for problem in problems_of(inner, {})]
    for inner in others:
        if isinstance(inner, ForbiddenExtraKeysError):
            found += [unknown(name, words) for name in heapq.nsmallest(_SHOWN_NAMES, map(str, inner.extra_fields))]
        else:
            found += problems_of(inner, words)
    return found


def model_shape(cls: Any, hoist: Callable[[dict[str, Any]], dict[str, Any]]) -> Shape:
    """The shape of a pydantic model: its own schema and its own validation.

    Args:
        cls: The model.
        hoist: Takes the model's schema, and gives it with its definitions moved to the root.
    """

    def load(value: Any, _: Any = None) -> Any:
        if isinstance(value, cls):
            return value
        if kind_of(value) != "object":
            raise misfit("an object", value)
        try:
            return cls.model_validate(plain_json(value))
        except ValueError as error:
            listed: Any = getattr(error, "errors", None)
            if not callable(listed):
                raise
            told: Any = listed()
            raise Misfit([_of_model(one) for one in told][:_SHOWN_NAMES]) from None

    return Shape(hoist(cls.model_json_schema()), load, f"an object ({cls.__name__})", frozenset({"object"}), cls=cls)


def _of_model(error: dict[str, Any]) -> Problem:
    said = str(error.get("msg", "what its class accepts"))[:200].removeprefix("Input should be ")
    problem = Problem("", said, "nothing" if error.get("type") == "missing" else shown(error.get("input")))
    places: tuple[Any, ...] = tuple(error.get("loc", ()))
    for place in reversed(places):
        problem = under(problem, place if isinstance(place, int) else str(place))
    return problem
