"""Mutants of the gate, policies, budgets, and of the derivation rules of the runtime."""

from __future__ import annotations

from benchmarks.mutants.mutant import Mutant

__all__ = ["GATE"]

_GATE = ("tests/capabilities/test_gate.py",)
_POLICIES = ("tests/capabilities/test_policies.py",)
_LATE = ("tests/capabilities/test_late_policies.py",)
_BUDGETS = ("tests/capabilities/test_budgets.py",)
_TURNS = ("tests/actors/runtime/test_authority_in_turns.py",)
_DEPTH = ("tests/actors/runtime/test_own_authority.py",)
_LABELS = ("tests/actors/runtime/test_labels_in_turns.py",)
_OWN = _DEPTH
_DOOR = ("tests/actors/runtime/test_gate_in_turns.py",)
_WAITING = ("tests/actors/runtime/test_async_policies_in_turns.py",)

GATE = (
    # -- policies
    Mutant(
        "a policy's None allows",
        "capabilities/engine.py",
        "    if answer is Verdict.allow():",
        "    if answer is None or answer is Verdict.allow():",
        _POLICIES,
    ),
    Mutant(
        "a policy's True allows",
        "capabilities/engine.py",
        "    if answer is Verdict.allow():",
        "    if answer is True or answer is Verdict.allow():",
        _POLICIES,
    ),
    Mutant(
        "a policy that raises allows",
        "capabilities/engine.py",
        "        raise _failed(case, policy, error) from error\n\n\ndef _failed",
        "        return Verdict.allow()\n\n\ndef _failed",
        _POLICIES,
    ),
    Mutant(
        "a late answer counts",
        "capabilities/engine.py",
        "if scope.cancel_called or trio.current_time() - began >= self._timeout:",
        "if answer is None:",
        _LATE,
    ),
    Mutant(
        "a question is as good as consent",
        "capabilities/engine.py",
        '        case.asks.append(f"the policy {policy.name!r}: {answer.reason}")',
        "        pass",
        _POLICIES,
    ),
    Mutant(
        "a rewrite may be of another type",
        "capabilities/engine.py",
        "if type(answer.message) is not type(case.message):",
        "if answer.message is None:",
        _POLICIES,
    ),
    Mutant(
        "a rewrite passes without another look",
        "capabilities/cases.py",
        "        self.message = message\n        self.arguments = None\n",
        "        self.message = message\n",
        _POLICIES,
    ),
    Mutant(
        "a policy file that cannot be used refuses nothing",
        "capabilities/policy_file.py",
        "        if self.problem:\n",
        "        if self.problem:\n            return Verdict.allow()\n        if self.problem:\n",
        ("tests/capabilities/test_policy_file.py",),
    ),
    Mutant(
        "what no rule of a policy file fits is allowed",
        "capabilities/policy_file.py",
        "        if not misfits:\n            return Verdict.refuse(",
        "        if misfits:\n            return Verdict.allow()\n        if not misfits:\n            return Verdict.refuse(",
        ("tests/capabilities/test_policy_file.py",),
    ),
    # -- the gate
    Mutant(
        "the gate does not look at arguments",
        "capabilities/gate.py",
        "        if decision is ALLOWED:\n            return\n",
        "        if decision.verdict is not DENY:\n            return\n",
        _GATE,
    ),
    Mutant(
        "a question goes before a refusal",
        "capabilities/gate.py",
        "        elif verdict is not ALLOW:",
        "        elif verdict is not ALLOW and not case.asks:",
        _GATE,
    ),
    Mutant(
        "a handler's approval=True is not heard",
        "capabilities/gate.py",
        "        if case.needs_consent():\n",
        "        if not case:\n",
        _GATE,
    ),
    Mutant(
        "the deadline is the wrong way round",
        "capabilities/gate.py",
        "self._authority.now_ms() >= limits.deadline_ms",
        "self._authority.now_ms() < limits.deadline_ms",
        _GATE,
    ),
    Mutant(
        "what nobody rated is harmless",
        "capabilities/gate.py",
        "return (_UNRATED if risk is None else _LEVELS[risk]) <= limits.risk",
        "return (0 if risk is None else _LEVELS[risk]) <= limits.risk",
        _GATE,
    ),
    Mutant(
        "calls are not charged",
        "capabilities/gate.py",
        "        if case.operation is None or not case.counted or case.security.permissions.limits.calls == UNLIMITED:\n",
        "        if case:\n",
        _GATE,
    ),
    Mutant(
        "a verdict with a deadline is kept",
        "capabilities/gate.py",
        "limits.deadline_ms == NEVER and limits.calls == UNLIMITED and",
        "limits.calls == UNLIMITED and",
        _GATE,
    ),
    Mutant(
        "a verdict of policies is kept",
        "capabilities/gate.py",
        "if self._engine.policies and self._engine.concerned(operation):\n                    return False",
        "if self._engine.policies and self._engine.concerned(operation):\n                    pass",
        _POLICIES,
    ),
    Mutant(
        "a risky deed that cannot be recorded is done",
        "capabilities/gate.py",
        '            record = self._record(case, allowed=True, reason="", detail="")\n',
        "            record = None\n",
        _GATE,
    ),
    Mutant(
        "a refusal that cannot be recorded is an answer all the same",
        "capabilities/gate.py",
        "                except AuditUnavailable as unavailable:\n                    raise unavailable from refusal\n",
        "                except AuditUnavailable:\n                    pass\n",
        _GATE,
    ),
    Mutant(
        "the sender's own lists are handled",
        "capabilities/snapshots.py",
        "return [_copied(item, made, depth) for item in value.copy()]",
        "return value",
        ("tests/capabilities/test_snapshots.py",),
    ),
    Mutant(
        "what lies beside a record's fields goes along unseen",
        "capabilities/snapshots.py",
        "    _check_beside(value, kind, plan)\n",
        "",
        ("tests/capabilities/test_snapshots.py",),
    ),
    Mutant(
        "a path is taken as it is",
        "capabilities/snapshots.py",
        "    return type(value)(text)\n",
        "    return value\n",
        ("tests/capabilities/test_snapshots.py",),
    ),
    Mutant(
        "what policies took their time for is not looked at again",
        "capabilities/gate.py",
        "        if policies:\n            self._check(case)\n            self._begin(case)\n",
        "",
        ("tests/capabilities/test_policies.py", "tests/capabilities/test_policies_async.py"),
    ),
    Mutant(
        "a rule of a file may refuse by arguments",
        "capabilities/policy_file.py",
        '    if verdict != "allow" and (arguments or risk is not None):',
        "    if False:",
        ("tests/capabilities/test_policy_file.py",),
    ),
    # -- budgets
    Mutant("only the leaf is charged", "security/accounts.py", "            waiting.extend(account.parents)", "            pass", _BUDGETS),
    Mutant(
        "what is reserved can be reserved again",
        "capabilities/budgets.py",
        "            account.reserved = _plus(account.reserved, amounts)\n",
        "            account.reserved = account.reserved\n",
        _BUDGETS,
    ),
    Mutant(
        "what expires unsettled was not spent",
        "capabilities/budgets.py",
        "                    account.spent = _plus(account.spent, reservation.amounts)\n",
        "",
        _BUDGETS,
    ),
    Mutant(
        "a reservation can be settled twice",
        "capabilities/budgets.py",
        'if reservation.state not in ("open", "expired"):',
        "if not reservation.state:",
        _BUDGETS,
    ),
    # -- derivation
    Mutant(
        "a message is handled without the receiver's grant",
        "actors/runtime/derivation.py",
        "    return context._meet(grant)",
        "    return context",
        _TURNS,
    ),
    Mutant(
        "a turn sends under any context that it holds",
        "actors/runtime/derivation.py",
        "    if context.descends_from(security):\n        return context\n",
        "    if context is not None:\n        return context\n",
        _TURNS,
    ),
    Mutant(
        "a child has its system's authority",
        "actors/runtime/derivation.py",
        "        grant = _sending(kernel, turn, None, None)\n        if kernel.owned",
        "        grant = kernel.root\n        if kernel.owned",
        _TURNS,
    ),
    Mutant(
        "what was asked for a child is forgotten",
        "actors/runtime/derivation.py",
        "        grant = grant._grant(asked)\n",
        "        pass\n",
        _TURNS,
    ),
    Mutant(
        "a handler can mint",
        "actors/runtime/derivation.py",
        '    if turn.__class__ is Delivery:\n        raise Denied(\n            f"inside a handler (of',
        '    if turn is kernel:\n        raise Denied(\n            f"inside a handler (of',
        _TURNS,
    ),
    Mutant(
        "a foreign thread is the system's holder",
        "actors/runtime/derivation.py",
        "    if turn.__class__ is Roots and turn.of(kernel) and get_ident() == kernel.thread:\n",
        "    if turn.__class__ is not Delivery:\n",
        _TURNS,
    ),
    Mutant(
        "a child may spawn as deep as its parent", "actors/runtime/derivation.py", "limit(depth=depth - 1)", "limit(depth=depth)", _DEPTH
    ),
    Mutant(
        "labels do not come back with an answer",
        "actors/runtime/derivation.py",
        "    missing = (delivery.security.labels | labels) - turn.security.labels\n",
        "    missing = labels - turn.security.labels\n",
        _LABELS,
    ),
    Mutant(
        "an answer carries authority",
        "actors/runtime/derivation.py",
        "        turn.security = turn.security.narrow(label(*missing))\n",
        "        turn.security = delivery.security\n",
        _LABELS,
    ),
    Mutant(
        "an actor's own authority is for any operation",
        "actors/runtime/derivation.py",
        "    if operation not in manifest:",
        "    if operation is None:",
        _OWN,
    ),
    Mutant(
        "an actor's own authority forgets labels",
        "actors/runtime/derivation.py",
        "own = cell.grant.narrow(allow(operation), *((label(*labels),) if labels else ()))",
        "own = cell.grant.narrow(allow(operation))",
        _OWN,
    ),
    Mutant(
        "an actor's own authority is anybody's",
        "actors/runtime/derivation.py",
        "    if kernel.owned and _own(kernel, context) is not None:",
        "    if context is None:",
        _OWN,
    ),
    Mutant(
        "a handler gets the sender's own message", "actors/runtime/door.py", "        delivery.message = admission.message\n", "", _DOOR
    ),
    Mutant(
        "kept verdicts outlive a revocation",
        "actors/runtime/door.py",
        "            cell.gate_context = None  # this alone",
        "            pass  # this alone",
        _DOOR,
    ),
    Mutant(
        "a policy that has to be waited for is not asked",
        "actors/runtime/door.py",
        "            admission = await self._gate.admit_async(*arguments, **keywords, wanted=wanted, run=run)\n",
        "            return\n",
        _WAITING,
    ),
)
