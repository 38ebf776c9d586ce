"""Thread ring: a token goes round a ring of actors, one hop a message; then the ring is taken down the same way."""

from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import Timer
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["THREAD_RING", "Ring"]


@attrs.frozen
class Ring:
    """N actors, R hops."""

    actors: int
    hops: int


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Token(rt.Message):
    left: int


@rt.message
class Exit(rt.Message):
    left: int


@rt.message
class Join(rt.Message):
    next: rt.Ref[Any]


class Member(rt.Actor):
    def __init__(self, number: int, answer: Answer, actors: int) -> None:
        self.number = number
        self.answer = answer
        self.actors = actors
        self.next: rt.Ref[Member]

    @rt.handler(requires="savina.join")
    def join(self, message: Join) -> None:
        self.next = message.next

    @rt.handler(requires="savina.token")
    def token(self, message: Token) -> None:
        if message.left:
            self.next.tell(Token(message.left - 1))
        else:
            self.answer.set(self.number)
            self.next.tell(Exit(self.actors - 1))

    @rt.handler(requires="savina.token")
    def exit(self, message: Exit) -> None:
        if message.left:
            self.next.tell(Exit(message.left - 1))
        self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Ring) -> Outcome:
    answer = Answer()
    refs = [await system.spawn(Member, number, answer, size.actors) for number in range(size.actors)]
    for number, ref in enumerate(refs):
        ref.tell(Join(refs[(number + 1) % size.actors]))
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        refs[0].tell(Token(size.hops))
        last = await answer.get()
    return timer, last


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class PeerJoin:
    next: Any


class PykkaMember(pykka.ThreadingActor):
    def __init__(self, number: int, answer: pykka.Future[int], actors: int) -> None:
        super().__init__()
        self.number = number
        self.answer = answer
        self.actors = actors
        self.next: pykka.ActorRef[PykkaMember]

    def on_receive(self, message: object) -> None:
        if isinstance(message, Token):
            if message.left:
                self.next.tell(Token(message.left - 1))
            else:
                self.answer.set(self.number)
                self.next.tell(Exit(self.actors - 1))
        elif isinstance(message, Exit):
            if message.left:
                self.next.tell(Exit(message.left - 1))
            self.stop()
        elif isinstance(message, PeerJoin):
            self.next = message.next


@in_pykka
def with_pykka(failures: Failures, size: Ring) -> Outcome:
    answer: pykka.Future[int] = pykka.ThreadingFuture()
    refs = [PykkaMember.start(number, answer, size.actors) for number in range(size.actors)]
    for number, ref in enumerate(refs):
        ref.tell(PeerJoin(refs[(number + 1) % size.actors]))
    with Timer() as timer:
        refs[0].tell(Token(size.hops))
        last = failures.result_of(answer)
    failures.ended(refs)
    return timer, last


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


async def serve_member(messages: trio.MemoryReceiveChannel[Any], following: Channel, number: int, answer: Answer, actors: int) -> None:
    async for message in messages:
        if isinstance(message, Token):
            if message.left:
                following.send_nowait(Token(message.left - 1))
            else:
                answer.set(number)
                following.send_nowait(Exit(actors - 1))
        elif isinstance(message, Exit):
            if message.left:
                following.send_nowait(Exit(message.left - 1))
            return


@in_trio
async def with_trio(nursery: trio.Nursery, size: Ring) -> Outcome:
    answer = Answer()
    boxes = [inbox() for _ in range(size.actors)]
    for number, (_, messages) in enumerate(boxes):
        following = boxes[(number + 1) % size.actors][0]
        nursery.start_soon(serve_member, messages, following, number, answer, size.actors)
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        boxes[0][0].send_nowait(Token(size.hops))
        last = await answer.get()
    return timer, last


THREAD_RING = Benchmark(
    name="thread-ring",
    title="Thread ring",
    unit="hops",
    how="A token goes round a ring of 100 actors for R hops. Checked: where it ends.",
    operations=lambda size: size.hops,
    expected=lambda size: size.hops % size.actors,
    full=Ring(100, 100_000),
    quick=Ring(100, 10_000),
    tiny=Ring(5, 33),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
)
