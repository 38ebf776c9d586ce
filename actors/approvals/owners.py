"""Who spent an approval: a process that can be told from every other, also from one that gets its number later.

Where an outcome is missing, this says whether the effect may still be in progress, or was interrupted when its process died.
"""

from __future__ import annotations

import os
import secrets
from functools import lru_cache
from pathlib import Path

__all__ = ["is_alive", "new_owner"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def new_owner() -> str:
    """The name of one desk in this process: boot, space of process numbers, process, when it was started, and a random part."""
    return f"{_machine()}/{os.getpid()}.{_started(os.getpid()) or 0}.{secrets.token_hex(4)}"


def is_alive(owner: str) -> bool:
    """Whether the process that the owner lives in still runs. What this machine cannot know (another container, say) counts as alive: a person decides then."""
    machine, _, rest = owner.partition("/")
    boot, _, space = machine.partition("+")
    here, _, our_space = _machine().partition("+")
    number, _, tail = rest.partition(".")
    started = tail.partition(".")[0]
    if not number.isascii() or not number.isdigit() or not started.isdigit():
        return False  # not written by a desk
    if boot != here:
        return False  # the machine was started again since
    if space != our_space:
        return True
    found = _started(int(number))
    if found is not None:
        return started in ("0", str(found))
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return not _BOOT.exists()  # with /proc, a process that is not in it has just ended


@lru_cache(maxsize=1)
def _machine() -> str:
    """The boot of the machine and the space in which processes are numbered. A memo: neither changes while a process lives."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip().replace("/", "")
        space = str(Path("/proc/self/ns/pid").readlink()).rpartition("[")[2].rstrip("]")
    except OSError:
        return "unknown+unknown"
    return f"{boot}+{space}"


def _started(number: int) -> int | None:
    """When the process was started, in ticks since the boot; None where it does not run, or that cannot be known."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name in brackets may hold anything
    return None if len(fields) < 20 or fields[0] in ("Z", "X") else int(fields[19])
