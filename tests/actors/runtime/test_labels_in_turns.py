"""Labels: added by whoever touches something, carried by what is sent, given back with every answer, and never taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

import retinue as rt
from core_authority import Touch, Vault, error_of
from core_puppet import Call, Do, Pour, Puppet, state_of


def web(actor: Any) -> str:
    """A script that touches the web."""
    actor.ctx.taint("web")
    return "from the web"


async def web_soon(actor: Any) -> str:
    await trio.lowlevel.checkpoint()
    actor.ctx.taint("web")
    await trio.lowlevel.checkpoint()
    return "from the web"


def broken(actor: Any) -> None:
    actor.ctx.taint("web")
    raise rt.Reject("from the web")


async def web_items(actor: Any) -> Any:
    yield "clean"
    actor.ctx.taint("web")
    yield "from the web"


def labels_of(actor: Any) -> set[str]:
    return set(actor.ctx.labels)


Ask = Callable[[Any, rt.Ref[Any], rt.Ref[Any]], Any]
"""A handler's way to something from the web: the actor, a source, and a second actor in between."""


async def plainly(_: Any, source: Any, __: Any) -> None:
    await source.ask(Call(web))


async def suspended(_: Any, source: Any, __: Any) -> None:
    await source.ask(Do(web_soon))


async def detached(_: Any, source: Any, __: Any) -> None:
    await source.ask(Call(web), detached=True)


async def an_error(_: Any, source: Any, __: Any) -> None:
    with pytest.raises(rt.Reject):
        await source.ask(Call(broken))


async def a_suspended_error(_: Any, source: Any, __: Any) -> None:
    async def script(actor: Any) -> None:
        await trio.lowlevel.checkpoint()
        broken(actor)

    with pytest.raises(rt.Reject):
        await source.ask(Do(script))


async def through_another(_: Any, source: Any, between: Any) -> None:
    async def script(_: Any) -> Any:
        return await source.ask(Call(web))

    await between.ask(Do(script))


async def forwarded(_: Any, source: Any, between: Any) -> None:
    await between.ask(Call(lambda actor: actor.ctx.forward(source, Call(web))))


async def forwarded_by_who_touched_it(_: Any, source: Any, between: Any) -> None:
    def script(actor: Any) -> None:
        actor.ctx.taint("web")
        actor.ctx.forward(source, Call(lambda _: "clean"))

    await between.ask(Call(script))


async def deferred(_: Any, source: Any, __: Any) -> None:
    """Deferred by a turn that touched it, answered by one that did not."""

    def defer(actor: Any) -> None:
        actor.ctx.taint("web")
        actor.log.append(actor.ctx.defer())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.ask, Call(defer))
        await wait_all_tasks_blocked()
        await source.ask(Call(lambda actor: actor.log[0].reply("late")))


async def answered_by_another_turn(_: Any, source: Any, between: Any) -> None:
    """Deferred by a clean turn, answered by one that touched the web, which is another actor's."""
    held: list[Any] = []

    def answer(actor: Any) -> None:
        actor.ctx.taint("web")
        held[0].reply("from the web")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.ask, Call(lambda actor: held.append(actor.ctx.defer())))
        await wait_all_tasks_blocked()
        between.tell(Call(answer))


async def failed_by_another_turn(_: Any, source: Any, between: Any) -> None:
    held: list[Any] = []

    def answer(actor: Any) -> None:
        actor.ctx.taint("web")
        held[0].fail(rt.Reject("from the web"))

    async def ask() -> None:
        with pytest.raises(rt.Reject):
            await source.ask(Call(lambda actor: held.append(actor.ctx.defer())))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        between.tell(Call(answer))


async def a_stream(_: Any, source: Any, __: Any) -> None:
    async with source.stream(Pour(web_items)) as items:
        assert [item async for item in items] == ["clean", "from the web"]


async def the_error_of_a_stream(_: Any, source: Any, __: Any) -> None:
    async def script(actor: Any) -> Any:
        actor.ctx.taint("web")
        raise rt.Reject("from the web")
        yield

    with pytest.raises(rt.Reject):
        async with source.stream(Pour(script)) as items:
            async for _ in items:
                pass


async def one_of_several(_: Any, source: Any, between: Any) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.ask, Call(web))
        nursery.start_soon(between.ask, Call(labels_of))


async def an_actor_whose_grant_is_labelled(actor: Any, source: Any, _: Any) -> None:
    """A child that was made from what came from the web answers nothing clean."""
    child = await source.ask(Do(spawn_after_touching))
    await child.ask(Call(labels_of))


async def spawn_after_touching(actor: Any) -> Any:
    actor.ctx.taint("web")
    return await actor.ctx.spawn(Puppet)


WAYS: dict[str, Ask] = {
    function.__name__: function
    for function in (
        plainly,
        suspended,
        detached,
        an_error,
        a_suspended_error,
        through_another,
        forwarded,
        forwarded_by_who_touched_it,
        deferred,
        answered_by_another_turn,
        failed_by_another_turn,
        a_stream,
        the_error_of_a_stream,
        one_of_several,
        an_actor_whose_grant_is_labelled,
    )
}


