"""Agents through a gateway: the same messages, events and errors as within the process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import trio

import retinue as rt
from client_shop import RunningShop
from retinue import llm, sync


@rt.tool(approval=True)
def send_email(to: str) -> str:
    """Sends an e-mail.

    Args:
        to: Recipient.
    """
    return f"sent to {to}"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShop]:
    with RunningShop(tmp_path_factory.mktemp("agents")) as running:
        yield running


def agent(shop: RunningShop, script: Any) -> str:
    model = shop.call(lambda: shop.system.spawn(llm.Scripted, script))
    path: str = shop.call(lambda: shop.system.spawn(rt.Agent, model=model, tools=[send_email])).path
    return path


def test_a_stream_over_http_has_the_events_of_one_within_the_process_and_memory_is_that_of_the_tokens_subject(shop: RunningShop) -> None:
    path = agent(
        shop, [llm.tool_calls(("nothing", {}), reasoning="hm"), "Hello!", llm.tool_calls(("nothing", {}), reasoning="hm"), "Hello!"]
    )

    async def inside() -> list[Any]:
        async with shop.system.registry.get(path).stream("hi") as events:
            return [event async for event in events]

    with sync.connect(shop.url, token=shop.token("model.complete", "tool.*")) as client:
        ref = client.ref(path)
        with ref.stream("hi") as events:
            found = list(events)
        assert [_without_ids(event) for event in found] == [_without_ids(event) for event in shop.call(inside)]
        assert isinstance(found[-1], rt.RunEnd)
        memory = ref.ask(rt.GetMemory())
        assert [message.content for message in memory.messages] == ["hi", "Hello!"]
        state = ref.ask(rt.GetState())
        ref.ask(rt.ClearMemory())
        assert ref.ask(rt.GetMemory()).items == ()
        ref.ask(rt.LoadState(state))
        assert ref.ask(rt.GetMemory()) == memory
        with pytest.raises(rt.Denied):
            ref.ask(rt.GetMemory(subject="root"))


def _without_ids(event: Any) -> Any:
    return attrs.evolve(event, call_id="") if hasattr(event, "call_id") else event


def test_a_parked_run_crosses_and_goes_on(shop: RunningShop) -> None:
    path = agent(shop, [llm.tool_calls(("send_email", {"to": "bob"})), "Done."])
    with sync.connect(shop.url, token=shop.token("model.complete", "tool.*")) as client:
        ref = client.ref(path)
        with pytest.raises(rt.ApprovalRequired) as caught:
            ref.ask(rt.AgentMessage("mail Bob"))
        (request,) = caught.value.requests
        assert request.arguments["to"] == "bob"
        with pytest.raises(rt.RunParked) as parked:
            ref.ask(rt.AgentMessage("hello?"))
        assert parked.value.run == caught.value.run
        shop.call(lambda: shop.system.approvals.approve(request.id, reviewer="bob"))
        token = client.approvals.wait(request.id, timeout=20)
        assert caught.value.run is not None
        assert ref.ask(rt.Resume(caught.value.run), approvals=[token]).content == "Done."
        with pytest.raises(rt.NoSuchRun):
            ref.ask(rt.Resume(caught.value.run))


def test_a_stream_that_is_parked_says_what_it_needs_and_ends_with_the_error(shop: RunningShop) -> None:
    path = agent(shop, [llm.tool_calls(("send_email", {"to": "bob"}))])
    found: list[Any] = []
    with sync.connect(shop.url, token=shop.token("model.complete", "tool.*")) as client:
        with pytest.raises(rt.ApprovalRequired) as caught, client.ref(path).stream(rt.AgentMessage("mail Bob")) as events:
            found.extend(events)
    assert isinstance(found[-1], rt.ApprovalNeeded)
    assert found[-1].run == caught.value.run
    assert found[-1].requests[0].id == caught.value.requests[0].id


def test_a_text_is_what_an_agent_is_told_and_nobody_else(shop: RunningShop) -> None:
    path = agent(shop, "Hello!")

    async def main() -> None:
        async with rt.connect(shop.url, token=shop.token("model.complete")) as client:
            ref = client.ref(path)
            assert (await ref.ask("hi")).content == "Hello!"
            assert await ref.tell("hi again")
            async with ref.stream("hi") as events:
                assert isinstance([event async for event in events][-1], rt.RunEnd)
            with pytest.raises(rt.WireError, match="AgentMessage"):
                await client.ref("/user/shop").ask("hi")

    trio.run(main)
