"""Banking: a teller orders transfers, and each is a request within a request; meanwhile the account takes nothing else."""

from collections.abc import Iterator
from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import Timer
from benchmarks.savina.arithmetic import PseudoRandom
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import MANY, Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["BANKING", "Bank"]

OPENING = 1_000_000


@attrs.frozen
class Bank:
    """A accounts, N transfers."""

    accounts: int
    transfers: int


def transfers(size: Bank) -> Iterator[tuple[int, int, int]]:
    """From whom, to whom (always a higher number, so that no ring of waiting accounts closes), and how much."""
    random = PseudoRandom(123456)
    for _ in range(size.transfers):
        source = random.below(size.accounts // 10 * 8)
        amount = random.below(1000)
        yield source, source + max(1, random.below(size.accounts - source)), amount


def balances_after(size: Bank) -> tuple[int, ...]:
    """What the accounts must hold in the end, in whatever order the transfers were made."""
    balances = [OPENING] * size.accounts
    for source, target, amount in transfers(size):
        balances[source] -= amount
        balances[target] += amount
    return tuple(balances)


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Start(rt.Message):
    pass


@rt.message
class Credit(rt.Message):
    amount: int
    target: rt.Ref[Any]


@rt.message
class Debit(rt.Request[None]):
    amount: int


@rt.message
class Transferred(rt.Message):
    pass


@rt.message
class Balance(rt.Request[int]):
    pass


class Account(rt.Actor):
    def __init__(self) -> None:
        self.balance = OPENING

    @rt.handler(requires="savina.transfer")
    async def credit(self, message: Credit) -> None:
        self.balance -= message.amount
        await message.target.ask(Debit(message.amount))
        teller = self.ctx.sender
        if teller is not None:
            teller.tell(Transferred())

    @rt.handler(requires="savina.transfer")
    def debit(self, message: Debit) -> None:
        self.balance += message.amount

    @rt.handler(requires="savina.read")
    def read(self, _: Balance) -> int:
        return self.balance


class Teller(rt.Actor):
    def __init__(self, size: Bank, accounts: list[rt.Ref[Account]], answer: Answer) -> None:
        self.size = size
        self.accounts = accounts
        self.answer = answer
        self.done = 0

    @rt.handler(requires="savina.transfer")
    def start(self, _: Start) -> None:
        for source, target, amount in transfers(self.size):
            self.accounts[source].tell(Credit(amount, self.accounts[target]))

    @rt.handler(requires="savina.transfer")
    def transferred(self, _: Transferred) -> None:
        self.done += 1
        if self.done == self.size.transfers:
            self.answer.set(self.done)
            self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Bank) -> Outcome:
    answer = Answer()
    accounts = [await system.spawn(Account) for _ in range(size.accounts)]
    teller = await system.spawn(Teller, size, accounts, answer, mailbox=MANY)
    with Timer() as timer:
        teller.tell(Start())
        await answer.get()
    return timer, tuple([await account.ask(Balance()) for account in accounts])


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class PeerCredit:
    amount: int
    target: Any
    teller: Any


class PykkaAccount(pykka.ThreadingActor):
    def __init__(self) -> None:
        super().__init__()
        self.balance = OPENING

    def on_receive(self, message: object) -> int:
        if isinstance(message, PeerCredit):
            self.balance -= message.amount
            message.target.ask(Debit(message.amount))
            message.teller.tell(Transferred())
        elif isinstance(message, Debit):
            self.balance += message.amount
        return self.balance


class PykkaTeller(pykka.ThreadingActor):
    def __init__(self, size: Bank, accounts: list[pykka.ActorRef[Any]], answer: pykka.Future[int]) -> None:
        super().__init__()
        self.size = size
        self.accounts = accounts
        self.answer = answer
        self.done = 0

    def on_receive(self, message: object) -> None:
        if isinstance(message, Start):
            for source, target, amount in transfers(self.size):
                self.accounts[source].tell(PeerCredit(amount, self.accounts[target], self.actor_ref))
        else:
            self.done += 1
            if self.done == self.size.transfers:
                self.answer.set(self.done)
                self.stop()


@in_pykka
def with_pykka(failures: Failures, size: Bank) -> Outcome:
    answer: pykka.Future[int] = pykka.ThreadingFuture()
    accounts = [PykkaAccount.start() for _ in range(size.accounts)]
    teller = PykkaTeller.start(size, accounts, answer)
    with Timer() as timer:
        teller.tell(Start())
        failures.result_of(answer)
    balances = tuple([account.ask(Balance()) for account in accounts])
    for stopping in [account.stop(block=False) for account in accounts]:
        stopping.get(timeout=60)
    return timer, balances


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class BareAsk:
    message: Any
    answers: trio.MemorySendChannel[int]


async def bare_ask(target: Channel, message: object) -> int:
    send, receive = trio.open_memory_channel[int](1)
    target.send_nowait(BareAsk(message, send))
    return await receive.receive()


async def serve_account(messages: trio.MemoryReceiveChannel[Any]) -> None:
    balance = OPENING
    async for message in messages:
        if isinstance(message, PeerCredit):
            balance -= message.amount
            await bare_ask(message.target, Debit(message.amount))
            message.teller.send_nowait(Transferred())
        elif isinstance(message, BareAsk):
            if isinstance(message.message, Debit):
                balance += message.message.amount
            message.answers.send_nowait(balance)


async def serve_teller(
    this: Channel, messages: trio.MemoryReceiveChannel[Any], size: Bank, accounts: list[Channel], answer: Answer
) -> None:
    done = 0
    async for message in messages:
        if isinstance(message, Start):
            for source, target, amount in transfers(size):
                accounts[source].send_nowait(PeerCredit(amount, accounts[target], this))
        else:
            done += 1
            if done == size.transfers:
                answer.set(done)
                return


@in_trio
async def with_trio(nursery: trio.Nursery, size: Bank) -> Outcome:
    answer = Answer()
    accounts = []
    for _ in range(size.accounts):
        account, messages = inbox()
        nursery.start_soon(serve_account, messages)
        accounts.append(account)
    teller, told = inbox()
    nursery.start_soon(serve_teller, teller, told, size, accounts, answer)
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        teller.send_nowait(Start())
        await answer.get()
    return timer, tuple([await bare_ask(account, Balance()) for account in accounts])


BANKING = Benchmark(
    name="banking",
    title="Banking",
    unit="transfers",
    how="A teller orders N transfers at once between 1,000 accounts. The account that pays asks the other one to take the money, waits for its answer, and only then "
    "takes its next order. Money goes from lower to higher numbers, so no ring closes. Checked: every balance, to the unit.",
    operations=lambda size: size.transfers,
    expected=balances_after,
    full=Bank(1_000, 5_000),
    quick=Bank(1_000, 1_000),
    tiny=Bank(10, 40),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
)
