"""Python kernels: one process a conversation, with its variables kept, killable, bounded."""

from __future__ import annotations

import importlib.util
import math
import pathlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

import retinue as rt
from process_tools import is_gone, our_zombies
from retinue.actors.tools.executor import spawn_executor
from retinue.actors.tools.kernel import Kernel, Kernels
from retinue.actors.tools.python import PythonKernel
from retinue.capabilities.tools import tool_of


@asynccontextmanager
async def a_kernel(**options: Any) -> AsyncIterator[Kernel]:
    kernel = Kernel(**{"ipython": False, "cwd": None, "env": {}} | options)
    try:
        yield kernel
    finally:
        with trio.CancelScope(shield=True):
            await kernel.aclose()
    assert our_zombies() == []


async def text(kernel: Kernel, code: str) -> str:
    result = await kernel.run(code, 20)
    assert result.ok, result
    return result.text


async def test_a_kernel_keeps_its_variables_and_shows_what_is_printed_and_the_last_value() -> None:
    async with a_kernel() as kernel:
        assert await text(kernel, "x = 20") == "done, no output"
        assert await text(kernel, "import math\ndef f(y):\n    return x + y\nf(1)") == "21"
        assert await text(kernel, "print('before')\nf(2)") == "before\n22"
        assert await text(kernel, "None") == "done, no output"
        assert await text(kernel, "_ + 0") == "22"
        assert await text(kernel, "print('😀 世界')\n'é'") == "😀 世界\n'é'"  # nothing goes through a narrower encoding
        assert await text(kernel, "import os\nos.system('echo from a shell')") == "from a shell\n0"
        assert await text(kernel, "import sys\nprint('to stderr', file=sys.stderr)") == "to stderr"


async def test_an_output_that_speaks_of_an_error_is_none() -> None:
    async with a_kernel() as kernel:
        assert await text(kernel, "print('Error: all is well')") == "Error: all is well"


async def test_what_the_code_raises_is_told_with_its_own_lines_and_the_state_stays() -> None:
    async with a_kernel() as kernel:
        await text(kernel, "x = 1")
        failed = await kernel.run("def f():\n    return 1 / 0\nf()", 20)
        assert (failed.ok, failed.error) == (False, "raised")
        assert "ZeroDivisionError" in failed.text and "return 1 / 0" in failed.text and "kernel_runner" not in failed.text
        for code, what in (
            ("if True print", "SyntaxError"),
            ("raise SystemExit(3)", "SystemExit: 3"),
            ("input()", "EOFError"),
            ("exit()", ""),
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
            ("raise BaseException('odd')", "odd"),
            ("'\ud83d'", "Unicode"),
            ("def g(): g()\ng()", "RecursionError"),
        ):
            failed = await kernel.run(code, 20)
            assert (failed.ok, failed.error) == (False, "raised") and what in failed.text, (code, failed)
        assert await text(kernel, "x") == "1"


async def test_output_without_end_is_cut_and_what_comes_after_is_whole() -> None:
    async with a_kernel() as kernel:
        assert len(await text(kernel, "for number in range(200):\n    print('x' * 100_000)")) < 400_000
        assert await text(kernel, "'x' * 3") == "'xxx'"
        assert len(await text(kernel, "'x' * 50_000_000")) < 1_100_000


@pytest.mark.parametrize(("code", "ended"), [("import os\nos._exit(7)", "exit code 7"), ("import ctypes\nctypes.string_at(0)", "SIGSEGV")])
async def test_a_kernel_that_dies_says_how_and_the_next_call_has_a_new_one(code: str, ended: str) -> None:
    async with a_kernel() as kernel:
        await text(kernel, "x = 1")
        died = await kernel.run(code, 20)
        assert (died.ok, died.error) == (False, "exit") and ended in died.text and "lost" in died.text
        assert "NameError" in (await kernel.run("x", 20)).text
        assert await text(kernel, "1 + 1") == "2"


async def test_a_time_out_kills_the_kernel_with_its_children_and_says_that_its_state_is_lost() -> None:
    async with a_kernel() as kernel:
        child = int(await text(kernel, "import subprocess\nprocess = subprocess.Popen(['sleep', '300'])\nprocess.pid"))
        pid = kernel.pid
        assert pid is not None
        late = await kernel.run("while True: pass", 0.3)
        assert late.error == "timeout" and "0.3 s" in late.text and "lost" in late.text
        assert is_gone(pid) and is_gone(child)
        assert await text(kernel, "1") == "1"


async def test_a_cancelled_call_kills_the_kernel_and_the_next_call_is_told() -> None:
    async with a_kernel() as kernel:
        await text(kernel, "x = 1")
        pid = kernel.pid
        assert pid is not None
        began = trio.current_time()
        with trio.move_on_after(0.2):
            await kernel.run("import time\ntime.sleep(300)", 600)
        assert trio.current_time() - began < 20 and is_gone(pid)
        told = await text(kernel, "2")
        assert "cancelled" in told and "lost" in told and told.endswith("\n2")
        assert await text(kernel, "3") == "3"


async def test_a_reply_that_the_code_forges_is_none_of_the_next_code() -> None:
    forged = """
import json, os, struct
body = json.dumps({"ok": True, "text": "forged"}).encode()
for descriptor in range(3, 30):
    for number in range(1, 5):
        try:
            os.write(descriptor, struct.pack("!IQ", len(body), number) + body)
        except OSError:
            pass
"'real'"
"""
    async with a_kernel() as kernel:
        await text(kernel, forged)
        for number in range(6):
            assert await text(kernel, f"{number} + 1000") in (f"{number + 1000}", "forged")
        assert await text(kernel, "'last'") == "'last'"


