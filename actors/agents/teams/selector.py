"""Members that speak when they are chosen, by a model or by a function."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import RoutingFailed
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.arguments import check_call
from retinue.actors.agents.teams.group_chat import MAX_TURNS, Chat, GroupChat
from retinue.actors.agents.teams.models import model_for
from retinue.actors.agents.teams.routing import choice_request, chosen
from retinue.actors.agents.telling import of_function
from retinue.actors.runtime.ref import Ref
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.teams.members import Members
    from retinue.actors.agents.teams.termination import Termination
    from retinue.actors.llm.choose import Choice
    from retinue.actors.llm.completion import Completion
    from retinue.actors.llm.deployment import Deployment
    from retinue.actors.llm.messages import Complete

__all__ = ["Choose", "Selector"]

Choose: TypeAlias = Callable[[Sequence[AgentMessage], Sequence[str]], "str | Awaitable[str | None] | None"]
"""Chooses who speaks next: given what was said in this run (first what was asked) and the names of those who may, it gives one of the names, or None: the talk is
over. Plain or `async def`; the same for the same talk."""

TOOL: Final = "speaks_next"

ANSWER_TOKENS: Final = 200
"""Tokens of an answer that chooses; it is a name."""

LINES: Final = 50
LONGEST: Final = 20_000
"""Lines and characters of the talk that the choosing model is shown, the latest."""

INSTRUCTIONS: Final = "You lead a talk. Choose who of the team speaks next, so that the work goes on; do not answer yourself."


class Selector(GroupChat):
    """Members that speak when they are chosen, each hearing what the others have said.

        team = await system.spawn(rt.Selector, {"writer": writer, "critic": critic}, model="openai:gpt-4.1-mini", until=rt.TextMention("DONE"))

    A model chooses by exact names, told of the members' descriptions; what it says that is no name of a member is asked for once more, and then it is
    `RoutingFailed`: nobody is asked instead. Where only one member may speak next, no model is asked.

    Args:
        members: See `Team`.
        model: The deployment that chooses: a ref, a text such as "openai:gpt-4.1-mini", or what `llm.from_env()` chose.
        choose: Instead of it a function, see `Choose`.
        instructions: What the model is told besides the members' descriptions.
        until: When the talk is over. Without it a function ends it by None; a model cannot, and needs one.
        allow_repeats: Whether who has spoken last may be chosen again; default False.
        max_turns: See `GroupChat`; default 50.
        options: The others of `Team`.

    Raises:
        DefinitionError: To the spawner.
    """

    def __init__(
        self,
        members: Members = (),
        *,
        model: Ref[Deployment] | Ref[Any] | Choice | str | None = None,
        choose: Choose | None = None,
        instructions: str = "",
        until: Termination | None = None,
        allow_repeats: bool = False,
        max_turns: int = MAX_TURNS,
        **options: Any,
    ) -> None:
        super().__init__(members, until=until, max_turns=max_turns, **options)
        if (model is None) == (choose is None):
            raise DefinitionError(
                "Selector: give model=, which chooses who speaks, or choose=, a function of what was said and the names"
                + ("" if model is None else "; not both")
            )
        if choose is not None and not callable(choose):
            raise DefinitionError(f"Selector(choose=…) is a {type(choose).__name__}: give a function of what was said and the names")
        if choose is not None:
            fix = "let it take two arguments, a sequence of messages and one of names"
            check_call(choose, ("what was said", "the names of those who may speak"), "Selector(choose=…)", fix)
        if model is not None and not isinstance(model, str | Ref):
            from retinue.actors.llm.choose import Choice

            if not isinstance(model, Choice):
                raise DefinitionError(
                    f'Selector(model=…) is a {type(model).__name__}: give a deployment\'s ref, llm.from_env(), or a text such as "openai:gpt-4.1-mini"'
                )
        if not isinstance(instructions, str):
            raise DefinitionError(f"Selector(instructions=…) is a {type(instructions).__name__}: give a str")
        if model is not None and until is None:
            raise DefinitionError(
                "Selector(model=…): say when the talk is over, until=rt.TextMention('DONE') | rt.MaxMessages(10); a model that chooses does not end it"
            )
        self._named = model
        self._model: Ref[Deployment] | None = None
        self.choose = choose
        self.instructions = instructions
        self.allow_repeats = bool(allow_repeats)

    async def on_start(self) -> None:
        """Starts the members, and the model where a text names it."""
        await super().on_start()
        if self._named is not None:
            self._model = await model_for(self.ctx, self._named, "model")

    async def next_speaker(self, chat: Chat) -> str | None:
        """Who is chosen."""
        run = chat.run
        last = chat.said[-1].sender if chat.said else None

        def candidates() -> dict[str, str]:
            found = {name: run.describe(name) for name in run.members}
            others = {name: each for name, each in found.items() if name != last}
            return found if self.allow_repeats or not others else others

        if self.choose is not None:
            return await run.decide(lambda: self._by_function(chat, list(candidates())))  # type: ignore[no-any-return]
        names: dict[str, str] = await run.decide(candidates)
        if not names:
            raise RoutingFailed(f"{run.path}: no member of the team can be asked: all are paused, or there are none")
        return next(iter(names)) if len(names) == 1 else await self._by_model(chat, names)

    def ended(self, chat: Chat) -> str:  # noqa: ARG002
        """The function has given None."""
        return "choose"

    async def _by_function(self, chat: Chat, names: list[str]) -> str | None:
        assert self.choose is not None
        with of_function(f"Selector(choose=…) of {chat.run.path}"):
            found: Any = self.choose((chat.run.message, *chat.said), tuple(names))
            if inspect.isawaitable(found):
                found = await found
        if found is None or (isinstance(found, str) and found in names):
            return found
        near = difflib.get_close_matches(found[:100], names, 1) if isinstance(found, str) else []
        meant = f"; did you mean {near[0]!r}?" if near else "."
        raise RoutingFailed(
            f"{chat.run.path}: Selector(choose=…) gave {found!r:.100}, and who may speak next are {', '.join(names) or 'none'}{meant} None ends the talk",
            answer=found if isinstance(found, str) else "",
        )

    async def _by_model(self, chat: Chat, names: dict[str, str]) -> str:
        run, model = chat.run, self._model
        assert model is not None

        async def complete(request: Complete) -> Completion:
            completion = await run.complete(model, request)
            chat.used(completion.usage)
            return completion

        shown = f"{content_text(run.message.content)[:LONGEST]}\n\n{chat.lines(LINES)[-LONGEST:]}".strip()
        request = choice_request(TOOL, (INSTRUCTIONS, self.instructions), names, shown, ANSWER_TOKENS)
        return await chosen(complete, request, names, f"{run.path}: the model that chooses who speaks")
