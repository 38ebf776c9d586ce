"""The tool loader: tools from files of their names, in one folder, and nothing executed that was not asked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import retinue as rt
from retinue.capabilities.tools import tools_of

WEATHER = '''
"""A tool."""
from __future__ import annotations

import dataclasses

executed.append("weather") if "executed" in globals() else None


@dataclasses.dataclass
class Place:
    city: str


def weather(place: Place, days: int = 1) -> str:
    """Tells the weather.

    Args:
        place: Where.
        days: For how many days.
    """
    return f"{place.city}: rain for {days}"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tools"
    made.mkdir()
    (made / "weather.py").write_text(WEATHER, encoding="utf-8")
    (made / "noted.py").write_text(
        "def noted(city):\n    return city\n\nnoted.tool_info = {'tool_name': 'noted', 'tool_description': 'x', 'tool_params': [{'name': 'city', 'type': 'string', 'description': 'x', 'required': True}]}\n"
    )
    (made / "danger.py").write_text("raise SystemExit('executed')\n")
    (made / "kit.py").write_text(
        "import retinue as rt\n\nclass kit:\n    @rt.tool\n    def read(self, path: str) -> str:\n        'Reads.'\n        return path\n\n"
        "    @rt.tool\n    def write(self, path: str) -> str:\n        'Writes.'\n        return path\n"
    )
    return made


def test_a_tool_is_loaded_by_name_and_is_the_same_the_next_time(folder: Path) -> None:
    loader = rt.ToolLoader(folder)
    (tool,) = loader.load("weather")
    assert tool.name == "weather" and '"days"' in tool.parameters
    assert tool.invoke(tool.decode('{"place": {"city": "Ulm"}, "days": 2}')) == "Ulm: rain for 2"
    (folder / "weather.py").write_text("raise ValueError")
    assert loader.load("weather") == (tool,)
    assert "weather" not in sys.modules


def test_functions_with_tool_info_and_toolkits_are_loaded(folder: Path) -> None:
    assert [one.name for one in rt.ToolLoader(str(folder)).load("noted", "kit")] == ["noted", "kit.read", "kit.write"]


def test_nothing_is_executed_that_was_not_asked_for(folder: Path) -> None:
    loader = rt.ToolLoader(folder)
    assert loader.names() == ("danger", "kit", "noted", "weather")
    loader.load("weather")
    with pytest.raises(rt.DefinitionError, match=r"danger\.py cannot be executed: SystemExit: executed"):
        loader.load("danger")


def test_an_absent_tool_is_an_error_that_names_those_that_are_there(folder: Path) -> None:
    loader = rt.ToolLoader(folder)
    with pytest.raises(rt.DefinitionError, match=r"there is no tool 'wether' in '.*tools'\. Did you mean 'weather'\?"):
        loader.load("wether")
    with pytest.raises(rt.DefinitionError, match="There are danger, kit, noted, weather"):
        loader.load("zzz")
    with pytest.raises(rt.DefinitionError, match=r"the folder of tools '.*none' cannot be read"):
        rt.ToolLoader(folder / "none").load("weather")


@pytest.mark.parametrize(
    "name", ["../weather", "a/b", "a.b", "", "weather.py", "1st", "wéather", "a" * 65, "__import__('os')", "wea\nther", "con\0", 5, None]
)
def test_names_that_are_none_are_refused(folder: Path, name: str) -> None:
    with pytest.raises(rt.DefinitionError, match="is no name of a tool's file"):
        rt.ToolLoader(folder).load(name)


def test_links_that_lead_out_of_the_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("raise SystemExit('executed')")
    (folder / "outside.py").symlink_to(outside)
    (folder / "ring.py").symlink_to(folder / "ring.py")
    (folder / "alias.py").symlink_to(folder / "weather.py")
    loader = rt.ToolLoader(folder)
    with pytest.raises(rt.DefinitionError, match="leads out of the folder"):
        loader.load("outside")
    with pytest.raises(rt.DefinitionError, match="there is no tool 'ring'"):
        loader.load("ring")
    with pytest.raises(rt.DefinitionError, match="by another name"):
        loader.load("alias")
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert [one.name for one in rt.ToolLoader(link).load("weather")] == ["weather"]  # the folder itself may be reached by one


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def other(): ...", "has no 'broken' in it"),
        ("def broken(x): ...", "broken.py: .*'x'"),
        ("def broken(:\n", "line 1 cannot be executed: SyntaxError"),
        ("\n\n1 / 0", "cannot be executed: ZeroDivisionError"),
        ("broken = 5", "no tool"),
        (
            "import retinue as rt\nclass broken:\n  def __init__(self, x): ...\n  @rt.tool\n  def f(self) -> str:\n    'x'\n",
            "the toolkit broken\\(\\) cannot be made",
        ),
        ("#" + "x" * 2_000_000, "larger than 1,048,576 bytes"),
        ("\0", "cannot be executed"),
    ],
)
def test_files_that_offer_no_tool_say_so_and_leave_nothing_behind(folder: Path, source: str, text: str) -> None:
    (folder / "broken.py").write_text(source)
    before = set(sys.modules)
    with pytest.raises(rt.DefinitionError, match=text):
        rt.ToolLoader(folder).load("broken")
    left = [name for name in set(sys.modules) - before if name.startswith("retinue tools")]
    assert not left or "cannot be executed" not in text


def test_two_tools_of_one_name_and_what_is_no_folder(folder: Path) -> None:
    with pytest.raises(rt.DefinitionError, match="two tools are called"):
        rt.ToolLoader(folder).load("weather", "weather")
    for wrong in (5, "", None):
        with pytest.raises(rt.DefinitionError, match="path of a folder"):
            rt.ToolLoader(wrong)  # type: ignore[arg-type]


def test_a_name_alone_is_no_tool() -> None:
    with pytest.raises(rt.DefinitionError, match="'weather' is a text and no tool.*Names of tools are looked up"):
        tools_of(["weather"])


def test_a_pipe_is_no_tools_file_and_nobody_waits_for_it(folder: Path) -> None:
    os.mkfifo(folder / "piped.py")
    with pytest.raises(rt.DefinitionError, match="no regular file"):
        rt.ToolLoader(folder).load("piped")


def test_a_toolkit_that_would_end_the_program_cannot_be_made(folder: Path) -> None:
    (folder / "leaver.py").write_text("class leaver:\n    def __init__(self):\n        raise SystemExit(3)\n")
    with pytest.raises(rt.DefinitionError, match="cannot be made"):
        rt.ToolLoader(folder).load("leaver")
