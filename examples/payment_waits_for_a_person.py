"""A payment waits for a person: asked in one process, approved in another, made in a third, and never twice.

Shows: `approval=True`; the request as a row in a file, which outlives the process that asked; `retinue approvals`, with which a person
decides in a terminal of their own; the token, which is for this one payment, once; `self.ctx.approval`, whose `jti` is the payment's
idempotency key.
Run:   python examples/payment_waits_for_a_person.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import retinue as rt
from retinue.sync import ActorSystem


@rt.message(name="examples/Pay@1")
class Pay(rt.Request[str]):
    """Pay somebody."""

    to: str
    cents: int


class Bank(rt.Actor, blocking=True):
    """Writes its payments into a file, one a line."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @rt.handler(requires="payments.send", approval=True, risk="L3")
    def pay(self, message: Pay) -> str:
        assert self.ctx.approval is not None  # else the gate had not let it pass
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{self.ctx.approval.jti} {message.cents} {message.to}\n")
        return f"{message.cents} cents to {message.to}, approved by {self.ctx.approval.approver}"


def ask(folder: Path, cents: int, token: str | None) -> None:
    """What the first and the third process do: start the bank, and ask it for a payment as alice."""
    with ActorSystem("bank", data_dir=folder / "data") as system:
        bank = system.spawn(Bank, folder / "payments.txt", name="bank")
        alice = system.authority.mint("alice", ["payments.send"])
        try:
            print(bank.ask(Pay("ACME", cents), context=alice, approvals=[token] if token else []))
        except rt.ApprovalRequired as required:
            print(required.request.id)
        except rt.Denied as denied:
            print(f"refused: {denied.reason}")


def process(*command: object) -> str:
    """Run another Python process to its end, and return what it printed."""
    done = subprocess.run([sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True)
    return done.stdout.strip()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bank = (__file__, "ask", folder)
        approvals = ("-m", "retinue", "approvals")
        data = ("--data-dir", folder / "data")

        request = process(*bank, 4_000)
        print("the bank's process has ended; what it asked waits:", request)

        print(process(*approvals, "show", request, *data))
        token = process(*approvals, "approve", request, "--reviewer", "bob", *data)
        print("bob has approved it, in a process of his own")

        print("with the token, other cents:", "waits" if process(*bank, 4_001, token).startswith("apr_") else "paid")
        print("with the token, as asked:", process(*bank, 4_000, token))
        print("with the token, once more:", process(*bank, 4_000, token))
        print("payments made:", len((folder / "payments.txt").read_text(encoding="utf-8").splitlines()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["ask"]:
        ask(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else None)
    else:
        main()
