"""Plain messages are made by a quicker constructor that nobody can tell from attrs' own."""

import inspect
from typing import Any

import attrs
import pytest

import retinue as rt


@rt.message
class Plain(rt.Request[int]):
    amount: int
    to: str = "ACME"
    _private: int = 3
    note: str = attrs.field(default="", kw_only=True)


@attrs.frozen
class Same:
    amount: int
    to: str = "ACME"
    _private: int = 3
    note: str = attrs.field(default="", kw_only=True)


def _is_quick(cls: Any) -> bool:
    return bool(cls.__init__.__code__.co_filename.startswith("<constructor of"))


def test_a_plain_message_has_the_quick_constructor_and_the_signature_that_attrs_gives() -> None:
    assert _is_quick(Plain)
    assert inspect.signature(Plain).replace(return_annotation=None) == inspect.signature(Same).replace(return_annotation=None)
    assert Plain.__init__.__qualname__ == "Plain.__init__"


def test_it_makes_the_same_messages() -> None:
    for arguments, keywords in (((1,), {}), ((1, "BANK", 4), {"note": "x"}), ((), {"amount": 2, "private": 5})):
        assert attrs.astuple(Plain(*arguments, **keywords)) == attrs.astuple(Same(*arguments, **keywords))
    assert Plain(1) == Plain(1)
    assert hash(Plain(1)) == hash(Plain(1))


@pytest.mark.parametrize(("arguments", "keywords"), [((), {}), ((1, "a", 2, "note"), {}), ((1,), {"unknown": 1}), ((1,), {"amount": 1})])
def test_it_refuses_the_same_calls(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Same(*arguments, **keywords)
    with pytest.raises(TypeError):
        Plain(*arguments, **keywords)


def test_what_it_makes_is_as_frozen_as_ever() -> None:
    message = Plain(1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        message.amount = 2  # type: ignore[misc]
    assert not hasattr(message, "__dict__")


def test_a_message_whose_fields_need_more_than_storing_keeps_attrs_constructor() -> None:
    @rt.message
    class Converted(rt.Message):
        amount: int = attrs.field(converter=int)

    @rt.message
    class Validated(rt.Message):
        amount: int = attrs.field(validator=attrs.validators.ge(0))

    @rt.message
    class Filled(rt.Message):
        items: list[int] = attrs.field(factory=list)

    @rt.message
    class Hooked(rt.Message):
        amount: int

        def __attrs_post_init__(self) -> None:
            if self.amount < 0:
                raise ValueError("negative")

    @rt.message
    class Own(rt.Message):
        amount: int

        def __init__(self, text: str) -> None:
            self.__attrs_init__(int(text))  # type: ignore[attr-defined]

    assert not any(_is_quick(cls) for cls in (Converted, Validated, Filled, Hooked, Own))
    assert Converted("3").amount == 3  # type: ignore[arg-type]
    assert Own("4").amount == 4
    assert Filled().items is not Filled().items
    for bad in (Validated, Hooked):
        with pytest.raises(ValueError, match=r"negative|>= 0"):
            bad(-1)


def test_a_message_that_derives_from_another_stores_all_fields() -> None:
    @rt.message
    class More(Plain):
        extra: int = 9

    assert _is_quick(More)
    assert attrs.astuple(More(1, extra=2)) == (1, "ACME", 3, "", 2) or attrs.asdict(More(1, extra=2))["extra"] == 2
