"""Hypothesis strategies for operations, patterns, arguments and permissions, biased so that laws are not true for empty reasons.

Patterns are made from operations of a small vocabulary by wildcarding, so that they name what is asked for; independent draws almost
never permit anything. `permits_by_definition` and `verdict_by_definition` are oracles: the definition written down a second time, another way.
"""

from hypothesis import strategies as st

from retinue.security import Restriction, allow, deny, label, limit, max_risk, needs_approval, unlabelled, where
from retinue.security.constraints import MISSING, absent, any_of, at_most, each, one_of

SEGMENTS = ["fs", "read", "web"]

operations = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=3).map(".".join)


@st.composite
def patterns(draw):
    segments = draw(operations).split(".")
    how = draw(st.sampled_from(["exact", "star", "star", "tail", "tail", "everything"]))
    if how == "everything":
        return "**"
    if how == "star":
        segments[draw(st.integers(0, len(segments) - 1))] = "*"
    if how == "tail":
        segments = [*segments[: draw(st.integers(0, len(segments) - 1))], "**"]
    return ".".join(segments)


restrictions = st.one_of(
    st.lists(patterns(), max_size=4).map(lambda names: allow(*names)),
    st.lists(patterns(), min_size=1, max_size=4).map(lambda names: allow(*names)),
    st.lists(operations, max_size=2).map(lambda names: deny(*names)),
    st.lists(patterns(), max_size=1).map(lambda names: deny(*names)),
)

permissions = st.one_of(
    st.lists(patterns(), min_size=1, max_size=4),
    st.tuples(st.lists(patterns(), max_size=4), st.lists(restrictions, max_size=2)).map(lambda both: [*both[0], *both[1]]),
    st.lists(restrictions, max_size=2).map(lambda more: ["**", *more]),
)


def names(pattern: str, operation: str) -> bool:
    """Whether the pattern names the operation: by recursion over the two lists of segments."""

    def match(want: list[str], have: list[str]) -> bool:
        if want == ["**"]:
            return len(have) >= 1
        if not want or not have:
            return not want and not have
        return (want[0] == "*" or want[0] == have[0]) and match(want[1:], have[1:])

    return match(pattern.split("."), operation.split("."))


def passes(restriction: Restriction, operation: str) -> bool:
    """Whether a restriction of `allow(*patterns)` or `deny` leaves the operation alone."""
    for layer in restriction.layers:
        named = any(names(rule.pattern.text, operation) for rule in layer.rules)
        if named != (layer.kind == "allow"):
            return False
    return True


def permits_by_definition(given: list, operation: str) -> bool:
    """What a list of permissions without constraints, as `mint` takes it, permits."""
    patterns_given = [item for item in given if isinstance(item, str)]
    restrictions_given = [item for item in given if isinstance(item, Restriction)]
    named = any(names(pattern, operation) for pattern in patterns_given)
    if patterns_given or not any(item.kind == "allow" for item in restrictions_given):
        return named and all(passes(item, operation) for item in restrictions_given)
    return all(passes(item, operation) for item in restrictions_given)


# --- with arguments, consent, labels and limits

WORDS = {
    "at most 2": (at_most(2), lambda value: type(value) in (int, float) and value <= 2),
    "a or b": (one_of("a", "b"), lambda value: type(value) is str and value in ("a", "b")),
    "1 or True": (one_of(1, True), lambda value: (type(value) is int and value == 1) or value is True),
    "missing": (absent(), lambda value: value is MISSING or value is None),
    "missing or at most 1": (
        any_of(absent(), at_most(1)),
        lambda value: value is MISSING or value is None or (type(value) in (int, float) and value <= 1),
    ),
    "all at most 2": (
        each(at_most(2)),
        lambda value: type(value) is list and value != [] and all(type(one) in (int, float) and one <= 2 for one in value),
    ),
}
"""Constraints, each with its meaning written down a second time."""

ARGUMENTS = ["n", "to"]

values = st.sampled_from([None, 1, 1, 2, 2, 3, True, 1.0, "a", "a", "b", "c", [1, 2], [1, 3], []])
argument_dicts = st.one_of(
    st.fixed_dictionaries({"n": st.sampled_from([1, 1, 2, 2, 3])}),
    st.fixed_dictionaries({"n": st.sampled_from([1, 2, True])}, optional={"to": values, "cc": values}),
    st.dictionaries(st.sampled_from([*ARGUMENTS, "cc"]), values, max_size=3),
)
conditions = st.one_of(
    st.just({"n": "at most 2"}),
    st.dictionaries(st.sampled_from(ARGUMENTS), st.sampled_from(["at most 2", "at most 2", *WORDS]), min_size=1, max_size=2),
)
LABELS = ["web", "mail", "pii"]


