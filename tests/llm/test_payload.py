"""The same request is the same bytes, everything in it is valid at the endpoint, and nothing is escaped that need not be."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.actors.llm.errors import ModelRefused
from retinue.actors.llm.messages import ChatMessage, Complete, OutputSpec, ToolCall, ToolSpec
from retinue.actors.llm.payload import Payloads
from retinue.actors.llm.profiles.catalogue import PROFILES
from retinue.actors.llm.profiles.generic import GENERIC
from retinue.actors.llm.profiles.profile import Profile

READ = ToolSpec("Files.read", "Reads a file.", '{"type": "object", "properties": {"path": {"type": "string"}}}', strict=True)
NOW = ToolSpec("now")
FORM = OutputSpec("weather report", '{"type": "object"}', strict=True)


def user(text):
    return ChatMessage("user", text)


def written(request, profile=GENERIC, *, stream=False, without=frozenset()):
    profile = PROFILES[profile] if isinstance(profile, str) else profile
    return json.loads(Payloads(profile, "m").body(request, stream=stream, without=frozenset(without)))


def entries(messages, profile=GENERIC, **more):
    return written(Complete(messages), profile, **more)["messages"]


def turn(*calls, text="", reasoning=None):
    made = tuple(ToolCall(f"c{number}", name, arguments) for number, (name, arguments) in enumerate(calls))
    results = [ChatMessage("tool", "done", tool_call_id=call.id, name=call.name) for call in made]
    return [ChatMessage("assistant", text, made, reasoning=reasoning), *results]


def test_a_request_says_only_what_was_asked():
    assert written(Complete.of("hello")) == {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def test_everything_that_was_asked_is_said():
    request = Complete(
        [ChatMessage("system", "Be kind."), user("hello")],
        max_tokens=5, temperature=0.5, stop=("END",), seed=7, reasoning_effort="low", parallel_tool_calls=False, tools=(NOW,), tool_choice="required",
        extra='{"top_p": 0.1}',
    )  # fmt: skip
    assert written(request, stream=True) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}],
        "max_tokens": 5,
        "temperature": 0.5,
        "stop": ["END"],
        "seed": 7,
        "reasoning_effort": "low",
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stream": True,
        "stream_options": {"include_usage": True},
        "top_p": 0.1,
        "tools": [{"type": "function", "function": {"name": "now", "description": "", "parameters": json.loads(NOW.parameters)}}],
    }
    assert written(request.as_stream(), stream=True) == written(request, stream=True)


def test_characters_are_sent_as_they_are_and_half_ones_replaced():
    body = Payloads(GENERIC, "m").body(Complete.of("Grüße, 世界 \ud83d!"), stream=False)
    assert "Grüße, 世界 \ufffd!".encode() in body


def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter():
    payloads = Payloads(GENERIC, "m")
    talk = [ChatMessage("system", "Be kind."), user("hello")]
    shorter = payloads.body(Complete(talk, tools=(NOW, READ), max_tokens=5), stream=True)
    longer = payloads.body(Complete([*talk, *turn(("now", "{}"))], tools=(NOW, READ), max_tokens=5), stream=True)
    again = Payloads(GENERIC, "m").body(Complete(talk, tools=(NOW, READ), max_tokens=5), stream=True)
    assert shorter == again
    head = shorter[: shorter.index(b'],"max_tokens"')]
    assert longer.startswith(head + b",")
    assert longer.split(b'"tools":')[1] == shorter.split(b'"tools":')[1]


def test_names_that_are_not_legal_are_translated_both_ways():
    tools = (READ, ToolSpec("Files_read"), ToolSpec("a" * 70), ToolSpec("wetter-für"), ToolSpec("wetter-fär"))
    request = Complete([user("x"), *turn(("Files.read", "{}"), ("gone!", "{}"))], tools=tools, tool_choice="Files.read")
    payloads = Payloads(GENERIC, "m")
    body = json.loads(payloads.body(request, stream=False))
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert len(set(names)) == 5
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() and name.isascii() for name in names)
    assert [payloads.names(request).get(name, name) for name in names] == [tool.name for tool in tools]
    assert body["tool_choice"]["function"]["name"] == names[0] == "Files_read_2"
    assert [call["function"]["name"] for call in body["messages"][1]["tool_calls"]] == ["Files_read_2", "gone_"]
    assert payloads.names(Complete.of("x")) == {}


@pytest.mark.parametrize(("profile", "content"), [("generic", ""), ("openai", None), (Profile(name="x", empty_content="omit"), ...)])
def test_an_entry_that_only_calls_tools_has_the_text_that_the_endpoint_takes(profile, content):
    entry = entries([user("x"), *turn(("now", "{}"))], profile)[1]
    assert entry.get("content", ...) == content
    assert entries([user("x"), *turn(("now", "{}"), text="Wait.")], profile)[1]["content"] == "Wait."


def test_broken_arguments_of_earlier_calls_are_valid_json_when_they_are_sent_back():
    for broken in ('{"a": ', '{"t": NaN}', "", "nonsense", "[1]"):
        call = entries([user("x"), *turn(("now", broken))])[1]["tool_calls"][0]
        assert json.loads(call["function"]["arguments"]) == {"INVALID_JSON": broken}
    assert entries([user("x"), *turn(("now", '{"a":  1}'))])[1]["tool_calls"][0]["function"]["arguments"] == '{"a":  1}'


def test_ids_have_the_length_that_the_endpoint_takes():
    talk = [user("x"), *turn(("now", "{}"), ("now", "{}"))]
    _, said, *results = entries(talk, "mistral")
    ids = [call["id"] for call in said["tool_calls"]]
    assert [result["tool_call_id"] for result in results] == ids
    assert len(set(ids)) == 2
    assert all(len(each) == 9 and each.isalnum() and each.isascii() for each in ids)
    assert entries(talk, "mistral") == entries(talk, "mistral")
    kept = [user("x"), ChatMessage("assistant", "", (ToolCall("aB3aB3aB3", "now"),)), ChatMessage("tool", "", tool_call_id="aB3aB3aB3")]
    assert entries(kept, "mistral")[1]["tool_calls"][0]["id"] == "aB3aB3aB3"


def test_reasoning_is_sent_back_to_who_wants_it():
    talk = [user("x"), *turn(("now", "{}"), reasoning="Hm."), ChatMessage("assistant", "Now.", reasoning="Ah.")]
    assert all("reasoning_content" not in entry for entry in entries(talk))
    calling, _, speaking = entries(talk, "deepseek")[1:]
    assert (calling["reasoning_content"], "reasoning_content" in speaking) == ("Hm.", False)
    assert entries(talk, "openrouter")[1]["reasoning"] == "Hm."
    assert entries(talk, attrs.evolve(GENERIC, send_back_reasoning="field"))[3]["reasoning_content"] == "Ah."
    assert entries(talk, attrs.evolve(GENERIC, send_back_reasoning="tags"))[3]["content"] == "<think>\nAh.\n</think>\n\nNow."


def test_where_there_is_no_role_for_instructions_they_stand_before_the_users_text():
    nobody = attrs.evolve(GENERIC, instructions_role="user")
    talk = [
        ChatMessage("system", "Be kind."),
        ChatMessage("system", "Be brief."),
        user("hello"),
        ChatMessage("assistant", "Hi."),
        ChatMessage("system", "Now shout."),
    ]
    assert entries(talk, nobody) == [
        {"role": "user", "content": "Be kind.\n\nBe brief.\n\nhello"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Now shout."},
    ]
    assert entries([ChatMessage("system", "Be kind."), ChatMessage("assistant", "Hi.")], nobody)[0] == {
        "role": "user",
        "content": "Be kind.",
    }
    assert entries(talk, attrs.evolve(GENERIC, instructions_role="developer"))[0]["role"] == "developer"
    assert entries(talk, attrs.evolve(GENERIC, instructions_role="developer"), without={"developer"})[0]["role"] == "system"


def test_where_roles_have_to_alternate_neighbours_are_joined():
    talk = [user("a"), user("b"), ChatMessage("assistant", "c"), ChatMessage("assistant", "d"), *turn(("now", "{}"), ("now", "{}"))]
    found = entries(talk, attrs.evolve(GENERIC, alternates=True))
    assert [(entry["role"], entry["content"]) for entry in found[:2]] == [("user", "a\n\nb"), ("assistant", "c\n\nd")]
    assert [entry["role"] for entry in found[2:]] == ["assistant", "tool", "tool"]


def test_names_of_speakers_go_to_who_takes_them():
    talk = [ChatMessage("user", "hello", name="Ada Lovelace")]
    assert "name" not in entries(talk)[0]
    assert entries(talk, "openai")[0]["name"] == "Ada_Lovelace"
    assert "name" not in entries(talk, "openai", without={"name"})[0]


def test_a_form_is_asked_for_in_the_way_that_the_endpoint_knows():
    request = Complete.of("x", output=FORM)
    form = {"type": "json_schema", "json_schema": {"name": "weather_report", "schema": {"type": "object"}, "strict": True}}
    assert written(request, "openai")["response_format"] == form
    assert "strict" not in written(request, "openai", without={"strict"})["response_format"]["json_schema"]
    assert "strict" not in written(request, "vllm")["response_format"]["json_schema"]
    for profile, kept in (("deepseek", {"type": "json_object"}), (attrs.evolve(GENERIC, output="prompt"), None)):
        body = written(request, profile)
        assert body.get("response_format") == kept
        assert '{"type": "object"}' in body["messages"][0]["content"] and "JSON" in body["messages"][0]["content"]
        assert [entry["role"] for entry in body["messages"]] == ["system", "user"]
    said = written(Complete.of("x", system="Be kind.", output=FORM), "deepseek")["messages"][0]["content"]
    assert said.startswith("Be kind.\n\n")


def test_a_form_beside_tools_is_asked_for_in_words_where_it_would_keep_the_model_from_calling():
    request = Complete.of("x", output=FORM, tools=(NOW,))
    assert "response_format" in written(request, "openai")
    for profile in ("generic", "vllm", "ollama", "qwen"):
        body = written(request, profile)
        assert "response_format" not in body
        assert '{"type": "object"}' in body["messages"][0]["content"]
        assert "response_format" in written(Complete.of("x", output=FORM), profile)


def test_a_choice_of_tools_is_said_in_the_endpoints_words():
    def choice(profile, word):
        return written(Complete([user("x")], tools=(NOW,), tool_choice=word), profile)["tool_choice"]

    named = {"type": "function", "function": {"name": "now"}}
    assert [choice("generic", word) for word in ("auto", "none", "required", "now")] == ["auto", "none", "required", named]
    assert (choice("mistral", "required"), choice("qwen", "required"), choice("glm", "now")) == ("any", "auto", "auto")
    assert "tool_choice" not in written(Complete([user("x")], tool_choice="none"))


@pytest.mark.parametrize(
    ("without", "gone"),
    [
        ("stream_options", "stream_options"),
        ("seed", "seed"),
        ("reasoning_effort", "reasoning_effort"),
        ("parallel_tool_calls", "parallel_tool_calls"),
        ("max_tokens", "max_tokens"),
    ],
)
def test_what_an_endpoint_refused_is_left_out(without, gone):
    request = Complete([user("x")], seed=1, reasoning_effort="low", parallel_tool_calls=True, max_tokens=5, tools=(READ,))
    assert gone in written(request, stream=True)
    body = written(request, stream=True, without={without})
    assert gone not in body
    assert body.get("max_completion_tokens") == (5 if without == "max_tokens" else None)
    assert written(request)["tools"][0]["function"]["strict"] is True
    assert "strict" not in written(request, without={"strict"})["tools"][0]["function"]


def test_the_fields_of_each_provider():
    request = Complete.of("x", max_tokens=5, seed=7)
    assert written(request, "openai")["max_completion_tokens"] == 5
    assert written(request, "openai", without={"max_completion_tokens"})["max_tokens"] == 5
    assert written(request, "mistral")["random_seed"] == 7
    assert "stream_options" not in written(request, "mistral", stream=True)
    effort = Complete([user("x")], reasoning_effort="high")
    assert written(effort, "openrouter")["reasoning"] == {"effort": "high"}
    assert set(written(effort, "deepseek")) == {"model", "messages"}


def test_more_stops_than_the_endpoint_takes_are_refused_and_not_dropped():
    request = Complete.of("x", stop=("a", "b", "c", "d", "e"))
    with pytest.raises(ModelRefused, match=r"5 texts in stop.*takes 4 at most"):
        written(request)
    assert len(written(request, "ollama")["stop"]) == 5


def test_extra_fields_do_not_overrule_what_is_said():
    request = Complete([user("x")], reasoning_effort="high", extra='{"reasoning": {"effort": "low"}, "provider": {"sort": "price"}}')
    body = written(request, "openrouter")
    assert (body["reasoning"], body["provider"]) == ({"effort": "high"}, {"sort": "price"})
    assert written(Complete([user("x")], extra="{}")) == written(Complete.of("x"))


@settings(max_examples=20)
@given(
    texts=st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(max_size=8)), min_size=1, max_size=5),
    call=st.text(max_size=8),
    name=st.text(min_size=1, max_size=8),
    profile=st.sampled_from(sorted(PROFILES)),
)
def test_any_conversation_is_json_in_utf_8_with_an_answer_to_each_call(texts, call, name, profile):
    talk = [*(ChatMessage(role, text) for role, text in texts), *turn((name, call), (name, "{}"))]
    body = written(Complete(talk, tools=(ToolSpec(name),), output=FORM), profile, stream=True)
    calls = [one["id"] for entry in body["messages"] for one in entry.get("tool_calls", ())]
    assert calls == [entry["tool_call_id"] for entry in body["messages"] if entry["role"] == "tool"]
    assert all(type(json.loads(one["function"]["arguments"])) is dict for entry in body["messages"] for one in entry.get("tool_calls", ()))
