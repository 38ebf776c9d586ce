"""What the clients' tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_faces import FACES, Face
from client_shop import RunningShop


@pytest.fixture(params=FACES, ids=repr)
def face(request: pytest.FixtureRequest) -> Face:
    """Each of the three clients in turn."""
    found: Face = request.param
    return found


@pytest.fixture(scope="module")
def shared_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShop]:
    """One running shop for the tests of a module that change nothing about it; its threads end with it, since others count the threads that are left."""
    with RunningShop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture
def own_shop(tmp_path: Path) -> Iterator[RunningShop]:
    """A running shop for a test that changes something."""
    with RunningShop(tmp_path / "data") as shop:
        yield shop
