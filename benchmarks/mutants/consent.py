"""Mutants of how the gate and the runtime come by a person's consent: the order, what leaves it unspent, what is not run."""

from __future__ import annotations

from benchmarks.mutants.mutant import Mutant

__all__ = ["CONSENT"]

_SETTLING = "capabilities/settling.py"
_GATE = ("tests/capabilities/test_consent_gate.py",)
_TURNS = ("tests/actors/runtime/test_consent_in_turns.py",)
_ENDS = ("tests/actors/runtime/test_consent_ends.py",)
_OUTCOMES = ("tests/actors/approvals/test_outcomes_at_the_desk.py",)
_OLDER = ("tests/actors/approvals/test_older_files.py",)
_HOUSE = ("tests/actors/runtime/test_system_actors.py",)

CONSENT = (
    Mutant(
        "an approval is spent before the intent is on record",
        _SETTLING,
        "        record = _record(gate, case, consent)\n        spent = None  # until that is known\n        await _spend(desk, case, question, consent)\n",
        "        await _spend(desk, case, question, consent)\n        record = _record(gate, case, consent)\n",
        _GATE,
    ),
    Mutant(
        "an approval is spent before the call is reserved",
        _SETTLING,
        "    reservation = gate._reserve(case)\n    record: int | None = None\n",
        "    await _spend(desk, case, question, consent)\n    reservation = gate._reserve(case)\n    record: int | None = None\n",
        _GATE,
    ),
    Mutant("nothing is looked at again after the desk was waited for", _SETTLING, "        gate._look_once_more(case)\n", "", _GATE),
    Mutant(
        "a question that has become another one is not asked",
        _SETTLING,
        "        if _same(question, again):\n",
        "        if again:\n",
        _GATE,
    ),
    Mutant(
        "an approval is spent for nobody",
        _SETTLING,
        '    if not wanted():\n        raise Undecidable("whoever asked for it waits no longer")\n',
        "",
        _GATE,
    ),
    Mutant("a cancellation reaches the spending", _SETTLING, "SPEND_TIMEOUT, shield=True", "SPEND_TIMEOUT, shield=False", _GATE),
    Mutant(
        "a turn that was cancelled while it was spent is run", _SETTLING, "    await trio.lowlevel.checkpoint_if_cancelled()\n", "", _GATE
    ),
    Mutant("what is revoked in the moment of spending is run", _SETTLING, "    gate._check(case)\n", "", _GATE),
    Mutant(
        "what expires in the moment of spending is run",
        _SETTLING,
        "    if gate._authority.expired(case.security):\n",
        "    if not case:\n",
        _GATE,
    ),
    Mutant(
        "the arguments are not looked at again before the effect",
        _SETTLING,
        "    if arguments_digest(arguments_of(case.message)) != question.binding.arguments_digest:\n",
        "    if not question:\n",
        _GATE,
    ),
    Mutant(
        "a call that was not run stays reserved",
        _SETTLING,
        "                gate.ledger.release(reservation)\n",
        "                pass\n",
        _GATE,
    ),
    Mutant(
        "the desk is not told what was not run", _SETTLING, "            if spent is not False:\n", "            if spent is None:\n", _GATE
    ),
    Mutant(
        "a turn's own authority tells the desk what was not run",
        "actors/runtime/approving.py",
        "        await self._kernel.consult(note)\n",
        "        await note()\n",
        _OUTCOMES,
    ),
    Mutant(
        "what could not be noted at once is forgotten",
        "actors/approvals/desk.py",
        "                await self._pay()\n                await self._look()\n",
        "                await self._look()\n",
        _OUTCOMES,
    ),
    Mutant(
        "what was spent here and is not being done is taken for being done",
        "actors/approvals/works_spending.py",
        'row["jti"] not in self.running\n',
        "self.running is None\n",
        _OUTCOMES,
    ),
    Mutant(
        "a key that was taken away meanwhile is not looked for",
        "actors/approvals/office.py",
        "        self._check_known(consent)\n",
        "",
        ("tests/actors/approvals/test_desk_holds.py",),
    ),
    Mutant(
        "an older file is taken for the one that was used last",
        "actors/approvals/witness.py",
        "        if self.uses < seen.uses:\n",
        "        if self.uses < 0:\n",
        _OLDER,
    ),
    Mutant(
        "nobody hears of a use but the database",
        "actors/store/session.py",
        "            self._after(database, pairs)\n",
        "",
        _OLDER,
    ),
    Mutant(
        "whoever has left a handler's context behind is at the desk",
        "actors/runtime/derivation.py",
        "    if kernel.thread and (turn.__class__ is not Roots or not turn.of(kernel)):\n",
        "    if not kernel.thread:\n",
        ("tests/actors/approvals/test_who_holds_the_desk.py",),
    ),
    Mutant(
        "what is spent in another container is nobody's",
        "actors/approvals/owners.py",
        "    if held is False:\n",
        "    if held is None:\n",
        ("tests/actors/approvals/test_owners.py",),
    ),
    Mutant(
        "what the desk says is taken for a consent",
        _SETTLING,
        "        if type(consent) is not Consent:\n",
        "        if not consent:\n",
        _GATE,
    ),
    Mutant(
        "a predicate's zero is as good as False",
        "capabilities/cases.py",
        "        return answer is not False\n",
        "        return bool(answer)\n",
        _GATE,
    ),
    Mutant(
        "a predicate that raises asks for nothing",
        "capabilities/cases.py",
        "                raise\n            return True\n",
        "                raise\n            return False\n",
        _GATE,
    ),
    Mutant(
        "an asker that has gone is still worked for",
        "actors/runtime/door.py",
        "slot.stage == ABANDONED and not slot.detached",
        "slot.stage == ABANDONED and slot.detached",
        _ENDS,
    ),
    Mutant(
        "approvals do not go on with what is handed over",
        "actors/runtime/forwarding.py",
        "approvals=turn.postmark.approvals if turn.postmark is not None else ()",
        "approvals=()",
        _TURNS,
    ),
    Mutant(
        "an approved turn's outcome is not told",
        "actors/runtime/door.py",
        "            self._kernel.household.note(desk.note_outcome, admission.consent, _told(error))\n",
        "            _told(error)\n",
        _TURNS,
    ),
    Mutant(
        "whoever has a ref of the household may use it",
        "actors/runtime/door.py",
        "        if context is not self._kernel.household.context:\n",
        "        if context is None:\n",
        _HOUSE,
    ),
    Mutant(
        "what is left to be noted is not waited for",
        "actors/runtime/household.py",
        "            if self._notes:\n",
        "            if not self._notes:\n",
        _HOUSE,
    ),
)
