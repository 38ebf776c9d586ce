"""Who acts in the world of the machine: actors of both hosts and the system's holder. Each does what scripts say, and tells the world what it was allowed and refused."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Coroutine
from typing import Any, ClassVar

import attrs
import trio

import retinue as rt
from authority_model import Want, Warrant
from authority_ways import MOST_SEATS, Ways, settle, without_depth
from authority_world import MESSAGES, OWN, Boom, FsRead, FsWrite, Handle, MemPut, Pour, Script, Seat, Sent, Turn, WebGet, World

ANSWERS = (rt.RetinueError, Boom, ExceptionGroup)
SUPERVISION = rt.Supervision(backoff=(0, 0), intensity=(1_000_000, 1))


def grant_of(wants: tuple[Want, ...] | list[Want]) -> list[Any]:
    """Demands as `mint` and `spawn` take them."""
    return ["**", *(want.restriction() for want in wants)]


class Sender(Ways):
    """Sends, under whichever context it is told to, and reports what came of it."""

    world: World
    in_thread = False

    def security(self) -> Any:
        """The framework's context that is in force."""
        raise NotImplementedError

    async def ask(self, ref: Any, message: Any, **keywords: Any) -> Any:
        return await ref.ask(message, **keywords)

    async def send(self, ref: Any, message: Any, **keywords: Any) -> Any:
        return await ref.send(message, **keywords)

    def tell(self, ref: Any, message: Any, **keywords: Any) -> Any:
        return ref.tell(message, **keywords)

    def choose(self, turn: Turn, choice: Any) -> tuple[Any, Warrant, str] | None:
        """The context to give, the warrant of what is sent, and whether that must be accepted: "accept", "reject" or "either"."""
        world = self.world
        match choice:
            case None:
                return None, turn.warrant, "accept"
            case ("narrow", want):
                real = self.security().narrow(want.restriction())
                return real, turn.warrant.narrowed([want], world.now, real), "accept"
            case ("stolen", which):
                handle = world.handle(which)
                if handle.real is self.security():
                    return handle.real, turn.warrant, "accept"
                if handle.turn is turn:
                    return handle.real, handle.warrant.labelled(turn.warrant.labels), "accept"
                strange = handle.warrant.root is not turn.warrant.root or handle.turn is not None
                return handle.real, handle.warrant.met(turn.warrant), "reject" if strange else "either"
            case ("own", operation):
                return self.own(turn, operation)
            case ("forged",):
                return object.__new__(rt.SecurityContext), turn.warrant, "reject"
            case ("foreign",):
                return world.foreign, turn.warrant, "reject"
        raise AssertionError(choice)

    def own(self, turn: Turn, operation: str) -> tuple[Any, Warrant, str] | None:
        """Nobody but an actor has an authority of its own."""
        return None

    async def touch(self, turn: Turn, sent: Sent | None, to: int, call: Any, how: str, choice: Any) -> None:
        arguments = {"n": call.n, "to": call.to, "cc": call.cc}
        await self.deliver(turn, sent, self.world.seat(to), call.operation, arguments, how, choice)

    async def row(self, turn: Turn, sent: Sent | None, to: int, calls: Any, choice: Any) -> None:
        """Calls in a row, under the same context each."""
        if choice is not None and choice[0] == "narrow":
            chosen = self.choose(turn, choice)
            assert chosen is not None
            self.world.handles.append(Handle(chosen[0], chosen[1]))
            choice = ("stolen", 0)
        for call in calls:
            await self.touch(turn, sent, to, call, "ask", choice)

    async def do(self, turn: Turn, sent: Sent | None, to: int, script: Any, how: str, choice: Any) -> None:
        await self.deliver(turn, sent, self.world.seat(to), None, {"actions": script}, how, choice)

    async def deliver(
        self, turn: Turn, sent: Sent | None, seat: Seat, operation: str | None, arguments: dict[str, Any], how: str, choice: Any
    ) -> None:
        """Sends one message, and compares what comes of it with what ought to."""
        world = self.world
        chosen = self.choose(turn, choice)
        if chosen is None:
            return
        real, warrant, must = chosen
        security = self.security()
        labels = security.labels | (real.labels if type(real) is rt.SecurityContext and hasattr(real, "permissions") else frozenset())
        mark, mine = world.send(operation, arguments, warrant, labels, seat)
        message = (Script if operation is None else MESSAGES[operation])(mark, **arguments)
        keywords = {} if real is None else {"context": real}
        if how == "forward" and (sent is None or self.in_thread):
            how = "tell"
        if how == "send" and self.in_thread:
            how = "tell"
        try:
            match how:
                case "ask":
                    await self.ask(seat.ref, message, **keywords)
                case "send":
                    await self.send(seat.ref, message, **keywords)
                case "forward":
                    self.ctx.forward(seat.ref, message, **keywords)  # type: ignore[attr-defined]
                    assert sent is not None
                    sent.handed_to = mark
                case _:
                    self.tell(seat.ref, message, **keywords)
        except ANSWERS as error:
            self.not_done(turn, mark, mine, must, error)
            return
        if must == "reject":
            world.fault(f"{how} of mark {mark} was accepted under a context of somebody else: {choice}")
        if how == "ask":
            turn.taint(world.ended_as(mark, None).answered)

    def not_done(self, turn: Turn, mark: int, mine: Sent, must: str, error: BaseException) -> None:
        """It was refused, or failed."""
        world = self.world
        if isinstance(error, rt.ForgedContext) or (isinstance(error, rt.Denied) and error.reason == "lineage"):
            mine.outcome = "refused"
            world.noted(error)
            world.tally["refused: lineage"] += 1
            if must == "accept":
                world.fault(f"mark {mark} was not sent although its context is the sender's own: {error}")
            return
        if must == "reject" and isinstance(error, rt.Denied | rt.ApprovalRequired) and not isinstance(error, rt.Revoked):
            world.fault(f"mark {mark} was sent under a context of somebody else: {error}")
        final = world.ended_as(mark, error)
        if isinstance(error, Boom | ExceptionGroup):
            turn.taint(final.answered)