class Asked:
    """A restriction together with what it was made of, for the oracle."""

    def __init__(self, kind, patterns_given=(), condition=None, is_open=False, labels_given=(), made=None, four_eyes=False):
        self.four_eyes = four_eyes
        self.kind, self.patterns, self.condition, self.open, self.labels = kind, patterns_given, condition, is_open, frozenset(labels_given)
        constraints = None if condition is None else {name: WORDS[word][0] for name, word in condition.items()}
        makers = {
            "allow": lambda: allow(*patterns_given, open=is_open, arguments=constraints),
            "where": lambda: where(*patterns_given, arguments=constraints),
            "deny": lambda: deny(*patterns_given),
            "ask": lambda: needs_approval(*patterns_given, unless=constraints, four_eyes=four_eyes),
            "unlabelled": lambda: unlabelled(*patterns_given, labels=labels_given),
            "label": lambda: label(*labels_given),
            "limit": lambda: made,
        }
        self.restriction = makers[kind]()

    def __repr__(self):
        return repr(self.restriction)


some_patterns = st.lists(patterns(), min_size=1, max_size=2)
some_labels = st.lists(st.sampled_from(LABELS), min_size=1, max_size=2, unique=True)

asked = st.one_of(
    st.builds(lambda given, condition, is_open: Asked("allow", given, condition, is_open), some_patterns, conditions, st.booleans()),
    st.builds(lambda given: Asked("allow", given), st.lists(patterns(), min_size=1, max_size=3)),
    st.builds(lambda given, condition: Asked("where", given, condition), some_patterns, conditions),
    st.builds(lambda given: Asked("deny", [given]), operations),
    st.builds(
        lambda given, condition: Asked("ask", given, condition, four_eyes=True),
        st.lists(operations, min_size=1, max_size=2),
        st.none() | conditions,
    ),
    st.builds(lambda given, condition: Asked("ask", given, condition), some_patterns, st.none() | conditions),
    st.builds(lambda given, some: Asked("unlabelled", given, labels_given=some), st.lists(operations, min_size=1, max_size=2), some_labels),
    st.builds(lambda some: Asked("label", labels_given=some), st.lists(st.sampled_from(LABELS), max_size=2)),
    st.builds(lambda calls: Asked("limit", made=limit(calls=calls, tokens=10 * calls)), st.integers(0, 5)),
    st.builds(lambda depth, cost: Asked("limit", made=limit(depth=depth, cost_usd=cost)), st.integers(0, 32), st.integers(0, 5)),
    st.builds(lambda risk: Asked("limit", made=max_risk(risk)), st.sampled_from(["L0", "L1", "L2", "L3"])),
)
"""Restrictions of all kinds but `expires`, each as an `Asked`."""

asked_lists = st.lists(asked, max_size=3)


def _condition_holds(condition, arguments) -> bool:
    return all(WORDS[word][1](arguments.get(name, MISSING)) for name, word in condition.items())


def verdict_by_definition(given, operation: str, arguments: dict) -> str:
    """ "allow", "ask" or "deny": what a list of `Asked` says of a call, starting from everything."""
    labels = frozenset().union(*(one.labels for one in given if one.kind == "label"))
    verdict = "allow"
    for one in given:
        named = any(names(pattern, operation) for pattern in one.patterns)
        holds = one.condition is None or _condition_holds(one.condition, arguments)
        if one.kind == "allow":
            extra = [name for name, value in arguments.items() if value is not None and name not in (one.condition or ())]
            if not named or not holds or (one.condition is not None and not one.open and extra):
                return "deny"
        elif named and (one.kind == "deny" or (one.kind == "where" and not holds) or (one.kind == "unlabelled" and one.labels & labels)):
            return "deny"
        elif named and one.kind == "ask" and (one.condition is None or not holds):
            verdict = "ask"
    return verdict


def four_eyes_by_definition(given, operation: str, arguments: dict) -> bool:
    """Whether one of the restrictions wants another person's consent to a call."""
    return any(
        one.four_eyes
        and any(names(pattern, operation) for pattern in one.patterns)
        and (one.condition is None or not _condition_holds(one.condition, arguments))
        for one in given
    )
