"""The registry of capabilities: which operations exist, how much harm each can do, and who declared it.

Where a system has a registry, an operation that it does not know is refused: forgetting to declare is noticed, not permitted. A capability is declared in a
scope, and the nearest one counts: agent before session before runtime before default. Two declarations of one operation in one scope are an error, never
"the last one wins".
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NoReturn, cast, final, get_args

import attrs

from retinue.security.canonical import canonical
from retinue.security.errors import DefinitionError
from retinue.security.limits import RISKS, Risk
from retinue.security.operations import check_operation
from retinue.security.spelling import names_the_nearest

__all__ = ["SCOPES", "Capability", "CapabilityRegistry", "Declaration", "Effect", "RegistrySnapshot", "Scope"]

Effect = Literal["read", "write", "network", "execute"]
EFFECTS: Final[frozenset[str]] = frozenset(get_args(Effect))

Scope = Literal["default", "runtime", "session", "agent"]
SCOPES: Final[tuple[Scope, ...]] = ("default", "runtime", "session", "agent")
"""The scopes, from the farthest to the nearest."""

MAX_DESCRIPTION: Final = 2_000
"""Characters of a description."""

MAX_OWNER: Final = 255
"""Characters in the name of a session or an agent, and in the name of a provider."""


def _operation(value: object) -> str:
    return check_operation(value)  # type: ignore[arg-type]  # refuses what is none


def _risk(value: object) -> Risk:
    for risk in RISKS:
        if type(value) is str and value == risk:
            return risk
    raise DefinitionError(f"Capability(risk=…) is one of {', '.join(RISKS)}; write risk='L3' where you do not know.")


def _effects(value: object) -> frozenset[Effect]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise DefinitionError(
            f"Capability(effects=…) takes a set of words, such as {{'read'}}, not an object of type {type(value).__name__}."
        )
    words = list(value)
    for word in words:
        if type(word) is not str or word not in EFFECTS:
            raise DefinitionError(f"Capability(effects=…) has words of {', '.join(sorted(EFFECTS))}, and one given is none of them.")
    return frozenset(words)


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise DefinitionError(f"Capability(approval=…) is True or False, not an object of type {type(value).__name__}.")
    return value


def _four_eyes(value: object) -> bool:
    if type(value) is not bool:
        raise DefinitionError(f"Capability(four_eyes=…) is True or False, not an object of type {type(value).__name__}.")
    return value


def _description(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_DESCRIPTION:
        raise DefinitionError(f"Capability(description=…) is a str of at most {MAX_DESCRIPTION} characters.")
    return str.__str__(value)


@names_the_nearest
@final
@attrs.frozen
class Capability:
    """One operation that exists, and what is known of it.

    Attributes:
        operation: Its dotted name; one operation, no pattern.
        risk: How much harm it can do: "L0" (reads), "L1", "L2", "L3" (cannot be undone). Default "L3": what nobody rated is taken for the worst. It stands
            above the rating of the handler itself. From L2 on each call is audited before it is answered; `max_risk` in a context bounds it.
        effects: What it does, any of "read", "write", "network", "execute"; default nothing. For people and policies.
        approval: Whether each call needs a person's consent; default False.
        description: For people and models, at most 2,000 characters.
        four_eyes: Whether that person has to be another than the context's subject; only together with `approval=True`. Default False.

    Raises:
        PatternError: The operation is malformed.
        DefinitionError: Something else is.
    """

    operation: str = attrs.field(converter=_operation)
    risk: Risk = attrs.field(default="L3", converter=_risk)
    effects: frozenset[Effect] = attrs.field(default=frozenset(), converter=_effects)
    approval: bool = attrs.field(default=False, converter=_flag)
    description: str = attrs.field(default="", converter=_description)
    four_eyes: bool = attrs.field(default=False, converter=_four_eyes)

    def __attrs_post_init__(self) -> None:
        if self.four_eyes and not self.approval:
            raise DefinitionError(
                f"Capability({self.operation!r}, four_eyes=True) says whose consent is needed, and not that it is: write approval=True beside it."
            )

    def to_data(self) -> dict[str, object]:
        """The capability as plain data."""
        return {
            "operation": self.operation,
            "risk": self.risk,
            "effects": sorted(self.effects),
            "approval": self.approval,
            "description": self.description,
            "four_eyes": self.four_eyes,
        }


@final
@attrs.frozen
class Declaration:
    """A capability, and where it was declared.

    Attributes:
        capability: The capability.
        scope: "default", "runtime", "session" or "agent".
        owner: The session or the agent; "" in the other scopes.
        provider: The name of the provider that declared it, or "".
        config_digest: SHA-256 over the provider's configuration, secrets left out, or "".
    """

    capability: Capability
    scope: Scope
    owner: str = ""
    provider: str = ""
    config_digest: str = ""

    def to_data(self) -> dict[str, object]:
        """The declaration as plain data."""
        return {
            "capability": self.capability.to_data(),
            "scope": self.scope,
            "owner": self.owner,
            "provider": self.provider,
            "config_digest": self.config_digest,
        }


_Key = tuple[str, str]
_Table = Mapping[str, Mapping[_Key, Declaration]]


@final
class RegistrySnapshot:
    """A registry at one moment; it never changes.

    Attributes:
        version: How often the registry had changed.
        declarations: All declarations, sorted by operation, scope and owner.
        digest: SHA-256 over the declarations: equal for registries that say the same, whatever the order they were filled in.
    """

    __slots__ = ("_table", "declarations", "digest", "version")

    version: int
    declarations: tuple[Declaration, ...]
    digest: str
    _table: _Table

    def __init__(self, table: _Table, version: int) -> None:
        found = sorted(
            (one for scopes in table.values() for one in scopes.values()),
            key=lambda one: (one.capability.operation, SCOPES.index(one.scope), one.owner),
        )
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "version", version)
        object.__setattr__(self, "declarations", tuple(found))
        digest = hashlib.sha256(b"retinue/capabilities/1\0" + canonical([one.to_data() for one in found])).hexdigest()
        object.__setattr__(self, "digest", digest)

    def resolve(self, operation: str, *, session: str | None = None, agent: str | None = None) -> Capability | None:
        """As `CapabilityRegistry.resolve`, at that moment."""
        return _resolve(self._table, operation, session, agent)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a RegistrySnapshot is immutable: {name!r} cannot be set. Change the registry, and take another one.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a RegistrySnapshot is immutable: {name!r} cannot be deleted.")

    def __repr__(self) -> str:
        return f"<RegistrySnapshot {self.version}: {len(self.declarations)} declarations, {self.digest[:12]}>"


def _resolve(table: _Table, operation: str, session: str | None, agent: str | None) -> Capability | None:
    scopes = table.get(operation)
    if scopes is None:
        return None
    found: Declaration | None = None
    if agent is not None:
        found = scopes.get(("agent", agent))
    if found is None and session is not None:
        found = scopes.get(("session", session))
    if found is None:
        found = scopes.get(("runtime", "")) or scopes.get(("default", ""))
    return None if found is None else found.capability


@final
class CapabilityRegistry:
    """The capabilities of one system, to be given to it: `ActorSystem(capabilities=registry)`. Safe to use from any thread.

    Attributes:
        version: How often it has changed.
        guard: Called before each change, where set; the system sets one that raises `Denied` inside a handler.
    """

    __slots__ = ("_listeners", "_lock", "_table", "guard", "version")

    def __init__(self, capabilities: Iterable[Capability] = ()) -> None:
        self._table: _Table = MappingProxyType({})
        self._lock = threading.Lock()
        self.version = 0
        self.guard: Callable[[], None] | None = None
        self._listeners: tuple[weakref.WeakMethod[Callable[[], None]], ...] = ()
        if isinstance(capabilities, str | bytes) or not isinstance(capabilities, Iterable):
            raise DefinitionError(
                f"CapabilityRegistry([…]) takes a list of capabilities, not an object of type {type(capabilities).__name__}: write CapabilityRegistry([Capability('fs.read')])"
            )
        for capability in capabilities:
            self.declare(capability)

    def declare(
        self, *capabilities: Capability, scope: Scope = "default", owner: str | None = None, provider: str = "", config_digest: str = ""
    ) -> None:
        """Add capabilities, all of them or none.

        Args:
            capabilities: The capabilities.
            scope: "default" (the default), "runtime", "session" or "agent".
            owner: Which session, or which agent (the subject of its contexts); for those two scopes, and only for them.
            provider: Who provides them, for people.
            config_digest: A digest of its configuration, for people; see `retinue.capabilities.registry_providers`.

        Raises:
            Denied: Called inside a handler.
            DefinitionError: One is declared in that scope already; there is no such scope; an owner is missing or too many.
        """
        self._change(capabilities, (), scope, owner, provider, config_digest)

    def withdraw(self, *operations: str, scope: Scope = "default", owner: str | None = None) -> None:
        """Take capabilities away, all of them or none. The operations are then unknown, or what a farther scope says.

        Raises:
            Denied: Called inside a handler.
            DefinitionError: One is not declared in that scope; there is no such scope; an owner is missing or too many.
        """
        self._change((), operations, scope, owner, "", "")

    def replace(
        self,
        withdrawn: Iterable[str],
        declared: Iterable[Capability],
        *,
        scope: Scope = "default",
        owner: str | None = None,
        provider: str = "",
        config_digest: str = "",
    ) -> None:
        """`withdraw` and `declare` in one step, so that nobody sees what is between; raises as they do, and then nothing was changed."""
        self._change(tuple(declared), tuple(withdrawn), scope, owner, provider, config_digest)

    def retire(self, operations: Iterable[str], *, scope: Scope, owner: str | None) -> None:
        """Take away those of the operations that are declared in that scope. For what has failed: it is not guarded, since it only takes away."""
        key = (scope, check_owner(scope, owner))
        with self._lock:
            present = [operation for operation in dict.fromkeys(operations) if key in self._table.get(operation, {})]
            self._replace(key, (), tuple(present), "", "")
        if present:
            self._tell()

    def resolve(self, operation: str, *, session: str | None = None, agent: str | None = None) -> Capability | None:
        """The capability that counts for an operation, or None where none is declared.

        Args:
            operation: The operation.
            session: The session of the context, where it has one.
            agent: The subject of the context.
        """
        return _resolve(self._table, operation, session, agent)

    def is_scoped(self, operation: str) -> bool:
        """Whether what counts for the operation depends on who asks."""
        scopes = self._table.get(operation)
        return scopes is not None and any(scope in ("session", "agent") for scope, _ in scopes)

    def risk_of(self, operation: str) -> int | None:
        """The risk of an operation as a number, 0 to 3: the highest of all scopes; None where it is not declared."""
        scopes = self._table.get(operation)
        return None if scopes is None else max(RISKS.index(one.capability.risk) for one in scopes.values())

    def listen(self, method: Callable[[], None]) -> None:
        """Call a bound method after each change, in the thread that changes, for as long as its object lives: a gate forgets what it remembered."""
        with self._lock:
            alive = tuple(listener for listener in self._listeners if listener() is not None)
            self._listeners = (*alive, weakref.WeakMethod(method))

    def snapshot(self) -> RegistrySnapshot:
        """What it says now."""
        with self._lock:
            return RegistrySnapshot(self._table, self.version)

    def __len__(self) -> int:
        return sum(map(len, self._table.values()))

    def __repr__(self) -> str:
        return f"<CapabilityRegistry: {len(self)} declarations, version {self.version}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a CapabilityRegistry is neither copied nor pickled: take a snapshot().")

    def _change(
        self,
        declared: tuple[Capability, ...],
        withdrawn: tuple[str, ...],
        scope: Scope,
        owner: str | None,
        provider: str,
        config_digest: str,
    ) -> None:
        if self.guard is not None:
            self.guard()
        key = (scope, check_owner(scope, owner))
        _check_provider(provider)
        for capability in declared:
            if type(capability) is not Capability:
                raise DefinitionError(f"a registry takes Capability(…) objects, not one of type {type(capability).__name__}.")
        with self._lock:
            self._replace(key, declared, withdrawn, str.__str__(provider), config_digest)
        self._tell()

    def _replace(self, key: _Key, declared: tuple[Capability, ...], withdrawn: tuple[str, ...], provider: str, config_digest: str) -> None:
        """Makes the next table, or raises and leaves this one."""
        scope, owner = key
        where = f"in the scope {scope!r}" + (f" of {owner!r}" if owner else "")
        # Made anew each time: readers, and snapshots, keep the table that they have.
        table: dict[str, Mapping[_Key, Declaration]] = dict(self._table)
        for operation in withdrawn:
            scopes = dict(table.get(operation, {}))
            if scopes.pop(key, None) is None:
                raise DefinitionError(f"{operation!r} is not declared {where}, so it cannot be withdrawn there. Nothing was changed.")
            if scopes:
                table[operation] = MappingProxyType(scopes)
            else:
                del table[operation]
        for capability in declared:
            operation = capability.operation
            known = table.get(operation, {})
            if key in known:
                by = f" by {known[key].provider!r}" if known[key].provider else ""
                raise DefinitionError(
                    f"{operation!r} is declared {where} already{by}. Nothing was changed. Withdraw the other one first, or use a nearer scope."
                )
            one = Declaration(capability, cast("Scope", scope), owner, provider, config_digest)
            table[operation] = MappingProxyType({**known, key: one})
        self._table = MappingProxyType(table)
        self.version += 1

    def _tell(self) -> None:
        for listener in self._listeners:
            call = listener()
            if call is not None:
                call()


def check_owner(scope: object, owner: object) -> str:
    """The owner of a declaration in that scope, "" where it has none.

    Raises:
        DefinitionError: There is no such scope; an owner is missing or too many.
    """
    if type(scope) is not str or scope not in SCOPES:
        raise DefinitionError(f"there is no such scope; there are {', '.join(SCOPES)}.")
    if scope in ("default", "runtime"):
        if owner is not None:
            raise DefinitionError(
                f"the scope {scope!r} is everybody's and has no owner; for one session or agent use scope='session' or 'agent'."
            )
        return ""
    if not isinstance(owner, str) or not 1 <= len(owner) <= MAX_OWNER:
        raise DefinitionError(f"the scope {scope!r} needs its owner: owner= is the name of the {scope}, 1 to {MAX_OWNER} characters.")
    return str.__str__(owner)


def _check_provider(provider: object) -> None:
    if not isinstance(provider, str) or len(provider) > MAX_OWNER:
        raise DefinitionError(f"the name of a provider is a str of at most {MAX_OWNER} characters.")
