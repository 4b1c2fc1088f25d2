"""Three real brokers in three racks: what a cluster owes when its nodes stop, crash and stall."""

from __future__ import annotations

import re
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker.cluster import Node, start_cluster
from kafka_assignors.integration.broker.ready import nodes
from kafka_assignors.integration.errors import BrokerNotReady
from tests.support.integration.readback import read
from tests.support.programs import owner, ran, running
from tests.support.waiting import until

pytestmark = pytest.mark.broker

DEADLINE_S = 60
OWNER = """
import signal
from kafka_assignors.integration.broker.cluster import start_cluster
cluster = start_cluster(1)
cluster.nodes[0].pause()
print(*cluster.pids(), flush=True)
signal.pause()
"""


def partitions(node: Node, topic: str) -> list[dict[str, Any]]:
    """The topic's partitions, by a client that starts at this node."""
    with closing(KafkaAdminClient(bootstrap_servers=node.bootstrap)) as admin:
        (found,) = admin.describe_topics([topic])
    return sorted(found["partitions"], key=lambda p: p["partition_index"])


def test_every_node_names_all_three_with_their_racks(cluster):
    expected = [(1, "a"), (2, "b"), (3, "c")]

    assert [(node.node_id, node.rack) for node in cluster.nodes] == expected
    for node in cluster.nodes:
        seen = nodes(node.bootstrap)
        assert sorted((n.node_id, n.rack) for n in seen) == expected
        assert {f"{n.host}:{n.port}" for n in seen} == set(cluster.bootstrap.split(","))


def test_a_topic_has_its_replicas_where_they_were_asked_for(cluster, kafka_cluster_topic):
    spread = kafka_cluster_topic(partitions=6)
    named = kafka_cluster_topic(placed=[[3, 1], [1, 2], [2, 3]])

    assert [sorted(p["replica_nodes"]) for p in partitions(cluster.nodes[0], spread)] == [[1, 2, 3]] * 6
    assert {p["leader_id"] for p in partitions(cluster.nodes[0], spread)} == {1, 2, 3}
    found = partitions(cluster.nodes[0], named)
    assert [p["replica_nodes"] for p in found] == [[3, 1], [1, 2], [2, 3]]
    assert [p["leader_id"] for p in found] == [3, 1, 2]


# long: producers/test_cluster_faults.py sends through a broker's death, scenario/test_nodes.py has a group that
# outlives one
@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "victim"),
    [
        ("kill", 2),
        # long: gentler or slower ends of a node, after which the others do the same
        pytest.param("stop", 1, marks=pytest.mark.long),
        pytest.param("pause", 3, marks=pytest.mark.long),
    ],
)
def test_one_node_less_and_the_others_lead_and_serve_until_it_is_back(cluster, kafka_cluster_topic, fault, victim):
    """One producer goes through it all: what it was told is there is there, before and after."""
    topic = kafka_cluster_topic(placed=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    node, witness = cluster.node(victim), cluster.node(victim % 3 + 1)
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap, acks="all", request_timeout_ms=4000, retry_backoff_ms=100
    )
    with closing(producer):
        send(producer, topic, range(60))
        getattr(node, fault)()
        during = [producer.send(topic, b"%d" % i, partition=i % 3) for i in range(60, 120)]
        until(lambda: len(nodes(witness.bootstrap)) == 2, f"node {victim} is missed", DEADLINE_S)
        others = {1, 2, 3} - {victim}
        until(
            lambda: all(p["leader_id"] in others for p in partitions(witness, topic)),
            f"nodes {others} lead what node {victim} led",
            DEADLINE_S,
        )
        for future in during:
            future.get(DEADLINE_S)
        send(producer, topic, range(120, 180))
    assert read(witness.bootstrap, topic, 3, DEADLINE_S) >= {b"%d" % i for i in range(180)}

    cluster.restore()

    until(
        lambda: all(sorted(p["isr_nodes"]) == [1, 2, 3] for p in partitions(node, topic)),
        f"node {victim} is in sync again",
        DEADLINE_S,
    )
    assert node.runs
    assert not node.paused


