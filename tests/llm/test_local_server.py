"""The embedded model's own server, for real (slow), and what is said where it cannot run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from contextlib import aclosing

import httpx
import pytest
import trio

from retinue.actors.llm.endpoint import Endpoint
from retinue.actors.llm.errors import ContextOverflow, KeyRefused, ModelNotInstalled
from retinue.actors.llm.events import TextDelta, fold
from retinue.actors.llm.local import LocalServer, is_local_installed
from retinue.actors.llm.messages import Complete
from retinue.actors.llm.weights import SMOLLM2, find_weights, models_folder

PARIS = Complete.of("What is the capital of Italy?", system="You answer in one short sentence.", max_tokens=24, temperature=0)


@pytest.fixture(scope="module")
def weights():
    if not is_local_installed():
        pytest.skip("the extra `local` is not installed")
    path = find_weights(SMOLLM2, models_folder())
    if path is None:
        pytest.skip("the weights are not on this machine: retinue models pull smollm2")
    return path


def endpoint_of(server, **options):
    return Endpoint(**{"model": server.model, "base_url": server.url, "api_key": server.key, "proxies": False} | options)


def status_of(url):
    return httpx.get(url, trust_env=False).status_code


@pytest.mark.slow
async def test_the_embedded_model_answers_through_the_same_client_as_any_endpoint(weights):
    with LocalServer(weights, model="smollm2") as server:
        async with endpoint_of(server) as endpoint:
            answer = await endpoint.complete(PARIS)
    assert "Rome" in answer.text
    assert answer.model == "smollm2"
    assert answer.finish_reason in {"stop", "length"}
    assert answer.prompt_tokens > 10
    assert 0 < answer.completion_tokens <= 24


@pytest.mark.slow
async def test_the_embedded_model_streams_and_the_stream_folds_to_the_plain_answer(weights):
    with LocalServer(weights, model="smollm2") as server:
        async with endpoint_of(server, profile="llamacpp") as endpoint:
            plain = await endpoint.complete(PARIS)
            async with aclosing(endpoint.stream(PARIS)) as stream:
                events = [event async for event in stream]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(texts) > 3
    assert "".join(texts) == events[-1].completion.text == plain.text
    assert fold(events).completion_tokens == plain.completion_tokens
    assert fold(events).prompt_tokens == plain.prompt_tokens


@pytest.mark.slow
async def test_leaving_the_embedded_models_stream_early_ends_it_there(weights):
    with trio.fail_after(60), LocalServer(weights, model="smollm2") as server:
        async with endpoint_of(server) as endpoint:
            async with aclosing(endpoint.stream(Complete.of("Tell a very long story.", max_tokens=1500))) as stream:
                async for _event in stream:
                    break
            assert (await endpoint.complete(PARIS)).text  # it has one slot: free again


@pytest.mark.slow
async def test_the_server_refuses_who_has_not_its_key_and_prompts_that_are_too_long(weights):
    with LocalServer(weights, model="smollm2", context=256) as server:
        for key in (None, "wrong-key-wrong-key"):
            async with endpoint_of(server, api_key=key) as endpoint:
                with pytest.raises(KeyRefused):
                    await endpoint.complete(PARIS)
        async with endpoint_of(server) as endpoint:
            with pytest.raises(ContextOverflow, match="context size") as caught:
                await endpoint.complete(Complete.of("word " * 1000))
            assert caught.value.limit == 256
            assert caught.value.used > 1000
        for path in ("/slots", "/props"):
            assert status_of(server.url.removesuffix("/v1") + path) in {401, 403, 404}
    assert server.key not in repr(server)


@pytest.mark.slow
async def test_closing_the_client_and_then_the_server_ends_at_once_while_it_is_answering_and_another_can_start(weights):
    with trio.fail_after(60):
        server = LocalServer(weights, model="smollm2")
        endpoint = endpoint_of(server)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(endpoint.complete, Complete.of("Tell a very long story.", max_tokens=1500))
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()
        await endpoint.aclose()
        server.close()
        server.close()
        assert "closed" in repr(server)
        with pytest.raises(httpx.ConnectError):
            status_of(server.url)
        with LocalServer(weights, model="smollm2") as again:
            async with endpoint_of(again) as endpoint:
                assert (await endpoint.complete(PARIS)).text


@pytest.mark.slow
def test_a_server_may_be_closed_at_once_and_the_library_writes_nothing_to_the_terminal(weights, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    code = f"""
import pathlib
from retinue.actors.llm.errors import ModelNotInstalled
from retinue.actors.llm.events import TextDelta, fold
from retinue.actors.llm.local import LocalServer
for _ in range(5):  # ended as soon as it has started: no waiting for anything, for ever least of all
    LocalServer(pathlib.Path({str(weights)!r}), model="m").close()
try:
    LocalServer(pathlib.Path({str(tmp_path / "bad.gguf")!r}), model="m")
except ModelNotInstalled as error:
    assert "cannot be loaded" in str(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert ended.stdout == b""
    assert ended.stderr == b""


@pytest.mark.slow
@pytest.mark.usefixtures("weights")
def test_weights_that_are_none_are_a_typed_error(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelNotInstalled, match="cannot be loaded"):
        LocalServer(tmp_path / "bad.gguf", model="m")


def test_a_missing_extra_names_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert not is_local_installed()
    with pytest.raises(ModelNotInstalled, match=r"pip install 'retinue\[local\]'"):
        LocalServer(tmp_path / "x.gguf", model="m")


def test_missing_weights_name_the_command_that_fetches_them(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    with pytest.raises(ModelNotInstalled, match="retinue models pull smollm2"):
        LocalServer(tmp_path / "x.gguf", model="m")


def test_looking_whether_it_is_installed_does_not_load_it():
    code = "import sys; from retinue.actors.llm.local import is_local_installed; is_local_installed(); sys.exit('xllamacpp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False).returncode == 0
