"""Ways around the approval and permission layers of other frameworks that were reported in public, tried on a running system. The numbers are those of the collection.

What concerns a person's consent and its tokens (T5, T7, T23) is tried here as far as there is no way yet to give consent: then nothing must pass.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from core_authority import error_of
from retinue.security import restrictions_from_data

PERMITTED = st.sampled_from(["fs.read", "fs.write", "fs.*", "fs.**", "**", "web.get"])


@rt.message
class Run(rt.Request[Any]):
    """A call of some tool."""

    target: str = ""
    more: Any = None


@rt.message
class Write(rt.Request[Any]):
    """A call of another tool, with the same arguments."""

    target: str = ""
    more: Any = None


@rt.message
class Go(rt.Request[Any]):
    """Open to all: does what its function says with the actor."""

    function: Callable[[Any], Any]


class Tool(rt.Actor):
    """Has effects, which it keeps in a list. It knows nothing of verdicts."""

    def __init__(self, effects: list[Any]) -> None:
        self.effects = effects

    @rt.handler(requires="fs.read")
    def read(self, message: Run) -> str:
        self.effects.append(message.target)
        return "done"

    @rt.handler(requires="fs.write", approval=True)
    def write(self, message: Write) -> str:
        self.effects.append(message.target)
        return "done"

    def helper(self) -> None:
        """No handler."""
        self.effects.append("helper")


class Agent(rt.Actor):
    @rt.handler
    async def go(self, message: Go) -> Any:
        return await message.function(self)


# -- a verdict that nobody enforces ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", ["again", "tell", "send", "forward", "a task", "pipe", "stash", "nursery", "another actor", "after a restart"]
)
async def test_t1_what_was_refused_has_no_effect_by_any_other_way_to_the_tool(how: str) -> None:
    effects: list[Any] = []
    async with rt.ActorSystem() as system:
        tool, agent, other = await system.spawn(Tool, effects), await system.spawn(Agent), await system.spawn(Agent)
        refused = Run("etc/passwd")

        async def retry(actor: Any) -> Any:
            assert isinstance(await error_of(tool.ask(refused)), rt.Denied)
            match how:
                case "again":
                    await error_of(tool.ask(refused))
                case "tell":
                    tool.tell(refused)
                case "send":
                    await tool.send(refused)
                case "forward":
                    actor.ctx.forward(tool, refused)
                case "a task":
                    actor.ctx.start_soon(error_of, tool.ask(refused))
                case "pipe":
                    actor.ctx.pipe_to_self(tool.ask(refused), then=lambda _: Go(_nothing), catch=lambda _: Go(_nothing))
                case "stash":
                    actor.ctx.unstash_all()
                    await error_of(tool.ask(refused))
                case "nursery":
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(error_of, tool.ask(refused))
                case "another actor":
                    await error_of(other.ask(Go(lambda _: error_of(tool.ask(refused)))))
                case "after a restart":
                    tool.tell(refused)
                    raise ValueError

        ada = system.authority.mint("ada", ["**", rt.deny("fs.read")])
        try:
            await error_of(agent.ask(Go(retry), context=ada))
        except ValueError:
            pass
        await system.wait_quiet()
        await trio.testing.wait_all_tasks_blocked()
        records = await system.audit.entries(kind="decision", allowed=False, operation="fs.read")
        assert len(records) == 2, "each attempt by itself"
    assert effects == []


async def _nothing(_: Any) -> None:
    pass


@pytest.mark.parametrize("verdict", ["denied", "asked by the handler", "asked by the context", "asked by a policy", "refused by a policy"])
async def test_t4_a_verdict_is_no_advice_the_tool_is_not_reached(verdict: str) -> None:
    effects: list[Any] = []

    @rt.policy(operations=["fs.read"])
    def asks(_: Any) -> Any:
        return rt.Verdict.ask("a person should look") if verdict == "asked by a policy" else rt.Verdict.refuse("no")

    policies = [asks] if "policy" in verdict else []
    async with rt.ActorSystem(policies=policies) as system:
        tool = await system.spawn(Tool, effects)
        restriction = {"denied": [rt.deny("fs.**")], "asked by the context": [rt.needs_approval("fs.**")]}.get(verdict, [])
        context = system.authority.mint("ada", ["**", *restriction])
        message = Write("a") if verdict == "asked by the handler" else Run("a")
        expected = rt.ApprovalRequired if "asked" in verdict else rt.Denied
        assert type(await error_of(tool.ask(message, context=context))) is expected
        tool.tell(message, context=context)
        await system.wait_quiet()
        assert system.dead_letters.counts["denied"] == 1
    assert effects == []


@pytest.mark.parametrize("approval", [True, {"approved": True}, b"token", object(), 1])
async def test_t5_t7_what_is_no_text_is_not_even_sent_as_consent(approval: Any) -> None:
    effects: list[Any] = []
    async with rt.ActorSystem() as system:
        tool = await system.spawn(Tool, effects)
        for approvals in ([approval], approval, ["a token", approval], (approval,)):
            for way in (lambda given: tool.ask(Write("a"), approvals=given), lambda given: tool.send(Write("a"), approvals=given)):
                assert isinstance(await error_of(way(approvals)), rt.DefinitionError)
            with pytest.raises(rt.DefinitionError):
                tool.tell(Write("a"), approvals=approvals)
        assert await system.audit.entries(operation="fs.write") == ()
    assert effects == []


@pytest.mark.parametrize("approval", ["approved", "fs.write", "", "rta1.x.y", "rta1." + "A" * 300 + "." + "A" * 86])
async def test_t5_t7_nothing_that_comes_with_a_message_is_consent(approval: Any) -> None:
    """Not a peer's word, not an identifier that was used before, not an object of the right look."""
    effects: list[Any] = []
    async with rt.ActorSystem() as system:
        tool, agent = await system.spawn(Tool, effects), await system.spawn(Agent)
        first = await error_of(tool.ask(Write("a")))
        assert isinstance(first, rt.ApprovalRequired)
        for approvals in ([approval], [first.request.id], [approval, approval]):
            assert isinstance(await error_of(tool.ask(Write("a"), approvals=approvals)), rt.ApprovalRequired)
            inside = Go(lambda _, approvals=approvals: error_of(tool.ask(Write("a"), approvals=approvals)))
            assert isinstance(await agent.ask(inside), rt.ApprovalRequired)
        records = await system.audit.entries(operation="fs.write")
        assert [entry.allowed for entry in records] == [False] * 7
    assert effects == []


