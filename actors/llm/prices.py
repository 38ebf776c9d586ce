"""What an answer costs, by the prices that the package `genai-prices` (the extra `prices`) has installed. Nothing here touches the network.

The package can keep its prices fresh with a thread that fetches them; that one runs only where a program starts it itself, and is never started here.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from decimal import ROUND_CEILING, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from typing import Any, Final

import attrs
import trio

from retinue.actors.llm.usage import Usage
from retinue.security.spelling import names_the_nearest

__all__ = ["FREE", "Price", "Tariff", "load_prices", "price_of", "tariff_of"]

_MICRO: Final = 1_000_000
_DEAREST: Final = 1_000_000  # US dollars for a million tokens
_ROUNDED_UP: Final = Context(prec=100, rounding=ROUND_CEILING, traps=[DivisionByZero, InvalidOperation, Overflow])
"""What prices are reckoned in: the context of a thread is the program's, which may want three digits of its own numbers."""

_LONGEST: Final = 1_024  # characters of a name that is looked up; models' names are shorter
_LISTED_AS: Final = {"glm": "zhipuai"}  # our names for providers where the list has others


def _dollars(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise TypeError(
            f"a price is a {type(value).__name__}: give US dollars for a million tokens as a str, a Decimal or an int, Price('0.15', '0.60')"
        )
    try:
        price = Decimal(value)
    except ArithmeticError:
        price = Decimal("NaN")
    if not 0 <= price <= _DEAREST if price.is_finite() else True:
        raise ValueError(f"a price is {str(value)[:40]!r}: give US dollars for a million tokens, 0 to {_DEAREST:,}")
    return price


@names_the_nearest
@attrs.frozen
class Price:
    """What a model costs, in US dollars for a million tokens: for models that the installed list of prices does not have, and for deployments of one's own.

    Attributes:
        input_usd: For the tokens of requests: a str, a Decimal or an int ("0.15").
        output_usd: For those of answers.

    Raises TypeError or ValueError for what is no price; a float is not exact.
    """

    input_usd: Decimal = attrs.field(converter=_dollars)
    output_usd: Decimal = attrs.field(converter=_dollars)

    def cost(self, prompt_tokens: int, answer_tokens: int) -> int:
        """The cost of so many tokens in millionths of a US dollar, rounded up."""
        with localcontext(_ROUNDED_UP):
            return int((self.input_usd * prompt_tokens + self.output_usd * answer_tokens).to_integral_value(ROUND_CEILING))

    def of(self, usage: Usage) -> int | None:
        """The cost of what an answer used; None where its tokens are not known, and 0 also then where nothing costs anything."""
        if not self.input_usd and not self.output_usd:
            return 0
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return None
        return self.cost(usage.prompt_tokens, usage.completion_tokens)

    def tariff(self, prompt_tokens: int) -> Tariff:
        """The cost of an answer to a request of so many tokens, by its length."""
        return Tariff(self.cost(prompt_tokens, 0), self.cost(0, _MICRO))


FREE: Final = Price(0, 0)
"""The price of what runs on the own machine."""


@attrs.frozen
class Tariff:
    """What an answer to one request costs, by its length.

    Attributes:
        prompt: Millionths of a US dollar for the request.
        million: The same for a million tokens of the answer.
    """

    prompt: int
    million: int

    def cost(self, answer: int) -> int:
        """Millionths of a US dollar for the request and an answer of so many tokens, rounded up."""
        return self.prompt - (-answer * self.million // _MICRO)

    def answer(self, cost: int) -> int | None:
        """The most tokens that an answer may have for so many millionths, the request paid apart; None where answers cost nothing."""
        return None if self.million == 0 else max(0, cost) * _MICRO // self.million


def tariff_of(provider: str | None, model: str, prompt_tokens: int) -> Tariff | None:
    """The same by the installed list of prices; None where that is not known. It takes about 1 ms; see `price_of` and `load_prices`.

    Args:
        provider, model: As for `price_of`.
        prompt_tokens: How long the request is: some lists have dearer prices for long ones.
    """
    alone = price_of(provider, model, Usage(1, prompt_tokens, 0))
    if alone is None:
        return None
    most = price_of(provider, model, Usage(1, prompt_tokens, _MICRO))
    return None if most is None else Tariff(alone, max(0, most - alone + 1))


def price_of(provider: str | None, model: str, usage: Usage) -> int | None:
    """Return what an answer has cost in millionths of a US dollar, rounded up; None where that is not known, which is never the same as 0.

    It is not known where the extra `prices` is not installed, the provider or the model is not in its list, the list has no price for it, or a number
    of tokens is missing. It takes about 0.5 ms; the first one loads the list (0.3 s), see `load_prices`.

    Args:
        provider: The provider's name ("openai", "deepseek", …) or the endpoint's address ("https://api.openai.com/v1"). The same model has
            different prices at different providers, so with None the price is not known.
        model: The model's name.
        usage: What the answer used.
    """
    if not provider or not model or len(model) > _LONGEST or usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    if not _is_installed():
        return None
    import genai_prices

    found = _find(provider, model)
    if found is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    counted = genai_prices.Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, cache_read_tokens=cached)
    with localcontext(_ROUNDED_UP):
        try:
            listed = found[1].calc_price(counted, found[0])
        except (LookupError, ValueError, TypeError, ArithmeticError):  # a tariff that needs to know more than these numbers
            return None
        if listed.model_price.input_mtok is None or listed.model_price.output_mtok is None:
            return None  # the list knows the model, and no price of it
        return int((Decimal(listed.total_price) * _MICRO).to_integral_value(ROUND_CEILING))


async def load_prices() -> None:
    """Load the list of prices in a thread, where the extra `prices` is installed, so that the first `price_of` does not keep the loop waiting."""
    if _is_installed() and "genai_prices" not in sys.modules:
        await trio.to_thread.run_sync(_load)


def _load() -> None:
    from genai_prices.data_snapshot import get_snapshot

    get_snapshot()


@functools.cache
def _is_installed() -> bool:
    return importlib.util.find_spec("genai_prices") is not None


def _find(provider: str, model: str) -> tuple[Any, Any] | None:
    from genai_prices.data_snapshot import get_snapshot

    snapshot = get_snapshot()
    name = _LISTED_AS.get(provider, provider)
    try:
        # In two steps: asked for both at once, the package remembers each name of a model that it did not find, for ever.
        listed = snapshot.find_provider(None, None, name) if "://" in name else snapshot.find_provider(None, name, None)
    except LookupError:
        return None
    known = listed.find_model(model.lower(), all_providers=snapshot.providers)
    return None if known is None else (listed, known)
