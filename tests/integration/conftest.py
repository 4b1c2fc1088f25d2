"""A factory of member groups on the session's broker, each with a folder of its own."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.integration.members.group import MemberGroup


@pytest.fixture
def unjudged_group(kafka_broker: Broker, tmp_path: Path) -> Iterator[Callable[..., MemberGroup]]:
    """Make groups: ``unjudged_group(session_timeout_ms=…) -> MemberGroup``; ended with the test, history in `tmp_path`.

    Unlike `kafka_group` of the plugin it leaves the verdict to the test: many plant what breaks a law.
    """
    with ExitStack() as stack:

        def make(**settings: Any) -> MemberGroup:
            name = f"g-{uuid.uuid4().hex[:8]}"
            return stack.enter_context(MemberGroup(kafka_broker.bootstrap, name, tmp_path, "run", **settings))

        yield make


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes to end whatever happens."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Iterator[Cluster]:
    """The session's cluster, whole again afterwards."""
    yield kafka_cluster
    kafka_cluster.restore()
