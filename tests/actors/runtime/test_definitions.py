"""Bad input at definition time: what cannot work is told where it is written, with the fix; and what can work, works."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import AsyncIterator
from typing import Annotated, Any, Generic, TypeVar

import attrs
import pytest

import retinue as rt
from core_puppet import Call, Puppet


@rt.message
class Ping(rt.Request[str]):
    pass


@rt.message
class Pong(rt.Request[str]):
    pass


@rt.message
class Feed(rt.Stream[int]):
    pass


@rt.message
class LoudPing(Ping):
    volume: int = 11


T = TypeVar("T")


@rt.message
class Box(rt.Request[str], Generic[T]):
    content: T


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("definitions", block_warning=math.inf, **options)


def refuses(*words: str) -> Any:
    return pytest.raises(rt.DefinitionError, match="(?s)" + ".*".join(words))


# -- handlers that cannot work ---------------------------------------------------------------------------------------------------------------------------


def test_a_handler_without_an_annotation() -> None:
    with refuses("Bad.ping", "annotate"):

        class Bad(rt.Actor):
            @rt.handler
            def ping(self, message):  # type: ignore[no-untyped-def]
                pass


@pytest.mark.parametrize("annotation", [int, str, object, Any, "int", "list[Ping]", rt.Actor])
def test_a_handler_whose_annotation_is_no_message(annotation: Any) -> None:
    def ping(self: Any, message: Any) -> None:
        pass

    ping.__annotations__["message"] = annotation
    with refuses("ping", "no message class"):
        type("Bad", (rt.Actor,), {"ping": rt.handler(ping)})


def test_an_undecorated_message_class() -> None:
    class Plain(rt.Message):
        x: int

    with refuses("Plain", "@rt.message"):

        class Bad(rt.Actor):
            @rt.handler
            def ping(self, message: Plain) -> None:
                pass


def test_two_handlers_for_one_type() -> None:
    with refuses("Bad", "two handlers for .*Ping", "one", "other"):

        class Bad(rt.Actor):
            @rt.handler
            def one(self, message: Ping) -> str:
                return ""

            @rt.handler
            def other(self, message: Ping | Pong) -> str:
                return ""


def test_a_second_handler_beside_an_inherited_one() -> None:
    class Base(rt.Actor):
        @rt.handler
        def ping(self, message: Ping) -> str:
            return "base"

    with refuses("two handlers", "same name"):

        class Bad(Base):
            @rt.handler
            def my_ping(self, message: Ping) -> str:
                return "mine"


@pytest.mark.parametrize(
    "function",
    [
        lambda self: None,
        lambda: None,
        lambda self, message, more: None,
        lambda self, message, *, more: None,
    ],
)
def test_a_handler_with_the_wrong_parameters(function: Any) -> None:
    function.__name__ = "ping"
    function.__annotations__ = {"message": Ping}
    with refuses("exactly one message"):
        type("Bad", (rt.Actor,), {"ping": rt.handler(function)})


def test_a_plain_generator_as_a_handler() -> None:
    with refuses("Bad.feed", "async def", "yield"):

        class Bad(rt.Actor):
            @rt.handler
            def feed(self, message: Feed) -> Any:
                yield 1


def test_a_stream_answered_without_yield() -> None:
    with refuses("Bad.feed", "Stream", "yield"):

        class Bad(rt.Actor):
            @rt.handler
            async def feed(self, message: Feed) -> list[int]:
                return [1]


def test_a_request_answered_with_yield() -> None:
    with refuses("Bad.ping", "no Stream"):

        class Bad(rt.Actor):
            @rt.handler
            async def ping(self, message: Ping) -> AsyncIterator[str]:
                yield "x"


@pytest.mark.parametrize("wrapper", [staticmethod, classmethod, property, functools.partial])
def test_a_handler_that_is_no_plain_method(wrapper: Any) -> None:
    def ping(self: Any, message: Ping) -> str:
        return ""

    with refuses("method"):
        type("Bad", (rt.Actor,), {"ping": rt.handler(wrapper(ping))})


def test_a_handler_overridden_by_something_else() -> None:
    class Base(rt.Actor):
        @rt.handler
        def ping(self, message: Ping) -> str:
            return "base"

    with refuses("Bad.ping", "a handler is a method"):

        class Bad(Base):
            ping = None  # type: ignore[assignment]


@pytest.mark.parametrize("options", [{"requires": ""}, {"requires": "a..b"}, {"requires": "fs.*"}, {"requires": 1}])
def test_an_operation_that_is_none(options: Any) -> None:
    with pytest.raises((rt.PatternError, rt.DefinitionError)):
        rt.handler(**options)


@pytest.mark.parametrize("raises", [ValueError(), "ValueError", int, (ValueError, 1), [ValueError], None])
def test_declared_errors_that_are_no_exception_classes(raises: Any) -> None:
    with refuses("raises", "exception class"):
        rt.handler(raises=raises)


@pytest.mark.parametrize("option", ["shield", "approval"])
@pytest.mark.parametrize("value", ["no", 1, None])
def test_switches_that_are_neither_true_nor_false(option: str, value: Any) -> None:
    with refuses(option, "True or False"):
        rt.handler(**{option: value})


def test_a_misspelt_option_is_pythons_own_type_error() -> None:
    with pytest.raises(TypeError, match="require"):
        rt.handler(require="fs.read")  # type: ignore[call-overload]


# -- actors that cannot work -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keyword", ["name", "grant", "mailbox", "supervision"])
def test_a_constructor_that_takes_one_of_spawns_keywords(keyword: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def __init__(self, {keyword}): pass", space)
    with refuses("__init__", keyword, "another name"):
        type("Bad", (rt.Actor,), {"__init__": space["__init__"]})
    exec(f"def __init__(self, *, {keyword}=None): pass", space)
    with refuses("__init__", keyword, "another name"):
        type("Bad", (rt.Actor,), {"__init__": space["__init__"]})


@pytest.mark.parametrize("decorate", [dataclasses.dataclass, attrs.define, attrs.define(slots=False)])
async def test_a_constructor_made_by_a_decorator_is_checked_at_the_spawn_at_the_latest(decorate: Any) -> None:
    async with make() as system:
        with refuses("__init__", "name", "another name"):
            await system.spawn(decorate(type("Bad", (rt.Actor,), {"__annotations__": {"name": str}, "__module__": __name__})), name="x")


@pytest.mark.parametrize("decorate", [dataclasses.dataclass, attrs.define, attrs.define(slots=False)])
async def test_a_constructor_made_by_a_decorator_works(decorate: Any) -> None:
    @decorate
    class Account(rt.Actor):
        balance: int = 0

        @rt.handler
        def ping(self, message: Ping) -> str:
            self.balance += 1
            return str(self.balance)

    async with make() as system:
        ref = await system.spawn(Account, 41)
        assert await ref.ask(Ping()) == "42"
        assert await (await system.spawn(Account, balance=1)).ask(Ping()) == "2"


def test_an_async_constructor() -> None:
    with refuses("__init__", "on_start"):

        class Bad(rt.Actor):
            async def __init__(self) -> None:  # type: ignore[misc]
                pass


def test_a_resident_loop_that_is_not_async() -> None:
    with refuses("Bad.run", "async def run"):

        class Bad(rt.Actor):
            def run(self) -> None:
                pass


def test_a_method_run_with_other_parameters_is_no_loop() -> None:
    class Fine(rt.Actor):
        def run(self, laps: int) -> int:
            return laps

    assert Fine.blocking is False


@pytest.mark.parametrize("member", ["run", "on_start", "on_stop"])
def test_a_blocking_actor_has_nothing_async(member: str) -> None:
    async def function(self: Any) -> None:
        pass

    with refuses("Bad", "blocking"):
        type("Bad", (rt.Actor,), {member: function}, blocking=True)


def test_a_blocking_actor_has_plain_handlers() -> None:
    with refuses("Bad.ping", "plain `def`"):

        class Bad(rt.Actor, blocking=True):
            @rt.handler
            async def ping(self, message: Ping) -> str:
                return ""


@pytest.mark.parametrize("value", ["yes", 1, 0])
def test_blocking_is_true_or_false(value: Any) -> None:
    with refuses("blocking", "True or False"):
        type("Bad", (rt.Actor,), {}, blocking=value)


async def test_an_abstract_actor_is_not_spawned() -> None:
    class Shape(rt.Actor, abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    async with make() as system:
        with refuses("Shape", "abstract", "area"):
            await system.spawn(Shape)


async def test_a_message_that_is_never_found_is_told_at_the_spawn() -> None:
    class Bad(rt.Actor):
        @rt.handler
        def ping(self, message: NotDefinedAnywhere) -> str:  # type: ignore[name-defined]  # noqa: F821
            return ""

    async with make() as system:
        with refuses("Bad", "cannot be found"):
            await system.spawn(Bad)


async def test_a_strict_system_refuses_handlers_that_are_open_to_all() -> None:
    class Open(rt.Actor):
        @rt.handler
        def ping(self, message: Ping) -> str:
            return ""

    class Closed(rt.Actor):
        @rt.handler(requires="definitions.ping")
        def ping(self, message: Ping) -> str:
            return "pong"

    async with make(strict=True) as system:
        with refuses("strict", "Open.ping", "requires"):
            await system.spawn(Open)
        assert await (await system.spawn(Closed)).ask(Ping()) == "pong"


async def test_a_strict_system_takes_handlers_that_are_open_on_purpose_and_agents() -> None:
    class Public(rt.Actor):
        @rt.handler(open_to_all=True)
        def ping(self, message: Ping) -> str:
            return "pong"

    async with make(strict=True) as system:
        assert await (await system.spawn(Public)).ask(Ping()) == "pong"
        agent = await system.spawn(rt.Agent, model="scripted:Hello!")
        nobody = system.authority.mint("ada", ["x"])
        assert (await agent.ask("hi")).content == "Hello!"
        with pytest.raises(rt.Denied, match=r"model\.complete"):
            await agent.ask("hi", context=nobody)
    with refuses("requires='a.b'", "open_to_all"):
        rt.handler(requires="a.b", open_to_all=True)
    with refuses("open_to_all='yes'"):
        rt.handler(open_to_all="yes")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "options",
    [
        {"ask_timeout": 0},
        {"ask_timeout": -1},
        {"ask_timeout": math.nan},
        {"ask_timeout": "30"},
        {"ask_timeout": True},
        {"grace": -1},
        {"grace": math.inf},
        {"grace": None},
        {"events": -1},
        {"events": 1.5},
        {"events": True},
        {"name": ""},
        {"name": "a/b"},
        {"name": 1},
        {"permissions": "**"},
        {"permissions": [1]},
    ],
    ids=str,
)
def test_an_option_of_the_system_that_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises((rt.DefinitionError, rt.PatternError)):
        rt.ActorSystem(**options)


# -- what works --------------------------------------------------------------------------------------------------------------------------------------------


async def test_one_handler_takes_several_types_and_a_base_type_its_subclasses() -> None:
    class Both(rt.Actor):
        @rt.handler
        def answer(self, message: Ping | Pong) -> str:
            return type(message).__name__

    async with make() as system:
        ref = await system.spawn(Both)
        assert [await ref.ask(message) for message in (Ping(), Pong(), LoudPing())] == ["Ping", "Pong", "LoudPing"]


async def test_the_handler_of_the_nearest_base_is_taken() -> None:
    class Near(rt.Actor):
        @rt.handler
        def ping(self, message: Ping) -> str:
            return "ping"

        @rt.handler
        def loud_ping(self, message: LoudPing) -> str:
            return "loud"

    @rt.message
    class VeryLoudPing(LoudPing):
        pass

    async with make() as system:
        ref = await system.spawn(Near)
        assert [await ref.ask(message) for message in (Ping(), LoudPing(), VeryLoudPing())] == ["ping", "loud", "loud"]


async def test_annotated_optional_and_generic_annotations_are_understood() -> None:
    class Wide(rt.Actor):
        @rt.handler
        def ping(self, message: Annotated[Ping, "anything"]) -> str:
            return "annotated"

        @rt.handler
        def box(self, message: Box[int]) -> str:
            return f"box {message.content}"

    async with make() as system:
        ref = await system.spawn(Wide)
        assert await ref.ask(Ping()) == "annotated"
        assert await ref.ask(Box(3)) == "box 3"


async def test_an_override_inherits_what_the_handler_was_given() -> None:
    class Base(rt.Actor):
        @rt.handler(requires="definitions.ping")
        def ping(self, message: Ping) -> str:
            return "base"

    class Derived(Base):
        def ping(self, message: Ping) -> str:
            return f"derived and {super().ping(message)}"

    class Opened(Base):
        @rt.handler
        def ping(self, message: Ping) -> str:
            return "opened"

    async with make() as system:
        assert await (await system.spawn(Derived)).ask(Ping()) == "derived and base"
        with pytest.raises(rt.Denied):
            await (await system.spawn(Derived, grant=[])).ask(Ping())
        assert await (await system.spawn(Opened, grant=[])).ask(Ping()) == "opened"  # said anew: it requires nothing


async def test_an_override_may_be_async_where_the_base_is_not() -> None:
    class Base(rt.Actor):
        @rt.handler
        def ping(self, message: Ping) -> str:
            return "base"

    class Derived(Base):
        async def ping(self, message: Ping) -> str:  # type: ignore[override]
            return "async"

    async with make() as system:
        assert await (await system.spawn(Derived)).ask(Ping()) == "async"


async def test_mixins_bring_their_handlers() -> None:
    class PingMixin:
        @rt.handler
        def ping(self, message: Ping) -> str:
            return "mixed in"

    class Mixed(PingMixin, rt.Actor):
        @rt.handler
        def pong(self, message: Pong) -> str:
            return "own"

    async with make() as system:
        ref = await system.spawn(Mixed)
        assert [await ref.ask(Ping()), await ref.ask(Pong())] == ["mixed in", "own"]


async def test_messages_and_actors_of_a_function_and_messages_defined_later_are_found() -> None:
    @rt.message
    class Local(rt.Request[str]):
        pass

    class Early(rt.Actor):
        @rt.handler
        def local(self, message: Local) -> str:
            return "local"

        @rt.handler
        def late(self, message: DefinedLater) -> str:
            return "late"

    async with make() as system:
        ref = await system.spawn(Early)
        assert [await ref.ask(Local()), await ref.ask(DefinedLater())] == ["local", "late"]


@rt.message
class DefinedLater(rt.Request[str]):
    pass


async def test_a_message_defined_again_is_another_one_and_the_error_says_so() -> None:
    def define() -> Any:
        @rt.message
        class Again(rt.Request[str]):
            pass

        return Again

    first, second = define(), define()

    def again(self: Any, message: Any) -> str:
        return "first"

    again.__annotations__["message"] = first
    actor = type("Notebook", (rt.Actor,), {"again": rt.handler(again)})
    async with make() as system:
        ref = await system.spawn(actor)
        assert await ref.ask(first()) == "first"
        with pytest.raises(rt.Unhandled, match="defined again"):
            await ref.ask(second())


async def test_an_actor_without_handlers_takes_nothing_and_says_so() -> None:
    class Empty(rt.Actor):
        pass

    async with make() as system:
        with pytest.raises(rt.Unhandled, match="no messages at all"):
            await (await system.spawn(Empty)).ask(Ping())


async def test_the_text_of_unhandled_says_what_the_actor_takes() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet, name="puppet")
        with pytest.raises(rt.Unhandled) as caught:
            await ref.ask(Ping())
        for part in ("/user/puppet", "Puppet", "Ping", "Call, Do, DoShielded, Pour"):
            assert part in str(caught.value)
        for wrong, words in ((Call, "class Call itself"), ("text", "'text'"), (None, "NoneType"), (object(), "object")):
            with pytest.raises(rt.Unhandled, match=words):
                ref.tell(wrong)  # type: ignore[arg-type]


def test_handlers_can_be_called_directly_in_a_unit_test() -> None:
    class Adder(rt.Actor):
        def __init__(self, start: int) -> None:
            self.total = start

        @rt.handler
        def ping(self, message: Ping) -> str:
            self.total += 1
            return str(self.total)

    assert Adder(1).ping(Ping()) == "2"
