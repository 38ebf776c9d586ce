"""A publication never carries more than its origin, and where a topic names an operation for publishing or subscribing, the gate is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

import retinue as rt
from core_authority import tie_clock
from core_hosts import Host, conserved, reasons
from core_puppet import Call, Do, Puppet
from topic_actors import PRICES, Gated, Price, Publisher, Reader, Say, ThreadReader, plain_system

NEWS = rt.Topic("news", Price, publish="news.publish", subscribe="news.subscribe")


class Witness(rt.Actor):
    """Notes under what it handles each message."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    @rt.handler
    def price(self, _: Price) -> None:
        security = self.ctx.security
        self.log.append((security.subject, security.allows("files.read"), security.allows("files.write")))

    @rt.handler
    def lag(self, message: rt.Lagged) -> None:
        self.log.append((self.ctx.security.subject, message.missed))


def publish(topic: rt.Topic[Any] = PRICES, number: int = 1, **options: Any) -> Call:
    """A script that publishes as the puppet."""
    return Call(lambda actor: actor.ctx.topics.publish(topic, Price(number), **options))


async def test_it_arrives_under_what_its_publisher_acted_under(host: Host) -> None:
    async with host.system() as system:
        log: list[Any] = []
        system.topics.subscribe(PRICES, await system.spawn(Witness, log))
        publisher = await system.spawn(ThreadReader if host.blocking else Reader, None, None)
        ada = system.authority.mint("ada", ["files.*"])
        await publisher.ask(Say(Price(1)), context=ada.narrow(rt.deny("files.write")))
        await publisher.ask(Say(Price(2)), context=ada)
        system.topics.publish(PRICES, Price(3))
        system.topics.publish(PRICES, Price(4), context=ada)
        await system.wait_quiet()
        assert log == [("ada", True, False), ("ada", True, True), ("root", True, True), ("ada", True, True)]


async def test_the_grant_of_each_subscriber_narrows_it() -> None:
    async with plain_system() as system:
        log: list[Any] = []
        wide, narrow = await system.spawn(Witness, log), await system.spawn(Witness, log, grant=["files.read"])
        for ref in (wide, narrow):
            system.topics.subscribe(PRICES, ref)
        system.topics.publish(PRICES, Price(1))
        await system.wait_quiet()
        assert log == [("root", True, True), ("root", True, False)]


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_publisher_may_narrow_it_further_and_nothing_else(blocking: bool) -> None:
    class Blocked(rt.Actor, blocking=True):
        @rt.handler
        def call(self, message: Call) -> Any:
            return message.script(self)

    async with plain_system() as system, rt.ActorSystem("other") as other:
        log: list[Any] = []
        system.topics.subscribe(PRICES, await system.spawn(Witness, log))
        puppet: Any = await system.spawn(Blocked if blocking else Puppet)
        ada, bob = system.authority.mint("ada", ["files.*"]), system.authority.mint("bob", ["**"])
        await puppet.ask(
            Call(lambda actor: actor.ctx.topics.publish(PRICES, Price(1), context=actor.ctx.security.narrow(rt.deny("files.write")))),
            context=ada,
        )
        await system.wait_quiet()
        assert log == [("ada", True, False)]
        for foreign in (bob, system.authority.root, other.authority.mint("ada", ["**"])):
            with pytest.raises(rt.Denied):
                await puppet.ask(publish(context=foreign), context=ada)
        assert len(log) == 1
        refused = await system.audit.entries(allowed=False)
        assert len(refused) == 3
        assert {entry.reason for entry in refused} == {"lineage", "forged"}
        assert conserved(system)


async def test_a_context_of_another_system_is_refused_outside_too() -> None:
    async with plain_system() as system, rt.ActorSystem("other") as other:
        with pytest.raises(rt.ForgedContext):
            system.topics.publish(PRICES, Price(1), context=other.authority.root)
        with pytest.raises(rt.ForgedContext):
            await system.topics.publish_and_report(PRICES, Price(1), context=other.authority.root)
        assert system.statistics().sent == 0


