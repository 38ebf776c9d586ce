"""Loops: a model that makes the same call again and again, and gets the same each time. It is told so, and then the run stops.

What is the same: the tool, and its arguments as values (`{"a":1,"b":2}` and `{"b": 2, "a": 1}` are). A call that is repeated and gets another output each time is none: polling
is what some tools are for.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Literal, final

import attrs

from retinue.security.errors import DefinitionError

__all__ = ["LoopDetector", "LoopVerdict"]

REPEATS: Final = 3
"""The same call with the same output so many times: the next one is not run, and the model is told why."""

OUTPUTS: Final = 6
"""The same output of one tool so many times in a row, whatever the arguments: the model is told."""

GRACE: Final = 2
"""Calls that are refused so; at one more the run stops."""

MOST_CALLS: Final = 1_024
"""Different calls of one run that are remembered; the oldest are forgotten."""


@attrs.frozen
class LoopVerdict:
    """What the detector says.

    Attributes:
        action: "go": nothing is wrong. "tell": the model is to get `text`; where that is about a call, in place of running it. "stop": the run ends.
        text: What is repeated, and what to do instead; for the model, and for the error that the run ends with.
    """

    action: Literal["go", "tell", "stop"]
    text: str = ""


_GO: Final = LoopVerdict("go")


class _Call:
    """One call, as it was made for the last time."""

    __slots__ = ("output", "repeats")

    def __init__(self) -> None:
        self.output: bytes | None = None
        self.repeats = 0


@final
class LoopDetector:
    """Watches the tool calls of one run. Not for several threads.

    Args:
        repeats: The same call with the same output so many times is a loop. Default: 3.
        outputs: The same output of one tool, so many times in a row, is one too. Default: 6.
        grace: Calls that the model is told of; at one more the run stops. Default: 2.

    Raises:
        DefinitionError: One of them is no whole number; `repeats` and `outputs` are 2 or more.
    """

    __slots__ = ("_calls", "_first", "_grace", "_last", "_outputs", "_repeats", "told")

    def __init__(self, *, repeats: int = REPEATS, outputs: int = OUTPUTS, grace: int = GRACE) -> None:
        for name, value, least in (("repeats", repeats, 2), ("outputs", outputs, 2), ("grace", grace, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise DefinitionError(f"LoopDetector({name}={value!r}): give a whole number, {least} or more")
        self._repeats = repeats
        self._outputs = outputs
        self._grace = grace
        self._calls: dict[tuple[str, str], _Call] = {}
        self._first: dict[str, str] = {}
        self._last: dict[str, tuple[bytes, int]] = {}
        self.told = 0

    def about_to(self, tool: str, arguments: str) -> LoopVerdict:
        """Whether a call is to be run.

        Args:
            tool: The tool's name.
            arguments: Its arguments as the model sent them, a JSON text.
        """
        call = self._calls.get((tool, self._key(tool, arguments)))
        if call is None or call.repeats < self._repeats:
            return _GO
        self.told += 1
        text = (
            f"the tool {tool!r} was called {call.repeats} times with these very arguments and gave the same each time, so it was not run again. Use what it gave, call "
            "it with other arguments, use another tool, or answer with what is known"
        )
        return LoopVerdict("stop" if self.told > self._grace else "tell", text)

    def done(self, tool: str, arguments: str, output: str) -> LoopVerdict:
        """Tell what a call gave: "tell" where the model is to be told that it gets the same whatever it asks.

        Args:
            tool: The tool's name.
            arguments: Its arguments as the model sent them.
            output: The text that the model gets.
        """
        digest = hashlib.blake2b(output.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        key = (tool, self._key(tool, arguments))
        call = self._calls.pop(key, None)
        if call is None:
            call = _Call()
            if len(self._calls) >= MOST_CALLS:
                del self._calls[next(iter(self._calls))]
        self._calls[key] = call  # the last one to be forgotten
        call.repeats = call.repeats + 1 if call.output == digest else 1
        call.output = digest
        last = self._last.get(tool)
        count = last[1] + 1 if last is not None and last[0] == digest else 1
        self._last[tool] = (digest, count)
        if count < self._outputs or count % self._outputs:
            return _GO
        return LoopVerdict(
            "tell",
            f"the tool {tool!r} gave the same output {count} times in a row, whatever its arguments: it will hardly give another one",
        )

    def _key(self, tool: str, arguments: str) -> str:
        """The arguments as values. What a tool is called with for the first time is looked at when it is called once more."""
        first = self._first.get(tool)
        if first is None:
            if len(self._first) >= MOST_CALLS:
                self._first.clear()
                self._calls.clear()
            self._first[tool] = arguments
            return ""
        if arguments == first:
            return ""
        key = _canonical(arguments)
        return "" if key == _canonical(first) else key


def _canonical(arguments: str) -> str:
    """The same text for the same values; what is no JSON stays as it is."""
    try:
        value: Any = json.loads(arguments)
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return f"text: {arguments}"
