"""A group while brokers crash, come back and restart in turn: nothing is lost, and nobody rebalances for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from integration.broker import Broker
from integration.broker.cluster import Cluster
from integration.errors import NotSupported
from integration.group import MemberGroup
from integration.history import History
from integration.outages import Outages
from integration.play import play
from integration.scenario import Scenario, scenario
from kafka_assignors.errors import ConfigError

pytestmark = pytest.mark.broker


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Iterator[Cluster]:
    """The session's cluster, whole again afterwards."""
    yield kafka_cluster
    kafka_cluster.restore()


def own(what: Scenario, folder: Path) -> Scenario:
    return replace(what, topics={f"orders-{folder.name}": 6})


@pytest.mark.timeout(400)
def test_a_group_outlives_its_brokers(cluster: Cluster, tmp_path: Path) -> None:
    """The coordinator's node is killed and comes back, all restart in turn, coordinator and leader die together."""
    what = own(scenario("nodes"), tmp_path)
    what = replace(what, steps=what.steps[:-1])  # the fixture brings the last node back

    result = play(what, cluster, tmp_path, "run", group=f"nodes-{tmp_path.name}", timeout_s=120)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    _, joined, killed, back, restarted, together = result.steps
    # Its members found the next coordinator within their session of 6 s: no generation, no callback.
    assert killed.generation == back.generation == restarted.generation == joined.generation
    assert killed.owned == back.owned == restarted.owned == joined.owned
    assert sorted(together.owned) == ["m2", "m3"]
    assert together.generation - restarted.generation <= 2
    assert verdict.checked["C3"] == verdict.measures["acked"] > 0
    faults = [e for e in History.load(tmp_path).events if str(e.data.get("fault", "")).startswith("broker_")]
    ends = [e.data["fault"] for e in faults if e.kind == "fault_end"]
    assert ends == ["broker_kill", *["broker_restart"] * 3]
    hit = [e for e in faults if e.kind == "fault_begin"]
    assert [e.data["coordinator"] for e in hit if e.data["fault"] == "broker_kill"] == [True, True]
    assert sorted(e.data["target"] for e in hit if e.data["fault"] == "broker_restart") == [
        "node 1",
        "node 2",
        "node 3",
    ]
    assert any(e.data["coordinator"] for e in hit if e.data["fault"] == "broker_restart")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_eager_group_with_a_short_session_outlives_them_too(cluster: Cluster, tmp_path: Path) -> None:
    """A session of 2 s is over before a killed node is missed (3 s), but the next coordinator gives a whole one."""
    what = replace(own(scenario("nodes"), tmp_path), session_timeout_ms=2000, assignors=("sticky",))

    result = play(what, cluster, tmp_path, "run", group=f"short-{tmp_path.name}", timeout_s=120)

    assert (result.verdict.violations, result.verdict.unknown, result.verdict.value) == ((), (), True)
    assert result.verdict.checked["C3"] == result.verdict.measures["acked"] > 0


def test_nodes_that_can_not_be_hit(cluster: Cluster, kafka_cluster_topic: Callable[..., str], tmp_path: Path) -> None:
    with MemberGroup(cluster.bootstrap, f"outages-{tmp_path.name}", tmp_path, "run") as group:
        group.start("m1", [kafka_cluster_topic()], ["range"])
        group.wait_stable()
        outages = Outages(cluster, group)
        with pytest.raises(ConfigError, match=r"no node 7 in this cluster; its nodes are \[1, 2, 3\]"):
            outages.kill(7)
        with pytest.raises(ConfigError, match="a node is its number or 'coordinator', not 'leader'"):
            outages.pause("leader")
        node = outages.pause("coordinator")
        assert node.node_id in (1, 2, 3)
        with pytest.raises(ConfigError, match=rf"node {node.node_id} is away already \(broker_pause\); restore"):
            outages.kill(node.node_id)
        outages.restore()
        group.wait_stable()


def test_a_single_broker_has_no_nodes_to_hit(kafka_broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"scenario 'nodes' needs a cluster of 3 nodes, not <"):
        play(scenario("nodes"), kafka_broker, tmp_path, "run")
