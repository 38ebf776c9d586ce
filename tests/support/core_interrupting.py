"""Real processes that get a real Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence

PRELUDE = """
import math, signal, sys, time
import trio
import retinue as rt

def say(*words):
    print(*words, flush=True)

@rt.message
class Go(rt.Request[str]):
    seconds: float = 0.0
"""


def interrupted(script: str, markers: Sequence[str]) -> tuple[int, list[str], str]:
    """Runs a script and sends a SIGINT each time its output shows the next of `markers`; returns exit code, lines and stderr."""
    source = PRELUDE + textwrap.dedent(script)
    with subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        waiting = list(markers)
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if waiting and lines[-1] == waiting[0]:
                    waiting.pop(0)
                    process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        except BaseException:
            process.kill()
            raise
    assert not waiting, (waiting, lines, errors)
    return process.returncode, lines, errors
