"""Sealed tokens: what comes out is what narrowing would have given, and everything that can end one does."""

from __future__ import annotations

import copy
import gc
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from retinue.security.audit import AuditLog
from retinue.security.authority import Authority
from retinue.security.constraints import at_most, known_from, one_of, within
from retinue.security.errors import (
    AuditUnavailable,
    DefinitionError,
    Denied,
    ForgedContext,
    KeyFileError,
    PatternError,
    Revoked,
    TokenError,
)
from retinue.security.keys import Key, KeyFile, KeyRing
from retinue.security.limits import NEVER
from retinue.security.restrictions import Restriction, allow, deny, expires, label, limit, where
from retinue.security.revocations import Revocations
from retinue.security.seal import Sealer, attenuate, inspect
from retinue.security.seal_frame import add_block, block_data, block_text, parse_frame
from sealed import START_MS, Bench, refusal, restrictions

MINUTE = 60_000


@pytest.fixture
def bench() -> Bench:
    return Bench()


# -- wire = narrow -----------------------------------------------------------------------------------------------------------------------


@given(st.lists(restrictions, max_size=3), st.lists(restrictions, max_size=3))
@settings(max_examples=examples(200))
def test_an_opened_token_permits_exactly_what_narrowing_would_have_left(mine: list[Restriction], theirs: list[Restriction]) -> None:
    bench = Bench()
    context = bench.authority.mint("ada", ["**", *mine])
    token, narrowed = bench.sealer.seal(context, expires_seconds=None), context
    for restriction in theirs:
        token, narrowed = attenuate(token, restriction), narrowed.narrow(restriction)
    if narrowed.limits.deadline_ms == NEVER or narrowed.limits.deadline_ms > bench.now:
        assert bench.sealer.unseal(token).permissions is narrowed.permissions


@given(st.lists(restrictions, max_size=3), st.lists(restrictions, min_size=1, max_size=3))
@settings(max_examples=examples(100))
def test_so_it_does_in_another_process_and_with_all_restrictions_in_one_block(mine: list[Restriction], theirs: list[Restriction]) -> None:
    here = Bench()
    there = here.other()
    context = here.authority.mint("ada", ["fs.**", "web.get", *mine])
    token = attenuate(here.sealer.seal(context, expires_seconds=None), *theirs)
    opened = there.sealer.unseal(token)
    assert opened.permissions.to_data() == context.narrow(*theirs).permissions.to_data()
    assert opened.permissions is there.authority.root.narrow(["fs.**", "web.get", *mine], *theirs).permissions


def test_a_token_with_a_life_is_the_context_narrowed_to_that_life(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["fs.*"])
    opened = bench.sealer.unseal(bench.sealer.seal(context, expires_seconds=60))
    assert opened.permissions is context.narrow(expires(seconds=60)).permissions
    assert bench.sealer.unseal(bench.sealer.seal(context)).limits.deadline_ms == START_MS + 60 * MINUTE
    short = context.narrow(expires(seconds=10))
    assert bench.sealer.unseal(bench.sealer.seal(short)).permissions is short.permissions


def test_lists_and_bare_patterns_attenuate_as_they_narrow(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["**"])
    token = bench.sealer.seal(context, expires_seconds=None)
    for given_ in ("fs.read", ["fs.read", "web.get"], [], [deny("fs.delete"), "fs.*"]):
        assert bench.sealer.unseal(attenuate(token, given_)).permissions is context.narrow(given_).permissions
    assert bench.sealer.unseal(attenuate(token)).permissions is context.permissions
    with pytest.raises(DefinitionError, match="bare patterns"):
        attenuate(token, "fs.read", "web.get")
    with pytest.raises(PatternError):
        attenuate(token, "fs.**.read")
    with pytest.raises(DefinitionError):
        attenuate(token, 7)  # type: ignore[arg-type]


def test_whom_it_speaks_for_comes_through(bench: Bench) -> None:
    context = bench.authority.mint("ada é", ["fs.*"], tenant="acme", project="p", session="s")
    for opener in (bench, bench.other()):
        opened = opener.sealer.unseal(bench.sealer.seal(context))
        assert (opened.subject, opened.tenant, opened.project, opened.session) == ("ada é", "acme", "p", "s")
        assert opened.policy_version == context.policy_version
        opener.authority.check(opened)


