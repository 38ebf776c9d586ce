"""The swarm's actors: who asks whom, what is asked at once, what they may do, and what becomes of errors."""

from __future__ import annotations

import pytest
import trio

import retinue as rt
import retinue.testing as rtt
from retinue import llm
from retinue.demo.prompts import ONE_SENTENCE, Manner, script_for
from retinue.demo.swarm import Article, Chronicle, Compose, Line, Research, Review, Said, Since, Swarm, together


def scripted(script, seconds=0.0):
    return llm.Choice(kind="scripted", model="scripted", script=script, seconds=seconds)


async def everything_said(swarm):
    return await swarm.chronicle.ask(Since(0))


async def test_the_swarm_makes_an_article_of_the_models_words():
    async with rt.ActorSystem() as system:
        swarm = await Swarm.start(system, scripted(script_for("tea")), Manner())
        article = await swarm.writer.ask(Compose("tea"))
        statistics = system.statistics()
    answer = script_for("tea")
    assert isinstance(article, Article)
    assert article.topic == "tea"
    assert len(article.notes) == 3
    assert article.notes[0].startswith("The most surprising thing about tea")  # in the order of the questions
    assert article.text.startswith(article.draft)
    assert article.text == f"{article.draft} {answer(llm.Complete.of('anything'))}"
    assert statistics.dead_letters == 0


async def test_the_chronicle_has_the_whole_conversation_in_order_of_its_causes():
    async with rt.ActorSystem() as system:
        swarm = await Swarm.start(system, scripted(script_for("tea")), Manner())
        await swarm.writer.ask(Compose("tea"))
        lines = await everything_said(swarm)
    talk = [(line.speaker, line.listener) for line in lines]
    assert talk[0] == ("writer", "researcher")
    assert sorted(talk[1:7]) == [("model", "researcher")] * 3 + [("researcher", "model")] * 3
    assert talk[7:] == [
        ("writer", "model"),
        ("model", "writer"),
        ("writer", "critic"),
        ("critic", "model"),
        ("model", "critic"),
        ("writer", "model"),
        ("model", "writer"),
    ]


async def test_the_researchers_questions_wait_at_the_model_together(autojump_clock):
    async with rt.ActorSystem(block_warning=float("inf")) as system, trio.open_nursery() as nursery:
        swarm = await Swarm.start(system, scripted(script_for("tea"), seconds=1), Manner())
        nursery.start_soon(swarm.writer.ask, Compose("tea"))
        await trio.sleep(0.5)
        (model,) = [actor for actor in system.actors() if actor.path == "/user/model"]
        assert model.queued == 3
        await trio.sleep(6)


async def test_an_error_of_the_model_reaches_the_asker_as_it_is_and_restarts_nobody():
    async with rt.ActorSystem() as system:
        swarm = await Swarm.start(system, scripted((llm.RateLimited("slow down"),) * 3), Manner())
        with pytest.raises(llm.RateLimited, match="slow down"):
            await swarm.writer.ask(Compose("tea"))
        await system.wait_quiet()
        counted = {actor.path: (actor.failures, actor.restarts) for actor in system.actors()}
        assert set(counted) >= {"/user/model", "/user/chronicle", "/user/researcher", "/user/critic", "/user/writer"}
        assert set(counted.values()) == {(0, 0)}


async def test_the_members_are_agents_and_answer_a_text_too():
    async with rt.ActorSystem() as system:
        swarm = await Swarm.start(system, scripted(script_for("tea")), Manner())
        reply = await swarm.writer.ask("Write about tea. Use these notes: none.")
        assert (reply.sender, reply.content[:22]) == ("writer", "Ask three people about")
        assert [(line.speaker, line.listener) for line in await everything_said(swarm)] == [("writer", "model"), ("model", "writer")]


async def test_each_article_is_written_in_a_session_of_its_own():
    asked = []

    def script(request):
        asked.append([message.content for message in request.messages])
        return script_for("tea")(request)

    async with rt.ActorSystem() as system:
        swarm = await Swarm.start(system, scripted(script), Manner())
        first, second = await swarm.writer.ask(Compose("tea")), await swarm.writer.ask(Compose("tea"))
    assert first == second
    assert sorted(asked[:6]) == sorted(asked[6:])
    system, drafting, draft, closing = asked[5]
    assert (drafting[:16], draft) == ("Write about tea.", first.draft)
    assert closing == f"{first.advice} Tell one more thing about tea."
    assert system == ONE_SENTENCE


