"""A swarm: agents among whom a conversation is handed about. One has it at a time, and keeps it from message to message until it hands it over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import attrs
import trio

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import HookBlocked, MemberPaused, NoSuchMember, RoutingFailed
from retinue.actors.agents.front import IDLE, SESSIONS
from retinue.actors.agents.handoffs import HANDOFF, MOST, Handoff, HandOver, handoffs_of
from retinue.actors.agents.hooks import HookContext, compile_hooks
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.guards import HandoffGuards, Watch
from retinue.actors.agents.teams.handing import Handing
from retinue.actors.agents.teams.key_paths import first_of
from retinue.actors.agents.teams.members import near
from retinue.actors.agents.teams.models import model_for
from retinue.actors.agents.teams.routing import ModelRouter, Rules
from retinue.actors.agents.teams.team import Team
from retinue.actors.agents.teams.transcript import Transcript
from retinue.actors.runtime.errors import AskTimeout
from retinue.actors.runtime.ref import Ref
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.keeping import Keeper
    from retinue.actors.agents.teams.members import Members
    from retinue.actors.agents.teams.team_run import TeamRun
    from retinue.actors.agents.teams.tree_limits import TreeLimits
    from retinue.actors.llm.deployment import Deployment

__all__ = ["Swarm"]

ANY: Final = "*"
"""In `handoffs=`: each member."""

EVERYONE: Final = (ANY,)

ACTIVE: Final = "active"
"""Where the session's state says who has the conversation."""

ROUTED: Final = "routed"
"""The reason of a handoff that no member has made."""

NAMED: Final = "named"
"""The reason where the message says who is to answer it."""

BEFORE: Final = 6
"""Lines of the talk that a model which chooses is shown."""