async def test_neither_a_deadline_nor_an_approval_goes_with_it() -> None:
    seen: list[Any] = []

    class Looks(rt.Actor):
        @rt.handler
        async def price(self, _: Price) -> None:
            await trio.lowlevel.checkpoint()
            seen.append((self.ctx.deadline in (None, float("inf")), self.ctx.approval))

    async with plain_system() as system:
        system.topics.subscribe(PRICES, await system.spawn(Looks))
        puppet = await system.spawn(Puppet)
        await puppet.ask(publish(), timeout=3)
        await puppet.ask(Do(lambda actor: actor.ctx.topics.publish_and_report(PRICES, Price(2))), timeout=3)
        await system.wait_quiet()
        assert seen == [(True, None)] * 2


@pytest.mark.parametrize("ends", ["expires", "is revoked"])
async def test_what_waits_when_its_authority_ends_is_refused(ends: str, autojump_clock: MockClock) -> None:
    async with plain_system() as system:
        tie_clock(system)
        log: list[Any] = []
        permits = trio.Semaphore(0)
        await system.spawn(Gated, log, permits)
        system.topics.publish(PRICES, Price(0))
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        system.topics.publish(PRICES, Price(1), context=ada)
        await wait_all_tasks_blocked()
        await trio.sleep(6)
        if ends == "is revoked":
            system.authority.revoke(ada)
        for _ in range(2):
            permits.release()
        await system.wait_quiet()
        assert log == [0]
        assert reasons(system) in ({"expired": 1}, {"denied": 1})
        assert len(await system.audit.entries(allowed=False)) == 1
        assert conserved(system)


async def test_labels_go_with_it_and_come_back_with_the_report() -> None:
    class Tainted(rt.Actor):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        @rt.handler
        def price(self, message: Price) -> None:
            self.log.append(set(self.ctx.labels))
            self.ctx.taint("mail")
            if message.number == 2:
                raise rt.Reject("no")

    async with plain_system() as system:
        log: list[Any] = []
        system.topics.subscribe(PRICES, await system.spawn(Tainted, log))
        puppet = await system.spawn(Puppet)

        async def report(actor: Any, number: int) -> set[str]:
            actor.ctx.taint("web")
            await actor.ctx.topics.publish_and_report(PRICES, Price(number))
            return set(actor.ctx.labels)

        for number in (1, 2):
            assert await puppet.ask(Do(lambda actor, number=number: report(actor, number))) == {"web", "mail"}
        assert log == [{"web"}] * 2


# -- operations ----------------------------------------------------------------------------------------------------------------------------------------


async def test_publishing_needs_its_operation_down_to_the_arguments() -> None:
    async with plain_system() as system:
        log: list[Any] = []
        system.topics.subscribe(NEWS, await system.spawn(Witness, log))
        puppet = await system.spawn(Puppet)
        may = system.authority.mint("ada", ["news.publish", rt.where("news.publish", number=rt.at_most(5))])
        may_not = system.authority.mint("eve", ["files.*"])
        assert await puppet.ask(publish(NEWS, 5), context=may)
        assert system.topics.publish(NEWS, Price(4), context=may)
        assert await system.topics.publish_and_report(NEWS, Price(3), context=may)
        for context, number, reason in ((may, 6, "arguments"), (may_not, 1, "permission")):
            for refused in (
                lambda: puppet.ask(publish(NEWS, number), context=context),  # noqa: B023 - called at once
                lambda: system.topics.publish_and_report(NEWS, Price(number), context=context),  # noqa: B023 - called at once
            ):
                with pytest.raises(rt.Denied) as caught:
                    await refused()
                assert (caught.value.operation, caught.value.path, caught.value.reason) == ("news.publish", "/topics/news", reason)
            with pytest.raises(rt.Denied):
                system.topics.publish(NEWS, Price(number), context=context)
        await system.wait_quiet()
        assert len(log) == 3
        refused = await system.audit.entries(allowed=False, operation="news.publish")
        assert [(entry.subject, entry.path) for entry in refused] == [("ada", "/topics/news")] * 3 + [("eve", "/topics/news")] * 3
        allowed = await system.audit.entries(kind="allowed_batch", operation="news.publish")
        assert sum(entry.count for entry in allowed) == 3
        assert conserved(system)


async def test_the_grant_of_the_publisher_counts_for_it() -> None:
    async with plain_system() as system:
        system.topics.subscribe(NEWS, await system.spawn(Witness, []))
        puppet = await system.spawn(Puppet, grant=["files.*"])
        with pytest.raises(rt.Denied):
            await puppet.ask(publish(NEWS))


