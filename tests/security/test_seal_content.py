"""What the blocks of a sealed token may say: a holder can add any, and the MACs of all of these fit."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from retinue.security.errors import TokenError
from retinue.security.restrictions import limit
from retinue.security.seal import attenuate, inspect
from retinue.security.seal_frame import add_block, block_data, block_text, first_token, parse_frame, seal_key
from sealed import Bench, refusal


@pytest.fixture
def bench() -> Bench:
    return Bench()


ID = "0123456789abcdef01234567"
GOOD_BLOCK = {"id": ID, "aud": None, "perm": {"layers": []}}


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {**GOOD_BLOCK, "more": 1},
        {**GOOD_BLOCK, "sub": "root"},
        {key: GOOD_BLOCK[key] for key in ("id", "perm")},
        {**GOOD_BLOCK, "id": "short"},
        {**GOOD_BLOCK, "id": ID.upper()},
        {**GOOD_BLOCK, "id": 7},
        {**GOOD_BLOCK, "aud": ""},
        {**GOOD_BLOCK, "aud": ["billing"]},
        {**GOOD_BLOCK, "perm": None},
        {**GOOD_BLOCK, "perm": []},
        {**GOOD_BLOCK, "perm": {}},
        {**GOOD_BLOCK, "perm": {"layers": [], "grant": ["**"]}},
        {**GOOD_BLOCK, "perm": {"layers": [{"kind": "widen", "rules": []}]}},
        {**GOOD_BLOCK, "perm": {"layers": [{"kind": "allow", "rules": [{"pattern": "fs.**.x"}]}]}},
        {**GOOD_BLOCK, "perm": {"layers": [{"kind": "where", "rules": [{"pattern": "fs.*", "arguments": {"a": {"kind": "regex"}}}]}]}},
        {**GOOD_BLOCK, "perm": {"layers": [], "limits": {"calls": -1}}},
        {**GOOD_BLOCK, "perm": {"layers": [], "limits": {"calls": 2**63}}},
        {**GOOD_BLOCK, "perm": {"layers": [], "limits": {"calls": 1.0}}},
        {**GOOD_BLOCK, "perm": {"layers": [], "limits": {"calls": True}}},
        {**GOOD_BLOCK, "perm": {"layers": [], "labels": "web"}},
        [GOOD_BLOCK],
        None,
        "block",
    ],
)
def test_a_block_that_says_something_else_is_refused_though_its_mac_fits(bench: Bench, odd: Any) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    bench.sealer.unseal(add_block(token, block_text(GOOD_BLOCK)))
    assert refusal(bench, add_block(token, block_text(odd))) == "content"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 1000,
        b'{"id":"%s","aud":null,"aud":null,"perm":{"layers":[]}}' % ID.encode(),
        b'{"id":"%s","aud":"\\ud800","perm":{"layers":[]}}' % ID.encode(),
        b'{"id":"%s","aud":null,"perm":{"layers":[],"limits":{"calls":NaN}}}' % ID.encode(),
        b'{"id":"%s","aud":null,"perm":{"layers":[],"limits":{"calls":1e400}}}' % ID.encode(),
        b'{"id":"%s","aud":null,"perm":{"layers":[],"limits":{"calls":%s}}}' % (ID.encode(), b"9" * 5000),
        b"\xef\xbb\xbf{}",
    ],
)
def test_bytes_that_two_readers_could_read_differently_are_refused(bench: Bench, raw: bytes) -> None:
    block = base64.urlsafe_b64encode(raw).rstrip(b"=").decode() or "_"
    assert refusal(bench, add_block(bench.sealer.seal(bench.authority.mint("ada", ["**"])), block)) == "content"


def test_base64_with_spare_bits_is_refused(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    block = block_text({**GOOD_BLOCK, "aud": None})
    assert len(block) % 4
    spare = block[:-1] + chr(ord(block[-1]) + 1)
    assert refusal(bench, add_block(token, spare)) == "content"


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": True},
        {"v": 1.0},
        {"sub": ""},
        {"sub": None},
        {"sub": "x" * 256},
        {"ten": 7},
        {"iat": -1},
        {"iat": 1.5},
        {"acc": 7},
        {"acc": ""},
        {"pol": None},
        {"via": None},
        {"via": ["x"]},
        {"via": [ID] * 257},
        {"more": 1},
    ],
)
def test_a_first_block_of_another_form_is_refused_though_the_key_is_ours(bench: Bench, change: dict[str, Any]) -> None:
    frame = parse_frame(bench.sealer.seal(bench.authority.mint("ada", ["**"])))
    data = block_data(frame.blocks[0])
    key = bench.keys.current
    assert bench.sealer.unseal(first_token(key.kid, seal_key(key.secret), block_text(data)))
    assert refusal(bench, first_token(key.kid, seal_key(key.secret), block_text({**data, **change}))) == "content"


def test_a_full_table_of_accounts_is_refused_typed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.authority._token_accounts, "_most", 1)
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    bench.sealer.unseal(attenuate(token, limit(calls=1)))
    with pytest.raises(TokenError, match="none has expired") as caught:
        bench.sealer.unseal(attenuate(token, limit(calls=1)))
    assert caught.value.reason == "full"


def test_a_token_that_was_cut_or_wrapped_is_told_what_is_wrong_with_it(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["fs.read"]))
    for text, told in (
        (token[:-3], "its last part has 40 characters and not 43"),
        (token + "ab", "its last part has 45 characters and not 43"),
        (token.rpartition(".")[0], "parts are missing"),
        (token[:9], "parts are missing"),
        (token[1:], "those begin with 'rt1.'"),
        (f"Bearer {token}", "those begin with 'rt1.'"),
        (token + "\n", "such as a blank or a line end"),
        (token.replace(".", "..", 1), "a part of it is empty"),
    ):
        for read in (bench.sealer.unseal, inspect):
            with pytest.raises(TokenError) as caught:
                read(text)
            assert told in str(caught.value)
            assert caught.value.reason == "malformed"
            assert text[4:40] not in str(caught.value)
