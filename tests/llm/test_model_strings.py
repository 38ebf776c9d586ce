"""Models by name: what is chosen, and what is said of a name that cannot be used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import retinue as rt
from retinue import llm
from retinue.actors.llm import naming
from retinue.actors.llm.naming import PROVIDERS, model
from retinue.actors.llm.profiles.catalogue import profile_of
from retinue.actors.llm.weights import SMOLLM2

KEY = "sk-test-0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "environ", "address", "profile"),
    [
        ("openai:gpt-4.1", {"OPENAI_API_KEY": KEY}, "https://api.openai.com/v1", "auto"),
        ("openai:gpt-4.1", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://proxy.example/v1"}, "https://proxy.example/v1", "auto"),
        ("endpoint:gpt-4.1", {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1/"}, "http://127.0.0.1:9/v1", "auto"),
        (
            "azure:gpt-4.1",
            {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com/", "AZURE_OPENAI_API_KEY": KEY},
            "https://x.openai.azure.com/openai/v1",
            "azure",
        ),
        ("openrouter:gpt-4.1", {"OPENROUTER_API_KEY": KEY}, "https://openrouter.ai/api/v1", "openrouter"),
        ("deepseek:gpt-4.1", {"DEEPSEEK_API_KEY": KEY}, "https://api.deepseek.com/v1", "deepseek"),
        ("qwen:gpt-4.1", {"DASHSCOPE_API_KEY": KEY}, "https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen"),
        ("glm:gpt-4.1", {"ZAI_API_KEY": KEY}, "https://open.bigmodel.cn/api/paas/v4", "glm"),
        ("mistral:gpt-4.1", {"MISTRAL_API_KEY": KEY}, "https://api.mistral.ai/v1", "mistral"),
        ("ollama:gpt-4.1", {}, "http://127.0.0.1:11434/v1", "ollama"),
        ("ollama:gpt-4.1", {"OLLAMA_BASE_URL": "http://gpu:11434"}, "http://gpu:11434/v1", "ollama"),
        ("vllm:gpt-4.1", {}, "http://127.0.0.1:8000/v1", "vllm"),
        ("llamacpp:gpt-4.1", {}, "http://127.0.0.1:8080/v1", "llamacpp"),
        (" OpenAI :gpt-4.1", {"OPENAI_API_KEY": KEY}, "https://api.openai.com/v1", "auto"),
    ],
)
def test_a_name_of_a_provider_chooses_its_endpoint(name, environ, address, profile):
    choice = model(name, environ=environ)
    assert (choice.kind, choice.model, choice.address, choice.profile) == ("endpoint", "gpt-4.1", address, profile)
    assert choice.api_key == next((value for variable, value in environ.items() if variable.endswith("KEY")), None)
    assert KEY not in f"{choice} {choice!r}"


def test_a_model_may_have_colons_and_slashes_in_its_name():
    assert model("openrouter:meta-llama/llama-3.3-70b:free", api_key=KEY, environ={}).model == "meta-llama/llama-3.3-70b:free"
    assert model("ollama:qwen3:8b", environ={}).model == "qwen3:8b"


def test_key_and_address_that_are_given_count_before_the_environments():
    environ = {"DEEPSEEK_API_KEY": "of-the-environment"}
    choice = model("deepseek:x", api_key=KEY, base_url="http://127.0.0.1:1/v1", environ=environ)
    assert (choice.api_key, choice.address) == (KEY, "http://127.0.0.1:1/v1")


def test_every_provider_has_a_profile_of_the_same_kind():
    for provider in PROVIDERS.values():
        profile = profile_of(provider.profile, address=provider.address or "https://x.openai.azure.com/openai/v1", model="m")
        assert profile.name == provider.prefix or provider.prefix == "endpoint"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("opnai:gpt-5", 'unknown provider "opnai": did you mean "openai:gpt-5"?'),
        ("deepsek:openai-gpt", 'did you mean "deepseek:openai-gpt"?'),
        ("lokal:smollm2", 'did you mean "local:smollm2"?'),
        ("zzz:gpt-5", 'unknown provider "zzz": write provider:model. Providers are openai, endpoint,'),
        ("gpt-4.1", 'no provider: write provider:model, as in "openai:gpt-4.1"; providers are openai,'),
        ("", "no provider"),
        ("openai:", 'names no model: write what stands after the colon, as in "openai:gpt-4.1"'),
        ("openai:   ", "names no model"),
        ("scripted:", "names no model"),
        ("endpoint:x", "has no address: set OPENAI_BASE_URL, or give base_url="),
        ("azure:x", "has no address: set AZURE_OPENAI_ENDPOINT, or give base_url="),
    ],
)
def test_a_name_that_cannot_be_used_says_what_is_wrong_and_what_to_write(name, advice):
    with pytest.raises(llm.BadEndpoint) as caught:
        model(name, environ={})
    assert advice in str(caught.value)


@pytest.mark.parametrize("provider", [one for one in PROVIDERS.values() if one.needs_key and one.address], ids=lambda one: one.prefix)
def test_a_missing_key_names_the_variable_the_argument_and_what_works_without(provider):
    with pytest.raises(llm.BadEndpoint) as caught:
        model(f"{provider.prefix}:m", environ={})
    text = str(caught.value)
    assert all(variable in text for variable in provider.key_variables)
    assert "api_key=" in text and "local:smollm2" in text and "scripted:" in text


def test_a_key_that_cannot_be_sent_is_told_of_and_not_shown():
    with pytest.raises(llm.BadEndpoint, match="the key") as caught:
        model("openai:m", api_key="two words", environ={})
    assert "two words" not in str(caught.value)


@pytest.mark.parametrize("name", [KEY, f"openai:{KEY}", f"{KEY}:gpt-4.1"])
def test_a_key_that_was_pasted_in_the_names_place_is_not_shown(name):
    with pytest.raises(llm.BadEndpoint) as caught:
        model(name, environ={})
    assert KEY not in str(caught.value)


def test_a_name_is_a_text():
    with pytest.raises(TypeError, match='give a name such as "openai:gpt-4.1", or the ref of a deployment'):
        model(7)


def test_a_name_of_a_thousand_pages_is_not_quoted_whole():
    with pytest.raises(llm.BadEndpoint) as caught:
        model("x" * 1_000_000, environ={})
    assert len(str(caught.value)) < 1_000


def test_the_embedded_model_by_name_and_by_file(monkeypatch, tmp_path):
    monkeypatch.setattr(naming, "is_local_installed", lambda: True)
    monkeypatch.setattr(naming, "find_weights", lambda _weights, folder: folder)
    choice = model("local:smollm2", environ={}, data_dir=tmp_path)
    assert (choice.kind, choice.model, choice.weights) == ("local", SMOLLM2.name, tmp_path / "models")
    file = tmp_path / "other.gguf"
    file.write_bytes(b"GGUF")
    assert model(f"local:{file}", environ={}).weights == file
    with pytest.raises(llm.ModelNotInstalled, match='did you mean "local:smollm2"'):
        model("local:smollm", environ={})


def test_the_embedded_model_that_is_not_installed_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(naming, "is_local_installed", lambda: False)
    with pytest.raises(llm.ModelNotInstalled, match="pip install"):
        model("local:smollm2", environ={})


async def test_a_scripted_model_says_its_words():
    async with rt.ActorSystem() as system:
        ref = await llm.model("scripted:Hello: Ada!").spawn(system)
        assert (await ref.ask(llm.Complete.of("hi"))).text == "Hello: Ada!"


class Owner(rt.Actor):
    async def on_start(self):
        self.model = await llm.model("scripted:Yes.").spawn(self.ctx, name="brain")


async def test_a_model_may_be_an_actors_child():
    async with rt.ActorSystem() as system:
        owner = await system.spawn(Owner, name="owner")
        assert [one.path for one in system.actors() if one.path.startswith(owner.path + "/")] == ["/user/owner/brain"]


async def test_an_endpoint_by_name_is_spawned_without_a_connection():
    async with rt.ActorSystem() as system:
        ref = await llm.model("vllm:m", environ={}).spawn(system, name="vllm", retries=0)
        assert ref.path == "/user/vllm"


def test_naming_loads_no_http_client_where_no_endpoint_is_wanted():
    code = "import sys; from retinue import llm; llm.model('scripted:x'); sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["deepseek:x", "openrouter:x", "mistral:x", "qwen:x", "glm:x"])
def test_no_provider_inherits_the_key_or_the_address_of_another(name):
    others = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "AZURE_OPENAI_API_KEY": KEY}
    with pytest.raises(llm.BadEndpoint, match="needs a key") as caught:
        model(name, environ=others)
    assert KEY not in str(caught.value)
    assert model(name, api_key="another-key", environ=others).address == PROVIDERS[name.partition(":")[0]].address


def test_a_local_server_is_never_sent_the_key_of_openai():
    assert model("ollama:x", environ={"OPENAI_API_KEY": KEY}).api_key is None


def test_a_slash_for_the_colon_is_told_by_the_name_that_is_meant() -> None:
    with pytest.raises(llm.BadEndpoint, match=r'"openai/gpt-4.1" has a slash for the colon: write "openai:gpt-4.1"'):
        llm.model("openai/gpt-4.1", environ={})


@pytest.mark.parametrize("said", ["environment", "argument"])
def test_at_an_address_of_ones_own_without_a_key_the_name_that_needs_none_is_told(said: str) -> None:
    address = "http://127.0.0.1:8765/v1"
    environ = {"OPENAI_BASE_URL": address} if said == "environment" else {}
    with pytest.raises(llm.BadEndpoint, match='an endpoint of your own without keys is "endpoint:tiny"'):
        llm.model("openai:tiny", environ=environ, base_url=address if said == "argument" else None)
    assert llm.model("endpoint:tiny", environ=environ, base_url=address).address == address
    with pytest.raises(llm.BadEndpoint) as caught:
        llm.model("openai:tiny", environ={})
    assert "endpoint:" not in str(caught.value)
