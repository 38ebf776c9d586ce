"""Providers: what one provides is declared exactly while it runs, whatever fails, hangs or is cancelled."""

import pytest
import trio

from retinue.capabilities.registry import Capability, CapabilityRegistry
from retinue.capabilities.registry_providers import CapabilityProviders, Provider, config_digest
from retinue.security import AuthorityError, Denied
from retinue.security.errors import DefinitionError


class Disk:
    """A provider that notes its steps; `failing` and `hanging` name the step that goes wrong."""

    def __init__(self, name="disk", *, failing="", hanging="", capabilities=("fs.read", "fs.write"), config=None):
        self.name = name
        self.capabilities = [Capability(operation, "L0") for operation in capabilities]
        self.failing = failing
        self.hanging = hanging
        self.steps = []
        self.well = True
        if config is not None:
            self.config = config

    async def _step(self, step):
        self.steps.append(step)
        await trio.lowlevel.checkpoint()
        if self.failing == step:
            raise OSError(f"{step} fails")
        if self.hanging == step:
            await trio.sleep_forever()

    async def mount(self):
        await self._step("mount")

    async def start(self):
        await self._step("start")

    async def health(self):
        await self._step("health")
        return self.well

    async def reload(self):
        await self._step("reload")

    async def stop(self):
        await self._step("stop")

    async def unmount(self):
        await self._step("unmount")


class Static:
    name = "static"
    capabilities = (Capability("web.get"),)


@pytest.fixture
def registry():
    return CapabilityRegistry()


@pytest.fixture
def providers(registry):
    return CapabilityProviders(registry, timeout=5)


def declared(registry):
    return [one.capability.operation for one in registry.snapshot().declarations]


async def test_what_a_provider_provides_is_declared_exactly_while_it_runs(registry, providers):
    disk = Disk()
    assert isinstance(disk, Provider)
    await providers.mount(disk)
    assert (declared(registry), providers.status("disk").state) == ([], "mounted")
    await providers.start("disk")
    assert declared(registry) == ["fs.read", "fs.write"]
    status = providers.status("disk")
    assert (status.state, status.operations, status.scope, status.owner, status.problem) == (
        "running",
        ("fs.read", "fs.write"),
        "runtime",
        None,
        "",
    )
    assert registry.snapshot().declarations[0].provider == "disk"
    assert await providers.health("disk") is True
    disk.capabilities = [Capability("fs.read"), Capability("fs.list")]
    await providers.reload("disk")
    assert declared(registry) == ["fs.list", "fs.read"]
    await providers.stop("disk")
    assert (declared(registry), providers.status("disk").state) == ([], "mounted")
    await providers.start("disk")
    await providers.stop("disk")
    await providers.unmount("disk")
    assert providers.statuses() == ()
    assert disk.steps == ["mount", "start", "health", "reload", "stop", "start", "stop", "unmount"]


async def test_a_provider_without_steps_needs_none(registry, providers):
    async with providers.running(Static(), scope="session", owner="s1"):
        assert registry.resolve("web.get", session="s1") is not None
        assert registry.resolve("web.get", session="s2") is None
        assert await providers.health("static") is True
        await providers.reload("static")
    assert declared(registry) == []
    assert providers.statuses() == ()


async def test_plain_steps_are_steps_too(registry, providers):
    class Plain:
        name = "plain"
        capabilities = (Capability("web.get"),)
        steps: list[str] = []  # noqa: RUF012

        def start(self):
            self.steps.append("start")

        def health(self):
            return True

    async with providers.running(Plain()):
        assert Plain.steps == ["start"]
        assert await providers.health("plain") is True


STEPS = {
    "start": lambda providers: providers.start("disk"),
    "reload": lambda providers: providers.reload("disk"),
    "stop": lambda providers: providers.stop("disk"),
}


