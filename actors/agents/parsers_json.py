"""A parser of answers that are JSON of one of several types: Lagent's JSONParser, over the types that structured output takes."""

from __future__ import annotations

from typing import Any

from retinue.actors.agents.output import Misfit, OutputType, output_type
from retinue.actors.agents.parsers import Parsed, Parser, fill_in
from retinue.security.errors import DefinitionError

__all__ = ["JSONParser"]

MAX_ERROR = 4000
"""Characters of what a model is told about an answer that fits none of the types."""


class JSONParser(Parser):
    """Reads answers as JSON of one of its types: the first that fits. `//` comment lines and a code fence are taken off first.

    Args:
        template: What the model is told before the types, with `{format}` for them; without that place they stand at its end.
        types: By name: attrs classes, dataclasses, pydantic models where you use pydantic, whatever `output_type` takes.

    Raises:
        DefinitionError: No type, or one that has no form in JSON.
    """

    __slots__ = ("_instruction", "_types")

    def __init__(self, template: str = "", **types: Any) -> None:
        if not types:
            raise DefinitionError("JSONParser: give the types of the answers by name, JSONParser(answer=Answer)")
        self._types: dict[str, OutputType[Any]] = {name: output_type(kind, name=name) for name, kind in types.items()}
        described = "\n".join(f"{name}: {kind.spec.schema}" for name, kind in self._types.items())
        told = f"Answer with JSON alone, without any other words, that fits {'this JSON Schema' if len(types) == 1 else 'one of these JSON Schemas'}:\n{described}"
        if "{format}" in template:
            self._instruction = fill_in(template, {"format": told}, "JSONParser")
        else:
            self._instruction = f"{fill_in(template, {}, 'JSONParser')}\n\n{told}" if template else told

    def parts(self) -> tuple[tuple[str | None, str], ...]:
        """The template and the types."""
        return ((None, self._instruction),)

    def parse(self, text: str, *, truncated: bool = False) -> Parsed:
        """The answer; its `value` is an object of the first type that fits, its status "error" where none does."""
        source = _without_comments(text)
        problems: list[str] = []
        for name, kind in self._types.items():
            try:
                return Parsed(text, value=kind.decode(source, truncated=truncated), status="valid")
            except Misfit as misfit:
                problems.append(str(misfit) if len(self._types) == 1 else f"As {name}: {misfit}")
        return Parsed(text, status="error", error="\n".join(problems)[:MAX_ERROR])


def _without_comments(text: str) -> str:
    """The text without lines that are a comment; a line within a string never begins with //, as JSON strings have no line breaks."""
    if "//" not in text:
        return text
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("//"))
