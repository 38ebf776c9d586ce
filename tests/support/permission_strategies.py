"""Hypothesis strategies for operations, patterns and permissions, biased so that laws are not true for empty reasons.

Patterns are made from operations of a small vocabulary by wildcarding, so that they name what is asked for; independent draws almost
never permit anything. `permits_by_definition` is the oracle: the definition written down a second time, another way.
"""

from hypothesis import strategies as st

from retinue.security import Restriction, allow, deny

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
    """Whether a restriction leaves the operation alone."""
    for layer in restriction.layers:
        named = any(names(rule.pattern.text, operation) for rule in layer.rules)
        if named != (layer.kind == "allow"):
            return False
    return True


def permits_by_definition(given: list, operation: str) -> bool:
    """What a list of permissions, as `mint` takes it, permits."""
    patterns_given = [item for item in given if isinstance(item, str)]
    restrictions_given = [item for item in given if isinstance(item, Restriction)]
    named = any(names(pattern, operation) for pattern in patterns_given)
    if patterns_given or not any(item.kind == "allow" for item in restrictions_given):
        return named and all(passes(item, operation) for item in restrictions_given)
    return all(passes(item, operation) for item in restrictions_given)
