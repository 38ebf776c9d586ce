"""What people decide at the desk, and what becomes of it; facts B9, B10 and B12 of the seed, and bypasses T1, T2, T4 and T5, cannot happen here."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
from approval_bank import Bank, Odd, Pay, alice_of, move_clock, outcome, request_for, system_on
from retinue import sync
from retinue.actors.approvals import works_asking
from retinue.testing import VirtualClock


class Office:
    """A system with a bank, on a file."""

    def __init__(self, system: rt.ActorSystem, bank: rt.Ref[Bank], effects: list[Any]) -> None:
        self.system = system
        self.bank = bank
        self.effects = effects
        self.approvals = system.approvals
        self.alice = alice_of(system)

    async def request(self, amount: int = 40) -> rt.ApprovalRequest:
        return await request_for(self.bank, Pay("ACME", amount), self.alice)

    async def pay(self, amount: int, *tokens: str, context: Any = None) -> Any:
        return await outcome(self.bank.ask(Pay("ACME", amount), context=context or self.alice, approvals=tokens))


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    effects: list[Any] = []
    async with system_on(tmp_path) as system:
        yield Office(system, await system.spawn(Bank, effects, name="bank"), effects)


async def refusal(asking: Any) -> str:
    """The reason of the ApprovalError that it raises."""
    with pytest.raises(rt.ApprovalError) as caught:
        await asking
    return caught.value.reason


async def test_a_request_says_what_was_asked_by_whom_and_until_when(office: Office) -> None:
    request = await office.request()
    assert (request.status, request.operation, request.subject, request.audience) == ("pending", "payments.send", "alice", "/user/bank")
    assert request.arguments == {"to": "ACME", "amount": 40} and request.message_type == "approvals-test/Pay@1"
    assert request.expires_ms - request.created_ms == 7 * 86_400_000
    assert request.reasons and request.token is None
    assert await office.approvals.pending() == (request,) and await office.approvals.get(request.id) == request


@pytest.mark.parametrize("seconds", [1, 90.5, 366 * 86_400])
async def test_how_long_a_request_waits_can_be_said_and_an_edited_one_waits_as_long(tmp_path: Path, seconds: float) -> None:
    async with system_on(tmp_path, approval_lifetime=seconds) as system:
        bank = await system.spawn(Bank, [], name="bank")
        request = await request_for(bank, Pay("ACME", 40), alice_of(system))
        edited = await system.approvals.edit(request.id, {"amount": 41}, reviewer="bob")
    assert [one.expires_ms - one.created_ms for one in (request, edited)] == [seconds * 1_000] * 2


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a folder"])
async def test_under_a_clock_that_jumps_the_desk_works_in_the_loop(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, kept: bool
) -> None:
    async with system_on(tmp_path if kept else None) as system:
        bank = await system.spawn(Bank, [], name="bank")
        request = await request_for(bank, Pay("ACME", 40), alice_of(system))
        await trio.sleep(3_600)
        token = await system.approvals.approve(request.id, reviewer="bob")
        assert await bank.ask(Pay("ACME", 40), context=alice_of(system), approvals=[token]) == "paid 40 to ACME"
        with pytest.raises(rt.AskTimeout):
            await system.approvals.wait((await request_for(bank, Pay("ACME", 41), alice_of(system))).id, timeout=600)
        assert 4_200 <= trio.current_time() < 4_300


async def test_under_a_clock_that_waits_for_threads_the_desk_has_its_threads(tmp_path: Path, virtual_clock: VirtualClock) -> None:
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, [], name="bank")
        request = await request_for(bank, Pay("ACME", 40), alice_of(system))
        assert "retinue /system/approvals-store/writer" in [thread.name for thread in threading.enumerate()]
        assert trio.current_time() == 0
        await trio.sleep(3_600)
        token = await system.approvals.approve(request.id, reviewer="bob")
        assert await bank.ask(Pay("ACME", 40), context=alice_of(system), approvals=[token]) == "paid 40 to ACME"
        with pytest.raises(rt.AskTimeout):
            await system.approvals.wait((await request_for(bank, Pay("ACME", 41), alice_of(system))).id, timeout=20)
        assert trio.current_time() == 3_620
    assert virtual_clock.waits_for == []


@pytest.mark.parametrize("seconds", [0, 0.5, -1, 366 * 86_400 + 1, math.inf, math.nan, True, "7d", None])
def test_a_request_waits_for_a_second_at_least_and_a_year_at_most(seconds: Any) -> None:
    for system in (rt.ActorSystem, sync.ActorSystem):
        with pytest.raises(rt.DefinitionError, match="approval_lifetime"):
            system(approval_lifetime=seconds)


async def test_who_asks_again_for_what_is_approved_is_told_how_to_get_the_token(office: Office) -> None:
    request = await office.request()
    await office.approvals.approve(request.id, reviewer="bob")
    found = await office.pay(40, "rta1.malformed")
    assert isinstance(found, rt.ApprovalRequired) and found.request.status == "approved"
    for part in (f"retinue approvals show {request.id} --token", "system.approvals.token(id)", "--wait-approval", "approvals=[token]"):
        assert part in str(found)
    assert "get it approved" not in str(found)
    for sentence in re.split(r"(?<=[.!?]) ", str(found)):
        assert not sentence[0].islower(), sentence


async def test_a_clock_that_is_behind_keeps_the_system_from_deciding_and_not_from_looking(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    request = await office.request()
    token = await office.approvals.approve((await office.request(41)).id, reviewer="bob")
    await office.approvals.always_allow("x", reviewer="bob", subject=None, expires_seconds=3_600, open=True)
    move_clock(office.system, -3_600)
    office.approvals._office._desk._cell.actor._tidied = -math.inf
    assert [one.id for one in await office.approvals.pending()] == [request.id] and len(await office.approvals.find()) == 2
    assert (await office.approvals.get(request.id)).id == request.id and len(await office.approvals.standing()) == 1
    assert (await office.approvals.statistics()).pending == 1 and await office.approvals.indeterminate() == ()
    for decide in (office.approvals.approve(request.id, reviewer="bob"), office.approvals.reject(request.id, reviewer="bob")):
        assert await refusal(decide) == "clock"
    for denied in (await office.pay(41, token), await office.pay(42)):
        assert isinstance(denied, rt.Denied) and denied.reason == "approval" and "clock" in str(denied)
    watch = office.approvals.watch(after=0)
    assert (await watch.__anext__()).kind == "requested"
    with trio.fail_after(10):
        while "reset-clock" not in caplog.text:
            await trio.sleep(0.05)
    move_clock(office.system, 0)
    assert await office.pay(41, token) == "paid 41 to ACME"


async def test_the_same_question_asked_again_is_the_same_request(office: Office) -> None:
    first = await office.request()
    assert (await office.request()).id == first.id
    assert (await request_for(office.bank, Pay("ACME", 40), office.alice.narrow("payments.send"))).id == first.id
    assert (await office.request(41)).id != first.id
    await office.approvals.approve(first.id, reviewer="bob")
    again = await office.request()
    assert (again.id, again.status, again.token) == (first.id, "approved", None)


async def test_a_spent_approval_is_asked_about_anew(office: Office) -> None:
    first = await office.request()
    await office.pay(40, await office.approvals.approve(first.id, reviewer="bob"))
    again = await office.request()
    assert again.id != first.id and again.status == "pending"


async def test_a_decision_is_taken_once_and_never_turned(office: Office) -> None:
    request = await office.request()
    rejected = await office.approvals.reject(request.id, reviewer="bob", note="no invoice")
    assert (rejected.status, rejected.reviewer, rejected.note, rejected.reviewer_asserted) == ("rejected", "bob", "no invoice", True)
    for decide in (
        office.approvals.approve(request.id, reviewer="carol"),
        office.approvals.reject(request.id, reviewer="carol"),
        office.approvals.respond(request.id, "perhaps", reviewer="carol"),
        office.approvals.edit(request.id, {"amount": 1}, reviewer="carol"),
        office.approvals.cancel(request.id),
    ):
        assert await refusal(decide) == "decided"
    assert await office.approvals.get(request.id) == rejected
    assert isinstance(await office.pay(40), rt.ApprovalRequired) and office.effects == []


async def test_an_approved_request_cannot_be_rejected_any_more_nor_approved_twice(office: Office) -> None:
    request = await office.request()
    token = await office.approvals.approve(request.id, reviewer="bob")
    assert await refusal(office.approvals.reject(request.id, reviewer="bob")) == "decided"
    assert await refusal(office.approvals.approve(request.id, reviewer="bob")) == "decided"
    assert await office.pay(40, token) == "paid 40 to ACME"


async def test_32_reviewers_at_once_take_one_decision(office: Office) -> None:
    request = await office.request()
    found: list[Any] = []

    async def decide(number: int) -> None:
        if number % 2:
            found.append(await outcome(office.approvals.approve(request.id, reviewer=f"r{number}")))
        else:
            found.append(await outcome(office.approvals.reject(request.id, reviewer=f"r{number}")))

    async with trio.open_nursery() as nursery:
        for number in range(32):
            nursery.start_soon(decide, number)
    assert sum(not isinstance(one, rt.ApprovalError) for one in found) == 1
    assert {one.reason for one in found if isinstance(one, rt.ApprovalError)} == {"decided"}


async def test_an_answer_is_a_rejection_with_text(office: Office) -> None:
    request = await office.approvals.respond((await office.request()).id, "Which invoice?", reviewer="bob")
    assert (request.status, request.note) == ("rejected", "Which invoice?")
    assert isinstance(await office.pay(40), rt.ApprovalRequired) and office.effects == []


async def test_who_asks_again_after_a_rejection_makes_a_request_that_says_so(office: Office) -> None:
    first = await office.request()
    await office.approvals.reject(first.id, reviewer="bob")
    again = await office.request()
    assert again.id != first.id
    assert any('rejected by "bob"' in reason and first.id in reason for reason in again.reasons)


async def test_an_edit_makes_another_request_whose_token_is_for_the_edited_arguments_alone(office: Office) -> None:
    request = await office.request(99_999)
    edited = await office.approvals.edit(request.id, {"amount": 10}, reviewer="bob")
    assert edited.arguments == {"to": "ACME", "amount": 10} and edited.edit_of == request.id and edited.status == "pending"
    old = await office.approvals.get(request.id)
    assert (old.status, old.edited_to) == ("cancelled", edited.id)
    token = await office.approvals.approve(edited.id, reviewer="bob")
    assert isinstance(await office.pay(99_999, token), rt.ApprovalRequired)
    assert await office.pay(10, token) == "paid 10 to ACME"
    assert [effect[1] for effect in office.effects] == [10]


async def test_edited_arguments_pass_every_guard_that_asked_ones_do(office: Office) -> None:
    poor = office.alice.narrow(rt.where("payments.send", amount=rt.at_most(100)))
    request = await request_for(office.bank, Pay("ACME", 40), poor)
    edited = await office.approvals.edit(request.id, {"amount": 99_999}, reviewer="bob")
    token = await office.approvals.approve(edited.id, reviewer="bob")
    found = await office.pay(99_999, token, context=poor)
    assert isinstance(found, rt.Denied) and found.reason == "arguments"
    assert office.effects == []


@pytest.mark.parametrize("changes", [{"amount": "40"}, {"amount": 4.0}, {"amount": None}, {"other": 1}, {"amount": 40}, {"to": 7}])
async def test_an_edit_of_another_type_or_name_or_of_nothing_is_refused(office: Office, changes: dict[str, Any]) -> None:
    request = await office.request()
    assert await refusal(office.approvals.edit(request.id, changes, reviewer="bob")) == "arguments"
    assert (await office.approvals.get(request.id)).status == "pending"


async def test_several_requests_are_decided_each_on_its_own(office: Office) -> None:
    requests = [await office.request(amount) for amount in (1, 2, 3)]
    await office.approvals.reject(requests[1].id, reviewer="bob")
    ids = [request.id for request in requests]
    found = await office.approvals.approve_many([*ids, "apr_unknown"], reviewer="bob")
    errors = {key: value.reason for key, value in found.items() if isinstance(value, rt.ApprovalError)}
    assert errors == {ids[1]: "decided", "apr_unknown": "unknown"}
    assert await office.pay(3, str(found[ids[2]])) == "paid 3 to ACME"
    assert isinstance(await office.pay(2, str(found[ids[0]])), rt.ApprovalRequired)
    batches = {request.batch for request in await office.approvals.find(status="approved")}
    assert len(batches) == 1 and batches != {None}
    assert {one.id for one in await office.approvals.find(batch=batches.pop())} == {ids[0], ids[2]}


async def test_a_request_expires(office: Office) -> None:
    request = await office.request()
    move_clock(office.system, 7 * 86_400 + 1)
    assert await office.approvals.pending() == ()
    assert (await office.approvals.get(request.id)).status == "expired"
    assert await refusal(office.approvals.approve(request.id, reviewer="bob")) == "expired"
    again = await office.request()
    assert again.id != request.id
    assert [one.id for one in await office.approvals.find(status="expired")] == [request.id]


async def test_feedback_is_kept_with_a_request_whatever_became_of_it(office: Office) -> None:
    request = await office.request()
    await office.approvals.reject(request.id, reviewer="bob")
    await office.approvals.feedback(request.id, "ask for less next time", reviewer="bob")
    assert await refusal(office.approvals.feedback("apr_unknown", "x", reviewer="bob")) == "unknown"
    assert (await office.approvals.get(request.id)).status == "rejected"


async def test_the_token_of_an_approved_request_can_be_had_until_it_is_spent(office: Office) -> None:
    request = await office.request()
    assert await refusal(office.approvals.token(request.id)) == "decided"
    token = await office.approvals.approve(request.id, reviewer="bob", expires_seconds=60)
    assert await office.approvals.token(request.id) == token == (await office.approvals.get(request.id)).token
    assert [one.token for one in await office.approvals.find()] == [None]
    await office.pay(40, token)
    assert await refusal(office.approvals.token(request.id)) == "spent"


async def test_the_token_of_an_approval_that_has_expired_is_not_handed_out(office: Office) -> None:
    request = await office.request()
    await office.approvals.approve(request.id, reviewer="bob", expires_seconds=60)
    move_clock(office.system, 61)
    assert await refusal(office.approvals.token(request.id)) == "expired"


@pytest.mark.parametrize("seconds", [0, -1, 3_600.1, math.inf, math.nan, True, "60"])
async def test_an_approval_is_good_for_an_hour_at_most(office: Office, seconds: Any) -> None:
    request = await office.request()
    with pytest.raises(rt.DefinitionError):
        await office.approvals.approve(request.id, reviewer="bob", expires_seconds=seconds)


@pytest.mark.parametrize("reviewer", ["", "  ", None, 7, "x" * 256, "\ud800"])
async def test_a_reviewer_has_a_name(office: Office, reviewer: Any) -> None:
    request = await office.request()
    with pytest.raises(rt.DefinitionError):
        await office.approvals.approve(request.id, reviewer=reviewer)
    assert (await office.approvals.get(request.id)).status == "pending"


async def test_with_four_eyes_the_subject_does_not_approve_its_own_call(office: Office) -> None:
    careful = office.alice.narrow(rt.needs_approval("payments.**", four_eyes=True))
    request = await request_for(office.bank, Pay("ACME", 40), careful)
    assert request.four_eyes
    for own in ("alice", "ALICE"):
        assert await refusal(office.approvals.approve(request.id, reviewer=own)) == "four_eyes"
    token = await office.approvals.approve(request.id, reviewer="bob")
    assert await office.pay(40, token, context=careful) == "paid 40 to ACME"


async def test_a_consent_of_two_eyes_is_not_one_of_four(office: Office) -> None:
    token = await office.approvals.approve((await office.request()).id, reviewer="alice")
    careful = office.alice.narrow(rt.needs_approval("payments.**", four_eyes=True))
    assert isinstance(await office.pay(40, token, context=careful), rt.ApprovalRequired)
    assert await office.pay(40, token) == "paid 40 to ACME"


async def test_the_desk_is_bounded(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(works_asking, "MAX_PENDING_OF_SUBJECT", 3)
    monkeypatch.setattr(works_asking, "MAX_PENDING", 5)
    for amount in range(3):
        await office.request(amount)
    found = await office.pay(3)
    assert isinstance(found, rt.Denied) and "3 requests of 'alice'" in str(found)
    for amount in range(2):
        await request_for(office.bank, Pay("ACME", amount), alice_of(office.system, subject="bea"))
    found = await office.pay(9, context=alice_of(office.system, subject="cyd"))
    assert isinstance(found, rt.Denied) and "5 requests in all" in str(found)
    assert len(await office.approvals.pending()) == 5
    await office.approvals.reject((await office.request(0)).id, reviewer="bob")
    assert isinstance(await office.pay(3), rt.ApprovalRequired)


async def test_unknown_requests_are_named_as_such(office: Office) -> None:
    for asking in (office.approvals.get("apr_nothing"), office.approvals.approve("apr_nothing", reviewer="bob")):
        assert await refusal(asking) == "unknown"
    with pytest.raises(rt.DefinitionError):
        await office.approvals.find(status="approve")


async def test_it_adds_up(office: Office) -> None:
    ids = [(await office.request(amount)).id for amount in range(5)]
    token = await office.approvals.approve(ids[0], reviewer="bob")
    await office.approvals.approve(ids[1], reviewer="bob")
    await office.approvals.reject(ids[2], reviewer="bob")
    await office.approvals.cancel(ids[3])
    await office.pay(0, token)
    counts = await office.approvals.statistics()
    assert counts == rt.ApprovalStatistics(pending=1, approved=2, rejected=1, expired=0, cancelled=1, spent=1, indeterminate=0, standing=0)


async def test_waiting_ends_with_the_decision(office: Office) -> None:
    request = await office.request()
    found: list[rt.ApprovalRequest] = []

    async def wait() -> None:
        found.append(await office.approvals.wait(request.id, timeout=20))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await office.request(41)  # others' events do not end it
        await trio.sleep(0.05)
        assert found == []
        token = await office.approvals.approve(request.id, reviewer="bob")
    assert found[0].status == "approved" and found[0].token == token


async def test_waiting_ends_with_the_requests_time_and_with_its_own(office: Office) -> None:
    request = await office.request()
    with pytest.raises(rt.AskTimeout):
        await office.approvals.wait(request.id, timeout=0.05)
    move_clock(office.system, 7 * 86_400 - 0.2)
    assert (await office.approvals.wait(request.id, timeout=20)).status == "expired"
    assert await refusal(office.approvals.wait("apr_nothing", timeout=20)) == "unknown"


async def test_whoever_watches_sees_what_happens_in_order(office: Office) -> None:
    events: list[rt.ApprovalEvent] = []

    async def watch() -> None:
        async for event in office.approvals.watch(after=0):
            events.append(event)
            if event.kind == "outcome":
                return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        request = await office.request()
        await office.pay(40, await office.approvals.approve(request.id, reviewer="bob", note="fine"))
    assert [(event.kind, event.who) for event in events] == [
        ("requested", "alice"),
        ("approved", "bob"),
        ("spent", "alice"),
        ("outcome", None),
    ]
    assert {event.request_id for event in events} == {request.id} and [event.number for event in events] == [1, 2, 3, 4]


class Sly(rt.Actor):
    """Holds the system, and tries to approve from inside a handler."""

    def __init__(self, system: rt.ActorSystem) -> None:
        self.system = system

    @rt.handler
    async def try_it(self, message: Odd) -> str:
        approvals = self.system.approvals
        tries: list[Any] = [
            approvals.pending(),
            approvals.get(message.value),
            approvals.approve(message.value, reviewer="bob"),
            approvals.approve_many([message.value], reviewer="bob"),
            approvals.reject(message.value, reviewer="bob"),
            approvals.edit(message.value, {"amount": 1}, reviewer="bob"),
            approvals.token(message.value),
            approvals.wait(message.value, timeout=1),
            approvals.feedback(message.value, "x", reviewer="bob"),
            approvals.always_allow("payments.**", reviewer="bob", subject=None, expires_seconds=60, open=True),
            approvals.withdraw("aps_x"),
            approvals.resolve("apt_x", "succeeded", reviewer="bob"),
            approvals.statistics(),
        ]
        found = [await outcome(one) for one in tries]
        return ", ".join(sorted({type(one).__name__ for one in found}))


async def test_no_handler_approves_anything(office: Office) -> None:
    request = await office.request()
    sly = await office.system.spawn(Sly, office.system, name="sly")
    assert await sly.ask(Odd(request.id)) == "Denied"
    assert (await office.approvals.get(request.id)).status == "pending"
    assert await office.approvals.standing() == ()


async def test_no_actors_message_reaches_the_desk(office: Office) -> None:
    await office.request()
    for path in ("/system", "/system/approvals", "/system/approvals-store", "approvals", "approvals-store"):
        assert office.system.registry.get(path) is None


async def test_every_decision_is_in_the_audit_before_it_is_made(office: Office) -> None:
    first, second, third = [await office.request(amount) for amount in (1, 2, 3)]
    await office.approvals.approve(first.id, reviewer="bob", note="fine")
    await office.approvals.reject(second.id, reviewer="bob")
    await office.approvals.edit(third.id, {"amount": 4}, reviewer="carol")
    with pytest.raises(rt.ApprovalError):
        await office.approvals.approve(second.id, reviewer="bob")
    records = [entry for entry in await office.system.audit.entries(kind="approval") if " by " in f" {entry.detail}"]
    assert [(entry.reason, entry.allowed, entry.subject, entry.path) for entry in records if entry.operation] == [
        ("approved", True, "alice", "/user/bank"),
        ("rejected", False, "alice", "/user/bank"),
        ("edited", False, "alice", "/user/bank"),
        ("approved", True, "alice", "/user/bank"),
        ("not taken", False, "alice", "/user/bank"),
    ]
    assert first.id in records[0].detail and "bob (asserted)" in records[0].detail and "fine" in records[0].detail


async def test_nothing_is_decided_that_cannot_be_recorded(office: Office) -> None:
    request = await office.request()
    log = office.system._kernel.book.log
    assert log is not None
    log.close()
    with pytest.raises(rt.AuditUnavailable):
        await office.approvals.approve(request.id, reviewer="bob")
    assert (await office.approvals.get(request.id)).status == "pending"


async def test_nobody_is_asked_about_more_than_can_be_read(office: Office) -> None:
    found = await outcome(office.bank.ask(Odd("x" * 300_000), context=office.alice))
    assert isinstance(found, rt.Denied) and "262,144" in str(found)
    assert isinstance(await outcome(office.bank.ask(Odd("x" * 200_000), context=office.alice)), rt.ApprovalRequired)
    assert len(await office.approvals.pending()) == 1


async def test_the_desk_keeps_its_own_time_whatever_the_systems_asks_have(tmp_path: Path) -> None:
    async with system_on(tmp_path, ask_timeout=0.001) as system:
        bank = await system.spawn(Bank, [], name="bank")
        alice = alice_of(system)
        found = await outcome(bank.ask(Pay("ACME", 40), context=alice, timeout=20))
        assert isinstance(found, rt.ApprovalRequired)
        token = await system.approvals.approve(found.request.id, reviewer="bob")
        assert await bank.ask(Pay("ACME", 40), context=alice, approvals=[token], timeout=20) == "paid 40 to ACME"
        assert await system.approvals.pending() == ()


async def test_without_a_folder_all_of_it_works_in_memory_and_ends_with_the_system() -> None:
    effects: list[Any] = []
    tokens = []
    for _ in range(2):
        async with system_on() as system:
            office = Office(system, await system.spawn(Bank, effects, name="bank"), effects)
            for token in tokens:
                assert isinstance(await office.pay(40, token), rt.ApprovalRequired)
            request = await office.request(40)
            tokens.append(await office.approvals.approve(request.id, reviewer="bob"))
            await office.approvals.reject((await office.request(41)).id, reviewer="bob")
            await office.approvals.edit((await office.request(42)).id, {"amount": 43}, reviewer="bob")
            assert [one.status for one in await office.approvals.find()] == ["approved", "rejected", "cancelled", "pending"]
    assert effects == []
