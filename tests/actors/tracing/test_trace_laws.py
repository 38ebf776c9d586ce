"""A law: whatever tree of messages actors send each other, its spans are that tree."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import retinue as rt
from quiet_threads import until
from trace_reading import read_spans

WAYS = ("ask", "tell", "send", "at once", "owned", "stream", "handed on", "pool", "fails")


@rt.message
class Node(rt.Request[int]):
    name: int
    way: str
    below: tuple[Any, ...]


@rt.message
class Flow(rt.Stream[int]):
    name: int
    way: str
    below: tuple[Any, ...]


class Walker(rt.Actor):
    """Sends what is below a node, each to an actor of its own."""

    async def _walk(self, message: Any) -> None:
        self.ctx.span.set("node", message.name)
        together = [child for child in message.below if child.way == "at once"]
        async with trio.open_nursery() as nursery:
            for child in together:
                nursery.start_soon((await self.ctx.spawn(Walker)).ask, child)
        for child in message.below:
            if child not in together:
                await self._send(child)

    async def _send(self, child: Any) -> None:
        ref: Any
        if child.way == "pool":
            ref = await self.ctx.spawn_pool(Walker, pool=rt.Pool.round_robin(2))
        else:
            ref = await self.ctx.spawn(HandsOn if child.way == "handed on" else Walker)
        match child.way:
            case "tell":
                ref.tell(child)
            case "send":
                await ref.send(child)
            case "owned":
                self.ctx.start_soon(ref.ask, child)
            case "stream":
                async with ref.stream(Flow(child.name, child.way, child.below)) as items:
                    async for _ in items:
                        pass
            case "fails":
                try:
                    await ref.ask(child)
                except rt.Reject:
                    pass
            case _:
                await ref.ask(child)

    @rt.handler
    async def node(self, message: Node) -> int:
        await self._walk(message)
        if message.way == "fails":
            raise rt.Reject("as it should")
        return message.name

    @rt.handler
    async def flow(self, message: Flow) -> Any:
        await self._walk(message)
        yield message.name


class HandsOn(rt.Actor):
    @rt.handler
    async def node(self, message: Node) -> None:
        self.ctx.forward(await self.ctx.spawn(Walker), message)


@st.composite
def trees(draw: st.DrawFn) -> Node:
    count = draw(st.integers(1, 9))
    parents = [draw(st.integers(0, max(0, n - 1))) for n in range(count)]
    ways = [draw(st.sampled_from(WAYS)) for _ in range(count)]

    def made(n: int) -> Node:
        return Node(n, ways[n] if n else "ask", tuple(made(child) for child in range(1, count) if parents[child] == n))

    return made(0)


def pairs_of(node: Node) -> set[tuple[int, int]]:
    return {(node.name, child.name) for child in node.below}.union(*(pairs_of(child) for child in node.below))


async def walked(tree: Node, folder: Path, sample: float = 1.0) -> None:
    async with rt.ActorSystem("walk", data_dir=folder, tracing=rt.Tracing(sample=sample), audit=False) as system:
        first = await system.spawn(Walker)
        await first.ask(tree)
        if not sample:
            return await system.wait_quiet()
        done = len(pairs_of(tree)) + 1
        kernel = system._kernel
        await until(lambda: kernel.tracer is not None and kernel.tracer._ended >= done)  # type: ignore[attr-defined]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees())
def test_the_spans_of_a_tree_of_messages_are_that_tree(tree: Node) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trio.run(walked, tree, Path(folder))
        spans = read_spans(Path(folder))
    names = {span.id: span["node"] for span in spans}
    assert sorted(names.values()) == sorted({tree.name, *(child for _, child in pairs_of(tree))})
    assert {(names[span.parent], names[span.id]) for span in spans if span.parent is not None} == pairs_of(tree)
    assert len({span.trace for span in spans}) == 1
    assert {span.status for span in spans if span["retinue.message"] == "Flow"} <= {"unset"}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees())
def test_of_a_trace_that_is_not_kept_there_is_nothing(tree: Node) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trio.run(walked, tree, Path(folder), 0.0)
        assert read_spans(Path(folder)) == []
