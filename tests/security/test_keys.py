"""Key files: whole or not there, their owner's alone, rotated by name; and nothing that is printed shows a key."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from retinue.security.errors import DefinitionError, KeyFileError
from retinue.security.keys import Key, KeyFile, KeyRing


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def secrets_of(ring: KeyRing) -> list[tuple[str, bytes]]:
    return [(key.kid, key.secret) for key in ring.keys]


def test_nothing_is_made_before_it_is_asked_for(path: Path) -> None:
    KeyFile(path)
    assert not path.exists()


def test_a_created_file_is_its_owners_alone_and_is_read_again(path: Path) -> None:
    ring = KeyFile(path).create()
    assert path.stat().st_mode & 0o777 == 0o600
    assert secrets_of(KeyFile(path).ring()) == secrets_of(ring)
    assert [child.name for child in path.parent.iterdir()] == [path.name]


def test_open_creates_once_and_then_reads(path: Path) -> None:
    assert secrets_of(KeyFile(path).open()) == secrets_of(KeyFile(path).open())


def test_two_files_have_different_keys(tmp_path: Path) -> None:
    rings = [KeyFile(tmp_path / name).create() for name in ("a", "b")]
    assert rings[0].current.kid != rings[1].current.kid
    assert rings[0].current.secret != rings[1].current.secret


def test_creating_twice_is_refused_and_keeps_the_first(path: Path) -> None:
    ring = KeyFile(path).create()
    with pytest.raises(KeyFileError, match="exists already"):
        KeyFile(path).create()
    assert secrets_of(KeyFile(path).ring()) == secrets_of(ring)


def test_a_missing_file_is_refused_with_the_way_to_make_one(path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"cannot be read: No such file.*create\(\)"):
        KeyFile(path).ring()
    with pytest.raises(KeyFileError, match="cannot be written"):
        KeyFile(path / "no" / "folder").create()
    with pytest.raises(KeyFileError, match="cannot be written"):
        KeyFile(path / "no" / "folder").open()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666])
def test_a_file_that_others_can_use_is_refused(path: Path, mode: int) -> None:
    file = KeyFile(path)
    file.create()
    path.chmod(mode)
    for reader in (file, KeyFile(path)):
        for act in (reader.ring, reader.open, reader.rotate):
            with pytest.raises(KeyFileError, match="chmod 600"):
                act()


def test_a_link_is_refused(path: Path, tmp_path: Path) -> None:
    KeyFile(path).create()
    link = tmp_path / "link"
    link.symlink_to(path)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    for reader in (KeyFile(link), KeyFile(dangling)):
        for act in (reader.ring, reader.open, reader.create):
            with pytest.raises(KeyFileError):
                act()
    assert not (tmp_path / "nowhere").exists()


def test_what_is_no_plain_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder"):
        with pytest.raises(KeyFileError, match="no plain file|cannot be read"):
            KeyFile(tmp_path / name).ring()


def test_another_users_file_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KeyFile(path).create()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(KeyFileError, match="another user"):
        KeyFile(path).ring()


def _edited(change: Any) -> Any:
    def edit(data: Any) -> bytes:
        changed = change(data)
        return json.dumps(data if changed is None else changed).encode()

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: b"",
        lambda data: b"\xff",
        lambda data: b"null",
        lambda data: b"[" * 100_000,
        lambda data: b" " * 20_000,
        lambda data: json.dumps(data).encode()[:-1],
        lambda data: json.dumps(data).encode() * 2,
        lambda data: json.dumps(data).encode().replace(b'"format"', b'"format": 1, "format"'),
        _edited(lambda data: data.update(format="retinue-keys/2")),
        _edited(lambda data: data.update(more=1)),
        _edited(lambda data: data.update(keys=[])),
        _edited(lambda data: data.update(keys={})),
        _edited(lambda data: data["keys"].append(data["keys"][0])),
        _edited(lambda data: data.update(keys=data["keys"] * 33)),
        _edited(lambda data: data["keys"][0].update(secret="00" * 31)),
        _edited(lambda data: data["keys"][0].update(secret="zz" * 32)),
        _edited(lambda data: data["keys"][0].update(secret=" " + "00" * 32)),
        _edited(lambda data: data["keys"][0].update(secret=None)),
        _edited(lambda data: data["keys"][0].update(kid="")),
        _edited(lambda data: data["keys"][0].update(kid="A")),
        _edited(lambda data: data["keys"][0].update(kid=7)),
        _edited(lambda data: data["keys"][0].update(created_ms=1.5)),
        _edited(lambda data: data["keys"][0].update(more=1)),
        _edited(lambda data: data["keys"][0].pop("kid") and None),
    ],
)
def test_a_malformed_file_is_refused_and_nothing_of_it_shown(path: Path, edit: Any) -> None:
    ring = KeyFile(path).create()
    path.write_bytes(edit(json.loads(path.read_bytes())))
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="malformed|larger") as caught:
        KeyFile(path).ring()
    seen: BaseException | None = caught.value
    while seen is not None:
        assert ring.current.secret.hex() not in str(seen)
        seen = seen.__cause__


def test_rotating_keeps_as_many_old_keys_as_said(path: Path) -> None:
    file = KeyFile(path)
    first = file.create().current
    second = file.rotate().current
    assert file.ring().find(first.kid) == first
    third = file.rotate(keep=1).current
    assert [key.kid for key in file.ring().keys] == [third.kid, second.kid]
    assert file.ring().find(first.kid) is None
    assert [key.kid for key in file.rotate(keep=0).keys] != [third.kid]
    assert len(file.ring()) == 1
    with pytest.raises(DefinitionError, match="keep=-1"):
        file.rotate(keep=-1)
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_another_process_rotates_counts_at_once(path: Path) -> None:
    here, there = KeyFile(path), KeyFile(path)
    here.create()
    new = there.rotate(keep=0)
    assert secrets_of(here.ring()) == secrets_of(new)


def test_a_file_that_was_read_once_and_then_vanished_is_refused(path: Path) -> None:
    file = KeyFile(path)
    file.create()
    path.unlink()
    with pytest.raises(KeyFileError):
        file.ring()


def test_an_unchanged_file_is_not_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = KeyFile(path)
    ring = file.create()
    monkeypatch.setattr("retinue.security.keys.read_private", None)
    assert file.ring() is ring


def test_of_many_who_open_at_once_all_get_the_same_key(path: Path) -> None:
    found: list[bytes] = []
    start = threading.Barrier(12)

    def race() -> None:
        file = KeyFile(path)
        start.wait()
        found.append(file.open().current.secret)

    threads = [threading.Thread(target=race) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    assert len(set(found)) == 1


def test_of_many_who_rotate_at_once_no_key_is_lost(path: Path) -> None:
    KeyFile(path).create()
    made: list[str] = []

    def rotate() -> None:
        made.append(KeyFile(path).rotate(keep=31).current.kid)

    threads = [threading.Thread(target=rotate) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(KeyFile(path).ring()) == 9


CREATING = """
import sys
from retinue.security.keys import KeyFile
for name in range(100000):
    print(name, flush=True)
    file = KeyFile(f"{sys.argv[1]}/{name}")
    file.create()
    file.rotate()
