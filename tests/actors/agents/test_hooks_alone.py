"""Hooks by themselves: closed decisions, plain ones isolated, policy hooks that fail closed."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

import retinue as rt
from retinue.actors.agents.hooks import NO_HOOKS, compile_hooks
from retinue.actors.agents.isolation import isolated
from retinue.actors.agents.phases import LATER, PHASES
from retinue.actors.llm.messages import Complete, Completion, ToolCall
from retinue.capabilities.tool_results import ToolResult

ABOUT = rt.HookContext(agent="/user/agent", session="s")
MESSAGE = rt.AgentMessage("hi", session="s")
CALL = ToolCall("1", "send", '{"amount": 10, "to": {"name": "bob"}}')


async def run(hooks: list[Any], phase: Any = "before_run", payload: Any = MESSAGE) -> tuple[Any, list[tuple[str, str]]]:
    notices: list[tuple[str, str]] = []
    found = await compile_hooks(hooks).run(phase, ABOUT, payload, lambda kind, text: notices.append((kind, text)))
    return found, notices


async def test_hooks_are_called_in_the_order_of_the_list_sync_and_async_functions_and_objects() -> None:
    order: list[str] = []

    @rt.hook("before_run")
    def first(_: rt.HookContext) -> None:
        order.append("first")

    @rt.hook("before_run", "after_run")
    async def second(context: rt.HookContext) -> rt.Continue:
        await trio.lowlevel.checkpoint()
        order.append(f"second {context.phase}")
        return rt.Continue()

    class Third:
        def before_run(self, context: rt.HookContext) -> bool:
            order.append(f"third {context.payload.content} {context.session} {context.agent}")
            return True

    def everywhere(context: rt.HookContext) -> None:
        order.append(f"everywhere {context.phase}")

    hooks = compile_hooks([first, second, Third(), everywhere])
    await hooks.run("before_run", ABOUT, MESSAGE)
    assert order == ["first", "second before_run", "third hi s /user/agent", "everywhere before_run"]
    assert all(hooks.has(phase) for phase in PHASES)
    assert not compile_hooks([first]).has("after_run") and not NO_HOOKS and not compile_hooks([])


async def test_a_replacement_is_what_the_next_hook_sees() -> None:
    def louder(context: rt.HookContext) -> Any:
        return rt.Replace(context.payload.content + "!")

    found, notices = await run([louder, louder])
    assert found == rt.AgentMessage("hi!!", session="s") and notices == []


@pytest.mark.parametrize(
    ("phase", "payload", "put", "content"),
    [
        ("before_run", MESSAGE, rt.AgentMessage("x", session="other"), rt.AgentMessage("x", session="s")),  # it stays in its session
        ("after_run", MESSAGE, "", rt.AgentMessage("", session="s")),  # empty is a replacement as well
        ("before_model_request", Complete.of("a"), Complete.of("b"), Complete.of("b")),
        ("after_model_response", Completion("a"), "b", Completion("b")),
        ("before_tool_call", CALL, {"amount": 1}, ToolCall("1", "send", '{"amount": 1}')),
        ("before_tool_call", CALL, ToolCall("1", "other", "{}"), ToolCall("1", "other", "{}")),
        ("after_tool_result", ToolResult(True, "a"), "b", ToolResult(True, "b")),
    ],
)
async def test_what_may_be_put_in_a_payloads_place(phase: Any, payload: Any, put: Any, content: Any) -> None:
    found, notices = await run([lambda _: rt.Replace(put)], phase, payload)
    assert found == content and notices == []


async def test_an_error_may_be_replaced_by_another() -> None:
    error, other = ValueError("a"), KeyError("b")
    assert (await run([lambda _: rt.Replace(other)], "on_error", error))[0] is other


@pytest.mark.parametrize(
    ("phase", "payload", "put"),
    [
        ("before_run", MESSAGE, 3),
        ("before_run", MESSAGE, None),
        ("before_tool_call", CALL, ToolCall("2", "send", "{}")),  # it would answer to another call
        ("before_tool_call", CALL, {"amount": object()}),
        ("before_tool_call", CALL, {"amount": float("nan")}),
        ("before_tool_call", CALL, [1]),
        ("on_error", ValueError("a"), "text"),
        ("on_resume", rt.Resume("r"), rt.Resume("q")),
        ("on_approval_required", (), ()),
    ],
)
async def test_what_may_not_is_a_failure_of_the_hook(phase: Any, payload: Any, put: Any) -> None:
    def hook(_: rt.HookContext) -> Any:
        return rt.Replace(put)

    found, notices = await run([hook], phase, payload)
    assert found is payload and [kind for kind, _ in notices] == ["hook.failed"]
    with pytest.raises(rt.HookBlocked, match="in the place of"):
        await run([rt.PolicyHook(hook, [phase])], phase, payload)


@pytest.mark.parametrize("answer", [False, "not today", rt.Block("not today"), rt.Block()])
async def test_any_hook_may_block_and_those_after_it_are_not_called(answer: Any) -> None:
    called: list[int] = []
    with pytest.raises(rt.HookBlocked) as caught:
        await run([lambda _: answer, lambda _: called.append(1)])
    assert (caught.value.phase, called) == ("before_run", [])
    assert caught.value.reason == ("not today" if answer not in (False, rt.Block()) else "no reason given")
    assert "/user/agent" in str(caught.value)


UNKNOWN = [0, 1, [], {}, {"allowed": False}, b"deny", object, rt.Continue, 0.0]


@pytest.mark.parametrize("answer", UNKNOWN)
async def test_an_unknown_decision_ends_no_chain_and_in_a_policy_hook_it_blocks(answer: Any) -> None:
    """LightAgent B7: a hook that answered "retry" ended the chain and let the tool run."""
    called: list[str] = []
    found, notices = await run([lambda _: answer, lambda _: called.append("next")])
    assert found is MESSAGE and called == ["next"] and "unknown decision" in notices[0][1]
    with pytest.raises(rt.HookBlocked, match="unknown decision"):
        await run([rt.PolicyHook(lambda _: answer, ["before_run"])])


def raising(_: rt.HookContext) -> None:
    raise OSError("disk full: the secret is 42")


async def test_what_a_plain_hook_raises_is_a_notice_without_its_text_and_the_next_hook_is_called() -> None:
    called: list[str] = []
    found, notices = await run([raising, lambda _: called.append("next")])
    assert found is MESSAGE and called == ["next"]
    assert "OSError" in notices[0][1] and "raising" in notices[0][1] and "42" not in notices[0][1]


@pytest.mark.parametrize("error", [OSError("x"), SystemExit(1), RecursionError()])
async def test_what_a_policy_hook_raises_blocks(error: BaseException) -> None:
    """LightAgent B8: an approval hook whose store was full failed open."""

    def failing(_: rt.HookContext) -> None:
        raise error

    async def failing_later(_: rt.HookContext) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    for handler in (failing, failing_later):
        with pytest.raises(rt.HookBlocked, match=f"{type(error).__name__}.*fails closed"):
            await run([rt.PolicyHook(handler, ["before_run"])])


async def test_a_policy_hook_may_be_made_to_fail_open() -> None:
    found, notices = await run([rt.PolicyHook(raising, ["before_run"], failure_mode="continue", name="audit")])
    assert found is MESSAGE and "audit" in notices[0][1]
    with pytest.raises(rt.HookBlocked):  # what it decides still holds
        await run([rt.PolicyHook(lambda _: False, ["before_run"], failure_mode="continue")])


async def test_a_hook_that_hangs_is_left_after_its_time_and_a_policy_hook_that_hangs_blocks(autojump_clock: MockClock) -> None:
    async def hangs(_: rt.HookContext) -> None:
        await trio.sleep_forever()

    found, notices = await run([rt.hook("before_run", timeout=3)(hangs)])
    assert found is MESSAGE and "time-out after 3 s" in notices[0][1] and trio.current_time() == pytest.approx(3)
    with pytest.raises(rt.HookBlocked, match="time-out after 5 s"):
        await run([rt.PolicyHook(hangs, ["before_run"])])


async def test_a_plain_function_as_policy_hook_cannot_hang_the_run() -> None:
    release = threading.Event()

    def hangs(_: rt.HookContext) -> None:
        release.wait(10)

    try:
        with pytest.raises(rt.HookBlocked, match=r"time-out after 0\.05 s"):
            await run([rt.PolicyHook(hangs, ["before_run"], timeout=0.05)])
    finally:
        release.set()


async def test_a_partial_of_an_async_function_is_awaited() -> None:
    async def decide(word: str, _: rt.HookContext) -> str:
        await trio.lowlevel.checkpoint()
        return word

    with pytest.raises(rt.HookBlocked, match="never"):
        await run([rt.PolicyHook(functools.partial(decide, "never"), ["before_run"])])


async def test_hooks_cannot_change_a_payload_in_place() -> None:
    """LightAgent B17."""

    def sneaky(context: rt.HookContext) -> None:
        context.payload.content["amount"] = 99_999
        context.payload.content["legs"].append("x")
        context.payload.extra["a"].add(2)

    def sneaky_call(context: rt.HookContext) -> None:
        context.arguments["amount"] = 99_999

    message = rt.AgentMessage({"amount": 1, "legs": []}, extra={"a": {1}})
    found, _ = await run([sneaky, rt.PolicyHook(sneaky, ["before_run"])], payload=message)
    assert found is message and message.content == {"amount": 1, "legs": []} and message.extra == {"a": {1}}
    assert (await run([sneaky_call], "before_tool_call", CALL))[0] is CALL


async def test_what_a_hook_put_in_place_is_its_own_no_more() -> None:
    kept = {"amount": 1}
    found, _ = await run([lambda _: rt.Replace(rt.AgentMessage(kept))])
    kept["amount"] = 2
    assert found.content == {"amount": 1}


def test_arguments_that_are_no_object_are_empty_for_hooks() -> None:
    for text in ("", "[1]", "{", "null", "[" * 100_000):
        assert rt.HookContext(payload=ToolCall("1", "a", text)).arguments == {}
    assert rt.HookContext(payload=MESSAGE).arguments == {}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: rt.hook(), "no phase"),
        (lambda: rt.hook("before_tool"), "did you mean 'before_tool_call'"),
        (lambda: rt.hook("before_flow"), "kept for later"),
        (lambda: rt.hook("before_run", timeout=0), "timeout"),
        (lambda: rt.PolicyHook(print, failure_mode="open"), "failure_mode"),
        (lambda: rt.PolicyHook(print, timeout=float("inf")), "timeout"),
        (lambda: rt.PolicyHook(object()), "neither a function"),
        (lambda: rt.PolicyHook(print, "nonsense"), "no phase 'nonsense'"),
        (lambda: compile_hooks([3]), "holds a int"),
        (lambda: compile_hooks([dict]), "hooks= holds"),
        (lambda: compile_hooks("before_run"), "give a list"),
        (lambda: compile_hooks(None), "give a list"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_hook_is_refused_where_it_is_made(make: Any, why: str) -> None:
    with pytest.raises(rt.DefinitionError, match=why):
        make()


def test_a_method_that_is_nearly_named_as_a_phase_is_a_slip() -> None:
    class Odd:
        def before_run(self, _: rt.HookContext) -> None: ...
        def after_tool_results(self, _: rt.HookContext) -> None: ...

    with pytest.raises(rt.DefinitionError, match=r"Odd\.after_tool_results.*did you mean 'after_tool_result'"):
        compile_hooks([Odd()])
    with pytest.raises(rt.DefinitionError, match="no method named 'after_run'"):

        class Only:
            def before_run(self, _: rt.HookContext) -> None: ...

        compile_hooks([rt.PolicyHook(Only(), ["after_run"])])


def test_the_phases_are_a_closed_set_and_those_of_later_are_none_of_them() -> None:
    assert len(PHASES) == 10 and not LATER & set(PHASES)


def test_what_is_immutable_is_not_copied_and_what_is_not_is() -> None:
    class Opaque:
        def __init__(self) -> None:
            self.items = [1]

    lock = threading.Lock()
    shared = ("a", 1, MESSAGE, Completion("x"))
    assert isolated(shared) is shared and isolated(lock) is lock
    opaque = Opaque()
    other = isolated([opaque])[0]
    other.items.append(2)
    assert opaque.items == [1]
    result = ToolResult(True, "x", value=[1])
    isolated(result).value.append(2)
    assert result.value == [1]
