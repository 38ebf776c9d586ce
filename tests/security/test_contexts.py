import gc
import weakref

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permission_strategies import argument_dicts, asked_lists, operations, passes, permissions, restrictions
from retinue.security import (
    Authority,
    DefinitionError,
    ForgedContext,
    PatternError,
    allow,
    deny,
    expires,
    label,
    limit,
    max_risk,
    needs_approval,
    unlabelled,
    where,
)
from retinue.security.constraints import at_most, one_of
from retinue.security.context import MAX_CHILDREN

AUTHORITY = Authority()
contexts = permissions.map(lambda given_list: AUTHORITY.mint("alice", given_list))
grants = permissions.map(lambda given_list: AUTHORITY.mint("grantor", given_list))


# --- narrow


@given(contexts, st.lists(restrictions, max_size=3), operations)
def test_narrow_permits_exactly_what_the_context_and_each_restriction_permit(context, asked, operation):
    expected = context.allows(operation) and all(passes(restriction, operation) for restriction in asked)
    assert context.narrow(*asked).allows(operation) is expected


@given(contexts, restrictions, restrictions)
def test_the_order_of_narrowing_does_not_matter(context, x, y):
    assert context.narrow(x).narrow(y).permissions is context.narrow(y).narrow(x).permissions
    assert context.narrow(x, y).permissions is context.narrow(y, x).permissions
    assert context.narrow(x).narrow(y).permissions is context.narrow(x, y).permissions


@given(contexts, restrictions)
def test_narrowing_again_by_the_same_gives_the_context_itself(context, restriction):
    narrowed = context.narrow(restriction)
    assert narrowed.narrow(restriction) is narrowed
    assert narrowed.narrow() is narrowed


@given(contexts)
def test_asking_for_everything_gives_the_context_itself(context):
    for asked in (allow("**"), deny(), "**", ["**"], ["fs.read", "**"]):
        assert context.narrow(asked) is context


def test_narrow_never_widens_whatever_is_asked_for():
    small = AUTHORITY.mint("alice", ["fs.*"]).narrow(allow("fs.read"))
    for asked in (allow("**"), allow("fs.*"), allow("fs.write"), allow("web.*"), ["**"], ["fs.write"], deny("fs.read"), []):
        narrowed = small.narrow(asked)
        assert [op for op in ("fs.write", "web.get", "fs", "fs.read.x") if narrowed.allows(op)] == []
    assert small.allows("fs.read")
    assert not small.narrow(allow("fs.write")).allows("fs.read")


@pytest.mark.parametrize("asked", [allow(), [], (), deny("**"), set()])
def test_narrowing_to_nothing_permits_nothing(asked):
    nothing = AUTHORITY.mint("alice", ["**"]).narrow(asked)
    assert [operation for operation in ("fs", "fs.read", "a.b.c") if nothing.allows(operation)] == []


def test_patterns_may_be_given_bare_or_in_a_list():
    context = AUTHORITY.mint("alice", ["**"])
    assert context.narrow("fs.read").permissions is context.narrow(allow("fs.read")).permissions
    assert context.narrow(["fs.read", "web.get"]).permissions is context.narrow(allow("fs.read", "web.get")).permissions
    assert context.narrow(name for name in ("fs.read", "web.get")).permissions is context.narrow(allow("fs.read", "web.get")).permissions
    assert context.narrow(["fs.*", deny("fs.delete")]).permissions is context.narrow(allow("fs.*"), deny("fs.delete")).permissions


def test_several_bare_patterns_are_refused_because_they_are_ambiguous():
    with pytest.raises(DefinitionError, match=r"narrow\(\['fs.read', 'web.get'\]\)"):
        AUTHORITY.root.narrow("fs.read", "web.get")


