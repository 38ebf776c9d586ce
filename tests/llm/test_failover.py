"""Fail-over: a sticky primary, cooldowns that all askers share, and nothing after the first piece of an answer was passed on."""

from __future__ import annotations

import pytest
import trio

import retinue as rt
from failing_models import Puppet, events_of, said, stall, text_of
from retinue import llm

DOWN = llm.ModelFailed("overloaded", status=503)


async def group(system, *acts, kind=llm.Failover, **options):
    """A fail-over over one puppet for each argument, each a list of acts; and the puppets' refs."""
    refs = [await system.spawn(Puppet, *act, name=name) for act, name in zip(acts, "abcdef", strict=False)]
    return await system.spawn(kind, refs, name="model", **options), refs


async def states(model):
    return [(one.state, round(one.seconds, 1)) for one in await model.ask(llm.GetMembers())]


async def test_the_first_member_answers_as_long_as_it_can():
    async with rt.ActorSystem() as system:
        model, _ = await group(system, ["A"], ["B"])
        assert [await text_of(model) for _ in range(3)] == ["A"] * 3
        assert [one.asked for one in await model.ask(llm.GetMembers())] == [3, 0]


async def test_a_member_that_fails_is_left_at_once_and_tried_again_when_its_cooldown_is_over(autojump_clock):
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [DOWN, "A"], ["B"], cooldown=30)
        began = trio.current_time()
        assert await text_of(model) == "B"
        assert trio.current_time() == began  # at once: nobody waited
        assert await states(model) == [("cooling", 30.0), ("ready", 0.0)]
        await trio.sleep(29)
        assert await text_of(model) == "B"
        await trio.sleep(1)
        assert await states(model) == [("due", 0.0), ("ready", 0.0)]
        assert await text_of(model) == "A"
        assert await states(model) == [("ready", 0.0), ("ready", 0.0)]
        [first, _] = await model.ask(llm.GetMembers())
        assert (first.path, first.asked, first.failed, first.error, first.outstanding) == ("/user/a", 2, 1, "model.failed", 0)


async def test_a_cooldown_is_shared_by_all_who_ask():
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [DOWN], ["B"])
        ada, eve = (system.authority.mint(name, ["model.complete"]) for name in ("ada", "eve"))
        assert await text_of(model, context=ada) == "B"
        assert await text_of(model, context=eve) == "B"
        assert [one.asked for one in await model.ask(llm.GetMembers())] == [1, 2]


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (llm.ModelFailed("x", status=500), 30),
        (llm.ModelFailed("x", status=529), 30),
        (llm.ModelFailed("x", status=503, retry_after=7.5), 7.5),
        (llm.ModelUnreachable("x"), 30),
        (llm.ModelTimeout("x"), 30),
        (llm.ModelTimeout("x", status=408), 30),
        (llm.ModelRefused("x", status=408), 30),
        (llm.ModelRefused("x", status=409), 30),
        (llm.ModelRefused("x", status=425), 30),
        (llm.RateLimited("x", status=429), 30),
        (llm.RateLimited("x", status=429, retry_after=120), 120),
        (llm.RateLimited("x", status=429, retry_after=0.0), 30),
        (llm.ModelFailed("x", status=503, retry_after=-5.0), 30),
        (llm.RateLimited("x", status=429, retry_after=1e9), 3600),
        (llm.KeyRefused("x", status=401), 600),
        (llm.KeyRefused("x", status=403), 600),
        (llm.QuotaExceeded("x", status=429), 600),
        (llm.ModelRefused("x", status=402), 600),
        (llm.ModelRefused("x", status=404), 600),
        (llm.BadEndpoint("x"), 600),
        (llm.ModelNotInstalled("x"), 600),
        (llm.BadReply("x"), 30),
        (llm.WrongEndpoint("x", status=200), 30),
        (llm.StreamTruncated("x"), 30),
        (llm.BadStreamEvent("x"), 30),
        (llm.ModelError("x"), 30),
        (llm.AllMembersFailed("x", retry_after=5), 5),
        (ZeroDivisionError("a bug of the member's"), 30),
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'status', '')}-{getattr(value, 'retry_after', '')}",
)
async def test_how_long_a_member_cools_depends_on_what_it_failed_with(error, seconds, autojump_clock):
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [error], ["B"])
        assert await text_of(model) == "B"
        assert (await states(model))[0] == ("cooling", seconds)


