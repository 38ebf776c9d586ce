"""What is no genuine context gives nothing. Each way of making one by hand is tried, and what still comes out is refused by `check`."""

import copy
import pickle

import pytest

from retinue.security import Authority, ForgedContext, SecurityContext, allow, limit
from retinue.security.context import Principal

FIELDS = ["permissions", "parent", "_principal", "_registry", "_number", "_step", "_children", "_accounts", "_others"]


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def alice(authority):
    return authority.mint("alice", ["fs.read"])


def forge(like: SecurityContext, **changes) -> SecurityContext:
    """An object with all the fields of a genuine context, written around every guard."""
    forged = object.__new__(SecurityContext)
    for name in FIELDS:
        object.__setattr__(forged, name, changes.get(name, getattr(like, name)))
    return forged


def assert_refused(authority: Authority, context: object) -> str:
    assert authority.is_genuine(context) is False
    with pytest.raises(ForgedContext) as caught:
        authority.check(context)
    assert "system.authority.mint" in str(caught.value)
    return str(caught.value)


def test_the_genuine_ones_are_accepted(authority, alice):
    for context in (authority.root, alice, alice.narrow(allow()), alice._meet(authority.root.narrow([]))):
        assert authority.is_genuine(context) is True
        authority.check(context)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SecurityContext(),
        lambda: SecurityContext("root", ["**"]),
        lambda: SecurityContext(subject="root", permissions=["**"]),
        lambda: SecurityContext.__new__(SecurityContext),
    ],
)
def test_the_constructor_is_refused_with_advice(make):
    with pytest.raises(TypeError, match=r"Use system\.authority\.mint"):
        make()


def test_a_context_cannot_be_subclassed():
    with pytest.raises(TypeError, match="final"):
        type("Mine", (SecurityContext,), {})


def test_a_context_cannot_be_copied_or_pickled(authority, alice):
    for attempt in (lambda: copy.copy(alice), lambda: copy.deepcopy(alice), lambda: copy.deepcopy({"in": [alice]})):
        with pytest.raises(TypeError, match="not copied"):
            attempt()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(alice, protocol)


@pytest.mark.parametrize("name", [*FIELDS, "subject", "id", "__class__", "something_new"])
def test_a_context_cannot_be_assigned_to(authority, alice, name):
    with pytest.raises(AttributeError, match="immutable"):
        setattr(alice, name, authority.everything)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(alice, name)
    authority.check(alice)
    assert not hasattr(alice, "__dict__")


@pytest.mark.parametrize("thing", [None, "root", {"subject": "root"}, object(), SecurityContext, Authority().root.permissions])
def test_what_is_no_context_is_refused(authority, thing):
    assert "a security context is wanted" in assert_refused(authority, thing)


def test_an_empty_object_made_around_the_constructor_is_refused(authority):
    forged = object.__new__(SecurityContext)
    assert_refused(authority, forged)
    with pytest.raises(ForgedContext):
        forged.narrow(allow("fs.read"))
    assert repr(forged) == "<SecurityContext that no authority made>"


def test_a_perfect_copy_made_around_the_constructor_is_refused(authority, alice):
    assert_refused(authority, forge(alice))
    assert_refused(authority, forge(authority.root))


def test_a_forged_context_has_no_genuine_children(authority, alice):
    forged = forge(alice, permissions=authority.everything)
    with pytest.raises(ForgedContext):
        forged.narrow(allow("fs.*"))
    with pytest.raises(ForgedContext):
        forged._meet(authority.root.narrow(["web.*"]))
    assert_refused(authority, forged.narrow())


def test_a_forged_context_descends_from_nothing(authority, alice):
    child = forge(alice, parent=alice)
    assert not child.descends_from(alice)
    assert not child.descends_from(child)
    assert not alice.descends_from(child)


