from __future__ import annotations

import logging
import threading
from typing import Any

import attrs
import pytest

from retinue.mailbox.letters import REASONS, DeadLetter, DeadLetters
from retinue.mailbox.messages import Message, message


@message
class Secret(Message):
    password: str


SECRET = Secret("hunter2")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def letters(clock):
    return DeadLetters(clock=clock)


@pytest.fixture
def lines(caplog):
    """The log lines on `retinue.deadletters` so far."""
    caplog.set_level(logging.WARNING, logger="retinue.deadletters")

    def of() -> list[str]:
        assert {record.name for record in caplog.records} <= {"retinue.deadletters"}
        assert {record.levelname for record in caplog.records} <= {"WARNING"}
        return [record.getMessage() for record in caplog.records]

    return of


# Counting


def test_every_reason_is_counted_apart(letters):
    for number, reason in enumerate(REASONS, start=1):
        for _ in range(number):
            letters.record(reason, SECRET, "/user/a")
    assert dict(letters.counts) == {reason: number for number, reason in enumerate(REASONS, start=1)}
    assert letters.count == sum(range(1, len(REASONS) + 1))


def test_a_late_reply_is_a_dead_letter_but_no_message(letters):
    letters.record("late_reply", 5, "/user/a")
    letters.record("stopped", SECRET, "/user/a")
    assert (letters.count, letters.messages, letters.counts["late_reply"]) == (2, 1, 1)


def test_counts_are_a_snapshot_that_cannot_be_changed(letters):
    before = letters.counts
    letters.record("stopped", SECRET, "/user/a")
    assert before["stopped"] == 0
    with pytest.raises(TypeError):
        before["stopped"] = 5  # type: ignore[index]


def test_statistics_are_consistent_and_frozen(letters):
    letters.record("stopped", SECRET, "/user/a")
    letters.record("late_reply", 5, "/user/a")
    subscription = letters.subscribe()
    statistics = letters.statistics()
    assert (statistics.count, statistics.messages, statistics.recent, statistics.subscriptions) == (2, 1, 2, 1)
    assert statistics.counts["stopped"] == 1
    assert (statistics.logged, statistics.unlogged) == (2, 0)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        statistics.count = 0  # type: ignore[misc]
    subscription.close()
    assert letters.statistics().subscriptions == 0


def test_letters_recorded_by_many_threads_are_all_counted():
    letters = DeadLetters(lines=0)
    subscription = letters.subscribe(capacity=10)

    def work():
        for _ in range(500):
            letters.record("mailbox_full", SECRET, "/user/a")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert letters.count == letters.counts["mailbox_full"] == 4000
    assert subscription.lagged + len(subscription) == 4000


# Recent ones


def test_a_letter_says_what_went_where_when_and_why(letters, clock):
    error = ValueError("no")
    letters.record("poison", SECRET, "/user/a", "/user/b", error)
    clock.now = 1001.5
    letters.record("stopped", SECRET, "/user/c")
    first, second = letters.recent
    assert (first.reason, first.message, first.target, first.sender, first.error, first.at) == (
        "poison",
        SECRET,
        "/user/a",
        "/user/b",
        error,
        1000.0,
    )
    assert (second.sender, second.error, second.at) == (None, None, 1001.5)


def test_only_the_latest_letters_are_kept():
    letters = DeadLetters(keep=3)
    for number in range(5):
        letters.record("stopped", number, "/user/a")
    assert [letter.message for letter in letters.recent] == [2, 3, 4]
    assert letters.count == 5


def test_a_thousand_letters_are_kept_by_default(letters):
    for number in range(1001):
        letters.record("stopped", number, "/user/a")
    assert len(letters.recent) == 1000
    assert letters.recent[0].message == 1


def test_recent_letters_can_be_forgotten_and_stay_counted(letters):
    letters.record("stopped", SECRET, "/user/a")
    letters.clear()
    assert (letters.recent, letters.count) == ((), 1)


def test_a_letter_is_frozen_and_its_repr_hides_the_payload(letters):
    letters.record("poison", SECRET, "/user/a", None, ValueError("hunter2"))
    letter = letters.recent[0]
    assert isinstance(letter, DeadLetter)
    assert "hunter2" not in repr(letter)
    assert "Secret" in repr(letter)
    assert "ValueError" in repr(letter)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        letter.reason = "stopped"  # type: ignore[misc]


@pytest.mark.parametrize("arguments", [{"keep": -1}, {"lines": -1}, {"window": 0}, {"window": float("nan")}])
def test_senseless_limits_are_refused(arguments):
    with pytest.raises(ValueError, match="keep="):
        DeadLetters(**arguments)


# Subscriptions


