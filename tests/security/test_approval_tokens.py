"""Approval tokens: bound to one call, for an hour at most, signed; whatever is changed about one is refused, and why is told apart."""

from __future__ import annotations

import base64
import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from approval_values import ARGUMENTS, HOUR, KEY, NOW, OTHER_KEY, OTHERS, binding, unhurried
from retinue.security import signed_frame
from retinue.security.approval_keys import SigningKey, VerifyingKeys
from retinue.security.approval_tokens import ApprovalToken, read_token, sign_token
from retinue.security.approvals import BINDING_FIELDS, arguments_digest, new_id
from retinue.security.errors import ApprovalError, DefinitionError
from retinue.security.standing import StandingConsent, read_standing, sign_standing

REQUEST_ID = new_id("apr")
KEYS = KEY.verifying
_DOMAIN = b"retinue/approval/1\0"


def signed(**changes: Any) -> str:
    given_values = {"request_id": REQUEST_ID, "approver": "bob", "now_ms": NOW, **changes}
    return sign_token(given_values.pop("key", KEY), given_values.pop("binding", binding()), **given_values)


TOKEN = signed()


def refused(text: Any, keys: VerifyingKeys = KEYS) -> str:
    with pytest.raises(ApprovalError) as caught:
        read_token(text, keys)
    assert not isinstance(text, str) or len(text) < 20 or text not in str(caught.value)
    return caught.value.reason


def unchecked(token: ApprovalToken, call: Any, now_ms: int = NOW, **options: Any) -> str:
    with pytest.raises(ApprovalError) as caught:
        token.check(call, now_ms, **options)
    assert "ACME" not in str(caught.value) and "alice" not in str(caught.value)
    return caught.value.reason


def content_of(text: str) -> dict[str, Any]:
    body = text.split(".")[2]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def forged(content: dict[str, Any] | bytes, *, key: SigningKey = KEY, prefix: str = "rta1", domain: bytes = _DOMAIN) -> str:
    """A text with a signature that fits, whatever it says."""
    raw = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    head = f"{prefix}.{key.kid}.{base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"
    return f"{head}.{base64.urlsafe_b64encode(key.sign(domain + head.encode())).rstrip(b'=').decode()}"


def test_a_token_says_what_was_signed() -> None:
    edited = new_id("apr")
    token = read_token(signed(lifetime_ms=1000, edit_of=edited), KEYS)
    assert token == ApprovalToken(token.jti, REQUEST_ID, binding(), "bob", NOW, NOW + 1000, edited)
    assert token.jti.startswith("apt_") and token.jti != read_token(TOKEN, KEYS).jti
    assert read_token(TOKEN, KEYS).expires_ms == NOW + HOUR
    assert read_token(signed(jti="apt_" + "a" * 26), KEYS).jti == "apt_" + "a" * 26
    token.check(binding(), NOW)
    assert forged(content_of(TOKEN)) == TOKEN, "what is forged below is what is signed"


@pytest.mark.parametrize("field", BINDING_FIELDS)
def test_a_token_is_for_no_other_call(field: str) -> None:
    expected = {"arguments_digest": "arguments", "policy_version": "policy"}.get(field, field)
    assert unchecked(read_token(TOKEN, KEYS), binding(**{field: OTHERS[field]})) == expected
    assert unchecked(read_token(signed(binding=binding(**{field: OTHERS[field]})), KEYS), binding()) == expected


@pytest.mark.parametrize("field", ["operation", "tenant", "session", "run"])
def test_nothing_is_not_anything(field: str) -> None:
    assert unchecked(read_token(TOKEN, KEYS), binding(**{field: None})) == field
    assert unchecked(read_token(signed(binding=binding(**{field: None})), KEYS), binding()) == field


@pytest.mark.parametrize("amount", [41, 40.0, "40", True, None, -40, [40]])
def test_a_token_is_for_no_other_arguments(amount: Any) -> None:
    assert unchecked(read_token(TOKEN, KEYS), binding({**ARGUMENTS, "amount": amount})) == "arguments"


def test_one_argument_more_or_less_is_another_call() -> None:
    for arguments in ({**ARGUMENTS, "bcc": None}, {"to": "ACME"}, {"To": "ACME", "amount": 40}):
        assert unchecked(read_token(TOKEN, KEYS), binding(arguments)) == "arguments"


def test_a_token_ends_with_its_last_millisecond_and_not_before() -> None:
    token = read_token(TOKEN, KEYS)
    token.check(binding(), NOW + HOUR - 1)
    assert unchecked(token, binding(), NOW + HOUR) == "expired"
    assert unchecked(token, binding(), NOW + 10 * HOUR) == "expired"


def test_a_token_from_the_future_is_refused_but_for_five_seconds_of_skew() -> None:
    token = read_token(TOKEN, KEYS)
    token.check(binding(), NOW - 5_000)
    assert unchecked(token, binding(), NOW - 5_001) == "not_yet_valid"


