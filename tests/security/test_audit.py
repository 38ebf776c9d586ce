"""The audit log: no record, no deed; and every change of what was written shows."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
import time
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from retinue.security.audit import AuditLog, AuditStatistics
from retinue.security.audit_chain import KINDS, AuditEntry, AuditHead, verify_chain
from retinue.security.authority import Authority
from retinue.security.errors import AuditBroken, AuditUnavailable, CanonicalError, DefinitionError, PatternError

KEY = b"k" * 32


class Paper:
    """A sink in memory; it raises while `broken` is set."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []
        self.broken: BaseException | None = None
        self.recovered = ""
        self.closed = 0

    def last(self) -> AuditEntry | None:
        return self.entries[-1] if self.entries else None

    def write(self, entry: AuditEntry) -> None:
        if self.broken is not None:
            raise self.broken
        if self.entries and self.entries[-1].number == entry.number:
            self.entries.pop()
        self.entries.append(entry)

    def close(self) -> None:
        self.closed += 1


def filled(count: int = 6, **options: Any) -> tuple[AuditLog, Paper]:
    paper = Paper()
    log = AuditLog(KEY, sink=paper, **options)
    for number in range(count):
        log.record("decision", allowed=bool(number % 2), operation=f"fs.op{number}", reason="permission", detail=f"number {number}")
    return log, paper


# -- what a record says ------------------------------------------------------------------------------------------------------------------


def test_a_record_says_what_was_decided_under_whose_authority() -> None:
    log = AuditLog(KEY, now_ms=lambda: 1_800_000_000_123)
    authority = Authority()
    minted = authority.mint("ada", ["fs.*"], tenant="acme")
    narrowed = minted.narrow("fs.read")
    entry = log.record(
        "decision",
        allowed=False,
        operation="fs.delete",
        reason="permission",
        security=narrowed,
        path="/user/files",
        message_type="Delete",
        arguments_digest=log.digest({"path": "a"}),
        detail="the layer allow('fs.read') does not name it",
    )
    assert attrs.asdict(entry) == {
        "number": 1,
        "at_ms": 1_800_000_000_123,
        "kind": "decision",
        "operation": "fs.delete",
        "allowed": False,
        "reason": "permission",
        "context": narrowed.id,
        "root": minted.id,
        "subject": "ada",
        "tenant": "acme",
        "path": "/user/files",
        "message_type": "Delete",
        "arguments_digest": log.digest({"path": "a"}),
        "policy_version": narrowed.policy_version,
        "detail": "the layer allow('fs.read') does not name it",
        "count": 1,
        "previous": "0" * 64,
        "mac": entry.mac,
    }
    assert log.entries() == (entry,)
    assert log.head() == (1, entry.mac)


def test_each_record_follows_the_one_before() -> None:
    log, paper = filled()
    assert [entry.number for entry in log.entries()] == [1, 2, 3, 4, 5, 6]
    assert [entry.previous for entry in paper.entries[1:]] == [entry.mac for entry in paper.entries[:-1]]
    assert verify_chain(paper.entries, KEY, head=log.head()) == log.head()
    assert log.verify() == 6


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_can_be_recorded(kind: Any) -> None:
    assert AuditLog().record(kind, allowed=True).kind == kind


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(AuditUnavailable, match="no kind of record"):
        AuditLog().record("whatever", allowed=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [None, "yes", 1, object()])
def test_only_a_literal_true_is_recorded_as_allowed(odd: Any) -> None:
    assert AuditLog().record("decision", allowed=odd).allowed is False


def test_of_a_forged_context_nothing_is_said_and_the_record_is_made() -> None:
    from retinue.security.context import SecurityContext

    forged = object.__new__(SecurityContext)
    knot = object.__new__(SecurityContext)
    SecurityContext.__mro__[1].__dict__["parent"].__set__(knot, knot)
    log = AuditLog(KEY)
    for odd in (forged, knot, object(), "ada", Authority):
        entry = log.record("decision", allowed=False, reason="forged", security=odd)  # type: ignore[arg-type]
        assert (entry.context, entry.root, entry.subject) == (None, None, None)


