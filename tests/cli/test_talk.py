"""`retinue ask`, `send`, `stream` and `ps`, against a real gateway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import retinue as rt
from client_impostor import HANG, Impostor, answer
from client_shop import RunningShop
from retinue.cli import main
from retinue.cli.outcomes import shown

SHOP = "/user/shop"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShop]:
    with RunningShop(tmp_path_factory.mktemp("talk")) as running:
        yield running


def run(*arguments: object, token: str | None = None, given: str | None = None) -> Result:
    environment = {"RETINUE_TOKEN": token}
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment, input=given)


def ask(shop: RunningShop, *arguments: object) -> Result:
    return run("ask", shop.url, SHOP, *arguments, token=shop.token())


def test_a_reply_is_printed_a_text_as_it_is_and_another_as_json(shop: RunningShop) -> None:
    assert (ask(shop, "client-shop/Price@1", "item=tea").output) == "3\n"
    assert ask(shop, "client-shop/Blob@1", "size=3").output == "xxx\n"
    assert ask(shop, "client-shop/Blob@1", "size=3", "--json").output == '"xxx"\n'
    item = '{"name":"té","price":"1"}'
    swapped = ask(shop, "client-shop/Swap@1", "at=2026-11-30T12:00:00Z", "raw=AP8=", f"item={item}")
    assert swapped.exit_code == 0, swapped.output
    assert json.loads(swapped.output)[1:] == ["AP8=", {"name": "té", "price": "1", "tags": []}]


def test_the_token_comes_from_an_option_a_file_the_environment_or_standard_input(shop: RunningShop, tmp_path: Path) -> None:
    token, other = shop.token(), shop.token("shop.other")
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(token, encoding="ascii")
    what = ("ask", shop.url, SHOP, "client-shop/Price@1", "item=tea")
    for given in (
        run(*what, "--token", token),
        run(*what, "--token", token, token=other),
        run(*what, "--token-file", path),
        run(*what, "--token-file", path, token=other),
        run(*what, token=token),
        run(*what, "--token", "-", given=token + "\n", token=other),
    ):
        assert (given.exit_code, given.output) == (0, "3\n"), given.output
    missing = run(*what)
    assert missing.exit_code == 2
    assert "a token is needed" in missing.output
    assert run(*what, "--token", token, "--token-file", path).exit_code == 2
    path.chmod(0o644)
    loose = run(*what, "--token-file", path)
    assert loose.exit_code == 1
    assert "chmod 600" in loose.output
    for wrong in ("nonsense", "", "two words"):
        refused = run(*what, "--token", wrong)
        assert refused.exit_code == 1
        assert "token" in refused.output


def test_what_is_refused_is_one_line_on_standard_error_and_exit_code_1(shop: RunningShop) -> None:
    for arguments, says in (
        (("client-shop/Fail@1", "how=reject"), "Error: Reject: not today\n"),
        (("client-shop/Fail@1", "how=declared"), "Error: SoldOut: no tea left\n"),
        (("client-shop/Fail@1", "how=failed"), "Error: ValueError: the handler raised ValueError"),
    ):
        result = ask(shop, *arguments)
        assert result.exit_code == 1, result.output
        assert result.stdout == ""
        assert says in result.stderr
    as_json = ask(shop, "client-shop/Fail@1", "how=reject", "--json")
    assert json.loads(as_json.stderr)["error"] == {"type": "Reject", "message": "not today", "status": 422}


def test_what_the_token_does_not_permit_is_denied_and_not_called_unknown(shop: RunningShop) -> None:
    for token in (shop.token("shop.read"), shop.token("nothing.at.all")):
        for command, arguments in (
            ("ask", ("client-shop/Secret@1",)),
            ("ask", ("client-shop/Secret@1", "whatever=x")),
            ("send", ("client-shop/Secret@1",)),
            ("stream", ("client-shop/Secret@1",)),
        ):
            result = run(command, shop.url, SHOP, *arguments, token=token)
            assert (result.exit_code, result.stdout) == (1, ""), result.output
            assert "Error: Denied: " in result.stderr and "'shop.secret' is not permitted" in result.stderr
    as_json = run("ask", shop.url, SHOP, "client-shop/Secret@1", "--json", token=shop.token())
    error = json.loads(as_json.stderr)["error"]
    assert (error["type"], error["operation"], error["path"], error["subject"]) == ("Denied", "shop.secret", SHOP, "ada")


def test_a_message_that_is_certain_to_be_refused_is_not_called_accepted(shop: RunningShop) -> None:
    path = shop.another()
    arguments = ("client-shop/Note@1", "text=x")
    narrow = rt.attenuate(shop.token(), rt.where("shop.read", text=rt.max_length(0)))
    refused = run("send", shop.url, path, *arguments, token=narrow)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "Error: Denied" in refused.stderr
    asks = rt.attenuate(shop.token(), rt.needs_approval("shop.read"))
    waits = run("send", shop.url, path, *arguments, token=asks)
    assert waits.exit_code == 3 and waits.stdout.startswith("apr_")
    assert "retinue send" in waits.stderr
    approval = shop.call(lambda: shop.system.approvals.approve(waits.stdout.strip(), reviewer="bob"))
    assert run("send", shop.url, path, *arguments, "--approval", approval, token=asks).output == "accepted\n"


def test_a_time_out_is_exit_code_124(shop: RunningShop) -> None:
    result = ask(shop, "client-shop/Slow@1", "seconds=30", "--timeout", "0.2")
    assert result.exit_code == 124
    assert "Error: AskTimeout" in result.stderr
    assert "--timeout SECONDS" in result.stderr and "timeout=" not in result.stderr


def test_an_actor_that_has_ended_is_told(shop: RunningShop) -> None:
    path = shop.another()
    assert run("ask", shop.url, path, "client-shop/Halt@1", token=shop.token()).exit_code == 0
    ended = run("ask", shop.url, path, "client-shop/Halt@1", token=shop.token())
    assert ended.exit_code == 1 and "Error: ActorStopped" in ended.stderr


def test_what_is_mistyped_is_told_with_the_nearest_name(shop: RunningShop) -> None:
    for arguments, says in (
        (("client-shop/Prize@1", "item=tea"), "did you mean client-shop/Price@1"),
        (("client-shop/Price@1", "itm=tea"), "did you mean item"),
        (("client-shop/Price@1",), "item= is missing"),
        (("client-shop/Blob@1", "size=big"), "it takes integer"),
        (("client-shop/Count@1", "to=3"), "use `retinue stream`"),
    ):
        result = ask(shop, *arguments)
        assert result.exit_code == 2, result.output
        assert says in result.output
    nowhere = run("ask", shop.url, "/user/shap", "client-shop/Price@1", "item=tea", token=shop.token())
    assert nowhere.exit_code == 1
    assert "did you mean /user/shop" in nowhere.output
    assert run("ask", shop.url, "shop", "client-shop/Price@1", token=shop.token()).exit_code == 2
    assert run("stream", shop.url, SHOP, "client-shop/Price@1", "item=tea", token=shop.token()).exit_code == 2


def test_where_no_gateway_is_the_text_says_what_to_do() -> None:
    for url, says in (
        ("http://127.0.0.1:1", "retinue serve"),
        ("http://shop.example", "use https"),
        ("127.0.0.1:8420", "it begins with http://"),
    ):
        result = run("ask", url, SHOP, "x/X@1", token="t")
        assert result.exit_code == 1
        assert says in result.stderr
    with Impostor(answer(b"<html>", kind="text/html")) as server:
        result = run("ps", server.url, token="t")
        assert result.exit_code == 1
        assert "another server stands at this address" in result.stderr


def test_a_message_is_sent_and_said_to_be_accepted_or_not(shop: RunningShop) -> None:
    sent = run("send", shop.url, SHOP, "client-shop/Note@1", "text=hello", token=shop.token())
    assert (sent.exit_code, sent.output) == (0, "accepted\n")
    assert ask(shop, "client-shop/Notes@1").output == '["hello"]\n'
    letter = ("send", shop.url, "/user/box", "client-shop/Letter@1", "text=a")
    outcomes = [run(*letter, "--json", token=shop.token()) for _ in range(4)]
    assert json.loads(outcomes[0].stdout) == {"accepted": True, "reason": None}
    assert (outcomes[-1].exit_code, json.loads(outcomes[-1].stdout)) == (1, {"accepted": False, "reason": "mailbox_full"})
    refused = run(*letter, token=shop.token())
    assert (refused.exit_code, refused.stderr) == (1, "Error: not accepted: mailbox_full\n")
    waited = run(*letter, "--wait", "0.1", token=shop.token())
    assert waited.exit_code == 1
    assert "MailboxFull" in waited.stderr


def test_a_stream_is_printed_an_item_a_line(shop: RunningShop) -> None:
    result = run("stream", shop.url, SHOP, "client-shop/Count@1", "to=3", token=shop.token())
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["0", "1", "2"]
    failed = run("stream", shop.url, SHOP, "client-shop/Count@1", "to=2", "fail=true", token=shop.token())
    assert failed.exit_code == 1
    assert len(failed.stdout.splitlines()) == 2
    assert failed.stderr == "Error: SoldOut: no more\n"
    late = run("stream", shop.url, SHOP, "client-shop/Count@1", "to=999", "pause=0.05", "--timeout", "0.2", token=shop.token())
    assert late.exit_code == 124


def test_the_actors_are_listed(shop: RunningShop) -> None:
    token = shop.token("shop.*", "system.inspect")
    lines = run("ps", shop.url, token=token).output.splitlines()
    assert lines[0].split() == ["PATH", "CLASS", "STATE", "WAITING", "MESSAGES"]
    assert lines[1].split()[:2] == ["/user/shop", "Shop"]
    assert "client-shop/Price@1" in lines[1]
    listed = json.loads(run("ps", shop.url, "--json", token=token).output)
    assert {actor["path"] for actor in listed} >= {SHOP, "/user/box"}
    refused = run("ps", shop.url, token=shop.token())
    assert refused.exit_code == 1
    assert "system.inspect" in refused.stderr


# Consent


def pay(shop: RunningShop, amount: int, *more: object) -> Result:
    return ask(shop, "client-shop/Pay@1", "to=ACME", f"amount={amount}", *more)


def decide(shop: RunningShop, reject: bool = False) -> None:
    """What a person does as soon as something waits."""

    async def decided() -> None:
        import trio

        with trio.fail_after(20):
            while not (pending := await shop.system.approvals.pending()):
                await trio.sleep(0.02)
        for request in pending:
            if reject:
                await shop.system.approvals.reject(request.id, reviewer="bob", note="too much")
            else:
                await shop.system.approvals.approve(request.id, reviewer="bob")

    shop.call(decided)


def test_where_consent_is_needed_the_id_is_printed_and_how_to_go_on(shop: RunningShop) -> None:
    first = pay(shop, 11)
    assert first.exit_code == 3, first.output
    request_id = first.stdout.strip()
    assert request_id.startswith("apr_")
    for says in ("retinue approvals approve", "--approval", "--wait-approval", "amount = 11", '"ada"'):
        assert says in first.stderr
    approval = shop.call(lambda: shop.system.approvals.approve(request_id, reviewer="bob"))
    assert pay(shop, 11, "--approval", approval).output == "paid 11 to ACME\n"
    spent = pay(shop, 11, "--approval", approval)
    assert spent.exit_code in (1, 3)
    assert "paid" not in spent.stdout
    as_json = pay(shop, 12, "--json")
    assert (as_json.exit_code, as_json.stderr) == (3, "")
    [request] = json.loads(as_json.stdout)["error"]["requests"]
    assert request["id"].startswith("apr_") and request["arguments"] == {"to": "ACME", "amount": 12} and request["subject"] == "ada"
    decide(shop)


def test_a_person_at_the_systems_machine_decides_with_another_command(shop: RunningShop) -> None:
    request_id = pay(shop, 15).stdout.strip()
    approved = CliRunner().invoke(main, ["approvals", "approve", request_id, "--data-dir", str(shop.folder), "--reviewer", "bob"])
    assert approved.exit_code == 0, approved.output
    waited = pay(shop, 15, "--wait-approval", "20")
    assert (waited.exit_code, waited.stdout) == (0, "paid 15 to ACME\n"), waited.output
    other_id = pay(shop, 16).stdout.strip()
    approval = (
        CliRunner().invoke(main, ["approvals", "approve", other_id, "--data-dir", str(shop.folder), "--reviewer", "bob"]).stdout.strip()
    )
    assert pay(shop, 16, "--approval", approval).stdout == "paid 16 to ACME\n"


def test_it_can_wait_for_the_person(shop: RunningShop) -> None:
    thread = threading.Thread(target=decide, args=(shop,))
    thread.start()
    result = pay(shop, 21, "--wait-approval", "20")
    thread.join()
    assert (result.exit_code, result.stdout) == (0, "paid 21 to ACME\n"), result.output
    assert "waiting for a person's consent: apr_" in result.stderr


def test_it_waits_no_longer_than_it_was_told_and_hears_a_no(shop: RunningShop) -> None:
    late = pay(shop, 31, "--wait-approval", "0.3")
    assert late.exit_code == 124
    assert "still waits" in late.stderr
    decide(shop)
    thread = threading.Thread(target=decide, args=(shop, True))
    thread.start()
    refused = pay(shop, 32, "--wait-approval", "20")
    thread.join()
    assert refused.exit_code == 1
    assert "rejected (too much)" in refused.stderr


# Terminals and processes


def test_what_a_system_answers_does_not_move_the_cursor_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "a\x1b[2J\u202eb\x9b\ttab\nline \N{FAMILY}\u200d"
    assert shown(odd) == odd
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert shown(odd) == "a\\x1b[2J\\u202eb\\x9b\ttab\nline \N{FAMILY}\u200d"
    assert shown([odd]).isascii()


@pytest.mark.slow
def test_a_process_of_its_own_gets_its_answer_and_ctrl_c_ends_it(shop: RunningShop) -> None:
    command = [sys.executable, "-m", "retinue"]
    environment = {**os.environ, "RETINUE_TOKEN": shop.token()}
    done = subprocess.run(
        [*command, "ask", shop.url, SHOP, "client-shop/Price@1", "item=tea"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    with Impostor(HANG) as server:
        process = subprocess.Popen([*command, "ps", server.url], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while not server.requests:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")


def test_the_token_is_in_nothing_that_is_printed(shop: RunningShop) -> None:
    token = shop.token()
    for arguments in (("client-shop/Fail@1", "how=failed"), ("client-shop/Prize@1",), ("client-shop/Pay@1", "to=A", "amount=99")):
        result = run("ask", shop.url, SHOP, *arguments, "--token", token)
        assert token[:40] not in result.output
    decide(shop)
    assert rt.TokenError.__name__ in run("ask", shop.url, SHOP, "x/X@1", "--token", token[:-2] + "xx").output