def test_four_eyes_want_another_person_than_the_subject() -> None:
    own = read_token(signed(approver="alice"), KEYS)
    own.check(binding(), NOW)
    assert unchecked(own, binding(), four_eyes=True) == "four_eyes"
    assert unchecked(read_token(signed(approver="Alice "), KEYS), binding(), four_eyes=True) == "four_eyes"
    read_token(TOKEN, KEYS).check(binding(), NOW, four_eyes=True)


@pytest.mark.parametrize(
    ("call", "now"), [(None, NOW), (attrs.asdict(binding()), NOW), (binding(), None), (binding(), float(NOW)), (binding(), True)]
)
def test_a_token_is_checked_against_a_binding_at_a_time(call: Any, now: Any) -> None:
    with pytest.raises(DefinitionError):
        read_token(TOKEN, KEYS).check(call, now)


# -- forgeries


def test_a_token_of_another_key_is_refused() -> None:
    assert refused(signed(key=OTHER_KEY)) == "unknown_key"


def test_a_token_that_claims_a_trusted_key_is_refused() -> None:
    head, _, signature = signed(key=OTHER_KEY).rpartition(".")
    prefix, _, body = head.split(".")
    assert refused(f"{prefix}.{KEY.kid}.{body}.{signature}") == "signature"
    other = OTHER_KEY.sign(_DOMAIN + f"{prefix}.{KEY.kid}.{body}".encode())
    assert refused(f"{prefix}.{KEY.kid}.{body}.{base64.urlsafe_b64encode(other).rstrip(b'=').decode()}") == "signature"


def test_a_signature_does_not_fit_another_body() -> None:
    one, other = signed(), signed()
    swapped = [*one.split(".")[:3], other.split(".")[3]]
    assert refused(".".join(swapped)) == "signature"
    content = {**content_of(one), "args": arguments_digest({**ARGUMENTS, "amount": 4000})}
    body = forged(content).split(".")[2]
    assert refused(".".join([*one.split(".")[:2], body, one.split(".")[3]])) == "signature"


@unhurried
@given(st.integers(0, len(TOKEN) - 1), st.characters(codec="ascii"))
def test_no_character_of_a_token_can_be_changed(place: int, character: str) -> None:
    changed = TOKEN[:place] + character + TOKEN[place + 1 :]
    if changed != TOKEN:
        assert refused(changed) in ("malformed", "signature", "unknown_key")


