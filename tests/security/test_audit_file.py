"""The audit log in a file: whatever ends the process or the disk, what is there verifies, and the next start goes on with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from retinue.security.audit import AuditLog
from retinue.security.audit_chain import AuditHead, verify_chain
from retinue.security.audit_file import AuditFile, read_audit_file
from retinue.security.errors import AuditBroken, AuditUnavailable

KEY = b"k" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def open_log(path: Path, **options: Any) -> AuditLog:
    return AuditLog(KEY, sink=AuditFile(path, **options))


def fill(path: Path, count: int) -> AuditHead:
    log = open_log(path)
    for number in range(count):
        log.record("decision", allowed=False, operation="fs.read", detail=f"number {number}\n\u2028é")
    log.close()
    return log.head()


def verified(path: Path, head: Any = None) -> int:
    return verify_chain(read_audit_file(path), KEY, head=head).number


# -- writing and going on ------------------------------------------------------------------------------------------------------------------


def test_a_record_is_in_the_file_when_it_was_recorded(path: Path) -> None:
    log = open_log(path)
    for number in range(1, 4):
        entry = log.record("decision", allowed=True)
        assert list(read_audit_file(path))[-1] == entry
        assert verified(path, log.head()) == number
    log.close()


def test_a_record_is_one_line_of_json_that_anybody_can_read(path: Path) -> None:
    fill(path, 3)
    lines = path.read_text(encoding="ascii").splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2, 3]
    assert json.loads(lines[0])["detail"] == "number 0\n\u2028é"


def test_the_file_is_made_for_its_owner_alone(path: Path) -> None:
    open_log(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_next_start_goes_on_with_the_chain(path: Path) -> None:
    head = fill(path, 3)
    log = open_log(path)
    assert log.head() == head
    log.record("start", allowed=True)
    log.close()
    assert verified(path, head) == verified(path, log.head()) == 4


def test_a_long_file_is_opened_by_its_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path, 900)
    asked = 0
    pread = os.pread

    def counted(file: int, size: int, start: int) -> bytes:
        nonlocal asked
        asked += size
        return pread(file, size, start)

    monkeypatch.setattr(os, "pread", counted)
    log = open_log(path)
    assert log.head().number == 900
    assert 2 * asked < path.stat().st_size
    log.close()


@pytest.mark.parametrize("fsync", ["close", "record"])
def test_the_disk_is_waited_for_as_said(path: Path, fsync: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(path, fsync=fsync)
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), real(file)))
    log.record("decision", allowed=True)
    log.record("decision", allowed=True)
    assert len(synced) == (2 if fsync == "record" else 0)
    log.close()
    assert len(synced) == (3 if fsync == "record" else 1)
    with pytest.raises(ValueError, match="fsync"):
        AuditFile(path, fsync="never")  # type: ignore[arg-type]


# -- what cannot be used --------------------------------------------------------------------------------------------------------------------


def test_a_second_system_is_refused_as_long_as_the_first_has_the_file(path: Path) -> None:
    log = open_log(path)
    with pytest.raises(AuditUnavailable, match="in use by another"):
        AuditFile(path)
    done = subprocess.run(
        [sys.executable, "-c", f"from retinue.security.audit_file import AuditFile\nAuditFile({str(path)!r})"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "AuditUnavailable" in done.stderr
    assert "in use by another" in done.stderr
    log.close()
    open_log(path).close()


def test_files_that_others_can_use_links_and_what_is_no_file_are_refused(path: Path, tmp_path: Path) -> None:
    fill(path, 1)
    for mode in (0o640, 0o606, 0o620):
        path.chmod(mode)
        with pytest.raises(AuditUnavailable, match="chmod 600"):
            AuditFile(path)
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder", "no/where"):
        with pytest.raises(AuditUnavailable):
            AuditFile(tmp_path / name)
    open_log(path).close()


def test_another_users_file_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path, 1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(AuditUnavailable, match="another user"):
        AuditFile(path)


@pytest.mark.parametrize("line", [b"{}\n", b"\n", b"\x00\x00\n", b"null\n", b"x" * 2_000_000])
def test_a_file_whose_end_is_no_record_is_not_written_to(path: Path, line: bytes) -> None:
    fill(path, 2)
    with path.open("ab") as file:
        file.write(line)
    before = path.read_bytes()
    with pytest.raises(AuditBroken):
        open_log(path)
    assert path.read_bytes() == before


def test_a_failed_opening_lets_go_of_the_file(path: Path) -> None:
    fill(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + b"{}\n")
    with pytest.raises(AuditBroken):
        AuditFile(path)
    path.write_bytes(whole)
    open_log(path).close()


def test_a_process_that_was_forked_does_not_write_into_its_parents_chain(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(path)
    pid = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid + 1)
        with pytest.raises(AuditUnavailable, match="forked"):
            log.record("decision", allowed=True)
    log.record("decision", allowed=True)
    log.close()
    assert verified(path) == 1


@pytest.mark.parametrize("change", [lambda file: file.write(b"x"), lambda file: file.truncate(10)])
def test_a_file_that_somebody_else_changes_is_not_written_to(path: Path, change: Any) -> None:
    log = open_log(path)
    log.record("decision", allowed=True)
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        change(file)
    with pytest.raises(AuditUnavailable, match="changed by somebody else"):
        log.record("decision", allowed=True)
    log.close()


def _remove(path: Path) -> None:
    path.unlink()


def _move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def _move_the_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


@pytest.mark.parametrize("take_away", [_remove, _move_away, _replace, _move_the_folder])
def test_where_the_file_was_taken_away_nothing_is_written_that_nobody_would_find(tmp_path: Path, take_away: Any) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    log = open_log(folder / "audit.jsonl")
    head = log.record("decision", allowed=False)
    take_away(folder / "audit.jsonl")
    with pytest.raises(AuditUnavailable, match="removed, moved away or replaced"):
        log.record("decision", allowed=True)
    assert log.head() == (head.number, head.mac)
    log.close()


def test_a_file_that_is_put_back_is_written_to_again_and_another_working_folder_does_not_matter(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = open_log(Path(path.name))
    away = path.with_name("elsewhere")
    path.rename(away)
    with pytest.raises(AuditUnavailable):
        log.record("decision", allowed=True)
    away.rename(path)
    monkeypatch.chdir("/")
    log.record("decision", allowed=True)
    assert verified(path, log.head()) == 1
    log.close()


# -- torn lines ------------------------------------------------------------------------------------------------------------------------------


def test_wherever_the_last_line_is_torn_the_rest_goes_on(path: Path) -> None:
    fill(path, 3)
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for end in range(start + 1, len(whole)):
        path.write_bytes(whole[:end])
        torn: list[int] = []
        assert [entry.number for entry in read_audit_file(path, on_torn=torn.append)] == [1, 2]
        assert torn == [end - start]
    log = open_log(path)
    (entry,) = log.entries()
    assert (entry.number, entry.kind, entry.reason) == (3, "start", "recovered")
    assert f"{len(whole) - 1 - start} bytes" in entry.detail
    aside = path.with_name("audit.jsonl.torn-1")
    assert aside.name in entry.detail
    assert aside.read_bytes() == whole[start : len(whole) - 1]
    assert aside.stat().st_mode & 0o777 == 0o600
    log.record("decision", allowed=True)
    log.close()
    assert verified(path, log.head()) == 4


def test_torn_lines_are_kept_each_under_its_own_name(path: Path) -> None:
    fill(path, 1)
    for number in range(1, 4):
        with path.open("ab") as file:
            file.write(b'{"number"')
        open_log(path).close()
        assert path.with_name(f"audit.jsonl.torn-{number}").read_bytes() == b'{"number"'
    assert verified(path) == 4


def test_a_file_of_one_torn_line_begins_anew(path: Path) -> None:
    path.touch(mode=0o600)
    path.write_bytes(b'{"num')
    log = open_log(path)
    assert log.head().number == 1
    log.close()


def test_where_the_torn_line_cannot_be_kept_nothing_is_cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + b"torn")

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        with pytest.raises(AuditUnavailable, match="No space left"):
            AuditFile(path)
    assert path.read_bytes() == whole + b"torn"
    open_log(path).close()


# -- writing that fails ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["at once", "midway", "at fsync", "interrupted"])
def test_writing_that_fails_leaves_nothing_and_the_next_record_fits(path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    log = open_log(path, fsync="record")
    log.record("decision", allowed=True)
    before = path.read_bytes()
    pwrite, fsync, calls = os.pwrite, os.fsync, 0

    def fail(file: int, data: bytes, start: int) -> int:
        nonlocal calls
        calls += 1
        if how == "interrupted":
            pwrite(file, data, start)
            raise KeyboardInterrupt
        if how == "midway" and calls == 1:
            return pwrite(file, data[:40], start)
        raise OSError(28, "No space left on device")

    def fail_fsync(file: int) -> None:
        fsync(file)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync" if how == "at fsync" else "pwrite", fail_fsync if how == "at fsync" else fail)
        with pytest.raises(KeyboardInterrupt if how == "interrupted" else AuditUnavailable):
            log.record("decision", allowed=False, operation="fs.write")
    if how != "interrupted":
        assert path.read_bytes() == before
    log.record("decision", allowed=True, operation="fs.read")
    log.close()
    assert [entry.operation for entry in read_audit_file(path)] == [None, "fs.read"]
    assert verified(path, log.head()) == 2


def test_where_even_taking_back_fails_the_next_record_does_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(path)
    log.record("decision", allowed=True)
    pwrite, calls = os.pwrite, 0

    def fail(file: int, data: bytes, start: int) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(5, "Input/output error")
        return pwrite(file, data[:40], start)

    def fail_too(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        patch.setattr(os, "ftruncate", fail_too)
        with pytest.raises(AuditUnavailable):
            log.record("decision", allowed=False)
    log.record("decision", allowed=True)
    log.close()
    assert verified(path, log.head()) == 2


FULL = """
import resource, sys
from retinue.security.audit import AuditLog
from retinue.security.audit_file import AuditFile
from retinue.security.errors import AuditUnavailable
log = AuditLog(b"k" * 32, sink=AuditFile(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
done = 0
try:
    while True:
        log.record("decision", allowed=True, detail="x" * 200)
        done += 1
except AuditUnavailable as error:
    print(done, error.reason, "File too large" in str(error))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.record("decision", allowed=True)
log.close()
"""


def test_a_full_disk_refuses_leaves_nothing_half_and_goes_on_when_there_is_room(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    count, reason, named = done.stdout.split()
    assert (reason, named) == ("audit", "True")
    assert verified(path) == int(count) + 1 > 1
    assert path.read_bytes().endswith(b"}\n")


WRITING = """
import sys
from retinue.security.audit import AuditLog
from retinue.security.audit_file import AuditFile
log = AuditLog(b"k" * 32, sink=AuditFile(sys.argv[1]))
while True:
    entry = log.record("decision", allowed=True, operation="fs.read", detail="x" * 500)
    sys.stdout.write(f"{entry.number}:{entry.mac}\\n")
    sys.stdout.flush()
"""


def killed(path: Path, after: int, delay: float) -> AuditHead:
    """Let a process append until it has told of some records, kill it, and return the last head that it told of."""
    process = subprocess.Popen([sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(after):
        process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    told = process.stdout.read().decode("ascii").splitlines()
    process.wait()
    process.stdout.close()
    lines = [line for line in told if len(line.partition(":")[2]) == 64]
    return AuditHead.parse(lines[-1]) if lines else AuditHead(0, "0" * 64)


def test_a_process_killed_while_appending_leaves_a_chain_that_verifies_and_goes_on(path: Path) -> None:
    number = 0
    for round_ in range(3):
        head = killed(path, 10, 0.003 * round_)
        assert verified(path, head) >= head.number >= number  # nothing that was told of is lost
        log = open_log(path)
        log.record("start", allowed=True)
        log.close()
        number = verified(path, log.head())


@pytest.mark.slow
def test_so_it_does_many_times(path: Path) -> None:
    for round_ in range(40):
        head = killed(path, 1 + round_ % 7, 0.0007 * round_)
        assert verified(path, head) >= head.number
    log = open_log(path)
    log.close()
    assert verified(path, log.head()) > 40


# -- reading hostile files -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, AuditHead]:
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    head = fill(path, 4)
    return path, path.read_bytes(), head


def broken(path: Path, data: bytes, head: AuditHead) -> None:
    path.write_bytes(data)
    with pytest.raises(AuditBroken):
        verified(path, head)


@given(st.data())
@settings(max_examples=examples(300))
def test_no_edit_of_the_bytes_goes_unseen(filled_file: tuple[Path, bytes, AuditHead], data: st.DataObject) -> None:
    path, whole, head = filled_file
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 40)))
    put = data.draw(st.binary(max_size=3) | st.sampled_from([b" ", b"\n", b"0", b'"', b"\\u0041", b"{}\n"]))
    edited = whole[:start] + put + whole[end:]
    if edited[: len(whole)] != whole:
        broken(path, edited, head)


@given(st.lists(st.integers(0, 3), max_size=6))
@settings(max_examples=examples(200))
def test_no_other_order_of_the_lines_goes_unseen(filled_file: tuple[Path, bytes, AuditHead], order: list[int]) -> None:
    path, whole, head = filled_file
    lines = whole.splitlines(keepends=True)
    if order != [0, 1, 2, 3]:
        broken(path, b"".join(lines[number] for number in order), head)


@pytest.mark.parametrize(
    "edit",
    [
        lambda line: line.replace(b'"count":1', b'"count": 1'),
        lambda line: line.replace(b'"count":1', b'"count":1,"count":1'),
        lambda line: line.replace(b'"count":1', b'"count":1.0'),
        lambda line: line.replace(b'"fs.read"', b'"fs\\u002eread"'),
        lambda line: line.replace(b"\\n", b"\\u000a"),
        lambda line: b" " + line,
        lambda line: line + b" ",
        lambda line: line + b"\r",
        lambda line: b"\xef\xbb\xbf" + line,
        lambda line: line.replace(b"\\u00e9", "é".encode()),
    ],
)
def test_a_line_that_means_the_same_but_is_written_otherwise_shows(path: Path, edit: Any) -> None:
    head = fill(path, 2)
    first, second = path.read_bytes().splitlines()
    assert edit(first) != first
    broken(path, edit(first) + b"\n" + second + b"\n", head)
    with pytest.raises(AuditBroken) as caught:
        list(read_audit_file(path))
    assert caught.value.number == 1


@pytest.mark.parametrize("size", [2**20, 2**20 + 1, 3 * 2**20])
def test_a_line_longer_than_any_is_not_taken_for_a_torn_one_or_held_whole(path: Path, size: int) -> None:
    path.write_bytes(b"x" * size + b"\n")
    with pytest.raises(AuditBroken):
        list(read_audit_file(path))


def test_an_empty_file_is_an_empty_chain_and_a_missing_one_is_an_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        verified(path)
    path.touch()
    assert verified(path) == 0
    with pytest.raises(AuditBroken):
        verified(path, (1, "0" * 64))


def test_records_have_to_follow_each_other(path: Path) -> None:
    file = AuditFile(path)
    log = AuditLog(KEY)
    first, second, third = (log.record("decision", allowed=True) for _ in range(3))
    file.write(first)
    for odd in (third, attrs.evolve(first, number=5)):
        with pytest.raises(OSError, match="does not follow"):
            file.write(odd)
    file.write(second)
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.write(third)
    assert verified(path) == 2
