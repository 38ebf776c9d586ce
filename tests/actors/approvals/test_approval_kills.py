"""Processes are killed at each point between request, approval, spend, effect and outcome: the effect happens once or never, and the state that is told is right."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

import approval_process
import retinue as rt
from approval_bank import Pay, alice_of, outcome, request_for, system_on
from approval_process import FileBank

SCRIPT = Path(approval_process.__file__)


class Ground:
    """A folder of data, and the file of effects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.effects = folder / "effects.txt"
        self.effects.touch()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(SCRIPT), str(self.folder), str(self.effects), *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def run(self, *arguments: str, killed: bool = False) -> str:
        process = self.start(*arguments)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == (-signal.SIGKILL if killed else 0), (arguments, process.returncode)
        return out.strip()

    @property
    def count(self) -> int:
        return len(self.effects.read_text(encoding="utf-8").splitlines())

    async def approved(self, amount: int = 40) -> tuple[str, str]:
        """The id of a request that is approved, and its token."""
        async with system_on(self.folder) as system:
            bank = await system.spawn(FileBank, self.effects, name="bank")
            request = await request_for(bank, Pay("ACME", amount), alice_of(system))
            return request.id, await system.approvals.approve(request.id, reviewer="bob")

    async def redeem(self, token: str, amount: int = 40) -> object:
        async with system_on(self.folder) as system:
            bank = await system.spawn(FileBank, self.effects, name="bank")
            return await outcome(bank.ask(Pay("ACME", amount), context=alice_of(system), approvals=[token]))

    async def states(self) -> tuple[list[str], int]:
        """The statuses of all requests, and how many approvals are indeterminate."""
        async with system_on(self.folder) as system:
            return [request.status for request in await system.approvals.find()], len(await system.approvals.indeterminate())


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "left"), [("before request", 0), ("in request", 0), ("after request", 1)])
async def test_killed_while_it_asks(ground: Ground, point: str, left: int) -> None:
    ground.run("ask", "40", point, killed=True)
    assert await ground.states() == (["pending"] * left, 0)
    await ground.approved()
    assert await ground.states() == (["approved"], 0)
    assert ground.count == 0


@pytest.mark.slow
@pytest.mark.parametrize(("point", "status"), [("before approve", "pending"), ("in approve", "pending"), ("after approve", "approved")])
async def test_killed_while_it_approves(ground: Ground, point: str, status: str) -> None:
    async with system_on(ground.folder) as system:
        bank = await system.spawn(FileBank, ground.effects, name="bank")
        request = (await request_for(bank, Pay("ACME", 40), alice_of(system))).id
    ground.run("approve", request, point, killed=True)
    assert await ground.states() == ([status], 0)
    async with system_on(ground.folder) as system:
        if status == "pending":
            token = await system.approvals.approve(request, reviewer="bob")
        else:
            token = await system.approvals.token(request)
    assert await ground.redeem(token) == "paid"
    assert isinstance(await ground.redeem(token), rt.Denied)
    assert ground.count == 1


POINTS = {
    # where it dies: effects then, indeterminate then, effects after the token was tried again
    "before spend": (0, 0, 1),
    "in spend": (0, 0, 1),
    "after spend": (0, 1, 0),
    "before effect": (0, 1, 0),
    "after effect": (1, 1, 1),
    "before outcome": (1, 1, 1),
    "in outcome": (1, 1, 1),
    "after outcome": (1, 0, 1),
}


async def killed_at(ground: Ground, point: str) -> None:
    then, indeterminate, after = POINTS[point]
    _, token = await ground.approved()
    ground.run("redeem", "40", token, point, killed=True)
    assert ground.count == then
    assert await ground.states() == (["approved"], indeterminate)
    again = await ground.redeem(token)
    assert again == "paid" if after > then else isinstance(again, rt.Denied) and again.reason == "spent", again
    assert ground.count == after
    third = await ground.redeem(token)
    assert isinstance(third, rt.Denied) and third.reason == "spent" and ground.count == after
    assert await ground.states() == (["approved"], indeterminate)


async def test_killed_between_the_effect_and_the_outcome(ground: Ground) -> None:
    await killed_at(ground, "after effect")


@pytest.mark.slow
@pytest.mark.parametrize("point", sorted({*POINTS} - {"after effect"}))
async def test_killed_while_it_redeems_at_every_other_point(ground: Ground, point: str) -> None:
    await killed_at(ground, point)


@pytest.mark.slow
async def test_a_person_finds_out_what_was_interrupted(ground: Ground) -> None:
    request, token = await ground.approved()
    ground.run("redeem", "40", token, "after effect", killed=True)
    async with system_on(ground.folder) as system:
        (left,) = await system.approvals.indeterminate()
        assert (left.request_id, left.operation, left.subject, left.approver) == (request, "payments.send", "alice", "bob")
        bank = await system.spawn(FileBank, ground.effects, name="bank")
        again = await outcome(bank.ask(Pay("ACME", 40), context=alice_of(system)))
        assert isinstance(again, rt.ApprovalRequired) and any("interrupted" in reason for reason in again.request.reasons)
        await system.approvals.resolve(left.jti, "succeeded", reviewer="carol", note="it is in the bank's books")
        assert await system.approvals.indeterminate() == ()
        with pytest.raises(rt.ApprovalError):
            await system.approvals.resolve(left.jti, "not run", reviewer="carol")
        kinds = {entry.reason for entry in await system.audit.entries(kind="approval")}
        assert {"indeterminate", "resolved"} <= kinds
    assert await ground.states() == (["approved", "pending"], 0)


@pytest.mark.slow
async def test_killed_at_any_time_it_pays_once_at_most(ground: Ground) -> None:
    rng = random.Random(8)
    died_early = 0
    for amount in range(100, 115):
        _, token = await ground.approved(amount)
        before = ground.count
        process = ground.start("redeem", str(amount), token)
        await trio.sleep(rng.uniform(0.5, 1.5))
        process.kill()
        process.communicate(timeout=60)
        died_early += ground.count == before
        for _ in range(2):
            await ground.redeem(token, amount)
        assert ground.count - before <= 1
        _, indeterminate = await ground.states()
        assert ground.count - before == 1 or indeterminate
    assert died_early


async def test_32_racers_in_two_processes_and_four_systems_pay_once(ground: Ground) -> None:
    _, token = await ground.approved()
    racers = [ground.start("race", "40", token, "8") for _ in range(2)]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    found = [[int(part) for part in racer.communicate(timeout=120)[0].split()] for racer in racers]
    assert [sum(column) for column in zip(*found, strict=True)] == [1, 31, 32], found
    assert ground.count == 1
    again = await ground.redeem(token)
    assert isinstance(again, rt.Denied) and again.reason == "spent"
