"""Nothing that users, models and tools say is exported unless that is wanted, and no secret even then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import retinue as rt
from agent_players import read
from openai_loopback import Asked, Loopback, loopback
from retinue import llm

CANARY = "kanarienvogel"
SECRET = "sk-proj-Zx8Kp2Lm4Nq6Rt8Vw0Yb2Dc4Fe6Gh8Jk"


def look_up(word: str) -> str:
    """Looks up.

    Args:
        word: What.
    """
    if word.endswith("!"):
        raise ValueError(f"no {word}")
    return f"{word} is yellow; password={SECRET}"


@rt.message
class Whisper(rt.Request[str]):
    text: str


class Confidant(rt.Actor):
    @rt.handler
    def hear(self, message: Whisper) -> str:
        raise ValueError(f"{message.text} {SECRET}")


@pytest.fixture
def collector() -> Iterator[Loopback]:
    with loopback((200, {"content-type": "application/x-protobuf"}, b"")) as server:
        yield server


async def chatter(system: rt.ActorSystem) -> None:
    """Says the canary wherever something can be said."""
    script = [
        llm.tool_calls(("look_up", {"word": CANARY}), ("look_up", f'{{"word": "{CANARY}!"}}'), ("look_up", {CANARY: 1}), (CANARY, {})),
        f"It is {CANARY}.",
        llm.tool_calls(("transfer_to_billing", {"reason": CANARY, "message": CANARY})),
        llm.ModelFailed(f"the model says {CANARY}"),
        f"{CANARY} again",
    ]
    model = await system.spawn(llm.Scripted, script, name="model")
    agent = await system.spawn(rt.Agent, model=model, tools=[look_up], instructions=f"Know {CANARY}.", name="agent")
    await agent.ask(f"Tell me of {CANARY}, with {SECRET}")
    await agent.ask(rt.Run(f"More {CANARY}", handoffs=["billing"]))
    await read(agent, f"Stream {CANARY}")
    await read(agent, f"Stream {CANARY}")
    confidant = await system.spawn(Confidant, name="confidant", supervision=rt.Supervision(on={ValueError: "resume"}))
    with pytest.raises(ValueError):
        await confidant.ask(Whisper(CANARY))
    confidant.tell(Whisper(CANARY))
    await system.wait_quiet()


def exported(folder: Path, asked: list[Asked]) -> bytes:
    """All bytes that left the system, with those of the files beside the database."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.name.startswith("traces")) + b"".join(
        each.body for each in asked
    )


@pytest.mark.parametrize("contents", [False, True], ids=["without contents", "with contents"])
async def test_a_canary_and_a_secret_are_found_where_they_may_be(contents: bool, tmp_path: Path, collector: Loopback) -> None:
    tracing = rt.Tracing(jsonl=tmp_path / "traces.jsonl", otlp=f"{collector.url}/traces", contents=contents)
    async with rt.ActorSystem("canary", data_dir=tmp_path, tracing=tracing, audit=False) as system:
        await chatter(system)
        while not (tmp_path / "traces.sqlite3-wal").stat().st_size:
            await pause()
        during = exported(tmp_path, collector.asked)
    after = exported(tmp_path, collector.asked)
    assert (CANARY.encode() in after) is contents and (contents or CANARY.encode() not in during)
    assert SECRET.encode() not in during + after
    assert len(after) > 1_000 and b"invoke_agent" in after and collector.asked


async def pause() -> None:
    import trio

    await trio.sleep(0.01)


async def test_what_is_exported_of_an_error_is_its_type(tmp_path: Path) -> None:
    from trace_reading import one, read_spans

    for contents, text in ((False, ""), (True, f"{CANARY} [redacted]")):
        place = tmp_path / str(contents)
        async with rt.ActorSystem("errors", data_dir=place, tracing=rt.Tracing(contents=contents)) as system:
            confidant = await system.spawn(Confidant, name="confidant")
            with pytest.raises(ValueError):
                await confidant.ask(Whisper(CANARY))
        span = one(read_spans(place), "Whisper")
        assert (span["error.type"], span.status_text) == ("ValueError", text)


def test_keys_for_an_endpoint_are_in_no_repr() -> None:
    tracing = rt.Tracing(otlp="http://localhost:4318/v1/traces", headers={"Authorization": f"Basic {SECRET}"})
    assert SECRET not in repr(tracing)
