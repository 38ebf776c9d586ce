"""An authority, and a gate of its own."""

import pytest

from retinue.capabilities import Gate
from retinue.security import Authority


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def gate(authority):
    return Gate(authority)