@pytest.mark.parametrize("way", WAYS)
async def test_whichever_way_an_answer_comes_it_brings_its_labels(turn_system: rt.ActorSystem, way: str) -> None:
    async with turn_system as system:
        reader, source, between = [await system.spawn(Puppet) for _ in range(3)]
        mail = await system.spawn(Vault)
        ada = system.authority.mint("ada", ["**", rt.unlabelled("vault.**", labels=["web"])])
        seen: list[Any] = []

        async def script(actor: Any) -> None:
            seen.append(set(actor.ctx.labels))
            seen.append(await error_of(mail.ask(Touch("before"))))
            await WAYS[way](actor, source, between)
            seen.append(set(actor.ctx.labels))
            seen.append(await error_of(mail.ask(Touch("after"))))
            seen.append(await source.ask(Call(labels_of)))
            mail.tell(Touch("told"))

        await reader.ask(Do(script), context=ada)
        assert seen[:2] == [set(), "ada"]
        assert seen[2] == {"web"}
        assert isinstance(seen[3], rt.Denied)
        assert seen[4] == {"web"}, "what it sends carries them"
        await system.wait_quiet()
        assert system.dead_letters.counts["denied"] == 1
        assert await reader.ask(Call(labels_of), context=ada) == set(), "the next message is another turn"


@pytest.mark.parametrize("starts", ["a task", "a pipe", "a child", "a task before"])
async def test_what_a_turn_starts_carries_the_labels_that_it_had_then(turn_system: rt.ActorSystem, starts: str) -> None:
    async with turn_system as system:
        puppet, other = await system.spawn(Puppet), await system.spawn(Puppet)

        async def report(actor: Any) -> None:
            actor.log.append(await other.ask(Call(labels_of)))

        async def value() -> str:
            return "x"

        async def script(actor: Any) -> None:
            if starts == "a task before":
                actor.ctx.start_soon(report, actor)
            actor.ctx.taint("web", "mail")
            if starts == "a task":
                actor.ctx.start_soon(report, actor)
            elif starts == "a pipe":
                actor.ctx.pipe_to_self(value(), then=lambda _: Call(lambda it: it.log.append(labels_of(it))))
            elif starts == "a child":
                child = await actor.ctx.spawn(Puppet)
                actor.log.append(await child.ask(Call(labels_of)))

        await puppet.ask(Do(script))
        await wait_all_tasks_blocked()
        await system.wait_quiet()
        assert await state_of(puppet) == [set() if starts == "a task before" else {"web", "mail"}]


async def test_a_task_gets_the_labels_of_what_it_asks_itself(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet, source = await system.spawn(Puppet), await system.spawn(Puppet)

        def script(actor: Any) -> None:
            async def work() -> None:
                await source.ask(Call(web))
                actor.ctx.ref.tell(Call(lambda it: it.log.append(labels_of(it))))

            actor.ctx.start_soon(work)
            actor.ctx.pipe_to_self(source.ask(Call(web)), then=lambda _: Call(lambda it: it.log.append(labels_of(it))))

        await puppet.ask(Call(script))
        await wait_all_tasks_blocked()
        assert await state_of(puppet) == [{"web"}, {"web"}]


async def test_a_context_that_was_narrowed_before_the_labels_came_carries_them_all_the_same(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet, source = await system.spawn(Puppet), await system.spawn(Puppet)
        mail = await system.spawn(Vault)
        ada = system.authority.mint("ada", ["**", rt.unlabelled("vault.**", labels=["web"])])

        async def script(actor: Any) -> list[Any]:
            narrow = actor.ctx.security.narrow(rt.deny("fs.**"))
            before = actor.ctx.security
            clean = await source.ask(Call(labels_of), context=narrow)
            await source.ask(Call(web), context=narrow)
            return [
                clean,
                await source.ask(Call(lambda it: (labels_of(it), it.ctx.security.allows("fs.read"))), context=narrow),
                await source.ask(Call(labels_of), context=before),
                await error_of(mail.ask(Touch(), context=before)),
                await error_of(source.ask(Call(labels_of), context=ada)),
                await error_of(source.ask(Call(labels_of), context=system.authority.root)),
            ]

        found = await puppet.ask(Do(script), context=ada.narrow(rt.deny("x.y")))
        assert found[:3] == [set(), ({"web"}, False), {"web"}]
        assert [type(error) for error in found[3:]] == [rt.Denied] * 3
        assert [error.reason for error in found[3:]] == ["permission", "lineage", "lineage"]


async def test_labels_come_back_from_an_actor_that_was_asked_under_labels(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet, other = await system.spawn(Puppet), await system.spawn(Puppet)

        async def script(actor: Any) -> set[str]:
            await other.ask(Call(labels_of), context=actor.ctx.security.narrow(rt.label("web")))
            return labels_of(actor)

        assert await puppet.ask(Do(script)) == {"web"}


async def test_a_label_is_a_name_and_a_hook_may_add_one(turn_system: rt.ActorSystem) -> None:
    seen: list[Any] = []

    class Hooked(rt.Actor):
        async def on_start(self) -> None:
            self.ctx.taint("web")
            seen.append(await self.ctx.system.find("/user/source").ask(Call(labels_of)))

    async with turn_system as system:
        source = await system.spawn(Puppet, name="source")
        await system.spawn(Hooked)
        assert seen == [{"web"}]

        def script(actor: Any) -> None:
            for wrong in ("", "a b", 7, "x" * 1000):
                with pytest.raises((rt.ConstraintError, rt.DefinitionError)):
                    actor.ctx.taint(wrong)
            assert labels_of(actor) == set()

        await source.ask(Call(script))


async def test_without_labels_answers_are_not_looked_at(turn_system: rt.ActorSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    from retinue.actors.runtime import asking, deferred, outcomes, ref

    def never(*_: Any) -> None:
        raise AssertionError("there are no labels")

    for module in (asking, deferred, outcomes, ref):
        monkeypatch.setattr(module, "answered", never)
    async with turn_system as system:
        puppet, other = await system.spawn(Puppet, grant=["fs.*"]), await system.spawn(Puppet)

        async def script(_: Any) -> str:
            await other.ask(Call(lambda _: 1), detached=True)
            return await other.ask(Call(lambda _: "done"))

        assert await puppet.ask(Do(script)) == "done"
