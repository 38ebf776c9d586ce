"""Who is measured. This module is all of the command that a contender's process imports: a peer's has nothing of ours in it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

from benchmarks.harness import Contender

__all__ = ["OURS", "SWARMS", "load"]

OURS = "retinue"

SWARMS: Mapping[str, str] = {
    OURS: "benchmarks.swarm.ours:CONTENDER",
    "retinue, sessions": "benchmarks.swarm.ours:KEPT",
    "autogen-agentchat": "benchmarks.swarm.autogen_swarm_peer:CONTENDER",
    "openai-agents": "benchmarks.swarm.openai_agents_swarm_peer:CONTENDER",
    "pydantic-ai": "benchmarks.swarm.pydantic_ai_swarm_peer:CONTENDER",
}
"""Name → where it is defined, ours first. Whoever is not in it is a way to trace."""


def load(names: Iterable[str]) -> tuple[list[Contender], dict[str, str]]:
    """The contenders that can be imported, and why the others could not. Ours are never skipped: their error is raised."""
    loaded, absent = [], {}
    for name in names:
        if name not in SWARMS:
            loaded.append(importlib.import_module("benchmarks.swarm.traced").CONTENDERS[name])
            continue
        try:
            module, _, attribute = SWARMS[name].partition(":")
            loaded.append(getattr(importlib.import_module(module), attribute))
        except ImportError as error:
            if name.startswith(OURS):
                raise
            absent[name] = f"{error} (peers come with the extra `bench`: pip install '.[bench]')"
    return loaded, absent
