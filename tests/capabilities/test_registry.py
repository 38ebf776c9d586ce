"""The registry of capabilities: what nobody declared is refused, what two declare is an error, the nearest scope counts."""

import copy
import gc
import pickle
import threading

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue.capabilities import Gate
from retinue.capabilities.policy import Verdict, policy
from retinue.capabilities.policy_file import policy_from_file
from retinue.capabilities.registry import Capability, CapabilityRegistry
from retinue.security import Authority, Denied, PatternError
from retinue.security.audit import AuditLog
from retinue.security.constraints import one_of
from retinue.security.errors import ApprovalRequired, DefinitionError
from retinue.security.restrictions import allow, deny, max_risk, needs_approval, where


@rt.message
class Read(rt.Message):
    path: str = "a.txt"


def admit(gate: Gate, context=None, operation="fs.read", **more):
    context = gate._authority.root if context is None else context
    return gate.admit(context, None, operation, Read(), path="/user/files", message_type=Read, **more)


def test_a_name_in_permissions_that_the_registry_does_not_know_is_warned_of_once_and_explained(caplog):
    authority = Authority([allow("fs.*", "mail.send", "mail.sent")])
    registry = CapabilityRegistry([Capability("fs.read"), Capability("mail.send")])
    gate = Gate(authority, capabilities=registry)

    def warned():
        texts = [record.getMessage() for record in caplog.records if record.name == "retinue.permissions"]
        caplog.clear()
        return texts

    assert [text.partition(" names")[0] for text in warned()] == ["allow('mail.sent')"], (
        "the root's permissions were there before the registry"
    )
    good = authority.mint("ada", ["fs.read", "fs.*", "**"]).narrow(where("mail.send", to=one_of("a")), deny("old.**"))
    assert warned() == []
    minted = authority.mint("ada", ["fs.raed"])
    narrowed = good.narrow(where("mail.sendd", to=one_of("a")))
    assert warned() == [
        f"{call} names an operation that the system's registry of capabilities does not know (yet). Check the spelling, or declare it."
        for call in ("allow('fs.raed')", "where('mail.sendd')")
    ]
    assert authority.mint("bob", ["fs.raed", "fs.read"]) is not None
    assert good.narrow(needs_approval("mail.sendd")) is not None
    assert warned() == [], "each once"
    assert "does not know 'fs.raed' in allow(…), 'mail.sent' in allow(…): is it misspelt?" in minted.explain("fs.read")
    assert "'mail.sendd' in where(…)" in narrowed.explain("mail.send", {"to": "a"})
    assert "does not know 'fs.raed', so no message for it is let through." in minted.explain("fs.raed")
    with pytest.raises(Denied, match=r"'mail.sendd' in where\(…\)"):
        admit(gate, narrowed, "mail.send")
    registry.declare(Capability("mail.sendd"), Capability("mail.sent"))
    assert "registry" not in narrowed.explain("mail.send", {"to": "a"})


@pytest.mark.parametrize("odd", [Capability("fs.read"), "fs.read", None, 5])
def test_a_registry_takes_a_list_and_says_so(odd):
    with pytest.raises(DefinitionError, match=r"takes a list of capabilities.* write CapabilityRegistry\(\[Capability\('fs\.read'\)\]\)"):
        CapabilityRegistry(odd)


def test_a_registry_that_fails_is_not_taken_for_one_that_knows_nothing(caplog):
    authority = Authority()

    def fails(operation):
        raise LookupError(operation)

    authority.risk_of = fails
    assert "registry" not in authority.mint("ada", ["fs.raed"]).explain("fs.raed")
    authority.risk_of = None
    assert authority.mint("ada", ["fs.rode"]) is not None
    assert caplog.records == []


def test_a_capability_says_what_is_known_and_takes_the_worst_for_what_is_not():
    plain = Capability("fs.read")
    assert (plain.risk, plain.effects, plain.approval, plain.description) == ("L3", frozenset(), False, "")
    full = Capability("fs.read", "L0", {"read"}, approval=True, description="Reads a file.")
    assert full.effects == frozenset({"read"})
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        full.risk = "L0"
    assert full.to_data() == {
        "operation": "fs.read",
        "risk": "L0",
        "effects": ["read"],
        "approval": True,
        "description": "Reads a file.",
        "four_eyes": False,
    }


