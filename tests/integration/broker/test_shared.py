"""Three brokers in one JVM: each in its rack, stopped and started alone, and ended by what ends the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from kafka_assignors.errors import UnknownName
from kafka_assignors.integration.broker.cluster import Cluster, start_cluster
from kafka_assignors.integration.broker.ready import nodes
from kafka_assignors.integration.errors import BrokerNotReady, NotSupported

pytestmark = pytest.mark.broker

DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster(backend="shared") as made:
        yield made


# long: a cluster of its own; test_contract.py has this backend's broker, test_cluster.py the racks of three nodes
@pytest.mark.long
def test_three_nodes_in_three_racks_and_one_process(cluster):
    for node in cluster.nodes:
        assert sorted((n.node_id, n.rack) for n in nodes(node.bootstrap)) == [(1, "a"), (2, "b"), (3, "c")]
    assert [psutil.Process(pid).name() for pid in cluster.pids()][1:] == ["java"]
    assert {tuple(node.pids()) for node in cluster.nodes} == {tuple(cluster.pids())}


@pytest.mark.long  # long: test_contract.py restarts a broker of this backend, scenario/test_nodes.py has nodes that go
def test_one_node_stops_the_others_lead_and_it_comes_back_with_its_data(cluster):
    """What was sent to two of three while it was away is there in the end."""
    node, witness = cluster.nodes[0], cluster.nodes[1]
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        admin.create_topics({"kept": {"assignments": {0: [1, 2, 3]}}}, wait_for_metadata=True)
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")) as producer:
        producer.send("kept", b"before", partition=0).get(DEADLINE_S)

        node.stop()

        assert not node.runs
        assert [n.node_id for n in nodes(witness.bootstrap)] == [2, 3]
        producer.send("kept", b"during", partition=0).get(DEADLINE_S)

        node.restart()

        node.restart()

        assert len(nodes(node.bootstrap)) == 3
        assert "DUPLICATE_BROKER_REGISTRATION" not in node.place.log_path.read_text(), "it waited for its old session"
        producer.send("kept", b"after", partition=0).get(DEADLINE_S)
    with closing(KafkaConsumer(bootstrap_servers=node.bootstrap, consumer_timeout_ms=DEADLINE_S * 1000)) as consumer:
        consumer.assign([TopicPartition("kept", 0)])
        consumer.seek_to_beginning()
        assert [next(consumer).value for _ in range(3)] == [b"before", b"during", b"after"]


@pytest.mark.long  # long: needs the cluster of the tests above; test_contract.py has the same refusal of one broker
def test_a_crash_or_a_stall_of_one_node_is_refused(cluster):
    for fault in ("kill", "pause"):
        with pytest.raises(NotSupported, match=rf"{cluster.nodes[2].bootstrap} shares its JVM and cannot be {fault}"):
            getattr(cluster.nodes[2], fault)()
    with pytest.raises(NotSupported, match=r"has no network to be cut off from; use the backend docker"):
        cluster.nodes[2].disconnect()
    assert len(nodes(cluster.nodes[2].bootstrap)) == 3
    assert not cluster.nodes[2].paused
    assert not cluster.nodes[2].cut_off


def test_settings_that_kafka_refuses_are_told_with_its_words():
    with pytest.raises(BrokerNotReady, match=r"did not start: .*ConfigException: .*num\.network\.threads"):
        start_cluster(1, backend="shared", settings={"num.network.threads": "none"})


def test_an_unknown_backend_is_named_with_the_known_ones():
    with pytest.raises(UnknownName, match="unknown cluster backend 'podman'; known: jvm, shared, docker"):
        start_cluster(backend="podman")


@pytest.mark.long  # long: needs the cluster of the tests above; test_ends.py kills what owns such a broker
def test_the_end_of_the_jvm_is_the_end_of_all_nodes_and_is_said(cluster):
    """Last: the module's cluster is gone afterwards."""
    folder = Path(psutil.Process(cluster.pids()[1]).cwd())
    jvm = psutil.Process(cluster.pids()[1])
    jvm.kill()
    psutil.wait_procs([jvm], timeout=10)

    with pytest.raises(BrokerNotReady, match=r"shares ended with exit code 137"):
        cluster.nodes[0].restart()
    assert [node.runs for node in cluster.nodes] == [False] * 3

    cluster.close()
    assert not folder.exists()
