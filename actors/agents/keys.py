"""Whose session is whose: the keys of an agent's sessions, made of a session's name, its subject and their tenant."""

from __future__ import annotations

import hashlib
from typing import Any, Final

__all__ = ["Vouchers", "session_key", "session_of"]

MAX_KEY: Final = 512

MOST: Final = 100
"""What is handed on and not taken up yet, by session; more than that, and the oldest is forgotten."""


def session_key(name: str, subject: str, tenant: str | None) -> str:
    """The key of a subject's session: different for any two of them, and readable where it can be."""
    key = f"{name}:{subject}" if tenant is None else f"{name}:{subject}:{tenant}"
    if "~" in key or key.count(":") > (1 if tenant is None else 2):
        key = ":".join(_escaped(part) for part in (name, subject, tenant) if part is not None)
    return key if len(key) <= MAX_KEY else f"long~{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


def session_of(run: str) -> str:
    """The session that a run's id names; "" for what is none."""
    return run.rpartition("/")[0]


def _escaped(text: str) -> str:
    return text.replace("~", "~t").replace(":", "~c")


class Vouchers:
    """What an agent hands on to somebody else's session for the system's root authority.

    A session takes what is sent under the subject that it belongs to, and nothing else: it has an address, and whoever knows that can write to it. What root
    does to another's session comes under root's name, so the agent leaves word of it here. Vouched for is this very object, which nobody but root and the agent
    has: another that says the same was made by somebody else, who may stand before it in the session's mailbox.
    """

    __slots__ = ("_words",)

    def __init__(self) -> None:
        self._words: dict[str, list[Any]] = {}

    def leave(self, key: str, message: Any) -> None:
        """The agent hands a message on to the session of this key."""
        words = self._words.setdefault(key, [])
        words.append(message)
        del words[:-MOST]

    def take(self, key: str, message: Any, *, copied: bool = False) -> bool:
        """Whether the agent has handed on this very message; once for each time that it has.

        Args:
            key: Whose session it is.
            message: The message.
            copied: Whether messages are copied on their way, as they are where all of them are encoded for a test: then one that says the same is the message.
        """
        words = self._words.get(key, [])
        for index, word in enumerate(words):
            if word is message or (copied and word == message):
                del words[index]
                if not words:
                    del self._words[key]
                return True
        return False
