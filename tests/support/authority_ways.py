"""What else authority travels by, for the machine that tries derivation: timers, topics, pools and groups, virtual actors, look-ups, adopted pykka actors."""

from __future__ import annotations

from typing import Any

import pykka

import retinue as rt
from authority_model import Want
from authority_world import MESSAGES, FsRead, MemPut, Script, Seat, Sent, Turn, WebGet, World

TOPICS: dict[str | None, rt.Topic[Any]] = {
    None: rt.Topic("scripts", Script),
    **{name: rt.Topic(name, kind) for name, kind in MESSAGES.items()},
}
SERVICE = rt.ServiceKey("closed", rt.Actor)
POOLS: dict[str, rt.Pool] = {
    "round_robin": rt.Pool.round_robin(2),
    "least_loaded": rt.Pool.least_loaded(2),
    "consistent_hash": rt.Pool.consistent_hash(2, key=lambda message: message.mark % 5),
    "broadcast": rt.Pool.broadcast(2),
    "work_pulling": rt.Pool.work_pulling(2),
    "retrying": rt.Pool.work_pulling(2, retries=1),
}
MANY = (*POOLS, "group", "virtual", "virtual")
"""What stands for several actors."""
KEYS = ("ann", "b/ob")
MOST_SEATS = 14


class Ways:
    """For whoever sends: the other ways. What is `sent` under which warrant, and who gets it, is said to the world, as for every message."""

    world: World
    ctx: Any

    def spawner(self) -> Any:
        """Whoever spawns: an actor's `ctx`, or the system."""
        return self.ctx

    def _note(self, turn: Turn, what: Any, choice: Any, seat: Seat) -> Any:
        """What is about to be sent: the context, whether it must be accepted, the mark, and the message."""
        chosen = self.choose(turn, choice)  # type: ignore[attr-defined]
        if chosen is None:
            return None
        real, warrant, must = chosen
        labels = self.security().labels  # type: ignore[attr-defined]
        if type(real) is rt.SecurityContext and hasattr(real, "permissions"):
            labels |= real.labels
        operation, arguments = (
            (None, {"actions": what}) if isinstance(what, tuple) else (what.operation, {"n": what.n, "to": what.to, "cc": what.cc})
        )
        mark, sent = self.world.send(operation, arguments, warrant, labels, seat)
        message = (Script if operation is None else MESSAGES[operation])(mark, **arguments)
        return {} if real is None else {"context": real}, must, mark, sent, message

    async def timer(self, turn: Turn, _: Any, what: Any, again: bool, choice: Any) -> None:
        """A tick is sent by the turn that sets the timer, and arrives when that is over."""
        world = self.world
        noted = self._note(turn, what, choice, world.by_path[self.ctx.path])
        if noted is None:
            return
        keywords, must, mark, sent, message = noted
        if sent.warrant.own or turn.warrant.own:
            must = "reject"  # nothing that outlasts them is begun under an actor's own authority, and what has come of it
        try:
            if again and world.delay:  # not where the clock goes by itself: what ticks for ever is never quiet
                world.repeated.add(mark)
                self.ctx.timers.every(mark % 20, message, world.delay, first=world.delay, **keywords)
            else:
                self.ctx.timers.once(mark % 20, message, world.delay, **keywords)
        except rt.RetinueError as error:
            self.not_done(turn, mark, sent, must, error)  # type: ignore[attr-defined]
            return
        world.tally["timers"] += 1
        if must == "reject":
            world.fault(f"a timer of mark {mark} was set under a context of somebody else: {choice}")

    async def untimed(self, turn: Turn, _: Any) -> None:
        self.ctx.timers.cancel_all()

    async def publish(self, turn: Turn, _: Any, what: Any, choice: Any) -> None:
        """Each subscriber gets a message of its own, all under what was in force where it was published."""
        world = self.world
        noted = self._note(turn, what, choice, self.own_seat())
        if noted is None:
            return
        keywords, must, mark, sent, message = noted
        world.shared.add(mark)
        try:
            self.topics().publish(TOPICS[sent.operation], message, **keywords)
        except rt.RetinueError as error:
            self.not_done(turn, mark, sent, must, error)  # type: ignore[attr-defined]
            return
        if must == "reject":
            world.fault(f"mark {mark} was published under a context of somebody else: {choice}")

    def own_seat(self) -> Seat:
        return self.world.by_path[self.ctx.path]

    def topics(self) -> Any:
        return self.ctx.topics

    async def subscribe(self, turn: Turn, _: Any, operation: str | None) -> None:
        self.outlasts(turn, "a subscription", lambda: self.ctx.topics.subscribe(TOPICS[operation]))

    def outlasts(self, turn: Turn, what: str, begin: Any) -> None:
        """Begins what goes on when the turn is over: not under an actor's own authority, nor under what has come of it."""
        world = self.world
        try:
            begin()
        except rt.Denied as error:
            world.noted(error)
            world.tally["refused: lineage"] += 1
            if not turn.warrant.own:
                world.fault(f"{what} was refused: {error}")
        else:
            if turn.warrant.own:
                world.fault(f"{what} was begun under an actor's own authority")

    async def look_up(self, turn: Turn, sent: Sent | None, call: Any, how: str) -> None:
        """Nobody finds whom he certainly may not send anything to; and what he finds gives him nothing."""
        world = self.world
        mine = self.ctx.path
        for ref in self.ctx.receptionist.find(SERVICE):
            seat = world.by_path[ref.path]
            if not any(turn.warrant.may(operation) for operation in seat.operations) and not ref.path.startswith(mine):
                world.fault(f"{mine} found {ref.path}, which it may send nothing to: {turn.warrant.wants}")
            world.tally["found"] += 1
            await self.deliver(turn, sent, seat, call.operation, {"n": call.n, "to": call.to, "cc": call.cc}, how, None)  # type: ignore[attr-defined]

    async def touch_adopted(self, turn: Turn, sent: Sent | None, call: Any, how: str, choice: Any) -> None:
        """A pykka actor behind a gate."""
        seat = self.world.adopted
        if seat is not None and seat.ref.alive:
            arguments = {"n": call.n, "to": call.to, "cc": call.cc}
            await self.deliver(turn, sent, seat, "fs.read", arguments, "ask" if how == "forward" else how, choice)  # type: ignore[attr-defined]

    async def spawn_many(self, turn: Turn, _: Any, kind: str, wants: list[Want]) -> None:
        """A pool, a group or a region, with a grant as a child has it."""
        world, spawner = self.world, self.spawner()
        members: tuple[Seat, ...] = ()
        options: dict[str, Any] = {"grant": ["**", *(want.restriction() for want in wants)]}
        if kind == "group":
            members = tuple(seat for seat in world.seats if seat.ref.alive and seat.kind == "loop")[:2]
            make = lambda: spawner.spawn_group([seat.ref for seat in members], pool=rt.Pool.round_robin(), **options)
        elif kind == "virtual":
            make = lambda: spawner.spawn_virtual(world.player, world, supervision=world.supervision, **options)
        else:
            make = lambda: spawner.spawn_pool(world.player, world, pool=POOLS[kind], supervision=world.supervision, **options)
        await self.born(turn, wants, make, lambda ref, grant: seat_many(world, kind, ref, grant, members))  # type: ignore[attr-defined]


