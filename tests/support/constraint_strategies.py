"""Hypothesis strategies for constraints, arguments and paths, biased so that laws are not true for empty reasons.

Constraints and values are drawn from one small vocabulary, and `calls` often draws the value to suit the constraint: independent draws
almost never hold. `holds_by_definition` is the oracle: what each kind means, written down a second time, another way.
"""

import enum
from decimal import Decimal
from fractions import Fraction
from urllib.parse import urlsplit

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from retinue.security import constraints as kinds
from retinue.security.constraints import (
    MISSING,
    absent,
    any_of,
    at_least,
    at_most,
    between,
    each,
    host,
    known_from,
    max_length,
    one_of,
    within,
)

unhurried = settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure

NAMES = ["ACME", "Bolt", "acme", "*", "AC*", "", "1", "True", "None", "é"]
NUMBERS = [
    0,
    1,
    -1,
    2,
    100,
    101,
    2**53,
    2**53 + 1,
    10**40,
    0.0,
    -0.0,
    1.0,
    0.1,
    99.9,
    1e300,
    Decimal("0.1"),
    Decimal(1),
    Decimal("1.00"),
    Decimal("1E+30"),
]
FOLDERS = ["reports", "reports/", "reports/q", "/srv/a", "/srv", "/", "a b"]
FILES = [
    "reports/x",
    "reports/q/x",
    "reports2/x",
    "/srv/a/x",
    "/srv/ab",
    "a b/x",
    "reports",
    "reports/../x",
    "/x",
    "reports/x%2e",
    "reports/%2e%2e/x",
]
HOSTS = ["example.com", "*.example.com", "**.example.com", "api.example.com", "**", "localhost", "xn--bcher-kva.example"]
URLS = [
    "https://example.com/", "https://api.example.com", "https://a.b.example.com/x?y#z", "https://example.com:8443/", "http://example.com/", "https://evil.tld/",
    "https://example.com.evil.tld/", "https://user@example.com/", "https://127.0.0.1/", "http://localhost:8000/", "https://EXAMPLE.com./", "wss://example.com/s",
]  # fmt: skip
SOURCES = ["payees", "rooms", "empty"]
KNOWN = {"payees": ["ACME", 1, True, 1.0, None, b"x"], "rooms": ["Bolt", "*", 2]}

scalars = st.one_of(
    st.sampled_from([*NAMES, None, True, False, 0, 1, -1, 2**60, 0.0, -0.0, 1.0, b"", b"x"]),
    st.text(max_size=6),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.binary(max_size=4),
)

numbers = st.one_of(
    st.sampled_from(NUMBERS),
    st.integers(-200, 200),
    st.floats(-200, 200),
    st.decimals(-200, 200, places=2),
    st.decimals(allow_nan=False, allow_infinity=False),
)


class Whim(type):
    """A class that claims to be any other one."""

    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return hash(str)

    def __instancecheck__(cls, instance):
        return True


class Chameleon(metaclass=Whim):
    """Whatever is asked of it, it says yes."""

    __class__ = str

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("ACME")

    def __len__(self):
        return 1

    def __iter__(self):
        return iter(["ACME"])

    def __le__(self, other):
        return True

    __ge__ = __lt__ = __gt__ = __le__

    def __str__(self):
        return "reports/x"


class Bomb:
    """Whatever is asked of it, it raises."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def _raise(self, *_):
        raise RuntimeError("touched")

    __eq__ = __hash__ = __len__ = __iter__ = __le__ = __ge__ = __lt__ = __gt__ = __bool__ = __str__ = __repr__ = __contains__ = (
        __getitem__
    ) = _raise


class Text(str):
    """A str that is equal to everything."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("ACME")

    def split(self, *_args):
        return ["reports", "x"]


class Whole(int):
    """An int that is at most and at least everything."""

    def __le__(self, other):
        return True

    __ge__ = __le__


class Several(list):
    """A list that iterates over something else than it has."""

    def __iter__(self):
        return iter(["ACME"])


class Name(enum.StrEnum):
    ACME = "ACME"
    FILE = "reports/x"


