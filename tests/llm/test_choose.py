"""Which model is chosen: the endpoint only when it is wanted, the embedded model where it is installed, else the script, and no key shown."""

from __future__ import annotations

import subprocess
import sys

import pytest

from retinue.actors.llm import choose
from retinue.actors.llm.choose import from_env
from retinue.actors.llm.errors import BadEndpoint
from retinue.actors.llm.weights import SMOLLM2

KEY = "sk-test-0123456789abcdef"
FULL = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1/", "OPENAI_API_KEY": KEY, "RETINUE_MODEL": "m"}


@pytest.fixture
def local(monkeypatch):
    monkeypatch.setattr(choose, "is_local_installed", lambda: True)


@pytest.fixture
def bare(monkeypatch):
    monkeypatch.setattr(choose, "is_local_installed", lambda: False)


@pytest.mark.usefixtures("local")
def test_live_is_the_endpoint_that_the_environment_names():
    choice = from_env(live=True, environ=FULL)
    assert (choice.kind, choice.model, choice.address, choice.api_key) == ("endpoint", "m", "http://127.0.0.1:9/v1", KEY)
    assert str(choice) == "m at http://127.0.0.1:9/v1"


@pytest.mark.usefixtures("local")
def test_the_key_is_not_shown():
    choice = from_env(live=True, environ=FULL)
    assert KEY not in f"{choice} {choice!r}"


@pytest.mark.usefixtures("local")
def test_without_live_no_endpoint_is_used_however_well_it_is_set_up():
    assert from_env(live=False, environ=FULL).kind == "local"


@pytest.mark.usefixtures("local")
def test_where_nothing_is_said_an_endpoint_that_is_set_up_is_used():
    assert from_env(environ=FULL).kind == "endpoint"
    assert from_env(environ={}).kind == "local"
    assert from_env(environ={"RETINUE_MODEL": "m"}).kind == "local"


def test_a_key_alone_means_openais_own_endpoint_and_an_address_alone_needs_no_key():
    assert from_env(live=True, environ={"OPENAI_API_KEY": KEY, "RETINUE_MODEL": "m"}).address == choose.OPENAI
    assert from_env(live=True, environ={"OPENAI_BASE_URL": "http://h/v1", "RETINUE_MODEL": "m"}).api_key is None


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({}, "OPENAI_BASE_URL .* and RETINUE_MODEL"),
        ({"OPENAI_BASE_URL": " ", "OPENAI_API_KEY": "", "RETINUE_MODEL": "m"}, "OPENAI_BASE_URL"),
        ({"OPENAI_BASE_URL": "http://h/v1"}, "RETINUE_MODEL"),
        (FULL | {"OPENAI_BASE_URL": "nonsense"}, "address"),
        (FULL | {"OPENAI_API_KEY": "two words"}, "the key"),
    ],
)
def test_live_says_what_is_missing_or_wrong(environ, missing):
    with pytest.raises(BadEndpoint, match=missing) as caught:
        from_env(live=True, environ=environ)
    assert "two words" not in str(caught.value)


@pytest.mark.usefixtures("bare")
def test_where_nothing_is_installed_it_is_the_script_and_it_says_so():
    choice = from_env(environ={}, script=["one", "two"])
    assert (choice.kind, choice.script) == ("scripted", ("one", "two"))
    assert "no model" in str(choice)
    assert from_env(environ={}).script == choose.UNSCRIPTED


@pytest.mark.usefixtures("local")
def test_the_embedded_model_is_chosen_before_its_weights_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(choose, "find_weights", lambda weights, folder: (weights, folder))
    choice = from_env(environ={}, data_dir=tmp_path)
    assert choice.weights == (SMOLLM2, tmp_path / "models")
    monkeypatch.setattr(choose, "find_weights", lambda _weights, _folder: None)
    choice = from_env(environ={"XDG_CACHE_HOME": str(tmp_path)})
    assert (choice.kind, choice.model, choice.weights) == ("local", "smollm2", None)
    assert "embedded" in str(choice)


@pytest.mark.usefixtures("bare")
def test_the_processs_environment_is_read_when_it_is_asked(monkeypatch):
    assert from_env().kind == "scripted"
    for name, value in FULL.items():
        monkeypatch.setenv(name, value)
    assert from_env().kind == "endpoint"


@pytest.mark.slow
def test_choosing_loads_no_http_client_where_no_endpoint_is_wanted():
    code = "import sys; from retinue.actors.llm.choose import from_env; from_env(live=False); sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
