"""What holds after every test of the store: no thread is left, and pykka knows no actor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quiet_threads import nothing_is_left, our_threads


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert nothing_is_left(), our_threads()
