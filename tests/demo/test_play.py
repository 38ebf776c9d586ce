"""Watching the swarm: plain lines where there is no terminal, a picture on one, and nothing lost or left behind."""

from __future__ import annotations

import errno
import io

import pytest
import trio
from rich.console import Console

import retinue as rt
from openai_loopback import completion, loopback
from retinue import llm
from retinue.demo.play import manner_for, play, show_result
from retinue.demo.prompts import questions, script_for

SCRIPT = llm.Choice(kind="scripted", model="scripted", script=script_for("tea"), seconds=0.01)


def console(*, terminal=False):
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, height=50, color_system="standard" if terminal else None)


async def played(choice, screen, system):
    result = await play(system, choice, "tea", screen)
    show_result(result, screen)
    return result


async def test_without_a_terminal_each_line_is_printed_once_and_no_control_character_is():
    screen = console()
    async with rt.ActorSystem() as system:
        result = await played(SCRIPT, screen, system)
    output = screen.file.getvalue()
    assert all(letter.isprintable() or letter == "\n" for letter in output)
    lines = output.splitlines()
    talk = [line for line in lines if " -> " in line]
    assert len(talk) == len(set(talk)) == 14
    assert lines[-1].startswith("6 completions, ")
    assert lines[-3] == result.article.text


async def test_on_a_terminal_the_cursor_comes_back_and_the_text_stands_at_the_end():
    screen = console(terminal=True)
    async with rt.ActorSystem() as system:
        await played(SCRIPT, screen, system)
    output = screen.file.getvalue()
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")
    assert "mailbox" in output
    assert output.rindex("Ask three people") > output.rindex("mailbox")


@pytest.mark.parametrize("terminal", [False, True])
async def test_watching_leaves_no_dead_letter_and_no_open_ask(terminal):
    async with rt.ActorSystem() as system:
        for _ in range(3):
            async with rt.ActorSystem() as inner:
                await played(SCRIPT, console(terminal=terminal), inner)
                await inner.wait_quiet()
                statistics = inner.statistics()
            assert sum(statistics.dead_letters_by_reason.values()) == 0  # late replies too
            assert statistics.sent == statistics.handled
        assert system.statistics().sent == 0


@pytest.mark.parametrize("terminal", [False, True])
async def test_a_models_error_is_raised_bare_after_what_was_said_was_shown(terminal):
    screen = console(terminal=terminal)
    choice = llm.Choice(kind="scripted", model="scripted", script=(llm.ModelFailed("out of memory"),) * 3)
    async with rt.ActorSystem() as system:
        with pytest.raises(llm.ModelFailed, match="out of memory"):
            await play(system, choice, "tea", screen)
    output = screen.file.getvalue()
    assert any(question in output for question in questions("tea"))
    assert "\x1b[?25h" in output or not terminal


async def test_who_watches_and_fails_ends_the_swarm_with_that_error():
    class Full(io.StringIO):
        def write(self, text):
            if "researcher" in text:
                raise OSError(errno.ENOSPC, "no room")
            return super().write(text)

    screen = Console(file=Full(), force_terminal=False)
    async with rt.ActorSystem() as system:
        with pytest.raises(OSError, match="no room"):
            await play(system, SCRIPT, "tea", screen)


async def test_a_cancelled_play_gives_the_terminal_back():
    screen = console(terminal=True)
    slow = llm.Choice(kind="scripted", model="scripted", script="x", seconds=60)
    async with rt.ActorSystem() as system:
        with trio.move_on_after(0.3) as scope:
            await play(system, slow, "tea", screen)
    assert scope.cancelled_caught
    output = screen.file.getvalue()
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")


async def test_the_same_swarm_talks_to_an_endpoint_over_http_and_counts_its_tokens():
    def answer(asked):
        return completion(f"About: {asked.json['messages'][-1]['content'].splitlines()[-1]}")

    with loopback(answer) as server:
        environ = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-test-0123456789", "RETINUE_MODEL": "m"}
        choice = llm.from_env(live=True, environ=environ)
        screen = console()
        async with rt.ActorSystem() as system:
            result = await played(choice, screen, system)
    assert len(server.asked) == result.completions == 6
    assert result.tokens == 18
    assert server.busiest == 1  # the model's mailbox is the queue
    assert "18 tokens" in screen.file.getvalue()


def test_an_endpoint_gets_room_to_think_and_the_embedded_model_stays_short():
    assert manner_for(llm.Choice(kind="endpoint", model="m")).generosity > 10
    assert manner_for(llm.Choice(kind="local", model="m")).generosity == 1
