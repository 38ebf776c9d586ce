"""A model that keeps its own account of what it was asked and what it said, to be compared with the ledger's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import trio

import retinue as rt
from retinue import llm
from retinue.actors.llm.reserving import CHARACTERS_A_TOKEN, prompt_tokens
from retinue.capabilities.budgets import Balance
from retinue.security.accounts import NOTHING_SPENT

__all__ = ["Metered", "balance_of", "quiet"]

WORD = "word "


class Metered(llm.Deployment):
    """Answers with as many tokens as it is told to, or as it may, and counts.

    Args:
        plan: What to do with a request: a number of tokens to say; or "fail" (at once), "break" (after some words), "hang" (for ever, after some words),
            "hush" (for ever, without a word).
        seconds: How long an answer takes.
        price: See `llm.Deployment.price`.

    Attributes:
        begun: How many requests have come.
        taken: Tokens of them all, by the rules of the page about budgets.
        cost: The same in millionths of a US dollar.
        capped: The `max_tokens` of each.
        most: The most requests at once.
    """

    def __init__(
        self, plan: Callable[[llm.Complete], int | str], *, seconds: float = 0.0, concurrency: int = 64, price: llm.Price | None = None
    ) -> None:
        super().__init__(concurrency)
        self.plan = plan
        self.seconds = seconds
        self.price = price
        self.begun = self.taken = self.cost = self.most = self.at_it = 0
        self.capped: list[int | None] = []

    async def stream_once(self, request: llm.Complete) -> AsyncIterator[llm.ModelEvent]:
        self.begun += 1
        self.at_it += 1
        self.most = max(self.most, self.at_it)
        self.capped.append(request.max_tokens)
        prompt, said, ended = prompt_tokens(request), 0, False
        try:
            act = self.plan(request)
            if act == "fail":
                ended = True
                raise llm.ModelFailed("told to fail", status=500)
            if isinstance(act, str):
                if act != "hush":
                    for _ in range(5):
                        said += len(WORD)
                        yield llm.TextDelta(WORD)
                if act == "break":
                    raise llm.ModelFailed("told to break off", status=502)
                await trio.sleep_forever()
            assert isinstance(act, int)
            tokens = act if request.max_tokens is None else min(act, request.max_tokens)
            for _ in range(3):
                await trio.sleep(self.seconds / 3)
                said += len(WORD)
                yield llm.TextDelta(WORD)
            ended = True
            self.note(prompt, tokens)
            yield llm.Completed(llm.Completion(WORD * 3, "metered", llm.Usage(1, prompt, tokens), "stop"))
        finally:
            self.at_it -= 1
            if not ended:
                guessed = said // CHARACTERS_A_TOKEN + 1 if said else 0
                self.note(prompt, guessed if request.max_tokens is None else min(guessed, request.max_tokens))

    def note(self, prompt: int, answer: int) -> None:
        self.taken += prompt + answer
        if self.price is not None:
            self.cost += self.price.cost(prompt, answer)


async def quiet(system: rt.ActorSystem, who: Any) -> Balance:
    """The balance of a context's account, once nothing of it is reserved any more."""
    with trio.fail_after(5):
        while True:
            balance = await balance_of(system, who)
            if balance.reserved == NOTHING_SPENT:
                return balance
            await trio.sleep(0.001)


async def balance_of(system: rt.ActorSystem, who: Any) -> Balance:
    """The balance of a context's account."""
    [balance] = await system.budgets.balance(who)
    return balance
