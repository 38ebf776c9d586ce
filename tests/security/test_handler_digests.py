"""Digests of handlers: whatever a reviewer has relied on changes them, moving the code does not, and every process gets the same."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import attrs
import pytest

from retinue.security.canonical import canonical
from retinue.security.definitions import code_digest, digest_of, handler_digest, type_parts
from retinue.security.errors import CanonicalError

SOURCE = '''
import enum
import functools
import typing
import attrs
import retinue as rt

LIMIT = 5

class Kind(enum.Enum):
    A = 1
    B = 2

@attrs.frozen
class Inner:
    x: int = 1

@rt.message(name="bank/Pay@1")
class Pay(rt.Request[str]):
    to: str
    amount: int = 3
    kind: Kind = Kind.A
    inner: typing.Annotated[list[Inner] | None, "why"] = None
    more: list[str] = attrs.field(factory=list)

OUTSIDE = 1

def wrapped(function):
    @functools.wraps(function)
    def around(self, message):
        return function(self, message)
    return around

@wrapped
def pay(self, message: Pay, *, extra: int = 7, odd: float = 1e999) -> str:
    """Pays."""
    names = {"a", "b", "c"}
    if message.to in {"x", "y", "z", "ACME"} and message.amount > 100:
        return f"paid {message.amount}"
    return (lambda value: value + 1)(message.amount) or "\\ud800"

OPTIONS = {"requires": "payments.send", "approval": lambda message: message.amount > 100, "risk": "L2", "raises": (ValueError,), "idempotent": False}
'''


def digest_of_source(source: str) -> str:
    module = types.ModuleType("bank")
    sys.modules["bank"] = module  # where the annotations of a class are looked up
    try:
        exec(compile(source, "bank.py", "exec", dont_inherit=True), module.__dict__)
        return handler_digest(module.Pay, module.pay, wire_name="bank/Pay@1", options=module.OPTIONS)
    finally:
        del sys.modules["bank"]


DIGEST = digest_of_source(SOURCE)

CHANGES = {
    "a field more": ("    amount: int = 3\n", "    amount: int = 3\n    bcc: str = ''\n"),
    "a field less": ("    more: list[str] = attrs.field(factory=list)\n", ""),
    "the order of fields": ("    to: str\n    amount: int = 3\n", "    amount: int\n    to: str = ''\n"),
    "an annotation": ("    amount: int = 3", "    amount: float = 3"),
    "an annotation within": ("list[Inner] | None", "tuple[Inner, ...] | None"),
    "what an annotation says beside": ('"why"', '"because"'),
    "a default": ("    amount: int = 3", "    amount: int = 4"),
    "a factory": ("factory=list", "factory=lambda: ['x']"),
    "a member of an enum": ("    B = 2", "    B = 2\n    C = 3"),
    "the value of a member": ("    B = 2", "    B = 3"),
    "a field of a class within": ("class Inner:\n    x: int = 1", "class Inner:\n    x: int = 1\n    y: int = 1"),
    "a default of a class within": ("    x: int = 1", "    x: int = 2"),
    "an option": ('"risk": "L2"', '"risk": "L1"'),
    "the operation": ('"payments.send"', '"payments.refund"'),
    "the predicate": ("lambda message: message.amount > 100,", "lambda message: message.amount > 101,"),
    "an error class": ("(ValueError,)", "(KeyError,)"),
    "an option more": ('"idempotent": False', '"idempotent": False, "stale": 1'),
    "the docstring": ('"""Pays."""', '"""Pays twice."""'),
    "a constant in the code": ("message.amount > 100:", "message.amount > 1000:"),
    "a member of a constant set": ('{"x", "y", "z", "ACME"}', '{"x", "y", "z", "EVIL"}'),
    "a text in the code": ('f"paid {', 'f"Paid {'),
    "an operator": ("message.amount > 100:", "message.amount >= 100:"),
    "a name that is called": ('        return f"', '        print(1)\n        return f"'),
    "a keyword's default": ("extra: int = 7", "extra: int = 8"),
    "a lambda in the code": ("value + 1", "value + 2"),
    "what it is wrapped in": ("        return function(self, message)\n", "        return function(self, message) or 1\n"),
    "half of a surrogate pair": ("\\ud800", "\\ud801"),
    "an infinite constant": ("odd: float = 1e999", "odd: float = -1e999"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_handler_has_another_digest(change: tuple[str, str]) -> None:
    old, new = change
    assert SOURCE.count(old) == 1
    assert digest_of_source(SOURCE.replace(old, new)) != DIGEST


SAME = {
    "nothing": ("LIMIT = 5", "LIMIT = 5"),
    "a comment": ("    names = ", "    # a comment\n    names = "),
    "where it stands": ("LIMIT = 5\n", "LIMIT = 5\n\n\n\ndef other():\n    return 1\n\n"),
    "a name beside it": ("OUTSIDE = 1", "OUTSIDE = 2"),
    "how a set is written": ('{"x", "y", "z", "ACME"}', '{"ACME", "z", "y", "x"}'),
    "the order of options": ('{"requires": "payments.send", ', '{"requires": "payments.send",   '),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME.keys())
def test_an_unchanged_handler_has_the_same_digest_wherever_it_stands(change: tuple[str, str]) -> None:
    old, new = change
    assert SOURCE.count(old) == 1
    assert digest_of_source(SOURCE.replace(old, new)) == DIGEST


def test_the_wire_name_counts() -> None:
    class Message:
        pass

    def handle(self, message):
        return 1

    one = handler_digest(Message, handle, wire_name="a/B@1", options={})
    assert one == handler_digest(Message, handle, wire_name="a/B@1", options={})
    assert (
        len(
            {
                one,
                handler_digest(Message, handle, wire_name="a/B@2", options={}),
                handler_digest(Message, handle, wire_name=None, options={}),
            }
        )
        == 3
    )


def test_every_process_gets_the_same_digest_whatever_its_hashes(tmp_path: Path) -> None:
    (tmp_path / "bank.py").write_text(SOURCE, encoding="utf-8")
    code = "import bank; from retinue.security.definitions import handler_digest; print(handler_digest(bank.Pay, bank.pay, wire_name='bank/Pay@1', options=bank.OPTIONS))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        ).stdout.strip()
        for seed in ("0", "1", "4242")
    }
    assert found == {DIGEST}


STARTS = {
    "as a script": ("bank.py",),
    "as a module": ("-m", "bank"),
    "as a module of a package": ("-m", "shop.bank"),
    "as a script of a package": ("shop/bank.py",),
    "imported": ("-c", "import bank; bank.tell()"),
    "imported from a package": ("-c", "import shop.bank; shop.bank.tell()"),
    "optimised": ("-O", "bank.py"),
}
ODD = """
@attrs.frozen
class Note:
    kind: Kind = Kind.A

