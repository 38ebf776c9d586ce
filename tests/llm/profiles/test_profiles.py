"""A provider's profile is found by its name or its address, and is data that can be varied."""

from __future__ import annotations

import attrs
import pytest

from retinue.actors.llm.errors import BadEndpoint
from retinue.actors.llm.messages import Complete, OutputSpec, ToolSpec
from retinue.actors.llm.payload import Payloads
from retinue.actors.llm.profiles.catalogue import PROFILES, profile_of
from retinue.actors.llm.profiles.generic import GENERIC
from retinue.actors.llm.profiles.openai import AZURE, AZURE_DEPLOYMENT
from retinue.actors.llm.profiles.profile import Profile


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://desk.openai.azure.com/openai/v1", "azure"),
        ("https://desk.services.ai.azure.com/openai/v1", "azure"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen"),
        ("https://open.bigmodel.cn/api/paas/v4", "glm"),
        ("https://API.Z.ai/api/paas/v4", "glm"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://127.0.0.1:8000/v1", "generic"),
        ("https://api.openai.com.evil.example/v1", "generic"),
        ("https://notopenrouter.ai/v1", "generic"),
        ("http://[::1", "generic"),
        ("", "generic"),
    ],
)
def test_auto_looks_at_the_host(address, name):
    assert profile_of("auto", address=address, model="m").name == name


def test_auto_looks_at_the_model_where_the_host_is_not_known():
    address = "http://127.0.0.1:8000/v1"
    assert profile_of(address=address, model="mistralai/Mistral-Small-24B").call_id == 9
    gemma = profile_of(address=address, model="google/gemma-3-4b")
    assert (gemma.instructions_role, gemma.alternates) == ("user", True)
    assert profile_of("vllm", address=address, model="Mixtral-8x7B").call_id == 9
    assert profile_of(address=address, model="deepseek-v3.2").send_back_reasoning == "calls"
    assert profile_of(address="https://api.openai.com/v1", model="gemma").instructions_role == "system"
    assert profile_of(address=address, model="qwen3") is GENERIC


def test_a_profile_is_named_or_given():
    assert all(profile_of(name).name == name for name in PROFILES)
    own = Profile(name="own", limit_field="max_new_tokens")
    assert profile_of(own, address="https://api.openai.com/v1") is own


@pytest.mark.parametrize(
    ("name", "said"), [("vlm", "did you mean 'vllm'"), ("Openai", "did you mean 'openai'"), ("", "auto, generic"), (None, "auto, generic")]
)
def test_a_name_that_no_profile_has_is_refused_with_the_nearest(name, said):
    with pytest.raises(BadEndpoint, match=said):
        profile_of(name)


def test_azure_takes_its_key_in_a_header_of_its_own_and_its_version_in_older_addresses():
    assert (AZURE.key_header, AZURE.key_prefix, AZURE.query) == ("api-key", "", ())
    older = "https://desk.openai.azure.com/openai/deployments/gpt"
    assert profile_of("auto", address=older) is profile_of("azure", address=older) is AZURE_DEPLOYMENT
    assert dict(AZURE_DEPLOYMENT.query)["api-version"]


def test_profiles_are_immutable_and_can_be_varied():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        GENERIC.name = "other"
    assert attrs.evolve(GENERIC, streams=False).streams is False


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_every_profile_writes_every_request(profile):
    request = Complete.of("x", system="Be kind.", max_tokens=5, seed=1, stop=("a",), output=OutputSpec("o", "{}"), tools=(ToolSpec("t"),))
    assert Payloads(profile, "m").body(request, stream=profile.streams)
