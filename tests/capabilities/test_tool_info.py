"""Functions that describe themselves by `tool_info`, as LightAgent has them; and looking tools over."""

from __future__ import annotations

import json
from typing import Any

import pytest

import retinue as rt
from retinue.capabilities.snapshots import arguments_of, own_copy_and_arguments
from retinue.capabilities.tools import tool_of


def described(function: Any, *params: dict[str, Any], **info: Any) -> Any:
    function.tool_info = {"tool_name": "find", "tool_description": "Finds.", "tool_params": list(params), **info}
    return function


def find(query, limit=3):  # type: ignore[no-untyped-def]
    return query, limit


QUERY = {"name": "query", "type": "str", "description": "What to find", "required": True}


def test_what_it_says_of_itself_is_the_tool() -> None:
    function = described(
        lambda query, limit=3: (query, limit),
        QUERY,
        {"name": "limit", "type": "integer", "description": "How many", "required": False, "minimum": 1, "maximum": 9},
    )
    (tool,) = tool_of(function)
    assert (tool.name, tool.description) == ("find", "Finds.")
    assert json.loads(tool.parameters) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to find"},
            "limit": {"type": "integer", "description": "How many", "minimum": 1, "maximum": 9},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert tool.invoke(tool.decode('{"query": "x"}')) == ("x", 3)
    assert tool.invoke(tool.decode('{"query": "x", "limit": "4"}')) == ("x", 4)
    with pytest.raises(rt.BadArguments, match="limit: expected an integer, at least 1, at most 9, got the number 12"):
        tool.decode('{"query": "x", "limit": 12}')


def test_what_stands_beside_the_four_keys_is_kept_and_checked() -> None:
    function = described(
        lambda query: query,
        {
            "name": "query",
            "type": "array",
            "description": "d",
            "required": True,
            "items": {
                "type": "dict",
                "properties": {"unit": {"type": "str", "enum": ["km", "mi"]}},
                "required": ["unit"],
                "additionalProperties": False,
            },
            "maxItems": 2,
        },
    )
    (tool,) = tool_of(function)
    assert json.loads(tool.parameters)["properties"]["query"]["items"]["type"] == "object"
    assert tool.invoke(tool.decode({"query": [{"unit": "km"}]})) == [{"unit": "km"}]
    for wrong, place in (
        ([{"unit": "m"}], "query[0].unit"),
        ([{}], "query[0].unit"),
        ([{"unit": "km", "x": 1}], "query[0].x"),
        ([1, 2, 3], "query[0]"),
    ):
        with pytest.raises(rt.BadArguments) as caught:
            tool.decode({"query": wrong})
        assert caught.value.problems[0].where == place


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("string", "x", 1.0j),
        ("int", 3, True),
        ("integer", 3, 2.5),
        ("float", 2.5, "x"),
        ("number", 3, None),
        ("bool", True, 1),
        ("list", [1], {}),
        ("array", [], "a, b"),
        ("dict", {}, []),
        ("object", {"a": 1}, "x"),
        (["string", "null"], None, 3.5j),
    ],
)
def test_types_may_be_called_as_lightagent_calls_them(name: Any, good: Any, bad: Any) -> None:
    (tool,) = tool_of(described(lambda query: query, {"name": "query", "type": name, "description": "", "required": True}))
    assert tool.invoke(tool.decode({"query": good})) == good
    with pytest.raises(rt.BadArguments, match="query"):
        tool.decode({"query": bad})


def test_a_parameter_that_no_field_can_be_called_by_is_seen_by_its_name() -> None:
    def search(**options: Any) -> Any:
        return options

    (tool,) = tool_of(
        described(
            search,
            {"name": "max-results", "type": "integer", "description": "", "required": True},
            {"name": "class", "type": "string", "description": "", "required": False},
            {"name": "max_results", "type": "string", "description": "", "required": False},
        )
    )
    message = tool.decode({"max-results": 3, "class": "a"})
    assert tool.invoke(message) == {"max-results": 3, "class": "a"}  # what was not said is not given
    wanted = {"max-results": 3, "class": "a", "max_results": None}
    assert arguments_of(message) == wanted
    assert own_copy_and_arguments(message)[1] == wanted
    assert tool.call(message) == {"max-results": 3, "class": "a"}
    with pytest.raises(rt.BadArguments, match=r"max-results: expected an integer, got nothing"):
        tool.decode({"class": "a"})


async def test_constraints_go_by_such_a_name_too() -> None:
    def search(**options: Any) -> Any:
        return options

    (tool,) = tool_of(described(search, {"name": "max-results", "type": "integer", "description": "", "required": True}))
    async with rt.ActorSystem("tools") as system:
        ada = system.authority.mint("ada", [rt.allow("tool.find", **{"max-results": rt.at_most(3)})])
        assert ada.allows("tool.find", tool.decode({"max-results": 3}))
        assert not ada.allows("tool.find", tool.decode({"max-results": 4}))


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ([{**QUERY, "type": "strng"}], "parameter 'query' is of type 'strng', which nobody knows (did you mean 'string'?)"),
        ([{**QUERY, "type": "array", "items": {"type": "thing"}}], "'thing', which nobody knows"),
        ([{**QUERY, "required": "yes"}], "'required' of its parameter 'query' is True or False, not 'yes'"),
        ([QUERY, QUERY], "'query' twice"),
        ([{"type": "string"}], "tool_params[0]"),
        (["query"], "tool_params[0]"),
        ([QUERY, {**QUERY, "name": "other"}], "'other', which the function does not take. It takes query, limit"),
        ([{**QUERY, "name": "limit"}], "the function takes 'query', which has no default"),
        ([{**QUERY, "enum": []}], "parameter 'query' is an enum"),
    ],
)
def test_what_it_says_and_cannot_be_is_refused_with_tool_and_parameter(params: list[Any], part: str) -> None:
    with pytest.raises(rt.DefinitionError) as caught:
        tool_of(described(find, *params))
    assert part in str(caught.value)
    assert "the tool 'find'" in str(caught.value)


def test_a_parameter_without_a_default_is_required_whatever_is_said() -> None:
    (tool,) = tool_of(described(lambda query: query, {**QUERY, "required": False}))
    assert json.loads(tool.parameters)["required"] == ["query"]


def test_options_may_be_given_beside_it() -> None:
    tool = rt.tool(approval=True, name="search")(described(lambda query: query, QUERY))
    assert (tool.name, tool.approval, tool.requires) == ("search", True, "tool.search")


def test_looking_tools_over_tells_everything_at_once_and_changes_nothing() -> None:
    def untyped(query):  # type: ignore[no-untyped-def]
        return query

    def bare(query: str) -> str:
        return query

    @rt.tool(name="bare")
    def other(query: str) -> str:
        """Finds."""
        return query

    findings = rt.validate_tools([untyped, bare, other, bare, described(find, {**QUERY, "type": "strng"}), 3, "name"])
    assert [(one.tool, one.field, one.level) for one in findings] == [
        ("untyped", "query", "error"),
        ("bare", "description", "warning"),
        ("bare", "query", "warning"),
        ("bare", "name", "error"),
        ("bare", "name", "error"),
        ("find", "query", "error"),
        ("int", "", "error"),
        ("str", "", "error"),
    ]
    assert "given twice" in findings[4].text
    assert str(findings[0]).startswith("error: untyped, query: the tool 'untyped'")
    assert rt.validate_tools([]) == ()
