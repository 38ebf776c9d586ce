"""Whether the process that spent an approval still runs: also when its number was given to another one, or the machine was started again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from retinue.actors.approvals.owners import FOLDER, OwnerLock, _lock_of, forget_the_dead, is_alive, new_owner

ELSEWHERE = "from retinue.actors.approvals.owners import new_owner; print(new_owner(), flush=True); input()"

HOLDING = (
    "import sys; from pathlib import Path; from retinue.actors.approvals.owners import OwnerLock, new_owner\n"
    "owner = new_owner(); lock = OwnerLock(Path(sys.argv[1]), owner); print(owner, flush=True); input()"
)


def parts(owner: str) -> tuple[str, str, str, str]:
    machine, _, rest = owner.partition("/")
    number, started, tail = rest.split(".")
    return machine, number, started, tail


def test_this_process_is_alive_and_each_desk_has_a_name_of_its_own() -> None:
    one, two = new_owner(), new_owner()
    assert is_alive(one) and is_alive(two) and one != two


def test_another_process_is_alive_until_it_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", ELSEWHERE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        assert is_alive(owner)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now: its number is still taken
        assert not is_alive(owner)
    assert not is_alive(owner)


def test_a_process_that_got_the_number_later_is_another_one() -> None:
    machine, number, started, tail = parts(new_owner())
    assert not is_alive(f"{machine}/{number}.{int(started) + 1}.{tail}")


def test_after_the_machine_was_started_again_nobody_of_before_is_alive() -> None:
    machine, number, started, tail = parts(new_owner())
    assert not is_alive(f"another-boot+{machine.partition('+')[2]}/{number}.{started}.{tail}")


def test_of_another_container_nothing_is_known_without_the_lock_of_its_owner(tmp_path: Path) -> None:
    machine, number, started, tail = parts(new_owner())
    elsewhere = f"{machine.partition('+')[0]}+1/{number}.{started}.{tail}"
    assert is_alive(elsewhere) is None
    assert is_alive(elsewhere, tmp_path) is None
    lock = OwnerLock(tmp_path, elsewhere)
    assert is_alive(elsewhere, tmp_path) is True
    lock.close()
    assert is_alive(elsewhere, tmp_path) is False
    OwnerLock(tmp_path, elsewhere).close(forget=True)
    assert is_alive(elsewhere, tmp_path) is None


def test_an_owner_that_has_let_go_has_ended_though_its_process_lives(tmp_path: Path) -> None:
    owner = new_owner()
    lock = OwnerLock(tmp_path, owner)
    assert is_alive(owner, tmp_path) is True
    del lock
    assert is_alive(owner, tmp_path) is False


def test_another_machine_that_holds_the_lock_is_alive(tmp_path: Path) -> None:
    machine, number, started, tail = parts(new_owner())
    elsewhere = f"another-boot+{machine.partition('+')[2]}/{number}.{started}.{tail}"
    lock = OwnerLock(tmp_path, elsewhere)
    assert is_alive(elsewhere, tmp_path) is True
    lock.close()
    assert is_alive(elsewhere, tmp_path) is False


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        elsewhere = owner.replace("+", "+1", 1)
        (tmp_path / FOLDER / _lock_of(tmp_path, owner).name).rename(_lock_of(tmp_path, elsewhere))
        assert is_alive(elsewhere, tmp_path) is True
        process.kill()
        process.wait()
    assert is_alive(elsewhere, tmp_path) is False


def test_files_of_the_dead_are_removed_where_nobody_asks_for_them(tmp_path: Path) -> None:
    alive, needed, dead, fresh = (new_owner() for _ in range(4))
    lock = OwnerLock(tmp_path, alive)
    for owner in (needed, dead, fresh):
        OwnerLock(tmp_path, owner).close()
    for owner in (alive, needed, dead):
        os.utime(_lock_of(tmp_path, owner), (1, 1))
    forget_the_dead(tmp_path, {needed})
    assert [_lock_of(tmp_path, owner).exists() for owner in (alive, needed, dead, fresh)] == [True, True, False, True]
    lock.close()


def test_a_lock_that_cannot_be_had_is_told_and_keeps_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FOLDER).write_text("no folder", encoding="utf-8")
    owner = new_owner()
    OwnerLock(tmp_path, owner).close()
    assert "cannot be locked" in caplog.text
    assert is_alive(owner, tmp_path) is True
    assert list(tmp_path.iterdir()) == [tmp_path / FOLDER]


@pytest.mark.parametrize("owner", ["", "x", "/", "a/b.c.d", "+/..", "a+b/1.x.y", "\0"])
def test_what_no_desk_has_written_is_nobody(owner: str) -> None:
    assert not is_alive(owner)
