"""`retinue approvals`: what waits is shown exactly, decided from another process, and followed as it happens."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import retinue as rt
from approval_bank import Bank, Pay, alice_of, outcome, request_for, system_on
from retinue.actors.approvals.offline import ApprovalsFile
from retinue.actors.approvals.tables import row_of
from retinue.actors.approvals.works_asking import Ask
from retinue.actors.approvals.works_spending import Spend, Tidy
from retinue.cli import main
from retinue.cli.approvals_words import changed, constraints_of
from retinue.remote import request_from_data
from retinue.security.approval_tokens import read_token
from retinue.security.approvals import ApprovalRequest, Binding, arguments_digest
from retinue.security.constraints import absent, at_least, at_most, between, one_of, within


def asked(folder: Path, subject: str = "alice", four_eyes: bool = False, **arguments: Any) -> str:
    """Makes a request, as the desk of a system does; its id."""
    given = arguments or {"to": "ACME", "amount": 40}
    with ApprovalsFile(folder) as file:
        now = file.now_ms
        binding = Binding("payments.send", arguments_digest(given), subject, "north", None, "/user/bank", "0" * 64, "1")
        new = ApprovalRequest.new(
            binding,
            given,
            message_type="shop/Pay@1",
            reasons=["its handler says so"],
            context_id="c",
            now_ms=now,
            risk="L2",
            four_eyes=four_eyes,
        )
        row, _ = file.do(Ask(row_of(new), now))
        return str(row["id"])


def run(folder: Path, *arguments: object, text: str | None = None) -> Result:
    command, *rest = map(str, arguments)
    return CliRunner().invoke(main, ["approvals", command, "--data-dir", str(folder), *rest], input=text)


def done(folder: Path, *arguments: object) -> str:
    """The standard output of a command that succeeds."""
    result = run(folder, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_what_waits_is_listed_with_all_its_arguments(tmp_path: Path) -> None:
    first, second = asked(tmp_path), asked(tmp_path, to="Bolt", amount=7, note="x" * 300)
    out = done(tmp_path, "list")
    assert first in out and second in out and 'to = "ACME"' in out and "amount = 40" in out and 'for "alice"' in out
    assert out.count("x") >= 300
    done(tmp_path, "reject", second)
    assert second not in done(tmp_path, "list")
    assert second in done(tmp_path, "list", "--all") and second in done(tmp_path, "list", "--status", "rejected")


def test_a_request_is_shown_with_all_that_a_person_needs(tmp_path: Path) -> None:
    out = done(tmp_path, "show", asked(tmp_path, four_eyes=True))
    for part in (
        "status: pending",
        "operation: payments.send",
        "message: shop/Pay@1",
        "at: /user/bank",
        'for: "alice"',
        'tenant: "north"',
        "risk: L2",
        "another person",
        "because: its handler says so",
        "asked: ",
        "waits until: ",
        '  to = "ACME"',
        "  amount = 40",
    ):
        assert part in out


NASTY = "ACME\x1b[2J\u202egpj.exe\u200b\u00a0\U000e0041\x07\r\nrequest: apr_other"


@pytest.mark.parametrize("command", ["list", "show"])
def test_nothing_in_a_request_writes_on_the_reviewers_terminal(tmp_path: Path, command: str) -> None:
    request = asked(tmp_path, subject=NASTY, to=NASTY, amount=1)
    out = done(tmp_path, command, *((request,) if command == "show" else ()))
    assert all(character.isprintable() or character == "\n" for character in out)
    assert "\\x1b[2J\\u202egpj.exe\\u200b" in out and "\\U000e0041" in out
    assert not any(line.startswith("request: apr_other") for line in out.splitlines())


def test_the_types_of_arguments_are_seen(tmp_path: Path) -> None:
    out = done(tmp_path, "show", asked(tmp_path, a=1, b=True, c=1.0, d="1", e=None))
    for line in ("  a = 1", "  b = True", "  c = 1.0", '  d = "1"', "  e = None"):
        assert line in out.splitlines()


async def test_approving_prints_the_token_alone_and_the_running_system_takes_it(tmp_path: Path) -> None:
    effects: list[Any] = []
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        alice = alice_of(system)
        request = await request_for(bank, Pay("ACME", 40), alice)
        result = run(tmp_path, "approve", request.id, "--reviewer", "bob", "--note", "fine")
        token = result.stdout.removesuffix("\n")
        assert result.exit_code == 0 and token.startswith("rta1.") and not any(map(str.isspace, token))
        assert request.id in result.stderr
        assert await bank.ask(Pay("ACME", 40), context=alice, approvals=[token]) == "paid 40 to ACME"
        found = await outcome(bank.ask(Pay("ACME", 40), context=alice, approvals=[token]))
        assert isinstance(found, rt.Denied) and found.reason == "spent"
    out = done(tmp_path, "show", request.id)
    assert "outcome: succeeded" in out and 'by "bob" (as asserted)' in out and "note: fine" in out


def test_the_reviewer_is_the_user_who_runs_it_whatever_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    request = asked(tmp_path)
    done(tmp_path, "approve", request)
    decided = json.loads(done(tmp_path, "show", request, "--json"))
    assert decided["reviewer"] == pwd.getpwuid(os.geteuid()).pw_name and decided["reviewer_asserted"] is True


def test_what_is_decided_stays_and_says_so_with_exit_code_1(tmp_path: Path) -> None:
    request = asked(tmp_path)
    done(tmp_path, "reject", request, "--reviewer", "bob", "--note", "no")
    for command in (
        ("approve", request),
        ("reject", request),
        ("respond", request, "x"),
        ("cancel", request),
        ("edit", request, "to=Bolt"),
    ):
        result = run(tmp_path, *command)
        assert result.exit_code == 1 and 'was rejected before by "bob"' in result.stderr and result.stdout == ""


def test_four_eyes_hold_at_the_command_line_too(tmp_path: Path) -> None:
    request = asked(tmp_path, four_eyes=True)
    result = run(tmp_path, "approve", request, "--reviewer", "alice")
    assert result.exit_code == 1 and "another person" in result.stderr
    assert done(tmp_path, "approve", request, "--reviewer", "bob").startswith("rta1.")


def test_several_are_approved_each_on_its_own(tmp_path: Path) -> None:
    one, two, three = asked(tmp_path, n=1), asked(tmp_path, n=2), asked(tmp_path, n=3)
    done(tmp_path, "reject", two)
    result = run(tmp_path, "approve", one, two, three)
    assert result.exit_code == 1 and len(result.stdout.splitlines()) == 2 and "was rejected" in result.stderr
    with ApprovalsFile(tmp_path) as file:
        keys = file._keys.verifying()
        assert [read_token(line, keys).request_id for line in result.stdout.splitlines()] == [one, three]


def test_with_ask_it_shows_the_request_and_takes_no_for_an_answer(tmp_path: Path) -> None:
    request = asked(tmp_path)
    for text in ("n\n", "\n", ""):
        result = run(tmp_path, "approve", "--ask", request, text=text)
        assert result.exit_code == 1 and result.stdout == "" and 'to = "ACME"' in result.stderr
    assert json.loads(done(tmp_path, "show", request, "--json"))["status"] == "pending"
    result = run(tmp_path, "approve", "--ask", request, text="y\n")
    assert result.exit_code == 0 and result.stdout.startswith("rta1.") and len(result.stdout.splitlines()) == 1


def test_an_edit_prints_the_new_id_and_the_chain_is_shown(tmp_path: Path) -> None:
    request = asked(tmp_path, to="ACME", amount=99_999, rush=True)
    new = done(tmp_path, "edit", request, "amount:=10", "to=Bolt", "--reviewer", "bob").strip()
    shown = done(tmp_path, "show", new)
    assert f"replaces: {request}" in shown and "  amount = 10" in shown and '  to = "Bolt"' in shown and "  rush = True" in shown
    assert f"replaced by: {new}" in done(tmp_path, "show", request)
    for change in ("amount=10", "rush:=1", "other:=1", "amount:=10"):
        assert run(tmp_path, "edit", new, change).exit_code == 1
    for change in ("amount", "=1", ":=1", "amount:=NaN", 'amount:={"a":1,"a":2}'):
        assert run(tmp_path, "edit", new, change).exit_code == 2


def test_an_answer_and_feedback_are_kept_and_shown(tmp_path: Path) -> None:
    request = asked(tmp_path)
    done(tmp_path, "respond", request, "Which invoice?", "--reviewer", "bob")
    done(tmp_path, "feedback", request, "it was 17\x1b[1m", "--reviewer", "carol")
    out = done(tmp_path, "show", request)
    assert "status: rejected" in out and "note: Which invoice?" in out and '"carol": it was 17\\x1b[1m' in out


def test_ids_may_be_cut_short_where_they_are_unique(tmp_path: Path) -> None:
    request = asked(tmp_path)
    for beginning in (request, request[4:], request[:9], request[4:9]):
        assert f"request: {request}" in done(tmp_path, "show", beginning)
    for beginning in ("apr_zzzzzz", "apr_", "nothing"):
        result = run(tmp_path, "show", beginning)
        assert result.exit_code == 1 and "there is no request" in result.stderr


def test_the_token_of_an_approved_request_can_be_shown_alone_until_it_is_used(tmp_path: Path) -> None:
    request = asked(tmp_path)
    assert run(tmp_path, "show", request, "--token").exit_code == 1
    token = done(tmp_path, "approve", request, "--expires", 60)
    assert done(tmp_path, "show", request, "--token") == token
    assert token.strip() not in done(tmp_path, "show", request) and token.strip() not in done(tmp_path, "show", request, "--json")


def test_json_is_the_request_and_what_is_shown_of_it(tmp_path: Path) -> None:
    request = asked(tmp_path)
    (listed,) = json.loads(done(tmp_path, "list", "--json"))
    assert listed["id"] == request and listed["shown"] == ['to = "ACME"', "amount = 40"] and listed["token"] is None
    assert listed["arguments"] == {"to": "ACME", "amount": 40} and listed["operation"] == listed["binding"]["operation"]
    assert request_from_data(listed).arguments == {"to": "ACME", "amount": 40}
    approved = json.loads(done(tmp_path, "approve", request, "--json"))
    assert approved["id"] == request and approved["token"].startswith("rta1.")


def test_standing_consents_are_given_listed_and_withdrawn(tmp_path: Path) -> None:
    asked(tmp_path)
    given = (
        "always",
        "payments.*",
        "--subject",
        "alice",
        "--expires",
        "7d",
        "--where",
        "amount<=500",
        "--where",
        "to=ACME",
        "--reviewer",
        "bob",
    )
    consent = done(tmp_path, *given).strip()
    out = done(tmp_path, "standing")
    assert consent in out and "at_most(500)" in out and "one_of('ACME')" in out and "'alice'" in out
    (data,) = json.loads(done(tmp_path, "standing", "--json"))
    assert data["id"] == consent and data["by"] == "bob"
    done(tmp_path, "withdraw", consent)
    assert done(tmp_path, "standing") == ""
    assert run(tmp_path, "withdraw", consent).exit_code == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--expires", "7d"),
        ("--subject", "alice"),
        ("--subject", "alice", "--expires", "7w"),
        ("--subject", "alice", "--expires", "1d", "--where", "amount"),
        ("--subject", "alice", "--expires", "1d", "--where", "amount<=x"),
        ("--subject", "alice", "--expires", "1d", "--where", "a=1", "--where", "a<=1"),
    ],
)
def test_a_standing_consent_that_is_not_said_completely_is_wrong_usage(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert run(tmp_path, "always", "payments.*", *options).exit_code == 2


def test_what_was_interrupted_is_listed_and_resolved(tmp_path: Path) -> None:
    request = asked(tmp_path)
    token = done(tmp_path, "approve", request).strip()
    with ApprovalsFile(tmp_path) as file:
        said = read_token(token, file._keys.verifying())
        file.do(
            Spend(
                jti=said.jti,
                kind="token",
                request_id=request,
                standing_id=None,
                operation="payments.send",
                subject="alice",
                audience="/user/bank",
                arguments_digest=said.binding.arguments_digest,
                question="q",
                approver="bob",
                expires_ms=said.expires_ms,
                owner="another-boot+1/7.7.aaaa",
                now_ms=file.now_ms,
            )
        )
    assert "indeterminate" in done(tmp_path, "show", request)
    assert said.jti in done(tmp_path, "indeterminate")
    assert [row["jti"] for row in json.loads(done(tmp_path, "indeterminate", "--json"))] == [said.jti]
    assert run(tmp_path, "show", request, "--token").exit_code == 1
    result = run(tmp_path, "resolve", said.jti[4:12], "not-run", "--note", "the bank has no such payment")
    assert result.exit_code == 0 and said.jti in result.stderr and "not run" in result.stderr
    assert done(tmp_path, "indeterminate") == "" and "outcome: not run" in done(tmp_path, "show", request)
    assert run(tmp_path, "resolve", said.jti, "succeeded").exit_code == 1


def test_a_folder_without_approvals_is_named(tmp_path: Path) -> None:
    result = run(tmp_path, "list")
    assert result.exit_code == 1 and "approvals.db" in result.stderr and "data_dir" in result.stderr
    result = run(tmp_path / "nowhere", "list")
    assert result.exit_code == 1 and "--data-dir" in result.stderr
    for command in (
        ("list",),
        ("standing",),
        ("always", "x", "--subject", "a", "--open", "--expires", "1h"),
        ("withdraw", "x"),
        ("reset-clock",),
    ):
        assert run(tmp_path, *command).exit_code == 1, command
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "approvals.db").mkdir()
    result = run(tmp_path, "list")
    assert result.exit_code == 1 and result.stderr.startswith("Error: ") and "Traceback" not in result.output


def test_a_key_that_others_can_read_approves_nothing(tmp_path: Path) -> None:
    one, two = asked(tmp_path, n=1), asked(tmp_path, n=2)
    done(tmp_path, "approve", one)
    (tmp_path / "approvals.key").chmod(0o644)
    result = run(tmp_path, "approve", two)
    assert result.exit_code == 1 and "chmod 600" in result.stderr
    assert json.loads(done(tmp_path, "show", two, "--json"))["status"] == "pending"


def test_watching_follows_other_processes_until_ctrl_c(tmp_path: Path) -> None:
    waiting = asked(tmp_path, n=1)
    command = [sys.executable, "-m", "retinue", "approvals", "watch", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            assert waiting in process.stdout.readline() and process.stdout.readline() == "  n = 1\n"
            new = asked(tmp_path, n=2)
            assert new in process.stdout.readline() and process.stdout.readline() == "  n = 2\n"
            done(tmp_path, "reject", waiting, "--reviewer", "bob", "--note", "no")
            line = process.stdout.readline()
            assert waiting in line and 'rejected by "bob"' in line and line.endswith(": no\n")
            for suffix in ("", "-wal", "-shm"):
                Path(f"{tmp_path / 'approvals.db'}{suffix}").unlink(missing_ok=True)
            assert "removed or replaced" in process.stderr.readline()
            another = asked(tmp_path, n=3)  # it goes on with the file that took the place
            assert another in process.stdout.readline() and process.stdout.readline() == "  n = 3\n"
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0 and "Traceback" not in process.stderr.read()


def test_no_command_needs_an_event_loop(tmp_path: Path) -> None:
    request = asked(tmp_path)
    script = (
        "import sys\nfrom retinue.cli import main\n"
        f"try: main(['approvals', 'approve', '{request}', '--data-dir', {str(tmp_path)!r}])\nexcept SystemExit as end: assert not end.code\n"
        "assert not {'trio', 'httpx', 'starlette', 'hypercorn'} & {*sys.modules}, sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_what_is_typed_means_what_it_says() -> None:
    old = {"a": "x", "b": 7, "c": [1], "d": "", "e": "x", "f": 1, "g": False, "h": 1.5, "i": Decimal(1), "j": None}
    given = ["a=1", "b:=1", "c:=[1, 2]", "d=x=y", "e=", "f=-12", "g=true", "h=2", "i=1.50", "j=7"]
    found = changed(given, old)
    assert found == {"a": "1", "b": 1, "c": [1, 2], "d": "x=y", "e": "", "f": -12, "g": True, "h": 2.0, "i": "1.50", "j": "7"}
    assert [type(found[name]) for name in "fgh"] == [int, bool, float]
    for wrong in ("f=1.5", "f=1e3", "f= 1", "f=", "g=1", "g=True", "h=x", "c=1"):
        with pytest.raises(click.UsageError):
            changed([wrong], old)
    wheres = [
        'to:=["ACME","Bolt"]',
        "n:=3",
        "cents<=5",
        "pay.*:level>=1",
        "path within reports/",
        "both >= 1",
        "pay.*:both<=2",
        "bcc absent",
    ]
    assert constraints_of(wheres, "pay.*") == {
        "to": one_of("ACME", "Bolt"),
        "n": one_of(3),
        "bcc": absent(),
        "cents": at_most(5),
        "level": at_least(1),
        "path": within("reports/"),
        "both": between(1, 2),
    }
    for wheres in (
        ["to=ACME", "to=EVE"],
        ["a<=1", "a<=2"],
        ["a=1", "a<=1"],
        ["other.*:a=1"],
        ["a"],
        ["a<=x"],
        ["a<=1", "a>=1", "a>=1"],
        ["a<=1", "a>=2"],
    ):
        with pytest.raises(click.UsageError):
            constraints_of(wheres, "pay.*")


EXPIRES = {"3600": 3_600, "90s": 90, "1m": 60, "1h": 3_600, "0.5h": 1_800}


@pytest.mark.parametrize(("text", "seconds"), EXPIRES.items())
def test_lengths_of_time_are_typed_alike_everywhere(tmp_path: Path, text: str, seconds: int) -> None:
    request = asked(tmp_path)
    before = time.time()
    done(tmp_path, "approve", request, "--expires", text)
    ends = json.loads(done(tmp_path, "show", request, "--json"))["token_expires_ms"] / 1_000
    assert seconds - 1 <= ends - before <= seconds + 30
    done(tmp_path, "always", "x", "--subject", "alice", "--open", "--expires", text)
    (consent,) = json.loads(done(tmp_path, "standing", "--json"))
    assert consent["exp"] - consent["iat"] == seconds * 1_000


@pytest.mark.parametrize("text", ["", "x", "1w", "-1", "0", "nan", "inf", "1 h", "61m", "3601"])
def test_a_token_that_would_live_too_long_or_not_at_all_is_wrong_usage(tmp_path: Path, text: str) -> None:
    result = run(tmp_path, "approve", asked(tmp_path), f"--expires={text}")
    assert result.exit_code == 2 and "expires_seconds" not in result.stderr
    assert "pending" in done(tmp_path, "show", json.loads(done(tmp_path, "list", "--json"))[0]["id"])


def test_a_consent_that_would_live_too_long_is_told_in_the_words_of_the_command_line(tmp_path: Path) -> None:
    asked(tmp_path)
    result = run(tmp_path, "always", "x", "--subject", "alice", "--open", "--expires", "400d")
    assert result.exit_code == 2 and "366d at most" in result.stderr and "expires_seconds" not in result.stderr


def test_a_consent_says_what_the_arguments_must_be(tmp_path: Path) -> None:
    asked(tmp_path)
    result = run(tmp_path, "always", "x", "--subject", "alice", "--expires", "1h")
    assert result.exit_code == 2 and "--where" in result.stderr and "--open" in result.stderr
    assert done(tmp_path, "standing") == ""


def test_an_approval_that_has_expired_is_shown_as_expired(tmp_path: Path) -> None:
    request = asked(tmp_path)
    done(tmp_path, "approve", request, "--expires", "1s")
    time.sleep(1.05)
    assert "approval: expired, not used" in done(tmp_path, "show", request)
    result = run(tmp_path, "show", request, "--token")
    assert (result.exit_code, result.stdout) == (1, "") and "expired" in result.stderr
    assert json.loads(done(tmp_path, "show", request, "--json"))["approval"].startswith("expired")


def ahead(folder: Path, days: int) -> None:
    """A system runs for a moment with a clock that is ahead."""
    with ApprovalsFile(folder) as file:
        file.do(Tidy(file.now_ms + days * 86_400_000))


def test_a_clock_that_was_ahead_keeps_nobody_from_looking_and_a_person_resets_it(tmp_path: Path) -> None:
    approved, other = asked(tmp_path), asked(tmp_path, n=1)
    done(tmp_path, "approve", approved)
    done(tmp_path, "always", "x", "--subject", "alice", "--open", "--expires", "30d")
    assert run(tmp_path, "reset-clock").exit_code == 1
    ahead(tmp_path, 3)
    for words in (("list",), ("show", other), ("standing",), ("indeterminate",), ("list", "--all", "--json")):
        result = run(tmp_path, *words)
        assert result.exit_code == 0 and "reset-clock" in result.stderr and "Warning" in result.stderr, words
    assert other in done(tmp_path, "list")
    for words in (("approve", other), ("reject", other), ("edit", other, "n=2"), ("cancel", other)):
        result = run(tmp_path, *words)
        assert result.exit_code == 1 and "reset-clock" in result.stderr, words
    said = done(tmp_path, "reset-clock", "--reviewer", "carol")
    assert "1 approval, 1 consent in advance" in said and "It was at" in said
    assert "void" in done(tmp_path, "show", approved) and run(tmp_path, "show", approved, "--token").exit_code == 1
    assert done(tmp_path, "standing") == ""
    assert run(tmp_path, "list").stderr == "" and done(tmp_path, "approve", other).startswith("rta1.")


def test_every_decision_says_what_it_did(tmp_path: Path) -> None:
    request = asked(tmp_path)
    assert request in run(tmp_path, "feedback", request[:9], "why?").stderr
    consent = done(tmp_path, "always", "x", "--subject", "alice", "--open", "--expires", "1h").strip()
    for beginning in ("aps_", "", "aps_zzzz"):
        assert run(tmp_path, "withdraw", beginning).exit_code in (1, 2)
    assert consent in run(tmp_path, "withdraw", consent[4:10]).stderr


def test_nothing_is_asked_about_a_request_that_is_decided(tmp_path: Path) -> None:
    request = asked(tmp_path)
    done(tmp_path, "reject", request)
    result = run(tmp_path, "approve", "--ask", request, text="y\n")
    assert result.exit_code == 1 and "Approve this?" not in result.output and "rejected" in result.stderr


def test_one_who_asks_much_hides_nobodys_requests(tmp_path: Path) -> None:
    many = [asked(tmp_path, subject="mallory", n=number) for number in range(7)]
    others = [asked(tmp_path, subject=subject) for subject in ("alice", "bea")]
    result = run(tmp_path, "list", "--first", 5)
    shown = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("apr_")]
    assert shown == [*many[:3], *others] and "and 4 more" in result.stderr and '4 for "mallory"' in result.stderr
    assert [one["id"] for one in json.loads(done(tmp_path, "list", "--first", 5, "--json"))] == shown
    everything = run(tmp_path, "list", "--first", 0)
    assert everything.stdout.count("apr_") == 9 and everything.stderr == ""
    assert done(tmp_path, "list", "--last", 2).count("apr_") == 2 and others[1] in done(tmp_path, "list", "--last", 1)
    assert run(tmp_path, "list", "--last", 1, "--first", 1).exit_code == 2
    done(tmp_path, "reject", many[0])
    assert many[0] in done(tmp_path, "list", "--status", "rejected") and done(tmp_path, "list", "--status", "expired") == ""
    assert done(tmp_path, "list", "--all").count("apr_") == 9


def test_long_arguments_are_cut_in_the_list_and_whole_where_one_request_is_shown(tmp_path: Path) -> None:
    request = asked(tmp_path, text="x" * 20_000, to="ACME")
    listed = done(tmp_path, "list")
    assert len(listed.splitlines()) == 42 and f"show {request}" in listed and "20," in listed
    assert done(tmp_path, "show", request).count("x") >= 20_000


FORGED = 'bob"  until tomorrow: fine "'


def test_no_name_can_end_its_own_quotes(tmp_path: Path) -> None:
    request = asked(tmp_path, subject=FORGED)
    shown = 'for "bob\\" \\x20until tomorrow: fine \\""'
    assert shown in done(tmp_path, "list")
    done(tmp_path, "feedback", request, "x", "--reviewer", FORGED)
    done(tmp_path, "reject", request, "--reviewer", FORGED)
    for out in (done(tmp_path, "show", request), run(tmp_path, "approve", request).stderr):
        assert 'bob"' not in out and 'bob\\"' in out


@pytest.mark.parametrize("name", ["bob\u200b", "\u202ebob", "b\x1b[2Job", "bob\n", "bob\u00a0", "\u3164", "bo\u00adb", "\U000e0062ob"])
def test_a_reviewer_has_a_name_that_can_be_read(tmp_path: Path, name: str) -> None:
    request = asked(tmp_path)
    result = run(tmp_path, "approve", request, "--reviewer", name)
    assert result.exit_code == 1 and result.stdout == "" and "not seen" in result.stderr
    assert "pending" in done(tmp_path, "show", request)


@pytest.mark.parametrize("command", ["reject", "approve", "cancel", "edit", "feedback", "resolve", "withdraw"])
def test_nothing_in_an_error_writes_on_the_terminal(tmp_path: Path, command: str) -> None:
    request = asked(tmp_path, subject=NASTY)
    with ApprovalsFile(tmp_path) as file:
        file.refuse(request, kind="rejected", reviewer="bob", note=NASTY)
    words = {"edit": ("to=x",), "feedback": ("x",), "resolve": ("failed",)}.get(command, ())
    for about in (request, "x\x1b[2J\u202e"):
        result = run(tmp_path, command, about, *words)
        assert all(one.isprintable() or one == "\n" for one in result.output), result.output


@pytest.mark.slow
def test_the_watch_begins_before_there_is_a_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "retinue", "approvals", "watch", "--json", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "approvals.db-wal").exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(0.3)
            request = asked(tmp_path)
            told = json.loads(process.stdout.readline())
            assert told["request_id"] == request and told["request"]["shown"] == ['to = "ACME"', "amount = 40"]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