@pytest.mark.parametrize("asked", [None, 3, b"fs.read", object(), AUTHORITY.everything])
def test_narrow_takes_restrictions_and_patterns_only(asked):
    with pytest.raises(DefinitionError):
        AUTHORITY.root.narrow(asked)
    with pytest.raises(PatternError):
        AUTHORITY.root.narrow("fs..read")


def test_a_narrowed_context_is_a_child_of_the_same_principal():
    context = AUTHORITY.mint("alice", ["fs.*"], tenant="acme", project="q3", session="s1")
    child = context.narrow("fs.read")
    assert child is not context
    assert child.parent is context
    assert (child.subject, child.tenant, child.project, child.session) == ("alice", "acme", "q3", "s1")
    assert AUTHORITY.is_genuine(child)
    assert context.allows("fs.write"), "the parent keeps what it had"


# --- with all that a restriction can be


@given(asked_lists, asked_lists)
def test_narrowing_by_anything_is_idempotent_and_in_any_order_the_same(first, second):
    one = [asked.restriction for asked in first]
    two = [asked.restriction for asked in second]
    context = AUTHORITY.mint("alice", ["**"]).narrow(*one)
    narrowed = context.narrow(*two)
    assert narrowed.narrow(*two) is narrowed
    assert context.narrow(*reversed(two)).permissions is narrowed.permissions
    assert AUTHORITY.root.narrow(*two).narrow(*one).permissions is narrowed.permissions
    assert (narrowed is context) is (narrowed.permissions is context.permissions)


@given(asked_lists, asked_lists, operations, argument_dicts)
def test_what_is_narrowed_by_anything_never_allows_more(first, second, operation, arguments):
    context = AUTHORITY.mint("alice", ["**"]).narrow(*(asked.restriction for asked in first))
    narrowed = context.narrow(*(asked.restriction for asked in second))
    assert narrowed.allows(operation, arguments, risk="L1") <= context.allows(operation, arguments, risk="L1")
    assert (" is permitted" in narrowed.explain(operation, arguments)) is narrowed.allows(operation, arguments)


def test_arguments_decide_where_a_layer_asks_for_them():
    small = AUTHORITY.mint("alice", ["payments.*"]).narrow(where("payments.send", amount=at_most(100), to=one_of("ACME")))
    assert small.allows("payments.send", {"to": "ACME", "amount": 40})
    assert not small.allows("payments.send", {"to": "ACME", "amount": 400})
    assert not small.allows("payments.send", {"to": "MALLORY", "amount": 4})
    assert not small.allows("payments.send"), "unseen"
    assert small.allows("payments.list")
    text = small.explain("payments.send", {"to": "ACME", "amount": 400})
    assert "its argument 'amount' is not at_most(100) (added by narrow(), context " in text


@attrs.frozen
class Payment:
    to: str
    amount: int


def test_a_message_may_be_given_for_its_arguments():
    small = AUTHORITY.mint("alice", ["payments.*", where("payments.send", amount=at_most(100), to=one_of("ACME"))])
    assert small.allows("payments.send", Payment("ACME", 40))
    assert not small.allows("payments.send", Payment("ACME", 400))
    for arguments in (Payment("ACME", 400), Payment("Eve", 40)):
        assert small.explain("payments.send", arguments) == small.explain("payments.send", attrs.asdict(arguments))
    assert "not given" not in small.explain("payments.send", Payment("Eve", 40))


@pytest.mark.parametrize("arguments", ["ACME", b"", ["ACME", 40], ("to", "ACME"), 40, 0, False, Payment, object()])
def test_what_is_neither_a_mapping_nor_a_message_is_not_taken_for_arguments_that_are_unknown(arguments):
    for ask in (AUTHORITY.root.allows, AUTHORITY.root.explain):
        with pytest.raises(
            DefinitionError, match=r"takes the arguments as a mapping by name or as a message, not (the class|an object of type) "
        ):
            ask("payments.send", arguments)


