"""`system.adopt`: checks what it is given and makes the class of the stand-in. What the stand-in does stands in `adopted`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Required, TypedDict

import attrs
import pykka
from pykka.messages import ProxyCall

from retinue.actors.hosts.adopted import Link, StandIn
from retinue.actors.runtime.actor import handler
from retinue.actors.runtime.errors import ActorStopped
from retinue.actors.runtime.supervision import Supervision
from retinue.mailbox.messages import Message, Request, message, message_info
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.capabilities.cases import ApprovalRule
    from retinue.mailbox.queues import Mailbox

__all__ = ["AdoptOptions", "PykkaMessage", "adopt"]

CARRY_ON = Supervision(on={Exception: "resume"})
"""The supervision of a stand-in: it has no state that could be broken, and cannot restart the pykka actor."""


@message
class PykkaMessage(Request[Any]):
    """A raw payload for an adopted pykka actor that knows no message classes: `await ref.ask(rt.PykkaMessage({"command": "sum"}))`.

    Attributes:
        payload: What the pykka actor's `on_receive` gets, as it is.
    """

    payload: Any


class AdoptOptions(TypedDict, total=False):
    """What `adopt` takes; see `retinue.ActorSystem.adopt`."""

    messages: Required[Iterable[type[Message]] | Mapping[type[Message], str]]
    requires: str | Mapping[type[Message], str] | None
    approval: ApprovalRule | Mapping[type[Message], ApprovalRule]
    name: str | None
    grant: Sequence[Any] | None
    mailbox: Mailbox | None
    supervision: Supervision | None
    stop: bool


def adopt(
    kernel: Kernel,
    actor: Any,
    *,
    messages: Iterable[type[Message]] | Mapping[type[Message], str],
    requires: str | Mapping[type[Message], str] | None,
    approval: Any,
    name: str | None,
    grant: Sequence[Any] | None,
    mailbox: Mailbox | None,
    supervision: Supervision | None,
    stop: bool,
) -> Any:
    """`ActorSystem.adopt`: the kernel's coroutine that spawns the stand-in. Raises at once what is wrong with the call."""
    actor_ref = _ref_of(actor)
    if not isinstance(stop, bool):
        raise DefinitionError(f"adopt(stop={stop!r}): write True or False")
    cls = _class_for(actor_ref.actor_class, messages, requires, approval)
    if not actor_ref.is_alive():
        raise ActorStopped(
            f"{actor_ref} has ended already, so it cannot be adopted; start another with {actor_ref.actor_class.__name__}.start()",
            begun=False,
        )
    link = Link(kernel, actor_ref, stop=stop)
    return kernel.spawn(kernel.user, cls, (link,), {}, name, grant, mailbox, CARRY_ON if supervision is None else supervision)


def _ref_of(actor: Any) -> pykka.ActorRef[Any]:
    if isinstance(actor, pykka.ActorProxy):
        actor = actor.actor_ref
    if not isinstance(actor, pykka.ActorRef):
        raise DefinitionError(
            f"adopt takes the ref or the proxy of a running pykka actor, not {_shown(actor)}; SomeActor.start() returns its ref"
        )
    if getattr(actor.actor_inbox, "maxsize", 0) > 0:
        raise DefinitionError(
            f"the inbox of {actor} has a bound, so putting something into it could block the loop; leave it unbounded, its stand-in's mailbox has a bound"
        )
    return actor


def _class_for(target: type[pykka.Actor], messages: Any, requires: Any, approval: Any) -> type[StandIn]:
    """A stand-in's class for actors of a pykka class: with a handler for each message type."""
    kinds = _kinds(messages)
    for what, given in (("requires", requires), ("approval", approval)):
        if isinstance(given, Mapping) and (unknown := [kind for kind in given if kind not in kinds]):
            raise DefinitionError(f"adopt({what}=…) names {_shown(unknown[0])}, which is not among its messages")
    handlers: dict[str, Any] = {}
    for number, (kind, method) in enumerate(kinds.items()):
        operation = requires.get(kind) if isinstance(requires, Mapping) else requires
        rule = approval.get(kind, False) if isinstance(approval, Mapping) else approval
        function = _handler(kind, method, _code(target, method))
        if method is not None:
            _check_fields(kind, target, method)
        function.__name__ = f"receive_{number}"
        function.__qualname__ = f"{target.__qualname__}.{method or 'on_receive'}"
        # Shielded: what a thread does cannot be cancelled, so the next message has to wait for it.
        handlers[function.__name__] = handler(requires=operation, approval=rule, shield=True)(function)
    # The class's name is that of the pykka class, for the paths of stand-ins without a name.
    return type(
        target.__name__, (StandIn,), {"__module__": target.__module__, "__qualname__": target.__qualname__, "__doc__": None, **handlers}
    )