@pytest.mark.parametrize("error", [llm.EmptyReply("x"), llm.AllMembersFailed("x")], ids=lambda error: type(error).__name__)
async def test_what_says_nothing_of_the_member_takes_the_request_on_and_cools_nobody(error):
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [error], ["B"])
        assert await text_of(model) == "B"
        assert (await states(model))[0] == ("ready", 0.0)


@pytest.mark.parametrize(
    "error",
    [
        llm.ModelRefused("unknown parameter (request id req_4293), timeout, connection, 503", status=400),
        llm.ModelRefused("x", status=413),
        llm.ModelRefused("x", status=422),
        llm.ContextOverflow("x", status=400, limit=10, used=20),
        llm.ContentFiltered("x", status=400),
        llm.ScriptEnded("x"),
    ],
    ids=lambda error: f"{type(error).__name__}-{error.status}",
)
async def test_a_request_that_is_refused_for_its_own_sake_is_not_taken_to_others(error):
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [error], ["B"])
        with pytest.raises(type(error)) as caught:
            await text_of(model)
        assert type(caught.value) is type(error)
        assert await states(model) == [("ready", 0.0), ("ready", 0.0)]


async def test_a_text_full_of_alarming_words_is_not_what_counts():
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [llm.ModelRefused("rate limit 429 timeout 503 overloaded unauthorized 401", status=400)], ["B"])
        with pytest.raises(llm.ModelRefused, match="rate limit 429"):
            await text_of(model)


async def test_a_conversation_that_is_too_long_goes_to_the_next_where_that_is_wished():
    overflow = llm.ContextOverflow("too long", status=400, limit=10, used=20)
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [overflow], ["B"], on_overflow=True)
        assert await text_of(model) == "B"
        assert (await states(model))[0] == ("ready", 0.0)


async def test_where_it_is_too_long_for_all_the_error_says_so():
    overflow = llm.ContextOverflow("too long", status=400, limit=10, used=20)
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [overflow], [overflow], on_overflow=True)
        with pytest.raises(llm.ContextOverflow) as caught:
            await text_of(model)
        assert (caught.value.limit, caught.value.used) == (10, 20)


async def test_where_all_fail_the_error_names_each_of_them(autojump_clock):
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [DOWN], [llm.RateLimited("slow down", status=429, retry_after=12)])
        with pytest.raises(llm.AllMembersFailed) as caught:
            await text_of(model)
        text = str(caught.value)
        assert "/user/model" in text and "/user/a: ModelFailed, 503: overloaded" in text and "/user/b: RateLimited, 429: slow down" in text
        assert "12 s" in text and caught.value.retry_after == pytest.approx(12)
        assert [type(error) for error in caught.value.errors] == [llm.ModelFailed, llm.RateLimited]
        assert isinstance(caught.value.__cause__, llm.RateLimited)


async def test_where_all_cool_the_one_that_is_ready_first_is_asked_and_no_other(autojump_clock):
    limited = llm.RateLimited("x", status=429, retry_after=5)
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [DOWN], [limited, limited, "B"], [llm.KeyRefused("x", status=401)], cooldown=30)
        with pytest.raises(llm.AllMembersFailed):
            await text_of(model)
        with pytest.raises(llm.AllMembersFailed, match="2 more are left alone"):  # /user/b is asked, fails again, and that is all
            await text_of(model)
        assert [one.asked for one in await model.ask(llm.GetMembers())] == [1, 2, 1]
        assert await text_of(model) == "B"
        assert await states(model) == [("cooling", 30.0), ("ready", 0.0), ("cooling", 600.0)]


async def test_one_asker_at_a_time_tries_a_member_whose_cooldown_is_over(autojump_clock):
    release = trio.Event()

    async def slowly():
        await release.wait()
        return "A"

    async with rt.ActorSystem() as system, trio.open_nursery() as nursery:
        model, _ = await group(system, [DOWN, slowly], ["B"])
        await text_of(model)
        await trio.sleep(31)
        answers = []

        async def ask():
            answers.append(await text_of(model))

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert (await states(model))[0] == ("probing", 0.0)
        for _ in range(5):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == ["B"] * 5
        release.set()
        await trio.testing.wait_all_tasks_blocked()
        assert answers[5:] == ["A"]
        assert await text_of(model) == "A"


