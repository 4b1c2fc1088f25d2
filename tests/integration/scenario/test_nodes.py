"""A group while brokers crash, come back and restart in turn: nothing is lost, and nobody rebalances for that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.errors import NotSupported
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender
from kafka_assignors.integration.scenario import Scenario, scenario
from kafka_assignors.integration.scenario.actions import UncleanElection
from kafka_assignors.integration.scenario.outages import MISSED, Outages
from kafka_assignors.integration.scenario.runner import run_scenario

pytestmark = pytest.mark.broker


def own(what: Scenario, folder: Path) -> Scenario:
    return replace(what, topics={f"orders-{folder.name}": 6})


@pytest.mark.timeout(300)
@pytest.mark.release("test_contract.py kills a broker that comes back")
def test_a_group_goes_on_when_its_coordinator_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """The first steps of the next test: its members find the next coordinator within their session of 6 s."""
    what = own(scenario("nodes"), tmp_path)
    what = replace(what, steps=what.steps[:3])  # the fixture brings the node back

    result = judged(run_scenario(what, cluster, tmp_path, "run", group=f"killed-{tmp_path.name}", timeout_s=120))

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    _, joined, killed = result.steps
    assert (killed.generation, killed.owned) == (joined.generation, joined.owned)
    assert verdict.checked["C3"] == verdict.measures["acked"] > 0
    (hit,) = [e for e in History.load(tmp_path).events if e.data.get("fault") == "broker_kill"]
    assert hit.data["coordinator"] is True


# long: six starts of brokers; the test above has the coordinator's end, broker/test_contract.py a restart
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_group_outlives_its_brokers(cluster: Cluster, tmp_path: Path) -> None:
    """The coordinator's node is killed and comes back, all restart in turn, coordinator and leader die together."""
    what = own(scenario("nodes"), tmp_path)
    what = replace(what, steps=what.steps[:-1])  # the fixture brings the last node back

    result = judged(run_scenario(what, cluster, tmp_path, "run", group=f"nodes-{tmp_path.name}", timeout_s=120))

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

    result = judged(run_scenario(what, cluster, tmp_path, "run", group=f"short-{tmp_path.name}", timeout_s=120))

    assert (result.verdict.violations, result.verdict.unknown, result.verdict.value) == ((), (), True)
    assert result.verdict.checked["C3"] == result.verdict.measures["acked"] > 0


# long: an election that loses records, on three brokers; checker/judge/test_truncation.py has the verdicts
@pytest.mark.long
@pytest.mark.timeout(300)
def test_who_loses_acknowledged_records_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """An unclean election: the verdict names the offsets that the brokers lost, and acquits the members."""
    what, topic = scenario("unclean"), f"unclean-{tmp_path.name}"
    joined, elected, back = what.steps
    elected = replace(elected, actions=(UncleanElection(topic),))
    what = replace(what, topics={topic: 2}, lossy=(topic,), steps=(joined, elected, back))

    result = judged(run_scenario(what, cluster, tmp_path, "run", group=f"unclean-{tmp_path.name}", timeout_s=120))

    verdict, events = result.verdict, History.load(tmp_path).events
    (event,) = [e for e in events if e.kind == "truncated"]
    (row,) = event.data["offsets"]
    assert (row["topic"], row["partition"]) == (topic, 0)
    lost = [e for e in events if e.kind == "ack" and e.data["partition"] == 0 and e.mono_ns < event.mono_ns]
    lost = [ack for ack in lost if row["offset"] <= ack.data["offset"] < row["end"]]
    assert len(lost) == row["end"] - row["offset"] >= MISSED
    # Its owner had consumed and committed them, went back, and committed less: nobody but the brokers is to blame.
    assert (verdict.value, verdict.unknown, [v.law for v in verdict.violations]) == (False, (), ["K1"])
    assert verdict.violations[0].message.startswith(
        f"the brokers lost offsets {row['offset']}-{row['end'] - 1} of {topic}-0, {len(lost)} of which were "
    )
    read = [r for e in events if e.kind == "consume" for r in e.data["offsets"] if r["partition"] == 0]
    assert any(after["first"] == row["offset"] < before["last"] for before, after in pairwise(read))
    assert verdict.skipped["C3"] == {"its brokers lost the record": len(lost)}
    # The same without the harness's word of it: what the laws then say of members is what that excuses.
    unsaid = check(History([e for e in events if e.kind != "truncated"]))
    assert {v.law for v in unsaid.violations} >= {"C2", "K1", "K2"}


def test_a_partition_that_can_not_lose_records(
    cluster: Cluster, kafka_cluster_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_cluster_topic()
    with (
        MemberGroup(cluster.bootstrap, f"lossless-{tmp_path.name}", tmp_path, "run") as group,
        Sender(cluster.bootstrap, tmp_path, "run", [topic], "default", 10, acks="leader") as sender,
        pytest.raises(ConfigError, match=rf"{topic}-0 has leader \d and followers \[\d, \d\], and needs one of each"),
    ):
        Outages(cluster, group).elect_unclean(TopicPartition(topic, 0), sender)


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
        with pytest.raises(ConfigError, match=rf"node {node.node_id} is already down \(broker_pause\); restore"):
            outages.kill(node.node_id)
        outages.restore()
        group.wait_stable()


def test_a_single_broker_has_no_nodes_to_hit(kafka_broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"scenario 'nodes' needs a cluster of 3 nodes, not <"):
        run_scenario(scenario("nodes"), kafka_broker, tmp_path, "run")