@pytest.mark.parametrize(
    "options",
    [
        {"risk": "L4"},
        {"risk": "l1"},
        {"risk": 1},
        {"risk": None},
        {"risk": True},
        {"effects": "read"},
        {"effects": ["reads"]},
        {"effects": [1]},
        {"effects": None},
        {"approval": 1},
        {"approval": "yes"},
        {"approval": None},
        {"description": None},
        {"description": "x" * 2_001},
    ],
)
def test_a_capability_is_checked(options):
    with pytest.raises(DefinitionError):
        Capability("fs.read", **options)


@pytest.mark.parametrize("operation", ["", "fs.*", "**", "fs..read", None, 3, b"fs.read"])
def test_a_capability_is_one_operation(operation):
    with pytest.raises(PatternError):
        Capability(operation)


def test_the_nearest_scope_counts():
    registry = CapabilityRegistry([Capability("fs.read", "L0")])
    registry.declare(Capability("fs.read", "L1"), scope="runtime")
    registry.declare(Capability("fs.read", "L2"), scope="session", owner="s1")
    registry.declare(Capability("fs.read", "L3"), scope="agent", owner="ada")

    def risk(**who):
        found = registry.resolve("fs.read", **who)
        return found and found.risk

    assert risk() == "L1"
    assert risk(session="s2", agent="bob") == "L1"
    assert risk(session="s1", agent="bob") == "L2"
    assert risk(session="s1", agent="ada") == "L3"
    assert risk(agent="ada") == "L3"
    registry.withdraw("fs.read", scope="runtime")
    assert risk() == "L0"
    assert registry.risk_of("fs.read") == 3, "the worst of all scopes, for whom nothing is known of"
    assert registry.risk_of("fs.write") is None
    assert registry.resolve("fs.write") is None
    assert registry.is_scoped("fs.read")


def test_two_declarations_in_one_scope_are_an_error_and_nothing_is_changed():
    registry = CapabilityRegistry()
    registry.declare(Capability("fs.read"), provider="disk")
    version = registry.version
    for again in (Capability("fs.read"), Capability("fs.read", "L0")):
        with pytest.raises(DefinitionError, match=r"'fs.read' is declared in the scope 'default' already by 'disk'"):
            registry.declare(Capability("fs.write"), again)
    with pytest.raises(DefinitionError):
        registry.declare(Capability("web.get"), Capability("web.get"))
    assert registry.version == version
    assert registry.resolve("fs.write") is None
    assert len(registry) == 1
    registry.declare(Capability("fs.read"), scope="session", owner="a")
    registry.declare(Capability("fs.read"), scope="session", owner="b")
    with pytest.raises(DefinitionError, match="of 'a' already"):
        registry.declare(Capability("fs.read"), scope="session", owner="a")


def test_what_is_not_there_cannot_be_withdrawn_and_nothing_is_changed():
    registry = CapabilityRegistry([Capability("fs.read"), Capability("fs.write")])
    for attempt in (
        lambda: registry.withdraw("fs.read", "fs.list"),
        lambda: registry.withdraw("fs.read", scope="runtime"),
        lambda: registry.withdraw("fs.read", scope="session", owner="s"),
        lambda: registry.withdraw("fs.read", "fs.read"),
    ):
        with pytest.raises(DefinitionError, match="not declared"):
            attempt()
    assert len(registry) == 2
    registry.retire(["fs.read", "fs.list", "fs.read"], scope="default", owner=None)
    assert registry.resolve("fs.read") is None
    assert len(registry) == 1


def test_replacing_is_one_step():
    registry = CapabilityRegistry([Capability("fs.read", "L0")])
    version = registry.version
    registry.replace(["fs.read"], [Capability("fs.read", "L1"), Capability("fs.write")])
    assert registry.resolve("fs.read").risk == "L1"
    assert registry.version == version + 1
    with pytest.raises(DefinitionError):
        registry.replace(["fs.read"], [Capability("fs.write")])
    assert registry.resolve("fs.read").risk == "L1"


@pytest.mark.parametrize(
    ("scope", "owner"),
    [
        ("session", None),
        ("agent", None),
        ("session", ""),
        ("agent", 3),
        ("agent", "x" * 256),
        ("default", "ada"),
        ("runtime", "ada"),
        ("global", None),
        (None, None),
        (3, None),
    ],
)
def test_a_scope_has_the_owner_that_it_needs_and_no_other(scope, owner):
    registry = CapabilityRegistry()
    for attempt in (
        lambda: registry.declare(Capability("fs.read"), scope=scope, owner=owner),
        lambda: registry.withdraw("fs.read", scope=scope, owner=owner),
    ):
        with pytest.raises(DefinitionError, match=r"scope|declared"):
            attempt()
    assert len(registry) == 0


