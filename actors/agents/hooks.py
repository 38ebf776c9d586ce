"""Hooks: functions of the agent's author that a run calls at named phases, to watch, to change or to stop it.

A *plain* hook is isolated: what it raises, a time-out and an unknown answer are told of (a notice, a log entry) and the run goes on, with the next hook. A
*policy* hook fails closed: the same three block. Both may decide only what `retinue.security.choices` knows. Each gets a copy of the payload: to change
something it has to say so (`Replace`), and then the rest of the run (decoding, guardrails, the gate) judges what it has put there.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast, final

import attrs
import trio

from retinue.actors.agents.errors import HookBlocked
from retinue.actors.agents.isolation import ends_all, isolated
from retinue.actors.agents.phases import PHASES, Phase, check_phases, fitting, phases_of_object
from retinue.actors.agents.teams.arguments import check_call
from retinue.capabilities.places import raised_at
from retinue.security.choices import Block, Choice, Replace, choice_of
from retinue.security.errors import DefinitionError

__all__ = ["NO_HOOKS", "Hook", "HookContext", "Hooks", "Notify", "PolicyHook", "compile_hooks", "hook"]

TIMEOUT: Final = 5.0
"""Seconds that one call of a hook may take."""

THREADS: Final = 8
"""Calls of one blocking policy hook at once; the next wait, and their waiting counts."""

Notify: TypeAlias = Callable[[str, str], None]
"""Takes a notice: its kind ("hook.failed", …) and its text."""

_log = logging.getLogger("retinue.hooks")


@attrs.frozen
class HookContext:
    """What a hook is told.

    Attributes:
        phase: The phase it is called in.
        payload: What the run is about to use, a copy; its type is the phase's (docs/hooks.md).
        agent: The agent's path.
        session: The session's name.
        subject: Who asked.
        tenant: Of which tenant.
        run: The run's id, where it has one.
        turn: The number of the turn in its session, counted from 1.
    """

    agent: str = ""
    session: str = ""
    subject: str | None = None
    tenant: str | None = None
    run: str | None = None
    turn: int = 0
    phase: str = ""
    payload: Any = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the tool call that the payload is, new each time; empty where they are no JSON object (then the call fails later, by its text)."""
        text = getattr(self.payload, "arguments", "")
        try:
            found = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            return {}
        return found if type(found) is dict else {}


Handler: TypeAlias = Callable[[HookContext], Any]


@final
@attrs.frozen(eq=False)
class Hook:
    """A plain hook, as `rt.hook` makes it. Still callable as the function it was.

    Attributes:
        handler: The function, `def` or `async def`, of a HookContext.
        phases: Where it is called.
        name: What notices and errors call it.
        timeout: Seconds that an `async def` one may take, then the run goes on without it.
    """

    handler: Handler
    phases: tuple[Phase, ...]
    name: str
    timeout: float = TIMEOUT

    def __call__(self, context: HookContext) -> Any:
        """What the function gives."""
        return self.handler(context)


def hook(*phases: str, name: str | None = None, timeout: float = TIMEOUT) -> Callable[[Handler], Hook]:
    """Makes a function of a HookContext a plain hook of these phases: `@rt.hook("before_tool_call")`.

    Args:
        phases: At least one of the closed set (docs/hooks.md).
        name: What notices and errors call it; default the function's name.
        timeout: Seconds that one call of an `async def` hook may take.

    Raises:
        DefinitionError: No phase, or one that does not exist.
    """
    known = check_phases(phases, "rt.hook")
    _check_timeout(timeout, "rt.hook")

    def made(handler: Handler) -> Hook:
        return Hook(handler, known, name or _name_of(handler), timeout)

    return made