def test_a_subscriber_gets_the_letters_from_then_on_in_order(letters):
    letters.record("stopped", 0, "/user/a")
    subscription = letters.subscribe()
    assert subscription.get_nowait() is None
    letters.record("stopped", 1, "/user/a")
    letters.record("denied", 2, "/user/a")
    taken = [subscription.get_nowait(), subscription.get_nowait(), subscription.get_nowait()]
    assert [(letter.reason, letter.message) if letter else None for letter in taken] == [("stopped", 1), ("denied", 2), None]


def test_a_slow_subscriber_loses_the_oldest_and_is_told_how_many(letters):
    slow, fast = letters.subscribe(capacity=2), letters.subscribe(capacity=10)
    for number in range(5):
        letters.record("stopped", number, "/user/a")
    assert (slow.lagged, len(slow)) == (3, 2)
    assert slow.get_nowait().message == 3
    assert (fast.lagged, len(fast)) == (0, 5)


def test_a_closed_subscription_takes_nothing_more(letters):
    with letters.subscribe() as subscription:
        letters.record("stopped", 1, "/user/a")
        assert not subscription.closed
    letters.record("stopped", 2, "/user/a")
    subscription.close()
    assert subscription.closed
    assert subscription.get_nowait() is None
    assert "closed" in repr(subscription)


def test_an_empty_subscription_is_true(letters):
    assert letters.subscribe()


def test_a_subscription_without_room_is_refused(letters):
    with pytest.raises(ValueError, match="at least 1"):
        letters.subscribe(capacity=0)


# Logging


def test_a_letter_is_logged_with_its_type_and_never_its_payload(letters, lines):
    letters.record("poison", SECRET, "/user/a", "/user/b", ValueError("hunter2"))
    letters.record("stopped", SECRET, "/user/c")
    assert lines() == [
        "dead letter: Secret to /user/a from /user/b: poison (ValueError)",
        "dead letter: Secret to /user/c from outside: stopped",
    ]


def test_ten_letters_a_window_are_logged_and_the_others_summed_up(letters, lines, clock):
    for number in range(25):
        letters.record("mailbox_full" if number % 2 else "stopped", SECRET, "/user/a")
    assert len(lines()) == 10
    clock.now += 59.9
    letters.record("denied", SECRET, "/user/a")
    assert len(lines()) == 10
    clock.now += 0.1
    letters.record("denied", SECRET, "/user/a")
    assert lines()[10:] == [
        "16 more dead letters in 60 s, not logged one by one: 8 stopped, 7 mailbox_full, 1 denied",
        "dead letter: Secret to /user/a from outside: denied",
    ]
    statistics = letters.statistics()
    assert (statistics.logged, statistics.unlogged) == (11, 16)


def test_a_quiet_window_has_no_summary(letters, lines, clock):
    letters.record("stopped", SECRET, "/user/a")
    clock.now += 100
    letters.record("stopped", SECRET, "/user/a")
    assert len(lines()) == 2


def test_the_summary_can_be_asked_for_and_comes_once(letters, lines, clock):
    for _ in range(12):
        letters.record("stopped", SECRET, "/user/a")
    clock.now += 5
    letters.flush()
    letters.flush()
    assert lines()[10:] == ["2 more dead letters in 5 s, not logged one by one: 2 stopped"]


def test_a_clock_that_is_set_back_does_not_silence_the_log(letters, lines, clock):
    for _ in range(11):
        letters.record("stopped", SECRET, "/user/a")
    clock.now -= 3600
    letters.record("denied", SECRET, "/user/a")
    assert lines()[10:] == [
        "1 more dead letters in 0 s, not logged one by one: 1 stopped",
        "dead letter: Secret to /user/a from outside: denied",
    ]


# Never raising


class Hostile:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("touched")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = None  # type: ignore[assignment]


def test_recording_never_touches_the_message(letters, lines):
    letters.record("unhandled", Hostile(), "/user/a")
    assert letters.count == 1
    assert "Hostile" in lines()[0]
    assert "Hostile" in repr(letters.recent[0])


def test_recording_never_raises_even_when_the_log_does(letters, monkeypatch):
    def fail(*_: Any) -> bool:
        raise RuntimeError("disk full")

    monkeypatch.setattr(logging.getLogger("retinue.deadletters"), "isEnabledFor", fail)
    letters.record("stopped", SECRET, "/user/a")
    assert letters.count == 1


def test_recording_never_raises_even_when_the_clock_does():
    def fail() -> float:
        raise OSError

    letters = DeadLetters(clock=fail)
    letters.record("stopped", SECRET, "/user/a")
    letters.flush()
    assert letters.count == 1


def test_a_log_handler_may_cause_dead_letters_itself(letters, lines):
    class Recursive(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            letters.record("stopped", SECRET, "/user/log")

    handler = Recursive()
    logger = logging.getLogger("retinue.deadletters")
    logger.addHandler(handler)
    try:
        letters.record("stopped", SECRET, "/user/a")
    finally:
        logger.removeHandler(handler)
    assert len(lines()) == 10
    assert letters.count == 11
