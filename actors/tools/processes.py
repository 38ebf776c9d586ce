"""A tool's call in a process of its own: what is sent to it, and what its end means."""

from __future__ import annotations

import json
import pickle
import sys
from typing import TYPE_CHECKING, Any, Final

from retinue.actors.tools.child import Child, how_it_ended
from retinue.actors.tools.results import finished
from retinue.capabilities.tool_results import ToolResult
from retinue.security.errors import DefinitionError
from retinue.security.whole_texts import whole

if TYPE_CHECKING:
    from retinue.capabilities.tools import Tool
    from retinue.mailbox.messages import Request

__all__ = ["call_in_process", "place_of"]

LAST_WORDS: Final = 2_000
"""Characters of what a process printed last that the model gets when it has ended without a result."""


def place_of(tool: Tool[..., Any]) -> dict[str, Any]:
    """Where another process finds the tool's function.

    Raises:
        DefinitionError: It would not find it, or could not call it as it is called here.
    """
    function: Any = tool.function
    name, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    module: Any = sys.modules.get(name) if name else None
    where = f"the tool {tool.name!r} has process=True, "
    if tool.context_parameter is not None:
        raise DefinitionError(
            f"{where}and its parameter {tool.context_parameter!r} takes a ToolContext, which is of this process: leave one of the two out"
        )
    found = module
    for part in (qualname or "").split("."):
        found = getattr(found, part, None)
    if found is None or (found is not tool and found is not function and getattr(found, "function", None) is not function):
        raise DefinitionError(
            f"{where}and another process cannot find its function: {qualname!r} is no name in the module {name!r} (it stands in another function, or is a lambda "
            "or a method). Define it at the top of a module"
        )
    file = getattr(module, "__file__", None)
    main = None
    if name == "__main__":
        spec = getattr(module, "__spec__", None)
        main = spec.name if spec is not None else file
        if main is None:
            raise DefinitionError(f"{where}and its function was typed in by hand, where no other process can read it: put it into a file")
    return {"module": name, "qualname": qualname, "file": file, "main": main, "tool": found is not function}


async def call_in_process(tool: Tool[..., Any], place: dict[str, Any], message: Request[ToolResult]) -> ToolResult:
    """One call. When this is cancelled, by the time-out for example, the process and all that it has started are killed."""
    keywords = tool.call(message)
    positional = [keywords.pop(name) for name in tool.positional]
    request = {
        "place": place,
        "kind": tool.kind,
        "loop": tool.loop,
        "path": sys.path,
        "argv": sys.argv,
        "arguments": pickle.dumps((positional, keywords)),
    }
    try:
        child = await Child.start("runner.py")
    except OSError as error:
        return ToolResult.failed("raised", f"the tool {tool.name!r} could not be started: {type(error).__name__}: {error.strerror}")
    try:
        reply = await child.exchange(pickle.dumps(request))
    finally:
        code = await child.end()
    return _result(tool, reply, code, child.printed.text())


def _result(tool: Tool[..., Any], reply: bytes | None, code: int | None, printed: str) -> ToolResult:
    content = _content(reply)
    if content is None:
        last = whole(printed.strip()[-LAST_WORDS:])
        said = f". It said last:\n{last}" if last else ""
        return ToolResult.failed("exit", f"the process of the tool {tool.name!r} {how_it_ended(code)} before the tool returned{said}")
    if content["made"]:
        return finished(tool, ToolResult(content["ok"], content["text"], content["error"]), None)
    if not content["ok"]:
        return ToolResult.failed("raised", f"the tool {tool.name!r} raised {content['text']}")
    if content["none"] and printed.strip():
        return ToolResult(True, whole(printed))
    return ToolResult(True, content["text"])


def _content(reply: bytes | None) -> dict[str, Any] | None:
    """The reply, where it is one: what runs in the process may have written anything."""
    if reply is None:
        return None
    try:
        content = json.loads(reply)
        if type(content["ok"]) is bool and type(content["text"]) is str:
            plain = {"ok": content["ok"], "text": whole(content["text"]), "none": content.get("none") is True}
            return plain | {"made": content.get("made") is True, "error": content.get("error")}
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None
