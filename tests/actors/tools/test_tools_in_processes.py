"""Tools with process=True: real processes, killed with all that they have started."""

from __future__ import annotations

import math
import pathlib
import threading
from typing import Any

import pytest
import trio

import process_tool_ready
import process_tools
import retinue as rt
from process_tools import is_gone, our_zombies, pids
from retinue.actors.tools.child import PASSED_ON, Child, Printed
from retinue.actors.tools.executor import spawn_executor


def descriptors() -> int:
    """How many are open."""
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


async def results(*calls: tuple[Any, dict[str, Any]], **options: Any) -> list[rt.ToolResult]:
    """The results of calls of functions that become tools, all at the same time."""
    found: dict[int, rt.ToolResult] = {}
    async with rt.ActorSystem("tools", block_warning=math.inf) as system:

        async def ask(number: int, function: Any, arguments: dict[str, Any]) -> None:
            tool = function if isinstance(function, rt.Tool) else rt.tool(process=True, **{"timeout": 30, **options})(function)
            executor = await spawn_executor(system, tool, name=f"t{number}")
            found[number] = await executor.ask(tool.decode(arguments), timeout=60)

        async with trio.open_nursery() as nursery:
            for number, (function, arguments) in enumerate(calls):
                nursery.start_soon(ask, number, function, arguments)
    assert our_zombies() == []
    return [found[number] for number in range(len(calls))]


async def test_a_process_gives_what_its_function_returns_whatever_it_prints() -> None:
    greeted, rows, said, chattered, decorated, counted, slept = await results(
        (process_tools.greet, {"name": "Ada"}),
        (process_tools.table, {"rows": 2}),
        (process_tools.say, {"text": "printed"}),
        (process_tools.chatter, {"text": "noise"}),
        (process_tool_ready.decorated, {"name": "Bob"}),
        (process_tools.count, {"to": 3}),
        (process_tools.nap, {"seconds": 0.01}),
    )
    assert greeted.text == "hello, Ada 😀"
    assert rows.text == '[{"row": 0}, {"row": 1}]'
    assert said.text.strip() == "printed"  # it returns nothing, so what it prints is its output
    assert chattered.text == "the value"
    assert decorated.text == "hello, Bob"
    assert counted.text == "0 1 2 "
    assert slept.text == "slept"


async def test_the_end_of_a_process_is_an_error_that_says_how_it_ended() -> None:
    left, zero, quitted, crashed, failed, forked = await results(
        (process_tools.leave, {"code": 3}),
        (process_tools.leave, {"code": 0}),
        (process_tools.quit_politely, {"code": 4}),
        (process_tools.crash, {}),
        (process_tools.fail, {"text": "no such place"}),
        (process_tools.fork_and_return, {}),
    )
    assert (left.ok, left.error) == (False, "exit") and "exit code 3" in left.text and "last words" in left.text
    assert (zero.ok, zero.error) == (False, "exit") and "exit code 0" in zero.text
    assert quitted.error == "raised" and "SystemExit: 4" in quitted.text
    assert crashed.error == "exit" and "SIGSEGV" in crashed.text
    assert failed.error == "raised" and "LookupError: no such place" in failed.text and "Traceback" not in failed.text
    assert forked.text == "once"


async def test_a_process_gets_no_secrets_and_nobodys_terminal_and_its_long_result_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_TOKEN", "secret")
    names, typed, long = await results(
        (process_tools.environment, {}), (process_tools.read_stdin, {}), (process_tools.huge, {"size": 40_000_000}), output_limit=1_000
    )
    assert long.ok and len(long.text) <= 1_000
    assert set(names.text.split()) <= set(PASSED_ON) | {"__CF_USER_TEXT_ENCODING"}
    assert typed.text == "''"


@pytest.mark.parametrize("function", [process_tools.breed, pytest.param(process_tools.stubborn, marks=pytest.mark.slow)])
async def test_a_process_dies_with_its_children_at_the_time_out(tmp_path: pathlib.Path, function: Any) -> None:
    file = tmp_path / "pids"
    (result,) = await results((function, {"seconds": 300, "file": str(file)}), timeout=2)
    assert result.error == "timeout" and "was killed" in result.text
    assert all(is_gone(pid) for pid in pids(file))


