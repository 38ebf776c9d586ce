"""Hypothesis strategies for the machine that tries derivation: demands, calls, and scripts for actors.

Biased: demands name what is asked for and hold more often than not, so that a fair share of what happens is permitted.
"""

from __future__ import annotations

import attrs
from hypothesis import strategies as st

from authority_model import RISKS, Want
from authority_ways import MANY

OPERATIONS = sorted(RISKS)
LABELS = ("web", "mail", "pii")
SEATS = 6
"""Actors, contexts and deferred answers are chosen by number, modulo how many there are."""

patterns = st.sampled_from(["**", "**", "fs.**", "fs.*", "*.*", "web.*", "mem.put", *OPERATIONS])
several = st.lists(patterns, min_size=1, max_size=3).map(tuple)
one_operation = st.sampled_from(OPERATIONS).map(lambda name: (name,))
conditions = st.fixed_dictionaries(
    {"mark": st.just("a number")},
    optional={
        "n": st.sampled_from(["at most 2", "at most 2", "a number", "1 or True"]),
        "to": st.sampled_from(["a or b", "left out", "left out or a"]),
    },
).map(lambda words: tuple(sorted(words.items())))
labels = st.sets(st.sampled_from(LABELS), min_size=1, max_size=2).map(frozenset)

wants = st.one_of(
    several.map(lambda given: Want("allow", (*given, "fs.*"))),
    several.map(lambda given: Want("allow", given)),
    st.builds(lambda given, words, is_open: Want("allow", (*given, "**"), words, is_open), several, conditions, st.booleans()),
    st.builds(lambda given, words: Want("where", given, words), one_operation, conditions),
    one_operation.map(lambda given: Want("deny", given)),
    st.builds(lambda given, words: Want("ask", given, words), one_operation, st.none() | conditions),
    st.builds(lambda given, some: Want("unlabelled", given, labels=some), several, labels),
    labels.map(lambda some: Want("label", labels=some)),
    st.integers(0, 6).map(lambda number: Want("calls", number=number)),
    st.integers(0, 3).map(lambda number: Want("depth", number=number)),
    st.integers(1, 6).map(lambda number: Want("expires", number=number)),
    st.sampled_from([1, 2, 2, 3]).map(lambda number: Want("risk", number=number)),
)
want_lists = st.lists(wants, max_size=2)


@attrs.frozen
class Call:
    """A gated call: an operation and its arguments."""

    operation: str
    n: object
    to: object
    cc: object


calls = st.builds(
    Call,
    st.sampled_from(OPERATIONS),
    st.sampled_from([1, 1, 1, 2, 3, True, 1.0, None]),
    st.sampled_from([None, None, None, "a", "b", "c"]),
    st.sampled_from([None, None, None, None, "x"]),
)

rows = st.builds(
    lambda first, more: (first, *(attrs.evolve(one, operation=first.operation) for one in more)),
    calls,
    st.lists(calls, min_size=1, max_size=3),
)
"""Calls of one operation, one after the other: what a kept verdict could be wrong about."""

number = st.integers(0, SEATS - 1)
choices = st.one_of(
    st.none(),
    st.none(),
    st.none(),
    wants.map(lambda want: ("narrow", want)),
    number.map(lambda which: ("stolen", which)),
    number.map(lambda which: ("stolen", which)),
    st.sampled_from(OPERATIONS).map(lambda operation: ("own", operation)),
    st.sampled_from([("forged",), ("foreign",)]),
)
"""Which context something is sent under: none given, one narrowed from the turn's, somebody else's, the actor's own, a forged one."""

again = st.sampled_from([False, False, True])
hows = st.sampled_from(["ask", "ask", "tell"])

own = st.sampled_from(OPERATIONS).map(lambda operation: ("own", operation))

leaves = st.one_of(
    st.builds(
        lambda to, call, how, choice: ("touch", to, call, how, choice),
        number,
        calls,
        st.sampled_from(["ask", "ask", "ask", "tell", "send"]),
        choices,
    ),
    st.builds(
        lambda to, call, how, choice: ("touch", to, call, how, choice),
        number,
        calls,
        st.sampled_from(["ask", "ask", "tell", "forward"]),
        choices,
    ),
    st.sampled_from(LABELS).map(lambda one: ("taint", one)),
    st.builds(lambda kind, given: ("spawn", kind, given), st.sampled_from(["loop", "loop", "thread"]), want_lists),
    st.builds(lambda to, row, choice: ("row", to, row, choice), number, rows, choices),
    st.builds(lambda to, row, choice: ("row", to, row, choice), number, rows, choices),
    st.sampled_from(
        [("steal",), ("steal",), ("mint",), ("revoke",), ("fail",), ("defer",), ("stash",), ("unstash",), ("sleep",), ("owned",)]
    ),
    number.map(lambda which: ("answer", which)),
    st.builds(lambda call, again, choice: ("timer", call, again, choice), calls, again, choices),
    st.builds(lambda call, choice: ("publish", call, choice), calls, choices),
    st.sampled_from([("untimed",), ("subscribe", None), ("subscribe", "fs.read"), *(("subscribe", name) for name in OPERATIONS)]),
    st.builds(lambda call, how: ("look_up", call, how), calls.filter(lambda call: call.operation in ("web.get", "mem.put")), hows),
    st.builds(lambda call, how, choice: ("touch_adopted", call, how, choice), calls, hows, choices),
    st.builds(lambda kind, given: ("spawn_many", kind, given), st.sampled_from(MANY), want_lists),
)


def _deeper(inner):
    scripts = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(
            lambda to, script, how, choice: ("do", to, script, how, choice),
            number,
            scripts,
            st.sampled_from(["ask", "ask", "tell", "forward"]),
            choices,
        ),
        st.builds(lambda to, script, choice: ("stream", to, script, choice), number, scripts, choices),
        st.builds(lambda script: ("task", script), scripts),
        st.builds(lambda to, script, then: ("pipe", to, script, then), number, scripts, scripts),
        st.builds(lambda script: ("nursery", script), scripts),
        st.builds(lambda script, more, choice: ("timer", script, more, choice), scripts, again, choices),
        st.builds(lambda script, choice: ("publish", script, choice), scripts, choices),
    )


actions = st.recursive(leaves, _deeper, max_leaves=8)
scripts = st.lists(st.one_of(actions, leaves, _deeper(leaves)), min_size=1, max_size=5).map(tuple)
"""What an actor does when it is told to: a tree of sends, spawns, tasks and mischief."""