async def test_t2_what_is_edited_to_another_operation_is_refused() -> None:
    effects: list[Any] = []

    @rt.policy(operations=["fs.read"])
    def edits(call: Any) -> Any:
        return rt.Verdict.rewrite(Write(call.message.target))

    async with rt.ActorSystem(policies=[edits]) as system:
        tool = await system.spawn(Tool, effects)
        error = await error_of(tool.ask(Run("a")))
        assert error.reason == "policy"
        assert "Error" not in str(error), "it is the rewriting that is refused"
    assert effects == []


async def test_t26_a_tool_is_reached_by_its_gated_handlers_alone() -> None:
    effects: list[Any] = []
    async with rt.ActorSystem(strict=True) as system:
        tool = await system.spawn(Tool, effects)
        nobody = system.authority.mint("ada", [])
        for name in ("helper", "read", "write", "effects", "actor", "_actor"):
            assert not hasattr(tool, name)
        assert isinstance(await error_of(tool.ask(Run("a"), context=nobody)), rt.Denied)
        assert isinstance(await error_of(tool.ask(Go(_nothing), context=nobody)), rt.Unhandled)
        with pytest.raises(rt.DefinitionError, match="requires"):
            await system.spawn(Agent)
    assert effects == []


# -- strings that were matched before they were parsed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern", ["cd *", "cd:*", "cd x && y", "fs.read;fs.write", "fs.r*", "fs.(read|write)", "fs.[rw]*", "fs.read\n", "fs.**.x", "*.", ".*"]
)
def test_t8_a_pattern_is_no_string_of_a_shell_and_no_regular_expression(pattern: str) -> None:
    authority = rt.ActorSystem().authority
    for make in (rt.allow, rt.deny, rt.needs_approval, lambda one: authority.mint("ada", [one]), lambda one: authority.root.narrow(one)):
        with pytest.raises(rt.PatternError):
            make(pattern)


