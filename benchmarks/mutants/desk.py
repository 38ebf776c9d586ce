"""Mutants of the desk of approvals: what it refuses to spend, to decide and to believe."""

from __future__ import annotations

from benchmarks.mutants.mutant import Mutant

__all__ = ["DESK"]

_WORKS = ("tests/actors/approvals/test_desk_works.py",)
_MATRIX = ("tests/actors/approvals/test_approval_matrix.py",)
_DECISIONS = ("tests/actors/approvals/test_approval_decisions.py",)
_REVIEWERS = ("tests/actors/approvals/test_reviewers.py",)
_STANDING = ("tests/actors/approvals/test_standing_at_the_desk.py", "tests/actors/approvals/test_desk_records.py")
_OWNERS = ("tests/actors/approvals/test_owners.py",)

DESK = (
    # -- spending
    Mutant(
        "a signature is enough, whatever became of the request",
        "actors/approvals/works_spending.py",
        '    if row["status"] != "approved":',
        '    if row["status"] == "":',
        _WORKS,
    ),
    Mutant(
        "any signed token of a request is its token",
        "actors/approvals/works_spending.py",
        '    if row["jti"] != jti:',
        '    if row["jti"] is None:',
        _MATRIX,
    ),
    Mutant(
        "approvals outlive a damaged file",
        "actors/approvals/works_spending.py",
        '    if row["epoch"] != epoch_of(database):',
        '    if row["epoch"] is None:',
        _WORKS,
    ),
    Mutant(
        "the end of an approval is not looked at when it is spent",
        "actors/approvals/works_spending.py",
        "        if ends <= now:\n",
        "        if ends <= 0:\n",
        _WORKS,
    ),
    Mutant(
        "a clock that was set back is believed",
        "actors/approvals/ledger.py",
        "    if now_ms < floor - CLOCK_TOLERANCE_MS:",
        "    if now_ms < 0:",
        _WORKS,
    ),
    Mutant("time goes back a little", "actors/approvals/ledger.py", "    return max(now_ms, floor)", "    return now_ms", _WORKS),
    Mutant(
        "what a dead process left is in progress for ever",
        "actors/approvals/owners.py",
        '        return started in ("0", str(found))',
        "        return True",
        _OWNERS,
    ),
    # -- deciding
    Mutant(
        "a decision is taken back",
        "actors/approvals/works_asking.py",
        '    if status != "pending":\n        by',
        '    if status == "":\n        by',
        _DECISIONS,
    ),
    Mutant(
        "a request that has expired is decided",
        "actors/approvals/works_asking.py",
        '    if row["status"] == "pending" and row["expires_ms"] <= now:',
        '    if row["status"] == "pending" and row["expires_ms"] <= 0:',
        _DECISIONS,
    ),
    Mutant(
        "the subject approves its own call",
        "actors/approvals/deciding.py",
        "    if request.four_eyes and same_person(reviewer, request.subject):",
        '    if request.four_eyes and reviewer == "":',
        _DECISIONS,
    ),
    Mutant(
        "whatever a hook answers is a consent",
        "actors/approvals/review.py",
        "    if type(answer) is Review:\n        return answer\n",
        "    if answer:\n        return answer if type(answer) is Review else Review.approve()\n",
        _REVIEWERS,
    ),
    Mutant(
        "a decision is made without a record",
        "actors/approvals/desk.py",
        '        self._record(request, "approved", message.reviewer, message.asserted, message.note)\n',
        "",
        _DECISIONS,
    ),
    Mutant(
        "a handler may approve",
        "actors/approvals/book.py",
        "    async def _tell(self, message: Request[R]) -> R:\n        self._kernel.holding()\n",
        "    async def _tell(self, message: Request[R]) -> R:\n",
        _DECISIONS,
    ),
    Mutant(
        "requests pile up without a bound",
        "actors/approvals/works_asking.py",
        "    if waiting >= MAX_PENDING or of_subject >= MAX_PENDING_OF_SUBJECT:",
        "    if waiting < 0:",
        _DECISIONS,
    ),
    Mutant(
        "a withdrawn consent counts again under another id",
        "actors/approvals/standing_rows.py",
        'known.id == row["id"]',
        'known.id != ""',
        _STANDING,
    ),
)
