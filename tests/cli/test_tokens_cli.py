"""`retinue token`: what is minted, narrowed, shown and revoked, as a running system sees it."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import retinue as rt
from retinue.cli import main
from retinue.security.authority import Authority
from retinue.security.keys import KeyFile
from retinue.security.seal import Sealer, inspect


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A system's folder, with its key."""
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    KeyFile(made / "tokens.key").create()
    return made


@pytest.fixture
def sealer(folder: Path) -> Sealer:
    """What the running system opens tokens with."""
    return Sealer(Authority(), KeyFile(folder / "tokens.key"), revocations=folder / "revoked.jsonl")


@pytest.fixture(autouse=True)
def _no_token_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETINUE_TOKEN", raising=False)


def run(*arguments: object, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["token", *map(str, arguments)], input=given)


def minted(folder: Path, *arguments: object) -> str:
    result = run("mint", "--data-dir", folder, "--subject", "ada", *arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return result.stdout.strip()


def test_a_minted_token_is_printed_alone_and_is_what_was_asked_for(folder: Path, sealer: Sealer) -> None:
    before = time.time() * 1000
    token = minted(
        folder, "--allow", "shop.read", "--allow", "pay.*", "--deny", "pay.refund", "--tenant", "acme", "--session", "s1", "--project", "p"
    )
    context = sealer.unseal(token)
    assert (context.subject, context.tenant, context.session, context.project) == ("ada", "acme", "s1", "p")
    assert context.allows("shop.read", {})
    assert context.allows("pay.send", {"amount": 5})
    assert not context.allows("pay.refund", {})
    assert not context.allows("other", {})
    assert abs(inspect(token).expires_ms - before - 3_600_000) < 60_000


@pytest.mark.parametrize(
    ("where", "yes", "no"),
    [
        ("pay.*:amount<=100", {"amount": 100}, {"amount": 101}),
        ("pay.*:amount <= 99.5", {"amount": 99}, {"amount": 100}),
        ("pay.*:amount>=-1", {"amount": -1}, {"amount": -2}),
        ("pay.*:to=ACME", {"to": "ACME"}, {"to": "EVE"}),
        ("pay.*:to=within reach", {"to": "within reach"}, {"to": "reach"}),
        ('pay.*:to:=["ACME", "EVE"]', {"to": "EVE"}, {"to": "BOB"}),
        ("pay.*:amount:=5", {"amount": 5}, {"amount": "5"}),
        ("pay.*:path within reports/ notes/", {"path": "notes/x"}, {"path": "secret/x"}),
        ("pay.*:url host api.example.com", {"url": "https://api.example.com/x"}, {"url": "https://evil.example/x"}),
        ("pay.*:text max_length 3", {"text": "abc"}, {"text": "abcd"}),
        ("pay.*:bcc absent", {"bcc": None}, {"bcc": "x"}),
    ],
)
def test_arguments_are_bounded_as_they_were_typed(
    folder: Path, sealer: Sealer, where: str, yes: dict[str, object], no: dict[str, object]
) -> None:
    context = sealer.unseal(minted(folder, "--allow", "pay.*", "--where", where))
    assert context.allows("pay.send", yes)
    assert not context.allows("pay.send", no)
    plain = minted(folder, "--allow", "pay.*")
    narrowed = run("narrow", "--token", plain, "--where", where)
    assert sealer.unseal(narrowed.output.strip()).allows("pay.send", yes)
    assert not sealer.unseal(narrowed.output.strip()).allows("pay.send", no)


@pytest.mark.parametrize(
    "where", ["pay.*", "pay.*:amount", "pay.*:amount<=x", "pay.*:amount:=x", "pay.*:amount:=[]", "pay.*:amount:={}", ":amount=1", "pay.**.x:a=1", "pay.*:bcc absent x",
              "pay.*:a b=5", "pay.*:t max_length x", "pay.*:t max_length 1.5", "pay.*:path within ..", "pay.*:url host", "pay.*:amount<=inf", "pay.*:amount<=nan"],
)  # fmt: skip
def test_a_constraint_that_is_none_is_wrong_usage(folder: Path, where: str) -> None:
    result = run("mint", "--data-dir", folder, "--subject", "ada", "--allow", "pay.*", "--where", where)
    assert result.exit_code == 2, result.output


def test_limits_and_consent_go_along(folder: Path, sealer: Sealer) -> None:
    context = sealer.unseal(
        minted(folder, "--allow", "pay.*", "--calls", "3", "--tokens", "100", "--cost-usd", "0.50", "--needs-approval", "pay.send")
    )
    limits = context.permissions.limits
    assert (limits.calls, limits.tokens, limits.cost_micro_usd) == (3, 100, 500_000)
    assert "approval" in context.explain("pay.send", {})


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604_800), ("0.5h", 1800)])
def test_times_are_typed_with_their_unit(folder: Path, text: str, seconds: int) -> None:
    info = inspect(minted(folder, "--allow", "shop.*", "--expires", text))
    assert info.expires_ms - info.issued_ms == seconds * 1000


