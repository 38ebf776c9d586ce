"""Code in Markdown files: where it stands, and how it is run.

- A ```python block is a whole program. It is run in an empty folder; a ```text block right below it is what it prints.
- In a ```console block a line that begins with `$ ` is a command, run at the root of the repository; lines below it are what it prints,
  where there are any. A ```sh block holds commands alone.
- `<!-- not run: the reason -->` above a block leaves it out; the reason stands where readers of the source see it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: \S[^\n]*-->\s*$")


class Snippet(NamedTuple):
    """A block of code in a Markdown file, with the output that stands below it (None: not given)."""

    path: Path
    line: int
    language: str
    code: str
    output: str | None


def snippets(path: Path, text: str) -> list[Snippet]:
    """Return a file's blocks that are to be run."""
    matches = list(_FENCE.finditer(text))
    found = []
    for index, match in enumerate(matches):
        language = match["language"]
        if language not in ("python", "console", "sh") or _NOT_RUN.search(text[: match.start()]):
            continue
        output = None
        if (
            index + 1 < len(matches)
            and matches[index + 1]["language"] == "text"
            and not text[match.end() : matches[index + 1].start()].strip()
        ):
            output = matches[index + 1]["code"]
        found.append(Snippet(path, text.count("\n", 0, match.start()) + 1, language, match["code"], output))
    return found


def commands(snippet: Snippet) -> list[tuple[str, str]]:
    """Return the block's commands, each with the output that is shown for it ("": none is shown)."""
    if snippet.language == "sh":
        lines = [line.partition("  #")[0].strip() for line in snippet.code.splitlines()]
        return [(line, "") for line in lines if line and not line.startswith("#")]
    found: list[tuple[str, str]] = []
    for line in snippet.code.splitlines():
        if line.startswith("$ "):
            found.append((line[2:].partition("  #")[0].strip(), ""))
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found