class Swarm(Team):
    """Agents among whom a conversation is handed about.

        swarm = await system.spawn(rt.Swarm, {"triage": triage, "billing": rt.Agent.spec(model=model, description="Invoices and refunds")}, name="desk")
        answer = await swarm.ask("I want my money back")
        answer.sender  # "billing"

    One member has the conversation. Its model sees a tool for each member that it may hand over to (`transfer_to_billing`); when it calls one, that member goes on, with
    what it has not heard yet. The answer is that of the member who hands over no more, and it keeps the conversation for the next message of the session.

    Args:
        members: Agents by name; see `Team`. Of a list, refs go by the last part of their paths.
        start: Who has a new conversation; default the first.
        handoffs: Who may hand over to whom, by exact names: `{"triage": ["billing", "support"], "*": ["triage"]}`; "*" stands for each member (for those without a
            key of their own). An entry may be a `Handoff`, with its own description and tool. Default: everyone to everyone. {}: nobody.
        route: Who is to answer each message, before anybody is asked: `Rules`, or a `ModelRouter`. Default: whoever has the conversation.
        guards: How far one run may go; see `HandoffGuards`.
        share: What the next one is told: "thread" (the default) all that was said in the session and that it has not heard, each line with its speaker; "message" only
            what is said to it with the handoff.
        hooks: Called at "on_handoff", for each change of who has the conversation; see `compile_hooks`.
        limits, description, sessions, session_idle: As for `Team`.

    Raises DefinitionError (to the spawner) for what cannot be a swarm. A run raises, besides what its members and `Team` raise: HandoffLimit, RoutingFailed,
    HookBlocked.
    """

    def __init__(
        self,
        members: Members = (),
        *,
        start: str | None = None,
        handoffs: Mapping[str, Sequence[str | Handoff]] | None = None,
        route: Rules | ModelRouter | None = None,
        guards: HandoffGuards | None = None,
        share: Literal["thread", "message"] = "thread",
        hooks: Iterable[Any] = (),
        limits: TreeLimits | None = None,
        description: str = "",
        sessions: int | Keeper = SESSIONS,
        session_idle: float = IDLE,
    ) -> None:
        super().__init__(_named(members), limits=limits, description=description, sessions=sessions, session_idle=session_idle)
        names = [member.name for member in self._given]
        if start is not None:
            _check_known(start, names, "start=")
        if share not in ("thread", "message"):
            raise DefinitionError(f'Swarm(share={share!r:.100}): use "thread" (all that was said) or "message" (only what is handed over)')
        if guards is not None and not isinstance(guards, HandoffGuards):
            raise DefinitionError(f"Swarm(guards=…) is a {type(guards).__name__}: give rt.HandoffGuards(hops=20)")
        if route is not None and not isinstance(route, Rules | ModelRouter):
            raise DefinitionError(
                f'Swarm(route=…) is a {type(route).__name__}: give rt.Rules(("refund", "billing")), or rt.ModelRouter("openai:gpt-4.1-mini")'
            )
        if isinstance(route, Rules):
            for name in route.names:
                _check_known(name, names, "route=")
        self._start = start
        self._handoffs = None if handoffs is None else _checked_handoffs(handoffs, names)
        self._route = route
        self._guards = guards or HandoffGuards()
        self._share = share
        self._hooks = compile_hooks(hooks)
        if self._hooks and not self._hooks.has("on_handoff"):
            raise DefinitionError('Swarm(hooks=…): a swarm calls hooks at "on_handoff", and none of these is one of that phase')
        self._chooser: Ref[Deployment] | None = None
        self._offers: tuple[Any, dict[str, tuple[Handoff, ...]]] = ((), {})

    async def on_start(self) -> None:
        """Starts the members, and the model that chooses among them where there is one."""
        await super().on_start()
        if isinstance(self._route, ModelRouter):
            self._chooser = await model_for(self.ctx, self._route.model, "router")

    async def forward(self, run: TeamRun) -> AgentMessage:
        """One message: who has the conversation answers it, or hands it over to another, who does."""
        watch = Watch(self._guards, run.path)
        transcript = Transcript(run.state, _evolved(run.message, receiver=None), run.all_members)
        handing = Handing(run)
        active, source, before = await self._first(run, transcript), run.message.sender, ""
        said: AgentMessage | None = None
        within = run.message.receiver
        while True:
            watch.enter(active)
            if said is None:
                told = transcript.told(active, source) if self._share == "thread" else transcript.message
                said = told if within is None else cast("AgentMessage", _evolved(told, receiver=within))
                within = None
            try:
                answer = await self._ask(run, watch, handing, active, said)
            except (NoSuchMember, MemberPaused) as gone:
                if not before or gone.name != active:
                    raise
                said = AgentMessage(self._refusal(run, before, active, self._why_not(before, active)), run.name)
                active, before = before, ""
                continue
            if answer.type != HANDOFF or answer.receiver is None:
                break
            step: dict[str, str] = await run.decide(partial(self._judge, run, _handover(active, answer)))
            if step["refused"]:
                said = AgentMessage(step["refused"], run.name)
                continue
            target, text = step["target"], step["message"]
            transcript.say(active, text)
            await run.handed_off(active, target, step["reason"])
            said = None if self._share == "thread" else AgentMessage(text, active)
            source = before = active
            active = target
        run.state[ACTIVE] = active
        if self._share == "thread":
            transcript.say(active, content_text(answer.content))
            transcript.keep(run.state, run.all_members)
        return answer

    async def _ask(self, run: TeamRun, watch: Watch, handing: Handing, member: str, said: AgentMessage) -> AgentMessage:
        timeout, began = watch.timeout(), trio.current_time()
        try:
            return await handing.ask(member, said, self._offered(run, member), timeout)
        except AskTimeout:
            watch.too_slow(member, began, timeout)
            raise

    # -- who begins ----------------------------------------------------------------------------------------------------------------------------------

    async def _first(self, run: TeamRun, transcript: Transcript) -> str:
        """Who is to answer the message of this run."""
        had = str(run.state.get(ACTIVE, ""))
        active: str = await run.decide(partial(self._whose, run, had))
        route = self._route
        if run.message.receiver is not None and self._hooks and active != had:
            return await self._hooked(run, transcript, had, active, NAMED)
        if route is None or run.message.receiver is not None:
            return active
        if isinstance(route, Rules):
            chosen: str = await run.decide(partial(self._by_rules, run, route, active))
        elif had and not route.each_message:
            return active
        else:
            chosen = await self._by_model(run, route, had, transcript)
        if chosen == had:
            return chosen
        return await self._hooked(run, transcript, had, chosen, ROUTED)

    async def _hooked(self, run: TeamRun, transcript: Transcript, had: str, chosen: str, reason: str) -> str:
        """A choice that no member has made, after the hooks have seen it."""
        step: dict[str, str] = await run.decide(partial(self._hooked_choice, run, had, chosen, reason))
        if step["message"]:
            transcript.reword(step["message"])
        if reason == ROUTED or step["target"] != chosen:
            await run.handed_off(had, step["target"], step["reason"])
        return step["target"]

    def _whose(self, run: TeamRun, had: str) -> str:
        """Who has the conversation: whom the message names, who had it last, who begins."""
        if run.message.receiver is not None:
            wanted, _ = first_of(run.message.receiver)
            self._roster.at_work(wanted)
            return wanted
        members = run.members
        if not members:
            paused = ", ".join(run.all_members)
            raise RoutingFailed(f"{run.path}: nobody can be asked: " + (f"all are paused ({paused})" if paused else "there are no members"))
        return next(name for name in (had, self._start, members[0]) if name in members)

    def _by_rules(self, run: TeamRun, rules: Rules, active: str) -> str:
        members = run.members
        return next((name for name in rules.fitting(run.message) if name in members), active)

    async def _by_model(self, run: TeamRun, router: ModelRouter, had: str, transcript: Transcript) -> str:
        chooser = self._chooser
        assert chooser is not None
        members: dict[str, str] = await run.decide(lambda: {name: _description(run, name) for name in run.members})
        if len(members) == 1:
            return next(iter(members))
        before = transcript.latest(BEFORE) if self._share == "thread" else ""
        return await router.choose(
            partial(run.complete, chooser), run.message, members, active=had if had in members else "", before=before, path=run.path
        )

    async def _hooked_choice(self, run: TeamRun, had: str, chosen: str, reason: str) -> dict[str, str]:
        """A choice after the hooks have seen it: whom they put there, and the message where they change it. Raises HookBlocked: there is no model to be told."""
        text = content_text(run.message.content)
        over = HandOver(had, chosen, reason, text)
        if self._hooks:
            over = await self._hooks.run("on_handoff", self._about(run), over)
            self._roster.at_work(over.target)
        return {"target": over.target, "reason": over.reason, "message": "" if over.message == text else over.message}

    # -- who goes on ---------------------------------------------------------------------------------------------------------------------------------

    async def _judge(self, run: TeamRun, over: HandOver) -> dict[str, str]:
        """What becomes of a handoff; where it is refused, what its model is told."""
        source, refused = over.source, ""
        if self._hooks:
            try:
                over = await self._hooks.run("on_handoff", self._about(run), over)
            except HookBlocked as blocked:
                refused = f"not permitted: {blocked.reason or 'a hook has blocked it'}"
        if not refused and all(handoff.target != over.target for handoff in self._offered(run, source)):
            refused = self._why_not(source, over.target)
        refused = refused and self._refusal(run, source, over.target, refused)
        return {"refused": refused, "target": over.target, "reason": over.reason, "message": over.message}

    def _refusal(self, run: TeamRun, source: str, target: str, why: str) -> str:
        """What a member's model is told whose handoff was not carried out."""
        others = ", ".join(handoff.target for handoff in self._offered(run, source))
        whom = f"You can hand over to {others}, or go on yourself" if others else "There is nobody to hand over to: go on yourself"
        return f"Your handoff to {target:.100} was not carried out: {why}. {whom}."

    def _why_not(self, source: str, target: str) -> str:
        if target == source:
            return "that is you"
        if target not in self._roster:
            return "there is nobody of that name"
        return "it is not at work now" if self._roster.place(target).member.paused else "that is none of those to whom you may hand over"

    def _offered(self, run: TeamRun, source: str) -> tuple[Handoff, ...]:
        """To whom a member may hand over now. Raises DefinitionError where that are more than a model can choose from."""
        if self._guards.hops == 0:
            return ()
        wanted = EVERYONE if self._handoffs is None else self._handoffs.get(source, self._handoffs.get(ANY, ()))
        if not wanted:
            return ()
        members = run.members
        state = (members, *self._roster)
        if self._offers[0] != state:  # most often nobody has come or gone, and the same tools are offered again
            self._offers = (state, {})
        offered = self._offers[1].get(source)
        if offered is None:
            offered = self._offers[1][source] = self._offer(run, source, wanted, members)
        return offered

    def _offer(self, run: TeamRun, source: str, wanted: Iterable[str | Handoff], members: Sequence[str]) -> tuple[Handoff, ...]:
        known, found = {member.name: member.description for member in self._roster}, dict[str, Handoff]()
        for one in wanted:
            if isinstance(one, Handoff):
                found[one.target] = one if one.description else attrs.evolve(one, description=known.get(one.target, ""))
            else:
                for name in members if one == ANY else (one,):
                    if name not in found and name in members:
                        found[name] = Handoff(name, known.get(name, ""))
        offered = tuple(each for name, each in found.items() if name != source and name in members)
        if len(offered) > MOST:
            raise DefinitionError(
                f"{run.path}: {source!r} may hand over to {len(offered)} members, and no model chooses among more than {MOST}: say to whom, Swarm(handoffs={{…}})"
            )
        try:
            return handoffs_of(offered)
        except ValueError as error:
            raise DefinitionError(f"{run.path}, Swarm(handoffs=…) of {source!r}: {error}") from None

    def _about(self, run: TeamRun) -> HookContext:
        return HookContext(run.path, run.session, run.subject, run.tenant)


