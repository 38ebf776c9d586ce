"""A policy read from a TOML file. What is missing, empty, unreadable or malformed refuses everything.

    version = 1

    [[rule]]
    operations = ["payments.send"]
    arguments = { amount = { at_most = 100 }, to = { one_of = ["ACME"] } }
    verdict = "allow"

    [[rule]]
    operations = ["payments.**"]
    verdict = "ask"
    reason = "larger payments are looked at by a person"

The first rule that fits a call decides; where none does, the call is refused. A rule fits if one of its patterns names the operation and everything else
that it says holds too.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, final

import attrs

from retinue.capabilities.policy import PolicyCall, Verdict
from retinue.security.constraints import (
    MISSING,
    Constraint,
    absent,
    any_of,
    at_least,
    at_most,
    between,
    each,
    host,
    max_length,
    one_of,
    within,
)
from retinue.security.errors import AuthorityError
from retinue.security.limits import RISKS
from retinue.security.operations import Pattern

__all__ = ["PolicyFile", "policy_from_file"]

MAX_BYTES: Final = 1_048_576
"""The largest policy file that is read."""

MAX_NESTING: Final = 8

MAX_TOLD: Final = 3
"""Rules that name an operation and do not fit, of which a refusal says why."""

_log = logging.getLogger("retinue.policies")

_MEND: Final = "mend the file, then reload() the policy"
_VERDICTS: Final = ("allow", "ask", "refuse")
_RULE_KEYS: Final = frozenset({"operations", "verdict", "reason", "subjects", "tenants", "paths", "max_risk", "arguments", "four_eyes"})


class _Malformed(Exception):
    """What is wrong in a file, as a sentence."""


@final
@attrs.frozen
class _Rule:
    patterns: tuple[Pattern, ...]
    verdict: Literal["allow", "ask", "refuse"]
    reason: str
    subjects: frozenset[str] | None
    tenants: frozenset[str] | None
    paths: frozenset[str] | None
    max_risk: int | None
    arguments: tuple[tuple[str, Constraint], ...]
    four_eyes: bool

    def names(self, operation: str) -> bool:
        segments = tuple(operation.split("."))
        return any(pattern.matches_segments(segments) for pattern in self.patterns)

    def misfit(self, call: PolicyCall) -> str:
        """Why the rule does not fit a call whose operation it names; "" where it fits. Constraints are told, values never."""
        if self.subjects is not None and call.security.subject not in self.subjects:
            return "not for this subject"
        if self.tenants is not None and call.security.tenant not in self.tenants:
            return "not for this tenant"
        if self.paths is not None and call.path not in self.paths:
            return "not at this actor"
        if self.max_risk is not None and (call.risk is None or RISKS.index(call.risk) > self.max_risk):
            return f"not at the risk {call.risk or '(unrated)'}: at most {RISKS[self.max_risk]}"
        for name, constraint in self.arguments:
            if constraint.holds(call.arguments.get(name, MISSING)) is not True:
                is_there = name in call.arguments
                return f"its argument {name!r} {'is not' if is_there else 'is no field of the message:'} {constraint.text}"
        return ""


@final
class PolicyFile:
    """A policy that does what a file says. Made by `policy_from_file`.

    Attributes:
        name: Its name in refusals and in the audit; the file's name unless given. No two policies of a system have one name.
        operations: `("**",)`: it is asked about every operation.
        problem: Why it refuses everything, or "" where the file was read well.
        digest: SHA-256 over the bytes that were read, or "" where there is none.
        guard: Called first by `reload`, where set; the system sets one that raises `Denied` inside a handler.
    """

    __slots__ = ("_path", "_rules", "digest", "guard", "name", "operations", "problem")

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self._path = Path(path)
        self.name = self._path.name if name is None else name
        self.operations = ("**",)
        self.problem = "it was not read yet"
        self.digest = ""
        self.guard: Callable[[], None] | None = None
        self._rules: tuple[_Rule, ...] = ()
        self.reload()

    def reload(self) -> bool:
        """Read the file again. Never raises for what is in it: a file that cannot be used refuses everything, the last good one is not kept, and
        `retinue.policies` logs a warning.

        Returns:
            Whether the file was read well.

        Raises:
            Denied: Called inside a handler.
        """
        if self.guard is not None:
            self.guard()
        rules: tuple[_Rule, ...] = ()
        content = b""
        try:
            content = _read(self._path)
            rules = _rules_of(content)
            problem = ""
        except _Malformed as error:
            problem = str(error)
        except Exception as error:  # whatever a parser may raise on what it is given
            problem = f"it cannot be read ({type(error).__name__})"
        # Refusing comes first, and rules last: a call in between finds no rule and is refused.
        self._rules = ()
        self.problem, self.digest = problem, hashlib.sha256(content).hexdigest() if content else ""
        self._rules = rules
        if problem:
            _log.warning("the policy file %r refuses everything, because %s. Fix: %s", str(self._path), problem, _MEND)
        return not problem

    def decide(self, call: PolicyCall) -> Verdict:
        """What the first rule that fits says; refused where none does."""
        if self.problem:
            return Verdict.refuse(f"the policy file {str(self._path)!r} refuses everything, because {self.problem}", fix=_MEND)
        misfits: list[str] = []
        for number, rule in enumerate(self._rules, 1):
            if not rule.names(call.operation):
                continue
            misfit = rule.misfit(call)
            if misfit:
                misfits.append(f"rule {number} names the operation, but {misfit}")
                continue
            if rule.verdict == "allow":
                return Verdict.allow()
            reason = rule.reason or f"rule {number} of {self._path.name!r}"
            return Verdict.ask(reason, four_eyes=rule.four_eyes) if rule.verdict == "ask" else Verdict.refuse(reason)
        if not misfits:
            return Verdict.refuse(f"no rule of {self._path.name!r} names the operation")
        more = f"; and {len(misfits) - MAX_TOLD} more" if len(misfits) > MAX_TOLD else ""
        return Verdict.refuse(f"no rule of {self._path.name!r} fits: {'; '.join(misfits[:MAX_TOLD])}{more}")

    def __repr__(self) -> str:
        return f"<PolicyFile {self._path.name}: {f'refuses everything, {self.problem}' if self.problem else f'{len(self._rules)} rules'}>"


def policy_from_file(path: str | Path, *, name: str | None = None) -> PolicyFile:
    """A policy of a TOML file, to be given to `ActorSystem(policies=[…])`. A file that cannot be used gives one that refuses everything.

    The file has `version = 1` and one `[[rule]]` or more. A rule has `operations` (patterns) and `verdict` ("allow", "ask" or "refuse"), and may have `reason`,
    `subjects`, `tenants`, `paths` (of actors; lists of exact names); where it asks, `four_eyes = true` (by another person than the subject); and where it allows, `max_risk` (fits operations that are rated, and not above it), and
    `arguments`: constraints by the names of arguments, each written as one of

        { one_of = ["ACME", "Bob"] }  { at_most = 100 }  { at_least = 1 }  { between = [1, 100] }  { max_length = 80 }
        { within = ["reports/"] }  { host = ["example.com"] }  { absent = true }  { each = { … } }  { any_of = [{ … }, { … }] }

    An unknown key or a wrong type anywhere makes the whole file one that cannot be used; `retinue.policies` logs a warning that says what it is.

    Args:
        path: The file; it is read now, and again by `reload()`.
        name: The policy's name; default the file's name without its folder. Two files of one name need it: each policy of a system has a name of its own.
    """
    return PolicyFile(path, name)


def _read(path: Path) -> bytes:
    try:
        # Not blocking: a pipe without a writer would be waited for without end.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - of a descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _Malformed("it is no regular file")
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _Malformed("there is no such file") from None
    except OSError as error:
        raise _Malformed(f"it cannot be read ({error.strerror or type(error).__name__})") from None
    if len(content) > MAX_BYTES:
        raise _Malformed(f"it is larger than {MAX_BYTES} bytes")
    return content


def _rules_of(content: bytes) -> tuple[_Rule, ...]:
    try:
        text = content.decode("utf-8")
        data = tomllib.loads(text)
    except UnicodeDecodeError:
        raise _Malformed("it is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _Malformed(f"it is no TOML ({error})") from None
    if not data:
        raise _Malformed("it is empty")
    _check_keys(data, {"version", "rule"}, "the file")
    if type(data.get("version")) is not int or data["version"] != 1:
        raise _Malformed("it does not say version = 1")
    rules = data.get("rule")
    if type(rules) is not list or not rules or any(type(rule) is not dict for rule in rules):
        raise _Malformed("it has no [[rule]]")
    return tuple(_rule(rule, f"rule {number}") for number, rule in enumerate(rules, 1))


def _rule(data: dict[str, Any], where: str) -> _Rule:
    _check_keys(data, _RULE_KEYS, where)
    verdict = data.get("verdict")
    if type(verdict) is not str or verdict not in _VERDICTS:
        raise _Malformed(f"the verdict of {where} is none of {', '.join(_VERDICTS)}")
    operations = _names(data.get("operations"), f"the operations of {where}")
    patterns = tuple(_pattern(operation, where) for operation in sorted(operations))
    reason = data.get("reason", "")
    if type(reason) is not str:
        raise _Malformed(f"the reason of {where} is no text")
    risk = data.get("max_risk")
    if risk is not None and (type(risk) is not str or risk not in RISKS):
        raise _Malformed(f"the max_risk of {where} is none of {', '.join(RISKS)}")
    arguments = data.get("arguments", {})
    if type(arguments) is not dict:
        raise _Malformed(f"the arguments of {where} are no table")
    if verdict != "allow" and (arguments or risk is not None):
        # An odd value fits no constraint, so the call would go on to the next rule, which may allow it.
        raise _Malformed(
            f"{where} has {'arguments' if arguments else 'max_risk'} and the verdict {verdict!r}: what does not fit would go on to the next rule. "
            "Write the rule that allows first, with what it allows, and this one after it without"
        )
    four_eyes = data.get("four_eyes", False)
    if type(four_eyes) is not bool or (verdict != "ask" and "four_eyes" in data):
        raise _Malformed(f"the four_eyes of {where} are no true or false beside the verdict 'ask'")
    lists = {key: _names(data[key], f"the {key} of {where}") if key in data else None for key in ("subjects", "tenants", "paths")}
    return _Rule(
        patterns=patterns,
        verdict=verdict,  # type: ignore[arg-type]  # one of the three, see above
        reason=reason.strip(),
        subjects=lists["subjects"],
        tenants=lists["tenants"],
        paths=lists["paths"],
        max_risk=None if risk is None else RISKS.index(risk),
        arguments=tuple((name, _constraint(value, f"the argument {name!r} of {where}", 0)) for name, value in sorted(arguments.items())),
        four_eyes=four_eyes,
    )


def _pattern(operation: str, where: str) -> Pattern:
    try:
        return Pattern(operation)
    except AuthorityError:
        raise _Malformed(f"the operation {operation[:60]!r} of {where} is no pattern, such as 'fs.read', 'fs.*' or 'fs.**'") from None


def _check_keys(data: Mapping[str, object], known: set[str] | frozenset[str], where: str) -> None:
    for key in data:
        if key not in known:
            raise _Malformed(f"{where} has an unknown key {key[:60]!r}; known are {', '.join(sorted(known))}")


def _names(value: object, what: str) -> frozenset[str]:
    if type(value) is not list or not value or any(type(name) is not str or not name for name in value):
        raise _Malformed(f"{what} are no list of names with at least one")
    return frozenset(value)


def _constraint(data: object, what: str, depth: int) -> Constraint:
    if type(data) is not dict or len(data) != 1 or depth > MAX_NESTING:
        raise _Malformed(f"{what} is no constraint with exactly one key, such as {{ at_most = 100 }}")
    ((kind, value),) = data.items()
    read = _KINDS.get(kind)
    if read is None:
        raise _Malformed(f"{what} has a constraint of an unknown kind {str(kind)[:60]!r}; known are {', '.join(sorted(_KINDS))}")
    try:
        return read(value, what, depth)
    except (AuthorityError, TypeError, ValueError) as error:
        raise _Malformed(f"{what}: {error}") from None


def _list(value: object, what: str) -> list[Any]:
    if type(value) is not list:
        raise _Malformed(f"{what} is no list")
    return value


def _absent(value: object, what: str, _depth: int) -> Constraint:
    if value is not True:
        raise _Malformed(f"{what}: write absent = true")
    return absent()


def _between(value: object, what: str, _depth: int) -> Constraint:
    low, high = _list(value, what)
    return between(low, high)


_KINDS: Final[dict[str, Callable[[Any, str, int], Constraint]]] = {
    "one_of": lambda value, what, _: one_of(*_list(value, what)),
    "at_most": lambda value, _, __: at_most(value),
    "at_least": lambda value, _, __: at_least(value),
    "between": _between,
    "max_length": lambda value, _, __: max_length(value),
    "within": lambda value, what, _: within(*_list(value, what)),
    "host": lambda value, what, _: host(*_list(value, what)),
    "absent": _absent,
    "each": lambda value, what, depth: each(_constraint(value, what, depth + 1)),
    "any_of": lambda value, what, depth: any_of(*(_constraint(one, what, depth + 1) for one in _list(value, what))),
}
