"""Lagent's action contract, as data: what a call of an action comes to, in a closed set of states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from retinue.actors.tools.rendering import text_of
from retinue.capabilities.tool_results import ActionState
from retinue.mailbox.messages import Request, message

__all__ = ["ActionReturn", "ActionState", "ActionValid", "FunctionCall", "GetActions"]

ActionValid: TypeAlias = Literal["OPEN", "CLOSED", "FINISH", "INVALID", "ABSENT"]
"""What the call was. "OPEN": a call of an action that there is. "CLOSED": of one that may not be called. "FINISH": the end of the work. "INVALID": no call, or of an action
that there is not. "ABSENT": the toolkit is there, and has no such action."""


@attrs.frozen
class FunctionCall:
    """A call, as the content of a message.

    Attributes:
        name: "Tool", or "Toolkit.api".
        parameters: The arguments: a mapping, or the text of a JSON object.
    """

    __immutable__: ClassVar[bool] = True

    name: str
    parameters: Mapping[str, Any] | str = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ActionReturn:
    """What a call came to.

    Attributes:
        type: The action's name; "NoAction", "InvalidAction" or "FinishAction" where it was none.
        args: The parameters, as they came.
        result: What it gave: items with a "type" ("text") and a "content". None where nothing.
        errmsg: What went wrong, for the model; None where nothing did.
        state: "SUCCESS"; "ARGS_ERROR": the arguments were wrong, nothing was run; "HTTP_ERROR": a server refused or could not be reached; "API_ERROR": anything else.
        valid: What the call was; see `ActionValid`.
        thought: What the model thought before it.
        url: Where it went to, for actions that say.
    """

    type: str
    args: Any = None
    result: tuple[Mapping[str, Any], ...] | None = None
    errmsg: str | None = None
    state: ActionState = "SUCCESS"
    valid: ActionValid = "OPEN"
    thought: str | None = None
    url: str | None = None

    def format_result(self) -> str:
        """The result as one text: texts as they are, items of other types as `[type](content)`, one a line."""
        return "\n".join(
            text_of(item.get("content")) if item.get("type") == "text" else f"[{item.get('type')}]({text_of(item.get('content'))})"
            for item in self.result or ()
        )


@message(name="retinue/GetActions@1")
class GetActions(Request[tuple[Mapping[str, Any], ...]]):
    """Which actions are there? For each its "name", "description" and "parameters" (its JSON Schema)."""
