"""A run as a web page: nothing that was recorded is ever HTML, and nothing comes from a network."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from retinue.viewing import page
from retinue.viewing.page import page_of
from retinue.viewing.reading import TraceFile
from retinue.viewing.summary import Summary, summed
from span_maker import ODD_ROWS, Spans, model, odd_row, team

EVIL = "\"'><img src=x onerror=\"document.title='pwned'\"></title></style></script></textarea><script>document.title='pwned'</script><!--\u2028\u202e&lt;"


class Reader(html.parser.HTMLParser):
    """What a browser would make of the page: its elements, and the texts of those that matter."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = dict(attrs).get("id") or tag if tag in ("script", "style", "title") else tag

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._within] = self.texts.get(self._within, "") + data


def summary_of(folder: Path) -> Summary:
    with TraceFile(folder) as file:
        return summed(file.read(file.find("last")))


def read(text: str) -> tuple[Reader, dict[str, Any]]:
    reader = Reader()
    reader.feed(text)
    return reader, json.loads(reader.texts["data"])


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A run each of whose texts would like to be HTML."""
    spans = Spans(tmp_path)
    top = spans.add(
        EVIL, 0, 90, kind="agent", status="error", text=EVIL, span=f"id{EVIL}",
        attributes={
            "gen_ai.agent.name": EVIL, "error.type": EVIL, "retinue.subject": EVIL, "retinue.tenant": EVIL, "retinue.path": EVIL, "gen_ai.conversation.id": EVIL,
            EVIL: EVIL, "gen_ai.input.messages": json.dumps([{"role": EVIL, "parts": [{"type": "text", "content": EVIL}]}]),
        },
        events=[
            ("retinue.handoff", 1, {"retinue.handoff.source": EVIL, "retinue.handoff.target": EVIL, "retinue.handoff.reason": EVIL}),
            ("retinue.approval.parked", 2, {"retinue.approval.requests": [EVIL]}), (EVIL, 3, {EVIL: EVIL}),
        ],
    )  # fmt: skip
    model(spans, 1, 80, top, attributes={"gen_ai.response.model": EVIL})
    spans.add("execute_tool x", 80, 90, parent=top, kind="tool", attributes={"gen_ai.tool.name": EVIL})
    spans.close()
    return tmp_path


def test_nothing_that_was_recorded_becomes_an_element(evil: Path) -> None:
    reader, data = read(page_of(summary_of(evil), {EVIL: EVIL}, [EVIL]))
    tags = [tag for tag, _ in reader.elements]
    assert (tags.count("script"), tags.count("style"), tags.count("img"), tags.count("title")) == (2, 1, 0, 1)
    assert not [given for _, given in reader.elements if any(name.startswith("on") for name in given)]
    assert [span["n"] for span in data["spans"]] == [EVIL, "chat gpt-4.1", "execute_tool x"]
    assert data["spans"][0]["a"][EVIL] == EVIL
    assert "pwned" in reader.texts["title"]  # as words


def test_the_page_permits_nothing_but_its_own_script_and_style(evil: Path) -> None:
    text = page_of(summary_of(evil))
    reader, _ = read(text)
    (policy,) = [
        given["content"] for tag, given in reader.elements if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy"
    ]
    hashes = {
        name: f"'sha256-{base64.b64encode(hashlib.sha256(reader.texts[name].encode()).digest()).decode()}'" for name in ("script", "style")
    }
    assert policy == f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; base-uri 'none'; form-action 'none'"
    assert not [given for _, given in reader.elements if {"src", "href", "action", "style"} & set(given)]
    code = reader.texts["script"] + reader.texts["style"]
    assert not re.search(
        r"https?://|url\(|@import|innerHTML|outerHTML|insertAdjacent|document\.write|eval|fetch\(|XMLHttp|WebSocket|sendBeacon", code
    )


def test_the_page_is_found_by_its_policy_before_anything_else(evil: Path) -> None:
    text = page_of(summary_of(evil))
    assert text.index("Content-Security-Policy") < text.index("<title>") < text.index("<style>") < text.index("<script")


def test_the_page_has_totals_and_every_span_in_its_place(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans)
    spans.close()
    text = page_of(summary_of(tmp_path))
    reader, data = read(text)
    assert reader.texts["title"] == "invoke_agent team · run aaaaaaaa"
    assert "<b>1,212 → 200</b>" in text
    assert "<b>$0.0042</b>" in text
    assert [(span["d"], span["k"], span["s"], span["e"]) for span in data["spans"]] == [
        (0, 0, 0, 4000), (1, 0, 10, 2100), (2, 1, 20, 1200), (2, 2, 1210, 2000), (1, 0, 500, 3900), (2, 1, 600, 3800),
    ]  # fmt: skip
    assert data["spans"][3]["x"] == "timeout: no answer in time"


def test_what_is_not_known_is_not_nothing(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    model(spans, 0, 1, "", tokens=None, cost=None)
    spans.close()
    text = page_of(summary_of(tmp_path))
    assert "<b>?</b><span>cost, not known</span>" in text
    assert "<b>?</b><span>tokens, in → out</span>" in text


def test_long_texts_are_cut_and_the_page_stays_of_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_TEXT", 1000)
    monkeypatch.setattr(page, "MOST_CHARACTERS", 5000)
    spans = Spans(tmp_path)
    for number in range(50):
        spans.add(
            "chat m", number, number + 1, kind="model", attributes={"gen_ai.output.messages": "x" * 100_000, "n": [["y" * 5000] * 3] * 3}
        )
    spans.close()
    text = page_of(summary_of(tmp_path))
    assert len(text) < 400_000
    _, data = read(text)
    assert data["spans"][0]["a"]["gen_ai.output.messages"].startswith("x" * 1000 + "… (99,000 more characters")


@pytest.mark.parametrize("name", sorted(ODD_ROWS))
def test_odd_rows_are_on_the_page(name: str, tmp_path: Path) -> None:
    odd_row(tmp_path, name)
    _, data = read(page_of(summary_of(tmp_path)))
    assert len(data["spans"]) == 8


# -- in a real browser, where there is one

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def opened(path: Path, *, width: int = 1280) -> str:
    """The page's elements after its script has run, as the browser has them."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom", f"--window-size={width},3000",
        f"--user-data-dir={path.parent / 'browser'}", "--virtual-time-budget=3000", path.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no browser here: apt-get install chromium")
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_draws_the_tree_and_runs_nothing_of_what_was_recorded(evil: Path, width: int) -> None:
    path = evil / "page.html"
    path.write_text(page_of(summary_of(evil), {}, [EVIL]), encoding="utf-8")
    drawn = opened(path, width=width)
    reader = Reader()
    reader.feed(drawn)
    assert 'data-ready="yes"' in drawn
    assert reader.texts["title"] != "pwned"
    assert not [tag for tag, _ in reader.elements if tag == "img"]
    assert sum(given.get("role") == "treeitem" for _, given in reader.elements) == 3


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no browser here: apt-get install chromium")
def test_a_browser_draws_of_ten_thousand_spans_those_that_can_be_seen(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    top = spans.add("invoke_agent swarm", 0, 60_000, kind="agent")
    for number in range(9_999):
        model(spans, number, number + 500, top)
    spans.close()
    path = tmp_path / "page.html"
    path.write_text(page_of(summary_of(tmp_path)), encoding="utf-8")
    drawn = opened(path)
    assert 'data-ready="yes"' in drawn
    assert "at most 500 at once" in drawn
    assert 50 < len(re.findall('role="treeitem"', drawn)) < 150
    assert 'style="height: 300000px;"' in drawn
