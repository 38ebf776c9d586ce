"""Files beneath a folder: the same suite for the way through the kernel and the way on foot. The races are in `test_beneath_races`."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from beneath_ways import no_openat2, use_way
from retinue.security import beneath, beneath_walk
from retinue.security.beneath import Entry, listing_beneath, open_beneath, remove_beneath, stat_beneath
from retinue.security.errors import GuardRefused

SECRET = "outside"


@pytest.fixture(autouse=True, params=["openat2", "walk"])
def way(request, monkeypatch):
    return use_way(request.param, monkeypatch)


@pytest.fixture
def folder(tmp_path):
    """A folder with a file in a folder, beside one with a secret whose name begins alike."""
    (tmp_path / "room" / "reports" / "q3").mkdir(parents=True)
    (tmp_path / "room" / "reports" / "q3" / "sum.txt").write_text("inside", encoding="utf-8")
    (tmp_path / "room" / "note.txt").write_text("inside", encoding="utf-8")
    (tmp_path / "room2").mkdir()
    (tmp_path / "room2" / "secret.txt").write_text(SECRET, encoding="utf-8")
    return tmp_path / "room"


@pytest.fixture
def secret(folder):
    path = folder.parent / "room2" / "secret.txt"
    yield path
    assert path.read_text(encoding="utf-8") == SECRET
    assert path.stat().st_nlink == 1 or (folder / "hard").exists()


def read(folder, path, **options):
    with open_beneath(folder, path, **options) as file:
        return file.read()


def refused(folder, path, mode="r", **options):
    with pytest.raises(GuardRefused) as caught:
        open_beneath(folder, path, mode, **options)
    assert caught.value.what == "path"
    return str(caught.value)


MODES = ["r", "r+", "w", "a", "rb", "wb", "w+b", "a+"]


@pytest.mark.parametrize("as_given", [str, Path])
def test_a_file_beneath_the_folder_is_read_and_written(folder, as_given):
    given = as_given(folder)
    assert read(given, "note.txt") == "inside"
    assert read(given, "reports/q3/sum.txt", mode="rb") == b"inside"
    with open_beneath(given, "reports/q3/new.txt", "w") as file:
        file.write("größer")
        assert file.name == "reports/q3/new.txt"
    assert (folder / "reports" / "q3" / "new.txt").read_bytes() == "größer".encode()
    with open_beneath(given, "reports/q3/new.txt", "a", encoding="latin-1") as file:
        file.write("ß")
    assert read(given, "reports/q3/new.txt", mode="rb") == "größer".encode() + b"\xdf"
    with open_beneath(given, "reports/q3/new.txt", "w") as file:
        file.write("x")
    with open_beneath(given, "reports/q3/new.txt", "r+") as file:
        assert file.read() == "x"
        file.write("y")
        file.seek(0)
        assert file.read() == "xy"
    with open_beneath(given, "reports/q3/new.txt", "rb+") as file:
        file.write(b"z")
    assert read(given, "reports/q3/new.txt") == "zy"
    with open_beneath(given, "fresh.txt", "x") as file:
        file.write("x")
    with pytest.raises(FileExistsError):
        open_beneath(given, "fresh.txt", "x")
    assert read(given, "fresh.txt") == "x"


def test_a_file_that_is_created_is_its_owners_alone_unless_said_otherwise(folder):
    before = os.umask(0)
    try:
        open_beneath(folder, "private", "w").close()
        open_beneath(folder, "public", "x", permissions=0o644).close()
        open_beneath(folder, "note.txt", "w").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "private").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "public").stat().st_mode) == 0o644


ODD_PATHS = [
    "../room2/secret.txt",
    "reports/../../room2/secret.txt",
    "..",
    ".",
    "",
    "./note.txt",
    "reports//q3/sum.txt",
    "note.txt/",
    "/",
    "//note.txt",
]
ODD_PATHS += ["~/x", "a\\b", "note.txt\0", "%2e%2e/room2/secret.txt", "．．/room2/secret.txt", "reports/..", "x" * 256]


@pytest.mark.parametrize("path", [*ODD_PATHS, b"note.txt", None, Path("note.txt"), 3])
@pytest.mark.parametrize("mode", ["r", "w"])
def test_a_path_that_the_lexical_guard_refuses_is_refused(folder, secret, path, mode):
    refused(folder, path, mode)
    for function in (remove_beneath, *([] if path in ("", "note.txt/") else [stat_beneath, listing_beneath])):
        with pytest.raises(GuardRefused):
            function(folder, path)
    assert read(folder, "note.txt") == "inside"


def test_an_absolute_path_is_refused_also_where_it_leads_into_the_folder(folder, secret):
    for path in (str(secret), str(folder / "note.txt")):
        assert "absolute" in refused(folder, path)
        for function in (remove_beneath, stat_beneath, listing_beneath):
            with pytest.raises(GuardRefused, match="absolute"):
                function(folder, path)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_symbolic_link_is_not_followed_wherever_it_is(folder, secret, mode, inside, absolute):
    """CVE-2025-53109: a link inside the permitted folder."""
    target = folder / "note.txt" if inside else secret
    (folder / "link").symlink_to(target if absolute else os.path.relpath(target, folder))
    (folder / "door").symlink_to(target.parent if absolute else os.path.relpath(target.parent, folder))
    (folder / "reports" / "up").symlink_to(target.parent)
    (folder / "dangling").symlink_to(secret.parent / "new.txt")
    for path in ("link", f"door/{target.name}", f"reports/up/{target.name}", "door/new.txt", "dangling", "link/x"):
        assert "symbolic link" in refused(folder, path, mode)
    assert "symbolic link" in refused(folder, "door/new.txt", "x")
    assert "symbolic link" in refused(folder, "dangling", "x")
    with pytest.raises(GuardRefused, match="symbolic link"):
        listing_beneath(folder, "door")
    with pytest.raises(GuardRefused, match="symbolic link"):
        stat_beneath(folder, f"door/{target.name}")
    with pytest.raises(GuardRefused, match="symbolic link"):
        remove_beneath(folder, f"door/{target.name}")
    assert not (secret.parent / "new.txt").exists()
    assert (folder / "note.txt").read_text(encoding="utf-8") == "inside"


def test_the_folder_itself_may_be_reached_through_links(folder):
    alias = folder.parent / "alias"
    alias.symlink_to(folder)
    assert read(alias, "note.txt") == "inside"
    assert listing_beneath(alias)


@pytest.mark.parametrize("path", ["root/etc/passwd", "cwd/x", "exe", "fd/0", "task/../x"])
def test_the_magic_links_of_proc_are_links(path):
    if not Path("/proc/self/exe").exists():
        pytest.skip("no /proc here")
    refused("/proc/self", path)


@pytest.mark.parametrize("mode", MODES)
def test_a_file_with_hard_links_is_refused_before_it_is_changed_unless_they_are_allowed(folder, secret, mode):
    (folder / "hard").hardlink_to(secret)
    text = refused(folder, "hard", mode)
    assert "hard links" in text
    assert secret.read_text(encoding="utf-8") == SECRET
    if mode.startswith("r"):
        with open_beneath(folder, "hard", mode, links=True) as file:
            assert file.read() in (SECRET, SECRET.encode())


@pytest.mark.parametrize("put_back", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_hard_link_that_is_taken_away_after_it_was_opened_is_seen_all_the_same(folder, secret, mode, put_back, monkeypatch):
    """Then the file has one name only, and it is the other one."""
    (folder / "hard").hardlink_to(secret)
    steps = []

    def open_and_remove(*arguments, **options):
        opened = beneath_walk.open_at(*arguments, **options)
        (folder / "hard").unlink()
        steps.append("removed")
        return opened

    def look_and_put_back(status, path):
        if steps and put_back:
            (folder / "hard").hardlink_to(secret)
            steps.append("put back")
        assert (status.st_nlink, path) == (1 if steps else 2, "hard")

    monkeypatch.setattr(beneath, "open_at", open_and_remove)
    monkeypatch.setattr(beneath, "_check_kind", look_and_put_back)
    assert "was moved or removed while it was opened" in refused(folder, "hard", mode)
    assert steps == ["removed", "put back"] if put_back else ["removed"]
    assert secret.read_text(encoding="utf-8") == SECRET


@pytest.mark.parametrize("mode", MODES)
def test_a_file_that_is_moved_after_it_was_opened_is_refused(folder, secret, mode, monkeypatch):
    """On its way out it may lose the name that it was opened by, in a folder that nobody looks at."""
    (folder / "hard").write_text("inside", encoding="utf-8")

    def open_and_move(*arguments, **options):
        opened = beneath_walk.open_at(*arguments, **options)
        (folder / "hard").rename(secret.parent / "moved")
        return opened

    monkeypatch.setattr(beneath, "open_at", open_and_move)
    assert "was moved or removed while it was opened" in refused(folder, "hard", mode)
    assert (secret.parent / "moved").read_text(encoding="utf-8") == "inside"


def test_hard_links_within_the_folder_count_as_well(folder):
    (folder / "other").hardlink_to(folder / "note.txt")
    refused(folder, "other")
    refused(folder, "note.txt")
    remove_beneath(folder, "other")
    assert read(folder, "note.txt") == "inside"


@pytest.mark.parametrize("mode", MODES)
def test_what_is_no_regular_file_is_refused_without_waiting(folder, mode, monkeypatch):
    os.mkfifo(folder / "fifo")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name in ("fifo", "socket"):
            assert "FIFO" in refused(folder, name, mode)
        look = beneath._check_kind
        for name in ("fifo", "socket"):  # put there after the first look
            looks = iter([lambda *_: None, look])
            monkeypatch.setattr(beneath, "_check_kind", lambda *arguments, looks=looks: next(looks)(*arguments))
            assert "FIFO" in refused(folder, name, mode)


def test_devices_are_refused_and_not_even_opened(folder, monkeypatch):
    try:
        os.mknod(folder / "zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        with (folder / "zero").open("rb"):
            pass
    except OSError:
        pytest.skip("no devices can be made or opened here")
    for mode in MODES:
        assert "device" in refused(folder, "zero", mode)
    opened = []
    monkeypatch.setattr(beneath, "open_at", lambda *arguments, **options: opened.append(arguments))
    refused(folder, "zero")
    assert opened == []
    with pytest.raises(GuardRefused):
        remove_beneath(folder, "zero")


def test_ordinary_errors_stay_what_they_are_and_name_the_path(folder):
    cases = [
        ("nothing", "r", FileNotFoundError),
        ("nothing/x", "w", FileNotFoundError),
        ("reports", "r", IsADirectoryError),
        ("reports", "w", IsADirectoryError),
        ("reports/q3", "rb", IsADirectoryError),
        ("note.txt/x", "r", NotADirectoryError),
        ("note.txt/x/y", "w", NotADirectoryError),
        ("note.txt", "x", FileExistsError),
        ("reports", "x", IsADirectoryError),
    ]
    for path, mode, error in cases:
        with pytest.raises(error) as caught:
            open_beneath(folder, path, mode)
        assert caught.value.filename == path
    with pytest.raises(FileNotFoundError) as caught:
        open_beneath(folder / "gone", "note.txt")
    assert caught.value.filename == str(folder / "gone")
    with pytest.raises(NotADirectoryError):
        open_beneath(folder / "note.txt", "x")


def test_a_folder_that_may_not_be_read_is_an_ordinary_error(folder):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (folder / "reports").chmod(0)
    try:
        with pytest.raises(PermissionError):
            open_beneath(folder, "reports/q3/sum.txt")
    finally:
        (folder / "reports").chmod(0o700)


@pytest.mark.parametrize("mode", [None, 5, b"r", ["r"]])
def test_a_mode_that_is_no_text_is_refused(folder, mode):
    with pytest.raises(ValueError, match="mode"):
        open_beneath(folder, "note.txt", mode)


@pytest.mark.parametrize("permissions", [-1, 0o1000, 0o4755, 0o7777, 2**40, "600", None, True, 6.0])
def test_permissions_that_are_none_make_no_file(folder, permissions):
    with pytest.raises(ValueError, match="permissions"):
        open_beneath(folder, "new.txt", "w", permissions=permissions)
    assert not (folder / "new.txt").exists()


def test_an_unknown_encoding_is_told_before_anything_is_cut_off_or_made(folder):
    for path in ("note.txt", "new.txt"):
        with pytest.raises(LookupError):
            open_beneath(folder, path, "w", encoding="no such one")
    assert (folder / "note.txt").read_text(encoding="utf-8") == "inside"
    assert not (folder / "new.txt").exists()


@pytest.mark.parametrize("links", ["no", 1, [0]])
def test_hard_links_are_allowed_by_true_alone(folder, secret, links):
    (folder / "hard").hardlink_to(secret)
    assert "hard links" in refused(folder, "hard", links=links)


@pytest.mark.parametrize("mode", ["", "rw", "rt", "U", "wx", "rbb", "b", "+", "r ", "R"])
def test_an_unknown_mode_is_refused(folder, mode):
    with pytest.raises(ValueError, match="give 'r', 'w', 'a' or 'x'"):
        open_beneath(folder, "note.txt", mode)


@pytest.mark.parametrize("given", [b"/", 3])
def test_the_folder_is_a_path_as_text(given):
    with pytest.raises((GuardRefused, TypeError)):
        open_beneath(given, "x")


def test_other_mounts_are_refused_where_they_are_not_allowed():
    if not Path("/proc/version").exists():
        pytest.skip("no /proc here")
    assert "Linux" in read("/", "proc/version")
    assert stat_beneath("/", "proc").kind == "folder"
    assert "another mounted file system" in refused("/", "proc/version", mounts=False)
    for function in (stat_beneath, listing_beneath):
        with pytest.raises(GuardRefused, match="mounts=True"):
            function("/", "proc", mounts=False)
    with pytest.raises(GuardRefused, match="mounts=True"):
        remove_beneath("/", "proc/nothing", mounts=False)
    assert "Linux" in read("/proc", "version", mounts=False)


BIND = """
import subprocess, sys
sys.path[:0] = sys.argv[3:]
from beneath_ways import no_openat2
from retinue.security import beneath_walk
from retinue.security.beneath import open_beneath
from retinue.security.errors import GuardRefused
folder, way = sys.argv[1:3]
subprocess.run(["mount", "--bind", folder + "/../room2", folder + "/reports"], check=True)
subprocess.run(["mount", "--bind", folder + "/../room2/secret.txt", folder + "/note.txt"], check=True)
if way == "walk":
    beneath_walk.openat2 = no_openat2
