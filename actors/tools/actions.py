"""Lagent's executor: one actor that carries out the calls that agents find in texts, and answers each, also those that are none.

executor = await system.spawn(rt.ActionExecutor, [get_weather, Files()])
reply = await executor.ask(rt.AgentMessage({"name": "get_weather", "parameters": {"city": "Paris"}}))
reply.content.state    # "SUCCESS"
"""

from __future__ import annotations

import copy
import difflib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from retinue.actors.agents.inputs import checked_session
from retinue.actors.agents.keys import session_key
from retinue.actors.agents.message import AgentMessage
from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.current import current
from retinue.actors.runtime.door import run_that_asks
from retinue.actors.runtime.errors import Unanswered
from retinue.actors.tools.action_messages import ActionReturn, ActionState, ActionValid, FunctionCall, GetActions
from retinue.actors.tools.executor import spawn_executor
from retinue.actors.tools.rendering import text_of
from retinue.capabilities.errors import BadArguments
from retinue.capabilities.tool_results import ToolResult, action_state
from retinue.capabilities.tools import Tool, tool_of
from retinue.security.errors import ApprovalRequired, AuthorityError, DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.ref import Ref
    from retinue.actors.runtime.virtual import Virtual

__all__ = ["ActionExecutor", "ActionHook", "action_processor"]

ActionHook: TypeAlias = Callable[[AgentMessage], AgentMessage | Awaitable[AgentMessage | None] | None]
"""Looks at a copy of the message; what it gives takes its place, None leaves it."""

NAMED: Final = 50
"""Names of actions that a text lists."""

FINISH: Final = "FinishAction"
PARSING_ERROR: Final = -1

_HTTP: Final = re.compile(
    r"raised (?:HTTPError|HTTPStatusError|ConnectError|ConnectTimeout|ReadError|ReadTimeout|PoolTimeout|RemoteProtocolError|URLError|ConnectionError|"
    r"ConnectionRefusedError|ConnectionResetError|ClientError|ClientResponseError|ClientConnectorError|TooManyRedirects|Timeout)\b"
)


@attrs.frozen
class _Action:
    tool: Tool[..., Any]
    executor: Ref[Any]


