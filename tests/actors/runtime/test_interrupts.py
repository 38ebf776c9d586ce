"""Ctrl-C, in real processes: with `rt.run` the first one is graceful and the second hard; under a caller's own `trio.run` it reaches the holder, never a handler."""

from __future__ import annotations

import signal

import pytest

from core_interrupting import interrupted


def test_the_first_ctrl_c_lets_the_actors_drain_and_stop_in_order() -> None:
    code, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            @rt.handler
            async def go(self, message: Go) -> str:
                say("working")
                await trio.sleep(message.seconds)
                say("done")
                return "done"

            async def on_stop(self, reason) -> None:
                await trio.sleep(0.05)
                say("stopped", reason)

        async def main():
            try:
                async with rt.ActorSystem() as system:
                    ref = await system.spawn(Worker)
                    ref.tell(Go(0.2))
                    ref.tell(Go(0.05))
                    await trio.sleep_forever()
            finally:
                say("left the block")

        try:
            rt.run(main)
        except KeyboardInterrupt:
            say("KeyboardInterrupt")
        """,
        ["working"],
    )
    assert lines == ["working", "done", "working", "done", "stopped system_closed", "left the block", "KeyboardInterrupt"], errors
    assert code == 0


def test_the_second_ctrl_c_is_hard() -> None:
    code, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            @rt.handler
            async def go(self, message: Go) -> str:
                say("working")
                try:
                    await trio.sleep(3600)
                except trio.Cancelled:
                    say("cancelled")
                    raise

        async def main():
            async with rt.ActorSystem(grace=3600) as system:
                ref = await system.spawn(Worker)
                try:
                    ref.tell(Go())
                    await trio.sleep_forever()
                finally:
                    say("body cancelled")

        rt.run(main)
        """,
        ["working", "body cancelled"],
    )
    assert lines == ["working", "body cancelled", "cancelled"], errors
    assert code in (-signal.SIGINT, 130, 1) and "KeyboardInterrupt" in errors


def test_the_second_ctrl_c_cuts_off_a_hanging_on_stop() -> None:
    code, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            async def on_stop(self, reason) -> None:
                say("stopping")
                await trio.sleep(3600)

        async def main():
            async with rt.ActorSystem(grace=3600) as system:
                await system.spawn(Worker)
                say("ready")
                await trio.sleep_forever()

        rt.run(main)
        """,
        ["ready", "stopping"],
    )
    assert lines == ["ready", "stopping"], errors
    assert code != 0


def test_the_second_ctrl_c_is_hard_also_when_the_block_had_ended_before_the_first() -> None:
    code, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            @rt.handler
            async def go(self, message: Go) -> str:
                say("working")
                await trio.sleep(3600)

        async def again():
            try:
                await trio.sleep_forever()
            finally:
                say("again")

        async def main():
            async with trio.open_nursery() as nursery:
                async with rt.ActorSystem(grace=3600) as system:
                    ref = await system.spawn(Worker)
                    ref.tell(Go())
                    await trio.sleep(0.1)
                    nursery.start_soon(again)
                    await trio.sleep(0.1)
                    say("leaving")

        rt.run(main)
        """,
        ["leaving", "again"],
    )
    assert lines == ["working", "leaving", "again"], errors
    assert code != 0


def test_run_with_a_main_that_takes_a_system_raises_keyboard_interrupt_too() -> None:
    code, lines, errors = interrupted(
        """
        async def main(system):
            say("ready")
            await trio.sleep_forever()

        try:
            rt.run(main)
        except BaseException as error:
            say(type(error).__name__)
        """,
        ["ready"],
    )
    assert lines == ["ready", "KeyboardInterrupt"], errors
    assert code == 0


