"""Who is to answer a message: by rules, or by a model that chooses among the members' exact names."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import attrs

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import RoutingFailed
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.arguments import check_call
from retinue.actors.agents.teams.words import stands_in
from retinue.actors.llm.messages import ChatMessage, Complete, ToolSpec
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from retinue.actors.llm.completion import Completion

__all__ = ["ModelRouter", "Rule", "Rules", "choice_request", "chosen", "chosen_by", "corrected"]

Rule: TypeAlias = tuple[str | Callable[[AgentMessage], bool], str]
"""When, and to whom: words that the message holds, or a function of the message that says so; and the name of a member."""

LONGEST_WORDS: Final = 200

LONGEST_MESSAGE: Final = 20_000
"""Characters of a message that the model which chooses is shown."""

TOOL: Final = "route"

INSTRUCTIONS: Final = (
    "You decide who of a team answers the user's next message. Choose the one whose work it is; do not answer it yourself."
)


class Rules:
    """Rules of who is to answer: the first that fits counts.

        rt.Rules(("refund", "billing"), ("book a flight", "travel"), (lambda message: message.sender == "boss", "desk"), default="triage")

    Args:
        rules: Pairs. The first of each is a word, or words in a row: they fit where the message holds just these, whole and in any case ("finance" is not found in
            "finance_eu"); or a function of the `AgentMessage`, which fits where it gives True. The second is a member's exact name.
        default: Who answers where no rule fits, or nobody of those whose rules do can be asked. None: whoever has the conversation.

    Raises DefinitionError for what is no rule.
    """

    __slots__ = ("_words", "default", "rules")

    def __init__(self, *rules: Rule, default: str | None = None) -> None:
        checked: list[Rule] = []
        for number, rule in enumerate(rules, 1):
            if not isinstance(rule, tuple) or len(rule) != 2 or not isinstance(rule[1], str):
                raise DefinitionError(
                    f'Rules: rule {number} is {rule!r:.150}: give a pair of when and a member\'s name, ("refund", "billing")'
                )
            when = rule[0]
            if isinstance(when, str):
                if not _even(when) or len(when) > LONGEST_WORDS:
                    raise DefinitionError(f"Rules: the words of rule {number} are {when!r:.150}: give 1 to {LONGEST_WORDS} characters")
            elif not callable(when):
                raise DefinitionError(
                    f"Rules: rule {number} begins with a {type(when).__name__}: give words, or a function of the AgentMessage"
                )
            else:
                check_call(when, ("the message",), f"Rules: rule {number}", "let it take one argument, an rt.AgentMessage")
            checked.append((when, rule[1]))
        if default is not None and not isinstance(default, str):
            raise DefinitionError(f"Rules(default=…) is a {type(default).__name__}: give a member's name")
        self.rules = tuple(checked)
        self._words = tuple(_even(when) if isinstance(when, str) else "" for when, _ in checked)
        self.default = default

    @property
    def names(self) -> tuple[str, ...]:
        """The members that are named."""
        named = [name for _, name in self.rules]
        return tuple(dict.fromkeys([*named, self.default] if self.default is not None else named))

    def fitting(self, message: AgentMessage) -> Iterator[str]:
        """The members whose rules fit, in their order, the default last. Raises RoutingFailed where a function fails."""
        text: str | None = None
        for number, (when, name) in enumerate(self.rules, 1):
            if isinstance(when, str):
                if text is None:
                    text = _even(content_text(message.content))
                if stands_in(self._words[number - 1], text):
                    yield name
                continue
            try:
                fits = when(message)
            except Exception as error:
                raise RoutingFailed(
                    f"rule {number} of the swarm, to {name!r}, has failed: {type(error).__name__}: {str(error)[:300]}"
                ) from error
            if not isinstance(fits, bool):
                kind = type(fits).__name__
                raise RoutingFailed(f"rule {number} of the swarm, to {name!r}, has given a {kind}: its function is to give True or False")
            if fits:
                yield name
        if self.default is not None:
            yield self.default


@attrs.frozen
class ModelRouter:
    """A model that chooses who is to answer: one call before each message of a user, under the asker's budget.

        rt.ModelRouter("openai:gpt-4.1-mini", "Invoices and refunds go to billing, all else to support.")

    It is shown the members' names and descriptions, who has the conversation, and the message. It answers by an exact name (a call of a tool, or just the name);
    an answer that names nobody is asked for once more, and then it is `RoutingFailed`.

    Attributes:
        model: A deployment's ref, a text such as "openai:gpt-4.1-mini" (see `llm.model`), or what `llm.from_env()` chose.
        instructions: What it is told besides.
        each_message: Whether it is asked for each message; False: only for the first of a session, which then stays where it is handed to.
        max_tokens: Tokens of its answer; default 200.

    Raises DefinitionError for what is none of these.
    """

    __immutable__: ClassVar[bool] = True

    model: Any
    instructions: str = ""
    each_message: bool = True
    max_tokens: int = 200

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.model, str) and not hasattr(self.model, "ask"):  # a ref, of whichever face of a system
            from retinue.actors.llm.choose import Choice

            if not isinstance(self.model, Choice):
                raise DefinitionError(
                    f'ModelRouter(model=…) is a {type(self.model).__name__}: give a deployment\'s ref, llm.from_env(), or a text such as "openai:gpt-4.1-mini"'
                )
        if not isinstance(self.instructions, str):
            raise DefinitionError(f"ModelRouter(instructions=…) is a {type(self.instructions).__name__}: give a str")
        if isinstance(self.max_tokens, bool) or not isinstance(self.max_tokens, int) or self.max_tokens < 1:
            raise DefinitionError(f"ModelRouter(max_tokens={self.max_tokens!r}): give a number of tokens, 1 or more")

    def __with_refs__(self, unwrap: Any) -> ModelRouter:
        """For the twins of a system."""
        model = unwrap(self.model)
        return self if model is self.model else attrs.evolve(self, model=model)

    async def choose(
        self,
        complete: Callable[[Complete], Awaitable[Completion]],
        message: AgentMessage,
        members: Mapping[str, str],
        *,
        active: str = "",
        before: str = "",
        path: str = "a team",
    ) -> str:
        """The member that the model chooses.

        Args:
            complete: Asks the model.
            message: What is to be answered.
            members: The descriptions of those who can be asked, by name.
            active: Who has the conversation.
            before: What was said before.
            path: Who wants to know, for texts.

        Raises:
            RoutingFailed: It has named nobody, twice.
        """
        shown = content_text(message.content)
        if len(shown) > LONGEST_MESSAGE:
            shown = f"{shown[: LONGEST_MESSAGE // 2]}\n[…]\n{shown[-LONGEST_MESSAGE // 2 :]}"
        said = f"What was said before:\n{before}\n\nThe message:\n{shown}" if before else shown
        rest = f"The conversation is with {active}. It stays there, unless the message is another one's work." if active else ""
        request = choice_request(TOOL, (INSTRUCTIONS, self.instructions), members, said, self.max_tokens, rest)
        return await chosen(complete, request, members, f"{path}: the model that chooses who answers")


async def chosen(complete: Callable[[Complete], Awaitable[Completion]], request: Complete, members: Mapping[str, str], who: str) -> str:
    """The member that a model names. An answer that names nobody is asked for once more.

    Args:
        complete: Asks the model.
        request: See `choice_request`.
        members: Those who can be named.
        who: Who chooses, for texts.

    Raises:
        RoutingFailed: It has named nobody, twice.
    """
    completion = await complete(request)
    name = chosen_by(completion, members)
    if name is None:
        completion = await complete(corrected(request, completion, members))
        name = chosen_by(completion, members)
    if name is None:
        answer = _answer(completion)[:300]
        raise RoutingFailed(
            f"{who} has named nobody, twice; at last it said {answer!r:.200}, and it can choose from {', '.join(members)}", answer=answer
        )
    return name


def choice_request(
    tool: str, instructions: Iterable[str], members: Mapping[str, str], said: str, max_tokens: int, rest: str = ""
) -> Complete:
    """What a model is asked that chooses: a call of a tool whose one argument is a member's exact name.

    Args:
        tool: The tool's name.
        instructions: What it is told before it is told of the members; empty ones are left out.
        members: The descriptions of those who can be chosen, by name.
        said: What it is shown.
        max_tokens: Tokens of its answer.
        rest: What it is told after the members.
    """
    lines = [*instructions, "The team:"]
    lines += [f"- {name}: {description}" if description else f"- {name}" for name, description in members.items()]
    lines.append(rest)
    schema = {
        "type": "object",
        "properties": {"member": {"type": "string", "enum": list(members)}},
        "required": ["member"],
        "additionalProperties": False,
    }
    spec = ToolSpec(tool, "Says who is chosen.", json.dumps(schema, ensure_ascii=False))
    messages = (ChatMessage("system", "\n".join(line for line in lines if line)), ChatMessage("user", said))
    return Complete(messages, max_tokens=max_tokens, temperature=0.0, tools=(spec,), tool_choice=tool)


def chosen_by(completion: Completion, members: Iterable[str]) -> str | None:
    """The member that an answer names, exactly; None where it names none."""
    names = list(members)
    for call in completion.tool_calls:
        try:
            asked = json.loads(call.arguments)
        except (ValueError, RecursionError):
            continue
        name = asked.get("member") if isinstance(asked, dict) else asked
        if isinstance(name, str) and name in names:
            return name
    if completion.tool_calls:
        return None
    text = completion.text.strip()
    if text in names:
        return text
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = asked.get("member") if isinstance(asked, dict) else asked
    return name if isinstance(name, str) and name in names else None


def corrected(request: Complete, completion: Completion, members: Iterable[str]) -> Complete:
    """The same question, after an answer that named nobody."""
    told = f"That names nobody of the team. Answer with exactly one of these names: {', '.join(members)}"
    calls = completion.tool_calls
    more: Sequence[ChatMessage]
    if calls:
        results = [ChatMessage("tool", told, tool_call_id=call.id, name=call.name) for call in calls]
        more = (ChatMessage("assistant", completion.text, calls), *results)
    else:
        more = (ChatMessage("assistant", completion.text or "-"), ChatMessage("user", told))
    return attrs.evolve(request, messages=(*request.messages, *more))  # type: ignore[misc]  # mypy does not know that a message is an attrs class


def _answer(completion: Completion) -> str:
    return completion.text or (completion.tool_calls[0].arguments if completion.tool_calls else "")


def _even(text: str) -> str:
    """A text in the one form in which words are compared: no matter the case, and how many blanks stand between."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
