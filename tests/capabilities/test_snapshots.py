"""The gate's own copy of a message: equal to the original, and nothing in it that anybody else can change."""

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import pathlib
import threading
import uuid
import zoneinfo
from typing import Generic, NamedTuple, TypeVar

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from retinue.capabilities.snapshots import MAX_DEPTH, CannotCopy, arguments_of, own_copy, own_copy_and_arguments
from retinue.security import DefinitionError
from steady_ids import steady


@rt.message
class Carry(rt.Message):
    what: object
    more: object = None


class Colour(enum.Enum):
    RED = ["a mutable value that is the member's own"]  # noqa: RUF012


@attrs.frozen
class Frozen:
    inner: object


@attrs.define
class Open:
    inner: object


@dataclasses.dataclass
class OpenData:
    inner: object


@dataclasses.dataclass(frozen=True)
class FrozenData:
    inner: object


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    inner: object


@dataclasses.dataclass(frozen=True)
class Cached:
    inner: str

    @functools.cached_property
    def shown(self):
        return f"shown {self.inner}"


@attrs.frozen
class CachedSlots:
    inner: str

    @functools.cached_property
    def shown(self):
        return f"shown {self.inner}"


@rt.message
class Keeping(rt.Message):
    what: str

    @functools.cached_property
    def shown(self) -> str:
        return f"shown {self.what}"


class Named(NamedTuple):
    first: object
    second: int


T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Boxed(Generic[T]):
    inner: T


class SlotBeside:
    __slots__ = ("beside",)


@attrs.frozen
class WithASlot(SlotBeside):
    inner: object


@dataclasses.dataclass(frozen=True)
class TextWithFields(str):  # noqa: SLOT000 - it has a dict, as anybody's would
    inner: str


class SameZone(dt.tzinfo):
    def utcoffset(self, moment):
        return dt.timedelta(hours=1)

    def __deepcopy__(self, memo):
        return self


def named_zone(name, rules):
    with zoneinfo._common.load_tzdata(rules) as file:
        return zoneinfo.ZoneInfo.from_file(file, key=name)


class Plain:
    def __init__(self, inner):
        self.inner = inner

    def __eq__(self, other):
        return type(other) is Plain and self.inner == other.inner

    __hash__ = None


atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.decimals(allow_nan=False),
)
hashables = st.one_of(st.booleans(), st.integers(), st.text(max_size=3), st.tuples(st.integers(), st.text(max_size=2)))
values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(hashables, inner, max_size=3),
        st.sets(hashables, max_size=3),
        st.frozensets(hashables, max_size=3),
        st.binary(max_size=3).map(bytearray),
        *(inner.map(kind) for kind in (Frozen, Open, OpenData, FrozenData, Plain, Carry)),
    ),
    max_leaves=12,
)


def mutables(value, found=None):
    """Every object in there that can be changed, if only by `object.__setattr__`, by identity."""
    found = {} if found is None else found
    if isinstance(value, (list, set, bytearray)) or type(value) in (Open, OpenData, Plain, dict):
        found[id(value)] = value
    if isinstance(value, (list, tuple, set, frozenset)):
        inner = list(value)
    elif isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif type(value) in (Frozen, Open, OpenData, FrozenData, Plain):
        inner = [value.inner]
        found[id(value)] = value
    elif isinstance(value, Carry):
        inner = [value.what, value.more]
        found[id(value)] = value
    else:
        inner = []
    for one in inner:
        mutables(one, found)
    return found


@settings(max_examples=40)
@given(values)
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(value):
    message = Carry(value)
    copied = own_copy(message)
    assert copied == message
    assert type(copied) is Carry
    assert copied is not message
    assert mutables(copied).keys().isdisjoint(mutables(message))


@settings(max_examples=40)
@given(values)
def test_the_copy_with_its_arguments_is_the_copy_and_its_arguments(value):
    message = Carry(value)
    copied, arguments = own_copy_and_arguments(message)
    assert copied == own_copy(message)
    assert arguments == arguments_of(copied)
    assert all(arguments[name] is getattr(copied, name) for name in arguments)


def test_what_cannot_be_copied_is_not_read_either():
    for odd in (object(), 3, Carry):
        with pytest.raises(DefinitionError):
            own_copy_and_arguments(odd)
    with pytest.raises(CannotCopy):
        own_copy_and_arguments(Carry(threading.Lock()))


