"""Fixtures of the partitioner tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from kafka_assignors.integration.broker.cluster import Cluster


@pytest.fixture
def eager_switching():
    """Threads change places as often as the interpreter can: a missing lock shows in thousands of records."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Iterator[Cluster]:
    """The session's cluster, whole again afterwards."""
    yield kafka_cluster
    kafka_cluster.restore()
