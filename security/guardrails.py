"""Guardrails: what stands between an agent and the world. At the input, before a tool call, at the output; on whole texts and on streams alike.

A guardrail fails closed: what it raises, a time-out and an answer that is no decision block, and so do `0`, `[]` and `{}`. What one allows is still the gate's to
refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final, get_args

import attrs

from retinue.security.errors import DefinitionError
from retinue.security.text_filter import Detector

__all__ = ["STAGES", "Guarded", "Guardrail", "Stage", "guardrail"]

Stage: TypeAlias = Literal["input", "tool", "output"]

STAGES: Final[tuple[Stage, ...]] = get_args(Stage)

TIMEOUT: Final = 5.0
"""Seconds that one call of an `async def` guardrail may take."""

_NO_ARGUMENTS: Final[Mapping[str, Any]] = MappingProxyType({})


@attrs.frozen
class Guarded:
    """What a guardrail is asked about.

    Attributes:
        stage: "input", "tool" or "output".
        text: Of an input or output, the text.
        tool: Of a tool call, the tool's name.
        arguments: Of a tool call, its arguments by name: copies.
    """

    stage: Stage
    text: str = ""
    tool: str | None = None
    arguments: Mapping[str, Any] = _NO_ARGUMENTS


Check: TypeAlias = Callable[[Guarded], Any]


@final
@attrs.frozen(eq=False)
class Guardrail:
    """One guardrail. Made by `rt.guardrail` or by a template.

    Attributes:
        name: What errors call it.
        stage: Where it stands.
        check: Decides: `None` or `True` allow, `Replace` puts a text (or arguments) in place, `Block`, `False` or a str block, and so does anything else. None
            where detectors do the work.
        detectors: What is looked for in texts, also in those that come in pieces.
        replacement: What stands in the place of a finding; None: a finding blocks.
        confirm: Tools whose calls wait for a person.
        may_be_missing: Whether `confirm` may name tools that the agent does not have (yet).
        timeout: Seconds that one call of an `async def` check may take.
    """

    name: str
    stage: Stage
    check: Check | None = None
    detectors: tuple[Detector, ...] = ()
    replacement: str | None = None
    confirm: frozenset[str] = frozenset()
    may_be_missing: bool = False
    timeout: float = TIMEOUT


def guardrail(stage: Stage, *, name: str | None = None, timeout: float = TIMEOUT) -> Callable[[Check], Guardrail]:
    """Makes a function of a `Guarded` a guardrail: `@rt.guardrail("output")`. A plain `def` is called in the event loop, so it has to be quick.

    An output guardrail of this kind judges the whole text, so a stream waits for its end. Templates that look for patterns let it flow.

    Args:
        stage: "input", "tool" or "output".
        name: What errors call it; default the function's name.
        timeout: Seconds that one call of an `async def` may take; then it blocks.

    Raises:
        DefinitionError: No such stage, or no time-out.
    """
    check_stage(stage, "rt.guardrail")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise DefinitionError(f"rt.guardrail: timeout={timeout!r} is no number of seconds above zero")

    def made(check: Check) -> Guardrail:
        return Guardrail(name or str(getattr(check, "__qualname__", type(check).__name__)), stage, check, timeout=timeout)

    return made


def check_stage(stage: object, where: str) -> None:
    """Raises DefinitionError for what is no stage."""
    if stage not in STAGES:
        raise DefinitionError(f"{where}: there is no stage {stage!r}; use one of {', '.join(STAGES)}")


def names_of(names: str | Iterable[str], where: str) -> frozenset[str]:
    """The names; of a single str the one that it is. Raises DefinitionError for anything else."""
    if isinstance(names, str):
        return frozenset((names,))
    found = list(names) if isinstance(names, Iterable) else [names]
    if not found or not all(isinstance(name, str) and name for name in found):
        raise DefinitionError(f"{where}: {names!r} are no names: give a list of str")
    return frozenset(found)
