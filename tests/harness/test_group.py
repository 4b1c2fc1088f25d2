"""Groups of real members on a real broker: they come, leave and die, and the verdict is true."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.broker import Broker
from integration.checker import check, intervals
from integration.group import MemberGroup
from integration.history import History
from integration.records import Record, Sender, read_back, send
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.election import elect
from kafka_assignors.kafka_python import ASSIGNORS

from .planted import Custom

pytestmark = pytest.mark.broker
MakeGroup = Callable[..., MemberGroup]
MakeTopic = Callable[..., str]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_join_leave_and_die_and_nothing_is_lost(
    assignor: str, kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """The whole course of a group's life under load: the laws hold, each that applies judged at least once."""
    topics = [kafka_topic(partitions=5, name="orders"), kafka_topic(partitions=3, name="audit")]
    everything = {TopicPartition(topics[0], p) for p in range(5)} | {TopicPartition(topics[1], p) for p in range(3)}
    group = unjudged_group()
    with Sender(kafka_broker.bootstrap, tmp_path, "run", topics, "default", 100) as sender:
        group.step("three join")
        for name in ("m1", "m2", "m3"):
            group.start(name, topics, [assignor])
        seen = [group.wait_stable()]
        group.step("a fourth joins")
        group.start("m4", topics, [assignor])
        seen.append(group.wait_stable())
        group.step("m2 leaves")
        group.stop("m2")
        seen.append(group.wait_stable())
        group.step("m3 is killed")
        group.kill("m3")
        seen.append(group.wait_stable())
    group.drain()
    group.close()
    read_back(kafka_broker.bootstrap, tmp_path, "run", topics)

    for stable, members in zip(seen, ["m1 m2 m3", "m1 m2 m3 m4", "m1 m3 m4", "m1 m4"], strict=True):
        assert sorted(stable.owned) == members.split()
        assert stable.protocol == assignor
        assert stable.leader in stable.owned
        owned = [TopicPartition(t, p) for ts in stable.owned.values() for t, ps in ts.items() for p in ps]
        assert sorted(owned) == sorted(everything)
    assert [s.generation for s in seen] == sorted({s.generation for s in seen})
    # A killed member is missed when its session of 2 s ends, and not before: at most a heartbeat was sent after.
    assert seen[3].seconds >= 1.5
    assert sender.stop().nacked == 0

    history = History.load(tmp_path)
    verdict = check(history)
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    # The steps here name no bound for gaps, there is no static member, and nothing need be read twice.
    cooperative, sticky = assignor == "cooperative-sticky", "sticky" in assignor
    apart = {"O4", "S1", "S2", "C4", "T2", "T3"}
    apart |= (set() if cooperative else {"R2", "R3"}) | (set() if sticky else {"R4"})
    assert {law for law, times in verdict.checked.items() if not times} | {"C4"} == apart
    assert [step["name"] for step in verdict.measures["steps"]] == [
        "three join",
        "a fourth joins",
        "m2 leaves",
        "m3 is killed",
    ]
    assert {i.end_kind for i in intervals(history) if i.member == "m3"} >= {"killed"}
    assert all(i.end_kind == "revoked" for i in intervals(history) if i.member == "m2")


@pytest.mark.source("issue: the election example; range wins 2 : 1 over roundrobin")
def test_the_broker_elects_what_the_vote_gives(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=4)
    custom = "tests.harness.planted:Custom"
    lists = {
        "c1": ["range", "roundrobin", custom],
        "c2": ["range", "roundrobin", "sticky"],
        "c3": ["roundrobin", "range", "sticky"],
    }
    group = unjudged_group()
    for name, assignors in lists.items():
        group.start(name, [topic], assignors)
    stable = group.wait_stable()
    group.close()

    offers = {member: [Custom.name if a == custom else a for a in names] for member, names in lists.items()}
    assert elect(offers).winner == "range"
    assert stable.protocol == "range"
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.value) == ((), True)
    assert verdict.checked["G3"] >= 1


def test_an_assignor_of_ones_own_wins_where_all_offer_it(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(partitions=2)
    group = unjudged_group()
    for name in ("m1", "m2"):
        group.start(name, [topic], ["tests.harness.planted:Custom", "range"])

    assert group.wait_stable().protocol == "custom"


def test_kafka_pythons_own_assignor_runs_by_name(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """Its answer isn't ours to replay, all other laws hold."""
    topic = kafka_topic(partitions=3)
    group = unjudged_group()
    for name in ("m1", "m2"):
        group.start(name, [topic], ["kafka-python:range"])
    stable = group.wait_stable()
    group.close()

    assert stable.protocol == "range"
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.value, verdict.checked["A1"]) == ((), True, 0)


def test_a_member_comes_back_under_its_name(unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    topic = kafka_topic(partitions=2)
    group = unjudged_group()
    group.start("m1", [topic], ["sticky"])
    first = group.wait_stable()
    group.kill("m1")
    group.start("m1", [topic], ["sticky"])
    second = group.wait_stable()
    group.close()

    assert first.owned == second.owned == {"m1": {topic: [0, 1]}}
    assert second.generation > first.generation
    history = History.load(tmp_path)
    assert {i.incarnation for i in intervals(history)} == {0, 1}
    assert check(history).value is True


def test_a_static_member_restarts_within_its_session_and_its_group_does_not_notice(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=4)
    group = unjudged_group(session_timeout_ms=10_000)
    for name in ("m1", "m2"):
        group.start(name, [topic], ["range"], instance_id=f"{name}-static")
    before = group.wait_stable()
    group.kill("m2")
    group.start("m2", [topic], ["range"], instance_id="m2-static")
    after = group.wait_stable()

    assert after.owned == before.owned
    assert after.generation == before.generation
    assert after.moves == {}


def test_records_are_consumed_once_and_committed_in_a_quiet_group(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=3)
    sent = send(kafka_broker.bootstrap, tmp_path, "run", "roundrobin", [Record(topic)] * 90)
    group = unjudged_group()
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    ends = group.drain()
    group.close()

    assert sent.counts == {topic: {0: 30, 1: 30, 2: 30}}
    assert ends == {TopicPartition(topic, p): 30 for p in range(3)}
    events = History.load(tmp_path).events
    runs = sorted(
        (o["partition"], o["first"], o["last"], o["count"])
        for e in events
        if e.kind == "consume"
        for o in e.data["offsets"]
    )
    for partition in range(3):
        mine = [r for r in runs if r[0] == partition]
        assert sum(r[3] for r in mine) == 30
        assert [r[1] for r in mine] == [0, *(r[2] + 1 for r in mine[:-1])]
    committed = {e.data["partition"]: e.data["offset"] for e in events if e.kind == "offset_committed"}
    assert committed == {0: 30, 1: 30, 2: 30}
