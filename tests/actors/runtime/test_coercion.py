"""What an actor makes of what is no message of its own: `Actor.coerce`."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

import retinue as rt
from retinue.testing import BehaviorTest, StandIn
from talking_actors import Front, Heard, Say, Spell, Talker, letters


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("texts", block_warning=math.inf, **options)


async def test_a_text_is_asked_told_sent_and_streamed(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        talker = await system.spawn(Talker, name="talker")
        assert await talker.ask("hi") == "HI"
        assert talker.tell("told")
        assert await talker.send("sent")
        assert await letters(talker, "ab") == ["a", "b"]
        assert await talker.ask(Heard()) == ("hi", "told", "sent", "a", "b", "end")


async def test_what_is_asked_and_streamed_is_one_message() -> None:
    async with make() as system:
        talker = await system.spawn(Talker, name="talker")
        assert await talker.ask(Say("ab")) == "AB"
        assert await letters(talker, Say("ab")) == ["a", "b"]


async def test_messages_go_by_the_table_alone() -> None:
    asked: list[Any] = []

    class Curious(Talker):
        @classmethod
        def coerce(cls, message: object, *, streamed: bool) -> rt.Message | None:
            asked.append((message, streamed))
            return super().coerce(message, streamed=streamed)

    @rt.message
    class Shout(Say):
        pass

    async with make() as system:
        talker = await system.spawn(Curious, name="talker")
        await talker.ask(Say("a"))
        await talker.ask(Shout("b"))
        talker.tell(Say("c"))
        await letters(talker, Spell("d"))
        assert asked == []
        await talker.ask("e")
        await letters(talker, Shout("f"))
        assert asked == [("e", False), (Shout("f"), True)]


async def test_what_the_hook_does_not_know_is_refused_as_ever() -> None:
    async with make() as system:
        talker = await system.spawn(Talker, name="talker")
        for wrong in (5, None, Say):
            with pytest.raises(rt.Unhandled):
                await talker.ask(wrong)  # type: ignore[call-overload]
            with pytest.raises(rt.Unhandled):
                talker.tell(wrong)  # type: ignore[call-overload]
            assert await letters(talker, wrong) == ["Unhandled"]
        with pytest.raises(rt.Unhandled, match="answered by a stream"):
            await talker.ask(Spell("x"))
        assert await letters(talker, Heard()) == ["Unhandled"]
        plain = await system.spawn(Plain, name="plain")
        with pytest.raises(rt.Unhandled, match="which is no message"):
            await plain.ask("hi")  # type: ignore[call-overload]


class Plain(rt.Actor):
    @rt.handler
    def heard(self, _: Heard) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (5, "it is int, and no message"),
        (Heard, "it is type, and no message"),
        (Spell("x"), "Spell is answered by a stream"),
        (Say("x"), "has no handler for Say"),
    ],
)
async def test_a_hook_that_makes_what_cannot_be_taken_is_told_so(made: Any, text: str) -> None:
    class Wrong(rt.Actor):
        @classmethod
        def coerce(cls, message: object, *, streamed: bool) -> Any:
            return made

        @rt.handler(forwards=True)
        def spell(self, message: Spell) -> None:
            """Nothing."""

    async with make() as system:
        wrong = await system.spawn(Wrong, name="wrong")
        for send in (wrong.ask, wrong.send):
            with pytest.raises(
                rt.DefinitionError, match=f"Wrong.coerce\\(str, streamed=False\\) gave what /user/wrong cannot take.*{text}"
            ):
                await send("hi")  # type: ignore[operator]


async def test_what_the_hook_raises_is_the_senders() -> None:
    class Picky(Talker):
        @classmethod
        def coerce(cls, message: object, *, streamed: bool) -> rt.Message | None:
            raise rt.Unhandled("no texts, please")

    async with make() as system:
        picky = await system.spawn(Picky, name="picky")
        with pytest.raises(rt.Unhandled, match="no texts, please"):
            await picky.ask("hi")
        assert system.statistics().sent == 0


async def test_the_hook_has_no_authority_of_the_senders() -> None:
    tried: list[type[BaseException]] = []

    class Sly(Talker):
        other: rt.Ref[Any]

        @classmethod
        def coerce(cls, message: object, *, streamed: bool) -> rt.Message | None:
            try:
                cls.other.tell(Say("in your name"))
            except rt.AuthorityError as error:
                tried.append(type(error))
            return super().coerce(message, streamed=streamed)

    async with make() as system:
        Sly.other = other = await system.spawn(Talker, name="other")
        sly = await system.spawn(Sly, name="sly")
        assert await sly.ask("hi") == "HI"
        assert tried == [rt.NoContext]
        assert await other.ask(Heard()) == ()


async def test_a_virtual_actor_a_pool_and_a_group_take_texts() -> None:
    async with make() as system:
        region = await system.spawn_virtual(Talker, name="talkers")
        assert await region["ada"].ask("hi") == "HI"
        assert await letters(region["bob"], Say("ab")) == ["a", "b"]
        for pool in (rt.Pool.round_robin(2), rt.Pool.least_loaded(2), rt.Pool.work_pulling(2)):
            ref = await system.spawn_pool(Talker, pool=pool, name=pool.kind)
            assert await ref.ask("hi") == "HI"
            assert await letters(ref, Say("ab")) == ["a", "b"]
        members = [await system.spawn(Talker) for _ in range(2)]
        group = await system.spawn_group(members, pool=rt.Pool.round_robin())
        assert await group.ask("hi") == "HI"
        assert await letters(group, "ab") == ["a", "b"]


async def test_texts_are_told_from_a_foreign_thread() -> None:
    async with make() as system:
        talker = await system.spawn(Talker, name="talker")
        context = system.authority.root
        thread = threading.Thread(target=lambda: talker.tell("hi", context=context))
        thread.start()
        thread.join()
        await system.wait_quiet()
        assert await talker.ask(Heard()) == ("hi",)


async def test_the_thread_of_a_blocking_actor_asks_with_a_text() -> None:
    @rt.message
    class Go(rt.Request[str]):
        pass

    class Slow(rt.Actor, blocking=True):
        def __init__(self, to: rt.Ref[Talker]) -> None:
            self.to = to

        @rt.handler
        def go(self, _: Go) -> str:
            return self.ctx.ask(self.to, "hi")

    async with make() as system:
        slow = await system.spawn(Slow, await system.spawn(Talker))
        assert await slow.ask(Go()) == "HI"


async def test_a_hook_that_is_no_classmethod_is_refused() -> None:
    with pytest.raises(rt.DefinitionError, match="coerce is a hook of the runtime"):

        class Wrong(rt.Actor):
            def coerce(self, message: object, *, streamed: bool) -> None:  # type: ignore[override]
                """Nothing."""


def test_a_played_actor_and_its_stand_ins_take_texts() -> None:
    test: Any = BehaviorTest(Talker)
    assert test.ask("hi") == "HI"
    assert test.stream(Say("")) == []
    front: Any = BehaviorTest(Front, StandIn("to", Talker))
    front.request("hi")
    assert [effect.message for effect in front.effects] == [Say("hi")]
    assert front.stream("abc") == []
    assert [effect.message for effect in front.effects] == [Spell("abc")]
