"""Names in permissions that no operation has: where a registry says which operations exist, a name that it does not know is a slip, mostly."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, final

from retinue.security.layers import Layer, cut

__all__ = ["UnknownNames"]

MAX_TOLD: Final = 1024
"""Names that one authority warns of; each once, and of none after so many."""

_SHOWN: Final = 4

_log = logging.getLogger("retinue.permissions")


@final
class UnknownNames:
    """Warns of names that a registry does not know. Patterns with a wildcard are left alone: they are for what is yet to come, too.

    Args:
        risk_of: The registry's: None for an operation that it does not know.
    """

    __slots__ = ("_risk_of", "_told")

    def __init__(self, risk_of: Callable[[str], int | None]) -> None:
        self._risk_of = risk_of
        self._told: set[str] = set()

    def among(self, layers: Iterable[Layer]) -> dict[str, str]:
        """The unknown names in the layers, each with the function that was given it. Never raises."""
        found: dict[str, str] = {}
        for layer in layers:
            for rule in layer.rules:
                name = rule.pattern.text
                if "*" not in name and not self.knows(name):
                    found[name] = "needs_approval" if layer.kind == "ask" else layer.kind
        return dict(sorted(found.items()))

    def knows(self, operation: str) -> bool:
        """Whether the registry knows it; so it is taken where the registry fails. Never raises."""
        try:
            return self._risk_of(operation) is not None
        except Exception:
            return True

    def warn(self, layers: Iterable[Layer]) -> None:
        """Log a warning for each unknown name in the layers that none was logged for before."""
        for name, function in self.among(layers).items():
            if name not in self._told and len(self._told) < MAX_TOLD:
                self._told.add(name)
                _log.warning(
                    "%s(%r) names an operation that the system's registry of capabilities does not know (yet). Check the spelling, or declare it.",
                    function,
                    name,
                )

    def note(self, operation: str, layers: Iterable[Layer]) -> str:
        """A sentence for an explanation, a space first; "" where the registry knows the operation and all that the layers name."""
        if not self.knows(operation):
            return f" The system's registry of capabilities does not know {operation!r}, so no message for it is let through."
        found = [f"{name!r} in {function}(…)" for name, function in self.among(layers).items()]
        return f" The system's registry of capabilities does not know {cut(found, _SHOWN)}: is it misspelt?" if found else ""
