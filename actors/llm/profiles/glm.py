"""GLM at Zhipu and Z.ai: error codes are numbers in strings, tool calls may come without ids, and `tool_choice` is "auto" only."""

from __future__ import annotations

from retinue.actors.llm.profiles.profile import Profile

__all__ = ["GLM"]

GLM = Profile(
    name="glm",
    include_usage=False,  # it always counts, and refuses the field in older versions
    most_stops=1,
    required_word="auto",
    names_tool=False,
    strict=False,
    parallel_tool_calls=False,
    output="object",
    output_with_tools=False,
    effort="never",
    send_back_reasoning="calls",
    overflow_codes=frozenset({"1261", "context_length_exceeded"}),
    quota_codes=frozenset({"1113", "1308", "1309"}),
    filter_codes=frozenset({"1301", "content_filter"}),
)