def test_consent_is_no_permission():
    context = AUTHORITY.mint("alice", ["**"]).narrow(needs_approval("payments.**", unless={"amount": at_most(10)}))
    assert not context.allows("payments.send", {"amount": 11})
    assert "needs a person's consent" in context.explain("payments.send", {"amount": 11})
    assert context.allows("payments.send", {"amount": 10})


def test_labels_only_grow_and_refuse_where_a_layer_says_so():
    alice = AUTHORITY.mint("alice", ["**", unlabelled("mail.send", labels=["web"])])
    assert alice.labels == frozenset()
    touched = alice.narrow(label("web"), label("file:x"))
    assert touched.labels == {"web", "file:x"}
    assert touched.narrow(label("web")) is touched
    assert touched.narrow(label()) is touched
    assert alice.allows("mail.send")
    assert not touched.allows("mail.send")
    assert "under the label 'web'" in touched.explain("mail.send")
    assert touched.narrow(allow("**")).labels == touched.labels
    assert alice._meet(AUTHORITY.root.narrow(label("web"))).labels == {"web"}


# --- joining contexts


def test_a_context_can_be_narrowed_by_another_one():
    alice = AUTHORITY.mint("alice", ["fs.*", "web.*"]).narrow(label("web"))
    bob = AUTHORITY.mint("bob", ["fs.*", "mail.*", expires(seconds=60), limit(calls=5)]).narrow(label("mail"))
    joint = alice.narrow(bob)
    assert joint.permissions is alice.permissions.meet(bob.permissions)
    assert joint.labels == {"web", "mail"}
    assert joint.limits == bob.limits
    assert joint.accounts is bob.accounts
    assert joint.subject == "alice"
    assert joint.parent is alice
    assert [name for name in ("fs.read", "web.get", "mail.send") if joint.allows(name)] == ["fs.read"]
    assert joint.descends_from(alice)
    assert not joint.descends_from(bob), "it does not speak for bob"
    assert joint.narrow(bob) is joint
    assert joint.narrow("fs.read").narrow(bob, alice).parent is joint
    text = joint.explain("web.get")
    assert f"(added by narrow(), context {joint.id} of 'alice'; there by mint(), context {bob.parent.id} of 'bob')" in text


def test_a_context_that_is_joined_with_itself_or_an_ancestor_is_the_same():
    alice = AUTHORITY.mint("alice", ["fs.*"])
    child = alice.narrow("fs.read")
    assert alice.narrow(alice) is alice
    assert child.narrow(alice) is child
    assert alice.narrow(child).permissions is child.permissions
    assert alice.narrow(child, "fs.read") is not alice


def test_joining_takes_genuine_contexts_of_the_same_authority_only():
    forged = object.__new__(type(AUTHORITY.root))
    for other in (Authority().root, Authority().mint("x", ["fs.*"]), forged):
        with pytest.raises(ForgedContext):
            AUTHORITY.root.narrow(other)
        with pytest.raises(ForgedContext):
            AUTHORITY.mint("alice", ["**"]).narrow("fs.read", other)


@given(contexts, contexts, contexts)
def test_joining_is_commutative_and_associative_in_what_is_permitted(a, b, c):
    assert a.narrow(b).permissions is b.narrow(a).permissions is a.narrow(b, a, b).permissions
    assert a.narrow(b).narrow(c).permissions is a.narrow(b.narrow(c)).permissions


# --- grants


def test_children_that_are_granted_the_same_share_a_context():
    alice = AUTHORITY.mint("alice", ["fs.*", "web.*"])
    grant = alice._grant(["fs.*"])
    assert alice._grant(["fs.*"]) is grant
    assert grant.permissions is alice.narrow(["fs.*"]).permissions
    assert grant.parent is alice
    assert alice._grant(["**"]) is alice
    assert alice._grant(["fs.*", deny("fs.x")]) is not grant
    assert "the grant of an actor" in grant.explain("web.get")


