"""What stands beside a type in `Annotated`: a text that describes it, and plain constraints, of annotated-types or of pydantic's Field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from retinue.capabilities.schema_shapes import Misfit, Shape, misfit
from retinue.capabilities.tool_problems import Problem

__all__ = ["constrained"]

_Check = Callable[[Any], bool]

# By the attribute that carries the bound: so neither annotated-types nor pydantic has to be there.
_NUMBERS: Final[tuple[tuple[str, str, str, Callable[[Any, Any], bool]], ...]] = (
    ("ge", "minimum", "at least {}", lambda value, bound: value >= bound),
    ("gt", "exclusiveMinimum", "above {}", lambda value, bound: value > bound),
    ("le", "maximum", "at most {}", lambda value, bound: value <= bound),
    ("lt", "exclusiveMaximum", "below {}", lambda value, bound: value < bound),
    ("multiple_of", "multipleOf", "a multiple of {}", lambda value, bound: value % bound == 0),
)
_LENGTHS: Final[tuple[tuple[str, str, str, Callable[[Any, Any], bool]], ...]] = (
    ("min_length", "min", "at least {} long", lambda value, bound: len(value) >= bound),
    ("max_length", "max", "at most {} long", lambda value, bound: len(value) <= bound),
)
_LENGTH_OF: Final = {"string": "Length", "array": "Items", "object": "Properties"}


def constrained(shape: Shape, metadata: Iterable[Any]) -> Shape:
    """The shape with what stands beside it. What nobody here knows is left alone, as `Annotated` is meant."""
    schema = dict(shape.schema)
    words: list[str] = []
    checks: list[tuple[str, _Check]] = []
    for one in _flat(metadata):
        text = _description(one)
        if text:
            schema["description"] = text
        for attribute, keyword, form, holds in (*_NUMBERS, *_LENGTHS):
            bound = getattr(one, attribute, None)
            if bound is None or isinstance(one, str) or callable(bound):
                continue
            said = form.format(bound)
            words.append(said)
            checks.append((said, _check(holds, bound)))
            key = (
                keyword if keyword not in ("min", "max") else f"{keyword}{_LENGTH_OF.get(next(iter(shape.kinds - {'null'}), ''), 'Length')}"
            )
            if isinstance(bound, int | float):
                schema[key] = bound
        predicate = getattr(one, "func", None)
        if predicate is not None and type(one).__name__ == "Predicate":
            checks.append((f"one for which {getattr(predicate, '__name__', 'its predicate')} holds", predicate))
    if not checks:
        return Shape(schema, shape.load, shape.words, shape.kinds, text=shape.text, cls=shape.cls) if schema != shape.schema else shape
    return Shape(schema, _checked(shape, checks), ", ".join([shape.words, *words]), shape.kinds, text=shape.text)


def _checked(shape: Shape, checks: list[tuple[str, _Check]]) -> Callable[..., Any]:
    expected = ", ".join([shape.words, *(said for said, _ in checks)])

    def load(value: Any, _: Any = None) -> Any:
        made = shape.load(value)
        if made is None:  # of an optional one
            return made
        for _said, holds in checks:
            try:
                fits = bool(holds(made))
            except Exception as error:  # a predicate is anybody's code
                raise Misfit([Problem("", expected, f"a value that cannot be checked ({type(error).__name__})")]) from None
            if not fits:
                raise misfit(expected, value)
        return made

    return load


def _check(holds: Callable[[Any, Any], bool], bound: Any) -> _Check:
    return lambda value: holds(value, bound)


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    """The single pieces: some come in groups (Interval, Len), and pydantic's Field has a list of them."""
    for one in metadata:
        yield one
        inner = getattr(one, "metadata", None)
        if isinstance(inner, list | tuple):
            yield from _flat(inner)
        elif getattr(one, "__is_annotated_types_grouped_metadata__", False) and not any(
            getattr(one, name, None) is not None for name, *_ in _NUMBERS
        ):
            yield from _flat(list(one))


def _description(one: Any) -> str:
    if isinstance(one, str):
        return one
    text = getattr(one, "documentation", None) if type(one).__name__ == "Doc" else getattr(one, "description", None)
    return text if isinstance(text, str) else ""
