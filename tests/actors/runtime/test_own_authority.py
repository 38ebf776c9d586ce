"""Births and an actor's own authority: a child has no more than its spawner had, depth ends, and what an actor may do in its own name is its manifest."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from core_authority import Touch, Vault, error_of
from core_puppet import Call, Do, Puppet, nothing, state_of
from retinue.actors.runtime.derivation import MAX_LEVELS

# -- births ------------------------------------------------------------------------------------------------------------------------------------------


async def dig(ref: Any, **options: Any) -> int:
    """How many actors deep it gets, each spawned by the one before."""
    depth = 0

    async def script(actor: Any) -> Any:
        return await actor.ctx.spawn(Puppet)

    while True:
        answer = await error_of(ref.ask(Do(script), **options))
        if not isinstance(answer, rt.Ref):
            assert isinstance(answer, rt.Denied)
            assert answer.reason == "depth"
            return depth
        ref = answer
        depth += 1


async def test_depth_falls_at_each_spawn_and_ends_at_zero(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet = await system.spawn(Puppet)
        for depth in (0, 1, 3):
            ada = system.authority.mint("ada", ["**", rt.limit(depth=depth)])
            assert await dig(puppet, context=ada) == depth
        assert await dig(await system.spawn(Puppet, grant=["**", rt.limit(depth=3)])) == 2, "the holder's spawn is one, too"
        assert isinstance(await error_of(system.spawn(Puppet, grant=["**", rt.limit(depth=0)])), rt.Denied)
        assert await puppet.ask(Call(nothing)) is None


async def test_the_depth_of_a_grant_bounds_whoever_asks(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet = await system.spawn(Puppet, grant=["**", rt.limit(depth=2)])
        assert await dig(puppet, context=system.authority.mint("ada", ["**", rt.limit(depth=9)])) == 1


async def test_no_actor_lives_deeper_than_32_levels(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet = await system.spawn(Puppet)
        assert await dig(puppet) == MAX_LEVELS - 1 == 31
        other = await system.spawn(Puppet)
        assert await dig(other, context=system.authority.mint("ada", ["**"])) == 31


async def test_a_restarted_child_has_the_grant_that_it_was_born_with(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault, front = await system.spawn(Vault), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["vault.touch", rt.limit(depth=2)])
        held: list[Any] = []

        async def script(actor: Any) -> None:
            held.append(await actor.ctx.spawn(Puppet, supervision=rt.Supervision(backoff=(0, 0))))

        await front.ask(Do(script), context=ada)
        (child,) = held

        async def use(_: Any) -> Any:
            return [await error_of(vault.ask(Touch())), type(await error_of(vault.ask(Touch(), context=system.authority.root)))]

        def fail(_: Any) -> None:
            raise ValueError("broken")

        before = await child.ask(Do(use))
        with pytest.raises(ValueError, match="broken"):
            await child.ask(Call(fail))
        assert await child.ask(Do(use)) == before == ["root", rt.Denied]
        assert await dig(child) == 1


async def test_a_spawn_opens_an_account_for_its_grant_and_charges_the_spawners(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        front, vault = await system.spawn(Puppet), await system.spawn(Vault)
        ada = system.authority.mint("ada", ["**", rt.limit(calls=5)])
        held: list[Any] = []

        async def spawn(actor: Any) -> None:
            held.extend([await actor.ctx.spawn(Puppet, grant=["**", rt.limit(calls=3)]) for _ in range(2)])

        await front.ask(Do(spawn), context=ada)

        async def use(_: Any) -> Any:
            return [await error_of(vault.ask(Touch())) for _ in range(4)]

        first, second = [[one for one in await child.ask(Do(use)) if one == "root"] for child in held]
        assert (len(first), len(second)) == (3, 2), "siblings cannot jointly exceed what their parent had"
        assert isinstance(await error_of(vault.ask(Touch(), context=ada)), rt.BudgetExceeded)


# -- an actor's own authority ------------------------------------------------------------------------------------------------------------------------


@rt.message
class Remember(rt.Request[Any]):
    """Have the script do it in a turn of the store."""

    script: Any


class Store(rt.Actor):
    """May touch the vault in its own name."""

    internal_operations = ("vault.touch", "vault.never")

    def __init__(self, vault: rt.Ref[Vault]) -> None:
        self.vault = vault
        self.kept: Any = None

    @rt.handler
    async def remember(self, message: Remember) -> Any:
        return await message.script(self)


async def through(actor: Any) -> Any:
    return await actor.vault.ask(Touch(), context=actor.ctx.own_authority("vault.touch"))


async def test_it_does_in_its_own_name_what_its_asker_may_not(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault)
        store = await system.spawn(Store, vault, grant=["vault.touch"], name="store")
        eve = system.authority.mint("eve", [])
        assert isinstance(await error_of(vault.ask(Touch(), context=eve)), rt.Denied)
        assert await store.ask(Remember(through), context=eve) == "root"
        (entry,) = await system.audit.entries(kind="amplification")
        assert (entry.operation, entry.path, entry.allowed) == ("vault.touch", "/user/store", True)
        assert "'eve'" in entry.detail


@pytest.mark.parametrize(
    ("operation", "reason"), [("vault.send", "permission"), ("vault.never", "permission"), ("vault.*", "permission"), (7, "permission")]
)
async def test_what_is_not_in_the_manifest_or_not_in_the_grant_is_refused(turn_system: rt.ActorSystem, operation: Any, reason: str) -> None:
    async with turn_system as system:
        store = await system.spawn(Store, await system.spawn(Vault), grant=["vault.touch", "vault.send"])

        async def script(actor: Any) -> None:
            actor.ctx.own_authority(operation)

        error = await error_of(store.ask(Remember(script)))
        assert isinstance(error, rt.Denied)
        assert error.reason == reason
        assert await system.audit.entries(kind="amplification") == ()


async def test_it_is_for_one_operation_and_carries_the_labels_of_the_turn(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault)
        store = await system.spawn(Store, vault)
        puppet = await system.spawn(Puppet)

        async def script(actor: Any) -> Any:
            actor.ctx.taint("web")
            own = actor.ctx.own_authority("vault.touch")
            actor.ctx.taint("mail")
            seen = await puppet.ask(Call(lambda it: (set(it.ctx.labels), it.ctx.security.allows("vault.send"))), context=own)
            return own.allows("vault.touch"), own.allows("vault.send"), set(own.labels), seen

        assert await store.ask(Remember(script)) == (True, False, {"web"}, ({"web", "mail"}, False))


async def test_it_is_for_the_turn_that_took_it_alone(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault)
        store = await system.spawn(Store, vault, grant=["vault.touch"])
        puppet = await system.spawn(Puppet)

        async def keep(actor: Any) -> Any:
            actor.kept = actor.ctx.own_authority("vault.touch")
            return actor.kept

        async def use(actor: Any, given: Any = None) -> Any:
            own = actor.kept if given is None else given
            return [await error_of(vault.ask(Touch(), context=one)) for one in (own, own.narrow(rt.deny("x.y")))]

        async def use_in_a_task(actor: Any) -> Any:
            own = actor.ctx.own_authority("vault.touch")
            found: list[Any] = []

            async def work() -> None:
                found.append(await error_of(vault.ask(Touch(), context=own)))

            await actor.ctx.start_soon(work).wait()
            return found

        own = await store.ask(Remember(keep))
        refused = [
            *await store.ask(Remember(use)),
            *await puppet.ask(Do(lambda actor: use(actor, own))),
            *await store.ask(Remember(use_in_a_task)),
            await error_of(vault.ask(Touch(), context=own)),
            await error_of(vault.ask(Touch(), context=own, detached=True)),
        ]
        assert [type(error) for error in refused] == [rt.Denied] * len(refused)
        assert {error.reason for error in refused} == {"lineage"}

        async def take_and_use(actor: Any) -> Any:
            own = actor.ctx.own_authority("vault.touch")
            first = await vault.ask(Touch(), context=own)
            return [first, await vault.ask(Touch(), context=own.narrow(rt.deny("x.y"))), *(await use(actor, own))]

        assert await store.ask(Remember(take_and_use)) == ["root"] * 4


async def test_whoever_is_asked_under_it_acts_under_it(turn_system: rt.ActorSystem) -> None:
    """What it sends on descends from the message's context, so it is current there and no stolen one."""
    async with turn_system as system:
        vault, puppet = await system.spawn(Vault), await system.spawn(Puppet)
        store = await system.spawn(Store, vault)
        eve = system.authority.mint("eve", [])

        async def relay(actor: Any) -> Any:
            return [await vault.ask(Touch()), await vault.ask(Touch(), context=actor.ctx.security.narrow(rt.deny("x.y")))]

        async def script(actor: Any) -> Any:
            return await puppet.ask(Do(relay), context=actor.ctx.own_authority("vault.touch"))

        assert await store.ask(Remember(script), context=eve) == ["root", "root"]


