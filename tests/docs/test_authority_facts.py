"""The pages about authority say what the code does: their tables are tried out, row by row, and their defaults compared."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

import retinue as rt
from housekeeping import ROOT
from retinue.actors.budgets.ledger import MAX_OPEN, reserving
from retinue.actors.runtime.derivation import MAX_LEVELS
from retinue.capabilities.engine import DEFAULT_TIMEOUT
from retinue.capabilities.policy import MAX_REASON
from retinue.capabilities.policy_file import MAX_BYTES
from retinue.capabilities.registry import MAX_DESCRIPTION
from retinue.capabilities.registry_providers import STEP_TIMEOUT
from retinue.security import redaction
from retinue.security.audit import MAX_TEXT
from retinue.security.audit_chain import KINDS, MIN_KEY_BYTES
from retinue.security.authority import MAX_SOURCES, Authority
from retinue.security.constraints_base import MAX_ITEMS, MAX_NESTING
from retinue.security.constraints_scalars import MAX_VALUE_LENGTH
from retinue.security.limits import RISKS
from retinue.security.operations import MAX_OPERATION_LENGTH, Pattern
from retinue.security.restrictions import MAX_LABEL_LENGTH
from retinue.security.revocations import MAX_REVOKED
from retinue.security.seal import DEFAULT_SECONDS, MAX_SEALED, SKEW_MS
from retinue.security.seal_frame import MAX_BLOCKS, MAX_CHARACTERS
from retinue.security.sources import MAX_SOURCE_VALUES


def _parameter(function: Callable[..., Any], name: str) -> Any:
    """The default of a function's parameter."""
    return inspect.signature(function).parameters[name].default


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
    return eval(code, {"rt": rt, "Path": Path})


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
    assert len(REASONS) == 18
    assert f"`{reason}`" in TEXT["security.md"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_record_is_on_the_page(kind: str) -> None:
    assert re.search(rf'^\| "{kind}" \| \S', TEXT["audit.md"], re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "thing"),
    [("audit.md", rt.AuditEntry), ("policies.md", rt.PolicyCall), ("policies.md", rt.Capability), ("permissions.md", rt.Limits)],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_field_of_it_is_on_the_page(page: str, thing: Any) -> None:
    assert [field.name for field in attrs.fields(thing) if f"`{field.name}`" not in TEXT[page]] == []


TOKEN_REASONS = re.findall(r'"(\w+)"', (rt.TokenError.__doc__ or "").partition("reason:")[2])


def test_every_reason_of_a_refused_token_is_on_the_page() -> None:
    assert len(TOKEN_REASONS) == 11
    assert [reason for reason in TOKEN_REASONS if not re.search(rf"^\| `{reason}` \| \S", TEXT["tokens.md"], re.MULTILINE)] == []


NUMBERS = {
    "permissions.md": [
        (f"at most {MAX_OPERATION_LENGTH} characters", "an operation"),
        (f"Bounds: {MAX_ITEMS:,} values", "a constraint"),
        (f"{MAX_NESTING} levels of `each`", "nesting"),
        (f"{MAX_VALUE_LENGTH:,} characters in a value", "a value"),
        (f"{MAX_SOURCE_VALUES:,} values (`source", "a source"),
        (f"an authority {MAX_SOURCES:,}", "sources"),
        (f"1 to {MAX_LABEL_LENGTH} characters", "a label"),
    ],
    "policies.md": [
        (f"| {DEFAULT_TIMEOUT:g} s |", "policy_timeout"),
        (f"cut at {MAX_REASON} characters", "a reason"),
        (f"at most {MAX_DESCRIPTION:,} characters", "a description"),
        (f"{MAX_BYTES:,} bytes", "a policy file"),
        (f"may take {STEP_TIMEOUT:g} s", "a provider's step"),
    ],
    "audit.md": [
        (f"at most {MAX_TEXT:,} characters", "a text"),
        (f"`keep` | {_parameter(rt.AuditLog, 'keep'):,} records", "keep"),
        (f"none, {_parameter(rt.AuditLog, 'every'):,} records", "every"),
        (f"{MIN_KEY_BYTES} secret bytes at least", "a key"),
        (
            f"{redaction.MAX_TEXT:,} characters of a text, {redaction.MAX_ITEMS} items of a container, {redaction.MAX_DEPTH} levels",
            "redaction",
        ),
        (f"{redaction.MAX_PARTS:,} values in all", "redaction"),
    ],
    "budgets.md": [
        (f"{MAX_OPEN:,} of them", "reservations"),
        (f"seconds={_parameter(reserving, 'seconds')})", "reserving"),
    ],
    "tokens.md": [
        (f"| {DEFAULT_SECONDS:,.0f} s |", "a token's life"),
        (
            f"{MAX_CHARACTERS:,} characters, {MAX_BLOCKS} blocks (so it can be attenuated {MAX_BLOCKS - 1} times), {MAX_SEALED:,} tokens",
            "a token",
        ),
        (f"{SKEW_MS // 1000} s in the future", "the clocks"),
        (f"{MAX_REVOKED:,} ids", "revocations"),
        (f"rotate(keep={_parameter(rt.KeyFile.rotate, 'keep')})", "rotating"),
    ],
    "security.md": [(f"more than {MAX_LEVELS} levels", "levels")],
}


@pytest.mark.parametrize(("page", "text", "what"), [(page, *number) for page, numbers in NUMBERS.items() for number in numbers])
def test_numbers_are_those_of_the_code(page: str, text: str, what: str) -> None:
    assert text in " ".join(TEXT[page].split()), what