@pytest.mark.parametrize(
    "value",
    [
        "text",
        1.5,
        decimal.Decimal("1.5"),
        dt.date(2026, 11, 30),
        dt.datetime.now(dt.UTC),
        dt.datetime.now(zoneinfo.ZoneInfo("Europe/Berlin")),
        dt.time(12, 30),
        (1, ("a", frozenset({"b"}))),
        Colour.RED,
        Rights.READ,
        Rights.READ | Rights.WRITE,
        int,
        len,
    ],
    ids=steady,
)
def test_what_is_immutable_through_and_through_is_taken_as_it_is(value):
    assert own_copy(Carry(value)).what is value
    assert own_copy_and_arguments(Carry(value))[1]["what"] is value


@pytest.mark.parametrize(
    "value",
    [
        pathlib.PurePosixPath("/srv/report.txt"),
        pathlib.PureWindowsPath("c:/report.txt"),
        pathlib.Path("a/b"),
        pathlib.Path(),
        uuid.uuid4(),
        uuid.uuid1(),
        fractions.Fraction(3, 4),
        Frozen(Frozen(3)),
        FrozenData("x"),
        Slotted("x"),
        Cached("x"),
        CachedSlots("x"),
        Named("x", 2),
        Boxed[str]("x"),
        Carry("inner"),
    ],
    ids=steady,
)
def test_what_only_says_that_it_is_immutable_is_rebuilt(value):
    for copied in (own_copy(Carry(value)).what, own_copy_and_arguments(Carry(value, []))[0].what, own_copy(Carry((value,))).what[0]):
        assert copied == value
        assert type(copied) is type(value)
        assert copied is not value
        assert repr(copied) == repr(value)


def forged_path(real, shown):
    path = pathlib.PurePosixPath(real)
    str(path), path.parts
    path._str = shown
    return path


def forged_uuid():
    value = uuid.UUID(int=1)
    object.__setattr__(value, "int", "no number")
    return value


def forged_fraction():
    value = fractions.Fraction(1, 2)
    value._denominator = 0
    return value


def forged_member(kind, name, content):
    value = object.__new__(kind)
    value._name_, value._value_ = name, content
    return value


def forged_flag():
    value = forged_member(Rights, "READ", 2)
    return value


def forged_cache(value, name="shown"):
    vars(value)[name] = "forged"
    return value


def test_a_path_is_what_it_is_shown_as_in_all_its_parts():
    copied, arguments = own_copy_and_arguments(Carry(forged_path("/etc/shadow", "/srv/report.txt")))
    assert arguments["what"] is copied.what
    assert copied.what == pathlib.PurePosixPath("/srv/report.txt")
    assert copied.what.parts == ("/", "srv", "report.txt")
    assert str(pathlib.PurePosixPath("/root") / copied.what) == "/srv/report.txt"


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (pathlib.PurePosixPath("/srv/a"), lambda value: setattr(value, "_str", "/etc/shadow")),
        (uuid.UUID(int=1), lambda value: object.__setattr__(value, "int", 999)),
        (fractions.Fraction(1, 2), lambda value: setattr(value, "_numerator", 999)),
        (Frozen("a"), lambda value: object.__setattr__(value, "inner", "b")),
        (FrozenData("a"), lambda value: object.__setattr__(value, "inner", "b")),
        (Slotted("a"), lambda value: object.__setattr__(value, "inner", "b")),
        (Carry("a"), lambda value: object.__setattr__(value, "what", "b")),
        (Named(Frozen("a"), 2), lambda value: object.__setattr__(value.first, "inner", "b")),
    ],
    ids=steady,
)
def test_what_is_changed_after_the_check_changes_nothing(value, change):
    message = Carry(value)
    copied, arguments = own_copy_and_arguments(message)
    before = repr(arguments)
    change(value)
    object.__setattr__(message, "more", "changed too")
    assert repr(arguments_of(copied)) == repr(arguments) == before


@pytest.mark.parametrize("make", [lambda: Cached("x"), lambda: CachedSlots("x")])
def test_what_is_kept_of_a_property_is_made_again(make):
    value = make()
    assert value.shown == "shown x"
    object.__setattr__(value, "shown", "forged")
    assert value.shown == "forged"
    assert own_copy(Carry(value)).what.shown == "shown x"
    assert own_copy_and_arguments(Carry(value))[0].what.shown == "shown x"


def test_a_message_with_a_kept_property_makes_it_again():
    message = Keeping("x")
    assert message.shown == "shown x"
    object.__setattr__(message, "shown", "forged")
    copied, arguments = own_copy_and_arguments(message)
    assert copied.shown == "shown x"
    assert arguments == {"what": "x"}


