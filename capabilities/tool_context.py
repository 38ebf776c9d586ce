"""What a running tool may know of the call that it answers, given to a parameter that is annotated with `ToolContext`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, Protocol, TypeVar, final, overload

from retinue.mailbox.messages import Request
from retinue.security.context import SecurityContext

__all__ = ["ToolContext", "ToolHost"]

T = TypeVar("T")


class ToolHost(Protocol):
    """Where a tool runs: what stands behind its context. Internal."""

    async def ask(self, ref: Any, message: Any, options: dict[str, Any]) -> Any:
        """Asks under the call's authority."""

    def ask_from_thread(self, ref: Any, message: Any, options: dict[str, Any]) -> Any:
        """The same, from the tool's own thread."""

    async def keep(self, key: object, make: Callable[[], Any], *, per_caller: bool) -> Any:
        """What is kept between calls."""


@final
class ToolContext:
    """The call that a tool answers. A parameter with this annotation is filled in by the executor; the model neither sees nor gives it.

    Attributes:
        tool: The tool's name.
        security: The authority of the call: that of whoever asked the agent, narrowed by the agent's grant and the tool's. None outside a system.
        caller: The path of the actor that asked: of an agent's session, so the same for each call of one conversation. None where no actor asked.
        approval: The id of the consent that the call is made by, never the same twice: a good idempotency key. None where none was needed.
    """

    __slots__ = ("_host", "approval", "caller", "security", "tool")

    def __init__(
        self,
        tool: str,
        security: SecurityContext | None = None,
        *,
        caller: str | None = None,
        approval: str | None = None,
        host: ToolHost | None = None,
    ) -> None:
        self.tool = tool
        self.security = security
        self.caller = caller
        self.approval = approval
        self._host = host

    @property
    def subject(self) -> str | None:
        """For whom the call is made, or None outside a system."""
        return None if self.security is None else self.security.subject

    @property
    def tenant(self) -> str | None:
        """The customer or organisation that it is made for, or None."""
        return None if self.security is None else self.security.tenant

    @overload
    async def ask(self, ref: Any, message: Request[T], **options: Any) -> T: ...

    @overload
    async def ask(self, ref: Any, message: object, **options: Any) -> Any: ...

    async def ask(self, ref: Any, message: Any, **options: Any) -> Any:
        """Ask an actor, under the authority of this very call; for `async def` tools.

        Args:
            ref: Whom; a twin's ref, of a script or of asyncio, will do too.
            message: The message.
            options: As `Ref.ask` takes them.

        Raises:
            RuntimeError: The tool runs where no actor can be asked: outside a system, on another loop, or in a process of its own.
            Denied: The call's authority does not permit it; and whatever the ask raises.
        """
        return await self._where().ask(ref, message, options)

    @overload
    def ask_from_thread(self, ref: Any, message: Request[T], **options: Any) -> T: ...

    @overload
    def ask_from_thread(self, ref: Any, message: object, **options: Any) -> Any: ...

    def ask_from_thread(self, ref: Any, message: Any, **options: Any) -> Any:
        """The same for a plain `def` tool: it runs in a thread, and waits there for the answer.

        Raises:
            RuntimeError: The tool does not run in a thread, or the call is over.
        """
        return self._where().ask_from_thread(ref, message, options)

    async def keep(self, key: object, make: Callable[[], T | Awaitable[T]], *, per_caller: bool = False) -> T:
        """An object that lives as long as the tool's executor: made at the first call, the same afterwards. A connection, for example.

        Args:
            key: What it is called, within this tool.
            make: Makes it; may be `async def`. Where the object has an `aclose()` or a `close()`, that is called at its end.
            per_caller: Each caller (an agent's session) has one of its own, which ends with the caller. Default False: all calls share it.
        """
        found: T = await self._where().keep(key, make, per_caller=per_caller)
        return found

    def _where(self) -> ToolHost:
        if self._host is None:
            raise RuntimeError(
                f"the tool {self.tool!r} runs where no actor can be asked and nothing is kept: it was called outside a system, or runs in a "
                "process of its own; give it to an agent, or run it with spawn_executor, without process=True"
            )
        return self._host

    def __repr__(self) -> str:
        return f"<ToolContext of {self.tool!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a tool's context cannot be copied or pickled: it is of one call, in one process")
