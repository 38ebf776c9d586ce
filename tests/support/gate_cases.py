"""For tests of the gate: two messages, and the way in."""

import retinue as rt
from retinue.capabilities import Gate


@rt.message
class Pay(rt.Message):
    to: str = "ACME"
    amount: int = 40


@rt.message
class Batch(rt.Message):
    to: list[str]


def admit(gate: Gate, context, operation="payments.send", message=None, grant=None, **more):
    return gate.admit(
        context, grant, operation, Pay() if message is None else message, path="/user/bank", message_type=type(message or Pay()), **more
    )