def test_labels_come_through_and_grow(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["**"]).narrow(label("web"))
    assert bench.other().sealer.unseal(attenuate(bench.sealer.seal(context), label("mail"))).labels == {"web", "mail"}


def test_a_star_in_a_value_stays_a_star(bench: Bench) -> None:
    context = bench.authority.mint("ada", [allow("fs.read", path=one_of("*"))])
    opened = bench.other().sealer.unseal(bench.sealer.seal(context))
    assert opened.allows("fs.read", {"path": "*"})
    assert not opened.allows("fs.read", {"path": "x"})


def test_a_source_is_looked_for_where_the_token_is_opened(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", [allow("mail.send", to=known_from("contacts"))]))
    there = bench.other()
    opened = there.sealer.unseal(token)
    assert not opened.allows("mail.send", {"to": "bob"})
    there.authority.source("contacts").add("bob")
    assert opened.allows("mail.send", {"to": "bob"})
    assert not bench.sealer.unseal(token).allows("mail.send", {"to": "bob"})


def test_nobody_gets_more_than_the_root_of_who_opens(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    small = bench.other(root=["fs.read", limit(calls=5)])
    opened = small.sealer.unseal(token)
    assert opened.allows("fs.read")
    assert not opened.allows("web.get")
    assert opened.accounts == small.authority.root.accounts


# -- one token, one context --------------------------------------------------------------------------------------------------------------


def test_the_same_token_gives_the_same_context_as_long_as_it_is_in_use(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.security.seal.KEPT", 1)
    context = bench.authority.mint("ada", ["fs.*"])
    token, other = bench.sealer.seal(context), bench.sealer.seal(context)
    opened = bench.sealer.unseal(token)
    bench.sealer.unseal(other)  # pushes the first out of the memory
    assert bench.sealer.unseal(token) is opened


def test_an_opened_token_descends_from_the_context_that_was_sealed(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["fs.*"])
    assert bench.sealer.unseal(attenuate(bench.sealer.seal(context), "fs.read")).descends_from(context)


def test_revoking_the_sealed_context_ends_its_tokens_even_if_it_is_forgotten_since(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["fs.*"])
    tokens = [bench.sealer.seal(context), attenuate(bench.sealer.seal(context), "fs.read")]
    bench.sealer.unseal(tokens[0])
    bench.authority.revoke(context)
    del context
    gc.collect()
    assert [refusal(bench, token) for token in tokens] == ["revoked", "revoked"]


def test_revoking_an_opened_context_ends_its_token_here(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["fs.*"]))
    opened = bench.sealer.unseal(token)
    bench.authority.revoke(opened)
    assert refusal(bench, token) == "revoked"


# -- budgets -----------------------------------------------------------------------------------------------------------------------------


def test_a_token_spends_from_the_account_of_the_context_that_was_sealed(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["fs.*"]).narrow(limit(calls=10))
    opened = bench.sealer.unseal(bench.sealer.seal(context))
    assert opened.accounts == context.accounts


def test_a_limit_on_the_wire_has_one_account_however_often_the_token_is_opened(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.security.seal.KEPT", 1)
    context = bench.authority.mint("ada", ["fs.*"]).narrow(limit(calls=10))
    token = attenuate(bench.sealer.seal(context), limit(calls=3))
    (account,) = bench.sealer.unseal(token).accounts
    assert account.caps.calls == 3
    assert account.parents == context.accounts
    bench.sealer.unseal(bench.sealer.seal(context))
    gc.collect()
    assert bench.sealer.unseal(token).accounts == (account,)
    again = attenuate(token, "fs.read")
    assert bench.sealer.unseal(again).accounts == (account,)


def test_elsewhere_too_all_tokens_of_one_account_share_one_account(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["fs.*"]).narrow(limit(calls=10))
    tokens = [bench.sealer.seal(context), bench.sealer.seal(context), bench.sealer.seal(context.narrow("fs.read"))]
    there = bench.other()
    accounts = {there.sealer.unseal(token).accounts for token in tokens}
    assert len(accounts) == 1
    ((account,),) = accounts
    assert account.caps.calls == 10
    unlimited = bench.sealer.seal(bench.authority.mint("bob", ["fs.*"]))
    assert there.sealer.unseal(unlimited).accounts == ()


def test_two_holders_who_attenuate_alike_have_accounts_of_their_own_below_the_same(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["fs.*"]).narrow(limit(calls=10))
    token = bench.sealer.seal(context)
    one, other = (bench.sealer.unseal(attenuate(token, limit(calls=8))).accounts for _ in range(2))
    assert one != other
    assert one[0].parents == other[0].parents == context.accounts


def test_nobody_can_choose_the_account_of_another_token(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["fs.*"]))
    theirs = attenuate(token, limit(calls=8))
    block = block_data(parse_frame(theirs).blocks[1])
    forged = add_block(add_block(token, block_text({**block, "perm": {"layers": []}})), block_text(block))
    assert bench.sealer.unseal(forged).accounts != bench.sealer.unseal(theirs).accounts


# -- time --------------------------------------------------------------------------------------------------------------------------------


def test_a_token_ends_to_the_millisecond_also_when_it_is_warm(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["fs.*"]), expires_seconds=1)
    bench.sealer.unseal(token)
    bench.now = START_MS + 999
    bench.sealer.unseal(token)
    bench.now = START_MS + 1000
    assert refusal(bench, token) == "expired"
    assert refusal(bench.other(), token) == "expired"


def test_an_attenuated_life_counts_from_the_attenuation(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["fs.*"]))
    monkeypatch.setattr("time.time_ns", lambda: (START_MS + 5000) * 1_000_000)
    short = attenuate(token, expires(seconds=2.5))
    assert inspect(short).expires_ms == START_MS + 7500
    bench.now = START_MS + 7499
    bench.sealer.unseal(short)
    bench.now = START_MS + 7500
    assert refusal(bench, short) == "expired"
    bench.sealer.unseal(token)


