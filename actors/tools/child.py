"""A Python process of our own that can be killed with everything that it has started: a group of its own, and pipes that it cannot disturb by printing.

Requests and replies go over two pipes that the code in the process does not know of, as frames: their length, the request's number and the content. A reply of another
number than the last request's is none: code may have written one itself, whose true one comes later. What it prints is read all the
time, and kept up to a bound. It is given no inherited secrets: of the environment, only the names in `PASSED_ON`. When our own process dies, the request pipe ends, and the
child ends its group by itself.
"""

from __future__ import annotations

import errno
import logging
import os
import pathlib
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import trio

from retinue.security.errors import DefinitionError

__all__ = ["PASSED_ON", "Child", "Printed", "environment", "how_it_ended"]

_log = logging.getLogger("retinue.tools")

PASSED_ON: Final = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR"
)  # fmt: skip
"""The variables of our environment that a tool's process gets; everything else, API keys above all, stays here."""

LONGEST_REPLY: Final = 64 * 1024 * 1024
"""Bytes of one reply; a process that says more is ended."""

PRINTED_KEPT: Final = 256 * 1024
"""Bytes that are kept of what a process prints for one call, half from its beginning and half from its end."""

HEAD: Final = struct.Struct("!IQ")
"""What a frame begins with: the length of its content, and the number of the request. Also written down in the scripts."""

REAP_TIMEOUT: Final = 5.0
"""Seconds that a killed process is waited for. (One that waits for a dead disk cannot even be killed.)"""

_HERE: Final = pathlib.Path(__file__).parent
_PIECE: Final = 65_536


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: what is passed on, and `extra`."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | dict(extra or {})


