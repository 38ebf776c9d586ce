"""Streams: items through a window of credit, always with a terminal event."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from core_puppet import Call, Do, Pour, Puppet, nothing, state_of


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("streams", block_warning=math.inf, **options)


def numbers(count: int) -> Any:
    async def script(actor: Puppet) -> AsyncIterator[int]:
        for number in range(count):
            actor.log.append(f"made {number}")
            yield number

    return script


async def endless(actor: Puppet) -> AsyncIterator[int]:
    number = 0
    try:
        while True:
            yield number
            number += 1
            await trio.sleep(1)
    finally:
        actor.log.append("closed")


async def read(ref: rt.Ref[Any], message: rt.Stream[Any], **options: Any) -> list[Any]:
    """All items, and as the last one the name of the error if the stream ended with one."""
    found: list[Any] = []
    try:
        async with ref.stream(message, **options) as items:
            async for item in items:
                found.append(item)
    except Exception as error:
        found.append(type(error).__name__)
    return found


@rt.message
class Count(rt.Stream[int]):
    upto: int


class Counter(rt.Actor):
    @rt.handler
    async def count(self, message: Count) -> AsyncIterator[int]:
        for number in range(message.upto):
            yield number


class Declared(Exception):
    pass


class Picky(rt.Actor):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    @rt.handler(raises=Declared)
    async def count(self, message: Count) -> AsyncIterator[int]:
        yield 1
        raise self.error


@pytest.mark.parametrize("options", [{}, {"seed": 1}, {"loopback": True}], ids=["loop", "seeded", "loopback"])
async def test_the_items_come_in_order_and_then_the_end(options: dict[str, Any]) -> None:
    async with make(**options) as system:
        ref = await system.spawn(Counter)
        assert await read(ref, Count(100)) == list(range(100))
        assert await read(ref, Count(0)) == []
        assert conserved(system)


@pytest.mark.parametrize("window", [1, 2, 32])
async def test_the_producer_is_never_more_than_the_window_ahead(window: int, autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        made: list[int] = []

        async def script(_: Puppet) -> AsyncIterator[int]:
            for number in range(100):
                made.append(number)
                yield number

        taken = 0
        most = 0
        async with ref.stream(Pour(script), window=window) as items:
            async for _ in items:
                taken += 1
                await trio.sleep(0.1)  # the producer goes as far as it may
                most = max(most, len(made) - taken)
        assert taken == 100
        assert most == window


async def test_the_window_is_32_unless_somebody_says_otherwise(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        async with ref.stream(Pour(numbers(100))):
            await trio.sleep(1)
        assert len(await state_of(ref)) == 32


async def test_the_actor_is_busy_while_it_streams(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        async with ref.stream(Pour(endless)) as items:
            assert await anext(items) == 0
            with pytest.raises(rt.AskTimeout):
                await ref.ask(Call(nothing), timeout=0.5)


async def test_two_streams_of_one_actor_come_one_after_the_other() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        async with ref.stream(Pour(numbers(3)), window=8) as first, ref.stream(Pour(numbers(3)), window=8) as second:
            assert [item async for item in second] == [0, 1, 2]
            assert [item async for item in first] == [0, 1, 2]


# -- terminal events ------------------------------------------------------------------------------------------------------------------------------------


async def test_what_came_before_an_error_is_read_first(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Picky, ValueError("broken"))
        assert await read(ref, Count(1)) == [1, "ValueError"]
        assert [actor.failures for actor in system.actors()] == [1]
        assert conserved(system)


@pytest.mark.parametrize("error", [Declared("as declared"), rt.Reject("no")])
async def test_a_declared_error_ends_the_stream_and_is_no_failure(error: Exception) -> None:
    async with make() as system:
        ref = await system.spawn(Picky, error)
        assert await read(ref, Count(1)) == [1, type(error).__name__]
        assert [actor.failures for actor in system.actors()] == [0]


async def test_the_deadline_is_one_for_the_whole_stream(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        assert await read(ref, Pour(endless), timeout=2.5) == [0, 1, 2, "AskTimeout"]
        assert trio.current_time() == 2.5
        assert await state_of(ref) == ["closed"]
        assert conserved(system)


async def test_the_deadline_of_a_stream_is_30_seconds_like_that_of_an_ask(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        found = await read(ref, Pour(endless))
        assert found[-1] == "AskTimeout"
        assert trio.current_time() == 30


async def test_the_stop_of_the_actor_ends_its_stream(autojump_clock: MockClock) -> None:
    async with make() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Puppet)

        async def stop() -> None:
            await trio.sleep(1.5)
            await ref.stop(grace=0)

        nursery.start_soon(stop)
        assert await read(ref, Pour(endless)) == [0, 1, "ActorStopped"]
        assert conserved(system)


async def test_a_stream_that_waits_behind_other_mail_ends_with_its_actor(autojump_clock: MockClock) -> None:
    async with make() as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Puppet, mailbox=rt.Mailbox.bounded(1))

        async def for_ever(_: Any) -> None:
            await trio.sleep_forever()

        ref.tell(Do(for_ever))
        await trio.testing.wait_all_tasks_blocked()
        found: list[list[Any]] = []

        async def keep() -> None:
            found.append(await read(ref, Pour(endless)))

        nursery.start_soon(keep)
        nursery.start_soon(keep)  # this one waits for room
        await trio.sleep(1)
        await ref.stop(grace=0)
        await trio.sleep(1)
        assert found == [["ActorStopped"], ["ActorStopped"]]
        assert conserved(system)


async def test_a_stream_of_a_stopped_actor_fails_at_once() -> None:
    async with make() as system:
        ref = await system.spawn(Counter)
        await ref.stop()
        with pytest.raises(rt.ActorStopped):
            await ref.stream(Count(1)).__aenter__()
        assert conserved(system)


async def test_a_full_mailbox_is_waited_for_and_then_refused(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet, mailbox=rt.Mailbox.bounded(1))

        async def sleep_two(_: Any) -> None:
            await trio.sleep(2)

        for expected in (["MailboxFull"], [0, 1]):
            ref.tell(Do(sleep_two))
            await trio.testing.wait_all_tasks_blocked()
            ref.tell(Call(nothing))
            assert await read(ref, Pour(numbers(2)), timeout=1 if expected == ["MailboxFull"] else 3) == expected
            await system.wait_quiet()
        assert reasons(system) == {"mailbox_full": 1}
        assert conserved(system)


async def test_a_denied_stream_is_refused_as_its_only_event() -> None:
    class Keeper(rt.Actor):
        @rt.handler(requires="streams.read")
        async def count(self, message: Count) -> AsyncIterator[int]:
            yield 1

    async with make() as system:
        assert await read(await system.spawn(Keeper, grant=[]), Count(1)) == ["Denied"]
        assert await read(await system.spawn(Keeper), Count(1)) == [1]
        assert conserved(system)


# -- leaving ------------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 32])
async def test_leaving_the_block_early_cancels_the_handler(window: int, autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        async with ref.stream(Pour(endless), window=window) as items:
            async for item in items:
                if item == 2:
                    break
        assert await state_of(ref) == ["closed"]
        assert trio.current_time() == 2
        assert [actor.failures for actor in system.actors()] == [0]
        assert conserved(system)


async def test_leaving_the_block_before_the_first_item_withdraws_the_request(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)

        async def sleep_one(_: Any) -> None:
            await trio.sleep(1)

        ref.tell(Do(sleep_one))
        await trio.testing.wait_all_tasks_blocked()
        async with ref.stream(Pour(endless)):
            pass
        await system.wait_quiet()
        assert await state_of(ref) == []
        assert reasons(system) == {"withdrawn": 1}
        assert conserved(system)


async def test_an_error_in_the_block_leaves_it_unchanged(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        with pytest.raises(KeyError, match="mine"):
            async with ref.stream(Pour(endless)) as items:
                async for _ in items:
                    raise KeyError("mine")
        assert await state_of(ref) == ["closed"]


async def test_a_cancelled_reader_cancels_the_handler(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        with trio.move_on_after(1.5) as scope:
            await read(ref, Pour(endless))
        assert scope.cancelled_caught
        assert await state_of(ref) == ["closed"]
        assert conserved(system)


async def test_a_time_out_around_one_item_ends_the_stream_and_says_so(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        async with ref.stream(Pour(endless)) as items:
            assert await anext(items) == 0
            with trio.move_on_after(0.5):
                await anext(items)
            with pytest.raises(rt.StreamClosed, match="cannot be read on"):
                await anext(items)


async def test_a_clean_up_that_waits_is_finished_before_the_next_message(autojump_clock: MockClock) -> None:
    async def careful(actor: Puppet) -> AsyncIterator[int]:
        try:
            yield 1
            await trio.sleep(100)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
                actor.log.append("cleaned up")

    async with make() as system:
        ref = await system.spawn(Puppet)
        async with ref.stream(Pour(careful)) as items:
            assert await anext(items) == 1
        assert await state_of(ref) == ["cleaned up"]
        assert conserved(system)


async def test_the_end_can_be_read_again_and_again() -> None:
    async with make() as system:
        ref = await system.spawn(Counter)
        async with ref.stream(Count(1)) as items:
            assert await anext(items) == 0
            for _ in range(3):
                with pytest.raises(StopAsyncIteration):
                    await anext(items)


async def test_a_stream_is_read_inside_its_block_only() -> None:
    async with make() as system:
        ref = await system.spawn(Counter)
        reader = ref.stream(Count(1))
        with pytest.raises(rt.StreamClosed, match="async with"):
            await anext(reader)
        async with reader as items:
            pass
        with pytest.raises(rt.StreamClosed, match="async with"):
            await anext(items)


async def test_two_tasks_cannot_read_one_stream_at_the_same_time(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        async with ref.stream(Pour(endless)) as items:
            assert await anext(items) == 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(anext, items)
                await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(rt.DefinitionError, match="another task"):
                    await anext(items)
            assert await anext(items) == 2


async def test_a_reader_is_entered_once_at_a_time(autojump_clock: MockClock) -> None:
    async with make() as system:
        reader = (await system.spawn(Counter)).stream(Count(2))
        async with reader as items:
            with pytest.raises(rt.DefinitionError, match="stream"):
                await reader.__aenter__()
            assert [item async for item in items] == [0, 1]
        async with reader as items:  # asks again
            assert [item async for item in items] == [0, 1]
        assert conserved(system)


# -- what is wrong at once --------------------------------------------------------------------------------------------------------------------------------


async def test_a_stream_is_neither_asked_nor_told_nor_sent() -> None:
    async with make() as system:
        ref = await system.spawn(Counter)
        with pytest.raises(rt.Unhandled, match=r"ref\.stream"):
            await ref.ask(Count(1))  # type: ignore[call-overload]
        with pytest.raises(rt.Unhandled, match=r"ref\.stream"):
            ref.tell(Count(1))
        with pytest.raises(rt.Unhandled, match=r"ref\.stream"):
            await ref.send(Count(1))
        assert system.statistics().sent == 0


async def test_a_request_is_not_streamed() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        with pytest.raises(rt.Unhandled, match="ask"):
            await ref.stream(Call(nothing)).__aenter__()  # type: ignore[arg-type]
        assert system.statistics().sent == 0


@pytest.mark.parametrize(
    "wrong", [{"window": 0}, {"window": -1}, {"window": 1.5}, {"window": True}, {"timeout": -1}, {"timeout": math.nan}]
)
async def test_a_wrong_option_is_told_at_once(wrong: dict[str, Any]) -> None:
    async with make() as system:
        ref = await system.spawn(Counter)
        with pytest.raises(rt.DefinitionError):
            ref.stream(Count(1), **wrong)


# -- inside actors ------------------------------------------------------------------------------------------------------------------------------------------


async def test_an_actor_reads_another_ones_stream(autojump_clock: MockClock) -> None:
    async with make() as system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)

        async def total(_: Puppet) -> int:
            async with back.stream(Pour(numbers(10)), window=2) as items:
                return sum([item async for item in items])

        assert await front.ask(Do(total)) == 45
        assert conserved(system)


async def test_a_stream_ends_with_the_deadline_of_the_reader_who_is_asked(autojump_clock: MockClock) -> None:
    async with make() as system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)

        async def total(_: Puppet) -> list[Any]:
            return await read(back, Pour(endless), timeout=100)

        with pytest.raises(rt.AskTimeout):
            await front.ask(Do(total), timeout=1.5)
        assert trio.current_time() == 1.5
        assert await state_of(back) == ["closed"]
        assert conserved(system)


async def test_an_error_of_a_stream_that_a_reader_lets_through_is_charged_to_the_producer_alone(autojump_clock: MockClock) -> None:
    async with make() as system:
        front, back = await system.spawn(Puppet, name="front"), await system.spawn(Picky, ValueError("broken"), name="back")

        async def let_through(_: Puppet) -> list[int]:
            async with back.stream(Count(1)) as items:
                return [item async for item in items]

        with pytest.raises(ValueError, match="broken"):
            await front.ask(Do(let_through))
        assert {actor.path: actor.failures for actor in system.actors()} == {"/user/front": 0, "/user/back": 1}


async def test_a_stream_cannot_be_deferred_forwarded_or_stashed() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        for deed in (
            lambda actor: actor.ctx.defer(),
            lambda actor: actor.ctx.forward(ref, Call(nothing)),
            lambda actor: actor.ctx.stash(),
        ):

            async def script(actor: Puppet, deed: Any = deed) -> AsyncIterator[str]:
                try:
                    deed(actor)
                except rt.DefinitionError as error:
                    yield str(error)

            (text,) = await read(ref, Pour(script))
            assert "stream" in text
