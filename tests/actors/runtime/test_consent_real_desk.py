"""The real desk behind the runtime, in every kind of system: what a person approved is done once, and the holder's books are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from consent_actors import WAYS, Blocking, Plain, Worker
from core_authority import error_of
from core_hosts import conserved


@pytest.mark.parametrize(
    "options",
    [{}, {"loopback": True}, {"seed": 3}, {"permissions": ["work.**", rt.max_risk("L1"), rt.limit(calls=9)]}, {"audit": False}],
    ids=["plain", "loopback", "seeded", "narrow", "unaudited"],
)
async def test_in_every_kind_of_system_each_way_runs_once_for_a_token(options: dict[str, Any], tmp_path: Path) -> None:
    log: list[Any] = []
    folder = tmp_path / "data" if options else None
    async with rt.ActorSystem(data_dir=folder, block_warning=1e9, **options) as system:
        worker = await system.spawn(Rated, log)
        before = system.statistics()
        for way in WAYS:
            if "async" in way or way in ("shielded", "stream", "queued"):
                continue
            required = await error_of(WAYS[way](worker))
            assert isinstance(required, rt.ApprovalRequired), required
            token = await system.approvals.approve(required.request.id, reviewer="bob")
            await WAYS[way](worker, approvals=[token])
            assert (await error_of(WAYS[way](worker, approvals=[token]))).reason == "spent"
        await system.wait_quiet()
        assert len(log) == len({jti for _, jti in log}) == 2
        after = system.statistics()
        assert (after.actors, after.spawned, after.dead_letters) == (before.actors, before.spawned, 0)
        assert after.sent == after.handled == 6
        assert conserved(system)


class Rated(rt.Actor):
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    @rt.handler(requires="work.plain", risk="L1", approval=True)
    def plain(self, message: Plain) -> str:
        assert self.ctx.approval is not None
        self.log.append((message.text, self.ctx.approval.jti))
        return message.text


async def test_a_thread_and_a_stream_run_by_the_real_desk_too() -> None:
    log: list[Any] = []
    async with rt.ActorSystem() as system:
        blocking, worker = await system.spawn(Blocking, log), await system.spawn(Worker, log)
        for way, actor in (("queued", worker), ("stream", worker), ("detached", blocking), ("shielded", worker), ("inline, async", worker)):
            required = await error_of(WAYS[way](actor))
            token = await system.approvals.approve(required.request.id, reviewer="bob")
            await WAYS[way](actor, approvals=[token])
        assert len(log) == 5
        assert await system.approvals.indeterminate() == ()
        await system.wait_quiet()
        assert conserved(system)


async def test_a_mock_clock_does_not_run_away_from_a_desk_without_a_folder(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.actors.runtime.approving._LOADED", ("no.such.module",))  # as the first time in a process
    async with rt.ActorSystem() as system:
        log: list[Any] = []
        worker = await system.spawn(Worker, log)
        required = await error_of(worker.ask(Plain()))
        token = await system.approvals.approve(required.request.id, reviewer="bob")
        await worker.ask(Plain(), approvals=[token])
        assert [text for text, _ in log] == ["plain"] and trio.current_time() < 1


async def test_a_question_asked_again_is_the_same_request_until_it_is_decided() -> None:
    async with rt.ActorSystem() as system:
        worker = await system.spawn(Worker, [])
        first, again = [(await error_of(worker.ask(Plain()))).request.id for _ in range(2)]
        other = (await error_of(worker.ask(Plain("other")))).request.id
        assert first == again != other


async def test_a_reviewer_may_consent_on_the_spot_and_the_asker_hears_of_nothing() -> None:
    async def reviewer(request: rt.ApprovalRequest) -> Any:
        await trio.lowlevel.checkpoint()
        return rt.Review.approve("fine") if request.arguments["text"] == "small" else None

    class Accountant(rt.Actor):
        @rt.handler(requires="work.plain", approval=True)
        def plain(self, message: Plain) -> str:
            return message.text

    async with rt.ActorSystem(reviewer=reviewer) as system:
        actor = await system.spawn(Accountant)
        assert await actor.ask(Plain("small")) == "small"
        assert isinstance(await error_of(actor.ask(Plain("large"))), rt.ApprovalRequired)
        assert conserved(system)


@pytest.mark.parametrize(
    "options", [{"reviewer": "bob"}, {"reviewer_timeout": 0}, {"reviewer_timeout": True}, {"reviewer_timeout": float("inf")}]
)
def test_a_reviewer_is_a_function_and_has_a_number_of_seconds(options: dict[str, Any]) -> None:
    with pytest.raises(rt.DefinitionError):
        rt.ActorSystem(**options)
