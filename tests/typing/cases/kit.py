"""Checked by mypy and pyright, never run: both must report an error on exactly the lines that end in `# error`."""

from __future__ import annotations

from typing import Any, assert_type

import trio

import retinue as rt
import retinue.testing as rtt


@rt.message
class Note(rt.Message):
    text: str


async def uses_the_kit(system: rt.ActorSystem) -> None:
    probe = await rtt.Probe.spawn(system, name="probe")
    assert_type(probe, rtt.Probe)
    assert_type(probe.ref, rt.Ref[Any])
    assert_type(await probe.expect(Note), Note)
    assert_type((await probe.fish(Note, timeout=1)).text, str)
    assert_type(await probe.expect(rt.Terminated), rt.Terminated)
    assert_type(await probe.expect(lambda message: message.text == "x"), Any)
    assert_type(probe.reply(1), bool)
    rtt.assert_conserved(system)
    await rtt.wait_idle(system, timers=True)
    wrong: int = (await probe.expect(Note)).text  # error
    await probe.expect(Note, within=3)  # error
    probe.fail("no error")  # error
    print(wrong)


def runs(main: Any) -> None:
    with rtt.deterministic(7) as works:
        assert_type(works, bool)
        trio.run(main, clock=rtt.VirtualClock(rate=1, hang_after=5))
    rtt.VirtualClock(1)  # error