class Level(enum.IntEnum):
    ONE = 1


class Odd(Decimal):
    def __le__(self, other):
        return True


ODD = [
    Chameleon(), Bomb(), Text("ACME"), Text("reports/x"), Whole(1), Several(["ACME"]), Name.ACME, Name.FILE, Level.ONE, Odd(1), object(), Chameleon, Bomb, Whim,
    float("nan"), float("inf"), float("-inf"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), 1j, Fraction(1), ..., NotImplemented, {"ACME"}, frozenset({"ACME"}),
    bytearray(b"x"), memoryview(b"x"), range(3), iter(["ACME"]), "\ud800", 10**5000,
]  # fmt: skip

odd_objects = st.integers(0, len(ODD) - 1).map(ODD.__getitem__)  # not sampled_from, which would ask them for their hash


listed = st.one_of(
    st.lists(scalars, min_size=1, max_size=4).map(lambda values: one_of(*values)),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(lambda values: one_of(*values)),
)
ranges = st.one_of(
    numbers.map(at_most),
    numbers.map(at_least),
    st.tuples(numbers, numbers).map(lambda both: between(*sorted(both, key=Fraction))),
)
folders = st.lists(st.sampled_from(FOLDERS), min_size=1, max_size=2).map(lambda names: within(*names))
hosts = st.builds(
    lambda names, schemes, ports: host(*names, schemes=schemes, ports=ports),
    st.lists(st.sampled_from(HOSTS), min_size=1, max_size=2),
    st.sampled_from([("https",), ("http", "https"), ["wss", "https"]]),
    st.sampled_from([(443,), [443, 8443], (80, 443, 8000)]),
)
SIMPLE = {
    "one_of": listed,
    "range": ranges,
    "within": folders,
    "host": hosts,
    "max_length": st.integers(0, 6).map(max_length),
    "absent": st.just(absent()),
    "known_from": st.sampled_from(["payees", *SOURCES]).map(known_from),
}
simple = st.sampled_from(sorted(SIMPLE)).flatmap(SIMPLE.__getitem__)
choices = st.lists(simple, min_size=1, max_size=3).map(lambda several: any_of(*several))

# Each kind for itself, because hypothesis likes some branches better than others.
OF_KIND = {
    **SIMPLE,
    "any_of": st.one_of(choices, st.tuples(simple.map(each), simple).map(lambda both: any_of(*both))),
    "each": st.one_of(simple.map(each), choices.map(each), simple.map(each).map(each)),
}
constraints = st.sampled_from(sorted(OF_KIND)).flatmap(OF_KIND.__getitem__)

