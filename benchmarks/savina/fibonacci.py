"""Fibonacci: an actor a call, which makes two more and adds up what they answer."""

from typing import Any

import attrs
import pykka
import trio

import retinue as rt
from benchmarks.harness import Timer
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["FIBONACCI", "Number"]


@attrs.frozen
class Number:
    """N."""

    number: int


def fibonacci(number: int) -> int:
    """1, 1, 2, 3, 5…"""
    one, other = 1, 1
    for _ in range(number - 2):
        one, other = other, one + other
    return other


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Compute(rt.Message):
    number: int


@rt.message
class Computed(rt.Message):
    value: int


class Call(rt.Actor):
    def __init__(self, caller: rt.Ref[Any] | Answer) -> None:
        self.caller = caller
        self.value = 0
        self.left = 2

    @rt.handler(requires="savina.compute")
    async def compute(self, message: Compute) -> None:
        if message.number <= 2:
            self.reply(1)
            return
        for less in (1, 2):
            ref = await self.ctx.spawn(Call, self.ctx.ref)
            ref.tell(Compute(message.number - less))

    @rt.handler(requires="savina.compute")
    def computed(self, message: Computed) -> None:
        self.value += message.value
        self.left -= 1
        if not self.left:
            self.reply(self.value)

    def reply(self, value: int) -> None:
        if isinstance(self.caller, Answer):
            self.caller.set(value)
        else:
            self.caller.tell(Computed(value))
        self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Number) -> Outcome:
    answer = Answer()
    with Timer() as timer:
        ref = await system.spawn(Call, answer)
        ref.tell(Compute(size.number))
        value = await answer.get()
        await (await system.watch(ref)).wait()
    return timer, value


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


class PykkaCall(pykka.ThreadingActor):
    def __init__(self, caller: Any) -> None:
        super().__init__()
        self.caller = caller
        self.value = 0
        self.left = 2

    def on_receive(self, message: object) -> None:
        if isinstance(message, Compute):
            if message.number <= 2:
                self.reply(1)
                return
            for less in (1, 2):
                ref = PykkaCall.start(self.actor_ref)
                ref.tell(Compute(message.number - less))
        elif isinstance(message, Computed):
            self.value += message.value
            self.left -= 1
            if not self.left:
                self.reply(self.value)

    def reply(self, value: int) -> None:
        if isinstance(self.caller, pykka.Future):
            self.caller.set(value)
        else:
            self.caller.tell(Computed(value))
        self.stop()


@in_pykka
def with_pykka(failures: Failures, size: Number) -> Outcome:
    answer: pykka.Future[int] = pykka.ThreadingFuture()
    with Timer() as timer:
        ref = PykkaCall.start(answer)
        ref.tell(Compute(size.number))
        value = failures.result_of(answer)
        failures.ended([ref])
    return timer, value


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


async def serve_call(nursery: trio.Nursery, this: Channel, messages: trio.MemoryReceiveChannel[Any], caller: Channel | Answer) -> None:
    value, left = 0, 2
    async for message in messages:
        if isinstance(message, Compute):
            if message.number <= 2:
                value, left = 1, 0
            else:
                for less in (1, 2):
                    channel, received = inbox()
                    nursery.start_soon(serve_call, nursery, channel, received, this)
                    channel.send_nowait(Compute(message.number - less))
        elif isinstance(message, Computed):
            value += message.value
            left -= 1
        if not left:
            if isinstance(caller, Answer):
                caller.set(value)
            else:
                caller.send_nowait(Computed(value))
            return


@in_trio
async def with_trio(_: trio.Nursery, size: Number) -> Outcome:
    answer = Answer()
    with Timer() as timer:
        async with trio.open_nursery() as nursery:
            channel, messages = inbox()
            nursery.start_soon(serve_call, nursery, channel, messages, answer)
            channel.send_nowait(Compute(size.number))
    return timer, await answer.get()


FIBONACCI = Benchmark(
    name="fibonacci",
    title="Fibonacci",
    unit="actors",
    how="Each call of the recursive function is an actor, which makes two more, adds up what they answer, answers and ends. Timed until the first of them has "
    "ended. Checked: the number.",
    operations=lambda size: 2 * fibonacci(size.number) - 1,
    expected=lambda size: fibonacci(size.number),
    full=Number(18),
    quick=Number(14),
    tiny=Number(6),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
    smaller={"pykka": Number(12)},
)