def test_no_plain_handler_is_interrupted_in_the_middle_with_run() -> None:
    _, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            @rt.handler
            def go(self, message: Go) -> str:
                say("working")
                try:
                    until = time.monotonic() + 0.3
                    while time.monotonic() < until:
                        pass
                except KeyboardInterrupt:
                    say("interrupted in the middle")
                say("done")
                return "done"

        async def main():
            async with rt.ActorSystem() as system:
                ref = await system.spawn(Worker)
                say(await ref.ask(Go()))
                await trio.sleep(3600)

        try:
            rt.run(main)
        except KeyboardInterrupt:
            say("KeyboardInterrupt")
        """,
        ["working"],
    )
    assert lines == ["working", "done", "done", "KeyboardInterrupt"], errors


def test_under_a_callers_own_trio_run_no_handler_is_interrupted_in_the_middle() -> None:
    _, lines, errors = interrupted(
        """
        def spin():
            until = time.monotonic() + 0.3
            try:
                while time.monotonic() < until:
                    pass
            except KeyboardInterrupt:
                say("interrupted in the middle")

        class Worker(rt.Actor):
            @rt.handler
            async def go(self, message: Go) -> str:
                say("working")
                spin()
                say("done")
                return "done"

        async def main():
            try:
                async with rt.ActorSystem() as system:
                    ref = await system.spawn(Worker)
                    await ref.ask(Go())  # in this very task
                    ref.tell(Go())  # in a worker
                    await trio.sleep(3600)
            except KeyboardInterrupt:
                say("the holder got it")

        trio.run(main)
        """,
        ["working"],
    )
    assert lines[:2] == ["working", "done"], errors
    assert lines[-1] == "the holder got it", errors
    assert "interrupted in the middle" not in lines


def test_under_a_callers_own_trio_run_a_worker_is_not_interrupted_and_the_holder_is() -> None:
    _, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            @rt.handler
            async def go(self, message: Go) -> str:
                say("working")
                try:
                    await trio.sleep(0.3)
                except BaseException as error:
                    say("interrupted by", type(error).__name__)
                    raise
                say("done")
                return "done"

        async def main():
            try:
                async with rt.ActorSystem() as system:
                    ref = await system.spawn(Worker)
                    ref.tell(Go())
                    await trio.sleep(3600)
            except KeyboardInterrupt:
                say("the holder got it")

        trio.run(main)
        """,
        ["working"],
    )
    assert lines == ["working", "done", "the holder got it"], errors


def test_a_handler_that_waits_in_the_holders_own_task_is_cancelled_and_the_holder_gets_the_keyboard_interrupt() -> None:
    _, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            @rt.handler
            async def go(self, message: Go) -> str:
                say("working")
                try:
                    await trio.sleep(3600)
                except BaseException as error:
                    say("interrupted by", type(error).__name__)
                    raise

            async def on_stop(self, reason) -> None:
                say("stopped", reason)

        async def main():
            try:
                async with rt.ActorSystem() as system:
                    ref = await system.spawn(Worker)
                    await ref.ask(Go())
            except KeyboardInterrupt:
                say("the holder got it")

        trio.run(main)
        """,
        ["working"],
    )
    assert lines == ["working", "interrupted by Cancelled", "stopped system_closed", "the holder got it"], errors


@pytest.mark.parametrize(
    "place",
    [
        "a deadline",
        "on_start",
        *(pytest.param(place, marks=pytest.mark.slow) for place in ("an own task", "a resident loop", "a constructor")),
    ],
)
def test_a_ctrl_c_that_comes_while_a_task_of_the_system_runs_reaches_the_holder(place: str) -> None:
    _, lines, errors = interrupted(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def interrupt():
            signal.raise_signal(signal.SIGINT)
            say("goes on")

        class Worker(rt.Actor):
            def __init__(self, place):
                self.place = place
                if place == "a constructor":
                    interrupt()

            async def on_start(self):
                if self.place == "on_start":
                    interrupt()

            async def run(self):
                if self.place == "a resident loop":
                    await trio.sleep(0.05)
                    interrupt()
                await trio.sleep_forever()

            async def own(self):
                await trio.sleep(0.05)
                interrupt()

            @rt.handler
            async def go(self, message: Go) -> str:
                say("working")
                if self.place == "an own task":
                    self.ctx.start_soon(self.own)
                await trio.sleep(3600)

            async def on_stop(self, reason) -> None:
                say("stopped", reason)

        class Watcher(rt.Actor):
            async def on_stop(self, reason) -> None:
                say("the other", reason)

        async def main():
            try:
                async with rt.ActorSystem() as system:
                    await system.spawn(Watcher)
                    ref = await system.spawn(Worker, PLACE)
                    if PLACE == "a deadline":
                        system._kernel.deadlines.add(trio.current_time() + 0.05, interrupt)
                    await ref.ask(Go())
            except KeyboardInterrupt:
                say("the holder got it")

        trio.run(main)
        """.replace("PLACE", repr(place)),
        [],
    )
    assert sorted(lines[:2]) == ["goes on", "working"], errors
    assert lines[2:] == ["stopped system_closed", "the other system_closed", "the holder got it"], errors


