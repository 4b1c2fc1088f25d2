"""Draws are the same on every run, and a busy machine fails no test. Java's assignors are one JVM for all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from .live import JavaLeader

settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")


@pytest.fixture(scope="session")
def leader() -> Iterator[JavaLeader]:
    """A group's leader that is Java's."""
    with JavaLeader() as java:
        yield java
