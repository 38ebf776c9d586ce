"""The first endpoint of a program does not hold up its loop."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import retinue as rt
from openai_loopback import completion, loopback
from retinue import llm

PROGRAM = """
import sys
import threading

import retinue as rt
from retinue import llm

loaded_in = []


class Watcher:
    def find_spec(self, name, path=None, target=None):
        if name in ("httpx", "httpcore", "h11", "certifi"):
            loaded_in.append((name, threading.current_thread() is threading.main_thread()))


async def main():
    sys.meta_path.insert(0, Watcher())
    async with rt.ActorSystem("first") as system:
        made = await system.spawn(WHAT)
        try:
            await made.ask(ASKED)
        except llm.ModelUnreachable:  # nobody is there, but the client has tried
            pass
    print(sorted(loaded_in))


rt.run(main)
"""


@pytest.mark.parametrize(
    ("what", "asked"),
    [
        ('llm.OpenAICompatible, model="m", base_url="http://127.0.0.1:9/v1", retries=0', 'llm.Complete.of("hi")'),
        ('rt.Agent, model="ollama:tiny"', '"hi"'),
    ],
    ids=["deployment", "agent"],
)
def test_the_client_of_the_first_endpoint_is_loaded_in_a_thread_up_to_its_first_request(what: str, asked: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("WHAT", what).replace("ASKED", asked)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "OLLAMA_BASE_URL": "http://127.0.0.1:9/v1"},
    )
    assert (ended.stdout, ended.returncode) == ("[('certifi', False), ('h11', False), ('httpcore', False), ('httpx', False)]\n", 0), (
        ended.stderr
    )


def test_the_modules_beside_the_actors_are_there_without_an_import_of_their_own() -> None:
    code = "import retinue as rt; print(rt.llm.Scripted.__name__, rt.sync.ActorSystem.__module__, rt.aio.__name__, rt.testing.__name__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    assert ended.stdout == "Scripted retinue.sync retinue.aio retinue.testing\n", ended.stderr


async def test_https_to_what_speaks_plain_http_is_told_so() -> None:
    with loopback(completion("hi")) as server:
        async with rt.ActorSystem("first") as system:
            model = await system.spawn(llm.OpenAICompatible, model="m", base_url=server.url.replace("http:", "https:"), retries=0)
            with pytest.raises(llm.ModelUnreachable, match="does not answer in TLS .*http:// instead of https://"):
                await model.ask(llm.Complete.of("hi"))
