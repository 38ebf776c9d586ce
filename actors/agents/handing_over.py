"""Handoffs in a run: the tools that its model sees for them, and what becomes of a call of one.

The other calls of the reply are carried out first. Then the first handoff, in the order in which the model wrote them, ends the run, and the others are answered
that they were not carried out: a conversation is with one agent at a time. So the history holds a result for each call, whoever goes on with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs

from retinue.actors.agents.calling import Outcome, all_at_once, finish, result_step
from retinue.actors.agents.errors import HookBlocked
from retinue.actors.agents.events import ToolFinished
from retinue.actors.agents.handoffs import HANDOFF, Handoff, HandOver
from retinue.actors.agents.state import ParkedCall
from retinue.actors.llm.messages import ToolSpec
from retinue.capabilities.errors import BadArguments
from retinue.capabilities.tool_results import ToolResult
from retinue.capabilities.tools import tool
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.definition import Definition
    from retinue.actors.agents.message import AgentMessage, Step
    from retinue.actors.agents.run import Turn
    from retinue.actors.llm.messages import ToolCall

__all__ = ["HandingOver", "Offer", "handing_over"]

LONGEST_DESCRIPTION: Final = 1_000
"""Characters of what a model is told of one target."""

LIMIT: Final = "not carried out: the run has reached its limit bad_calls"


@tool(blocking=False, risk="L0")
def _transfer(
    reason: Annotated[str, "Why, in a few words."] = "",
    message: Annotated[str, "What the other one needs to know to go on; leave it out if what was said is enough."] = "",
) -> None:
    """Hands the conversation over."""


class Offer:
    """Handoffs, ready to be offered to a model; the same for every run that has them.

    Attributes:
        handoffs: Them, as they were given.
        by_tool: Them by what the model calls.
        names: What it calls.
        specs: What it is told of them.
    """

    __slots__ = ("by_tool", "handoffs", "names", "specs")

    def __init__(self, handoffs: tuple[Handoff, ...]) -> None:
        self.handoffs = handoffs
        self.by_tool = {each.tool_name: each for each in handoffs}
        self.names = tuple(self.by_tool)
        self.specs = tuple(ToolSpec(each.tool_name, _told(each), _transfer.parameters) for each in handoffs)


class HandingOver:
    """The handoffs of one run.

    Attributes:
        offer: To whom it may hand over.
        chosen: The one that ends the run; None until then.
    """

    __slots__ = ("_call", "chosen", "offer")

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.chosen: HandOver | None = None
        self._call: ToolCall | None = None

    @property
    def handoffs(self) -> tuple[Handoff, ...]:
        """Them, as they were given."""
        return self.offer.handoffs

    @property
    def names(self) -> tuple[str, ...]:
        """What the model calls."""
        return self.offer.names

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of them."""
        return self.offer.specs

    def __contains__(self, name: str) -> bool:
        return name in self.offer.by_tool

    @property
    def instruction(self) -> str:
        """The same for a model that writes its calls into its text."""
        lines = "\n".join(f"- {spec.name}(reason, message): {spec.description}" for spec in self.specs)
        return f"Besides your tools, you can call these, in the same form:\n{lines}"

    async def carry(
        self, turn: Turn, calls: Sequence[Any], carry: Callable[[Turn, Any], Awaitable[Outcome]], id_of: Callable[[Any], str]
    ) -> None:
        """Carries the calls of a reply out: what hands nothing over first, at the same time; then the handoffs, one after the other. These wait for what waits for a person."""
        later = [each for each in calls if (each.call if each.__class__ is ParkedCall else each).name in self.offer.by_tool]
        if len(later) < len(calls):
            await all_at_once(turn, [each for each in calls if each not in later], carry, id_of)
            if any(outcome.__class__ is ParkedCall for outcome in turn.outcomes.values()):
                for each in later:
                    turn.outcomes[id_of(each)] = each if each.__class__ is ParkedCall else ParkedCall(each, ())
                return
        for each in later:
            await all_at_once(turn, [each], carry, id_of)

    async def take(self, turn: Turn, call: ToolCall) -> Step:
        """The result of the call of a handoff: it is the one, or the model is told why not."""
        handoff = self.offer.by_tool[call.name]
        if turn.bad:  # the run ends by that, and nobody is to read in its history that it was handed over
            return await finish(turn, call, ToolResult.failed("cancelled", LIMIT))
        if self.chosen is not None:
            text = f"not carried out: the conversation was handed over to {self.chosen.target} in the same reply, and only the first handoff of a reply counts"
            return await finish(turn, call, ToolResult.failed("cancelled", text))
        try:
            asked = _transfer.call(_transfer.decode(call.arguments))
        except BadArguments as error:
            return await finish(turn, call, ToolResult.failed("arguments", str(error).replace("_transfer", call.name)))
        over = HandOver(turn.d.name, handoff.target, asked["reason"], asked["message"])
        if "on_handoff" in turn.d.phases:
            try:
                over = await turn.run_hooks("on_handoff", over)
            except HookBlocked as blocked:
                return await finish(
                    turn, call, ToolResult.failed("denied", f"not permitted: {blocked.reason or 'a hook has blocked this handoff'}")
                )
            targets = [each.target for each in self.handoffs]
            if over.target not in targets:
                text = f"not carried out: a hook has sent it to {over.target!r:.150}, and there are only {', '.join(targets)}"
                return await finish(turn, call, ToolResult.failed("denied", text))
        over = attrs.evolve(over, reason=await turn.guarded(over.reason), message=await turn.guarded(over.message))
        self.chosen, self._call = over, call
        # Not noted in a run that was parked: should its end fail, it is to be resumed with this call, and not without its handoff.
        step = result_step(turn, call, ToolResult(True, f"handed over to {over.target}"))
        if turn.streamed:
            turn.tell(ToolFinished(call.id, call.name, True, step.text))
        return step

    def take_back(self, turn: Turn) -> None:
        """The run ends by a limit, and not by the handoff: so its history says."""
        if self._call is not None:
            turn.outcomes[self._call.id] = result_step(turn, self._call, ToolResult.failed("cancelled", LIMIT))
            self.chosen = self._call = None

    def answer(self, turn: Turn, step: Step) -> AgentMessage:
        """The answer of a run that ends by a handoff."""
        over = self.chosen
        assert over is not None
        text = over.message or step.text
        if not text or text.isspace():
            text = f"Handed over to {over.target}" + (f": {over.reason}" if over.reason else "")
        said = turn.reply(text, kind=HANDOFF)
        return attrs.evolve(said, receiver=over.target, extra={"reason": over.reason})  # type: ignore[misc]  # mypy does not know that a message is an attrs class


def handing_over(handoffs: tuple[Handoff, ...], definition: Definition) -> HandingOver:
    """The handoffs of a run of an agent. Raises DefinitionError where one is called as a tool of the agent's is."""
    made = definition.offer
    if made is None or made.handoffs != handoffs:  # most often they are the same ones as in the last run
        made = Offer(handoffs)
        for name in (*definition.box.seats, *definition.reserved):
            handoff = made.by_tool.get(name)
            if handoff is not None:
                raise DefinitionError(
                    f"{definition.path}: the handoff to {handoff.target!r} is called by {name!r}, and a tool of the agent has that name: give the handoff "
                    f"another, rt.Handoff({handoff.target!r}, tool_name=…)"
                )
        definition.offer = made
    return HandingOver(made)


def _told(handoff: Handoff) -> str:
    text = f"Hand the conversation over to {handoff.target}."
    if handoff.description:
        text = f"{text} {handoff.description}"
    return text if len(text) <= LONGEST_DESCRIPTION else text[: LONGEST_DESCRIPTION - 1] + "…"
