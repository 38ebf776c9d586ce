"""A start has a limit in time, at the spawn and at each restart; and what is known of a request that got no answer."""

import pytest
import trio

import retinue as rt


@rt.message
class Ping(rt.Request[int]):
    pass


@rt.message
class Fail(rt.Message):
    pass


class Sleeper(rt.Actor):
    starts = 0

    def __init__(self, slow_from: int) -> None:
        self.slow_from = slow_from

    async def on_start(self) -> None:
        type(self).starts += 1
        if type(self).starts >= self.slow_from:
            await trio.sleep(1_000_000)

    @rt.handler
    def ping(self, message: Ping) -> int:
        return type(self).starts

    @rt.handler
    def fail(self, message: Fail) -> None:
        raise ValueError("asked to")


@pytest.fixture(autouse=True)
def _no_starts() -> None:
    Sleeper.starts = 0


async def test_a_start_that_takes_too_long_is_undone_and_raised_to_the_spawner(autojump_clock: trio.testing.MockClock) -> None:
    async with rt.ActorSystem("starts", start_timeout=7) as system:
        began = trio.current_time()
        with pytest.raises(rt.StartTimeout, match=r"/user/slow took longer than 7 s to start"):
            await system.spawn(Sleeper, 1, name="slow")
        assert trio.current_time() - began == pytest.approx(7)
        assert system.registry.get("/user/slow") is None
        assert system.statistics().actors == 0


async def test_the_default_limit_of_a_start_is_two_minutes(autojump_clock: trio.testing.MockClock) -> None:
    async with rt.ActorSystem("starts") as system:
        began = trio.current_time()
        with pytest.raises(rt.StartTimeout):
            await system.spawn(Sleeper, 1)
        assert trio.current_time() - began == pytest.approx(120)


async def test_a_restart_that_takes_too_long_is_a_failure_like_any_other(autojump_clock: trio.testing.MockClock) -> None:
    async with rt.ActorSystem("starts", start_timeout=7) as system:
        supervision = rt.Supervision(on={rt.StartTimeout: "stop"})
        ref = await system.spawn(Sleeper, 2, supervision=supervision)
        watch = await system.watch(ref)
        ref.tell(Fail())
        terminated = await watch.wait()
        assert terminated.reason is rt.StopReason.FAILED
        assert isinstance(terminated.error, rt.StartTimeout)


async def test_a_start_may_be_given_all_the_time_in_the_world(autojump_clock: trio.testing.MockClock) -> None:
    async with rt.ActorSystem("starts", start_timeout=float("inf")) as system:
        ref = await system.spawn(Sleeper, 1)
        assert await ref.ask(Ping()) == 1


@pytest.mark.parametrize("limit", [0, -1, float("nan"), True, "5"])
def test_a_limit_that_is_no_time_is_refused(limit: object) -> None:
    with pytest.raises(rt.DefinitionError, match="start_timeout"):
        rt.ActorSystem("starts", start_timeout=limit)


class Busy(rt.Actor):
    @rt.handler
    async def ping(self, message: Ping) -> int:
        await trio.sleep(1_000_000)
        return 1


async def test_an_unanswered_request_tells_whether_it_was_begun(autojump_clock: trio.testing.MockClock) -> None:
    async with rt.ActorSystem("starts") as system:
        ref = await system.spawn(Busy, name="busy")
        found: list[rt.Unanswered] = []

        async def ask(timeout: float) -> None:
            with pytest.raises(rt.Unanswered) as caught:
                await ref.ask(Ping(), timeout=timeout)
            found.append(caught.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 5)
            await trio.sleep(1)
            nursery.start_soon(ask, 1)
        queued, running = found
        assert isinstance(queued, rt.AskTimeout) and isinstance(running, rt.AskTimeout)
        assert (queued.begun, running.begun) == (False, True)
        assert queued.path == running.path == "/user/busy"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 100)
            await trio.sleep(1)
            await ref.stop(grace=0)
        await ask(1)
        stopped, gone = found[2:]
        assert isinstance(stopped, rt.ActorStopped) and isinstance(gone, rt.ActorStopped)
        assert (stopped.begun, gone.begun) == (True, False)