arguments = st.recursive(
    st.one_of(scalars, numbers, st.sampled_from([*FILES, *URLS, *NAMES, MISSING, None])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def suited(draw, constraint):
    """An argument that the constraint probably permits."""
    data = constraint.to_data()
    match data["kind"]:
        case "one_of":
            return draw(st.sampled_from(constraint.values))
        case "range":
            low, high = constraint.low, constraint.high
            return draw(st.sampled_from([bound for bound in (low, high) if bound is not None]))
        case "within":
            return draw(st.sampled_from(constraint.folders)).removesuffix("/") + draw(st.sampled_from(["/x", "/q/y.txt"]))
        case "host":
            name = draw(st.sampled_from(constraint.names)).replace("**", "a.b").replace("*", "a")
            return f"{draw(st.sampled_from(constraint.schemes))}://{name}:{draw(st.sampled_from(constraint.ports))}/x"
        case "max_length":
            return draw(st.sampled_from(["", "a", "abc", b"ab", [], (1,), {}]))
        case "absent":
            return draw(st.sampled_from([None, MISSING]))
        case "known_from":
            return draw(st.sampled_from(KNOWN.get(constraint.source, ["ACME"])))
        case "each":
            return draw(
                st.lists(suited(constraint.element), min_size=1, max_size=3).flatmap(lambda items: st.sampled_from([items, tuple(items)]))
            )
        case "any_of":
            return draw(suited(draw(st.sampled_from(sorted(constraint.constraints, key=str)))))
    raise AssertionError(data)


@st.composite
def calls(draw, among=constraints):
    """A constraint, and an argument that suits it, or does not."""
    constraint = draw(among)
    return constraint, draw(st.one_of(suited(constraint), suited(constraint), arguments, odd_objects))


def paths():
    """The rest of a path beneath a folder: mostly harmless, often not, with all that decoding and folding brings up."""
    segment = st.one_of(
        st.sampled_from(["a", "b.txt", "q3", ".x", "grün", "a b", "日本", "１", "100%25", "50%20"]),
        st.sampled_from(["a", "b.txt", "q3", ".x", "grün", "a b", "日本", "１", "100%25", "50%20"]),
        st.sampled_from(
            [
                "..",
                ".",
                "",
                "%2e%2e",
                "\uff0e\uff0e",
                "\u2025",
                "%252e.",
                "a%2f..",
                "a\\..",
                "~",
                "\uff052e.",
                "%ef%bc%8e%2e",
                ". ",
                "%%32e.",
            ]
        ),
        st.text(alphabet="a.%25eEfF\uff0e\uff0f\u2024\\/ ~\u0301é", min_size=1, max_size=5),
    )
    return st.lists(segment, min_size=1, max_size=3).map("/".join)


def _within(value, folders):
    """By walking: no segment of either is odd, and the folder's come first. Only for the vocabulary above."""
    if type(value) is not str or any(part in ("", ".", "..") for part in value.removeprefix("/").split("/")) or "%2e" in value.lower():
        return False
    return any(value.startswith(folder) and len(value) > len(folder) for folder in folders)


def _host(value, constraint):
    if type(value) is not str or "@" in value or "\\" in value or not value.isascii() or not value.isprintable():
        return False
    parts = urlsplit(value)
    name = (parts.hostname or "").removesuffix(".")
    port = parts.port or {"https": 443, "http": 80, "wss": 443, "ws": 80}.get(parts.scheme)
    if parts.scheme not in constraint.schemes or port not in constraint.ports or not name or name[-1].isdigit():
        return False

    def match(pattern):
        if pattern == "**":
            return "." in name
        if pattern.startswith("**."):
            return name.endswith(pattern[2:]) and len(name) > len(pattern) - 2
        if pattern.startswith("*."):
            return name.partition(".")[2] == pattern[2:]
        return name == pattern

    return any(match(pattern) for pattern in constraint.names)


def _is(value, *types):
    return any(type(value) is kind for kind in types)  # not `in`, which would ask the types


def _same(left, right):
    return type(left) is type(right) and left == right and (type(left) is not float or str(left) == str(right))


def holds_by_definition(constraint, value):
    """What the constraint should answer, with `KNOWN` as the sources. Only for what the strategies here draw."""
    match constraint.to_data()["kind"]:
        case "one_of":
            return any(_same(value, permitted) for permitted in constraint.values)
        case "known_from":
            return any(_same(value, known) for known in KNOWN.get(constraint.source, []))
        case "absent":
            return value is None or value is MISSING
        case "range":
            if not _is(value, int, float, Decimal) or (
                type(value) is not int and str(value).lower().lstrip("-") in ("nan", "snan", "inf", "infinity")
            ):
                return False
            if type(value) is int and value.bit_length() > 16_384:  # no number for a range, says `Range`
                return False
            exact = Fraction(value)
            return (constraint.low is None or Fraction(constraint.low) <= exact) and (
                constraint.high is None or exact <= Fraction(constraint.high)
            )
        case "max_length":
            return _is(value, str, bytes, list, tuple, dict) and len(value) <= constraint.most
        case "within":
            return _within(value, constraint.folders)
        case "host":
            return _host(value, constraint)
        case "each":
            return (
                _is(value, list, tuple)
                and len(value) > 0
                and False not in [holds_by_definition(constraint.element, item) for item in value]
            )
        case "any_of":
            return True in [holds_by_definition(inner, value) for inner in constraint.constraints]
    raise AssertionError(constraint)


EVERY_KIND = sorted(kinds.KINDS)
