"""Revoking: a context, what descends from it and what was met with it end at once, in every thread; nothing else does."""

import gc
import itertools
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.security import Authority, AuthorityError, Denied, ForgedContext, Revoked, SecurityContext, label
from retinue.security.audit import AuditLog
from retinue.security.errors import AuditUnavailable
from retinue.security.restrictions import limit
from retinue.security.seal import attenuate
from sealed import Bench


@pytest.fixture
def authority():
    return Authority()


def assert_ended(authority, context):
    assert authority.is_revoked(context)
    assert not context.allows("fs.read")
    assert "revoked" in context.explain("fs.read")
    assert authority.is_genuine(context), "revoked is not forged"
    with pytest.raises(Revoked) as caught:
        authority.check(context)
    assert caught.value.reason == "revoked"
    assert caught.value.subject == context.subject


def test_a_context_and_its_descendants_end_and_others_do_not(authority):
    alice = authority.mint("alice", ["fs.*"])
    child = alice.narrow("fs.read")
    grandchild = child._meet(authority.root.narrow(label("web")))
    sibling = alice.narrow("fs.read", label("x"))
    bob = authority.mint("bob", ["fs.*"])
    authority.revoke(child)
    for ended in (child, grandchild):
        assert_ended(authority, ended)
    for alive in (alice, sibling, bob, authority.root):
        authority.check(alive)
        assert alive.allows("fs.read")
    assert authority.revocations == authority.statistics().revocations == 1


def test_what_is_narrowed_later_has_ended_too(authority):
    alice = authority.mint("alice", ["fs.*"])
    authority.revoke(alice)
    for later in (alice.narrow("fs.read"), alice._meet(authority.root.narrow("fs.read")), alice._grant(["fs.read"])):
        assert later is not alice
        assert_ended(authority, later)
        assert_ended(authority, later.narrow(label("web")))


def test_revoking_a_grant_ends_what_was_met_with_it_before_and_after(authority):
    alice = authority.mint("alice", ["fs.*", "web.*"])
    grant = authority.mint("clerk", ["fs.*"])
    met = alice._meet(grant)
    authority.revoke(grant)
    assert_ended(authority, met)
    assert_ended(authority, alice._meet(grant))
    assert alice._meet(grant) is not alice
    assert f"the context {grant.id} of 'clerk', which it was met with, was revoked" in met.explain("fs.read")
    authority.check(alice)


def test_revoking_a_grant_that_takes_nothing_away_ends_what_was_met_with_it_before_and_after(authority):
    alice = authority.mint("alice", ["fs.read"])
    for grant in (authority.mint("clerk", ["fs.read"]), authority.mint("clerk", ["**"])):
        met = alice._meet(grant)
        below = met.narrow(label("web"))
        assert met.permissions is alice.permissions
        authority.revoke(grant)
        for ended in (met, below, alice._meet(grant)):
            assert_ended(authority, ended)
        authority.check(alice)
    assert alice._meet(authority.root) is alice


def test_revoking_what_was_joined_ends_the_joint_context(authority):
    alice, bob = authority.mint("alice", ["fs.*"]), authority.mint("bob", ["fs.*"])
    joint = alice.narrow(bob)
    below = joint.narrow("fs.read")
    authority.revoke(bob)
    assert_ended(authority, joint)
    assert_ended(authority, below)
    assert "was revoked" in below.explain("fs.read")
    authority.check(alice)


def test_revoking_twice_changes_nothing(authority):
    calls = []
    authority.on_revoke = lambda: calls.append("revoked")
    alice = authority.mint("alice", ["**"])
    child = alice.narrow("fs.read")
    authority.revoke(alice)
    authority.revoke(alice)
    authority.revoke(child)
    assert calls == ["revoked"]
    assert authority.revocations == 1


def test_the_hook_is_called_when_the_revocation_counts_already(authority):
    alice = authority.mint("alice", ["**"])
    seen = []
    authority.on_revoke = lambda: seen.append(authority.is_revoked(alice))
    authority.on_event = lambda event, context: seen.append((event, context))
    authority.revoke(alice)
    assert seen == [True, ("revoke", alice)]


def test_what_was_revoked_stays_so_when_the_audit_fails(authority):
    alice = authority.mint("alice", ["**"])

    def full(event, context):
        raise AuthorityError("disk full")

    authority.on_event = full
    with pytest.raises(AuthorityError, match="disk full"):
        authority.revoke(alice)
    assert_ended(authority, alice)
    with pytest.raises(AuthorityError, match="disk full"):
        authority.mint("bob", ["**"])


