"""What an answer costs, by the prices that the package `genai-prices` (the extra `prices`) has installed. Nothing here touches the network.

The package can keep its prices fresh with a thread that fetches them; that one runs only where a program starts it itself, and is never started here.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any, Final

import trio

if TYPE_CHECKING:
    from retinue.actors.llm.usage import Usage

__all__ = ["load_prices", "price_of"]

_MICRO: Final = 1_000_000
_LONGEST: Final = 1_024  # characters of a name that is looked up; models' names are shorter
_LISTED_AS: Final = {"glm": "zhipuai"}  # our names for providers where the list has others


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