class ActionExecutor(Actor):
    """Answers an `AgentMessage` whose content is a `FunctionCall` or `{"name": …, "parameters": …}` with one whose content is an `ActionReturn`.

    Names are "Tool" or "Toolkit.api", and nothing else is called: no attribute of an object that its toolkit does not list. A call that could not be parsed is never run,
    whichever action it might have been for. The calls are made under the authority of whoever asks; `ApprovalRequired` reaches the asker, who asks again with the token.

    The messages of one session are carried out one after the other, those of different sessions at the same time; a tool that keeps something for each conversation, as
    `PythonKernel` does, has one for each session of each subject.

    Args:
        tools: Functions, tools and toolkits. The collection that is given is not changed, nor kept.
        before: Hooks that a message goes through before its call is read.
        after: Hooks that the answer goes through.
        finish: Whether "FinishAction", which ends the work, is listed among the actions. It is understood anyway. Default False.
    """

    def __init__(
        self, tools: Iterable[Any], *, before: Iterable[ActionHook] = (), after: Iterable[ActionHook] = (), finish: bool = False
    ) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        for given in tools:
            for tool in tool_of(given):
                if tool.name in self._tools:
                    raise DefinitionError(
                        f"two actions of this executor are called {tool.name!r}: give one of them another name, tool(name=…)"
                    )
                self._tools[tool.name] = tool
        self._before = tuple(before)
        self._after = tuple(after)
        self._finish = finish
        self._actions: dict[str, _Action] = {}
        self._conversations: Virtual[Any]

    async def on_start(self) -> None:
        """Starts what runs the tools, and makes the place where the conversations are."""
        for name, tool in self._tools.items():
            self._actions[name] = _Action(tool, await spawn_executor(self.ctx, tool))
            self._actions.setdefault(tool.wire_name, self._actions[name])
        self._conversations = await self.ctx.spawn_virtual(_Conversation, self.carried_out, name="conversations")

    @handler(raises=Exception, open_to_all=True)
    def act(self, message: AgentMessage) -> Any:
        """Hands the call to its conversation."""
        security = self.ctx.security
        key = session_key(checked_session(message.session, self.ctx.path), security.subject, security.tenant)
        self.ctx.forward(self._conversations[key], message)

    async def carried_out(self, message: AgentMessage, approvals: Any) -> AgentMessage:
        """The answer to a call. Internal: for the conversations."""
        given = await _through(self._before, message)
        done = await self._act(given, approvals)
        answer = AgentMessage(done, sender="ActionExecutor", session=message.session)
        return await _through(self._after, answer)

    @handler(open_to_all=True)
    async def actions(self, message: GetActions) -> tuple[Mapping[str, Any], ...]:  # noqa: ARG002
        """Which actions there are."""
        import json

        listed = [
            {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)} for tool in self._tools.values()
        ]
        if self._finish:
            response = {
                "type": "object",
                "properties": {"response": {"type": "string"}},
                "required": ["response"],
                "additionalProperties": False,
            }
            listed.append({"name": FINISH, "description": "Ends the work with a response.", "parameters": response})
        return tuple(listed)

    async def _act(self, message: AgentMessage, approvals: Any) -> ActionReturn:
        if isinstance(message.formatted, Mapping) and message.formatted.get("status") == PARSING_ERROR:
            return _none("the call could not be read, so nothing was run. Please follow the format", args=_cut(message.content))
        content = message.content
        if isinstance(content, FunctionCall):
            name, parameters = content.name, content.parameters
        elif isinstance(content, Mapping) and set(content) >= {"name", "parameters"}:
            name, parameters = content["name"], content["parameters"]
        else:
            return _none(f'Please follow the format: {{"name": one of {self._names()}, "parameters": {{…}}}}', args=_cut(content))
        if not isinstance(name, str):
            return _none(f"the name of an action is a text: one of {self._names()}", args=_cut(parameters))
        if name == FINISH:
            return _finished(parameters)
        if name == "NoAction":
            return _none(f"Please follow the format, with the name of an action: one of {self._names()}", args=_cut(parameters))
        action = self._actions.get(name)
        if action is None:
            return self._unknown(name, parameters)
        return await self._run(action, parameters, approvals)

    async def _run(self, action: _Action, parameters: Any, approvals: Any) -> ActionReturn:
        name, args = action.tool.name, _cut(parameters)
        if not isinstance(parameters, str | Mapping):
            text = f"the parameters of {name} are a JSON object, not {type(parameters).__name__}"
            return _failed(name, args, text, "ARGS_ERROR")
        try:
            call = action.tool.decode(parameters)
        except BadArguments as error:
            return _failed(name, args, str(error), "ARGS_ERROR")
        try:
            result: ToolResult = await action.executor.ask(call, approvals=approvals)
        except ApprovalRequired:
            raise  # the asker's business: the call is made once more, with the token
        except AuthorityError as error:
            if approvals and getattr(error, "reason", None) == "spent" and run_that_asks(current()) is not None:
                return await self._run(
                    action, parameters, ()
                )  # it was for another call of the run that is as this one: this one is asked for anew
            return _failed(name, args, f"not permitted: {error}", "API_ERROR", "CLOSED")
        except Unanswered as error:
            return _failed(name, args, f"{name} did not answer: {error}", "API_ERROR")
        if result.ok:
            return ActionReturn(type=name, args=args, result=({"type": "text", "content": result.text},))
        state: ActionState = "HTTP_ERROR" if result.error == "raised" and _HTTP.search(result.text[:300]) else action_state(result)
        return _failed(name, args, result.text, state)

    def _unknown(self, name: str, parameters: Any) -> ActionReturn:
        toolkit, dot, api = name.partition(".")
        of_toolkit = [known for known in self._tools if known.startswith(f"{toolkit}.")]
        near = difflib.get_close_matches(name, self._tools, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        text = f"there is no action {name[:100]!r}.{meant} There are: {self._names()}"
        if dot and of_toolkit:
            text = f"{toolkit} has no action {api[:100]!r}.{meant} It has: {', '.join(of_toolkit[:NAMED])}"
        return ActionReturn(
            type="InvalidAction", args=_cut(parameters), errmsg=text, state="API_ERROR", valid="ABSENT" if dot and of_toolkit else "INVALID"
        )

    def _names(self) -> str:
        names = [*self._tools, *([FINISH] if self._finish else [])]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return (", ".join(names[:NAMED]) + more) or "none"


class _Conversation(Actor):
    """One session's calls. It is who the tools are called by, and what they keep for a caller ends with it."""

    def __init__(self, carry_out: Callable[[AgentMessage, Any], Awaitable[AgentMessage]]) -> None:
        self._carry_out = carry_out

    @handler(raises=Exception, open_to_all=True)
    async def act(self, message: AgentMessage) -> AgentMessage:
        """Carries out the call."""
        return await self._carry_out(message, getattr(self.ctx, "approvals", ()))

    def _asks_for(self, turn: Delivery, _path: str) -> str | None:
        """For the gate: what a person is asked here is a question of whoever has sent the call."""
        return run_that_asks(turn)


def action_processor(tool: str, *, code_parameter: str = "command", tool_type: str = "interpreter") -> tuple[ActionHook, ActionHook]:
    """The hooks of Lagent's action processor: what an agent's parser found becomes a call, and what came of it a text.

        before, after = rt.action_processor("python.run", code_parameter="code")
        executor = await system.spawn(rt.ActionExecutor, [PythonKernel(), Search()], before=[before], after=[after])

    A block of code, for an interpreter, becomes a call of `tool`; one that names an action is that call. Any other text becomes no call, nor does what could not be parsed: a
    broken call of one tool is never code for another.

    Args:
        tool: The action that takes code.
        code_parameter: Its parameter for the code.
        tool_type: The parser's word for blocks of code.
    """

    def before(message: AgentMessage) -> AgentMessage | None:
        found = message.formatted
        if (
            not isinstance(found, Mapping)
            or not {"tool_type", "thought", "action", "status"} <= set(found)
            or found["status"] == PARSING_ERROR
        ):
            return None
        action = found["action"]
        if isinstance(action, str) and found["tool_type"] == tool_type:
            return _with(message, content=FunctionCall(tool, {code_parameter: action}))
        if isinstance(action, Mapping):
            return _with(message, content=dict(action))
        return None

    def after(message: AgentMessage) -> AgentMessage | None:
        done = message.content
        if not isinstance(done, ActionReturn):
            return None
        return _with(message, content=done.format_result() if done.state == "SUCCESS" else done.errmsg, formatted=done)

    return before, after


def _with(message: AgentMessage, **changes: Any) -> AgentMessage:
    made: AgentMessage = attrs.evolve(message, **changes)  # type: ignore[misc]  # a message is an attrs class, which its decorator does not say
    return made


async def _through(hooks: tuple[ActionHook, ...], message: AgentMessage) -> AgentMessage:
    """The message as the hooks leave it. They work on a copy: nobody's own message changes under them."""
    if not hooks:
        return message
    message = copy.deepcopy(message)
    for hook in hooks:
        given = hook(message)
        if inspect.isawaitable(given):
            given = await given
        if given is not None:
            if not isinstance(given, AgentMessage):
                raise DefinitionError(
                    f"the hook {getattr(hook, '__qualname__', hook)!r} of an ActionExecutor gave a {type(given).__name__}: it gives an AgentMessage, or None"
                )
            message = given
    return message


def _finished(parameters: Any) -> ActionReturn:
    response = parameters
    if isinstance(parameters, Mapping) and "response" in parameters:
        response = parameters["response"]
    return ActionReturn(type=FINISH, args=_cut(parameters), result=({"type": "text", "content": text_of(response)},), valid="FINISH")


def _none(text: str, *, args: Any) -> ActionReturn:
    return ActionReturn(type="NoAction", args=args, errmsg=text, state="API_ERROR", valid="INVALID")


def _failed(name: str, args: Any, text: str, state: ActionState, valid: ActionValid = "OPEN") -> ActionReturn:
    return ActionReturn(type=name, args=args, errmsg=text, state=state, valid=valid)


def _cut(value: Any) -> Any:
    """What came, to be handed back: a huge text is none."""
    return f"{value[:1_000]}…" if isinstance(value, str) and len(value) > 1_000 else value
