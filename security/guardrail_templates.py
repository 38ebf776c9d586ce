"""Guardrails that many agents want: personal data and secrets at the input and the output, tools that a person confirms, parameters of high risk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from retinue.security.choices import Block, Choice, Continue
from retinue.security.detectors import KEY, KINDS, WEB_TOKEN
from retinue.security.errors import DefinitionError
from retinue.security.guardrails import Guarded, Guardrail, names_of
from retinue.security.safe_patterns import pattern_detector
from retinue.security.secret_shapes import REDACTED
from retinue.security.text_filter import Detector

__all__ = ["Action", "Rule", "high_risk_parameter", "output_redaction", "privacy_input", "sensitive_tool_confirmation"]

Action: TypeAlias = Literal["redact", "block"]

Rule: TypeAlias = Callable[[Any], bool] | re.Pattern[str] | Iterable[Any]
"""When a parameter's value is of high risk: a function that says so, an expression that is found in its text, or the values themselves."""

MAX_DEPTH: Final = 32
"""Levels of arguments that are looked at; what is deeper counts as of high risk."""


def privacy_input(*, action: Action = "redact", kinds: Iterable[str] = tuple(KINDS)) -> Guardrail:
    """Takes personal data out of what users say, before anything remembers it or any model sees it.

    Args:
        action: "redact" (the default) puts "[redacted]" in its place; "block" refuses the message.
        kinds: Of "ssn" (social security numbers), "card" (13 to 19 digits whose check digit is right), "email" and "secret" (`password=…`, `api_key: …`); default
            all.

    Raises:
        DefinitionError: No such action or kind.
    """
    return Guardrail(
        "privacy_input", "input", detectors=_detectors(kinds, "privacy_input"), replacement=_replacement(action, "privacy_input")
    )


def output_redaction(
    patterns: Iterable[str | re.Pattern[str]] = (),
    *,
    action: Action = "redact",
    kinds: Iterable[str] = tuple(KINDS),
    keys: bool = True,
    replacement: str = REDACTED,
) -> Guardrail:
    """Takes secrets and personal data out of what the agent answers, streamed answers included: a stream holds back only what may still become one.

    Args:
        patterns: More to look for: regular expressions. Those that could run away are refused here.
        action: "redact" (the default), or "block": the run ends with GuardrailBlocked.
        kinds: As for `privacy_input`; () for none.
        keys: Whether keys that say whose they are (`sk-…`, `ghp_…`, JSON web tokens) are looked for.
        replacement: What stands in the place of a finding.

    Raises:
        DefinitionError: A pattern that is not taken, no such action or kind.
    """
    if isinstance(patterns, str | re.Pattern):
        patterns = (patterns,)
    found = [pattern_detector(pattern) for pattern in patterns]
    if keys:
        found += [KEY, WEB_TOKEN]
    found += _detectors(kinds, "output_redaction")
    if not found:
        raise DefinitionError("output_redaction: nothing to look for: give patterns=, kinds= or keys=True")
    if not isinstance(replacement, str):
        raise DefinitionError(f"output_redaction: replacement is a {type(replacement).__name__}: give a str")
    return Guardrail(
        "output_redaction", "output", detectors=tuple(found), replacement=_replacement(action, "output_redaction") and replacement
    )


def sensitive_tool_confirmation(tools: str | Iterable[str], *, may_be_missing: bool = False) -> Guardrail:
    """Has a person approve each call of these tools: as `approval=True` on the tool, the run parks until somebody with the right to decide has decided.

    Args:
        tools: Names of tools; "*" for all.
        may_be_missing: Whether a name may be one that the agent has no tool of (yet), for tools that come with a run. Default False: it is an error, since a slip in a
            name would leave a tool unguarded.

    Raises:
        DefinitionError: No names.
    """
    return Guardrail(
        "sensitive_tool_confirmation", "tool", confirm=names_of(tools, "sensitive_tool_confirmation"), may_be_missing=may_be_missing
    )


def high_risk_parameter(rules: Mapping[str, Rule]) -> Guardrail:
    """Blocks tool calls by the values of their parameters, wherever in the arguments these stand.

    Args:
        rules: By parameter ("amount") or tool and parameter ("send.amount"): when its value is of high risk. A rule that raises blocks.

    Raises:
        DefinitionError: No rules, or one that is none.
    """
    if not isinstance(rules, Mapping) or not rules:
        raise DefinitionError('high_risk_parameter: give rules by parameter, {"amount": lambda value: value > 100}')
    ready = {name: _rule(name, rule) for name, rule in rules.items()}

    def check(asked: Guarded) -> Choice:
        for name, value in _values(asked.arguments, 0):
            for key in (name, f"{asked.tool}.{name}"):
                rule = ready.get(key)
                if rule is not None and rule(value):
                    return Block(f"the value of {name!r} is of high risk here; it was not used")
        return Continue()

    return Guardrail("high_risk_parameter", "tool", check)


def _rule(name: str, rule: Any) -> Callable[[Any], bool]:
    if not isinstance(name, str) or not name:
        raise DefinitionError(f"high_risk_parameter: {name!r} is no name of a parameter")
    if isinstance(rule, re.Pattern):
        detector: Detector = pattern_detector(rule)
        return lambda value: _is_found(detector, value)
    if callable(rule):
        return lambda value: rule(value) is not False
    if isinstance(rule, str | bytes) or not isinstance(rule, Iterable):
        raise DefinitionError(
            f"high_risk_parameter: the rule of {name!r} is {rule!r}: give a function, an expression (re.compile), or a set of values"
        )
    values = list(rule)
    return lambda value: value in values


def _is_found(detector: Detector, value: Any) -> bool:
    text = value if isinstance(value, str) else str(value)
    place = detector.first.search(text)
    while place is not None:
        if detector.scan(text, place.start(), True).end > place.start():
            return True
        place = detector.first.search(text, place.start() + 1)
    return False


def _values(arguments: Any, depth: int) -> Iterable[tuple[str, Any]]:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply to be looked at")
    if isinstance(arguments, Mapping):
        for name, value in arguments.items():
            yield str(name), value
            yield from _values(value, depth + 1)
    elif isinstance(arguments, list | tuple | set | frozenset):
        for value in arguments:
            yield from _values(value, depth + 1)
    elif hasattr(type(arguments), "__attrs_attrs__"):
        for field in type(arguments).__attrs_attrs__:
            value = getattr(arguments, field.name)
            yield field.name, value
            yield from _values(value, depth + 1)
    elif hasattr(type(arguments), "__dataclass_fields__"):
        for name in type(arguments).__dataclass_fields__:
            value = getattr(arguments, name)
            yield name, value
            yield from _values(value, depth + 1)


def _detectors(kinds: Iterable[str], where: str) -> tuple[Detector, ...]:
    names = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise DefinitionError(f"{where}: there is no kind {unknown[0]!r}; use some of {', '.join(KINDS)}")
    return tuple(detector for name, detector in KINDS.items() if name in names)


def _replacement(action: object, where: str) -> str | None:
    if action not in ("redact", "block"):
        raise DefinitionError(f'{where}: action={action!r}: use "redact" or "block"')
    return REDACTED if action == "redact" else None
