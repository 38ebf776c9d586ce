"""Sequential, AgentList, AgentDict, and the key paths through them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import retinue as rt
from agent_players import read
from retinue import llm
from team_players import Echo, contents, echo, said


async def echoes(system: rt.ActorSystem, *labels: str) -> dict[str, Any]:
    return {label: await system.spawn(Echo, [], label) for label in labels}


# -- Sequential ------------------------------------------------------------------------------------------------------------------------------------------


async def test_each_stage_is_told_what_the_one_before_it_answered() -> None:
    heard: list[tuple[str, Any]] = []

    class Stage(rt.Actor):
        @rt.handler
        async def answer(self, message: rt.AgentMessage) -> Any:
            heard.append((message.sender, message.content))
            return f"{message.content}+"

    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, {name: await system.spawn(Stage) for name in ("x", "y", "z")}, name="team")
        assert said(await team.ask("a")) == ("a+++", "z")
        assert heard == [("user", "a"), ("x", "a+"), ("y", "a++")]


@pytest.mark.parametrize(
    ("exit_at", "expected"),
    [(None, "c(b(a(x)))"), (0, "a(x)"), (1, "b(a(x))"), (2, "c(b(a(x)))"), (3, "a(c(b(a(x))))"), (5, "c(b(a(c(b(a(x))))))"), ("a", "a(x)"), ("b", "b(a(x))")],
)  # fmt: skip
async def test_a_run_ends_at_the_stage_that_is_named_and_begins_again_beyond_the_last(exit_at: Any, expected: str) -> None:
    async with rt.ActorSystem("teams") as system:
        members = await echoes(system, "a", "b", "c")
        made_so = await system.spawn(rt.Sequential, members, exit_at=exit_at)
        assert (await made_so.ask("x")).content == expected
        whole = await system.spawn(rt.Sequential, members)
        assert (await whole.ask(rt.Run("x", exit_at=exit_at))).content == expected
        assert (await made_so.ask(rt.Run("x", exit_at="b"))).content == "b(a(x))"


@pytest.mark.parametrize("exit_at", [-1, True, 1.0, "d", "", 1000, [1]], ids=repr)
async def test_an_exit_that_there_is_not_is_refused_before_anybody_is_asked(exit_at: Any) -> None:
    async with rt.ActorSystem("teams") as system:
        asked: list[Any] = []
        members = {"a": await system.spawn(Echo, asked, "a")}
        with pytest.raises(rt.DefinitionError, match="exit_at"):
            await system.spawn(rt.Sequential, members, exit_at=exit_at)
        team = await system.spawn(rt.Sequential, members)
        with pytest.raises(rt.BadInput, match="exit_at"):
            await team.ask(rt.Run("x", exit_at=exit_at))
        assert asked == []


async def test_an_agent_takes_no_exit_at() -> None:
    async with rt.ActorSystem("teams") as system:
        agent = await system.spawn(rt.Agent, model="scripted:x")
        with pytest.raises(rt.BadInput, match="Sequential"):
            await agent.ask(rt.Run("x", exit_at=1))


async def test_a_sequence_without_stages_is_none() -> None:
    async with rt.ActorSystem("teams") as system:
        with pytest.raises(rt.DefinitionError, match="at least one stage"):
            await system.spawn(rt.Sequential, [])
        team = await system.spawn(rt.Sequential, await echoes(system, "a"))
        await team.ask(rt.RemoveMember("a"))
        with pytest.raises(rt.BadInput, match="no stages any more"):
            await team.ask("x")


async def test_a_stage_that_is_paused_is_never_left_out_silently() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(rt.Sequential, await echoes(system, "a", "check", "c"))
        await team.ask(rt.PauseMember("check"))
        with pytest.raises(rt.MemberPaused, match="'check'"):
            await team.ask("x")
        assert (await team.ask(rt.Run("x", exit_at="a"))).content == "a(x)"


async def test_a_stream_tells_of_each_stage_in_turn_and_ends_once() -> None:
    async with rt.ActorSystem("teams") as system:
        inner = rt.Sequential.spec({"y": rt.Agent.spec(model="scripted:two"), "z": rt.Agent.spec(model="scripted:three")})
        team = await system.spawn(rt.Sequential, {"x": rt.Agent.spec(model="scripted:one"), "inner": inner}, name="team")
        events = [rt.innermost(event) for event in await read(team, "go")]
        ends = [(path, event.message.content) for path, event in events if isinstance(event, rt.RunEnd)]
        assert ends == [(("x",), "one"), (("inner", "y"), "two"), (("inner", "z"), "three"), (("inner",), "three"), ((), "three")]
        words: dict[tuple[str, ...], str] = {}
        for path, event in events:
            if isinstance(event, rt.TextDelta):
                words[path] = words.get(path, "") + event.text
        assert words == {("x",): "one", ("inner", "y"): "two", ("inner", "z"): "three"}


def stages(labels: list[str], cuts: list[int]) -> list[list[str]]:
    """The labels in groups."""
    found, rest = [], labels
    for cut in cuts:
        if 0 < cut < len(rest):
            found.append(rest[:cut])
            rest = rest[cut:]
    return [*found, rest]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 6), st.lists(st.integers(1, 3), max_size=3), st.lists(st.integers(1, 2), max_size=2), st.lists(st.text("abc ", min_size=1).filter(str.strip), min_size=1, max_size=3)
)  # fmt: skip
def test_sequences_of_sequences_say_what_the_flat_one_says(count: int, cuts: list[int], outer_cuts: list[int], words: list[str]) -> None:
    labels = [f"s{number}" for number in range(count)]

    async def main() -> None:
        async with rt.ActorSystem("teams") as system:
            members = await echoes(system, *labels)
            flat = await system.spawn(rt.Sequential, members)
            groups = [rt.Sequential.spec({label: members[label] for label in group}) for group in stages(labels, cuts)]
            nested = await system.spawn(rt.Sequential, [rt.Sequential.spec(list(some)) for some in stages(groups, outer_cuts)])  # type: ignore[arg-type]
            for word in words:
                assert (await nested.ask(word)).content == (await flat.ask(word)).content
            assert await contents(nested) == await contents(flat)

    rt.run(main)


# -- AgentList, AgentDict ------------------------------------------------------------------------------------------------------------------------------


async def test_a_message_goes_to_its_receiver_and_a_container_remembers_nothing_itself() -> None:
    async with rt.ActorSystem("teams") as system:
        model = await system.spawn(llm.Scripted, echo)
        agents = await system.spawn(rt.AgentDict, {name: rt.Agent.spec(model=model) for name in ("ada", "bob")}, name="agents")
        assert said(await agents.ask(rt.AgentMessage("hi", receiver="bob"))) == ("hi", "bob")
        assert await contents(agents) == await contents(agents, path="ada") == []
        assert await contents(agents, path="bob") == ["hi", "hi"]
        for receiver in (None, "eve"):
            with pytest.raises(rt.NoSuchMember, match="'ada', 'bob'"):
                await agents.ask(rt.AgentMessage("hi", receiver=receiver))


async def test_a_list_numbers_its_agents_and_never_gives_a_number_twice() -> None:
    async with rt.ActorSystem("teams") as system:
        spec = rt.Agent.spec(model="scripted:x")
        agents = await system.spawn(rt.AgentList, [spec, spec], name="kids")
        await agents.ask(rt.RemoveMember("1"))
        await agents.ask(rt.AddMember("", spec))
        await agents.ask(rt.AddMember("3", spec))
        with pytest.raises(rt.DefinitionError, match="the next in the list is 4"):
            await agents.ask(rt.AddMember("bob", spec))
        assert [member.name for member in await agents.ask(rt.GetMembers())] == ["0", "2", "3"]
        assert (await agents.ask(rt.AgentMessage("hi", receiver="3"))).sender == "3"
        assert (await system.spawn(rt.AgentList)).alive
        with pytest.raises(rt.DefinitionError, match="AgentDict"):
            await system.spawn(rt.AgentList, {"bob": spec})


async def test_what_could_not_be_added_to_a_list_has_taken_no_number() -> None:
    async with rt.ActorSystem("teams") as system:
        spec = rt.Agent.spec(model="scripted:x")
        agents = await system.spawn(rt.AgentList, [("4", spec), spec])
        with pytest.raises(rt.DefinitionError):
            await agents.ask(rt.AddMember("", 5))
        await agents.ask(rt.AddMember("", spec))
        assert [member.name for member in await agents.ask(rt.GetMembers())] == ["4", "1", "5"]


# -- key paths -----------------------------------------------------------------------------------------------------------------------------------------


async def family(system: rt.ActorSystem, **options: Any) -> Any:
    """A team of a writer, and of kids in a list, and of a table."""
    model = await system.spawn(llm.Scripted, echo)
    spec = rt.Agent.spec(model=model)

    class Family(rt.Team):
        async def forward(self, run: rt.TeamRun) -> str:
            run.state["runs"] = run.state.get("runs", 0) + 1
            draft = await run.ask("writer", run.message)
            await run.ask("kids", rt.AgentMessage(draft.content, receiver="0"))
            await run.ask("table", "to the inner team")
            return f"done with {run.message.content}"

    table = rt.Sequential.spec({"key": spec})
    return await system.spawn(Family, {"writer": spec, "kids": rt.AgentList.spec([spec, spec]), "table": table}, name="family", **options)


async def test_the_state_stands_under_key_paths_depth_first() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await family(system)
        assert list(await team.ask(rt.GetState())) == [
            "version",
            "memory",
            "writer.memory",
            "kids.0.memory",
            "kids.1.memory",
            "table.memory",
            "table.key.memory",
        ]
        await team.ask("hi")
        state = await team.ask(rt.GetState())
        assert {key: [entry["content"] for entry in state[key]] for key in state if key.endswith("memory")} == {
            "memory": ["hi", "done with hi"], "writer.memory": ["hi", "hi"], "kids.0.memory": ["hi", "hi"], "kids.1.memory": [],
            "table.memory": ["to the inner team"] * 2, "table.key.memory": ["to the inner team"] * 2,
        }  # fmt: skip
        assert state["state"] == {"runs": 1}
        assert list(await team.ask(rt.GetState(path="table"))) == ["version", "memory", "key.memory"]
        assert list(await team.ask(rt.GetState(path="kids"))) == ["version", "0.memory", "1.memory"]
        assert json.loads(json.dumps(state)) == state


async def test_a_state_is_loaded_into_a_session_that_was_never_used() -> None:
    async with rt.ActorSystem("teams") as system:
        team, other = await family(system), await system.spawn(rt.Sequential, [rt.Agent.spec(model="scripted:x")])
        await team.ask(rt.AgentMessage("hi", session="7"))
        state = await team.ask(rt.GetState("7"))
        await team.ask(rt.LoadState(state, "new"))  # its keys come from no session
        assert await team.ask(rt.GetState("new")) == state | {"state": {"runs": 1}}
        await team.ask(rt.AgentMessage("again", session="new"))
        assert (await team.ask(rt.GetState("new")))["state"] == {"runs": 2}
        assert (await team.ask(rt.GetState()))["memory"] == []
        with pytest.raises(rt.UnknownStateKey):
            await other.ask(rt.LoadState(state))


def changed(before: dict[str, Any], /, **changes: Any) -> dict[str, Any]:
    return {**before, **{key.replace("__", "."): value for key, value in changes.items()}}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda s: {key: value for key, value in s.items() if key != "kids.1.memory"}, rt.UnknownStateKey, r"no 'kids\.1\.memory'"),
        (lambda s: {key: value for key, value in s.items() if key != "memory"}, rt.UnknownStateKey, "no 'memory'"),
        (lambda s: changed(s, kids__2__memory=[]), rt.UnknownStateKey, r"kids\.2\.memory"),
        (lambda s: changed(s, kids__memory=[]), rt.UnknownStateKey, r"kids\.memory"),
        (lambda s: changed(s, wirter__memory=[]), rt.UnknownStateKey, r"did you mean 'writer\.memory'"),
        (lambda s: changed(s, writer__state={}), rt.UnknownStateKey, r"writer\.state"),
        (lambda s: changed(s, table__key__memory=[{"content": "x"}]), rt.BadState, r"table\.key\.memory\[0\] has no 'sender'"),
        (lambda s: changed(s, memory="x"), rt.BadState, "memory is a str"), (lambda s: changed(s, state=[1]), rt.BadState, "state is a list"),
        (lambda s: changed(s, state={"x": {1, 2}}), rt.BadState, "no plain data"), (lambda s: changed(s, table__state=3), rt.BadState, r"table\.state is a int"),
        (lambda s: changed(s, version=99), rt.BadState, "version 99"), (lambda s: list(s), rt.BadState, "is a list"), (lambda s: {}, rt.UnknownStateKey, "no 'memory'"),
    ],
    ids=["missing", "own missing", "too many", "of a container", "misspelt", "state of an agent", "bad item", "bad list", "bad state", "state not plain", "inner state", "version", "list", "empty"],
)  # fmt: skip
async def test_a_state_with_anything_wrong_in_it_is_not_loaded_at_all(change: Any, error: Any, text: str) -> None:
    async with rt.ActorSystem("teams") as system:
        team = await family(system)
        await team.ask("hi")
        before = await team.ask(rt.GetState())
        with pytest.raises(error, match=text):
            await team.ask(rt.LoadState(change({**before, "memory": []})))
        assert await team.ask(rt.GetState()) == before


async def test_a_load_that_fails_in_its_middle_is_undone() -> None:
    class Stubborn(rt.Actor):
        """Has a state, and does not let go of it."""

        @rt.handler
        async def get(self, message: rt.GetState) -> dict[str, Any]:
            return {"version": 1, "memory": []}

        @rt.handler(raises=Exception)
        async def load(self, message: rt.LoadState) -> None:
            raise rt.BadState("not mine")

        @rt.handler
        async def answer(self, message: rt.AgentMessage) -> Any:
            return "x"

    async with rt.ActorSystem("teams") as system:
        team = await system.spawn(
            rt.Sequential,
            {"a": rt.Agent.spec(model="scripted:x"), "odd": await system.spawn(Stubborn), "b": rt.Agent.spec(model="scripted:y")},
        )
        await team.ask("hi")
        before = await team.ask(rt.GetState())
        with pytest.raises(rt.BadState, match="not mine"):
            await team.ask(rt.LoadState({key: 1 if key == "version" else [] for key in before}))
        assert await team.ask(rt.GetState()) == before


async def test_one_agents_memory_is_cleared_by_its_path_all_of_them_recursively_and_nothing_else() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await family(system)
        for session in ("0", "s"):
            await team.ask(rt.AgentMessage("hi", session=session))

        async def left(session: str) -> set[str]:
            return {key for key, value in (await team.ask(rt.GetState(session))).items() if key != "version" and value}

        everything = {"memory", "state", "writer.memory", "kids.0.memory", "table.memory", "table.key.memory"}
        assert await left("0") == everything
        await team.ask(rt.ClearMemory(path="kids.0"))
        assert await left("0") == everything - {"kids.0.memory"}
        await team.ask(rt.ClearMemory(path="table"))
        assert await left("0") == everything - {"kids.0.memory", "table.memory"}
        await team.ask(rt.ClearMemory())
        assert await left("0") == {"writer.memory", "table.key.memory"}
        await team.ask(rt.ClearMemory(recursive=True))
        assert await left("0") == set()
        assert await left("s") == everything
        with pytest.raises(rt.UnknownStateKey, match="give one of them"):
            await team.ask(rt.ClearMemory(path="writer", recursive=True))


@pytest.mark.parametrize("path", ["nobody", "writer.inner", "kids.7", "kids.0.x", "table.key.", ".", "writr", 3], ids=repr)
async def test_a_path_to_nobody_is_an_error_for_whatever_is_asked(path: Any) -> None:
    async with rt.ActorSystem("teams") as system:
        team = await family(system)
        for message in (
            rt.GetMemory(path=path),
            rt.GetState(path=path),
            rt.ClearMemory(path=path),
            rt.LoadState({"memory": []}, path=path),
        ):
            if path == "table.key.":
                continue
            with pytest.raises(rt.UnknownStateKey):
                await team.ask(message)


async def test_the_others_forget_where_one_cannot_and_that_is_told() -> None:
    async with rt.ActorSystem("teams") as system:
        names = ("a", "dead", "b")
        agents = {name: await system.spawn(rt.Agent, model="scripted:x", name=name) for name in names}
        team = await system.spawn(rt.Sequential, agents)
        await team.ask("hi")
        await agents["dead"].stop()
        with pytest.raises(rt.ActorStopped):
            await team.ask(rt.ClearMemory(recursive=True))
        assert [await contents(agents[name]) for name in ("a", "b")] == [[], []]
        assert await contents(team) == []


async def test_the_root_reads_and_changes_a_subjects_memory_at_every_level() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await family(system)
        ada = system.authority.mint("ada", ["**"])
        await team.ask("hi", context=ada)
        state = await team.ask(rt.GetState(), context=ada)
        assert await team.ask(rt.GetState(subject="ada")) == state
        assert state["table.key.memory"]
        await team.ask(rt.ClearMemory(subject="ada", path="table.key"))
        assert (await team.ask(rt.GetState(), context=ada))["table.key.memory"] == []
        await team.ask(rt.ClearMemory(subject="ada", recursive=True))
        assert all(value in ([], 1) for value in (await team.ask(rt.GetState(), context=ada)).values())
        await team.ask(rt.LoadState(state, subject="ada"))
        assert await team.ask(rt.GetState(), context=ada) == state
        assert all(value in ([], 1) for value in (await team.ask(rt.GetState())).values())


async def test_what_is_no_member_any_more_is_in_no_state() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await family(system)
        await team.ask("hi")
        await team.ask(rt.RemoveMember("kids"))
        await team.ask(rt.AddMember("plain", await system.spawn(Echo, [], "p")))  # one that remembers nothing
        assert list(await team.ask(rt.GetState())) == ["version", "memory", "state", "writer.memory", "table.memory", "table.key.memory"]


async def test_the_memory_of_a_session_that_was_never_used_is_empty_and_no_error() -> None:
    async with rt.ActorSystem("teams") as system:
        team = await family(system)
        assert (await team.ask(rt.GetMemory("never"))).items == ()
        assert (await team.ask(rt.GetMemory("never", path="kids.1"))).items == ()
        assert all(value in ([], 1) for value in (await team.ask(rt.GetState("never"))).values())


_TREES = st.recursive(
    st.just("agent"),
    lambda inner: st.tuples(st.sampled_from(["sequence", "list", "dict"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_TREES, min_size=1, max_size=3), st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=3))
def test_a_state_that_is_loaded_is_the_state_that_was_got_for_any_tree(trees: list[Any], words: list[str]) -> None:
    async def main() -> None:
        async with rt.ActorSystem("teams") as system:
            model = await system.spawn(llm.Scripted, echo)

            def spec(tree: Any) -> rt.AgentSpec:
                if tree == "agent":
                    return rt.Agent.spec(model=model)
                kind, inner = tree
                if kind == "dict":
                    return All.spec({f"k{number}": spec(one) for number, one in enumerate(inner)})
                return (All if kind == "list" else rt.Sequential).spec([spec(one) for one in inner])

            team = await system.spawn(All, [spec(tree) for tree in trees])
            for word in words:
                try:
                    word.encode()
                    await team.ask(rt.AgentMessage(word, session="a"))
                except UnicodeEncodeError:
                    continue
            state = await team.ask(rt.GetState("a"))
            await team.ask(rt.LoadState(json.loads(json.dumps(state)), "b"))
            assert await team.ask(rt.GetState("b")) == state
            await team.ask(rt.LoadState(state, "a"))
            assert await team.ask(rt.GetState("a")) == state
            assert len(state) >= 2 + len(trees)

    rt.run(main)


class All(rt.Team):
    """Asks all members at once."""

    async def forward(self, run: rt.TeamRun) -> str:
        run.state["last"] = run.message.content
        return "|".join(str(answer.content) for answer in await run.gather([(name, run.message) for name in run.members]))
