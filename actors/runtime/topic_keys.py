"""Topics as keys: a name, the type of what is published under it, and what it takes to publish and to subscribe."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, final

import attrs

from retinue.actors.runtime.names import check_name
from retinue.actors.runtime.topic_notices import PRIVATE
from retinue.actors.runtime.watch import Terminated
from retinue.mailbox.messages import Message, Stream, message_info
from retinue.security.errors import DefinitionError
from retinue.security.operations import check_operation

__all__ = ["DEFAULT_CAPACITY", "MOST_CAPACITY", "NOTICES", "Agreed", "Topic", "check_capacity", "check_topic"]

M = TypeVar("M", bound=Message)

NOTICES: Final[tuple[type[Message], ...]] = (Terminated, *PRIVATE)
"""What only the runtime sends, and so nobody publishes."""

DEFAULT_CAPACITY: Final = 256
"""Messages of a topic that may wait for one subscriber, unless it says otherwise."""

MOST_CAPACITY: Final = 1_000_000
"""The most that a subscriber may say."""


@final
@attrs.frozen
class Topic(Generic[M]):
    """A typed topic: `PRICES = rt.Topic("prices", Price)`. Equal ones are the same topic; it holds nothing itself.

    Args:
        name: Its name in each system: letters, digits and `_.@:~+-`, 1 to 128 characters.
        message: The message class that is published; messages of classes that derive from it may be, too. Not a `Stream`, nor what only the runtime sends (`Terminated`,
            `Lagged`, `Listing`) or derives from that.
        publish: The operation that the context of whoever publishes must permit; the message's fields are its arguments. Default None: whoever has the topic
            may publish.
        subscribe: The operation that the context of whoever subscribes must permit; its argument is `topic`. Default None: whoever has the topic may subscribe.

    Raises:
        DefinitionError: A name that is not legal, no message class, or something that is no operation.
    """

    name: str
    message: type[M]
    publish: str | None = None
    subscribe: str | None = None

    __immutable__: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        check_name(self.name, "a topic's name")
        info = message_info(self.message)
        if info.cls is not self.message:
            raise DefinitionError(f"Topic({self.name!r}, …) takes the class {info.label} itself, without type arguments")
        if issubclass(self.message, Stream):
            raise DefinitionError(f"{info.label} is a Stream, and a topic's messages are told: publish a Message")
        if issubclass(self.message, NOTICES):
            raise DefinitionError(f"{info.label} is what only the runtime sends, or derives from that: publish a message of your own")
        for operation in (self.publish, self.subscribe):
            if operation is not None:
                check_operation(operation)

    @property
    def path(self) -> str:
        """How the topic is called in records and in the texts of refusals: `/topics/prices`."""
        return f"/topics/{self.name}"


class _Named(Protocol):
    @property
    def name(self) -> str: ...


K = TypeVar("K", bound=_Named)


class Agreed(Generic[K]):
    """The keys that a system has seen and somebody still has: under one name there is one kind of key.

    A key that nobody has any more is forgotten, so that names which are made on the way take no room for ever. What is `declared` stays.
    """

    __slots__ = ("_declared", "_known")

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[str, K] = weakref.WeakValueDictionary()
        self._declared: dict[str, K] = {}

    def check(self, key: K) -> K:
        """Returns the key. Raises DefinitionError where another one of that name is in use."""
        known = self._known.get(key.name)
        if known is None:
            self._known[key.name] = key
        elif known is not key and known != key:
            raise DefinitionError(
                f"{key!r} is not what {key.name!r} is in this system: {known!r}. Define each name once, in a module that all who use it import"
            )
        return key

    def declare(self, key: K) -> None:
        """Keeps the key for as long as the system lives: nobody else comes first with its name."""
        self._declared[key.name] = self.check(key)


def check_topic(topic: object) -> None:
    """Raises DefinitionError for what is no topic. (A class derived from it could say anything of itself.)"""
    if type(topic) is not Topic:
        raise DefinitionError(f"{topic!r} is no topic; make one with rt.Topic(name, MessageClass)")


def check_capacity(capacity: Any) -> int:
    """A number of messages, 1 to 1,000,000, else a DefinitionError."""
    if isinstance(capacity, bool) or not isinstance(capacity, int) or not 1 <= capacity <= MOST_CAPACITY:
        odd = isinstance(capacity, int) and abs(capacity) > MOST_CAPACITY  # perhaps too long to be shown
        raise DefinitionError(
            f"capacity={'…' if odd else repr(capacity)[:40]}: give how many messages may wait for this subscriber, 1 to {MOST_CAPACITY:,}"
        )
    return capacity