@final
class PolicyHook:
    """A hook that fails closed: an exception, a time-out or an unknown answer blocks, as `Block` does.

    Args:
        handler: A function of a HookContext, or an object with methods named as phases.
        phases: Where it is called; default all of its methods' phases, or every phase for a function.
        failure_mode: "block" (the default), or "continue" for one whose failures shall not stop anybody.
        timeout: Seconds that one call may take. A plain `def` is called in a worker thread, so that the limit holds for it too; its thread is left behind then.
        name: What errors call it.

    Raises:
        DefinitionError: An unknown phase or failure mode, a time-out that is none.
    """

    __slots__ = ("failure_mode", "handler", "name", "phases", "timeout")

    def __init__(
        self,
        handler: Any,
        phases: Iterable[str] | None = None,
        *,
        failure_mode: str = "block",
        timeout: float = TIMEOUT,
        name: str | None = None,
    ) -> None:
        if failure_mode not in ("block", "continue"):
            raise DefinitionError(f'PolicyHook(failure_mode={failure_mode!r}): use "block" (the default) or "continue"')
        _check_timeout(timeout, "PolicyHook")
        self.handler = handler
        self.failure_mode = failure_mode
        self.timeout = timeout
        self.name = name or _name_of(handler)
        if phases is not None:
            self.phases: tuple[Phase, ...] = check_phases(phases, f"PolicyHook {self.name!r}")
        elif isinstance(handler, Hook):
            self.phases = handler.phases
        else:
            self.phases = phases_of_object(handler) or (PHASES if callable(handler) else ())
        if not self.phases:
            raise DefinitionError(
                f"PolicyHook {self.name!r} is neither a function nor an object with methods named as phases: {', '.join(PHASES)}"
            )

    def __repr__(self) -> str:
        return f"PolicyHook({self.name!r}, phases={self.phases!r}, failure_mode={self.failure_mode!r}, timeout={self.timeout!r})"


@final
class _Entry:
    """One hook at one phase, ready to be called."""

    __slots__ = ("call", "fail_closed", "limiter", "name", "timeout")

    def __init__(self, call: Handler, name: str, timeout: float, *, fail_closed: bool, limiter: trio.CapacityLimiter | None) -> None:
        self.call = call
        self.name = name
        self.timeout = timeout
        self.fail_closed = fail_closed
        self.limiter = limiter

    async def answer(self, context: HookContext) -> Any:
        """What the hook gives. Raises what it raises, and trio.TooSlowError."""
        if self.limiter is not None:
            with trio.fail_after(self.timeout):
                found = await trio.to_thread.run_sync(self.call, context, abandon_on_cancel=True, limiter=self.limiter)
        else:
            found = self.call(context)
        if not hasattr(type(found), "__await__"):
            return found
        with trio.fail_after(self.timeout):
            return await cast("Awaitable[Any]", found)


@final
class Hooks:
    """The hooks of an agent, by phase. Made once, by `compile_hooks`."""

    __slots__ = ("_by_phase",)

    def __init__(self, by_phase: Mapping[str, tuple[_Entry, ...]]) -> None:
        self._by_phase = {phase: entries for phase, entries in by_phase.items() if entries}

    def __bool__(self) -> bool:
        return bool(self._by_phase)

    def has(self, phase: Phase) -> bool:
        """Whether any hook is called at the phase."""
        return phase in self._by_phase

    async def run(self, phase: Phase, about: HookContext, payload: Any, notice: Notify | None = None) -> Any:
        """Calls the hooks of a phase, in the order in which they were given.

        Args:
            phase: The phase.
            about: The run; its `phase` and `payload` are filled in here.
            payload: What the phase is about.
            notice: Takes what plain hooks did wrong.

        Returns:
            The payload, or what the hooks have put in its place.

        Raises:
            HookBlocked: A hook blocked, or a policy hook failed.
        """
        for entry in self._by_phase.get(phase, ()):
            shown = HookContext(about.agent, about.session, about.subject, about.tenant, about.run, about.turn, phase, isolated(payload))
            choice, problem, place = await _decide(entry, shown)
            if isinstance(choice, Replace):
                put = fitting(phase, payload, choice.payload)
                if put is None:
                    problem = f"it put a {type(choice.payload).__name__} in the place of a {type(payload).__name__}"
                else:
                    payload = isolated(put)
            if isinstance(choice, Block):
                raise _blocked(about, phase, entry.name, choice.reason or "no reason given")
            if problem:
                if entry.fail_closed:
                    raise _blocked(about, phase, entry.name, f"{problem} (a policy hook fails closed)")
                _log.warning("hook %s, %s of %s: %s%s; the run goes on without it", entry.name, phase, about.agent, problem, place)
                if notice is not None:
                    notice("hook.failed", f"hook {entry.name} at {phase}: {problem}; the run went on without it")
        return payload


NO_HOOKS: Final = Hooks({})


