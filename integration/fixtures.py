"""pytest fixtures around a real broker and a cluster; opt in by ``pytest_plugins = ["integration.fixtures"]``.

Options: ``--kafka-backend jvm|docker|external`` and ``--kafka-bootstrap host:port``, for the one broker. A failed test
that used the broker or the cluster shows the end of its log.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import pytest
from kafka import KafkaAdminClient

from .broker import BACKENDS, Broker, start_broker
from .broker.cluster import Cluster, start_cluster
from .java import LiveJava


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add this plugin's options."""
    group = parser.getgroup("kafka", "a real Kafka broker")
    group.addoption("--kafka-backend", choices=BACKENDS, default="jvm", help="where the broker runs (default: jvm)")
    group.addoption("--kafka-bootstrap", metavar="HOST:PORT", help="the broker of --kafka-backend=external")


def pytest_configure(config: pytest.Config) -> None:
    """Check that the options go together, before any test runs."""
    backend, bootstrap = config.getoption("--kafka-backend"), config.getoption("--kafka-bootstrap")
    if (backend == "external") != bool(bootstrap):
        raise pytest.UsageError(
            "--kafka-backend=external and --kafka-bootstrap=HOST:PORT go together, and with no other backend"
        )


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """One broker for the whole session. A test that ends or restarts it starts its own by `start_broker`."""
    backend = request.config.getoption("--kafka-backend")
    with start_broker(backend, bootstrap=request.config.getoption("--kafka-bootstrap")) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_admin(kafka_broker: Broker) -> Iterator[KafkaAdminClient]:
    """An admin client of that broker."""
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
    yield admin
    admin.close()


@pytest.fixture
def kafka_topic(kafka_broker: Broker, kafka_admin: KafkaAdminClient) -> Iterator[Callable[..., str]]:
    """Make topics: ``kafka_topic(partitions=3, name="orders", configs={...}) -> "orders-1a2b-7"``.

    Names are unique on the broker. A topic is returned when every partition has a leader. An external broker's
    topics are deleted again; other brokers end with the session.
    """
    made: list[str] = []

    def make(partitions: int = 1, name: str = "topic", configs: Mapping[str, str] | None = None) -> str:
        topic = f"{name}-{_RUN}-{next(_COUNTER)}"
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs or {})}
        kafka_admin.create_topics({topic: options})
        made.append(topic)
        kafka_admin.wait_for_topics([topic])
        return topic

    yield make
    if kafka_broker.backend == "external" and made:
        kafka_admin.delete_topics(made)


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[Cluster]:
    """Three brokers in racks a, b and c for the whole session. A test that stops, kills or pauses one restores it."""
    with start_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_java() -> Iterator[LiveJava]:
    """Java's own Kafka classes, in a JVM for the whole session."""
    with LiveJava() as java:
        yield java


@pytest.fixture
def kafka_cluster_topic(kafka_cluster: Cluster) -> Callable[..., str]:
    """Make topics on the cluster: ``kafka_cluster_topic(partitions=3, replicas=2)`` or ``…(placed=[[1, 2], [2, 3]])``.

    `placed` names the nodes of each partition's replicas, its preferred leader first. Names are unique; a topic is
    returned when every partition has a leader. It ends with the session.
    """

    def make(
        partitions: int = 1,
        name: str = "topic",
        replicas: int = 3,
        placed: Sequence[Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        topic = f"{name}-{_RUN}-{next(_COUNTER)}"
        options: dict[str, Any] = {"configs": dict(configs or {})}
        if placed is None:
            options |= {"num_partitions": partitions, "replication_factor": replicas}
        else:
            options["assignments"] = dict(enumerate(placed))
        admin = KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap)
        try:
            admin.create_topics({topic: options}, wait_for_metadata=True)
        finally:
            admin.close()
        return topic

    return make


_RUN = os.urandom(2).hex()
_COUNTER = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the broker's log to a failure."""
    report = yield
    for name in ("kafka_broker", "kafka_cluster"):
        broker: Any = getattr(item, "funcargs", {}).get(name)
        if report.failed and isinstance(broker, Broker | Cluster):
            report.sections.append((f"log of {broker}", broker.log_tail()))
    return report
