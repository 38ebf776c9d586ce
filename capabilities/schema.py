"""JSON Schema from Python's types, and the reading of JSON by the same types: what is told to the model is what is checked.

    >>> Schemas().shape(list[int] | None).schema
    {'anyOf': [{'type': 'array', 'items': {'type': 'integer'}}, {'type': 'null'}]}

`Schemas` is a cattrs converter whose hooks come from shapes: each is compiled once for a type, says the place of everything that it refuses, and coerces nothing. A
lenient one reads what a strict one has refused: a value that stands as JSON text where something else than text is wanted, digits where text is.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, ForwardRef, Literal, NewType, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import ClassValidationError
from cattrs.gen import make_dict_structure_fn_from_attrs

from retinue.capabilities.docstrings import described_fields
from retinue.capabilities.evaluating import evaluate_in
from retinue.capabilities.schema_collections import collection_shape, union_shape
from retinue.capabilities.schema_constraints import constrained
from retinue.capabilities.schema_lenient import lenient
from retinue.capabilities.schema_records import (
    Field,
    attributes_of,
    is_model,
    is_named_tuple,
    is_typed_dict,
    loader_of_fields,
    model_shape,
    named_tuple_fields,
    object_schema,
    problems_of,
    typed_dict_fields,
)
from retinue.capabilities.schema_scalars import ANY, enum_shape, literal_shape, scalar_shape
from retinue.capabilities.schema_shapes import EVERY, OBJECT, Misfit, Shape, Unsupported, misfit
from retinue.mailbox.annotations import Unresolved, field_types, substitute
from retinue.mailbox.messages import names_of

__all__ = ["COMPILING", "Schemas", "is_enforceable", "json_default", "schema_text"]

USE: Final = (
    "use str, int, float, bool, None, Any, Literal, an Enum, list, tuple, set, dict[str, …], date, datetime, UUID, Path, Decimal, bytes, an attrs class, a "
    "dataclass, a TypedDict, a NamedTuple, or unions of them"
)


COMPILING: Final[dict[str, Any]] = {"_cattrs_use_linecache": False, "_cattrs_forbid_extra_keys": True, "_cattrs_use_alias": True}
"""How cattrs compiles what builds a class: unknown names are refused."""


class Schemas(cattrs.BaseConverter):
    """The shapes of one tool's types.

    Args:
        strict: The strict one, where this is to read what that has refused: values that are there, only in another form; see `schema_lenient`.
        names: What annotations may name beside what their modules have: the names of the function in which a tool was defined.
        module: The module in which forward references of aliases are looked up.

    Attributes:
        definitions: The schemas of recursive types by name: the root's `$defs`.
    """

    def __init__(self, *, strict: Schemas | None = None, names: Mapping[str, Any] | None = None, module: str = "builtins") -> None:
        super().__init__(detailed_validation=True)
        self.definitions: dict[str, dict[str, Any]] = {}
        self._of_strict = strict
        self._names = dict(names or {})
        self._module = module
        self._shapes: dict[Any, Shape] = {}
        self._unfinished: dict[int, str] = {}  # shells that are being compiled, by id, and what they were called if they were needed

    def shape(self, kind: Any) -> Shape:
        """The shape of a type.

        Raises:
            Unsupported: It has no form in JSON; the text says which, and what has.
        """
        try:
            known = self._shapes.get(kind)
        except TypeError:  # Annotated or Literal with something that cannot be hashed
            return self._compile(kind, Shape(*_UNKNOWN))
        if known is not None:
            if id(known) in self._unfinished and not self._unfinished[id(known)]:
                self._name(known, kind)
            return known
        # A type may contain itself: who meets it again meanwhile gets this same object, which is filled by then.
        shell = self._shapes[kind] = Shape(*_UNKNOWN)
        shell.load = lambda value, _=None: shell.load(value)  # which is another one by then
        self._unfinished[id(shell)] = ""
        try:
            made = self._compile(kind, shell)
        except BaseException:
            self._shapes.pop(kind, None)
            raise
        finally:
            name = self._unfinished.pop(id(shell))
        reference = shell.schema
        if made is not shell:
            shell.fill(made)
        if name:
            self.definitions[name] = made.schema
            shell.schema = reference
        return shell

    def get_structure_hook(self, type: Any, cache_result: bool = True) -> Callable[[Any, Any], Any]:  # noqa: A002, ARG002 -- cattrs' names
        """Overrides cattrs: hooks come from shapes."""
        return self.shape(type).load

    def root(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema as a whole document, with the definitions that it refers to."""
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def _name(self, shell: Shape, kind: Any) -> None:
        base = kind.__forward_arg__ if isinstance(kind, ForwardRef) else getattr(kind, "__name__", None) or "Value"
        base = "".join(character if character.isalnum() or character in "_-" else "_" for character in base)
        taken = {*self.definitions, *self._unfinished.values()}
        name = next(one for one in (base, *(f"{base}_{number}" for number in range(2, 10_000))) if one not in taken)
        self._unfinished[id(shell)] = name
        shell.schema = {"$ref": f"#/$defs/{name}"}

    def _compile(self, kind: Any, shell: Shape) -> Shape:
        made = self._made(kind, shell)
        return made if self._of_strict is None or made is ANY else lenient(made, self._of_strict.shape(kind))

    def _made(self, kind: Any, shell: Shape) -> Shape:
        if kind is None:
            kind = type(None)
        found = scalar_shape(kind) if isinstance(kind, type) else None
        if found is not None:
            return found
        if kind is Any or kind is object:
            return ANY
        origin = get_origin(kind) or kind
        if origin is Annotated:
            return constrained(self.shape(kind.__origin__), kind.__metadata__)
        named = self._named(kind, origin)
        if named is not None:
            return self.shape(named)
        if origin is Literal:
            return literal_shape(get_args(kind))
        if origin is Union or origin is types.UnionType:
            return union_shape(self.shape, kind)
        found = collection_shape(self.shape, kind)
        if found is not None:
            return found
        if isinstance(origin, type):
            return self._class(kind, origin, shell)
        raise Unsupported(f"{_label(kind)}, which no JSON stands for: {USE}")

    def _named(self, kind: Any, origin: Any) -> Any:
        """What stands under another name: a NewType, an alias of the `type` statement, a type variable, a forward reference. None for anything else."""
        if isinstance(kind, NewType):
            return kind.__supertype__
        if type(origin).__name__ == "TypeAliasType":
            given = dict(zip(getattr(origin, "__type_params__", ()), get_args(kind), strict=False))
            return substitute(origin.__value__, given) if given else origin.__value__
        if isinstance(kind, TypeVar):
            return Union[kind.__constraints__] if kind.__constraints__ else (kind.__bound__ or Any)  # noqa: UP007
        if getattr(origin, "_name", None) in ("Final", "ClassVar", "Required", "NotRequired", "ReadOnly"):
            return get_args(kind)[0]
        if isinstance(kind, ForwardRef | str):
            text = kind if isinstance(kind, str) else kind.__forward_arg__
            meant = evaluate_in(text, self._module, self._names)
            if meant is Unresolved:
                raise Unsupported(
                    f"{text!r}, a name that cannot be found: define or import it at the top of {self._module} (not under TYPE_CHECKING)"
                )
            return meant
        return None

    def _class(self, kind: Any, origin: Any, shell: Shape) -> Shape:
        if issubclass(origin, enum.Enum):
            return enum_shape(origin)
        shell.kinds, shell.words = OBJECT, f"an object ({origin.__name__})"
        if is_model(origin):
            return model_shape(origin, self._hoist)
        if attrs.has(origin) or dataclasses.is_dataclass(origin):
            return self._record(kind, origin, shell)
        if is_typed_dict(origin):
            return self._fields(origin, typed_dict_fields(origin, self._names), dict)
        if is_named_tuple(origin):
            return self._fields(origin, named_tuple_fields(origin, self._names), lambda made: origin(**made))
        raise Unsupported(f"{_label(kind)}, which no JSON stands for: {USE}")

    def _fields(self, cls: Any, fields: list[Field], make: Callable[[dict[str, Any]], Any]) -> Shape:
        told = described_fields(cls)
        shapes = {field.name: self._inner(cls, field.name, field.annotation) for field in fields}
        rows = [
            (field.name, _field_schema(shapes[field.name], field.default, told.get(field.name, "")), field.required) for field in fields
        ]
        schema = _described(object_schema(rows), cls)
        return Shape(schema, loader_of_fields(fields, shapes, make), f"an object ({cls.__name__})", OBJECT)

    def _record(self, kind: Any, cls: Any, shell: Shape) -> Shape:
        """An attrs class or a dataclass. The annotations are resolved here, not by cattrs: it knows nothing of classes that were defined in functions."""
        parameters = dict(zip(getattr(cls, "__parameters__", ()), get_args(kind), strict=False))
        hints = field_types(cls, lambda owner: {**self._names, **names_of(owner)})
        attributes = [field.evolve(type=substitute(hints[field.name], parameters)) for field in attributes_of(cls)]
        taken = [field for field in attributes if field.init]
        for field in taken:
            if field.type is Unresolved:
                raise Unsupported(
                    f"{cls.__qualname__}, whose field {field.name!r} names a type that cannot be found: define or import it at the top of {cls.__module__}"
                )
        told = described_fields(cls)
        shapes = {str(field.alias): self._inner(cls, field.name, field.type) for field in taken}
        rows = [
            (
                str(field.alias),
                _field_schema(shapes[str(field.alias)], field.default, str(field.metadata.get("description", told.get(field.name, "")))),
                field.default is attrs.NOTHING,
            )
            for field in taken
        ]
        variables = {variable.__name__: Any for variable in getattr(cls, "__parameters__", ())}
        build: Callable[[Any, Any], Any] = make_dict_structure_fn_from_attrs(attributes, cls, self, variables, **COMPILING)
        words = {name: shape.words for name, shape in shapes.items()}
        aliases = {field.name: str(field.alias) for field in taken}

        def load(value: Any, _: Any = None) -> Any:
            if not isinstance(value, Mapping):
                raise misfit(f"an object ({cls.__name__})", value)
            try:
                return build(value, cls)
            except ClassValidationError as group:
                raise _misfit_of(group, words, aliases) from None

        return Shape(_described(object_schema(rows), cls), load, shell.words, OBJECT, cls=cls)

    def _inner(self, cls: Any, name: str, annotation: Any) -> Shape:
        try:
            return self.shape(annotation)
        except Unsupported as error:
            raise Unsupported(f"{cls.__qualname__}, whose field {name!r} is {error}") from None

    def _hoist(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema that somebody else made, its definitions moved to ours."""
        inner = schema.pop("$defs", {})
        renamed: dict[str, str] = {}
        for name, one in inner.items():
            free = (name, *(f"{name}_{number}" for number in range(2, 10_000)))
            renamed[name] = next(new for new in free if self.definitions.get(new, one) == one)
            self.definitions[renamed[name]] = one
        for old, new in renamed.items():
            if old != new:
                _rename(schema, f"#/$defs/{old}", f"#/$defs/{new}")
                for one in inner.values():
                    _rename(one, f"#/$defs/{old}", f"#/$defs/{new}")
        return schema


def _misfit_of(group: ClassValidationError, words: Mapping[str, str], aliases: Mapping[str, str]) -> Misfit:
    return Misfit(later=lambda: problems_of(group, words, aliases))


_UNKNOWN: Final[tuple[Any, ...]] = ({}, lambda value, _=None: value, "a value", EVERY)


def _rename(schema: Any, old: str, new: str) -> None:
    if isinstance(schema, dict):
        if schema.get("$ref") == old:
            schema["$ref"] = new
        for one in schema.values():
            _rename(one, old, new)
    elif isinstance(schema, list):
        for one in schema:
            _rename(one, old, new)


def _label(kind: Any) -> str:
    return kind.__qualname__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def _described(schema: dict[str, Any], cls: Any) -> dict[str, Any]:
    text = inspect.cleandoc(cls.__dict__.get("__doc__") or "").partition("\n\n")[0].replace("\n", " ")
    generated = text.startswith(f"{cls.__name__}(")  # by dataclasses and NamedTuple
    return {**schema, "description": text} if text and not generated else schema


def _field_schema(shape: Shape, default: Any, description: str) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if description and "description" not in shape.schema:
        more["description"] = description
    written = json_default(default)
    if written is not attrs.NOTHING:
        more["default"] = written
    return {**shape.schema, **more} if more else shape.schema


_LONGEST_DEFAULT: Final = 200


def json_default(value: Any) -> Any:
    """A default as JSON, where it is short and plain; else NOTHING: a default that is not told still holds."""
    if value is attrs.NOTHING:
        return value
    if isinstance(value, enum.Enum):
        value = value.value
    if type(value) not in (str, int, float, bool, type(None), list, dict, tuple):
        return attrs.NOTHING
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return attrs.NOTHING
    return json.loads(text) if len(text) <= _LONGEST_DEFAULT else attrs.NOTHING


_ENFORCED: Final = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs", "description", "title",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
    }
)  # fmt: skip


def is_enforceable(schema: Any) -> bool:
    """Whether providers can hold a model to it ("strict mode"): each object closed and all its properties required, and no keyword that they do not know."""
    if not isinstance(schema, dict) or not schema or not schema.keys() <= _ENFORCED:
        return False
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    if "items" in schema:
        inner.append(schema["items"])
    return all(is_enforceable(one) for one in inner)


def schema_text(schema: dict[str, Any]) -> str:
    """A schema as JSON text, the same for the same schema. Characters stand for themselves: escapes cost tokens."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
