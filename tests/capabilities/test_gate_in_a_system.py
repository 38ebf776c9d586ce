"""What the gate is given, in a running system: a registry, its providers, a policy file; none of them can be changed by a handler."""

import pytest

import retinue as rt

POLICY = """
version = 1

[[rule]]
operations = ["fs.read"]
arguments = { path = { within = ["reports/"] } }
verdict = "allow"
"""


@rt.message
class Read(rt.Request[str]):
    path: str


@rt.message
class Meddle(rt.Request[str]):
    how: str


class Files(rt.Actor):
    @rt.handler(requires="fs.read", risk="L0")
    def read(self, message: Read) -> str:
        return message.path


class Meddler(rt.Actor):
    def __init__(self, registry, file):
        self.registry = registry
        self.file = file

    @rt.handler(raises=rt.Denied)
    def meddle(self, message: Meddle) -> str:
        if message.how == "declare":
            self.registry.declare(rt.Capability("fs.delete", "L0"))
        elif message.how == "withdraw":
            self.registry.withdraw("fs.read")
        else:
            self.file.reload()
        return "done"


async def test_what_is_withdrawn_is_refused_at_once_although_its_verdict_was_kept():
    registry = rt.CapabilityRegistry([rt.Capability("fs.read", "L0")])
    async with rt.ActorSystem("files", capabilities=registry) as system:
        files = await system.spawn(Files)
        for _ in range(3):
            assert await files.ask(Read("a")) == "a"
        registry.withdraw("fs.read")
        with pytest.raises(rt.Denied, match="is not declared") as caught:
            await files.ask(Read("a"))
        assert caught.value.reason == "unknown_operation"
        registry.declare(rt.Capability("fs.read", "L0"))
        assert await files.ask(Read("a")) == "a"
        records = await system.audit.entries()
        assert [(entry.operation, entry.reason) for entry in records if not entry.allowed] == [("fs.read", "unknown_operation")]


async def test_what_a_provider_provides_is_permitted_exactly_while_it_runs():
    class Disk:
        name = "disk"
        capabilities = (rt.Capability("fs.read", "L0"),)

    registry = rt.CapabilityRegistry()
    providers = rt.CapabilityProviders(registry)
    async with rt.ActorSystem("files", capabilities=registry) as system:
        files = await system.spawn(Files)
        for _ in range(2):
            async with providers.running(Disk()):
                assert await files.ask(Read("a")) == "a"
                assert await files.ask(Read("a")) == "a"
            with pytest.raises(rt.Denied):
                await files.ask(Read("a"))


async def test_a_policy_file_decides_and_its_reload_counts_from_the_next_message_on(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    file = rt.policy_from_file(path)
    async with rt.ActorSystem("files", policies=[file]) as system:
        files = await system.spawn(Files)
        assert await files.ask(Read("reports/a.txt")) == "reports/a.txt"
        for bad in ("secret.txt", "reports/../secret.txt"):
            with pytest.raises(rt.Denied, match=r"no rule of 'policy\.toml' fits"):
                await files.ask(Read(bad))
        path.write_text("", encoding="utf-8")
        file.reload()
        with pytest.raises(rt.Denied, match="refuses everything, because it is empty"):
            await files.ask(Read("reports/a.txt"))


@pytest.mark.parametrize("how", ["declare", "withdraw", "reload"])
async def test_a_handler_changes_neither_the_registry_nor_a_policy_file(tmp_path, how):
    registry = rt.CapabilityRegistry([rt.Capability("fs.read", "L0")])
    path = tmp_path / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    file = rt.policy_from_file(path)
    async with rt.ActorSystem("files", policies=[file], capabilities=registry) as system:
        meddler = await system.spawn(Meddler, registry, file)
        before = registry.snapshot().digest
        path.write_text(POLICY.replace("reports/", "/"), encoding="utf-8")
        with pytest.raises(rt.Denied, match="inside a handler"):
            await meddler.ask(Meddle(how))
        assert registry.snapshot().digest == before
        file.reload()  # the system's holder may


@pytest.mark.parametrize(
    "options",
    [{"policies": [object()]}, {"policies": "policy"}, {"policy_timeout": 0}, {"capabilities": {}}, {"policies": [rt.policy]}],
)
def test_what_is_malformed_is_refused_when_the_system_is_made(options):
    with pytest.raises(rt.DefinitionError):
        rt.ActorSystem("files", **options)
