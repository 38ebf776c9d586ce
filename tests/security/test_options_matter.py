"""Every documented option changes a verdict: one without effect would be a promise that nobody keeps.

Each row is an option, a call that is decided one way without it, and another way with it. A test holds the rows equal to what the functions take, so a new option
without a row fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_authority import error_of
from retinue.actors.runtime.approving import _load
from retinue.capabilities.budgets import Ledger
from retinue.security import Authority

NOW = 2 * 10**12
N_SMALL = {"n": rt.at_most(10)}
HUNDRED = {"n": 100}


def said(*restrictions: Any, arguments: Any = None, later: int = 0, risk: Any = None) -> bool:
    """Whether a context with these restrictions permits `fs.read`, some ms after it was made."""
    now = NOW
    authority = Authority(clock=lambda: now)
    authority.source("ids").add("a")
    context = authority.mint("ada", ["**", *restrictions])
    now += later
    return context.allows("fs.read", arguments, risk=risk)


def reserved(restriction: Any, **amounts: int) -> bool:
    """Whether so much may be reserved under it."""
    authority = Authority()
    context = authority.mint("ada", ["**", restriction])
    if not context.accounts:
        return True
    try:
        Ledger(authority.now_ms).reserve(context.accounts, **amounts)
    except rt.BudgetExceeded:
        return False
    return True


def wants_another(*restrictions: Any) -> bool:
    """Whether the consent that such a context asks for has to come from another person."""
    return Authority().mint("ada", ["**", *restrictions]).permissions.wants_four_eyes("fs.read")


def holds(constraint: Any, value: Any) -> bool:
    return said(rt.where("fs.*", x=constraint), arguments={"x": value})


OPTIONS: dict[tuple[Any, str], tuple[Callable[[], bool], Callable[[], bool]]] = {
    (rt.allow, "patterns"): (lambda: said(rt.allow("web.*")), lambda: said(rt.allow("fs.read"))),
    (rt.allow, "open"): (
        lambda: said(rt.allow("fs.*", n=rt.at_most(10)), arguments={"n": 1, "x": 1}),
        lambda: said(rt.allow("fs.*", n=rt.at_most(10), open=True), arguments={"n": 1, "x": 1}),
    ),
    (rt.allow, "arguments"): (
        lambda: said(rt.allow("fs.*"), arguments=HUNDRED),
        lambda: said(rt.allow("fs.*", arguments=N_SMALL), arguments=HUNDRED),
    ),
    (rt.allow, "constraints"): (
        lambda: said(rt.allow("fs.*"), arguments=HUNDRED),
        lambda: said(rt.allow("fs.*", **N_SMALL), arguments=HUNDRED),
    ),
    (rt.where, "patterns"): (
        lambda: said(rt.where("web.*", **N_SMALL), arguments=HUNDRED),
        lambda: said(rt.where("fs.*", **N_SMALL), arguments=HUNDRED),
    ),
    (rt.where, "arguments"): (lambda: said(arguments=HUNDRED), lambda: said(rt.where("fs.*", arguments=N_SMALL), arguments=HUNDRED)),
    (rt.where, "constraints"): (lambda: said(arguments=HUNDRED), lambda: said(rt.where("fs.*", **N_SMALL), arguments=HUNDRED)),
    (rt.deny, "patterns"): (lambda: said(rt.deny("web.*")), lambda: said(rt.deny("fs.*"))),
    (rt.limit, "calls"): (lambda: said(rt.limit(calls=1)), lambda: said(rt.limit(calls=0))),
    (rt.limit, "tokens"): (lambda: reserved(rt.limit(calls=9), tokens=11), lambda: reserved(rt.limit(tokens=10), tokens=11)),
    (rt.limit, "cost_usd"): (
        lambda: reserved(rt.limit(calls=9), cost_micro_usd=11),
        lambda: reserved(rt.limit(cost_usd="0.00001"), cost_micro_usd=11),
    ),
    (rt.expires, "seconds"): (lambda: said(rt.expires(seconds=2), later=1_500), lambda: said(rt.expires(seconds=1.5), later=1_500)),
    (rt.expires, "at"): (
        lambda: said(rt.expires(at=datetime(9999, 1, 1, tzinfo=UTC))),
        lambda: said(rt.expires(at=datetime(2000, 1, 1, tzinfo=UTC))),
    ),
    (rt.max_risk, "risk"): (lambda: said(rt.max_risk("L2"), risk="L2"), lambda: said(rt.max_risk("L1"), risk="L2")),
    (rt.needs_approval, "patterns"): (lambda: said(rt.needs_approval("web.*")), lambda: said(rt.needs_approval("fs.*"))),
    (rt.needs_approval, "unless"): (
        lambda: said(rt.needs_approval("fs.*"), arguments={"n": 1}),
        lambda: said(rt.needs_approval("fs.*", unless=N_SMALL), arguments={"n": 1}),
    ),
    (rt.needs_approval, "four_eyes"): (
        lambda: wants_another(rt.needs_approval("fs.*")),
        lambda: wants_another(rt.needs_approval("fs.*", four_eyes=True)),
    ),
    (rt.label, "names"): (
        lambda: said(rt.unlabelled("fs.*", labels=["web"]), rt.label()),
        lambda: said(rt.unlabelled("fs.*", labels=["web"]), rt.label("web")),
    ),
    (rt.unlabelled, "patterns"): (
        lambda: said(rt.unlabelled("web.*", labels=["web"]), rt.label("web")),
        lambda: said(rt.unlabelled("fs.*", labels=["web"]), rt.label("web")),
    ),
    (rt.unlabelled, "labels"): (
        lambda: said(rt.unlabelled("fs.*", labels=["mail"]), rt.label("web")),
        lambda: said(rt.unlabelled("fs.*", labels=["web"]), rt.label("web")),
    ),
    (rt.within, "folders"): (lambda: holds(rt.within("a/"), "b/x"), lambda: holds(rt.within("a/", "b/"), "b/x")),
    (rt.host, "names"): (
        lambda: holds(rt.host("a.example"), "https://b.example/"),
        lambda: holds(rt.host("b.example"), "https://b.example/"),
    ),
    (rt.host, "schemes"): (
        lambda: holds(rt.host("a.example"), "http://a.example:443/"),
        lambda: holds(rt.host("a.example", schemes=("http",)), "http://a.example:443/"),
    ),
    (rt.host, "ports"): (
        lambda: holds(rt.host("a.example"), "https://a.example:8443/"),
        lambda: holds(rt.host("a.example", ports=(8443,)), "https://a.example:8443/"),
    ),
    (rt.one_of, "values"): (lambda: holds(rt.one_of("a"), "b"), lambda: holds(rt.one_of("a", "b"), "b")),
    (rt.at_most, "high"): (lambda: holds(rt.at_most(1), 2), lambda: holds(rt.at_most(2), 2)),
    (rt.at_least, "low"): (lambda: holds(rt.at_least(3), 2), lambda: holds(rt.at_least(2), 2)),
    (rt.between, "low"): (lambda: holds(rt.between(3, 9), 2), lambda: holds(rt.between(2, 9), 2)),
    (rt.between, "high"): (lambda: holds(rt.between(0, 1), 2), lambda: holds(rt.between(0, 2), 2)),
    (rt.max_length, "most"): (lambda: holds(rt.max_length(1), "ab"), lambda: holds(rt.max_length(2), "ab")),
    (rt.each, "constraint"): (lambda: holds(rt.each(rt.at_most(1)), [1, 2]), lambda: holds(rt.each(rt.at_most(2)), [1, 2])),
    (rt.any_of, "constraints"): (lambda: holds(rt.any_of(rt.at_most(1)), 2), lambda: holds(rt.any_of(rt.at_most(1), rt.one_of(2)), 2)),
    (rt.known_from, "source"): (lambda: holds(rt.known_from("others"), "a"), lambda: holds(rt.known_from("ids"), "a")),
}
"""Function and option: the verdict without it (or with another value), and with it."""

ELSEWHERE = {
    (rt.limit, "depth"): "it bounds spawns: see below",
    (rt.deny, "constraints"): "they are refused, with the advice to use where(…): see below",
}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: f"{option[0].__name__}({option[1]}=)")
def test_an_option_of_a_restriction_or_constraint_changes_a_verdict(option: Any) -> None:
    without, with_it = OPTIONS[option]
    assert without() is not with_it()


def test_no_option_of_a_restriction_or_constraint_was_forgotten() -> None:
    """`bare` is no option: it takes what was given without a name, to refuse it with advice."""
    functions = {function for function, _ in OPTIONS}
    documented = {(function, name) for function in functions for name in inspect.signature(function).parameters if name != "bare"}
    assert documented == {*OPTIONS, *ELSEWHERE}


def test_a_constraint_on_deny_is_refused() -> None:
    with pytest.raises(rt.ConstraintError, match="where"):
        rt.deny("fs.read", n=rt.at_most(1))


# -- options of a system ----------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Read(rt.Request[str]):
    path: str = ""


@rt.message
class Nest(rt.Request[str]):
    """Spawn a child."""


def files(**options: Any) -> type[rt.Actor]:
    class Files(rt.Actor):
        @rt.handler(requires="fs.read", **options)
        def read(self, message: Read) -> str:
            return "read"

        @rt.handler(requires="actor.nest")
        async def nest(self, _: Nest) -> str:
            await self.ctx.spawn(Files)
            return "spawned"

    return Files


@rt.policy(operations=["fs.read"])
def refuses(_: Any) -> rt.Verdict:
    return rt.Verdict.refuse("no")


@rt.policy(operations=["web.get"])
def refuses_another(_: Any) -> rt.Verdict:
    return rt.Verdict.refuse("no")


@rt.policy
async def slow(_: Any) -> rt.Verdict:
    await trio.sleep(2)
    return rt.Verdict.allow()


def registry(**options: Any) -> rt.CapabilityRegistry:
    made = rt.CapabilityRegistry()
    made.declare(rt.Capability("fs.read", **options))
    return made


async def verdict(*, handler: Any = (), grant: Any = None, permissions: Any = ("**",), message: Any = None, **options: Any) -> str:
    """What becomes of a request: "read", "spawned", or the reason of the refusal."""
    async with rt.ActorSystem(**options) as system:
        ref = await system.spawn(files(**dict(handler)), grant=grant)
        answer = await error_of(ref.ask(Read() if message is None else message, context=system.authority.mint("ada", permissions)))
        return answer if isinstance(answer, str) else getattr(answer, "reason", type(answer).__name__)


SYSTEM: dict[str, tuple[dict[str, Any], str]] = {
    "handler risk": ({"handler": {"risk": "L2"}, "permissions": ["**", rt.max_risk("L1")]}, "risk"),
    "handler risk, lower": ({"handler": {"risk": "L1"}, "permissions": ["**", rt.max_risk("L1")]}, "read"),
    "handler approval": ({"handler": {"approval": True}}, "ApprovalRequired"),
    "spawn grant": ({"grant": ["web.*"]}, "permission"),
    "policies": ({"policies": [refuses]}, "policy"),
    "policy operations": ({"policies": [refuses_another]}, "read"),
    "policy_timeout, shorter": ({"policies": [slow], "policy_timeout": 1}, "policy"),
    "policy_timeout, longer": ({"policies": [slow], "policy_timeout": 3}, "read"),
    "capabilities, unknown": ({"capabilities": rt.CapabilityRegistry()}, "unknown_operation"),
    "capabilities, known": ({"capabilities": registry()}, "read"),
    "capability risk": ({"capabilities": registry(risk="L2"), "permissions": ["**", rt.max_risk("L1")]}, "risk"),
    "capability risk, lower": ({"capabilities": registry(risk="L1"), "permissions": ["**", rt.max_risk("L1")]}, "read"),
    "capability approval": ({"capabilities": registry(approval=True)}, "ApprovalRequired"),
    "limit depth": ({"permissions": ["**", rt.limit(depth=0)], "message": Nest()}, "depth"),
    "limit depth, more": ({"permissions": ["**", rt.limit(depth=1)], "message": Nest()}, "spawned"),
}


@pytest.mark.parametrize("option", SYSTEM)
async def test_an_option_of_a_system_changes_a_verdict(option: str, autojump_clock: MockClock) -> None:
    given, expected = SYSTEM[option]
    _load()  # the desk; else it is loaded in a thread, which a clock that jumps does not wait for
    assert await verdict() == "read"
    assert await verdict(**given) == expected


async def test_what_the_root_may_bounds_the_system_and_strict_refuses_open_handlers() -> None:
    class Open(rt.Actor):
        @rt.handler
        def read(self, message: Read) -> str:
            return "read"

    async with rt.ActorSystem(permissions=["web.*"]) as system:
        ref = await system.spawn(files())
        assert isinstance(await error_of(ref.ask(Read())), rt.Denied)
        assert await (await system.spawn(Open)).ask(Read()) == "read"
    async with rt.ActorSystem(strict=True) as system:
        with pytest.raises(rt.DefinitionError):
            await system.spawn(Open)


async def test_audit_and_data_dir_decide_what_is_on_record(tmp_path: Path) -> None:
    found = []
    for options in ({}, {"audit": False}, {"data_dir": tmp_path}):
        async with rt.ActorSystem(**options) as system:  # type: ignore[arg-type]
            ref = await system.spawn(files(), grant=[])
            await error_of(ref.ask(Read()))
            found.append((len(await system.audit.entries(allowed=False)), (tmp_path / "audit.jsonl").exists()))
    assert found == [(1, False), (0, False), (1, True)]


def opened(
    sealer: dict[str, Any] | None = None,
    seal: dict[str, Any] | None = None,
    unseal: dict[str, Any] | None = None,
    later: int = 0,
    **more: Any,
) -> str:
    """What becomes of a token: "opened", or the reason of the refusal."""
    now = NOW
    authority = Authority(clock=lambda: now)
    made = rt.Sealer(authority, rt.KeyRing.generate(), **(sealer or {}))
    token = made.seal(authority.mint("ada", ["fs.read"]), **(seal or {}))
    if more:
        token = rt.attenuate(token, **more)
    now += later
    try:
        return "opened" if made.unseal(token, **(unseal or {})).allows("fs.read") else "nothing"
    except rt.TokenError as error:
        return error.reason


def test_an_option_of_a_token_changes_whether_it_is_opened() -> None:
    assert opened() == "opened"
    assert opened(later=3_600_000) == "expired"
    assert opened(seal={"expires_seconds": 7_200}, later=3_600_000) == "opened"
    assert opened(seal={"audience": "a"}, unseal={"audience": "b"}) == "audience"
    assert opened(seal={"audience": "a"}, unseal={"audience": "a"}) == "opened"
    assert opened(sealer={"audience": "a"}, seal={"audience": "b"}) == "audience"
    assert opened(sealer={"audience": "a"}, audience="b") == "audience"


def test_the_risk_that_is_asked_about_changes_the_answer() -> None:
    assert said(rt.max_risk("L1"), risk="L1") is True
    assert said(rt.max_risk("L1")) is False, "what nobody rated is L3"


def test_an_amount_is_an_amount_in_every_spelling() -> None:
    for amount in ("0.00001", Decimal("0.00001")):
        assert reserved(rt.limit(cost_usd=amount), cost_micro_usd=10)
        assert not reserved(rt.limit(cost_usd=amount), cost_micro_usd=11)