def send(producer: KafkaProducer, topic: str, numbers: range) -> None:
    for future in [producer.send(topic, b"%d" % i, partition=i % 3) for i in numbers]:
        future.get(DEADLINE_S)


@pytest.mark.long  # long: test_contract.py restarts a broker of each backend, with its data
def test_a_restart_is_a_new_process_with_the_old_data(cluster, kafka_cluster_topic):
    node = cluster.nodes[1]
    topic = kafka_cluster_topic(placed=[[node.node_id]])
    before = node.pids()
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")) as producer:
        producer.send(topic, b"kept", partition=0).get(DEADLINE_S)

    node.restart()

    assert node.pids()
    assert not set(node.pids()) & set(before)
    until(
        lambda: [p["leader_id"] for p in partitions(node, topic)] == [node.node_id],
        "the only replica leads",
        DEADLINE_S,
    )
    assert read(node.bootstrap, topic, 1, DEADLINE_S) == {b"kept"}


def test_close_leaves_nothing_of_a_paused_node():
    with start_cluster(1) as cluster:
        pids = cluster.pids()
        folders = [Path(psutil.Process(pid).cwd()) for pid in pids]
        assert len(pids) == 2, "a watchdog and a node"
        assert all(folder.exists() for folder in folders)
        cluster.nodes[0].pause()

    cluster.close()
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert [folder for folder in folders if folder.exists()] == []


@pytest.mark.long  # long: three more brokers; test_ends.py kills the owner of one, the test above ends a paused one
def test_sigkill_of_the_owner_leaves_not_even_a_paused_node():
    """SIGKILL runs no handler; the watchdogs end their nodes and remove their folders."""
    with owner(OWNER) as (_, pids):
        left = [psutil.Process(int(pid)) for pid in pids]
        folders = [Path(process.cwd()) for process in left]
        assert len(left) == 2, "a watchdog and a node"

    assert psutil.wait_procs(left, timeout=10)[1] == []
    assert [folder for folder in folders if folder.exists()] == []


def test_a_node_that_dies_while_starting_shows_its_log():
    with pytest.raises(BrokerNotReady, match="ended with exit code 1 before it was ready") as caught:
        start_cluster(2, settings={"num.network.threads": "none"})

    assert "num.network.threads" in str(caught.value)


def test_arguments_that_cannot_work():
    with pytest.raises(ConfigError, match="nodes must be an int of at least 1, not 0"):
        start_cluster(0)
    with pytest.raises(ConfigError, match=r"racks must be a list of names .* not 'abc'"):
        start_cluster(racks="abc")


def test_an_unknown_node_is_named_with_the_known_ones(kafka_cluster):
    with pytest.raises(ConfigError, match=r"no node 4 in this cluster; its nodes are \[1, 2, 3\]"):
        kafka_cluster.node(4)


# long: commands/test_cli.py ends `up` with Ctrl-C and looks for what is left, the suite's cluster has nodes of this
# backend
@pytest.mark.long
def test_up_with_nodes_is_a_cluster_that_ends_with_ctrl_c():
    command = [sys.executable, "-u", "-m", "kafka_assignors.integration", "up", "--nodes", "2", "--backend", "shared"]
    with running(*command) as (up, lines):
        line = lines.readline()
        children = psutil.Process(up.pid).children(recursive=True)
        addresses = re.findall(r"127\.0\.0\.1:\d+", line)
        assert "racks a, b" in line
        assert [n.rack for n in sorted(nodes(addresses[0]), key=lambda n: n.node_id)] == ["a", "b"]
        up.send_signal(signal.SIGINT)
        assert up.wait(30) == 130
    assert psutil.wait_procs(children, timeout=5)[1] == []


def test_up_refuses_nodes_with_a_port():
    command = [sys.executable, "-m", "kafka_assignors.integration", "up", "--nodes", "3", "--port", "9092"]
    done = ran(*command, within_s=DEADLINE_S)

    assert done.returncode == 2
    assert done.stderr.strip() == ("error: --nodes 3 starts brokers on free ports; remove --port")
