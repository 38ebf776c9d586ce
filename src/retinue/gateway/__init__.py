"""The gateway: a running system for scripts in other processes, over HTTP."""

from __future__ import annotations

from retinue.gateway.app import Gateway
from retinue.gateway.bounds import Bounds

__all__ = ["Bounds", "Gateway"]
