"""An asynchronous policy's answer counts within its time, and not after, whatever became of the cancellation."""

from __future__ import annotations

import time

import pytest
import trio

import retinue as rt
from retinue.capabilities.gate import Gate
from retinue.security.authority import Authority


@rt.message
class Read(rt.Request[str]):
    path: str


def gate_with(decide, timeout: float) -> Gate:
    return Gate(Authority(), policies=[rt.policy(name="late", operations=["fs.**"])(decide)], policy_timeout=timeout)


async def admitted(gate: Gate) -> object:
    return await gate.admit_async(gate._authority.root, None, "fs.read", Read("a"), path="/user/files", message_type=Read)


async def test_an_answer_in_time_counts():
    async def decide(_call):
        await trio.lowlevel.checkpoint()
        return rt.Verdict.allow()

    assert await admitted(gate_with(decide, 5.0))


async def test_a_policy_that_swallows_its_time_out_and_then_allows_is_too_late(autojump_clock):
    async def decide(_call):
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            return rt.Verdict.allow()

    gate = gate_with(decide, 5.0)
    with pytest.raises(rt.Denied, match=r"'late' did not answer within 5 s") as refused:
        await admitted(gate)
    assert refused.value.reason == "policy"
    assert (gate.allowed, gate.refused) == (0, 1)


async def test_a_policy_that_takes_its_time_behind_a_shield_is_too_late(autojump_clock):
    async def decide(_call):
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        return rt.Verdict.allow()

    with pytest.raises(rt.Denied, match="did not answer within 5 s"):
        await admitted(gate_with(decide, 5.0))


async def test_a_policy_that_keeps_the_whole_thread_busy_past_its_time_is_too_late():
    async def decide(_call):
        time.sleep(0.03)  # noqa: ASYNC251 -- that is the fault
        return rt.Verdict.allow()

    with pytest.raises(rt.Denied, match="did not answer within"):
        await admitted(gate_with(decide, 0.01))
