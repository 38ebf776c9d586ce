"""Checked by mypy and pyright, never run: both must report an error on exactly the lines that end in `# error`."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, assert_type

import attrs

import retinue as rt

T = TypeVar("T")


@rt.message
class Deposit(rt.Request[int]):
    amount: int
    note: str = ""


@rt.message(name="bank/Close@1", timeout=5)
class Close(rt.Message):
    pass


@rt.message()
class Words(rt.Stream[str]):
    tags: list[str] = attrs.field(factory=list)
    limit: int = attrs.field(default=1, kw_only=True)


@rt.message
class Get(rt.Request[T], Generic[T]):
    default: T


@rt.message
class GetWord(Get[str]):
    other: int = 0


@rt.message
class Nothing(rt.Request[None]):
    pass


class Account(rt.Actor):
    @rt.handler
    def deposit(self, message: Deposit) -> int:
        return message.amount

    @rt.handler(raises=ValueError)
    async def close(self, message: Close) -> None:
        assert_type(message, Close)


async def replies(ref: rt.Ref[Account]) -> None:
    assert_type(await ref.ask(Deposit(5)), int)
    assert_type(await ref.ask(Deposit(5), timeout=2.5), int)
    assert_type(await ref.ask(GetWord("x")), str)
    assert_type(await ref.ask(Get(5)), int)
    assert_type(await ref.ask(Get([5])), list[int])
    assert_type(await ref.ask(Nothing()), None)
    assert_type(ref.tell(Close()), rt.Receipt)
    total: int = await ref.ask(Deposit(5))
    word: str = await ref.ask(Deposit(5))  # error
    print(total, word)


async def streams(ref: rt.Ref[Account]) -> None:
    async with ref.stream(Words(["a"], limit=2)) as words:
        async for word in words:
            assert_type(word, str)


async def spawned(system: rt.ActorSystem) -> None:
    ref = await system.spawn(Account, name="ada")
    assert_type(ref, rt.Ref[Account])
    await system.spawn(Deposit)  # error


def permissions(system: rt.ActorSystem) -> None:
    kept: list[rt.Permission] = ["fs.read", rt.where("fs.read", path=rt.within("reports/"))]
    kept.append(rt.deny("fs.delete"))
    kept.append(5)  # error
    system.authority.mint("ada", kept).narrow(kept)


def messages() -> None:
    deposit = Deposit(5, note="x")
    assert_type(deposit.amount, int)
    assert_type(Words().tags, list[str])
    assert_type(GetWord("a", 2).default, str)
    Deposit("5")  # error
    Deposit()  # error
    Deposit(5, "x", 3)  # error
    Deposit(5, notes="x")  # error
    GetWord(5)  # error
    Words([], 2)  # error
    deposit.amount = 6  # error


async def senders(ref: rt.Ref[Account]) -> None:
    ref.tell(5)  # error
    ref.tell(Deposit)  # error
    await ref.ask("Deposit")  # error
    await ref.ask(Deposit(5), timeout="5")  # error
    ref.stream(Deposit(5))  # error


def wide(value: Any) -> rt.Request[object]:
    return GetWord(str(value))  # the answer of a request may be wider than asked for