def with_a_slot_beside():
    value = WithASlot("x")
    object.__setattr__(value, "beside", "unseen")
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: forged_cache(FrozenData("x"), "other"),
        lambda: forged_cache(Cached("x"), "other"),
        with_a_slot_beside,
        forged_uuid,
        forged_fraction,
        lambda: forged_member(Colour, "RED", "blue"),
        lambda: forged_member(Rights, "READ", "no number"),
        lambda: dt.datetime(2026, 11, 30, tzinfo=named_zone("Europe/Berlin", "UTC")),
        lambda: dt.datetime(2026, 11, 30, tzinfo=named_zone(None, "UTC")),
        lambda: dt.datetime(2026, 11, 30, tzinfo=SameZone()),
        lambda: TextWithFields("a"),
    ],
)
def test_what_has_more_to_it_than_can_be_shown_is_refused(make):
    for read in (own_copy, own_copy_and_arguments):
        with pytest.raises(CannotCopy):
            read(Carry(make()))
        with pytest.raises(CannotCopy):
            read(Carry([(make(),)]))


def test_a_flag_is_the_one_of_its_number():
    copied = own_copy(Carry(forged_flag())).what
    assert copied is Rights.WRITE


def test_an_annotation_is_not_believed():
    @rt.message
    class Lying(rt.Message):
        name: str

    message = Lying(["really", "a", "list"])
    copied = own_copy(message)
    message.name.append("more")
    assert copied.name == ["really", "a", "list"]


def test_a_class_that_promises_to_be_immutable_is_believed():
    class Promise:
        __immutable__ = True

    promise = Promise()
    assert own_copy(Carry(promise)).what is promise


def test_what_is_shared_in_the_message_is_shared_in_the_copy():
    shared = [1]
    copied = own_copy(Carry(shared, (shared, [shared])))
    assert copied.what is copied.more[0] is copied.more[1][0]
    assert copied.what is not shared


def test_many_references_to_one_list_are_no_bomb():
    value: list = []
    for _ in range(40):
        value = [value, value]
    assert own_copy(Carry(value)).what is not value


def looped():
    value: list = []
    value.append(value)
    return value


def deep(depth):
    value: object = "bottom"
    for _ in range(depth):
        value = [value]
    return value


class StaysItself:
    def __deepcopy__(self, memo):
        return self


class TurnsIntoAnother:
    def __deepcopy__(self, memo):
        return "another"


class Raises:
    def __deepcopy__(self, memo):
        raise RuntimeError("no")


class WithMore:
    pass


@dataclasses.dataclass
class DataWithMore:
    inner: object


def data_with_more():
    value = DataWithMore([1])
    value.extra = [2]
    return value


@pytest.mark.parametrize(
    "make",
    [threading.Lock, looped, lambda: deep(MAX_DEPTH + 2), StaysItself, TurnsIntoAnother, Raises, data_with_more, lambda: (i for i in ())],
)
def test_what_cannot_be_copied_is_refused(make):
    with pytest.raises(CannotCopy):
        own_copy(Carry(make()))


def test_as_deep_as_permitted_is_copied():
    message = Carry(deep(MAX_DEPTH))
    assert own_copy(message) == message


@rt.message
class TellsOthers(Carry):
    """Shows each reader another value."""

    def __getattribute__(self, name):
        return object() if name == "what" else object.__getattribute__(self, name)


@dataclasses.dataclass
class Computed:
    inner: object


Computed.inner = property(lambda self: [self], lambda self, value: None)


class LikeStr(type):
    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return hash(str)


class TakenForStr(metaclass=LikeStr):
    def __init__(self):
        self.inner = [1]


@pytest.mark.parametrize("make", [lambda: TellsOthers(1), lambda: Carry(TellsOthers(1)), lambda: Carry(Computed(1))])
def test_what_could_show_the_check_one_value_and_the_handler_another_is_refused(make):
    with pytest.raises(CannotCopy, match="the check one value and the handler another"):
        own_copy(make())


def test_a_class_that_claims_to_equal_str_is_not_taken_for_immutable():
    with pytest.raises(CannotCopy):  # copy.deepcopy takes it for a str
        own_copy(Carry(TakenForStr()))


@attrs.frozen(cache_hash=True)
class Hashed:
    name: str
    inner: list[int] = attrs.field(factory=list, hash=False)


def test_a_copy_of_what_keeps_its_hash_has_the_same_hash():
    value = Hashed("a", [1])
    copied = own_copy(Carry(value)).what
    assert copied is not value
    assert hash(copied) == hash(value)


def test_arguments_are_the_fields_by_name():
    assert arguments_of(Carry(1, [2])) == {"what": 1, "more": [2]}


@pytest.mark.parametrize("value", [None, 3, "text", object(), {"a": 1}, Carry])
def test_what_is_no_message_has_neither_arguments_nor_a_copy(value):
    for function in (arguments_of, own_copy):
        with pytest.raises(DefinitionError):
            function(value)