def _kinds(messages: Any) -> dict[type[Message], str | None]:
    """The message types, each with the method that takes it; None where that is `on_receive`."""
    if isinstance(messages, type) or not isinstance(messages, Iterable):
        raise DefinitionError(
            f"adopt(messages={_shown(messages)}): give a tuple of message classes, or a mapping from them to the names of methods"
        )
    kinds: dict[type[Message], str | None] = dict(messages) if isinstance(messages, Mapping) else dict.fromkeys(messages)
    if not kinds:
        raise DefinitionError("adopt(messages=()): name at least one message class; rt.PykkaMessage is the one for raw payloads")
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Message)):
            raise DefinitionError(
                f"adopt(messages=…) takes message classes, not {_shown(kind)}; rt.PykkaMessage is the one for raw payloads"
            )
        if message_info(kind).kind == "stream":
            raise DefinitionError(f"{kind.__qualname__} is a Stream, and a pykka actor gives one answer; make it a Request")
    return kinds


def _code(target: type[pykka.Actor], method: str | None) -> Callable[..., Any]:
    """The method of the pykka class that will be run."""
    if method is None:
        if target.on_receive is pykka.Actor.on_receive:
            raise DefinitionError(
                f"{target.__qualname__} has no on_receive; say which method takes which message: messages={{SomeMessage: 'method'}}"
            )
        return target.on_receive
    found = getattr(target, method, None) if isinstance(method, str) else None
    if not callable(found) or method.startswith("_") or hasattr(pykka.Actor, method):
        raise DefinitionError(f"{target.__qualname__} has no public method {method!r} of its own, which adopt(messages=…) names")
    return found  # type: ignore[no-any-return]


def _check_fields(kind: Any, target: type[pykka.Actor], method: str) -> None:
    """Refuses a message whose fields the method cannot be called with. What is no plain function is left to itself, and so is one that somebody has wrapped."""
    found = inspect.getattr_static(target, method)
    function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
    if not inspect.isfunction(function):
        return
    signature = inspect.signature(function, follow_wrapped=False)
    fields = [field.alias for field in attrs.fields(kind)]
    try:
        signature.bind(*(() if isinstance(found, staticmethod) else (None,)), **dict.fromkeys(fields))
    except TypeError as error:
        raise DefinitionError(
            f"{target.__qualname__}.{method} cannot take {kind.__qualname__}, which adopt(messages=…) gives it: {error}. The message has the fields "
            f"{', '.join(fields) or '(none)'}, and each is given by its name"
        ) from error


def _handler(kind: type[Message], method: str | None, code: Callable[..., Any]) -> Any:
    """The handler of one message type. `code` is the actor's own, for whoever consents to it: a consent is for what is run, and not for its name."""

    async def receive(self: StandIn, message: Any, *, code: Callable[..., Any] = code) -> Any:
        del code
        return await self.link.request(_payload(message, method))

    receive.__annotations__ = {"message": kind}
    receive.__doc__ = code.__doc__
    return receive


def _payload(message: Any, method: str | None) -> Any:
    if method is not None:
        fields = attrs.fields(type(message))
        return ProxyCall(attr_path=(method,), args=(), kwargs={field.alias: getattr(message, field.name) for field in fields})
    return message.payload if isinstance(message, PykkaMessage) else message


def _shown(value: object) -> str:
    return value.__qualname__ if isinstance(value, type) else f"an object of type {type(value).__qualname__}"
