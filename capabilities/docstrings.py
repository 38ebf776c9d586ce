"""What docstrings say of a function and its parameters: Google's, NumPy's, Sphinx's and Epydoc's style, read by docstring-parser."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

__all__ = ["Documentation", "described_fields", "documentation_of"]

LONGEST: Final = 100_000
"""Characters of a docstring that are looked at."""

_HEADER: Final = re.compile(
    r"^[ \t]+(?:Args|Arguments|Parameters|Params|Keyword Args|Returns|Yields|Raises|Attributes)[ \t]*:[ \t]*$", re.MULTILINE
)
_ENTRY: Final = re.compile(
    r"^[ \t]*[-*]?[ \t]*`{0,2}\*{0,2}(?P<name>[^\W\d]\w*)`{0,2}[ \t]*(?:\([^\n]*\))?[ \t]*:[ \t]+(?P<text>\S[^\n]*)$", re.MULTILINE
)
_ROLE: Final = re.compile(r":[a-z]+:`~?([^`\n]*)`")


@attrs.frozen
class Documentation:
    """What a docstring says.

    Attributes:
        description: What the function does, without the sections.
        parameters: What each parameter is for, by name; those that are said nothing of are not in it.
    """

    description: str
    parameters: dict[str, str]


def documentation_of(function: Callable[..., Any], names: Iterable[str] = ()) -> Documentation:
    """What a function's docstring says.

    Args:
        function: The function; a partial's is that of what it wraps.
        names: The parameters that are looked for. Where the style's own rules find nothing (a section that is indented farther than the text around it, as is
            usual in Lagent), lines that begin with one of these names and a colon are taken.
    """
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    text = (inspect.getdoc(inner) or "")[:LONGEST]
    wanted = list(names)
    if not text:
        return Documentation("", {})
    found = _parsed(text, wanted)
    if any(name not in found.parameters for name in wanted):
        again = _parsed(_level(text), wanted)
        parameters = {**_entries(text, wanted), **again.parameters, **found.parameters}
        found = Documentation(again.description if again.parameters else found.description, parameters)
    return found


def described_fields(cls: type) -> dict[str, str]:
    """What the docstring of a class says of its fields, by name."""
    text = (cls.__dict__.get("__doc__") or "")[:LONGEST]
    return _parsed(inspect.cleandoc(text)).parameters if ":" in text else {}


def _parsed(text: str, wanted: list[str] | None = None) -> Documentation:
    import docstring_parser  # takes its time, and only who defines tools needs it

    try:
        read = docstring_parser.parse(_ROLE.sub(r"\1", text))  # the colons of cross-references are taken for its own
    except Exception:  # a docstring is prose, and any prose will do
        return Documentation(text, {})
    parameters = {param.arg_name.lstrip("*"): _line(param.description) for param in read.params if param.description}
    description = read.description or ""
    return Documentation(
        description.strip(), {name: said for name, said in parameters.items() if said and (wanted is None or name in wanted)}
    )


def _level(text: str) -> str:
    """The text, each section that is indented as a whole moved to the margin."""
    lines = text.split("\n")
    margin = 0
    for index, line in enumerate(lines):
        if _HEADER.match(line):
            margin = len(line) - len(line.lstrip())
        elif line.strip() and len(line) - len(line.lstrip()) < margin:
            margin = 0
        lines[index] = line[margin:] if line[:margin].isspace() else line
    return "\n".join(lines)


def _entries(text: str, names: list[str]) -> dict[str, str]:
    return {match["name"]: _line(match["text"]) for match in _ENTRY.finditer(text) if match["name"] in names}


def _line(text: str) -> str:
    """One paragraph, its lines joined; of cross-references the text alone."""
    return _ROLE.sub(r"\1", " ".join(text.split()))