async def test_a_probe_that_is_given_up_lets_the_next_asker_try(autojump_clock):
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [DOWN, stall, "A"], ["B"])
        await text_of(model)
        await trio.sleep(31)
        with pytest.raises(rt.AskTimeout):
            await text_of(model, timeout=5)
        await trio.testing.wait_all_tasks_blocked()  # the worker unwinds after its asker has been told
        [first, _] = await model.ask(llm.GetMembers())
        assert (first.state, first.outstanding) == ("due", 0)
        assert await text_of(model) == "A"


async def test_a_probe_that_fails_cools_the_member_again(autojump_clock):
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [DOWN], ["B"])
        for _ in range(2):
            assert await text_of(model) == "B"
            assert (await states(model))[0] == ("cooling", 30.0)
            await trio.sleep(30)
        assert [one.asked for one in await model.ask(llm.GetMembers())] == [2, 2]


async def test_a_stream_fails_over_before_its_first_piece_and_says_so():
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [DOWN], ["B"])
        events = await events_of(model)
        assert events[0] == llm.Retrying("/user/a failed (ModelFailed); /user/b is asked", 2, 0.0)
        assert events[1:] == [llm.TextDelta("B"), said("B")]


@pytest.mark.parametrize("error", [llm.StreamTruncated("cut"), llm.ModelUnreachable("reset"), llm.ModelInterrupted("cut"), KeyError("bug")])
async def test_after_the_first_piece_nothing_is_failed_over(error):
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [[llm.TextDelta("Hel"), error]], ["B"])
        seen = []
        with pytest.raises(llm.ModelInterrupted):
            async with model.stream(llm.CompleteStream.of("hello")) as stream:
                async for event in stream:
                    seen.append(event)
        assert seen == [llm.TextDelta("Hel")]
        assert [one.asked for one in await model.ask(llm.GetMembers())] == [1, 0]
        assert (await states(model))[0][0] == "cooling"


async def test_a_plain_request_has_passed_nothing_on_and_may_fail_over_when_the_answer_breaks_off():
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [[llm.TextDelta("Hel"), llm.StreamTruncated("cut")]], ["B"])
        assert await text_of(model) == "B"


async def test_a_member_that_would_rather_wait_and_try_again_is_left_for_one_that_is_ready(autojump_clock):
    async def wait():
        await trio.sleep(45)
        return "A at last"

    waits = [llm.Retrying("busy", 2, 45.0), wait]
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [waits], ["B"])
        began = trio.current_time()
        assert await text_of(model) == "B"
        assert trio.current_time() == began
        assert await states(model) == [("cooling", 45.0), ("ready", 0.0)]


async def test_the_last_that_is_left_may_wait_and_the_reader_sees_that_it_does(autojump_clock):
    async def wait():
        await trio.sleep(4)
        return "B at last"

    async with rt.ActorSystem() as system:
        model, _ = await group(system, [DOWN], [[llm.Retrying("busy", 2, 4.0), wait]])
        events = await events_of(model)
        assert [type(event) for event in events] == [llm.Retrying, llm.Retrying, llm.TextDelta, llm.Completed]
        assert events[1] == llm.Retrying("busy", 2, 4.0)


async def test_a_failover_may_be_a_member_and_its_own_failing_over_does_not_put_it_off():
    async with rt.ActorSystem() as system:
        inner, _ = await group(system, [DOWN], ["B"])
        spare = await system.spawn(Puppet, "spare", name="spare")
        outer = await system.spawn(llm.Failover, [inner, spare], name="outer")
        assert await text_of(outer) == "B"


async def test_a_failover_all_of_whose_members_fail_cools_as_long_as_it_says(autojump_clock):
    async with rt.ActorSystem() as system:
        inner, _ = await group(system, [llm.RateLimited("x", status=429, retry_after=9)])
        spare = await system.spawn(Puppet, "spare", name="spare")
        outer = await system.spawn(llm.Failover, [inner, spare], name="outer")
        assert await text_of(outer) == "spare"
        assert (await states(outer))[0] == ("cooling", 9.0)