async def test_who_may_not_use_the_model_gets_no_article_by_way_of_the_writer():
    async with rt.ActorSystem() as system:
        swarm = await Swarm.start(system, scripted(script_for("tea")), Manner())
        caller = system.authority.mint(subject="eve", permissions=["swarm.work", "chronicle.write"])
        with pytest.raises(rt.Denied, match=r"model\.complete"):
            await swarm.writer.ask(Compose("tea"), context=caller)


async def test_the_members_may_not_read_the_chronicle():
    class Nosy(rt.Actor):
        def __init__(self, chronicle):
            self.chronicle = chronicle

        @rt.handler
        async def research(self, message: Research) -> tuple[str, ...]:
            return tuple(line.text for line in await self.chronicle.ask(Since(0)))

    async with rt.ActorSystem() as system:
        swarm = await Swarm.start(system, scripted("x"), Manner())
        nosy = await system.spawn(Nosy, swarm.chronicle, grant=["swarm.work", "model.complete", "chronicle.write"])
        with pytest.raises(rt.Denied, match=r"chronicle\.read"):
            await nosy.ask(Research("tea"))


async def test_the_swarm_runs_in_a_strict_system_and_over_the_wire():
    async with rt.ActorSystem(strict=True, loopback=True) as system:
        swarm = await Swarm.start(system, scripted(script_for("tea")), Manner())
        assert (await swarm.writer.ask(Compose("tea"))).topic == "tea"


def line(number):
    return Line("a", "b", str(number))


def test_the_chronicle_returns_what_the_asker_has_not_seen():
    chronicle = rtt.BehaviorTest(Chronicle)
    assert chronicle.ask(Since(0)) == ()
    for number in range(3):
        chronicle.tell(Said(line(number)))
    assert chronicle.ask(Since(0)) == tuple(map(line, range(3)))
    assert chronicle.ask(Since(2)) == (line(2),)
    assert chronicle.ask(Since(3)) == ()


def test_the_chronicle_lets_who_waits_wait_for_the_next_line():
    chronicle = rtt.BehaviorTest(Chronicle)
    chronicle.tell(Said(line(0)))
    first, second = Since(1, wait=True), Since(2, wait=True)
    assert chronicle.request(first) == [rtt.Deferred(first)]
    assert chronicle.request(second) == [rtt.Deferred(second)]
    assert chronicle.tell(Said(line(1))) == [rtt.Replied(first, (line(1),))]
    assert chronicle.tell(Said(line(2))) == [rtt.Replied(second, (line(2),))]


def test_a_full_chronicle_forgets_the_oldest_and_still_counts_right():
    chronicle = rtt.BehaviorTest(Chronicle, 2)
    for number in range(5):
        chronicle.tell(Said(line(number)))
    assert chronicle.ask(Since(0)) == (line(3), line(4))
    assert chronicle.ask(Since(4)) == (line(4),)
    assert chronicle.ask(Since(5)) == ()


async def test_what_the_token_limit_cut_off_is_cut_back_and_told_to_the_chronicle():
    answer = llm.Completion("It lacks salt. And pep", "scripted", llm.Usage(completion_tokens=7), "length")
    async with rt.ActorSystem() as system:
        swarm = await Swarm.start(system, scripted((answer,)), Manner())
        critic = system.registry.get("/user/critic")
        assert await critic.ask(Review("soup", "Soup is hot.")) == "It lacks salt."
        assert await everything_said(swarm) == (
            Line("critic", "model", "What does this text about soup not tell?\n\nSoup is hot."),
            Line("model", "critic", "It lacks salt.", 7),
        )


async def test_together_keeps_the_order_and_raises_the_first_error_bare(autojump_clock):
    async def after(seconds, value):
        await trio.sleep(seconds)
        if isinstance(value, Exception):
            raise value
        return value

    assert await together([lambda: after(2, "slow"), lambda: after(1, "fast")]) == ["slow", "fast"]
    began = trio.current_time()
    with pytest.raises(ValueError, match="first"):
        await together([lambda: after(9, "never"), lambda: after(1, ValueError("first")), lambda: after(2, ValueError("second"))])
    assert trio.current_time() - began == 1
    assert await together([]) == []