@pytest.mark.parametrize("how", ["cancelled", "stopped", "closed"])
async def test_a_process_dies_with_its_children_when_nobody_waits_for_it_any_more(tmp_path: pathlib.Path, how: str) -> None:
    file = tmp_path / "pids"
    tool = rt.tool(process=True)(process_tools.breed)
    errors: list[BaseException] = []

    async def ask(executor: rt.Ref[Any]) -> None:
        try:
            await executor.ask(tool.decode({"seconds": 300, "file": str(file)}))
        except rt.ActorStopped as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        async with rt.ActorSystem("tools", block_warning=math.inf, grace=0.1) as system:
            executor = await spawn_executor(system, tool)
            nursery.start_soon(ask, executor)
            found = await trio.to_thread.run_sync(pids, file)
            began = trio.current_time()
            if how == "cancelled":
                nursery.cancel_scope.cancel()
            elif how == "stopped":
                await executor.stop(grace=0)
    assert trio.current_time() - began < 2
    assert len(errors) == (how != "cancelled")
    assert len(found) == 2 and all(is_gone(pid) for pid in found)
    assert our_zombies() == []


@pytest.mark.slow
async def test_a_process_whose_parent_is_gone_ends_with_its_children(tmp_path: pathlib.Path) -> None:
    import signal
    import subprocess
    import sys

    file = tmp_path / "pids"
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import sys
sys.path[:0] = {[str(pathlib.Path(process_tools.__file__).parent)]!r}
import trio, retinue as rt, process_tools
from retinue.actors.tools.executor import spawn_executor
tool = rt.tool(process=True)(process_tools.breed)
async def main():
    async with rt.ActorSystem("s") as system:
        await (await spawn_executor(system, tool)).ask(tool.decode({{"seconds": 300, "file": {str(file)!r}}}), timeout=300)
trio.run(main)
"""
    )
    with subprocess.Popen([sys.executable, str(program)]) as parent:  # noqa: ASYNC220 - it is waited for in a thread
        found = await trio.to_thread.run_sync(pids, file)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert all(is_gone(pid) for pid in found)


@pytest.mark.slow
async def test_a_tool_of_the_main_program_is_found_again(tmp_path: pathlib.Path) -> None:
    import subprocess
    import sys

    program = tmp_path / "program.py"
    program.write_text(
        """
import trio, retinue as rt
from retinue.actors.tools.executor import spawn_executor

@rt.tool(process=True)
def double(x: int) -> int:
    '''Doubles.'''
    return 2 * x

async def main():
    async with rt.ActorSystem("s") as system:
        print((await (await spawn_executor(system, double)).ask(double.decode({"x": 21}))).text)

if __name__ == "__main__":
    trio.run(main)
"""
    )
    done = await trio.to_thread.run_sync(
        lambda: subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False)
    )
    assert (done.stdout, done.stderr) == ("42\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("face", ["retinue", "retinue.sync"])
async def test_a_main_program_without_its_guard_is_told_so_and_starts_nothing_again(face: str, tmp_path: pathlib.Path) -> None:
    import subprocess
    import sys

    program = tmp_path / "program.py"
    begin = f"""
import retinue as rt
from retinue import llm
from {face} import ActorSystem

@rt.tool(process=True, timeout=20)
def double(x: int) -> int:
    '''Doubles.'''
    return 2 * x

with open({str(tmp_path / "loads")!r}, "a") as log:
    log.write("x")
"""
    rest = """
with ActorSystem("s") as system:
    model = system.spawn(llm.Scripted, [llm.tool_calls(("double", {"x": 2})), "done"])
    agent = system.spawn(rt.Agent, model=model, tools=[double])
    print(agent.ask("hi").content)
    print(agent.ask(rt.GetMemory()).steps[-1].text)
