"""What errors say is true: the cause of an end, and what an actor takes."""

from __future__ import annotations

import pytest

import retinue as rt


@rt.message
class Greet(rt.Request[str]):
    name: str


@rt.message
class GreetLoudly(Greet):
    pass


@rt.message
class Mutter(rt.Message):
    pass


class Greeter(rt.Actor):
    @rt.handler
    def greet(self, message: Greet) -> str:
        if not message.name:
            raise ValueError("nobody to greet")
        return f"Hello, {message.name}"


async def test_a_failure_that_was_survived_is_not_told_as_the_cause_of_the_end() -> None:
    async with rt.ActorSystem() as system:
        greeter = await system.spawn(Greeter)
        with pytest.raises(ValueError, match="nobody to greet"):
            await greeter.ask(Greet(""))
        assert await greeter.ask(Greet("Ada")) == "Hello, Ada"
        await greeter.stop()
        with pytest.raises(rt.ActorStopped) as caught:
            await greeter.ask(Greet("Ada"))
    assert caught.value.__cause__ is None
    assert "failed" not in str(caught.value)


async def test_the_failure_that_ended_the_actor_is_told_and_chained() -> None:
    async with rt.ActorSystem() as system:
        greeter = await system.spawn(Greeter, supervision=rt.Supervision(restart="temporary"))
        with pytest.raises(ValueError, match="nobody to greet") as failure:
            await greeter.ask(Greet(""))
        with pytest.raises(rt.ActorStopped, match="it failed with ValueError: nobody to greet") as caught:
            await greeter.ask(Greet("Ada"))
    assert caught.value.__cause__ is failure.value


async def test_what_an_actor_takes_is_listed_once_though_a_subclass_was_sent() -> None:
    async with rt.ActorSystem() as system:
        greeter = await system.spawn(Greeter)
        assert await greeter.ask(GreetLoudly("Ada")) == "Hello, Ada"
        with pytest.raises(rt.Unhandled, match=r"it takes Greet$"):
            greeter.tell(Mutter())
