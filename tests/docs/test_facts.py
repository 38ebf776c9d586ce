"""The pages say what the code does: names, defaults and limits are compared with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from click.testing import CliRunner

import retinue as rt
from housekeeping import ROOT
from retinue import _twin, aio, errors, llm, sync
from retinue.actors.approvals import deciding, desk
from retinue.actors.approvals.ledger import CLOCK_TOLERANCE_MS
from retinue.actors.budgets.messages import Reserve
from retinue.actors.hosts import thread
from retinue.actors.llm.deadlines import LONGEST_TAIL, Timeouts
from retinue.actors.llm.messages import Complete, Completion
from retinue.actors.llm.retrying import LONGEST_WAIT
from retinue.actors.runtime import kernel, lifecycle, scheduler, shutdown, supervision
from retinue.actors.runtime.context import ActorContext
from retinue.actors.runtime.statistics import ActorStatistics, SystemStatistics
from retinue.actors.store.database import BUSY_TIMEOUT
from retinue.capabilities.engine import DEFAULT_TIMEOUT
from retinue.capabilities.registry_providers import STEP_TIMEOUT
from retinue.cli.group import COMMANDS, main
from retinue.client import session
from retinue.gateway import Bounds, Gateway
from retinue.mailbox.letters import REASONS
from retinue.mailbox.messages import message_info
from retinue.mailbox.queues import DEFAULT_CAPACITY
from retinue.mailbox.wire_json import Limits
from retinue.security import approvals
from retinue.security.seal import DEFAULT_SECONDS, SKEW_MS

DOCS = sorted((ROOT / "docs").glob("*.md"))
TEXT = {page.name: page.read_text(encoding="utf-8") for page in DOCS}
ALL = "\n".join(TEXT.values())


def names(thing: Any) -> list[str]:
    return [name for name in vars(thing) if not name.startswith("_")]


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_page_ends_with_what_is_not_guaranteed(page: Path) -> None:
    last = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[-1]
    title, _, rest = last.partition("\n")
    assert title == "Not guaranteed"
    assert re.search(r"^- \S", rest, re.MULTILINE)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_page_is_listed_in_the_index(page: Path) -> None:
    assert page.name == "index.md" or f"({page.name})" in TEXT["index.md"]


@pytest.mark.parametrize("name", sorted({*rt.__all__} - {"__version__"}))
def test_every_public_name_is_on_a_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", ALL)


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_on_the_page_about_asking(name: str) -> None:
    assert re.search(rf"`(rt\.)?{name}`", TEXT["asking.md"])


@pytest.mark.parametrize("name", llm.__all__)
def test_every_name_of_the_models_is_on_their_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", TEXT["models.md"])


@pytest.mark.parametrize(
    ("page", "thing"),
    [
        ("models.md", Complete),
        ("models.md", Completion),
        ("models.md", Timeouts),
        ("actors.md", ActorContext),
        ("twins.md", sync.ActorSystem),
        ("twins.md", aio.ActorSystem),
        ("twins.md", sync.Ref),
        ("observability.md", ActorStatistics),
        ("observability.md", SystemStatistics),
        ("supervision.md", supervision.Supervision),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.__module__}.{value.__qualname__}",
)
def test_every_part_of_it_is_on_its_page(page: str, thing: Any) -> None:
    parts = [field.name for field in attrs.fields(thing)] if attrs.has(thing) else [*names(thing), *names(thing.__mro__[1])]
    missing = [part for part in parts if part not in ("name", "core", "alive", "decide") and not re.search(rf"\b{part}\b", TEXT[page])]
    assert missing == []


def test_every_part_of_a_system_is_on_a_page() -> None:
    parts = [part for part in names(rt.ActorSystem) if part != "interrupt"]  # that is what rt.run calls
    assert [part for part in parts if not re.search(rf"system\.{part}\b|`{part}", ALL)] == []


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_of_a_dead_letter_is_explained(reason: str) -> None:
    assert re.search(rf"^\| .*`{reason}`.* \|", TEXT["mailboxes.md"], re.MULTILINE)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_of_a_command_is_on_its_page(command: str) -> None:
    context = click.Context(main)
    found = main.get_command(context, command)
    assert found is not None
    group = [found.get_command(context, name) for name in found.list_commands(context)] if isinstance(found, click.Group) else []
    sections = re.split(r"^## ", TEXT["cli.md"], flags=re.MULTILINE)
    (section,) = [text for text in sections if command in text.partition("\n")[0].split(", ")]
    options = [option for part in [found, *filter(None, group)] for parameter in part.params for option in parameter.opts]
    assert [option for option in options if option.startswith("--") and option not in section] == []
    assert [part.name for part in group if part is not None and f"{command} {part.name}" not in section] == []


def test_the_page_shows_what_version_prints() -> None:
    printed = CliRunner().invoke(main, ["version"]).output.strip()
    assert re.search(re.escape(re.sub(r"Python [\d.]+\w*", "Python @", printed)).replace("@", r"[\d.]+"), TEXT["cli.md"])


def rows(page: str) -> dict[str, list[str]]:
    """The rows of a page's tables: the first cell → the others."""
    found = {}
    for line in TEXT[page].splitlines():
        if line.startswith("| "):
            first, *rest = [cell.strip() for cell in line.strip("|").split(" | ")]
            found[first.strip()] = rest
    return found


