"""Decisions: what the layers of a set say about one operation, worked out once and asked many times.

Most operations are decided by their name alone; for the others a decision keeps the few rules that have to look at arguments.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, cast, final

import attrs

from retinue.security.constraints import Source
from retinue.security.errors import DefinitionError
from retinue.security.layers import Layer
from retinue.security.rules import Rule

__all__ = [
    "ALLOW",
    "ALLOWED",
    "ALWAYS",
    "ASK",
    "ASKED",
    "ASKED_OF_ANOTHER",
    "DENIED",
    "DENY",
    "DEPENDS",
    "NEVER",
    "Asks",
    "Decision",
    "Verdict",
    "decide",
    "named_arguments",
    "plain_arguments",
]


@final
class Verdict(enum.Enum):
    """What is said about an operation. Only `ALLOW` lets it run, by identity.

    DEPENDS is no answer about a call, but about an operation whose arguments are not known yet.
    """

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    DEPENDS = "depends"


@final
class Asks(enum.Enum):
    """Whether an operation that is permitted needs a person's consent."""

    NEVER = "never"
    ALWAYS = "always"
    DEPENDS = "depends"


# Plain names: looking a member up in its class costs more than the comparison.
ALLOW: Final = Verdict.ALLOW
ASK: Final = Verdict.ASK
DENY: Final = Verdict.DENY
DEPENDS: Final = Verdict.DEPENDS
NEVER: Final = Asks.NEVER
ALWAYS: Final = Asks.ALWAYS


@final
@attrs.frozen(eq=False)
class Check:
    """The rules of one layer that name the operation and look at its arguments.

    Attributes:
        kind: "allow", "where" or "ask": see `Layer`.
        rules: The rules.
        four_eyes: Whether an "ask" layer wants another person's consent than the subject's.
    """

    kind: str
    rules: tuple[Rule, ...]
    four_eyes: bool = False

    def passes(self, arguments: Mapping[str, object], sources: Mapping[str, Source]) -> bool:
        """Whether the layer permits, or for an "ask" layer, whether no consent is needed."""
        if self.kind == "allow":
            return any(rule.holds_closed(arguments, sources) for rule in self.rules)
        return all(rule.holds(arguments, sources) for rule in self.rules)


@final
@attrs.frozen(eq=False)
class Decision:
    """What a set says about one operation.

    Attributes:
        verdict: `ALLOW`, `DENY`, or `DEPENDS` on the arguments.
        asks: Whether a person's consent is needed where it is permitted: `NEVER`, `ALWAYS`, or `Asks.DEPENDS` on the arguments.
        checks: What is left to look at, those that can refuse before those that can ask; empty for DENY.
        four_eyes: Whether such a consent has to come from another person than the subject: `NEVER`, `ALWAYS`, or `Asks.DEPENDS` on the arguments.
        four_checks: The checks that want this; all of them pass where it is not wanted. Empty unless it depends.
    """

    verdict: Verdict
    asks: Asks
    checks: tuple[Check, ...] = ()
    four_eyes: Asks = NEVER
    four_checks: tuple[Check, ...] = ()

    def evaluate(self, arguments: Mapping[str, object] | None, sources: Mapping[str, Source]) -> Verdict:
        """What is said about a call: ALLOW, ASK or DENY. Never raises: what cannot be decided is DENY.

        Args:
            arguments: The arguments by their names; a name that is no exact `str` is DENY, and so is None where it depends on them.
            sources: The sources of the authority, by name, for `known_from`.
        """
        if self.verdict is DENY:
            return DENY
        asked = self.asks is ALWAYS
        if self.checks:
            try:
                plain = plain_arguments(arguments)
                if plain is None:
                    return DENY
                for check in self.checks:
                    if check.passes(plain, sources) is not True:
                        if check.kind != "ask":
                            return DENY
                        asked = True
            except Exception:
                return DENY
        return ASK if asked else ALLOW

    def wants_four_eyes(self, arguments: Mapping[str, object] | None, sources: Mapping[str, Source]) -> bool:
        """Whether the consent that is asked for has to come from another person than the subject. Never raises: what cannot be decided has to.

        Args:
            arguments: The arguments by their names; None where they are not known.
            sources: The sources of the authority, by name, for `known_from`.
        """
        if self.four_eyes is not Asks.DEPENDS:
            return self.four_eyes is ALWAYS
        try:
            plain = plain_arguments(arguments)
            return plain is None or not all(check.passes(plain, sources) is True for check in self.four_checks)
        except Exception:
            return True


