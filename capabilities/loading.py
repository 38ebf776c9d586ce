"""The tool loader: tools from a folder, each from a file of its own name, `weather.py` with a function (or a tool) `weather` in it.

Loading a tool executes its file, with all that the program may do, so a file is executed when its tool is asked for by name, and no other. A name is a plain identifier, and its
file lies in the folder itself: no link leads out of it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import stat
import sys
import threading
from pathlib import Path
from typing import Any, Final, final

from retinue.capabilities.registry_tools import unknown_tool
from retinue.capabilities.tool_class import Tool
from retinue.capabilities.tools import tools_of
from retinue.security.errors import DefinitionError, RetinueError

__all__ = ["ToolLoader"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)

LARGEST: Final = 1_048_576
"""Bytes of a file that are executed."""

MOST_FILES: Final = 1_000
"""Files of the folder that `names()` gives."""


@final
class ToolLoader:
    """Loads tools by name from a folder: `Agent(tools=rt.ToolLoader("tools").load("weather", "mail"))`.

    What is loaded once is kept: asked for again it is the same tool, whatever has become of its file.

    Args:
        folder: The folder. It is looked into when a tool is asked for, and not before.

    Raises:
        DefinitionError: It is no path.
    """

    __slots__ = ("_folder", "_loaded", "_lock")

    def __init__(self, folder: str | Path) -> None:
        if not isinstance(folder, str | Path) or not str(folder):
            raise DefinitionError(f"ToolLoader takes the path of a folder, not {folder!r}")
        self._folder = Path(folder)
        self._loaded: dict[str, tuple[Tool[Any, Any], ...]] = {}
        self._lock = threading.Lock()

    def names(self) -> tuple[str, ...]:
        """The names of the files that could be loaded, in order. Nothing is executed.

        Raises:
            DefinitionError: The folder cannot be read.
        """
        try:
            with os.scandir(self._folder) as entries:
                found = [entry.name[:-3] for entry in entries if entry.name.endswith(".py") and _is_file(entry)]
        except OSError as error:
            raise DefinitionError(f"the folder of tools {str(self._folder)!r} cannot be read: {error.strerror}") from error
        return tuple(sorted(name for name in found if _NAME.fullmatch(name))[:MOST_FILES])

    def load(self, *names: str) -> tuple[Tool[Any, Any], ...]:
        """The tools of these names, in their order. A file may offer a toolkit, which is several tools.

        Args:
            names: Names of files without `.py`.

        Raises:
            DefinitionError: A name is none, there is no such file (the text names those that are alike), the file cannot be executed, or there is no tool of its name
                in it. Those before it have been loaded by then.
        """
        found: list[Tool[Any, Any]] = []
        for name in names:
            with self._lock:
                made = self._loaded.get(name) if isinstance(name, str) else None
                if made is None:
                    made = self._load(name)
                    self._loaded[name] = made
            found += made
        return tools_of(found)

    def _load(self, name: str) -> tuple[Tool[Any, Any], ...]:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DefinitionError(
                f"{str(name)[:80]!r} is no name of a tool's file: ASCII letters, digits and '_', at most 64, no digit first"
            )
        source = self._read(name)
        module = self._execute(name, source)
        given = vars(module).get(name)
        if given is None:
            raise DefinitionError(f"{self._folder / name}.py has no {name!r} in it: a tool's function has the name of its file")
        try:
            if isinstance(given, type):
                given = given()
            return tools_of([given])
        except RetinueError as error:
            raise DefinitionError(f"{self._folder / name}.py: {error}") from error
        except (Exception, SystemExit) as error:
            raise DefinitionError(
                f"{self._folder / name}.py: the toolkit {name}() cannot be made: {type(error).__name__}: {error}"
            ) from error

    def _read(self, name: str) -> bytes:
        """The file's bytes: of a regular file that lies in the folder itself, and of no other."""
        path = self._folder / f"{name}.py"
        try:
            folder, real = self._folder.resolve(strict=True), path.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: links in a ring
            raise unknown_tool(name, self.names(), f" in {str(self._folder)!r}") from None
        if real.parent != folder:
            raise DefinitionError(f"{path} leads out of the folder of tools, to {real}: put the file itself there")
        if real.name != path.name:
            raise DefinitionError(f"{path} is {real.name} by another name: write the name as the file has it")
        try:
            with os.fdopen(os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:  # a pipe would be waited for
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise DefinitionError(f"{path} is no regular file")
                raw = file.read(LARGEST + 1)
        except OSError as error:
            raise DefinitionError(f"{path} cannot be read: {error.strerror}") from error
        if len(raw) > LARGEST:
            raise DefinitionError(f"{path} is larger than {LARGEST:,} bytes, and no tool of anybody's")
        return raw

    def _execute(self, name: str, source: bytes) -> Any:
        path = (self._folder / f"{name}.py").resolve()
        # A name of its own, by which annotations and data classes of the file find what they mean, and which no import statement finds.
        full = f"retinue tools {hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.{name}"
        spec = importlib.util.spec_from_loader(full, loader=None, origin=str(path))
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        module.__file__ = str(path)
        before = sys.modules.get(full)
        sys.modules[full] = module
        try:
            exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - what loading a tool is
        except BaseException as error:
            if before is None:
                del sys.modules[full]
            else:
                sys.modules[full] = before
            if not isinstance(error, Exception | SystemExit):
                raise
            line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            raise DefinitionError(f"{path}{line} cannot be executed: {type(error).__name__}: {str(error)[:500]}") from error
        return module

    def __repr__(self) -> str:
        return f"<ToolLoader of {str(self._folder)!r}>"


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # links in a ring
        return False
