"""A team's roster: its members in order. The team changes it, its sessions read it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import trio

from retinue.actors.agents.errors import MemberPaused, NoSuchMember
from retinue.actors.agents.teams.members import Member, near

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retinue.actors.agents.keeping import Keeper
    from retinue.actors.agents.specs import AgentSpec
    from retinue.actors.runtime.ref import Ref

__all__ = ["Place", "Roster", "Work"]


class Work:
    """What an actor does for a team, counted by the keys of its own sessions."""

    __slots__ = ("_counts", "_idle")

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._idle: trio.Event | None = None

    def __contains__(self, key: object) -> bool:
        return key in self._counts

    def begin(self, key: str) -> None:
        """One more ask."""
        self._counts[key] += 1

    def end(self, key: str) -> None:
        """One less."""
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]
            if not self._counts and self._idle is not None:
                self._idle.set()
                self._idle = None

    async def wait_idle(self) -> None:
        """Waits until nothing is asked of it. For who has seen to it that nothing more will be: each ask has an end."""
        while self._counts:
            if self._idle is None:
                self._idle = trio.Event()
            await self._idle.wait()


class Place:
    """A member's place in the roster.

    Attributes:
        member: The member, as it is now.
        spec: What it was spawned from; None for a ref that was given.
        keeper: Where what it remembers is, for one that was spawned from a spec whose class takes it.
        work: What it does for the team.
        former: The actors that it was before it was edited, and what they do: what one of them works on for a session, it goes on with.
    """

    __slots__ = ("former", "keeper", "member", "spec", "work")

    def __init__(self, member: Member, spec: AgentSpec | None = None, keeper: Keeper | None = None) -> None:
        self.member = member
        self.spec = spec
        self.keeper = keeper
        self.work = Work()
        self.former: list[tuple[Ref[Any], Work]] = []

    def worker(self, key: str) -> tuple[Ref[Any], Work]:
        """Whom to ask for a session, and where to count it: a former actor as long as that works for this very session, for two must not write one memory."""
        for ref, work in self.former:
            if key in work:
                return ref, work
        return self.member.ref, self.work

    def replace(self, other: Place) -> tuple[Ref[Any], Work]:
        """Another actor takes over; the former one, and what it does still."""
        former = self.member.ref, self.work
        self.former.append(former)
        self.member, self.spec, self.work = other.member, other.spec, other.work
        return former


class Roster:
    """The members of one team by name.

    Args:
        path: The team's path, for texts.
    """

    __slots__ = ("path", "places")

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.places: dict[str, Place] = {}

    def __iter__(self) -> Iterator[Member]:
        return iter([place.member for place in self.places.values()])

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, name: object) -> bool:
        return name in self.places

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(self.places)

    @property
    def active(self) -> tuple[str, ...]:
        """The names of those that are not paused, in order."""
        return tuple(name for name, place in self.places.items() if not place.member.paused)

    def place(self, name: object) -> Place:
        """The place of a member. Raises NoSuchMember."""
        found = self.places.get(name) if isinstance(name, str) else None
        if found is None:
            if not isinstance(name, str):
                theirs = name.name if isinstance(name, Member) else next(iter(self.places), "writer")
                raise NoSuchMember(
                    f"{self.path} was given a {type(name).__name__} for a member: give its name, a str such as {theirs!r:.100}"
                )
            shown = repr(name)[:100]
            raise NoSuchMember(f"{self.path} has no member {shown}{near(name, self.places)}", name=str(name)[:100])
        return found

    def at_work(self, name: object) -> Place:
        """The place of a member that may be asked. Raises NoSuchMember, MemberPaused."""
        found = self.place(name)
        if found.member.paused:
            raise MemberPaused(
                f"{self.path}: its member {name!r} is paused, and gets no new work until rt.UnpauseMember({name!r})", name=str(name)
            )
        return found

    def put(self, place: Place) -> None:
        """A new member, the last in order."""
        self.places[place.member.name] = place

    def change(self, name: str, **changes: Any) -> None:
        """Changes what a member is. Raises NoSuchMember."""
        place = self.place(name)
        place.member = attrs.evolve(place.member, **changes)

    def remove(self, name: str) -> Place:
        """Takes a member out. Raises NoSuchMember."""
        place = self.place(name)
        del self.places[name]
        return place