async def test_subscribing_needs_its_operation() -> None:
    class Follows(Puppet):
        @rt.handler
        def price(self, message: Price) -> None:
            self.log.append(message.number)

    def subscribe(actor: Any) -> bool:
        return not actor.ctx.topics.subscribe(NEWS).closed

    async with plain_system() as system:
        ref = await system.spawn(Follows)
        with pytest.raises(rt.Denied) as caught:
            await ref.ask(Call(subscribe), context=system.authority.mint("eve", ["news.publish"]))
        assert (caught.value.operation, caught.value.path) == ("news.subscribe", "/topics/news")
        assert system.topics.subscribers(NEWS) == ()
        assert await ref.ask(
            Call(subscribe), context=system.authority.mint("ada", ["news.*", rt.where("news.subscribe", topic=rt.one_of("news"))])
        )
        assert system.topics.subscribers(NEWS) == (ref,)
        assert len(await system.audit.entries(allowed=False, operation="news.subscribe")) == 1
    async with plain_system(permissions=["news.publish"]) as system:
        ref = await system.spawn(Follows)
        for call in (lambda: system.topics.subscribe(NEWS, ref), lambda: system.topics.listen(NEWS)):
            with pytest.raises(rt.Denied):
                call()


@pytest.mark.parametrize("ends", ["expires", "is revoked"])
async def test_a_subscription_that_needed_an_operation_ends_with_its_authority(ends: str, autojump_clock: MockClock) -> None:
    class Follows(Puppet):
        @rt.handler
        def price(self, message: Price) -> None:
            self.log.append(message.number)

    async with plain_system() as system:
        tie_clock(system)
        ref = await system.spawn(Follows)
        ada = system.authority.mint("ada", ["news.*", rt.expires(seconds=60)])
        await ref.ask(Call(lambda actor: bool(actor.ctx.topics.subscribe(NEWS))), context=ada)
        assert system.topics.publish(NEWS, Price(1))
        await system.wait_quiet()
        if ends == "expires":
            await trio.sleep(61)
        else:
            system.authority.revoke(ada)
        assert not system.topics.publish(NEWS, Price(2))
        assert not system.topics.publish(NEWS, Price(3))
        assert system.topics.subscribers(NEWS) == ()
        assert await ref.ask(Call(lambda actor: actor.log)) == [1]
        assert len(await system.audit.entries(allowed=False)) == 1
        assert conserved(system)


async def test_what_takes_its_time_to_be_decided_is_for_who_waits() -> None:
    class Slow:
        name = "slow"
        operations = ("news.**",)

        async def decide(self, call: rt.PolicyCall) -> rt.Verdict:
            await trio.lowlevel.checkpoint()
            return rt.Verdict.allow() if call.arguments.get("number") != 9 else rt.Verdict.refuse("not nine")

    async with plain_system(policies=[Slow()]) as system:
        ref = await system.spawn(Witness, log := [])
        with pytest.raises(rt.Denied, match="cannot wait") as caught:
            system.topics.subscribe(NEWS, ref)
        assert caught.value.reason == "policy"
        news = rt.Topic("slow", Price, publish="news.publish")
        system.topics.subscribe(news, ref)
        with pytest.raises(rt.Denied, match=r"publish_and_report"):
            system.topics.publish(news, Price(1))
        assert await system.topics.publish_and_report(news, Price(1))
        with pytest.raises(rt.Denied, match="not nine"):
            await system.topics.publish_and_report(news, Price(9))
        assert len(log) == 1
        assert len(await system.audit.entries(allowed=False)) == 3


async def test_what_needs_a_persons_consent_is_not_published() -> None:
    async with plain_system() as system:
        system.topics.subscribe(NEWS, await system.spawn(Witness, log := []))
        ada = system.authority.mint("ada", ["news.*", rt.needs_approval("news.publish")])
        with pytest.raises(rt.ApprovalRequired, match="a person's consent"):
            system.topics.publish(NEWS, Price(1), context=ada)
        with pytest.raises(rt.ApprovalRequired, match="a person's consent"):
            await system.topics.publish_and_report(NEWS, Price(1), context=ada)
        assert log == []
        assert len(await system.audit.entries(allowed=False)) == 2


