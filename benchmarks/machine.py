"""What the figures were taken on: they mean nothing without it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["cores", "describe", "resident_bytes", "version_of"]


def version_of(distribution: str) -> str:
    """The installed version, or "absent"."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cores() -> int:
    """How many this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def describe(distributions: Iterable[str]) -> dict[str, str]:
    """Date, machine, interpreter and the versions of these distributions, in the order to print them."""
    facts = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "machine": f"{_processor()}, {platform.machine()}, {cores()} cores",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}"
        + ("" if getattr(sys, "_is_gil_enabled", lambda: True)() else " (free-threaded)"),
    }
    if hasattr(os, "getloadavg"):
        facts["load before"] = f"{os.getloadavg()[0]:.1f} (other processes share the machine)"
    for distribution in distributions:
        facts[distribution] = version_of(distribution)
    return facts


def resident_bytes() -> int:
    """The memory of this process that is in RAM now, in bytes.

    Raises:
        NotImplementedError: Where the system does not tell (it is read from /proc).
    """
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError as error:
        raise NotImplementedError("resident memory is read from /proc/self/statm, which this system does not have") from error