assert open_beneath(folder, "reports/secret.txt").read() == "outside"
for path in ("reports/secret.txt", "note.txt"):
    for mode in ("r", "w"):
        try:
            open_beneath(folder, path, mode, mounts=False)
        except GuardRefused:
            continue
        sys.exit(path + " was opened")
assert open_beneath(folder, "note.txt").read() == "outside"
print("done")
"""


def test_a_bind_mount_of_the_same_disk_is_another_mount(folder, secret, way):
    namespace = ["unshare", "--mount", "--map-root-user"]
    try:
        subprocess.run([*namespace, "mount", "--bind", str(folder), str(folder)], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no mounts can be made here")
    command = [*namespace, sys.executable, "-W", "ignore", "-c", BIND, str(folder), way, *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_folder_is_listed_by_name_and_its_links_are_not_followed(folder, secret):
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to(secret)
    (folder / "zweite\u200b.txt").write_text("xyz", encoding="utf-8")
    entries = {entry.name: entry for entry in listing_beneath(folder)}
    assert list(entries) == sorted(entries)
    assert {name: entry.kind for name, entry in entries.items()} == {
        "fifo": "other",
        "link": "link",
        "note.txt": "file",
        "reports": "folder",
        "zweite\u200b.txt": "file",
    }
    note = entries["note.txt"]
    assert (note.size, note.links) == (6, 1)
    assert abs(note.modified_ms - (folder / "note.txt").stat().st_mtime * 1000) < 2
    assert listing_beneath(folder, "reports/q3/") == listing_beneath(folder, "reports/q3") == [stat_beneath(folder, "reports/q3/sum.txt")]
    with pytest.raises(NotADirectoryError):
        listing_beneath(folder, "note.txt")
    with pytest.raises(FileNotFoundError):
        listing_beneath(folder, "nothing")


def test_a_listing_is_whole_or_refused(folder):
    assert len(listing_beneath(folder, limit=2)) == 2
    with pytest.raises(GuardRefused, match="more than 1 entries"):
        listing_beneath(folder, limit=1)
    assert len(listing_beneath(folder / "reports", "q3", limit=1)) == 1


def test_stat_tells_of_the_thing_itself(folder, secret):
    (folder / "link").symlink_to(secret)
    assert stat_beneath(folder, "link").kind == "link"
    assert stat_beneath(folder, "reports/") == Entry(
        name="reports",
        kind="folder",
        size=(folder / "reports").stat().st_size,
        links=(folder / "reports").stat().st_nlink,
        modified_ms=(folder / "reports").stat().st_mtime_ns // 1_000_000,
    )
    assert (stat_beneath(folder).name, stat_beneath(folder).kind) == ("", "folder")
    with pytest.raises(FileNotFoundError):
        stat_beneath(folder, "nothing")


def test_files_links_and_empty_folders_are_removed_and_nothing_else(folder, secret):
    (folder / "link").symlink_to(secret)
    (folder / "door").symlink_to(secret.parent)
    os.mkfifo(folder / "fifo")
    (folder / "hard").hardlink_to(secret)
    for name in ("link", "door", "hard", "note.txt"):
        remove_beneath(folder, name)
        assert not os.path.lexists(folder / name)
    with pytest.raises(OSError, match="not empty"):
        remove_beneath(folder, "reports")
    remove_beneath(folder, "reports/q3/sum.txt")
    remove_beneath(folder, "reports/q3")
    remove_beneath(folder, "reports")
    with pytest.raises(GuardRefused):
        remove_beneath(folder, "fifo")
    with pytest.raises(GuardRefused):
        remove_beneath(folder, "")
    with pytest.raises(FileNotFoundError):
        remove_beneath(folder, "nothing")


def test_no_descriptor_is_left_open(folder, secret):
    (folder / "link").symlink_to(secret)
    (folder / "hard").hardlink_to(secret)
    os.mkfifo(folder / "fifo")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("link", "hard", "fifo", "reports", "nothing", "nothing/x", "link/x", "note.txt/x/y", "reports/q3/nothing", "../x"):
        for function in (open_beneath, stat_beneath, listing_beneath):
            try:
                result = function(folder, path)
            except (GuardRefused, OSError):
                continue
            assert not hasattr(result, "close")
    for mounts in (True, False):
        listing_beneath(folder, "reports", mounts=mounts)
        open_beneath(folder, "reports/q3/sum.txt", mounts=mounts).close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with open_beneath(folder, "note.txt") as file:
        assert not os.get_inheritable(file.fileno())
        assert os.get_blocking(file.fileno())


def test_a_sandbox_that_forbids_the_call_has_the_walk_instead(folder, secret, monkeypatch):
    (folder / "link").symlink_to(secret)
    monkeypatch.undo()
    for number in (errno.EPERM, errno.ENOSYS):

        def forbidden(*_, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(beneath_walk, "openat2", forbidden)
        assert read(folder, "reports/q3/sum.txt") == "inside"
        refused(folder, "link")
    with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
        no_openat2()


def test_what_renaming_makes_uncertain_is_tried_again_and_then_refused(folder, monkeypatch):
    calls = []

    def uncertain(*arguments):
        calls.append(arguments)
        beneath_walk.ctypes.set_errno(errno.EAGAIN)
        return -1

    monkeypatch.undo()
    monkeypatch.setattr(beneath_walk, "_syscall", lambda: uncertain)
    assert "Try again" in refused(folder, "reports/q3/sum.txt")
    assert len(calls) == 16
