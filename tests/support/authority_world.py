"""The world of a machine that tries derivation: messages, who may do what in it, and what each deed in it ought to have been allowed.

Whatever is sent has a number, its `mark`, and a `Sent` in the world: under which warrant (see `authority_model`) it went out. Whoever executes a gated call compares
with that; whoever is refused does too.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import trio

import retinue as rt
from authority_model import RISKS, Warrant
from retinue.actors.runtime.asks import DONE

EPOCH = 2 * 10**12
OWN = ("fs.read", "mem.put")
"""What the actors of the machine may take their own authority for."""


class Boom(Exception):
    """What a script fails with."""


@rt.message
class Script(rt.Request[Any]):
    """Do this. Open to everybody."""

    mark: int
    actions: Any


@rt.message
class Pour(rt.Stream[Any]):
    """Do this, and give the labels that it cost."""

    mark: int
    actions: Any


@rt.message
class FsRead(rt.Request[Any]):
    mark: int
    n: Any = None
    to: Any = None
    cc: Any = None


@rt.message
class FsWrite(rt.Request[Any]):
    mark: int
    n: Any = None
    to: Any = None
    cc: Any = None


@rt.message
class WebGet(rt.Request[Any]):
    mark: int
    n: Any = None
    to: Any = None
    cc: Any = None


@rt.message
class MemPut(rt.Request[Any]):
    mark: int
    n: Any = None
    to: Any = None
    cc: Any = None


MESSAGES: dict[str, Any] = {"fs.read": FsRead, "fs.write": FsWrite, "web.get": WebGet, "mem.put": MemPut}


@attrs.define(eq=False)
class Seat:
    """An actor, and the grant that it ought to have.

    Attributes:
        kind: "loop", "thread", "virtual", "worker", "closed", "adopted"; or who hands on what it gets: "front" to one, "broadcast" to all.
        waits: In its thread, for the answer to the message of this mark; 0 for none.
        again: It may hand a message on once more.
        operations: All that it can be sent, for somebody with gated handlers only.
        members: Of a group: who has refused what it was sent is not said.
    """

    ref: Any
    grant: Warrant
    kind: str
    waits: int = 0
    again: bool = False
    operations: tuple[str, ...] = ()
    members: tuple[Seat, ...] = ()


@attrs.define(eq=False)
class Handle:
    """A context that lies about, for anybody to use."""

    real: Any
    warrant: Warrant
    turn: Any = None  # of an actor's own authority: the turn that took it
    minted: bool = False


class Handles(list[Handle]):
    """The first is the root's, which stays whatever a step takes away again; and what is taken away is that very one, not an equal one."""

    def pop(self, index: Any = -1) -> Handle:
        return super().pop(index) if len(self) > 1 else self[0]

    def remove(self, value: Handle) -> None:
        for number in range(len(self) - 1, 0, -1):
            if self[number] is value:
                del self[number]
                return


@attrs.define(eq=False)
class Sent:
    """What was sent.

    Attributes:
        operation: None for a script.
        warrant: What it was sent under.
        labels: All the labels that the framework's context had.
        outcome: "ran", "refused" or "lost"; None while it is under way.
        answered: Labels of the turn that answered, or answers.
        settled: Whether it was answered before its turn ended.
        handed_to: The mark of what it was forwarded as.
    """

    operation: str | None
    arguments: dict[str, Any]
    warrant: Warrant
    labels: frozenset[str]
    seat: Seat
    outcome: str | None = None
    answered: frozenset[str] = frozenset()
    settled: bool = False
    handed_to: int | None = None


class Turn:
    """What the model knows of a turn: its warrant, which only ever gets more labels."""

    def __init__(self, warrant: Warrant) -> None:
        self.warrant = warrant

    def taint(self, labels: Any) -> None:
        self.warrant = self.warrant.labelled(labels)


