from __future__ import annotations

import dataclasses
import decimal
import enum
import math
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NewType, TypeVar

import attrs
import pytest

from retinue.mailbox.messages import Message, Request, Stream, message, message_info
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from nowhere import Nothing

T = TypeVar("T")
U = TypeVar("U")


@message
class Deposit(Request[int]):
    amount: int
    note: str = ""


@message
class Chapter(Message):
    parts: list[Chapter]


@message
class Get(Request[T], Generic[T]):
    key: T


@message
class GetMany(Get[list[U]], Generic[U]):
    pass


@message
class GetWords(GetMany[str]):
    more: int = 0


@message
class Late(Request["list[DefinedLater]"]):
    field: DefinedLater


@message
class DefinedLater(Message):
    pass


def make(body: str, **names: Any) -> Any:
    """Run the source of a module that defines `made`."""
    namespace = {"message": message, "Message": Message, "Request": Request, "Stream": Stream, "attrs": attrs, "__name__": "made", **names}
    exec(compile(textwrap.dedent(body), "<made>", "exec", dont_inherit=True), namespace)
    return namespace.get("made")


# What a message is


def test_a_message_is_made_from_its_fields_by_position_and_by_name():
    deposit = Deposit(5, note="x")
    assert (deposit.amount, deposit.note) == (5, "x")
    assert Deposit(5, "x") == deposit
    assert Deposit(amount=5) == Deposit(5, "")
    assert hash(Deposit(5)) == hash(Deposit(5))
    assert Deposit(5) != Deposit(6)


def test_a_message_cannot_be_changed():
    deposit = Deposit(5)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        deposit.amount = 6
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del deposit.amount
    with pytest.raises(AttributeError):
        deposit.other = 1


def test_a_message_has_no_dictionary():
    assert not hasattr(Deposit(5), "__dict__")
    assert not hasattr(GetWords(["a"]), "__dict__")


def test_the_fields_may_hold_lists():
    assert Chapter([Chapter([])]).parts == [Chapter([])]


def test_the_decorator_keeps_methods_and_super():
    @message
    class Base(Message):
        x: int

        def twice(self):
            return self.x * 2

    @message
    class Derived(Base):
        y: int = 1

        def twice(self):
            return super().twice() + self.y

    assert Derived(2).twice() == 5


def test_the_fields_of_a_base_message_come_first():
    assert GetWords(["a"], 2) == GetWords(key=["a"], more=2)


def test_attrs_fields_keep_their_options():
    @message
    class Order(Message):
        items: list[int] = attrs.field(factory=list)
        size: int = attrs.field(default=1, kw_only=True, validator=attrs.validators.gt(0))

    assert Order().items == []
    assert Order().items is not Order().items
    with pytest.raises(ValueError, match="size"):
        Order(size=0)


# What is known of it


def test_the_bare_decorator_gives_neither_name_nor_timeout():
    info = message_info(Deposit)
    assert (info.cls, info.name, info.timeout, info.kind, info.label) == (Deposit, None, None, "request", "Deposit")


def test_the_decorator_takes_a_wire_name_and_a_timeout():
    @message(name="shop/Pay@1", timeout=2)
    class Pay(Message):
        pass

    info = message_info(Pay)
    assert (info.name, info.timeout, info.kind) == ("shop/Pay@1", 2.0, "message")
    assert type(info.timeout) is float


def test_empty_parentheses_are_the_bare_decorator():
    @message()
    class Ping(Message):
        pass

    assert message_info(Ping).cls is Ping


def test_a_stream_is_known_as_one():
    @message
    class Words(Stream[str]):
        pass

    assert (message_info(Words).kind, message_info(Words).reply) == ("stream", str)


def test_infinity_is_a_timeout():
    assert message_info(make("@message(timeout=inf)\nclass made(Message): pass", inf=math.inf)).timeout == math.inf


@pytest.mark.parametrize("timeout", [0, -1, -0.0, math.nan, -math.inf, True, False, "5", decimal.Decimal(5), [], 10**400])
def test_what_is_no_time_is_refused_as_a_timeout(timeout):
    with pytest.raises(DefinitionError, match="seconds above zero"):
        message(timeout=timeout)


@pytest.mark.parametrize("name", ["shop/Pay@1", "a/B@20", "my.shop-2/Pay_now@1"])
def test_wire_names_have_a_namespace_a_name_and_a_version(name):
    assert message_info(make("@message(name=name)\nclass made(Message): pass", name=name)).name == name


@pytest.mark.parametrize(
    "name",
    ["", "Pay", "Pay@1", "shop/Pay", "shop/Pay@0", "shop/Pay@01", "shop/Pay@-1", "shop/Pay@x", "shop//Pay@1", "a/b/C@1", "/Pay@1", "shop/@1",
     "shop/Pay@1 ", "shop/Pay@1\n", " shop/Pay@1", "shöp/Pay@1", "shop/Pay@١", "shop/Pay@9999999999", "s/" + "p" * 300 + "@1", 1, b"shop/Pay@1"],
)  # fmt: skip
def test_other_wire_names_are_refused(name):
    with pytest.raises(DefinitionError, match="namespace/Name@version"):
        message(name=name)


