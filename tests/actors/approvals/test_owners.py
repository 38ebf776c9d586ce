"""Whether the process that spent an approval still runs: also when its number was given to another one, or the machine was started again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from retinue.actors.approvals.owners import is_alive, new_owner

ELSEWHERE = "from retinue.actors.approvals.owners import new_owner; print(new_owner(), flush=True); input()"


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


def test_of_another_container_nothing_is_known_so_it_counts_as_alive() -> None:
    machine, number, started, tail = parts(new_owner())
    assert is_alive(f"{machine.partition('+')[0]}+1/{number}.{started}.{tail}")


@pytest.mark.parametrize("owner", ["", "x", "/", "a/b.c.d", "+/..", "a+b/1.x.y", "\0"])
def test_what_no_desk_has_written_is_nobody(owner: str) -> None:
    assert not is_alive(owner)
