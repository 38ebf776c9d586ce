"""A desk of approvals without a store, whose steps a test can hold, fail and look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import trio

import retinue as rt
from retinue.capabilities.consent import Consent, Question
from retinue.security.approvals import ApprovalRequest


class FakeDesk:
    """Keeps in lists what a desk keeps in a file.

    Attributes:
        log: Its steps, as they began and ended: "consider", "spend", "spent", "outcome".
        questions, requests: What it was asked, and what people are.
        tokens: What it gave, and the binding that each is for.
        spent: What was used up.
        outcomes: How that ended.
        holds: Events that a step waits for, by its name; "spent" is the moment after the commit.
        fails: What a step raises.
        hooks: What is called within a step.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.questions: list[Question] = []
        self.requests: list[ApprovalRequest] = []
        self.tokens: dict[str, Any] = {}
        self.spent: list[str] = []
        self.outcomes: dict[str, str] = {}
        self.holds: dict[str, trio.Event] = {}
        self.fails: dict[str, BaseException] = {}
        self.hooks: dict[str, Callable[[], object]] = {}

    def approve(self, request: ApprovalRequest) -> str:
        """A token for a request."""
        token = f"token {len(self.tokens)}"
        self.tokens[token] = request.binding
        return token

    async def _step(self, name: str) -> None:
        self.log.append(name)
        if name in self.hooks:
            self.hooks[name]()
        if name in self.holds:
            await self.holds[name].wait()
        if name in self.fails:
            raise self.fails[name]

    async def consider(self, question: Question, approvals: Sequence[str]) -> Consent:
        self.questions.append(question)
        await self._step("consider")
        for token in approvals:
            if self.tokens.get(token) == question.binding:
                if token in self.spent:
                    raise rt.Denied("it was spent before", reason="spent")
                return Consent(token, "bob", "token", self.requests[0].id if self.requests else None)
        request = ApprovalRequest.new(
            question.binding,
            question.arguments,
            message_type=question.message_type,
            reasons=question.reasons,
            context_id=question.context_id,
            now_ms=1,
            risk=question.risk,
            four_eyes=question.four_eyes,
        )
        self.requests.append(request)
        raise rt.ApprovalRequired("a person is asked", requests=[request])

    async def spend(self, question: Question, consent: Consent) -> None:
        await self._step("spend")
        if consent.jti in self.spent:
            raise rt.Denied("it was spent before", reason="spent")
        self.spent.append(consent.jti)
        await self._step("spent")

    async def note_outcome(self, consent: Consent, outcome: str) -> None:
        await self._step("outcome")
        assert consent.jti not in self.outcomes
        self.outcomes[consent.jti] = outcome


def with_desk(system: rt.ActorSystem, desk: FakeDesk) -> FakeDesk:
    """Has a system's gate ask this desk, by the runtime's own way to one."""
    system._desk._book = SimpleNamespace(desk=desk)  # type: ignore[assignment]
    return desk
