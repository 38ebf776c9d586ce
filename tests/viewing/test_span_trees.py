"""Spans become a tree, whatever is missing of it or odd about it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retinue.viewing.spans import Span
from retinue.viewing.trees import Node, grown, walked

MS = 1_000_000


def span(name: str, parent: str = "", at: int = 0) -> Span:
    begin = (at + 1) * 1000 * MS
    return Span("t", name, parent, name, "message", begin, begin + MS, "ok", "", {}, (), "main")


def drawn(roots: list[Node]) -> list[str]:
    return [f"{'.' * node.depth}{node.span.name}" for node in walked(roots)]


def test_children_stand_under_their_parent_by_the_time_of_their_start() -> None:
    assert drawn(grown([span("c", "a", 3), span("b", "a", 2), span("a", "", 1), span("d", "b", 4)])) == ["a", ".b", "..d", ".c"]


def test_a_span_whose_parent_is_missing_is_a_root_that_says_so() -> None:
    roots = grown([span("a", "", 1), span("b", "gone", 2), span("c", "b", 3)])
    assert drawn(roots) == ["a", "b", ".c"]
    assert ["not in the file" in " ".join(root.notes) for root in roots] == [False, True]


def test_a_ring_is_cut_where_it_begins_and_says_so() -> None:
    roots = grown([span("a", "c", 1), span("b", "a", 2), span("c", "b", 3), span("d", "c", 4), span("self", "self", 5)])
    assert drawn(roots) == ["a", ".b", "..c", "...d", "self"]
    assert all("its own cause" in " ".join(root.notes) for root in roots)


def test_a_span_that_starts_before_its_parent_says_that_clocks_differ() -> None:
    (root,) = grown([span("a", "", 5), span("b", "a", 4), span("c", "a", 6)])
    assert [node.notes for node in root.children] == [("starts 1,000 ms before the span above it: their clocks differ",), ()]


def test_a_chain_as_long_as_the_run_is_no_trouble() -> None:
    (root,) = grown([span(str(number), str(number - 1) if number else "", number) for number in range(20_000)])
    assert max(node.depth for node in walked([root])) == 19_999


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 14), st.integers(0, 5)), max_size=20))
def test_every_span_stands_in_the_tree_exactly_once(rows: list[tuple[int, int, int]]) -> None:
    spans = [span(str(name), str(parent) if parent else "", at) for name, parent, at in rows]
    roots = grown(spans)
    names = [node.span.span_id for node in walked(roots)]
    assert sorted(names) == sorted({one.span_id for one in spans})
    for node in walked(roots):
        assert all(child.span.parent_id == node.span.span_id and child.depth == node.depth + 1 for child in node.children)
