"""Agents that are not spawned yet: what a team needs to spawn its members itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from retinue.actors.runtime.actor import check_arguments, ready_class
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.keeping import Keeper
    from retinue.actors.runtime.context import ActorContext
    from retinue.actors.runtime.ref import Ref
    from retinue.mailbox.messages import Message

__all__ = ["AgentSpec", "can_be_sent", "takes"]


def _arguments(given: Any) -> tuple[Any, ...]:
    return tuple(given)


def _options(given: Any) -> dict[str, Any]:
    return dict(given)


@attrs.frozen(eq=False)
class AgentSpec:
    """An agent or a team that is not spawned yet. `rt.Agent.spec(…)` makes one, a team spawns it as its member.

    Attributes:
        cls: Its class.
        arguments, options: What its constructor is given.
        description: What it is good for.
        grant: As in `spawn`: it works within this, whoever asks. None: within the authority of whoever spawns the team.
    """

    cls: type[Any]
    arguments: tuple[Any, ...] = attrs.field(default=(), converter=_arguments)
    options: Mapping[str, Any] = attrs.field(factory=dict, converter=_options)
    description: str = ""
    grant: Any = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.description, str):
            raise DefinitionError(
                f"{self.cls.__name__}.spec(description=…) is a {type(self.description).__name__}: give a text that says what it is good for"
            )
        for taken in ("name", "mailbox", "supervision"):
            if taken in self.options:
                raise DefinitionError(
                    f"{self.cls.__name__}.spec({taken}=…): the team that spawns it sees to that; its name is the key under which it stands in members="
                )
        check_arguments(ready_class(self.cls), self.arguments, dict(self.options))

    __no_tool__ = 'rt.agent_tool(spec, name="ask_…") makes one of it'

    def __repr__(self) -> str:
        return f"{self.cls.__name__}.spec(…)"  # what it is made with may hold whatever is said to models

    def __how_to_spawn__(self) -> str:
        return f"a spec is for a team's members=. One that stands alone: spawn({self.cls.__name__}, …), with what {self.cls.__name__}.spec was given"

    def with_options(self, options: Mapping[str, Any]) -> AgentSpec:
        """The same with some options changed. Raises DefinitionError where its constructor does not take them."""
        return attrs.evolve(self, options={**self.options, **options})

    def __with_refs__(self, unwrap: Any) -> AgentSpec:
        """For the twins of a system."""
        return attrs.evolve(self, arguments=unwrap(self.arguments), options=unwrap(dict(self.options)))

    async def spawn(self, ctx: ActorContext, name: str, keeper: Keeper | None = None, former: Ref[Any] | None = None) -> Ref[Any]:
        """Spawns it as a child. Raises what its constructor and `on_start` raise.

        Args:
            ctx: Of the actor whose child it becomes.
            name: Its name.
            keeper: Where what it remembers is already.
            former: A child in whose place it comes, within the same authority: not that of whoever asks for the change.
        """
        options = dict(self.options)
        if keeper is not None:
            options["sessions"] = keeper
        if former is not None:
            cell = ctx._cell
            return await cell.kernel.spawn(cell, self.cls, self.arguments, options, name, None, None, None, former._cell)
        return await ctx.spawn(self.cls, *self.arguments, name=name, grant=self.grant, **options)


def takes(agent: Any, kind: type[Message]) -> bool:
    """Whether an actor has a handler for messages of a kind. Whoever answers an `AgentMessage` may be asked in the place of an agent, and may know nothing else of what agents take."""
    handlers = agent._cell.handlers
    return any(base in handlers for base in kind.__mro__)


def can_be_sent(agent: Ref[Any], kind: type[Message]) -> bool:
    """Whether an actor may do something with messages of a kind: it has a handler, or a class that makes messages of others."""
    return takes(agent, kind) or agent._cell.spec.coerces
