"""The agent that people address: a model with instructions, tools and a memory for each session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from retinue.actors.agents.agent_tools import seat_of
from retinue.actors.agents.aggregators import Aggregator, Conversation, default_aggregator
from retinue.actors.agents.definition import READ, Definition, ToolBox, checked_asking, tools_of
from retinue.actors.agents.front import IDLE, SESSIONS, Front
from retinue.actors.agents.guarding import compile_guardrails
from retinue.actors.agents.hooks import compile_hooks
from retinue.actors.agents.message import RunLimits
from retinue.actors.agents.names import own_name
from retinue.actors.agents.output import TOOL_NAME, choose_mode, output_type
from retinue.actors.agents.phases import PHASES
from retinue.actors.agents.session import Session
from retinue.actors.agents.teams.arguments import check_call
from retinue.actors.llm.refs import checked_model
from retinue.actors.runtime.ref import Ref
from retinue.capabilities.artifacts import ArtifactStore
from retinue.security.errors import DefinitionError
from retinue.security.guardrails import STAGES

if TYPE_CHECKING:
    from retinue.actors.agents.keeping import Keeper
    from retinue.actors.agents.parsers import Parser
    from retinue.actors.llm.choose import Choice
    from retinue.actors.llm.deployment import Deployment

__all__ = ["Agent"]


class Agent(Front):
    """An agent: a model with instructions, tools and a memory for each subject's sessions.

        agent = await system.spawn(rt.Agent, model="openai:gpt-4.1", tools=[get_weather], name="agent")
        reply = await agent.ask("What is the weather in Paris?")

    It signs its answers with the last part of its path. Each session works on one message at a time; different sessions run concurrently. Whoever asks needs
    `model.complete`, and for each tool that is called its operation.

    Args:
        model: The deployment's ref; a text such as "openai:gpt-4.1", "local:smollm2" or "scripted:Hello!" (see `llm.model`); or what `llm.from_env()` chose.
        tools: Functions, tools and toolkits.
        instructions: What the agent is told to be; or a function of the conversation, plain or `async def`, that says so anew before each model call.
        output: The type of its answers (an attrs class, a dataclass, a pydantic model …), found in `AgentMessage.formatted`. None: text.
        output_mode: How the model is told of it: "tool", "native", "prompted"; None chooses.
        parser: Finds tool calls in the text of models that have no tool calling of their own.
        aggregator: Makes the model's messages of a conversation; default `default_aggregator`.
        hooks: See `compile_hooks`.
        guardrails: See `compile_guardrails`.
        limits: How much one run may use.
        wait_for_approvals: Whether a run waits where a person has to consent; default False: it is parked, and goes on with `Resume`.
        sessions: How many sessions are remembered; default 100,000. As many may be at work at once, and always 1,000.
        session_idle: Seconds after which an unused session's actor rests; default 900. Nothing is forgotten by that.
        max_tokens, temperature, stop, seed, tool_choice, parallel_tool_calls, reasoning_effort, extra: As in `llm.Complete`.

    Raises DefinitionError (to the spawner) for what cannot be an agent: it says which argument, and what would be right.
    """

    __said_elsewhere__: ClassVar[dict[str, str]] = {
        "description": "tells others what it is good for: give it to Agent.spec(…), rt.agent_tool(…), rt.Member(…) or rt.AddMember(…)"
    }
    """What an agent is given that its constructor does not take, and where that is said."""

    def __init__(
        self,
        *,
        model: Ref[Deployment] | Ref[Any] | Choice | str,
        tools: Iterable[object] = (),
        instructions: str | Callable[[Conversation], str | Awaitable[str]] = "",
        output: Any = None,
        output_mode: str | None = None,
        parser: Parser | None = None,
        aggregator: Aggregator = default_aggregator,
        hooks: Iterable[Any] = (),
        guardrails: Iterable[Any] = (),
        limits: RunLimits | None = None,
        wait_for_approvals: bool = False,
        sessions: int | Keeper = SESSIONS,
        session_idle: float = IDLE,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Iterable[str] = (),
        seed: int | None = None,
        tool_choice: str | None = None,
        parallel_tool_calls: bool | None = None,
        reasoning_effort: str | None = None,
        extra: Mapping[str, Any] | str | None = None,
    ) -> None:
        if isinstance(model, Ref):
            checked_model(model, "Agent(model=…)")
        elif not isinstance(model, str):
            from retinue.actors.llm.choose import Choice

            if not isinstance(model, Choice):
                raise DefinitionError(
                    f'Agent(model=…) is a {type(model).__name__}: give a deployment\'s ref, llm.from_env(), or a text such as "openai:gpt-4.1"'
                )
        if not isinstance(instructions, str) and not callable(instructions):
            raise DefinitionError(
                f"Agent(instructions=…) is a {type(instructions).__name__}: give a str, or a function of the conversation"
            )
        if not callable(aggregator):
            raise DefinitionError(f"Agent(aggregator=…) is a {type(aggregator).__name__}: give a function of the conversation")
        if aggregator is not default_aggregator:
            check_call(aggregator, ("the conversation",), "Agent(aggregator=…)", "let it take one argument, an rt.Conversation")
        if not isinstance(instructions, str):
            check_call(instructions, ("the conversation",), "Agent(instructions=…)", "let it take one argument, an rt.Conversation")
        if limits is not None and not isinstance(limits, RunLimits):
            raise DefinitionError(f"Agent(limits=…) is a {type(limits).__name__}: give rt.RunLimits(model_calls=10)")
        super().__init__(sessions, session_idle)
        self._model = model
        d = self._definition = Definition()
        d.guards = compile_guardrails(guardrails)
        d.reserved = (READ, TOOL_NAME) if output is not None and output is not str else (READ,)
        self._tools = d.guards.confirmed(tools_of(tools, d.reserved))
        d.guards.check_names(tool.name for tool in self._tools)
        d.instructions = instructions
        d.aggregate = aggregator
        d.parser = parser
        d.output = None if output is None or output is str else output_type(output)
        d.mode = output_mode or choose_mode(bool(self._tools), native=False)
        d.hooks = compile_hooks(hooks)
        d.phases = frozenset(phase for phase in PHASES if d.hooks.has(phase))
        d.stages = frozenset(stage for stage in STAGES if d.guards.has(stage))
        d.limits = limits or RunLimits()
        d.wait = wait_for_approvals
        d.artifacts = ArtifactStore()
        d.asking = checked_asking(
            (tool.wire_name for tool in self._tools),
            d.reserved,
            max_tokens=max_tokens,
            temperature=temperature,
            stop=stop,
            seed=seed,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            reasoning_effort=reasoning_effort,
            extra=extra,
        )

    async def on_start(self) -> None:
        """Starts the model where a text names it, an executor for each tool, and the place where the sessions live."""
        if not hasattr(self, "_definition"):
            raise DefinitionError(f"{type(self).__name__}.__init__ does not call that of its base: begin it with super().__init__(model=…)")
        d, ctx = self._definition, self.ctx
        d.path = ctx.path
        d.name = own_name(ctx.path)
        if isinstance(self._model, Ref):
            d.model = self._model
        else:
            from retinue.actors.llm.naming import model
            from retinue.actors.llm.readiness import client_loaded

            if isinstance(self._model, str) and not self._model.startswith("scripted:"):
                await client_loaded()
            choice = model(self._model) if isinstance(self._model, str) else self._model
            d.model = await choice.spawn(ctx, name="model")
        d.box = ToolBox([await seat_of(ctx, tool, d.artifacts) for tool in self._tools])
        await self._open(Session, d)
