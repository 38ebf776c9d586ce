import copy
import enum
import pickle

import pytest
from hypothesis import given

from permission_strategies import operations, permissions, permits_by_definition
from retinue.security import Authority, AuthorityError, ConstraintError, DefinitionError, Denied, PatternError, deny, where
from retinue.security.authority import MAX_SOURCES
from retinue.security.constraints import known_from


def test_by_default_the_root_may_do_everything():
    root = Authority().root
    assert root.allows("fs.read")
    assert (root.subject, root.tenant, root.project, root.session, root.parent) == ("root", None, None, None, None)
    assert root.permissions.is_everything


def test_the_root_can_be_narrower_and_have_another_name():
    authority = Authority(["fs.*"], subject="shop")
    assert authority.root.subject == "shop"
    assert authority.root.allows("fs.read")
    assert not authority.root.allows("web.get")
    assert not Authority([]).root.allows("fs.read"), "an empty list is nothing, not everything"


@given(permissions, permissions, operations)
def test_what_is_minted_permits_what_was_asked_within_the_root(root_permissions, asked, operation):
    authority = Authority(root_permissions)
    expected = permits_by_definition(root_permissions, operation) and permits_by_definition(asked, operation)
    assert authority.mint("alice", asked).allows(operation) is expected


def test_a_minted_context_is_a_root_of_its_own():
    authority = Authority()
    context = authority.mint("alice", ["fs.*"], tenant="acme", project="q3", session="s1")
    assert context.parent is None
    assert (context.subject, context.tenant, context.project, context.session) == ("alice", "acme", "q3", "s1")
    assert authority.is_genuine(context)
    authority.check(context)


@pytest.mark.parametrize("given_list", ["fs.read", "**", b"**", None, 3])
def test_a_bare_string_is_no_list_of_permissions_and_the_text_says_so(given_list):
    with pytest.raises(DefinitionError, match=r"permissions=\['fs.read'\]"):
        Authority().mint("alice", given_list)
    if given_list is not None:
        with pytest.raises(DefinitionError):
            Authority(given_list)


def test_malformed_patterns_are_refused():
    with pytest.raises(PatternError):
        Authority().mint("alice", ["fs.**.x"])
    with pytest.raises(PatternError):
        Authority(["f*"])


@pytest.mark.parametrize("field", ["subject", "tenant", "project", "session"])
def test_names_are_short_strings(field):
    authority = Authority()
    given_names = {"subject": "alice", "permissions": ["**"]}
    for bad in (3, b"alice", ["alice"]):
        with pytest.raises(DefinitionError, match=field):
            authority.mint(**{**given_names, field: bad})
    for bad in ("", "x" * 256, "half \ud800", "\udc80"):
        with pytest.raises(AuthorityError, match=field):
            authority.mint(**{**given_names, field: bad})
    assert getattr(authority.mint(**{**given_names, field: "x" * 255}), field) == "x" * 255


def test_a_name_is_kept_as_a_plain_string():
    class Role(enum.StrEnum):
        ADMIN = "admin"

    assert type(Authority().mint(Role.ADMIN, []).subject) is str
    with pytest.raises(DefinitionError):
        Authority().mint(None, [])
    with pytest.raises(DefinitionError):
        Authority(subject=3)


def test_the_guard_is_asked_first_and_can_refuse_to_mint():
    authority = Authority()
    calls = []

    def refuse():
        calls.append("asked")
        raise Denied("not inside a handler")

    authority.guard = refuse
    with pytest.raises(Denied, match="not inside a handler"):
        authority.mint("alice", "not even looked at")
    assert calls == ["asked"]
    assert authority.statistics().contexts == 1
    authority.guard = lambda: calls.append("fine")
    authority.mint("alice", ["fs.read"])
    assert calls == ["asked", "fine"]
    assert authority.root.narrow(deny("fs.x")).subject == "root", "narrowing is not minting"
    assert len(calls) == 2


def test_a_permission_set_is_not_bounded_by_the_root():
    authority = Authority(["fs.*"])
    assert authority.permission_set(["web.get"]).permits("web.get")
    assert not authority.root.permissions.meet(authority.permission_set(["web.get"])).permits("web.get")


def test_an_authority_is_neither_copied_nor_pickled():
    authority = Authority()
    for attempt in (lambda: copy.copy(authority), lambda: copy.deepcopy(authority), lambda: pickle.dumps(authority)):
        with pytest.raises(TypeError, match="one for each system"):
            attempt()


def test_statistics_count_what_is_alive():
    authority = Authority()
    before = authority.statistics()
    context = authority.mint("alice", ["fs.read"])
    after = authority.statistics()
    assert (after.contexts, after.permission_sets) == (before.contexts + 1, before.permission_sets + 1)
    assert context.allows("fs.read")


def test_a_source_is_made_once_and_kept_under_its_name():
    authority = Authority()
    payees = authority.source("payees", limit=3)
    assert authority.source("payees") is payees
    assert payees.limit == 3
    assert dict(authority.sources) == {"payees": payees}
    with pytest.raises(TypeError):
        authority.sources["other"] = payees
    for bad in ("", "a b", "a.*", None, 3):
        with pytest.raises(ConstraintError):
            authority.source(bad)
    with pytest.raises(ConstraintError):
        authority.source("other", limit=0)
    assert authority.statistics().sources == 1


def test_sources_are_bounded_and_guarded():
    authority = Authority()
    for number in range(MAX_SOURCES):
        authority.source(f"s{number}")
    with pytest.raises(AuthorityError, match="1024 sources"):
        authority.source("one-more")
    assert authority.source("s0").name == "s0"

    def refuse():
        raise Denied("inside a handler")

    authority.guard = refuse
    with pytest.raises(Denied):
        authority.source("s0")


def test_sets_of_another_authority_are_asked_about_this_ones_sources():
    here, there = Authority(), Authority()
    foreign = there.permission_set(["**", where("pay", to=known_from("payees"))])
    there.source("payees").add("EVE")
    here.source("payees").add("ACME")
    met = here.everything.meet(foreign)
    assert met.permits("pay", {"to": "ACME"})
    assert not met.permits("pay", {"to": "EVE"})


def test_a_listener_hears_of_what_is_minted_and_can_refuse_it():
    authority = Authority()
    heard = []
    authority.on_event = lambda event, context: heard.append((event, context.subject))
    authority.mint("alice", ["**"]).narrow("fs.read")
    authority.adopt(authority.principal("bob"), [])
    assert heard == [("mint", "alice"), ("adopt", "bob")]

    def full(event, context):
        raise AuthorityError("no room for the record")

    authority.on_event = full
    with pytest.raises(AuthorityError, match="no room"):
        authority.mint("eve", ["**"])


@pytest.mark.parametrize("version", ["", 3, "x" * 256])
def test_a_policy_version_is_a_short_name(version):
    authority = Authority()
    authority.policy_version = version
    with pytest.raises((AuthorityError, DefinitionError), match="policy version"):
        authority.mint("alice", [])
