"""The pages about hooks, guardrails, parsers and structured output say what the code does."""

from __future__ import annotations

import re

import attrs
import pytest

import retinue as rt
from housekeeping import ROOT
from retinue.actors.agents import guarding, hooks, output, phases
from retinue.security import detectors, guardrails, safe_patterns


def text(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_phases_of_the_page_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \| .+ \| .+ \|$", text("hooks.md").partition("## Decisions")[0], re.MULTILINE)
    assert sorted(rows) == sorted(phases.PHASES)


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(rt.HookContext)])
def test_each_attribute_of_a_hooks_context_is_named(name: str) -> None:
    assert f"`{name}`" in text("hooks.md")


def test_the_time_outs_and_bounds_are_those_of_the_code() -> None:
    assert f"| time-out | {hooks.TIMEOUT:g} s" in text("hooks.md")
    assert f"a time-out ({guardrails.TIMEOUT:g} s)" in text("guardrails.md")
    assert f"looked for in {safe_patterns.REACH} characters" in text("guardrails.md")
    assert {0: "no", 1: "one", 2: "two"}[output.CORRECTIONS] + " corrections" in text("structured-output.md")


def test_the_words_that_guardrails_take_are_on_their_page() -> None:
    page = text("guardrails.md")
    assert [kind for kind in detectors.KINDS if f'`"{kind}"`' not in page] == []
    assert [stage for stage in guardrails.STAGES if f"**{stage}**" not in page] == []
    assert guarding.NO_GUARDS.stream() is None


def test_the_modes_of_output_are_on_their_page() -> None:
    assert re.findall(r'^\| `"(\w+)"`', text("structured-output.md"), re.MULTILINE) == list(output.MODES)


def test_the_statuses_of_parsers_are_on_their_page() -> None:
    from retinue.actors.agents.parsers import NUMBER_OF

    rows = dict(re.findall(r'^\| `"(\w+)"` \| .+ \| \w+, (-?\d) \|$', text("parsers.md"), re.MULTILINE))
    assert {name: int(number) for name, number in rows.items()} == NUMBER_OF
