"""Always allow, at a real desk: a standing consent answers the question for the calls it covers, until it ends or is withdrawn, by whatever process."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from approval_bank import Bank, Pay, alice_of, move_clock, outcome, system_on
from retinue.actors.approvals import keys
from retinue.actors.approvals.offline import ApprovalsFile
from retinue.actors.approvals.tables import FILE
from retinue.security.approval_keys import SigningKey
from retinue.security.standing import StandingConsent, sign_standing


def sql(path: Path, statement: str, *parameters: Any) -> None:
    """Another program at the file."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, parameters)
    connection.close()


def count_open(path: Path) -> int:
    connection = sqlite3.connect(path)
    (number,) = connection.execute("SELECT COUNT(*) FROM spent WHERE outcome IS NULL").fetchone()
    connection.close()
    return int(number)


class Room:
    """A system with a bank, and bob's consent to alice's payments of up to 100 to ACME."""

    def __init__(self, system: rt.ActorSystem, bank: rt.Ref[Bank], effects: list[Any], folder: Path) -> None:
        self.system = system
        self.bank = bank
        self.effects = effects
        self.folder = folder
        self.alice = alice_of(system)

    async def allow(self, **changes: Any) -> StandingConsent:
        given: dict[str, Any] = {
            "reviewer": "bob",
            "subject": "alice",
            "expires_seconds": 3_600 * 24,
            "constraints": {"amount": rt.at_most(100), "to": rt.one_of("ACME")},
        }
        return await self.system.approvals.always_allow(**{"pattern": "payments.send", **given, **changes})

    async def noted(self) -> None:
        """Waits until the outcome of all that was spent is noted."""
        with trio.fail_after(10):
            while await trio.to_thread.run_sync(count_open, self.folder / FILE):
                await trio.sleep(0.01)

    async def pay(self, to: str = "ACME", amount: int = 40, context: Any = None) -> Any:
        return await outcome(self.bank.ask(Pay(to, amount), context=context or self.alice))


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    effects: list[Any] = []
    async with system_on(tmp_path) as system:
        yield Room(system, await system.spawn(Bank, effects, name="bank"), effects, tmp_path)


async def test_covered_calls_are_done_without_a_token_each_under_an_id_of_its_own(room: Room) -> None:
    consent = await room.allow()
    assert [await room.pay(amount=amount) for amount in (1, 1, 100)] == ["paid 1 to ACME", "paid 1 to ACME", "paid 100 to ACME"]
    assert len({effect[2] for effect in room.effects}) == 3
    assert await room.system.approvals.standing() == (consent,)
    assert (await room.system.approvals.statistics()).spent == 3
    assert await room.system.approvals.find() == ()


@pytest.mark.parametrize(
    "call",
    [
        lambda room: room.pay(amount=101),
        lambda room: room.pay("Eve"),
        lambda room: room.pay("ACME\u200b"),
        lambda room: room.pay(context=alice_of(room.system, subject="mallory")),
        lambda room: room.pay(amount=True),
    ],
)
async def test_other_calls_are_asked_about(room: Room, call: Any) -> None:
    await room.allow(constraints={"amount": rt.between(2, 100), "to": rt.one_of("ACME")})
    assert isinstance(await call(room), rt.ApprovalRequired)
    assert room.effects == []


@pytest.mark.parametrize("changes", [{"constraints": {"to": rt.one_of("ACME")}}, {"tenant": "other"}, {"audience": "/user/other"}])
async def test_what_it_does_not_name_it_does_not_cover(room: Room, changes: dict[str, Any]) -> None:
    await room.allow(**changes)
    assert isinstance(await room.pay(), rt.ApprovalRequired) and room.effects == []


async def test_one_that_does_not_say_what_it_is_for_is_refused(room: Room) -> None:
    for changes in ({"constraints": {}}, {"constraints": None}, {"constraints": {}, "open": False}, {"constraints": {}, "open": 1}):
        with pytest.raises(rt.DefinitionError, match=r"constraints=.* or open=True"):
            await room.allow(**changes)
        with ApprovalsFile(room.folder) as file, pytest.raises(rt.DefinitionError, match="open=True"):
            file.always("payments.send", reviewer="bob", seconds=60, subject="alice", constraints=changes["constraints"])
    assert await room.system.approvals.standing() == ()


