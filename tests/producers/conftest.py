"""Fixtures of the partitioner tests."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def eager_switching():
    """Threads change places as often as the interpreter can: a missing lock shows in thousands of records."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
