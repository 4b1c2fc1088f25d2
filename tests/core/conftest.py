"""Java's assignors are one JVM for all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.assignors.live import JavaLeader


@pytest.fixture(scope="session")
def leader() -> Iterator[JavaLeader]:
    """A group's leader that is Java's."""
    with JavaLeader() as java:
        yield java
