"""Keywords of a spawn that nobody takes."""

from __future__ import annotations

from typing import Any

import pytest

import retinue as rt
from core_hosts import Host


async def test_a_keyword_that_nobody_takes_is_named_with_those_that_spawn_takes(host: Host) -> None:
    class Named(rt.Actor):
        def __init__(self, log: list[Any], *, limit: int = 1) -> None:
            self.log = log

    class Open(rt.Actor):
        def __init__(self, **options: Any) -> None:
            self.options = options

    async with host.system() as system:
        with pytest.raises(
            rt.DefinitionError,
            match="Named does not take grants=: it takes log, limit. spawn itself takes name=, grant=, mailbox=, supervision=",
        ):
            await system.spawn(Named, [], grants=["**"], limit=2)
        with pytest.raises(rt.DefinitionError, match=r"but spawn was given some \(grants\)\. spawn itself takes name=, grant="):
            await system.spawn(type("Bare", (rt.Actor,), {}), grants=["**"])
        assert await system.spawn(Open, grants=["**"])
        assert await system.spawn(Named, log=[], limit=2)