LIMITS = {
    "an ask, from the call": kernel.ASK_TIMEOUT,
    "an ask of a language model": message_info(Complete).timeout,
    "a member of a [swarm]": rt.HandoffGuards().member_seconds,
    "a run of a swarm": rt.HandoffGuards().seconds,
    "a `send`, waiting": kernel.ASK_TIMEOUT,
    "a whole stream": kernel.ASK_TIMEOUT,
    "a twin's asker": _twin.GUARD,
    "`system.wait_quiet()`": rt.ActorSystem.wait_quiet.__kwdefaults__["timeout"],
    "a stop: the message": kernel.STOP_GRACE,
    "the end of a system": kernel.STOP_GRACE,
    "a restart: what its children": lifecycle.START_GRACE,
    "a second Ctrl-C": shutdown.HARD_STOP,
    "constructor and": kernel.START_TIMEOUT,
    "a blocking actor's thread": thread.JOIN_TIMEOUT,
    "a twin's loop": _twin.STUCK,
    "an asynchronous policy": DEFAULT_TIMEOUT,
    "a step of a provider": STEP_TIMEOUT,
    "a sealed token": DEFAULT_SECONDS,
    "a token from a clock": SKEW_MS / 1000,
    "a reservation of a budget": Reserve().seconds,
    "a request of `rt.guarded_client`": rt.guarded_client.__kwdefaults__["timeout"],
    "its connecting": rt.guarded_client.__kwdefaults__["connect_timeout"],
    "a request waits for a person": approvals.REQUEST_LIFETIME_MS / 1000,
    "an approval, from the decision on": deciding.DEFAULT_SECONDS,
    "a consent in advance": deciding.YEAR_SECONDS,
    "a reviewer in code": rt.ActorSystem.__init__.__kwdefaults__["reviewer_timeout"],
    "a clock behind the file's": CLOCK_TOLERANCE_MS / 1000,
    "the file, locked": BUSY_TIMEOUT,
    "the next look at what": desk.POLL,
    "an ask through the gateway": Bounds().request_timeout,
    "a stream or a watch through": Bounds().stream_timeout,
    "the head of a request": Bounds().header_timeout,
    "the body of a request": Bounds().body_timeout,
    "a connection without a request": Bounds().keep_alive,
    "a client that takes nothing": Bounds().write_timeout,
    "silence in a stream": Bounds().heartbeat,
    "the end of a gateway": Gateway.stop.__kwdefaults__["grace"],
    "a client: connecting": session.CONNECT_TIMEOUT,
    "a client: an answer": session.TIMEOUT,
    "a client: silence": session.IDLE,
    "the delay of the second restart": rt.Supervision().backoff[0],
    "the longest delay": rt.Supervision().backoff[1],
    "calm after which": supervision.RESET_AFTER,
    "too many restarts": rt.Supervision().intensity,
    "a handler that blocks": rt.ActorSystem.__init__.__kwdefaults__["block_warning"],
    "a turn at the loop": scheduler.BREATH,
    "`connect`": Timeouts().connect,
    "`first_token`": Timeouts().first_token,
    "`between_tokens`": Timeouts().between_tokens,
    "after the model is finished": LONGEST_TAIL,
    "a wait that an endpoint asks for": LONGEST_WAIT,
}


@pytest.mark.parametrize("limit", LIMITS)
def test_the_map_of_timeouts_has_the_limits_of_the_code(limit: str) -> None:
    (default,) = [rest[0] for first, rest in rows("timeouts.md").items() if first.startswith(limit)]
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", default.partition(",")[0])]
    expected = LIMITS[limit]
    assert numbers == (list(expected) if isinstance(expected, tuple) else [expected])


def test_defaults_of_supervision_are_those_of_the_code() -> None:
    found = rows("supervision.md")
    default = rt.Supervision()
    assert found["`restart`"][0] == f'`"{default.restart}"`'
    assert found["`strategy`"][0] == f'`"{default.strategy}"`'
    assert found["`backoff`"][0] == f"`{default.backoff}` seconds"
    assert found["`intensity`"][0] == f"`{default.intensity}` restarts, seconds"


def test_bounds_are_those_of_the_code() -> None:
    assert f"{DEFAULT_CAPACITY:,} messages may wait" in TEXT["mailboxes.md"]
    assert f"({Limits().max_bytes:,} bytes)" in TEXT["messages.md"]
    assert f"{Limits().max_depth} levels of nesting" in TEXT["messages.md"]
