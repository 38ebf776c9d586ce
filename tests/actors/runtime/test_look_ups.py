"""What an actor can look up is what the current message's authority may address."""

from typing import Any

import retinue as rt


@rt.message
class Find(rt.Request[bool]):
    name: str


@rt.message
class Pay(rt.Request[int]):
    pass


@rt.message
class Look(rt.Request[int]):
    pass


class Bank(rt.Actor):
    @rt.handler(requires="payments.send")
    def pay(self, message: Pay) -> int:
        return 1


class Window(rt.Actor):
    @rt.handler
    def look(self, message: Look) -> int:
        return 1


class Finder(rt.Actor):
    child: Any = None

    @rt.handler
    async def find(self, message: Find) -> bool:
        if self.child is None:
            self.child = await self.ctx.spawn(Bank, name="child")
        return self.ctx.system.find(message.name) is not None


async def test_a_look_up_finds_what_the_messages_authority_may_address_and_nothing_else() -> None:
    async with rt.ActorSystem("views") as system:
        await system.spawn(Bank, name="bank")
        await system.spawn(Window, name="window")
        finder = await system.spawn(Finder, name="finder")
        clerk = system.authority.mint("clerk", ["payments.*"])
        guest = system.authority.mint("guest", [])
        found = {
            (context.subject, name): await finder.ask(Find(name), context=context)
            for context in (clerk, guest)
            for name in ("/user/bank", "/user/window", "/user/finder", "/user/finder/child", "/user/nobody")
        }
    assert [name for (subject, name), seen in found.items() if subject == "clerk" and seen] == [
        "/user/bank",
        "/user/window",
        "/user/finder",
        "/user/finder/child",
    ]
    assert [name for (subject, name), seen in found.items() if subject == "guest" and seen] == [
        "/user/window",
        "/user/finder",
        "/user/finder/child",
    ]


async def test_a_grant_bounds_what_can_be_looked_up_whoever_asks() -> None:
    async with rt.ActorSystem("views") as system:
        await system.spawn(Bank, name="bank")
        finder = await system.spawn(Finder, grant=["actors.*"])
        assert await finder.ask(Find("/user/bank")) is False
