"""Refs that are given as models: where nothing answers as a model does, that is said where the ref is given, and not at the first request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retinue.actors.llm.messages import Complete
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.ref import Ref

__all__ = ["checked_model"]


def checked_model(given: Ref[Any], what: str) -> Ref[Any]:
    """A ref that is given as a model. Raises DefinitionError where its actor takes no request for one.

    Args:
        given: The ref.
        what: As what it is given, "Agent(model=…)".
    """
    cell = given._cell
    if any(base in cell.handlers for base in Complete.__mro__):
        return given
    is_agent = any(kind.__name__ == "AgentMessage" for kind in cell.handlers)
    if cell.spec.coerces and not is_agent:  # it makes messages of what it has no handler for
        return given
    fix = "; an agent is asked by another one as its tool, tools=[rt.agent_tool(ref)], or in a team" if is_agent else ""
    raise DefinitionError(
        f"{what} is the ref of {given.path} ({cell.spec.cls.__qualname__}), which takes no llm.Complete, as models do: give the ref of a deployment, llm.from_env(), or a "
        f'text such as "openai:gpt-4.1"{fix}'
    )