async def test_the_askers_authority_is_what_counts_and_a_refusal_is_not_failed_over():
    async with rt.ActorSystem() as system:
        model, _ = await group(system, ["A"], ["B"])
        short = system.authority.mint("ada", ["model.complete"]).narrow(rt.where("model.complete", max_tokens=rt.at_most(5)))
        with pytest.raises(rt.Denied):
            await model.ask(llm.Complete.of("hello", max_tokens=50), context=short)
        assert (await model.ask(llm.Complete.of("hello", max_tokens=5), context=short)).text == "A"
        assert [one.asked for one in await model.ask(llm.GetMembers())] == [1, 0]


class Guarded(llm.Deployment):
    """A member that takes an operation of its own."""

    async def complete_once(self, request):
        raise AssertionError("nobody is let in here")

    @rt.handler(requires="model.dear")
    async def stream(self, request: llm.CompleteStream):
        yield said(f"dear {request.messages[0].content}")


async def test_a_member_that_refuses_the_asker_is_not_passed_over_for_one_that_would_not():
    async with rt.ActorSystem() as system:
        dear = await system.spawn(Guarded, name="dear")
        spare = await system.spawn(Puppet, "spare", name="spare")
        model = await system.spawn(llm.Failover, [dear, spare], name="model")
        ada = system.authority.mint("ada", ["model.complete"])
        with pytest.raises(rt.Denied) as caught:
            await text_of(model, context=ada)
        assert (caught.value.operation, caught.value.subject) == ("model.dear", "ada")
        assert [one.failed for one in await model.ask(llm.GetMembers())] == [0, 0]
        assert await text_of(model, context=system.authority.mint("eve", ["model.**"])) == "dear hello"


async def test_a_member_that_has_stopped_is_passed_over(autojump_clock):
    async with rt.ActorSystem() as system:
        model, [first, _] = await group(system, ["A"], ["B"])
        await first.stop()
        assert await text_of(model) == "B"
        assert (await states(model))[0] == ("cooling", 600.0)


async def test_the_askers_deadline_ends_the_request_and_harms_no_member(autojump_clock):
    async with rt.ActorSystem() as system:
        model, _ = await group(system, [stall], ["B"])
        with pytest.raises(rt.AskTimeout):
            await text_of(model, timeout=3)
        await trio.testing.wait_all_tasks_blocked()
        assert [(one.state, one.outstanding, one.failed) for one in await model.ask(llm.GetMembers())] == [("ready", 0, 0)] * 2


async def test_an_asker_that_gives_up_stops_the_member_within_the_turn():
    stopped = trio.Event()

    async def until_stopped():
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async with rt.ActorSystem() as system:
        model, _ = await group(system, [until_stopped])
        with trio.move_on_after(0.05):
            await text_of(model)
        with trio.fail_after(5):
            await stopped.wait()


async def test_a_reader_that_leaves_stops_the_member():
    stopped = trio.Event()

    async def until_stopped():
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async with rt.ActorSystem() as system:
        model, _ = await group(system, [[llm.TextDelta("Hel"), until_stopped]])
        async with model.stream(llm.CompleteStream.of("hello")) as stream:
            async for _ in stream:
                break
        with trio.fail_after(5):
            await stopped.wait()
        [only] = await model.ask(llm.GetMembers())
        assert (only.outstanding, only.failed) == (0, 0)


async def test_many_ask_at_once_and_a_slow_member_keeps_no_one_waiting(autojump_clock):
    async def slowly():
        await trio.sleep(1)
        return "A"

    async with rt.ActorSystem() as system:
        model, _ = await group(system, [slowly])
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(300):
                nursery.start_soon(text_of, model)
        assert trio.current_time() - began == pytest.approx(1, abs=0.1)


async def test_members_may_be_given_by_name_and_are_the_failovers_children():
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Failover, ["scripted:one", "scripted:two"], name="model")
        assert await text_of(model) == "one"
        assert [one.path for one in await model.ask(llm.GetMembers())] == ["/user/model/member-0", "/user/model/member-1"]


async def test_how_the_members_stand_is_not_everybodys_business():
    async with rt.ActorSystem() as system:
        model, _ = await group(system, ["A"])
        with pytest.raises(rt.Denied):
            await model.ask(llm.GetMembers(), context=system.authority.mint("ada", ["model.complete"]))


