"""`key=value` on the command line: what a message's schema makes of it."""

from __future__ import annotations

import base64
import enum
import io
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import attrs
import click
import pytest

import retinue as rt
from retinue.cli.arguments import body_of
from retinue.gateway.schemas import Schemas
from retinue.mailbox.wire import WireRegistry


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Address:
    street: str
    number: int = 1


@attrs.frozen
class Person:
    name: str
    home: Address | None = None
    address: Address = attrs.field(factory=lambda: Address("none"))


@rt.message(name="talk-arguments/All@1")
class All(rt.Request[None]):
    text: str = ""
    whole: int = 0
    real: float = 0.0
    fast: bool = False
    maybe: str | None = None
    number: int | None = None
    either: int | str = 0
    raw: bytes = b""
    price: Decimal = Decimal(0)
    colour: Colour = Colour.RED
    word: Literal["a", "b", 5] = "a"
    tags: list[str] = attrs.field(factory=list)
    counts: tuple[int, ...] = ()
    table: dict[str, int] = attrs.field(factory=dict)
    person: Person | None = None
    anything: Any = None


@rt.message(name="talk-arguments/Needs@1")
class Needs(rt.Request[None]):
    item: str
    person: Person
    count: int = 1


def described(cls: type[Any]) -> dict[str, Any]:
    schemas = Schemas()
    body = schemas.body(cls)
    return json.loads(json.dumps({"x-retinue-messages": {"x": {"schema": body}}, "components": {"schemas": schemas.components}}))


def sent(cls: type[Any], *arguments: str) -> Any:
    """The message that the wire makes of it."""
    wire = WireRegistry()
    return wire.load({"type": wire.register(cls), "body": body_of(described(cls), "x", arguments)})


@pytest.mark.parametrize(
    ("argument", "field", "value"),
    [
        ("text=tea", "text", "tea"),
        ("text=5", "text", "5"),
        ("text=", "text", ""),
        ("text=a=b:=c", "text", "a=b:=c"),
        ("text=null", "text", "null"),
        ("text=@@home", "text", "@home"),
        ("text=zwei\nZeilen é", "text", "zwei\nZeilen é"),
        ('text:="tea"', "text", "tea"),
        ("whole=5", "whole", 5),
        ("whole=-5", "whole", -5),
        ("whole:=5", "whole", 5),
        ("real=5", "real", 5.0),
        ("real=1e3", "real", 1000.0),
        ("fast=true", "fast", True),
        ("maybe=x", "maybe", "x"),
        ("maybe=null", "maybe", "null"),
        ("maybe:=null", "maybe", None),
        ("number=null", "number", None),
        ("number=7", "number", 7),
        ("either=7", "either", "7"),
        ("either:=7", "either", 7),
        ("raw=AP8=", "raw", b"\x00\xff"),
        ("price=3.50", "price", Decimal("3.50")),
        ("colour=blue", "colour", Colour.BLUE),
        ("word=b", "word", "b"),
        ("word=5", "word", 5),
        ('tags=["a","b"]', "tags", ["a", "b"]),
        ("tags[]=a", "tags", ["a"]),
        ("counts[]=4", "counts", (4,)),
        ("table.x=5", "table", {"x": 5}),
        ('table={"x":5}', "table", {"x": 5}),
        ("person.name=Ada", "person", Person("Ada")),
        ('person={"name":"Ada"}', "person", Person("Ada")),
        ("anything=5", "anything", "5"),
        ('anything:={"a":[1]}', "anything", {"a": [1]}),
    ],
)
def test_a_field_is_text_where_it_may_be_and_json_where_it_may_not(argument: str, field: str, value: object) -> None:
    found = getattr(sent(All, argument), field)
    assert found == value
    assert type(found) is type(value)


