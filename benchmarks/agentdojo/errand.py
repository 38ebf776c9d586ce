"""One task on its way: what its prompt pins, which values came from where they may be trusted, and what a person has consented to.

The plan's *tools* are a layer of the context: what is not planned is refused whatever anybody says. What a tool is *aimed at* is this policy's: an argument
that names a target must be known, from the prompt or from a system of record, else a person is asked. So is anything that cannot be undone, and
text for others that carries a link which the person never named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import retinue as rt
from benchmarks.agentdojo.manifest import TEXTS, tool
from benchmarks.agentdojo.prompt import LINK, Known, day_of, link_of
from retinue.capabilities.policy import PolicyCall, Verdict
from retinue.security.canonical import digest

__all__ = ["KINDS", "Errand", "Pin", "fingerprint", "operation_of"]

KINDS = ("email", "account", "amount", "name", "channel", "event_id", "email_id", "file_id", "transaction_id", "phrase")
"""Kinds of things that have a source of values to be trusted; "phrase" is the prompt's own words."""


def operation_of(name: str) -> str:
    """The operation that stands for a tool."""
    return f"tool.{name}"


class Pin(Protocol):
    """What an argument has to satisfy: a constraint, or one of the two below that say what a constraint cannot."""

    def holds(self, value: Any, sources: Mapping[str, Any], /) -> bool: ...


class OnDay:
    """A date or time on a day that the prompt names."""

    def __init__(self, days: frozenset[tuple[int, int]]) -> None:
        self.days = days

    def holds(self, value: Any, _: Mapping[str, Any]) -> bool:
        return day_of(value) in self.days


class Attached:
    """Attachments, each a file whose id is known."""

    def holds(self, value: Any, sources: Mapping[str, Any]) -> bool:
        known = rt.known_from("file_id")
        return isinstance(value, list) and all(isinstance(item, dict) and known.holds(item.get("file_id"), sources) for item in value)


def fingerprint(operation: str, arguments: Mapping[str, Any]) -> str:
    """What a consent is for: this operation with exactly these arguments."""
    return digest((operation, dict(arguments)))


def _known(values: Iterable[Any], *sources: str) -> rt.Constraint:
    """One of these values, or a value from one of these sources."""
    kept = sorted(values)
    return rt.any_of(*([rt.one_of(*kept)] if kept else []), *map(rt.known_from, sources))


def _largest(amounts: Iterable[Any]) -> float:
    return max((float(amount) for amount in amounts if isinstance(amount, int | float)), default=0.0)


class Errand:
    """The policy for one task.

    Args:
        known: What the prompt names.
        layered: Whether the context has `layers()`, and this policy looks at the rest only.
    """

    name = "errand"
    operations = ("tool.**",)

    def __init__(self, known: Known, *, layered: bool = False) -> None:
        self.known = known
        self.sources: Mapping[str, Any] = {}
        self.layered = layered
        self._consents: set[str] = set()
        links = [text for link in known.links for text in (link, f"http://{link}", f"https://{link}")]
        numbers = [int(number) for number in known.numbers if number.is_integer()]
        self._pins: dict[str, Pin] = {
            "email": _known(known.emails, "email"),
            "url": _known(links, "url"),
            "account": _known(known.accounts, "account", "phrase"),
            "date": OnDay(known.days),
            "name": _known((), "name", "phrase"),
            "channel": _known((), "channel", "phrase"),
            "phrase": _known((), "phrase"),
            "event_id": _known((), "event_id", "phrase"),
            "email_id": _known((), "email_id", "phrase"),
            "file_id": _known((), "file_id", "phrase"),
            "transaction_id": _known(numbers, "transaction_id"),
            "attachment": Attached(),
        }

    def trust(self, sources: Mapping[str, Any]) -> None:
        """Takes the sources of trusted values, by the `KINDS` of things; the prompt's own words are the first of them."""
        sources["phrase"].add(*self.known.phrases)
        self.sources = sources

    def pin(self, kind: str) -> Pin:
        """What an argument of this kind has to satisfy now."""
        if kind != "amount":
            return self._pins[kind]
        largest = _largest(self.sources["amount"].values())
        choices = [rt.one_of(*sorted(self.known.numbers))] if self.known.numbers else []
        return rt.any_of(*choices, *([rt.between(0.01, largest)] if largest >= 0.01 else []), rt.known_from("amount"))

    def consent(self, operation: str, arguments: Mapping[str, Any]) -> None:
        """A person says yes, once, to this operation with exactly these arguments."""
        self._consents.add(fingerprint(operation, arguments))

    def decide(self, call: PolicyCall) -> Verdict:
        """See `Policy`."""
        doubt = self.doubt(call.operation.removeprefix("tool."), call.arguments)
        if not doubt:
            return Verdict.allow()
        # Bound to the operation and to the exact arguments, and gone once used: the approvals desk in small.
        consent = fingerprint(call.operation, call.arguments)
        if consent in self._consents:
            self._consents.discard(consent)
            return Verdict.allow()
        return Verdict.ask(doubt)

    def layers(self, tools: Iterable[str]) -> list[rt.Restriction]:
        """The pins of these tools as layers of a context, those that are constraints and do not change on the way."""
        restrictions = []
        for name in tools:
            pins = {argument: self._pins.get(kind) for argument, kind in tool(name).targets.items()}
            unless = {
                argument: rt.any_of(rt.absent(), rt.max_length(0), pin, rt.each(pin))
                for argument, pin in pins.items()
                if isinstance(pin, rt.Constraint)
            }
            if unless:
                restrictions.append(rt.needs_approval(operation_of(name), unless=unless))
        return restrictions

    def doubt(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Why a person should be asked about this call, or ""."""
        manifest = tool(name)
        for argument, kind in manifest.targets.items():
            value = arguments.get(argument)
            if value is None or value == []:
                continue
            if self.layered and isinstance(self._pins.get(kind), rt.Constraint):
                continue
            pin = self.pin(kind)
            if isinstance(value, list) and kind != "attachment":
                pin = rt.each(pin)
            if not pin.holds(value, self.sources):
                return f"{argument} is not known"
        if manifest.effect == "write":
            for argument in TEXTS:
                text = arguments.get(argument)
                if isinstance(text, str) and any(link_of(link) not in self.known.links for link in LINK.findall(text)):
                    return f"{argument} carries a link that the person did not name"
        return "it cannot be undone" if manifest.final else ""
