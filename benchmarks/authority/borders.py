"""Sealed tokens, canonical bytes, budgets and audit records; biscuit-python beside the tokens, where it is installed."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import retinue as rt
from benchmarks.authority.decisions import repeated
from benchmarks.harness import Block, BrokenBlock, Timer
from retinue.capabilities.budgets import Ledger
from retinue.security.audit import AuditLog
from retinue.security.audit_file import AuditFile
from retinue.security.authority import Authority
from retinue.security.canonical import canonical, digest
from retinue.security.keys import KeyRing
from retinue.security.seal import Sealer, attenuate

__all__ = ["records", "tokens"]

_FIVE: Sequence[Callable[[], Any]] = (
    lambda: rt.allow("fs.read", "fs.list"),
    lambda: rt.where("fs.read", path=rt.within("reports/")),
    lambda: rt.deny("fs.delete"),
    lambda: rt.limit(calls=100),
    lambda: rt.expires(seconds=600),
)


def _five_times(token: str) -> str:
    for restriction in _FIVE:
        token = attenuate(token, restriction())
    return token


def tokens() -> dict[str, Block]:
    """Ours, and biscuit-python's nearest."""
    ring = KeyRing.generate()

    def fresh() -> tuple[Sealer, rt.SecurityContext]:
        authority = Authority()
        context = (
            authority.mint("bench", ["fs.*", "net.get"])
            .narrow(rt.deny("fs.format"))
            .narrow(rt.where("net.get", url=rt.host("example.org")))
        )
        return Sealer(authority, ring), context

    def seal(count: int) -> float:
        sealer, context = fresh()
        with Timer() as timer:
            for _ in range(count):
                token = sealer.seal(context)
        if sealer.unseal(token).permissions.permits("fs.format"):
            raise BrokenBlock("a token permits more than what was sealed")
        return timer.seconds

    def warm(count: int) -> float:
        sealer, context = fresh()
        token = _five_times(sealer.seal(context))
        opened = sealer.unseal(token)
        with Timer() as timer:
            for _ in range(count):
                again = sealer.unseal(token)
        if again is not opened:
            raise BrokenBlock("a token that was opened twice gave two contexts")
        return timer.seconds

    def cold(count: int) -> float:
        sealer, context = fresh()
        sealed = sealer.seal(context)
        each = [attenuate(_five_times(sealed), rt.where("fs.list", path=rt.within(f"folder{number}/"))) for number in range(count)]
        other = Sealer(Authority(), ring)
        with Timer() as timer:
            opened = [other.unseal(token) for token in each]
        if len(set(opened)) != count or any(context.permissions.permits("fs.delete") for context in opened):
            raise BrokenBlock("tokens were opened to the wrong contexts")
        return timer.seconds

    sealer, context = fresh()
    sealed = sealer.seal(context)
    return {
        "seal": Block(seal, most=4000),
        "attenuate, five times": repeated(lambda: _five_times(sealed)),
        "unseal, warm": Block(warm, note=f"five attenuations, {len(_five_times(sealed)):,} characters"),
        "unseal, cold": Block(cold, most=500),
        **_biscuit(),
    }


def _biscuit() -> dict[str, Block]:
    if importlib.util.find_spec("biscuit_auth") is None:
        return {}
    import datetime

    from biscuit_auth import AuthorizerBuilder, Biscuit, BiscuitBuilder, BlockBuilder, KeyPair

    pair = KeyPair()
    checks = [
        'check if operation("fs", "read") or operation("fs", "list");',
        'check if path($path), $path.starts_with("reports/");',
        'reject if operation("fs", "delete");',
        "check if calls($calls), $calls <= 100;",
        "check if time($time), $time <= {until};",
    ]
    until = datetime.datetime.now(tz=datetime.UTC) + datetime.timedelta(seconds=600)

    def mint() -> Any:
        return BiscuitBuilder('user({user}); right("fs", "read"); right("fs", "list"); right("net", "get");', {"user": "bench"}).build(
            pair.private_key
        )

    def append(token: Any) -> Any:
        for check in checks:
            token = token.append(BlockBuilder(check, {"until": until}) if "{until}" in check else BlockBuilder(check))
        return token

    def authorize(token: Any) -> Any:
        now = datetime.datetime.now(tz=datetime.UTC)
        facts = 'operation("fs", "read"); path("reports/q3.txt"); calls(1); time({now}); allow if right("fs", "read");'
        builder = AuthorizerBuilder(facts, {"now": now})
        limits = builder.limits()
        limits.max_time = datetime.timedelta(seconds=1)  # its default of 1 ms refuses valid requests on a busy machine
        builder.set_limits(limits)
        return builder.build(token).authorize()

    minted = mint()
    attenuated = append(minted)
    text = attenuated.to_base64()
    authorize(attenuated)
    return {
        "biscuit-python: mint": repeated(mint),
        "biscuit-python: attenuate, five times": repeated(lambda: append(minted)),
        "biscuit-python: parse and verify": Block(
            repeated(lambda: Biscuit.from_base64(text, pair.public_key)).run, note=f"five attenuations, {len(text):,} characters"
        ),
        "biscuit-python: authorize": repeated(lambda: authorize(attenuated)),
    }


@rt.message
class Mail(rt.Request[None]):
    to: tuple[str, ...]
    subject: str
    body: str
    amount: float
    urgent: bool


def records() -> dict[str, Block]:
    """What stands behind budgets, approvals and the audit."""
    mail = Mail(("ada@example.org", "bob@example.org"), "The third quarter", "Dear all, " * 45, 12.5, True)
    size = len(canonical(mail))
    authority = Authority()
    ledger = Ledger(authority.now_ms)
    context = authority.mint("bench", ["fs.*"])
    for calls in (3_000_000, 2_000_000, 1_000_000):
        context = context.narrow(rt.limit(calls=calls * 1000, tokens=calls * 1000))

    def spend() -> None:
        ledger.settle(ledger.reserve(context.accounts, calls=1, tokens=100), calls=1, tokens=80)

    log = AuditLog()

    def record(to: AuditLog) -> Callable[[], object]:
        return lambda: to.record("decision", allowed=True, operation="fs.read", security=context, path="/user/files", message_type="Read")

    def in_file(count: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            sink = AuditFile(Path(folder) / "audit.jsonl")
            kept = AuditLog(bytes(range(32)), sink=sink)
            seconds = repeated(record(kept)).run(count)
            kept.close()
        return seconds

    return {
        "canonical digest": Block(repeated(lambda: digest(mail)).run, note=f"{size} bytes"),
        "keyed arguments digest": repeated(lambda: log.digest({"to": mail.to, "subject": mail.subject, "body": mail.body})),
        "reserve and settle, three accounts": repeated(spend),
        "audit record, in memory": repeated(record(log)),
        "audit record, in a file": Block(in_file, note="flushed a record; synced at its end"),
    }
