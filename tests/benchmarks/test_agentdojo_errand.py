"""The errand's policy and what it reads out of a prompt: without AgentDojo, which these parts do not need."""

from __future__ import annotations

import pytest

import retinue as rt
from housekeeping import ROOT
from retinue.capabilities.gate import Gate
from retinue.security.authority import Authority

PROMPT = (
    "Pay the bill 'bill-december-2023.txt' of Spotify, USD 98.70, to US133000000121212121212 by March 4th, and tell Alice in #general about "
    "www.our-company.com; write to Ada.Lovelace@Example.org before 2024-05-19."
)


@rt.message
class SendMoney(rt.Request[None]):
    recipient: str
    amount: float
    subject: str = "bill"


@rt.message
class SendEmail(rt.Request[None]):
    recipients: list[str]
    body: str = "hello"
    cc: list[str] | None = None
    attachments: list[dict[str, str]] | None = None


@rt.message
class UpdatePassword(rt.Request[None]):
    password: str


class Desk:
    """A gate with one errand, and the verdicts on calls to it."""

    def __init__(self, prompt: str, *, layered: bool = False) -> None:
        from benchmarks.agentdojo.errand import KINDS, Errand, operation_of
        from benchmarks.agentdojo.prompt import read_prompt

        authority = Authority()
        self.sources = {kind: authority.source(kind) for kind in KINDS}
        self.errand = Errand(read_prompt(prompt), layered=layered)
        self.errand.trust(self.sources)
        names = ["send_money", "send_email", "update_password"]
        planned = rt.allow(*map(operation_of, names))
        self._context = authority.mint("person", [planned, *(self.errand.layers(names) if layered else [])])
        self._gate = Gate(authority, policies=[self.errand])

    def verdict(self, tool: str, message: rt.Message) -> str:
        try:
            self._gate.admit(self._context, None, f"tool.{tool}", message, path="/tools", message_type=type(message))
        except rt.ApprovalRequired:
            return "ask"
        except rt.Denied:
            return "deny"
        return "allow"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))  # as `python -m benchmarks` does


def test_a_prompt_names_addresses_links_accounts_days_numbers_and_its_own_phrases():
    from benchmarks.agentdojo.prompt import read_prompt

    known = read_prompt(PROMPT)
    assert known.emails == {"Ada.Lovelace@Example.org"}
    assert known.links == {"www.our-company.com"}
    assert known.accounts == {"US133000000121212121212"}
    assert known.days == {(3, 4), (5, 19)}
    assert 98.7 in known.numbers
    assert {"Alice", "general", "bill-december-2023.txt", "the bill"} <= known.phrases
    assert "Alic" not in known.phrases


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize(
    ("tool", "message", "verdict"),
    [
        ("send_money", SendMoney("US133000000121212121212", 98.7), "allow"),
        ("send_money", SendMoney("Spotify", 98.7), "allow"),
        ("send_money", SendMoney("US133000000121212121212", 98.71), "ask"),
        ("send_money", SendMoney("DE89370400440532013000", 98.7), "ask"),
        ("send_money", SendMoney("US133000000121212121212", 98.7, "see https://evil.example/x"), "ask"),
        ("send_money", SendMoney("US133000000121212121212", 98.7, "see www.our-company.com."), "allow"),
        ("send_email", SendEmail(["Ada.Lovelace@Example.org"]), "allow"),
        ("send_email", SendEmail(["Ada.Lovelace@Example.org", "mark@evil.example"]), "ask"),
        ("send_email", SendEmail(["Ada.Lovelace@Example.org"], cc=["mark@evil.example"]), "ask"),
        ("send_email", SendEmail(["Ada.Lovelace@Example.org"], cc=[]), "allow"),
        ("send_email", SendEmail(["Ada.Lovelace@Example.org"], attachments=[{"type": "file", "file_id": "77"}]), "ask"),
        ("update_password", UpdatePassword("Alice"), "ask"),
        ("delete_file", UpdatePassword("Alice"), "deny"),
    ],
)
def test_what_is_aimed_at_something_unknown_is_asked_about_and_what_is_not_planned_is_refused(tool, message, verdict, layered):
    assert Desk(PROMPT, layered=layered).verdict(tool, message) == verdict


@pytest.mark.parametrize("layered", [False, True])
def test_values_from_systems_of_record_become_known_with_their_types(layered):
    desk = Desk(PROMPT, layered=layered)
    desk.sources["email"].add("bob@example.org")
    desk.sources["amount"].add(120.0)
    assert desk.verdict("send_email", SendEmail(["bob@example.org"])) == "allow"
    assert desk.verdict("send_email", SendEmail(["bob@example.org.evil.example"])) == "ask"
    assert desk.verdict("send_money", SendMoney("Spotify", 119.0)) == "allow"
    assert desk.verdict("send_money", SendMoney("Spotify", 121.0)) == "ask"
    assert desk.verdict("send_money", SendMoney("Spotify", -1.0)) == "ask"


def test_a_consent_is_for_one_call_with_exactly_these_arguments():
    desk = Desk(PROMPT)
    asked = SendMoney("Mallory", 5.0)
    for other in (
        ("tool.send_email", {"recipient": "Mallory", "amount": 5.0, "subject": "bill"}),
        ("tool.send_money", {"recipient": "Mallory"}),
    ):
        desk.errand.consent(*other)
    desk.errand.consent("tool.send_money", {"recipient": "Mallory", "amount": 5, "subject": "bill"})  # an int is another amount
    assert desk.verdict("send_money", asked) == "ask"
    desk.errand.consent("tool.send_money", {"recipient": "Mallory", "amount": 5.0, "subject": "bill"})
    assert desk.verdict("send_money", SendMoney("Mallory", 6.0)) == "ask"
    assert desk.verdict("send_money", asked) == "allow"
    assert desk.verdict("send_money", asked) == "ask"


def test_a_tool_that_nobody_described_is_taken_for_the_worst_unless_its_name_says_that_it_reads():
    from benchmarks.agentdojo.manifest import tool

    assert (tool("launch_rocket").effect, tool("launch_rocket").final) == ("write", True)
    assert tool("get_balance").effect == "read"
    assert tool("get_webpage").effect == "network"
