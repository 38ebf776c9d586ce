"""What went wrong in the security layer that came before, fault by fault: each of its holes is tried here and must be closed.

Approval tokens (faults S3 to S6 and S8 of that list) are tried where tokens are.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_authority import error_of, tie_clock
from retinue.security.authority import Authority
from retinue.security.canonical import digest


@rt.message
class Delete(rt.Request[str]):
    """A dangerous request with one argument that may be left out."""

    path: str | None = None


@rt.message
class Do(rt.Request[str]):
    """Ask an actor to ask another."""

    path: str


class Disk(rt.Actor):
    """Deletes, and keeps a list of what it deleted."""

    def __init__(self, deleted: list[Any]) -> None:
        self.deleted = deleted

    @rt.handler(requires="disk.delete", risk="L3")
    def delete(self, message: Delete) -> str:
        self.deleted.append(message.path)
        return "deleted"


class Agent(rt.Actor):
    """Does what it is told to, by asking the disk."""

    def __init__(self, disk: rt.Ref[Disk]) -> None:
        self.disk = disk

    @rt.handler
    async def do(self, message: Do) -> str:
        return await self.disk.ask(Delete(message.path))


# -- S1: narrowing to nothing gave everything --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [[], (), rt.allow(), rt.allow("nobody.knows"), [rt.deny("**")]])
async def test_s1_narrowing_to_nothing_gives_nothing(nothing: Any) -> None:
    deleted: list[Any] = []
    async with rt.ActorSystem() as system:
        disk = await system.spawn(Disk, deleted)
        narrowed = system.authority.mint("ada", ["**"]).narrow(nothing)
        assert (await error_of(disk.ask(Delete("a"), context=narrowed))).reason == "permission"
    assert deleted == []


@pytest.mark.parametrize("grant", [[], [rt.allow()], [rt.deny("disk.**")]])
async def test_s1_an_empty_grant_is_nothing(grant: list[Any]) -> None:
    deleted: list[Any] = []
    async with rt.ActorSystem() as system:
        disk = await system.spawn(Disk, deleted, grant=grant)
        assert isinstance(await error_of(disk.ask(Delete("a"))), rt.Denied)
    assert deleted == []


async def test_s1_narrowing_a_folder_to_no_folder_does_not_switch_the_check_off() -> None:
    with pytest.raises(rt.ConstraintError):
        rt.within()
    authority = Authority()
    limited = authority.mint("ada", ["disk.delete", rt.where("disk.delete", path=rt.within("a/"))])
    for wider in (rt.allow("**"), rt.where("disk.delete", path=rt.within("a/", "b/")), rt.allow("disk.delete", path=rt.max_length(99))):
        assert limited.narrow(wider).allows("disk.delete", {"path": "b/x"}) is False


# -- S2: a context could be built ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda context: type(context)(subject="root", permissions=["**"]),
        lambda context: copy.copy(context),
        lambda context: copy.deepcopy(context),
        lambda context: copy.replace(context, subject="root") if hasattr(copy, "replace") else type(context)(),
        lambda context: pickle.loads(pickle.dumps(context)),
        lambda context: setattr(context, "permissions", None),
        lambda context: type("Mine", (type(context),), {}),
    ],
)
def test_s2_a_context_is_not_built_copied_or_written_to(build: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, AttributeError)):
        build(Authority().mint("ada", []))


async def test_s2_a_message_resumes_under_nobody_elses_wider_context() -> None:
    """The seed ran stored work as whoever resumed it; here a stolen context is refused inside a turn, and mallory's own is only mallory's."""
    deleted: list[Any] = []

    class Thief(rt.Actor):
        def __init__(self, disk: rt.Ref[Disk], stolen: rt.SecurityContext) -> None:
            self.disk = disk
            self.stolen = stolen

        @rt.handler
        async def do(self, message: Do) -> str:
            return await self.disk.ask(Delete(message.path), context=self.stolen)

    async with rt.ActorSystem() as system:
        disk = await system.spawn(Disk, deleted)
        thief = await system.spawn(Thief, disk, system.authority.mint("root", ["**"]))
        denied = await error_of(thief.ask(Do("a"), context=system.authority.mint("mallory", [])))
        assert (type(denied), denied.reason) == (rt.Denied, "lineage")
        minting = await error_of(thief.ask(Do("a"), context=system.authority.root.narrow([])))
        assert isinstance(minting, rt.Denied)
    assert deleted == []


@pytest.mark.parametrize("text", ["", "{}", '{"subject": "root"}', "rt1", "rt1.a.b", "bnVsbA", "null"])
def test_s2_an_empty_document_is_no_authority(text: str) -> None:
    authority = Authority()
    sealer = rt.Sealer(authority, rt.KeyRing.generate()) if hasattr(rt.KeyRing, "generate") else None
    if sealer is None:
        pytest.fail("a key ring for tests is needed")
    with pytest.raises(rt.TokenError):
        sealer.unseal(text)


# -- S5, 8, 9, 11: policies ------------------------------------------------------------------------------------------------------------------------------


async def test_s5_what_a_policy_rewrites_is_what_the_layers_look_at() -> None:
    deleted: list[Any] = []

    @rt.policy(operations=["disk.**"])
    def to_the_secret(call: rt.PolicyCall) -> rt.Verdict:
        return rt.Verdict.rewrite(Delete("secret/x"))

    async with rt.ActorSystem(policies=[to_the_secret]) as system:
        disk = await system.spawn(Disk, deleted)
        ada = system.authority.mint("ada", [rt.allow("disk.delete", path=rt.within("tmp/"))])
        assert (await error_of(disk.ask(Delete("tmp/x"), context=ada))).reason == "arguments"
    assert deleted == []


@pytest.mark.parametrize("answer", [None, True, 1, {}, {"allow": True}, "allow", [], object(), rt.Verdict, NotImplemented])
async def test_probe_11_only_a_verdict_is_an_answer(answer: Any) -> None:
    deleted: list[Any] = []

    @rt.policy
    def odd(call: rt.PolicyCall) -> Any:
        return answer

    async with rt.ActorSystem(policies=[odd]) as system:
        disk = await system.spawn(Disk, deleted)
        assert (await error_of(disk.ask(Delete("a")))).reason == "policy"
        assert [(entry.allowed, entry.reason) for entry in await system.audit.entries() if entry.kind == "decision"] == [(False, "policy")]
    assert deleted == []


# -- S7: different calls had one digest ------------------------------------------------------------------------------------------------------------------


def test_s7_values_that_differ_have_different_digests() -> None:
    class Same:
        def __repr__(self) -> str:
            return "'same'"

    values: list[Any] = [1, True, 1.0, "1", b"1", (1, 2), [1, 2], [1, [2]], {"1": "x"}, "same", None, "None", -0.0, 0.0, 0, [], {}, ()]
    assert len({digest(value) for value in values}) == len(values)
    for odd in ({1: "x"}, Same(), float("nan"), float("inf"), "\ud800", {"a": Same()}):
        with pytest.raises(rt.CanonicalError):
            digest(odd)


# -- S9: refusals left no trace --------------------------------------------------------------------------------------------------------------------------


async def test_s9_each_kind_of_refusal_is_on_record_before_it_is_answered() -> None:
    deleted: list[Any] = []

    @rt.policy(operations=["disk.delete"])
    def no_etc(call: rt.PolicyCall) -> rt.Verdict:
        return rt.Verdict.refuse("not there") if call.arguments["path"] == "etc" else rt.Verdict.allow()

    async with rt.ActorSystem(policies=[no_etc]) as system:
        disk = await system.spawn(Disk, deleted)
        mint = system.authority.mint
        revoked = mint("revoked", ["**"])
        system.authority.revoke(revoked)
        short = mint("expired", ["**", rt.expires(seconds=0.05)])
        await trio.sleep(0.1)
        used_up = mint("budget", ["**", rt.limit(calls=0)])
        cases = {
            "permission": mint("permission", ["disk.read"]),
            "arguments": mint("arguments", [rt.allow("disk.delete", path=rt.one_of("b"))]),
            "risk": mint("risk", ["**", rt.max_risk("L2")]),
            "revoked": revoked,
            "expired": short,
            "budget": used_up,
        }
        for reason, context in cases.items():
            error = await error_of(disk.ask(Delete("a"), context=context))
            assert isinstance(error, rt.Denied) and error.reason == reason, (reason, error)
        assert (await error_of(disk.ask(Delete("etc")))).reason == "policy"
        asked = mint("consent", ["**", rt.needs_approval("disk.**")])
        assert isinstance(await error_of(disk.ask(Delete("a"), context=asked)), rt.ApprovalRequired)
        recorded = {entry.subject: entry.reason for entry in await system.audit.entries() if entry.kind == "decision" and not entry.allowed}
        assert {subject: recorded[subject] for subject in cases} == {reason: reason for reason in cases}
        assert recorded["root"] == "policy" and "consent" in recorded
    assert deleted == []


# -- S10, 19: self-asserted flags, and what nobody rated -----------------------------------------------------------------------------------------------------


async def test_probe_19_what_nobody_rated_counts_as_the_worst_where_risk_is_bounded() -> None:
    class Unrated(rt.Actor):
        @rt.handler(requires="disk.wipe")
        def wipe(self, message: Delete) -> str:
            return "wiped"

    async with rt.ActorSystem() as system:
        unrated = await system.spawn(Unrated)
        assert (await error_of(unrated.ask(Delete(), context=system.authority.mint("ada", ["**", rt.max_risk("L2")])))).reason == "risk"
        assert await unrated.ask(Delete(), context=system.authority.mint("ada", ["**", rt.max_risk("L3")])) == "wiped"


# -- S11, 3, 10: ways around the gate ----------------------------------------------------------------------------------------------------------------------


async def test_s11_no_context_no_message() -> None:
    deleted: list[Any] = []
    async with rt.ActorSystem() as system:
        disk = await system.spawn(Disk, deleted)
        outcome: list[Any] = []

        async def stranger() -> None:
            outcome.append(await error_of(disk.ask(Delete("a"))))

        trio.lowlevel.spawn_system_task(stranger)
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(outcome[0], rt.NoContext)
        assert not hasattr(disk, "delete")
        with pytest.raises(rt.NoContext):
            await trio.to_thread.run_sync(disk.tell, Delete("a"))
    assert deleted == []


@pytest.mark.parametrize("restriction", [rt.allow("disk.delete", path=rt.within("tmp/")), rt.where("disk.delete", path=rt.within("tmp/"))])
async def test_s11_leaving_the_argument_out_does_not_leave_the_check_out(restriction: Any) -> None:
    deleted: list[Any] = []
    async with rt.ActorSystem() as system:
        disk = await system.spawn(Disk, deleted)
        context = system.authority.mint("ada", ["**"]).narrow(restriction)
        assert (await error_of(disk.ask(Delete(), context=context))).reason == "arguments"
        assert await disk.ask(Delete("tmp/x"), context=context) == "deleted"
    assert deleted == ["tmp/x"]


# -- S12, S13: the agents below ----------------------------------------------------------------------------------------------------------------------------


async def test_s12_an_agent_acts_as_each_of_its_callers_in_turn() -> None:
    deleted: list[Any] = []
    async with rt.ActorSystem() as system:
        disk = await system.spawn(Disk, deleted)
        agent = await system.spawn(Agent, disk)
        alice, bob = system.authority.mint("alice", ["**"]), system.authority.mint("bob", ["mail.**"])
        assert await agent.ask(Do("a"), context=alice) == "deleted"
        assert (await error_of(agent.ask(Do("b"), context=bob))).subject == "bob"
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(error_of, agent.ask(Do(f"{number}"), context=alice if number % 2 else bob))
    assert sorted(deleted) == sorted(["a", *(str(number) for number in range(20) if number % 2)])


async def test_s13_a_child_has_no_more_than_its_parent_had_whatever_it_was_told_to_have() -> None:
    deleted: list[Any] = []

    class Parent(rt.Actor):
        def __init__(self, disk: rt.Ref[Disk]) -> None:
            self.disk = disk

        @rt.handler
        async def do(self, message: Do) -> str:
            child = await self.ctx.spawn(Agent, self.disk, grant=["**"])
            return await child.ask(Do(message.path))

    async with rt.ActorSystem() as system:
        disk = await system.spawn(Disk, deleted)
        bound = await system.spawn(Parent, disk, grant=["mail.**"])
        assert isinstance(await error_of(bound.ask(Do("a"))), rt.Denied)
        free = await system.spawn(Parent, disk)
        assert isinstance(await error_of(free.ask(Do("b"), context=system.authority.mint("ada", []))), rt.Denied)
        assert await free.ask(Do("c")) == "deleted"
    assert deleted == ["c"]


async def test_s13_depth_cannot_be_dodged() -> None:
    class Nest(rt.Actor):
        @rt.handler
        async def do(self, message: Do) -> str:
            if message.path == "":
                return "bottom"
            child = await self.ctx.spawn(Nest, grant=["**"])
            return await child.ask(Do(message.path[1:]))

    async with rt.ActorSystem() as system:
        nest = await system.spawn(Nest)
        two = system.authority.mint("ada", ["**", rt.limit(depth=2)])
        assert await nest.ask(Do("xx"), context=two) == "bottom"
        error = await error_of(nest.ask(Do("xxx"), context=two))
        assert isinstance(error, rt.Denied) and error.reason == "depth"


# -- S14: a child could change what its parent was marked with -----------------------------------------------------------------------------------------------


def test_s14_labels_and_principals_are_not_changed_by_narrowing() -> None:
    parent = Authority().mint("ada", ["**", rt.label("web"), rt.unlabelled("disk.**", labels=["web"])], tenant="acme")
    for child in (parent.narrow(rt.label("clean")), parent.narrow(["**"]), parent.narrow(rt.allow("disk.delete"))):
        assert child.labels >= {"web"} and (child.subject, child.tenant) == ("ada", "acme")
        assert child.allows("disk.delete") is False
    with pytest.raises((rt.AuthorityError, rt.DefinitionError)):
        parent.narrow({"subject": "root"})


# -- S15, 20: the deadline was looked at once, at the door -----------------------------------------------------------------------------------------------------


async def test_s15_a_deadline_ends_work_in_progress(autojump_clock: MockClock) -> None:
    ended: list[str] = []

    class Slow(rt.Actor):
        @rt.handler(requires="work.do")
        async def do(self, message: Do) -> str:
            try:
                await trio.sleep(1000)
            finally:
                ended.append(f"after {trio.current_time() - began:.0f} s")
            return "done"

    async with rt.ActorSystem() as system:
        tie_clock(system)
        slow = await system.spawn(Slow)
        began = trio.current_time()
        context = system.authority.mint("ada", ["work.do", rt.expires(seconds=5)])
        error = await error_of(slow.ask(Do("a"), context=context, timeout=500))
        assert isinstance(error, (rt.Expired, rt.AskTimeout))
    assert ended == ["after 5 s"]
