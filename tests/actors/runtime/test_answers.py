"""A handler's return annotation must not contradict what its request promises."""

from typing import Any, Protocol

import pytest

import retinue as rt


@rt.message
class Count(rt.Request[int]):
    pass


@rt.message
class Ratio(rt.Request[float]):
    pass


@rt.message
class Anything(rt.Request[Any]):
    pass


class Sized(Protocol):
    def size(self) -> int: ...


@rt.message
class Measure(rt.Request[Sized]):
    pass


def test_a_contradiction_is_refused_where_the_class_is_defined() -> None:
    with pytest.raises(rt.DefinitionError, match=r"Wrong.count answers with str, but Count is a Request\[int\]"):

        class Wrong(rt.Actor):
            @rt.handler
            def count(self, message: Count) -> str:
                return "five"


def test_a_contradiction_in_a_text_annotation_is_refused_too() -> None:
    with pytest.raises(rt.DefinitionError, match="answers with str"):

        class Wrong(rt.Actor):
            @rt.handler
            async def count(self, message: "Count") -> "str":
                return "five"


def test_what_fits_or_cannot_be_judged_is_allowed() -> None:
    class Fits(rt.Actor):
        @rt.handler
        def count(self, message: Count) -> bool:  # a subclass
            return True

        @rt.handler
        def ratio(self, message: Ratio) -> int:  # what type checkers take for a float
            return 1

        @rt.handler
        def anything(self, message: Anything) -> str:
            return ""

        @rt.handler
        def measure(self, message: Measure) -> Any:
            return ""

    class Defers(rt.Actor):
        @rt.handler
        def count(self, message: Count) -> None:  # answered later
            self.slot = self.ctx.defer()

        @rt.handler
        def ratio(self, message: Ratio) -> "NotDefinedAnywhere":  # noqa: F821
            return 1.0

        @rt.handler
        def anything(self, message: Anything):  # type: ignore[no-untyped-def]
            return 1

    assert len(Fits.__handlers__ or {}) == 4
    assert len(Defers.__handlers__ or {}) == 3
