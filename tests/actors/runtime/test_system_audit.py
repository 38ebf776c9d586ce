"""`system.audit`, `system.budgets` and `system.sealer`: what is on record, exactly, and where it lies."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

import retinue as rt
from core_authority import Send, Touch, Vault, error_of
from core_puppet import Call, Do, Puppet
from retinue.actors.runtime import auditing
from retinue.security.audit_file import read_audit_file


async def kinds(system: rt.ActorSystem) -> list[str]:
    return [entry.kind for entry in await system.audit.entries()]


# -- what is recorded --------------------------------------------------------------------------------------------------------------------------------


async def test_a_system_records_its_start_what_is_minted_and_what_is_revoked() -> None:
    async with rt.ActorSystem("shop") as system:
        ada = system.authority.mint("ada", ["vault.**"], tenant="acme")
        system.authority.revoke(ada)
        start, mint, revoke = await system.audit.entries()
        assert (start.kind, start.subject) == ("start", "root")
        assert "shop" in start.detail
        assert (mint.kind, mint.subject, mint.tenant, mint.context) == ("mint", "ada", "acme", ada.id)
        assert "vault.**" in mint.detail
        assert (revoke.kind, revoke.context) == ("revoke", ada.id)
        assert await system.audit.verify() == 3


async def test_a_refusal_is_on_record_before_it_is_answered(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault, name="vault")
        ada = system.authority.mint("ada", ["vault.touch"])
        assert isinstance(await error_of(vault.ask(Send("secret-payee", 77), context=ada)), rt.Denied)
        vault.tell(Send("secret-payee", 77), context=ada)
        await system.wait_quiet()
        entries = await system.audit.entries(allowed=False, operation="vault.send")
        assert len(entries) == 2
        for entry in entries:
            assert (entry.kind, entry.path, entry.subject, entry.reason) == ("decision", "/user/vault", "ada", "permission")
            assert entry.message_type == "Send"
            assert entry.arguments_digest
            assert "secret-payee" not in entry.line


async def test_from_l2_on_an_allow_is_a_record_and_so_is_how_it_ended(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault = await system.spawn(Vault)
        await vault.ask(Send("a", 1))
        await vault.ask(Send("b", 2), detached=True)
        vault.tell(Send("c", 3))
        await system.wait_quiet()
        entries = await system.audit.entries(operation="vault.send")
        assert [entry.kind for entry in entries] == ["decision", "outcome"] * 3
        assert all(entry.allowed for entry in entries)
        for intent, outcome in zip(entries[::2], entries[1::2], strict=True):
            assert outcome.reason == "succeeded"
            assert f"record {intent.number}" in outcome.detail
        assert len({entry.arguments_digest for entry in entries[::2]}) == 3


@rt.message
class Deed(rt.Request[Any]):
    script: Any


class Risky(rt.Actor):
    """Handlers of each kind, all of risk L3."""

    @rt.handler(requires="risky.plain", risk="L3")
    def plain(self, message: Touch) -> Any:
        raise rt.Reject("no") if message.what == "fail" else ZeroDivisionError

    @rt.handler(requires="risky.deed", risk="L3", raises=ValueError)
    async def deed(self, message: Deed) -> Any:
        return await message.script(self)


async def test_the_outcome_says_how_a_turn_ended(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        risky, back = await system.spawn(Risky), await system.spawn(Vault)

        async def fail(_: Any) -> None:
            await trio.lowlevel.checkpoint()
            raise ValueError("secret text")

        async def forward(actor: Any) -> None:
            actor.ctx.forward(back, Touch())

        async def hang(_: Any) -> None:
            await trio.sleep_forever()

        assert isinstance(await error_of(risky.ask(Touch("fail"))), rt.Reject)
        with pytest.raises(ValueError, match="secret"):
            await risky.ask(Deed(fail))
        assert await risky.ask(Deed(forward)) == "root"
        with trio.move_on_after(0.05):
            await risky.ask(Deed(hang))
        await system.wait_quiet()
        entries = await system.audit.entries(kind="outcome", operation="risky.*")
        assert [(entry.reason, entry.detail.partition(": ")[2]) for entry in entries] == [
            ("failed", "Reject"),
            ("failed", "ValueError"),
            ("succeeded", "handed over"),
            ("failed", "Cancelled"),
        ]
        assert not any("secret" in entry.line for entry in entries)


async def test_what_passes_by_a_kept_verdict_is_counted_exactly(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        vault, other = await system.spawn(Vault, name="vault"), await system.spawn(Vault, name="other")
        ada, bob = system.authority.mint("ada", ["vault.**"]), system.authority.mint("bob", ["vault.**"])
        for count, context in ((5, ada), (1, bob), (3, ada)):
            for _ in range(count):
                await vault.ask(Touch(), context=context)
        for _ in range(4):
            other.tell(Touch(), context=ada)
        assert isinstance(await error_of(vault.ask(Touch(), context=system.authority.mint("eve", []))), rt.Denied)
        await vault.ask(Touch(), context=ada)
        await system.wait_quiet()
        entries = await system.audit.entries(kind="allowed_batch")
        assert [(entry.path, entry.subject, entry.count) for entry in entries if entry.path == "/user/vault"] == [
            ("/user/vault", "ada", 9),
            ("/user/vault", "bob", 1),
        ]
        assert sum(entry.count for entry in entries if entry.path == "/user/other") == 4
        assert system._kernel.gate.statistics().allowed == 14
        assert await system.audit.entries(kind="allowed_batch") == entries, "counted once"
        await vault.ask(Touch(), context=ada)
        assert (await system.audit.entries(kind="allowed_batch"))[-1].count == 1


async def test_what_was_only_counted_is_written_at_the_end_and_when_an_actor_ends(tmp_path: Path) -> None:
    async with rt.ActorSystem(data_dir=tmp_path) as system:
        vault, other = await system.spawn(Vault), await system.spawn(Vault)
        await vault.ask(Touch())
        await vault.stop()
        for _ in range(3):
            await other.ask(Touch())
    counts = [entry.count for entry in read_audit_file(tmp_path / "audit.jsonl") if entry.kind == "allowed_batch"]
    assert counts == [1, 3]


async def test_what_was_only_counted_is_written_now_and_then_under_load(monkeypatch: pytest.MonkeyPatch) -> None:
    from retinue.actors.runtime import scheduler

    monkeypatch.setattr(scheduler, "TIDY", 0.0)
    monkeypatch.setattr(scheduler, "BREATH", 0.0)
    async with rt.ActorSystem() as system:
        vault = await system.spawn(Vault)
        for _ in range(300):
            await vault.ask(Touch())
        assert any(entry.kind == "allowed_batch" for entry in system.audit.log.entries())
        counted = sum(entry.count for entry in await system.audit.entries(kind="allowed_batch"))
        assert counted == 300


async def test_an_amplification_a_stop_and_a_stolen_context_are_on_record() -> None:
    async with rt.ActorSystem() as system:
        puppet, other = await system.spawn(Puppet), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["fs.*"])

        async def stop(_: Any) -> Any:
            return await error_of(other.stop())

        async def steal(_: Any) -> Any:
            return await error_of(other.ask(Call(lambda _: 1), context=system.authority.root))

        assert isinstance(await puppet.ask(Do(stop), context=ada), rt.Denied)
        assert isinstance(await puppet.ask(Do(steal), context=ada), rt.Denied)
        found = await system.audit.entries(allowed=False)
        assert [(entry.operation, entry.reason) for entry in found] == [("actor.stop", "permission"), (None, "lineage")]


# -- where it lies -----------------------------------------------------------------------------------------------------------------------------------


async def test_with_a_folder_the_audit_goes_to_a_file_that_the_next_start_goes_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for _ in range(2):
        async with rt.ActorSystem(data_dir=folder) as system:
            vault = await system.spawn(Vault)
            await vault.ask(Send("a", 1))
            assert await system.audit.verify() == len(list(read_audit_file(folder / "audit.jsonl")))
            head = await system.audit.head()
    assert head is not None
    entries = list(read_audit_file(folder / "audit.jsonl"))
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry.kind for entry in entries].count("start") == 2
    for name in ("audit.jsonl", "audit.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


async def test_a_file_that_was_edited_is_found_out(tmp_path: Path) -> None:
    async with rt.ActorSystem(data_dir=tmp_path) as system:
        vault = await system.spawn(Vault)
        for number in range(3):
            await vault.ask(Send("a", number))
        file = tmp_path / "audit.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join([lines[0], *lines[2:]]))
        with pytest.raises(rt.AuditBroken):
            await system.audit.verify()


async def test_where_the_file_was_taken_away_what_needs_a_record_is_refused(tmp_path: Path) -> None:
    async with rt.ActorSystem(data_dir=tmp_path) as system:
        vault = await system.spawn(Vault)
        (tmp_path / "audit.jsonl").rename(tmp_path / "elsewhere")
        with pytest.raises(rt.AuditUnavailable):
            system.authority.mint("ada", ["vault.**"])
        with pytest.raises(rt.AuditUnavailable):
            await vault.ask(Send("a", 1))
        with pytest.raises(rt.AuditBroken, match="cannot be read"):
            await system.audit.verify()
        (tmp_path / "elsewhere").rename(tmp_path / "audit.jsonl")
        await vault.ask(Send("a", 1))
        assert await system.audit.verify() == 3


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "data", tmp_path / ("x" * 300)):
        with pytest.raises(rt.AuditUnavailable, match="data_dir"):
            rt.ActorSystem(data_dir=folder)


async def test_each_of_several_systems_in_one_folder_has_a_file_and_a_chain_of_its_own_with_the_one_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "retinue.audit")

    def keys() -> list[str]:
        return [path.name for path in tmp_path.glob("*.key")]

    def files() -> dict[str, int]:
        return {path.name: len(list(read_audit_file(path))) for path in tmp_path.glob("audit*.jsonl")}

    async with rt.ActorSystem(data_dir=tmp_path) as one:
        assert not caplog.records
        async with rt.ActorSystem(data_dir=tmp_path) as two:
            assert "audit.2.jsonl" in caplog.text
            async with rt.ActorSystem(data_dir=tmp_path) as three:
                for number, system in enumerate((one, two, three), 1):
                    for _ in range(number):
                        system.authority.mint("ada", [])
                    assert await system.audit.verify() == 1 + number
                assert files() == {"audit.jsonl": 2, "audit.2.jsonl": 3, "audit.3.jsonl": 4}
        async with rt.ActorSystem(data_dir=tmp_path) as next_one:  # the first that is free, whose chain goes on
            assert await next_one.audit.verify() == 4
    assert files() == {"audit.jsonl": 2, "audit.2.jsonl": 4, "audit.3.jsonl": 4}
    assert keys() == ["audit.key"]


async def test_only_what_another_has_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_text("no record\n", encoding="utf-8")
    (tmp_path / "audit.jsonl").chmod(0o600)
    with pytest.raises(rt.AuditBroken):
        rt.ActorSystem(data_dir=tmp_path)
    (tmp_path / "audit.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "audit.jsonl").chmod(0o644)
    with pytest.raises(rt.AuditUnavailable, match="chmod 600"):
        rt.ActorSystem(data_dir=tmp_path)
    assert not (tmp_path / "audit.2.jsonl").exists()


def test_the_65th_system_in_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "MOST_FILES", 3)
    systems = [rt.ActorSystem(data_dir=tmp_path) for _ in range(3)]
    with pytest.raises(rt.AuditUnavailable, match=r"audit\.3\.jsonl is in use by another"):
        rt.ActorSystem(data_dir=tmp_path)
    for system in systems:
        system._kernel.book.close()


def test_a_file_that_was_given_goes_to_one_alone(tmp_path: Path) -> None:
    log = rt.AuditLog(b"k" * 32, sink=rt.AuditFile(tmp_path / "own.jsonl"))
    with pytest.raises(rt.AuditUnavailable):
        rt.AuditFile(tmp_path / "own.jsonl")
    log.close()


async def test_a_log_that_was_given_is_used_and_left_open() -> None:
    log = rt.AuditLog()
    async with rt.ActorSystem(audit=log) as system:
        assert system.audit.log is log
    log.record("start", allowed=True)
    assert log.verify() == 2


async def test_without_an_audit_nothing_is_recorded_and_all_works() -> None:
    async with rt.ActorSystem(audit=False) as system:
        vault = await system.spawn(Vault)
        assert await vault.ask(Send("a", 1), context=system.authority.mint("ada", ["vault.**"])) == "ada"
        assert isinstance(await error_of(vault.ask(Touch(), context=system.authority.mint("eve", []))), rt.Denied)
        assert await system.audit.entries() == ()
        assert await system.audit.head() is None
        assert await system.audit.statistics() is None
        assert await system.audit.verify() == 0


@pytest.mark.parametrize("audit", [True, "audit.jsonl", 7, object()])
def test_an_audit_is_a_log_or_false(audit: Any) -> None:
    with pytest.raises(rt.DefinitionError, match="audit"):
        rt.ActorSystem(audit=audit)


async def test_an_audit_that_fails_refuses_what_it_should_record_and_lets_the_rest_pass() -> None:
    class Sink:
        recovered = ""
        full = False

        def last(self) -> None:
            return None

        def write(self, _: Any) -> None:
            if self.full:
                raise OSError("disk full")

        def close(self) -> None:
            pass

    sink = Sink()
    async with rt.ActorSystem(audit=rt.AuditLog(b"k" * 32, sink=sink)) as system:
        log: list[Any] = []
        vault = await system.spawn(Vault, log)
        sink.full = True
        error = await error_of(vault.ask(Send("a", 1)))
        assert isinstance(error, rt.AuditUnavailable)
        assert log == []
        with pytest.raises(rt.AuditUnavailable):
            system.authority.mint("ada", ["**"])
        assert await vault.ask(Touch()) == "root"
        sink.full = False
        assert await vault.ask(Send("b", 2)) == "root"
        assert log == ["", ("b", 2)]


# -- budgets and tokens ------------------------------------------------------------------------------------------------------------------------------


async def test_a_handler_reserves_and_settles_what_its_message_may_spend(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=100, cost_usd="0.50")])

        def script(actor: Any) -> Any:
            reservation = actor.ctx.budget.reserve(tokens=80, cost_micro_usd=400_000)
            with pytest.raises(rt.BudgetExceeded):
                actor.ctx.budget.reserve(tokens=21)
            actor.ctx.budget.settle(reservation, tokens=30, cost_micro_usd=100_000)
            second = actor.ctx.budget.reserve(tokens=70)
            actor.ctx.budget.release(second)
            return actor.ctx.budget.balance()

        (balance,) = await puppet.ask(Call(script), context=ada)
        assert (balance.spent.tokens, balance.reserved.tokens, balance.remaining.tokens) == (30, 0, 70)
        assert await system.budgets.balance(ada) == (balance,)
        reservation = await system.budgets.reserve(ada, tokens=70)
        with pytest.raises(rt.BudgetExceeded):
            await system.budgets.reserve(ada.narrow(rt.limit(tokens=5)), tokens=1)
        await system.budgets.release(reservation)
        assert await system.budgets.balance() == ()
        spent = await system.budgets.settle(await system.budgets.reserve(ada, tokens=1), tokens=1)
        assert spent.tokens == 0, "nothing was used beyond a cap"


async def test_a_reservation_that_is_refused_is_on_record(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=10)])

        def script(actor: Any) -> Any:
            with pytest.raises(rt.BudgetExceeded) as caught:
                actor.ctx.budget.reserve(tokens=11)
            return caught.value

        exceeded = await puppet.ask(Call(script), context=ada)
        assert (exceeded.subject, exceeded.account) == ("ada", ada.accounts[0].id)
        assert "11 wanted, 10 left of 10" in str(exceeded)
        assert f"That limit was added by mint(), context {ada.id} of 'ada'." in str(exceeded)
        ended = ada.narrow(rt.expires(seconds=0))
        system.authority.revoke(ada)
        for context in (ada, ended):
            with pytest.raises(rt.Denied):
                await system.budgets.reserve(context, tokens=1)
        refused = [(entry.kind, entry.reason, entry.subject) for entry in await system.audit.entries(allowed=False)]
        assert refused[0] == ("decision", "budget", "ada")
        assert [reason for _, reason, _ in refused[1:]] == ["revoked", "revoked"]


async def test_a_reservation_whose_refusal_cannot_be_recorded_says_so() -> None:
    log = rt.AuditLog()
    async with rt.ActorSystem(audit=log) as system:
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=10)])
        log.close()
        with pytest.raises(rt.AuditUnavailable) as caught:
            await system.budgets.reserve(ada, tokens=11)
        assert isinstance(caught.value.__cause__, rt.BudgetExceeded)


@pytest.mark.parametrize("limit", ["5", 1.0, True, [3]])
async def test_a_limit_of_entries_that_is_no_number_is_refused(limit: Any) -> None:
    async with rt.ActorSystem() as system:
        with pytest.raises(rt.DefinitionError, match="limit"):
            await system.audit.entries(limit=limit)


async def test_a_handler_spends_nobody_elses_budget(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=100)])

        async def script(_: Any) -> Any:
            return [await error_of(system.budgets.reserve(one, tokens=1)) for one in (ada, system.authority.root)]

        found = await puppet.ask(Do(script), context=system.authority.mint("eve", ["**"]))
        assert [type(error) for error in found] == [rt.Denied, rt.Denied]
        assert (await system.budgets.balance(ada))[0].spent.tokens == 0


async def test_a_revoked_context_reserves_nothing(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=100)])
        system.authority.revoke(ada)
        with pytest.raises(rt.Revoked):
            await system.budgets.reserve(ada, tokens=1)


async def test_tokens_of_one_start_are_good_at_the_next(tmp_path: Path) -> None:
    async with rt.ActorSystem(data_dir=tmp_path) as system:
        ada = system.authority.mint("ada", ["vault.**", rt.limit(calls=2)])
        sealer = system.sealer()
        token, revoked = sealer.seal(ada), sealer.seal(ada.narrow(rt.deny("x.y")))
        sealer.revoke_token(revoked)
    assert stat.S_IMODE((tmp_path / "tokens.key").stat().st_mode) == 0o600
    async with rt.ActorSystem(data_dir=tmp_path) as system:
        sealer = system.sealer()
        vault = await system.spawn(Vault)
        again = sealer.unseal(token)
        assert await vault.ask(Touch(), context=again) == "ada"
        with pytest.raises(rt.TokenError):
            sealer.unseal(revoked)
        adopted = await system.audit.entries(kind="mint")
        assert [(entry.subject, entry.reason) for entry in adopted] == [("ada", "token")]


def test_a_sealer_needs_keys() -> None:
    with pytest.raises(rt.DefinitionError, match="data_dir"):
        rt.ActorSystem().sealer()


def test_a_folder_for_data_that_is_none_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(rt.AuditUnavailable, match=r"data_dir='.*/file.*' cannot be made or is no folder"):
            rt.ActorSystem(data_dir=path)
    with pytest.raises(rt.DefinitionError, match="takes the path of a folder, not an object of type int"):
        rt.ActorSystem(data_dir=5)  # type: ignore[arg-type]


async def test_minting_after_the_end_says_that_the_system_has_ended(tmp_path: Path) -> None:
    async with rt.ActorSystem(data_dir=tmp_path) as system:
        pass
    with pytest.raises(rt.SystemClosed, match="the system has ended"):
        system.authority.mint("ada", ["**"])
