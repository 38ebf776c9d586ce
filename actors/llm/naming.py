"""Models by name: "openai:gpt-4.1", "local:smollm2", "scripted:WORDS".

Naming a model opens no connection, loads nothing and fetches nothing; what is wrong with the name, or missing for it, is said at once.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from retinue.actors.llm.choose import Choice
from retinue.actors.llm.errors import BadEndpoint, ModelNotInstalled
from retinue.actors.llm.local import INSTALL, is_local_installed
from retinue.actors.llm.secret import Key
from retinue.actors.llm.weights import KNOWN, find_weights, models_folder
from retinue.security.secret_shapes import hide_secrets

__all__ = ["PROVIDERS", "Provider", "model"]


@attrs.frozen(kw_only=True)
class Provider:
    """Where a provider's models are found.

    Attributes:
        prefix: What stands before the colon.
        address: The endpoint, up to and with `/v1`; None where the environment has to say it.
        address_variable: The environment's variable that gives the address, or another one than `address`.
        key_variables: Those that may give the key; the first that is set counts.
        needs_key: Whether nothing works without a key.
        path: What is added to the address that the environment gives, where it does not end so already.
        profile: The name of its profile.
        example: A model's name, for error texts.
    """

    prefix: str
    address: str | None
    address_variable: str | None = None
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    path: str = ""
    profile: str
    example: str


_ALL: Final = (
    Provider(
        prefix="openai",
        address="https://api.openai.com/v1",
        address_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
        profile="auto",  # OPENAI_BASE_URL may name somebody else's endpoint
        example="gpt-4.1",
    ),
    Provider(
        prefix="endpoint",
        address=None,
        address_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
        needs_key=False,
        profile="auto",
        example="some-model",
    ),
    Provider(
        prefix="azure",
        address=None,
        address_variable="AZURE_OPENAI_ENDPOINT",
        key_variables=("AZURE_OPENAI_API_KEY",),
        path="/openai/v1",
        profile="azure",
        example="the deployment's name",
    ),
    Provider(
        prefix="openrouter",
        address="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        profile="openrouter",
        example="openai/gpt-4.1",
    ),
    Provider(
        prefix="deepseek",
        address="https://api.deepseek.com/v1",
        key_variables=("DEEPSEEK_API_KEY",),
        profile="deepseek",
        example="deepseek-chat",
    ),
    Provider(
        prefix="qwen",
        address="https://dashscope.aliyuncs.com/compatible-mode/v1",
        address_variable="DASHSCOPE_BASE_URL",
        key_variables=("DASHSCOPE_API_KEY",),
        profile="qwen",
        example="qwen-max",
    ),
    Provider(
        prefix="glm",
        address="https://open.bigmodel.cn/api/paas/v4",
        address_variable="ZHIPUAI_BASE_URL",
        key_variables=("ZHIPUAI_API_KEY", "ZAI_API_KEY"),
        profile="glm",
        example="glm-4.6",
    ),
    Provider(
        prefix="mistral",
        address="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        profile="mistral",
        example="mistral-large-latest",
    ),
    Provider(
        prefix="ollama",
        address="http://127.0.0.1:11434/v1",
        address_variable="OLLAMA_BASE_URL",
        key_variables=("OLLAMA_API_KEY",),
        needs_key=False,
        path="/v1",
        profile="ollama",
        example="llama3.2",
    ),
    Provider(
        prefix="vllm",
        address="http://127.0.0.1:8000/v1",
        address_variable="VLLM_BASE_URL",
        key_variables=("VLLM_API_KEY",),
        needs_key=False,
        path="/v1",
        profile="vllm",
        example="Qwen/Qwen3-8B",
    ),
    Provider(
        prefix="llamacpp",
        address="http://127.0.0.1:8080/v1",
        address_variable="LLAMACPP_BASE_URL",
        key_variables=("LLAMACPP_API_KEY",),
        needs_key=False,
        path="/v1",
        profile="llamacpp",
        example="default",
    ),
)

PROVIDERS: Final[Mapping[str, Provider]] = {provider.prefix: provider for provider in _ALL}
"""Those behind an endpoint, by prefix."""

_LOCAL, _SCRIPTED = "local", "scripted"
_OWN_ADDRESS: Final = "OPENAI_BASE_URL"
_WITHOUT_A_KEY: Final = 'what works without: "local:smollm2" (a small model in this process) and "scripted:WORDS" (no model; it says WORDS)'


def model(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    environ: Mapping[str, str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Choice:
    """Choose a model by its name; `Choice.spawn` makes it an actor.

    Args:
        name: `provider:model`, as in "openai:gpt-4.1" (see `PROVIDERS` for the providers); "local:smollm2", or "local:" and a GGUF file's path;
            "scripted:" and the words that it says to every request.
        api_key: The key; default: the environment's (OPENAI_API_KEY, DEEPSEEK_API_KEY, …).
        base_url: The address; default: the provider's own, or the environment's.
        environ: Where variables are read; default: the process's environment, read now.
        data_dir: Where to look for weights; see `models_folder`.

    Raises:
        BadEndpoint: The prefix is unknown, the model's name is missing, a key or an address is missing or cannot be used.
        ModelNotInstalled: The embedded model is wanted and its server or its weights are not there.
        TypeError: The name is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f'model={type(name).__name__}: give a name such as "openai:gpt-4.1", or the ref of a deployment')
    env = os.environ if environ is None else environ
    prefix, colon, rest = name.partition(":")
    prefix = prefix.strip().lower()
    if colon and prefix == _SCRIPTED:
        return Choice(kind="scripted", model=_SCRIPTED, script=_needed(rest, name, "Hello!"))
    if colon and prefix == _LOCAL:
        return _local(_needed(rest.strip(), name, "smollm2"), env, data_dir)
    provider = PROVIDERS.get(prefix) if colon else None
    if provider is None:
        raise BadEndpoint(_unknown(name, prefix, colon))
    wanted = _needed(rest.strip(), name, provider.example)
    from retinue.actors.llm.endpoint import check_address  # httpx comes with it: not before an endpoint is wanted

    key = (api_key or "").strip() or next((found for one in provider.key_variables if (found := env.get(one, "").strip())), "")
    address = _address(provider, base_url, env, name)
    if key:
        Key(key)  # looked at now, so that a key that cannot be sent is told of before anything starts
    elif provider.needs_key:
        variables = " or ".join(provider.key_variables)
        elsewhere = base_url is not None or (provider.address_variable == _OWN_ADDRESS and env.get(_OWN_ADDRESS, "").strip())
        own = f'an endpoint of your own without keys is "endpoint:{_shown(wanted)}"; ' if elsewhere else ""
        raise BadEndpoint(f'model "{prefix}:{_shown(wanted)}" needs a key: set {variables}, or give api_key=; {own}{_WITHOUT_A_KEY}')
    return Choice(
        kind="endpoint", model=wanted, address=check_address(address), api_key=key or None, profile=provider.profile, provider=prefix
    )


