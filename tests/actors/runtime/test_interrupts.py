"""Ctrl-C, in real processes: with `rt.run` the first one is graceful and the second hard; under a caller's own `trio.run` it reaches the holder, never a handler."""

from __future__ import annotations

import signal

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


def test_the_second_ctrl_c_ends_a_handler_that_blocks_the_loop() -> None:
    code, lines, errors = interrupted(
        """
        class Runaway(rt.Actor):
            @rt.handler
            def go(self, message: Go) -> str:
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
                (await system.spawn(Runaway)).tell(Go())
                await trio.sleep_forever()

        rt.run(main)
        """,
        ["working", "still working"],
    )
    assert lines == ["working", "still working", "stopped system_closed"], errors
    assert code != 0 and "KeyboardInterrupt" in errors