"""


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_whole_files_or_none(tmp_path: Path) -> None:
    whole = 0
    for round_ in range(8):
        folder = tmp_path / str(round_)
        folder.mkdir()
        process = subprocess.Popen([sys.executable, "-c", CREATING, str(folder)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.01 + 0.007 * round_)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        names = [child.name for child in folder.iterdir() if not child.name.startswith(".")]
        whole += len(names)
        for name in names:
            assert 1 <= len(KeyFile(folder / name).ring()) <= 2
        last = folder / str(max(map(int, names), default=-1) + 1)
        KeyFile(last).open()  # what was left beside it is in nobody's way
        assert not list(folder.glob(f".{last.name}.*"))
    assert whole


@pytest.mark.parametrize("when", ["write", "link"])
def test_what_fails_in_the_middle_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync" if when == "write" else "link", fail)
    with pytest.raises(KeyFileError, match="No space left"):
        KeyFile(path).create()
    assert list(path.parent.iterdir()) == []


def test_rotating_that_fails_keeps_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyFile(path).create()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(KeyFileError, match="No space left"):
            KeyFile(path).rotate()
    assert secrets_of(KeyFile(path).ring()) == secrets_of(ring)
    assert [child.name for child in path.parent.iterdir()] == [path.name]


def test_no_repr_shows_a_key(path: Path) -> None:
    file = KeyFile(path)
    ring = file.create()
    for thing in (ring, ring.current, ring.keys, file):
        assert ring.current.secret.hex() not in repr(thing)
        assert repr(ring.current.secret) not in repr(thing)


def test_keys_and_rings_are_neither_copied_away_nor_changed() -> None:
    ring = KeyRing.generate()
    for thing in (ring, ring.current):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
    with pytest.raises(TypeError):
        copy.copy(ring)
    for name in ("keys", "current", "_by_name"):
        with pytest.raises(AttributeError):
            setattr(ring, name, ())
        with pytest.raises(AttributeError):
            delattr(ring, name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: KeyRing(),
        lambda: KeyRing(Key("a", b"x" * 32), Key("a", b"y" * 32)),
        lambda: KeyRing(*[Key(f"{number:x}", b"x" * 32) for number in range(33)]),
        lambda: Key("a", b"x" * 31),
        lambda: Key("a", "x" * 32),  # type: ignore[arg-type]
        lambda: Key("a.b", b"x" * 32),
        lambda: Key("", b"x" * 32),
        lambda: Key("a" * 33, b"x" * 32),
        lambda: KeyRing(None),  # type: ignore[arg-type]
        lambda: KeyRing("a" * 32),  # type: ignore[arg-type]
        lambda: KeyRing(*KeyRing.generate().keys, b"x" * 32),  # type: ignore[arg-type]
    ],
)
def test_a_ring_that_cannot_be_is_a_definition_error(make: Any) -> None:
    with pytest.raises(DefinitionError):
        make()


def test_a_full_ring_forgets_its_oldest_key() -> None:
    ring = KeyRing(*[Key(f"{number:x}", bytes([number]) * 32) for number in range(32)])
    assert len(ring.rotated(keep=100)) == 32
    assert ring.rotated(keep=100).find("1f") is None
