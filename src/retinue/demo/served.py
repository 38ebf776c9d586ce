"""The swarm of `retinue demo`, to be served: `retinue serve retinue.demo.served:swarm`."""

from __future__ import annotations

import re

import retinue as rt
from retinue.actors.llm.choose import Choice
from retinue.actors.llm.messages import Complete
from retinue.demo.prompts import Manner, script_for
from retinue.demo.swarm import Swarm

__all__ = ["swarm"]

_TOPIC = re.compile(
    r"What is surprising about (.+)\?|How did (.+) begin\?|Why do people love (.+)\?|Write about (.+?)\. Use these notes: .*"
    r"|What does this text about (.+?) not tell\?\n\n.*|.*Tell one more thing about (.+)\.",
    re.DOTALL,
)
"""The prompts of `retinue.demo.prompts`."""


async def swarm(system: rt.ActorSystem) -> None:
    """Start the researcher, the writer and the critic, with a script in the place of a model, so that nothing has to be set up.

    Ask `/user/writer` for an article (`demo/Compose@1`), `/user/critic` for a word on a text (`demo/Review@1`).
    """
    await Swarm.start(system, Choice(kind="scripted", model="scripted", script=_answer), Manner())


def _answer(request: Complete) -> str:
    """Answer any topic's prompts: the topic is read from the prompt, as a model would."""
    found = _TOPIC.fullmatch(request.messages[-1].content)
    return script_for(found[found.lastindex] if found and found.lastindex else "this")(request)