@unhurried
@given(st.integers(0, 7), st.data())
def test_no_bit_of_what_is_signed_or_of_the_signature_can_be_flipped(bit: int, data: st.DataObject) -> None:
    parts = TOKEN.split(".")
    part = data.draw(st.sampled_from([2, 3]))
    raw = bytearray(base64.urlsafe_b64decode(parts[part] + "=" * (-len(parts[part]) % 4)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << bit
    parts[part] = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    assert refused(".".join(parts)) == "signature"


@unhurried
@given(st.integers(0, len(TOKEN) - 1))
def test_a_token_that_was_cut_is_refused(length: int) -> None:
    assert refused(TOKEN[:length]) in ("malformed", "signature")


def test_a_token_without_a_signature_is_refused() -> None:
    head = TOKEN.rpartition(".")[0]
    for text in (head, head + ".", head + ".AA", head + "." + "A" * 86, head + "." + "A" * 85):
        assert refused(text) in ("malformed", "signature")


def test_a_standing_consent_is_no_token_and_a_token_no_standing_consent() -> None:
    standing = sign_standing(KEY, StandingConsent.new("payments.*", approver="bob", now_ms=NOW, lifetime_ms=HOUR))
    assert refused(standing) == "malformed"
    assert refused("rta1" + standing[4:]) == "signature"
    assert refused(forged(content_of(TOKEN), domain=b"retinue/standing/1\0")) == "signature"
    for text in (TOKEN, "rts1" + TOKEN[4:], forged(content_of(TOKEN), prefix="rts1")):
        with pytest.raises(ApprovalError):
            read_standing(text, KEYS)


def test_base64_has_one_form() -> None:
    parts = TOKEN.split(".")
    for part in (2, 3):
        for odd in (
            parts[part] + "=",
            parts[part] + "==",
            parts[part] + "\n",
            " " + parts[part],
            parts[part][:-1] + "+",
            parts[part][:-1] + "/",
        ):
            assert refused(".".join([*parts[:part], odd, *parts[part + 1 :]])) == "malformed"
    # A signature of 64 bytes leaves four spare bits in its last character.
    last = parts[3][-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    spare = alphabet[alphabet.index(last) | 1]
    assert refused(TOKEN[:-1] + spare) == "malformed"


def test_the_body_has_one_form() -> None:
    content = content_of(TOKEN)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    shuffled = dict(sorted(content.items(), reverse=True))
    for raw in (
        json.dumps(content, sort_keys=True).encode(),
        json.dumps(shuffled, separators=(",", ":")).encode(),
        b" " + canonical,
        canonical + b"\n",
        canonical.replace(b'"bob"', b'"\\u0062ob"'),
        canonical.replace(b'"by":"bob"', b'"by":"bob","by":"bob"'),
        canonical.replace(b'"v":1', b'"v":1.0'),
        canonical.replace(b'"v":1', b'"v":01'),
        canonical[:-1],
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 200 + b"]" * 200,
    ):
        assert refused(forged(raw)) == "malformed", raw
    assert read_token(forged(canonical), KEYS) == read_token(TOKEN, KEYS)


FIELDS: dict[str, list[Any]] = {
    "v": [0, 2, True, "1", None],
    "jti": [None, "", "apt_1", new_id("apr"), 1],
    "req": [None, new_id("apt"), 1],
    "op": ["", 1, "a" * 256],
    "args": [None, "", "A" * 64, 1],
    "sub": [None, "", 1],
    "ten": ["", 1],
    "ses": ["", 1],
    "aud": [None, "", 1],
    "def": [None, "x"],
    "pol": [None, "", 1],
    "run": ["", 1, "a" * 2049],
    "by": [None, "", 1, "b" * 256],
    "iat": [None, -1, "1", True, NOW + HOUR, 2**63],
    "exp": [None, NOW, NOW - 1, NOW + HOUR + 1, "1", 2**63],
    "edit": ["", "x", 1, new_id("apt")],
}


def test_every_field_of_a_signed_token_is_read_strictly() -> None:
    content = content_of(TOKEN)
    assert FIELDS.keys() == content.keys()
    for field, values in FIELDS.items():
        for value in values:
            assert refused(forged({**content, field: value})) == "malformed", (field, value)
        if field != "run":
            assert refused(forged({name: value for name, value in content.items() if name != field})) == "malformed"
    assert refused(forged({**content, "more": 1})) == "malformed"
    assert refused(forged({**content, "alg": "none"})) == "malformed"


def test_a_token_of_before_there_were_runs_is_good_for_who_sends_the_message_himself_and_for_no_run() -> None:
    token = read_token(forged({name: value for name, value in content_of(TOKEN).items() if name != "run"}), KEYS)
    token.check(binding(run=None), NOW)
    assert unchecked(token, binding()) == "run"


@pytest.mark.parametrize(
    "text", [None, b"rta1", 1, "", ".", "...", "rta1...", TOKEN + ".x", "x" + TOKEN, TOKEN + " ", TOKEN.upper(), "é" * 100, "rta1." * 4]
)
def test_what_is_no_token_is_refused(text: Any) -> None:
    assert refused(text) == "malformed"


@pytest.mark.parametrize("kid", ["", "x", "0" * 15, "0" * 17, "../../etc/passwd", "none", KEY.kid.upper()])
def test_the_name_of_a_key_chooses_among_trusted_keys_and_nothing_else(kid: str) -> None:
    parts = TOKEN.split(".")
    assert refused(".".join([parts[0], kid, *parts[2:]])) == "malformed"


def test_a_huge_token_is_refused_before_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(forged({**content_of(TOKEN), "sub": "a" * 20_000})) == "malformed"
    monkeypatch.setattr(signed_frame, "_bytes_of", lambda *_: pytest.fail("it was decoded"))
    assert refused("rta1." + "a" * 2**14) == "malformed"


def test_nothing_is_read_before_the_signature_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_frame, "read_json", lambda *_, **__: pytest.fail("it was read"))
    parts = TOKEN.split(".")
    assert refused(".".join([*parts[:3], "A" * 86])) == "signature"
    assert refused(signed(key=OTHER_KEY)) == "unknown_key"


def test_a_rotated_key_is_good_for_as_long_as_it_is_trusted() -> None:
    new = SigningKey.ephemeral()
    both = VerifyingKeys(*new.verifying.keys, *KEYS.keys)
    assert read_token(TOKEN, both) == read_token(TOKEN, KEYS)
    assert read_token(signed(key=new), both).approver == "bob"
    assert refused(TOKEN, new.verifying) == "unknown_key"


@pytest.mark.parametrize(
    "changes",
    [
        {"lifetime_ms": 0},
        {"lifetime_ms": -1},
        {"lifetime_ms": HOUR + 1},
        {"lifetime_ms": 1.0},
        {"lifetime_ms": True},
        {"request_id": "x"},
        {"approver": ""},
        {"approver": "\ud800"},
        {"now_ms": -1},
        {"now_ms": None},
        {"edit_of": "x"},
        {"jti": "x"},
    ],
)
def test_what_no_token_can_say_is_not_signed(changes: dict[str, Any]) -> None:
    with pytest.raises((DefinitionError, TypeError)):
        signed(**changes)


def test_every_binding_that_there_can_be_fits_into_a_token_or_is_refused_before_it_is_signed() -> None:
    long = binding(
        subject="\U0001f600" * 255,
        tenant="\U0001f600" * 255,
        session="\U0001f600" * 255,
        audience="/user/" + "a" * 2000,
        policy_version="é" * 255,
    )
    assert read_token(signed(binding=long, approver="é" * 255), KEYS).binding == long
    with pytest.raises(ApprovalError) as caught:
        signed(binding=attrs.evolve(long, audience="\U0001f600" * 2048, operation="o" * 255, policy_version="\U0001f600" * 255))
    assert caught.value.reason == "malformed"