def _local(wanted: str, env: Mapping[str, str], data_dir: str | os.PathLike[str] | None) -> Choice:
    if not is_local_installed():
        raise ModelNotInstalled(f'model "local:{_shown(wanted)}" needs the extra `local`: {INSTALL}')
    known = KNOWN.get(wanted.lower())
    if known is not None:
        return Choice(kind="local", model=known.name, weights=find_weights(known, models_folder(data_dir, environ=env)))
    path = Path(wanted).expanduser()
    if not path.is_file():
        near = difflib.get_close_matches(wanted.lower(), KNOWN, 1)
        raise ModelNotInstalled(
            f'model "local:{_shown(wanted)}": there is no weights file of that name, and the known ones are {", ".join(KNOWN)}'
            + (f'; did you mean "local:{near[0]}"?' if near else "; give a GGUF file's path")
        )
    return Choice(kind="local", model=wanted, weights=path)


def _address(provider: Provider, base_url: str | None, env: Mapping[str, str], name: str) -> str:
    if base_url is not None:
        return base_url
    given = env.get(provider.address_variable, "").strip() if provider.address_variable else ""
    if given:
        given = given.rstrip("/")
        return given if not provider.path or given.endswith(provider.path) else given + provider.path
    if provider.address is None:
        raise BadEndpoint(f'model "{_shown(name)}" has no address: set {provider.address_variable}, or give base_url=; {_WITHOUT_A_KEY}')
    return provider.address


def _needed(rest: str, name: str, example: str) -> str:
    if not rest:
        raise BadEndpoint(f'model "{_shown(name)}" names no model: write what stands after the colon, as in "{name.strip()}{example}"')
    return rest


def _unknown(name: str, prefix: str, colon: str) -> str:
    prefixes = [*PROVIDERS, _LOCAL, _SCRIPTED]
    if not colon:
        # What is wrong is the missing provider: the name itself is not looked up among others' models.
        first, slash, rest = name.strip().partition("/")
        if slash and rest and first.lower() in prefixes:
            return f'model "{_shown(name)}" has a slash for the colon: write "{first.lower()}:{_shown(rest)}"'
        return f'model "{_shown(name)}" has no provider: write provider:model, as in "openai:{_shown(name) or "gpt-4.1"}"; providers are {", ".join(prefixes)}'
    near = difflib.get_close_matches(prefix, prefixes, 1, 0.5)
    rest = name.partition(":")[2].strip()
    guess = f'did you mean "{near[0]}:{_shown(rest)}"?' if near else "write provider:model."
    return f'model "{_shown(name)}" has the unknown provider "{_shown(prefix)}": {guess} Providers are {", ".join(prefixes)}'


def _shown(text: str) -> str:
    line = hide_secrets("".join(letter if letter.isprintable() else "?" for letter in text.strip()[:1_000]))  # a key, pasted in its place
    return line if len(line) <= 80 else line[:79] + "…"
