"""DeepSeek: while it thinks it wants its reasoning back with the tools' results, and refuses it elsewhere."""

from __future__ import annotations

from retinue.actors.llm.profiles.profile import Profile

__all__ = ["DEEPSEEK"]

DEEPSEEK = Profile(
    name="deepseek",
    send_back_reasoning="calls",
    output="object",
    output_with_tools=False,
    strict=False,
    parallel_tool_calls=False,
    most_stops=16,
    effort="never",
    overflow_codes=frozenset({"context_length_exceeded"}),
)