async def test_threads_and_forks_of_the_code_do_not_disturb_the_kernel() -> None:
    async with a_kernel() as kernel:
        assert await text(kernel, "import threading, time\nthreading.Thread(target=time.sleep, args=(300,)).start()\n1") == "1"
        assert await text(kernel, "import os\nchild = os.fork()\nif child == 0:\n    pass\n2") == "2"
        assert await text(kernel, "3") == "3"


async def test_a_kernel_gets_the_folder_and_the_variables_that_it_is_given_and_no_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with a_kernel(cwd=str(tmp_path), env={"MINE": "given"}) as kernel:
        assert (
            await text(kernel, "import os\nprint(os.getcwd(), os.environ['MINE'], os.environ.get('OPENAI_API_KEY'))")
            == f"{tmp_path} given None"
        )


async def test_a_folder_that_is_not_there_is_an_error_result(tmp_path: pathlib.Path) -> None:
    async with a_kernel(cwd=str(tmp_path / "nowhere")) as kernel:
        result = await kernel.run("1", 20)
        assert result.error == "raised" and "could not be started" in result.text


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("IPython") is None, reason="IPython is not installed")
async def test_a_kernel_runs_ipython_where_it_is_there() -> None:
    async with a_kernel(ipython=None) as kernel:
        assert await text(kernel, "x = 20\nprint('hi')\nx + 1") == "hi\n21"
        assert "magic" in await text(kernel, "!echo magic")
        failed = await kernel.run("1/0", 20)
        assert failed.error == "raised" and "ZeroDivisionError" in failed.text
        assert await text(kernel, "x") == "20"


async def test_ipython_that_is_wanted_and_not_there_is_an_error_result() -> None:
    if importlib.util.find_spec("IPython") is not None:
        pytest.skip("IPython is installed")
    async with a_kernel(ipython=True) as kernel:
        result = await kernel.run("1", 20)
        assert (result.ok, result.error) == (False, "exit") and "IPython" in result.text


async def test_the_kernel_that_was_not_used_for_longest_makes_room() -> None:
    kernels = Kernels(2, ipython=False, cwd=None, env={})
    try:
        first, _ = await kernels.of("first")
        await first.run("x = 1", 20)
        second, _ = await kernels.of("second")
        await second.run("x = 2", 20)
        await first.run("x", 20)
        pid = second.pid
        assert pid is not None
        third, new = await kernels.of("third")
        assert new and len(kernels) == 2 and is_gone(pid)
        again, new = await kernels.of("second")
        assert new and again is not second
        told = await again.run("1", 20)
        assert "make room" in told.text and told.text.endswith("\n1")
        assert (await kernels.of("third"))[0] is third
    finally:
        with trio.CancelScope(shield=True):
            await kernels.aclose()
    assert our_zombies() == []


# -- the tool


@rt.message
class Code(rt.Request[rt.ToolResult]):
    code: str


class Conversation(rt.Actor):
    """Stands for an agent's session."""

    def __init__(self, executor: rt.Ref[Any], tool: Any) -> None:
        self.executor = executor
        self.tool = tool

    @rt.handler
    async def run_code(self, message: Code) -> rt.ToolResult:
        result: rt.ToolResult = await self.executor.ask(self.tool.decode({"code": message.code}))
        return result


async def test_each_conversation_has_a_kernel_of_its_own_that_ends_with_it() -> None:
    (tool,) = tool_of(PythonKernel(approval=False, ipython=False))
    assert (tool.name, tool.requires, tool.risk) == ("python.run", "tool.python", "L3")
    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, tool)
        ada, bob = [await system.spawn(Conversation, executor, tool, name=name) for name in ("ada", "bob")]
        pid = int((await ada.ask(Code("import os\nx = 1\nos.getpid()"))).text)
        other = int((await bob.ask(Code("import os\nos.getpid()"))).text)
        assert pid != other
        assert (await ada.ask(Code("x"))).text == "1"
        assert "NameError" in (await bob.ask(Code("x"))).text
        await ada.stop()
        with trio.fail_after(10):
            while not is_gone(pid, 0.01):
                await trio.sleep(0.01)
        assert not is_gone(other, 0)
    assert is_gone(other) and our_zombies() == []


async def test_another_subject_of_the_same_name_has_another_kernel() -> None:
    (tool,) = tool_of(PythonKernel(approval=False, ipython=False))
    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, tool)
        asker = await system.spawn(Conversation, executor, tool)
        ada, eve = (system.authority.mint(subject=name, permissions=["tool.python"]) for name in ("ada", "eve"))
        await asker.ask(Code("secret = 1"), context=ada)
        assert "NameError" in (await asker.ask(Code("secret"), context=eve)).text
        assert (await asker.ask(Code("secret"), context=ada)).text == "1"


async def test_code_needs_a_persons_consent_unless_it_is_said_otherwise() -> None:
    (tool,) = tool_of(PythonKernel(ipython=False))
    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, tool)
        with pytest.raises(rt.ApprovalRequired) as required:
            await executor.ask(tool.decode({"code": "1 + 1"}))
        token = await system.approvals.approve(required.value.requests[0].id, reviewer="carol")
        assert (await executor.ask(tool.decode({"code": "1 + 1"}), approvals=[token])).text == "2"


def test_odd_options_of_a_kernel_are_refused() -> None:
    for options in ({"timeout": 0}, {"timeout": True}, {"kernels": 0}, {"kernels": 2_000}, {"kernels": True}):
        with pytest.raises(rt.DefinitionError, match=r"PythonKernel\("):
            PythonKernel(**options)  # type: ignore[arg-type]
