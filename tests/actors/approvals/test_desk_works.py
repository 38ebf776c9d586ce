"""The desk's works on a file: what is decided or spent stays so, whatever program opens the file, whatever the clock says, and whatever happened to the file."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retinue as rt
from retinue.actors.approvals import works_asking
from retinue.actors.approvals.offline import ApprovalsFile
from retinue.actors.approvals.owners import new_owner
from retinue.actors.approvals.tables import FILE, row_of
from retinue.actors.approvals.works_asking import Ask, Get
from retinue.actors.approvals.works_spending import Count, Indeterminate, ListStanding, NoteOutcome, Resolve, Spend, Tidy, Unspent
from retinue.actors.store.recovery import RECOVERIES
from retinue.security.approval_keys import SigningKey
from retinue.security.approval_tokens import read_token, sign_token
from retinue.security.approvals import ApprovalRequest, Binding, arguments_digest

NOW = 1_900_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
DEAD = "another-boot+1/7.7.aaaa"


class Desk:
    """The file, with a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = ApprovalsFile(folder)
        self.now = NOW
        self.file._clock._clock = self._tell
        self.owner = new_owner()

    def _tell(self) -> int:
        self.file._clock._latest = 0
        return self.now

    def ask(self, amount: int = 40, subject: str = "alice", **binding_of: Any) -> ApprovalRequest:
        arguments = {"amount": amount}
        given = {"tenant": None, "session": None, "audience": "/user/bank", "definition": "0" * 64, "policy_version": "1", **binding_of}
        binding = Binding(**{"operation": "payments.send", "arguments_digest": arguments_digest(arguments), "subject": subject, **given})
        request = ApprovalRequest.new(binding, arguments, message_type="x", reasons=["because"], context_id="c", now_ms=self.now)
        row, _ = self.file.do(Ask(row_of(request), self.now))
        return self.file.get(row["id"])[0]

    def spend(self, token: str, **changes: Any) -> Any:
        """Spends it; returns the reason of what refuses, or the time."""
        said = read_token(token, self.file._keys.verifying())
        given: dict[str, Any] = {
            "jti": said.jti,
            "kind": "token",
            "request_id": said.request_id,
            "standing_id": None,
            "operation": "payments.send",
            "subject": "alice",
            "audience": "/user/bank",
            "arguments_digest": said.binding.arguments_digest,
            "question": "q",
            "approver": said.approver,
            "expires_ms": said.expires_ms,
            "owner": self.owner,
            "now_ms": self.now,
        }
        try:
            return self.file.do(Spend(**{**given, **changes}))
        except rt.ApprovalError as error:
            return error.reason

    def approved(self, amount: int = 40) -> tuple[ApprovalRequest, str]:
        return self.file.approve(self.ask(amount).id, reviewer="bob")

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Another program at the file."""
        connection = sqlite3.connect(self.folder / FILE)
        try:
            with connection:
                return connection.execute(statement, parameters).fetchall()
        finally:
            connection.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    with desk.file:
        yield desk


def test_an_approval_is_spent_once(desk: Desk) -> None:
    _, token = desk.approved()
    assert desk.spend(token) == NOW
    assert desk.spend(token) == "spent"
    assert desk.spend(token, owner=new_owner(), now_ms=NOW + 1) == "spent"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"expires_ms": NOW}, "expired"),
        ({"now_ms": NOW + HOUR}, "expired"),
        ({"expires_ms": NOW + DAY, "now_ms": NOW + HOUR}, "expired"),
        ({"request_id": "apr_other"}, "unknown"),
        ({"jti": "apt_other"}, "unknown"),
        ({"now_ms": NOW - 6_000}, "clock"),
    ],
)
def test_what_refuses_to_be_spent_is_not_spent(desk: Desk, changes: dict[str, Any], reason: str) -> None:
    _, token = desk.approved()
    assert desk.spend(token, **changes) == reason
    if "now_ms" not in changes:
        assert desk.spend(token) == NOW


def test_what_waits_for_a_handler_that_has_changed_since_is_cancelled_when_the_new_one_asks_and_nothing_else_is(desk: Desk) -> None:
    old = desk.ask()
    others = [
        desk.ask(41),
        desk.ask(40, "bert"),
        *(desk.ask(**{name: "other"}) for name in ("tenant", "session", "audience", "operation")),
    ]
    approved, _ = desk.file.approve(desk.ask(40, "carla").id, reviewer="bob")
    new = desk.ask(definition="1" * 64)
    assert desk.ask(definition="1" * 64).id == new.id
    desk.ask(40, "carla", definition="1" * 64)
    found = desk.file.get(old.id)[0]
    assert found.status == "cancelled" and "the handler has changed since" in found.note and new.id in found.note
    assert {desk.file.get(other.id)[0].status for other in (*others, new)} == {"pending"}
    assert desk.file.get(approved.id)[0].status == "approved", "what was decided stays so; its token does not fit any more"
    assert desk.ask().id != old.id and desk.file.get(new.id)[0].status == "cancelled"


def test_time_never_goes_back_in_the_file(desk: Desk) -> None:
    _, token = desk.approved()
    desk.now = NOW + HOUR - 2_000
    desk.ask(41)
    # A clock that is a little behind is taken for the file's, and cannot make what has ended begin anew; one that is far behind decides nothing.
    desk.now = NOW + HOUR - 4_000
    assert desk.spend(token) == NOW + HOUR - 2_000
    desk.now = NOW
    (waiting,) = desk.sql("SELECT id FROM requests WHERE status = 'pending'")[0]
    for work in (
        lambda: desk.ask(42),
        lambda: desk.file.approve(waiting, reviewer="bob"),
        lambda: desk.file.refuse(waiting, kind="rejected", reviewer="bob", note=""),
        lambda: desk.file.edit(waiting, {"amount": 1}, reviewer="bob"),
        lambda: desk.file.always("x", reviewer="bob", seconds=60, subject=None, open_arguments=True),
        lambda: desk.file.do(Unspent("apt_x", waiting, NOW)),
        lambda: desk.file.do(ListStanding(NOW, judging=True)),
        lambda: desk.file.do(Tidy(NOW)),
    ):
        with pytest.raises(rt.ApprovalError, match=r"reset-clock") as caught:
            work()
        assert caught.value.reason == "clock"


def test_whoever_only_looks_may_look_with_any_clock_and_sets_none(desk: Desk) -> None:
    request = desk.ask()
    consent = desk.file.always("x", reviewer="bob", seconds=DAY / 100, subject=None, open_arguments=True)
    floor = desk.sql("SELECT floor_ms FROM clock")

    def look() -> list[Any]:
        file = desk.file
        return [
            file.find("pending"),
            file.find(None)[0].id,
            file.get(request.id)[0].id,
            file.standing(),
            file.do(Count(desk.now))["pending"],
        ]

    for now in (NOW, NOW - 30 * DAY, NOW + 2 * DAY):
        desk.now = now
        assert look() == [[request], request.id, request.id, [consent], 1]
    desk.now = NOW + 400 * DAY
    assert look()[0] == [] and desk.file.get(request.id)[0].status == "expired"
    with pytest.raises(rt.ApprovalError):  # a decision that is not taken sets none either
        desk.file.approve(request.id, reviewer="bob")
    assert desk.sql("SELECT floor_ms FROM clock") == floor
    desk.now = NOW
    assert desk.file.approve(request.id, reviewer="bob")


def test_a_person_sets_a_clock_back_that_was_ahead_and_all_that_was_approved_before_is_void(desk: Desk) -> None:
    used, spent = desk.approved(1)
    desk.spend(spent)
    desk.file.do(NoteOutcome(read_token(spent, desk.file._keys.verifying()).jti, "succeeded", desk.now))
    _, token = desk.approved(2)
    waiting = desk.ask(3)
    consent = desk.file.always("x", reviewer="bob", seconds=100 * DAY / 1_000, subject=None, open_arguments=True)
    with pytest.raises(rt.ApprovalError, match="nothing to reset"):
        desk.file.reset_clock(reviewer="bob")
    desk.now = NOW + 20 * DAY
    desk.file.do(Tidy(desk.now))  # a system that ran with a clock that was ahead
    desk.now = NOW + 1_000
    assert desk.file.behind() == 20 * DAY - 1_000 and desk.spend(spent) == "clock"
    done = desk.file.reset_clock(reviewer="carol")
    assert (done.before_ms, done.now_ms, done.approvals, done.standing) == (NOW + 20 * DAY, desk.now, 1, 1)
    assert desk.file.behind() == 0 and desk.file.standing() == [] and desk.file.do(Count(desk.now))["standing"] == 0
    assert (desk.spend(spent), desk.spend(token)) == ("spent", "store")
    for trigger in ("requests_are_used_once", "what_is_spent_is_remembered"):
        desk.sql(f"DROP TRIGGER {trigger}")
    desk.sql("DELETE FROM spent")
    assert desk.spend(spent) == "spent", "the request itself is a second witness of its use"
    desk.sql("UPDATE requests SET used_ms = NULL")
    assert desk.spend(spent) == "store"
    assert desk.spend(token, kind="standing", standing_id=consent.id, jti="apt_x") == "decided"
    assert desk.file.get(used.id)[1]["void"] and desk.file.get(waiting.id)[0].status == "expired"
    ((who, kind),) = desk.sql("SELECT who, kind FROM events WHERE kind = 'clock reset'")
    assert (who, kind) == ("carol", "clock reset")
    _, fresh = desk.file.approve(desk.ask(2).id, reviewer="bob")
    assert desk.spend(fresh) == desk.now
    desk.sql("DELETE FROM clock")
    assert desk.file.behind() is None and desk.file.find(None)
    desk.file.reset_clock(reviewer="carol")
    assert desk.ask(9).status == "pending"


def test_a_later_recovery_is_another_file_even_where_the_clock_was_set_back_before_it(desk: Desk) -> None:
    seen = set()
    desk.ask()
    for at in (NOW + 60 * DAY, NOW, NOW):
        desk.sql(f"CREATE TABLE IF NOT EXISTS {RECOVERIES} (id INTEGER PRIMARY KEY, at_ms INTEGER)")
        desk.sql(f"INSERT INTO {RECOVERIES} (at_ms) VALUES (?)", at)
        request, _ = desk.file.approve(desk.ask(len(seen)).id, reviewer="bob")
        seen.add(desk.sql("SELECT epoch FROM requests WHERE id = ?", request.id)[0])
    assert len(seen) == 3


def test_an_outcome_is_noted_even_by_a_wrong_clock(desk: Desk) -> None:
    _, token = desk.approved()
    desk.spend(token)
    jti = read_token(token, desk.file._keys.verifying()).jti
    assert desk.file.do(NoteOutcome(jti, "succeeded", NOW - DAY))
    assert not desk.file.do(NoteOutcome(jti, "failed: X", NOW))
    assert desk.sql("SELECT outcome FROM spent") == [("succeeded",)]


def test_what_nobody_knows_is_indeterminate_at_once_and_whoever_does_it_knows_better(desk: Desk) -> None:
    _, token = desk.approved()
    jti = read_token(token, desk.file._keys.verifying()).jti
    assert not desk.file.do(NoteOutcome(jti, "indeterminate", desk.now)), "it was not spent"
    desk.spend(token)
    assert desk.file.do(NoteOutcome(jti, "indeterminate", desk.now)) and not desk.file.do(NoteOutcome(jti, "indeterminate", desk.now))
    assert [row["jti"] for row in desk.file.indeterminate()] == [jti]
    assert desk.file.do(NoteOutcome(jti, "succeeded", desk.now)) and desk.file.indeterminate() == ()
    assert not desk.file.do(NoteOutcome(jti, "indeterminate", desk.now))


def test_what_a_dead_process_left_is_indeterminate_and_what_a_living_one_does_is_not(desk: Desk) -> None:
    (_, one), (_, two) = desk.approved(1), desk.approved(2)
    desk.spend(one, owner=DEAD)
    desk.spend(two)
    assert [row["jti"] for row in desk.file.do(Indeterminate())] == [read_token(one, desk.file._keys.verifying()).jti]
    assert len(desk.file.do(Tidy(desk.now))) == 1
    assert desk.file.do(Tidy(desk.now)) == ()
    assert desk.file.do(Count(desk.now))["indeterminate"] == 1
    assert len(desk.file.do(Tidy(desk.now, desk.owner))) == 1
    assert len(desk.file.do(Indeterminate())) == 2


def test_whoever_did_it_knows_better_than_whoever_thought_it_dead(desk: Desk) -> None:
    _, token = desk.approved()
    desk.spend(token, owner=DEAD)
    desk.file.do(Tidy(desk.now))
    jti = read_token(token, desk.file._keys.verifying()).jti
    assert desk.file.do(NoteOutcome(jti, "succeeded", desk.now))
    with pytest.raises(rt.ApprovalError):
        desk.file.do(Resolve(jti, "failed", "bob", True, "", desk.now))


def test_what_is_in_progress_is_not_resolved_by_a_person(desk: Desk) -> None:
    _, token = desk.approved()
    desk.spend(token)
    jti = read_token(token, desk.file._keys.verifying()).jti
    with pytest.raises(rt.ApprovalError, match="in progress"):
        desk.file.resolve(jti, "succeeded", reviewer="bob")


def test_what_was_spent_is_forgotten_only_when_no_clock_can_make_it_good_again(desk: Desk) -> None:
    (_, one), (_, two) = desk.approved(1), desk.approved(2)
    desk.spend(one)
    desk.spend(two, owner=DEAD)
    desk.file.do(NoteOutcome(read_token(one, desk.file._keys.verifying()).jti, "succeeded", desk.now))
    desk.now = NOW + 29 * DAY
    desk.file.do(Tidy(desk.now))
    assert desk.sql("SELECT count(*) FROM spent") == [(2,)]
    desk.now = NOW + 31 * DAY
    desk.file.do(Tidy(desk.now))
    assert desk.sql("SELECT outcome FROM spent") == [("indeterminate",)]  # a person has to look at this one
    assert desk.spend(one) == "unknown"  # and so is its request
    desk.now = NOW
    assert desk.spend(one) == "clock"


def test_what_is_over_for_30_days_is_forgotten_and_nothing_that_anybody_still_needs(desk: Desk) -> None:
    old = desk.ask(1)
    edited = desk.file.edit(desk.ask(2).id, {"amount": 3}, reviewer="bob")
    (interrupted, token), (approved, _) = desk.approved(4), desk.approved(5)
    desk.spend(token, owner=DEAD)
    desk.file.refuse(old.id, kind="rejected", reviewer="bob", note="")
    desk.file.add_feedback(old.id, "a remark", reviewer="bob")
    desk.now = NOW + 29 * DAY
    waiting = desk.ask(6)
    for days, left in ((29, 6), (31, 4), (38, 3), (38, 2), (60, 2), (75, 1)):
        desk.now = NOW + days * DAY
        desk.file.do(Tidy(desk.now))
        found = {request.id for request in desk.file.find(None)}
        assert len(found) == left, (days, found)
        assert interrupted.id in found and (days > 60 or waiting.id in found)
        assert not {old.id, approved.id} & found or days == 29
        assert edited.id in found or days > 37
    assert desk.sql("SELECT count(*) FROM feedback") == [(0,)]
    last, events = desk.file.events(0)
    assert len(events) < 3 and events[-1]["number"] == last > 10
    desk.ask(7)
    with pytest.raises(sqlite3.DatabaseError, match="only added"):
        desk.sql("DELETE FROM events")


@pytest.mark.parametrize(
    ("name", "most", "whose"),
    [("MAX_BYTES_OF_SUBJECT", 50, "alice"), ("MAX_BYTES", 50, "bea"), ("MAX_BYTES_AN_HOUR", 50, "alice"), ("MAX_AN_HOUR", 3, "alice")],
)
def test_what_the_desk_has_to_keep_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str, most: int, whose: str) -> None:
    monkeypatch.setattr(works_asking, name, most)
    requests = [desk.ask(amount) for amount in (101, 102, 103)]
    assert desk.sql("SELECT sum(size) FROM requests") == [(sum(len(request.stored_arguments) for request in requests),)] == [(45,)]

    def reason(subject: str) -> str:
        try:
            return desk.ask(999, subject).status
        except rt.ApprovalError as error:
            return error.reason

    assert reason(whose) == "full"
    assert whose == "bea" or reason("bea") == "pending"
    assert desk.ask(101).id == requests[0].id, "nothing more is kept for what is asked once more"
    for request in requests:
        desk.file.refuse(request.id, kind="rejected", reviewer="bob", note="")
    if "HOUR" in name:
        assert reason(whose) == "full", "also what was rejected is kept"
        desk.now += HOUR + 1
    assert reason(whose) == "pending"


def test_what_a_hook_has_rejected_is_rejected_for_a_minute_and_what_a_person_has_is_asked_again(desk: Desk) -> None:
    def ask(hook: str | None) -> str:
        request = ApprovalRequest.new(first.binding, dict(first.arguments), message_type="x", reasons=[], context_id="c", now_ms=desk.now)
        return str(desk.file.do(Ask(row_of(request), desk.now, hook=hook))[0]["id"])

    first = desk.ask()
    desk.file.refuse(first.id, kind="rejected", reviewer="reviewer rule", note="no")
    assert ask("reviewer rule") == first.id
    assert ask("reviewer other") != first.id
    desk.now += 61_000
    again = ask("reviewer rule")
    assert again != first.id
    desk.file.refuse(again, kind="rejected", reviewer="bob", note="no")
    assert ask("reviewer rule") not in (again, first.id)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE requests SET status = 'pending' WHERE status = 'approved'",
        "UPDATE requests SET status = 'approved' WHERE status = 'rejected'",
        "UPDATE requests SET arguments = '{}'",
        "UPDATE requests SET subject = 'mallory'",
        "UPDATE requests SET four_eyes = 1",
        "UPDATE spent SET jti = 'x'",
        "DELETE FROM spent",
        "UPDATE requests SET used_ms = 1 WHERE used_ms IS NOT NULL",
        "UPDATE spent SET expires_ms = 0",
        "UPDATE events SET who = 'nobody'",
        "DELETE FROM events",
        "UPDATE clock SET floor_ms = 0",
        "UPDATE requests SET status = 'perhaps' WHERE status = 'pending'",
    ],
)
def test_the_file_itself_keeps_other_programs_from_turning_what_was_decided(desk: Desk, statement: str) -> None:
    _, token = desk.approved()
    desk.spend(token)
    desk.file.refuse(desk.ask(41).id, kind="rejected", reviewer="bob", note="")
    desk.ask(42)
    with pytest.raises(sqlite3.IntegrityError):
        desk.sql(statement)


def test_a_request_whose_arguments_were_edited_in_the_file_is_neither_shown_nor_approved(desk: Desk) -> None:
    request = desk.ask()
    desk.sql("DROP TRIGGER requests_ask_what_they_asked")
    desk.sql("UPDATE requests SET arguments = ?", '{"amount": 1}')
    for work in (lambda: desk.file.get(request.id), lambda: desk.file.approve(request.id, reviewer="bob")):
        with pytest.raises(rt.ApprovalError) as caught:
            work()
        assert caught.value.reason == "arguments"
    assert desk.file.find(None) == []


def test_a_spent_row_that_somebody_removed_does_not_make_another_token_good(desk: Desk) -> None:
    request, token = desk.approved()
    desk.sql("UPDATE requests SET jti = 'apt_other' WHERE id = ?", request.id)
    assert desk.spend(token) == "unknown"


def test_a_token_that_somebody_wrote_to_a_request_which_is_not_approved_is_none(desk: Desk) -> None:
    rejected, waiting = desk.ask(1), desk.ask(2)
    desk.file.refuse(rejected.id, kind="rejected", reviewer="bob", note="")
    for request in (rejected, waiting):
        token = sign_token(load_signing_of(desk), request.binding, request_id=request.id, approver="bob", now_ms=NOW)
        jti = read_token(token, desk.file._keys.verifying()).jti
        desk.sql("UPDATE requests SET jti = ?, token_expires_ms = ?, epoch = 0 WHERE id = ?", jti, NOW + HOUR, request.id)
        assert desk.spend(token) == "decided"


def load_signing_of(desk: Desk) -> SigningKey:
    return desk.file._keys.signing()


def test_after_a_damaged_file_was_mended_nothing_that_was_approved_before_is_good(desk: Desk) -> None:
    (request, token), (_, other) = desk.approved(1), desk.approved(2)
    waiting = desk.ask(3)
    desk.file.always("payments.send", reviewer="bob", seconds=600, subject=None, open_arguments=True)
    desk.spend(token)
    desk.file._session.close()
    path = desk.folder / FILE
    # The table of what was spent is lost, all else can be read.
    connection = sqlite3.connect(path)
    page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_spent_1'").fetchone()[0]
    table = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'spent'").fetchone()[0]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    content = bytearray(path.read_bytes())
    for number in (page, table):
        content[(number - 1) * size : number * size] = b"\xff" * size
    path.write_bytes(content)

    desk.file.find(None)
    assert desk.sql("SELECT * FROM clock") == [(1, NOW)], "the time that the old file had seen is not lost"
    assert desk.spend(token) in ("store", "unknown", "spent") and desk.spend(other) in ("store", "unknown")
    assert len(list(desk.folder.glob(f"{FILE}.damaged-*.reason.txt"))) == 1
    assert desk.file.get(waiting.id)[0].status == "pending"
    assert desk.file.standing() == []
    with pytest.raises(rt.ApprovalError):
        desk.file.do(Unspent(read_token(other, desk.file._keys.verifying()).jti, request.id, desk.now))
    again = desk.ask(2)
    assert again.status == "pending"
    _, new = desk.file.approve(again.id, reviewer="bob")
    assert desk.spend(new) == NOW


def test_a_request_can_be_named_by_the_beginning_of_its_id_where_only_one_has_it(desk: Desk) -> None:
    ids = sorted(desk.ask(amount).id for amount in range(40))
    assert desk.file.get(ids[0])[0].id == ids[0] == desk.file.get(ids[0][4:])[0].id
    shared = next(one[: len("apr_") + 1] for one, two in itertools.pairwise(ids) if one[:5] == two[:5])
    for beginning in (shared, "apr_", "apr_!", "%", "apr__"):
        with pytest.raises(rt.ApprovalError) as caught:
            desk.file.do(Get(beginning, desk.now, prefix=True))
        assert caught.value.reason == "unknown"
