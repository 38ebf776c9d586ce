"""Options that are misspelt: the nearest one that there is, is named."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import attrs
import pytest

import retinue as rt
from retinue import llm


@pytest.mark.parametrize(
    ("make", "wrong", "right"),
    [
        (rt.RunLimits, "model_call", "model_calls"),
        (rt.TreeLimits, "token", "tokens"),
        (rt.HandoffGuards, "hop", "hops"),
        (rt.Tracing, "content", "contents"),
        (rt.Handoff, "descripton", "description"),
        (rt.Run, "tool", "tools"),
        (rt.EditMember, "option", "options"),
        (rt.AddMember, "describtion", "description"),
        (rt.Mailbox, "overflows", "overflow"),
        (rt.Capability, "riks", "risk"),
        (llm.Profile, "tool", "tools"),
        (rt.tool, "aproval", "approval"),
    ],
)
def test_a_misspelt_option_is_answered_by_the_nearest(make: Any, wrong: str, right: str) -> None:
    with pytest.raises(rt.DefinitionError, match=rf"^{make.__name__} does not take {wrong}=: did you mean {right}=\? It takes ") as caught:
        make(**{wrong: 1})
    assert isinstance(caught.value, TypeError) and caught.value.__cause__ is None


def test_an_agents_tool_names_the_function_that_was_called() -> None:
    with pytest.raises(rt.DefinitionError, match=r"^agent_tool does not take desc=: did you mean description=\?"):
        rt.agent_tool(rt.Agent.spec(model="scripted:x"), name="ask_a", desc="Knows.")


def test_an_option_that_is_like_none_is_answered_by_all() -> None:
    with pytest.raises(
        rt.DefinitionError, match="^Run does not take zzz=: it takes message, tools, limits, wait_for_approvals, handoffs, exit_at$"
    ):
        rt.Run("hi", zzz=1)


def test_what_else_is_wrong_with_a_call_is_said_as_ever() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'message'"):
        rt.Run()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="RunLimits"):
        rt.RunLimits(model_calls=0)
    with pytest.raises(TypeError, match=r"Run\.tools is a str"):
        rt.Run("hi", tools="x")


def test_the_classes_are_what_they_were() -> None:
    limits = rt.RunLimits(tokens=5)
    assert attrs.evolve(limits, tokens=6).tokens == 6 and pickle.loads(pickle.dumps(limits)) == limits
    assert list(inspect.signature(rt.RunLimits).parameters)[:2] == ["model_calls", "tool_calls"]
    assert rt.Run("hi", tools=[]) == rt.Run("hi")
