"""What holds for every test: no test sees the provider variables of the machine that runs it."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from laws import AT_LENGTH, FEW, MANY

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell script, where Ctrl-C is ignored, by us and by every process that a test starts: then no test of it could pass.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# That a machine is busy with something else is no failure of a test. The rest stays as Hypothesis has chosen it (on a CI server: its profile `ci`).
settings.register_profile(
    AT_LENGTH, settings(), max_examples=MANY, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("retinue", settings.get_profile(AT_LENGTH), max_examples=FEW)
settings.load_profile("retinue")

# A key or an endpoint that happens to be set must neither be used, nor paid for, nor change a result.
FOREIGN_PREFIXES = (
    "ANTHROPIC_",
    "AZURE_OPENAI_",
    "DEEPSEEK_",
    "GEMINI_",
    "GOOGLE_API_",
    "GROQ_",
    "HF_",
    "HUGGING",
    "MISTRAL_",
    "OLLAMA_",
    "OPENAI_",
    "OPENROUTER_",
    "RETINUE_",
)


@pytest.fixture(autouse=True)
def _no_provider_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(FOREIGN_PREFIXES):
            monkeypatch.delenv(name)
    for name in ("NO_PROXY", "no_proxy"):  # the tests' own servers are reached directly, whatever proxy this machine needs for others
        monkeypatch.setenv(name, "127.0.0.1,localhost,::1")


def pytest_configure(config: pytest.Config) -> None:
    """Several workers on a fresh copy share the work of compiling it: each begins to collect at another file, and finds compiled what others had first."""
    worker = getattr(config, "workerinput", None)
    here = Path(__file__).parent
    if worker is None or [(config.invocation_params.dir / arg).resolve() for arg in config.args] != [here]:
        return
    files = sorted(here.rglob("test_*.py"))
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    config.args[:] = map(str, files[first:] + files[:first])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)  # all workers name the tests in one order


def pytest_collection_finish() -> None:
    """All that the collection has made lives to the end: a third of a second for each of the collector's full passes, of which some tests want dozens."""
    gc.collect()
    gc.freeze()