@pytest.mark.parametrize(
    ("members", "options", "error", "said_of_it"),
    [
        ([], {}, ValueError, "1 to 256"),
        ("openai:gpt-4.1", {}, TypeError, "give a list"),
        ([1], {}, TypeError, "a member of a Failover is a int"),
        (["opnai:gpt-4.1"], {}, llm.BadEndpoint, 'did you mean "openai:gpt-4.1"'),
        (["scripted:x"], {"cooldown": -1}, ValueError, "cooldown=-1"),
        (["scripted:x"], {"cooldown": float("nan")}, ValueError, "cooldown=nan"),
        (["scripted:x"], {"auth_cooldown": True}, ValueError, "auth_cooldown=True"),
        (["scripted:x"], {"concurrency": 0}, ValueError, "concurrency=0"),
    ],
    ids=["none", "text", "number", "unknown-name", "negative", "nan", "bool", "no-workers"],
)
async def test_members_and_numbers_that_cannot_be_are_refused_to_the_spawner(members, options, error, said_of_it):
    async with rt.ActorSystem() as system:
        with pytest.raises(error, match=said_of_it):
            await system.spawn(llm.Failover, members, name="model", **options)


async def test_a_member_is_named_once():
    async with rt.ActorSystem() as system:
        one = await system.spawn(Puppet, "A", name="a")
        with pytest.raises(ValueError, match="/user/a is a member of a Failover twice"):
            await system.spawn(llm.Failover, [one, one])


async def test_what_is_no_deployment_is_found_out_when_it_is_given():
    class Other(rt.Actor):
        pass

    async with rt.ActorSystem() as system:
        other = await system.spawn(Other)
        with pytest.raises(rt.DefinitionError, match="a member of a Failover is the ref of /user/"):
            await system.spawn(llm.Failover, [other], name="model")


async def test_a_stream_that_goes_on_does_not_make_a_member_well_that_fails_others(autojump_clock):
    async def pause():
        await trio.sleep(10)

    async with rt.ActorSystem() as system:
        long = [part for _ in range(20) for part in (llm.TextDelta("A"), pause)]
        model, _ = await group(system, [[*long, said("A")], llm.KeyRefused("x", status=401)], ["B"], auth_cooldown=600)
        async with model.stream(llm.CompleteStream.of("hello")) as events:
            await anext(events)
            for _ in range(10):
                assert await text_of(model) == "B"
                await anext(events)
            assert [(one.state, one.asked, one.failed) for one in await model.ask(llm.GetMembers())] == [
                ("cooling", 2, 1),
                ("ready", 10, 0),
            ]


class Narrow(llm.Deployment):
    """Takes one request at a time, and says nothing to any for a second."""

    def __init__(self, again):
        super().__init__(1)
        self.again = again

    async def stream_once(self, request):
        await trio.sleep(1)
        if self.again:
            yield llm.Retrying("it said nothing", 2, 5.0, "model.timeout")
        raise llm.ModelTimeout("it said nothing")


@pytest.mark.parametrize("again", [False, True])
async def test_who_queues_for_a_member_that_hangs_goes_on_to_one_that_is_ready_when_the_first_has_waited_in_vain(again, autojump_clock):
    async with rt.ActorSystem() as system:
        refs = [await system.spawn(Narrow, again, name="hangs"), await system.spawn(Puppet, "B", name="well")]
        model = await system.spawn(llm.Failover, refs)
        began, texts = trio.current_time(), []

        async def ask():
            texts.append(await text_of(model))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask)
        assert texts == ["B"] * 20
        assert trio.current_time() - began < 1.5
        [hangs, well] = await model.ask(llm.GetMembers())
        assert (hangs.state, hangs.failed, hangs.outstanding, well.asked) == ("cooling", 1, 0, 20)


async def test_who_waits_for_a_slow_member_goes_on_waiting_where_nobody_else_is_ready(autojump_clock):
    async def slow():
        await trio.sleep(50)

    async with rt.ActorSystem() as system:
        model, _ = await group(system, [[slow, "A"], llm.ModelTimeout("x")])
        texts = []

        async def ask():
            texts.append(await text_of(model))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(1)
            with pytest.raises(llm.AllMembersFailed):
                await text_of(model)
        assert texts == ["A"]