def seat_many(world: World, kind: str, made: Any, grant: Any, members: tuple[Seat, ...]) -> None:
    """Several were spawned, all with the same grant."""
    world.tally[f"made: {kind}"] += 1
    if kind == "virtual":
        world.regions.append(made)
        for key in KEYS:
            world.seated(made[key], grant, "virtual")
        return
    world.seated(made, grant, "broadcast" if kind == "broadcast" else "front")
    front = world.by_path[made.path]
    front.again = kind == "retrying"
    front.members = members
    if kind != "group":
        for place in made._cell.places:
            world.seated(place.cell.ref, grant, "worker", listed=False)


class Closed(rt.Actor):
    """Somebody with gated handlers only, who is found by the receptionist."""

    def __init__(self, world: World) -> None:
        self.world = world

    @rt.handler(requires="web.get", risk="L0")
    def web_get(self, message: WebGet) -> None:
        self.world.arrived(message.mark, self.ctx.security, self.ctx.path)

    @rt.handler(requires="mem.put", risk="L3")
    def mem_put(self, message: MemPut) -> None:
        self.world.arrived(message.mark, self.ctx.security, self.ctx.path)


class Elder(pykka.ThreadingActor):
    """A pykka actor, which knows nothing of authority."""

    use_daemon_thread = True

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def on_receive(self, message: Any) -> None:
        self.world.arrived(message.mark, None, None)


async def settle(world: World, system: Any, closed: list[Want], adopted: list[Want]) -> None:
    """Those who are there from the beginning: two that are looked up, and an adopted one."""
    root = world.handles[0].warrant
    for name, wants in (("closed", closed), ("open", [])):
        grant = ["**", *(want.restriction() for want in wants)]
        ref = await system.spawn(Closed, world, name=name, grant=grant, supervision=world.supervision)
        world.seated(ref, root.narrowed(wants, world.now), "closed", listed=False)
        world.by_path[ref.path].operations = ("web.get", "mem.put")
        system.receptionist.register(SERVICE, ref)
    elder = Elder.start(world)
    grant = ["**", *(want.restriction() for want in adopted)]
    ref = await system.adopt(elder, messages=(FsRead,), requires="fs.read", name="elder", grant=grant, stop=True)
    world.seated(ref, root.narrowed(adopted, world.now), "adopted", listed=False)
    world.adopted = world.by_path[ref.path]


def without_depth(wants: list[Want]) -> list[Want]:
    """The demands that are not about how deep one may spawn."""
    return [want for want in wants if want.kind != "depth"]