def checked(value):
    return value

@rt.message(name="bank/Odd@1")
class Odd(rt.Request[str]):
    note: Note = Note(Kind.B)
    kinds: tuple[Kind, ...] = (Kind.A, Kind.B)
    some: dict[str, "Kind"] = attrs.field(factory=lambda: {"a": Kind.A})
    call: typing.Callable[[Kind, Inner], Note] | None = None
    either: typing.Annotated[Kind | Inner, checked, Note(), object()] = Kind.A
    exact: typing.Literal[Kind.A, "b"] = "b"
    kept: typing.Any = Inner

def odd(self, message: Odd, *, kind: Kind = Kind.A, note: Note = Note(), function=checked) -> str:
    # a comment
    return "x"

def digests():
    odd_options = {"approval": checked, "raises": (Refused, ValueError), "kinds": [Kind.A, {"a": Kind.B}]}
    from retinue.security.definitions import handler_digest
    return [handler_digest(Pay, pay, wire_name=None, options=OPTIONS), handler_digest(Odd, odd, wire_name="bank/Odd@1", options=odd_options)]

class Refused(Exception):
    pass

def tell():
    print(*digests())

if __name__ == "__main__":
    tell()
"""


def test_how_its_program_was_started_makes_no_difference(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for place in (tmp_path / "bank.py", tmp_path / "shop" / "bank.py"):
        place.write_text(SOURCE + ODD, encoding="utf-8")
    (tmp_path / "shop" / "__init__.py").write_text("", encoding="utf-8")
    found = {
        how: subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=True).stdout
        for how, words in STARTS.items()
    }
    assert len(set(found.values())) == 1, found
    assert len(set(found["imported"].split())) == 2


def test_two_classes_of_one_name_are_two() -> None:
    def made(default: int) -> type:
        @attrs.frozen
        class Inner:
            x: int = default

        return Inner

    def holder(one: type, other: type) -> type:
        return attrs.make_class("Holder", {"a": attrs.field(type=one), "b": attrs.field(type=other)}, frozen=True)

    found = [digest_of(**type_parts(holder(made(one), made(other)))) for one, other in ((1, 1), (1, 2), (2, 1))]
    assert len(set(found)) == 3


def closed_over(value: Any) -> Any:
    return lambda: value


def test_what_a_function_has_closed_over_counts_where_it_cannot_change() -> None:
    values = [1, 2, True, "1", 1.0, None, (1,), frozenset({1}), print, len, int, str, closed_over(1), closed_over(2)]
    assert len({code_digest(closed_over(value)) for value in values}) == len(values)
    assert code_digest(closed_over([1])) == code_digest(closed_over([2])), "a list may change while it is used, and so would the digest"
    assert code_digest(closed_over([1])) != code_digest(closed_over({1: 2}))
    assert code_digest(closed_over(float("nan"))) == code_digest(closed_over(float("nan")))


def test_methods_partials_and_objects_have_digests() -> None:
    class Called:
        def __init__(self) -> None:
            self.count = 0

        def __call__(self, message: Any) -> Any:
            return message

        def method(self) -> int:
            return 1

        @staticmethod
        def static() -> int:
            return 2

    def function(a: int, b: int = 1) -> int:
        return a + b

    one = Called()
    things = [
        one,
        one.method,
        Called.static,
        function,
        functools.partial(function, 1),
        functools.partial(function, 2),
        functools.partial(function, b=2),
        functools.lru_cache(function),
        print,
        Called,
        5,
    ]
    assert len({code_digest(thing) for thing in things}) == len(things)
    assert code_digest(Called()) == code_digest(one), "not an address, and not a state"
    assert code_digest(Called().method) == code_digest(one.method)


def test_functions_that_know_each_other_are_read_to_an_end() -> None:
    def make(number: int) -> Any:
        def even(n: int) -> bool:
            return n == 0 or odd(n - 1)

        def odd(n: int) -> bool:
            return n != 0 and even(n - number)

        return even

    assert code_digest(make(1)) == code_digest(make(1))
    assert code_digest(make(1)) != code_digest(make(2))


def test_a_hundred_wrappers_are_not_too_deep() -> None:
    def base(n: int) -> int:
        return n

    def other(n: int) -> int:
        return n + 1

    def wrapped(function: Any) -> Any:
        for _ in range(100):
            function = functools.wraps(function)(lambda n, function=function: function(n))
        return function

    assert code_digest(wrapped(base)) == code_digest(wrapped(base)) != code_digest(wrapped(other))


def test_types_that_name_themselves_or_each_other_are_read_to_an_end() -> None:
    source = textwrap.dedent(
        """
        from __future__ import annotations
        import attrs

        @attrs.frozen
        class Tree:
            left: Tree | None
            other: Forest

        @attrs.frozen
        class Forest:
            trees: list[Tree]
            unknown: Nowhere = None
        """
    )
    module = types.ModuleType("forest")
    sys.modules["forest"] = module
    try:
        exec(compile(source, "forest.py", "exec"), module.__dict__)
        parts = type_parts(module.Tree)
        assert [name for name, _ in parts["types"]] == ["Tree", "Forest"] and canonical(parts)
    finally:
        del sys.modules["forest"]


def test_a_digest_of_parts_is_one_of_names_and_values() -> None:
    assert digest_of(a=1, b=2) == digest_of(b=2, a=1)
    assert len({digest_of(a=1), digest_of(a=True), digest_of(b=1), digest_of(a=[1]), digest_of()}) == 5
    with pytest.raises(CanonicalError):
        digest_of(a=object())
