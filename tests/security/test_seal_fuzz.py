"""The wire is hostile: whatever is done to a token's text, it is refused with a typed error, and before anything of it is parsed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from laws import examples
from retinue.security import seal, seal_content, seal_frame
from retinue.security.errors import AuthorityError, TokenError
from retinue.security.restrictions import allow, deny, limit
from retinue.security.seal import attenuate, inspect
from retinue.security.seal_frame import add_block, block_text
from sealed import Bench

BENCH = Bench()
CONTEXT = BENCH.authority.mint("ada", ["**"])
ROOT = BENCH.sealer.seal(CONTEXT, expires_seconds=None)
FIRST = attenuate(ROOT, allow("fs.*"))
SECOND = attenuate(FIRST, deny("fs.delete"))
TOKEN = attenuate(SECOND, limit(calls=3))
OTHER = attenuate(attenuate(BENCH.sealer.seal(CONTEXT, expires_seconds=None), allow("web.*")), limit(calls=9))
GENUINE = {ROOT, FIRST, SECOND, TOKEN, OTHER}
BEFORE_PARSING = {"malformed", "too_large", "unknown_key", "mac"}
CHARACTERS = "ABab01-_.=+/ \n\u00e9\u212a\uff21"


@pytest.fixture(autouse=True)
def _parsers_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, whoever reads a block's content fails the test."""

    def explode(*_: object, **__: object) -> Any:
        raise AssertionError("parsed before it was verified")

    for module, name in ((seal_frame, "read_json"), (seal_frame, "block_data"), (seal_content, "block_data"), (seal, "content_of")):
        monkeypatch.setattr(module, name, explode)
    BENCH.sealer._opened.clear()
    BENCH.sealer._roots.clear()


def refused(token: str) -> None:
    """The token is refused without being read."""
    with pytest.raises(TokenError) as caught:
        BENCH.sealer.unseal(token)
    assert caught.value.reason in BEFORE_PARSING


def test_the_trap_works() -> None:
    with pytest.raises(AssertionError, match="parsed before"):
        BENCH.sealer.unseal(TOKEN)


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from(CHARACTERS))
@settings(max_examples=examples(400))
def test_a_changed_character_is_refused(place: int, character: str) -> None:
    edited = TOKEN[:place] + character + TOKEN[place + 1 :]
    assume(edited != TOKEN)
    refused(edited)


def test_each_single_character_counts() -> None:
    for place, character in enumerate(TOKEN):
        refused(TOKEN[:place] + ("A" if character != "A" else "B") + TOKEN[place + 1 :])
        refused(TOKEN[:place] + TOKEN[place + 1 :])


@given(st.integers(0, len(TOKEN)), st.text(alphabet=CHARACTERS, min_size=1, max_size=4))
@settings(max_examples=examples(300))
def test_an_inserted_text_is_refused(place: int, text: str) -> None:
    refused(TOKEN[:place] + text + TOKEN[place:])


@given(st.integers(0, len(TOKEN) - 1), st.integers(1, len(TOKEN)))
@settings(max_examples=examples(300))
def test_a_cut_out_piece_is_refused(start: int, length: int) -> None:
    edited = TOKEN[:start] + TOKEN[start + length :]
    assume(edited not in GENUINE)
    refused(edited)


PARTS = TOKEN.split(".")
OTHERS = OTHER.split(".")


@given(st.lists(st.sampled_from(sorted({*PARTS, *OTHERS})), min_size=1, max_size=8))
@example([*PARTS[:2], *PARTS[3:]])
@example([*PARTS[:-2], PARTS[-1]])
@example([*PARTS[:3], PARTS[4], PARTS[3], *PARTS[5:]])
@example([*PARTS[:4], PARTS[3], *PARTS[4:]])
@example([*PARTS[:-1], OTHERS[-1]])
@example([*PARTS[:3], *OTHERS[3:]])
@example([*OTHERS[:3], *PARTS[3:]])
@settings(max_examples=examples(500))
def test_parts_that_are_dropped_swapped_repeated_or_taken_from_another_token_are_refused(parts: list[str]) -> None:
    token = ".".join(parts)
    assume(token not in GENUINE)
    refused(token)


