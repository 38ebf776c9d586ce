"""From a function to a tool: its schema, its message class, its reader of arguments, its digest."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

import attrs

from retinue.capabilities.arguments import Reader
from retinue.capabilities.schema import Schemas, is_enforceable, json_default, schema_text
from retinue.capabilities.schema_collections import optional
from retinue.capabilities.schema_records import object_schema
from retinue.capabilities.schema_scalars import NOTHING as NULL
from retinue.capabilities.schema_shapes import Shape, Unsupported
from retinue.capabilities.tool_class import Tool
from retinue.capabilities.tool_messages import MessageField, builder, caller, field_names, filler, message_class
from retinue.capabilities.tool_options import ToolOptions
from retinue.capabilities.tool_signature import Parameter, Signature, kind_of_function, place_of, signature_of
from retinue.security.definitions import code_digest, digest_of
from retinue.security.errors import DefinitionError, PatternError

__all__ = ["Recipe", "check_name", "finished", "tool_of_function", "wire_name_of"]

LONGEST_NAME: Final = 64
"""Characters of a name as providers take it."""

QUEUEING: Final = 30.0
"""Seconds that an asker waits beyond the tool's own time-out: for its turn, and for the answer that tells of the time-out."""

SETTINGS: Final = Schemas()
"""How cattrs builds messages: their hooks are given, so nothing is ever registered with it."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*")


def check_name(name: object, source: str) -> str:
    """The name of a tool, checked: what providers, operations and people can all read.

    Raises:
        DefinitionError: It is none.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(
            f"{name!r} is no name for a tool ({source}): A-Z a-z 0-9 _ -, a letter or _ first, a dot only between a toolkit and its tool. Give it one: "
            "@rt.tool(name='…')"
        )
    if len(wire_name_of(name)) > LONGEST_NAME:
        raise DefinitionError(
            f"the tool {name!r} ({source}) has a name of {len(wire_name_of(name))} characters, and providers take {LONGEST_NAME}: give it a shorter one, "
            "@rt.tool(name='…')"
        )
    return name


def wire_name_of(name: str) -> str:
    """The name for providers, which take no dots."""
    return name.replace(".", "__")


@attrs.frozen(kw_only=True)
class Recipe:
    """What a tool is made of, wherever its schema comes from.

    Attributes:
        name: Its name.
        description: What it does.
        function: What is called.
        options: Its options.
        fields: Its parameters, read strictly.
        lenient: Makes the same, read leniently.
        schema: The JSON Schema of its arguments.
        positional: The parameters that the function takes by position only.
        context: The parameter that is given a `ToolContext`, or None.
        context_by_position: Whether the function takes that one by position only.
    """

    name: str
    description: str
    function: Callable[..., Any]
    options: ToolOptions
    fields: tuple[MessageField, ...]
    lenient: Callable[[], tuple[MessageField, ...]]
    schema: dict[str, Any]
    positional: tuple[str, ...] = ()
    context: str | None = None
    context_by_position: bool = False


def tool_of_function(
    function: Callable[..., Any],
    options: ToolOptions,
    *,
    name: str | None = None,
    description: str | None = None,
    names: Mapping[str, Any] | None = None,
) -> Tool[Any, Any]:
    """The tool that a typed function is.

    Args:
        function: The function.
        options: Its options.
        name: Its name. Default: the function's.
        description: What it does, for the model. Default: what the docstring says.
        names: What annotations may name beside what the function's module has.

    Raises:
        DefinitionError: It cannot be one; the text names the tool, the parameter and the fix.
    """
    source = place_of(function)
    given = getattr(_innermost(function), "__name__", None) if name is None else name
    label = check_name(given, source)
    signature = signature_of(function, label, names)
    module = getattr(_innermost(function), "__module__", "builtins")
    schemas = Schemas(names=names, module=module)
    fields = _fields(signature, schemas, label, source)
    rows = [_row(parameter, field.shape) for parameter, field in zip(signature.parameters, fields, strict=True)]
    return finished(
        Recipe(
            name=label,
            description=signature.description if description is None else description,
            function=function,
            options=options,
            fields=fields,
            lenient=lambda: _fields(signature, Schemas(strict=schemas, names=names, module=module), label, source),
            schema=schemas.root(object_schema(rows)),
            positional=tuple(parameter.name for parameter in signature.parameters if parameter.positional),
            context=signature.context,
            context_by_position=signature.context_by_position,
        )
    )


