"""Racks on a real cluster: a partition goes to a member beside one of its replicas, as far as balance allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.integration.broker.java import LiveJava
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup, Stable
from tests.support.integration.racks import NAMES, PLACED, RACK_OF_NODE, one_leaves

pytestmark = [pytest.mark.broker, pytest.mark.source("KIP-881")]


@pytest.fixture
def group(kafka_cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., MemberGroup]]:
    with ExitStack() as stack:

        def make(**settings: Any) -> MemberGroup:
            name = f"g-{tmp_path.name}"
            return stack.enter_context(MemberGroup(kafka_cluster.bootstrap, name, tmp_path, "run", **settings))

        yield make


def far(stable: Stable, placed: list[list[int]], racks: Mapping[str, str] = NAMES) -> dict[int, str]:
    """partition -> member, where the member's rack has none of its replicas."""
    return {
        partition: member
        for member, topics in stable.owned.items()
        for partitions in topics.values()
        for partition in partitions
        if racks[member] not in {RACK_OF_NODE[node] for node in placed[partition]}
    }


def sizes(stable: Stable) -> list[int]:
    return sorted(sum(map(len, topics.values())) for topics in stable.owned.values())


def judge(folder: Path, topic: str, placed: list[list[int]]) -> History:
    """All laws hold; the replay had the racks that the leader saw, and needed them."""
    history = History.load(folder)
    verdict = check(history)
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert verdict.checked["A1"] >= 1
    seen = [event.data["racks"] for event in history.events if event.kind == "assign_begin"]
    expected = [sorted(RACK_OF_NODE[node] for node in nodes) for nodes in placed]
    assert seen[-1] == {topic: expected}
    return history


# long: with one replica a rack is near or far, with two it is more often near; the goals are the same
EACH = pytest.mark.parametrize("replicas", [pytest.param("one replica", marks=pytest.mark.long), "two replicas"])


@EACH
def test_cooperative_members_own_what_lies_in_their_rack(replicas, group, kafka_cluster_topic, tmp_path):
    """Three members in three racks: nobody reads over a zone's border. One leaves: only what it alone was near to."""
    placed = PLACED[replicas]
    topic = kafka_cluster_topic(placed=placed, name="racks")
    three, two = one_leaves(group(), topic, "cooperative-sticky")

    assert far(three, placed) == {}
    assert sizes(three) == [3, 3, 3]
    assert sizes(two) == [4, 5]
    nobody_near = {p for p, nodes in enumerate(placed) if not {RACK_OF_NODE[node] for node in nodes} & {"a", "b"}}
    assert set(far(two, placed)) == nobody_near
    judge(tmp_path, topic, placed)


@pytest.mark.long  # long: core/java/test_live_java.py asks Java's own class about groups with racks
@EACH
def test_range_with_racks_is_what_javas_own_class_computes(replicas, group, kafka_cluster_topic, kafka_java, tmp_path):
    """Java's range is greedy, so with a member gone it may miss a rack; from the committed bytes it misses the same."""
    placed = PLACED[replicas]
    topic = kafka_cluster_topic(placed=placed, name="racks")
    three, two = one_leaves(group(), topic, "range")

    assert far(three, placed) == {}
    assert (sizes(three), sizes(two)) == ([3, 3, 3], [4, 5])
    history = judge(tmp_path, topic, placed)
    # a leader that has just started may assign before it has seen the topic
    seen = {e.data["generation"] for e in history.events if e.kind == "assign_begin" and e.data["topics"] == {topic: 9}}
    rows = [e.data for e in history.events if e.kind == "generation_committed" and e.data["generation"] in seen]
    committed = [row["members"] for row in rows if row["members"]]
    assert {len(members) for members in committed} >= {2, 3}
    for members in committed:
        given = {m["member_id"]: [(tp["topic"], tp["partition"]) for tp in m["assigned"]] for m in members}
        assert given == java_range(kafka_java, topic, placed, members)


def java_range(java: LiveJava, topic: str, placed: list[list[int]], members: list[Any]) -> dict[str, Any]:
    """member id -> topic-partitions, by Java's RangeAssignor from the members' bytes and the topic's replicas."""
    kafka = java.classes.org.apache.kafka
    nodes = {i: kafka.common.Node(i, "host", 9092, rack) for i, rack in RACK_OF_NODE.items()}
    partitions = []
    for partition, ids in enumerate(placed):
        replicas = java.array(kafka.common.Node, [nodes[i] for i in ids])
        partitions.append(kafka.common.PartitionInfo(topic, partition, nodes[ids[0]], replicas, replicas))
    read = kafka.clients.consumer.internals.ConsumerProtocol.deserializeSubscription
    wrap = java.classes.java.nio.ByteBuffer.wrap
    subscriptions = {m["member_id"]: read(wrap(bytes.fromhex(m["subscription"]))) for m in members}
    answer = kafka.clients.consumer.RangeAssignor().assignPartitions({topic: partitions}, subscriptions)
    return {member: sorted((tp.topic(), tp.partition()) for tp in answer[member]) for member in answer}


def test_without_racks_the_same_group_reads_over_the_border(group, kafka_cluster_topic):
    """The control: what the members' racks change."""
    placed = PLACED["one replica"]
    topic = kafka_cluster_topic(placed=placed, name="racks")
    members = group()
    for name in NAMES:
        members.start(name, [topic], ["range"])
    stable = members.wait_stable(timeout_s=60)

    assert len(far(stable, placed)) == 6


# long: sessions of 10 s; the first test has members near their replicas, core/sticky/ the order of the goals
@pytest.mark.long
def test_a_rack_is_worth_a_move_and_balance_is_worth_a_rack(group, kafka_cluster_topic, tmp_path):
    """The default order. Static members that come back in the wrong racks swap what they have, though balance needs no
    move; and a third one that has no rack gets its share, though nothing is near to it."""
    placed = [[1], [2]] * 3
    topic, members = kafka_cluster_topic(placed=placed, name="racks"), group(session_timeout_ms=10_000)

    def start(name: str, rack: str | None, static: bool = True) -> None:
        members.start(name, [topic], ["cooperative-sticky"], instance_id=name if static else None, rack=rack)

    for name in ("s1", "s2"):
        start(name, None)
    before = members.wait_stable(timeout_s=60)
    near = {n: [RACK_OF_NODE[placed[p][0]] for p in before.owned[n][topic]].count("a") for n in ("s1", "s2")}
    wrong = {"s1": "b", "s2": "a"} if near["s1"] >= near["s2"] else {"s1": "a", "s2": "b"}
    misplaced = far(before, placed, wrong)
    assert len(misplaced) >= 4
    for name, rack in wrong.items():  # a restart within the session makes no generation, but leaves the rack in the log
        members.kill(name)
        start(name, rack)
        assert members.wait_stable(timeout_s=60).generation == before.generation

    start("m3", None, static=False)
    three = members.wait_stable(timeout_s=60)
    members.stop("m3")
    two = members.wait_stable(timeout_s=60)
    members.close()

    assert (sizes(three), sizes(two)) == ([2, 2, 2], [3, 3])
    assert set(far(three, placed, {**wrong, "m3": "nowhere"}).values()) == {"m3"}
    assert far(two, placed, wrong) == {}
    moved = [p for p in range(6) if holder(two, topic, p) != holder(before, topic, p)]
    assert moved == sorted(misplaced)
    assert check(History.load(tmp_path)).value is True


def holder(stable: Stable, topic: str, partition: int) -> str:
    return next(member for member, topics in stable.owned.items() if partition in topics.get(topic, ()))
