"""The law of `BehaviorTest`: an actor that needs no loop does there what it does in a system, whatever it is sent, in the same order and under the same authority."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
import retinue.testing as rtt

OPERATIONS = ("work.add", "work.read")


@rt.message
class Add(rt.Message):
    amount: int


@rt.message
class Total(rt.Request[int]):
    """Tell the observer, too."""


@rt.message
class Later(rt.Request[int]):
    """Answer when the next Release comes."""


@rt.message
class Release(rt.Message):
    """Answer those who wait."""


@rt.message
class Aside(rt.Request[str]):
    """Set aside while the total is odd."""


@rt.message
class Refuse(rt.Request[int]):
    """Reject it."""


@rt.message
class Report(rt.Message):
    text: str
    subject: str
    allowed: tuple[str, ...]


class Pure(rt.Actor):
    """Adds, tells an observer what it does and under which authority, defers and stashes."""

    def __init__(self, observer: rt.Ref[Any]) -> None:
        self.observer = observer
        self.total = 0
        self.waiting: list[Any] = []

    def report(self, text: str) -> None:
        security = self.ctx.security
        self.observer.tell(Report(text, security.subject, tuple(name for name in OPERATIONS if security.allows(name))))

    @rt.handler(requires="work.add")
    def add(self, message: Add) -> None:
        self.total += message.amount
        self.report(f"added {message.amount}")
        if self.total % 2 == 0:
            self.ctx.unstash_all()

    @rt.handler(requires="work.read")
    async def total_of(self, message: Total) -> int:
        await self.observer.send(Report("asked", self.ctx.security.subject, ()))
        return self.total

    @rt.handler
    def later(self, message: Later) -> int:
        self.waiting.append(self.ctx.defer())
        return 0

    @rt.handler
    def release(self, message: Release) -> None:
        while self.waiting:
            self.waiting.pop(0).reply(self.total)
            self.report("released")

    @rt.handler
    def aside(self, message: Aside) -> str:
        if self.total % 2:
            self.ctx.stash()
            self.report("set aside")
        return f"even: {self.total}"

    @rt.handler
    def refuse(self, message: Refuse) -> int:
        self.report("refused")
        raise rt.Reject("no")


messages = st.one_of(
    st.builds(Add, st.integers(-3, 3)), st.just(Total()), st.just(Later()), st.just(Release()), st.just(Aside()), st.just(Refuse())
)
subjects = st.sampled_from(("ada", "bob", None))
GRANTS = {"ada": ["work.*"], "bob": ["work.read"]}


def contexts(authority: Any) -> dict[str | None, Any]:
    return {None: None, **{subject: authority.mint(subject, permissions) for subject, permissions in GRANTS.items()}}


def by_hand(steps: list[tuple[Any, str | None]]) -> tuple[list[Any], list[Any]]:
    """What the observer is told, and each answer with the place of its request, in a BehaviorTest."""
    test = rtt.BehaviorTest(Pure, rtt.StandIn("observer"))
    minted = contexts(test.authority)
    for message, subject in steps:
        try:
            if isinstance(message, rt.Request):
                test.request(message, context=minted[subject])
            else:
                test.tell(message, context=minted[subject])
        except (rt.Denied, rt.Reject):
            pass
    told = [effect.message for effect in test.history if isinstance(effect, rtt.Told)]
    answers = [
        (type(effect.message), effect.value if effect.error is None else type(effect.error))
        for effect in test.history
        if isinstance(effect, rtt.Replied)
    ]
    return told, answers


async def in_a_system(steps: list[tuple[Any, str | None]]) -> tuple[list[Any], list[Any]]:
    """The same in a system with a probe."""
    answers: list[Any] = []
    async with trio.open_nursery() as nursery:
        async with rt.ActorSystem("law") as system:
            probe = await rtt.Probe.spawn(system)
            ref = await system.spawn(Pure, probe.ref)
            minted = contexts(system.authority)

            async def ask(message: Any, context: Any) -> None:
                try:
                    value: Any = await ref.ask(message, context=context)
                except rt.ActorStopped:
                    return  # it was not answered by the end
                except (rt.Denied, rt.Reject) as error:
                    value = type(error)
                answers.append((type(message), value))

            for message, subject in steps:
                if isinstance(message, rt.Request):
                    nursery.start_soon(ask, message, minted[subject])
                else:
                    ref.tell(message, context=minted[subject])
                await trio.testing.wait_all_tasks_blocked()
            told = list(probe.messages)
    return told, answers


sequences = st.lists(st.tuples(messages, subjects), max_size=12)


def check(steps: list[tuple[Any, str | None]]) -> None:
    told, answers = by_hand(steps)
    told_there, answers_there = trio.run(in_a_system, steps)
    assert told == told_there
    assert sorted(answers, key=repr) == sorted(answers_there, key=repr)


@given(sequences)
@settings(max_examples=25)
def test_a_pure_actor_does_by_hand_what_it_does_in_a_system(steps: list[tuple[Any, str | None]]) -> None:
    check(steps)


@pytest.mark.slow
@given(sequences)
@settings(max_examples=500)
def test_it_does_so_for_many_sequences(steps: list[tuple[Any, str | None]]) -> None:
    check(steps)
