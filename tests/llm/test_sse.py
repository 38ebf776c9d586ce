"""Server-sent events come out the same however their bytes are cut, and within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.actors.llm.errors import BadStreamEvent
from retinue.actors.llm.sse import SseDecoder

LINES = st.sampled_from(
    [
        "data: a",
        "data:b",
        "data:  c",
        "data",
        "data:",
        "data: : ping",
        ": ping",
        ":",
        "id: 1",
        "event: x",
        "retry: 5",
        "",
        "",
        "data: ü\u2028é",
        "garbage",
    ]
)


def decode(sent, cuts=(), **bounds):
    decoder = SseDecoder("here", **bounds)
    ends = [*sorted(cuts), len(sent)]
    found = [decoder.feed(sent[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    return [data for some in [*found, decoder.close()] for data in some]


@settings(max_examples=25)
@given(lines=st.lists(LINES, max_size=12), end=st.sampled_from(["\n", "\r\n", "\r"]), bom=st.booleans(), data=st.data())
def test_however_the_bytes_are_cut_the_events_are_the_same(lines, end, bom, data):
    sent = (("\ufeff" if bom else "") + "".join(line + end for line in lines)).encode()
    expected = decode("".join(line + "\n" for line in lines).encode())
    assert decode(sent) == expected
    assert decode(sent, data.draw(st.sets(st.integers(0, len(sent))))) == expected
    assert decode(sent, range(1, len(sent))) == expected


def test_the_lines_of_an_event_are_joined_and_one_blank_is_dropped():
    assert decode(b"data: a\ndata:b\ndata:  c\n\n") == ["a\nb\n c"]


def test_an_event_without_data_is_none():
    assert decode(b"id: 1\n: ping\n\nevent: x\n\n: ping\n\ndata:\n\ndata: : ping\n\n\n\n") == []


def test_an_event_ends_with_its_blank_line_whatever_comes_next():
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\r\r") == ["a"]
    assert decoder.feed(b"\ndata: b\r\n") == []
    assert decoder.feed(b"\r\n") == ["b"]
    assert decoder.close() == []


def test_the_end_of_the_stream_ends_the_last_event():
    assert decode(b"data: a\n\ndata: b") == ["a", "b"]
    assert decode(b"") == []


@pytest.mark.parametrize("sent", [b"data: " + b"x" * 2000, b"data: xxxxxxxx\n" * 200, b": " + b"x" * 2000])
@pytest.mark.parametrize("step", [1, 7, 5000])
def test_an_event_that_does_not_end_is_refused(sent, step):
    with pytest.raises(BadStreamEvent, match=r"here sent one event of more than 1,000 bytes"):
        decode(sent, range(step, len(sent), step), longest_event=1000)


def test_a_stream_that_does_not_end_is_refused():
    with pytest.raises(BadStreamEvent, match=r"more than 1,000 bytes"):
        decode(b": ping\n\n" * 200, range(8, 1600, 8), longest_stream=1000)
