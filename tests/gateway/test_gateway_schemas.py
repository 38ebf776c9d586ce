"""The schemas that a gateway shows: what the wire writes fits them, and what does not fit them the wire refuses."""

from __future__ import annotations

import dataclasses
import enum
import json
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given, settings

import retinue as rt
from gateway_shop import open_shop
from message_strategies import messages
from retinue.gateway.schemas import Schemas
from retinue.mailbox.messages import Message
from retinue.mailbox.wire import WireRegistry
from wire_examples import Anything, Batch, Colour, Item, Level, Mixed, Node, Pair, Pay, Point, Private, Rights, Wrapped

TYPES = {"string": str, "integer": int, "boolean": bool, "null": type(None), "array": list, "object": dict}


def fits(value: Any, schema: dict[str, Any], components: dict[str, Any]) -> bool:
    """JSON Schema, as much of it as our schemas use."""
    if "$ref" in schema:
        return fits(value, components[schema["$ref"].removeprefix("#/components/schemas/")], components)
    if "anyOf" in schema:
        return any(fits(value, one, components) for one in schema["anyOf"])
    if "const" in schema:
        return type(value) is type(schema["const"]) and bool(value == schema["const"])
    if "enum" in schema:
        return any(type(value) is type(one) and value == one for one in schema["enum"])
    kind = schema.get("type")
    if kind is None:
        return True
    if kind == "number":
        return type(value) in (int, float)
    if type(value) is not TYPES[kind]:
        return False
    if kind == "array":
        first = schema.get("prefixItems", [])
        size = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        rest = schema.get("items", {})
        return size and all(fits(item, first[index] if index < len(first) else rest, components) for index, item in enumerate(value))
    if kind == "object":
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        if any(name not in value for name in schema.get("required", ())) or (more is False and value.keys() - properties.keys()):
            return False
        return all(fits(item, properties.get(name, more if isinstance(more, dict) else {}), components) for name, item in value.items())
    return True


@settings(max_examples=40)
@given(messages())
def test_whatever_a_message_is_its_body_fits_its_schema(message: Message) -> None:
    registry = WireRegistry()
    registry.register(type(message))
    schemas = Schemas()
    schema = schemas.body(type(message))
    assert fits(json.loads(registry.encode(message))["body"], schema, schemas.components)


KINDS: list[tuple[Any, list[Any], list[Any]]] = [  # type, values, JSON values that are none of it
    (int, [1], ["1", 1.5, True, None]),
    (int | None, [1, None], ["1", []]),
    (int | str, [1, "a"], [None, [], 1.5]),
    (float, [1.5], ["1", None]),
    (Literal["a", 2], ["a", 2], ["b", 3, None]),
    (Colour, [Colour.RED], ["RED", 1]),
    (Level, [Level.LOW], [3, "LOW"]),
    (Mixed, [Mixed.ONE, Mixed.NONE], ["two", 1]),
    (Rights, [Rights.READ], ["READ"]),
    (bytes | None, [b"x", None], [1]),
    (bytes | str, [b"x", "x"], [1, {"type": "str", "body": "x"}]),
    (Point | Node, [Point(1), Node(1)], [{"x": 1}, {"type": "Item", "body": {}}]),
    (Point | None, [Point(1), None], [{"y": 1}, {"x": 1, "z": 1}, 3]),
    (list[Literal["a", 1] | str], [["a", "b", 1]], [[1]]),  # noqa: PYI051 - the wire has to cope with it
    (Literal["a"] | str, ["a", "b"], [1]),  # noqa: PYI051 - as above
    (Literal["a"] | None, ["a", None], ["b"]),
    (Colour | str, [Colour.RED, "x"], [1]),
    (Node, [Node(1, Node(2), (Node(3),))], [{"value": 1, "next": 2}, {}]),
    (Pair[int], [Pair(1, 2)], [{"first": 1, "second": "2"}]),
    (Item, [Item("a", ["b"])], [{"name": "a", "tags": "b"}]),
    (Private, [Private(1, only=2)], [{"hidden": 1, "made": 3}]),
    (tuple[int, str], [(1, "a")], [[1], [1, "a", 2], ["a", 1]]),
    (tuple[int, ...], [(), (1, 2)], [["a"], {}]),
    (list[Point], [[Point(1)]], [[1]]),
    (set[int], [{1, 2}], [{"a": 1}]),
    (dict[str, int], [{"a": 1}], [{"a": "b"}, [["a", 1]]]),
    (dict[int, int], [{1: 2}], [{"1": 2}, [[1]], [[1, "2"]]]),
    (dict[Colour, int], [{Colour.RED: 1}], [{"red": "x"}]),
    (list[Message], [[Pay(3)]], [[{"amount": 3}], [3]]),
    (Any, [1, {"a": [None]}], []),
    (Path, [Path("a/b")], [1]),
]