def test_fields_of_fields_and_items_of_lists_add_up() -> None:
    message = sent(
        All, "tags[]=a", "tags[]=b", "person.name=Ada", "person.home.street=Main", "person.home.number=7", "table.x=1", "table.y=2"
    )
    assert message.tags == ["a", "b"]
    assert message.person == Person("Ada", Address("Main", 7))
    assert message.table == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tea"], "write key=value"),
        (["=tea"], "write key=value"),
        (["a b=tea"], "write key=value"),
        (["txt=tea"], "did you mean text"),
        (["person.nme=Ada"], "no field 'nme' of person; did you mean name"),
        (["text.x=5"], "no field 'x' of text: it takes none"),
        (["person..name=x"], "names no field"),
        (["whole=tea"], "whole: it takes integer, not 'tea'"),
        (["whole=1.5"], "it takes integer"),
        (["whole=true"], "it takes integer"),
        (["whole="], "it takes integer"),
        (["whole=NaN"], "it takes integer"),
        (["fast=yes"], "it takes boolean"),
        (["fast=1"], "it takes boolean"),
        (["number=x"], "it takes integer or null"),
        (["colour=green"], "it takes red or blue, not 'green'"),
        (["word=c"], "it takes a or b or 5"),
        (["text:=tea"], "not JSON"),
        (["text=a", "text=b"], "given twice"),
        (["tags=[]", "tags=[]"], "write tags[]=… for each item"),
        (['person={"name":"x"}', "person.name=y", "text=x"], "given twice"),
        (["person:=null", "person.name=y"], "as a whole and in parts"),
        (["tags:=null", "tags[]=y"], "as a whole and in parts"),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(arguments: list[str], says: str) -> None:
    description = described(All)
    with pytest.raises(click.UsageError) as caught:
        body_of(description, "x", arguments)
    assert says in caught.value.message


def test_what_is_missing_is_told() -> None:
    for arguments, says in (
        ([], "item= is missing: it takes string"),
        (["item=tea"], "person= is missing: it takes object"),
        (["item=tea", "person.address.number=5"], "person.name= is missing"),
        (["item=tea", "person.name=Ada", "person.address.number=5"], "person.address.street= is missing: it takes string"),
    ):
        with pytest.raises(click.UsageError) as caught:
            body_of(described(Needs), "x", arguments)
        assert says in caught.value.message
    assert sent(Needs, "item=tea", "person.name=Ada") == Needs("tea", Person("Ada"))


def test_files_are_text_json_or_bytes_as_the_field_is(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("two\nlines é", encoding="utf-8")
    (tmp_path / "json").write_text('{"name": "Ada"}', encoding="utf-8")
    (tmp_path / "raw").write_bytes(b"\x00\xff")
    message = sent(All, f"text=@{tmp_path}/text", f"person=@{tmp_path}/json", f"raw=@{tmp_path}/raw")
    assert (message.text, message.person, message.raw) == ("two\nlines é", Person("Ada"), b"\x00\xff")
    assert sent(All, f"anything:=@{tmp_path}/json").anything == {"name": "Ada"}
    for argument, says in (
        (f"text=@{tmp_path}/none", "written with two"),
        (f"text=@{tmp_path}/raw", "no UTF-8"),
        (f"text=@{tmp_path}", "cannot be read"),
        (f"person:=@{tmp_path}/text", "not JSON"),
    ):
        with pytest.raises(click.UsageError) as caught:
            body_of(described(All), "x", [argument])
        assert says in caught.value.message


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from the pipe")))
    assert sent(All, "text=@-").text == "from the pipe"


def test_bytes_are_base64_where_they_are_typed() -> None:
    assert sent(All, f"raw={base64.b64encode(b'hi').decode()}").raw == b"hi"


@pytest.mark.parametrize(
    "description",
    [
        {"x-retinue-messages": {"x": {}}},
        {"x-retinue-messages": {"x": {"schema": 5}}},
        {"x-retinue-messages": {"x": {"schema": {"$ref": "#/components/schemas/none"}}}},
        {"x-retinue-messages": {"x": {"schema": {"$ref": "#/c/loop"}}}, "components": {"schemas": {"loop": {"$ref": "#/c/loop"}}}},
    ],
)
def test_a_message_that_is_not_described_takes_what_is_typed(description: dict[str, Any]) -> None:
    assert body_of(description, "x", ["a=5", "b:=5", "c.d=x"]) == {"a": "5", "b": 5, "c": {"d": "x"}}
