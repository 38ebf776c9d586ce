"""Checked by mypy and pyright, never run: both must report an error on exactly the lines that end in `# error`."""

from __future__ import annotations

from typing import assert_type

import retinue as rt
from retinue.sync import ActorSystem, Ref


def carry_on(system: ActorSystem, agent: Ref[rt.Agent]) -> str:
    try:
        reply = agent.ask("x")
    except rt.ApprovalRequired as waiting:
        for request in waiting.requests:
            system.approvals.approve(request.id, reviewer="me")
        assert_type(agent.ask(rt.Resume(waiting.run)), rt.AgentMessage)
        reply = agent.ask(rt.Resume(waiting, wait_for_approvals=True))
    except rt.RunParked as parked:
        reply = agent.ask(rt.Resume(parked))
    rt.Resume(3)  # error
    rt.Resume()  # error
    return reply.text
