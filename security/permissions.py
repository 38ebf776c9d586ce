"""Permissions: layers of patterns, and the interned sets of layers whose meet is the only way to combine them.

A `PermissionSet` is a set of layers, *all* of which must permit an operation. Adding a layer can therefore only shrink what is
permitted, and narrowing is nothing but the union of layers: it is idempotent, commutative and associative by construction, and there
is no case "asked for more" that would need an error.

Sets are interned by a `PermissionTable` (one an authority): equal sets of one table are the same object. The hot path compares and
caches by identity, so nothing else may make a `PermissionSet`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, Literal, NoReturn, Self, final

import attrs

from retinue.security.errors import DefinitionError
from retinue.security.operations import Pattern, check_operation

__all__ = ["Layer", "PermissionSet", "PermissionTable", "Restriction", "allow", "deny", "layers_of"]

MAX_VERDICTS: Final = 4096
"""Verdicts that one set remembers; the memo is emptied when it is full."""

MAX_MEETS: Final = 256
"""Meets that one set remembers; the memo is emptied when it is full."""

MAX_PARSED: Final = 1024
"""Calls of `allow` and `deny` whose result is remembered, the least recently used forgotten first."""

MAX_PARSED_PATTERNS: Final = 16
"""Patterns in a call that is remembered; longer ones are parsed each time, so that the memo stays small."""

_SHOWN_LAYERS: Final = 8
_SHOWN_PATTERNS: Final = 12


def _cut(texts: list[str], most: int) -> str:
    """`texts` joined, at most `most` of them: error texts and log lines stay short whatever the set."""
    rest = len(texts) - most
    return ", ".join(texts[:most] + ([f"… and {rest} more"] if rest > 0 else []))


@final
@attrs.frozen(cache_hash=True, repr=False)
class Layer:
    """One condition on operations: a set of patterns, closed (`allow`) or open (`deny`).

    Attributes:
        kind: "allow": permits what one of the patterns names and nothing else, so with no pattern it permits nothing.
            "deny": refuses what one of the patterns names and leaves everything else alone.
        patterns: The patterns.
    """

    kind: Literal["allow", "deny"] = attrs.field(validator=attrs.validators.in_(("allow", "deny")))
    patterns: frozenset[Pattern]

    @property
    def restricts_nothing(self) -> bool:
        """Whether every operation passes: `allow("**")`, and `deny()` without a pattern."""
        if self.kind == "deny":
            return not self.patterns
        return any(pattern.is_everything for pattern in self.patterns)

    def permits_segments(self, segments: tuple[str, ...]) -> bool:
        """Whether an operation, checked and split already, passes this layer."""
        named = any(pattern.matches_segments(segments) for pattern in self.patterns)
        return named if self.kind == "allow" else not named

    def __repr__(self) -> str:
        return f"{self.kind}({_cut(sorted(repr(pattern.text) for pattern in self.patterns), _SHOWN_PATTERNS)})"


@final
@attrs.frozen(repr=False)
class Restriction:
    """What `SecurityContext.narrow` takes; made by `allow` and `deny`.

    Attributes:
        kind: "allow" or "deny".
        layers: The layers that it adds. Those that would restrict nothing are left out, so `allow("**")` adds none.
    """

    kind: Literal["allow", "deny"]
    layers: frozenset[Layer]

    def __repr__(self) -> str:
        return _cut(sorted(map(repr, self.layers)), _SHOWN_LAYERS) or ("allow('**')" if self.kind == "allow" else "deny()")


def _restriction(kind: Literal["allow", "deny"], patterns: tuple[str, ...]) -> Restriction:
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise DefinitionError(
                f"{kind}() takes patterns as separate str arguments, not an object of type {type(pattern).__name__}. "
                f"Write {kind}('fs.read', 'fs.list'), or {kind}(*names) for a collection."
            )
    # Plain strings, because a subclass could claim to equal another key of the memo.
    plain = tuple(map(str.__str__, patterns))
    return _parse(kind, plain) if len(plain) <= MAX_PARSED_PATTERNS else _parse.__wrapped__(kind, plain)


@lru_cache(maxsize=MAX_PARSED)
def _parse(kind: Literal["allow", "deny"], patterns: tuple[str, ...]) -> Restriction:
    # A pure function of strings to an immutable value: the memo, though the process shares it, can only save time. It makes
    # narrow(allow("fs.read")) in a handler some ten times cheaper.
    layer = Layer(kind, frozenset(map(Pattern, patterns)))
    return Restriction(kind, frozenset() if layer.restricts_nothing else frozenset((layer,)))


def allow(*patterns: str) -> Restriction:
    """Permit nothing but the operations that one of the patterns names; `allow()` permits nothing at all.

    It never adds authority: under `narrow` the result is what both sides permit.

    Raises:
        PatternError: A pattern is malformed.
        DefinitionError: A pattern is no `str`.
    """
    return _restriction("allow", patterns)


def deny(*patterns: str) -> Restriction:
    """Refuse the operations that one of the patterns names and leave all others as they are; `deny()` changes nothing.

    Raises:
        PatternError: A pattern is malformed.
        DefinitionError: A pattern is no `str`.
    """
    return _restriction("deny", patterns)


def layers_of(permissions: Iterable[str | Restriction]) -> frozenset[Layer]:
    """The layers of a list of permissions, as `mint` and `grant=` take it.

    The patterns in the list make *one* allow layer, any of which may permit; each restriction adds its own. An empty list permits
    nothing. So does a list of denials alone, because what no pattern names is not permitted: write `["**", deny("fs.delete")]` for
    "everything but".

    Raises:
        DefinitionError: `permissions` is a bare `str`, no iterable, or holds something else than patterns and restrictions.
        PatternError: A pattern is malformed.
    """
    if isinstance(permissions, str | bytes) or not isinstance(permissions, Iterable):
        raise DefinitionError(
            f"permissions are a list of patterns, not {type(permissions).__name__}. "
            "Write permissions=['fs.read'] for one, ['**'] for everything, [] for nothing."
        )
    names: list[str] = []
    restrictions: list[Restriction] = []
    for permission in permissions:
        if isinstance(permission, str):
            names.append(permission)
        elif type(permission) is Restriction:
            restrictions.append(permission)
        else:
            raise DefinitionError(
                f"a permission is a pattern such as 'fs.*', or a restriction made by allow() or deny(), not an object of type {type(permission).__name__}."
            )
    layers = frozenset[Layer]().union(*(restriction.layers for restriction in restrictions))
    # Fail closed: where nothing is named at all, the (empty) layer of names is what refuses.
    if names or not any(restriction.kind == "allow" for restriction in restrictions):
        layers |= allow(*names).layers
    return layers


@final
class PermissionSet:
    """An interned, immutable set of layers, all of which must permit.

    Made by `Authority.permission_set` and `meet`, never by hand. Compare with `is`: equal sets of one authority are one object. A set
    is a description, not authority: only a context that an authority minted carries any.

    Attributes:
        layers: The layers. No layer means: everything is permitted.
        is_everything: Whether there is no layer.
    """

    __slots__ = ("__weakref__", "_meets", "_table", "_verdicts", "is_everything", "layers")

    layers: frozenset[Layer]
    is_everything: bool
    _table: PermissionTable
    _verdicts: dict[str, bool]
    _meets: dict[frozenset[Layer], PermissionSet]

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        """Refused: see the class."""
        raise TypeError(
            "a PermissionSet is made by an authority, so that equal sets are one object: use system.authority.permission_set([...])."
        )

    def __init_subclass__(cls) -> None:
        raise TypeError("PermissionSet is final: a subclass could answer for itself.")

    def permits(self, operation: str) -> bool:
        """Whether every layer permits the operation. Remembered for up to 4,096 operations.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        if type(operation) is str:
            verdict = self._verdicts.get(operation)
            if verdict is not None:
                return verdict
        name = check_operation(operation)
        segments = tuple(name.split("."))
        verdict = all(layer.permits_segments(segments) for layer in self.layers)
        if len(self._verdicts) >= MAX_VERDICTS:
            self._verdicts.clear()
        self._verdicts[name] = verdict
        return verdict

    def meet(self, other: PermissionSet) -> PermissionSet:
        """What both sets permit, and nothing else: the union of their layers. `self` itself where `other` adds no layer.

        A set of another table is taken by its layers; the result always belongs to this one's.
        """
        if other is self or other.is_everything:
            return self
        return self.meet_layers(other.layers)

    def meet_layers(self, layers: frozenset[Layer]) -> PermissionSet:
        """`meet` with the set of these layers; none of them may be one that restricts nothing."""
        # Keyed by the layers, not by the set, because a restriction has layers only; a frozenset remembers its hash.
        meet = self._meets.get(layers)
        if meet is None:
            if layers <= self.layers:
                return self
            meet = self._table.intern(self.layers | layers)
            if len(self._meets) >= MAX_MEETS:
                self._meets.clear()
            self._meets[layers] = meet
        return meet

    def refusing(self, operation: str) -> list[Layer]:
        """The layers that refuse the operation, in a stable order; empty if it is permitted.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        segments = tuple(check_operation(operation).split("."))
        return sorted((layer for layer in self.layers if not layer.permits_segments(segments)), key=repr)

    def explain(self, operation: str) -> str:
        """One sentence: whether the operation is permitted, and if not, which layers refuse it.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        refusing = self.refusing(operation)
        if not refusing:
            return f"'{check_operation(operation)}' is permitted: every layer of {self!r} permits it."
        return f"'{check_operation(operation)}' is not permitted: {_cut([refusal_of(layer) for layer in refusing], _SHOWN_LAYERS)}."

    def __repr__(self) -> str:
        return f"<permissions {self.text}>"

    @property
    def text(self) -> str:
        """The layers as they would be typed, in a stable order; long sets are cut."""
        return _cut(sorted(map(repr, self.layers)), _SHOWN_LAYERS) or "everything"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a PermissionSet is immutable: {name!r} cannot be set. Combine sets with meet().")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a PermissionSet is immutable: {name!r} cannot be deleted.")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a PermissionSet is not pickled: on the other side it would be no one's. Send its patterns, and make a set of them there."
        )


