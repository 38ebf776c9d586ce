"""A model's answer: what it said, and what it wants to be called."""

from __future__ import annotations

import attrs

from retinue.actors.llm.usage import Usage
from retinue.mailbox.constructors import quicken

__all__ = ["Completion", "ToolCall"]


@attrs.frozen
class ToolCall:
    """A model's wish to call a tool.

    Attributes:
        id: What the result is answered under; never empty, and unique within an answer. Made up where the endpoint gave none.
        name: The tool's name as the model wrote it; nothing promises that there is such a tool.
        arguments: The arguments as the model wrote them: JSON text, which may be broken.
        provider_id: The endpoint's own id, where it is not `id`: it was empty, or given to two calls.
        truncated: Whether the answer's token limit cut the call off: it must not be run, nor be repaired. Default False.
    """

    __immutable__ = True

    id: str
    name: str
    arguments: str = "{}"
    provider_id: str | None = None
    truncated: bool = False


_UNKNOWN = Usage()


@attrs.frozen
class Completion:
    """A model's answer.

    Attributes:
        text: What the model said; "" where it only calls tools, or refuses.
        model: The model's name as the endpoint gives it.
        usage: The tokens and the price of this answer.
        finish_reason: Why the model ended: "stop", "length" (max_tokens were reached), "tool_calls", "content_filter", or another word of
            the endpoint's; None where it gives none. What is in the answer counts, not this word: some endpoints say "stop" beside tool calls.
        tool_calls: The tools that it wants called, in order; default none.
        reasoning: What it thought before it spoke, where the endpoint shows that; default "".
        refusal: Why it will not answer, where the endpoint sets that apart from the text; else None.
        annotations: What the endpoint says about the answer (a content filter's marks), each a JSON text; at most 16.
    """

    __immutable__ = True

    text: str = ""
    model: str = ""
    usage: Usage = _UNKNOWN
    finish_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    refusal: str | None = None
    annotations: tuple[str, ...] = ()

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the request as the endpoint counted them; None where it does not count."""
        return self.usage.prompt_tokens

    @property
    def completion_tokens(self) -> int | None:
        """Tokens of the answer as the endpoint counted them; None where it does not count."""
        return self.usage.completion_tokens


for _each in (ToolCall, Completion):  # one is made for every piece of every answer
    quicken(_each)