def test_grants_with_an_account_or_a_deadline_are_not_shared():
    alice = AUTHORITY.mint("alice", ["**"])
    for asked in (["**", limit(calls=3)], ["**", expires(seconds=60)]):
        assert alice._grant(asked) is not alice._grant(asked)
    assert alice._grant(["**", limit(calls=3)]).accounts != alice._grant(["**", limit(calls=3)]).accounts
    for bad in ("fs.*", None, 3):
        with pytest.raises(DefinitionError):
            alice._grant(bad)


# --- the runtime's meet with a grant


@given(contexts, grants, operations)
def test_a_meet_with_a_grant_permits_exactly_what_both_permit(context, grant, operation):
    met = context._meet(grant)
    assert met.allows(operation) is (context.allows(operation) and grant.allows(operation))
    assert met.permissions is context.permissions.meet(grant.permissions)


@given(contexts, grants)
def test_a_meet_is_remembered_and_adds_nothing_twice(context, grant):
    met = context._meet(grant)
    assert context._meet(grant) is met
    assert met._meet(grant) is met
    assert met._meet(context) is met
    assert (met is context) is (grant in (AUTHORITY.root, context))


def test_a_meet_that_takes_nothing_away_is_the_context_itself():
    context = AUTHORITY.mint("alice", ["fs.*", deny("fs.delete")])
    assert context._meet(AUTHORITY.root) is context
    assert context._meet(context) is context
    assert context.narrow(["fs.read"])._meet(context).parent is context, "one that has gone into it already"
    assert context._children is None, "nothing is remembered where there is nothing to remember"


def test_a_meet_with_a_grant_that_can_be_revoked_hangs_on_it_although_it_takes_nothing_away():
    context = AUTHORITY.mint("alice", ["fs.*", deny("fs.delete")])
    grant = AUTHORITY.root.narrow(["fs.*"])
    met = context._meet(grant)
    assert met.permissions is context.permissions
    assert met.parent is context
    assert context._meet(grant) is met
    assert met._meet(grant) is met


def test_a_met_context_speaks_for_the_same_subject_and_descends_from_the_first():
    context = AUTHORITY.mint("alice", ["fs.*"], session="s1")
    met = context._meet(AUTHORITY.root.narrow(["fs.read"]))
    assert (met.parent, met.subject, met.session) == (context, "alice", "s1")
    assert AUTHORITY.is_genuine(met)
    assert not met.allows("fs.write")


def test_the_memo_of_meets_is_bounded_and_right_after_it_was_emptied():
    context = AUTHORITY.mint("alice", ["op.**"])
    for number in range(MAX_CHILDREN + 10):
        grant = AUTHORITY.root.narrow([f"op.n{number}"])
        assert context._meet(grant).allows(f"op.n{number}")
        assert not context._meet(grant).allows("op.other")
        assert len(context._children) <= MAX_CHILDREN


def test_contexts_that_nobody_holds_are_forgotten():
    authority = Authority()
    before = authority.statistics().contexts
    kept = authority.mint("kept", ["fs.*"])
    for number in range(1_000):
        context = authority.mint("gone", [f"op.n{number}"])
        context.narrow(allow("op.x"))
        context._meet(authority.root.narrow(["op.y"]))
    del context
    gc.collect()
    assert authority.statistics().contexts == before + 1
    assert authority.is_genuine(kept)


def test_a_context_can_be_referenced_weakly():
    context = AUTHORITY.mint("alice", [])
    reference = weakref.ref(context)
    assert reference() is context
    del context
    gc.collect()
    assert reference() is None


# --- descent


def test_a_context_descends_from_itself_and_from_what_it_was_narrowed_from():
    alice = AUTHORITY.mint("alice", ["fs.*"])
    child = alice.narrow("fs.read")
    grandchild = child._meet(AUTHORITY.root.narrow([deny("fs.x"), "**"]))
    for younger, older in ((alice, alice), (child, alice), (grandchild, child), (grandchild, alice), (AUTHORITY.root, AUTHORITY.root)):
        assert younger.descends_from(older)


