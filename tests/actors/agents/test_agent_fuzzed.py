"""Whatever is said to an agent, it answers, and what it remembered is still there."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from agent_players import agent_system, read
from retinue import llm

ODD: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.builds(object),
)

MESSAGES = st.one_of(
    st.text(max_size=20),
    st.builds(rt.AgentMessage, ODD, sender=ODD, session=ODD, formatted=ODD, extra=ODD),
    st.builds(lambda message, limits: rt.Run(message, limits=limits), ODD, ODD),
    st.builds(lambda tools: rt.Run("hi", tools=tools), st.lists(ODD, max_size=2)),
    st.builds(rt.Resume, ODD),
    st.builds(rt.GetMemory, ODD, recent=ODD),
    st.builds(rt.ClearMemory, ODD),
    st.builds(rt.GetState, ODD),
    st.builds(rt.LoadState, ODD, session=ODD),
    st.builds(rt.Cancel, ODD, run=ODD),
)


@settings(max_examples=10)
@given(st.lists(MESSAGES, max_size=5))
def test_nothing_that_is_said_restarts_an_agent_or_hangs_it(messages: list[Any]) -> None:
    async def main() -> None:
        async with agent_system(lambda _: "ok") as (_, agent):
            kept = rt.AgentMessage("keep this", session="kept-session")
            await agent.ask(kept)
            for message in messages:
                for way in ("ask", "stream", "tell"):
                    with trio.fail_after(5):
                        if way == "stream":
                            await read(agent, message)
                        elif way == "tell":
                            with suppress(rt.RetinueError, TypeError):
                                agent.tell(message)
                        else:
                            with suppress(Exception):
                                await agent.ask(message)
            assert len((await agent.ask(rt.GetMemory("kept-session"))).items) == 2
            assert (await agent.ask(rt.AgentMessage("hi", session="fresh-session"))).content == "ok"

    trio.run(main)


def test_a_subclass_of_a_message_is_a_message_too() -> None:
    @rt.message
    class Loud(rt.AgentMessage):
        volume: int = 11

    async def main() -> None:
        async with agent_system(lambda request: request.messages[-1].content) as (_, agent):
            assert (await agent.ask(Loud("hi"))).content == "hi"
            assert type((await agent.ask(rt.GetMemory())).messages[0]) is rt.AgentMessage

    trio.run(main)


REPLIES = st.lists(
    st.one_of(
        st.text(max_size=10),
        st.builds(
            lambda calls, text: llm.Completion(text, "m", tool_calls=tuple(calls)),
            st.lists(
                st.builds(
                    llm.ToolCall,
                    st.sampled_from(["a", "b", "c"]),
                    st.sampled_from(["note", "nothing", "note "]),
                    st.one_of(st.text(max_size=10), st.sampled_from(["{}", '{"text": "x"}', '{"text": 1}', "[]", "null"])),
                    truncated=st.booleans(),
                ),
                min_size=1,
                max_size=3,
                unique_by=lambda call: call.id,
            ),
            st.text(max_size=5),
        ),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=10)
@given(REPLIES, st.booleans())
def test_whatever_the_model_says_the_history_of_every_request_is_valid(replies: list[Any], streamed: bool) -> None:
    async def note(text: str) -> str:
        """Notes.

        Args:
            text: What.
        """
        return text

    told: list[llm.Complete] = []
    left = list(replies)

    def script(request: llm.Complete) -> Any:
        told.append(request)
        return left.pop(0) if left else "end"

    async def main() -> None:
        async with agent_system(script, tools=[note], limits=rt.RunLimits(model_calls=3, bad_calls=2)) as (_, agent):
            for _ in range(len(replies) + 1):
                if streamed:
                    await read(agent, "go")
                else:
                    with suppress(rt.RunLimitReached):
                        await agent.ask("go")

    trio.run(main)
    for request in told:
        waiting: list[str] = []
        for each in request.messages:
            if each.role == "tool":
                assert waiting and waiting.pop(0) == each.tool_call_id
            else:
                assert not waiting
                waiting = [call.id for call in each.tool_calls]
        assert not waiting and request.messages[-1].role in ("user", "tool")
