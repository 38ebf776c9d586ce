"""For tests of policies: a message, gates with policies, the two doors, and policies of each kind."""

import attrs
import pytest

import retinue as rt
from retinue.capabilities import Gate
from retinue.capabilities.policy import Verdict, policy
from retinue.security import Authority, Denied


@rt.message
class Pay(rt.Message):
    amount: int
    notes: list[str] = attrs.field(factory=list)


@rt.message
class PayMore(Pay):
    pass


def gate_of(*policies, authority=None, **more) -> Gate:
    return Gate(authority or Authority(), policies=policies, **more)


def admit(gate: Gate, message=None, context=None, operation="payments.send", **more):
    return gate.admit(
        gate._authority.root if context is None else context,
        None,
        operation,
        Pay(40) if message is None else message,
        path="/user/bank",
        message_type=Pay,
        **more,
    )


async def admit_async(gate: Gate, message=None, context=None, operation="payments.send", **more):
    return await gate.admit_async(
        gate._authority.root if context is None else context,
        None,
        operation,
        Pay(40) if message is None else message,
        path="/user/bank",
        message_type=Pay,
        **more,
    )


def refused(gate: Gate, *arguments, **more) -> Denied:
    with pytest.raises(Denied) as caught:
        admit(gate, *arguments, **more)
    assert gate.allowed == 0
    return caught.value


@policy
def willing(call):
    return Verdict.allow()


@policy
def unwilling(call):
    return Verdict.refuse("it is Sunday")


@policy
def asking(call):
    return Verdict.ask("who is this for?")


@policy(name="doubling")
def doubling(call):
    return Verdict.rewrite(attrs.evolve(call.message, amount=call.message.amount * 2))


class Named:
    operations = ("**",)

    def __init__(self, name="named", operations=("**",)):
        self.name = name
        self.operations = operations

    def decide(self, call):
        return Verdict.allow()
