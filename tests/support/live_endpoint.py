"""What `--live` of an example finds: an environment that names a loopback endpoint."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

from example_runner import environ
from housekeeping import ROOT
from openai_loopback import Asked, completion, loopback

WORDS = "I am a real model."


def run_live(
    name: str, say: Callable[[Asked], str] | str = WORDS, *, stdin: str = "", arguments: Sequence[str] = ()
) -> tuple[str, list[Asked]]:
    """Run `python examples/NAME.py --live` against a server of ours. Gives what was printed (the server's address as URL), and what the server was asked."""
    with loopback(lambda asked: completion(say if isinstance(say, str) else say(asked))) as server:
        live = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-live", "RETINUE_MODEL": "some-model"}
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--live", *arguments],
            cwd=ROOT,
            env=environ() | live,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        assert "sk-live" not in done.stdout + done.stderr
        return done.stdout.replace(server.url, "URL"), server.asked
