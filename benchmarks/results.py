"""`benchmarks/RESULTS.md` has one part a command, each under a heading of the first level, and a command replaces its own part only."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["RESULTS", "Row", "facts_list", "joined", "marked", "plain", "put_part"]

RESULTS = Path(__file__).with_name("RESULTS.md")

Row = Sequence[str]
"""Cells of a table; its first row is the header."""

_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)


def facts_list(facts: Mapping[str, str]) -> str:
    """The machine, a line a fact."""
    return "\n".join(f"- {name}: {fact}" for name, fact in facts.items())


def joined(paragraphs: Sequence[str]) -> str:
    """Paragraphs as Markdown."""
    return "\n\n".join(paragraphs) + "\n"


def plain(rows: Sequence[Row]) -> str:
    """A table for a terminal."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def marked(rows: Sequence[Row]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join(lines)


def put_part(text: str, path: Path = RESULTS) -> None:
    """Puts a part into the file: in place of the one with the same heading, or at the end.

    Args:
        text: Begins with "# heading".
        path: The file.
    """
    heading = _HEADING.match(text)
    assert heading is not None, "a part begins with a heading of the first level"
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    edges = [*(found.start() for found in _HEADING.finditer(before)), len(before)]
    parts = [before[start:end].strip() for start, end in itertools.pairwise(edges)]
    same = [number for number, part in enumerate(parts) if part.startswith(f"{heading[0]}\n")]
    if same:
        parts[same[0]] = text.strip()
    else:
        parts.append(text.strip())
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