def test_a_timeout_is_inherited_and_a_name_is_not():
    @message(name="a/B@1", timeout=7)
    class Base(Message):
        pass

    @message
    class Derived(Base):
        pass

    @message(timeout=3)
    class Hasty(Derived):
        pass

    assert (message_info(Derived).timeout, message_info(Derived).name) == (7.0, None)
    assert message_info(Hasty).timeout == 3.0


@pytest.mark.parametrize("cls", [int, Message, Request, Stream, Request[int], None, 3, "Deposit"])
def test_what_is_no_message_class_has_no_information(cls):
    with pytest.raises(DefinitionError, match=r"@rt\.message"):
        message_info(cls)


def test_an_undecorated_subclass_of_a_message_is_refused_rather_than_taken_for_its_base():
    class Forgotten(Deposit):
        pass

    with pytest.raises(DefinitionError, match=r"Forgotten .* decorate it with @rt\.message"):
        message_info(Forgotten)


def test_a_parametrised_message_stands_for_its_class():
    assert message_info(Get[int]) is message_info(Get)


# Reply types


def test_reply_types_are_found_through_generic_bases():
    assert message_info(Deposit).reply is int
    assert message_info(Get).reply is Any
    assert message_info(GetMany).reply == list[Any]
    assert message_info(GetWords).reply == list[str]


def test_a_plain_message_has_no_reply_and_a_request_of_none_has_none_as_its_type():
    assert message_info(Chapter).reply is None
    assert message_info(make("@message\nclass made(Request[None]): pass")).reply is type(None)


def test_a_request_without_a_type_is_answered_by_anything():
    assert message_info(make("@message\nclass made(Request): pass")).reply is Any


def test_a_reply_type_may_be_defined_later():
    assert message_info(Late).reply == list[DefinedLater]


def test_a_reply_type_that_cannot_be_found_says_so_and_is_looked_for_again():
    made = make("@message\nclass made(Request['Missing']): pass")
    with pytest.raises(DefinitionError, match=r"reply type of made .* top of made"):
        _ = message_info(made).reply

    class Missing:
        pass

    sys.modules["made"] = type(sys)("made")
    try:
        sys.modules["made"].Missing = Missing
        assert message_info(made).reply is Missing
    finally:
        del sys.modules["made"]


# Field types


def test_deferred_annotations_are_resolved_late_and_through_bases():
    assert message_info(Late).field_types == {"field": DefinedLater}
    assert message_info(Chapter).field_types == {"parts": list[Chapter]}
    assert message_info(GetWords).field_types == {"key": list[str], "more": int}


def test_messages_defined_in_a_function_may_name_what_is_defined_there():
    @attrs.frozen
    class Item:
        x: int

    @message
    class Order(Request["Item"]):
        items: tuple[Item, ...]
        parent: Order | None = None

    info = message_info(Order)
    assert info.reply is Item
    assert info.field_types == {"items": tuple[Item, ...], "parent": Order | None}


def test_messages_defined_in_nested_functions_and_classes_may_name_what_is_around_them():
    @attrs.frozen
    class Outer:
        pass

    def inner():
        class Holder:
            Word = str

            @message
            class Held(Message):
                word: Word  # noqa: F821 -- of the class around
                outer: Outer

        return Holder.Held, Outer

    held, outer = inner()
    assert message_info(held).field_types == {"word": str, "outer": outer}


def test_a_field_whose_type_cannot_be_found_says_so():
    @message
    class Odd(Message):
        fine: int
        lost: Nothing

    with pytest.raises(DefinitionError, match=r"Odd\.lost .* TYPE_CHECKING"):
        _ = message_info(Odd).field_types
    assert message_info(Odd).mutable_fields == {"lost"}


def test_class_variables_are_no_fields():
    @message
    class Counted(Message):
        total: ClassVar[int] = 0
        limit = 5
        x: int

    assert Counted(1).x == 1
    assert message_info(Counted).field_types == {"x": int}
    assert Counted.limit == 5


def test_a_message_may_be_defined_again_and_the_old_class_stays_usable():
    body = """
        @message
        class made(Request[int]):
            x: int
    """
    old, new = make(body), make(body)
    assert old is not new
    assert message_info(old).cls is old
    assert message_info(new).cls is new
    assert old(1) != new(1)


