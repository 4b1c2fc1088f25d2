"""Three brokers in containers: one frozen, one killed, one cut off the network, and whole again after each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from kafka_assignors.integration.broker.cluster import Cluster, start_cluster
from kafka_assignors.integration.broker.ready import nodes
from tests.support.integration.readback import read
from tests.support.programs import owner
from tests.support.waiting import until

# long: three containers; test_contract.py has one, and test_cluster.py three brokers as processes
pytestmark = [pytest.mark.broker, pytest.mark.docker, pytest.mark.long]

DEADLINE_S = 90
OWNER = """
import signal
from kafka_assignors.integration.broker.cluster import start_cluster
cluster = start_cluster(1, backend="docker", timeout_s=150)
cluster.nodes[0].pause()
print(cluster.nodes[0]._place._containers.network.name, *cluster.pids(), flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster(backend="docker", timeout_s=150) as made:
        yield made


def containers(cluster: Cluster) -> list[str]:
    import docker

    with closing(docker.from_env()) as client:
        found = client.containers.list(all=True, filters={"network": cluster.nodes[0]._place._containers.network.name})  # type: ignore[attr-defined]
        return [container.id for container in found]


def test_three_nodes_in_three_racks_that_clients_reach(cluster):
    for node in cluster.nodes:
        seen = nodes(node.bootstrap)
        assert sorted((n.node_id, n.rack) for n in seen) == [(1, "a"), (2, "b"), (3, "c")]
        assert {f"{n.host}:{n.port}" for n in seen} == set(cluster.bootstrap.split(","))
    assert len(containers(cluster)) == 3
    assert len([pid for pid in cluster.pids() if psutil.Process(pid).name() == "java"]) == 3


def test_one_node_less_and_the_others_serve_until_it_is_back(cluster):
    """Pause, kill and cut-off, a different node each time; every record that was promised is there in the end."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        placed = {"assignments": {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}}
        admin.create_topics({"kept": placed}, wait_for_metadata=True)
    sent: set[bytes] = set()
    for fault, victim in (("pause", 1), ("kill", 2), ("disconnect", 3)):
        witness = cluster.node(victim % 3 + 1)

        getattr(cluster.node(victim), fault)()

        until(lambda w=witness: len(nodes(w.bootstrap)) == 2, f"{fault} of node {victim} is noticed", DEADLINE_S)
        settings = {"acks": "all", "request_timeout_ms": 4000, "retry_backoff_ms": 100}
        with closing(KafkaProducer(bootstrap_servers=witness.bootstrap, **settings)) as producer:
            values = [b"%s %d" % (fault.encode(), i) for i in range(30)]
            for future in [producer.send("kept", value, partition=i % 3) for i, value in enumerate(values)]:
                future.get(DEADLINE_S)
            sent |= set(values)
        cluster.restore()
        assert len(nodes(cluster.node(victim).bootstrap)) == 3
    # A node that was cut off serves before it has heard who leads now: until then it tells its own, older ends.
    promised = "every record that was promised is read"
    until(lambda: read(cluster.bootstrap, "kept", 3, DEADLINE_S) >= sent, promised, DEADLINE_S)


def test_close_leaves_no_container_and_no_network(cluster):
    """Of a frozen node neither. Last: the module's cluster is gone afterwards."""
    import docker

    network = cluster.nodes[0]._place._containers.network.name
    pids = cluster.pids()
    cluster.nodes[0].pause()

    cluster.close()

    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    with closing(docker.from_env()) as client:
        assert client.networks.list(names=[network]) == []


def test_sigkill_of_the_owner_leaves_no_container_and_no_network():
    """SIGKILL runs no handler; the reaper removes even a frozen node, and then the network."""
    import docker

    with owner(OWNER) as (_, (network, *pids)):
        left = [psutil.Process(int(pid)) for pid in pids]
        assert len(left) == 2, "a reaper and a node"

    assert psutil.wait_procs(left, timeout=15)[1] == []
    with closing(docker.from_env()) as client:
        assert client.networks.list(names=[network]) == []
        assert client.containers.list(all=True, filters={"label": f"kafka-assignors.run={network[6:]}"}) == []