def test_a_revocation_that_nobody_could_be_told_of_is_told_at_the_next_try_and_then_no_more(authority):
    alice = authority.mint("alice", ["**"])
    told = []

    def full(event, context):
        raise AuthorityError("disk full")

    authority.on_event = full
    for _ in range(2):
        with pytest.raises(AuthorityError, match="disk full"):
            authority.revoke(alice)
    authority.on_event = lambda event, context: told.append((event, context))
    for _ in range(2):
        authority.revoke(alice)
    assert told == [("revoke", alice)]
    assert authority.revocations == 1


def test_a_token_whose_revocation_cannot_be_recorded_ends_with_all_that_was_opened_from_it():
    log = AuditLog()
    bench = Bench(audit=log)
    token = bench.sealer.seal(bench.authority.mint("ada", ["**"]))
    opened = [bench.sealer.unseal(attenuate(token, limit(depth=number))) for number in range(3)]

    def full(*_):
        raise AuditUnavailable("disk full")

    bench.authority.on_event = full
    log.close()
    with pytest.raises(AuditUnavailable):
        bench.sealer.revoke_token(token)
    assert [bench.authority.is_revoked(context) for context in opened] == [True] * 3


def test_revoking_asks_the_guard_and_takes_genuine_contexts_only(authority):
    alice = authority.mint("alice", ["**"])
    with pytest.raises(AuthorityError, match="root"):
        authority.revoke(authority.root)
    for forged in (None, object.__new__(SecurityContext), Authority().mint("x", [])):
        with pytest.raises(ForgedContext):
            authority.revoke(forged)

    def refuse():
        raise Denied("inside a handler")

    authority.guard = refuse
    with pytest.raises(Denied):
        authority.revoke(alice)
    authority.check(alice)


def test_a_context_that_was_altered_does_not_keep_others_from_being_revoked(authority):
    altered = authority.mint("eve", ["**"]).narrow("fs.read")
    object.__setattr__(altered, "parent", None)
    gc.collect()
    alice = authority.mint("alice", ["**"])
    child = alice.narrow("fs.read")
    authority.revoke(alice)
    assert_ended(authority, child)
    assert authority.is_revoked(altered)


def test_revoked_contexts_that_nobody_holds_are_forgotten(authority):
    before = authority.statistics().contexts
    for number in range(200):
        context = authority.mint("gone", [f"op.n{number}"])
        context.narrow("op.x")
        context._meet(authority.root.narrow("op.y"))
        authority.revoke(context)
    del context
    gc.collect()
    assert authority.statistics().contexts == before
    assert authority._registry.revoked == {}


def test_contexts_that_were_met_with_a_grant_of_their_own_lineage_are_forgotten(authority):
    before = authority.statistics().contexts
    for _ in range(100):
        family = authority.mint("family", ["**"])
        grant = family._grant(["fs.*", "web.*"])
        other = family._meet(authority.root.narrow(["fs.*", "mail.*"]))
        other._meet(grant)
        grant._meet(other)
        other.narrow(grant)
    del family, grant, other
    gc.collect()
    assert authority.statistics().contexts == before


@given(st.lists(st.tuples(st.sampled_from(["narrow", "meet", "join", "revoke"]), st.integers(0, 99), st.integers(0, 99)), max_size=25))
def test_a_context_has_ended_exactly_if_something_that_went_into_it_was_revoked(steps):
    authority = Authority()
    contexts = [authority.mint(name, ["**"]) for name in ("alice", "bob", "clerk")]
    went_in = {context: {context} for context in contexts}
    revoked = set()
    numbers = itertools.count()
    for step, one, two in steps:
        a, b = contexts[one % len(contexts)], contexts[two % len(contexts)]
        if step == "revoke":
            authority.revoke(a)
            revoked.add(a)
            continue
        if step == "narrow":
            new = a.narrow(label(f"n{next(numbers)}"))
        elif step == "join":
            new = a.narrow(b)
        else:
            new = a._meet(b)
        if new is not a:
            contexts.append(new)
            went_in.setdefault(new, {new}).update(went_in[a], went_in[b] if step != "narrow" else ())
    for context in contexts:
        assert authority.is_revoked(context) is bool(went_in[context] & revoked)


@settings(max_examples=5)
@given(st.integers(1, 4))
def test_no_child_slips_through_while_another_thread_revokes(threads):
    for _ in range(20):
        authority = Authority()
        alice = authority.mint("alice", ["**"])
        start, made = threading.Barrier(threads + 1), []

        def narrow(number, alice=alice, start=start, made=made):
            start.wait()
            context = alice
            for step in range(50):
                context = context.narrow(label(f"l{number}-{step}"))
                made.append(context)

        running = [threading.Thread(target=narrow, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        start.wait()
        authority.revoke(alice)
        for thread in running:
            thread.join()
        assert [context for context in made if not authority.is_revoked(context)] == []
