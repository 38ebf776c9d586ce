"""The models of teams: what chooses, plans or judges among members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retinue.actors.llm.refs import checked_model
from retinue.actors.runtime.ref import Ref

if TYPE_CHECKING:
    from retinue.actors.llm.choose import Choice
    from retinue.actors.llm.deployment import Deployment
    from retinue.actors.runtime.context import ActorContext

__all__ = ["model_for"]


async def model_for(ctx: ActorContext, given: Ref[Any] | Choice | str, name: str) -> Ref[Deployment]:
    """The deployment that something stands for: a ref itself; a text or a choice as a child of the actor.

    Args:
        ctx: Of the actor whose child it becomes.
        given: A ref, a text such as "openai:gpt-4.1", or what `llm.from_env()` chose.
        name: The child's name.
    """
    if isinstance(given, Ref):
        return checked_model(given, f"the {name} of {ctx.path}")
    from retinue.actors.llm.naming import model
    from retinue.actors.llm.readiness import client_loaded

    if not isinstance(given, str):
        return await given.spawn(ctx, name=name)
    if not given.startswith("scripted:"):
        await client_loaded()
    return await model(given).spawn(ctx, name=name)
