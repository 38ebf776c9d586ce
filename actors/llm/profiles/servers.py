"""Servers that people run themselves: Ollama, vLLM, llama.cpp."""

from __future__ import annotations

from retinue.actors.llm.profiles.profile import Profile

__all__ = ["LLAMACPP", "OLLAMA", "VLLM"]

OLLAMA = Profile(
    name="ollama",
    reasoning_fields=("reasoning", "reasoning_content", "thinking"),
    most_stops=None,
    output_with_tools=False,
    strict=False,
    parallel_tool_calls=False,
)

VLLM = Profile(
    name="vllm",
    most_stops=None,
    output_with_tools=False,  # held to a form it calls no tools
    strict=False,
    reasoning_fields=("reasoning_content", "reasoning"),
)

LLAMACPP = Profile(
    name="llamacpp",
    most_stops=None,
    output_with_tools=False,
    strict=False,
    send_back_reasoning="calls",
    overflow_codes=frozenset({"exceed_context_size_error"}),
)
