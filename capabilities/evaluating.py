"""What the annotations of functions mean: written as types or as text, with names from the module or from the function around."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NewType, TypeVar, get_origin, get_type_hints

from retinue.mailbox.annotations import Unresolved

__all__ = ["evaluate_in", "names_around", "namespace_of", "unwrapped"]

_DEEPEST = 32


def evaluate_in(annotation: Any, module: str | Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    """The type that an annotation means, or `Unresolved`.

    Args:
        annotation: A type, or its text.
        module: The module's name, or the namespace, in which it is written.
        names: What else it may name.
    """
    space = (
        dict(vars(sys.modules[module]))
        if isinstance(module, str) and module in sys.modules
        else {}
        if isinstance(module, str)
        else dict(module)
    )
    # get_type_hints is the public evaluator, and it wants something that carries annotations.
    carrier = type("carrier", (), {"__annotations__": {"it": annotation}, "__module__": __name__})
    try:
        return get_type_hints(carrier, space, {**names}, include_extras=True)["it"]
    except Exception:  # the annotation is anybody's expression, and may fail in any way
        return Unresolved


def unwrapped(function: Any) -> Any:
    """The function within partials and wrappers; itself where they lead nowhere, as with an object that has every attribute."""
    try:
        while isinstance(function, functools.partial):
            function = function.func
        return inspect.unwrap(function)
    except ValueError:
        return function


def namespace_of(function: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The globals in which a function's annotations are written, and the names that it has closed over or is generic in."""
    inner: Any = unwrapped(function)
    inner = getattr(inner, "__func__", inner)
    if not isinstance(inner, types.FunctionType):
        call = getattr(type(inner), "__call__", None)  # noqa: B004 - the object's own code is wanted
        inner = call if isinstance(call, types.FunctionType) else inner
    names: dict[str, Any] = {variable.__name__: variable for variable in getattr(inner, "__type_params__", ())}
    code = getattr(inner, "__code__", None)
    if code is not None:
        for name, cell in zip(code.co_freevars, inner.__closure__ or (), strict=False):
            try:
                names[name] = cell.cell_contents
            except ValueError:  # nothing was put into it yet
                continue
    return getattr(inner, "__globals__", {}), names


def names_around(function: Callable[..., Any]) -> dict[str, Any]:
    """What is defined at this moment in the functions around one that is being defined; to be called where that happens."""
    inner: Any = getattr(unwrapped(function), "__func__", unwrapped(function))
    qualname = getattr(inner, "__qualname__", "")
    if not isinstance(qualname, str):
        return {}
    around: set[str] = set()
    while "." in qualname:
        qualname = qualname.rpartition(".")[0].removesuffix(".<locals>")
        around.add(qualname)
    found: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe(1) if around else None
    for _ in range(_DEEPEST):
        if frame is None:
            break
        if frame.f_code.co_qualname in around and frame.f_globals is getattr(inner, "__globals__", None):
            # Types alone: what else stands there may be anybody's data, and would live as long as the tool.
            found = {**{name: one for name, one in frame.f_locals.items() if _is_type(one)}, **found}
        frame = frame.f_back
    return found


def _is_type(value: Any) -> bool:
    return (
        isinstance(value, type | types.ModuleType | NewType | TypeVar)
        or get_origin(value) is not None
        or type(value).__name__ == "TypeAliasType"
        or value is Any
    )