class Acting(Sender):
    """What the players of both hosts have in common. In a thread nothing of it ever waits but in `ctx.ask`."""

    ctx: Any
    internal_operations: ClassVar[tuple[str, ...]] = OWN

    def __init__(self, world: World) -> None:
        self.world = world

    def security(self) -> Any:
        return self.ctx.security

    def touched(self, message: Any) -> None:
        self.world.arrived(message.mark, self.ctx.security, self.ctx.path)

    async def perform(self, mark: int, actions: Any) -> frozenset[str]:
        """A script; returns the labels that it cost."""
        world = self.world
        turn = world.arrived(mark, self.ctx.security, self.ctx.path)
        sent = world.at(mark, self.ctx.path)
        try:
            if actions[0] == ("stash",) and mark not in world.stashed and not self.in_thread:
                self.ctx.stash()
                world.stashed.add(mark)
            else:
                await self.run_all(turn, sent, actions)
        except (*ANSWERS, trio.Cancelled, GeneratorExit):
            raise
        except BaseException as error:
            world.fault(f"mark {mark} ended with {error!r}")
            raise
        finally:
            if not sent.settled:
                sent.answered |= turn.warrant.labels
        return turn.warrant.labels

    async def run_all(self, turn: Turn, sent: Sent | None, actions: Any) -> None:
        for action in actions:
            if self.in_thread and action[0] in (
                "spawn",
                "task",
                "pipe",
                "nursery",
                "stream",
                "defer",
                "stash",
                "unstash",
                "sleep",
                "spawn_many",
            ):
                continue
            await getattr(self, action[0])(turn, sent, *action[1:])
            missing = turn.warrant.labels - self.ctx.security.labels
            if missing:
                self.world.fault(f"the labels {set(missing)} were lost after {action[0]}")
            self.world.tally["labels exact" if turn.warrant.labels == self.ctx.security.labels else "labels more"] += 1

    def own(self, turn: Turn, operation: str) -> tuple[Any, Warrant, str] | None:
        world = self.world
        grant = world.by_path[self.ctx.path].grant
        ended = world.ended(turn.warrant) or world.ended(grant)
        try:
            real = self.ctx.own_authority(operation)
        except rt.Denied as error:
            world.noted(error)
            if operation in OWN and not ended and not grant.wants:
                world.fault(f"the actor's own authority for {operation} was refused: {error}")
            world.tally["own refused"] += 1
            return None
        world.tally["own"] += 1
        if operation not in OWN or ended:
            world.fault(f"the actor's own authority for {operation} was given")
        warrant = attrs.evolve(grant.narrowed([Want("allow", (operation,))], world.now, real), own=True)
        return real, warrant.labelled(turn.warrant.labels), "accept"

    # -- what else scripts say -------------------------------------------------------------------------------------------------------------------------

    async def taint(self, turn: Turn, _: Any, label: str) -> None:
        self.ctx.taint(label)
        turn.taint([label])

    async def steal(self, turn: Turn, _: Any) -> None:
        real = self.ctx.security
        self.world.handles.append(Handle(real, attrs.evolve(turn.warrant, real=turn.warrant.real | {real})))

    async def owned(self, turn: Turn, _: Any) -> None:
        taken = self.own(turn, OWN[0])
        if taken is not None:
            self.world.handles.append(Handle(taken[0], taken[1], turn))

    async def mint(self, turn: Turn, _: Any) -> None:
        self.must_not(lambda: self.world.system.authority.mint("eve", ["**"]))

    async def revoke(self, turn: Turn, _: Any) -> None:
        self.must_not(lambda: self.world.system.authority.revoke(self.world.handles[-1].real))

    def must_not(self, use: Any) -> None:
        try:
            use()
        except rt.Denied as error:
            self.world.noted(error)
        else:
            self.world.fault("a handler minted or revoked")

    async def fail(self, turn: Turn, _: Any) -> None:
        raise Boom

    async def sleep(self, turn: Turn, _: Any) -> None:
        await trio.lowlevel.checkpoint()

    async def stash(self, turn: Turn, _: Any) -> None:
        pass

    async def unstash(self, turn: Turn, _: Any) -> None:
        self.ctx.unstash_all()

    async def defer(self, turn: Turn, sent: Sent | None) -> None:
        if sent is None:
            return
        try:
            self.world.deferred.append((self.ctx.defer(), sent, turn))
        except rt.DefinitionError:
            pass

    async def answer(self, turn: Turn, _: Any, which: int) -> None:
        self.world.answer(which, turn.warrant.labels)

    async def spawn(self, turn: Turn, _: Any, kind: str, wants: list[Want]) -> None:
        world = self.world
        await self.born(
            turn,
            wants,
            lambda: self.ctx.spawn(PLAYERS[kind], world, grant=grant_of(wants), supervision=SUPERVISION),
            lambda ref, grant: world.seated(ref, grant, kind),
        )

    async def born(self, turn: Turn, wants: list[Want], make: Any, seat: Any) -> None:
        """Spawns somebody, with what the turn has and what is demanded."""
        world = self.world
        if sum(seat.ref.alive for seat in world.seats) >= MOST_SEATS:
            return
        warrant = turn.warrant
        grant = warrant.narrowed(wants, world.now)
        ended = world.ended(warrant)
        try:
            made = await make()
        except rt.Denied as error:
            world.noted(error)
            if not ended and grant.depth > 0 and not warrant.own:
                world.fault(f"a spawn was refused: {error}")
            world.tally["refused: spawn"] += 1
            return
        except rt.RetinueError:
            return
        if ended or grant.depth == 0 or warrant.own:
            world.fault("an actor was spawned that could not be")
        world.tally["spawned"] += 1
        seat(made, attrs.evolve(grant, depth=grant.depth - (grant.depth < 32)))

    async def task(self, turn: Turn, _: Any, script: Any) -> None:
        self.outlasts(turn, "a task", lambda: self.ctx.start_soon(self.run_all, Turn(turn.warrant), None, script))

    async def nursery(self, turn: Turn, _: Any, script: Any) -> None:
        async with trio.open_nursery() as nursery:
            for action in script:
                nursery.start_soon(self.run_all, turn, None, (action,))

    async def pipe(self, turn: Turn, _: Any, to: int, script: Any, then: Any) -> None:
        world, piped = self.world, Turn(turn.warrant)
        seat, mine = world.seat(to), world.by_path[self.ctx.path]
        mark, _sent = world.send(None, {}, turn.warrant, self.ctx.security.labels, seat)

        def caught(error: BaseException | None) -> Any:
            final = world.ended_as(mark, error)
            if error is None or isinstance(error, Boom | ExceptionGroup):
                piped.taint(final.answered)
            following, _sent = world.send(None, {}, piped.warrant, self.ctx.security.labels, mine)
            return Script(following, then)

        pipe = lambda: self.ctx.pipe_to_self(seat.ref.ask(Script(mark, script)), then=lambda _: caught(None), catch=caught)
        self.outlasts(turn, "a pipe", pipe)

    async def stream(self, turn: Turn, _: Any, to: int, script: Any, choice: Any) -> None:
        world = self.world
        seat = world.seat(to)
        chosen = self.choose(turn, choice)
        if chosen is None or seat.kind == "thread":
            return
        real, warrant, must = chosen
        mark, mine = world.send(None, {}, warrant, self.ctx.security.labels, seat)
        try:
            async with seat.ref.stream(Pour(mark, script), **({} if real is None else {"context": real})) as items:
                async for labels in items:
                    turn.taint(labels)
        except ANSWERS as error:
            self.not_done(turn, mark, mine, must, error)
            return
        if must == "reject":
            world.fault(f"the stream of mark {mark} was accepted under a context of somebody else")
        world.ended_as(mark, None)


