"""Ping-pong: two actors, and one of them reminds itself of the next round. Three messages a round."""

# No `from __future__ import annotations` in these modules: what users type is measured, and so are the annotations as they type them.

from typing import Any

import attrs
import pykka
import trio

import retinue as rt
from benchmarks.harness import Timer
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["PING_PONG", "Rounds"]


@attrs.frozen
class Rounds:
    """N."""

    rounds: int


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Next(rt.Message):
    pass


@rt.message
class SendPing(rt.Message):
    pass


@rt.message
class SendPong(rt.Message):
    pass


@rt.message
class Stop(rt.Message):
    pass


class Pong(rt.Actor):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.count = 0

    @rt.handler(requires="savina.ping")
    def ping(self, _: SendPing) -> None:
        self.count += 1
        sender = self.ctx.sender
        if sender is not None:
            sender.tell(SendPong())

    @rt.handler(requires="savina.stop")
    def stop(self, _: Stop) -> None:
        self.answer.set(self.count)
        self.ctx.stop()


class Ping(rt.Actor):
    def __init__(self, pong: rt.Ref[Pong], rounds: int) -> None:
        self.pong = pong
        self.left = rounds

    @rt.handler(requires="savina.next")
    def next(self, _: Next) -> None:
        self.left -= 1
        self.pong.tell(SendPing())

    @rt.handler(requires="savina.pong")
    def pinged(self, _: SendPong) -> None:
        if self.left:
            self.ctx.ref.tell(Next())
        else:
            self.pong.tell(Stop())
            self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Rounds) -> Outcome:
    answer = Answer()
    ping = await system.spawn(Ping, await system.spawn(Pong, answer), size.rounds)
    with Timer() as timer:
        ping.tell(Next())
        count = await answer.get()
    return timer, count


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class PykkaPing:
    sender: pykka.ActorRef[Any]


class PykkaPonger(pykka.ThreadingActor):
    def __init__(self, answer: pykka.Future[int]) -> None:
        super().__init__()
        self.answer = answer
        self.count = 0

    def on_receive(self, message: object) -> None:
        if isinstance(message, PykkaPing):
            self.count += 1
            message.sender.tell(SendPong())
        elif isinstance(message, Stop):
            self.answer.set(self.count)
            self.stop()


class PykkaPinger(pykka.ThreadingActor):
    def __init__(self, pong: pykka.ActorRef[Any], rounds: int) -> None:
        super().__init__()
        self.pong = pong
        self.left = rounds

    def on_receive(self, message: object) -> None:
        if isinstance(message, Next):
            self.left -= 1
            self.pong.tell(PykkaPing(self.actor_ref))
        elif self.left:
            self.actor_ref.tell(Next())
        else:
            self.pong.tell(Stop())
            self.stop()


@in_pykka
def with_pykka(failures: Failures, size: Rounds) -> Outcome:
    answer: pykka.Future[int] = pykka.ThreadingFuture()
    ping = PykkaPinger.start(PykkaPonger.start(answer), size.rounds)
    with Timer() as timer:
        ping.tell(Next())
        count = failures.result_of(answer)
    return timer, count


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class BarePing:
    sender: Channel


async def serve_pong(messages: trio.MemoryReceiveChannel[Any], answer: Answer) -> None:
    count = 0
    async for message in messages:
        if isinstance(message, BarePing):
            count += 1
            message.sender.send_nowait(SendPong())
        elif isinstance(message, Stop):
            answer.set(count)
            return


async def serve_ping(this: Channel, messages: trio.MemoryReceiveChannel[Any], pong: Channel, left: int) -> None:
    async for message in messages:
        if isinstance(message, Next):
            left -= 1
            pong.send_nowait(BarePing(this))
        elif left:
            this.send_nowait(Next())
        else:
            pong.send_nowait(Stop())
            return


@in_trio
async def with_trio(nursery: trio.Nursery, size: Rounds) -> Outcome:
    answer = Answer()
    ping, pings = inbox()
    pong, pongs = inbox()
    nursery.start_soon(serve_ping, ping, pings, pong, size.rounds)
    nursery.start_soon(serve_pong, pongs, answer)
    with Timer() as timer:
        ping.send_nowait(Next())
        count = await answer.get()
    return timer, count


PING_PONG = Benchmark(
    name="ping-pong",
    title="Ping-pong",
    unit="rounds",
    how="Two actors: ping, pong, and a message that the first sends itself to begin the next round. Checked: the pings that were counted.",
    operations=lambda size: size.rounds,
    expected=lambda size: size.rounds,
    full=Rounds(40_000),
    quick=Rounds(4_000),
    tiny=Rounds(20),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
    smaller={"autogen-core": Rounds(1_000), "xoscar": Rounds(2_000)},
)
