"""Prices come from what is installed; one that is not known is None, which is never 0."""

from __future__ import annotations

import decimal
import subprocess
import sys

import pytest

from retinue import llm
from retinue.actors.llm import prices
from retinue.actors.llm.prices import load_prices, price_of

pytest.importorskip("genai_prices")

USED = llm.Usage(1, 1_000_000, 1_000_000)


def test_a_price_is_that_of_the_tokens_in_millionths_of_a_dollar():
    both = price_of("openai", "gpt-4.1", USED)
    assert both == price_of("openai", "gpt-4.1", llm.Usage(1, 1_000_000, 0)) + price_of("openai", "gpt-4.1", llm.Usage(1, 0, 1_000_000))
    assert both == 10_000_000  # 2 and 8 dollars a million, 2026


def test_a_provider_may_be_given_by_its_address():
    assert price_of("https://api.openai.com/v1", "gpt-4.1", USED) == price_of("openai", "gpt-4.1", USED)
    assert price_of("https://api.deepseek.com/v1", "deepseek-chat", USED) == price_of("deepseek", "deepseek-chat", USED)


def test_cached_tokens_cost_less_and_are_not_counted_twice():
    assert 0 < price_of("openai", "gpt-4.1", llm.Usage(1, 1_000, 0, 1_000)) < price_of("openai", "gpt-4.1", llm.Usage(1, 1_000, 0))
    assert price_of("openai", "gpt-4.1", llm.Usage(1, 1_000, 0, 5_000)) == price_of("openai", "gpt-4.1", llm.Usage(1, 1_000, 0, 1_000))


def test_a_part_of_a_millionth_is_rounded_up():
    assert price_of("openai", "gpt-4.1-nano", llm.Usage(1, 1, 0)) == 1


ODD_CONTEXTS = {
    "two digits": decimal.Context(prec=2),
    "rounded down": decimal.Context(prec=3, rounding=decimal.ROUND_DOWN),
    "no rounding": decimal.Context(prec=4, traps=[decimal.Inexact, decimal.Rounded]),
    "small numbers": decimal.Context(Emax=3, Emin=-3, traps=[]),
}


@pytest.mark.parametrize("name", ODD_CONTEXTS)
def test_costs_are_the_same_whatever_a_program_wants_of_its_own_decimals(name):
    used = llm.Usage(1, 1_234_567, 7_654_321)
    price, listed = llm.Price("0.15", "0.60"), [("openai", "gpt-4.1"), ("google", "gemini-2.5-pro")]
    costs = [price_of(provider, model, used) for provider, model in listed]
    tariffs = [prices.tariff_of(provider, model, 345_678) for provider, model in listed]
    assert None not in [*costs, *tariffs]
    with decimal.localcontext(ODD_CONTEXTS[name]):
        assert price.of(used) == llm.Price("0.15", "0.60").of(used) == 4_777_778
        assert price.tariff(1_234_567).prompt == 185_186
        assert [price_of(provider, model, used) for provider, model in listed] == costs
        assert [prices.tariff_of(provider, model, 345_678) for provider, model in listed] == tariffs


@pytest.mark.parametrize(
    ("provider", "model", "usage"),
    [
        ("openai", "no-such-model", USED),
        ("no-such-provider", "gpt-4.1", USED),
        ("http://127.0.0.1:8000/v1", "gpt-4.1", USED),
        ("endpoint", "gpt-4.1", USED),
        ("local", "smollm2", USED),
        ("scripted", "scripted", USED),
        (None, "gpt-4.1", USED),
        ("openai", "", USED),
        ("openai", "gpt-4.1" * 1_000, USED),
        ("openai", "gpt-4.1", llm.Usage(1, None, 5)),
        ("openai", "gpt-4.1", llm.Usage(1, 5, None)),
    ],
    ids=str,
)
def test_what_is_not_known_is_none_and_never_zero(provider, model, usage):
    assert price_of(provider, model, usage) is None


def test_a_model_that_is_listed_without_a_price_has_none():
    from genai_prices.data import providers

    unpriced = [(provider.id, model.id) for provider in providers for model in provider.models if not _has_price(model)]
    assert unpriced, "the list has a price for everything now: this test has lost its subject"
    for provider, model in unpriced[:20]:
        assert price_of(provider, model, llm.Usage(1, 10, 10)) is None


def _has_price(model):
    from datetime import UTC, datetime

    price = model.get_prices(datetime.now(tz=UTC))
    return price.input_mtok is not None and price.output_mtok is not None


def test_every_eighth_price_of_the_list_is_a_number_or_not_known():
    from genai_prices.data import providers

    known = 0
    for provider in providers:
        for model in provider.models[::8]:
            found = price_of(provider.id, model.id, llm.Usage(1, 1_000, 1_000))
            assert found is None or (type(found) is int and found >= 0)
            known += found is not None
    assert known > 20


def test_without_the_extra_nothing_is_known(monkeypatch):
    monkeypatch.setattr(prices, "_is_installed", lambda: False)
    assert price_of("openai", "gpt-4.1", USED) is None


async def test_loading_ahead_takes_a_thread_and_is_done_once(monkeypatch):
    loaded = []
    monkeypatch.setattr(prices, "_load", lambda: loaded.append(1))
    monkeypatch.delitem(sys.modules, "genai_prices")
    await load_prices()
    assert loaded == [1]
    monkeypatch.setattr(prices, "_is_installed", lambda: False)
    await load_prices()
    assert loaded == [1]


@pytest.mark.slow
def test_no_thread_is_started_and_nothing_is_fetched():
    code = """
import socket, sys, threading
sys.addaudithook(lambda event, arguments: sys.exit(event) if event.startswith(("socket.connect", "socket.getaddrinfo")) else None)
from retinue import llm
assert "genai_prices" not in sys.modules
assert llm.price_of("openai", "gpt-4.1", llm.Usage(1, 1000, 100)) == 2800
assert threading.active_count() == 1, threading.enumerate()
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_sum_of_costs_is_unknown_where_one_is():
    known = llm.Usage(1, 1, 1, 0, 0, cost_micro_usd=5)
    assert (known + known).cost_micro_usd == 10
    assert (known + llm.Usage(1, 1, 1)).cost_micro_usd is None
