"""Many sessions of one swarm at once: what they cost, and that none sees another's."""

from __future__ import annotations

import gc
import random
import re
import time
from typing import Final

import attrs
import trio

import retinue as rt
from benchmarks.harness import BrokenBlock, Progress
from benchmarks.machine import resident_bytes
from retinue import llm

__all__ = ["CALLS", "MEMBERS", "Canary", "SwarmSessions", "measure_swarm_sessions"]

MEMBERS: Final = 4
"""Those to whom the desk hands over."""

CALLS: Final = 5
"""Model calls of a session: the desk hands over, a member looks something up and answers; it hands back, and the desk answers."""

PATIENCE: Final = 3600.0
"""Seconds that a message may take: they all are sent at once, and the last is served last."""

LONGEST: Final = 0.05
"""Seconds that looking up takes at most, so that sessions overtake each other."""

_NUMBER: Final = re.compile(r"session (\d+)")

TOOL: Final = "look_up"


@attrs.frozen
class SwarmSessions:
    """What so many sessions took.

    Attributes:
        sessions: How many, all begun at once; two messages each.
        calls: Of models.
        at_once: Sessions whose tools were at work at the same time, at the most.
        seconds: From the first to the last.
        cpu_micros: Microseconds of processor time a model call, all of the framework's.
        peak_each: What the process grew by at most, by the sessions, in bytes.
        kept_each: And what stayed when all had ended, with every session remembered by the swarm, the desk and a member.
    """

    sessions: int
    calls: int
    at_once: int
    seconds: float
    cpu_micros: float
    peak_each: float
    kept_each: float


class Canary:
    """Looks at each request to a model: it must speak of one session alone, and have that session's history.

    Attributes:
        calls: Requests that were seen.
    """

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def seen(self, request: llm.Complete, ways: frozenset[str]) -> tuple[int, str]:
        """The session's number, and who has said what: "u" the user's side, "a" the model, "t" the tool. Raises BrokenBlock for a bleed.

        Args:
            request: To be looked at.
            ways: Which histories there may be.
        """
        self.calls += 1
        said = [message for message in request.messages if message.role != "system"]
        texts = [str(message.content) + "".join(call.arguments for call in message.tool_calls) for message in said]
        numbers = {number for text in texts for number in _NUMBER.findall(text)}
        roles = "".join(message.role[0] for message in said)
        if len(numbers) != 1 or roles not in ways:
            raise BrokenBlock(f"a bleed: a request speaks of the sessions {sorted(numbers)}, with the history {roles}")
        return int(numbers.pop()), roles


_DESK: Final = frozenset({"u", "uatau"})
_MEMBER: Final = frozenset({"u", "uat", "uatau"})


def member_of(number: int) -> str:
    """Who serves a session."""
    return f"member_{number % MEMBERS}"


def _desk(canary: Canary, request: llm.Complete) -> str | llm.Completion:
    number, roles = canary.seen(request, _DESK)
    return llm.tool_calls((f"transfer_to_{member_of(number)}", "{}")) if roles == "u" else f"The desk says goodbye to session {number}."


def _member(canary: Canary, request: llm.Complete) -> str | llm.Completion:
    number, roles = canary.seen(request, _MEMBER)
    if roles == "u":
        return llm.tool_calls((TOOL, {"of": f"session {number}"}))
    return f"I have looked up session {number}." if roles == "uat" else llm.tool_calls(("transfer_to_desk", "{}"))


def measure_swarm_sessions(sessions: int, *, progress: Progress) -> SwarmSessions:
    """Each session says its number in two messages, and must hear it again from whoever is due; models and the tool see to it that nothing else is said there."""
    made: SwarmSessions = trio.run(_measure, sessions, progress)
    return made


async def _measure(sessions: int, progress: Progress) -> SwarmSessions:
    canary = Canary()
    chance = random.Random(7)
    looked_up: list[str] = []
    working = at_once = peak = ended = 0

    async def look_up(of: str) -> str:
        """Look a session up.

        Args:
            of: Which.
        """
        nonlocal working, at_once
        looked_up.append(of)
        working += 1
        at_once = max(at_once, working)
        await trio.sleep(chance.random() * LONGEST)
        working -= 1
        return f"It is {of}."

    async def session(number: int) -> None:
        nonlocal ended
        due = ((member_of(number), f"I have looked up session {number}."), ("desk", f"The desk says goodbye to session {number}."))
        for turn, expected in enumerate(due, 1):
            answer = await swarm.ask(rt.AgentMessage(f"This is session {number}, message {turn}.", session=f"s{number}"), timeout=PATIENCE)
            if (answer.sender, answer.content) != expected:
                raise BrokenBlock(f"session {number} was answered by {answer.sender} in message {turn}: {answer.content!r:.200}")
        ended += 1

    async def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, resident_bytes())
            progress(f"sessions: {ended:,} of {sessions:,} have ended")
            await trio.sleep(0.1)

    async with rt.ActorSystem("bench") as system:
        desk = await system.spawn(llm.Scripted, lambda request: _desk(canary, request), name="desk-model")
        model = await system.spawn(llm.Scripted, lambda request: _member(canary, request), name="model")
        members = {"desk": rt.Agent.spec(model=desk)}
        for number in range(MEMBERS):
            members[member_of(number)] = rt.Agent.spec(model=model, tools=[rt.tool(look_up, name=TOOL)], description="Looks things up.")
        swarm = await system.spawn(rt.Swarm, members, name="swarm")
        await session(sessions)  # what is loaded and compiled once is nobody's
        gc.collect()
        before = resident_bytes()
        cpu, began = time.process_time(), time.perf_counter()
        async with trio.open_nursery() as watching:
            watching.start_soon(watch)
            async with trio.open_nursery() as nursery:
                for number in range(sessions):
                    nursery.start_soon(session, number)
            watching.cancel_scope.cancel()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        peak = max(peak, resident_bytes())
        gc.collect()
        kept = resident_bytes()
    calls = CALLS * (sessions + 1)
    if canary.calls != calls or sorted(looked_up) != sorted(f"session {number}" for number in range(sessions + 1)):
        raise BrokenBlock(
            f"{canary.calls} calls of models where {calls} were due, and {len(looked_up)} of the tool by {sessions + 1} sessions"
        )
    calls -= CALLS
    return SwarmSessions(sessions, calls, at_once, seconds, cpu * 1e6 / calls, (peak - before) / sessions, (kept - before) / sessions)
