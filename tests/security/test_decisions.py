"""What layers say about one operation: tables of what is allowed, asked and refused, whatever the laws say of relations between sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from retinue.security.constraints import absent, at_most, known_from, one_of
from retinue.security.decisions import ALLOW, ALLOWED, ALWAYS, ASK, ASKED, DENIED, DENY, DEPENDS, NEVER, Asks, decide
from retinue.security.layers import Layer
from retinue.security.operations import Pattern
from retinue.security.rules import Rule

PAY = ("payments", "send")


def rule(pattern="payments.send", *, is_open=False, **constraints):
    return Rule(Pattern(pattern), tuple(sorted(constraints.items())), is_open)


def layer(kind, *rules, labels=()):
    return Layer(kind, frozenset(rules), frozenset(labels))


def decided(*layers, labels=()):
    return decide(layers, frozenset(labels), PAY)


class Hostile(Mapping[str, object]):
    """Arguments that raise where they are looked at."""

    def __getitem__(self, name: str) -> object:
        raise ZeroDivisionError

    def __iter__(self) -> Iterator[str]:
        raise ZeroDivisionError

    def __len__(self) -> int:
        return 1


SMALL = rule(amount=at_most(100))
KNOWN = rule(to=one_of("ACME"))


@pytest.mark.parametrize(
    ("layers", "verdict", "asks"),
    [
        ([], ALLOW, NEVER),
        ([layer("allow")], DENY, NEVER),
        ([layer("allow", rule("**"))], ALLOW, NEVER),
        ([layer("allow", rule("payments.*"))], ALLOW, NEVER),
        ([layer("allow", rule("payments"))], DENY, NEVER),
        ([layer("allow", rule("payments.send.now"))], DENY, NEVER),
        ([layer("allow", SMALL)], DEPENDS, NEVER),
        ([layer("allow", SMALL, rule("payments.*"))], ALLOW, NEVER),
        ([layer("allow", rule()), layer("allow", rule("fs.*"))], DENY, NEVER),
        ([layer("deny", rule("payments.*"))], DENY, NEVER),
        ([layer("deny", rule("fs.*"))], ALLOW, NEVER),
        ([layer("allow", rule()), layer("deny", rule())], DENY, NEVER),
        ([layer("where", SMALL)], DEPENDS, NEVER),
        ([layer("where", rule("fs.*", path=one_of("a")))], ALLOW, NEVER),
        ([layer("ask", rule())], ALLOW, ALWAYS),
        ([layer("ask", rule("fs.*"))], ALLOW, NEVER),
        ([layer("ask", SMALL)], ALLOW, Asks.DEPENDS),
        ([layer("ask", SMALL), layer("ask", rule("payments.*"))], ALLOW, ALWAYS),
        ([layer("ask", rule()), layer("deny", rule())], DENY, NEVER),
        ([layer("ask", SMALL), layer("where", KNOWN)], DEPENDS, Asks.DEPENDS),
    ],
)
def test_what_is_said_about_an_operation_whatever_its_arguments(layers, verdict, asks):
    decision = decided(*layers)
    assert (decision.verdict, decision.asks) == (verdict, asks)
    assert decided(*reversed(layers)).verdict is verdict


@pytest.mark.parametrize(
    ("layers", "arguments", "verdict"),
    [
        # an allow layer: any of its rules, and closed
        ([layer("allow", SMALL)], {"amount": 100}, ALLOW),
        ([layer("allow", SMALL)], {"amount": 101}, DENY),
        ([layer("allow", SMALL)], {}, DENY),
        ([layer("allow", SMALL)], None, DENY),
        ([layer("allow", SMALL)], {"amount": 1, "bcc": "eve"}, DENY),
        ([layer("allow", SMALL)], {"amount": 1, "bcc": None}, ALLOW),
        ([layer("allow", rule(is_open=True, amount=at_most(100)))], {"amount": 1, "bcc": "eve"}, ALLOW),
        ([layer("allow", SMALL, KNOWN)], {"to": "ACME"}, ALLOW),
        ([layer("allow", SMALL, KNOWN)], {"to": "ACME", "amount": 1}, DENY),
        # a where layer: all of its rules, and open
        ([layer("where", SMALL)], {"amount": 1, "bcc": "eve"}, ALLOW),
        ([layer("where", SMALL)], {"amount": 101}, DENY),
        ([layer("where", SMALL, KNOWN)], {"amount": 1, "to": "ACME"}, ALLOW),
        ([layer("where", SMALL, KNOWN)], {"amount": 1, "to": "Eve"}, DENY),
        ([layer("where", SMALL, KNOWN)], {"amount": 101, "to": "ACME"}, DENY),
        ([layer("where", rule(note=absent()))], {}, ALLOW),
        ([layer("where", rule(note=absent()))], {"note": ""}, DENY),
        ([layer("where", rule(to=known_from("payees")))], {"to": "ACME"}, DENY),
        # an ask layer: consent, unless all of each rule holds
        ([layer("ask", SMALL)], {"amount": 100}, ALLOW),
        ([layer("ask", SMALL)], {"amount": 101}, ASK),
        ([layer("ask", SMALL)], {}, ASK),
        ([layer("ask", SMALL)], {"amount": True}, ASK),
        ([layer("ask", SMALL, KNOWN)], {"amount": 1, "to": "Eve"}, ASK),
        ([layer("ask", SMALL)], None, DENY),
        ([layer("ask", rule())], None, ASK),
        # deny wins over ask, ask over allow, in any order of the layers
        ([layer("ask", SMALL), layer("where", KNOWN)], {"amount": 101, "to": "Eve"}, DENY),
        ([layer("ask", rule()), layer("where", KNOWN)], {"to": "Eve"}, DENY),
        ([layer("ask", rule()), layer("where", KNOWN)], {"to": "ACME"}, ASK),
        ([layer("ask", SMALL), layer("allow", rule("payments.*"))], {"amount": 101}, ASK),
        # what cannot be judged
        ([layer("where", SMALL)], {1: 1}, DENY),
        ([layer("where", SMALL)], [("amount", 1)], DENY),
        ([layer("where", SMALL)], Hostile(), DENY),
        ([layer("ask", SMALL)], Hostile(), DENY),
        ([layer("allow", rule("**"))], Hostile(), ALLOW),
    ],
)
def test_what_is_said_about_a_call(layers, arguments, verdict):
    assert decided(*layers).evaluate(arguments, {}) is verdict
    assert decided(*reversed(layers)).evaluate(arguments, {}) is verdict


@pytest.mark.parametrize(
    ("labels", "verdict"), [((), ALLOW), (("mail",), ALLOW), (("web",), DENY), (("web", "mail"), DENY), (("file", "mail"), DENY)]
)
def test_one_label_of_an_unlabelled_layer_is_enough_to_refuse(labels, verdict):
    refusing = layer("unlabelled", rule("payments.*"), labels=("web", "file"))
    assert decided(refusing, labels=labels).verdict is verdict
    assert decide([refusing], frozenset(labels), ("fs", "read")) is ALLOWED


def test_what_is_decided_by_the_name_alone_is_one_object_for_all():
    assert decided() is ALLOWED
    assert decided(layer("deny", rule())) is DENIED
    assert decided(layer("ask", rule())) is ASKED
