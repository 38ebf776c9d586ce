import enum

import pytest
from hypothesis import given

from permission_strategies import names, operations, patterns
from retinue.security import Pattern, PatternError, check_operation
from retinue.security.operations import MAX_OPERATION_LENGTH


@pytest.mark.parametrize("name", ["fs", "fs.read", "tool.get_weather", "a.b-c.D_9", "-", "0.1", "x" * MAX_OPERATION_LENGTH])
def test_a_well_formed_operation_is_returned_as_it_is(name):
    assert check_operation(name) == name


MALFORMED = [
    "",
    ".",
    "fs.",
    ".fs",
    "fs..read",
    "fs read",
    "fs/read",
    "fs.réad",
    "fs.read\n",
    "fs.read ",
    "\uff46s",
    "fs.\u200bread",
    "x" * 256,
    "fs.re:ad",
]


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_operation_is_refused(name):
    with pytest.raises(PatternError):
        check_operation(name)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_pattern_is_refused(name):
    with pytest.raises(PatternError):
        Pattern(name)


@pytest.mark.parametrize("name", ["*", "**", "fs.*", "fs.**", "f*"])
def test_an_operation_has_no_wildcards_and_the_text_says_what_is_wanted(name):
    with pytest.raises(PatternError, match="is a pattern, and an operation is wanted"):
        check_operation(name)
    with pytest.raises(PatternError):
        Pattern("**").matches(name)


@pytest.mark.parametrize("name", ["**.read", "fs.**.read", "**.**", "f*", "fs.re*", "fs.***", "*x.read", "fs.[ab]", "fs.?"])
def test_a_wildcard_stands_for_whole_segments_and_the_double_one_only_at_the_end(name):
    with pytest.raises(PatternError):
        Pattern(name)


@pytest.mark.parametrize("name", [None, 3, b"fs.read", ["fs.read"], ("fs", "read"), object()])
def test_what_is_no_string_is_refused_as_a_pattern_error(name):
    with pytest.raises(PatternError, match="is a str"):
        check_operation(name)
    with pytest.raises(PatternError, match="is a str"):
        Pattern(name)


def test_an_error_text_is_short_and_escaped_whatever_was_given():
    with pytest.raises(PatternError) as caught:
        check_operation("evil\x1b[31m" * 10_000)
    assert len(str(caught.value)) < 400
    assert "\x1b" not in str(caught.value)


def test_of_a_subclass_of_str_only_the_characters_count():
    class Operation(enum.StrEnum):
        READ = "fs.read"

    class Liar(str):
        __slots__ = ()

        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash("fs.read")

        def __str__(self):
            return "fs.read"

    assert type(check_operation(Operation.READ)) is str
    assert check_operation(Operation.READ) == "fs.read"
    assert check_operation(Liar("fs.delete")) == "fs.delete"
    assert not Pattern("fs.read").matches(Liar("fs.delete"))
    assert Pattern(Liar("fs.delete")).text == "fs.delete"


# The absolute table: laws are blind to a matcher that is weaker everywhere at once.
@pytest.mark.parametrize(
    ("pattern", "named", "not_named"),
    [
        ("fs", ["fs"], ["f", "fss", "fs.read", "FS", "web"]),
        ("fs.read", ["fs.read"], ["fs", "read", "fs.reads", "fs.rea", "fs.read.x", "x.fs.read", "fs.Read", "fs-read", "read.fs"]),
        ("*", ["fs", "read", "-"], ["fs.read", "a.b.c"]),
        ("fs.*", ["fs.read", "fs.delete"], ["fs", "fs.read.all", "web.read", "fsx.read"]),
        ("*.read", ["fs.read", "web.read"], ["read", "fs.write", "a.fs.read"]),
        ("fs.*.x", ["fs.a.x", "fs.x.x"], ["fs.x", "fs.a.b.x", "fs.a.y", "fs.a.x.x"]),
        ("*.*", ["fs.read", "a.b"], ["fs", "a.b.c"]),
        ("fs.**", ["fs.read", "fs.a.b", "fs.a.b.c.d"], ["fs", "web.read", "fsx.read", "x.fs.read"]),
        ("*.**", ["fs.read", "a.b.c"], ["fs"]),
        ("fs.*.**", ["fs.a.b", "fs.a.b.c"], ["fs", "fs.a", "web.a.b"]),
        ("**", ["fs", "fs.read", "a.b.c.d.e"], []),
    ],
)
def test_a_pattern_names_exactly_these(pattern, named, not_named):
    parsed = Pattern(pattern)
    assert [operation for operation in named if not parsed.matches(operation)] == []
    assert [operation for operation in not_named if parsed.matches(operation)] == []


@given(patterns(), operations)
def test_matching_agrees_with_the_definition(pattern, operation):
    assert Pattern(pattern).matches(operation) is names(pattern, operation)


def test_patterns_are_equal_by_their_text_and_immutable():
    assert Pattern("fs.*") == Pattern("fs.*")
    assert len({Pattern("fs.*"), Pattern("fs.*"), Pattern("fs.**")}) == 2
    assert [Pattern(text).is_everything for text in ("**", "*", "fs.**", "fs")] == [True, False, False, False]
    with pytest.raises(AttributeError):
        Pattern("fs.*").text = "**"
    assert (str(Pattern("fs.*")), repr(Pattern("fs.*"))) == ("fs.*", "Pattern('fs.*')")
