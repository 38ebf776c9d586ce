"""Mutants of permissions, constraints and contexts."""

from __future__ import annotations

from benchmarks.mutants.mutant import Mutant

__all__ = ["PERMISSIONS"]

_DECISIONS = ("tests/security/test_decisions.py",)
_RESTRICTIONS = ("tests/security/test_restrictions.py",)
_ACCOUNTS = ("tests/security/test_accounts.py", "tests/security/test_laws_contexts.py")
_LIMITS = ("tests/security/test_limits.py",)
_CONTEXTS = ("tests/security/test_contexts.py",)
_AUTHORITY = ("tests/security/test_authority.py",)
_FORGERY = ("tests/security/test_forgery.py",)
_CONSTRAINTS = ("tests/security/test_constraints.py",)
_PATHS = ("tests/security/test_paths.py",)
_HOSTS = ("tests/security/test_hosts.py",)

PERMISSIONS = (
    # -- rules, layers, decisions
    Mutant(
        "a closed rule lets unnamed arguments pass",
        "security/rules.py",
        "                if value is not None and name not in names:\n                    return False",
        "                pass",
        _DECISIONS,
    ),
    Mutant(
        "a rule's constraints are not looked at",
        "security/rules.py",
        "            if constraint.holds(arguments.get(name, MISSING), sources) is not True:\n                return False\n        return True",
        "            assert name, constraint\n        return True",
        _DECISIONS,
    ),
    Mutant(
        "one where rule that holds is enough",
        "security/decisions.py",
        "return all(rule.holds(arguments, sources) for rule in self.rules)",
        "return any(rule.holds(arguments, sources) for rule in self.rules)",
        _DECISIONS,
    ),
    Mutant(
        "unknown arguments are good arguments",
        "security/decisions.py",
        "                if plain is None:\n                    return DENY",
        "                if plain is None:\n                    return ALLOW",
        _DECISIONS,
    ),
    Mutant(
        "what cannot be decided is allowed",
        "security/decisions.py",
        "            except Exception:\n                return DENY",
        "            except Exception:\n                return ALLOW",
        _DECISIONS,
    ),
    Mutant("nobody is ever asked", "security/decisions.py", "        return ASK if asked else ALLOW", "        return ALLOW", _DECISIONS),
    Mutant(
        "an empty allow layer permits everything",
        "security/decisions.py",
        "            if not named:\n                return DENIED",
        "            if not named and layer.rules:\n                return DENIED",
        _DECISIONS,
    ),
    Mutant(
        "denials are not heard",
        "security/decisions.py",
        "        else:\n            return DENIED\n",
        "        else:\n            continue\n",
        _DECISIONS,
    ),
    Mutant(
        "labels refuse nothing",
        "security/decisions.py",
        'if kind == "unlabelled" and layer.labels.isdisjoint(labels):',
        'if kind == "unlabelled":',
        _DECISIONS,
    ),
    Mutant(
        "all labels must be there before one refuses",
        "security/decisions.py",
        "layer.labels.isdisjoint(labels)",
        "not layer.labels <= labels",
        _DECISIONS,
    ),
    Mutant(
        "fs.** names fs itself",
        "security/operations.py",
        "if len(segments) <= len(head):",
        "if len(segments) < len(head):",
        ("tests/security/test_operations.py",),
    ),
    # -- sets
    Mutant(
        "a meet is its first set",
        "security/permissions.py",
        "self._table.intern(self.layers | layers, self.limits, self.labels)",
        "self._table.intern(self.layers, self.limits, self.labels)",
        _RESTRICTIONS,
    ),
    Mutant(
        "a meet forgets the other's limits",
        "security/permissions.py",
        "self._table.intern(self.layers | layers, met, self.labels | labels)",
        "self._table.intern(self.layers | layers, self.limits, self.labels | labels)",
        _ACCOUNTS,
    ),
    Mutant(
        "labels are intersected",
        "security/permissions.py",
        "self._table.intern(self.layers | layers, met, self.labels | labels)",
        "self._table.intern(self.layers | layers, met, self.labels & labels)",
        _RESTRICTIONS,
    ),
    Mutant(
        "the memo ignores arguments",
        "security/permissions.py",
        "return decision.evaluate(arguments, self._table.sources) is ALLOW",
        "return decision.verdict is not DENY",
        _RESTRICTIONS,
    ),
    Mutant(
        "what needs consent is permitted",
        "security/permissions.py",
        "return decision.evaluate(arguments, self._table.sources) is ALLOW",
        "return decision.evaluate(arguments, self._table.sources) is not DENY",
        _RESTRICTIONS,
    ),
    Mutant(
        "decisions are shared whatever the labels",
        "security/permissions.py",
        "memo_key: object = (layers, labels) if labels else layers",
        "memo_key: object = layers",
        _RESTRICTIONS,
    ),
    Mutant(
        "a list of denials alone permits the rest",
        "security/restrictions.py",
        'if names or not any(restriction.kind == "allow" for restriction in restrictions):',
        "if names:",
        _AUTHORITY,
    ),
    # -- limits
    Mutant(
        "the larger number of calls counts",
        "security/limits.py",
        "met = tuple(map(min, mine, theirs))",
        "met = tuple(max(pair) if number == 1 else min(pair) for number, pair in enumerate(zip(mine, theirs, strict=True)))",
        _LIMITS,
    ),
    Mutant(
        "the later deadline counts",
        "security/limits.py",
        "met = tuple(map(min, mine, theirs))",
        "met = tuple(max(pair) if number == 0 else min(pair) for number, pair in enumerate(zip(mine, theirs, strict=True)))",
        _LIMITS,
    ),
    Mutant(
        "the higher risk counts",
        "security/limits.py",
        "met = tuple(map(min, mine, theirs))",
        "met = tuple(max(pair) if number == 5 else min(pair) for number, pair in enumerate(zip(mine, theirs, strict=True)))",
        _LIMITS,
    ),
    Mutant(
        "a cost may be a float",
        "security/limits.py",
        "if kind is not Decimal and kind is not str and kind is not int:",
        "if kind not in (Decimal, str, int, float):",
        _LIMITS,
    ),
    Mutant("the clock goes back", "security/clock.py", "self._latest = max(self._latest, now)", "self._latest = now", _LIMITS),
    # -- contexts
    Mutant(
        "a limit opens no account",
        "security/context.py",
        "                if met.limits.spends_less_than(permissions.limits):",
        "                if not met:",
        _ACCOUNTS,
    ),
    Mutant(
        "the grant is ignored in a meet", "security/context.py", "met = self.permissions.meet(theirs)", "met = self.permissions", _CONTEXTS
    ),
    Mutant(
        "the grant's accounts are not charged",
        "security/context.py",
        "accounts = join_accounts(self._accounts, their_accounts)",
        "accounts = self._accounts",
        _ACCOUNTS,
    ),
    Mutant(
        "what was written into a context is believed",
        "security/context_registry.py",
        "                permissions is not context.permissions\n                or principal",
        "                principal",
        _FORGERY,
    ),
    Mutant(
        "a child of a revoked context is not revoked",
        "security/context_registry.py",
        "if self.revoked and any(map(self.is_revoked, (parent, *others))):",
        "if not parent:",
        ("tests/security/test_revocation.py",),
    ),
    Mutant(
        "revoked contexts pass the check",
        "security/authority.py",
        "if self._registry.revoked and self._registry.is_revoked(context):",
        "if not context:",
        ("tests/security/test_revocation.py",),
    ),
    Mutant(
        "what is minted is not within the root",
        "security/authority.py",
        "within = self.permission_set(permissions).meet(self.root.permissions)",
        "within = self.permission_set(permissions)",
        _AUTHORITY,
    ),
    # -- constraints
    Mutant(
        "one good element makes a good list",
        "security/constraints_combined.py",
        "return bool(elements) and all(",
        "return bool(elements) and any(",
        _CONSTRAINTS,
    ),
    Mutant(
        "an empty list satisfies each()", "security/constraints_combined.py", "return bool(elements) and all(", "return all(", _CONSTRAINTS
    ),
    Mutant(
        "1 and True are one value",
        "security/constraints_scalars.py",
        '        return ("bool", value)',
        '        return ("int", value)',
        _CONSTRAINTS,
    ),
    Mutant(
        "1.0 and 1 are one value",
        "security/constraints_scalars.py",
        'return ("float", repr(value)) if math.isfinite(value) else None',
        'return ("int", value)',
        _CONSTRAINTS,
    ),
    Mutant(
        "infinity is a number in a range",
        "security/constraints_numbers.py",
        "(type(value) is float and math.isfinite(value))",
        "type(value) is float",
        _CONSTRAINTS,
    ),
    Mutant(
        "an unknown source knows everything",
        "security/constraints_values.py",
        "return type(source) is Source and source.knows(value)",
        "return source is None or source.knows(value)",
        _CONSTRAINTS,
    ),
    Mutant(
        "a missing argument satisfies any constraint",
        "security/rules.py",
        "            if constraint.holds(arguments.get(name, MISSING), sources) is not True:\n                return False",
        "            if name in arguments and constraint.holds(arguments[name], sources) is not True:\n                return False",
        _DECISIONS,
    ),
    Mutant(
        "any port will do",
        "security/constraints_places.py",
        "return url.scheme in self.schemes and url.port in self.ports and any(",
        "return url.scheme in self.schemes and any(",
        _CONSTRAINTS,
    ),
    Mutant("any scheme will do", "security/hosts.py", "    if parsed.scheme not in schemes:", "    if not parsed.scheme:", _HOSTS),
    # -- paths and hosts
    Mutant(
        "a folder is a prefix of text",
        "security/paths.py",
        "segments[: len(folder)] == folder",
        '"/".join(segments).startswith("/".join(folder))',
        _PATHS,
    ),
    Mutant(
        "percent-encodings are not looked at",
        "security/paths.py",
        'if not path.isascii() or "%" in path:',
        "if not path.isascii():",
        _PATHS,
    ),
    Mutant(
        "look-alike characters are not looked at", "security/paths.py", 'if not path.isascii() or "%" in path:', 'if "%" in path:', _PATHS
    ),
    Mutant(
        "a host's pattern is a suffix of text",
        "security/hosts.py",
        "labels[len(labels) - len(tail) :] == tail",
        'host.endswith(".".join(tail))',
        _HOSTS,
    ),
    Mutant("numbers may be hosts", "security/hosts.py", "if labels[-1][0] in string.digits:", "if not labels:", _HOSTS),
)