def test_an_object_that_claims_to_equal_a_context_is_refused(authority, alice):
    class Liar:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash(alice)

        @property
        def __class__(self):
            return SecurityContext

    liar = Liar()
    assert isinstance(liar, SecurityContext)
    assert_refused(authority, liar)
    assert_refused(authority, type("Liar2", (), {"__eq__": lambda self, other: True, "__hash__": lambda self: hash(alice)})())


def test_a_genuine_context_that_was_widened_behind_its_back_is_refused(authority, alice):
    object.__setattr__(alice, "permissions", authority.everything)
    assert "altered" in assert_refused(authority, alice)
    with pytest.raises(ForgedContext):
        alice.narrow(allow("web.get"))


def test_a_genuine_context_that_was_given_another_parent_is_refused(authority, alice):
    stolen = authority.mint("root", ["**"])
    object.__setattr__(stolen, "parent", alice)
    assert_refused(authority, stolen)
    assert not stolen.descends_from(alice)


def test_a_genuine_context_whose_accounts_were_taken_away_is_refused(authority):
    poor = authority.mint("alice", ["**", limit(calls=1)])
    assert "altered" not in repr(poor)
    object.__setattr__(poor, "_accounts", ())
    assert_refused(authority, poor)
    with pytest.raises(ForgedContext):
        poor.narrow(allow("fs.read"))


def test_a_genuine_context_that_forgot_what_it_was_met_with_is_refused(authority, alice):
    one, two = authority.mint("clerk", ["fs.*"]), authority.mint("clerk", ["fs.*"])
    for forgotten in ((), (two,), (one, two), None, 3):
        met = authority.mint("alice", ["fs.read"]).narrow(one)
        assert authority.is_genuine(met)
        object.__setattr__(met, "_others", forgotten)
        assert_refused(authority, met)

    class Liar:
        __hash__ = None

        def __eq__(self, other):
            return True

    for forgotten in ((), (two, one), (one, Liar()), (one,), (one, two, two)):
        met = authority.mint("alice", ["fs.read"]).narrow(one, two)
        assert authority.is_genuine(met)
        object.__setattr__(met, "_others", forgotten)
        assert_refused(authority, met)


def test_a_forged_context_cannot_be_revoked_adopted_or_met_with(authority, alice):
    forged = forge(alice, permissions=authority.everything)
    with pytest.raises(ForgedContext):
        authority.revoke(forged)
    with pytest.raises(ForgedContext):
        authority.adopt(authority.principal("alice"), [], origin=forged)
    with pytest.raises(ForgedContext):
        alice._meet(forge(authority.mint("clerk", ["web.*"])))
    assert authority.is_revoked(forged) is False


def test_an_altered_ancestor_breaks_the_descent_of_its_children(authority, alice):
    powerful = authority.mint("root", ["**"])
    child = powerful.narrow(allow("web.get", "fs.delete"))
    object.__setattr__(powerful, "parent", alice)
    assert not child.descends_from(alice)


def test_a_genuine_context_that_was_given_another_principal_is_refused(authority, alice):
    object.__setattr__(alice, "_principal", Principal("root"))
    assert_refused(authority, alice)


def test_a_genuine_context_that_lost_a_field_is_refused(authority, alice):
    object.__delattr__(alice, "permissions")
    assert_refused(authority, alice)


def test_a_genuine_context_of_another_class_is_refused(authority, alice):
    class Yes(SecurityContext.__mro__[1]):
        __slots__ = ()

        def allows(self, operation):
            return True

    object.__setattr__(alice, "__class__", Yes)
    assert alice.allows("fs.delete")
    assert_refused(authority, alice)


def test_a_context_of_another_authority_is_refused_and_the_text_says_whose_it_is(authority):
    stranger = Authority().mint("root", ["**"])
    assert "another system's authority" in assert_refused(authority, stranger)
    assert_refused(authority, Authority().root)
    object.__setattr__(stranger, "_registry", authority.root._registry)
    assert_refused(authority, stranger)
    with pytest.raises(ForgedContext):
        stranger.narrow(allow("fs.read"))
