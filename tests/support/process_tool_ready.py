"""A function that is a tool already, found by another process as one."""

from __future__ import annotations

import retinue as rt


@rt.tool(process=True, timeout=20)
def decorated(name: str) -> str:
    """Greets."""
    return f"hello, {name}"
