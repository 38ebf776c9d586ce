"""Ctrl-C at whatever moment, under a caller's own `trio.run`: in one process, at one line of Python after the other that runs in the life of a small system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
import json, logging, math, signal, sys
import trio
import retinue as rt

signal.signal(signal.SIGINT, signal.default_int_handler)
logging.disable(logging.CRITICAL)
lines = []

@rt.message
class Go(rt.Request[str]):
    pass

class Plain(rt.Actor):
    async def on_stop(self, reason):
        lines.append(f"plain stopped {reason}")

class Worker(rt.Actor):
    @rt.handler
    async def go(self, message: Go) -> str:
        lines.append("working")
        await trio.sleep(0.01)
        return ""

    async def run(self):
        await trio.sleep(0.002)
        await trio.sleep_forever()

    async def on_stop(self, reason):
        lines.append("worker stops")
        await trio.sleep(0.002)
        lines.append(f"worker stopped {reason}")

class Moment:
    '''Raises the signal at the n-th line that is run in the system's life.'''

    def __init__(self, number, again):
        self.numbers = {number, number + again} if again else {number}
        self.lines = 0
        self.place = None
        self.on = False

    def trace(self, frame, event, _):
        if event == "line" and self.on and frame.f_lineno not in OUTSIDE.get(frame.f_code, ()):
            self.lines += 1
            if self.lines in self.numbers:
                self.place = self.place or f"{frame.f_code.co_name} in {frame.f_code.co_filename}, line {frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
        return self.trace

async def life(moment):
    try:
        async with rt.ActorSystem(block_warning=math.inf) as system:
            await system.spawn(Plain)
            moment.on = True
            lines.append("on")
            ref = await system.spawn(Worker)
            lines.append("spawned")
            await ref.ask(Go())
    except KeyboardInterrupt:
        lines.append("KeyboardInterrupt")
    moment.on = False
    lines.append(f"ends, {system.statistics().actors} actors")

def run(number, again):
    lines.clear()
    moment = Moment(number, again)
    sys.settrace(moment.trace)
    try:
        trio.run(life, moment)
    except KeyboardInterrupt:
        lines.append("KeyboardInterrupt")
    except BaseException as error:
        lines.append(repr(error))
    finally:
        sys.settrace(None)
    return moment

# The line that ends the life's observation is no longer in the system's block: one that comes there is its caller's own. Nor is the line of `async with` when the block
# has ended and Python has not called `__aexit__` yet (bpo-29988): whoever catches it there has a system that was never left, as with any context manager; `rt.run` has no such moment.
OUTSIDE = {life.__code__: (life.__code__.co_firstlineno + 2, life.__code__.co_firstlineno + 11)}
first, step, again = map(int, sys.argv[1:])
run(0, 0)  # what is imported and made once
number = first
while (place := run(number, again).place) is not None:
    print(json.dumps([place, lines]))
    number += step
"""


def lives(step: int, again: int) -> list[tuple[str, list[str]]]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), "1", str(step), str(again)],
        capture_output=True,
        text=True,
        timeout=300,
        env=dict(os.environ),
        check=True,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return [(place, lines) for place, lines in map(json.loads, done.stdout.splitlines())]


@pytest.mark.parametrize("step", [149, pytest.param(37, marks=pytest.mark.slow)])
def test_one_ctrl_c_at_any_moment_lets_every_actor_stop_in_order_and_reaches_the_holder(step: int) -> None:
    found = lives(step, 0)
    assert len(found) > 1500 / step
    for place, lines in found:
        assert lines.count("KeyboardInterrupt") == 1, (place, lines)
        assert lines.count("plain stopped system_closed") == 1, (place, lines)
        stopped = lines.count("worker stopped system_closed")
        assert stopped == lines.count("worker stops") and stopped in ({1} if "spawned" in lines else {0, 1}), (place, lines)
        assert "ends, 0 actors" in lines, (place, lines)


@pytest.mark.parametrize(("step", "again"), [(293, 11), *(pytest.param(97, again, marks=pytest.mark.slow) for again in (11, 211))])
def test_two_of_them_end_the_system_whatever_they_meet(step: int, again: int) -> None:
    found = lives(step, again)
    assert len(found) > 1500 / step
    for place, lines in found:
        assert 1 <= lines.count("KeyboardInterrupt") <= 2, (place, lines)
        assert lines.count("plain stopped system_closed") <= 1, (place, lines)
        assert "ends, 0 actors" in lines, (place, lines)
