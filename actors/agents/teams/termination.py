"""When a talk between members is over: conditions that can be joined with `|` and `&`. They hold no state, so that nothing of one run is left for the next."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, NoReturn

import attrs

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.handoffs import HANDOFF
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.arguments import check_call, check_method
from retinue.actors.agents.teams.words import stands_in
from retinue.actors.agents.telling import of_function
from retinue.actors.llm.usage import NO_USAGE, Usage
from retinue.security.errors import DefinitionError

__all__ = [
    "AllOf",
    "AnyOf",
    "HandedTo",
    "MaxMessages",
    "SaidBy",
    "SecondsPassed",
    "Talk",
    "Termination",
    "TextMention",
    "TokensUsed",
    "When",
    "checked_until",
    "name_if_met",
    "names_in",
    "targets_of",
]

SHOWN: Final = 60
"""Characters of a text that the name of a condition shows."""

_MET: Final = "define `def met(self, talk: rt.Talk) -> bool`, a plain function that returns True or False"


@attrs.frozen
class Talk:
    """What a condition looks at: what has happened in this run of the team. What was before it does not count, and neither does the message that was asked.

    Attributes:
        asked: The message that the team was asked.
        said: What members have said since, in order; each message's `sender` is its member's name.
        usage: What they used, the choosing of members included; its numbers are None where a model does not say.
        seconds: Seconds since the run began; a run that was parked counts from when it was resumed.
    """

    asked: AgentMessage
    said: tuple[AgentMessage, ...] = ()
    usage: Usage = NO_USAGE
    seconds: float = 0.0


class Termination:
    """A condition under which a talk is over, looked at after each message of a member. Derive from it, frozen and without state, and say `met`:

        class Enough(rt.Termination):
            def met(self, talk: rt.Talk) -> bool:
                return len(talk.said) >= 4

    `a | b` is met when one of them is, `a & b` when both are at the same time.
    """

    __slots__ = ()
    __immutable__: ClassVar[bool] = True

    def met(self, talk: Talk) -> bool | str | None:
        """Whether the talk is over: True or False; or a text that `ended_by` says of it, and None. The same for the same talk. A plain function."""
        raise NotImplementedError(f"{type(self).__name__} has no met: {_MET}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __or__(self, other: object) -> AnyOf:
        return AnyOf((*_parts(self, AnyOf), *_parts(_condition(other, "|"), AnyOf)))

    def __ror__(self, other: object) -> NoReturn:
        _condition(other, "|")
        raise AssertionError  # pragma: no cover -- a condition's own `|` comes first

    def __and__(self, other: object) -> AllOf:
        return AllOf((*_parts(self, AllOf), *_parts(_condition(other, "&"), AllOf)))

    def __rand__(self, other: object) -> NoReturn:
        _condition(other, "&")
        raise AssertionError  # pragma: no cover -- a condition's own `&` comes first

    def __bool__(self) -> NoReturn:
        raise DefinitionError(
            f"{self} is neither true nor false: `and`, `or` and `not` would drop one of two conditions: join them with & and |"
        )


@attrs.frozen(repr=False)
class AnyOf(Termination):
    """Met when one of the conditions is; that one is named as what ended the talk, the first of them where several are. `a | b` makes it."""

    conditions: tuple[Termination, ...] = attrs.field(validator=lambda _, __, value: _check_conditions("AnyOf", value))

    def met(self, talk: Talk) -> str | None:
        """The first that is met."""
        for condition in self.conditions:
            name = name_if_met(condition, talk)
            if name is not None:
                return name
        return None

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.conditions))


@attrs.frozen(repr=False)
class AllOf(Termination):
    """Met when all of the conditions are. `a & b` makes it."""

    conditions: tuple[Termination, ...] = attrs.field(validator=lambda _, __, value: _check_conditions("AllOf", value))

    def met(self, talk: Talk) -> str | None:
        """All of them, as they were met."""
        names = []
        for condition in self.conditions:
            name = name_if_met(condition, talk)
            if name is None:
                return None
            names.append(name)
        return " & ".join(names)

    def __repr__(self) -> str:
        return " & ".join(f"({one!r})" if isinstance(one, AnyOf) else repr(one) for one in self.conditions)


@attrs.frozen(repr=False)
class MaxMessages(Termination):
    """Met when members have said so many messages.

    Attributes:
        count: How many, 1 or more.
    """

    count: int = attrs.field(validator=lambda _, __, value: _check_count("MaxMessages", value))

    def met(self, talk: Talk) -> str | None:
        """Whether there are so many."""
        return repr(self) if len(talk.said) >= self.count else None

    def __repr__(self) -> str:
        return f"MaxMessages({self.count})"


@attrs.frozen(repr=False)
class TextMention(Termination):
    """Met when a member has said a text, as words of its own: "APPROVE" is not found in "DISAPPROVE", nor in "approve".

    Attributes:
        text: The text.
        sender: The member who has to say it; None (the default): any of them. Whoever asked the team is none.
    """

    text: str = attrs.field(validator=lambda _, __, value: _check_name("TextMention", "text", value))
    sender: str | None = attrs.field(default=None, validator=lambda _, __, value: _check_sender(value))

    def met(self, talk: Talk) -> str | None:
        """Whether somebody has said it."""
        for message in talk.said:
            if (self.sender is None or message.sender == self.sender) and stands_in(self.text, content_text(message.content)):
                return repr(self)
        return None

    def __repr__(self) -> str:
        by = "" if self.sender is None else f", sender={self.sender!r}"
        return f"TextMention({_short(self.text)}{by})"


@attrs.frozen(repr=False)
class SaidBy(Termination):
    """Met when a member has said something.

    Attributes:
        name: The member's name.
    """

    name: str = attrs.field(validator=lambda _, __, value: _check_name("SaidBy", "name", value))

    def met(self, talk: Talk) -> str | None:
        """Whether it has."""
        return repr(self) if any(message.sender == self.name for message in talk.said) else None

    def __repr__(self) -> str:
        return f"SaidBy({self.name!r})"


@attrs.frozen(repr=False)
class TokensUsed(Termination):
    """Met when the talk has used so many tokens, or nobody knows how many: unknown is not 0. It ends a talk between two messages; a limit that
    holds within them is a budget (`TreeLimits`).

    Attributes:
        count: Tokens of prompts and answers together, 1 or more.
    """

    count: int = attrs.field(validator=lambda _, __, value: _check_count("TokensUsed", value))

    def met(self, talk: Talk) -> str | None:
        """Whether it has."""
        used = talk.usage.total_tokens
        if used is None:
            return f"{self!r}, for a model does not say how many it used"
        return repr(self) if used >= self.count else None

    def __repr__(self) -> str:
        return f"TokensUsed({self.count})"


@attrs.frozen(repr=False)
class SecondsPassed(Termination):
    """Met when a message comes so many seconds after the run's beginning, or later. Nobody is interrupted by it; a deadline is the asker's `timeout=`.

    Attributes:
        seconds: Seconds, above 0.
    """

    seconds: float = attrs.field(validator=lambda _, __, value: _check_seconds("SecondsPassed", value))

    def met(self, talk: Talk) -> str | None:
        """Whether they have passed."""
        return repr(self) if talk.seconds >= self.seconds else None

    def __repr__(self) -> str:
        return f"SecondsPassed({self.seconds:g})"


@attrs.frozen(repr=False)
class HandedTo(Termination):
    """Met when a member hands the conversation to somebody; the members are given the tool for it.

    Attributes:
        name: To whom: somebody outside of the team ("user"), for the talk ends there.
    """

    name: str = attrs.field(validator=lambda _, __, value: _check_name("HandedTo", "name", value))

    def met(self, talk: Talk) -> str | None:
        """Whether one does."""
        return repr(self) if any(message.type == HANDOFF and message.receiver == self.name for message in talk.said) else None

    def __repr__(self) -> str:
        return f"HandedTo({self.name!r})"


@attrs.frozen(repr=False)
class When(Termination):
    """Met when a function of the talk says so.

    Attributes:
        function: Gives True or False of a `Talk`; the same for the same talk, for a run that was parked looks again. What it raises ends the run.
    """

    function: Callable[[Talk], bool] = attrs.field(validator=lambda _, __, value: _check_function(value))

    def met(self, talk: Talk) -> str | None:
        """Whether it does."""
        answer: object = self.function(talk)
        if answer is not True and answer is not False:
            if inspect.iscoroutine(answer):
                answer.close()
            raise DefinitionError(f"{self!r}: the function gave a {type(answer).__name__}: return True or False")
        return repr(self) if answer else None

    def __repr__(self) -> str:
        return f"When({getattr(self.function, '__qualname__', type(self.function).__name__).rpartition('.')[2][:SHOWN]})"


def checked_until(until: object, where: str) -> Termination | None:
    """What was given as `until=`. Raises DefinitionError for what is no condition."""
    if until is None:
        return None
    if isinstance(until, Termination):
        _check_condition(until)
        return until
    if isinstance(until, type) and issubclass(until, Termination):
        raise DefinitionError(f"{where}(until=…) is the class {until.__name__}, without its brackets: give {until.__name__}(…)")
    if callable(until) and not isinstance(until, type):
        raise DefinitionError(f"{where}(until=…) is a function: give rt.When(function)")
    raise DefinitionError(
        f"{where}(until=…) is a {type(until).__name__}: give a condition, such as rt.MaxMessages(10) | rt.TextMention('DONE')"
    )


def name_if_met(condition: Termination, talk: Talk) -> str | None:
    """What is said of a condition that is met, or None. Raises DefinitionError where its author's `met` gave what says neither."""
    with of_function(f"the condition {type(condition).__name__}"):
        answer: object = condition.met(talk)
    if answer is None or answer is False:
        return None
    if answer is True:
        return repr(condition)
    if isinstance(answer, str):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
    raise DefinitionError(
        f"{type(condition).__name__}.met gave a {type(answer).__name__}: return True or False, or a text where it is met and else None"
    )


