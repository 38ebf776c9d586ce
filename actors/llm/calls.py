"""Putting tool calls together out of pieces that providers cut, number and name in different ways.

What comes in the wild: no ids, empty ids, a new id in every piece, one id for two calls; no index, the same index for all; the name in every
piece, or itself in pieces; the arguments again from their beginning in every piece, or as an object instead of its text, or "{}" first and then the real ones.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from retinue.actors.llm.completion import ToolCall
from retinue.actors.llm.events import ToolCallDelta
from retinue.actors.llm.texts import Mender, whole

__all__ = ["MOST_CALLS", "CallPieces", "TooManyCalls", "is_object", "without_half_characters"]

MOST_CALLS = 256
"""The most tool calls of one answer."""


_LOOKS = 8  # times that the whole arguments of a call are read while they come
_SHORT = 100_000  # characters that may be read as often as it takes

_SURE = 2  # who began anew this often does so always


class TooManyCalls(ValueError):
    """An answer calls more than `MOST_CALLS` tools. Internal: the assembler makes a `BadReply` of it."""


class _Call:
    __slots__ = ("args", "given_id", "id", "length", "looked", "mender", "name", "number", "pieces", "replaced")

    def __init__(self, number: int, call_id: str, given_id: str) -> None:
        self.number = number
        self.id = call_id
        self.given_id = given_id
        self.name = ""
        self.args: list[str] = []  # joined they are the arguments, as far as is known
        self.length = 0
        self.looked = 0  # characters, each time that it was looked whether they are whole
        self.replaced = 0
        self.pieces: list[str] | None = None  # all that came, where `args` is more than their sum
        self.mender = Mender()

    def text(self) -> str:
        if len(self.args) > 1:
            self.args = ["".join(self.args)]
        return self.args[0] if self.args else ""

    def is_whole(self) -> bool:
        """Whether the arguments are one whole JSON object by now. Who makes us look again and again at a long one gets no for an answer."""
        last = self.args[-1] if self.args else ""
        if last.strip() and not last.rstrip().endswith("}"):
            return False
        self.looked += self.length
        return self.looked <= _LOOKS * self.length + _SHORT and is_object(self.text())

    def replace(self, piece: str) -> None:
        """The piece is not the next part but the whole, so far."""
        self.replaced += 1
        if self.replaced > _SURE:
            self.pieces = None
        elif self.pieces is None:
            self.pieces = [*self.args, piece]
        else:
            self.pieces.append(piece)
        self.args = [piece]
        self.length = len(piece)

    def append(self, piece: str) -> None:
        if self.pieces is not None:
            self.pieces.append(piece)
        self.args.append(piece)
        self.length += len(piece)

    def arguments(self) -> str:
        text = self.text()
        if self.pieces is not None and not is_object(text):
            # A piece only looked as if it began anew; its sum may be what was meant. Else what is broken stays as it is.
            added = "".join(self.pieces)
            if is_object(added):
                return added
        return text


class CallPieces:
    """The tool calls of one answer.

    Args:
        names: Tools' names as the endpoint knows them, where they differ from ours, to ours.
        salt: Makes the made-up ids unique between answers; default: by chance.
    """

    __slots__ = ("_by_index", "_calls", "_ids", "_names", "_salt")

    def __init__(self, names: Mapping[str, str], salt: str | None = None) -> None:
        self._names = names
        self._salt = secrets.token_hex(6) if salt is None else salt
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._ids: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, pieces: list[Any], *, whole_calls: bool = False) -> list[ToolCallDelta]:
        """Take the pieces of one chunk. `whole_calls`: each is a call of its own, whatever its index and id say."""
        found: list[ToolCallDelta] = []
        for position, piece in enumerate(pieces):
            if isinstance(piece, dict):
                self._feed_one(piece, position if whole_calls else None, position if len(pieces) > 1 else None, found)
        return found

    def _feed_one(self, piece: dict[str, Any], own: int | None, position: int | None, found: list[ToolCallDelta]) -> None:
        function = piece.get("function")
        if not isinstance(function, dict):
            function = piece
        name = _text(function.get("name"))
        given_id = _text(piece.get("id"))
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if not (name or given_id or arguments):
            return
        index = piece.get("index") if own is None else own
        if not isinstance(index, int) or isinstance(index, bool):
            index = None
        call = self._find(index, given_id, name, arguments or "", position)
        if name:
            _add_name(call, name, given_id)
        piece_of_arguments = _add_arguments(call, arguments) if arguments else ""
        found.append(ToolCallDelta(call.number, call.id, self._names.get(call.name, call.name), piece_of_arguments))

    def _find(self, index: int | None, given_id: str, name: str, arguments: str, position: int | None) -> _Call:
        known: _Call | None = None
        if index is None and given_id:
            known = next((call for call in reversed(self._calls) if call.given_id == given_id), None)
        if index is None and known is None and not (given_id and name):
            if position is None:
                known = self._calls[-1] if self._calls else None
            else:
                index = position
        if index is not None:
            known = self._by_index.get(index)
        if known is None or _begins_another(known, given_id, name, arguments, placed=index is not None):
            known = self._new(given_id)
        if index is not None:
            self._by_index[index] = known
        if given_id and not known.given_id:
            known.given_id = given_id
        return known

    def _new(self, given_id: str) -> _Call:
        if len(self._calls) >= MOST_CALLS:
            raise TooManyCalls
        call_id = given_id
        if not call_id or call_id in self._ids:
            call_id = f"call_{self._salt}{len(self._calls)}"
        self._ids.add(call_id)
        call = _Call(len(self._calls), call_id, given_id)
        self._calls.append(call)
        return call

    def calls(self, *, cut_off: bool) -> tuple[ToolCall, ...]:
        """Return the calls as they are now.

        Args:
            cut_off: The answer did not come to its end: calls whose arguments are no whole JSON object are marked as truncated.
        """
        found = []
        for call in self._calls:
            arguments = call.arguments() + call.mender.end()
            truncated = cut_off and not is_object(arguments)
            if not truncated and not arguments.strip():
                arguments = "{}"  # no arguments, as endpoints write it for tools without parameters
            elif "\\u" in arguments:
                arguments = without_half_characters(arguments)
            name = self._names.get(call.name, call.name)
            provider_id = call.given_id if call.given_id and call.given_id != call.id else None
            found.append(ToolCall(call.id, name, arguments, provider_id, truncated))
        return tuple(found)


def _text(value: object) -> str:
    return whole(value) if isinstance(value, str) else ""


def _no_number(name: str) -> None:
    """NaN and Infinity: servers that read JSON refuse them, and the whole conversation with them."""
    raise ValueError(name)


def is_object(text: str) -> bool:
    """Whether a text is one whole JSON object."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        return type(json.loads(text, parse_constant=_no_number)) is dict
    except (ValueError, RecursionError):
        return False