class Printed:
    """What was printed: the beginning and the end, and how much in all."""

    __slots__ = ("_head", "_tail", "size")

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Takes one more piece."""
        self.size += len(piece)
        room = PRINTED_KEPT // 2 - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail += piece
            if len(self._tail) > PRINTED_KEPT:
                del self._tail[: -PRINTED_KEPT // 2]

    def text(self) -> str:
        """All that is kept, as text; what is left out is said."""
        if len(self._head) + len(self._tail) == self.size:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        tail = self._tail[-PRINTED_KEPT // 2 :]
        left_out = self.size - len(self._head) - len(tail)
        head_text, tail_text = (bytes(part).decode("utf-8", "replace") for part in (self._head, tail))
        return f"{head_text}\n[… {left_out:,} bytes left out …]\n{tail_text}"


class Child:
    """One process. Made by `start`; whoever makes one calls `end`, in a `finally`.

    Attributes:
        exit_code: Once it has ended: its exit code, negative for the number of the signal that ended it. None before.
        printed: What it has printed since this was last replaced.
    """

    __slots__ = ("_buffer", "_number", "_output", "_process", "_replies", "_requests", "exit_code", "printed")

    def __init__(self, process: trio.Process, requests: int, replies: int, output: int) -> None:
        self._process = process
        self._requests: trio.lowlevel.FdStream | None = trio.lowlevel.FdStream(requests)
        self._replies = replies
        self._output = output
        self._buffer = bytearray()
        self._number = 0
        self.exit_code: int | None = None
        self.printed = Printed()
        for descriptor in (replies, output):
            os.set_blocking(descriptor, False)

    @classmethod
    async def start(cls, script: str, *, env: Mapping[str, str] | None = None, cwd: str | None = None) -> Child:
        """Starts one of the scripts of this package. Raises OSError where the machine has no process left, DefinitionError where there is no Python to start."""
        if not sys.executable:
            raise DefinitionError(
                "sys.executable is empty, so no other Python can be started: tools with process=True need a Python program on disk"
            )
        ours: list[int] = []
        theirs: list[int] = []
        try:
            for mine in (1, 0, 0):  # requests are written here; replies and what is printed are read
                pair = os.pipe()
                ours.append(pair[mine])
                theirs.append(pair[1 - mine])
            process = await trio.lowlevel.open_process(
                [sys.executable, "-P", "-u", "-X", "utf8", str(_HERE / script), str(theirs[0]), str(theirs[1])],
                stdin=subprocess.DEVNULL,
                stdout=theirs[2],
                stderr=theirs[2],
                pass_fds=theirs[:2],
                start_new_session=True,
                env=environment(env),
                cwd=cwd,
            )
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return cls(process, *ours)

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        return self._process.pid

    async def exchange(self, request: bytes) -> bytes | None:
        """Sends a request and waits for the reply; None where the process has ended, or says what is no reply. Reads what is printed meanwhile."""
        reply: bytes | None = None
        self._number += 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, HEAD.pack(len(request), self._number) + request)
            nursery.start_soon(self._listen)
            nursery.start_soon(self._watch, nursery.cancel_scope)
            reply = await self._receive()
            nursery.cancel_scope.cancel()
        if reply is None:  # it has ended; what it said before counts, and was read by nobody yet
            self._fill()
            reply = self._frame()
        self._drain()
        return reply

    async def _send(self, request: bytes) -> None:
        assert self._requests is not None
        try:
            await self._requests.send_all(request)
        except (trio.BrokenResourceError, trio.ClosedResourceError):  # it has ended, which the others see
            pass

    async def _listen(self) -> None:
        while self._drain():
            await trio.lowlevel.wait_readable(self._output)

    async def _watch(self, scope: trio.CancelScope) -> None:
        await self._process.wait()
        scope.cancel()

    async def _receive(self) -> bytes | None:
        while (frame := self._frame()) is None:
            if len(self._buffer) > LONGEST_REPLY:
                return None
            await trio.lowlevel.wait_readable(self._replies)
            if not self._fill():
                await (
                    trio.sleep_forever()
                )  # closed, which is no end: the process may have children that hold more than it does. `_watch` ends this
        return frame

    def _frame(self) -> bytes | None:
        buffer = self._buffer
        while len(buffer) >= HEAD.size:
            length, number = HEAD.unpack_from(buffer)
            end = HEAD.size + length
            if len(buffer) < end:
                break
            frame = bytes(buffer[HEAD.size : end])
            del buffer[:end]
            if number == self._number:
                return frame
        return None

    def _fill(self) -> bool:
        """Reads what is there of replies; False at their end."""
        while len(self._buffer) <= LONGEST_REPLY:
            piece = _read(self._replies)
            if piece is None:
                return True
            if not piece:
                return False
            self._buffer += piece
        return True

    def _drain(self) -> bool:
        """Reads what is there of what was printed; False at its end."""
        for _ in range(64):  # somebody who prints for ever must not hold the loop
            piece = _read(self._output)
            if piece is None:
                return True
            if not piece:
                return False
            self.printed.add(piece)
        return True

    def renew(self) -> None:
        """Forgets what was printed until now: what comes belongs to the next request."""
        self._drain()
        self.printed = Printed()

    def kill(self) -> None:
        """Ends the process and all of its group, at once."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # nobody is left, or only who has taken another user's rights
            pass

    async def end(self) -> int | None:
        """Kills what there is, waits until the process is gone, closes the pipes, and gives the exit code. Not cancelled by anything; bounded."""
        if self._requests is None:
            return self.exit_code
        exited = self._process.poll()
        self.kill()  # also after its own end: its children would live on
        with trio.move_on_after(REAP_TIMEOUT, shield=True) as scope:
            await self._process.wait()
        if scope.cancelled_caught:
            _log.error("process %d of a tool cannot be killed and is left behind", self._process.pid)
        self._drain()
        requests, self._requests = self._requests, None
        with trio.CancelScope(shield=True):
            await requests.aclose()
        for descriptor in (self._replies, self._output):
            trio.lowlevel.notify_closing(descriptor)
            os.close(descriptor)
        self.exit_code = exited if exited is not None else self._process.returncode
        return self.exit_code


def _read(descriptor: int) -> bytes | None:
    """What can be read now: None where nothing is there yet, b"" at the end."""
    try:
        return os.read(descriptor, _PIECE)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in (errno.EIO, errno.EBADF):
            return b""
        raise


def how_it_ended(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "could not be ended"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