def test_a_later_block_cannot_lengthen_a_life(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: START_MS * 1_000_000)
    token = attenuate(bench.sealer.seal(bench.authority.mint("ada", ["fs.*"]), expires_seconds=1), expires(seconds=3600))
    bench.now += 1000
    assert refusal(bench, token) == "expired"


def test_a_token_of_the_future_is_refused_beyond_five_seconds(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["fs.*"]))
    behind = bench.other()
    behind.now = START_MS - 5001
    assert refusal(behind, token) == "not_yet_valid"
    bench.other().sealer.unseal(token)
    late = Bench(now=START_MS - 5000, keys=bench.keys)
    late.sealer.unseal(token)


def test_a_clock_that_goes_back_refuses_nothing_valid_and_extends_nothing(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["fs.*"])
    token = bench.sealer.seal(context, expires_seconds=10)
    bench.now += 9000
    newer = bench.sealer.seal(context, expires_seconds=10)
    bench.now -= 3_600_000
    for one in (token, newer):
        bench.sealer.unseal(one)
    bench.now = START_MS + 10_000
    assert refusal(bench, token) == "expired"
    bench.now -= 3_600_000
    assert refusal(bench, token) == "expired"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "60", 10**12])
def test_a_life_that_is_none_is_refused(bench: Bench, seconds: Any) -> None:
    with pytest.raises(DefinitionError):
        bench.sealer.seal(bench.authority.mint("ada", ["fs.*"]), expires_seconds=seconds)


def test_a_life_shorter_than_a_millisecond_is_no_token(bench: Bench) -> None:
    with pytest.raises(TokenError) as caught:
        bench.sealer.seal(bench.authority.mint("ada", ["fs.*"]), expires_seconds=0.0001)
    assert caught.value.reason == "expired"


# -- audience ----------------------------------------------------------------------------------------------------------------------------

TABLE = [  # sealed for, attenuated for, opened by → opens
    (None, None, None, True),
    (None, None, "billing", True),
    ("billing", None, "billing", True),
    ("billing", None, None, False),
    ("billing", None, "mail", False),
    ("billing", None, "Billing", False),
    (None, "billing", "billing", True),
    (None, "billing", None, False),
    (None, "billing", "mail", False),
    ("billing", "billing", "billing", True),
    ("billing", "mail", "billing", False),
    ("billing", "mail", "mail", False),
]


