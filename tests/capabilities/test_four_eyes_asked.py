"""Who wants another person's consent is heard by the gate, whether a layer, a policy, a policy file, a capability or the handler says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import retinue as rt
from gate_cases import Pay, admit
from retinue.capabilities import Gate
from retinue.capabilities.cases import NeedsConsent
from retinue.capabilities.policy_file import policy_from_file
from retinue.security import Authority
from retinue.security.errors import DefinitionError

DEFINITION = "a" * 64


def asked(*restrictions: Any, policies: Any = (), capabilities: Any = None, message: Any = None, **options: Any) -> bool:
    """Whether the consent that a payment needs has to come from another person."""
    authority = Authority()
    gate = Gate(authority, policies=policies, capabilities=capabilities)
    gate.desk = object()  # type: ignore[assignment]  # never asked here
    context = authority.mint("ada", ["**", *restrictions])
    with pytest.raises(NeedsConsent) as caught:
        admit(gate, context, message=message, definition=DEFINITION, **options)
    return bool(caught.value.case.four_eyes)


SMALL = {"amount": rt.at_most(40)}


@pytest.mark.parametrize(
    ("restrictions", "expected"),
    [
        ([rt.needs_approval("payments.*")], False),
        ([rt.needs_approval("payments.*", four_eyes=True)], True),
        ([rt.needs_approval("payments.*"), rt.needs_approval("payments.*", four_eyes=True)], True),
        ([rt.needs_approval("payments.*"), rt.needs_approval("payments.*", unless=SMALL, four_eyes=True)], False),
        ([rt.needs_approval("payments.*"), rt.needs_approval("payments.*", unless={"amount": rt.at_most(39)}, four_eyes=True)], True),
        ([rt.needs_approval("payments.*"), rt.needs_approval("mail.*", four_eyes=True)], False),
    ],
)
def test_a_layer_says_so(restrictions: Any, expected: bool) -> None:
    assert asked(*restrictions) is expected


def test_the_arguments_are_looked_at_for_four_eyes_alone_too() -> None:
    layers = [rt.needs_approval("payments.*"), rt.needs_approval("payments.*", unless=SMALL, four_eyes=True)]
    assert asked(*layers, message=Pay(amount=41)) is True
    assert asked(*layers, message=Pay(amount="40")) is True  # type: ignore[arg-type]


def test_a_policy_says_so() -> None:
    def policy(four_eyes: bool, name: str) -> Any:
        return rt.policy(name=name)(lambda call: rt.Verdict.ask("it is large", four_eyes=four_eyes))

    assert asked(policies=[policy(False, "one")]) is False
    assert asked(policies=[policy(True, "one")]) is True
    assert asked(policies=[policy(True, "one"), policy(False, "two")]) is True
    assert repr(rt.Verdict.ask("why", four_eyes=True)) == "Verdict.ask('why', four_eyes=True)" and rt.Verdict.ask("why").four_eyes is False
    assert not rt.Verdict.allow().four_eyes and not rt.Verdict.refuse("no").four_eyes and not rt.Verdict.rewrite(Pay()).four_eyes
    for odd in (1, None, "yes"):
        with pytest.raises(DefinitionError, match="True or False"):
            rt.Verdict.ask("why", four_eyes=odd)  # type: ignore[arg-type]


FILE = """
version = 1

[[rule]]
operations = ["payments.send"]
verdict = "{verdict}"
{line}
"""


def written(folder: Path, line: str, verdict: str = "ask") -> Any:
    path = folder / "office.toml"
    path.write_text(FILE.format(line=line, verdict=verdict), encoding="utf-8")
    return policy_from_file(path)


def test_a_policy_file_says_so(tmp_path: Path) -> None:
    assert asked(policies=[written(tmp_path, "four_eyes = true")]) is True
    assert asked(policies=[written(tmp_path, "four_eyes = false")]) is False
    assert asked(policies=[written(tmp_path, "")]) is False


@pytest.mark.parametrize(
    ("line", "verdict"),
    [("four_eyes = 1", "ask"), ('four_eyes = "true"', "ask"), ("four_eyes = true", "allow"), ("four_eyes = false", "refuse")],
)
def test_a_file_with_odd_four_eyes_refuses_everything(tmp_path: Path, line: str, verdict: str) -> None:
    file = written(tmp_path, line, verdict)
    assert "four_eyes of rule 1" in file.problem
    authority = Authority()
    with pytest.raises(rt.Denied):
        admit(Gate(authority, policies=[file]), authority.root)


def test_a_capability_says_so() -> None:
    def registry(**options: Any) -> Any:
        return rt.CapabilityRegistry([rt.Capability("payments.send", **options)])

    assert asked(capabilities=registry(approval=True)) is False
    assert asked(capabilities=registry(approval=True, four_eyes=True)) is True
    assert rt.Capability("a", approval=True, four_eyes=True).to_data()["four_eyes"] is True
    assert registry(approval=True).snapshot().digest != registry(approval=True, four_eyes=True).snapshot().digest
    with pytest.raises(DefinitionError, match="approval=True beside it"):
        rt.Capability("a", four_eyes=True)
    for odd in (1, None, "yes"):
        with pytest.raises(DefinitionError, match="True or False"):
            rt.Capability("a", approval=True, four_eyes=odd)  # type: ignore[arg-type]


def test_a_handler_says_so_and_nobody_takes_it_back() -> None:
    assert asked(approval=True) is False
    assert asked(approval=True, four_eyes=True) is True
    assert asked(rt.needs_approval("payments.*"), approval=True, four_eyes=True) is True
