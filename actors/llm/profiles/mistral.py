"""Mistral: unknown fields are an error there, and the ids of tool calls are nine letters or digits."""

from __future__ import annotations

from retinue.actors.llm.profiles.profile import Profile

__all__ = ["MISTRAL"]

MISTRAL = Profile(
    name="mistral",
    include_usage=False,  # its last piece has the usage unasked
    seed_field="random_seed",
    call_id=9,
    required_word="any",
    effort="never",
    think_tags=None,
    overflow_codes=frozenset({"3051", "context_length_exceeded"}),
)