async def test_the_note_of_what_was_missed_comes_under_what_the_actor_subscribed_under() -> None:
    class Follows(Witness):
        @rt.handler
        def call(self, message: Call) -> Any:
            return message.script(self)

    async with plain_system() as system:
        log: list[Any] = []
        ref = await system.spawn(Follows, log)
        ada = system.authority.mint("ada", ["files.read"])
        await ref.ask(Call(lambda actor: bool(actor.ctx.topics.subscribe(PRICES, 1))), context=ada)
        for number in range(3):
            system.topics.publish(PRICES, Price(number))
        await system.wait_quiet()
        assert log == [("ada", 2), ("root", True, True)]


# -- from elsewhere ------------------------------------------------------------------------------------------------------------------------------------


async def in_a_thread(function: Callable[[], Any]) -> Any:
    """Runs it in a thread that no handler has started, and returns or raises its outcome."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        await trio.sleep(0.001)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


async def test_another_thread_publishes_under_a_context_that_it_gives() -> None:
    async with plain_system() as system:
        system.topics.subscribe(NEWS, await system.spawn(Witness, log := []))
        ada = system.authority.mint("ada", ["news.publish", "files.read"])
        assert await in_a_thread(lambda: system.topics.publish(NEWS, Price(1), context=ada)) == rt.Published("news", 1)
        with pytest.raises(rt.NoContext):
            await in_a_thread(lambda: system.topics.publish(NEWS, Price(1)))
        with pytest.raises(rt.Denied):
            await in_a_thread(lambda: system.topics.publish(NEWS, Price(1), context=ada.narrow(rt.deny("news.**"))))
        with pytest.raises(rt.Unhandled):
            await in_a_thread(lambda: system.topics.publish(NEWS, rt.Lagged("a", 1), context=ada))  # type: ignore[type-var]
        for call in (lambda: system.topics.listen(NEWS), lambda: system.topics.subscribers(NEWS)):
            with pytest.raises(rt.WrongThread):
                await in_a_thread(call)
        await system.wait_quiet()
        assert log == [("ada", True, False)]
        assert conserved(system)


async def test_a_handler_that_has_the_system_acts_under_its_message_all_the_same() -> None:
    async with plain_system() as system:
        reader = await system.spawn(Witness, log := [])
        system.topics.subscribe(PRICES, reader)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["files.read"])
        await puppet.ask(Call(lambda _: bool(system.topics.publish(PRICES, Price(1)))), context=ada)
        await system.wait_quiet()
        assert log == [("ada", True, False)]
        for script in (
            lambda _: system.topics.subscribe(PRICES, reader),
            lambda _: system.topics.unsubscribe(PRICES, reader),
            lambda _: system.topics.listen(PRICES),
            lambda _: system.topics.declare(PRICES),
            lambda _: system.topics.subscribers(PRICES),
        ):
            with pytest.raises(rt.DefinitionError, match=r"self\.ctx\.topics"):
                await puppet.ask(Call(script))


async def test_nobody_closes_the_subscription_of_another() -> None:
    async with plain_system() as system:
        reader = await system.spawn(Reader)
        subscription = system.topics.subscribe(PRICES, reader)
        puppet = await system.spawn(Puppet)
        with pytest.raises(rt.Denied, match="nobody else closes"):
            await puppet.ask(Call(lambda _: subscription.close()))
        with pytest.raises(rt.NoContext):
            await in_a_thread(subscription.close)
        assert not subscription.closed
        subscription.close()
        assert system.topics.subscribers(PRICES) == ()


async def test_a_turn_that_is_not_the_actors_own_cannot_use_its_topics() -> None:
    async with plain_system() as system:
        puppet = await system.spawn(Puppet)
        topics = await puppet.ask(Call(lambda actor: actor.ctx.topics))
        for call in (lambda: topics.publish(PRICES, Price(1)), lambda: topics.subscribe(PRICES), lambda: topics.unsubscribe(PRICES)):
            with pytest.raises(rt.NoContext):
                call()
        publisher = await system.spawn(Publisher)
        assert await publisher.ask(Say(Price(1))) == [0, 0]
