"""What of a dead letter's payload may be seen: in the log and the repr nothing, in `redacted` what is no secret."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import retinue as rt
from retinue.mailbox.letters import DeadLetters

SECRET = "hunter2-hunter2"


@rt.message
class Login(rt.Message):
    user: str
    password: str
    headers: Any = None


def test_no_payload_reaches_the_log_or_a_repr(caplog: pytest.LogCaptureFixture) -> None:
    letters = DeadLetters()
    with caplog.at_level(logging.DEBUG):
        letters.record("poison", Login("ada", SECRET), "/user/a", error=ValueError(SECRET))
        letters.record("withdrawn", Login("ada", SECRET), "/user/a")
        letters.record("late_reply", SECRET, "/user/a")
    assert "Login" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(letters.recent)


def test_a_payload_is_shown_redacted() -> None:
    letters = DeadLetters()
    letters.record("denied", Login("ada", SECRET, {"Cookie": SECRET, "note": f"https://ada:{SECRET}@example.com/"}), "/user/a")
    (letter,) = letters.recent
    assert letter.redacted == {
        "(type)": "Login",
        "user": "ada",
        "password": "[redacted]",
        "headers": {"Cookie": "[redacted]", "note": "https://[redacted]@example.com/"},
    }
    assert letter.message.password == SECRET  # for programs it is what it was
