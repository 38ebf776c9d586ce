"""`retinue ask` and `retinue stream` with an agent: a text is a message, answers come as text, and a run that waits for a person is gone on with."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import retinue as rt
from client_shop import RunningShop
from retinue import llm
from retinue.cli import main


@rt.tool(approval=True)
def send_email(to: str) -> str:
    """Sends an e-mail.

    Args:
        to: Recipient.
    """
    return f"sent to {to}"


def weather(city: str) -> str:
    """Forecast.

    Args:
        city: Name of the city.
    """
    return f"{city}: sunny"


MAIL = llm.tool_calls(("send_email", {"to": "bob"}))


class Office:
    """An agent behind a gateway, for one test; its model says these lines."""

    def __init__(self, shop: RunningShop, script: Any) -> None:
        self.shop = shop
        model = shop.call(lambda: shop.system.spawn(llm.Scripted, script))
        self.path = shop.call(lambda: shop.system.spawn(rt.Agent, model=model, tools=[send_email, weather])).path

    def run(self, command: str, *arguments: object) -> Result:
        token = self.shop.token("model.complete", "tool.*")
        return CliRunner().invoke(main, [command, self.shop.url, self.path, *map(str, arguments)], env={"RETINUE_TOKEN": token})

    def decide(self, *, yes: bool) -> None:
        """What a person does about the one request that waits, as soon as there is one."""

        async def decided() -> bool:
            pending = await self.shop.system.approvals.pending()
            for request in pending:
                if yes:
                    await self.shop.system.approvals.approve(request.id, reviewer="bob")
                else:
                    await self.shop.system.approvals.reject(request.id, reviewer="bob", note="not today")
            return bool(pending)

        for _ in range(1000):
            if self.shop.call(decided):
                return
            time.sleep(0.02)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShop]:
    with RunningShop(tmp_path_factory.mktemp("agents")) as running:
        yield running


def test_a_text_is_answered_by_a_text_and_a_session_is_a_field(shop: RunningShop) -> None:
    office = Office(shop, lambda request: f"You said {[m.content for m in request.messages]}.")
    assert office.run("ask", "hi there").output == "You said ['hi there'].\n"
    assert office.run("ask", "Grüße!", "session=trip").output == "You said ['Grüße!'].\n"
    assert office.run("ask", "ok", "session=trip").output.startswith("You said ['Grüße!', \"You said")
    as_json = json.loads(office.run("ask", "hi", "session=j", "--json").output)
    assert (as_json["content"], as_json["session"], as_json["usage"]["requests"]) == ("You said ['hi'].", "j", 1)
    memory = json.loads(office.run("ask", "retinue/GetMemory@1", "session=j").output)
    assert next(item["body"]["sender"] for item in memory["items"]) == "user"


def test_what_is_no_text_or_no_agent_is_wrong_usage(shop: RunningShop) -> None:
    office = Office(shop, "x")
    for arguments in (("hi", "content=other"), ("hi", "nonsense=1"), ("retinue/AgentMesage@1", "content=x"), ("shop/Nothing@1",)):
        result = office.run("ask", *arguments)
        assert result.exit_code == 2, result.output
    assert office.run("ask", "").exit_code == 1  # an empty text
    to_a_shop = CliRunner().invoke(main, ["ask", shop.url, "/user/shop", "hi there", "--token", shop.token()])
    assert to_a_shop.exit_code == 2
    assert "takes no 'hi there'" in to_a_shop.output


def test_a_stream_is_the_words_of_the_answer_and_tools_are_told_beside_it(shop: RunningShop) -> None:
    office = Office(shop, [llm.tool_calls(("weather", {"city": "Oslo"})), "Sunny in Oslo.", "Yes."])
    result = office.run("stream", "Oslo?")
    assert (result.exit_code, result.stdout) == (0, "Sunny in Oslo.\n")
    assert "weather -> Oslo: sunny" in result.stderr
    events = [json.loads(line) for line in office.run("stream", "and now?", "--json").stdout.splitlines()]
    assert "".join(event["body"]["text"] for event in events if event["type"] == "TextDelta") == "Yes."
    assert events[-1]["type"] == "RunEnd"


@pytest.mark.parametrize("command", ["ask", "stream"])
def test_where_a_person_has_to_consent_it_is_told_how_to_go_on_with_the_run(shop: RunningShop, command: str) -> None:
    office = Office(shop, [MAIL, "Done."])
    asked = office.run(command, "mail Bob")
    assert asked.exit_code == 3, asked.output
    assert asked.stdout.splitlines()[-1].startswith("apr_")
    (how,) = (line for line in asked.stderr.splitlines() if "retinue/Resume@1" in line)
    office.decide(yes=True)
    run = how.rpartition(" ")[2]
    resumed = office.run(command, "retinue/Resume@1", run)
    assert (resumed.exit_code, resumed.stdout) == (0, "Done.\n"), resumed.output
    as_json = Office(shop, [MAIL]).run(command, "mail Bob", "--json")
    (line,) = (json.loads(line) for line in as_json.stdout.splitlines() if '"error"' in line)
    assert line["error"]["run"]
    office.decide(yes=False)


@pytest.mark.parametrize("command", ["ask", "stream"])
@pytest.mark.parametrize("yes", [True, False])
def test_it_waits_for_the_person_and_goes_on_either_way(shop: RunningShop, command: str, yes: bool) -> None:
    office = Office(shop, [MAIL, lambda request: request.messages[-1].content])
    person = threading.Thread(target=office.decide, kwargs={"yes": yes})
    person.start()
    result = office.run(command, "mail Bob", "--wait-approval", 20)
    person.join()
    assert result.exit_code == 0, result.output
    assert ("sent to bob" if yes else "not today") in result.stdout
    assert "waiting for a person's consent: apr_" in result.stderr


def test_it_waits_no_longer_than_it_was_told(shop: RunningShop) -> None:
    office = Office(shop, [MAIL])
    late = office.run("ask", "mail Bob", "--wait-approval", 0.2)
    assert late.exit_code == 124
    assert "still waits" in late.stderr
    office.decide(yes=False)


def test_errors_of_agents_and_models_cross_as_what_they_are(shop: RunningShop) -> None:
    office = Office(shop, [llm.RateLimited("slow down")])
    for command in ("ask", "stream"):
        result = office.run(command, "hi")
        assert result.exit_code == 1
        assert "Error: RateLimited: slow down" in result.stderr or "ScriptEnded" in result.stderr
    refused = CliRunner().invoke(main, ["ask", shop.url, office.path, "hi", "--token", shop.token("tool.*")])
    assert refused.exit_code == 1
    assert "model.complete" in refused.stderr


@pytest.mark.parametrize("command", ["ask", "stream"])
def test_a_session_whose_last_run_waits_says_the_commands_that_go_on_with_it_and_that_give_it_up(shop: RunningShop, command: str) -> None:
    office = Office(shop, [MAIL, "Done."])
    assert office.run("ask", "mail bob").exit_code == 3
    result = office.run(command, "and another one")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0].startswith("Error: RunParked: ")
    goes_on = f"and go on with the run: retinue {command} {shop.url} {office.path} retinue/Resume@1 run=0/"
    gives_up = f"(or give it up: retinue ask {shop.url} {office.path} retinue/Cancel@1 run=0/"
    assert lines[2].startswith(goes_on)
    assert lines[3].startswith(gives_up)
    *_, run = lines[3].removesuffix(")").split()
    assert office.run("ask", "retinue/Cancel@1", run).output == "true\n"
    data = office.run(command, "--json", "once more")
    assert "give it up" not in data.stderr
