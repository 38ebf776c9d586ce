"""The pages about approvals and the gateway say what the code does: their tables and numbers are compared with it."""

from __future__ import annotations

import inspect
import re
from typing import Any

import attrs
import pytest

import retinue as rt
from housekeeping import ROOT
from retinue.actors.approvals import tables, works_asking, works_spending
from retinue.actors.approvals.book import SystemApprovals
from retinue.actors.approvals.ledger import CLOCK_TOLERANCE_MS
from retinue.actors.approvals.review import MAX_NOTE
from retinue.actors.runtime.approving import MOST_LIFETIME
from retinue.actors.store.database import BUSY_TIMEOUT
from retinue.capabilities.consent import MAX_APPROVALS
from retinue.cli.serve import PORT, SETTLE
from retinue.client import session
from retinue.gateway import Bounds, Gateway
from retinue.gateway.app import _routes
from retinue.remote import CROSSING
from retinue.security import approval_keys, approval_tokens, approvals

PAGES = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
APPROVALS, GATEWAY = PAGES["approvals.md"], PAGES["gateway.md"]


def rows(page: str, header: str) -> dict[str, str]:
    """The rows of the page's table with this header: the first cell → the others."""
    lines = page.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {header} |"))
    end = next(number for number in range(start, len(lines)) if not lines[number].startswith("|"))
    cells = [line.strip("|").split(" | ", 1) for line in lines[start + 2 : end]]
    return {first.strip(): rest for first, rest in cells}


def words(cell: str) -> list[str]:
    return re.findall(r'"(\w+)"', cell)


# -- approvals ---------------------------------------------------------------------------------------------------------------------------------------------


def test_every_status_of_a_request_is_explained() -> None:
    assert {word for cell in rows(APPROVALS, "status | how it comes to be") for word in words(cell)} == set(approvals.STATUSES)


def test_every_field_of_a_request_is_named() -> None:
    properties = [name for name, part in vars(rt.ApprovalRequest).items() if isinstance(part, property)]
    fields = [field.name for field in attrs.fields(rt.ApprovalRequest)]
    assert [name for name in (*fields, *properties) if f"`{name}`" not in APPROVALS] == []


def test_every_part_of_a_binding_has_its_reason() -> None:
    bound = {word for cell in rows(APPROVALS, "bound | refused with `reason` where it differs").values() for word in words(cell)}
    assert bound == {*approval_tokens._REASONS.values(), "expired", "not_yet_valid", "spent"}


def test_every_reason_of_an_approval_error_is_explained() -> None:
    documented = {word for cell in rows(APPROVALS, "`reason` | what") for word in words(cell)}
    assert {word for word in words((rt.ApprovalError.__doc__ or "").partition("reason:")[2]) if word not in documented} == set()


def test_every_method_of_the_desk_is_on_the_page() -> None:
    methods = [name for name in vars(SystemApprovals) if not name.startswith("_") and name != "desk"]
    assert len(methods) >= 15
    assert [name for name in methods if not re.search(rf"`{name}\(", APPROVALS)] == []


