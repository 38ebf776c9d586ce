"""Redaction: secrets are found by their names and their shapes, nothing is changed, and nothing that is shown can make it fail or take long."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime as dt
import enum
import json
import pathlib
import time
import types
import uuid
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from laws import examples
from plain_values import PLAIN
from retinue.security import secret_shapes
from retinue.security.redaction import MAX_ITEMS, MAX_TEXT, redact
from retinue.security.secret_shapes import REDACTED, hide_secrets, is_secret_name

SECRET = "hunter2-hunter2"

SECRET_NAMES = [
    "password",
    "Password",
    "PASSWORD",
    "passwd",
    "pwd",
    "user_password",
    "userPassword",
    "db.password",
    "password_hash",
    "passphrase",
    "pass_phrase",
    "secret",
    "client_secret",
    "clientSecret",
    "CLIENT_SECRET",
    "secretKey",
    "aws_secret_access_key",
    "token",
    "accessToken",
    "access_token",
    "ACCESS_TOKEN",
    "refresh-token",
    "id_token",
    "csrfToken",
    "authToken",
    "bot_token",
    "next_page_token",
    "token_value",
    "api_key",
    "apiKey",
    "APIKey",
    "x-api-key",
    "X-Api-Key",
    "X_API_KEY",
    "OPENAI_API_KEY",
    "apikey",
    "api.key",
    "Authorization",
    "authorization",
    "proxy-authorization",
    "Proxy_Authorization",
    "auth",
    "basicAuth",
    "Cookie",
    "cookie",
    "Set-Cookie",
    "cookies",
    "credentials",
    "credential",
    "private_key",
    "privateKey",
    "signing_key",
    "ssh-key",
    "encryptionKey",
    "access_key",
    "access_key_id",
    "session_id",
    "sessionId",
    "jwt",
    "otp",
    "pin",
    "cvv",
    "card_number",
    "cardNumber",
]

INNOCENT_NAMES = [
    "max_tokens",
    "maxTokens",
    "token_count",
    "tokenCount",
    "tokens",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "token_limit",
    "tokens_used",
    "token_budget",
    "tokenizer",
    "tokenize",
    "token_type",
    "tokens_per_second",
    "price_per_token",
    "key",
    "keys",
    "primary_key",
    "key_name",
    "keyboard",
    "monkey",
    "public_key",
    "publicKey",
    "sort_key",
    "author",
    "authority",
    "authored",
    "secretary",
    "pinned",
    "spinning",
    "opinion",
    "passenger",
    "compass",
    "password_policy",
    "password_required",
    "session",
    "project",
    "subject",
    "message",
    "amount",
    "to",
    "path",
    "name",
    "id",
    "note",
    "cookiecutter",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_what_stands_under_a_secrets_name_is_left_out(name: str) -> None:
    assert is_secret_name(name)
    assert redact({name: SECRET}) == {name: REDACTED}
    assert redact({name: {"deep": [SECRET]}}) == {name: REDACTED}
    assert redact({name: [SECRET, SECRET]}) == {name: REDACTED}


@pytest.mark.parametrize("name", INNOCENT_NAMES)
def test_what_stands_under_another_name_is_shown(name: str) -> None:
    assert not is_secret_name(name)
    assert redact({name: "plain words"}) == {name: "plain words"}


@pytest.mark.parametrize("name", ["token", "tokens", "access_tokens", "max_tokens", "output_token"])
def test_a_number_of_tokens_is_no_secret(name: str) -> None:
    assert redact({name: 500}) == {name: 500}
    assert redact({name: 0.5}) == {name: 0.5}


@pytest.mark.parametrize("name", ["password", "pin", "otp", "api_key"])
def test_a_number_that_is_a_secret_is_left_out(name: str) -> None:
    assert redact({name: 1234}) == {name: REDACTED}


@pytest.mark.parametrize("nothing", [None, True, False, "", b""])
def test_that_there_is_none_is_shown(nothing: Any) -> None:
    assert redact({"password": nothing}) == {"password": nothing if nothing != b"" else b""}


SHAPES = [
    ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
    ("authorization=Basic dXNlcjpwYXNzd29yZA==", "authorization=Basic [redacted]"),
    ("-H 'Authorization: token 0123456789abcdef'", "-H 'Authorization: token [redacted]'"),
    ("used bearer eyabc12345678 here", "used bearer [redacted] here"),
    ("Cookie: sid=abc123; theme=dark\r\nHost: x", "Cookie: [redacted]\r\nHost: x"),
    ("Set-Cookie: sid=abc123; Path=/", "Set-Cookie: [redacted]"),
    ("key sk-proj-aBcDeFgHiJ_kl-mn.", "key [redacted]."),
    ("sk_live_0123456789abcdef", "[redacted]"),
    ("ghp_" + "a1" * 18, "[redacted]"),
    ("github_pat_" + "a1" * 20, "[redacted]"),
    ("xoxb-123456789012-abcdef", "[redacted]"),
    ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
    ("AIza" + "b" * 35, "[redacted]"),
    ("hf_" + "aB" * 17, "[redacted]"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.s5g-_Q", "[redacted]"),
    ("(eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.)", "([redacted])"),
    ("rt1.0a1b2c3d.eyJ2IjoxfQ." + "A" * 43, "[redacted]"),
    ("a\n-----BEGIN PRIVATE KEY-----\nMIIE\nabc\n-----END PRIVATE KEY-----\nb", "a\n[redacted]\nb"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE", "[redacted]"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----", "[redacted]"),
    ("postgres://ada:hunter2@db.example/x", "postgres://[redacted]@db.example/x"),
    ("https://ada:hunter2@evil@good.example/", "https://[redacted]@good.example/"),
    ("https://token@github.com/a/b", "https://[redacted]@github.com/a/b"),
    ("https://x.example/?a=1&access_token=abc123&b=2", "https://x.example/?a=1&access_token=[redacted]&b=2"),
    ("https://x.example/?api_key=abc123#top", "https://x.example/?api_key=[redacted]"),
    ("password=hunter2, user=ada", "password=[redacted], user=ada"),
    ("PASSWORD: hunter2\nnext", "PASSWORD: [redacted]\nnext"),
    ('{"client_secret": "abc def"}', '{"client_secret": "[redacted] def"}'),
    ("'api-key': 'abc123'", "'api-key': '[redacted]'"),
    ("OPENAI_API_KEY=abc123", "OPENAI_API_KEY=[redacted]"),
]


@pytest.mark.parametrize(("text", "shown"), SHAPES)
def test_what_has_the_shape_of_a_secret_is_left_out(text: str, shown: str) -> None:
    assert hide_secrets(text) == shown
    assert redact(text) == shown
    assert redact({"note": [text]}) == {"note": [shown]}
    assert list(redact({text: 1})) == [shown]
    assert hide_secrets(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the bearer of this letter",
        "a basic understanding",
        "token: 5 of them",
        "max_tokens=4096",
        "we sk- as-is",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "https://example.com/a@b",
        "mail ada@example.com",
        "key=value",
        "secretary: Ada",
        "eyJust a word",
        "reports/2026/q3.md",
        "/user/researcher: fs.read denied, the layer allow('fs.list') does not name it",
    ],
)
def test_ordinary_texts_are_shown_as_they_are(text: str) -> None:
    assert redact(text) == text


# -- every kind of value -----------------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "secret-value"


@rt.message
class Login(rt.Message):
    user: str
    password: str
    headers: Any = None


@attrs.define
class Box:
    token: str
    size: int


@dataclasses.dataclass
class Crate:
    api_key: str
    size: int


Row = collections.namedtuple("Row", "user secret")  # noqa: PYI024


class Name(str):
    __slots__ = ()


class Level(int):
    pass


VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (5, 5),
    (1.5, 1.5),
    ("x", "x"),
    (Name("x"), "x"),
    (Level(3), 3),
    (10**5000, f"[int of {(10**5000).bit_length()} bits]"),
    (b"\x00" * 7, "[7 bytes]"),
    (bytearray(3), "[3 bytes]"),
    (Decimal("1.50"), Decimal("1.50")),
    (uuid.UUID(int=1), uuid.UUID(int=1)),
    (dt.date(2026, 1, 1), dt.date(2026, 1, 1)),
    (pathlib.PurePosixPath("a/b"), "a/b"),
    (Colour.RED, "Colour.RED"),
    ([1, [2]], [1, [2]]),
    ((1, "x"), (1, "x")),
    ({1, 2}, [1, 2]),
    (frozenset({1}), [1]),
    ({"a": {"b": 1}}, {"a": {"b": 1}}),
    ({1: "x", None: "y"}, {1: "x", None: "y"}),
    (types.MappingProxyType({"password": SECRET}), {"password": REDACTED}),
    (collections.OrderedDict(token=SECRET), {"token": REDACTED}),
    (Login("ada", SECRET), {"(type)": "Login", "user": "ada", "password": REDACTED, "headers": None}),
    (Box(SECRET, 3), {"(type)": "Box", "token": REDACTED, "size": 3}),
    (Crate(SECRET, 3), {"(type)": "Crate", "api_key": REDACTED, "size": 3}),
    (Row("ada", SECRET), {"(type)": "Row", "user": "ada", "secret": REDACTED}),
    (object(), "[object]"),
    (len, "[builtin_function_or_method]"),
    (Login, "[type]"),
    (ValueError("password=hunter2"), "ValueError: password=[redacted]"),
    ([("Authorization", SECRET), ("Accept", "text/html")], [("Authorization", REDACTED), ("Accept", "text/html")]),
    ([["X-Api-Key", SECRET]], [["X-Api-Key", REDACTED]]),
    ([{"name": "Authorization", "value": SECRET}], [{"name": "Authorization", "value": REDACTED}]),
    ({"key": "DB_PASSWORD", "value": SECRET, "line": 3}, {"key": "DB_PASSWORD", "value": REDACTED, "line": 3}),
    ({"name": "Accept", "value": "text/html"}, {"name": "Accept", "value": "text/html"}),
]


@pytest.mark.parametrize(("value", "shown"), VALUES, ids=range(len(VALUES)))
def test_every_kind_of_value_has_its_way_of_being_shown(value: Any, shown: Any) -> None:
    found = redact(value)
    assert found == shown
    assert type(found) is type(shown)


def planted(inner: Any) -> Any:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from(["a", "note", "items", "max_tokens"]), inner, min_size=1, max_size=2),
        st.builds(Login, st.just("ada"), st.just(SECRET), inner),
    )


SPOTS = st.one_of(
    st.sampled_from(SECRET_NAMES).map(lambda name: {name: SECRET}),
    st.sampled_from(SECRET_NAMES).map(lambda name: (name, SECRET)),
    st.just(Login("ada", SECRET, {"Cookie": SECRET})),
    st.just(f"https://ada:{SECRET}@example.com/?token={SECRET}"),
)


@given(st.recursive(SPOTS, planted, max_leaves=6))
@settings(max_examples=examples(200))
def test_a_planted_secret_is_found_wherever_it_stands(value: Any) -> None:
    assert SECRET not in repr(redact(value))


@given(PLAIN)
def test_nothing_is_changed_and_what_is_shown_is_new(value: Any) -> None:
    before = copy.deepcopy(value)
    shown = redact(value)
    assert value == before
    if isinstance(shown, list | dict):
        shown.clear()
        assert value == before


@given(PLAIN)
def test_what_was_redacted_stays_as_it_is(value: Any) -> None:
    shown = redact(value)
    assert redact(shown) == shown


# -- sizes and hostile values ------------------------------------------------------------------------------------------------------------


def test_long_texts_and_large_containers_are_cut() -> None:
    assert redact("x" * 10_000) == "x" * MAX_TEXT + "… (10000 characters)"
    many = redact(list(range(1000)))
    assert many[:MAX_ITEMS] == list(range(MAX_ITEMS))
    assert many[MAX_ITEMS:] == ["… and 900 more"]
    wide = redact({str(number): number for number in range(1000)})
    assert len(wide) == MAX_ITEMS + 1
    assert wide["…"] == "900 more"
    deep: Any = SECRET
    for _ in range(1000):
        deep = [deep]
    assert len(json.dumps(redact(deep))) < 100


def test_a_secret_that_stands_across_the_cut_is_not_shown_in_part() -> None:
    text = "x" * (MAX_TEXT - 12) + " sk-proj-" + "abcdefgh" * 20
    assert "abcd" not in redact(text)


def test_a_value_that_contains_itself_or_doubles_at_each_level_is_cut() -> None:
    knot: list[Any] = [1]
    knot.append(knot)
    assert len(repr(redact(knot))) < 1000
    doubled: Any = [1]
    for _ in range(50):
        doubled = [doubled, doubled]
    began = time.thread_time()
    assert len(repr(redact(doubled))) < 100_000
    assert time.thread_time() - began < 5


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError(SECRET)

    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(SECRET)


class HostileDict(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise RuntimeError(SECRET)


class HostileList(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise RuntimeError(SECRET)


class HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError(SECRET)


def test_what_fails_when_it_is_looked_at_is_shown_as_what_it_is() -> None:
    for value in (Hostile(), HostileDict(a=1), HostileList([1]), HostileError(), object.__new__(Box), object.__new__(Login)):
        for shown in (redact(value), redact([value, 1]), redact({"note": value}), redact({HostileError(): value})):
            assert SECRET not in repr(shown)
        assert redact([value, 1])[1] == 1


def test_text_that_is_made_to_take_long_does_not() -> None:
    for text in (
        "-----BEGIN PRIVATE KEY-----" * 4000,
        "bearer " * 15_000,
        "bearer " + "a" * 100_000,
        "a://" * 25_000,
        "http://" + "a" * 100_000,
        "http://" + "a@" * 50_000,
        "password" * 12_000,
        "password=" * 10_000,
        "authorization: " * 7000,
        "eyJaaaaa." * 10_000,
        "sk-" * 30_000,
        "a" * 1_000_000,
        "Aa" * 500_000,
        " " * 500_000,
        "cookie:" * 15_000,
    ):
        began = time.thread_time()
        redact({text[:300]: text, "note": text})
        assert time.thread_time() - began < 3, text[:20]


def test_what_is_looked_at_is_bounded_over_all_texts_together():
    shown = redact(["a" * 60_000] * 40 + ["short", ""])
    assert [text.startswith("aaa") for text in shown[:32]] == [True] * 32
    assert shown[32:] == ["[60000 characters]"] * 8 + ["[5 characters]", ""]


def test_the_end_of_what_is_looked_at_of_a_long_text_is_never_shown():
    key = "-----BEGIN PRIVATE KEY-----" + "A" * 7_000 + "-----END PRIVATE KEY-----"
    for before in range(1_100, 1_180):
        assert "sk-" not in redact(f"{key}{'.' * before}sk-{SECRET * 3}{'.' * 100_000}"), before


@given(
    st.lists(
        st.one_of(
            st.sampled_from([text for text, _ in SHAPES]),
            st.sampled_from(
                [
                    "password",
                    "Pa\u017fsword=",
                    "to\u212aen: ",
                    "BAS\u0130C ",
                    "bas\u0131c dXNlcjp3",
                    "api_key",
                    "sk-",
                    "=",
                    ": ",
                    "://",
                    "@",
                    "abc123def456",
                ]
            ),
            st.text(max_size=8),
        ),
        max_size=6,
    ).map("".join)
)
@settings(max_examples=examples(300))
def test_no_secret_is_missed_because_its_pattern_was_not_tried(text: str) -> None:
    tried = text
    for shape in secret_shapes._SHAPES:
        tried = shape.pattern.sub(rf"\1{REDACTED}", tried)
    assert hide_secrets(text) == tried


def test_what_follows_an_option_that_is_named_like_a_secret_is_hidden():
    assert redact(["psql", "--api-key", "hunter2", "-x", "y"]) == ["psql", "--api-key", REDACTED, "-x", "y"]
    assert redact(["run", "--password=hunter2", "next", "--max-tokens", "5"])[2:] == ["next", "--max-tokens", "5"]
    assert "hunter2" not in redact("export SECRET_KEY=hunter2")
