"""What a running tool may know of the call that it answers, given to a parameter that is annotated with `ToolContext`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, final

from retinue.security.context import SecurityContext

__all__ = ["ToolContext"]


def _nowhere(_text: str) -> None:
    """A report that nobody listens to."""


@final
class ToolContext:
    """The call that a tool answers. A parameter with this annotation is filled in by the executor; the model neither sees nor gives it.

    Attributes:
        tool: The tool's name.
        security: The authority of the call: that of whoever asked the agent, narrowed by the agent's grant and the tool's. None outside a system.
        call_id: The id of the model's call, or None where whoever asks has none.
        session: The session it belongs to, or None.
    """

    __slots__ = ("_ask", "_report", "call_id", "security", "session", "tool")

    def __init__(
        self,
        tool: str,
        security: SecurityContext | None = None,
        *,
        call_id: str | None = None,
        session: str | None = None,
        report: Callable[[str], None] = _nowhere,
        ask: Callable[..., Awaitable[Any]] | None = None,
    ) -> None:
        self.tool = tool
        self.security = security
        self.call_id = call_id
        self.session = session
        self._report = report
        self._ask = ask

    @property
    def subject(self) -> str | None:
        """For whom the call is made, or None outside a system."""
        return None if self.security is None else self.security.subject

    def report(self, text: str) -> None:
        """Say how far it is; for whoever looks on, not for the model. May be called from a thread. Never waits, never fails."""
        self._report(text)

    async def ask(self, ref: Any, message: Any, **options: Any) -> Any:
        """Ask an actor, under the authority of this very call.

        Args:
            ref: Whom.
            message: The message.
            options: As `Ref.ask` takes them.

        Raises:
            RuntimeError: The tool runs where no actor can be asked: outside a system, in a thread, or in a process of its own.
            Denied: The call's authority does not permit it; and whatever the ask raises.
        """
        if self._ask is None:
            raise RuntimeError(
                f"the tool {self.tool!r} runs where no actor can be asked; write it as `async def`, without process=True, and run it by an agent"
            )
        return await self._ask(ref, message, **options)

    def __repr__(self) -> str:
        return f"<ToolContext of {self.tool!r}>"