def test_a_context_descends_from_no_child_sibling_or_stranger():
    alice = AUTHORITY.mint("alice", ["**"])
    child, sibling = alice.narrow("fs.read"), alice.narrow("fs.read")
    assert child is not sibling
    bob = AUTHORITY.mint("bob", ["**"])
    for younger, older in (
        (alice, child),
        (child, sibling),
        (bob, alice),
        (bob, AUTHORITY.root),
        (alice, Authority().mint("alice", ["**"])),
    ):
        assert not younger.descends_from(older)
    assert not child.descends_from(None)


@given(contexts, st.lists(restrictions, max_size=4), operations)
def test_what_descends_never_permits_more(context, asked, operation):
    youngest = context
    for restriction in asked:
        youngest = youngest.narrow(restriction)
    assert youngest.descends_from(context)
    assert context.allows(operation) or not youngest.allows(operation)


# --- what it tells


def test_a_context_shows_its_limits_and_the_policy_under_which_it_was_minted():
    authority = Authority()
    alice = authority.mint("alice", ["**", max_risk("L2"), limit(depth=3)])
    assert (alice.limits.risk, alice.limits.depth) == (2, 3)
    assert alice.policy_version == "1"
    authority.policy_version = "2"
    assert authority.mint("bob", []).policy_version == "2"
    assert alice.narrow("fs.*").policy_version == "1"


def test_ids_are_short_and_unique_and_the_lineage_lists_them_from_the_oldest():
    alice = AUTHORITY.mint("alice", ["fs.*"])
    child = alice.narrow("fs.read")
    assert child.lineage == (alice.id, child.id)
    assert alice.lineage == (alice.id,)
    assert alice.id == alice.id
    ids = {AUTHORITY.mint("x", []).id for _ in range(500)} | {Authority().root.id for _ in range(20)}
    assert len(ids) == 520
    assert max(map(len, ids)) <= 24


def test_an_explanation_says_which_layer_refuses_and_who_added_it():
    alice = AUTHORITY.mint("alice", ["fs.*", "web.get"])
    child = alice.narrow(deny("fs.delete"))
    met = child._meet(AUTHORITY.root.narrow(["web.*"]))
    assert alice.explain("fs.read").startswith("'fs.read' is permitted")
    text = met.explain("fs.delete")
    assert "'fs.delete' is not permitted" in text
    assert f"deny('fs.delete') refuses it (added by narrow(), context {child.id} of 'alice')" in text
    assert f"allow('web.*') does not name it (added by the grant of an actor that the message went through, context {met.id}" in text
    assert f"allow('fs.*', 'web.get') does not name it (added by mint(), context {alice.id}" in met.explain("mail.send")
    small = Authority(["fs.*"])
    assert "added by mint()" in small.mint("eve", ["**"]).explain("web.get")
    assert "added by the permissions of the system" in small.root.explain("web.get")


def test_an_explanation_of_many_refusals_is_cut():
    context = AUTHORITY.mint("alice", [allow(f"op.n{number}") for number in range(40)])
    text = context.explain("fs.read")
    assert "and 37 more layers refuse it" in text
    assert len(text) < 1_000


def test_the_repr_shows_subject_and_layers_escaped():
    context = AUTHORITY.mint("eve\x1b[31m\n", ["fs.*", deny("fs.delete")])
    assert repr(context) == f"<SecurityContext {context.id} of 'eve\\x1b[31m\\n': allow('fs.*'), deny('fs.delete')>"


@pytest.mark.parametrize("operation", ["", "fs..read", "fs.*", "**", None, 3])
def test_a_malformed_operation_is_an_error_even_for_the_root(operation):
    with pytest.raises(PatternError):
        AUTHORITY.root.allows(operation)
    with pytest.raises(PatternError):
        AUTHORITY.root.explain(operation)
