"""Consent on every way that a message comes to its handler: asked for first, and good for one effect."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import retinue as rt
from consent_actors import WAYS, Agent, Async, Blocking, Forwarder, Hand, Plain, Worker
from core_authority import error_of
from core_hosts import conserved, reasons
from core_puppet import Call
from fake_desk import FakeDesk, with_desk


@pytest.mark.parametrize("options", [{}, {"seed": 3}, {"loopback": True}, {"events": 10}, {"audit": False}], ids=str)
@pytest.mark.parametrize("way", WAYS)
async def test_each_way_asks_first_and_runs_once_for_a_token(way: str, options: dict[str, Any]) -> None:
    log: list[Any] = []
    async with rt.ActorSystem(**options) as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        ada = system.authority.mint("ada", ["work.**"])
        required = await error_of(WAYS[way](worker, context=ada))
        assert isinstance(required, rt.ApprovalRequired), required
        assert log == []
        token = desk.approve(required.request)
        await WAYS[way](worker, context=ada, approvals=["another", token])
        assert [jti for _, jti in log] == [token]
        again = await error_of(WAYS[way](worker, context=ada, approvals=[token]))
        assert isinstance(again, rt.Denied) and again.reason == "spent"
        await system.wait_quiet()
        assert desk.outcomes == {token: "succeeded"}
        assert len(log) == 1
        assert conserved(system)
        assert system._kernel.gate.refused == 2
        assert way == "queued" or system._kernel.gate.allowed == 1
        if options.get("audit", True):
            found = [(entry.kind, entry.allowed) for entry in await system.audit.entries(operation="work.*")]
            assert found == [("decision", False), ("decision", True), ("outcome", True), ("decision", False)]


async def test_a_thread_gets_the_message_after_the_consent() -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Blocking, log)
        required = await error_of(worker.ask(Plain()))
        token = desk.approve(required.request)
        assert await worker.ask(Plain(), approvals=[token]) == f"plain by {token}"
        assert (await error_of(worker.ask(Plain(), approvals=[token]))).reason == "spent"
        await system.wait_quiet()
        assert log == [("plain", token)] and desk.outcomes == {token: "succeeded"}
        assert conserved(system)


async def test_where_a_task_of_the_asker_cannot_run_it_a_worker_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.actors.runtime.stepping.supported", lambda: False)
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        for message in (Plain(), Async()):
            required = await error_of(worker.ask(message))
            assert isinstance(required, rt.ApprovalRequired)
            await worker.ask(message, approvals=[desk.approve(required.request)])
        assert [text for text, _ in log] == ["plain", "async"]
        assert conserved(system)


async def test_what_is_told_is_asked_for_too_and_is_a_dead_letter() -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        assert worker.tell(Plain())
        assert await worker.send(Async())
        await system.wait_quiet()
        assert [request.message_type for request in desk.requests] == ["Plain", "Async"]
        assert reasons(system) == {"denied": 2}
        token = desk.approve(desk.requests[0])
        assert worker.tell(Plain(), approvals=[token])
        await system.wait_quiet()
        assert log == [("plain", token)]
        assert conserved(system)


async def test_a_policy_that_is_waited_for_may_ask_too() -> None:
    log: list[Any] = []

    @rt.policy(operations=["work.plain"])
    async def later(_: rt.PolicyCall) -> rt.Verdict:
        await trio.lowlevel.checkpoint()
        return rt.Verdict.ask("the policy wants to know", four_eyes=True)

    async with rt.ActorSystem(policies=[later]) as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        required = await error_of(worker.ask(Plain()))
        assert isinstance(required, rt.ApprovalRequired) and required.request.four_eyes
        assert len(required.request.reasons) == 2
        token = desk.approve(required.request)
        assert await worker.ask(Plain(), approvals=[token]) == f"plain by {token}"
        assert log == [("plain", token)]
        assert conserved(system)


async def test_a_capability_or_a_layer_may_ask_for_what_the_handler_does_not() -> None:
    class Open(rt.Actor):
        @rt.handler(requires="work.open")
        def plain(self, message: Plain) -> str:
            return f"{message.text} {self.ctx.approval is not None}"

    registry = rt.CapabilityRegistry()
    registry.declare(rt.Capability("work.open", "L1"))
    async with rt.ActorSystem(capabilities=registry) as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Open)
        assert await worker.ask(Plain()) == "plain False"
        asked = system.authority.root.narrow(rt.needs_approval("work.**"))
        required = await error_of(worker.ask(Plain(), context=asked))
        assert await worker.ask(Plain(), context=asked, approvals=[desk.approve(required.request)]) == "plain True"
        registry.replace(["work.open"], [rt.Capability("work.open", "L1", approval=True)])
        required = await error_of(worker.ask(Plain()))
        assert isinstance(required, rt.ApprovalRequired)
        assert await worker.ask(Plain(), approvals=[desk.approve(required.request)]) == "plain True"
        registry.replace(["work.open"], [rt.Capability("work.open", "L1")])
        assert await worker.ask(Plain()) == "plain False"


async def test_an_approval_goes_on_with_a_message_that_is_handed_over() -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker, forwarder = await system.spawn(Worker, log), await system.spawn(Forwarder)
        required = await error_of(forwarder.ask(Hand(worker)))
        assert isinstance(required, rt.ApprovalRequired) and required.path == worker.path
        token = desk.approve(required.request)
        assert await forwarder.ask(Hand(worker), approvals=[token]) == f"handed by {token}"
        other = desk.approve((await error_of(forwarder.ask(Hand(worker, "told")))).request)
        forwarder.tell(Hand(worker, "told"), approvals=[other])
        await system.wait_quiet()
        assert log == [("handed", token), ("told", other)]
        assert conserved(system)


async def test_what_an_agent_asks_for_on_the_way_reaches_who_asked_the_agent_and_is_no_failure_of_it() -> None:
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker, agent = await system.spawn(Worker, []), await system.spawn(Agent)
        required = await error_of(agent.ask(Hand(worker), context=system.authority.mint("ada", ["**"])))
        assert isinstance(required, rt.ApprovalRequired)
        assert required.request is desk.requests[0] and required.request.subject == "ada"
        assert [actor.failures for actor in system.actors()] == [0, 0]
        assert conserved(system)


async def test_what_is_handled_by_an_approval_cannot_be_set_aside() -> None:
    class Stasher(rt.Actor):
        @rt.handler(requires="work.plain", approval=True)
        def plain(self, _: Plain) -> str:
            self.ctx.stash()
            return ""

    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        stasher = await system.spawn(Stasher)
        token = desk.approve((await error_of(stasher.ask(Plain()))).request)
        with pytest.raises(rt.DefinitionError, match="cannot be stashed"):
            await stasher.ask(Plain(), approvals=[token])
        await system.wait_quiet()
        assert desk.outcomes == {token: "failed: DefinitionError"}


async def test_an_actor_has_no_way_to_approve() -> None:
    found: list[Any] = []

    class Sly(rt.Actor):
        @rt.handler
        async def plain(self, _: Plain) -> str:
            for deed in (lambda: self.ctx.system.approvals, lambda: system.approvals.pending().send(None)):
                try:
                    deed()
                except rt.Denied as error:
                    found.append(str(error))
            return "done"

    async with rt.ActorSystem() as system:
        assert await (await system.spawn(Sly)).ask(Plain()) == "done"
        assert len(found) == 2 and all("approve" in text for text in found)


async def test_a_ledger_that_fails_after_the_spending_leaves_a_call_that_was_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, log)
        ada = system.authority.mint("ada", ["work.**", rt.limit(calls=5)])
        token = desk.approve((await error_of(worker.ask(Plain(), context=ada))).request)
        desk.hooks["spent"] = lambda: monkeypatch.setattr(type(system._kernel.gate.ledger), "settle", _fails)
        error = await error_of(worker.ask(Plain(), context=ada, approvals=[token]))
        monkeypatch.undo()
        assert isinstance(error, rt.Denied) and error.reason == "undecided"
        assert log == [] and desk.outcomes == {token: "not run"}
        (balance,) = await system.budgets.balance(ada)
        assert (balance.spent.calls, balance.reserved.calls) == (0, 0)


def _fails(*_: Any, **__: Any) -> None:
    raise ZeroDivisionError


async def test_there_is_no_approval_in_hooks_tasks_and_other_turns() -> None:
    found: list[Any] = []

    class Curious(rt.Actor):
        def on_start(self) -> None:
            found.append(self.ctx.approval)

        @rt.handler(requires="work.plain", approval=True)
        def plain(self, _: Plain) -> None:  # type: ignore[override]
            assert self.ctx.approval is not None
            self.ctx.start_soon(self.later)

        async def later(self) -> None:
            found.append(self.ctx.approval)

        @rt.handler
        def call(self, _: Call) -> None:
            found.append(self.ctx.approval)

    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        curious = await system.spawn(Curious)
        token = desk.approve((await error_of(curious.ask(Plain()))).request)
        await curious.ask(Plain(), approvals=[token])
        await curious.ask(Call(lambda _: None))
        await wait_all_tasks_blocked()
    assert found == [None, None, None]


async def test_how_it_ended_is_told_to_the_desk(autojump_clock: MockClock) -> None:
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, [])
        tokens = {}
        for text in ("async", "fail", "hang"):
            tokens[text] = desk.approve((await error_of(worker.ask(Async(text)))).request)
            try:
                await worker.ask(Async(text), approvals=[tokens[text]], timeout=5)
            except (ValueError, rt.AskTimeout):
                pass
        await system.wait_quiet()
        assert desk.outcomes == {tokens["async"]: "succeeded", tokens["fail"]: "failed: ValueError", tokens["hang"]: "cancelled"}


async def test_a_desk_that_cannot_take_an_outcome_keeps_no_answer_back(caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, [])
        token = desk.approve((await error_of(worker.ask(Plain()))).request)
        desk.holds["outcome"] = trio.Event()
        assert await worker.ask(Plain(), approvals=[token]) == f"plain by {token}"
        desk.fails["outcome"] = OSError("full")
        desk.holds["outcome"].set()
        await system.wait_quiet()
        assert desk.outcomes == {}
    assert "could not note something" in caplog.text