@pytest.mark.parametrize("text", ["", "0", "0s", "-5s", "1w", "h", "1 h 5", "nan", "1e3", "9999999999d"])
def test_a_time_that_is_none_is_wrong_usage(folder: Path, text: str) -> None:
    assert run("mint", "--data-dir", folder, "--subject", "a", "--allow", "x", "--expires", text).exit_code == 2


def test_what_is_missing_or_wrong_is_told_and_makes_no_key(tmp_path: Path) -> None:
    nowhere = tmp_path / "typo"
    assert run("mint", "--data-dir", nowhere, "--subject", "ada").exit_code == 2
    assert run("mint", "--data-dir", nowhere, "--allow", "x").exit_code == 2
    assert run("mint", "--data-dir", nowhere, "--subject", "", "--allow", "x").exit_code == 1
    assert run("mint", "--data-dir", nowhere, "--subject", "a", "--allow", "a.**.b").exit_code == 2
    for command in (["revoke", "0" * 24], ["inspect", "--token", minted(tmp_path / "other", "--allow", "x")]):
        result = run(*command, "--data-dir", nowhere)
        assert result.exit_code == 1
        assert "there is no folder" in result.output
    assert not nowhere.exists()


def test_the_first_token_of_a_system_may_be_minted_before_it_starts(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    result = run("mint", "--data-dir", folder, "--subject", "ada", "--allow", "shop.*")
    assert Sealer(Authority(), KeyFile(folder / "tokens.key")).unseal(result.stdout.strip()).subject == "ada"
    assert stat.S_IMODE((folder / "tokens.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert f"made {folder / 'tokens.key'}" in result.stderr and str(folder) in result.stderr
    again = run("mint", "--data-dir", folder, "--subject", "ada", "--allow", "shop.*")
    assert again.stderr == ""
    assert inspect(again.stdout.strip()).kid == inspect(result.stdout.strip()).kid
    (tmp_path / "file").touch()
    assert run("mint", "--data-dir", tmp_path / "file" / "data", "--subject", "ada", "--allow", "x").exit_code == 1


def test_a_token_for_an_audience_is_genuine_for_that_one_and_the_folder_does_not_know_its_own(folder: Path) -> None:
    token = minted(folder, "--allow", "shop.*", "--audience", "back")
    narrowed = run("narrow", "--token", minted(folder, "--allow", "shop.*"), "--audience", "back").output.strip()
    for text in (token, narrowed):
        unsaid = run("inspect", "--token", text, "--data-dir", folder)
        assert unsaid.exit_code == 0
        assert unsaid.output.startswith("state: genuine, for one audience alone") and "audience: back\n" in unsaid.output
        known = run("inspect", "--token", text, "--data-dir", folder, "--audience", "back")
        assert (known.exit_code, known.output.splitlines()[0]) == (0, "state: genuine")
        other = run("inspect", "--token", text, "--data-dir", folder, "--audience", "front")
        assert (other.exit_code, other.output[:15]) == (1, "state: refused:")
        assert run("inspect", "--token", text, "--audience", "back").exit_code == 2
    assert "limit()" not in run("inspect", "--token", narrowed).output
    assert "and then: the same, for its audience" in run("inspect", "--token", narrowed).output
    nobodys = run("narrow", "--token", token, "--audience", "front").output.strip()
    assert run("inspect", "--token", nobodys, "--data-dir", folder).exit_code == 1


def test_a_key_that_others_can_read_is_not_used(folder: Path) -> None:
    (folder / "tokens.key").chmod(0o644)
    result = run("mint", "--data-dir", folder, "--subject", "ada", "--allow", "x")
    assert result.exit_code == 1
    assert "chmod 600" in result.output


def test_a_token_can_be_written_into_a_file_of_its_owner_alone(folder: Path, sealer: Sealer, tmp_path: Path) -> None:
    path = tmp_path / "token"
    result = run("mint", "--data-dir", folder, "--subject", "ada", "--allow", "shop.*", "--out", path)
    assert (result.exit_code, result.output) == (0, "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sealer.unseal(rt.TokenFile(path).read()).subject == "ada"
    path.chmod(0o644)
    assert run("narrow", "--token", minted(folder, "--allow", "x"), "--allow", "x", "--out", path).exit_code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sealer.unseal(rt.TokenFile(path).read()).allows("x", {})
    assert run("mint", "--data-dir", folder, "--subject", "ada", "--allow", "x", "--out", tmp_path / "none" / "token").exit_code == 1


def test_narrowing_takes_no_key_and_adds_nothing(folder: Path, sealer: Sealer, tmp_path: Path) -> None:
    token = minted(folder, "--allow", "shop.*")
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(token, encoding="ascii")
    for how in (["--token", token], ["--token-file", path]):
        narrowed = run("narrow", *how, "--allow", "shop.read", "--allow", "pay.send", "--deny", "shop.secret", "--expires", "60s")
        context = sealer.unseal(narrowed.output.strip())
        assert context.allows("shop.read", {})
        assert not context.allows("shop.write", {})
        assert not context.allows("pay.send", {})
        assert context.permissions.limits.deadline_ms < inspect(token).expires_ms
    assert run("narrow", "--token", "-", "--deny", "shop.write", given=token + "\n").exit_code == 0
    for_back = run("narrow", "--token", token, "--audience", "back").output.strip()
    with pytest.raises(rt.TokenError, match="somebody else"):
        sealer.unseal(for_back)
    assert sealer.unseal(for_back, audience="back").subject == "ada"
    nothing = run("narrow", "--token", token)
    assert nothing.exit_code == 2
    longer = run("narrow", "--token", token, "--expires", "7d").output.strip()
    assert sealer.unseal(longer).permissions.limits.deadline_ms == inspect(token).expires_ms
    assert run("narrow", "--token", "nonsense", "--deny", "x").exit_code == 1


def test_what_a_token_says_is_unverified_unless_the_key_is_there(folder: Path) -> None:
    token = minted(folder, "--allow", "shop.*", "--audience", "back", "--tenant", "acme")
    said = run("inspect", "--token", token).output
    for line in ("state: unverified", "subject: ada", "tenant: acme", "audience: back"):
        assert line in said.splitlines()
    assert "permits: allow('shop.*')" in said
    assert run("inspect", "--token", token, "--data-dir", folder, "--audience", "back").output.startswith("state: genuine\n")
    altered = token[:-2] + ("AA" if not token.endswith("AA") else "BB")
    assert "unverified" in run("inspect", "--token", altered).output
    refused = run("inspect", "--token", altered, "--data-dir", folder)
    assert refused.exit_code == 1
    assert refused.output.startswith("state: refused: ")
    data = json.loads(run("inspect", "--token", token, "--json").output)
    assert (data["state"], data["subject"], data["audiences"]) == ("unverified", "ada", ["back"])
    assert run("inspect", "--token", "nonsense").exit_code == 1
    assert run("inspect").exit_code == 2


def test_a_subject_does_not_write_on_the_terminal(folder: Path, sealer: Sealer) -> None:
    result = run("mint", "--data-dir", folder, "--subject", "a\x1b[2J\u202eb", "--allow", "x")
    said = run("inspect", "--token", result.output.strip()).output
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_revoking_is_seen_by_who_has_the_folder(folder: Path, sealer: Sealer) -> None:
    token = minted(folder, "--allow", "shop.*")
    narrowed = run("narrow", "--token", token, "--allow", "shop.read").output.strip()
    sealer.unseal(token)
    sealer.unseal(narrowed)
    assert run("revoke", narrowed, "--only-this", "--data-dir", folder).output == "revoked\n"
    with pytest.raises(rt.TokenError, match="revoked"):
        sealer.unseal(narrowed)
    assert sealer.unseal(token).subject == "ada"
    assert run("revoke", "--token", token, "--data-dir", folder).exit_code == 0
    with pytest.raises(rt.TokenError, match="revoked"):
        sealer.unseal(token)
    assert "revoked" in run("inspect", "--token", token, "--data-dir", folder).output
    other = minted(folder, "--allow", "shop.*")
    assert run("revoke", inspect(other).ids[0], "--data-dir", folder).exit_code == 0
    with pytest.raises(rt.TokenError, match="revoked"):
        sealer.unseal(other)
    by_pipe = minted(folder, "--allow", "shop.*")
    assert run("revoke", "-", "--data-dir", folder, given=by_pipe).exit_code == 0
    with pytest.raises(rt.TokenError, match="revoked"):
        sealer.unseal(by_pipe)


def test_what_is_no_token_of_this_system_is_not_revoked(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    token = minted(folder, "--allow", "x")
    foreign = minted(other, "--allow", "x")
    for wrong in (foreign, token[:-2] + "xx", "nonsense", "Z" * 24):
        result = run("revoke", wrong, "--data-dir", folder)
        assert result.exit_code == 1
        assert "revoked\n" not in result.output
    assert run("revoke", "--data-dir", folder).exit_code == 2
    assert run("revoke", token, "--token", token, "--data-dir", folder).exit_code == 2


async def test_a_running_system_takes_what_was_minted_beside_it_until_it_is_revoked(tmp_path: Path) -> None:
    async with rt.ActorSystem(data_dir=tmp_path) as system:
        sealer = system.sealer()
        token = minted(tmp_path, "--allow", "shop.*")
        assert sealer.unseal(token).allows("shop.read", {})
        assert run("revoke", token, "--data-dir", tmp_path).exit_code == 0
        with pytest.raises(rt.TokenError, match="revoked"):
            sealer.unseal(token)
