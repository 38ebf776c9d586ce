"""Files beneath a folder while a thread changes the folder as fast as it can. That these are races is shown too: a check before the opening falls for them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MethodType

import pytest

from beneath_ways import use_way
from retinue.security.beneath import listing_beneath, open_beneath, remove_beneath, stat_beneath
from retinue.security.errors import GuardRefused

SECRET = "outside"
SECONDS = 0.25  # of each race, at the least
LONGEST = 30.0  # where the machine is so busy that the two threads hardly meet


class Room:
    """A folder with a file, a folder and what an attacker may put in their places; the secret lies outside."""

    def __init__(self, base: Path) -> None:
        self.folder = base / "room"
        self.outside = base / "outside"
        self.secret = self.outside / "file"
        for place in (self.folder / "deep", self.outside):
            place.mkdir(parents=True)
            (place / "file").write_text("inside", encoding="utf-8")
        self.file = self.folder / "file"
        self.file.write_text("inside", encoding="utf-8")
        self.secret.write_text(SECRET, encoding="utf-8")

    def put_back(self) -> None:
        """Undo the first half of a step on the file."""
        (self.folder / "kept").rename(self.file)

    def symlink_for_file(self) -> None:
        """The file is a link to the secret, then itself again."""
        self.file.rename(self.folder / "kept")
        self.file.symlink_to(self.secret)
        self.file.unlink()
        (self.folder / "kept").rename(self.file)

    def symlink_over_file(self) -> None:
        """The same in one step each way: the name is there at every moment."""
        (self.folder / "new").symlink_to(self.secret)
        self.file.rename(self.folder / "kept")
        (self.folder / "new").rename(self.file)
        (self.folder / "kept").replace(self.file)

    def symlink_for_folder(self) -> None:
        """The folder on the way is a link to the outside."""
        deep = self.folder / "deep"
        deep.rename(self.folder / "kept")
        deep.symlink_to(self.outside)
        deep.unlink()
        (self.folder / "kept").rename(deep)

    def hard_link_for_file(self) -> None:
        """The file is another name of the secret, on and off."""
        self.file.rename(self.folder / "kept")
        for _ in range(3):
            self.file.hardlink_to(self.secret)
            self.file.unlink()
        (self.folder / "kept").rename(self.file)

    def fifo_for_file(self) -> None:
        """The file is a FIFO that nobody else opens: a plain open would wait for ever."""
        self.file.rename(self.folder / "kept")
        os.mkfifo(self.file)
        self.file.unlink()
        (self.folder / "kept").rename(self.file)

    def folder_moved_out(self) -> None:
        """The folder on the way is moved out of the room and back."""
        (self.folder / "deep").rename(self.outside / "deep")
        (self.outside / "deep").rename(self.folder / "deep")


@pytest.fixture
def room(tmp_path):
    made = Room(tmp_path)
    yield made
    assert made.secret.read_text(encoding="utf-8") == SECRET


@contextlib.contextmanager
def attack(step: MethodType) -> Iterator[None]:
    """Repeat the step in a thread for the length of the block, whole steps only."""
    over = threading.Event()
    failures = []

    def run() -> None:
        try:
            while not over.is_set():
                try:
                    step()
                except FileExistsError:  # the opening under test made a file in the gap
                    step.__self__.put_back()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert failures == []


def repeat(action: Callable[[], object], *, both: bool = True) -> list[object]:
    """Call the action again and again, until it was refused and (with `both`) succeeded as well. Returns what it returned."""
    results, refusals = [], 0
    began = time.monotonic()
    while (passed := time.monotonic() - began) < SECONDS or (passed < LONGEST and not (refusals and (results or not both))):
        try:
            results.append(action())
        except (GuardRefused, FileNotFoundError):
            refusals += 1
    assert refusals
    assert results or not both
    return results


def read(folder: Path, path: str) -> str:
    with open_beneath(folder, path) as file:
        return file.read()


def careless_read(folder: Path, path: str) -> str:
    """What many a tool does: resolve, check, open."""
    resolved = Path(folder, path).resolve(strict=True)
    if not resolved.is_relative_to(folder.resolve()) or resolved.stat().st_nlink > 1:
        raise GuardRefused("outside", what="path")
    return Path(folder, path).read_text(encoding="utf-8")


RACES = [
    ("symlink_for_file", "file"),
    ("symlink_over_file", "file"),
    ("symlink_for_folder", "deep/file"),
    ("hard_link_for_file", "file"),
    ("folder_moved_out", "deep/file"),
]


@pytest.fixture(params=["openat2", "walk"])
def way(request, monkeypatch):
    return use_way(request.param, monkeypatch)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("step", "path"), RACES)
def test_nothing_from_outside_is_read_whatever_a_racing_thread_puts_in_the_way(room, step, path):
    with attack(getattr(room, step)):
        results = repeat(lambda: read(room.folder, path))
    assert set(results) == {"inside"}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("step", "path"), RACES)
def test_nothing_outside_is_cut_off_written_or_made(room, step, path):
    def write() -> None:
        with open_beneath(room.folder, path, "w") as file:
            file.write("mine")
        assert room.secret.read_text(encoding="utf-8") == SECRET

    before = {entry.name for entry in room.outside.iterdir()}
    with attack(getattr(room, step)):
        repeat(write)
    assert {entry.name for entry in room.outside.iterdir()} - {"deep"} == before


@pytest.mark.usefixtures("way")
def test_a_fifo_that_appears_is_never_waited_for(room):
    with attack(room.fifo_for_file):
        results = repeat(lambda: read(room.folder, "file"))
    assert set(results) == {"inside"}


@pytest.mark.usefixtures("way")
def test_nothing_outside_is_looked_at_or_removed(room):
    (room.outside / "bait").write_text("x", encoding="utf-8")
    with attack(room.symlink_for_folder):
        entries = repeat(lambda: stat_beneath(room.folder, "deep/file"))
        listings = repeat(lambda: [entry.name for entry in listing_beneath(room.folder, "deep")])
        removed = repeat(lambda: remove_beneath(room.folder, "deep/bait"), both=False)
    assert {entry.size for entry in entries} == {len("inside")}
    assert all(names == ["file"] for names in listings)
    assert removed == []
    assert (room.outside / "bait").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("step", "path"), RACES[:3])
def test_the_races_are_real_a_check_before_the_opening_falls_for_them(room, step, path):
    end = time.monotonic() + 30
    with attack(getattr(room, step)):
        while time.monotonic() < end:
            with contextlib.suppress(GuardRefused, OSError):
                if careless_read(room.folder, path) == SECRET:
                    return
    pytest.fail("the careless check was never fooled: the race does not test anything")
