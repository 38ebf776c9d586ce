"""One run of an agent, from a message to its answer. The same coroutine for asks and for streams.

The order: hooks before the run, input guardrails, the input remembered (in the run's own draft), the model, its tool calls, the model again …, output
guardrails, the answer, hooks after the run (they change what the caller sees, never what memory holds), and only then the commit: one assignment. So a run
that fails leaves nothing of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import trio
import trio.lowlevel

from retinue.actors.agents.aggregators import Conversation, default_aggregator, grown, system_of
from retinue.actors.agents.answering import Answering
from retinue.actors.agents.calling import all_at_once, carry_out, result_step
from retinue.actors.agents.definition import READ, SAYS_NOTHING, spec_of
from retinue.actors.agents.errors import RunLimitReached
from retinue.actors.agents.events import Notice, UsageSoFar
from retinue.actors.agents.hooks import HookContext
from retinue.actors.agents.inputs import checked_input, own_message
from retinue.actors.agents.message import LIMITS, AgentMessage, Resume, RunEnd, RunLimits, Step
from retinue.actors.agents.parking import checkpoint, new_run_id, park, resume_call
from retinue.actors.agents.passing import emit
from retinue.actors.agents.state import ParkedCall, ParkedRun, SessionState
from retinue.actors.llm.errors import StreamTruncated
from retinue.actors.llm.events import Completed, ReasoningDelta, Retrying, TextDelta
from retinue.actors.llm.messages import Complete, Completion
from retinue.actors.runtime.errors import AskTimeout
from retinue.capabilities.looping import LoopDetector
from retinue.capabilities.tool_results import ToolResult

if TYPE_CHECKING:
    from retinue.actors.agents.definition import Asking, Definition, ToolBox
    from retinue.actors.agents.handing_over import HandingOver
    from retinue.actors.agents.limits import Spent
    from retinue.actors.agents.parsers import Parsed
    from retinue.actors.agents.session import Session
    from retinue.actors.agents.teams.tree_limits import Tree
    from retinue.actors.llm.messages import ChatMessage, OutputSpec, ToolCall, ToolSpec

__all__ = ["Turn"]

MOST_NOTICES: Final = 1_000


class Turn:
    """A run in progress.

    Args:
        home: The session it belongs to.
        definition: The agent.
        state: What the session remembers.
        spent: What the run has used.
        box: The run's tools.
        session: The session's name.
        streamed: Whether there is a reader.
        wait: Whether it waits for approvals.
        extra_tools: The tools that were given for this run only, as they were given.
        handing: To whom it may hand over; None: to nobody.
    """

    __slots__ = (
        "_about", "_run", "answering", "asked", "bad", "box", "d", "detector", "edits", "extra_tools", "handing", "has_artifacts", "home", "inner", "items", "lanes", "made", "notices", "number", "outbox", "outcomes", "parked", "past",
        "resuming", "said", "session", "settled", "spent", "state", "streamed", "tree", "wait",
    )  # fmt: skip

    def __init__(
        self,
        home: Session,
        definition: Definition,
        state: SessionState,
        spent: Spent,
        box: ToolBox,
        session: str,
        *,
        streamed: bool,
        wait: bool,
        extra_tools: tuple[Any, ...] = (),
        handing: HandingOver | None = None,
    ) -> None:
        self.home = home
        self.d = definition
        self.state = state
        self.spent = spent
        self.box = box
        self.session = session
        self.streamed = streamed
        self.wait = wait
        self.extra_tools = extra_tools
        self.handing = handing
        self.items: list[AgentMessage | Step] = []
        self.said: list[str] = []
        self.notices: list[Notice] = []
        self.number = state.turn + 1
        self.parked: str | None = None
        self.outbox: Any = None
        self.inner: dict[str, tuple[Any, trio.Event]] | None = (
            None  # runs of agents that tools stand for, which agents, and their ends after a decision
        )
        self.lanes: dict[str, trio.Lock] | None = (
            None  # of agents that tools stand for: calls that were consented to come one after the other
        )
        self.outcomes: dict[str, Step | ParkedCall] = {}
        self.bad = False
        self.has_artifacts = state.has_artifacts
        self.resuming = False
        self.settled = False  # what there is of it is in the session's state: nothing of it is kept once more
        self.made = home.made if home.made_for is state.items else None
        self.past: list[tuple[str, str, str]] = []
        self.edits: dict[str, str | None] = {}
        self.answering = Answering(definition) if definition.output is not None else None
        self.tree: Tree | None = None
        self._about: HookContext | None = None
        self.detector: LoopDetector | None = None
        self._run: str | None = None
        self.asked: str | None = None  # its id, once people were asked for it

    # -- what a run says and is asked ----------------------------------------------------------------------------------------------------------------

    def run_id(self) -> str:
        """The run's id, made when it is needed."""
        if self._run is None:
            self._run = self.parked or new_run_id(self.session)
        return self._run

    def run_that_asks(self) -> str:
        """The run's id, for what a person is asked; from now on something of it may be at the desk, whether the run hears of that or not."""
        self.asked = self.run_id()
        return self.asked

    def tell(self, event: Any) -> None:
        """Gives an event to the reader, from one of the run's tool calls."""
        if self.outbox is not None:
            self.outbox.put(event)

    def notice(self, kind: str, text: str) -> None:
        """Something for the reader, said with the next event."""
        if self.streamed and len(self.notices) < MOST_NOTICES:
            self.notices.append(Notice(kind, text))

    async def say_notices(self) -> None:
        """Gives the reader what was noticed."""
        while self.notices:
            await emit(self.notices.pop(0))

    async def run_hooks(self, phase: Any, payload: Any) -> Any:
        """What the hooks of a phase make of a payload. Raises HookBlocked."""
        about = self._about
        if about is None:
            security = self.home.ctx.security
            about = self._about = HookContext(
                self.d.path, self.session, security.subject, security.tenant, self._run or self.parked, self.number
            )
        return await self.d.hooks.run(phase, about, payload, self.notice)

    # -- calls that are made again and again ---------------------------------------------------------------------------------------------------------

    def repeated(self, call: ToolCall) -> str:
        """What the model is told of a call that it makes again and again; "" where it does not.

        Raises:
            RunLimitReached: It was told often enough.
        """
        most = self.spent.limits.repeated_calls
        if most is None:
            return ""
        detector = self.detector
        if detector is None:
            if not self.past:  # the first calls repeat nothing
                return ""
            detector = self.detector = LoopDetector(repeats=most)
        while self.past:  # what came of them is looked at when there are more calls, and not before
            verdict = detector.done(*self.past.pop(0))
            if verdict.action == "tell":
                self.notice("loop", verdict.text)
        verdict = detector.about_to(call.name, call.arguments)
        if verdict.action == "stop":
            self.spent.over("repeated_calls", verdict.text)
        if verdict.action == "tell":
            self.notice("loop", verdict.text)
        return verdict.text

    # -- the run -------------------------------------------------------------------------------------------------------------------------------------

    async def go(self, message: AgentMessage) -> AgentMessage:
        """Runs from a message to its answer; memory holds both then."""
        d = self.d
        given = message
        if "before_run" in d.phases:
            message = await self.run_hooks("before_run", message)
        if "input" in d.stages:
            message = await d.guards.input(message, self.notice)
        if message is not given:  # what is put in its place is to be as good as what comes
            message = checked_input(message, d.path)
        self.items.append(message)
        return await self._loop()

    async def go_on(self, parked: ParkedRun, request: Resume) -> AgentMessage:
        """Goes on with a parked run."""
        self.parked = self.asked = parked.id
        self.number = parked.turn
        self.items.extend(parked.items)
        self.outcomes = dict(parked.results)
        self.resuming = True
        self.detector, self.past = parked.detector, list(parked.past)
        if self.answering is not None:
            self.answering.tries = parked.tries
        self.spent.go_on(parked.spent, parked.usage)
        if "on_resume" in self.d.phases:
            await self.run_hooks("on_resume", request)
        calls = parked.items[-1]
        assert isinstance(calls, Step)
        if parked.waiting:
            self.inner = {each.inner: (each.agent, trio.Event()) for each in parked.waiting if each.inner is not None} or None
            carry = all_at_once if self.handing is None else self.handing.carry
            await carry(self, parked.waiting, resume_call, _id_of_waiting)
        await self._take(calls)
        self.resuming = False
        if self.handing is not None and self.handing.chosen is not None:
            return await self._end(self.handing.answer(self, calls))
        return await self._loop()

    async def _loop(self) -> AgentMessage:
        d = self.d
        while True:
            completion = await self._ask_model()
            if self.streamed:
                await emit(UsageSoFar(self.spent.usage))  # type: ignore[arg-type]  # there is some after an answer
                await self.say_notices()
            calls = completion.tool_calls
            if self.answering is not None:
                answer = await self.answering.look(self, completion)
                if answer is not None:
                    return await self._end(answer)
                if self.answering.corrected:
                    continue
            elif not calls and d.parser is None:
                return await self._end(await self._answer(completion) if d.stages or not completion.text else self._plain(completion))
            found: dict[str, Step] = {}
            if self.d.parser is not None and not calls:
                parsed = self.d.parser.parse(completion.text, truncated=completion.finish_reason == "length")
                if not parsed.calls:
                    answer = await self._answer_in_text(completion, parsed)
                    if answer is None:
                        continue
                    return await self._end(answer)
                from retinue.actors.agents.texts import calls_of

                calls, found = calls_of(self, parsed)
                if self.streamed and parsed.thought:
                    await self._say(parsed.thought, ReasoningDelta if getattr(d.parser, "thinks", False) else TextDelta)
            self.said.clear()
            said, thought = completion.text, completion.reasoning or None
            if "output" in self.d.stages:
                said, thought = await self.guarded(said), await self.guarded(thought)
            step = Step("tool_calls", said, True, None, None, calls, None, self.number, thought)
            self.items.append(step)
            self.outcomes = {**found}
            self.spent.before_tools(len(calls))
            wanted = [call for call in calls if call.id not in found] if found else calls
            if self.parked is not None:
                checkpoint(self, found, wanted)
            if len(wanted) == 1 and self.handing is None and not self.streamed:
                call = wanted[0]
                outcome = self.outcomes[call.id] = await carry_out(self, call)
                if len(calls) == 1 and type(outcome) is Step and not self.notices and not self.bad:  # all that `_take` would do
                    self.items.append(outcome)
                    continue
            elif wanted:
                carry = all_at_once if self.handing is None else self.handing.carry
                await carry(self, wanted, carry_out, _id_of_call)
            await self._take(step)
            if self.handing is not None and self.handing.chosen is not None:
                return await self._end(self.handing.answer(self, step))

    async def _take(self, step: Step) -> None:
        """Takes the results of a reply's calls in their order. Raises ApprovalRequired where some wait, and RunLimitReached after too many bad ones."""
        outcomes: dict[str, Any] = self.outcomes
        waiting = [outcome for call in step.calls if (outcome := outcomes[call.id]).__class__ is ParkedCall]
        if waiting:
            raise await park(self, {key: each for key, each in outcomes.items() if each.__class__ is Step}, waiting)
        if self.bad and self.handing is not None:
            self.handing.take_back(self)
        self.items.extend(outcomes[call.id] for call in step.calls)
        if self.notices:
            await self.say_notices()
        if self.bad:
            self.spent.over("bad_calls")

    # -- the model -----------------------------------------------------------------------------------------------------------------------------------

    async def _ask_model(self) -> Completion:
        d, spent = self.d, self.spent
        await trio.lowlevel.checkpoint_if_cancelled()  # a tool may have shielded itself; the run ends all the same
        instructions = d.instructions
        request = self._request(instructions if isinstance(instructions, str) else await self._instructions())
        if "before_model_request" in d.phases:
            request = await self.run_hooks("before_model_request", request)
        most = spent.before_model(request)
        try:
            if most != request.max_tokens:
                request = _capped(request, most)
            timeout = spent.timeout()
            completion = await (self._stream(request, timeout) if self.streamed else d.model.ask(request, timeout=timeout))
        except AskTimeout:
            spent.timeout()  # it was the run's own time that is over
            raise
        if not self.streamed:
            spent.after_model(completion.usage)
        if "after_model_response" in d.phases:
            completion = await self.run_hooks("after_model_response", completion)
        return completion if len(completion.tool_calls) < 2 else _with_ids_of_their_own(completion)

    async def _instructions(self) -> Any:
        """What the function of a conversation gives that the instructions are."""
        d = self.d
        instructions: Any = d.instructions
        instructions = instructions(Conversation(self.state.items + tuple(self.items), d.name, "", d.parser))
        return instructions if isinstance(instructions, str) else await instructions

    def _request(self, instructions: Any) -> Complete:
        d = self.d
        asking = d.asking
        items = self.state.items + tuple(self.items)
        answering = self.answering
        if answering is not None and answering.instructions:
            instructions = f"{instructions}\n\n{answering.instructions}" if instructions else answering.instructions
        if self.handing is not None and d.parser is not None:
            instructions = f"{instructions}\n\n{self.handing.instruction}" if instructions else self.handing.instruction
        if d.aggregate is default_aggregator:
            messages, self.made = grown(items, d.name, d.parser, self.made)
            system = d.told if instructions is d.instructions else None
            if system is None:
                system = system_of(instructions, d.parser)
                if instructions is d.instructions and d.parser is None:
                    d.told = system
            messages = system + messages
        else:
            messages = tuple(d.aggregate(Conversation(items, d.name, instructions, d.parser)))
        if answering is None and self.handing is None and d.parser is None and not self.has_artifacts:
            usual = self.box.request
            if usual is None:
                usual = self.box.request = _asked(asking, SAYS_NOTHING, self.box.specs, None)
            return usual.about(messages)
        tools = self.box.specs if d.parser is None else ()
        if self.has_artifacts and tools and READ not in self.box.seats:
            tools = (*tools, spec_of(d.reader()))
        output = None
        if answering is not None:
            tools, output = tools + answering.tools, answering.spec
        if self.handing is not None and d.parser is None:
            tools = tools + self.handing.specs
        return _asked(asking, messages, tools, output)

    async def _stream(self, request: Complete, timeout: float | None) -> Completion:
        """Asks the model for an answer in pieces, and gives them to the reader."""
        guards = self.d.guards
        shown = guards.stream() if "output" in self.d.stages else None
        thought = guards.stream() if "output" in self.d.stages else None
        silent = self.d.parser is not None
        completion: Completion | None = None
        self.said.clear()
        async with self.d.model.stream(request.as_stream(), timeout=timeout) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    if not silent:
                        await self._show(event, shown)
                elif isinstance(event, ReasoningDelta):
                    if thought is None:
                        await emit(event)
                    elif text := thought.feed(event.text):
                        await emit(ReasoningDelta(text))
                elif isinstance(event, Completed):
                    completion = event.completion
                    self.spent.after_model(completion.usage)  # whatever becomes of it from here on
                elif isinstance(event, Retrying):
                    await emit(Notice("retrying", f"asked again in {event.seconds:.3g} s (attempt {event.attempt}): {event.reason}"))
        if thought is not None and (text := await thought.finish()):
            await emit(ReasoningDelta(text))
        if shown is not None and not silent and (text := await shown.finish()):
            self.said.append(text)
            await emit(TextDelta(text))
        if completion is None:
            raise StreamTruncated(f"{self.d.model.path} ended its stream without an answer")
        return completion

    async def _show(self, event: TextDelta, shown: Any) -> None:
        if shown is not None:
            text = shown.feed(event.text)
            if not text:
                return
            event = TextDelta(text)
        self.said.append(event.text)
        await emit(event)

    # -- the end -------------------------------------------------------------------------------------------------------------------------------------

    def _plain(self, completion: Completion) -> AgentMessage:
        """The answer in words, where nothing stands between."""
        return self.reply(completion.text, partial=completion.finish_reason in CUT)

    async def _answer(self, completion: Completion) -> AgentMessage:
        """The answer in words."""
        text, kind = completion.text, None
        if not text and completion.refusal:
            text, kind = completion.refusal, "refusal"
        if "output" in self.d.stages:
            text = await self.d.guards.output(text, self.notice)
        return self.reply(text, partial=completion.finish_reason in CUT, kind=kind)

    async def _answer_in_text(self, completion: Completion, parsed: Parsed) -> AgentMessage | None:
        """The answer of a model that writes its calls into its text, and wrote none; None where the text is not what it had to be, and the model has been told."""
        if parsed.status == "error":
            problem = parsed.error or "your answer cannot be read: follow the format"
            self.items.append(Step("attempt", await self.guarded(completion.text), False, turn=self.number))
            self.items.append(Step("correction", problem, turn=self.number))
            if self.spent.bad_call():
                self.spent.over("bad_calls")
            return None
        answer = await self._answer(completion)
        if parsed.value is not None and answer.content != completion.text:
            parsed = self.d.parser.parse(answer.content)  # what a guardrail has taken out of the text is not in the value either
        if parsed.formatted is not None:
            said = answer.content if parsed.said is None else parsed.said
            answer = self.reply(said, formatted=parsed.formatted, partial=answer.partial, kind=answer.type)
        if self.streamed and parsed.thought and getattr(self.d.parser, "thinks", False):
            await self._say(parsed.thought, ReasoningDelta)
        if self.streamed and answer.content:
            await emit(TextDelta(answer.content))
        return answer

    async def guarded(self, text: Any) -> Any:
        """What the model has said or thought on the way to its answer, as memory and whoever reads it may have it."""
        return await self.d.guards.output(text) if text and "output" in self.d.stages else text

    async def _say(self, text: str, kind: type[TextDelta | ReasoningDelta]) -> None:
        if "output" in self.d.stages:
            text = await self.d.guards.output(text, self.notice)
        if text:
            await emit(kind(text))

    def reply(self, text: str, *, formatted: Any = None, partial: bool = False, kind: str | None = None) -> AgentMessage:
        """An answer of the agent's."""
        return AgentMessage(text, self.d.name, formatted, self.session, kind, None, None, self.spent.usage, partial)

    async def _end(self, answer: AgentMessage) -> AgentMessage:
        """Commits the run; what the caller sees."""
        seen = answer
        if "after_run" in self.d.phases:
            seen = await self.run_hooks("after_run", answer)
        await trio.lowlevel.checkpoint_if_cancelled()  # who was told that nothing is remembered was told the truth
        self.items.append(answer if answer.formatted is None and answer.extra is None else own_message(answer, self.d.path))
        self.home.commit(self)
        if self.streamed:
            await self.say_notices()
            await emit(RunEnd(seen))
        return seen

    def keep_partial(self, why: str) -> str:
        """Commits what there is, with a valid history: each call has a result. Nothing where nothing was said or done. Returns what was being said."""
        said = "".join(self.said)
        if self.settled or self.resuming or len(self.items) < (1 if said else 2):
            return said  # a parked run is parked still
        last = self.items[-1]
        if isinstance(last, Step) and last.kind == "tool_calls":
            for call in last.calls:
                outcome = self.outcomes.get(call.id)
                self.items.append(outcome if isinstance(outcome, Step) else result_step(self, call, ToolResult.failed("cancelled", why)))
        self.items.append(self.reply(said, partial=True))
        self.home.commit(self)
        return said

    def over(self, reached: RunLimitReached) -> RunLimitReached:
        """The run came to a limit: what it did is kept."""
        limit = f"the run has reached its limit {reached.limit}"
        last = self.items[-1] if self.items else None
        if isinstance(last, Step) and last.kind == "correction":
            reached.args = (f"{reached}. The model's last answer did not fit; it was told: {last.text[:300]}",)
        partial = self.keep_partial(
            f"interrupted: {limit}; whether it was carried out is not known"
            if reached.limit in ("seconds", "tree.seconds")
            else f"not carried out: {limit}"
        )
        if not partial:
            words = [item.text for item in self.items if isinstance(item, Step) and item.kind == "tool_calls" and item.text]
            partial = words[-1] if words else ""
        reached.partial = partial
        reached.usage = self.spent.usage
        return reached