def _innermost(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _fields(signature: Signature, schemas: Schemas, label: str, source: str) -> tuple[MessageField, ...]:
    names = field_names(parameter.name for parameter in signature.parameters)
    fields: list[MessageField] = []
    for parameter in signature.parameters:
        annotation = parameter.annotation
        try:
            shape = schemas.shape(annotation)
        except Unsupported as error:
            within = "" if isinstance(annotation, type) and not get_args(annotation) else f"{annotation}, in which is "
            raise DefinitionError(f"the tool {label!r} ({source}): its parameter {parameter.name!r} is of type {within}{error}") from None
        if parameter.default is None and "null" not in shape.kinds:  # `days: int = None` means that None may be given
            shape = optional(shape, NULL)
        fields.append(MessageField(parameter.name, names[parameter.name], annotation, shape, parameter.default))
    return tuple(fields)


def _row(parameter: Parameter, shape: Shape) -> tuple[str, dict[str, Any], bool]:
    more: dict[str, Any] = {}
    if parameter.description and "description" not in shape.schema:
        more["description"] = parameter.description
    default = json_default(parameter.default)
    if default is not attrs.NOTHING:
        more["default"] = default
    return parameter.name, {**shape.schema, **more}, parameter.default is attrs.NOTHING


def finished(recipe: Recipe) -> Tool[Any, Any]:
    """The tool of a recipe. Raises DefinitionError where its parts do not go together."""
    source = place_of(recipe.function)
    kind: Any = kind_of_function(recipe.function)
    _check_options(recipe, kind, source)
    fields = recipe.fields
    cls = message_class(recipe.name, fields, timeout=recipe.options.timeout + QUEUEING)
    text = schema_text(recipe.schema)
    words = {one.name: one.shape.words + ("" if one.default is attrs.NOTHING else ", optional") for one in fields}
    reader = Reader(
        recipe.name,
        builder(cls, fields, SETTINGS),
        lambda: builder(cls, recipe.lenient(), SETTINGS),
        cls,
        words,
        aliases={one.field: one.name for one in fields},
        empty=not fields,
    )
    return Tool(
        name=recipe.name,
        wire_name=wire_name_of(recipe.name),
        description=recipe.description,
        parameters=text,
        strict=is_enforceable(recipe.schema),
        function=recipe.function,
        kind=kind,
        options=recipe.options,
        message=cls,
        positional=recipe.positional,
        context_parameter=recipe.context,
        definition=_digest(recipe, text),
        source=source,
        reader=reader,
        fill=filler(fields, recipe.context),
        invoke=caller(
            recipe.function, fields, positional=recipe.positional, context=recipe.context, context_by_position=recipe.context_by_position
        ),
        made_with=lambda options: finished(attrs.evolve(recipe, options=options)),
    )


def _check_options(recipe: Recipe, kind: str, source: str) -> None:
    options = recipe.options
    where = f"the tool {recipe.name!r} ({source})"
    if options.blocking and kind in ("async", "asyncgen"):
        raise DefinitionError(
            f"{where} is an `async def` with blocking=True: write a plain `def`, which runs in a thread, or leave blocking= out"
        )
    if options.loop == "asyncio" and kind in ("def", "generator"):
        raise DefinitionError(f"{where} is a plain `def` with loop='asyncio': write `async def`, or leave loop= out")
    if options.requires is None:
        try:
            ToolOptions(requires=f"tool.{recipe.name}")
        except PatternError as error:
            raise DefinitionError(f"{where} has a name of which no operation can be made: {error} Give requires='…'") from None


def _digest(recipe: Recipe, schema: str) -> str:
    options = {
        name: value if isinstance(value, bool | int | str | None) else repr(value) if isinstance(value, float) else code_digest(value)
        for name, value in attrs.asdict(recipe.options).items()
    }
    return digest_of(name=recipe.name, description=recipe.description, schema=schema, options=options, code=code_digest(recipe.function))