@pytest.mark.parametrize(
    "operation", ["fs.read.all", "fs", "fs.reads", "Fs.read", "fs.read2", "sudo.fs.read", "env.fs.read", "fs.readwrite"]
)
def test_t10_an_operation_that_nobody_named_is_refused_whatever_it_wraps(operation: str) -> None:
    context = rt.ActorSystem().authority.mint("ada", ["fs.read", rt.allow("fs.read", "fs.*.own")])
    assert context.allows("fs.read")
    assert not context.allows(operation)


@pytest.mark.parametrize("star", ["*", "**", "fs.*", "re*", "?", "[a-z]", ".*", "%"])
async def test_t11_a_star_in_a_value_that_was_stored_is_a_star(star: str, tmp_path: Path) -> None:
    effects: list[Any] = []
    (tmp_path / "policy.toml").write_text(
        f'version = 1\n[[rule]]\noperations = ["fs.read"]\narguments = {{ target = {{ one_of = [{json.dumps(star)}] }} }}\nverdict = "allow"\n',
        encoding="utf-8",
    )
    async with rt.ActorSystem(policies=[rt.policy_from_file(tmp_path / "policy.toml")]) as system:
        tool = await system.spawn(Tool, effects)
        authority = system.authority
        typed = authority.root.narrow(rt.where("fs.read", target=rt.one_of(star)))
        stored = authority.root.narrow(*restrictions_from_data(json.loads(json.dumps(typed.permissions.to_data()))))
        sealer = rt.Sealer(authority, rt.KeyRing.generate())
        for context in (None, typed, stored, sealer.unseal(sealer.seal(typed, expires_seconds=60))):
            for other in ("read", "fs.read", "r", "anything", f"{star}x", ""):
                assert isinstance(await error_of(tool.ask(Run(other), context=context)), rt.Denied)
            assert await tool.ask(Run(star), context=context) == "done"
    assert effects == [star] * 4


URLS = [
    "https://evil.tld/?a=.example.com/",
    "https://docs.example.com.evil.tld/",
    "https://example.com:80@127.0.0.1/",
    "https://example.com@evil.tld/",
    "https://evil.tld\\@example.com/",
    "https://example.com\t.evil.tld/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://[::ffff:127.0.0.1]/",
    "http://example.com/",
    "https://example.com:8443/",
    "https://notexample.com/",
    "https://exаmple.com/",
    "https://example.com%2eevil.tld/",
    "//example.com/",
    "example.com",
]


@pytest.mark.parametrize("url", URLS, ids=ascii)
async def test_t13_a_host_is_compared_after_the_url_was_read_and_before_the_tool_sees_it(url: str) -> None:
    effects: list[Any] = []
    async with rt.ActorSystem() as system:
        tool = await system.spawn(Tool, effects)
        for restriction in (
            rt.allow("fs.read", target=rt.host("example.com", "*.example.com")),
            rt.where("fs.*", target=rt.host("example.com")),
        ):
            context = system.authority.mint("ada", ["**", restriction])
            assert (await error_of(tool.ask(Run(url), context=context))).reason == "arguments"
            assert await tool.ask(Run("https://example.com/x"), context=context) == "done"
    assert effects == ["https://example.com/x"] * 2


# -- authority of one side alone -----------------------------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(PERMITTED, max_size=2), st.lists(PERMITTED, max_size=2), st.lists(PERMITTED, max_size=2))
def test_t15_what_an_agent_delegates_is_bounded_by_both_and_by_who_asked(
    asker: list[str], delegate: list[str], tool_grant: list[str]
) -> None:
    effects: list[Any] = []

    async def main() -> Any:
        async with rt.ActorSystem(audit=False) as system:
            tool = await system.spawn(Tool, effects, grant=tool_grant)

            async def spawn_delegate(actor: Any) -> Any:
                child = await actor.ctx.spawn(Agent, grant=delegate)
                return await error_of(child.ask(Go(lambda _: error_of(tool.ask(Run("a"))))))

            agent = await system.spawn(Agent)
            return await agent.ask(Go(spawn_delegate), context=system.authority.mint("ada", asker))

    outcome = trio.run(main)
    permitted = all(any(one in ("fs.read", "fs.*", "fs.**", "**") for one in names) for names in (asker, delegate, tool_grant))
    assert (outcome == "done") is permitted
    assert effects == ["a"] * permitted


