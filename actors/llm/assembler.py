"""Making events and a completion of the chunks of an OpenAI-compatible answer. One for all providers; tested alone.

A plain answer is one chunk whose message is taken as the only delta, so there is one way for both. What a chunk holds counts, not what it
ought to hold: whatever comes is used, passed over, or a typed error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from retinue.actors.llm.calls import CallPieces, TooManyCalls
from retinue.actors.llm.completion import Completion
from retinue.actors.llm.errors import BadReply, BadStreamEvent, ContentFiltered, EmptyReply, ModelFailed, StreamTruncated
from retinue.actors.llm.events import Completed, ModelEvent, ReasoningDelta, TextDelta
from retinue.actors.llm.profiles.profile import Profile
from retinue.actors.llm.replies import embedded_failure, json_of, tidy, usage_of
from retinue.actors.llm.texts import Mender, whole
from retinue.actors.llm.thinking import Piece, Splitter
from retinue.actors.llm.usage import Usage

__all__ = ["LONGEST_ANSWER", "Assembler"]

LONGEST_ANSWER = 16 * 1024 * 1024
"""The most characters of text, reasoning and arguments that one answer may have."""

_MOST_ANNOTATIONS = 16
_LONGEST_ANNOTATION = 4096
_QUOTED = 200

_FINISH = {
    "max_tokens": "length", "MAX_TOKENS": "length", "model_length": "length", "max_output_tokens": "length", "model_context_window_exceeded": "length",
    "STOP": "stop", "eos": "stop", "end_turn": "stop", "stop_sequence": "stop", "eos_token": "stop",
    "function_call": "tool_calls", "tool_use": "tool_calls", "tool_call": "tool_calls",
    "SAFETY": "content_filter", "sensitive": "content_filter",
}  # fmt: skip
_CUT_OFF = ("length", "content_filter")


class Assembler:
    """Puts one answer together.

    Args:
        profile: What is known of the endpoint.
        model: The name that was asked for; used where the answer gives none.
        where: Which model at which address, for the errors' texts.
        hide: Blots out what must not be quoted.
        names: Tools' names as they were sent, where they differ from ours, to ours.
        salt: See `CallPieces`.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        model: str = "",
        where: str = "the model",
        hide: Callable[[str], str] = str,
        names: Mapping[str, str] | None = None,
        salt: str | None = None,
    ) -> None:
        self._profile = profile
        self._model = model
        self._where = where
        self._hide = hide
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._size = 0
        self._splitter = Splitter(profile.think_tags, in_thought=profile.starts_in_thought)
        self._text_mender = Mender()
        self._reasoning_mender = Mender()
        self._calls = CallPieces(names or {}, salt)
        self._usage: Usage | None = None
        self._finish: str | None = None
        self._choice: int | None = None
        self._annotations: list[str] = []
        self._last_annotation: object = None
        self._whole = False
        self.done = False

    @property
    def ended(self) -> bool:
        """Whether the model has finished: what may still come is the count of tokens, and the mark of the end."""
        return self.done or self._finish is not None

    def data(self, text: str) -> list[ModelEvent]:
        """Take the data of one event of a stream; see `feed`. Raises BadStreamEvent, too, for what is no chunk."""
        if self.done:
            return []
        if text.strip() == "[DONE]":
            self.done = True
            return []
        try:
            chunk = json.loads(text)
        except (ValueError, RecursionError):  # never chained: a JSONDecodeError carries the whole document
            chunk = None
        if isinstance(chunk, list) and len(chunk) == 1:  # how one gateway wraps its errors
            chunk = chunk[0]
        if not isinstance(chunk, dict):
            quoted = tidy(self._hide(text))[:_QUOTED]  # hidden before it is cut: half a key would not be found
            raise BadStreamEvent(f"{self._where} sent an event that is no JSON object: {quoted!r}")
        return self.feed(chunk)

    def body(self, body: bytes, content_type: str = "") -> list[ModelEvent]:
        """Take a plain answer's whole body. Raises WrongEndpoint or BadReply for what is no completion, and what `feed` raises."""
        answer = json_of(body, content_type, self._where)
        failure = embedded_failure(answer, where=self._where, hide=self._hide, profile=self._profile)
        if failure is not None:
            raise failure
        choices = answer.get("choices")
        if not isinstance(choices, list) or not any(isinstance(choice, dict) and _delta(choice) is not None for choice in choices):
            raise BadReply(
                f"{self._where} answered with JSON that is no chat completion (no choices[0].message in it): is the address right?"
            )
        self._whole = True
        return self.feed(answer)

    def feed(self, chunk: dict[str, Any]) -> list[ModelEvent]:
        """Take one chunk, and return what it adds.

        Raises:
            ModelError: The chunk holds an error in the place of an answer: the one that the error's own status stands for.
            BadReply: The answer grew too long.
        """
        choices = chunk.get("choices")
        if chunk.get("error") or not choices:
            failure = embedded_failure(chunk, where=self._where, hide=self._hide, profile=self._profile)
            if failure is not None:
                raise failure
        usage = chunk.get("usage")
        if usage is not None:
            self._count(usage)
        model = chunk.get("model")
        if model and isinstance(model, str) and model is not self._model:
            self._model = model
        found: list[ModelEvent] = []
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict):
                    self._take(choice, found)
        return found

    def finish(self) -> list[ModelEvent]:
        """The answer is over: return what was held back, and `Completed`.

        Raises:
            StreamTruncated: It broke off: no finish reason came.
            EmptyReply: It holds neither text nor tool call nor refusal.
            ContentFiltered: It is empty because a filter took it away.
            ModelFailed: The model says that it ended with an error.
        """
        if self._finish is None and not self._whole and (self._profile.needs_finish_reason or not self.done):
            raise StreamTruncated(
                f"{self._where} ended its answer without a finish reason: it broke off, ask again", partial=self.partial()
            )
        if self._finish == "error":
            raise ModelFailed(f"{self._where} ended its answer with an error and does not say which: ask again")
        found: list[ModelEvent] = []
        self._close(found)
        cut_off = self._finish in _CUT_OFF
        calls = self._calls.calls(cut_off=cut_off)
        text = "".join(self._text)
        reasoning = "".join(self._reasoning)
        refusal = "".join(self._refusal) or None
        if not text.strip() and not calls and refusal is None:
            if not reasoning.strip() or cut_off:
                raise self._empty(reasoning)
            # The answer came where the thoughts belong: servers do that when the model was told not to think.
            text, reasoning = reasoning, ""
            found.append(TextDelta(text))
        completion = Completion(
            text,
            tidy(self._hide(whole(self._model))),
            self._usage or Usage(),
            self._finish,
            calls,
            reasoning,
            refusal,
            tuple(self._annotations),
        )
        found.append(Completed(completion))
        return found

    def partial(self) -> Completion:
        """What has been said so far. Its tool calls are not to be run: those that are not whole are marked as truncated."""
        calls = self._calls.calls(cut_off=True)
        text, reasoning, refusal = "".join(self._text), "".join(self._reasoning), "".join(self._refusal) or None
        usage = self._usage or Usage()
        return Completion(
            text, tidy(self._hide(whole(self._model))), usage, self._finish, calls, reasoning, refusal, tuple(self._annotations)
        )

    def _take(self, choice: dict[str, Any], found: list[ModelEvent]) -> None:
        index = choice.get("index")
        if isinstance(index, int):  # of several choices the first that speaks is the answer
            if self._choice is None:
                self._choice = index
            elif index != self._choice:
                return
        elif self._whole and self._finish is not None:
            return
        delta = _delta(choice)
        if delta is not None and ("delta" in choice or self._whole or not (self._text or self._calls)):
            self._add(delta, found)  # a last chunk that has the whole message once more adds nothing
        usage = choice.get("usage")
        if usage is not None:
            self._count(usage)
        marks = choice.get("content_filter_results")
        if marks:
            self._annotate({"content_filter_results": marks})
        finish = choice.get("finish_reason")
        if finish and isinstance(finish, str):
            self._finish = _FINISH.get(finish) or tidy(self._hide(whole(finish))) or None

    def _add(self, delta: dict[str, Any], found: list[ModelEvent]) -> None:
        for field in self._profile.reasoning_fields:
            thought = delta.get(field)
            if thought and isinstance(thought, str):
                self._splitter.plain()
                self._think(thought, found)
                break
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                self._say(content, found)
            elif isinstance(content, list):
                self._say_parts(content, found)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._grow(len(refusal))
            self._refusal.append(whole(refusal))
        calls = delta.get("tool_calls")
        if calls:
            self._call(calls if isinstance(calls, list) else [calls], found)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict) and not calls:
            self._call([{"index": 0, "function": legacy}], found)
        annotations = delta.get("annotations")
        if annotations:
            self._annotate({"annotations": annotations})

    def _say(self, content: str, found: list[ModelEvent]) -> None:
        self._grow(len(content))
        content = self._text_mender.feed(content)
        if content:
            self._split(self._splitter.feed(content), found)

    def _say_parts(self, parts: list[Any], found: list[ModelEvent]) -> None:
        for part in parts:
            if isinstance(part, str):
                self._say(part, found)
            elif isinstance(part, dict):
                said = part.get("text")
                thought = part.get("thinking")
                if isinstance(thought, list):
                    thought = "".join(text for item in thought if isinstance(item, dict) and isinstance(text := item.get("text"), str))
                if isinstance(thought, str) and thought:
                    self._splitter.plain()
                    self._think(thought, found)
                elif isinstance(said, str) and part.get("type", "text") in ("text", "output_text"):
                    self._say(said, found)

    def _think(self, thought: str, found: list[ModelEvent]) -> None:
        self._grow(len(thought))
        thought = self._reasoning_mender.feed(thought)
        if thought:
            self._reasoning.append(thought)
            found.append(ReasoningDelta(thought))

    def _split(self, pieces: list[Piece], found: list[ModelEvent]) -> None:
        for kind, piece in pieces:
            if kind == "text":
                self._text.append(piece)
                found.append(TextDelta(piece))
                continue
            if kind == "all_was_reasoning":
                self._reasoning += self._text
                self._text.clear()
            if piece:
                self._reasoning.append(piece)
                found.append(ReasoningDelta(piece))

    def _call(self, pieces: list[Any], found: list[ModelEvent]) -> None:
        try:
            deltas = self._calls.feed(pieces, whole_calls=self._whole)
        except TooManyCalls:
            raise BadReply(f"{self._where} calls more tools in one answer than can be taken: is the model running in circles?") from None
        for delta in deltas:
            self._grow(len(delta.arguments))
        found += deltas

    def _close(self, found: list[ModelEvent]) -> None:
        half = self._reasoning_mender.end()
        if half:
            self._reasoning.append(half)
            found.append(ReasoningDelta(half))
        half = self._text_mender.end()
        if half:
            self._split(self._splitter.feed(half), found)
        self._split(self._splitter.end(), found)

    def _empty(self, reasoning: str) -> EmptyReply | ContentFiltered:
        if self._finish == "content_filter":
            return ContentFiltered(f"{self._where} answered nothing, as a content filter took the answer away: look at the prompt")
        thought = ", and it has thought only" if reasoning.strip() else ""
        advice = "it needs a larger max_tokens" if self._finish == "length" else "ask again, or look at the prompt"
        return EmptyReply(f"{self._where} answered without text (finish reason: {self._finish or 'none given'}{thought}): {advice}")

    def _count(self, usage: object) -> None:
        counted = usage_of(usage)
        if counted is not None:
            self._usage = counted

    def _annotate(self, value: dict[str, Any]) -> None:
        if value == self._last_annotation or len(self._annotations) >= _MOST_ANNOTATIONS:
            return
        self._last_annotation = value
        text = whole(json.dumps(value, ensure_ascii=False))
        if len(text) <= _LONGEST_ANNOTATION:
            self._annotations.append(text)

    def _grow(self, characters: int) -> None:
        self._size += characters
        if self._size > LONGEST_ANSWER:
            raise BadReply(f"{self._where} answered with more than {LONGEST_ANSWER:,} characters: is the model running in circles?")


def _delta(choice: dict[str, Any]) -> dict[str, Any] | None:
    """What a choice adds: its delta; the message of a plain answer; the text of an old-fashioned one."""
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return delta
    delta = choice.get("message")
    if isinstance(delta, dict):
        return delta
    text = choice.get("text")
    return {"content": text} if isinstance(text, str) else None
