import copy
import gc
import pickle
import threading
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permission_strategies import operations, permissions, permits_by_definition, restrictions
from retinue.security import Authority, DefinitionError, Layer, Pattern, PatternError, PermissionSet, Rule, allow, deny, where
from retinue.security.constraints import within
from retinue.security.decisions import ALLOWED, DENIED, decide
from retinue.security.permissions import MAX_MEETS, MAX_VERDICTS
from retinue.security.restrictions import MAX_PARSED_PATTERNS

AUTHORITY = Authority()
sets = permissions.map(AUTHORITY.permission_set)


# --- the laws, by object identity


@given(sets, sets, sets, operations)
def test_meet_is_idempotent_commutative_and_associative_with_a_unit_and_a_bottom(a, b, c, operation):
    assert a.meet(a) is a
    assert a.meet(b) is b.meet(a)
    assert a.meet(b).meet(b) is a.meet(b).meet(a) is a.meet(b)
    assert a.meet(b).meet(c) is a.meet(b.meet(c))
    assert a.meet(AUTHORITY.everything) is AUTHORITY.everything.meet(a) is a
    assert not a.meet(AUTHORITY.nothing).permits(operation)
    assert not AUTHORITY.nothing.meet(a).permits(operation)


@given(sets, sets, operations)
def test_a_meet_permits_exactly_what_both_permit(a, b, operation):
    assert a.meet(b).permits(operation) is (a.permits(operation) and b.permits(operation))


@given(permissions, operations)
def test_a_set_permits_what_the_definition_says(given_list, operation):
    assert AUTHORITY.permission_set(given_list).permits(operation) is permits_by_definition(given_list, operation)


@given(permissions)
def test_equal_permissions_are_one_object(given_list):
    assert AUTHORITY.permission_set(given_list) is AUTHORITY.permission_set(list(reversed(given_list)))


@given(sets, st.lists(operations, min_size=1, max_size=20))
def test_the_memo_answers_like_a_fresh_set_in_any_order(a, asked):
    fresh = Authority()._table.intern(a.layers)
    for operation in [*asked, *reversed(asked)]:
        assert a.permits(operation) is fresh.permits(operation) is (a.refusing(operation) == [])


def test_the_generators_permit_often_enough_for_the_laws_to_mean_something():
    verdicts = []

    @settings(max_examples=200, derandomize=True, database=None)
    @given(sets, sets, operations)
    def collect(a, b, operation):
        verdicts.append((a.permits(operation), a.meet(b).permits(operation)))

    collect()
    assert len(verdicts) >= 150
    for share in (sum(column) / len(verdicts) for column in zip(*verdicts, strict=True)):
        assert 0.15 < share < 0.85


# --- the absolute table


@pytest.mark.parametrize(
    ("given_list", "permitted", "refused"),
    [
        ([], [], ["fs", "fs.read"]),
        (["**"], ["fs", "fs.read", "a.b.c"], []),
        (["fs.read"], ["fs.read"], ["fs", "fs.write", "web.read"]),
        (["fs.read", "web.get"], ["fs.read", "web.get"], ["fs.write", "web.post"]),
        (["fs.**", deny("fs.delete")], ["fs.read", "fs.delete.later"], ["fs.delete", "web.get"]),
        (["**", deny("fs.**")], ["fs", "web.get"], ["fs.read", "fs.a.b"]),
        (["fs.*", allow("*.read")], ["fs.read"], ["fs.write", "web.read"]),
        (["fs.*", allow("web.*")], [], ["fs.read", "web.get"]),
        (["fs.*", allow("**")], ["fs.read"], ["web.get"]),
        (["fs.*", deny()], ["fs.read"], ["web.get"]),
        (["fs.*", allow()], [], ["fs.read", "web.get"]),
        (["**", deny("**")], [], ["fs", "fs.read"]),
        ([allow("fs.*")], ["fs.read"], ["web.get"]),
        ([allow("**")], ["fs", "web.get"], []),
        ([allow("fs.*"), allow("*.read")], ["fs.read"], ["fs.write", "web.read"]),
        ([allow()], [], ["fs", "fs.read"]),
        # What nothing names is not permitted: a computed list of names that comes out empty must not leave "all but".
        ([deny("fs.delete")], [], ["fs.read", "fs.delete", "web.get"]),
        ([deny()], [], ["fs.read"]),
    ],
)
def test_a_list_of_permissions_permits_exactly_these(given_list, permitted, refused):
    permission_set = AUTHORITY.permission_set(given_list)
    assert [operation for operation in permitted if permission_set.permits(operation) is not True] == []
    assert [operation for operation in refused if permission_set.permits(operation) is not False] == []


# --- layers, restrictions, lists