async def test_t18_each_block_of_a_token_counts_and_none_can_be_dropped_doubled_or_moved() -> None:
    async with rt.ActorSystem() as system:
        sealer = rt.Sealer(system.authority, rt.KeyRing.generate())
        token = sealer.seal(system.authority.mint("ada", ["fs.**"]), expires_seconds=60)
        narrow = rt.attenuate(rt.attenuate(token, rt.deny("fs.write")), rt.deny("fs.read"))
        context = sealer.unseal(narrow)
        assert not context.allows("fs.read")
        assert not context.allows("fs.write")
        parts = narrow.split(".")
        for position in range(len(parts)):
            for edited in (
                [*parts[:position], *parts[position + 1 :]],
                [*parts[:position], parts[position], *parts[position:]],
                [*parts[position:], *parts[:position]] if position else parts[::-1],
            ):
                with pytest.raises(rt.TokenError):
                    sealer.unseal(".".join(edited))


# -- checks and charges apart, defaults that allow -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ask", "tell", "both"])
async def test_t19_a_hundred_at_once_under_a_budget_of_ten_are_exactly_ten(how: str) -> None:
    effects: list[Any] = []
    async with rt.ActorSystem() as system:
        tools = [await system.spawn(Tool, effects) for _ in range(4)]
        budget = system.authority.mint("ada", ["**", rt.limit(calls=10)])
        siblings = [budget, budget.narrow(rt.limit(calls=8)), budget.narrow(rt.deny("fs.write"))]
        async with trio.open_nursery() as nursery:
            for number in range(100):
                tool, context = tools[number % 4], siblings[number % 3]
                if how == "ask" or (how == "both" and number % 2):
                    nursery.start_soon(error_of, tool.ask(Run(f"{number}"), context=context))
                else:
                    tool.tell(Run(f"{number}"), context=context)
        await system.wait_quiet()
        assert len(effects) == 10
        assert len(await system.audit.entries(kind="decision", allowed=False)) == 90
        assert not any(context.allows("fs.read") for context in siblings)


@pytest.mark.parametrize(
    "content", [None, "", "version = 1\n", "rule = []", "{", "version = 1\n[[rule]]\noperations = ['**']\n", "\x00", "version = 2\n"]
)
async def test_t21_without_a_policy_that_can_be_read_nothing_is_permitted(content: str | None, tmp_path: Path) -> None:
    effects: list[Any] = []
    path = tmp_path / "policy.toml"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    async with rt.ActorSystem(policies=[rt.policy_from_file(path)]) as system:
        tool = await system.spawn(Tool, effects)
        assert (await error_of(tool.ask(Run("a")))).reason == "policy"
    assert effects == []


@pytest.mark.parametrize(
    "path",
    [
        "reports_evil/a",
        "reports/../secret",
        "reports/./../secret",
        "/etc/passwd",
        "reports//..//secret",
        "reports/%2e%2e/secret",
        "reports",
        "",
    ],
)
async def test_t24_a_sibling_and_a_way_up_are_not_within_a_folder(path: str) -> None:
    effects: list[Any] = []
    async with rt.ActorSystem() as system:
        tool = await system.spawn(Tool, effects, grant=["**", rt.where("fs.read", target=rt.within("reports/"))])
        assert (await error_of(tool.ask(Run(path)))).reason == "arguments"
        assert await tool.ask(Run("reports/a")) == "done"
    assert effects == ["reports/a"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
async def test_t24_a_link_in_the_folder_does_not_lead_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (tmp_path / "reports" / "link").symlink_to("../secret")
    os.link(tmp_path / "secret", tmp_path / "reports" / "hard")

    class Reader(rt.Actor):
        @rt.handler(requires="fs.read")
        def read(self, message: Run) -> str:
            with rt.open_beneath(tmp_path, message.target, "r", encoding="utf-8") as file:
                return file.read()

    async with rt.ActorSystem() as system:
        reader = await system.spawn(Reader, grant=["**", rt.where("fs.read", target=rt.within("reports/"))])
        for name in ("reports/link", "reports/hard"):
            assert isinstance(await error_of(reader.ask(Run(name))), rt.GuardRefused), (
                "the check of the text permits it; the opening does not"
            )
