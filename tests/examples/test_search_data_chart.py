"""examples/search_data_chart.py"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from pathlib import Path

import pytest

import retinue as rt
from example_runner import load_example, run_example
from housekeeping import ROOT
from live_endpoint import run_live

pytest.importorskip("matplotlib", reason="the extra `charts` is not installed")


def colours_of(png: bytes) -> int:
    """How many different rows of pixels a PNG file has: it is taken apart, its checksums included."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + content)
        data += content if kind == b"IDAT" else b""
        at += 12 + length
    assert kind == b"IEND"
    width, height = struct.unpack(">II", png[16:24])
    pixels = zlib.decompress(data)
    assert len(pixels) == height * (1 + 4 * width)
    return len({pixels[row * (1 + 4 * width) : (row + 1) * (1 + 4 * width)] for row in range(height)})


@pytest.mark.slow  # matplotlib looks at all fonts of the machine first
def test_what_was_searched_is_drawn_into_a_real_picture_and_a_broken_search_is_never_run_as_code(tmp_path: Path) -> None:
    printed = run_example("search_data_chart", str(tmp_path)).splitlines()
    assert "  executor: the call could not be read, so nothing was run. Please follow the format" in printed
    assert not list(tmp_path.rglob("never.txt"))
    assert not (ROOT / "never.txt").exists()
    researched = next(line for line in printed if line.startswith("  researcher: The years"))
    for fact in ("Mercury 88.0 days [mercury.txt]", "Venus 224.7 days", "Earth 365.2 days", "Mars 687.0 days"):
        assert fact in researched
    assert printed[-3:] == [
        "=> FINAL ANSWER: saved years.png, 4 bars.",
        f"{tmp_path / 'years.png'}: 640 x 480 pixels",
        "written to state.json and loaded by another team: the same",
    ]
    assert colours_of((tmp_path / "years.png").read_bytes()) > 20
    state = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    assert {"memory", "researcher.memory", "charter.memory"} <= set(state)


async def test_documents_are_found_by_their_rarer_words_and_nothing_is_made_up() -> None:
    search = load_example("search_data_chart").Search(ROOT / "examples" / "planets")
    async with rt.ActorSystem() as system:
        executor = await system.spawn(rt.ActionExecutor, [search])

        async def find(**parameters: object) -> str:
            message = rt.AgentMessage({"name": "Search.find", "parameters": parameters})
            return str((await executor.ask(message)).content.format_result())

        assert (await find(query="Which planet has the moons Phobos and Deimos?", most=1)).startswith("[mars.txt] Mars goes round the Sun")
        assert (await find(query="the Sun", most=8)).count("Source: NASA") == 8
        assert await find(query="zebra") == "nothing was found"


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(sys, "argv", ["search_data_chart.py", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"pip install '\.\[charts\]'"):
        rt.run(load_example("search_data_chart").main)


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_a_model_that_has_the_final_answer_at_once_ends_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    printed, asked = run_live("search_data_chart", "FINAL ANSWER: I know it.")
    assert printed.splitlines()[0] == "asking some-model at URL; this may cost money"
    assert "=> FINAL ANSWER: I know it." in printed
    (one,) = asked
    assert "You are the researcher, and work together with the charter." in one.json["messages"][0]["content"]
    assert '{"name": "Search.find"' in one.json["messages"][0]["content"]
