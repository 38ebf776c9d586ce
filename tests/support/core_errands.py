"""Messages of the tests that try one thing in many ways: something told, something asked, and something to be done inside a turn."""

from __future__ import annotations

from typing import Any

import retinue as rt

PATIENCE = 20.0
"""Seconds after which something hangs."""


@rt.message
class Item(rt.Message):
    number: int = 0


@rt.message
class Ping(rt.Request[int]):
    number: int = 0


@rt.message
class Do(rt.Request[Any]):
    what: Any
