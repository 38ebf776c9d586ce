"""The vocabularies that tokens are counted by, as tiktoken describes them, and which model has which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

__all__ = ["VOCABULARIES", "Vocabulary", "vocabulary_for"]


@attrs.frozen
class Vocabulary:
    """How a text is cut into tokens.

    Attributes:
        name: tiktoken's name for it.
        sha256: Of the vocabulary's file, in hexadecimal digits, as tiktoken expects it.
        pattern: The regular expression that cuts a text into words.
        special: The special tokens.
    """

    name: str
    sha256: str
    pattern: str
    special: Mapping[str, int] = attrs.field(eq=False)


_O200K = Vocabulary(
    "o200k_base",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    (
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
        r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
        r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
    ),
    {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
)
_CL100K = Vocabulary(
    "cl100k_base",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276},
)

VOCABULARIES: Final[Mapping[str, Vocabulary]] = {one.name: one for one in (_O200K, _CL100K)}
"""Those that can be installed."""

# The beginnings of the names of OpenAI's models. The first that fits counts, so longer ones come before shorter ones.
_FAMILIES: Final[tuple[tuple[str, Vocabulary], ...]] = (
    ("gpt-4o", _O200K),
    ("gpt-4.1", _O200K),
    ("gpt-4.5", _O200K),
    ("gpt-5", _O200K),
    ("gpt-oss", _O200K),  # o200k_harmony differs in its special tokens only
    ("chatgpt-4o", _O200K),
    ("o1", _O200K),
    ("o3", _O200K),
    ("o4-mini", _O200K),
    ("gpt-4", _CL100K),
    ("gpt-3.5", _CL100K),
    ("gpt-35", _CL100K),  # Azure's spelling
)


def vocabulary_for(model: str | None) -> tuple[Vocabulary, bool]:
    """Return the vocabulary to count by, and whether it is the model's own.

    Args:
        model: The model's name, also with a provider before it ("openai:gpt-4.1", "openai/gpt-4.1"), or of a model fine-tuned by OpenAI
            ("ft:gpt-4o:…"); None for nobody's in particular.
    """
    if model is not None:
        name = model.strip().lower().removeprefix("openai:").removeprefix("azure:").removeprefix("openrouter:").removeprefix("openai/")
        name = name.removeprefix("ft:")
        for beginning, vocabulary in _FAMILIES:
            # "o1" and "o1-mini", but not "o1x": a name ends there, or goes on with a mark.
            if name.startswith(beginning) and not name[len(beginning) :][:1].isalnum():
                return vocabulary, True
    return _O200K, False