async def test_what_was_interrupted_is_not_done_again_by_it_until_a_person_has_resolved_it(room: Room) -> None:
    consent = await room.allow()
    assert await room.pay() == "paid 40 to ACME"
    await room.noted()
    sql(room.folder / FILE, "UPDATE spent SET outcome = NULL, outcome_ms = NULL")
    assert await room.pay() == "paid 40 to ACME", "what another is doing at this moment is not interrupted"
    sql(room.folder / FILE, "UPDATE spent SET outcome = 'succeeded' WHERE spent_ms = (SELECT MIN(spent_ms) FROM spent)")
    await room.noted()
    sql(room.folder / FILE, "UPDATE spent SET outcome = 'indeterminate'")
    assert await room.pay(amount=41) == "paid 41 to ACME", "another deed is another question"
    found = await room.pay()
    assert isinstance(found, rt.ApprovalRequired)
    reasons = " ".join(found.request.reasons)
    assert "interrupted" in reasons and consent.id in reasons
    token = await room.system.approvals.approve(found.request.id, reviewer="bob")
    assert await outcome(room.bank.ask(Pay("ACME", 40), context=room.alice, approvals=[token])) == "paid 40 to ACME", "a person knows"
    assert isinstance(await room.pay(), rt.ApprovalRequired)
    for one in await room.system.approvals.indeterminate():
        await room.system.approvals.resolve(one.jti, "succeeded", reviewer="bob")
    assert await room.pay() == "paid 40 to ACME"


