"""The event ring: what it tells of messages and actors, that it is bounded, and off by default."""

from __future__ import annotations

import threading

import pytest

import retinue as rt


@rt.message
class Ask(rt.Request[int]):
    text: str = "1"


@rt.message
class Hand(rt.Request[int]):
    text: str = "1"


class Reader(rt.Actor):
    @rt.handler
    def read(self, message: Ask) -> int:
        return int(message.text)


class Clerk(rt.Actor):
    def __init__(self, reader: rt.Ref[Reader]) -> None:
        self.reader = reader

    @rt.handler
    def hand_over(self, message: Hand) -> None:
        self.ctx.forward(self.reader, Ask(message.text))


def told(system: rt.ActorSystem, path: str) -> list[tuple[str, str]]:
    return [(event.what, event.detail) for event in system.events(path)]


async def test_a_message_is_seen_coming_and_handled_whether_told_or_asked() -> None:
    async with rt.ActorSystem(events=50) as system:
        reader = await system.spawn(Reader, name="reader")
        await reader.ask(Ask())
        reader.tell(Ask())
        await system.wait_quiet()
        assert told(system, "/user/reader") == [("sent", "Ask"), ("handled", "Ask")] * 2


async def test_a_forwarded_request_is_seen_at_both_actors() -> None:
    async with rt.ActorSystem(events=50) as system:
        reader = await system.spawn(Reader, name="reader")
        clerk = await system.spawn(Clerk, reader, name="clerk")
        assert await clerk.ask(Hand()) == 1
        assert told(system, "/user/clerk") == [("sent", "Hand"), ("handled", "Hand")]
        assert told(system, "/user/reader") == [("sent", "Ask"), ("handled", "Ask")]


async def test_failures_restarts_dead_letters_and_the_end_are_seen() -> None:
    async with rt.ActorSystem(events=50) as system:
        reader = await system.spawn(Reader, name="reader")
        with pytest.raises(ValueError, match="invalid literal"):
            await reader.ask(Ask("x"))
        reader.tell(Ask("x"))
        await system.wait_quiet()
        await reader.stop()
        reader.tell(Ask())
        assert [entry for entry in told(system, "/user/reader") if entry != ("sent", "Ask")] == [
            ("handled", "Ask: ValueError"),
            ("failed", "ValueError: restart"),
            ("restarted", ""),
            ("dead_letter", "Ask: poison"),
            ("failed", "ValueError: restart"),
            ("stopped", "stopped"),
            ("dead_letter", "Ask: stopped"),
        ]


async def test_content_never_gets_into_the_ring() -> None:
    async with rt.ActorSystem(events=50) as system:
        reader = await system.spawn(Reader)
        reader.tell(Ask("a secret"))
        await system.wait_quiet()
        assert system.events()
        assert "secret" not in repr(system.events())


async def test_the_ring_keeps_the_last_events_of_the_path_in_order() -> None:
    async with rt.ActorSystem(events=4) as system:
        reader = await system.spawn(Reader, name="reader")
        other = await system.spawn(Reader, name="other")
        for _ in range(10):
            await reader.ask(Ask())
        await other.ask(Ask())
        assert [event.path for event in system.events()] == ["/user/reader"] * 2 + ["/user/other"] * 2
        assert len(system.events("/user/other")) == 2
        times = [event.at for event in system.events()]
        assert times == sorted(times)


async def test_without_a_size_there_are_no_events() -> None:
    async with rt.ActorSystem() as system:
        await (await system.spawn(Reader)).ask(Ask())
        assert system.events() == []


async def test_a_refusal_in_a_foreign_thread_does_not_disturb_the_ring() -> None:
    async with rt.ActorSystem(events=10) as system:
        reader = await system.spawn(Reader)
    receipts: list[rt.Receipt] = []
    context = system.authority.mint("ada", ["**"])
    thread = threading.Thread(target=lambda: receipts.append(reader.tell(Ask(), context=context)))
    thread.start()
    thread.join()
    assert [receipt.accepted for receipt in receipts] == [False]
