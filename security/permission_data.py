"""Permission sets as plain, typed data, for sealed tokens and stores; reading is the exact inverse of writing.

Nothing is read that was not written so: an unknown key or kind, a pattern in place of a name, a number as text, a layer that would
restrict nothing, and a field too many are all refused. A `*` is a wildcard in a pattern and a star in a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from retinue.security.constraints import Constraint, constraint_from_data
from retinue.security.errors import ConstraintError
from retinue.security.layers import KINDS, Layer
from retinue.security.limits import DEFAULT_DEPTH, NEVER, NO_LIMITS, UNLIMITED, Limits, limits_from_data
from retinue.security.operations import Pattern
from retinue.security.restrictions import Restriction, check_label, joined, layer_restriction
from retinue.security.rules import MAX_ARGUMENT_LENGTH, Rule

__all__ = ["permission_data", "restriction_data", "restrictions_from_data"]

MAX_LAYERS: Final = 1024
"""Layers that are read of one set."""

MAX_RULES: Final = 16_384
"""Rules that are read of one layer, and labels of one set."""


def permission_data(layers: frozenset[Layer], limits: Limits, labels: frozenset[str]) -> dict[str, object]:
    """Layers, limits and labels as dicts, lists, str, int, bool and None, in a stable order."""
    data: dict[str, object] = {"layers": sorted((_layer_data(layer) for layer in layers), key=repr)}
    if limits != NO_LIMITS:
        data["limits"] = limits.to_data()
    if labels:
        data["labels"] = sorted(labels)
    return data


def restriction_data(restrictions: Iterable[Restriction], now_ms: int) -> dict[str, object]:
    """Restrictions as the same kind of data, for what is narrowed elsewhere and later; `expires(seconds=)` becomes a deadline from `now_ms` on."""
    all_of_them = joined(restrictions).resolved(now_ms)
    return permission_data(all_of_them.layers, all_of_them.limits, all_of_them.labels)


def _layer_data(layer: Layer) -> dict[str, object]:
    data: dict[str, object] = {"kind": layer.kind, "rules": sorted((_rule_data(rule) for rule in layer.rules), key=repr)}
    if layer.labels:
        data["labels"] = sorted(layer.labels)
    if layer.four_eyes:
        data["four_eyes"] = True
    return data


def _rule_data(rule: Rule) -> dict[str, object]:
    data: dict[str, object] = {"pattern": rule.pattern.text}
    if rule.constraints:
        data["arguments"] = {name: constraint.to_data() for name, constraint in rule.constraints}
    if rule.open:
        data["open"] = True
    return data


def restrictions_from_data(data: object) -> tuple[Restriction, ...]:
    """What `PermissionSet.to_data` wrote, as restrictions: `context.narrow(*restrictions_from_data(data))` permits what both permit.

    One restriction for each layer, and one each for labels and for limits. Nothing at all comes back for the data of "everything".

    Args:
        data: What a JSON reader returns; it may come from anywhere.

    Raises:
        ConstraintError: The data is anything else than `to_data` writes.
        PatternError: A pattern is malformed.
    """
    fields = _fields(data, "permissions", required=("layers",), optional=("limits", "labels"))
    found = [layer_restriction(_layer(layer)) for layer in _list(fields["layers"], "layers", MAX_LAYERS)]
    if len({next(iter(restriction.layers), None) for restriction in found}) < len(found) or not all(
        restriction.layers for restriction in found
    ):
        raise ConstraintError("a layer stands in the data twice, or would restrict nothing; to_data() writes no such one.")
    if "labels" in fields:
        found.append(Restriction("label", labels=_labels(fields["labels"])))
    if "limits" in fields:
        limits = limits_from_data(fields["limits"])
        if limits == NO_LIMITS:
            raise ConstraintError("limits that limit nothing are left out of the data.")
        found.extend(_limit_restrictions(limits))
    return tuple(found)


def _limit_restrictions(limits: Limits) -> list[Restriction]:
    """The restrictions that a person would type for these limits."""
    found = []
    if limits.deadline_ms != NEVER:
        found.append(Restriction("expires", limits=Limits(deadline_ms=limits.deadline_ms)))
    if limits.risk != NO_LIMITS.risk:
        found.append(Restriction("risk", limits=Limits(risk=limits.risk)))
    if limits.depth != DEFAULT_DEPTH or min(limits.calls, limits.tokens, limits.cost_micro_usd) != UNLIMITED:
        spent = Limits(calls=limits.calls, tokens=limits.tokens, cost_micro_usd=limits.cost_micro_usd, depth=limits.depth)
        found.append(Restriction("limit", limits=spent))
    return found


def _fields(data: object, what: str, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    if type(data) is not dict:
        raise ConstraintError(f"{what} are an object with the keys {', '.join((*required, *optional))}, not a {type(data).__name__}.")
    for name in data:
        if type(name) is not str or name not in (*required, *optional):
            raise ConstraintError(f"{what} have the keys {', '.join((*required, *optional))}, and no other.")
    missing = [name for name in required if name not in data]
    if missing:
        raise ConstraintError(f"{what} need the keys {', '.join(missing)}.")
    return data


def _list(data: object, what: str, most: int) -> Sequence[object]:
    if type(data) is not list or len(data) > most:
        raise ConstraintError(f"{what} are a list of {most} items at most.")
    return data


def _labels(data: object) -> frozenset[str]:
    items = _list(data, "labels", MAX_RULES)
    found = frozenset(map(check_label, items))
    if not items or list(items) != sorted(found):
        raise ConstraintError("labels are written sorted, each once, and left out where there is none.")
    return found


def _layer(data: object) -> Layer:
    fields = _fields(data, "a layer's data", required=("kind", "rules"), optional=("labels", "four_eyes"))
    kind = fields["kind"]
    if type(kind) is not str or kind not in KINDS:
        raise ConstraintError(f"the kind of a layer is one of {', '.join(KINDS)}.")
    rules = [_rule(rule) for rule in _list(fields["rules"], "rules", MAX_RULES)]
    if len(set(rules)) < len(rules):
        raise ConstraintError("a rule stands in a layer twice.")
    if "four_eyes" in fields and fields["four_eyes"] is not True:
        raise ConstraintError("four eyes are true or left out.")
    return Layer(kind, frozenset(rules), _labels(fields["labels"]) if "labels" in fields else frozenset(), "four_eyes" in fields)


def _rule(data: object) -> Rule:
    fields = _fields(data, "a rule's data", required=("pattern",), optional=("arguments", "open"))
    if type(fields["pattern"]) is not str or ("open" in fields and fields["open"] is not True):
        raise ConstraintError("a rule's pattern is a str, and open is true or left out.")
    constraints: dict[str, Constraint] = {}
    if "arguments" in fields:
        arguments = fields["arguments"]
        if type(arguments) is not dict or not arguments:
            raise ConstraintError("a rule's arguments are an object with one constraint at least, or left out.")
        for name, constraint in arguments.items():
            if type(name) is not str or not 0 < len(name) <= MAX_ARGUMENT_LENGTH:
                raise ConstraintError(f"the name of an argument has 1 to {MAX_ARGUMENT_LENGTH} characters.")
            constraints[name] = constraint_from_data(constraint)
    elif "open" in fields:
        raise ConstraintError("only a rule with constraints is open.")
    return Rule(Pattern(fields["pattern"]), tuple(sorted(constraints.items())), "open" in fields)