@pytest.mark.parametrize(("sealed", "attenuated", "opener", "opens"), TABLE)
def test_the_audience_of_every_block_must_be_who_opens(sealed: str | None, attenuated: str | None, opener: str | None, opens: bool) -> None:
    bench = Bench()
    token = attenuate(bench.sealer.seal(bench.authority.mint("ada", ["**"]), audience=sealed), "fs.*", audience=attenuated)
    there = bench.other(audience=opener)
    for options, where_ in (({"audience": opener}, bench), ({}, there)):
        if opens:
            where_.sealer.unseal(token, **options)
        else:
            assert refusal(where_, token, **options) == "audience"


def test_a_warm_token_is_still_for_its_audience_alone(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]), audience="billing")
    bench.sealer.unseal(token, audience="billing")
    assert refusal(bench, token, audience="mail") == "audience"
    assert refusal(bench, token) == "audience"


@pytest.mark.parametrize("audience", ["", "x" * 256, 7, "\ud800", b"billing"])
def test_an_audience_that_is_none_is_refused(bench: Bench, audience: Any) -> None:
    context = bench.authority.mint("ada", ["**"])
    token = bench.sealer.seal(context)
    for act in (
        lambda: bench.sealer.seal(context, audience=audience),
        lambda: bench.sealer.unseal(token, audience=audience),
        lambda: attenuate(token, audience=audience),
        lambda: Sealer(bench.authority, bench.keys, audience=audience),
    ):
        with pytest.raises(DefinitionError, match="audience"):
            act()


# -- keys --------------------------------------------------------------------------------------------------------------------------------


