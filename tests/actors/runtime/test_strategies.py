"""Contract point 6: which siblings are restarted together with the one that failed."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Break, Double, Hold, Note, Notes, Plain
from core_hosts import Host, conserved
from core_latch import Latch


class Child(Plain):
    def __init__(self, word: str, log: list[Any], latch: Latch | None = None) -> None:
        super().__init__(log, latch)
        self.word = word

    def on_start(self) -> None:
        self.log.append(f"{self.word} starts")

    def on_stop(self, reason: str) -> None:
        self.log.append(f"{self.word} stops: {reason}")

    @rt.handler
    async def hold(self, message: Hold) -> int:
        assert self.latch is not None
        await self.latch.wait()
        self.log.append(f"{self.word} was held")
        return message.number


@rt.message
class Family(rt.Request[list[rt.Ref]]):  # type: ignore[type-arg]
    pass


class Parent(Plain):
    def __init__(self, log: list[Any], latch: Latch | None, supervisions: dict[str, rt.Supervision]) -> None:
        super().__init__(log, latch)
        self.supervisions = supervisions

    async def on_start(self) -> None:
        for word, supervision in self.supervisions.items():
            await self.ctx.spawn(Child, word, self.log, self.latch, name=word, supervision=supervision)

    @rt.handler
    def family(self, _: Family) -> list[rt.Ref]:  # type: ignore[type-arg]
        return list(self.ctx.children)


async def family(
    system: rt.ActorSystem, log: list[Any], strategy: Any, *, latch: Latch | None = None, **others: rt.Supervision
) -> tuple[rt.Ref[Parent], list[rt.Ref[Child]]]:
    """A parent and its children a, b and c."""
    supervision = rt.Supervision(strategy=strategy, intensity=(3, 60), backoff=(0, 0))
    supervisions = {word: others.get(word, supervision) for word in "abc"}
    parent = await system.spawn(Parent, log, latch, supervisions, name="parent")
    children = await parent.ask(Family())
    log.clear()
    return parent, children


@pytest.mark.parametrize(("strategy", "restarted"), [("one_for_one", "b"), ("one_for_all", "abc"), ("rest_for_one", "bc")])
async def test_the_strategy_decides_who_is_restarted_with_it(loop_host: Host, strategy: Any, restarted: str) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        parent, children = await family(system, log, strategy)
        for child in children:
            await child.ask(Note(1))
        log.clear()
        children[1].tell(Break())
        await system.wait_quiet()
        assert sorted(log) == sorted([f"{word} stops: restart" for word in restarted] + [f"{word} starts" for word in restarted])
        assert [await child.ask(Notes()) for child in children] == [[] if word in restarted else [1] for word in "abc"]
        assert await parent.ask(Family()) == children
        assert conserved(system)


async def test_siblings_finish_their_message_in_progress_first(loop_host: Host) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        log: list[Any] = []
        _, children = await family(system, log, "one_for_all", latch=latch)
        children[0].tell(Hold(1))
        await latch.until(entered=1)
        children[1].tell(Break())
        await trio.testing.wait_all_tasks_blocked()
        assert "a stops: restart" not in log
        latch.open()
        await system.wait_quiet()
        assert log.index("a was held") < log.index("a stops: restart") < log.index("a starts")
        assert latch.cancelled == 0


async def test_a_sibling_that_is_stopped_before_its_restart_does_not_start_again(loop_host: Host) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        log: list[Any] = []
        _, children = await family(system, log, "one_for_all", latch=latch)
        children[0].tell(Hold(1))
        await latch.until(entered=1)
        children[1].tell(Break())
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(children[0].stop)
            await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert "a starts" not in log
        assert log[-1] == "a stops: stopped"


async def test_siblings_keep_their_mail(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        _, children = await family(system, log, "one_for_all")
        children[1].tell(Break())
        children[0].tell(Note(7))
        await system.wait_quiet()
        children[0].tell(Note(8))
        assert (await children[0].ask(Notes()))[-1] == 8
        assert conserved(system)


async def test_the_restart_of_a_sibling_is_not_charged_to_it(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        _, children = await family(system, log, "one_for_all")
        for _ in range(3):
            children[1].tell(Break())
            await system.wait_quiet()
        counts = {actor.path: (actor.failures, actor.restarts) for actor in system.actors()}
        assert counts["/user/parent/a"] == (0, 3)
        assert counts["/user/parent/b"] == (3, 3)
        assert all(child.alive for child in children)


async def test_a_temporary_sibling_is_stopped_and_not_restarted(loop_host: Host) -> None:
    """As in Erlang: a temporary actor is never restarted, not even with the others."""
    async with loop_host.system() as system:
        log: list[Any] = []
        _, children = await family(system, log, "one_for_all", c=rt.Supervision(restart="temporary"))
        children[0].tell(Break())
        await system.wait_quiet()
        assert [child.alive for child in children] == [True, True, False]
        assert "c starts" not in log
        assert conserved(system)


async def test_siblings_wait_as_long_as_the_one_that_failed(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        slow = rt.Supervision(strategy="one_for_all", backoff=(10, 10), intensity=(100, 60))
        _, children = await family(system, log, "one_for_all", b=slow)
        children[1].tell(Break())
        await trio.sleep(1)
        children[1].tell(Break())
        await trio.sleep(1)
        states = {actor.path[-1]: actor.state for actor in system.actors()}
        assert [states[word] for word in "abc"] == ["waiting to restart"] * 3
        await trio.sleep(12)
        assert [await child.ask(Double(1)) for child in children] == [2, 2, 2]


async def test_a_failure_that_stops_the_actor_leaves_its_siblings_alone(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        stops = rt.Supervision(strategy="one_for_all", restart="temporary")
        _, children = await family(system, log, "one_for_all", b=stops)
        children[1].tell(Break())
        await system.wait_quiet()
        assert log == ["b stops: failed"]
        assert [child.alive for child in children] == [True, False, True]


async def test_the_strategy_holds_right_under_user_too(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        supervision = rt.Supervision(strategy="rest_for_one")
        first, second, third = [await system.spawn(Child, word, log, supervision=supervision) for word in "abc"]
        log.clear()
        second.tell(Break())
        await system.wait_quiet()
        assert sorted(log) == ["b starts", "b stops: restart", "c starts", "c stops: restart"]
        assert first.alive and third.alive
