"""The tool registry: scopes, names, and what is chosen."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retinue as rt
from retinue.capabilities.registry_tools import SCOPES
from retinue.capabilities.tools import tools_of


def made(name: str, text: str = "") -> Any:
    @rt.tool(name=name)
    def function() -> str:
        """Says something."""
        return text

    return function


class Files:
    """A toolkit."""

    @rt.tool
    def read(self, path: str) -> str:
        """Reads."""
        return path

    @rt.tool
    def write(self, path: str) -> str:
        """Writes."""
        return path


def test_the_narrower_scope_wins() -> None:
    registry = rt.ToolRegistry([made("search", "default"), made("mail", "default")])
    registry.register(made("search", "runtime"), scope="runtime")
    registry.register(made("search", "of s1"), scope="session", owner="s1")
    registry.register(made("search", "of ada"), made("own"), scope="agent", owner="ada")

    def said(**where: Any) -> list[tuple[str, str]]:
        return [(one.name, one()) for one in registry.tools(**where)]

    assert said() == [("search", "runtime"), ("mail", "default")]
    assert said(session="s1") == [("search", "of s1"), ("mail", "default")]
    assert said(session="s2") == said()
    assert said(session="s1", agent="ada") == [("search", "of ada"), ("mail", "default"), ("own", "")]
    assert registry.find("search", session="s1")() == "of s1"
    assert [(entry.scope, entry.owner) for entry in registry.entries()] == [
        ("default", None), ("default", None), ("runtime", None), ("session", "s1"), ("agent", "ada"), ("agent", "ada"),
    ]  # fmt: skip
    assert len(registry) == 6 and "own" not in registry and "mail" in registry


def test_equal_names_in_one_scope_are_an_error_and_nothing_is_registered_then() -> None:
    registry = rt.ToolRegistry([made("search")])
    with pytest.raises(
        rt.DefinitionError, match=r"a tool 'search' is in the scope 'default' already: .*test_tool_registry.* Remove the first"
    ):
        registry.register(made("mail"), made("search"))
    with pytest.raises(rt.DefinitionError, match="two tools are called 'x'"):
        registry.register(made("x"), made("x"), scope="runtime")
    assert len(registry) == 1
    registry.register(made("search"), scope="session", owner="s1")
    registry.register(made("search"), scope="session", owner="s2")
    with pytest.raises(rt.DefinitionError, match="of 's1' a tool 'search'"):
        registry.register(made("search"), scope="session", owner="s1")


def test_tools_go_one_by_one_and_with_their_owner() -> None:
    registry = rt.ToolRegistry([made("search")])
    registry.register(made("a"), made("b"), scope="session", owner="s1")
    assert registry.remove("a", scope="session", owner="s1") and not registry.remove("a", scope="session", owner="s1")
    assert registry.forget("session", "s1") == 1 and registry.forget("session", "s1") == 0
    assert registry.remove("search") and registry.tools() == ()
    registry.register(made("search"))
    assert len(registry) == 1


def test_scopes_and_owners_go_together() -> None:
    registry = rt.ToolRegistry()
    for options in (
        {"scope": "session"},
        {"scope": "agent", "owner": ""},
        {"owner": "ada"},
        {"scope": "runtime", "owner": "ada"},
        {"scope": "world"},
    ):
        with pytest.raises(rt.DefinitionError):
            registry.register(made("x"), **options)  # type: ignore[arg-type]
    with pytest.raises(rt.DefinitionError):
        registry.register(5)
    assert len(registry) == 0 and SCOPES == ("default", "runtime", "session", "agent")


def test_toolkits_are_several_tools_and_found_by_both_names() -> None:
    registry = rt.ToolRegistry([Files()])
    assert registry.find("Files.read") is registry.find("Files__read")
    with pytest.raises(rt.DefinitionError, match=r"there is no tool 'Files.raed'\. Did you mean 'Files.read'"):
        registry.find("Files.raed")
    with pytest.raises(rt.DefinitionError, match=r"there is no tool 'x'\. There are Files.read, Files.write\."):
        registry.find("x")
    with pytest.raises(rt.DefinitionError, match="There are none"):
        rt.ToolRegistry().find("x")


def test_some_are_chosen_by_names_or_by_a_models_answer() -> None:
    registry = rt.ToolRegistry([made("search"), made("Mail"), Files()])

    def names(wanted: Any) -> list[str]:
        return [one.name for one in registry.choose(wanted)]

    assert names(["Mail", "search", "Mail"]) == ["Mail", "search"]
    assert names('["SEARCH", "Files__read"]') == ["search", "Files.read"]
    assert names('```json\n{"tools": [{"name": "mail"}, "search"]}\n```') == ["Mail", "search"]
    assert names("[]") == [] and names([]) == []
    for wrong in ("search", 'sure: ["search"]', "{}", '{"tools": "search"}', "[" * 100_000, "null"):
        with pytest.raises(rt.DefinitionError, match="chosen by a list of names"):
            registry.choose(wrong)
    for unknown in (["serch"], '["serch"]', '[{"nome": "search"}]', [5]):
        with pytest.raises(rt.DefinitionError):
            registry.choose(unknown)  # type: ignore[arg-type]


def test_names_that_differ_in_case_only_have_to_be_exact() -> None:
    registry = rt.ToolRegistry([made("mail"), made("Mail")])
    assert [one.name for one in registry.choose(["Mail"])] == ["Mail"]
    with pytest.raises(rt.DefinitionError, match="Did you mean"):
        registry.choose(["MAIL"])


def test_an_agent_takes_it_for_the_tools_in_it() -> None:
    registry = rt.ToolRegistry([made("search")])
    registry.register(made("secret"), scope="session", owner="s1")
    assert [one.name for one in tools_of([registry, made("more")])] == ["search", "more"]


def test_it_is_used_from_many_threads() -> None:
    registry = rt.ToolRegistry()
    tools = {name: [made(f"{name}{number}") for number in range(30)] for name in "abc"}

    def work(name: str) -> None:
        for one in tools[name]:
            registry.register(one, scope="session", owner=name)
            assert registry.find(one.name, session=name) is one

    threads = [threading.Thread(target=work, args=(name,)) for name in tools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry) == 90


@given(st.lists(st.tuples(st.sampled_from(SCOPES), st.sampled_from(["o1", "o2"]), st.sampled_from("xyz")), max_size=12))
def test_what_is_there_is_what_the_narrowest_scope_says(steps: list[tuple[Any, str, str]]) -> None:
    registry = rt.ToolRegistry()
    model: dict[tuple[Any, Any], dict[str, Any]] = {}
    for scope, who, name in steps:
        owner = who if scope in ("session", "agent") else None
        one, there = TOOLS[scope, who, name], model.setdefault((scope, owner), {})
        if name in there:
            with pytest.raises(rt.DefinitionError):
                registry.register(one, scope=scope, owner=owner)
        else:
            registry.register(one, scope=scope, owner=owner)
            there[name] = one
    for session, agent in (("o1", "o2"), ("o2", None), (None, None)):
        wanted: dict[str, Any] = {}
        for place in (("default", None), ("runtime", None), ("session", session), ("agent", agent)):
            if place[0] in ("default", "runtime") or place[1] is not None:
                wanted.update(model.get(place, {}))
        assert {one.name: one for one in registry.tools(session=session, agent=agent)} == wanted


TOOLS = {(scope, who, name): made(name) for scope in SCOPES for who in ("o1", "o2") for name in "xyz"}
