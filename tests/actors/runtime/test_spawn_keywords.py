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


class Base(rt.Actor):
    def __init__(self, log: list[Any], *, limit: int = 1) -> None:
        self.log = log


class Derived(Base):
    __fills_in__ = ("log",)

    def __init__(self, *, name_of: str = "", **options: Any) -> None:
        super().__init__([], **options)


class Wrong(Base):
    def __init__(self, log: list[Any], **options: Any) -> None:
        super().__init__(log)
        dict(**options).get(*options)  # a TypeError of its own, and none of the call


class Client:
    def __init__(self, host: str) -> None:
        self.host = host


class Having(rt.Actor):
    def __init__(self, **options: Any) -> None:
        self.client = Client(**options)


@pytest.mark.parametrize(
    ("cls", "arguments", "options", "text"),
    [
        (
            Base,
            (),
            {},
            "Base cannot be called with these arguments: missing a required argument: 'log'. It takes log, limit=. spawn itself takes name=",
        ),
        (Base, (1, 2), {}, "Base cannot be called with these arguments: too many positional arguments. It takes log, limit="),
        (Base, ([],), {"limt": 2}, "Base does not take limt=: did you mean limit=? It takes log, limit."),
        (Derived, (), {"limt": 2}, "Derived does not take limt=: did you mean limit=? It takes name_of, limit."),
        (Derived, (), {"log": []}, "Derived does not take log=: it takes name_of, limit."),
        (Derived, ([],), {}, "too many positional arguments. It takes name_of=, limit=."),
    ],
)
async def test_a_call_that_does_not_fit_names_the_class_that_was_spawned(
    host: Host, cls: Any, arguments: tuple[Any, ...], options: dict[str, Any], text: str
) -> None:
    async with host.system() as system:
        with pytest.raises(rt.DefinitionError) as caught:
            await system.spawn(cls, *arguments, **options)
        assert text in str(caught.value)


async def test_a_constructors_own_type_error_is_its_own(host: Host) -> None:
    async with host.system() as system:
        with pytest.raises(TypeError) as caught:
            await system.spawn(Wrong, [], one=1, two=2, three=3)
        assert not isinstance(caught.value, rt.RetinueError)
        with pytest.raises(TypeError, match="Client.*hots") as caught:  # of something that it makes
            await system.spawn(Having, hots="x")
        assert not isinstance(caught.value, rt.RetinueError)


async def test_what_is_no_class_is_named_by_its_type_alone(host: Host) -> None:
    async with host.system() as system:
        spec = rt.Agent.spec(model="scripted:a secret", instructions="another secret")
        with pytest.raises(
            rt.DefinitionError, match=r"not an object of type AgentSpec: a spec is for a team's members=.* spawn\(Agent, …\)"
        ) as caught:
            await system.spawn(spec)  # type: ignore[call-overload]
        assert "secret" not in str(caught.value) + repr(spec)