def refusal_of(layer: Layer) -> str:
    """Why a layer refuses, as part of a sentence."""
    if layer.kind == "deny":
        return f"the layer {layer!r} refuses it"
    return f"the layer {layer!r} does not name it" if layer.patterns else "the empty layer allow() permits nothing"


# Writing through the slot descriptors is the one way past `__setattr__`, and cheaper than object.__setattr__.
_SET: Final[dict[str, Callable[[object, Any], None]]] = {
    name: PermissionSet.__dict__[name].__set__ for name in PermissionSet.__slots__ if name != "__weakref__"
}


@final
class PermissionTable:
    """The intern table of one authority: equal sets of layers are one `PermissionSet`. Safe to use from any thread.

    The table holds its sets weakly, `everything` and `nothing` excepted: it is as large as the number of sets in use.

    Attributes:
        everything: The set without a layer, the unit of `meet`.
        nothing: The set of the one empty allow layer; no operation is permitted.
    """

    __slots__ = ("_lock", "_sets", "everything", "nothing")

    def __init__(self) -> None:
        self._sets: weakref.WeakValueDictionary[frozenset[Layer], PermissionSet] = weakref.WeakValueDictionary()
        # Re-entrant, because a collection inside may run anybody's finaliser, and that may narrow a context.
        self._lock = threading.RLock()
        self.everything = self.intern(frozenset())
        self.nothing = self.intern(frozenset((Layer("allow", frozenset()),)))

    def __len__(self) -> int:
        return len(self._sets)

    def intern(self, layers: frozenset[Layer]) -> PermissionSet:
        """The one set of these layers. Layers that restrict nothing must be left out (`allow`, `deny` and `layers_of` do)."""
        found = self._sets.get(layers)
        if found is not None:
            return found
        made: PermissionSet = object.__new__(PermissionSet)
        _SET["layers"](made, layers)
        _SET["is_everything"](made, not layers)
        _SET["_table"](made, self)
        _SET["_verdicts"](made, {})
        _SET["_meets"](made, {})
        with self._lock:
            return self._sets.setdefault(layers, made)
