"""Chameneos: creatures meet in pairs at one mall, and take the colour that neither had."""

from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import Timer
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["CHAMENEOS", "Crowd"]

FADED = 3


def complement(one: int, other: int) -> int:
    """The colour of both after a meeting."""
    if FADED in (one, other):
        return FADED
    return one if one == other else 3 - one - other


@attrs.frozen
class Crowd:
    """So many chameneos, so many meetings."""

    chameneos: int
    meetings: int


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Meet(rt.Message):
    colour: int
    sender: rt.Ref[Any]


@rt.message
class Change(rt.Message):
    colour: int


@rt.message
class Exit(rt.Message):
    pass


@rt.message
class MeetingCount(rt.Message):
    count: int


class Mall(rt.Actor):
    def __init__(self, size: Crowd, answer: Answer) -> None:
        self.left = size.meetings
        self.chameneos = size.chameneos
        self.answer = answer
        self.waiting: rt.Ref[Any] | None = None
        self.sum = 0

    @rt.handler(requires="savina.meet")
    def meet(self, message: Meet) -> None:
        if not self.left:
            message.sender.tell(Exit())
        elif self.waiting is None:
            self.waiting = message.sender
        else:
            self.left -= 1
            self.waiting.tell(message)
            self.waiting = None

    @rt.handler(requires="savina.meet")
    def count(self, message: MeetingCount) -> None:
        self.sum += message.count
        self.chameneos -= 1
        if not self.chameneos:
            self.answer.set(self.sum)
            self.ctx.stop()


class Chameneo(rt.Actor):
    def __init__(self, mall: rt.Ref[Mall], colour: int) -> None:
        self.mall = mall
        self.colour = colour
        self.meetings = 0

    @rt.handler(requires="savina.meet")
    def meet(self, message: Meet) -> None:
        self.colour = complement(self.colour, message.colour)
        self.meetings += 1
        message.sender.tell(Change(self.colour))
        self.mall.tell(Meet(self.colour, self.ctx.ref))

    @rt.handler(requires="savina.meet")
    def change(self, message: Change) -> None:
        self.colour = message.colour
        self.meetings += 1
        self.mall.tell(Meet(self.colour, self.ctx.ref))

    @rt.handler(requires="savina.meet")
    def exit(self, _: Exit) -> None:
        self.mall.tell(MeetingCount(self.meetings))
        self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Crowd) -> Outcome:
    answer = Answer()
    mall = await system.spawn(Mall, size, answer)
    refs = [await system.spawn(Chameneo, mall, number % 3) for number in range(size.chameneos)]
    with Timer() as timer:
        for number, ref in enumerate(refs):
            mall.tell(Meet(number % 3, ref))
        total = await answer.get()
    return timer, total


# -- pykka and trio --------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class PeerMeet:
    colour: int
    sender: Any


class PykkaMall(pykka.ThreadingActor):
    def __init__(self, size: Crowd, answer: pykka.Future[int]) -> None:
        super().__init__()
        self.left = size.meetings
        self.chameneos = size.chameneos
        self.answer = answer
        self.waiting: pykka.ActorRef[Any] | None = None
        self.sum = 0

    def on_receive(self, message: object) -> None:
        if isinstance(message, PeerMeet):
            if not self.left:
                message.sender.tell(Exit())
            elif self.waiting is None:
                self.waiting = message.sender
            else:
                self.left -= 1
                self.waiting.tell(message)
                self.waiting = None
        elif isinstance(message, MeetingCount):
            self.sum += message.count
            self.chameneos -= 1
            if not self.chameneos:
                self.answer.set(self.sum)
                self.stop()


class PykkaChameneo(pykka.ThreadingActor):
    def __init__(self, mall: pykka.ActorRef[Any], colour: int) -> None:
        super().__init__()
        self.mall = mall
        self.colour = colour
        self.meetings = 0

    def on_receive(self, message: object) -> None:
        if isinstance(message, PeerMeet):
            self.colour = complement(self.colour, message.colour)
            self.meetings += 1
            message.sender.tell(Change(self.colour))
            self.mall.tell(PeerMeet(self.colour, self.actor_ref))
        elif isinstance(message, Change):
            self.colour = message.colour
            self.meetings += 1
            self.mall.tell(PeerMeet(self.colour, self.actor_ref))
        else:
            self.mall.tell(MeetingCount(self.meetings))
            self.stop()


@in_pykka
def with_pykka(failures: Failures, size: Crowd) -> Outcome:
    answer: pykka.Future[int] = pykka.ThreadingFuture()
    mall = PykkaMall.start(size, answer)
    refs = [PykkaChameneo.start(mall, number % 3) for number in range(size.chameneos)]
    with Timer() as timer:
        for number, ref in enumerate(refs):
            mall.tell(PeerMeet(number % 3, ref))
        total = failures.result_of(answer)
    return timer, total


async def serve_mall(messages: trio.MemoryReceiveChannel[Any], size: Crowd, answer: Answer) -> None:
    left, chameneos, total = size.meetings, size.chameneos, 0
    waiting: Channel | None = None
    async for message in messages:
        if isinstance(message, PeerMeet):
            if not left:
                message.sender.send_nowait(Exit())
            elif waiting is None:
                waiting = message.sender
            else:
                left -= 1
                waiting.send_nowait(message)
                waiting = None
        elif isinstance(message, MeetingCount):
            total += message.count
            chameneos -= 1
            if not chameneos:
                answer.set(total)
                return


async def serve_chameneo(this: Channel, messages: trio.MemoryReceiveChannel[Any], mall: Channel, colour: int) -> None:
    meetings = 0
    async for message in messages:
        if isinstance(message, PeerMeet):
            colour = complement(colour, message.colour)
            meetings += 1
            message.sender.send_nowait(Change(colour))
            mall.send_nowait(PeerMeet(colour, this))
        elif isinstance(message, Change):
            colour = message.colour
            meetings += 1
            mall.send_nowait(PeerMeet(colour, this))
        else:
            mall.send_nowait(MeetingCount(meetings))
            return


@in_trio
async def with_trio(nursery: trio.Nursery, size: Crowd) -> Outcome:
    answer = Answer()
    mall, met = inbox()
    nursery.start_soon(serve_mall, met, size, answer)
    channels = []
    for number in range(size.chameneos):
        channel, messages = inbox()
        nursery.start_soon(serve_chameneo, channel, messages, mall, number % 3)
        channels.append(channel)
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        for number, channel in enumerate(channels):
            mall.send_nowait(PeerMeet(number % 3, channel))
        total = await answer.get()
    return timer, total


CHAMENEOS = Benchmark(
    name="chameneos",
    title="Chameneos",
    unit="meetings",
    how="100 chameneos meet in pairs at one mall, and each pair settles its colours between themselves. Checked: the meetings that they counted, two for each.",
    operations=lambda size: size.meetings,
    expected=lambda size: 2 * size.meetings,
    full=Crowd(100, 20_000),
    quick=Crowd(100, 2_000),
    tiny=Crowd(6, 20),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
)
