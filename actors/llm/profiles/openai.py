"""OpenAI's own endpoint, and Azure's: its newer models take no `max_tokens`, and reasoning is never in the text."""

from __future__ import annotations

import attrs

from retinue.actors.llm.profiles.profile import Profile

__all__ = ["AZURE", "AZURE_DEPLOYMENT", "OPENAI"]

OPENAI = Profile(name="openai", limit_field="max_completion_tokens", think_tags=None, sends_names=True, empty_content="null")

AZURE = attrs.evolve(OPENAI, name="azure", key_header="api-key", key_prefix="")
"""Azure's newer address: `https://RESOURCE.openai.azure.com/openai/v1`."""

AZURE_DEPLOYMENT = attrs.evolve(AZURE, query=(("api-version", "2024-10-21"),))
"""Azure's older address, one a deployment: `https://RESOURCE.openai.azure.com/openai/deployments/NAME`."""