def test_another_key_opens_nothing(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    assert refusal(Bench(), token) == "unknown_key"
    namesake = KeyRing(Key(bench.keys.current.kid, b"x" * 32))
    assert refusal(Bench(keys=namesake), token) == "mac"


def test_a_token_of_one_key_cannot_be_passed_off_as_anothers(bench: Bench) -> None:
    ring = bench.keys.rotated()
    there = bench.other(keys=ring)
    token = there.sealer.seal(there.authority.mint("ada", ["**"]))
    assert refusal(there, token.replace(ring.keys[0].kid, ring.keys[1].kid)) == "mac"


def test_rotation_ends_what_older_keys_sealed_also_when_it_is_warm(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    file.create()
    bench = Bench(keys=file)
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    bench.sealer.unseal(token)
    KeyFile(tmp_path / "keys").rotate(keep=1)
    bench.sealer.unseal(token)
    newer = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    assert inspect(newer).kid != inspect(token).kid
    KeyFile(tmp_path / "keys").rotate(keep=1)
    assert refusal(bench, token) == "unknown_key"
    bench.sealer.unseal(newer)


def test_a_path_is_a_key_file_that_is_made_and_shared(tmp_path: Path) -> None:
    one, other = Bench(keys=str(tmp_path / "keys")), Bench(keys=tmp_path / "keys")
    other.sealer.unseal(one.sealer.seal(one.authority.mint("ada", ["**"])))
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    (tmp_path / "keys").chmod(0o644)
    with pytest.raises(KeyFileError):
        one.sealer.seal(one.authority.mint("ada", ["**"]))


@pytest.mark.parametrize("keys", [None, b"x" * 32, 7, {}])
def test_keys_that_are_none_are_refused(keys: Any) -> None:
    with pytest.raises(DefinitionError, match="KeyRing"):
        Sealer(Authority(), keys)


# -- revocation --------------------------------------------------------------------------------------------------------------------------


def test_revoking_a_token_ends_its_root_and_everything_from_it(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["**"])
    token, other = bench.sealer.seal(context), bench.sealer.seal(context)
    child, sibling = attenuate(token, "fs.*"), attenuate(token, "web.*")
    opened = bench.sealer.unseal(sibling)
    bench.sealer.revoke_token(child)
    assert [refusal(bench, one) for one in (token, child, sibling)] == ["revoked"] * 3
    with pytest.raises(Revoked):
        bench.authority.check(opened)
    bench.sealer.unseal(other)


def test_revoking_only_this_token_leaves_what_it_came_from(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    child, sibling = attenuate(token, "fs.*"), attenuate(token, "web.*")
    grandchild = attenuate(child, "fs.read")
    bench.sealer.revoke_token(child, only_this=True)
    assert [refusal(bench, one) for one in (child, grandchild)] == ["revoked"] * 2
    bench.sealer.unseal(token)
    bench.sealer.unseal(sibling)


def test_an_id_is_enough_to_revoke(bench: Bench) -> None:
    token = attenuate(bench.sealer.seal(bench.authority.mint("ada", ["**"])), "fs.*")
    bench.sealer.revoke_token(inspect(token).ids[1])
    assert refusal(bench, token) == "revoked"


def test_revoking_ends_contexts_that_are_in_use_though_their_token_was_forgotten(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.security.seal.KEPT", 1)
    context = bench.authority.mint("ada", ["**"])
    token, other = bench.sealer.seal(context), bench.sealer.seal(context)
    opened = bench.sealer.unseal(token)
    bench.sealer.unseal(other)
    bench.sealer.revoke_token(token)
    with pytest.raises(Revoked):
        bench.authority.check(opened)
    bench.sealer.unseal(other)


@pytest.mark.parametrize("how", ["as it is", "narrowed", "joined"])
def test_a_token_of_what_came_out_of_a_token_ends_with_it_everywhere(bench: Bench, tmp_path: Path, how: str) -> None:
    path = tmp_path / "revoked"
    here, there = bench.other(revocations=path), bench.other(revocations=path)
    first = attenuate(here.sealer.seal(here.authority.mint("ada", ["**"])), "fs.*")
    opened = there.sealer.unseal(first)
    again = {
        "as it is": lambda: opened,
        "narrowed": lambda: opened.narrow("fs.read").narrow(label("web")),
        "joined": lambda: there.authority.mint("bob", ["**"]).narrow(opened),
    }[how]()
    second = there.sealer.seal(again)
    third = there.sealer.seal(there.authority.mint("eve", ["**"]))
    here.sealer.unseal(second)
    here.sealer.revoke_token(first, only_this=True)
    assert (
        refusal(here, second) == refusal(there, second) == refusal(bench.other(revocations=path), attenuate(second, "fs.read")) == "revoked"
    )
    here.sealer.unseal(third)


def test_only_genuine_tokens_and_ids_are_revoked(bench: Bench) -> None:
    for odd, reason in (
        ("", "malformed"),
        ("x" * 24, "malformed"),
        (None, "malformed"),
        ("rt1.00.e30." + "A" * 43, "unknown_key"),
    ):
        with pytest.raises(TokenError) as caught:
            bench.sealer.revoke_token(odd)  # type: ignore[arg-type]
        assert caught.value.reason == reason
    assert bench.sealer.revocations.ids() == frozenset()


def test_a_file_of_revocations_counts_in_every_process_at_once_and_after_a_restart(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    here = bench.other(revocations=path)
    there = bench.other(revocations=str(path))
    token = here.sealer.seal(here.authority.mint("ada", ["**"]))
    there.sealer.unseal(token)
    here.sealer.revoke_token(token)
    assert refusal(there, token) == "revoked"
    assert refusal(bench.other(revocations=Revocations(path)), token) == "revoked"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("break_", [lambda path: path.unlink(), lambda path: path.chmod(0o644), lambda path: path.write_bytes(b"{}")])
def test_where_the_file_cannot_be_read_no_token_is_accepted(bench: Bench, tmp_path: Path, break_: Any) -> None:
    there = bench.other(revocations=tmp_path / "revoked")
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    there.sealer.unseal(token)
    break_(tmp_path / "revoked")
    assert refusal(there, token) == "revoked"


# -- who may ------------------------------------------------------------------------------------------------------------------------------


def test_the_guard_of_the_authority_stands_before_everything(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["**"])
    token = bench.sealer.seal(context)
    bench.sealer.unseal(token)

    def guard() -> None:
        raise Denied("inside a turn")

    bench.authority.guard = guard
    for act in (lambda: bench.sealer.seal(context), lambda: bench.sealer.unseal(token), lambda: bench.sealer.revoke_token(token)):
        with pytest.raises(Denied, match="inside a turn"):
            act()


def test_only_genuine_live_contexts_are_sealed(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["**"])
    for odd in (None, "context", Bench().authority.root):
        with pytest.raises(ForgedContext):
            bench.sealer.seal(odd)  # type: ignore[arg-type]
    with pytest.raises(TokenError) as caught:
        bench.sealer.seal(context.narrow(expires(seconds=0)))
    assert caught.value.reason == "expired"
    bench.authority.revoke(context)
    with pytest.raises(Revoked):
        bench.sealer.seal(context)


def test_too_many_tokens_that_have_not_expired_are_refused_and_expired_ones_make_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.security.seal.MAX_SEALED", 3)
    context = bench.authority.mint("ada", ["**"])
    for _ in range(3):
        bench.sealer.seal(context, expires_seconds=1)
    with pytest.raises(TokenError, match="have not expired"):
        bench.sealer.seal(context)
    bench.now += 1000
    bench.sealer.unseal(bench.sealer.seal(context))


def test_a_token_holds_thirty_two_blocks(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    for _ in range(31):
        token = attenuate(token, deny("fs.delete"))
    bench.sealer.unseal(token)
    with pytest.raises(TokenError) as caught:
        attenuate(token, deny("fs.delete"))
    assert caught.value.reason == "too_large"


def test_more_permissions_than_a_token_holds_are_refused(bench: Bench) -> None:
    many = [f"operation.of.a.rather.long.name.{number}" for number in range(3000)]
    context = bench.authority.mint("ada", many)
    with pytest.raises(TokenError) as caught:
        bench.sealer.seal(context)
    assert caught.value.reason == "too_large"
    with pytest.raises(TokenError):
        attenuate(bench.sealer.seal(bench.authority.mint("ada", ["**"])), many)


def test_opened_and_sealed_without_a_trace_of_keys(bench: Bench) -> None:
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    opened = bench.sealer.unseal(token)
    for thing in (bench.sealer, opened, inspect(token), parse_frame(token), bench.sealer.revocations):
        assert token[-43:] not in repr(thing)
        assert bench.keys.current.secret.hex() not in repr(thing)
    with pytest.raises(TypeError):
        pickle.dumps(bench.sealer)
    with pytest.raises(TypeError):
        copy.copy(bench.sealer)


# -- looking and recording ---------------------------------------------------------------------------------------------------------------


def test_inspect_tells_what_is_there_without_a_key(bench: Bench) -> None:
    context = bench.authority.mint("ada", ["fs.*"], tenant="acme")
    token = attenuate(bench.sealer.seal(context, audience="billing"), where("fs.read", path=within("reports/")), limit(calls=3))
    info = inspect(token)
    assert (info.subject, info.tenant, info.project, info.session) == ("ada", "acme", None, None)
    assert info.kid == bench.keys.current.kid
    assert info.audiences == {"billing"}
    assert (info.issued_ms, info.expires_ms) == (START_MS, START_MS + 60 * MINUTE)
    assert len(info.ids) == len(info.restrictions) == 2
    assert "allow('fs.*')" in info.restrictions[0]
    assert "limit(calls=3)" in info.restrictions[1]
    assert inspect(token[:-1] + ("A" if token[-1] != "A" else "B")) == info  # it says so: nothing is verified


def test_refusals_and_revocations_are_recorded_without_the_token() -> None:
    log = AuditLog()
    bench = Bench(audit=log)
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    bench.sealer.unseal(token)
    bench.sealer.revoke_token(token)
    assert refusal(bench, token) == "revoked"
    kinds = [(entry.kind, entry.allowed, entry.reason) for entry in log.entries()]
    assert kinds == [("revoke", True, ""), ("decision", False, "token"), ("decision", False, "token")]
    assert token[-43:] not in json.dumps([entry.line for entry in log.entries()])


def test_where_a_refusal_cannot_be_recorded_that_is_what_is_raised() -> None:
    log = AuditLog()
    bench = Bench(audit=log)
    log.close()
    with pytest.raises(AuditUnavailable):
        bench.sealer.unseal("rt1.x")


def test_an_amount_stays_what_it_was(bench: Bench) -> None:
    context = bench.authority.mint("ada", [allow("pay.send", amount=at_most(100))])
    opened = bench.other().sealer.unseal(bench.sealer.seal(context))
    assert [opened.allows("pay.send", {"amount": amount}) for amount in (100, 101, True, "100", None)] == [True, False, False, False, False]
