"""Contract point 16: a message carries the authority it was sent under, an actor can only pass on what it got or less, and "no turn" is never root."""

from __future__ import annotations

import contextvars
import copy
import math
import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from core_puppet import Call, Do, Puppet, nothing, state_of
from retinue.actors.runtime import stepping


@rt.message
class Read(rt.Request[str]):
    pass


@rt.message
class Write(rt.Request[str]):
    pass


class Files(rt.Actor):
    """Two operations, and who asked for them."""

    @rt.handler(requires="fs.read")
    def read(self, _: Read) -> str:
        return self.ctx.security.subject

    @rt.handler(requires="fs.write")
    async def write(self, _: Write) -> str:
        await trio.lowlevel.checkpoint()
        return self.ctx.security.subject


@pytest.fixture(params=["inline", "by workers", "seeded"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> rt.ActorSystem:
    if request.param == "by workers":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return rt.ActorSystem("turns", block_warning=math.inf, seed=4 if request.param == "seeded" else None)


def another(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("another", block_warning=math.inf, **options)


async def subject_of(ref: rt.Ref[Any], **options: Any) -> Any:
    return await ref.ask(Call(lambda actor: actor.ctx.security.subject), **options)


async def error_of(asking: Any) -> Any:
    """The type of the error that it raises, else what it returns."""
    try:
        return await asking
    except Exception as error:
        return type(error)


# -- outside of all turns ------------------------------------------------------------------------------------------------------------------------------------


async def test_the_holder_and_its_child_tasks_act_under_the_root_context(system: rt.ActorSystem) -> None:
    async with system:
        ref = await system.spawn(Puppet)
        assert await subject_of(ref) == "root"
        seen: list[Any] = []

        async def child() -> None:
            seen.append(await subject_of(ref))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
        assert seen == ["root"]


async def test_an_explicit_context_of_this_system_is_taken_outside_of_turns(system: rt.ActorSystem) -> None:
    async with system:
        ref = await system.spawn(Files)
        ada = system.authority.mint("ada", ["fs.read"])
        assert await ref.ask(Read(), context=ada) == "ada"
        with pytest.raises(rt.Denied) as caught:
            await ref.ask(Write(), context=ada)
        assert caught.value.operation == "fs.write" and caught.value.subject == "ada" and caught.value.path == ref.path
        assert [actor.failures for actor in system.actors()] == [0]
        assert conserved(system)


async def test_root_permissions_of_the_system_bound_everything() -> None:
    async with another(permissions=["fs.read"]) as system:
        ref = await system.spawn(Files)
        assert await ref.ask(Read()) == "root"
        with pytest.raises(rt.Denied):
            await ref.ask(Write())
        assert (await ref.ask(Read(), context=system.authority.mint("ada", ["**"]))) == "ada"
        with pytest.raises(rt.Denied):
            await ref.ask(Write(), context=system.authority.mint("ada", ["**"]))


async def test_a_foreign_thread_has_no_authority(system: rt.ActorSystem) -> None:
    async with system:
        ref = await system.spawn(Puppet)
        found: dict[str, Any] = {}
        ada = system.authority.mint("ada", ["**"])

        def foreign() -> None:
            try:
                ref.tell(Call(nothing))
            except rt.RetinueError as error:
                found["without"] = type(error)
            found["with"] = ref.tell(Call(lambda actor: actor.log.append(actor.ctx.security.subject)), context=ada).accepted

        thread = threading.Thread(target=foreign)
        thread.start()
        await trio.to_thread.run_sync(thread.join)
        assert found == {"without": rt.NoContext, "with": True}
        await trio.testing.wait_all_tasks_blocked()
        assert await state_of(ref) == ["ada"]
        assert conserved(system)


async def test_a_thread_of_the_holder_has_no_authority_either(system: rt.ActorSystem) -> None:
    async with system:
        ref = await system.spawn(Puppet)

        def tell() -> Any:
            try:
                return ref.tell(Call(nothing))
            except rt.RetinueError as error:
                return type(error)

        assert await trio.to_thread.run_sync(tell) is rt.NoContext  # although its context variables were copied into the thread


async def test_a_task_that_is_nobodys_child_has_no_authority(system: rt.ActorSystem) -> None:
    async with system:
        ref = await system.spawn(Puppet)
        found: list[Any] = []

        async def stranger() -> None:
            for use in (ref.ask(Call(nothing)), ref.send(Call(nothing)), system.spawn(Puppet), ref.stop(), system.stop()):
                found.append(await error_of(use))
            with pytest.raises(rt.NoContext, match="context="):
                ref.tell(Call(nothing))

        trio.lowlevel.spawn_system_task(stranger)
        await trio.testing.wait_all_tasks_blocked()
        assert found == [rt.NoContext] * 5
        assert ref.alive
        assert system.statistics().sent == 0


async def test_the_root_mark_ends_with_the_system() -> None:
    async with another() as outer:
        ref = await outer.spawn(Puppet)
        async with another() as inner:
            other = await inner.spawn(Puppet)
            assert await subject_of(ref) == await subject_of(other) == "root"  # the task holds both
        assert await subject_of(ref) == "root"
        assert await error_of(other.ask(Call(nothing))) is rt.SystemClosed


# -- forged contexts --------------------------------------------------------------------------------------------------------------------------------------


async def test_a_forged_context_is_refused_everywhere(system: rt.ActorSystem) -> None:
    async with system, another() as other:
        ref = await system.spawn(Puppet)
        forged = [object.__new__(rt.SecurityContext), "root", 1, other.authority.root, other.authority.mint("ada", ["**"])]
        for context in forged:
            assert await error_of(ref.ask(Call(nothing), context=context)) is rt.ForgedContext  # type: ignore[arg-type]
            assert await error_of(ref.send(Call(nothing), context=context)) is rt.ForgedContext  # type: ignore[arg-type]
            with pytest.raises(rt.ForgedContext):
                ref.tell(Call(nothing), context=context)  # type: ignore[arg-type]

            async def inside(_: Any, context: Any = context) -> Any:
                return await error_of(ref.ask(Call(nothing), context=context))

            asker = await system.spawn(Puppet)
            assert await asker.ask(Do(inside)) is rt.ForgedContext
        with pytest.raises(TypeError):
            copy.copy(system.authority.root)
        assert conserved(system)


# -- inside a turn ------------------------------------------------------------------------------------------------------------------------------------------


async def test_what_a_handler_sends_carries_the_context_of_its_message(system: rt.ActorSystem) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**"])

        async def pass_on(_: Any) -> list[Any]:
            return [await subject_of(back), await subject_of(back, context=None)]

        assert await front.ask(Do(pass_on), context=ada) == ["ada", "ada"]
        assert await front.ask(Do(pass_on)) == ["root", "root"]


async def test_an_explicit_context_in_a_turn_must_descend_from_the_current_one(system: rt.ActorSystem) -> None:
    async with system:
        front, files = await system.spawn(Puppet), await system.spawn(Files)
        ada = system.authority.mint("ada", ["fs.**"])
        wider = system.authority.mint("eve", ["**"])

        async def try_all(actor: Any) -> dict[str, Any]:
            mine = actor.ctx.security
            narrow = mine.narrow(rt.allow("fs.read"))
            return {
                "own": await error_of(files.ask(Read(), context=mine)),
                "narrower": await error_of(files.ask(Read(), context=narrow)),
                "narrower, refused": await error_of(files.ask(Write(), context=narrow)),
                "minted": await error_of(files.ask(Read(), context=wider)),
                "root": await error_of(files.ask(Read(), context=system.authority.root)),
                "narrowed from another": await error_of(files.ask(Read(), context=wider.narrow(rt.allow("fs.read")))),
                "sent": await error_of(files.send(Read(), context=wider)),
            }

        assert await front.ask(Do(try_all), context=ada) == {
            "own": "ada",
            "narrower": "ada",
            "narrower, refused": rt.Denied,
            "minted": rt.Denied,
            "root": rt.Denied,
            "narrowed from another": rt.Denied,
            "sent": rt.Denied,
        }

        def tell_wider(actor: Any) -> None:
            with pytest.raises(rt.Denied, match="descend|current context"):
                files.tell(Read(), context=wider)

        await front.ask(Call(tell_wider), context=ada)
        assert [actor.failures for actor in system.actors()] == [0, 0]


async def test_the_context_that_a_message_was_narrowed_to_cannot_be_widened_by_the_next_actor(system: rt.ActorSystem) -> None:
    async with system:
        front, middle, files = await system.spawn(Puppet), await system.spawn(Puppet), await system.spawn(Files)
        ada = system.authority.mint("ada", ["fs.**"])

        async def use(_: Any) -> list[Any]:
            return [await error_of(files.ask(Read())), await error_of(files.ask(Write())), await error_of(files.ask(Write(), context=ada))]

        async def narrow_and_ask(actor: Any) -> Any:
            return await middle.ask(Do(use), context=actor.ctx.security.narrow(rt.allow("fs.read")))

        assert await front.ask(Do(narrow_and_ask), context=ada) == ["ada", rt.Denied, rt.Denied]


async def test_a_grant_bounds_what_an_actor_takes_part_in_whoever_asks(system: rt.ActorSystem) -> None:
    async with system:
        files = await system.spawn(Files, grant=["fs.read"])
        nobody = await system.spawn(Files, grant=[])
        assert await files.ask(Read()) == "root"
        assert await error_of(files.ask(Write())) is rt.Denied
        assert await error_of(nobody.ask(Read())) is rt.Denied
        assert conserved(system)


async def test_a_grant_bounds_what_goes_through_an_actor(system: rt.ActorSystem) -> None:
    async with system:
        proxy, files = await system.spawn(Puppet, grant=["fs.read"]), await system.spawn(Files)

        async def use(_: Any) -> list[Any]:
            return [await error_of(files.ask(Read())), await error_of(files.ask(Write()))]

        assert await proxy.ask(Do(use)) == ["root", rt.Denied]


async def test_a_child_gets_no_more_than_its_spawners_message_permits(system: rt.ActorSystem) -> None:
    async with system:
        parent = await system.spawn(Puppet)
        reader = system.authority.mint("reader", ["fs.read"])

        async def spawn_child(actor: Any) -> Any:
            return await actor.ctx.spawn(Files, grant=["**"])

        child = await parent.ask(Do(spawn_child), context=reader)
        assert await child.ask(Read()) == "root"
        assert await error_of(child.ask(Write())) is rt.Denied  # even from the root: the grant was made under the reader's authority

        async def spawn_at_the_top(_: Any) -> Any:
            return await system.spawn(Files, grant=["**"])  # whichever object a handler holds

        top = await parent.ask(Do(spawn_at_the_top), context=reader)
        assert await error_of(top.ask(Write())) is rt.Denied


async def test_hooks_and_the_resident_loop_act_under_the_grant(autojump_clock: MockClock) -> None:
    seen: dict[str, bool] = {}

    class Hooked(rt.Actor):
        def __init__(self) -> None:
            seen["init"] = self.ctx.security.allows("fs.write")

        async def on_start(self) -> None:
            seen["on_start"] = self.ctx.security.allows("fs.write")

        async def run(self) -> None:
            seen["run"] = self.ctx.security.allows("fs.write")

        def on_stop(self, reason: str) -> None:
            seen["on_stop"] = self.ctx.security.allows("fs.write")

    async with another() as system:
        await system.spawn(Hooked, grant=["fs.read"])
        await trio.sleep(1)
    assert seen == {"init": False, "on_start": False, "run": False, "on_stop": False}


async def test_a_restarted_actor_has_the_grant_it_was_spawned_with(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    def fail(_: Any) -> None:
        raise ValueError("restart me")

    async with system:
        ref = await system.spawn(Puppet, grant=["fs.read"])
        ref.tell(Call(fail))
        await trio.sleep(1)
        assert await ref.ask(Call(lambda actor: (actor.ctx.security.allows("fs.read"), actor.ctx.security.allows("fs.write")))) == (
            True,
            False,
        )


async def test_alternating_senders_never_get_each_others_verdict(system: rt.ActorSystem) -> None:
    async with system:
        files = await system.spawn(Files)
        reader, writer = system.authority.mint("reader", ["fs.read"]), system.authority.mint("writer", ["fs.write"])
        for _ in range(10):
            assert await files.ask(Read(), context=reader) == "reader"
            assert await error_of(files.ask(Read(), context=writer)) is rt.Denied
            assert await files.ask(Write(), context=writer) == "writer"
            assert await error_of(files.ask(Write(), context=reader)) is rt.Denied
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(files.ask, Read())
                files.tell(Read(), context=writer)
                files.tell(Write(), context=reader)
        await system.wait_quiet()
        assert reasons(system) == {"denied": 20}
        assert conserved(system)


# -- background work, threads, fresh contexts -----------------------------------------------------------------------------------------------------------


async def test_background_work_keeps_the_context_of_the_message_that_started_it(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system, trio.open_nursery() as nursery:
        ref, back = await system.spawn(Puppet), await system.spawn(Puppet)
        ada, eve = system.authority.mint("ada", ["**"]), system.authority.mint("eve", ["**"])
        seen: list[Any] = []

        def start(actor: Any) -> None:
            async def work(how: str) -> None:
                await trio.sleep(5)
                seen.append((how, await subject_of(back)))

            actor.ctx.start_soon(work, "owned")
            nursery.start_soon(work, "in a foreign nursery")  # it copies the context variables of the handler

        await ref.ask(Call(start), context=ada)
        for _ in range(3):
            await ref.ask(Call(nothing), context=eve)
            await trio.sleep(1)
        await trio.sleep(5)
        assert sorted(seen) == [("in a foreign nursery", "ada"), ("owned", "ada")]


async def test_tasks_of_a_handlers_own_nursery_act_under_its_message(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        ref, back = await system.spawn(Puppet), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**"])

        async def fan_out(_: Any) -> list[Any]:
            seen: list[Any] = []

            async def one() -> None:
                await trio.sleep(1)
                seen.append(await subject_of(back))

            async with trio.open_nursery() as nursery:
                for _number in range(3):
                    nursery.start_soon(one)
            return seen

        assert await ref.ask(Do(fan_out), context=ada) == ["ada"] * 3


async def test_a_thread_started_in_a_turn_is_nobodys_turn(system: rt.ActorSystem) -> None:
    async with system:
        ref, back = await system.spawn(Puppet), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**"])

        async def use_thread(actor: Any) -> Any:
            def in_thread() -> list[Any]:
                found = []
                for use in (lambda: back.tell(Call(nothing)), lambda: actor.ctx.security, lambda: actor.ctx.stop()):
                    try:
                        found.append(use())
                    except rt.RetinueError as error:
                        found.append(type(error))
                return found

            return await trio.to_thread.run_sync(in_thread)

        assert await ref.ask(Do(use_thread), context=ada) == [rt.NoContext] * 3
        assert ref.alive


async def test_a_fresh_context_in_a_handler_is_not_root(system: rt.ActorSystem) -> None:
    async with system:
        ref, back = await system.spawn(Puppet), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["fs.read"])

        async def sneak(_: Any) -> dict[str, Any]:
            found: dict[str, Any] = {}

            def tell() -> Any:
                try:
                    return back.tell(Call(nothing))
                except rt.RetinueError as error:
                    return type(error)

            def mint() -> Any:
                try:
                    return system.authority.mint("eve", ["**"])
                except rt.RetinueError as error:
                    return type(error)

            found["fresh, tell"] = contextvars.Context().run(tell)
            found["fresh, mint"] = contextvars.Context().run(mint)
            found["copy, tell"] = contextvars.copy_context().run(tell).accepted
            found["copy, mint"] = contextvars.copy_context().run(mint)
            found["mint"] = mint()
            done = trio.Event()

            async def in_a_system_task() -> None:
                found["system task, tell"] = tell()
                found["system task, ask"] = await error_of(back.ask(Call(nothing)))
                found["system task, spawn"] = await error_of(system.spawn(Puppet))
                found["system task, stop"] = await error_of(system.stop())
                done.set()

            trio.lowlevel.spawn_system_task(in_a_system_task)
            await done.wait()
            return found

        assert await ref.ask(Do(sneak), context=ada) == {
            "fresh, tell": rt.NoContext,
            "fresh, mint": rt.Denied,
            "copy, tell": True,
            "copy, mint": rt.Denied,
            "mint": rt.Denied,
            "system task, tell": rt.NoContext,
            "system task, ask": rt.NoContext,
            "system task, spawn": rt.NoContext,
            "system task, stop": rt.NoContext,
        }
        assert conserved(system)


async def test_nothing_in_a_handler_can_mint(system: rt.ActorSystem) -> None:
    async with system, another() as other:
        ref = await system.spawn(Puppet)

        def mint(actor: Any) -> list[Any]:
            found = []
            for authority in (system.authority, other.authority):
                try:
                    found.append(authority.mint("eve", ["**"]))
                except rt.Denied as error:
                    found.append(type(error))
            return found

        assert await ref.ask(Call(mint)) == [rt.Denied, rt.Denied]


async def test_an_actor_of_another_system_has_no_authority_here(system: rt.ActorSystem) -> None:
    async with another() as other, system:
        ref, foreign = await system.spawn(Puppet), await other.spawn(Puppet)
        ada = system.authority.mint("ada", ["**"])

        async def reach_over(actor: Any) -> list[Any]:
            return [
                await error_of(ref.ask(Call(nothing))),
                await error_of(ref.ask(Call(nothing), context=actor.ctx.security)),
                await error_of(system.spawn(Puppet)),
                await error_of(ref.stop()),
                await error_of(subject_of(ref, context=ada)),  # somebody gave it to the actor, who holds it and may use it
            ]

        assert await foreign.ask(Do(reach_over)) == [rt.NoContext, rt.ForgedContext, rt.NoContext, rt.NoContext, "ada"]
        assert ref.alive


async def test_ctx_belongs_to_its_own_turn(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        ref, other = await system.spawn(Puppet), await system.spawn(Puppet)
        ctx = await ref.ask(Call(lambda actor: actor.ctx))
        for use in (lambda: ctx.security, lambda: ctx.message, lambda: ctx.defer(), lambda: ctx.stash(), lambda: ctx.stop()):
            with pytest.raises(rt.NoContext, match="no turn of"):
                use()

        def use_others(_: Any) -> Any:
            with pytest.raises(rt.NoContext):
                ctx.start_soon(trio.sleep_forever)

        await other.ask(Call(use_others))
        assert ref.alive


async def test_the_view_of_the_system_can_look_and_not_act(system: rt.ActorSystem) -> None:
    async with system:
        ref = await system.spawn(Puppet, name="looked-at")
        view = await ref.ask(Call(lambda actor: actor.ctx.system))
        assert view.name == "turns" and view.statistics().actors == 1
        for forbidden in ("spawn", "stop", "audit", "mint"):
            assert not hasattr(view, forbidden)
        with pytest.raises(rt.Denied, match=r"an actor cannot approve"):
            _ = view.approvals
        with pytest.raises(rt.Denied, match=r"an actor cannot mint.* Fix: narrow the context of the message, self\.ctx\.security\.narrow"):
            view.authority.mint("eve", ["**"])


async def test_the_reply_carries_no_authority(system: rt.ActorSystem) -> None:
    async with system:
        asker, files = await system.spawn(Puppet), await system.spawn(Files)
        reader = system.authority.mint("reader", ["fs.read"])

        async def take_context(_: Any) -> Any:
            rich = await asker_of_root.ask(Call(lambda actor: actor.ctx.security))
            return await error_of(files.ask(Write(), context=rich))

        asker_of_root = await system.spawn(Puppet)
        root = await asker_of_root.ask(Call(lambda actor: actor.ctx.security))
        assert root.subject == "root"

        async def use(_: Any) -> Any:
            return await error_of(files.ask(Write(), context=root))

        assert await asker.ask(Do(use), context=reader) is rt.Denied
        assert await asker.ask(Do(take_context), context=reader) is rt.Denied


async def test_a_deferred_and_a_forwarded_message_keep_their_contexts(system: rt.ActorSystem) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet, grant=["fs.read"])
        ada = system.authority.mint("ada", ["fs.**"])

        def hand_over(actor: Any) -> None:
            actor.ctx.forward(back, Call(lambda it: (it.ctx.security.subject, it.ctx.security.allows("fs.write"))))

        assert await front.ask(Call(hand_over), context=ada) == ("ada", False)


async def test_an_approval_handler_refuses_until_there_is_a_desk(system: rt.ActorSystem) -> None:
    @rt.message
    class Pay(rt.Request[int]):
        pass

    paid: list[int] = []

    class Till(rt.Actor):
        @rt.handler(requires="payments.send", approval=True)
        def pay(self, _: Pay) -> int:
            paid.append(1)
            return 1

    async with system:
        ref = await system.spawn(Till)
        with pytest.raises(rt.ApprovalRequired) as caught:
            await ref.ask(Pay())
        assert caught.value.operation == "payments.send"
        ref.tell(Pay())
        await system.wait_quiet()
        assert paid == []
        assert reasons(system) == {"denied": 1}
        assert [actor.failures for actor in system.actors()] == [0]
        assert conserved(system)
