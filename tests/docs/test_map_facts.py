"""The maps' numbers about models and agents are those of the code."""

from __future__ import annotations

import inspect
import re

import pytest

import retinue as rt
from housekeeping import ROOT
from retinue import llm
from retinue.actors.agents import hooks
from retinue.actors.agents.output import CORRECTIONS
from retinue.actors.llm import connections
from retinue.security import guardrails


def second_cell(page: str, begins: str) -> str:
    """The second cell of the one row of a page that begins so."""
    (row,) = re.findall(rf"^\| {re.escape(begins)}[^|]*\|([^|]*)\|", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
    return str(row)


def default(function: object, name: str) -> float:
    return float(inspect.signature(function).parameters[name].default)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("begins", "seconds"),
    [
        ("a [hook](hooks.md) of an agent", hooks.TIMEOUT),
        ("an `async def` [guardrail](guardrails.md)", guardrails.TIMEOUT),
        ("a connection that nobody uses", connections.IDLE_SECONDS),
        ("a member that failed is left alone", default(llm.Failover, "cooldown")),
        ("one whose key, quota", default(llm.Failover, "auth_cooldown")),
        ("what an endpoint may ask for", default(llm.Failover, "longest_cooldown")),
    ],
)
def test_the_map_of_time_outs_names_the_seconds_of_the_code(begins: str, seconds: float) -> None:
    assert re.findall(r"\d+", second_cell("timeouts.md", begins))[0] == f"{seconds:g}"


def test_a_pool_of_models_has_the_cooldowns_of_a_fail_over() -> None:
    for name in ("cooldown", "auth_cooldown", "longest_cooldown"):
        assert default(llm.Pool, name) == default(llm.Failover, name)


def test_the_map_of_retries_names_the_numbers_of_the_code() -> None:
    assert CORRECTIONS == 2 and second_cell("retries.md", "an agent's answer that does not fit").strip() == "twice"
    assert f"{rt.RunLimits().bad_calls} times" in second_cell("retries.md", "a tool call that does not fit")
    assert rt.RunLimits().repeated_calls == 3 and "not run a fourth time" in (ROOT / "docs" / "retries.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["agents.md", "executors.md", "models.md", "hooks.md", "guardrails.md"])
def test_the_page_of_security_leads_to_what_it_speaks_of(page: str) -> None:
    part = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("## Agents, models and tools")[2].partition("\n## ")[0]
    assert f"({page}" in part