@pytest.mark.parametrize("odd", ["fs.read", None, object(), Capability])
def test_only_capabilities_are_declared(odd):
    with pytest.raises(DefinitionError, match=r"Capability\(…\)"):
        CapabilityRegistry().declare(odd)


def test_a_registry_is_neither_copied_nor_pickled():
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="snapshot"):
            attempt(CapabilityRegistry())


# -- snapshots ---------------------------------------------------------------------------------------------------------------------------------------------


def test_a_snapshot_never_changes():
    registry = CapabilityRegistry([Capability("fs.read", "L0")])
    snapshot = registry.snapshot()
    registry.replace(["fs.read"], [Capability("fs.read", "L3")])
    registry.declare(Capability("fs.write"))
    assert snapshot.resolve("fs.read").risk == "L0"
    assert snapshot.resolve("fs.write") is None
    assert snapshot.version == 1
    assert [one.capability.operation for one in snapshot.declarations] == ["fs.read"]
    assert registry.snapshot().digest != snapshot.digest
    with pytest.raises(AttributeError):
        snapshot.version = 9
    with pytest.raises(AttributeError):
        del snapshot.digest
    with pytest.raises(TypeError):
        snapshot._table["fs.read"] = {}


declarations = st.tuples(
    st.builds(
        Capability,
        st.sampled_from(["fs.read", "fs.write", "web.get"]),
        st.sampled_from(["L0", "L1", "L2", "L3"]),
        st.sets(st.sampled_from(["read", "write", "network", "execute"])),
        approval=st.booleans(),
        description=st.sampled_from(["", "x"]),
    ),
    st.sampled_from([("default", None), ("runtime", None), ("session", "a"), ("session", "b"), ("agent", "a")]),
    st.sampled_from(["", "disk"]),
    st.sampled_from(["", "digest"]),
)


def filled(given_list) -> CapabilityRegistry:
    registry = CapabilityRegistry()
    for capability, (scope, owner), provider, config in given_list:
        registry.declare(capability, scope=scope, owner=owner, provider=provider, config_digest=config)
    return registry


unique = st.lists(declarations, max_size=5, unique_by=lambda one: (one[0].operation, one[1]))


@settings(max_examples=40)
@given(unique.flatmap(lambda one: st.tuples(st.just(one), st.permutations(one))))
def test_the_digest_is_of_what_is_said_and_not_of_the_order(both):
    assert filled(both[0]).snapshot().digest == filled(both[1]).snapshot().digest


@settings(max_examples=40)
@given(unique, unique)
def test_registries_that_say_something_else_have_other_digests(one, other):
    same = sorted(map(repr, one)) == sorted(map(repr, other))
    assert (filled(one).snapshot().digest == filled(other).snapshot().digest) is same


# -- at the gate -------------------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry():
    return CapabilityRegistry([Capability("fs.read", "L0")])


@pytest.fixture
def gate(registry):
    return Gate(Authority(), capabilities=registry)


def test_an_operation_that_nobody_declared_is_refused_even_for_the_root(gate):
    with pytest.raises(Denied, match="is not declared") as caught:
        admit(gate, operation="fs.write")
    assert caught.value.reason == "unknown_operation"
    assert admit(gate).static is True
    assert admit(gate, operation=None).static is True, "an open handler is no operation"


def test_the_registrys_rating_stands_above_the_handlers(registry, gate):
    registry.declare(Capability("fs.delete", "L3"))
    careful = gate._authority.mint("ada", ["**", max_risk("L1")])
    assert admit(gate, careful, risk="L3")
    with pytest.raises(Denied, match="rated L3"):
        admit(gate, careful, "fs.delete", risk="L0")
    assert gate.is_static(careful.permissions, "fs.read", "L3") is True
    assert gate.is_static(careful.permissions, "fs.delete", "L0") is False


def test_the_registrys_rating_says_what_is_audited(registry):
    log = AuditLog()
    gate = Gate(Authority(), capabilities=registry, audit=log)
    registry.declare(Capability("fs.write", "L2"))
    assert admit(gate, risk="L3").record is None
    assert admit(gate, operation="fs.write", risk="L0").record == 1


def test_a_capability_may_need_consent(registry, gate):
    registry.declare(Capability("fs.write", "L0", approval=True))
    with pytest.raises(ApprovalRequired, match="its capability says approval=True"):
        admit(gate, operation="fs.write")


