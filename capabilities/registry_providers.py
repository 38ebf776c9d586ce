"""Providers of capabilities, and their life cycle.

    mount → start → (health, reload) → stop → unmount

What a provider provides is declared in the registry exactly while it runs. Where a step fails, hangs or is cancelled, the provider is failed and its
capabilities are withdrawn at once: the gate then refuses them as unknown.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, Protocol, final, runtime_checkable

import attrs
import trio

from retinue.capabilities.registry import Capability, CapabilityRegistry, Scope, check_owner
from retinue.security.canonical import digest
from retinue.security.errors import AuthorityError, DefinitionError
from retinue.security.secret_shapes import REDACTED, hide_secrets, is_secret_name

__all__ = ["CapabilityProviders", "Provider", "ProviderStatus", "State"]

STEP_TIMEOUT: Final = 30.0
"""Seconds that one step of a provider may take."""

State = Literal["mounting", "mounted", "starting", "running", "reloading", "stopping", "unmounting", "failed"]


@runtime_checkable
class Provider(Protocol):
    """Something that provides capabilities: an MCP server, a skill, a connector.

    It may have the methods `mount`, `start`, `health`, `reload`, `stop` and `unmount`, each without parameters and `async def` or plain; a step whose method is
    missing does nothing. `health` returns True where all is well. It may have `config`, a mapping of plain data: its digest is kept, with secrets left out.

    Attributes:
        name: A name that no other mounted provider has.
        capabilities: What it provides; read when it starts, and again when it reloads.
    """

    name: str
    capabilities: Iterable[Capability]


@attrs.frozen
class ProviderStatus:
    """A provider at one moment.

    Attributes:
        name: Its name.
        state: Where in its life it is.
        scope: Where its capabilities are declared.
        owner: The session or agent that it belongs to, or None.
        operations: What it provides at present; empty unless it runs.
        problem: What failed, as a sentence, or "".
        config_digest: SHA-256 over its configuration, secrets left out, or "".
    """

    name: str
    state: State
    scope: Scope
    owner: str | None
    operations: tuple[str, ...]
    problem: str
    config_digest: str


class _Mounted:
    __slots__ = ("config_digest", "lock", "operations", "owner", "problem", "provider", "scope", "state")

    def __init__(self, provider: Any, scope: Scope, owner: str | None) -> None:
        self.provider = provider
        self.scope: Scope = scope
        self.owner = owner
        self.state: State = "mounting"
        self.operations: tuple[str, ...] = ()
        self.problem = ""
        self.config_digest = ""
        self.lock = trio.Lock()


@final
class CapabilityProviders:
    """Leads providers through their lives and keeps a registry in step. To be used in one trio loop.

    Args:
        registry: Where capabilities are declared.
        timeout: Seconds that one step may take; default 30.

    Raises:
        DefinitionError: The time-out is no number of seconds above zero.
    """

    __slots__ = ("_mounted", "_registry", "_timeout")

    def __init__(self, registry: CapabilityRegistry, *, timeout: float = STEP_TIMEOUT) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise DefinitionError(f"CapabilityProviders(timeout={timeout!r}): give a number of seconds above zero")
        self._registry = registry
        self._timeout = float(timeout)
        self._mounted: dict[str, _Mounted] = {}

    async def mount(self, provider: Provider, *, scope: Scope = "runtime", owner: str | None = None) -> None:
        """Take a provider in; it provides nothing yet.

        Args:
            provider: The provider.
            scope: Where its capabilities will be declared; default "runtime".
            owner: For the scopes "session" and "agent": whose.

        Raises:
            DefinitionError: It is no provider, or one of that name is mounted; the scope does not exist, or its owner is missing or too many.
            AuthorityError: Its `mount` failed or hung; it is not mounted.
        """
        name = _name_of(provider)
        check_owner(scope, owner)
        if name in self._mounted:
            raise DefinitionError(f"a provider named {name!r} is mounted already: unmount it first, or give this one another name")
        entry = self._mounted[name] = _Mounted(provider, scope, owner)
        async with entry.lock:
            try:
                await self._step(name, entry, "mount")
            except BaseException:
                self._mounted.pop(name, None)
                raise
            entry.state = "mounted"

    async def start(self, name: str) -> None:
        """Start a mounted provider and declare what it provides.

        Raises:
            AuthorityError: Its `start` failed or hung, or what it provides could not be declared: it is failed now. Or there is no such provider, or it is in a
                state that cannot be started.
        """
        entry = self._entry(name)
        async with entry.lock:
            _check_state(name, entry, "start", "mounted")
            entry.state = "starting"
            await self._guarded(name, entry, "start")
            self._declare(name, entry)
            entry.state = "running"

    async def health(self, name: str) -> bool:
        """Ask a running provider how it is; one that is not well is failed, and its capabilities are withdrawn.

        Returns:
            True where it answered with True, or has no `health`.

        Raises:
            AuthorityError: There is no such provider, or it does not run.
        """
        entry = self._entry(name)
        async with entry.lock:
            _check_state(name, entry, "be asked for its health", "running")
            try:
                answer = await self._step(name, entry, "health", default=True)
            except AuthorityError as error:
                self._fail(entry, str(error))
                return False
            except BaseException:
                self._fail(entry, f"{name!r} was interrupted while it was asked for its health")
                raise
            if answer is not True:
                self._fail(entry, f"{name!r} answered that it is not well")
                return False
            return True

    async def reload(self, name: str) -> None:
        """Let a running provider read its configuration again, and declare what it provides now in one step with withdrawing what it did.

        Raises:
            AuthorityError: As for `start`; what it provided before is then withdrawn.
        """
        entry = self._entry(name)
        async with entry.lock:
            _check_state(name, entry, "reload", "running")
            entry.state = "reloading"
            await self._guarded(name, entry, "reload")
            self._declare(name, entry)
            entry.state = "running"

    async def stop(self, name: str) -> None:
        """Withdraw what a provider provides, and stop it; a failed one can be stopped too. Afterwards it is mounted.

        Raises:
            AuthorityError: Its `stop` failed or hung: it is failed now. Or there is no such provider, or it does not run.
        """
        entry = self._entry(name)
        async with entry.lock:
            _check_state(name, entry, "stop", "running", "failed")
            self._withdraw(entry)
            entry.state = "stopping"
            await self._guarded(name, entry, "stop")
            entry.state, entry.problem = "mounted", ""

    async def unmount(self, name: str) -> None:
        """Let a provider go that is stopped, was never started, or has failed. It is gone whatever its `unmount` does.

        Raises:
            AuthorityError: Its `unmount` failed or hung. Or there is no such provider, or it runs.
        """
        entry = self._entry(name)
        async with entry.lock:
            _check_state(name, entry, "unmount", "mounted", "failed")
            self._withdraw(entry)
            entry.state = "unmounting"
            try:
                await self._step(name, entry, "unmount")
            finally:
                self._mounted.pop(name, None)

    @asynccontextmanager
    async def running(self, provider: Provider, *, scope: Scope = "runtime", owner: str | None = None) -> AsyncIterator[None]:
        """Mounts and starts a provider; stops and unmounts it at the end of the block, each step within its time, whatever happens."""
        name = _name_of(provider)
        await self.mount(provider, scope=scope, owner=owner)
        try:
            try:
                await self.start(name)
                yield
            finally:
                with trio.CancelScope(shield=True):  # each step has its own time-out
                    if self.status(name).state in ("running", "failed"):
                        await self.stop(name)
        finally:
            with trio.CancelScope(shield=True):
                await self.unmount(name)

    def status(self, name: str) -> ProviderStatus:
        """A provider at this moment.

        Raises:
            AuthorityError: There is no such provider.
        """
        entry = self._entry(name)
        return ProviderStatus(name, entry.state, entry.scope, entry.owner, entry.operations, entry.problem, entry.config_digest)

    def statuses(self) -> tuple[ProviderStatus, ...]:
        """All mounted providers, in the order in which they were mounted."""
        return tuple(self.status(name) for name in self._mounted)

    # -- inside --------------------------------------------------------------------------------------------------------------------------------------------

    def _entry(self, name: str) -> _Mounted:
        entry = self._mounted.get(name)
        if entry is None:
            raise AuthorityError(f"no provider named {name!r} is mounted: mount it first")
        return entry

    async def _guarded(self, name: str, entry: _Mounted, step: str) -> None:
        """A step that leaves the provider failed, and its capabilities withdrawn, unless it goes well."""
        try:
            await self._step(name, entry, step)
        except BaseException as error:
            problem = str(error) if isinstance(error, AuthorityError) else f"{name!r} was interrupted in its {step!r}"
            self._fail(entry, problem)
            raise

    async def _step(self, name: str, entry: _Mounted, step: str, *, default: object = None) -> object:
        method = getattr(entry.provider, step, None)
        if method is None:
            await trio.lowlevel.checkpoint()
            return default
        answer: object = None
        with trio.move_on_after(self._timeout) as scope:
            try:
                answer = method()
                if inspect.isawaitable(answer):
                    answer = await answer
                await trio.lowlevel.checkpoint()
            except Exception as error:
                raise AuthorityError(
                    f"the provider {name!r} failed in its {step!r} with {type(error).__name__}; the error is chained"
                ) from error
        if scope.cancel_called:
            raise AuthorityError(f"the provider {name!r} did not end its {step!r} within {self._timeout:g} s")
        return answer

    def _declare(self, name: str, entry: _Mounted) -> None:
        """Declares what it provides now, in one step with withdrawing what it provided before."""
        try:
            capabilities = tuple(entry.provider.capabilities)
            config = getattr(entry.provider, "config", None)
            entry.config_digest = "" if config is None else config_digest(config)
            self._registry.replace(
                entry.operations, capabilities, scope=entry.scope, owner=entry.owner, provider=name, config_digest=entry.config_digest
            )
            entry.operations = tuple(capability.operation for capability in capabilities)
        except Exception as error:
            self._fail(entry, f"what {name!r} provides could not be declared ({type(error).__name__})")
            raise AuthorityError(f"what the provider {name!r} provides could not be declared: {error}") from error

    def _withdraw(self, entry: _Mounted) -> None:
        operations, entry.operations = entry.operations, ()
        self._registry.retire(operations, scope=entry.scope, owner=entry.owner)

    def _fail(self, entry: _Mounted, problem: str) -> None:
        entry.state, entry.problem = "failed", problem
        self._withdraw(entry)


def config_digest(config: Mapping[str, object]) -> str:
    """SHA-256 over a configuration whose secrets are left out: it shows a change, and lets nobody try secrets against it.

    Raises:
        CanonicalError: It is no plain data.
        RecursionError: It contains itself.
    """
    return digest(_without_secrets(dict(config)))


def _without_secrets(value: Any) -> Any:
    # Not `redact`: that one is for showing and cuts what is long, and a change beyond the cut would not change the digest.
    if type(value) is dict:
        return {
            name: REDACTED if type(name) is str and is_secret_name(name, inner) else _without_secrets(inner)
            for name, inner in value.items()
        }
    if type(value) in (list, tuple):
        return [_without_secrets(inner) for inner in value]
    return hide_secrets(value) if type(value) is str else value


def _name_of(provider: object) -> str:
    name = getattr(provider, "name", None)
    if not isinstance(name, str) or not 1 <= len(name) <= 255 or not hasattr(provider, "capabilities"):
        raise DefinitionError(
            f"an object of type {type(provider).__name__} is no provider: it needs a `name` of 1 to 255 characters, and `capabilities`"
        )
    return str.__str__(name)


def _check_state(name: str, entry: _Mounted, what: str, *states: State) -> None:
    if entry.state not in states:
        raise AuthorityError(f"the provider {name!r} is {entry.state} and cannot {what}; that takes one that is {' or '.join(states)}")
