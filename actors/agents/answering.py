"""Answers of a type: how the model is told of it, and what is done where its answer does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

import attrs

from retinue.actors.agents.errors import OutputInvalid, OutputRefused
from retinue.actors.agents.events import Notice
from retinue.actors.agents.message import AgentMessage, Step
from retinue.actors.agents.output import CORRECTIONS, NAMELESS, Misfit
from retinue.actors.agents.passing import emit
from retinue.capabilities.tool_results import ToolResult

if TYPE_CHECKING:
    from retinue.actors.agents.definition import Definition
    from retinue.actors.agents.run import Turn
    from retinue.actors.llm.messages import Completion, OutputSpec, ToolCall, ToolSpec

__all__ = ["Answering"]

LONGEST: Final = 30_000
"""Characters of an answer that OutputInvalid carries."""


class Answering:
    """How one run comes to an answer of the agent's output type.

    Attributes:
        instructions: What is added to the agent's instructions.
        tools: The tool by whose call the model answers, in the mode "tool".
        spec: What the provider is told, in the mode "native".
        tries: How many answers did not fit.
        corrected: Whether the last answer did not fit, and the model has been told.
    """

    __slots__ = ("_kind", "_mode", "corrected", "instructions", "spec", "tools", "tries")

    def __init__(self, definition: Definition) -> None:
        kind = definition.output
        assert kind is not None
        self._kind = kind
        self._mode = definition.mode
        self.tries = 0
        self.corrected = False
        self.instructions: str = kind.instructions if self._mode == "prompted" else ""
        self.tools: tuple[ToolSpec, ...] = (kind.tool_spec,) if self._mode == "tool" else ()
        self.spec: OutputSpec | None = kind.spec if self._mode == "native" else None

    async def look(self, turn: Turn, completion: Completion) -> AgentMessage | None:
        """The answer, where the reply is one that fits. Else None: `corrected` says whether the model is asked again, or it only calls tools.

        Raises:
            OutputInvalid: It does not fit, and the corrections are used up.
            OutputRefused: The model refuses.
        """
        self.corrected = False
        calls = completion.tool_calls
        if completion.refusal and not calls:
            raise OutputRefused(f"{turn.d.path}: the model refused to answer: {completion.refusal[:500]}", refusal=completion.refusal)
        if self._mode == "tool":
            name = self._kind.tool_spec.name
            given = next((call for call in calls if call.name == name), None)
            if given is not None:
                return await self._by_call(turn, completion, given)
        if calls:
            return None
        if completion.finish_reason == "length":
            await self._correct(turn, completion, "your answer was cut off by the limit of its length: make it shorter")
            return None
        try:
            return await self._fit(turn, completion.text)
        except Misfit as misfit:
            told = f"Answer by a call of {self._kind.tool_spec.name}. {misfit}" if self._mode == "tool" else str(misfit)
            await self._correct(turn, completion, told)
            return None

    async def _fit(self, turn: Turn, text: str) -> AgentMessage:
        if "output" in turn.d.stages:
            text = await turn.d.guards.output(text)
        return turn.reply(text, formatted=self._kind.decode(text))

    async def _by_call(self, turn: Turn, completion: Completion, given: ToolCall) -> AgentMessage | None:
        """The reply answers by a call; other calls beside it are not carried out, for the run is at its end."""
        problem, answer = "", None
        if given.truncated:
            problem = "the call was cut off by the limit of your answer's length: make it shorter"
        else:
            try:
                answer = await self._fit(turn, given.arguments)
            except Misfit as misfit:
                problem = str(misfit)
        calls = completion.tool_calls
        if answer is None:
            await self._count(turn, problem, given.arguments)
        said, thought = await turn.guarded(completion.text), await turn.guarded(completion.reasoning or None)
        kept = calls
        if answer is not None and answer.content != given.arguments:  # a guardrail has changed it: memory has what goes out
            kept = tuple(attrs.evolve(call, arguments=answer.content) if call is given else call for call in calls)
        turn.items.append(Step("tool_calls", said, True, None, None, kept, None, turn.number, thought))
        aside = (
            "not carried out: the answer was given in the same reply" if answer is not None else "not carried out: answer once more, first"
        )
        for call in calls:
            if call is given:
                result = ToolResult(True, "taken") if answer is not None else ToolResult.failed("arguments", problem)
            else:
                result = ToolResult.failed("cancelled", aside)
            turn.items.append(Step("tool_result", result.text, result.ok, call.id, call.name, (), result.error, turn.number))
        if answer is None:
            await self._tell(turn, problem)
        return answer

    async def _correct(self, turn: Turn, completion: Completion, problem: str) -> None:
        await self._count(turn, problem, completion.text)
        said, thought = await turn.guarded(completion.text), await turn.guarded(completion.reasoning or None)
        turn.items.append(Step("attempt", said, False, turn=turn.number, reasoning=thought))
        turn.items.append(Step("correction", problem, turn=turn.number))
        await self._tell(turn, problem)

    async def _count(self, turn: Turn, problem: str, answer: str) -> None:
        self.tries += 1
        if self.tries > CORRECTIONS:
            self._give_up(turn, problem, (await turn.guarded(answer))[:LONGEST])

    async def _tell(self, turn: Turn, problem: str) -> None:
        self.corrected = True
        turn.said.clear()
        if turn.streamed:
            await emit(Notice("correction", problem))

    def _give_up(self, turn: Turn, problem: str, answer: str) -> NoReturn:
        name = self._kind.spec.name
        wanted = "the output type" if name == NAMELESS else name
        raise OutputInvalid(
            f"{turn.d.path}: the model's answer does not fit {wanted} after {self.tries} attempts: {problem[:1000]}",
            problem=problem,
            attempts=self.tries,
            answer=answer,
        )