def targets_of(condition: Termination | None) -> tuple[str, ...]:
    """The names of all `HandedTo` in a condition, each once."""
    return tuple(dict.fromkeys(one.name for one in _leaves(condition) if isinstance(one, HandedTo)))


def names_in(condition: Termination | None) -> tuple[str, ...]:
    """The names of the members that a condition speaks of, each once."""
    found = []
    for one in _leaves(condition):
        if isinstance(one, SaidBy):
            found.append(one.name)
        elif isinstance(one, TextMention) and one.sender is not None:
            found.append(one.sender)
    return tuple(dict.fromkeys(found))


def _leaves(condition: Termination | None) -> Iterator[Termination]:
    if isinstance(condition, AnyOf | AllOf):
        for one in condition.conditions:
            yield from _leaves(one)
    elif condition is not None:
        yield condition


def _parts(condition: Termination, kind: type[AnyOf | AllOf]) -> tuple[Termination, ...]:
    return condition.conditions if isinstance(condition, kind) else (condition,)


def _condition(value: object, sign: str) -> Termination:
    if not isinstance(value, Termination):
        raise DefinitionError(f"a condition {sign} {_what(value)}: give another condition, such as rt.MaxMessages(10) or rt.When(function)")
    return value


def _what(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _check_condition(condition: Termination) -> None:
    """Whether the conditions of the author's own among it can be looked at."""
    for one in _leaves(condition):
        kind = type(one)
        if kind.met is Termination.met:
            raise DefinitionError(f"{kind.__name__} has no met: {_MET}")
        if inspect.iscoroutinefunction(kind.met):
            raise DefinitionError(f"{kind.__name__}.met is an async function: {_MET}")
        check_method(one.met, ("the talk",), _MET)


def _check_conditions(where: str, value: Any) -> None:
    if not isinstance(value, tuple) or not value:
        raise DefinitionError(f"{where}: give a tuple of conditions, or join them with | and &")
    for one in value:
        if not isinstance(one, Termination):
            raise DefinitionError(f"{where}: {_what(one)} is no condition: give rt.MaxMessages(10) or another one")


def _check_count(where: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**63:
        raise DefinitionError(f"{where}({value!r:.80}): give a whole number, 1 or more")


def _check_seconds(where: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise DefinitionError(f"{where}({value!r:.80}): give seconds, a number above 0")


def _check_name(where: str, field: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise DefinitionError(f"{where}({field}={value!r:.80}): give a text that is not empty")


def _check_sender(value: Any) -> None:
    if value is not None:
        _check_name("TextMention", "sender", value)


def _check_function(value: Any) -> None:
    if not callable(value) or inspect.iscoroutinefunction(value):
        what = "an async function" if callable(value) else f"a {type(value).__name__}"
        raise DefinitionError(f"When(…) is given {what}: give a plain function of the talk that returns True or False")
    check_call(value, ("the talk",), "When(…)", "let it take one argument, an rt.Talk")


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")