def without_half_characters(text: str) -> str:
    """Replace lone surrogates that are written as escapes: they would come to life in whoever decodes the arguments."""
    if not is_object(text):
        return text
    decoded = json.dumps(json.loads(text), ensure_ascii=False)
    mended = whole(decoded)
    return text if mended == decoded else mended


def _begins_another(call: _Call, given_id: str, name: str, arguments: str, *, placed: bool) -> bool:
    """Whether a piece that seems to belong to a call is the first of another one, as the call is finished already."""
    if not name:
        return False  # every call has a name, and its first piece brings it
    if given_id and given_id != call.given_id and call.given_id:
        return name != call.name or call.is_whole()
    if not call.length or not call.is_whole():
        return False
    if not given_id and not placed:
        return True
    # The same call again from its beginning, or one more call of the same index or id: only another text makes it another call.
    return name != call.name or (arguments.lstrip()[:1] == "{" and not arguments.startswith(call.text()) and call.text() != "{}")


def _add_name(call: _Call, name: str, given_id: str) -> None:
    if not call.name or (name.startswith(call.name) and not call.length):
        call.name = name
    elif name != call.name and not call.length and (not given_id or given_id == call.given_id):
        call.name += name  # the name itself comes in pieces


def _add_arguments(call: _Call, piece: str) -> str:
    """Add to a call's arguments; return what is new."""
    piece = call.mender.feed(piece)
    if call.length == 2 and call.text() == "{}" and piece[:1] == "{":
        call.replace(piece)
        return piece
    if call.length and len(piece) >= call.length:
        known = call.text()
        # What begins with "{" and comes again from its beginning cannot be the next part of itself.
        if piece.startswith(known) and (known.lstrip()[:1] == "{" or len(known) >= 4):
            call.replace(piece)
            return piece[len(known) :]
    if piece:
        call.append(piece)
    return piece