def test_a_policy_sees_what_the_registry_says(registry):
    @policy
    def offline(call):
        return Verdict.refuse("no network today") if "network" in call.capability.effects else Verdict.allow()

    registry.declare(Capability("web.get", "L0", {"read", "network"}))
    gate = Gate(Authority(), capabilities=registry, policies=[offline])
    assert admit(gate)
    with pytest.raises(Denied, match="no network today"):
        admit(gate, operation="web.get")


def test_who_asks_counts_in_the_nearer_scopes(registry, gate):
    registry.declare(Capability("fs.write", "L0"), scope="session", owner="s1")
    registry.declare(Capability("fs.delete", "L0"), scope="agent", owner="ada")
    ada = gate._authority.mint("ada", ["**"], session="s1")
    bob = gate._authority.mint("bob", ["**"], session="s2")
    for operation in ("fs.write", "fs.delete"):
        assert admit(gate, ada, operation).static is False, "it depends on who asks"
        with pytest.raises(Denied, match="is not declared"):
            admit(gate, bob, operation)


def test_a_change_is_noticed_by_every_gate_that_uses_the_registry(registry):
    gates = [Gate(Authority(), capabilities=registry) for _ in range(2)]
    told = []
    for gate in gates:
        gate.on_change = lambda gate=gate, told=told: told.append((gate, gate.epoch))
    before = [gate.epoch for gate in gates]
    registry.withdraw("fs.read")
    assert [gate for gate, _ in told] == gates
    assert all(epoch > old for (_, epoch), old in zip(told, before, strict=True))
    for gate in gates:
        with pytest.raises(Denied):
            admit(gate)
    told.clear()
    del gate, gates
    gc.collect()
    registry.declare(Capability("fs.read"))
    assert len([listener for listener in registry._listeners if listener() is not None]) == 0


def test_allows_looks_into_the_registry_too(registry, gate):
    careful = gate._authority.mint("ada", ["**", max_risk("L1")])
    assert careful.allows("fs.read") is True
    registry.declare(Capability("fs.delete"))
    assert careful.allows("fs.delete") is False


def test_a_registry_that_fails_refuses(gate, monkeypatch):
    def fail(self, operation, **who):
        raise RuntimeError("broken")

    monkeypatch.setattr(CapabilityRegistry, "resolve", fail)
    with pytest.raises(Denied) as caught:
        admit(gate)
    assert caught.value.reason == "undecided"
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert gate.is_static(gate._authority.everything, "fs.read") is False


@pytest.mark.parametrize("odd", [{}, [Capability("fs.read")], object(), "registry"])
def test_the_gate_takes_a_registry_and_nothing_else(odd):
    with pytest.raises(DefinitionError, match="CapabilityRegistry"):
        Gate(Authority(), capabilities=odd)


def test_a_registry_and_a_policy_file_are_guarded_as_the_authority_of_the_gate_is(tmp_path):
    registry, file = CapabilityRegistry(), policy_from_file(tmp_path / "none.toml")
    authority = Authority()
    gate = Gate(authority, capabilities=registry, policies=(one for one in [file]))
    registry.declare(Capability("fs.read"))
    file.reload()

    def guard():
        raise Denied("inside a handler")

    authority.guard = guard
    for attempt in (lambda: registry.declare(Capability("fs.write")), lambda: registry.withdraw("fs.read"), file.reload):
        with pytest.raises(Denied, match="inside a handler"):
            attempt()
    del gate, authority
    gc.collect()
    registry.declare(Capability("fs.write"))


def test_changes_are_guarded_and_what_fails_can_still_be_taken_away(registry):
    def guard():
        raise Denied("inside a handler")

    registry.guard = guard
    for attempt in (
        lambda: registry.declare(Capability("fs.write")),
        lambda: registry.withdraw("fs.read"),
        lambda: registry.replace(["fs.read"], []),
    ):
        with pytest.raises(Denied):
            attempt()
    assert len(registry) == 1
    registry.retire(["fs.read"], scope="default", owner=None)
    assert len(registry) == 0


def test_threads_that_declare_at_once_lose_nothing():
    registry = CapabilityRegistry()
    start = threading.Barrier(8)

    def declare(number):
        start.wait()
        for index in range(25):
            registry.declare(Capability(f"t{number}.op{index}"))

    threads = [threading.Thread(target=declare, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry) == registry.version == 200
