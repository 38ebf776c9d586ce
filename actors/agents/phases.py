"""The phases of a run at which hooks are called, and what may be put in a phase's payload's place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import attrs

from retinue.security.errors import DefinitionError

__all__ = ["LATER", "PHASES", "Phase", "check_phases", "fitting", "phases_of_object"]

Phase: TypeAlias = Literal[
    "before_run",
    "after_run",
    "on_error",
    "before_model_request",
    "after_model_response",
    "before_tool_call",
    "after_tool_result",
    "on_handoff",
    "on_approval_required",
    "on_resume",
]

PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
"""The closed set, in the order of a run."""

LATER: Final = frozenset(
    {
        *(
            "before_memory_retrieve",
            "after_memory_retrieve",
            "before_memory_write",
            "after_memory_write",
            "before_memory_promote",
            "after_memory_promote",
        ),
        *("before_flow", "after_flow", "before_step", "after_step", "on_flow_error"),
    }
)
"""Names that are kept for phases of memory and flows; an agent has none of these."""


def check_phases(phases: Iterable[str], where: str) -> tuple[Phase, ...]:
    """The phases, each once. Raises DefinitionError for one that does not exist, and for none at all."""
    if isinstance(phases, str):
        phases = (phases,)
    found = tuple(dict.fromkeys(phases))
    if not found:
        raise DefinitionError(f"{where}: no phase; give at least one of {', '.join(PHASES)}")
    for name in found:
        if name not in PHASES:
            raise DefinitionError(f"{where}: {_unknown(name)}")
    return cast("tuple[Phase, ...]", found)


def _unknown(name: object) -> str:
    if name in LATER:
        return f"the phase {name!r} is kept for later, an agent's run has none of it; it has {', '.join(PHASES)}"
    near = get_close_matches(name, PHASES, n=1) if isinstance(name, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else f"; the phases are {', '.join(PHASES)}"
    return f"there is no phase {name!r}{hint}"


def phases_of_object(thing: Any) -> tuple[Phase, ...]:
    """The phases that an object has methods for. Raises DefinitionError for a method that is named like one, and is none."""
    kind = type(thing)
    if not any(hasattr(kind, phase) for phase in PHASES):
        return ()
    for name in dir(kind):
        if name.startswith(("before_", "after_", "on_")) and name not in PHASES and callable(getattr(kind, name)):
            raise DefinitionError(
                f"hook {kind.__qualname__}.{name}: {_unknown(name)}. Begin the name of any other method with an underscore"
            )
    return tuple(phase for phase in PHASES if callable(getattr(thing, phase, None)))


def fitting(phase: Phase, payload: Any, put: Any) -> Any:
    """What takes the payload's place, of the payload's own type; None where that cannot be.

    A `str` may stand for a message's or a tool result's or a completion's text, a dict for the arguments of a tool call.
    """
    if phase == "on_error":
        return put if isinstance(put, Exception) else None
    if phase in ("on_approval_required", "on_resume"):
        return None
    if isinstance(put, type(payload)):
        return _kept_in_its_place(phase, payload, put)
    if phase == "before_tool_call":
        return _with_arguments(payload, put)
    if isinstance(put, str):
        field = next((name for name in ("content", "text", "message") if hasattr(payload, name)), None)
        return None if field is None else attrs.evolve(payload, **{field: put})
    return None


def _kept_in_its_place(phase: Phase, payload: Any, put: Any) -> Any:
    """A message stays in its session; a call answers to its own id, and a changed one is whole."""
    if phase in ("before_run", "after_run"):
        return put if put.session == payload.session else attrs.evolve(put, session=payload.session)
    if phase == "before_tool_call":
        return put if put.id == payload.id else None
    if phase == "on_handoff":
        return put if put.source == payload.source else None
    return put


def _with_arguments(call: Any, arguments: Any) -> Any:
    if not isinstance(arguments, Mapping):
        return None
    try:
        return attrs.evolve(call, arguments=json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
