"""Several processes at one file, fact B11 of the seed turned round: each sees what the others decide, nobody's decision is lost, and an approval is spent at one of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from approval_bank import Bank, Pay, alice_of, outcome, request_for, system_on
from retinue.actors.approvals.offline import ApprovalsFile
from retinue.security import approval_keys

APPROVE = (
    "import sys; from pathlib import Path; from retinue.actors.approvals.offline import ApprovalsFile\n"
    "with ApprovalsFile(Path(sys.argv[1])) as file:\n"
    "    for request in file.find('pending'): print(file.approve(request.id, reviewer='bob')[1])"
)


async def elsewhere(folder: Path) -> list[str]:
    """Another process approves all that waits; the tokens."""
    done = await trio.run_process([sys.executable, "-c", APPROVE, str(folder)], capture_stdout=True)
    return str(done.stdout, "utf-8").split()


async def test_a_token_from_another_process_is_good_here_though_nothing_was_approved_here_before(tmp_path: Path) -> None:
    effects: list[Any] = []
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        alice = alice_of(system)
        await request_for(bank, Pay("ACME", 40), alice)
        assert not (tmp_path / "approvals.key").exists()
        (token,) = await elsewhere(tmp_path)
        assert await bank.ask(Pay("ACME", 40), context=alice, approvals=[token]) == "paid 40 to ACME"
        assert isinstance(await outcome(bank.ask(Pay("ACME", 40), context=alice, approvals=[token])), rt.Denied)
    assert len(effects) == 1


async def test_whoever_waits_sees_a_decision_of_another_process_within_a_second(tmp_path: Path) -> None:
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, [], name="bank")
        request = await request_for(bank, Pay("ACME", 40), alice_of(system))
        found: list[rt.ApprovalRequest] = []
        with ApprovalsFile(tmp_path) as file:
            async with trio.open_nursery() as nursery:

                async def wait() -> None:
                    found.append(await system.approvals.wait(request.id, timeout=20))

                nursery.start_soon(wait)
                await trio.sleep(0.3)
                file.refuse(request.id, kind="rejected", reviewer="bob", note="no")
                began = trio.current_time()
            assert trio.current_time() - began < 15
        assert (found[0].status, found[0].note) == ("rejected", "no")


async def test_the_private_key_is_not_needed_to_redeem(tmp_path: Path) -> None:
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, [], name="bank")
        alice = alice_of(system)
        request = await request_for(bank, Pay("ACME", 40), alice)
        token = await system.approvals.approve(request.id, reviewer="bob")
        (tmp_path / "approvals.key").unlink()
        assert await bank.ask(Pay("ACME", 40), context=alice, approvals=[token]) == "paid 40 to ACME"


async def test_a_key_that_was_rotated_away_opens_nothing_and_one_that_is_kept_does(tmp_path: Path) -> None:
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, [], name="bank")
        alice = alice_of(system)
        tokens = []
        for amount in (1, 2):
            request = await request_for(bank, Pay("ACME", amount), alice)
            tokens.append(await system.approvals.approve(request.id, reviewer="bob"))
        approval_keys.rotate(tmp_path, keep=1)
        assert await bank.ask(Pay("ACME", 1), context=alice, approvals=[tokens[0]]) == "paid 1 to ACME"
        approval_keys.rotate(tmp_path, keep=0)
        assert not isinstance(await outcome(bank.ask(Pay("ACME", 2), context=alice, approvals=[tokens[1]])), str)


async def test_two_systems_on_one_file_decide_and_spend_together(tmp_path: Path) -> None:
    effects: list[Any] = []
    async with system_on(tmp_path) as first, system_on(tmp_path) as second:
        one = await first.spawn(Bank, effects, name="bank")
        two = await second.spawn(Bank, effects, name="bank")
        requests = [await request_for(one, Pay("ACME", amount), alice_of(first)) for amount in range(6)]
        assert [request.id for request in await second.approvals.pending()] == [request.id for request in requests]
        assert (await request_for(two, Pay("ACME", 0), alice_of(second))).id == requests[0].id
        tokens = []
        for number, request in enumerate(requests):
            desk = (first, second)[number % 2].approvals
            tokens.append(await desk.approve(request.id, reviewer=f"r{number}"))
            with pytest.raises(rt.ApprovalError):
                await (second, first)[number % 2].approvals.reject(request.id, reviewer="x")
        seen = [[(request.status, request.reviewer) for request in await desk.approvals.find()] for desk in (first, second)]
        assert seen[0] == seen[1] == [("approved", f"r{number}") for number in range(6)]
        for amount, token in enumerate(tokens):
            answers = [
                await outcome(bank.ask(Pay("ACME", amount), context=alice_of(system), approvals=[token]))
                for bank, system in ((one, first), (two, second))
            ]
            assert answers[0] == f"paid {amount} to ACME" and isinstance(answers[1], rt.Denied) and answers[1].reason == "spent"
    assert len(effects) == 6


@pytest.mark.slow
def test_four_processes_that_ask_and_approve_at_once_lose_nothing(tmp_path: Path) -> None:
    script = (
        "import sys, secrets; from pathlib import Path; from retinue.actors.approvals.offline import ApprovalsFile\n"
        "from retinue.actors.approvals.tables import row_of; from retinue.actors.approvals.works_asking import Ask\n"
        "from retinue.security.approvals import ApprovalRequest, Binding, arguments_digest\n"
        "with ApprovalsFile(Path(sys.argv[1])) as file:\n"
        "    for number in range(25):\n"
        "        arguments = {'who': sys.argv[2], 'number': number}\n"
        "        binding = Binding('a.b', arguments_digest(arguments), sys.argv[2], None, None, '/user/x', '0' * 64, '1')\n"
        "        now = file.now_ms\n"
        "        new = ApprovalRequest.new(binding, arguments, message_type='x', reasons=[], context_id='c', now_ms=now)\n"
        "        file.do(Ask(row_of(new), now))\n"
        "        if number % 2: file.approve(new.id, reviewer=sys.argv[2])\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), f"p{number}"]) for number in range(4)]
    assert [process.wait(120) for process in processes] == [0] * 4
    with ApprovalsFile(tmp_path) as file:
        found = file.find(None)
        assert len(found) == 100 and len({request.id for request in found}) == 100
        for number in range(4):
            own = [request for request in found if request.subject == f"p{number}"]
            assert [request.status for request in own].count("approved") == 12 and {request.reviewer for request in own} == {
                None,
                f"p{number}",
            }
        _, events = file.events(0)
        assert len(events) == 148 and [event["number"] for event in events] == list(range(1, 149))


async def test_decisions_of_other_processes_are_in_this_systems_audit_once(tmp_path: Path) -> None:
    async def recorded(system: rt.ActorSystem, count: int) -> list[str]:
        with trio.fail_after(20):
            while True:
                entries = await system.audit.entries(kind="approval")
                found = [entry.detail for entry in entries if "in another process" in entry.detail]
                if len(found) >= count:
                    return found
                await trio.sleep(0.05)

    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, [], name="bank")
        first = await request_for(bank, Pay("ACME", 1), alice_of(system))
        with ApprovalsFile(tmp_path) as file:
            file.approve(first.id, reviewer="bob", note="fine")
        await request_for(bank, Pay("ACME", 2), alice_of(system))  # it looks whenever something happens here, and every 5 s
        (found,) = await recorded(system, 1)
        assert first.id in found and "bob" in found and "fine" in found
    with ApprovalsFile(tmp_path) as file:
        (second,) = file.find("pending")
        file.refuse(second.id, kind="rejected", reviewer="carol", note="")
    async with system_on(tmp_path) as system:  # what happened while no system ran is recorded by the next one
        await system.approvals.pending()
        await system.approvals.watch(after=0).__anext__()
        (found,) = await recorded(system, 1)
        assert second.id in found and "carol" in found