@pytest.mark.parametrize("verdict", ["approve", "reject", "respond", "edit"])
def test_every_answer_of_a_reviewer_in_code_is_on_the_page(verdict: str) -> None:
    assert callable(getattr(rt.Review, verdict))
    assert f"`{verdict}(" in APPROVALS.partition("## A reviewer in code")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    "text",
    [
        f"{works_asking.MAX_PENDING:,} in all, {works_asking.MAX_PENDING_OF_SUBJECT:,} of one subject",
        f"{works_asking.MAX_BYTES:,} characters in all, {works_asking.MAX_BYTES_OF_SUBJECT:,} of one subject, {works_asking.MAX_ARGUMENTS:,} of one request",
        f"| {works_asking.MAX_AN_HOUR:,}, and {works_asking.MAX_BYTES_AN_HOUR:,} characters",
        f"from 1 s to {MOST_LIFETIME // 86_400} days",
        f"| consents in advance in force | {works_spending.MAX_STANDING:,} |",
        f"| tokens with one message | {MAX_APPROVALS} |",
        f"Up to {MAX_APPROVALS} tokens",
        f"| a token | {approval_tokens.MAX_CHARACTERS:,} characters |",
        f"| a reviewer's note | {MAX_NOTE:,} characters |",
        f"| remarks on one request | {works_asking.MAX_FEEDBACK:,} |",
        f"| a request waits for a person | {approvals.REQUEST_LIFETIME_MS // 86_400_000} days;",
        f"| a token, from the approval on | {approval_tokens.MAX_LIFETIME_MS // 1000:,} s, and never longer",
        f"{tables.KEEP_MS // 86_400_000} days at least",
        f"more than {CLOCK_TOLERANCE_MS // 1000} s behind",
        f"locked for more than {BUSY_TIMEOUT:g} s",
        f"{inspect.signature(rt.ActorSystem.__init__).parameters['reviewer_timeout'].default:g} s without one",
        f"`{approval_keys.PRIVATE_NAME}`",
        f"`{approval_keys.PUBLIC_NAME}`",
    ],
)
def test_numbers_of_approvals_are_those_of_the_code(text: str) -> None:
    assert text in " ".join(APPROVALS.split())


# -- the gateway -------------------------------------------------------------------------------------------------------------------------------------------


def test_every_bound_is_on_the_page_with_its_default() -> None:
    documented = rows(GATEWAY, "limit | default | beyond it")
    named = {name for cell in documented for name in re.findall(r"`(\w+)`", cell)}
    assert named == {field.name for field in attrs.fields(Bounds)}
    for names, rest in documented.items():
        numbers = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", rest.partition(" | ")[0])]
        for position, name in enumerate(re.findall(r"`(\w+)`", names)):
            assert numbers[position] == getattr(Bounds(), name), name


def test_every_endpoint_is_on_the_page() -> None:
    documented = " ".join(rows(GATEWAY, "endpoint | body | answer"))
    unused: Any = type("Unused", (), {"__getattr__": lambda self, name: name})()
    routes = [(method, route.path) for route in _routes(unused, unused, unused) for method in route.methods or ()]
    assert len(routes) == 12
    for method, path in routes:
        short = path.replace("{id}", "ID")
        assert f"{method} {short}" in documented or f"…/{short.rpartition('/')[2]}" in documented, path


def test_every_status_is_explained() -> None:
    documented = {int(status) for cell in rows(GATEWAY, "status | what") for status in re.findall(r"\d{3}", cell)}
    fixed = {crossing.status for crossing in CROSSING.values() if isinstance(crossing.status, int)}
    assert fixed - documented == set()
    assert documented >= {400, 401, 403, 404, 405, 408, 413, 415, 421, 429, 503}


def test_every_reason_of_a_gateway_error_is_explained() -> None:
    documented = {word for cell in rows(GATEWAY, "`GatewayError.reason` | what") for word in words(cell)}
    assert documented == set(words((rt.GatewayError.__doc__ or "").partition("reason:")[2]))


def test_every_argument_of_a_gateway_and_of_a_client_is_on_the_page() -> None:
    arguments = [*inspect.signature(Gateway).parameters, *inspect.signature(rt.connect).parameters]
    assert [
        name for name in arguments if name not in ("system", "sealer", "bounds") and not re.search(rf"`([^`]*\b)?{name}\b", GATEWAY)
    ] == []


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("gateway.md", f"--port {PORT} "),
        ("gateway.md", f"(or after {SETTLE:g} s, where it goes on)"),
        ("gateway.md", f"| `timeout` | {session.TIMEOUT:g} s |"),
        ("gateway.md", f"| `connect_timeout` | {session.CONNECT_TIMEOUT:g} s |"),
        ("gateway.md", f"| `max_answer` | {session.MAX_ANSWER:,} bytes |"),
        ("gateway.md", f"gives what is under way {inspect.signature(Gateway.stop).parameters['grace'].default:g} s"),
    ],
)
def test_numbers_of_the_gateway_are_those_of_the_code(page: str, text: str) -> None:
    assert text in " ".join(PAGES[page].split())
