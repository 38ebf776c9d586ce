"""examples/weather_tools.py"""

from __future__ import annotations

import pytest

from example_runner import run_example
from live_endpoint import run_live


def test_tools_are_called_and_what_does_not_fit_or_is_not_permitted_is_an_answer_for_the_model() -> None:
    assert run_example("weather_tools").splitlines() == [
        '  calls forecast {"city": "Oslo"}',
        '  calls forecast {"city": "Rome", "days": "a few"}',
        "  -> Oslo: -3 degrees",
        "  not carried out: the arguments of 'forecast' do not fit, and nothing was run:",
        "     - days: expected an integer, got the string 'a few'",
        '     Expected: {"city": a string, "days": an integer, optional}',
        '  calls forecast {"city": "Rome", "days": 2}',
        "  -> Rome: 14 degrees, 16 degrees",
        '  calls send_postcard {"to": "Bob", "text": "Come to Rome!"}',
        "  not carried out: not permitted: send_postcard needs 'tool.send_postcard', which is refused here (permission); do without it",
        "Yes: 14 degrees in Rome, -3 in Oslo. I may not send postcards.",
    ]


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_a_real_endpoint_is_told_of_the_tools() -> None:
    printed, (asked,) = run_live("weather_tools", "I shall not look.")
    assert printed.splitlines() == ["asking some-model at URL; this may cost money", "I shall not look."]
    functions = [tool["function"] for tool in asked.json["tools"]]
    assert [(function["name"], sorted(function["parameters"]["properties"])) for function in functions] == [
        ("forecast", ["city", "days"]),
        ("send_postcard", ["text", "to"]),
    ]