_evolved: Any = attrs.evolve  # a message class is one of attrs, which type checkers do not see


def _named(members: Any) -> Any:
    """Refs of a list under the last parts of their paths: by these their members are known."""
    if isinstance(members, Mapping | str | bytes) or not isinstance(members, Iterable):
        return members
    return [(one.path.rpartition("/")[2], one) if isinstance(one, Ref) else one for one in list(members)]


def _description(run: TeamRun, name: str) -> str:
    """What a member is good for; "" of one that is a member no more, as a run may still know it that is run again."""
    try:
        return run.describe(name)
    except NoSuchMember:
        return ""


def _handover(source: str, answer: AgentMessage) -> HandOver:
    reason = answer.extra.get("reason", "") if answer.extra is not None else ""
    return HandOver(source, str(answer.receiver), reason if isinstance(reason, str) else "", content_text(answer.content))


def _checked_handoffs(given: Mapping[str, Sequence[str | Handoff]], names: Sequence[str]) -> dict[str, tuple[str | Handoff, ...]]:
    """Who may hand over to whom. Raises DefinitionError for what says nothing of that, and for names that are none of a member."""
    if not isinstance(given, Mapping):
        raise DefinitionError(f'Swarm(handoffs=…) is a {type(given).__name__}: give a mapping, {{"triage": ["billing"]}}')
    found: dict[str, tuple[str | Handoff, ...]] = {}
    for source, targets in given.items():
        if source != ANY:
            _check_known(source, names, "handoffs=")
        if isinstance(targets, str | bytes) or not isinstance(targets, Iterable):
            raise DefinitionError(f'Swarm(handoffs=…): {source!r} is given a {type(targets).__name__}: give a list of names, ["billing"]')
        found[source] = tuple(targets)
        for target in found[source]:
            name = target.target if isinstance(target, Handoff) else target
            if name != ANY:
                _check_known(name, names, "handoffs=")
            if name == source:
                raise DefinitionError(f"Swarm(handoffs=…): {source!r} hands over to itself: leave that out")
    return found


def _check_known(name: object, names: Sequence[str], where: str) -> None:
    if not isinstance(name, str) or name not in names:
        raise DefinitionError(f"Swarm({where}…): there is no member {name!r:.150}{near(name, names)}")