def named_arguments(arguments: object, what: str) -> Mapping[str, object] | None:
    """The arguments of an operation by name, of what a person gave as such: a mapping as it is, the fields of a message, None for None.

    Args:
        arguments: What was given.
        what: The function that was called, for the error.

    Raises:
        DefinitionError: It is none of the three.
    """
    if arguments is None or isinstance(arguments, Mapping):
        return arguments
    fields = getattr(type(arguments), "__attrs_attrs__", None)
    if fields is None:
        shown = f"the class {arguments.__name__}" if isinstance(arguments, type) else f"an object of type {type(arguments).__name__}"
        raise DefinitionError(
            f"{what} takes the arguments as a mapping by name or as a message, not {shown}. Write {{'path': 'reports/q3.txt'}}, or Read('reports/q3.txt')."
        )
    names = type(arguments).__dict__.get("__argument_names__") or {}  # of a tool whose parameters have names that no field can bear
    return {names.get(field.name, field.name): getattr(arguments, field.name) for field in fields}


def plain_arguments(arguments: object) -> Mapping[str, object] | None:
    """The arguments, if they are a mapping with plain `str` keys; else None.

    What is no plain `dict` is copied once, so that every constraint sees the same.
    """
    if type(arguments) is not dict:
        if not isinstance(arguments, MappingProxyType) and not isinstance(arguments, Mapping):
            return None
        arguments = dict(cast("Mapping[object, object]", arguments))
    for name in arguments:
        if type(name) is not str:
            return None
    return cast("Mapping[str, object]", arguments)


# Shared by all operations that are decided by name, so that a caller can compare by identity.
ALLOWED: Final = Decision(ALLOW, NEVER)
ASKED: Final = Decision(ALLOW, ALWAYS)
ASKED_OF_ANOTHER: Final = Decision(ALLOW, ALWAYS, four_eyes=ALWAYS)
DENIED: Final = Decision(DENY, NEVER)


def decide(layers: Iterable[Layer], labels: frozenset[str], segments: tuple[str, ...]) -> Decision:
    """What the layers say about an operation, checked and split already, in a set with these labels."""
    checks: list[Check] = []
    asking: list[Check] = []
    always = always_four = False
    for layer in layers:
        kind = layer.kind
        if kind == "unlabelled" and layer.labels.isdisjoint(labels):
            continue
        named = layer.naming(segments)
        if kind == "allow":
            if not named:
                return DENIED
            if all(rule.constraints for rule in named):
                checks.append(Check(kind, named))
        elif not named:
            continue
        elif kind == "where":
            checks.append(Check(kind, named))
        elif kind == "ask":
            if all(rule.constraints for rule in named):
                asking.append(Check(kind, named, layer.four_eyes))
            else:
                always = True
                always_four = always_four or layer.four_eyes
        else:
            return DENIED
    four_checks = () if always_four else tuple(check for check in asking if check.four_eyes)
    four_eyes = ALWAYS if always_four else Asks.DEPENDS if four_checks else NEVER
    if always:
        asking = []
    if not checks and not asking and not four_checks:
        return (ASKED_OF_ANOTHER if always_four else ASKED) if always else ALLOWED
    asks = ALWAYS if always else Asks.DEPENDS if asking else NEVER
    return Decision(DEPENDS if checks else ALLOW, asks, (*checks, *asking), four_eyes, four_checks)