def test_layers_that_restrict_nothing_are_left_out():
    assert allow("**").layers == frozenset()
    assert allow("fs.read", "**").layers == frozenset()
    assert deny().layers == frozenset()
    assert AUTHORITY.permission_set(["**"]) is AUTHORITY.everything
    assert AUTHORITY.permission_set(["fs.*", "**"]) is AUTHORITY.everything
    assert AUTHORITY.everything.is_everything
    assert AUTHORITY.everything.layers == frozenset()
    assert not AUTHORITY.nothing.is_everything
    assert AUTHORITY.permission_set([]) is AUTHORITY.nothing


def test_an_empty_allow_layer_permits_nothing_and_an_empty_deny_layer_everything():
    assert decide([Layer("allow", frozenset())], frozenset(), ("fs",)) is DENIED
    assert decide([Layer("deny", frozenset())], frozenset(), ("fs",)) is ALLOWED
    with pytest.raises(ValueError, match="kind"):
        Layer("maybe", frozenset())


def test_layers_are_equal_by_kind_and_patterns():
    layer = Layer("allow", frozenset({Rule(Pattern("a")), Rule(Pattern("b"))}))
    assert layer == Layer("allow", frozenset({Rule(Pattern("b")), Rule(Pattern("a"))}))
    assert hash(layer) == hash(Layer("allow", frozenset({Rule(Pattern("b")), Rule(Pattern("a"))})))
    assert layer != Layer("deny", layer.rules)
    assert repr(layer) == "allow('a', 'b')"


@pytest.mark.parametrize("make", [allow, deny])
def test_restrictions_check_their_patterns_when_they_are_made(make):
    with pytest.raises(PatternError):
        make("fs..read")
    with pytest.raises(PatternError):
        make(*["fs.read"] * MAX_PARSED_PATTERNS, "fs.**.x")
    with pytest.raises(DefinitionError, match=r"separate str arguments.*\*names"):
        make(["fs.read", "fs.list"])
    with pytest.raises(DefinitionError):
        make(None)


def test_a_string_that_claims_to_equal_another_cannot_poison_the_memo_of_restrictions():
    class Liar(str):
        __slots__ = ()

        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash("memo.victim")

    wide = AUTHORITY.permission_set([allow(Liar("**"))])
    assert wide.permits("fs.read")
    assert not AUTHORITY.permission_set([allow("memo.victim")]).permits("fs.read")


@pytest.mark.parametrize("count", [1, MAX_PARSED_PATTERNS, MAX_PARSED_PATTERNS + 1, 500])
def test_a_restriction_of_any_length_means_the_same(count):
    names = [f"op.n{number}" for number in range(count)]
    permission_set = AUTHORITY.permission_set([allow(*names)])
    assert permission_set is AUTHORITY.permission_set(names)
    assert permission_set.permits(f"op.n{count - 1}")
    assert not permission_set.permits(f"op.n{count}")


@pytest.mark.parametrize("given_list", ["fs.read", b"fs.read", 3, None, object()])
def test_a_bare_string_is_no_list_of_permissions(given_list):
    with pytest.raises(DefinitionError, match=r"permissions=\['fs.read'\]"):
        AUTHORITY.permission_set(given_list)


@pytest.mark.parametrize("item", [3, None, b"fs", ["fs.read"], Pattern("fs.*"), AUTHORITY.everything])
def test_a_list_of_permissions_holds_patterns_and_restrictions_only(item):
    with pytest.raises(DefinitionError, match="a permission is a pattern"):
        AUTHORITY.permission_set(["fs.read", item])


@given(restrictions)
def test_a_restriction_shows_as_it_is_typed(restriction):
    rebuilt = eval(repr(restriction), {"allow": allow, "deny": deny})
    assert rebuilt == restriction


# --- explanations


def test_an_explanation_names_the_layers_that_refuse():
    permission_set = AUTHORITY.permission_set(["fs.*", deny("fs.delete")])
    assert permission_set.explain("fs.read").startswith("'fs.read' is permitted")
    assert permission_set.explain("fs.delete") == "'fs.delete' is not permitted: the layer deny('fs.delete') refuses it."
    assert permission_set.explain("web.get") == "'web.get' is not permitted: the layer allow('fs.*') does not name it."
    assert AUTHORITY.nothing.explain("fs") == (
        "'fs' is not permitted: the empty layer allow() permits nothing (no pattern in the list names an operation: add 'fs')."
    )
    only_where = AUTHORITY.mint("ada", [where("fs.read", path=within("reports/"))])
    assert "(no pattern in the list names an operation: add 'fs.read')" in only_where.explain("fs.read", {"path": "reports/a"})
    assert repr(permission_set) == "<permissions allow('fs.*'), deny('fs.delete')>"
    assert repr(AUTHORITY.everything) == "<permissions everything>"


