"""Tools for models that have no calls of their own: the model is held to a form, and what it writes in that form is turned back into calls.

The request's tools stand in the instructions. Each reply is one JSON object, a call (`{"tool": …, "arguments": …}`) or the answer
(`{"answer": …}`), to which the server holds the model by a JSON Schema. Above this module nobody sees any of it: there are calls, results and
texts as with any other model. It is one wrapper around whatever answers a request in pieces.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Literal

import attrs
import trio

from retinue.actors.llm.completion import Completion
from retinue.actors.llm.errors import EmptyReply, ModelInterrupted, ModelRefused, StreamTruncated
from retinue.actors.llm.events import Completed, ModelEvent, Retrying, TextDelta
from retinue.actors.llm.messages import Complete
from retinue.actors.llm.reserving import current_charge
from retinue.actors.llm.tool_mode_reading import ReplyReader
from retinue.actors.llm.tool_mode_request import Firmness, has_tools, rewritten

__all__ = ["ToolMode"]

_MOST_KEPT = 32
_KNOWN_FOR = 600.0  # seconds; then the strongest form is tried again, for it may have been something else that was refused
_FORM_REFUSED = (400, 422)  # the statuses with which servers refuse a schema that they cannot hold a model to
_STEPS: dict[str, tuple[Firmness, ...]] = {"schema": ("exact", "loose", "told"), "object": ("exact", "told"), "prompt": ("told",)}
_WEAKER = {
    "exact": "with a schema in place of a grammar",
    "loose": "without the schemas of the arguments",
    "told": "by the instructions alone",
}

_log = logging.getLogger("retinue.llm")


class _NotHeld(Exception):
    """What a server does with a grammar of llguidance that it cannot read: it lets the model speak freely. Caught here."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said

    def __str__(self) -> str:
        return "the grammar was passed over"


class ToolMode:
    """Answers requests with tools by a model without tool calls.

    Where the server refuses the form (a schema that its grammar cannot take), the model is held to a weaker one: first without the schemas
    of the arguments, then by the instructions alone. That is told as `Retrying`, logged, and remembered for these tools, for ten minutes.
    What the model writes is checked by whoever runs the calls, as ever.

    Args:
        output: How the server is asked for a form; see `Profile.output`.
        grammar: Whether it is a server of llama.cpp's that takes a grammar of llguidance: then that is tried first.
        where: Which model at which address, for texts.
    """

    __slots__ = ("_known", "_steps", "_where")

    def __init__(
        self, output: Literal["schema", "object", "prompt"] = "schema", *, grammar: bool = False, where: str = "the model"
    ) -> None:
        self._steps: tuple[Firmness, ...] = ("grammar", *_STEPS[output]) if grammar else _STEPS[output]
        self._where = where
        self._known: dict[Any, tuple[int, float]] = {}  # which step the server takes, where it is not the first, and since when

    def events(self, request: Complete, ask: Callable[[Complete], AsyncGenerator[ModelEvent, None]]) -> AsyncGenerator[ModelEvent, None]:
        """Ask, and return the answer's events.

        Args:
            request: What is asked; without tools, and without calls in its conversation, it is handed on as it is.
            ask: Answers a request without tools in pieces: an async generator, as `Deployment.stream_once` is.

        Raises:
            EmptyReply: The model wrote neither a call nor an answer; or was cut off before it was known which it is.
            ModelError: What `ask` raises; where it has a `partial`, that is turned back, too.
        """
        return self._events(request, ask) if has_tools(request) else ask(request)

    async def _events(
        self, request: Complete, ask: Callable[[Complete], AsyncGenerator[ModelEvent, None]]
    ) -> AsyncGenerator[ModelEvent, None]:
        key = (request.tools, request.tool_choice, request.output)
        step, since = self._known.get(key, (0, 0.0))
        if step and trio.current_time() - since > _KNOWN_FOR:
            step = 0
        charge = current_charge()
        while True:
            begun = False
            try:
                async with aclosing(self._turned(request, self._steps[step], ask)) as events:
                    async for event in events:
                        if not begun and type(event) is not Retrying:
                            begun = True
                            self._remember(key, step)
                        yield event
                return
            except ModelRefused as error:
                if begun or type(error) is not ModelRefused or error.status not in _FORM_REFUSED or step + 1 >= len(self._steps):
                    raise
                refused: Exception = error
            except _NotHeld as error:
                refused = error
                if charge is not None:  # what it said is thrown away, and was said all the same
                    charge.hear(TextDelta(error.said))
                    request = await charge.again(request, error)
            step += 1
            reason = f"{self._where} cannot be held to the form of these tools and is asked {_WEAKER[self._steps[step]]}: {refused}"
            _log.log(logging.INFO if self._steps[step] == "exact" else logging.WARNING, reason)
            yield Retrying(reason, step + 1, 0.0, ModelRefused.code)

    def _remember(self, key: object, step: int) -> None:
        known = self._known.get(key, (0, 0.0))
        if step == known[0]:
            return
        if not step:
            del self._known[key]
            return
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[key] = step, trio.current_time()

    async def _turned(
        self, request: Complete, firmness: Firmness, ask: Callable[[Complete], AsyncGenerator[ModelEvent, None]]
    ) -> AsyncGenerator[ModelEvent, None]:
        is_json = request.output is not None
        reader = ReplyReader(is_json=is_json)
        try:
            async with aclosing(ask(rewritten(request, firmness))) as events:
                async for event in events:
                    if type(event) is TextDelta:
                        founds = reader.feed(event.text)
                        if firmness == "grammar" and reader.is_prose:
                            raise _NotHeld(reader.fed)
                        for found in founds:
                            yield found
                        continue
                    if type(event) is Completed:
                        for found in self._whole(event.completion, reader):
                            yield found
                        return
                    if type(event) is Retrying:  # from the beginning
                        reader = ReplyReader(is_json=is_json)
                    yield event
        except (ModelInterrupted, StreamTruncated) as error:
            if error.partial is not None:
                error.partial = _partial(error.partial, is_json=is_json)
            raise

    def _whole(self, completion: Completion, reader: ReplyReader) -> list[ModelEvent]:
        found: list[ModelEvent] = []
        if reader.fed != completion.text:
            if reader.fed:  # it turned out to be something else, such as thoughts
                reader = ReplyReader(is_json=reader.is_json)
                reader.feed(completion.text)
            else:
                found += reader.feed(completion.text)
        found += reader.finish()
        turned = _turned(completion, reader)
        if not turned.text.strip() and not turned.tool_calls and turned.refusal is None:
            advice = "it needs a larger max_tokens" if completion.finish_reason == "length" else "ask again, or look at the prompt"
            raise EmptyReply(
                f"{self._where} wrote neither a call of a tool nor an answer (finish reason: {completion.finish_reason or 'none given'}): {advice}"
            )
        found.append(Completed(turned))
        return found


def _turned(completion: Completion, reader: ReplyReader) -> Completion:
    calls = completion.tool_calls + reader.calls()
    reason = "tool_calls" if calls and completion.finish_reason == "stop" else completion.finish_reason
    return attrs.evolve(completion, text=reader.text(), tool_calls=calls, finish_reason=reason)


def _partial(completion: Completion, *, is_json: bool) -> Completion:
    reader = ReplyReader(is_json=is_json)
    reader.feed(completion.text)
    reader.finish()
    return _turned(completion, reader)
