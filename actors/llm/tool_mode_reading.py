"""Reading replies in the form of the tool mode, piece by piece: `{"tool": …, "arguments": …}` or `{"answer": …}`.

A text of an answer, and the arguments of a call, are told of while they come. What a model writes that is held to the form by nobody is read
as far as it can be: words are an answer, several objects are several calls. Nothing is mended: what broke off is marked, and never run.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import Any, Protocol

from retinue.actors.llm.calls import MOST_CALLS, is_object, without_half_characters
from retinue.actors.llm.completion import ToolCall
from retinue.actors.llm.errors import BadReply
from retinue.actors.llm.events import ModelEvent, TextDelta, ToolCallDelta
from retinue.actors.llm.texts import Mender, whole

__all__ = ["ReplyReader"]

_FENCE = r"\s*(?:```[A-Za-z]*\s*)?"
_NAME = r'"((?:[^"\\]|\\.)*)"'
_CALL = re.compile(rf'{_FENCE}\{{\s*"tool"\s*:\s*{_NAME}\s*,\s*"arguments"\s*:\s*(?=\S)', re.DOTALL)
_ANSWER = re.compile(rf'{_FENCE}\{{\s*"answer"\s*:\s*(?=\S)')
_BEGUN_CALL = re.compile(r'\{\s*"tool"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_BEGUN = re.compile(r'\{\s*(?:"(?:t(?:o(?:o(?:l"?)?)?)?|a(?:n(?:s(?:w(?:e(?:r"?)?)?)?)?)?)?\s*:?\s*)?')
_AROUND = re.compile(r"(?:[\s,]|```[A-Za-z]*)*")
_LONGEST_HEAD = 1024  # characters in which the beginning of a call is looked for while it comes; what has more is read at its end
_MOST_OBJECTS = 1024  # of one reply that are read; what comes after them is words
_DECODER = json.JSONDecoder()


_PLAIN = re.compile(r'[^"\\]+')
_NEXT = re.compile(r'["\\{}\[\],]')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class _Value(Protocol):
    """A JSON value that comes in pieces."""

    ended: bool

    def feed(self, text: str) -> tuple[str, str]:
        """Take a piece; return what it says, and what comes after the value."""
        ...


class _Text:
    """A JSON string, decoded while it comes; its opening quote is passed over."""

    __slots__ = ("_mender", "_opened", "_rest", "ended")

    def __init__(self) -> None:
        self._rest = ""
        self._mender = Mender()
        self._opened = False
        self.ended = False

    def feed(self, text: str) -> tuple[str, str]:
        if not self._opened:
            self._opened = True
            text = text[1:]
        text, self._rest = self._rest + text, ""
        found: list[str] = []
        at = 0
        while at < len(text):
            plain = _PLAIN.match(text, at)
            if plain is not None:
                found.append(plain[0])
                at = plain.end()
            elif text[at] == '"':
                self.ended = True
                return self._mender.feed("".join(found)) + self._mender.end(), text[at + 1 :]
            else:
                length = 6 if text[at + 1 : at + 2] == "u" else 2
                if len(text) < at + length:
                    self._rest = text[at:]
                    break
                found.append(self._escape(text[at + 1 : at + length]))
                at += length
        return self._mender.feed("".join(found)), ""

    def _escape(self, escape: str) -> str:
        if len(escape) == 1:
            return _ESCAPES.get(escape, escape)
        try:
            return chr(int(escape[1:], 16))  # may be half a character, whose other half comes next
        except ValueError:
            return escape


class _Raw:
    """Any JSON value, as the text that it is."""

    __slots__ = ("_depth", "_escaped", "_in_string", "ended")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.ended = False

    def feed(self, text: str) -> tuple[str, str]:
        at = 0
        if self._escaped and text:
            self._escaped = False
            at = 1
        while (found := _NEXT.search(text, at)) is not None:
            at = found.end()
            mark = found[0]
            if self._in_string:
                if mark == "\\":
                    self._escaped = at == len(text)
                    at += 1
                elif mark == '"':
                    self._in_string = False
                    if self._depth == 0:
                        return self._over(text, at)
            elif mark == '"':
                self._in_string = True
            elif mark in "{[":
                self._depth += 1
            elif mark in "}]":
                if self._depth == 0:  # a number or a word, ended by what is around it
                    return self._over(text, at - 1)
                self._depth -= 1
                if self._depth == 0:
                    return self._over(text, at)
            elif mark == "," and self._depth == 0:
                return self._over(text, at - 1)
        return text, ""

    def _over(self, text: str, at: int) -> tuple[str, str]:
        self.ended = True
        return text[:at], text[at:]


class _Call:
    __slots__ = ("arguments", "cut", "id", "name")

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name
        self.arguments: list[str] = []
        self.cut = True  # until its end has been seen


class ReplyReader:
    """Reads one reply.

    Args:
        is_json: Whether its answer is to be JSON: then the JSON text is the answer.
        salt: Makes the calls' ids unique between answers; default: by chance.

    Attributes:
        is_json: As given.
    """

    __slots__ = ("_calls", "_fed", "_in_answer", "_late", "_mender", "_prose", "_salt", "_text", "_unread", "_value", "is_json")

    def __init__(self, *, is_json: bool = False, salt: str | None = None) -> None:
        self.is_json = is_json
        self._salt = secrets.token_hex(6) if salt is None else salt
        self._fed: list[str] = []
        self._unread: list[str] = []  # what is not known yet to be anything; read at the end at the latest
        self._mender = Mender()
        self._late = False  # it is not looked at before the end
        self._prose = False  # it is no object but words
        self._value: _Value | None = None  # of the first object
        self._in_answer = False  # whether that is an answer, else a call's arguments
        self._text: list[str] = []
        self._calls: list[_Call] = []

    @property
    def is_prose(self) -> bool:
        """Whether the model writes words and no object."""
        return self._prose

    @property
    def fed(self) -> str:
        """All that was fed."""
        return "".join(self._fed)

    def text(self) -> str:
        """The answer, as far as it is read."""
        return "".join(self._text)

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, as far as they are read; those that are not whole are marked as truncated."""
        found = []
        for call in self._calls:
            arguments = "".join(call.arguments).strip()
            if "\\u" in arguments:
                arguments = without_half_characters(arguments)
            found.append(ToolCall(call.id, call.name, arguments, None, call.cut and not is_object(arguments)))
        return tuple(found)

    def feed(self, piece: str) -> list[ModelEvent]:
        """Take a piece of the model's text, and return what it adds."""
        self._fed.append(piece)
        found: list[ModelEvent] = []
        self._feed(self._mender.feed(piece), found)
        return found

    def _feed(self, piece: str, found: list[ModelEvent]) -> None:
        if self._prose:
            self._add(piece, found)
        elif self._value is None:
            self._begin(piece, found)
        elif self._value.ended:
            self._unread.append(piece)
        else:
            self._go_on(self._value, piece, found)

    def finish(self) -> list[ModelEvent]:
        """The reply is over: return what was held back."""
        found: list[ModelEvent] = []
        self._feed(self._mender.end(), found)
        text, self._unread = "".join(self._unread), []
        if self._value is not None:
            text = text.strip().removeprefix("}").strip()
            if not text.strip("`"):
                return found
        around = _AROUND.match(text)
        assert around is not None  # it matches nothing, too
        within = text[around.end() :].rstrip().removesuffix("```").rstrip()
        if within.startswith(("{", "[")):
            self._read(within, found)
        else:
            self._say(text, found)
        return found

    def _begin(self, piece: str, found: list[ModelEvent]) -> None:
        self._unread.append(piece)
        if self._late:
            return
        head = "".join(self._unread)
        self._unread = [head]
        self._late = len(head) > _LONGEST_HEAD
        first = head.lstrip()[:1]
        if first and first not in "{[`":
            self._unread = []
            self._prose = True
            self._add(head, found)
        elif (call := _CALL.match(head)) is not None:
            self._unread = []
            self._call(_unescaped(call[1]), found)
            self._value = _Raw()
            self._go_on(self._value, head[call.end() :], found)
        elif (answer := _ANSWER.match(head)) is not None:
            self._unread = []
            self._in_answer = True
            self._value = _Text() if head[answer.end()] == '"' and not self.is_json else _Raw()
            self._go_on(self._value, head[answer.end() :], found)

    def _go_on(self, value: _Value, piece: str, found: list[ModelEvent]) -> None:
        said, rest = value.feed(piece)
        if self._in_answer:
            self._add(said, found)
        else:
            self._argue(said, found)
            self._calls[-1].cut = not value.ended
        if value.ended:
            self._unread.append(rest)

    def _add(self, text: str, found: list[ModelEvent]) -> None:
        if text:
            self._text.append(text)
            found.append(TextDelta(text))

    def _argue(self, text: str, found: list[ModelEvent]) -> None:
        if text:
            call = self._calls[-1]
            call.arguments.append(text)
            found.append(ToolCallDelta(len(self._calls) - 1, call.id, call.name, text))

    def _call(self, name: str, found: list[ModelEvent]) -> None:
        if len(self._calls) >= MOST_CALLS:
            raise BadReply("the model calls more tools in one answer than can be taken: is it running in circles?")
        call = _Call(f"call_{self._salt}{len(self._calls)}", name)
        self._calls.append(call)
        found.append(ToolCallDelta(len(self._calls) - 1, call.id, name, ""))

    # -- at the end ------------------------------------------------------------------------------------------------------------------------------------

    def _read(self, text: str, found: list[ModelEvent]) -> None:
        """Read what was not read while it came: objects in another order, several, or none."""
        at = objects = 0  # what is read stays where it is: a reply may be long, and its objects many
        if text.startswith("["):
            several = _decoded(text, 0)
            if several is not None and all(isinstance(each, dict) and ("tool" in each or "answer" in each) for each in several[0]):
                for each in several[0]:
                    self._take(each, "", found)
                at = several[1]
        while text.startswith("{", at) and objects < _MOST_OBJECTS:
            one = _decoded(text, at)
            if one is None:
                self._break_off(text[at:], found)
                return
            self._take(one[0], text[at : one[1]], found)
            around = _AROUND.match(text, one[1])
            assert around is not None
            at = around.end()
            objects += 1
        self._say(text[at:], found)

    def _take(self, said: dict[str, Any], written: str, found: list[ModelEvent]) -> None:
        name = said.get("tool")
        if isinstance(name, str):
            self._call(whole(name), found)
            rest = {key: value for key, value in said.items() if key != "tool"}
            # What is called something else than "arguments" fits no tool, which is what the model is told then.
            self._argue(_json(rest.get("arguments", rest)), found)
            self._calls[-1].cut = False
        elif "answer" not in said:
            self._say(written, found)
        elif isinstance(said["answer"], str) and not self.is_json:
            self._say(whole(said["answer"]), found)
        else:
            self._say(_json(said["answer"]), found)

    def _break_off(self, text: str, found: list[ModelEvent]) -> None:
        call = _BEGUN_CALL.match(text)
        if call is not None:
            self._call(_unescaped(call[1]), found)
        elif not _BEGUN.fullmatch(text):
            self._say(text, found)

    def _say(self, text: str, found: list[ModelEvent]) -> None:
        if text:
            self._add(f"\n{text}" if self._text else text, found)


def _decoded(text: str, at: int) -> tuple[Any, int] | None:
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def _unescaped(name: str) -> str:
    try:
        return whole(str(json.loads(f'"{name}"', strict=False)))
    except ValueError:
        return name


def _json(value: object) -> str:
    return whole(json.dumps(value, ensure_ascii=False))
