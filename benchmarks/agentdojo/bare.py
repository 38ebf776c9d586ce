"""The bare gate behind the replay script's protocol: contexts, policies and `Gate.admit`, without a system or an actor."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import retinue as rt
from benchmarks.agentdojo.errand import KINDS, Errand
from benchmarks.agentdojo.manifest import tool
from benchmarks.agentdojo.plans import Plan
from benchmarks.agentdojo.prompt import read_prompt
from benchmarks.agentdojo.tools import Kit, trusted_values
from retinue.capabilities.gate import Gate
from retinue.security.authority import Authority

__all__ = ["BareGate"]


class BareGate:
    """One replay of one task.

    Args:
        script: The replay script, for its verdicts.
        kits: The suite's tools, by name.
        plan: The row.
        layered: Whether the pins that are constraints stand in the context, as `needs_approval` layers, and not in the policy.
    """

    def __init__(self, script: ModuleType, kits: dict[str, Kit], plan: Plan, *, layered: bool = False) -> None:
        self._script = script
        self._kits = kits
        self._plan = plan
        self._layered = layered

    def begin(self, task: Any) -> None:
        """A context for the task, and a gate that asks its policy."""
        authority = Authority()
        self._sources = {kind: authority.source(kind) for kind in KINDS}
        policies = []
        restrictions = [self._plan.restriction(task)]
        if self._plan.pinned:
            errand = Errand(read_prompt(task.prompt), layered=self._layered)
            errand.trust(self._sources)
            policies.append(errand)
            restrictions += errand.layers(self._plan.permitted(task)) if self._layered else []
        self._context = authority.mint("person", restrictions, session=task.task_id)
        self._gate = Gate(authority, policies=policies)

    def decide(self, call: Any) -> Any:
        """The gate's verdict, in the script's words."""
        kit = self._kits[call.tool]
        verdicts, decision = self._script.Verdict, self._script.Decision
        try:
            self._gate.admit(self._context, None, kit.operation, kit.call(call.args), path=f"/tools/{call.tool}", message_type=kit.message)
        except rt.ApprovalRequired as error:
            return decision(verdicts.ASK, str(error))
        except rt.Denied as error:
            return decision(verdicts.DENY, str(error))
        return self._script.ALLOW

    def observe(self, call: Any, result: Any) -> None:
        """Values from systems of record become known."""
        for kind, value in trusted_values(tool(call.tool), result):
            self._sources[kind].add(value)