async def prepared(providers, disk, step):
    await providers.mount(disk)
    if step != "start":
        await providers.start("disk")


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_that_fails_leaves_a_failed_provider_that_provides_nothing(registry, providers, step):
    disk = Disk(failing=step)
    await prepared(providers, disk, step)
    with pytest.raises(AuthorityError, match=f"failed in its '{step}' with OSError") as caught:
        await STEPS[step](providers)
    assert isinstance(caught.value.__cause__, OSError)
    assert declared(registry) == []
    status = providers.status("disk")
    assert (status.state, status.operations) == ("failed", ())
    assert step in status.problem
    for other in ("start", "reload"):
        with pytest.raises(AuthorityError, match="is failed and cannot"):
            await STEPS[other](providers)
    disk.failing = ""
    await providers.stop("disk")
    await providers.start("disk")
    assert declared(registry) == ["fs.read", "fs.write"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_that_hangs_ends_after_its_time(registry, providers, step, autojump_clock):
    disk = Disk(hanging=step)
    await prepared(providers, disk, step)
    began = trio.current_time()
    with pytest.raises(AuthorityError, match=f"did not end its '{step}' within 5 s"):
        await STEPS[step](providers)
    assert trio.current_time() - began == 5
    assert (declared(registry), providers.status("disk").state) == ([], "failed")


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_that_is_cancelled_leaves_a_failed_provider(registry, providers, step):
    disk = Disk(hanging=step)
    await prepared(providers, disk, step)
    with trio.move_on_after(0.01) as scope:
        await STEPS[step](providers)
    assert scope.cancelled_caught
    assert (declared(registry), providers.status("disk").state) == ([], "failed")
    assert "interrupted" in providers.status("disk").problem


@pytest.mark.parametrize("problem", ["failing", "hanging"])
async def test_a_provider_that_cannot_be_mounted_is_not(registry, providers, problem, autojump_clock):
    with pytest.raises(AuthorityError, match="'mount'"):
        await providers.mount(Disk(**{problem: "mount"}))
    assert providers.statuses() == ()


@pytest.mark.parametrize("problem", ["failing", "hanging"])
async def test_a_provider_that_cannot_be_unmounted_is_gone_all_the_same(providers, problem, autojump_clock):
    await providers.mount(Disk(**{problem: "unmount"}))
    with pytest.raises(AuthorityError, match="'unmount'"):
        await providers.unmount("disk")
    assert providers.statuses() == ()


@pytest.mark.parametrize("answer", [False, None, 1, "ok"])
async def test_a_provider_that_is_not_well_is_failed_and_provides_nothing(registry, providers, answer):
    disk = Disk()
    await prepared(providers, disk, "health")
    disk.well = answer
    assert await providers.health("disk") is False
    assert (declared(registry), providers.status("disk").state) == ([], "failed")


@pytest.mark.parametrize("problem", ["failing", "hanging"])
async def test_a_provider_whose_health_cannot_be_told_is_not_well(registry, providers, problem, autojump_clock):
    await prepared(providers, Disk(**{problem: "health"}), "health")
    assert await providers.health("disk") is False
    assert (declared(registry), providers.status("disk").state) == ([], "failed")


@pytest.mark.parametrize(
    "capabilities", [None, 3, ["fs.read"], [Capability("fs.read"), Capability("fs.read")], [Capability("taken")]], ids=repr
)
async def test_what_cannot_be_declared_fails_the_provider(registry, providers, capabilities):
    registry.declare(Capability("taken"), scope="runtime")
    disk = Disk()
    await prepared(providers, disk, "reload")
    disk.capabilities = capabilities
    with pytest.raises(AuthorityError, match="could not be declared"):
        await providers.reload("disk")
    assert (declared(registry), providers.status("disk").state) == (["taken"], "failed")


async def test_steps_out_of_order_are_refused(providers):
    await providers.mount(Disk())
    for attempt in (providers.reload, providers.stop, providers.health):
        with pytest.raises(AuthorityError, match="is mounted and cannot"):
            await attempt("disk")
    await providers.start("disk")
    for attempt in (providers.start, providers.unmount):
        with pytest.raises(AuthorityError, match="is running and cannot"):
            await attempt("disk")
    for attempt in (providers.start, providers.stop, providers.health, providers.reload, providers.unmount):
        with pytest.raises(AuthorityError, match="no provider named 'none'"):
            await attempt("none")
    with pytest.raises(AuthorityError, match="no provider"):
        providers.status("none")


async def test_two_steps_at_once_come_one_after_the_other(registry, providers):
    disk = Disk()
    await providers.mount(disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(providers.start, "disk")
        await trio.lowlevel.checkpoint()
        nursery.start_soon(providers.stop, "disk")
    assert disk.steps == ["mount", "start", "stop"]
    assert declared(registry) == []


@pytest.mark.parametrize("odd", [None, object(), "disk", Disk(""), Disk(3), Disk("x" * 256)])
async def test_what_is_no_provider_is_refused(providers, odd):
    with pytest.raises(DefinitionError, match="no provider"):
        await providers.mount(odd)


async def test_a_name_is_mounted_once_and_a_scope_has_its_owner(providers):
    await providers.mount(Disk())
    with pytest.raises(DefinitionError, match="mounted already"):
        await providers.mount(Disk())
    for scope, owner in (("session", None), ("runtime", "ada"), ("galaxy", None)):
        with pytest.raises(DefinitionError, match="scope"):
            await providers.mount(Disk("other"), scope=scope, owner=owner)
    assert [status.name for status in providers.statuses()] == ["disk"]


@pytest.mark.parametrize("timeout", [0, -1, True, "5", None, float("nan"), float("inf")])
def test_a_step_has_a_time(registry, timeout):
    with pytest.raises(DefinitionError, match="timeout"):
        CapabilityProviders(registry, timeout=timeout)


@pytest.mark.parametrize("failing", ["", "start", "stop"])
async def test_the_block_leaves_nothing_whatever_fails(registry, providers, failing):
    disk = Disk(failing=failing)
    if failing:
        with pytest.raises(AuthorityError):
            async with providers.running(disk):
                assert declared(registry)
    else:
        with pytest.raises(KeyError):
            async with providers.running(disk):
                raise KeyError
    assert declared(registry) == []
    assert providers.statuses() == ()
    assert disk.steps[-1] == "unmount"


async def test_the_block_ends_its_provider_also_when_it_is_cancelled(registry, providers):
    disk = Disk()
    with trio.move_on_after(0.01):
        async with providers.running(disk):
            await trio.sleep_forever()
    assert disk.steps == ["mount", "start", "stop", "unmount"]
    assert declared(registry) == []


async def test_a_failing_provider_loses_what_it_provides_where_changes_are_guarded(registry, providers):
    disk = Disk()
    await prepared(providers, disk, "health")

    def guard():
        raise Denied("inside a handler")

    registry.guard = guard
    disk.well = False
    assert await providers.health("disk") is False
    assert declared(registry) == []


async def test_the_digest_of_a_configuration_shows_changes_and_no_secrets(registry, providers):
    assert config_digest({"url": "a", "token": "secret-1"}) == config_digest({"url": "a", "token": "secret-2"})
    assert config_digest({"url": "a"}) != config_digest({"url": "b"})
    assert config_digest({"more": [{"password": "x", "n": 1}]}) == config_digest({"more": [{"password": "y", "n": 1}]})
    assert config_digest({"url": "https://ada:one@host/"}) == config_digest({"url": "https://ada:two@host/"})
    assert config_digest({"long": "x" * 9_999 + "a"}) != config_digest({"long": "x" * 9_999 + "b"})
    disk = Disk(config={"root": "/data", "api_key": "secret"})
    await prepared(providers, disk, "reload")
    first = providers.status("disk").config_digest
    assert registry.snapshot().declarations[0].config_digest == first != ""
    disk.config = {"root": "/other", "api_key": "secret"}
    await providers.reload("disk")
    assert providers.status("disk").config_digest != first
    disk.config = {"root": object()}
    with pytest.raises(AuthorityError, match="could not be declared"):
        await providers.reload("disk")
    assert declared(registry) == []
