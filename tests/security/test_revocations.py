"""Revocations: for good, in every process that shares the file, and never half."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from retinue.security.errors import TokenError
from retinue.security.revocations import Revocations

IDS = [f"{number:024x}" for number in range(20)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "revoked.json"


def test_in_memory_they_last_as_long_as_the_object() -> None:
    revocations = Revocations()
    revocations.add(IDS[:2])
    revocations.add(IDS[:1])
    assert revocations.ids() == set(IDS[:2])
    assert Revocations().ids() == frozenset()


def test_in_a_file_they_last_and_are_shared(path: Path) -> None:
    one, other = Revocations(path), Revocations(path)
    one.add(IDS[:1])
    other.add(IDS[1:2])
    assert one.ids() == other.ids() == Revocations(str(path)).ids() == set(IDS[:2])
    assert path.stat().st_mode & 0o777 == 0o600
    assert [child.name for child in path.parent.iterdir()] == [path.name]


def test_an_unchanged_file_is_not_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revocations = Revocations(path)
    monkeypatch.setattr("retinue.security.revocations.read_private", None)
    assert revocations.ids() == frozenset()


@pytest.mark.parametrize("odd", ["", "0" * 23, "0" * 25, "0" * 23 + "A", "0" * 23 + "\n", None, 7, b"0" * 24])
def test_what_is_no_id_is_refused_and_nothing_of_the_call_is_done(path: Path, odd: Any) -> None:
    for revocations in (Revocations(), Revocations(path)):
        with pytest.raises(TokenError) as caught:
            revocations.add([IDS[0], odd])
        assert caught.value.reason == "malformed"
        assert revocations.ids() == frozenset()


def test_threads_that_revoke_at_once_lose_nothing(path: Path) -> None:
    shared = Revocations(path)
    threads = [threading.Thread(target=(shared if number % 2 else Revocations(path)).add, args=([IDS[number]],)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Revocations(path).ids() == set(IDS[:10])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"format":"retinue-revocations/2","revoked":[]}',
        b'{"format":"retinue-revocations/1","revoked":{}}',
        b'{"format":"retinue-revocations/1","revoked":["x"]}',
        b'{"format":"retinue-revocations/1","revoked":[],"more":1}',
        b'{"format":"retinue-revocations/1","revoked":[7]}',
    ],
)
def test_a_malformed_file_says_nothing_of_any_token(path: Path, data: bytes) -> None:
    Revocations(path)
    path.write_bytes(data)
    for act in (lambda: Revocations(path), lambda: Revocations(path).add(IDS[:1])):
        with pytest.raises(TokenError, match="malformed.*no token is accepted"):
            act()


def test_a_file_that_others_can_use_or_a_link_is_refused(path: Path, tmp_path: Path) -> None:
    Revocations(path)
    path.chmod(0o660)
    with pytest.raises(TokenError, match="chmod 600"):
        Revocations(path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(TokenError, match="is a link"):
        Revocations(tmp_path / "link")
    with pytest.raises(TokenError, match="cannot be made"):
        Revocations(tmp_path / "no" / "where")


def test_where_it_cannot_be_stored_nothing_is_revoked_and_it_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revocations = Revocations(path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(TokenError, match="No space left"):
            revocations.add(IDS[:1])
    assert Revocations(path).ids() == frozenset()


def test_there_is_an_end_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.security.revocations.MAX_REVOKED", 3)
    revocations = Revocations()
    revocations.add(IDS[:3])
    with pytest.raises(TokenError, match="Rotate the key"):
        revocations.add(IDS[3:4])
    revocations.add(IDS[:3])
