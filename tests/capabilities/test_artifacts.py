"""Artifacts: long outputs, their previews, and who may read them."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue.capabilities.artifacts import LONGEST_READ, ArtifactStore, head_and_tail, owner_of, reader_tool
from retinue.capabilities.tool_context import ToolContext

ADA = (None, "ada", "/user/agent/sessions/1")
EVE = (None, "eve", "/user/agent/sessions/1")


@settings(max_examples=40)
@given(st.text(max_size=400), st.integers(0, 300))
def test_a_preview_is_never_longer_and_says_how_much_is_left_out(text: str, limit: int) -> None:
    shown = head_and_tail(text, limit)
    assert len(shown) <= limit or len(text) <= limit
    if len(text) <= limit:
        assert shown == text
    elif "left out" in shown:
        head, _, rest = shown.partition("\n… [")
        tail = rest.partition("] …\n")[2]
        assert text.startswith(head) and text.endswith(tail)
        left = int(rest.partition(" of ")[0].replace(",", ""))
        assert abs(left - (len(text) - len(head) - len(tail))) <= 2
    else:
        assert text.startswith(shown)


def test_a_long_output_is_read_in_parts_to_its_very_end() -> None:
    store = ArtifactStore()
    text = "".join(f"line {number}\n" for number in range(10_000))
    made = store.keep(text, ADA, preview=500)
    assert made.characters == len(text) and len(made.preview) <= 500
    assert made.preview.startswith("line 0\n") and made.preview.endswith("line 9999\n") and made.handle in made.preview
    found, start = "", 0
    while start < len(text):
        result = store.read(made.handle, start, 7_000, owner=ADA)
        note, _, part = result.text.partition("\n")
        assert result.ok and note.startswith(f"[characters {start} to {start + len(part)} of {len(text)}")
        found, start = found + part, start + len(part)
    assert found == text
    assert len(store.read(made.handle, 0, 10**9, owner=ADA).text) < LONGEST_READ + 100


def test_it_is_nobody_elses() -> None:
    store = ArtifactStore()
    made = store.keep("secret" * 1_000, ADA)
    for owner in (EVE, ("tenant", "ada", ADA[2]), (None, "ada", "/user/other"), (None, None, None)):
        refused, absent = store.read(made.handle, owner=owner), store.read("out_0000000000000000", owner=owner)
        assert not refused.ok and refused.error == "arguments"
        assert refused.text.replace(made.handle, "H") == absent.text.replace("out_0000000000000000", "H")
    assert store.read(made.handle, owner=ADA).ok


def test_wrong_questions_say_what_is_wrong() -> None:
    store = ArtifactStore()
    made = store.keep("x" * 5_000, ADA)
    assert "counts from 0" in store.read(made.handle, -1, owner=ADA).text
    assert "1 or more" in store.read(made.handle, 0, 0, owner=ADA).text
    assert "has 5,000 characters" in store.read(made.handle, 5_000, owner=ADA).text
    assert f"There is {made.handle}" in store.read("out_x", owner=ADA).text


def test_what_goes_first_is_what_came_first_and_everything_is_bounded() -> None:
    store = ArtifactStore(longest=100, most_of_owner=250, most=400)
    first = store.keep("a" * 300, ADA)
    assert first.characters == 300
    assert "only the first 100 were kept" in store.read(first.handle, 50, 100, owner=ADA).text
    assert "of which the first 100 were kept" in store.read(first.handle, 100, owner=ADA).text
    mine = [first, *(store.keep("b" * 100, ADA) for _ in range(2))]
    assert [store.read(one.handle, owner=ADA).ok for one in mine] == [False, True, True]
    others = [store.keep("c" * 100, EVE) for _ in range(2)]
    assert [store.read(one.handle, owner=ADA).ok for one in mine] == [False, True, True]  # all the room there is
    third = store.keep("d" * 90, (None, "bob", None))
    assert [store.read(one.handle, owner=ADA).ok for one in mine] == [False, False, True]
    assert store.read(third.handle, owner=(None, "bob", None)).ok and all(store.read(one.handle, owner=EVE).ok for one in others)
    held = store.statistics()
    assert (held.outputs, held.characters, held.dropped) == (4, 390, 2)
    assert store.forget(EVE) == 2 and store.forget(EVE) == 0
    assert store.statistics().characters == 190


def test_it_is_kept_and_read_from_many_threads() -> None:
    store = ArtifactStore(longest=100, most_of_owner=500, most=2_000)

    def work(name: str) -> None:
        for number in range(200):
            made = store.keep(f"{name}{number}" * 20, (None, name, None))
            assert store.read(made.handle, owner=(None, name, None)).ok

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.statistics().characters <= 2_000


def test_the_tool_reads_what_is_its_callers() -> None:
    store = ArtifactStore()
    tool = reader_tool(store)
    context = ToolContext("read_result", caller="/user/agent/sessions/1")
    made = store.keep("x" * 9_000, owner_of(context))
    call = tool.decode(f'{{"handle": "{made.handle}", "start": 8990}}')
    assert tool.invoke(call, context).text == f"[characters 8990 to 9000 of 9000]\n{'x' * 10}"
    assert not tool.invoke(call, ToolContext("read_result", caller="/user/agent/sessions/2")).ok
    assert tool.requires == "tool.read_result" and tool.risk == "L0"


def test_sizes_that_make_no_sense_are_refused() -> None:
    for options in ({"longest": 0}, {"most": True}, {"most_of_owner": 1.5}):
        with pytest.raises(rt.DefinitionError, match=f"ArtifactStore\\({next(iter(options))}="):
            ArtifactStore(**options)  # type: ignore[arg-type]
