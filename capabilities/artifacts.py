"""Artifacts: outputs that are too long for a model. It gets head and tail, and a handle by which it reads the rest with the tool `read_result`.

A store is in memory and bounded in every way: by the length of one output, by all that it keeps of one owner, and of all. What has to go is what was kept first. Each output
belongs to whom the call was made for, in the conversation that it was made in: to anybody else its handle is one that does not exist.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Annotated, Any, Final, TypeAlias, final

import attrs

from retinue.capabilities.tool_class import Tool
from retinue.capabilities.tool_context import ToolContext
from retinue.capabilities.tool_results import Artifact, ToolResult
from retinue.capabilities.tools import tool
from retinue.security.errors import DefinitionError

__all__ = ["ArtifactStatistics", "ArtifactStore", "head_and_tail", "owner_of", "reader_tool"]

Owner: TypeAlias = tuple[str | None, str | None, str | None]
"""Tenant, subject and the path of the actor that called: whose an output is."""

PREVIEW: Final = 4_000
"""Characters that a model gets of a long output, where nobody says how many."""

LONGEST: Final = 4 * 2**20
"""Characters of one output that are kept."""

MOST_OF_OWNER: Final = 16 * 2**20
"""Characters that are kept for one owner."""

MOST: Final = 64 * 2**20
"""Characters that are kept in all."""

MOST_OUTPUTS: Final = 4_096
"""Outputs that are kept in all."""

READ: Final = 4_000
"""Characters that `read_result` gives, where the model does not say how many."""

LONGEST_READ: Final = 20_000
"""Characters that it gives at most."""


def head_and_tail(text: str, limit: int, *, handle: str | None = None) -> str:
    """A text within a limit: its head and its tail, and between them how much is left out.

    Args:
        text: The text.
        limit: Characters that come out at most, from 0 on. The note of what is left out counts, where there is room for it.
        handle: The artifact that has the whole of it, named in the note.
    """
    if len(text) <= limit:
        return text
    how = "" if handle is None else f"; read_result(handle={handle!r}, start=…, length=…) reads them"
    note = _note(len(text) - limit, len(text), how)
    note = _note(len(text) - max(limit - len(note), 0), len(text), how)  # the number in it depends on its own length
    if len(note) > limit:
        return text[:limit]
    room = limit - len(note)
    tail = room // 3
    return text[: room - tail] + note + (text[-tail:] if tail else "")


def _note(left_out: int, characters: int, how: str) -> str:
    return f"\n… [{left_out:,} of {characters:,} characters are left out{how}] …\n"


@attrs.frozen
class ArtifactStatistics:
    """What a store holds.

    Attributes:
        outputs: How many.
        characters: Of how many characters.
        dropped: How many had to go for others.
    """

    outputs: int
    characters: int
    dropped: int


class _Kept:
    """One output."""

    __slots__ = ("characters", "owner", "text")

    def __init__(self, text: str, owner: Owner, characters: int) -> None:
        self.text = text
        self.owner = owner
        self.characters = characters


@final
class ArtifactStore:
    """Keeps long outputs for those whose they are. To be used from any thread.

    Args:
        longest: Characters of one output that are kept; of a longer one its head. Default: 4,194,304.
        most_of_owner: Characters that are kept for one owner. Default: 16,777,216.
        most: Characters that are kept in all. Default: 67,108,864.

    Raises:
        DefinitionError: One of them is no whole number above 0.
    """

    __slots__ = ("_characters", "_dropped", "_kept", "_lock", "_longest", "_most", "_most_of_owner", "_of_owner")

    def __init__(self, *, longest: int = LONGEST, most_of_owner: int = MOST_OF_OWNER, most: int = MOST) -> None:
        for name, value in (("longest", longest), ("most_of_owner", most_of_owner), ("most", most)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DefinitionError(f"ArtifactStore({name}={value!r}): give a number of characters, 1 or more")
        self._most = most
        self._most_of_owner = min(most_of_owner, most)
        self._longest = min(longest, self._most_of_owner)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._of_owner: dict[Owner, OrderedDict[str, None]] = {}
        self._characters: dict[Owner, int] = {}
        self._dropped = 0
        self._lock = threading.Lock()

    def keep(self, text: str, owner: Owner = (None, None, None), *, preview: int = PREVIEW) -> Artifact:
        """Keep an output.

        Args:
            text: The output.
            owner: Whose it is; see `owner_of`.
            preview: Characters of the preview. Default: 4,000.

        Returns:
            The artifact, with a preview that names its handle.
        """
        handle = f"out_{secrets.token_hex(8)}"
        kept = _Kept(text[: self._longest], owner, len(text))
        with self._lock:
            self._kept[handle] = kept
            self._of_owner.setdefault(owner, OrderedDict())[handle] = None
            self._characters[owner] = self._characters.get(owner, 0) + len(kept.text)
            while self._characters[owner] > self._most_of_owner:
                self._drop(next(iter(self._of_owner[owner])))
            while len(self._kept) > MOST_OUTPUTS or sum(self._characters.values()) > self._most:
                self._drop(next(iter(self._kept)))
        return Artifact(handle, len(text), head_and_tail(text, preview, handle=handle))

    def _drop(self, handle: str) -> None:
        kept = self._kept.pop(handle)
        of_owner = self._of_owner[kept.owner]
        del of_owner[handle]
        self._characters[kept.owner] -= len(kept.text)
        self._dropped += 1
        if not of_owner:
            del self._of_owner[kept.owner], self._characters[kept.owner]

    @property
    def empty(self) -> bool:
        """Whether nothing is kept at this moment."""
        return not self._kept

    def forget(self, owner: Owner) -> int:
        """Drop all that is kept for an owner, whose conversation has ended. Returns how many outputs that were."""
        with self._lock:
            handles = list(self._of_owner.get(owner, ()))
            for handle in handles:
                self._drop(handle)
            self._dropped -= len(handles)
        return len(handles)

    def read(self, handle: str, start: int = 0, length: int = READ, *, owner: Owner = (None, None, None)) -> ToolResult:
        """A part of an output, with a line before it that says which; or a result that says what is wrong with the question.

        Args:
            handle: The handle.
            start: The first character, counted from 0.
            length: How many characters, at most 20,000. Default: 4,000.
            owner: Who asks.
        """
        with self._lock:
            kept = self._kept.get(handle)
            if kept is not None and kept.owner != owner:
                kept = None
            mine = list(self._of_owner.get(owner, ()))[-5:] if kept is None else []
        if kept is None:
            there = f" There {'is' if len(mine) == 1 else 'are'} {', '.join(mine)}." if mine else " There is none at the moment."
            return ToolResult.failed(
                "arguments",
                f"there is no output {handle[:80]!r}: it was never made here, or had to go for later ones; call the tool again.{there}",
            )
        if start < 0 or length < 1:
            return ToolResult.failed("arguments", f"start={start} counts from 0, and length={length} is 1 or more")
        if start >= len(kept.text):
            cut = f", of which the first {len(kept.text):,} were kept" if len(kept.text) < kept.characters else ""
            return ToolResult.failed("arguments", f"start={start} is beyond the end: {handle} has {kept.characters:,} characters{cut}")
        part = kept.text[start : start + min(length, LONGEST_READ)]
        end = start + len(part)
        on = f"; go on at start={end}" if end < len(kept.text) else ""
        rest = f" (only the first {len(kept.text):,} were kept)" if len(kept.text) < kept.characters and not on else ""
        return ToolResult(True, f"[characters {start} to {end} of {kept.characters}{on}{rest}]\n{part}")

    def statistics(self) -> ArtifactStatistics:
        """What it holds at this moment."""
        with self._lock:
            return ArtifactStatistics(len(self._kept), sum(self._characters.values()), self._dropped)


def owner_of(context: ToolContext) -> Owner:
    """Whose the outputs of a call are: of whom it is made for, in the conversation that it is made in."""
    return context.tenant, context.subject, context.caller


def reader_tool(store: ArtifactStore) -> Tool[Any, Any]:
    """The tool `read_result` over a store: `read_result(handle, start, length)`. It reads nothing but what is the caller's own, so it asks for no operation of
    anybody's more than `tool.read_result`.
    """

    @tool(
        name="read_result",
        description="Read a part of a long tool output that was cut. The cut output names its handle.",
        risk="L0",
        blocking=False,
        idempotent=True,
        output_limit=LONGEST_READ + 200,
    )
    def read_result(
        handle: Annotated[str, "The handle that the cut output names: out_…"],
        context: ToolContext,
        start: Annotated[int, "The first character, counted from 0."] = 0,
        length: Annotated[int, "How many characters, at most 20000."] = READ,
    ) -> ToolResult:
        return store.read(handle, start, length, owner=owner_of(context))

    return read_result
