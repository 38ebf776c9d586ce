"""The parser of server-sent events: the same events however the bytes are cut, and never more than it may keep."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import given

import retinue as rt
from retinue.client.events import Event, EventParser

names = st.text("abcxyz-_.", min_size=1, max_size=10)
datas = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b""))
noise = st.sampled_from([b": beat\n", b"id: 5\n", b"retry: 1\n", b"\n", b":\n", b"unknown\n"])


@given(st.lists(st.tuples(names, datas, noise)), st.lists(st.integers(0, 400)), st.sampled_from([b"\n", b"\r\n"]))
def test_the_events_do_not_depend_on_how_the_bytes_are_cut(given_: list[tuple[str, bytes, bytes]], cuts: list[int], newline: bytes) -> None:
    text = b"".join(b"%s\nevent: %s\ndata: %s\n\n" % (odd, name.encode(), data) for name, data, odd in given_).replace(b"\n", newline)
    parser = EventParser(10_000)
    found: list[Event] = []
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for begin, end in itertools.pairwise(places):
        found += parser.feed(text[begin:end])
    assert found == [Event(name, data) for name, data, _ in given_]
    assert not parser.torn


def test_the_lines_of_one_event_are_joined_and_one_without_a_name_is_a_message() -> None:
    assert EventParser(100).feed(b"data: a\ndata:b\ndata\n\n") == [Event("message", b"a\nb\n")]


@pytest.mark.parametrize("data", [b"event: it", b"event: item\n", b"data: 5\n", b"x"])
def test_what_is_not_complete_is_torn(data: bytes) -> None:
    parser = EventParser(100)
    assert parser.feed(data) == []
    assert parser.torn


@given(st.lists(st.binary(max_size=30), max_size=30))
def test_whatever_the_bytes_are_it_keeps_no_more_than_it_may(parts: list[bytes]) -> None:
    parser = EventParser(50)
    for part in parts:
        try:
            parser.feed(part)
        except rt.GatewayError:
            return
        assert len(parser._buffer) + sum(map(len, parser._data)) <= 50


def test_heartbeats_are_never_too_many() -> None:
    parser = EventParser(50)
    assert [parser.feed(b": beat\n") for _ in range(1000)] == [[]] * 1000
    assert parser.feed(b"data: 5\n\n") == [Event("message", b"5")]


def test_a_long_line_is_refused_before_it_has_ended() -> None:
    parser = EventParser(50)
    with pytest.raises(rt.GatewayError) as caught:
        parser.feed(b"data: " + b"x" * 60)
    assert caught.value.reason == "too_large"
