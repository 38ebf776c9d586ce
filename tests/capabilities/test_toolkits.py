"""Toolkits: what is marked is a tool, and nothing else of the object can be called."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import retinue as rt
from retinue.capabilities.tools import tool_of, tools_of


class Files(rt.Toolkit):
    """Files of one folder."""

    secret: ClassVar[str] = "never"

    def __init__(self, folder: str = "reports") -> None:
        self.folder = folder
        self.read_count = 0

    @rt.tool_api
    def read(self, path: str) -> str:
        """Reads a file.

        Args:
            path: Which one.
        """
        self.read_count += 1
        return f"{self.folder}/{path}"

    @rt.tool(name="remove", approval=True)
    def delete(self, path: str) -> str:
        return path

    def reset(self) -> None:
        raise AssertionError("nobody marked this")

    def _hidden(self) -> None:
        raise AssertionError("nobody marked this")


class More(Files):
    @rt.tool_api
    async def size(self, path: str, context: rt.ToolContext) -> int:
        return len(path)

    def delete(self, path: str) -> str:  # type: ignore[override]
        return path


def test_the_marked_methods_of_an_instance_are_its_tools() -> None:
    files = Files("archive")
    read, delete = tool_of(files)
    assert (read.name, read.wire_name, read.requires) == ("Files.read", "Files__read", "tool.Files.read")
    assert (delete.name, delete.approval) == ("Files.remove", True)
    assert read.description == "Reads a file."
    assert "self" not in read.parameters
    assert read.invoke(read.decode('{"path": "a.txt"}')) == "archive/a.txt"
    assert files.read_count == 1


def test_each_instance_has_tools_of_its_own() -> None:
    one, two = Files("one"), Files("two")
    assert [tool_of(kit)[0].invoke(tool_of(kit)[0].decode({"path": "x"})) for kit in (one, two)] == ["one/x", "two/x"]


def test_a_marked_method_is_still_a_method() -> None:
    assert Files().read("x") == "reports/x"
    assert repr(Files.__dict__["read"]) == "<tool method Files.read>"


def test_what_is_not_marked_is_no_tool_whatever_it_is_called() -> None:
    names = {tool.name for tool in tool_of(Files())}
    assert names == {"Files.read", "Files.remove"}
    for name in ("Files.reset", "Files._hidden", "Files.secret", "Files.__init__", "Files.read.__globals__", "Files.folder"):
        assert name not in names


def test_what_a_base_class_marks_is_a_tool_and_what_takes_its_place_unmarked_is_none() -> None:
    assert [tool.name for tool in tool_of(More())] == ["More.read", "More.size"]
    assert tool_of(More())[1].kind == "async"
    assert tool_of(More())[1].context_parameter == "context"


def test_a_toolkit_needs_no_base_class() -> None:
    class Clock:
        @rt.tool
        def now(self) -> str:
            """Tells the time."""
            return "noon"

    (now,) = tool_of(Clock())
    assert (now.name, now.invoke(now.decode(""))) == ("Clock.now", "noon")


def test_a_toolkit_may_have_another_name() -> None:
    class Archive(Files):
        toolkit_name = "files"

    assert [tool.name for tool in tool_of(Archive())] == ["files.read", "files.remove"]


def test_the_only_tool_run_is_called_by_the_toolkits_name() -> None:
    class Search(rt.Toolkit):
        @rt.tool_api
        def run(self, query: str) -> str:
            return query

    class Both(rt.Toolkit):
        @rt.tool_api
        def run(self, query: str) -> str:
            return query

        @rt.tool_api
        def other(self, query: str) -> str:
            return query

    assert [tool.name for tool in tool_of(Search())] == ["Search"]
    with pytest.raises(rt.DefinitionError, match=r"`run`.*and others beside it"):
        tool_of(Both())


def test_a_class_is_not_its_instance() -> None:
    with pytest.raises(rt.DefinitionError, match=r"Files is a toolkit, and tools belong to instances: give Files\("):
        tool_of(Files)
    with pytest.raises(rt.DefinitionError, match=r"method of a toolkit's class: give an instance"):
        tool_of(Files.__dict__["read"])


def test_mistakes_in_a_toolkit_are_told_where_it_is_defined() -> None:
    with pytest.raises(rt.DefinitionError, match="has no tools"):

        class Empty(rt.Toolkit):
            pass

    with pytest.raises((rt.DefinitionError, RuntimeError)) as caught:

        class Private(rt.Toolkit):
            @rt.tool_api
            def _read(self, path: str) -> str:
                return path

    assert "private" in str(caught.value) or "private" in str(caught.value.__cause__)
    with pytest.raises(rt.DefinitionError, match="staticmethod"):
        rt.tool(staticmethod(len))
    with pytest.raises(rt.DefinitionError, match="marks a method"):
        rt.tool_api(len)


def test_a_method_with_an_untyped_parameter_is_refused_with_its_name() -> None:
    class Loose(rt.Toolkit):
        @rt.tool
        def find(self, query) -> Any:  # type: ignore[no-untyped-def]
            return query

    with pytest.raises(rt.DefinitionError, match=r"'Loose.find'.*'query' has no type"):
        tool_of(Loose())


def test_two_instances_of_one_toolkit_have_tools_of_the_same_names() -> None:
    with pytest.raises(rt.DefinitionError, match="two tools are called 'Files.read'"):
        tools_of([Files("a"), Files("b")])
