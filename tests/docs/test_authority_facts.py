"""The pages about authority say what the code does: their tables are tried out, row by row, and their defaults compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

import retinue as rt
from housekeeping import ROOT
from retinue.security.authority import Authority
from retinue.security.limits import RISKS
from retinue.security.operations import Pattern

TEXT = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}


def table(page: str, header: str) -> list[list[list[str]]]:
    """The rows of the page's table with this header: for each cell the code in it."""
    lines = TEXT[page].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {header} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split(" | ")])
    assert found
    return found


def value(code: str) -> Any:
    """What the code stands for."""
    return eval(code, {"rt": rt})


def call(code: str) -> tuple[str, Mapping[str, Any]]:
    """An operation and its arguments, written as a call."""
    operation, _, arguments = code.partition("(")
    return operation, value(f"dict({arguments}")


def ids(row: Any) -> str | None:
    return row[0][0] if isinstance(row, list) and row[0] else None


@pytest.mark.parametrize("row", table("permissions.md", "pattern | names"), ids=ids)
def test_a_pattern_names_what_the_page_says(row: list[list[str]]) -> None:
    ((pattern,), named, others) = row
    assert [operation for operation in named if not Pattern(pattern).matches(operation)] == []
    assert [operation for operation in others if Pattern(pattern).matches(operation)] == []


@pytest.mark.parametrize("row", table("permissions.md", "restriction | permits"), ids=ids)
def test_a_restriction_permits_what_the_page_says(row: list[list[str]]) -> None:
    ((restriction,), permitted, refused) = row
    context = Authority(["**"]).root.narrow(value(restriction))
    assert permitted or refused
    assert [code for code in permitted if context.allows(*call(code)) is not True] == []
    assert [code for code in refused if context.allows(*call(code)) is not False] == []


@pytest.mark.parametrize("row", table("permissions.md", "constraint | holds for"), ids=ids)
def test_a_constraint_holds_for_what_the_page_says(row: list[list[str]]) -> None:
    ((constraint,), good, bad) = row
    assert good and bad
    assert [code for code in good if value(constraint).holds(value(code)) is not True] == []
    assert [code for code in bad if value(constraint).holds(value(code)) is not False] == []


@pytest.mark.parametrize(
    ("permissions", "permitted"),
    [
        ('["fs.read", "net.*"]', {"fs.read", "net.get"}),
        ('["**", rt.deny("fs.delete")]', {"fs.read", "net.get", "mail.send"}),
        ('["fs.*", "mail.*", rt.where("fs.*", path=rt.within("reports/"))]', {"fs.read", "fs.delete", "mail.send"}),
        ("[]", set()),
        ('[rt.deny("fs.delete")]', set()),
        ('["mail.*", rt.allow("fs.read", path=rt.within("reports/"))]', set()),
    ],
)
def test_a_list_permits_what_the_page_says(permissions: str, permitted: set[str]) -> None:
    assert f"| `{permissions}` |" in TEXT["permissions.md"]
    context = Authority().mint("ada", value(permissions))
    operations = ("fs.read", "fs.delete", "net.get", "mail.send")
    assert {operation for operation in operations if context.allows(operation, {"path": "reports/a"})} == permitted
    assert not context.allows("fs.read", {"path": "notes.txt"}) or "within" not in permissions


def test_every_limit_is_on_the_page_with_its_default() -> None:
    rows = {
        row[0][0]: line for row, line in zip(table("permissions.md", "field | unit"), _lines("permissions.md", "field | unit"), strict=True)
    }
    default = rt.Limits()
    assert set(rows) == {name.lstrip("_") for name in type(default).__slots__ if name != "__weakref__"}
    assert f"| {default.depth}, and never more |" in rows["depth"]
    assert f"| {default.risk} |" in rows["risk"]
    assert RISKS[default.risk] == "L3"
    assert all("unlimited" in rows[name] for name in ("calls", "tokens", "cost_micro_usd"))
    assert "never" in rows["deadline_ms"]


def _lines(page: str, header: str) -> list[str]:
    lines = TEXT[page].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {header} |"))
    end = next(number for number in range(start, len(lines)) if not lines[number].startswith("|"))
    return lines[start + 2 : end]


REASONS = re.findall(r'"(\w+)"', (rt.Denied.__doc__ or "").partition("reason:")[2])


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_of_a_refusal_is_on_the_page(reason: str) -> None:
    assert len(REASONS) == 13
    assert f"`{reason}`" in TEXT["security.md"]
