"""A reviewer hook decides by a Review and by nothing else: None, True, an error or a time-out leave the request waiting."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
import trio

import retinue as rt
from approval_bank import Bank, Pay, alice_of, outcome, system_on
from quiet_threads import until
from retinue.actors.approvals.office import Office


async def paid_with(reviewer: Any, amount: int = 40, **options: Any) -> tuple[Any, list[Any], tuple[rt.ApprovalRequest, ...]]:
    """What asking gives, the effects, and all requests."""
    effects: list[Any] = []
    async with system_on(reviewer=reviewer, **options) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        found = await outcome(bank.ask(Pay("ACME", amount), context=alice_of(system)))
        return found, effects, await system.approvals.find()


def approving(request: rt.ApprovalRequest) -> rt.Review:
    return rt.Review.approve("small enough")


async def approving_later(request: rt.ApprovalRequest) -> rt.Review:
    await trio.lowlevel.checkpoint()
    return rt.Review.approve()


@pytest.mark.parametrize("reviewer", [approving, approving_later])
async def test_a_review_that_approves_lets_the_call_through(reviewer: Any) -> None:
    found, effects, (request,) = await paid_with(reviewer)
    assert found == "paid 40 to ACME" and [effect[:2] for effect in effects] == [("ACME", 40)]
    assert (request.status, request.reviewer, request.reviewer_asserted) == ("approved", f"reviewer {reviewer.__qualname__}", True)


@pytest.mark.parametrize(
    "answer",
    [None, True, 1, "approve", "approved", {"approved": True}, rt.Review, ("approve",), object()],
    ids=lambda answer: type(answer).__name__ + repr(answer)[:12],
)
async def test_whatever_is_no_review_approves_nothing(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found, effects, (request,) = await paid_with(lambda request: answer)
    assert isinstance(found, rt.ApprovalRequired) and effects == [] and request.status == "pending"
    assert ("decides nothing" in caplog.text) is (answer is not None)


async def test_one_that_raises_approves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: rt.ApprovalRequest) -> rt.Review:
        raise OSError("no terminal")

    found, effects, (request,) = await paid_with(broken)
    assert isinstance(found, rt.ApprovalRequired) and effects == [] and request.status == "pending"
    assert "no terminal" in caplog.text


async def test_one_that_takes_too_long_approves_nothing_then_or_later() -> None:
    async def slow(request: rt.ApprovalRequest) -> rt.Review:
        await trio.sleep_forever()
        return rt.Review.approve()

    found, effects, (request,) = await paid_with(slow, reviewer_timeout=0.05)
    assert isinstance(found, rt.ApprovalRequired) and effects == [] and request.status == "pending"


async def test_one_that_blocks_does_so_in_a_thread_of_its_own_and_comes_too_late() -> None:
    go = threading.Event()

    def blocking(request: rt.ApprovalRequest) -> rt.Review:
        go.wait(20)
        return rt.Review.approve()

    try:
        found, effects, (request,) = await paid_with(blocking, reviewer_timeout=0.05)
    finally:
        go.set()
    assert isinstance(found, rt.ApprovalRequired) and effects == [] and request.status == "pending"


@pytest.mark.parametrize("review", [rt.Review.reject("no"), rt.Review.respond("no")])
async def test_a_review_that_rejects_refuses_the_call(review: rt.Review) -> None:
    found, effects, (request,) = await paid_with(lambda request: review)
    assert isinstance(found, rt.Denied) and found.reason == "rejected" and "no" in str(found)
    assert effects == [] and request.status == "rejected" and request.note == "no"


async def test_a_review_that_edits_makes_a_request_that_the_hook_is_asked_about_next() -> None:
    seen: list[tuple[Any, Any]] = []

    def careful(request: rt.ApprovalRequest) -> rt.Review:
        seen.append((request.arguments["amount"], request.edit_of))
        return rt.Review.approve() if request.arguments["amount"] <= 100 else rt.Review.edit({"amount": 100})

    effects: list[Any] = []
    async with system_on(reviewer=careful) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        alice = alice_of(system)
        found = await outcome(bank.ask(Pay("ACME", 500), context=alice))
        assert isinstance(found, rt.ApprovalRequired) and effects == []
        edited = found.request
        assert edited.status == "approved" and edited.arguments == {"to": "ACME", "amount": 100}
        assert seen == [(500, None), (100, edited.edit_of)]
        token = await system.approvals.token(edited.id)
        assert isinstance(await outcome(bank.ask(Pay("ACME", 500), context=alice, approvals=[token])), rt.ApprovalRequired)
        assert await bank.ask(Pay("ACME", 100), context=alice, approvals=[token]) == "paid 100 to ACME"


async def test_a_hook_that_always_edits_comes_to_an_end() -> None:
    found, effects, requests = await paid_with(lambda request: rt.Review.edit({"amount": request.arguments["amount"] + 1}))
    assert isinstance(found, rt.ApprovalRequired) and effects == []
    assert [request.status for request in requests] == ["cancelled"] * 3 + ["pending"]


async def test_a_hook_whose_edit_does_not_fit_has_decided_nothing() -> None:
    found, effects, (request,) = await paid_with(lambda request: rt.Review.edit({"amount": "a lot"}))
    assert isinstance(found, rt.ApprovalRequired) and effects == [] and request.status == "pending"


async def test_one_question_is_reviewed_once_at_a_time() -> None:
    asked: list[str] = []

    async def slowly(request: rt.ApprovalRequest) -> rt.Review:
        asked.append(request.id)
        await trio.sleep(0.05)
        return rt.Review.reject()

    effects: list[Any] = []
    found: list[Any] = []
    async with system_on(reviewer=slowly) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        other = await system.spawn(Bank, effects, name="other")
        alice = alice_of(system)

        async def pay(ref: Any) -> None:
            found.append(await outcome(ref.ask(Pay("ACME", 40), context=alice)))

        async with trio.open_nursery() as nursery:
            for ref in (bank, bank, bank, other):
                nursery.start_soon(pay, ref)
    assert {one.reason for one in found} == {"rejected"}
    assert len(asked) == len(set(asked)) and effects == []


async def test_the_hook_may_use_the_desk_itself() -> None:
    held: list[Any] = []

    async def with_desk(request: rt.ApprovalRequest) -> None:
        await held[0].approvals.reject(request.id, reviewer="the hook's own name")

    async with system_on(reviewer=with_desk) as system:
        held.append(system)
        bank = await system.spawn(Bank, [], name="bank")
        found = await outcome(bank.ask(Pay("ACME", 40), context=alice_of(system)))
    assert isinstance(found, rt.Denied) and "the hook's own name" in str(found)


async def test_an_asker_that_gives_up_leaves_the_request_waiting_and_the_next_is_reviewed() -> None:
    calls: list[str] = []

    async def slow_first(request: rt.ApprovalRequest) -> rt.Review:
        calls.append(request.id)
        if len(calls) == 1:
            await trio.sleep_forever()
        return rt.Review.approve()

    effects: list[Any] = []
    async with system_on(reviewer=slow_first) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        alice = alice_of(system)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: bank.ask(Pay("ACME", 40), context=alice))
            await until(lambda: bool(calls))
            nursery.cancel_scope.cancel()
        assert effects == []
        assert await bank.ask(Pay("ACME", 40), context=alice) == "paid 40 to ACME"
    assert len(calls) == 2 and len(effects) == 1


@pytest.mark.parametrize(
    "make", [lambda: rt.Review(), lambda: rt.Review.approve(7), lambda: rt.Review.edit({}), lambda: rt.Review.respond("x" * 4_001)]
)  # type: ignore[arg-type]
def test_a_review_is_well_formed(make: Any) -> None:
    with pytest.raises(rt.DefinitionError):
        make()


async def test_what_the_hook_approved_and_nobody_used_is_used_by_who_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def once(request: rt.ApprovalRequest) -> rt.Review:
        asked.append(request.id)
        return rt.Review.approve()

    effects: list[Any] = []
    async with system_on(reviewer=once) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        alice = alice_of(system)
        with monkeypatch.context() as broken:

            async def spend(self: Any, question: Any, consent: Any) -> None:
                raise rt.StoreUnavailable("not now")

            broken.setattr(Office, "spend", spend)
            assert isinstance(await outcome(bank.ask(Pay("ACME", 40), context=alice)), rt.Denied)
        assert await bank.ask(Pay("ACME", 40), context=alice) == "paid 40 to ACME"
        assert len(asked) == 1 and len(effects) == 1
        assert await bank.ask(Pay("ACME", 40), context=alice) == "paid 40 to ACME"
        assert len(set(asked)) == 2 and len(effects) == 2


async def test_what_a_person_approved_is_not_used_by_who_asks_without_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    effects: list[Any] = []
    async with system_on(reviewer=lambda request: None) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        alice = alice_of(system)
        found = await outcome(bank.ask(Pay("ACME", 40), context=alice))
        token = await system.approvals.approve(found.request.id, reviewer="bob")
        again = await outcome(bank.ask(Pay("ACME", 40), context=alice))
        assert isinstance(again, rt.ApprovalRequired) and again.request.status == "approved" and effects == []
        assert await bank.ask(Pay("ACME", 40), context=alice, approvals=[token]) == "paid 40 to ACME"
