"""A bank whose accounts fail: a refusal that is an answer, failures that a restart mends, and one that it does not.

Shows: a supervisor with children, declared errors (`raises=`), restarts with back-off, state that `on_start` fetches again, the directive
"stop", and watching.
Run:   python examples/bank_with_supervision.py
"""

import retinue as rt


class Overdrawn(Exception):
    """A refusal: the account is well, it just says no."""


class Forgery(Exception):
    """A failure that no restart mends."""


@rt.message
class Book(rt.Request[int]):
    """Tell the ledger of an amount; the answer is the balance."""

    owner: str
    amount: int


class Ledger(rt.Actor):
    """Keeps the balances, so that an account that starts again finds its own."""

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}

    @rt.handler
    def book(self, message: Book) -> int:
        self.balances[message.owner] = self.balances.get(message.owner, 0) + message.amount
        return self.balances[message.owner]


@rt.message
class Cash(rt.Request[int]):
    """Pay in a cheque; the answer is the new balance."""

    cheque: str


class Account(rt.Actor):
    """One account. It fetches its balance whenever it starts, so after a restart too."""

    def __init__(self, owner: str, ledger: rt.Ref[Ledger]) -> None:
        self.owner = owner
        self.ledger = ledger
        self.balance = 0

    async def on_start(self) -> None:
        self.balance = await self.ledger.ask(Book(self.owner, 0))

    @rt.handler(raises=Overdrawn)  # an answer: the account keeps its state
    async def cash(self, message: Cash) -> int:
        if message.cheque == "forged":
            raise Forgery(f"{self.owner} handed in a forged cheque")
        amount = int(message.cheque)  # a ValueError is not declared: a failure
        if self.balance + amount < 0:
            raise Overdrawn(f"{self.owner} has {self.balance}")
        self.balance = await self.ledger.ask(Book(self.owner, amount))
        return self.balance


@rt.message
class Open(rt.Request[rt.Ref[Account]]):
    """Open an account."""

    owner: str


class Bank(rt.Actor):
    """The parent of all accounts: it says what their failures lead to, and is told when one has ended."""

    def __init__(self, ledger: rt.Ref[Ledger]) -> None:
        self.ledger = ledger

    @rt.handler
    async def open(self, message: Open) -> rt.Ref[Account]:
        rules = rt.Supervision(on={Forgery: "stop"}, backoff=(0.2, 5))  # whatever else: a restart
        account = await self.ctx.spawn(Account, message.owner, self.ledger, name=message.owner, supervision=rules)
        self.ctx.watch(account)
        return account

    @rt.handler
    def account_ended(self, message: rt.Terminated) -> None:
        print(f"the bank is told: {message.ref.path} has ended ({message.reason}: {message.error})")


async def main() -> None:
    async with rt.ActorSystem("money", events=100) as system:
        bank = await system.spawn(Bank, await system.spawn(Ledger, name="ledger"), name="bank")
        ada = await bank.ask(Open("ada"))
        # 10 is fine and -50 is refused. Then two failures: the first restart comes at once, the second after some 0.2 s. The 5 waits for that
        # in the mailbox, which a restart keeps. The forged cheque ends the account, so nobody is there for the last one.
        for cheque in ["10", "-50", "illegible", "twelve", "5", "forged", "1"]:
            try:
                print(f"{cheque}: balance {await ada.ask(Cash(cheque))}")
            except Exception as error:
                print(f"{cheque}: {type(error).__name__}: {error}")
            if cheque == "forged":
                await (await system.watch(ada)).wait()
        await system.wait_quiet()

        events = [event for event in system.events("/user/bank/ada") if event.what in ("failed", "restarted", "stopped")]
        print("ada:", ", ".join(event.what for event in events))
        print("the second restart was held back:", events[3].at - events[2].at > 0.1)


if __name__ == "__main__":
    rt.run(main)