def test_a_notebook_without_a_module_on_disk_defines_messages(tmp_path):
    script = """
        from __future__ import annotations
        import retinue.mailbox.messages as m
        cell = '''
        @m.message
        class Ping(m.Request[list["Ping"]]):
            inner: Ping | None = None
        '''
        import textwrap
        for _ in range(2):
            exec(compile(textwrap.dedent(cell), "<cell>", "exec", dont_inherit=False), globals())
            info = m.message_info(Ping)
            assert info.field_types == {"inner": Ping | None}, info.field_types
            assert info.reply == list[Ping]
        print("ok")
    """
    done = subprocess.run(
        [sys.executable, "-"], input=textwrap.dedent(script), capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60
    )
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr


# Mutable fields


class Colour(enum.Enum):
    RED = 1


Cents = NewType("Cents", int)


@attrs.frozen
class Point:
    x: int
    next: Point | None = None


@attrs.frozen
class Bag:
    items: list[int]


@attrs.define
class Loose:
    x: int


class Promised:
    __immutable__ = True


class Boxed(Generic[T]):
    __immutable__ = True


def test_the_mutable_fields_are_those_whose_types_do_not_promise_otherwise():
    @message
    class Mixed(Message):
        a: int | str | None
        b: tuple[Point, ...]
        c: Literal["x"]
        d: frozenset[Colour]
        e: Annotated[Cents, "money"]
        f: Promised
        g: Boxed[list[int]]
        h: Deposit
        i: type[Any]
        q: list[int]
        r: dict[str, int]
        s: set[int]
        t: bytearray
        u: Any
        v: Loose
        w: Bag
        x: tuple[list[int], ...]
        y: object
        z: list[int] | None

    assert message_info(Mixed).mutable_fields == set("qrstuvwxyz")


# Definitions that cannot work


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("@message\nclass made: x: int", r"made is not a message: derive it from Message, Request\[R\] or Stream\[E\]"),
        ("made = message(5)", "decorates a class, not 5"),
        ("made = message('shop/Pay@1')", "decorates a class"),
        ("made = message(Message)", "root of messages"),
        ("made = message(Request[int])", "decorates a class"),
        ("@message\n@message\nclass made(Message): x: int", "twice"),
        ("@message\n@attrs.define\nclass made(Message): x: int", "remove the other decorator"),
        ("@message\n@dataclass\nclass made(Message): x: int", "remove the other decorator"),
        ("@message\nclass made(Message):\n  x: int = dataclasses.field(default=1)", r"made\.x has a dataclasses\.field\(\).*attrs\.field\("),
        ("@message\nclass made(Message):\n  x: list = dataclasses.field(default_factory=list)", r"made\.x has a dataclasses.*factory="),
        ("@message\nclass made(Request[int]):\n  x: int = dataclasses.field()", r"made\.x has a dataclasses"),
        ("@message\nclass made(Message):\n  x: list = []", r"made\.x has a list as its default.*attrs\.field\(factory=list\)"),
        ("@message\nclass made(Message):\n  x: dict = {}", "factory=dict"),
        ("@message\nclass made(Message):\n  x: int = 0\n  y: int", "made cannot be made a message.*mandatory"),
        ("@message\nclass made(Message):\n  x = attrs.field()", "made cannot be made a message"),
        ("@message\nclass made(Message):\n  def __setattr__(self, name, value): pass", "made cannot be made a message"),
        ("class Base(Message): x: int\n@message\nclass made(Base): y: int", "derives from Base, whose fields would be lost"),
    ],
)  # fmt: skip
def test_definitions_that_cannot_work_are_refused_with_the_fix(body, text):
    with pytest.raises(DefinitionError, match=text):
        make(body, dataclass=dataclasses.dataclass, dataclasses=dataclasses)


def test_a_message_may_be_a_request_and_a_stream():
    @message
    class One(Request[int]):
        pass

    @message
    class Many(Stream[str]):
        pass

    @message(name="both/Both@1")
    class Both(Request[int], Stream[str]):
        x: int

    @message
    class Mixed(One, Many):
        pass

    for kind in (Both, Mixed):
        info = message_info(kind)
        assert (info.kind, info.reply, info.items) == ("request", int, str)
    assert [message_info(kind).items for kind in (One, Many)] == [None, str]
    assert Both(1) == Both(1)
    assert not hasattr(Both(1), "__dict__")


def test_the_items_of_a_stream_may_be_named_before_they_are_defined():
    @message
    class Both(Request["Both"], Stream["Nowhere"]):
        pass

    assert message_info(Both).reply is Both
    with pytest.raises(DefinitionError, match="the reply type of .*Both names something that cannot be found"):
        message_info(Both).items  # noqa: B018


def test_an_undecorated_base_without_fields_is_fine():
    class Marker(Request[int]):
        """A common base of several requests."""

    @message
    class Marked(Marker):
        x: int

    assert Marked(1).x == 1
    assert message_info(Marked).reply is int


def test_making_an_undecorated_message_tells_to_decorate_it():
    class Forgotten(Message):
        x: int

    with pytest.raises(DefinitionError, match=r"Forgotten .* decorate it with @rt\.message"):
        Forgotten(1)
    with pytest.raises(DefinitionError, match="no message class"):
        Message()