class World:
    """Everything that a machine knows.

    Attributes:
        faults: Broken laws.
        tally: How often what happened: "ran", "refused" and other words.
        refusals: (operation, path, reason) of each refusal that somebody saw.
        shared: Marks of messages that several get, each a copy (`copies`, by mark and path).
        repeated: Marks of messages that may come again: of a timer that ticks again and again, of a pool that tries once more.
        delay: Seconds of the loop's clock until a timer ticks.
        player, supervision: The class of all players in the loop, and how they are supervised.
        outside: What threads that are no actors' do: each gives the mark of the answer that it waits for, or 0, or None once it has ended.
    """

    delay: float = 0.0
    player: Any = None
    supervision: Any = None

    def __init__(self, system: Any) -> None:
        self.system = system
        self.now = 0
        self.seats: list[Seat] = []
        self.by_path: dict[str, Seat] = {}
        self.handles: list[Handle] = Handles()
        self.deferred: list[tuple[Any, Sent, Turn]] = []
        self.sent: dict[int, Sent] = {}
        self.revoked: set[Any] = set()
        self.stashed: set[int] = set()
        self.shared: set[int] = set()
        self.repeated: set[int] = set()
        self.copies: dict[tuple[int, str], Sent] = {}
        self.regions: list[Any] = []
        self.adopted: Seat | None = None
        self.faults: list[str] = []
        self.tally: Counter[str] = Counter()
        self.refusals: Counter[Any] = Counter()
        self.executed: Counter[str] = Counter()
        self.lock = threading.RLock()
        self.marks = itertools.count(1)
        self.broke: list[tuple[Sent, Warrant, Any]] = []
        self.letters: Any = None
        self.outside: list[Callable[[], int | None]] = []
        self._begun: dict[int, Any] = {}
        self.foreign = rt.ActorSystem("foreign").authority.root

    def begin(self) -> None:
        """Once the system runs."""
        self.system._kernel.gate.desk = None  # a question is refused at once: its steps must not depend on another thread's
        self.system.authority._clock._clock = lambda: EPOCH + self.now * 1000
        self.letters = self.system.dead_letters.subscribe(10_000)
        portal = self.system._kernel.portal
        begin = portal.begin

        def noting(delivery: Any, slot: Any) -> Any:
            self._begun[getattr(delivery.message, "mark", 0)] = slot
            return begin(delivery, slot)

        portal.begin = noting
        root = self.system.authority.root
        self.handles.append(Handle(root, Warrant(real=frozenset([root]), root=root)))

    def seat(self, number: int) -> Seat:
        """One of the actors that are alive; when the system has ended, while a thread's script goes on, one that was."""
        alive = [seat for seat in self.seats if seat.ref.alive] or self.seats
        return alive[number % len(alive)]

    def handle(self, number: int) -> Handle:
        """One of the contexts that lie about, the later ones rather."""
        return self.handles[-1 - number % len(self.handles)]

    def seated(self, ref: Any, grant: Warrant, kind: str, *, listed: bool = True) -> None:
        """An actor was spawned. Who is not `listed` gets nothing from those who choose by number."""
        with self.lock:
            seat = Seat(ref, attrs.evolve(grant, real=grant.real | {ref._cell.grant}), kind)
            if listed:
                self.seats.append(seat)
            elif kind == "adopted":
                self.adopted = seat
            self.by_path[ref.path] = seat

    # -- what ought to be ------------------------------------------------------------------------------------------------------------------------------

    def ended(self, warrant: Warrant) -> bool:
        """Whether nothing is permitted any more."""
        return self.now >= warrant.ends or not self.revoked.isdisjoint(warrant.real)

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def send(
        self, operation: str | None, arguments: dict[str, Any], warrant: Warrant, labels: frozenset[str], seat: Seat
    ) -> tuple[int, Sent]:
        """Notes that something is being sent; the mark is the number of its message."""
        with self.lock:
            mark = next(self.marks)
            if operation is not None:
                arguments = {**arguments, "mark": mark}
            sent = self.sent[mark] = Sent(operation, arguments, warrant, labels, seat)
            return mark, sent

    def at(self, mark: int, path: str | None) -> Sent:
        """What was sent, as it came to the actor of that path: its own copy of what several get, or handed on by a pool or a group."""
        with self.lock:
            sent = self.sent[mark]
            if path is None:
                return sent
            if mark in self.shared or sent.seat.kind == "broadcast":
                key = mark, path
                if key not in self.copies:
                    warrant = sent.warrant if mark in self.shared else sent.warrant.met(sent.seat.grant)
                    self.copies[key] = attrs.evolve(sent, seat=self.by_path[path], warrant=warrant, outcome=None)
                return self.copies[key]
            if sent.seat.ref.path != path:
                if sent.seat.kind == "front":
                    sent.warrant = sent.warrant.met(sent.seat.grant)
                    if sent.seat.again:
                        self.repeated.add(mark)
                sent.seat = self.by_path[path]
            return sent

    def arrived(self, mark: int, security: Any, path: str | None) -> Turn:
        """A message is being handled: whatever happened on its way must have permitted that. Returns the model of its turn."""
        with self.lock:
            sent = self.at(mark, path)
            warrant = sent.warrant.met(sent.seat.grant)
            what = f"{sent.operation or 'a script'} of mark {mark} was executed"
            self.tally[f"at: {sent.seat.kind}"] += 1
            if sent.outcome is not None and mark not in self.stashed | self.repeated:
                self.fault(f"{what} although it was {sent.outcome} already")
            if self.ended(warrant):
                self.fault(f"{what} under an authority that has ended")
            if security is not None and not warrant.labels <= security.labels:
                self.fault(f"{what} without the labels {set(warrant.labels - security.labels)}")
            if sent.operation is not None:
                verdict = warrant.verdict(sent.operation, sent.arguments, warrant.labels)
                if verdict != "allow":
                    self.fault(f"{what} although the verdict is {verdict}: {sent.arguments} by {warrant.wants}")
                if not warrant.has_room():
                    self.fault(f"{what} although a budget is used up")
                for purse in warrant.charged():
                    purse.spent += 1
                self.executed[sent.operation] += 1
                self.tally["ran"] += 1
            sent.outcome = "ran"
            sent.answered = warrant.labels
            return Turn(warrant)

    def ended_as(self, mark: int, error: BaseException | None) -> Sent:
        """Somebody saw how it ended. Returns what the answer is of."""
        with self.lock:
            sent = self.sent[mark]
            while sent.handed_to is not None:
                sent = self.sent[sent.handed_to]
            if error is None:
                if sent.outcome != "ran":
                    self.fault(f"mark {mark} was answered, and is {sent.outcome}")
            elif isinstance(error, rt.Denied | rt.ApprovalRequired):
                self.refused(sent, error)
            elif sent.outcome is None:
                sent.outcome = "lost"
                self.tally[f"lost: {type(error).__name__}"] += 1
            return sent

    def refused(self, sent: Sent, error: Any) -> None:
        """A refusal of the gate: the model must have a reason for it."""
        with self.lock:
            if sent.outcome == "ran" and not any(self.sent[mark] is sent for mark in self.repeated):
                self.fault(f"{sent.operation} ran and was refused: {error}")
            sent.outcome = "refused"
            self.noted(error)
            warrant = sent.warrant.met(sent.seat.grant)
            for member in sent.seat.members:
                if self.explains(sent, warrant.met(member.grant), error):
                    warrant = warrant.met(member.grant)
                    break
            if self.ended(warrant):
                self.tally["refused: ended"] += 1
                return
            if sent.operation is None:
                self.fault(f"a script was refused: {error}")
                return
            labels = sent.labels | warrant.labels | self.labels_of(sent.seat.ref)
            verdict = warrant.verdict(sent.operation, sent.arguments, labels)
            if isinstance(error, rt.BudgetExceeded):
                self.broke.append((sent, warrant, error))  # what was charged may not have begun yet
            elif verdict == "allow":
                self.fault(f"{sent.operation} with {sent.arguments} was refused although {warrant.wants} permit it: {error}")
            elif (verdict == "ask") != isinstance(error, rt.ApprovalRequired):
                self.fault(f"{sent.operation} was refused with {type(error).__name__} where the verdict is {verdict}: {error}")
            self.tally["refused"] += 1
            self.tally[f"refused: {verdict}"] += 1

    def explains(self, sent: Sent, warrant: Warrant, error: Any) -> bool:
        """Whether that error may come of it."""
        if isinstance(error, rt.BudgetExceeded):
            return not warrant.has_room()
        if sent.operation is None or self.ended(warrant):
            return self.ended(warrant)
        wanted = "ask" if isinstance(error, rt.ApprovalRequired) else "deny"
        return warrant.verdict(sent.operation, sent.arguments, sent.labels | warrant.labels) == wanted

    def turned_away(self, sent: Sent, path: str) -> None:
        """A tell was refused before there was an instance of a virtual actor: its error is on record only."""
        with self.lock:
            entries = self.system.audit.log.entries()
            there = Counter((e.operation, e.path, e.reason) for e in entries if e.kind == "decision" and not e.allowed) - self.refusals
            found = [key for key in there if key[:2] == (sent.operation, path)]
            self.tally["turned away"] += 1
            if not found:
                self.fault(f"{sent.operation} was turned away, and that is not on record")
                return
            sent.outcome = "refused"
            self.refusals[found[0]] += 1
            warrant = sent.warrant.met(sent.seat.grant)
            if not self.ended(warrant) and (
                sent.operation is None or warrant.verdict(sent.operation, sent.arguments, sent.labels | warrant.labels) == "allow"
            ):
                self.fault(f"{sent.operation} was turned away although {warrant.wants} permit it")

    def labels_of(self, ref: Any) -> frozenset[str]:
        """The labels of an actor's grant."""
        return ref._cell.grant.labels  # type: ignore[no-any-return]

    def noted(self, error: Any) -> None:
        """A refusal that must be on record once."""
        with self.lock:
            self.refusals[error.operation, error.path, getattr(error, "reason", "approval")] += 1

    def answer(self, which: int, labels: frozenset[str]) -> None:
        """Somebody whose turn has these labels gives a deferred answer."""
        if self.deferred:
            deferred, sent, turn = self.deferred.pop(which % len(self.deferred))
            with self.lock:
                sent.answered = turn.warrant.labels | labels
                sent.settled = True
            deferred.reply(None)

    def threads(self) -> str:
        """What the threads do: "" where they rest, "waiting", or "working"."""
        found = [seat.waits for seat in self.seats if seat.kind == "thread" and seat.ref.alive and seat.ref._cell.turn is not None]
        if self.adopted is not None and self.adopted.ref._cell.turn is not None:
            found.append(0)
        found += [mark for mark in (look() for look in self.outside) if mark is not None]
        kernel = self.system._kernel
        if len(kernel.portal) or kernel.ready:  # after that of the threads: what one handed over before it came to rest is still to come
            return "working"
        if not self.delay and any(entry[2] is not None and entry[0] < trio.current_time() + 1 for entry in kernel.deadlines._heap):
            return "working"  # a timer is about to tick, where the clock goes by itself
        return "" if not found else "waiting" if all(map(self._blocked, found)) else "working"

    def _blocked(self, mark: int) -> bool:
        """Whether the request of this mark has come to the system, and is not answered: its thread does nothing until then, however slow the machine is."""
        slot = self._begun.get(mark)
        return slot is not None and slot.stage < DONE

    # -- what is on record -----------------------------------------------------------------------------------------------------------------------------

    def take_letters(self) -> None:
        """Told messages that came to nothing."""
        while (letter := self.letters.get_nowait()) is not None:
            if letter.reason == "late_reply":
                continue
            mark = letter.message.mark if hasattr(letter.message, "mark") else None
            if mark is None:
                continue
            sent = self.sent[mark]
            if letter.error is None:
                if letter.reason == "denied":
                    self.turned_away(sent, letter.target)
                continue
            if mark in self.shared or sent.seat.kind == "broadcast":
                sent = self.at(mark, letter.target)
                if isinstance(letter.error, rt.Denied | rt.ApprovalRequired):
                    self.refused(sent, letter.error)
            elif sent.outcome is None or mark in self.repeated:
                self.ended_as(mark, letter.error)

    def problem(self) -> str | None:
        """What is wrong with the budgets and with the audit at a quiet moment, or None."""
        with self.lock:
            self.take_letters()
            for sent, warrant, error in self.broke:
                if warrant.has_room():
                    return f"{sent.operation} was refused although there is room in its budget: {error}"
            self.broke.clear()
            log = self.system.audit.log
            entries = log.entries()
            refusals = Counter((e.operation, e.path, e.reason) for e in entries if e.kind == "decision" and not e.allowed)
            if refusals != self.refusals:
                return f"on record and not seen: {refusals - self.refusals}; seen and not on record: {self.refusals - refusals}"
            allowed = Counter(e.operation for e in entries if e.kind == "decision" and e.allowed)
            wanted = Counter({name: count for name, count in self.executed.items() if RISKS[name] in ("L2", "L3")})
            if allowed != wanted:
                return f"allowed on record: {allowed}; executed: {wanted}"
            own = sum(e.kind == "amplification" for e in entries)
            if own != self.tally["own"]:
                return f"{own} amplifications on record, and {self.tally['own']} taken"
            return None