CUT: Final = ("length", "content_filter")
"""Reasons for which an answer ends that is not complete."""


def _with_ids_of_their_own(completion: Completion) -> Completion:
    """The reply, no two of its calls under one id: each has a result of its own, and a consent is for one of them."""
    ids = {call.id for call in completion.tool_calls}
    if len(ids) == len(completion.tool_calls):
        return completion
    seen: set[str] = set()
    found: list[ToolCall] = []
    for number, call in enumerate(completion.tool_calls, 1):
        name = call.id
        while name in seen or (name in ids and name != call.id):
            name = f"{name}_{number}"
        seen.add(name)
        found.append(call if name == call.id else attrs.evolve(call, id=name, provider_id=call.provider_id or call.id))
    return attrs.evolve(completion, tool_calls=tuple(found))


def _asked(asking: Asking, messages: tuple[ChatMessage, ...], tools: tuple[ToolSpec, ...], output: OutputSpec | None) -> Complete:
    return Complete(
        messages, asking.max_tokens, asking.temperature, asking.stop, asking.seed, tools, asking.tool_choice if tools else None, output,
        asking.parallel_tool_calls if tools else None, asking.reasoning_effort, asking.extra,
    )  # fmt: skip


def _capped(request: Complete, most: int | None) -> Complete:
    return Complete(
        request.messages, most, request.temperature, request.stop, request.seed, request.tools, request.tool_choice, request.output,
        request.parallel_tool_calls, request.reasoning_effort, request.extra,
    )  # fmt: skip


def _id_of_call(call: Any) -> str:
    return call.id  # type: ignore[no-any-return]


def _id_of_waiting(waiting: Any) -> str:
    return waiting.call.id  # type: ignore[no-any-return]


def narrower(own: RunLimits, wanted: RunLimits | None) -> RunLimits:
    """The limits of a run: the agent's, and those that were asked for where they are lower."""
    if wanted is None:
        return own
    least: dict[str, Any] = {}
    for name in LIMITS:
        values = [value for value in (getattr(own, name), getattr(wanted, name)) if value is not None]
        least[name] = min(values) if values else None
    return RunLimits(**least)
