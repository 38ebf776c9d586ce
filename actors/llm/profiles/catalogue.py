"""Finding the profile of an endpoint: by name, or by its host and its model's name."""

from __future__ import annotations

import difflib
from urllib.parse import urlsplit

import attrs

from retinue.actors.llm.errors import BadEndpoint
from retinue.actors.llm.profiles.deepseek import DEEPSEEK
from retinue.actors.llm.profiles.generic import GENERIC
from retinue.actors.llm.profiles.glm import GLM
from retinue.actors.llm.profiles.mistral import MISTRAL
from retinue.actors.llm.profiles.openai import AZURE, AZURE_DEPLOYMENT, OPENAI
from retinue.actors.llm.profiles.openrouter import OPENROUTER
from retinue.actors.llm.profiles.profile import Profile
from retinue.actors.llm.profiles.qwen import QWEN
from retinue.actors.llm.profiles.servers import LLAMACPP, OLLAMA, VLLM

__all__ = ["PROFILES", "profile_of"]

PROFILES: dict[str, Profile] = {
    profile.name: profile for profile in (GENERIC, OPENAI, AZURE, OPENROUTER, DEEPSEEK, QWEN, GLM, MISTRAL, OLLAMA, VLLM, LLAMACPP)
}
"""All profiles, by name."""

_HOSTS = (
    ("api.openai.com", OPENAI),
    ("openai.azure.com", AZURE),
    ("cognitiveservices.azure.com", AZURE),
    ("services.ai.azure.com", AZURE),
    ("openrouter.ai", OPENROUTER),
    ("api.deepseek.com", DEEPSEEK),
    ("dashscope.aliyuncs.com", QWEN),
    ("dashscope-intl.aliyuncs.com", QWEN),
    ("dashscope-us.aliyuncs.com", QWEN),
    ("open.bigmodel.cn", GLM),
    ("api.z.ai", GLM),
    ("api.mistral.ai", MISTRAL),
    ("ollama.com", OLLAMA),
)
_OLLAMA_PORT = 11434


def profile_of(profile: str | Profile = "auto", *, address: str = "", model: str = "") -> Profile:
    """Return the profile that is meant.

    Args:
        profile: A profile; or the name of one; or "auto" (the default), which looks at the address's host, and for hosts that it does not know
            at the model's name.
        address: The endpoint's address.
        model: The model's name as the endpoint knows it.

    Raises BadEndpoint for a name that no profile has.
    """
    if isinstance(profile, Profile):
        return profile
    if profile == "auto":
        return _by_host(address, model) or _by_model(GENERIC, model)
    found = PROFILES.get(profile) if isinstance(profile, str) else None
    if found is None:
        close = difflib.get_close_matches(str(profile), [*PROFILES, "auto"], n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        raise BadEndpoint(f"profile={profile!r} is no profile{hint} Use one of {', '.join(['auto', *PROFILES])}, or an llm.Profile(name=…)")
    if found is AZURE:
        return _azure(address)
    return _by_model(found, model) if found.name in ("generic", "ollama", "vllm", "llamacpp") else found


def _by_host(address: str, model: str) -> Profile | None:
    try:
        parts = urlsplit(address)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
    for known, profile in _HOSTS:
        if host == known or host.endswith("." + known):
            return _azure(address) if profile is AZURE else profile
    return _by_model(OLLAMA, model) if port == _OLLAMA_PORT else None


def _azure(address: str) -> Profile:
    return AZURE_DEPLOYMENT if "/openai/deployments/" in address else AZURE


def _by_model(profile: Profile, model: str) -> Profile:
    """What a model brings along, wherever it is served: it is trained so, or its prompt's template demands it."""
    name = model.lower().rpartition("/")[2]
    if any(word in name for word in ("mistral", "mixtral", "ministral", "devstral", "magistral", "codestral")):
        return attrs.evolve(profile, call_id=9)
    if name.startswith("gemma"):
        return attrs.evolve(profile, instructions_role="user", alternates=True)
    if "deepseek-v3" in name or name.startswith("glm-"):
        return attrs.evolve(profile, send_back_reasoning="calls")
    return profile
