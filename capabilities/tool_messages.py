"""The message class of a tool: one field a parameter, so that the gate, constraints, policies and reviewers see the arguments of a call by name."""

from __future__ import annotations

import copy
import keyword
from collections.abc import Callable, Iterable
from types import new_class
from typing import Annotated, Any, Final

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn_from_attrs

from retinue.capabilities.schema import COMPILING
from retinue.capabilities.schema_shapes import Shape
from retinue.capabilities.tool_results import ToolResult
from retinue.mailbox.messages import Request, message

__all__ = ["MessageField", "builder", "caller", "field_names", "filler", "message_class"]

_ROOT: Final = frozenset(dir(Request))


@attrs.frozen
class MessageField:
    """One parameter, as the message class has it.

    Attributes:
        name: The parameter's name.
        field: The field's name: the same, or one like it where a field cannot have that name.
        annotation: The type of its values.
        shape: How it is read.
        default: The default, or NOTHING.
        omitted: Whether the function is not given it where it is None: it was not said, and the function has no default for it.
    """

    name: str
    field: str
    annotation: Any
    shape: Shape
    default: Any = attrs.field(factory=lambda: attrs.NOTHING)  # as a plain default it would mean that there is none
    omitted: bool = False


def field_names(names: Iterable[str]) -> dict[str, str]:
    """A field's name for each parameter: its own, or one like it where that is no identifier, or is taken."""
    listed = list(names)
    found = {name: name for name in listed if _is_usable(name)}
    for name in listed:
        if name not in found:
            base = "".join(character if character.isalnum() else "_" for character in name).strip("_") or "argument"
            base = f"_{base}" if base[0].isdigit() else base
            tries = (base, *(f"{base}_{number}" for number in range(2, 10_000)))
            found[name] = next(one for one in tries if _is_usable(one) and one not in found.values() and one not in listed)
    return {name: found[name] for name in listed}


def _is_usable(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    return name.isidentifier() and not keyword.iskeyword(name) and name not in _ROOT and name != "self" and not dunder


def message_class(label: str, fields: Iterable[MessageField], *, timeout: float | None = None) -> type[Request[ToolResult]]:
    """The class: a request that is answered by a ToolResult.

    Args:
        label: The tool's name.
        fields: Its parameters.
        timeout: How long an ask waits by default, in seconds.

    Where a field is called otherwise than its parameter, `__argument_names__` says so, and what looks at the arguments of a call goes by it.
    """
    listed = list(fields)
    body: dict[str, Any] = {"__module__": __name__, "__qualname__": label, "__doc__": f"A call of the tool {label!r}."}
    body["__annotations__"] = {one.field: one.annotation for one in listed}
    for one in listed:
        body[one.field] = attrs.field(default=_default(one.default), alias=one.field, kw_only=True)
    renamed = {one.field: one.name for one in listed if one.field != one.name}
    # Its name is part of generated code; the qualified one is what people read.
    name = "".join(character if character.isalnum() else "_" for character in label)
    made: type[Request[ToolResult]] = message(timeout=timeout)(
        new_class(name, (Request[ToolResult],), exec_body=lambda space: space.update(body))
    )
    if renamed:
        made.__argument_names__ = renamed  # type: ignore[attr-defined]
    return made


def _default(default: Any) -> Any:
    if isinstance(default, list | dict | set | bytearray):
        return attrs.Factory(lambda: copy.deepcopy(default))
    return default


def builder(cls: Any, fields: Iterable[MessageField], settings: cattrs.BaseConverter) -> Callable[[Any, Any], Any]:
    """What makes the message of parsed JSON: compiled by cattrs, once. It raises cattrs' ClassValidationError."""
    by_field = {one.field: one for one in fields}
    attributes = []
    for attribute in attrs.fields(cls):
        one = by_field[attribute.name]
        # Beside the type, not as keywords: a parameter may be called as one of cattrs' own.
        read = Annotated[Any, cattrs.override(struct_hook=one.shape.load, rename=one.name)]
        attributes.append(attribute.evolve(type=read))
    made: Callable[[Any, Any], Any] = make_dict_structure_fn_from_attrs(attributes, cls, settings, {}, **COMPILING)
    return made


def caller(
    function: Callable[..., Any],
    fields: Iterable[MessageField],
    *,
    positional: Iterable[str] = (),
    context: str | None = None,
    context_by_position: bool = False,
) -> Callable[[Any, Any], Any]:
    """What calls the function with a message's arguments, and with the context where it takes one: `invoke(message, context)`."""
    by_position = set(positional)
    arguments = [f"message.{one.field}" for one in fields if one.name in by_position]
    if context_by_position:
        arguments.append("context")
    odd: list[MessageField] = []
    for one in fields:
        if one.name in by_position:
            continue
        if one.omitted or not one.name.isidentifier() or keyword.iskeyword(one.name):
            odd.append(one)
        else:
            arguments.append(f"{one.name}=message.{one.field}")
    if context is not None and not context_by_position:
        arguments.append(f"{context}=context")
    if odd:
        arguments.append(f"**{_mapping(odd)}")
    invoke: Callable[[Any, Any], Any] = _compiled("invoke", f"return function({', '.join(arguments)})", function=function)
    return invoke


def filler(fields: Iterable[MessageField], context: str | None = None) -> Callable[[Any, Any], dict[str, Any]]:
    """What gives a message's arguments by the parameters' names: `fill(message, context)`."""
    last = f", {context!r}: context" if context is not None else ""
    made: Callable[[Any, Any], dict[str, Any]] = _compiled(
        "fill", f"return {{**{_mapping(fields)}{last}}}" if last else f"return {_mapping(fields)}"
    )
    return made


def _mapping(fields: Iterable[MessageField]) -> str:
    """The text of a dict of arguments by name, without those that are left out."""
    listed = list(fields)
    always = ", ".join(f"{one.name!r}: message.{one.field}" for one in listed if not one.omitted)
    perhaps = [f"**({{{one.name!r}: message.{one.field}}} if message.{one.field} is not None else {{}})" for one in listed if one.omitted]
    return f"{{{', '.join([*([always] if always else []), *perhaps])}}}"


def _compiled(name: str, body: str, **scope: Any) -> Any:
    source = f"def {name}(message, context):\n    {body}\n"
    exec(compile(source, f"<{name} of a tool>", "exec"), scope)  # noqa: S102 - names that are identifiers, and texts as literals
    return scope[name]
