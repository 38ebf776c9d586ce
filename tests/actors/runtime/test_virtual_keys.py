"""Keys of virtual actors: any text, and a part of a path that stands for it and for no other."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue.actors.runtime.virtual_keys import key_of, segment_of
from virtual_players import Book, Count, Session

ANY = st.text(st.characters(exclude_categories=()), min_size=1, max_size=40)


@settings(max_examples=60)
@given(ANY)
@example("alice")
@example("a=2Fb")
@example("=")
@example(".")
@example("..")
@example("/")
@example("\x00")
@example("\ud800")
@example("\ud83d\ude00")
@example("😀")
@example("a" * 512)
def test_every_key_has_a_segment_that_gives_it_back(key: str) -> None:
    segment = segment_of(key)
    assert key_of(segment) == key
    assert re.fullmatch(r"[A-Za-z0-9_=][A-Za-z0-9_.@:~+=-]*", segment, re.ASCII)


@settings(max_examples=60)
@given(st.text("=0123456789ABCDEFabé/.%", max_size=12))
@example("=61")
@example("=2f")
@example("=ED=A0=80")
@example("=FF")
@example("=C3")
@example("a=")
@example("é")
@example("")
def test_a_segment_stands_for_one_key_or_for_none(segment: str) -> None:
    key = key_of(segment)
    assert key is None or segment_of(key) == segment


def test_a_legal_name_is_its_own_segment_and_everything_else_is_written_out() -> None:
    for key, segment in [
        ("alice", "alice"),
        ("Ada-7@x:y~z+", "Ada-7@x:y~z+"),
        ("Jörg", "J=C3=B6rg"),
        ("a/b", "a=2Fb"),
        ("a=b", "a=3Db"),
        (".hidden", "=2Ehidden"),
        ("..", "=2E."),
        ("-", "=2D"),
        (" ", "=20"),
        ("\x00", "=00"),
        ("😀", "=F0=9F=98=80"),
        ("\ud83d\ude00", "=ED=A0=BD=ED=B8=80"),
    ]:
        assert segment_of(key) == segment
    for segment in ("=61", "=2f", "=FF", "a=", "é", "", "a/b", "a" * 513):
        assert key_of(segment) is None


LOOK_ALIKES = [
    "a/b",
    "a=2Fb",
    "a%2Fb",
    "é",
    "e\u0301",
    "😀",
    "\ud83d\ude00",
    "A",
    "a",
    "\u0430",
    "a ",
    " a",
    "a\x00",
    ".",
    "..",
    "/",
    "\ud800",
    "7",
    "Session-7",
    "x" * 512,
]


async def test_keys_that_look_alike_are_different_actors_and_found_by_their_paths() -> None:
    async with rt.ActorSystem("keys", block_warning=math.inf) as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        for key in LOOK_ALIKES:
            assert await sessions[key].ask(Count()) == 1
        assert book.made == dict.fromkeys(LOOK_ALIKES, 1)
        assert sessions.active() == tuple(LOOK_ALIKES)
        paths = [sessions[key].path for key in LOOK_ALIKES]
        assert len(set(paths)) == len(LOOK_ALIKES)
        for key, path in zip(LOOK_ALIKES, paths, strict=True):
            assert system.registry.get(path) is sessions[key]
            assert await sessions.passivate(key)
            assert system.registry.get(path) is None
            assert system.registry.address(path) is sessions[key]


@pytest.mark.parametrize("key", ["", "x" * 513, 7, None, b"alice", ("a",), ["a"], 1.5])
async def test_anything_else_is_no_key(key: Any) -> None:
    async with rt.ActorSystem("keys", block_warning=math.inf) as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        with pytest.raises(rt.DefinitionError, match="the key of a virtual actor"):
            sessions[key]
        with pytest.raises(rt.DefinitionError, match="the key of a virtual actor"):
            sessions.ref(key)
        with pytest.raises(rt.DefinitionError, match="the key of a virtual actor"):
            await sessions.passivate(key)


async def test_a_key_of_a_kind_of_str_is_that_text() -> None:
    class Odd(str):
        __slots__ = ()

        def __eq__(self, _: object) -> bool:
            return False

        def __hash__(self) -> int:
            return 1

        def __str__(self) -> str:
            return "another"

    async with rt.ActorSystem("keys", block_warning=math.inf) as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        assert sessions[Odd("alice")] is sessions["alice"]
        assert type(sessions[Odd("bob")].key) is str
        assert await sessions[Odd("alice")].ask(Count()) == 1
        assert await sessions["alice"].ask(Count()) == 2
