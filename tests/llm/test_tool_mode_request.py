"""The form that replies are held to: what of a tool's schema a grammar can take."""

from __future__ import annotations

import json

import attrs
import pytest

import retinue as rt
from retinue import llm
from retinue.actors.llm.tool_mode_request import has_tools, reply_schema, rewritten


def arguments_of(parameters, firmness="exact"):
    schema = json.loads(reply_schema((llm.ToolSpec("it", "", json.dumps(parameters)),), False, None, firmness))
    return schema["properties"]["arguments"], schema.get("$defs", {})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"type": "string", "pattern": "(?=a)b", "description": "text", "title": "T", "default": "b"}, {"type": "string"}),
        ({"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 5000, "uniqueItems": True}, {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2}),
        ({"anyOf": [{"type": "null"}, True, {"enum": ["a"]}], "not": {}}, {"anyOf": [{"type": "null"}, {}, {"enum": ["a"]}]}),
        ({"type": "object", "additionalProperties": {"type": "integer"}, "patternProperties": {"x": {}}}, {"type": "object", "additionalProperties": {"type": "integer"}}),
        ({"type": "object", "additionalProperties": False, "if": {}, "then": {}}, {"type": "object", "additionalProperties": False}),
    ],
    ids=["string", "array", "union", "mapping", "condition"],
)  # fmt: skip
def test_what_no_grammar_holds_is_left_to_the_reading_of_the_arguments(given, kept):
    form, _ = arguments_of({"type": "object", "properties": {"pattern": given}, "required": ["pattern"]})
    assert form == {"type": "object", "properties": {"pattern": kept}, "required": ["pattern"], "additionalProperties": False}


def test_an_object_is_closed_so_that_no_names_are_invented_unless_others_are_allowed_or_come_from_elsewhere():
    one, two = ({"type": "object", "properties": {name: {"type": "string"}}} for name in "ab")
    for schema in ({"allOf": [one, two]}, {**one, "anyOf": [two]}, {**one, "additionalProperties": True}):
        assert arguments_of({"type": "object", "properties": {"x": schema}})[0]["properties"]["x"] == schema
    closed = arguments_of({"type": "object", "properties": {"x": {"anyOf": [one, two]}}})[0]
    assert closed["additionalProperties"] is False
    assert [each["additionalProperties"] for each in closed["properties"]["x"]["anyOf"]] == [False, False]


def test_references_of_two_tools_and_an_answer_do_not_meet():
    def tree(kind):
        node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}, "is": {"type": kind}}}
        return json.dumps({"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})

    tools = (llm.ToolSpec("a", "", tree("string")), llm.ToolSpec("b", "", tree("integer")))
    schema = json.loads(reply_schema(tools, True, llm.OutputSpec("c", tree("boolean")), "exact"))
    found = {}

    def follow(value):
        for name in value["$ref"].removeprefix("#/").split("/"):
            schema_at[0] = schema_at[0][name]
        return schema_at[0]

    for form in schema["anyOf"]:
        schema_at = [schema]
        part = follow(form["properties"].get("arguments") or form["properties"]["answer"])
        schema_at = [schema]
        node = follow(part["properties"]["root"])
        schema_at = [schema]
        assert follow(node["properties"]["kids"]["items"]) == node
        found[form["properties"].get("tool", {}).get("const")] = node["properties"]["is"]["type"]
    assert found == {"a": "string", "b": "integer", None: "boolean"}


@pytest.mark.parametrize("levels", [300, 3_000])
def test_a_schema_that_is_deeper_than_python_goes_is_refused_or_any_object(levels):
    text = '{"type": "object", "properties": {"a": ' + '{"anyOf": [' * levels + "{}" + "]}" * levels + "}}"
    try:
        tool = llm.ToolSpec("it", "", text)
    except ValueError as error:  # Python 3.11 cannot even read so many levels
        assert levels == 3_000 and "no JSON" in str(error)  # noqa: PT017
        return
    properties = json.loads(reply_schema((tool,), False, None, "exact"))["properties"]
    assert properties["tool"] == {"const": "it"}
    assert properties["arguments"]["type"] == "object"


def test_the_name_of_the_tool_comes_before_its_arguments_so_that_it_is_known_while_they_come():
    text = reply_schema((llm.ToolSpec("it"),), True, None, "exact")
    assert text.index('"tool"') < text.index('"arguments"')


def test_what_the_request_says_otherwise_stays_and_the_texts_to_stop_at_stand_within_json():
    tools = (llm.ToolSpec("it"),)
    request = llm.Complete.of("hi", max_tokens=9, temperature=0.5, stop=('\n"x', "é"), seed=7, tools=tools)
    request = attrs.evolve(request, reasoning_effort="low", extra='{"top_k": 1}', parallel_tool_calls=True)
    asked = rewritten(request, "exact")
    assert (asked.max_tokens, asked.temperature, asked.seed, asked.reasoning_effort, asked.extra) == (9, 0.5, 7, "low", '{"top_k": 1}')
    assert asked.stop == ('\\n\\"x', "é")
    assert (asked.tools, asked.tool_choice, asked.parallel_tool_calls) == ((), None, None)
    assert rewritten(request, "exact") == asked


def test_a_longer_conversation_begins_as_the_shorter_one_did_so_that_a_servers_cache_finds_it():
    tools = (llm.ToolSpec("it"),)
    talk = (llm.ChatMessage("user", "hi"),)
    longer = (*talk, llm.ChatMessage("assistant", "", (llm.ToolCall("1", "it"),)), llm.ChatMessage("tool", "so", tool_call_id="1"))
    short, long = (rewritten(llm.Complete(messages, tools=tools), "exact").messages for messages in (talk, longer))
    assert long[: len(short)] == short


def test_only_requests_with_tools_or_calls_in_them_are_rewritten():
    call = llm.ToolCall("1", "it")
    assert not has_tools(llm.Complete.of("hi"))
    assert has_tools(llm.Complete.of("hi", tools=(llm.ToolSpec("it"),)))
    assert has_tools(llm.Complete((llm.ChatMessage("user", "hi"), llm.ChatMessage("assistant", "", (call,)))))


async def test_the_embedded_model_takes_only_the_two_ways_to_tell_of_tools():
    async with rt.ActorSystem() as system:
        with pytest.raises(ValueError, match='give "schema", or "native"'):
            await system.spawn(llm.Local, tools="grammar")