@pytest.mark.parametrize(("kind", "values", "others"), KINDS, ids=lambda item: str(item)[:40])
def test_a_types_schema_takes_what_the_wire_writes_and_refuses_what_the_wire_refuses(
    kind: Any, values: list[Any], others: list[Any]
) -> None:
    registry = WireRegistry()
    for cls in (Pay, Batch, Wrapped, Anything):
        registry.register(cls)
    schemas = Schemas()
    schema = schemas.of(kind)
    for value in values:
        assert fits(json.loads(registry.encode_value(value, kind)), schema, schemas.components), (value, schema)
    for other in others:
        assert not fits(other, schema, schemas.components), (other, schema)
        with pytest.raises(rt.WireError):
            registry.load_value(other, kind)


@rt.message(name="shop/Described@1")
class Described(rt.Request[Point]):
    """Says what it is for.

    And more that nobody needs.
    """

    name: str
    colour: Colour = Colour.RED
    items: list[str] = attrs.field(factory=list)
    much: float = 1.5


class Level2(enum.Enum):
    ONE = 1


@dataclasses.dataclass
class Bare:
    one: Level2 = Level2.ONE


def test_a_schema_says_what_is_needed_what_it_is_for_and_what_stands_where_nothing_is_given() -> None:
    schemas = Schemas()
    schema = schemas.body(Described)
    assert schema["description"] == "Says what it is for." and schema["required"] == ["name"] and schema["additionalProperties"] is False
    assert {name: one.get("default") for name, one in schema["properties"].items()} == {
        "name": None,
        "colour": "red",
        "items": None,
        "much": 1.5,
    }
    assert schemas.of(Bare) == {"$ref": "#/components/schemas/Bare"} and schemas.components["Bare"]["properties"]["one"] == {
        "enum": [1],
        "default": 1,
    }


class Describer(rt.Actor):
    @rt.handler(requires="shop.describe")
    def describe(self, message: Described) -> Point:
        return Point(len(message.name))


async def test_the_description_shows_what_the_token_may_reach_and_nothing_else(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await shop.system.spawn(Describer, name="describer")
        for permissions, seen, actors in (
            (("shop.describe",), {"shop/Described@1", "shop/Greet@1"}, ["/user/describer", "/user/shop"]),
            (("shop.write",), {"shop/Note@1", "shop/Greet@1"}, ["/user/shop"]),
        ):
            headers = {"Authorization": f"Bearer {shop.mint('eve', *permissions)}"}
            answer = (await shop.client.get("/v1/openapi.json", headers=headers)).json()
            assert (
                answer["openapi"] == "3.1.0"
                and answer["x-retinue-messages"].keys() == seen
                and sorted(answer["x-retinue-actors"]) == actors
            )
            one = (await shop.client.get("/v1/openapi.json", params={"path": "/user/describer"}, headers=headers)).json()
            assert list(one["x-retinue-actors"]) == [path for path in actors if path == "/user/describer"]
        nothing = rt.attenuate(shop.token, [])
        assert (await shop.client.get("/v1/openapi.json", headers={"Authorization": f"Bearer {nothing}"})).status_code == 403


async def test_the_list_of_actors_takes_an_operation_of_its_own(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        refused = await shop.client.get("/v1/actors")
        assert refused.status_code == 403 and refused.json()["error"]["operation"] == "system.inspect"
        answer = await shop.client.get("/v1/actors", headers={"Authorization": f"Bearer {shop.mint('root', 'system.inspect')}"})
        [listed] = answer.json()["actors"]
        assert (listed["path"], listed["class"], listed["depth"], listed["state"]) == ("/user/shop", "Shop", 0, "idle")
        assert "shop/Price@1" in listed["messages"]


async def test_a_system_of_many_actors_is_described_in_part_and_each_actor_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.gateway.wires.MOST_LISTED", 5)
    async with open_shop(tmp_path) as shop:
        headers = {"Authorization": f"Bearer {shop.mint('eve', 'shop.describe', 'system.inspect')}"}
        for number in range(10):
            await shop.system.spawn(Describer, name=f"d{number}")
        everything = (await shop.client.get("/v1/openapi.json", headers=headers)).json()
        assert len(everything["x-retinue-actors"]) == 5
        assert len((await shop.client.get("/v1/actors", headers=headers)).json()["actors"]) == 5
        for path, actors in (
            ("/user/d9", {"/user/d9": ["shop/Described@1"]}),
            ("/user/none", {}),
            ("/system/approvals", {}),
            ("nonsense", {}),
        ):
            assert (await shop.client.get("/v1/openapi.json", params={"path": path}, headers=headers)).json()["x-retinue-actors"] == actors
