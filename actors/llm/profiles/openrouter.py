"""OpenRouter: its word for reasoning is `reasoning`, and its errors come inside answers of status 200."""

from __future__ import annotations

from retinue.actors.llm.profiles.profile import Profile

__all__ = ["OPENROUTER"]

OPENROUTER = Profile(
    name="openrouter",
    reasoning_fields=("reasoning", "reasoning_content"),
    send_back_reasoning="calls",
    effort="object",
)