"""
    if face == "retinue":
        lines = [f"    {line}" for line in rest.replace("with", "async with").splitlines()]
        rest = "\n".join(["async def main():", *lines, "rt.run(main)"])
        for call in ("system.spawn(", "agent.ask("):
            rest = rest.replace(call, f"await {call}")
        rest = (
            rest.replace("print(await agent.ask", "print((await agent.ask")
            .replace('"hi")', '"hi"))')
            .replace("GetMemory())", "GetMemory()))")
        )
    program.write_text(begin + rest)
    done = await trio.to_thread.run_sync(
        lambda: subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False)
    )
    assert done.stdout.startswith("done\nthe tool 'double' raised RuntimeError") and '__name__ == "__main__"' in done.stdout, done.stderr
    assert (tmp_path / "loads").read_text() == "xx"  # once by each of two processes


async def test_a_function_that_no_other_process_can_find_is_refused_when_it_is_spawned() -> None:
    def local(x: int) -> int:
        """Local."""
        return x

    async def takes(context: rt.ToolContext) -> str:
        """Takes a context."""
        return "x"

    async with rt.ActorSystem("tools") as system:
        with pytest.raises(rt.DefinitionError, match="'local' has process=True.*at the top of a module"):
            await spawn_executor(system, rt.tool(process=True)(local))
        with pytest.raises(rt.DefinitionError, match="'takes'.*'context' takes a ToolContext"):
            await spawn_executor(system, rt.tool(process=True)(takes))


async def test_a_machine_without_processes_left_is_an_error_result(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none_left(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(trio.lowlevel, "open_process", none_left)
    before = descriptors()
    (result,) = await results((process_tools.greet, {"name": "x"}))
    assert result.error == "raised" and "could not be started" in result.text and "Resource temporarily" in result.text
    assert descriptors() <= before


@pytest.mark.slow
async def test_no_descriptor_and_no_thread_is_left_of_a_call() -> None:
    await results((process_tools.greet, {"name": "x"}))
    before, threads = descriptors(), threading.active_count()
    for _ in range(3):
        await results((process_tools.greet, {"name": "x"}))
    assert descriptors() <= before
    assert threading.active_count() <= threads + 1


async def test_a_child_that_answers_with_nonsense_is_no_reply() -> None:
    from retinue.actors.tools.processes import _content

    for odd in (None, b"", b"[]", b"{}", b'{"ok": 1, "text": "x"}', b'{"ok": true, "text": 1}', b"\xff", b"[" * 100_000):
        assert _content(odd) is None
    assert _content(b'{"ok": true, "text": "\\ud83d"}') == {"ok": True, "text": "\ufffd", "none": False, "made": False, "error": None}


async def test_what_is_printed_is_kept_in_bounds() -> None:
    printed = Printed()
    for number in range(40_000):
        printed.add(b"%d " % number * 10)
    text = printed.text()
    assert len(text) < 300_000 and text.startswith("0 0 ") and text.rstrip().endswith("39999") and "left out" in text


async def test_a_child_is_ended_twice_without_harm() -> None:
    child = await Child.start("kernel_runner.py")
    pid = child.pid
    assert await child.end() == await child.end()
    assert is_gone(pid) and our_zombies() == []


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["漢", "😀", "\x01"])
async def test_a_very_long_text_of_any_letters_is_cut(letter: str) -> None:
    (long,) = await results((process_tools.repeat, {"letter": letter, "times": 16_000_000}), output_limit=1_000)
    assert long.ok and long.text.startswith(letter * 100) and long.text.endswith(letter * 100) and "left out" in long.text


async def test_an_async_function_runs_on_asyncio_in_a_process_where_it_wants_to() -> None:
    (which,) = await results((process_tools.which_library, {}), loop="asyncio")
    assert which.text == "asyncio"


async def test_a_result_that_a_function_makes_itself_is_the_result() -> None:
    well, denied = await results((process_tools.own_result, {"ok": True}), (process_tools.own_result, {"ok": False}))
    assert (well.ok, well.text, well.error) == (True, "well", None)
    assert (denied.ok, denied.text, denied.error) == (False, "my own", "denied")