def test_explanations_and_reprs_of_large_sets_stay_short():
    many = AUTHORITY.permission_set([*(f"op.n{number}" for number in range(5_000)), *(allow(f"op.m{number}") for number in range(500))])
    assert len(repr(many)) < 1_000
    assert len(many.explain("fs.read")) < 1_500


@pytest.mark.parametrize("operation", ["", "fs..read", "fs.*", "**", None, 3, ["fs"]])
def test_a_malformed_operation_is_an_error_and_never_permitted(operation):
    for permission_set in (AUTHORITY.everything, AUTHORITY.nothing):
        for ask in (permission_set.permits, permission_set.explain, permission_set.refusing):
            with pytest.raises(PatternError):
                ask(operation)


def test_a_string_that_claims_to_equal_another_gets_no_answer_from_the_memo():
    class Liar(str):
        __slots__ = ()

        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash("fs.read")

    permission_set = AUTHORITY.permission_set(["fs.read"])
    assert permission_set.permits("fs.read")
    assert not permission_set.permits(Liar("fs.delete"))
    assert permission_set.permits("fs.read")


# --- identity, immutability, bounds


def test_a_set_cannot_be_made_copied_pickled_subclassed_or_written_to():
    permission_set = AUTHORITY.permission_set(["fs.read"])
    with pytest.raises(TypeError, match="permission_set"):
        PermissionSet(frozenset())
    with pytest.raises(TypeError, match="final"):
        type("Mine", (PermissionSet,), {})
    assert copy.copy(permission_set) is permission_set
    assert copy.deepcopy([permission_set])[0] is permission_set
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(permission_set)
    for name in ("layers", "is_everything", "something_new"):
        with pytest.raises(AttributeError):
            setattr(permission_set, name, frozenset())
        with pytest.raises(AttributeError):
            delattr(permission_set, name)
    assert not permission_set.permits("fs.write")


def test_a_set_of_another_authority_is_taken_by_its_layers():
    other = Authority()
    foreign = other.permission_set(["fs.*"])
    assert AUTHORITY.everything.meet(foreign) is AUTHORITY.permission_set(["fs.*"])
    assert AUTHORITY.permission_set(["fs.*"]).meet(foreign) is AUTHORITY.permission_set(["fs.*"])
    assert foreign is not AUTHORITY.permission_set(["fs.*"])


def test_the_memos_of_a_set_are_bounded():
    permission_set = AUTHORITY.permission_set(["op.**"])
    for number in range(MAX_VERDICTS + 10):
        assert permission_set.permits(f"op.n{number}")
        assert len(permission_set._decisions) <= MAX_VERDICTS
    for number in range(MAX_MEETS + 10):
        permission_set.meet(AUTHORITY.permission_set([f"op.n{number}"]))
        assert len(permission_set._meets) <= MAX_MEETS
    assert permission_set.permits("op.n0")
    assert not permission_set.permits("web.get")


def test_the_intern_table_forgets_sets_that_nobody_holds():
    authority = Authority()
    before = authority.statistics().permission_sets
    kept = authority.permission_set(["kept"])
    for number in range(2_000):
        authority.permission_set([f"op.n{number}"]).meet(kept)
    gc.collect()
    assert authority.statistics().permission_sets == before + 1
    assert authority.permission_set(["kept"]) is kept


class Rivalry(weakref.WeakValueDictionary):
    """A table in which a rival thread interns the same layers at the worst moment: `between` a look and the store that follows it."""

    def __init__(self, table, between):
        super().__init__(table._sets)
        self.table, self.between, self.found = table, between, []

    def rival(self, layers):
        self.between = ""
        thread = threading.Thread(target=lambda: self.found.append(self.table.intern(layers)), daemon=True)
        thread.start()
        # Where the lock is held the rival cannot finish now; it does so after us.
        thread.join(timeout=0.2)
        return thread

    def get(self, key, default=None):
        found = super().get(key, default)
        if self.between == "the first look and the lock":
            self.rival(key).join(timeout=30)
        return found

    def setdefault(self, key, default=None):
        found = super().get(key)
        if self.between == "the second look and the store":
            self.waiting = self.rival(key)
        if found is None:
            self[key] = found = default
        return found


def test_a_rival_thread_between_the_first_look_and_the_lock_gets_the_same_object():
    authority = Authority()
    table = authority._table
    table._sets = rivalry = Rivalry(table, "the first look and the lock")
    mine = authority.permission_set(["fs.read"])
    assert rivalry.found == [mine]
    assert authority.permission_set(["fs.read"]) is mine


def test_a_rival_thread_between_the_second_look_and_the_store_gets_the_same_object():
    authority = Authority()
    table = authority._table
    table._sets = rivalry = Rivalry(table, "the second look and the store")
    mine = authority.permission_set(["fs.read"])
    rivalry.waiting.join(timeout=30)
    assert rivalry.found == [mine]
    assert authority.permission_set(["fs.read"]) is mine