async def test_of_many_only_those_that_may_be_for_the_call_are_read(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        await room.allow(subject="bea", constraints={"amount": rt.at_most(number)})
        await room.allow(audience=f"/user/other{number}")
    await room.allow(tenant="north")
    looks = []
    looked = keys.signature_of
    monkeypatch.setattr(keys, "signature_of", lambda path: looks.append(path) or looked(path))
    await room.pay()
    assert room.system.approvals._office.standing._known == {} and looks == []
    for number in range(40):
        await room.allow(constraints={"amount": rt.at_most(number), "to": rt.one_of("ACME")})
    assert await room.pay(amount=39) == "paid 39 to ACME"
    assert len(room.system.approvals._office.standing._known) == 40 and len(looks) <= 4
    sql(room.folder / FILE, "UPDATE standing SET subject = 'alice' WHERE subject = 'bea'")
    assert isinstance(await room.pay(amount=40), rt.ApprovalRequired), "what one is for is signed"


async def test_it_is_looked_at_once_more_when_it_is_used(room: Room) -> None:
    """Another process may have been interrupted after the first look."""
    await room.allow()
    office = room.system.approvals._office

    async def nothing(_: Any) -> None:
        return None

    office._unresolved = nothing
    await room.pay()
    await room.noted()
    sql(room.folder / FILE, "UPDATE spent SET outcome = 'indeterminate'")
    found = await room.pay()
    assert isinstance(found, rt.Denied) and found.reason == "approval" and "interrupted" in str(found)
    assert len(room.effects) == 1


async def test_it_permits_nothing_that_the_context_does_not(room: Room) -> None:
    await room.allow(pattern="**", subject=None, constraints={}, open=True)
    poor = room.alice.narrow(rt.where("payments.send", amount=rt.at_most(10)))
    found = await room.pay(context=poor)
    assert isinstance(found, rt.Denied) and found.reason == "arguments"
    assert await room.pay(amount=10, context=poor) == "paid 10 to ACME"


async def test_it_ends_with_its_time(room: Room) -> None:
    await room.allow(expires_seconds=60)
    move_clock(room.system, 59)
    assert await room.pay() == "paid 40 to ACME"
    move_clock(room.system, 61)
    assert isinstance(await room.pay(), rt.ApprovalRequired)
    assert await room.system.approvals.standing() == ()


async def test_it_ends_where_it_is_withdrawn_here_or_by_another_process(room: Room) -> None:
    one, two = await room.allow(), await room.allow()
    await room.system.approvals.withdraw(one.id)
    assert await room.pay() == "paid 40 to ACME"
    with ApprovalsFile(room.folder) as file:
        file.withdraw(two.id, reviewer="carol")
    assert isinstance(await room.pay(), rt.ApprovalRequired)
    for reason, asking in (("decided", one.id), ("unknown", "aps_nothing")):
        with pytest.raises(rt.ApprovalError) as caught:
            await room.system.approvals.withdraw(asking)
        assert caught.value.reason == reason


async def test_one_of_another_process_counts_here(room: Room) -> None:
    with ApprovalsFile(room.folder) as file:
        file.always(
            "payments.*", reviewer="carol", seconds=60, subject="alice", constraints={"to": rt.one_of("ACME"), "amount": rt.at_least(0)}
        )
    assert await room.pay() == "paid 40 to ACME"


async def test_with_four_eyes_the_subjects_own_consent_is_none(room: Room) -> None:
    careful = room.alice.narrow(rt.needs_approval("payments.**", four_eyes=True))
    await room.allow(reviewer="alice")
    assert isinstance(await room.pay(context=careful), rt.ApprovalRequired)
    await room.allow(reviewer="bob")
    assert await room.pay(context=careful) == "paid 40 to ACME"


async def test_a_row_that_somebody_wrote_into_the_file_is_no_consent(room: Room) -> None:
    true = await room.allow(subject="nobody")
    own = StandingConsent.new("**", approver="bob", now_ms=room.system.authority.now_ms(), lifetime_ms=60_000, open=True, constraints={})
    forged = sign_standing(SigningKey.ephemeral(), own)
    insert = "INSERT INTO standing SELECT ?, '**', NULL, NULL, NULL, 'x', approver, issued_ms, expires_ms, NULL, NULL, ?, epoch FROM standing WHERE id = ?"
    sql(room.folder / FILE, insert, own.id, forged, true.id)
    sql(room.folder / FILE, insert, "aps_other", "rubbish", true.id)
    sql(room.folder / FILE, "UPDATE standing SET subject = 'alice', expires_ms = expires_ms + 1000000000 WHERE id = ?", true.id)
    assert isinstance(await room.pay(), rt.ApprovalRequired) and room.effects == []
    assert [consent.id for consent in await room.system.approvals.standing()] == [true.id]


async def test_a_consent_that_was_withdrawn_cannot_be_brought_back_under_another_id(room: Room) -> None:
    consent = await room.allow()
    await room.system.approvals.withdraw(consent.id)
    sql(
        room.folder / FILE,
        "INSERT INTO standing SELECT 'aps_other', pattern, subject, tenant, audience, described, approver, issued_ms, expires_ms, NULL, NULL, signed, epoch "
        "FROM standing WHERE id = ?",
        consent.id,
    )
    assert isinstance(await room.pay(), rt.ApprovalRequired)


@pytest.mark.parametrize(
    "changes",
    [
        {"pattern": "payments.[a-z]"},
        {"expires_seconds": 0},
        {"expires_seconds": 367 * 86_400},
        {"constraints": {"to": "ACME"}},
        {"reviewer": ""},
        {"subject": ""},
    ],
)
async def test_a_malformed_one_is_refused(room: Room, changes: dict[str, Any]) -> None:
    with pytest.raises((rt.DefinitionError, rt.AuthorityError)):
        await room.allow(**changes)
    assert await room.system.approvals.standing() == ()


async def test_many_covered_calls_at_once_share_commits(room: Room) -> None:
    await room.allow()
    found: list[Any] = []

    banks = [await room.system.spawn(Bank, room.effects) for _ in range(48)]

    async def at(bank: Any) -> None:
        found.append(await outcome(bank.ask(Pay("ACME", 40), context=room.alice)))

    async with trio.open_nursery() as nursery:
        for bank in banks:
            nursery.start_soon(at, bank)
    assert found == ["paid 40 to ACME"] * 48
    statistics = await store_statistics(room.system)
    assert statistics.largest >= 4 and statistics.full_commits < 48


async def store_statistics(system: rt.ActorSystem) -> Any:
    from retinue.actors.store.store import Statistics

    office: Any = system.approvals.desk

    async def ask() -> Any:
        return await (await office.store()).ask(Statistics())

    return await system._kernel.consult(ask)