async def _decide(entry: _Entry, shown: HookContext) -> tuple[Choice | None, str, str]:
    """The hook's decision, or None and what went wrong; and where, for the log. No text of an exception goes on: it may quote anything."""
    try:
        answer = await entry.answer(shown)
    except trio.TooSlowError:
        return None, f"time-out after {entry.timeout:g} s", ""
    except BaseException as error:
        if ends_all(error):
            raise
        _log.debug("hook %s failed", entry.name, exc_info=True)
        return None, f"it raised {type(error).__name__}", f" ({raised_at(error)}; what it says is logged at DEBUG)"
    choice = choice_of(answer)
    if choice is None:
        return None, f"unknown decision, a {type(answer).__name__}: use None, rt.Continue(), rt.Replace(payload) or rt.Block(reason)", ""
    return choice, "", ""


def _blocked(about: HookContext, phase: str, name: str, reason: str) -> HookBlocked:
    return HookBlocked(f"{about.agent or 'agent'}: hook {name} blocked {phase}: {reason}", phase=phase, hook=name, reason=reason)


def compile_hooks(hooks: Iterable[Any]) -> Hooks:
    """The hooks of an agent, ready to be called.

    Args:
        hooks: In the order in which they are to be called. Each is what `rt.hook` made, a PolicyHook, a function of a HookContext (called at every phase), or an
            object with methods named as phases.

    Raises:
        DefinitionError: One of them is nothing of these, or has a method that is nearly named as a phase.
    """
    if isinstance(hooks, str | bytes | Mapping) or not isinstance(hooks, Iterable):
        raise DefinitionError(f"hooks= is a {type(hooks).__name__}: give a list of hooks")
    found: dict[str, list[_Entry]] = {}
    for one in hooks:
        for phase, entry in _entries(one):
            check_call(
                entry.call, ("a context",), f"the hook {entry.name!r:.100} at {phase}", "let it take one argument, an rt.HookContext"
            )
            found.setdefault(phase, []).append(entry)
    return Hooks({phase: tuple(entries) for phase, entries in found.items()}) if found else NO_HOOKS


def _entries(one: Any) -> list[tuple[Phase, _Entry]]:
    if isinstance(one, PolicyHook):
        closed = one.failure_mode == "block"
        calls = _calls(one.handler, one.phases, one.name)
        limiter = trio.CapacityLimiter(THREADS)
        return [
            (phase, _Entry(call, one.name, one.timeout, fail_closed=closed, limiter=None if _is_async(call) else limiter))
            for phase, call in calls
        ]
    if isinstance(one, Hook):
        return [(phase, _Entry(one.handler, one.name, one.timeout, fail_closed=False, limiter=None)) for phase in one.phases]
    phases = phases_of_object(one)
    if not phases and (not callable(one) or isinstance(one, type)):
        raise DefinitionError(
            f"hooks= holds a {type(one).__name__} ({_name_of(one)}): give a function of a HookContext, what @rt.hook(…) made, a PolicyHook, or an object with "
            f"methods named as phases: {', '.join(PHASES)}"
        )
    name = _name_of(one)
    calls = _calls(one, phases or PHASES, name)
    return [(phase, _Entry(call, name, TIMEOUT, fail_closed=False, limiter=None)) for phase, call in calls]


def _calls(handler: Any, phases: Iterable[Phase], name: str) -> list[tuple[Phase, Handler]]:
    if isinstance(handler, Hook):
        return [(phase, handler.handler) for phase in phases]
    methods = phases_of_object(handler)
    if not methods:
        return [(phase, handler) for phase in phases]
    missing = [phase for phase in phases if phase not in methods]
    if missing:
        raise DefinitionError(f"hook {name!r} has no method named {missing[0]!r}; it has {', '.join(methods)}")
    return [(phase, getattr(handler, phase)) for phase in phases]


def _is_async(call: Any) -> bool:
    while hasattr(call, "func"):  # functools.partial
        call = call.func
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def _name_of(handler: Any) -> str:
    name = getattr(handler, "name", None) or getattr(handler, "__qualname__", None)
    return name if isinstance(name, str) else type(handler).__name__


def _check_timeout(timeout: float, where: str) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise DefinitionError(f"{where}: timeout={timeout!r} is no number of seconds above zero")