def test_under_a_callers_own_trio_run_the_first_ctrl_c_of_a_stop_leaves_it_in_order() -> None:
    _, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            async def on_stop(self, reason) -> None:
                say("stopping")
                await trio.sleep(0.2)
                say("stopped", reason)

        async def main():
            try:
                async with rt.ActorSystem() as system:
                    ref = await system.spawn(Worker)
            except KeyboardInterrupt:
                say("the holder got it", ref.alive)

        trio.run(main)
        """,
        ["stopping"],
    )
    assert lines == ["stopping", "stopped system_closed", "the holder got it False"], errors


def test_under_a_callers_own_trio_run_the_second_ctrl_c_cuts_a_stop_off_and_the_system_is_over() -> None:
    _, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            async def on_stop(self, reason) -> None:
                try:
                    say("stopping")
                    await trio.sleep(0.2)
                    say("still stopping")
                    await trio.sleep(3600)
                finally:
                    say("cut off")

        class Other(rt.Actor):
            @rt.handler
            async def go(self, message: Go) -> str:
                try:
                    await trio.sleep(3600)
                finally:
                    say("cancelled")

        async def ask(ref):
            try:
                await ref.ask(Go())
            except rt.ActorStopped:
                say("resolved")

        async def main():
            async with trio.open_nursery() as nursery:
                try:
                    async with rt.ActorSystem(grace=3600) as system:
                        nursery.start_soon(ask, await system.spawn(Other))
                        ref = await system.spawn(Worker)
                        await trio.sleep(0.05)
                        nursery.start_soon(ref.stop)
                        await trio.sleep(3600)
                except KeyboardInterrupt:
                    say("the holder got it", ref.alive, system.statistics().actors)

        trio.run(main)
        """,
        ["stopping", "still stopping"],
    )
    assert lines[:2] == ["stopping", "still stopping"], errors
    assert sorted(lines[2:-1]) == ["cancelled", "cut off", "resolved"], errors
    assert lines[-1].startswith("the holder got it False 0"), errors


def test_a_ctrl_c_in_the_last_moment_of_run_is_not_lost() -> None:
    code, lines, errors = interrupted(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)

        async def main():
            signal.raise_signal(signal.SIGINT)

        try:
            rt.run(main)
        except KeyboardInterrupt:
            say("KeyboardInterrupt")
        """,
        [],
    )
    assert (code, lines) == (0, ["KeyboardInterrupt"]), errors


def test_a_keyboard_interrupt_that_a_handler_raises_itself_ends_the_system() -> None:
    _, lines, errors = interrupted(
        """
        class Worker(rt.Actor):
            @rt.handler
            async def go(self, message: Go) -> str:
                raise KeyboardInterrupt

            async def on_stop(self, reason) -> None:
                say("stopped", reason)

        async def main():
            async with rt.ActorSystem() as system:
                await system.spawn(Worker)
                (await system.spawn(Worker)).tell(Go())
                await trio.sleep_forever()

        try:
            rt.run(main)
        except BaseException as error:
            say(type(error).__name__)
        """,
        [],
    )
    assert "stopped system_closed" in lines, errors
    assert lines[-1] == "KeyboardInterrupt", errors


@pytest.mark.parametrize("where", ["@rt.handler\n    def go(self, message: Go) -> str:", "async def run(self):"])
def test_the_second_ctrl_c_ends_what_blocks_the_loop(where: str) -> None:
    code, lines, errors = interrupted(
        """
        class Runaway(rt.Actor):
            WHERE
                say("working")
                began, said = time.monotonic(), False
                while True:
                    if not said and time.monotonic() > began + 0.2:
                        say("still working")
                        said = True

        class Orderly(rt.Actor):
            async def on_stop(self, reason) -> None:
                say("stopped", reason)

        async def main():
            async with rt.ActorSystem() as system:
                await system.spawn(Orderly)
                ref = await system.spawn(Runaway)
                if hasattr(Runaway, "go"):
                    ref.tell(Go())
                await trio.sleep_forever()

        rt.run(main)
        """.replace("WHERE", where.replace("\n", "\n        ")),
        ["working", "still working"],
    )
    assert lines == ["working", "still working", "stopped system_closed"], errors
    assert code != 0 and "KeyboardInterrupt" in errors
