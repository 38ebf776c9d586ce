"""A script hands a part of its authority to another script, as a token; the other one can do that much, and no more.

Shows: `retinue serve`; minting and sealing a token with the data folder's key; `rt.attenuate`, which narrows it without a key; a client
in another process with `retinue.sync.connect`; what comes back where the token does not suffice; `retinue token revoke`.
Run:   python examples/hand_over_a_token.py
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import retinue as rt
from retinue.sync import ActorSystem, connect


@rt.message(name="examples/Price@1")
class Price(rt.Request[int]):
    """Ask what something costs, in cents."""

    item: str


@rt.message(name="examples/Buy@1")
class Buy(rt.Request[str]):
    """Buy something."""

    item: str
    count: int


class Shop(rt.Actor):
    """Sells tea."""

    @rt.handler(requires="shop.read")
    def price(self, message: Price) -> int:
        return {"tea": 300}[message.item]

    @rt.handler(requires="shop.buy")
    def buy(self, message: Buy) -> str:
        return f"{message.count} of {message.item} for {self.ctx.security.subject}"


async def shop(system: rt.ActorSystem) -> None:
    """What `retinue serve` calls."""
    await system.spawn(Shop, name="shop")


@contextmanager
def served(data: Path) -> Iterator[str]:
    """Serve the shop in a process of its own, and say where."""
    command = [sys.executable, "-m", "retinue", "serve", f"{Path(__file__).stem}:shop", "--port", "0", "--data-dir", str(data)]
    server = subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    assert server.stdout is not None
    try:
        yield next(line.split()[-1] for line in server.stdout if line.startswith("listening on http://"))
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


def mint(keys: Path) -> str:
    """Seal a token for ada. This takes the key of the data folder, and nothing of the running system."""
    with ActorSystem("mint") as system:
        ada = system.authority.mint("ada", ["shop.*"])
        return system.sealer(keys).seal(ada, expires_seconds=600)


def helper(url: str, token: str) -> None:
    """What the other script does with what it was handed."""

    def attempt(what: str, action: Callable[[], object]) -> None:
        try:
            print(f"  {what}: {action()}")
        except rt.Denied as error:
            print(f"  {what}: refused ({error.reason})")
        except rt.TokenError as error:
            print(f"  {what}: the token is refused ({error.reason})")

    with connect(url, token=token) as client:
        ref = client.ref("/user/shop")
        attempt("the price of tea", lambda: ref.ask(Price("tea")))
        attempt("buying 2", lambda: ref.ask(Buy("tea", 2)))
        attempt("buying 200", lambda: ref.ask(Buy("tea", 200)))
    with connect(url, token=rt.attenuate(token, rt.allow("**"))) as client:  # "may do everything": only what it may already
        attempt("buying 200, after widening", lambda: client.ref("/user/shop").ask(Buy("tea", 200)))


def hand_over(url: str, token: str) -> None:
    """Start the other script. The token goes through its standard input: a command line can be read by everybody on the machine."""
    subprocess.run([sys.executable, __file__, "helper", url], input=token, text=True, encoding="utf-8", check=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as url:
        token = mint(Path(folder) / "tokens.key")
        lent = rt.attenuate(token, rt.where("shop.buy", count=rt.at_most(5)), rt.expires(seconds=60))
        print("the helper, with what ada lends it:", flush=True)
        hand_over(url, lent)

        revoke = [sys.executable, "-m", "retinue", "token", "revoke", "-", "--data-dir", folder]
        subprocess.run(revoke, input=token, text=True, encoding="utf-8", check=True, stdout=subprocess.DEVNULL)
        print("after ada has revoked her token:", flush=True)
        hand_over(url, lent)


if __name__ == "__main__":
    if sys.argv[1:2] == ["helper"]:
        helper(sys.argv[2], sys.stdin.read())
    else:
        main()
