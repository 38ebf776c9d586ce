"""Permissions: interned sets of layers, limits and labels, whose meet is the only way to combine them.

A `PermissionSet` is a set of layers, *all* of which must permit an operation, with limits and labels. Adding a layer can therefore only
shrink what is permitted, and narrowing is nothing but the union of layers, the minimum of limits and the union of labels: it is
idempotent, commutative and associative by construction, and there is no case "asked for more" that would need an error.

Sets are interned by a `PermissionTable` (one an authority): equal sets of one table are the same object. The hot path compares and
caches by identity, so nothing else may make a `PermissionSet`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NoReturn, Self, cast, final

from retinue.security.constraints import NO_SOURCES, Source
from retinue.security.decisions import ALLOW, ALLOWED, DENY, Decision, decide, plain_arguments
from retinue.security.layers import SHOWN_LAYERS, Layer, cut, refusal_of
from retinue.security.limits import NO_LIMITS, Limits
from retinue.security.operations import check_operation
from retinue.security.permission_data import permission_data
from retinue.security.reach import permits_something
from retinue.security.restrictions import Restriction, labels_text

__all__ = ["PermissionSet", "PermissionTable"]

MAX_VERDICTS: Final = 4096
"""Decisions that sets with the same layers and labels remember together; the memo is emptied when it is full."""

MAX_MEETS: Final = 256
"""Meets that one set remembers; the memo is emptied when it is full."""

_NO_LABELS: Final[frozenset[str]] = frozenset()


@final
class _Memo:
    """The decisions of all sets that have the same layers and labels, whatever their limits: a context that expires is not a cold one."""

    __slots__ = ("__weakref__", "decisions", "something")

    def __init__(self) -> None:
        self.decisions: dict[str, Decision] = {}
        self.something: bool | None = None


class _Fields:
    """The slots of a set before it is sealed: filled in as one of these, and then given the class that refuses writes."""

    __slots__ = ("__weakref__", "_decisions", "_meets", "_memo", "_table", "is_everything", "labels", "layers", "limits")

    layers: frozenset[Layer]
    limits: Limits
    labels: frozenset[str]
    is_everything: bool
    _table: PermissionTable
    _memo: _Memo
    _decisions: dict[str, Decision]
    _meets: dict[object, PermissionSet]


@final
class PermissionSet(_Fields):
    """An interned, immutable set of layers, all of which must permit, with limits and labels.

    Made by `Authority.permission_set` and `meet`, never by hand. Compare with `is`: equal sets of one authority are one object. A set
    is a description, not authority: only a context that an authority minted carries any.

    Attributes:
        layers: The layers. No layer means: every operation is permitted.
        limits: The limits; `permits` does not look at them.
        labels: The labels: what the data that this authority acts with has touched.
        is_everything: Whether there is no layer, no label and no limit beyond the defaults.
    """

    __slots__ = ()

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        """Refused: see the class."""
        raise TypeError(
            "a PermissionSet is made by an authority, so that equal sets are one object: use system.authority.permission_set([...])."
        )

    def __init_subclass__(cls) -> None:
        raise TypeError("PermissionSet is final: a subclass could answer for itself.")

    def permits(self, operation: str, arguments: Mapping[str, object] | None = None) -> bool:
        """Whether every layer permits the operation, and none asks for a person's consent.

        Limits are not looked at: they are about when, how often and how risky, and a context answers for them.

        Args:
            operation: The operation's name.
            arguments: Its arguments by name. None where they are not known: then what depends on them is not permitted.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        decision = self._decisions.get(operation) if type(operation) is str else None
        if decision is None:
            decision = self.decision(operation)
        if decision is ALLOWED:
            return True
        if decision.verdict is DENY:
            return False
        return decision.evaluate(arguments, self._table.sources) is ALLOW

    def decision(self, operation: str) -> Decision:
        """What the set says about the operation, arguments apart. Remembered for up to 4,096 operations.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        if type(operation) is str:
            found = self._decisions.get(operation)
            if found is not None:
                return found
        name = check_operation(operation)
        made = decide(self.layers, self.labels, tuple(name.split(".")))
        if len(self._decisions) >= MAX_VERDICTS:
            self._decisions.clear()
        self._decisions[name] = made
        return made

    def wants_four_eyes(self, operation: str, arguments: Mapping[str, object] | None = None) -> bool:
        """Whether a person's consent to the operation, where it is needed, has to come from another person than the context's subject.

        So says any layer that asks for consent with `four_eyes=True`. Where nothing asks, the answer is False.

        Args:
            operation: The operation's name.
            arguments: Its arguments by name. None where they are not known: then what depends on them has to.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        return self.decision(operation).wants_four_eyes(arguments, self._table.sources)

    def may_permit(self, operation: str) -> bool:
        """Whether the operation is permitted with some arguments, or with a person's consent: what a look-up may show.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        return self.decision(operation).verdict is not DENY

    @property
    def permits_something(self) -> bool:
        """Whether there is an operation that `may_permit` says True of. False, too, for a set that is too tangled to find one in some 20 ms."""
        memo = self._memo
        if memo.something is None:
            memo.something = permits_something(self.layers, self.labels)
        return memo.something

    def meet(self, other: PermissionSet) -> PermissionSet:
        """What both sets permit, and nothing else. `self` itself where `other` adds nothing.

        A set of another table is taken by its content; the result always belongs to this one's.
        """
        if other is self or other.is_everything:
            return self
        if other.limits is NO_LIMITS and not other.labels:
            return self.meet_layers(other.layers)
        meet = self._meets.get(other)
        if meet is None:
            meet = self._meeting(other.layers, other.limits, other.labels)
            # A deadline of its own comes from a context that will not be met often: it would only push out what is.
            if meet is not self and meet.limits.deadline_ms == self.limits.deadline_ms:
                self._remember(other, meet)
        return meet

    def meet_layers(self, layers: frozenset[Layer]) -> PermissionSet:
        """`meet` with the set of these layers; none of them may be one that restricts nothing."""
        # Keyed by the layers, not by the set, because most restrictions have layers only; a frozenset remembers its hash.
        meet = self._meets.get(layers)
        if meet is None:
            if layers <= self.layers:
                return self
            meet = self._table.intern(self.layers | layers, self.limits, self.labels)
            self._remember(layers, meet)
        return meet

    def meet_restriction(self, restriction: Restriction, now_ms: Callable[[], int]) -> PermissionSet:
        """What the set and the restriction permit.

        Args:
            restriction: The restriction.
            now_ms: The clock that `expires(seconds=)` counts from; asked only then.
        """
        if restriction.only_layers:
            return self.meet_layers(restriction.layers)
        if restriction.lifetime_ms is not None:
            return self._meeting(restriction.layers, restriction.limits_from(now_ms()), restriction.labels)
        meet = self._meets.get(restriction)
        if meet is None:
            meet = self._meeting(restriction.layers, restriction.limits, restriction.labels)
            if meet is not self and meet.limits.deadline_ms == self.limits.deadline_ms:
                self._remember(restriction, meet)
        return meet

    def _meeting(self, layers: frozenset[Layer], limits: Limits, labels: frozenset[str]) -> PermissionSet:
        met = self.limits.meet(limits)
        if met is self.limits and layers <= self.layers and labels <= self.labels:
            return self
        if layers <= self.layers and labels <= self.labels:
            return self._table.intern(self.layers, met, self.labels, self._memo)
        return self._table.intern(self.layers | layers, met, self.labels | labels)

    def _remember(self, key: object, meet: PermissionSet) -> None:
        if len(self._meets) >= MAX_MEETS:
            self._meets.clear()
        self._meets[key] = meet

    def refusing(self, operation: str, arguments: Mapping[str, object] | None = None) -> list[Layer]:
        """The layers that refuse the operation or ask for a person's consent, in a stable order; empty exactly if it is permitted.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        return [layer for layer, _ in self.refusals(operation, arguments)]

    def refusals(self, operation: str, arguments: Mapping[str, object] | None = None) -> list[tuple[Layer, str]]:
        """`refusing`, each with the reason as part of a sentence. Those that refuse come before those that ask.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        segments = tuple(check_operation(operation).split("."))
        plain = _plain_or_none(arguments)
        found = []
        for layer in sorted(self.layers, key=lambda layer: (layer.kind == "ask", repr(layer))):
            reason = refusal_of(layer, segments, plain, self._table.sources, self.labels)
            if reason is not None:
                found.append((layer, reason))
        return found

    def explain(self, operation: str, arguments: Mapping[str, object] | None = None) -> str:
        """One sentence: whether the operation is permitted, and if not, which layers and which arguments' constraints refuse it.

        Raises:
            PatternError: `operation` is malformed, or is a pattern.
        """
        refusals = self.refusals(operation, arguments)
        if not refusals:
            return f"'{check_operation(operation)}' is permitted: every layer of {self!r} permits it."
        return f"'{check_operation(operation)}' is not permitted: {cut([reason for _, reason in refusals], SHOWN_LAYERS)}."

    def to_data(self) -> dict[str, object]:
        """The set as plain JSON-able data, of which `restrictions_from_data` makes equal restrictions again."""
        return permission_data(self.layers, self.limits, self.labels)

    @property
    def text(self) -> str:
        """The layers, limits and labels as they would be typed, in a stable order; long sets are cut."""
        texts = sorted(map(repr, self.layers)) or ["everything"]
        return cut([*texts, *self.limits.texts, *([labels_text(self.labels)] if self.labels else [])], SHOWN_LAYERS)

    def __repr__(self) -> str:
        return f"<permissions {self.text}>"

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
            "a PermissionSet is not pickled: on the other side it would be no one's. Send its to_data(), and make a set of it there."
        )


def _plain_or_none(arguments: object) -> Mapping[str, object] | None:
    try:
        return plain_arguments(arguments)
    except Exception:  # a mapping that raises: nothing is known of it
        return None


@final
class PermissionTable:
    """The intern table of one authority: equal sets are one `PermissionSet`. Safe to use from any thread.

    The table holds its sets weakly, `everything` and `nothing` excepted: it is as large as the number of sets in use.

    Args:
        sources: The sources of the authority by name, for `known_from`: a live view.

    Attributes:
        everything: The set without a layer, the unit of `meet`.
        nothing: The set of the one empty allow layer; no operation is permitted.
        sources: As given.
        on_layers: Called with the layers of a set that has others than all that are alive; None: nobody.
    """

    __slots__ = ("_lock", "_memos", "_sets", "everything", "nothing", "on_layers", "sources")

    def __init__(self, sources: Mapping[str, Source] = NO_SOURCES) -> None:
        self.sources = sources if isinstance(sources, MappingProxyType) else MappingProxyType(sources)
        self._sets: weakref.WeakValueDictionary[object, PermissionSet] = weakref.WeakValueDictionary()
        self._memos: weakref.WeakValueDictionary[object, _Memo] = weakref.WeakValueDictionary()
        # Re-entrant, because a collection inside may run anybody's finaliser, and that may narrow a context.
        self._lock = threading.RLock()
        self.on_layers: Callable[[frozenset[Layer]], None] | None = None
        self.everything = self.intern(frozenset())
        self.nothing = self.intern(frozenset((Layer("allow", frozenset()),)))

    def __len__(self) -> int:
        return len(self._sets)

    def of(self, restriction: Restriction, now_ms: Callable[[], int]) -> PermissionSet:
        """The set that permits what the restriction does; `expires(seconds=)` counts from `now_ms()`."""
        limits = restriction.limits if restriction.lifetime_ms is None else restriction.limits_from(now_ms())
        return self.intern(restriction.layers, limits, restriction.labels)

    def intern(
        self, layers: frozenset[Layer], limits: Limits = NO_LIMITS, labels: frozenset[str] = _NO_LABELS, memo: _Memo | None = None
    ) -> PermissionSet:
        """The one set of these.

        Args:
            layers: The layers; those that restrict nothing must be left out (the restrictions do).
            limits: The limits.
            labels: The labels.
            memo: The memo of a set of this table with the same layers and labels, where one is at hand.
        """
        # Most sets have layers only, and a frozenset remembers its hash.
        key: object = layers if limits is NO_LIMITS and not labels else (layers, limits, labels)
        found = self._sets.get(key)
        if found is not None:
            return found
        if limits == NO_LIMITS and limits is not NO_LIMITS:
            return self.intern(layers, NO_LIMITS, labels)
        if memo is None:
            memo_key: object = (layers, labels) if labels else layers
            with self._lock:
                memo = self._memos.get(memo_key)
                known = memo is not None
                if memo is None:
                    memo = self._memos[memo_key] = _Memo()
            if not known and self.on_layers is not None:
                self.on_layers(layers)
        fields = _Fields()
        fields.layers = layers
        fields.limits = limits
        fields.labels = labels
        fields.is_everything = not layers and not labels and limits is NO_LIMITS
        fields._table = self
        fields._memo = memo
        fields._decisions = memo.decisions
        fields._meets = {}
        fields.__class__ = PermissionSet
        with self._lock:
            return self._sets.setdefault(key, cast("PermissionSet", fields))