def test_the_mac_before_the_last_block_cannot_be_had_from_the_token() -> None:
    shorter = TOKEN.split(".")
    for drop in range(1, 4):
        kept = shorter[: -1 - drop]
        for mac in (shorter[-1], PARTS[-1][::-1], "A" * 43):
            refused(".".join([*kept, mac]))


@given(st.text() | st.binary() | st.none() | st.integers() | st.lists(st.text(), max_size=2))
@settings(max_examples=examples(300))
def test_anything_else_is_refused(thing: Any) -> None:
    refused(thing)


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "rt1",
        "rt1....",
        "rt1." + "." * 100_000,
        TOKEN + "\n",
        "\ufeff" + TOKEN,
        " " + TOKEN,
        TOKEN.upper(),
        TOKEN.replace("rt1", "rt2"),
        TOKEN + "=",
        "x" * 2**20,
        "rt1.00." + "A" * 2**16 + "." + "A" * 43,
        "rt1.00" + ".A" * 33 + "." + "A" * 43,
        Text(TOKEN),
        TOKEN.encode(),
        bytearray(TOKEN.encode()),
    ],
    ids=range(17),
)
def test_texts_that_are_no_token_are_refused(token: Any) -> None:
    refused(token)


def test_large_input_is_refused_before_it_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> Any:
        raise AssertionError("hashed before its size was looked at")

    monkeypatch.setattr(seal, "macs_of", explode)
    refused("rt1.00." + "A" * 2**16 + "." + "A" * 43)
    refused("rt1.00" + ".A" * 33 + "." + "A" * 43)


@pytest.mark.usefixtures("_readers")
class TestReading:
    """What a holder may add, though its MAC fits, and what anybody may hand to `inspect`."""

    @pytest.fixture
    def _readers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()

    json = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "aud", "perm", "layers", "kind"]), inner, max_size=3)
        ),
        max_leaves=8,
    )

    @given(json, st.sampled_from(["block", "aud", "perm", "layers", "rules", "arguments", "limits", "labels"]))
    @settings(max_examples=examples(400))
    def test_a_block_of_any_content_is_refused_typed_or_only_narrows(self, odd: Any, place: str) -> None:
        perm: dict[str, Any] = {"layers": []}
        block: Any = {"id": "0" * 24, "aud": None, "perm": perm}
        rule = {"pattern": "fs.*"}
        if place == "block":
            block = odd
        elif place in block:
            block[place] = odd
        elif place == "rules":
            perm["layers"] = [{"kind": "allow", "rules": odd}]
        elif place == "arguments":
            perm["layers"] = [{"kind": "allow", "rules": [{**rule, "arguments": odd}]}]
        else:
            perm[place] = odd
        token = add_block(ROOT, block_text(block))
        opened = None
        reason = "content"
        try:
            opened = BENCH.sealer.unseal(token)
        except TokenError as error:
            reason = error.reason
        assert reason in {"content", "audience", "expired", "too_large"}
        if opened is not None:
            assert opened.permissions is CONTEXT.permissions.meet(opened.permissions)

    @given(st.binary(max_size=200))
    def test_bytes_in_place_of_a_block_are_refused_typed(self, raw: bytes) -> None:
        token = add_block(ROOT, seal_frame._text(raw) or "_")
        for act in (BENCH.sealer.unseal, inspect):
            with pytest.raises(TokenError) as caught:
                act(token)
            assert caught.value.reason == "content"

    @given(st.text(alphabet="rt1.0Aa_-", max_size=80))
    def test_looking_and_attenuating_refuse_typed_too(self, text: str) -> None:
        for act in (inspect, lambda token: attenuate(token, "fs.*"), BENCH.sealer.revoke_token):
            with pytest.raises(AuthorityError):
                act(text)