async def test_the_grant_itself_is_not_taken_though_it_is_just_that_operation(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault)
        store = await system.spawn(Store, vault, grant=["vault.touch"])

        async def script(actor: Any) -> Any:
            own = actor.ctx.own_authority("vault.touch")
            return own is actor._cell.grant, await vault.ask(Touch(), context=own), await error_of(vault.ask(Touch()))

        is_grant, first, second = await store.ask(Remember(script), context=system.authority.mint("ada", ["vault.**"]))
        assert (is_grant, first, second) == (False, "root", "ada")


async def test_who_has_no_authority_left_takes_none_of_the_actors(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault)
        store = await system.spawn(Store, vault)
        ada = system.authority.mint("ada", ["**"])

        async def script(actor: Any) -> Any:
            system_revoked.set()
            await revoked.wait()
            return type(await error_of(self_made(actor)))

        async def self_made(actor: Any) -> Any:
            return actor.ctx.own_authority("vault.touch")

        system_revoked, revoked = trio.Event(), trio.Event()
        found: list[Any] = []

        async def ask() -> None:
            found.append(await store.ask(Remember(script), context=ada))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await system_revoked.wait()
            system.authority.revoke(ada)
            revoked.set()
        assert found == [rt.Revoked]


async def test_where_it_cannot_be_recorded_it_is_not_given() -> None:
    class Full:
        """A sink that a test fills up."""

        recovered = ""
        full = False

        def last(self) -> None:
            return None

        def write(self, _: Any) -> None:
            if self.full:
                raise OSError("disk full")

        def close(self) -> None:
            pass

    sink = Full()
    async with rt.ActorSystem(audit=rt.AuditLog(b"k" * 32, sink=sink)) as system:
        vault = await system.spawn(Vault)
        store = await system.spawn(Store, vault)
        sink.full = True
        assert isinstance(await error_of(store.ask(Remember(through))), rt.AuditUnavailable)
        sink.full = False
        assert await store.ask(Remember(through)) == "root"


@pytest.mark.parametrize("manifest", ["vault.touch", ["vault.touch"], ("vault.*",), (7,), ("",)])
def test_a_manifest_is_a_tuple_of_operations(manifest: Any) -> None:
    with pytest.raises((rt.DefinitionError, rt.PatternError)):
        type("Wrong", (rt.Actor,), {"internal_operations": manifest})


async def test_an_actor_without_a_manifest_has_none(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet = await system.spawn(Puppet)
        error = await error_of(puppet.ask(Call(lambda actor: actor.ctx.own_authority("vault.touch"))))
        assert isinstance(error, rt.Denied)
        assert "internal_operations" in str(error)
        assert await state_of(puppet) == []