def driven(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs what never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waited")


class Player(Acting, rt.Actor):
    """A player in the loop."""

    @rt.handler
    async def script(self, message: Script) -> Any:
        return await self.perform(message.mark, message.actions)

    @rt.handler
    async def pour(self, message: Pour) -> AsyncIterator[Any]:
        yield await self.perform(message.mark, message.actions)

    @rt.handler(requires="fs.read")
    def fs_read(self, message: FsRead) -> None:
        self.touched(message)

    @rt.handler(requires="fs.write", risk="L2")
    async def fs_write(self, message: FsWrite) -> None:
        self.touched(message)

    @rt.handler(requires="web.get", risk="L0")
    async def web_get(self, message: WebGet) -> None:
        self.touched(message)
        await trio.lowlevel.checkpoint()

    @rt.handler(requires="mem.put", risk="L3")
    def mem_put(self, message: MemPut) -> None:
        self.touched(message)


class ThreadPlayer(Acting, rt.Actor, blocking=True):
    """A player with a thread of its own."""

    in_thread = True

    async def ask(self, ref: Any, message: Any, **keywords: Any) -> Any:
        seat = self.world.by_path[self.ctx.path]
        seat.waits = message.mark
        try:
            return self.ctx.ask(ref, message, **keywords)
        finally:
            seat.waits = 0

    @rt.handler
    def script(self, message: Script) -> Any:
        return driven(self.perform(message.mark, message.actions))

    @rt.handler(requires="fs.read")
    def fs_read(self, message: FsRead) -> None:
        self.touched(message)

    @rt.handler(requires="fs.write", risk="L2")
    def fs_write(self, message: FsWrite) -> None:
        self.touched(message)

    @rt.handler(requires="web.get", risk="L0")
    def web_get(self, message: WebGet) -> None:
        self.touched(message)

    @rt.handler(requires="mem.put", risk="L3")
    def mem_put(self, message: MemPut) -> None:
        self.touched(message)


PLAYERS: dict[str, Any] = {"loop": Player, "thread": ThreadPlayer}
World.player, World.supervision = Player, SUPERVISION


class Holder(Sender):
    """Whoever entered the system."""

    def __init__(self, world: World) -> None:
        self.world = world

    def security(self) -> Any:
        return self.world.system.authority.root

    def choose(self, turn: Turn, choice: Any) -> tuple[Any, Warrant, str] | None:
        if choice is not None and choice[0] == "stolen":
            handle = self.world.handle(choice[1])
            return handle.real, handle.warrant, "reject" if handle.warrant.own else "accept"
        return super().choose(turn, choice)

    async def spawn(self, kind: str, wants: list[Want]) -> None:
        """Spawns right under `/user`."""
        world = self.world
        if sum(seat.ref.alive for seat in world.seats) >= MOST_SEATS:
            return
        grant = world.handles[0].warrant.narrowed(wants, world.now)
        if grant.depth == 0:
            return
        ref = await self.made(kind, wants)
        world.seated(ref, attrs.evolve(grant, depth=grant.depth - (grant.depth < 32)), kind)

    async def born(self, turn: Turn, wants: list[Want], make: Any, seat: Any) -> None:
        world = self.world
        grant = turn.warrant.narrowed(wants, world.now)
        if grant.depth > 0 and sum(seat.ref.alive for seat in world.seats) < MOST_SEATS:
            seat(await make(), attrs.evolve(grant, depth=grant.depth - (grant.depth < 32)))

    def spawner(self) -> Any:
        return self.world.system

    def own_seat(self) -> Seat:
        return self.world.seats[0]

    def topics(self) -> Any:
        return self.world.system.topics

    async def passivate(self, which: int, key: str) -> None:
        """Ends the instance of a virtual actor."""
        regions = [region for region in self.world.regions if region.alive]
        if regions:
            await regions[which % len(regions)].passivate(key)

    async def settle(self, closed: list[Want], adopted: list[Want]) -> None:
        """Those who are there from the beginning."""
        await settle(self.world, self.world.system, without_depth(closed), without_depth(adopted))

    async def made(self, kind: str, wants: list[Want]) -> Any:
        return await self.world.system.spawn(PLAYERS[kind], self.world, grant=grant_of(wants), supervision=SUPERVISION)


OPTIONS: dict[str, Any] = {"block_warning": math.inf, "ask_timeout": math.inf}