class Name(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "somebody else"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\nb\u2028c\x00", "a\nb\u2028c\x00"),
        ("\ud800", "\\ud800"),
        ("\udc80é", "\\udc80é"),
        ("x" * 5000, "x" * 1023 + "…"),
        (Name("ada"), "ada"),
        ("\U0001f600", "\U0001f600"),
    ],
)
def test_whatever_a_text_holds_the_record_is_one_line_that_reads_back(text: str, kept: str) -> None:
    log = AuditLog(KEY)
    entry = log.record("decision", allowed=False, operation=text, path=text, reason=text, detail=text, message_type=text)
    assert entry.detail == entry.operation == entry.reason == kept
    assert type(entry.path) is str
    assert "\n" not in entry.line
    assert entry.line.isascii()
    assert AuditEntry.from_data(json.loads(entry.line)) == entry
    assert verify_chain([entry], KEY).number == 1


def test_a_pair_of_halves_is_not_taken_for_the_whole() -> None:
    log = AuditLog(KEY)
    one = log.record("decision", allowed=False, detail="\U0001f600")
    other = log.record("decision", allowed=False, detail="\ud83d\ude00")
    assert one.detail != other.detail


# -- digests -----------------------------------------------------------------------------------------------------------------------------


def test_arguments_are_digested_with_a_key() -> None:
    one, other = AuditLog(KEY), AuditLog(b"l" * 32)
    assert one.digest({"password": "hunter2"}) == one.digest({"password": "hunter2"}) == AuditLog(KEY).digest({"password": "hunter2"})
    assert one.digest({"password": "hunter2"}) != one.digest({"password": "hunter3"})
    assert one.digest({"password": "hunter2"}) != other.digest({"password": "hunter2"})
    assert one.digest({"n": 1}) != one.digest({"n": True})
    with pytest.raises(CanonicalError):
        one.digest({"file": object()})


# -- no record, no deed -------------------------------------------------------------------------------------------------------------------


