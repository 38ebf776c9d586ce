"""The same replay through real actors: a planner asks one executor a tool, every call a message through mailbox, gate and handler.

The replay script calls a runtime's `run_function`, and this one has actors behind it. A system is made for each replay, so that nothing of one is left in
the next. What the gate answers with `ApprovalRequired` is shown to a person, who consents to that one call; then the planner sends it again.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime

import retinue as rt
from benchmarks.agentdojo.errand import KINDS, Errand, operation_of
from benchmarks.agentdojo.plans import Plan
from benchmarks.agentdojo.prompt import read_prompt
from benchmarks.agentdojo.tools import Kit, Trusted, given_arguments
from benchmarks.harness import BrokenBlock
from retinue.sync import ActorSystem

__all__ = ["ActorGate", "ActorRuntime", "Planner", "Step"]


@rt.message
class Step(rt.Request[Any]):
    """The next step of the plan.

    Attributes:
        call: The message for the tool's executor.
    """

    call: rt.Message


class Planner(rt.Actor):
    """Has the executors as its children and sends them the steps of the plan, under the authority of whoever gave the task.

    Args:
        kits: The tools.
        environment: See `Executor`, as the other three.
    """

    def __init__(self, kits: dict[str, Kit], environment: Any, runtime: FunctionsRuntime, trusted: Trusted, ran: list[str]) -> None:
        self.kits = kits
        self.shared = (environment, runtime, trusted, ran)
        self.executors: dict[type[rt.Message], rt.Ref[Any]] = {}

    async def on_start(self) -> None:
        for kit in self.kits.values():
            ref = await self.ctx.spawn(kit.executor, *self.shared, name=kit.function.name, grant=[kit.operation])
            self.executors[kit.message] = ref

    @rt.handler(requires="plan.step", raises=Exception)
    async def step(self, message: Step) -> Any:
        return await self.executors[type(message.call)].ask(message.call)


class ActorGate:
    """One replay of one task: a system, its holder's side of it. `ActorRuntime` runs the calls.

    Args:
        script: The replay script, for its verdicts.
        kits: The suite's tools, by name.
        plan: The row.
        broken: Where it is noted if actors do something else than the gate says: the replay takes errors for the tools' own and goes on.
    """

    _entered: ActorGate | None = None

    def __init__(self, script: ModuleType, kits: dict[str, Kit], plan: Plan, broken: list[str]) -> None:
        self.script = script
        self.kits = kits
        self.ran: list[str] = []
        self.broken = broken
        self._plan = plan
        self._errand: Errand | None = None

    def begin(self, task: Any) -> None:
        """Ends the system of the replay before, whose end nobody announces, and enters one for this."""
        ActorGate.end()
        self._trusted: dict[str, Any] = {}
        if self._plan.pinned:
            self._errand = Errand(read_prompt(task.prompt))
        self._system = ActorSystem("errand", policies=[self._errand] if self._errand else [], strict=True)
        self._system.__enter__()
        ActorGate._entered = self
        self._trusted.update((kind, self._system.authority.source(kind)) for kind in KINDS)
        if self._errand is not None:
            self._errand.trust(self._trusted)
        permitted = rt.allow("plan.step", *map(operation_of, self._plan.permitted(task)))
        self.context = self._system.authority.mint("person", [permitted], session=task.task_id)

    def spawn_planner(self, environment: Any, runtime: FunctionsRuntime) -> Any:
        """The actors of this replay."""
        grant = ["plan.step", "tool.**"]
        return self._system.spawn(Planner, self.kits, environment, runtime, self._trusted, self.ran, name="planner", grant=grant)

    def consent(self, operation: str, message: Any) -> None:
        """What a person does who says yes."""
        assert self._errand is not None
        self._errand.consent(operation, given_arguments(message))

    @staticmethod
    def end() -> None:
        """Ends the system of the last replay."""
        last, ActorGate._entered = ActorGate._entered, None
        if last is not None:
            last._system.__exit__(None, None, None)


class ActorRuntime(FunctionsRuntime):
    """Stands in for the replay script's own runtime: the same logs, and actors between the call and the tool.

    Args:
        tools: The suite's.
        gate: The replay.
        approve: Whether the person says yes to what they are asked.
    """

    def __init__(self, tools: Any, gate: ActorGate, approve: bool) -> None:
        super().__init__(tools)
        self.approve = approve
        self.log: list[tuple[Any, Any]] = []
        self.executed: list[FunctionCall] = []
        self._tools = FunctionsRuntime(tools)
        self._gate = gate
        self._planner: Any = None
        self._environment: Any = None

    def run_function(self, env: Any, function: str, kwargs: Any, raise_on_error: bool = False) -> tuple[Any, None]:  # noqa: ARG002 - AgentDojo's
        """One call, and before it those within its arguments. Raises the script's `Refused`, or what the tool raised."""
        if self._planner is None:
            self._planner = self._gate.spawn_planner(env, self._tools)
            self._environment = env
        if env is not self._environment:
            self._break("a replay changed its environment on the way")
        script, kit = self._gate.script, self._gate.kits[function]
        given = self._execute_nested_calls(env, kwargs)
        message = kit.call(given)
        call = script.Call(function, {name: value for name, value in given_arguments(message).items() if value is not None})
        decision, answer = self._ask(kit, message)
        self.log.append((call, decision))
        if decision.verdict is script.Verdict.ASK and self.approve:
            self._gate.consent(kit.operation, message)
            again, answer = self._ask(kit, message)
            if again.verdict is not script.Verdict.ALLOW:
                self._break(f"a person consented to {function}, and the gate answered {again}")
        elif decision.verdict is not script.Verdict.ALLOW:
            raise script.Refused(decision)
        result = answer()
        self.executed.append(FunctionCall(function=function, args=dict(given)))
        return result, None

    def _ask(self, kit: Kit, message: Any) -> tuple[Any, Callable[[], Any]]:
        """The gate's verdict in the script's words; and, where the tool ran, a function that gives its result or raises what it raised."""
        script = self._gate.script
        before = len(self._gate.ran)
        decision = script.ALLOW
        future = self._planner.ask(Step(message), context=self._gate.context, block=False)
        try:
            future.get()
        except rt.ApprovalRequired as error:
            decision = script.Decision(script.Verdict.ASK, str(error))
        except rt.Denied as error:
            decision = script.Decision(script.Verdict.DENY, str(error))
        except Exception:  # the tool's own, raised by `get` each time
            pass
        self._check(decision.verdict is script.Verdict.ALLOW, before, kit.function.name)
        return decision, future.get

    def _check(self, allowed: bool, before: int, name: str) -> None:
        """An executor ran exactly when the gate said so."""
        if self._gate.ran[before:] != ([name] if allowed else []):
            self._break(f"the gate {'allowed' if allowed else 'refused'} {name}, and the executors ran {self._gate.ran[before:]}")

    def _break(self, text: str) -> NoReturn:
        self._gate.broken.append(text)
        raise BrokenBlock(text)
