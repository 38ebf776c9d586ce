"""What one says to a model deployment, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import attrs

from retinue.mailbox.messages import Request, message

__all__ = ["ChatMessage", "Complete", "Completion", "Role"]

Role = Literal["system", "user", "assistant"]

_ROLES = ("system", "user", "assistant")


def _text(instance: object, field: attrs.Attribute[str], value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{type(instance).__name__}.{field.name} is a {type(value).__name__}: give a str")


def _role(_instance: object, _field: attrs.Attribute[Role], value: object) -> None:
    if value not in _ROLES:
        raise ValueError(f"ChatMessage.role is {value!r}: use one of {', '.join(_ROLES)}")


@attrs.frozen
class ChatMessage:
    """One entry of a conversation with a model.

    Attributes:
        role: "system", "user" or "assistant".
        content: The text.
    """

    role: Role = attrs.field(validator=_role)
    content: str = attrs.field(validator=_text)


@attrs.frozen
class Completion:
    """A model's answer.

    Attributes:
        text: What the model said; never empty.
        model: The model's name as the endpoint gives it.
        prompt_tokens: Tokens of the request as the endpoint counted them, or None where it does not count.
        completion_tokens: Tokens of the answer as the endpoint counted them, or None where it does not count.
        finish_reason: Why the model ended: "stop", "length" (max_tokens were reached), or another word of the endpoint's; None where
            it gives none.
    """

    text: str
    model: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None


def _conversation(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    if isinstance(messages, str | bytes | ChatMessage) or not isinstance(messages, Iterable):
        raise TypeError(f"Complete.messages is a {type(messages).__name__}: give a sequence of ChatMessage, or use Complete.of(text)")
    return tuple(messages)


def _check_conversation(_instance: object, _field: object, value: tuple[object, ...]) -> None:
    if not value:
        raise ValueError("Complete.messages is empty: give at least one ChatMessage")
    for item in value:
        if not isinstance(item, ChatMessage):
            raise TypeError(f"Complete.messages holds a {type(item).__name__}: give ChatMessage(role, content)")


def _count(_instance: object, field: attrs.Attribute[int | None], value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"Complete.{field.name} is a {type(value).__name__}: give an int or None")
    if field.name == "max_tokens" and value < 1:
        raise ValueError(f"Complete.max_tokens is {value}: give a number above zero, or None for the endpoint's own limit")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"Complete.{field.name} does not fit into 64 bits: give a smaller number")


def _temperature(_instance: object, _field: attrs.Attribute[float | None], value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"Complete.temperature is a {type(value).__name__}: give a number or None")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"Complete.temperature is {value}: give zero (the likeliest words) or more, or None for the endpoint's own")


def _stops(stop: Iterable[str]) -> tuple[str, ...]:
    if isinstance(stop, str) or not isinstance(stop, Iterable):
        raise TypeError(f"Complete.stop is a {type(stop).__name__}: give a sequence of strings")
    return tuple(stop)


@message(timeout=600)
class Complete(Request[Completion]):
    """Ask a model deployment to go on with a conversation. Needs the operation `model.complete`.

    Attributes:
        messages: The conversation, oldest first; at least one entry.
        max_tokens: The most tokens the answer may have, or None (the default) for the endpoint's own limit.
        temperature: 0 for the likeliest words, higher for more surprise, or None (the default) for the endpoint's own.
        stop: Texts at which the answer ends; default none.
        seed: Makes sampling repeatable where the endpoint can do that; default None.

    Raises TypeError or ValueError where it is made, for values that no endpoint could take.
    """

    messages: tuple[ChatMessage, ...] = attrs.field(converter=_conversation, validator=_check_conversation)
    max_tokens: int | None = attrs.field(default=None, validator=_count)
    temperature: float | None = attrs.field(default=None, validator=_temperature)
    stop: tuple[str, ...] = attrs.field(default=(), converter=_stops, validator=attrs.validators.deep_iterable(_text))
    seed: int | None = attrs.field(default=None, validator=_count)

    @classmethod
    def of(
        cls,
        prompt: str,
        *,
        system: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: tuple[str, ...] = (),
        seed: int | None = None,
    ) -> Complete:
        """Make the request of one user's text, with the system's instructions before it where they are given."""
        user = ChatMessage("user", prompt)
        messages = (user,) if system is None else (ChatMessage("system", system), user)
        return cls(messages, max_tokens=max_tokens, temperature=temperature, stop=stop, seed=seed)