def test_a_sink_that_fails_refuses_and_the_next_record_takes_the_same_number() -> None:
    log, paper = filled(2)
    head = log.head()
    for broken in (OSError(28, "No space left on device"), ValueError("odd"), RuntimeError()):
        paper.broken = broken
        with pytest.raises(AuditUnavailable) as caught:
            log.record("decision", allowed=True, operation="fs.write", path="/user/files")
        assert (caught.value.operation, caught.value.path, caught.value.reason) == ("fs.write", "/user/files", "audit")
        assert caught.value.__cause__ is broken
    assert log.head() == head
    assert len(log.entries()) == 2
    paper.broken = None
    assert log.record("decision", allowed=True).number == 3
    assert verify_chain(paper.entries, KEY, head=log.head()).number == 3
    assert log.statistics() == AuditStatistics(records=3, kept=3, failures=3, published=0, publish_failures=0)


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_record_that_is_interrupted_is_replaced_by_the_next(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log, paper = filled(2)
    write = paper.write

    def interrupted(entry: AuditEntry) -> None:
        if where == "after":
            write(entry)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(paper, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.record("decision", allowed=True)
    assert log.record("decision", allowed=False).number == 3
    assert verify_chain(paper.entries, KEY, head=log.head()).number == 3
    assert log.verify() == 3


@pytest.mark.parametrize("clock", [lambda: 1 // 0, lambda: None, lambda: float("nan"), lambda: "now"])
def test_a_clock_that_fails_refuses(clock: Any) -> None:
    with pytest.raises(AuditUnavailable):
        AuditLog(now_ms=clock).record("decision", allowed=True)


def test_a_closed_log_refuses() -> None:
    log, paper = filled(1)
    log.close()
    log.close()
    assert paper.closed == 1
    with pytest.raises(AuditUnavailable, match="closed"):
        log.record("decision", allowed=True)


def test_a_record_in_the_middle_of_another_is_refused_and_breaks_nothing() -> None:
    log: AuditLog
    inner: list[Exception] = []

    class Nosy(Paper):
        def write(self, entry: AuditEntry) -> None:
            try:
                log.record("outcome", allowed=True)
            except AuditUnavailable as error:
                inner.append(error)
            super().write(entry)

    nosy = Nosy()
    log = AuditLog(KEY, sink=nosy)
    for _ in range(3):
        log.record("decision", allowed=True)
    assert len(inner) == 3
    assert verify_chain(nosy.entries, KEY, head=log.head()).number == 3


def test_threads_that_record_at_once_make_one_chain() -> None:
    log, paper = filled(0)

    def record() -> None:
        for _ in range(200):
            log.record("decision", allowed=True, detail=threading.current_thread().name)

    threads = [threading.Thread(target=record) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify_chain(paper.entries, KEY, head=log.head()).number == 1000


# -- the chain ---------------------------------------------------------------------------------------------------------------------------

ENTRIES = tuple(filled(6)[1].entries)
HEAD = AuditHead(ENTRIES[-1].number, ENTRIES[-1].mac)


def broken_at(entries: Any, **options: Any) -> int | None:
    with pytest.raises(AuditBroken) as caught:
        verify_chain(entries, options.pop("key", KEY), **options)
    return caught.value.number


def test_a_true_chain_verifies() -> None:
    assert verify_chain(ENTRIES, KEY) == verify_chain(iter(ENTRIES), KEY, head=HEAD) == HEAD
    assert verify_chain([], KEY) == verify_chain([], KEY, head=(0, "0" * 64)) == (0, "0" * 64)


def test_another_key_fits_nothing() -> None:
    assert broken_at(ENTRIES, key=b"l" * 32) == 1


@pytest.mark.parametrize(
    ("change", "number"),
    [
        (lambda rows: rows[1:], 1),
        (lambda rows: rows[:2] + rows[3:], 3),
        (lambda rows: [*rows[:2], rows[3], rows[2], *rows[4:]], 3),
        (lambda rows: [*rows[:3], rows[2], *rows[3:]], 4),
        (lambda rows: rows[::-1], 1),
        (lambda rows: [*rows, rows[0]], 7),
        (lambda rows: [attrs.evolve(rows[0], number=0), *rows], 1),
    ],
)
def test_removed_added_and_reordered_records_show(change: Any, number: int) -> None:
    assert broken_at(change(list(ENTRIES))) == number


@pytest.mark.parametrize("place", range(1, 6))
def test_records_of_another_chain_of_the_same_key_do_not_fit_in(place: int) -> None:
    log = AuditLog(KEY)
    for _ in range(6):
        log.record("mint", allowed=True)
    others = log.entries()
    assert verify_chain(others, KEY)
    assert broken_at([*ENTRIES[:place], *others[place:]]) == place + 1
    if place < 5:
        assert broken_at([*ENTRIES[:place], others[place], *ENTRIES[place + 1 :]]) == place + 1


@pytest.mark.parametrize("cut", range(6))
def test_a_cut_at_the_end_shows_against_a_head_that_was_kept(cut: int) -> None:
    rows = ENTRIES[:cut]
    assert verify_chain(rows, KEY).number == cut  # without one it cannot
    with pytest.raises(AuditBroken, match="the end was cut off") as caught:
        verify_chain(rows, KEY, head=HEAD)
    assert caught.value.number is None


def test_an_older_head_of_the_same_chain_is_fine_and_anothers_is_not() -> None:
    for row in ENTRIES:
        verify_chain(ENTRIES, KEY, head=(row.number, row.mac))
    assert broken_at(ENTRIES, head=(3, ENTRIES[3].mac)) == 3
    assert broken_at(ENTRIES, head=(0, ENTRIES[3].mac)) == 0
    rewritten = filled(6)[1].entries
    assert verify_chain(rewritten, KEY)
    assert broken_at(rewritten, head=(3, "f" * 64)) == 3


CHANGES: dict[str, Any] = {
    "number": [0, 7, 2.0, True],
    "at_ms": [0, -1, 2**70, 1.0],
    "kind": ["mint", ""],
    "operation": [None, "", "fs.other"],
    "allowed": [None, 0, 1, "x"],
    "reason": ["", "PERMISSION"],
    "context": ["x"],
    "root": ["x"],
    "subject": ["eve", ""],
    "tenant": ["x"],
    "path": ["/user/x", "\ud800"],
    "message_type": ["X"],
    "arguments_digest": ["0" * 64],
    "policy_version": ["2"],
    "detail": ["", "other"],
    "count": [0, 2, True],
    "previous": ["0" * 64, ENTRIES[0].mac, ""],
    "mac": ["0" * 64, "", "é" * 64, ENTRIES[0].mac],
}


def test_every_field_is_under_the_mac() -> None:
    assert set(CHANGES) == {field.name for field in attrs.fields(AuditEntry)}
    for name, values in CHANGES.items():
        for value in values:
            rows = list(ENTRIES)
            current = getattr(rows[3], name)
            if type(current) is type(value) and current == value:
                continue
            rows[3] = attrs.evolve(rows[3], **{name: value})
            assert broken_at(rows) == 4, (name, value)
    assert broken_at([*ENTRIES[:3], attrs.evolve(ENTRIES[3], allowed=not ENTRIES[3].allowed), *ENTRIES[4:]]) == 4


@given(st.lists(st.sampled_from(ENTRIES), max_size=8))
@settings(max_examples=examples(300))
def test_no_other_sequence_of_true_records_fits(rows: list[AuditEntry]) -> None:
    if tuple(rows) == ENTRIES[: len(rows)]:
        assert verify_chain(rows, KEY).number == len(rows)
    else:
        broken_at(rows)
    if tuple(rows) != ENTRIES:
        broken_at(rows, head=HEAD)


@given(st.integers(0, 5), st.sampled_from(sorted(CHANGES)), st.text(max_size=5) | st.integers() | st.none() | st.booleans())
@settings(max_examples=examples(300))
def test_no_edit_of_a_field_fits(row: int, name: str, value: Any) -> None:
    rows = list(ENTRIES)
    current = getattr(rows[row], name)
    if type(current) is type(value) and current == value:
        return
    rows[row] = attrs.evolve(rows[row], **{name: value})
    broken_at(rows)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: None,
        lambda data: [data],
        lambda data: {**data, "more": 1},
        lambda data: {name: data[name] for name in data if name != "tenant"},
        lambda data: {**data, "number": "1"},
        lambda data: {**data, "number": True},
        lambda data: {**data, "allowed": 1},
        lambda data: {**data, "detail": None},
        lambda data: {**data, "subject": 7},
        lambda data: {**data, "kind": "whatever"},
        lambda data: {**data, "mac": "0" * 63},
        lambda data: {**data, "mac": "G" * 64},
        lambda data: {**data, "previous": ""},
    ],
)
def test_data_that_is_no_record_is_refused(change: Any) -> None:
    data = json.loads(ENTRIES[0].line)
    assert AuditEntry.from_data(data) == ENTRIES[0]
    with pytest.raises(AuditBroken):
        AuditEntry.from_data(change(data))


def test_a_head_has_a_text() -> None:
    assert AuditHead.parse(str(HEAD)) == HEAD
    assert AuditHead.parse(f" {HEAD}\n") == HEAD
    for odd in (
        "",
        "6",
        "6:",
        f":{HEAD.mac}",
        f"-6:{HEAD.mac}",
        f"6:{HEAD.mac.upper()}",
        f"6:{HEAD.mac}0",
        f"²:{HEAD.mac}",
        f"{'9' * 20}:{HEAD.mac}",
    ):
        with pytest.raises(AuditBroken, match="NUMBER:MAC"):
            AuditHead.parse(odd)


# -- going on, publishing, keeping ---------------------------------------------------------------------------------------------------------


def test_a_log_goes_on_with_the_chain_of_its_sink() -> None:
    log, paper = filled(3)
    log.close()
    again = AuditLog(KEY, sink=paper)
    assert again.head() == log.head()
    assert again.record("start", allowed=True).number == 4
    assert verify_chain(paper.entries, KEY, head=again.head()).number == 4


def test_a_sink_of_another_key_or_with_an_altered_end_is_not_gone_on_with() -> None:
    _, paper = filled(3)
    with pytest.raises(AuditBroken, match="another key"):
        AuditLog(b"l" * 32, sink=paper)
    paper.entries[-1] = attrs.evolve(paper.entries[-1], allowed=not paper.entries[-1].allowed)
    with pytest.raises(AuditBroken) as caught:
        AuditLog(KEY, sink=paper)
    assert caught.value.number == 3


def test_what_was_mended_is_the_first_record() -> None:
    paper = Paper()
    paper.recovered = "A torn line was moved aside."
    (entry,) = AuditLog(KEY, sink=paper).entries()
    assert (entry.kind, entry.reason, entry.detail) == ("start", "recovered", "A torn line was moved aside.")


def test_a_head_is_published_every_so_often_and_at_the_end() -> None:
    heads: list[tuple[int, str]] = []
    log, paper = filled(7, publish=lambda number, mac: heads.append((number, mac)), every=3)
    assert [number for number, _ in heads] == [3, 6]
    log.close()
    assert [number for number, _ in heads] == [3, 6, 7]
    for head in heads:
        verify_chain(paper.entries, KEY, head=head)
    with pytest.raises(AuditBroken, match="cut off"):
        verify_chain(paper.entries[:6], KEY, head=heads[-1])
    assert log.statistics().published == 3


def test_a_head_that_could_not_be_published_is_tried_again_with_the_next_record(caplog: pytest.LogCaptureFixture) -> None:
    heads: list[int] = []
    down = True

    def publish(number: int, _: str) -> None:
        if down:
            raise OSError("secret-address unreachable")
        heads.append(number)

    log, _ = filled(4, publish=publish, every=2)
    assert log.statistics().publish_failures == 3
    assert "secret-address" not in caplog.text
    down = False
    log.record("decision", allowed=True)
    log.record("decision", allowed=True)
    log.record("decision", allowed=True)
    assert heads == [5, 6]


def test_a_log_that_recorded_nothing_publishes_nothing() -> None:
    heads: list[int] = []
    _, paper = filled(2)
    AuditLog(KEY, sink=paper, publish=lambda number, _: heads.append(number)).close()
    assert heads == []


def test_the_latest_records_are_kept_and_can_be_asked_for() -> None:
    log, paper = filled(6, keep=4)
    assert [entry.number for entry in log.entries()] == [3, 4, 5, 6]
    assert log.verify() == 4
    assert [entry.number for entry in log.entries(allowed=True)] == [4, 6]
    assert [entry.number for entry in log.entries(operation="fs.op3")] == [4]
    assert [entry.number for entry in log.entries(operation="fs.*", limit=2)] == [5, 6]
    assert log.entries(operation="web.**") == log.entries(kind="mint") == log.entries(limit=0) == ()
    log.record("mint", allowed=True)
    assert [entry.number for entry in log.entries(kind="mint")] == [7]
    assert log.entries(operation="**", limit=1)[0].number == 6
    with pytest.raises(PatternError):
        log.entries(operation="fs.**.x")
    assert len(paper.entries) == 7


@pytest.mark.parametrize("kind", ["refusal", "", "DECISION", 3, ["mint"]])
def test_a_kind_that_there_is_not_is_refused_and_the_kinds_are_told(kind: Any) -> None:
    with pytest.raises(
        DefinitionError, match=r"Kinds are allowed_batch, amplification, approval, decision, mint, outcome, revoke, start\."
    ):
        AuditLog().entries(kind=kind)


def test_records_in_memory_that_were_altered_show() -> None:
    log, _ = filled(6)
    log._entries[2] = attrs.evolve(log._entries[2], subject="eve")
    with pytest.raises(AuditBroken) as caught:
        log.verify()
    assert caught.value.number == 3
    log, _ = filled(6)
    log._entries.pop()
    with pytest.raises(AuditBroken):
        log.verify()


def test_without_a_key_a_log_is_for_itself_alone() -> None:
    log = AuditLog()
    log.record("decision", allowed=True)
    assert log.verify() == 1
    with pytest.raises(DefinitionError, match="needs a key"):
        AuditLog(sink=Paper())


@pytest.mark.parametrize(
    "options",
    [{"key": b"short"}, {"key": "k" * 32}, {"keep": -1}, {"every": 0}, {"keep": 2**63}, {"keep": 1.5}, {"every": "9"}, {"every": True}],
)
def test_a_log_that_cannot_be_is_a_definition_error(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        AuditLog(**options)


def test_a_log_is_neither_copied_nor_pickled_and_shows_no_key() -> None:
    log, _ = filled(1)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            act(log)
    assert "kkkk" not in repr(log)
    assert KEY.hex() not in repr(log)


def test_a_record_costs_microseconds() -> None:
    log, _ = filled(0, keep=10)
    context = Authority().mint("ada", ["fs.*"]).narrow("fs.read")
    gc.collect()
    began = time.thread_time()
    for _ in range(1000):
        log.record(
            "decision", allowed=False, operation="fs.delete", reason="permission", security=context, path="/user/files", detail="x" * 80
        )
    assert time.thread_time() - began < 2  # some 20 µs each; a machine may be slow, but not by a factor of 100
