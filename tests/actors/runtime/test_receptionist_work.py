"""What the receptionist has to do for each change, counted in looks at permissions and listings made, not in time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import retinue as rt
from core_hosts import conserved, reasons
from retinue.actors.runtime import pools, receptionist
from retinue.security.audit import AuditLog
from topic_actors import plain_system


@rt.message
class Hello(rt.Message):
    pass


@rt.message
class Seen(rt.Request[int]):
    pass


class Peer(rt.Actor):
    """Offers the service, and follows it."""

    def __init__(self) -> None:
        self.listed: tuple[rt.Ref[Any], ...] = ()
        self.listings = 0

    def on_start(self) -> None:
        self.ctx.receptionist.register(PEERS)
        self.ctx.receptionist.subscribe(PEERS)

    @rt.handler(requires="peer.hello")
    def hello(self, _: Hello) -> None:
        pass

    @rt.handler
    def seen(self, _: Seen) -> int:
        return len(self.listed)

    @rt.handler
    def peers(self, listing: rt.Listing) -> None:
        self.listed = listing.refs
        self.listings += 1


PEERS = rt.ServiceKey("peers", Peer)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what is looked at and made."""
    counts: Counter[str] = Counter()
    may_send_to, may_address, shown_to = receptionist.may_send_to, pools.may_address, receptionist.Receptionist.shown_to

    def counted_send(security: Any, target: Any) -> bool:
        counts["looks"] += 1
        return may_send_to(security, target)

    def counted_address(security: Any, cell: Any, target: Any) -> bool:
        counts["looks"] += 1
        return may_address(security, cell, target)

    def counted_shown(self: Any, follower: Any) -> Any:
        counts["listings"] += 1
        return shown_to(self, follower)

    monkeypatch.setattr(receptionist, "may_send_to", counted_send)
    monkeypatch.setattr(pools, "may_address", counted_address)
    monkeypatch.setattr(receptionist.Receptionist, "shown_to", counted_shown)
    return counts


async def test_peers_that_register_and_follow_are_looked_at_once_each(work: Counter[str]) -> None:
    async with plain_system() as system:
        peers = [await system.spawn(Peer) for _ in range(60)]
        await system.wait_quiet()
        assert work["looks"] == 60
        assert [await peer.ask(Seen()) for peer in peers] == [60] * 60
        await peers[7].stop()
        await system.wait_quiet()
        assert work["looks"] == 60
        assert await peers[0].ask(Seen()) == 59
        assert conserved(system)


async def test_a_listing_is_made_when_its_actor_takes_it_and_not_for_each_change(work: Counter[str]) -> None:
    async with plain_system() as system:
        peers = [await system.spawn(Peer) for _ in range(10)]
        others = [await system.spawn(Peer) for _ in range(40)]
        await system.wait_quiet()
        work.clear()
        for ref in others:  # no checkpoint: nothing is handled meanwhile
            system.receptionist.unregister(PEERS, ref)
        assert work == {}
        await system.wait_quiet()
        assert work == {"listings": 50}
        assert [await peer.ask(Seen()) for peer in (*peers, *others)] == [10] * 50


async def test_followers_of_one_authority_share_what_is_seen_and_others_have_their_own(work: Counter[str]) -> None:
    async with plain_system() as system:
        ada = [await system.spawn(Peer, grant=["peer.*"]) for _ in range(5)]
        eve = [await system.spawn(Peer, grant=["files.*"]) for _ in range(5)]
        await system.wait_quiet()
        service = system._kernel.receptionist._services["peers"]
        assert len(service.views) <= 10
        before, work["looks"] = len(service.views), 0
        more = await system.spawn(Peer, grant=["peer.*"])
        await system.wait_quiet()
        assert work["looks"] <= 2 * (before + 11)
        assert [await ref.ask(Seen()) for ref in (*ada, *eve, more)] == [11] * 11  # `seen` is open to all
        for ref in (*ada, *eve, more):
            await ref.stop()
        assert system._kernel.receptionist._services == {}


async def test_views_go_with_the_last_who_uses_them() -> None:
    async with plain_system() as system:
        peer = await system.spawn(Peer)
        service = system._kernel.receptionist._services["peers"]
        for number in range(20):
            context = system.authority.mint(f"user{number}", ["**"])
            follower = service.followers[peer._cell]
            system._kernel.receptionist.follow(PEERS, peer._cell, context)
            assert service.followers[peer._cell] is follower and list(service.views.values()) == [follower.view]
        await peer.stop()
        assert service.views == {}


async def test_members_of_a_group_are_looked_at_when_they_come_and_not_again(work: Counter[str]) -> None:
    async with plain_system() as system:
        refs = [await system.spawn(Peer) for _ in range(20)]
        group = await system.spawn_group(PEERS, pool=rt.Pool.round_robin())
        assert len(group._cell.places) == 20
        work.clear()
        more = [await system.spawn(Peer) for _ in range(20)]
        assert work["looks"] == 2 * 20  # one for the followers' view, one for the group
        system.receptionist.unregister(PEERS, refs[3])
        await system.wait_quiet()
        await refs[4].stop()
        assert work["looks"] == 2 * 20
        assert {place.cell.ref for place in group._cell.places} == {*refs[:3], *refs[5:], *more}
        for _ in range(38):
            group.tell(Hello())
        await system.wait_quiet()
        assert reasons(system) == {} and conserved(system)


async def test_nobody_is_told_of_the_end_of_all(work: Counter[str]) -> None:
    async with plain_system() as system:
        for _ in range(20):
            await system.spawn(Peer)
        await system.spawn_group(PEERS, pool=rt.Pool.round_robin())
        await system.wait_quiet()
        work.clear()
    assert work == {}
    assert reasons(system) == {}


async def test_an_end_that_cannot_be_recorded_hits_that_subscriber_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Shopper(Peer):
        def on_start(self) -> None: ...

        @rt.handler
        def hello(self, _: Hello) -> None:
            self.ctx.receptionist.subscribe(PEERS)
            self.ctx.topics.subscribe(HELLOS)

    def broken(*_: Any, **__: Any) -> Any:
        raise rt.AuditUnavailable("the disk is full")

    async with plain_system() as system:
        shopper, fine = await system.spawn(Shopper), await system.spawn(Shopper)
        ada = system.authority.mint("ada", ["**"])
        shopper.tell(Hello(), context=ada)
        fine.tell(Hello())
        await system.wait_quiet()
        system.authority.revoke(ada)
        with monkeypatch.context() as patched, caplog.at_level("ERROR"):
            patched.setattr(AuditLog, "record", broken)
            system.receptionist.register(PEERS, fine)
            assert system.topics.publish(HELLOS, Hello()).subscribers == 1
        assert [record.message.count("could not be recorded") for record in caplog.records] == [1, 1]
        await system.wait_quiet()
        assert system.topics.subscribers(HELLOS) == (fine,)
        assert set(system._kernel.receptionist._services["peers"].followers) == {fine._cell}
        assert await fine.ask(Seen()) == 1
        assert conserved(system)


HELLOS = rt.Topic("hellos", Hello, subscribe="hello.follow")
