"""A fenced member joins again beside a new one: what it had is lost, so it claims nothing and nothing is stranded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.errors import NotStable, NotSupported
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender

pytestmark = pytest.mark.broker
MakeGroup = Callable[..., MemberGroup]
MakeTopic = Callable[..., str]

TIMES = 3  # 20 of 20 when this was made; a round takes about 5 s
PARTITIONS = 6
POLL_INTERVAL_MS = 2500


def fenced_and_joined_by_another(
    assignor: str, broker: Broker, group: MemberGroup, topic: str, folder: Path, times: int = 1, wait: bool = True
) -> Verdict:
    """A polls too late and is out, C takes over; then A polls again at the moment when a new B joins.

    Args:
        times: How often; B leaves in between.
        wait: Until somebody owns each partition; else until the members are at rest.
    """

    def start(name: str) -> None:
        group.start(name, [topic], [assignor], max_poll_interval_ms=POLL_INTERVAL_MS)

    def loads() -> list[int]:
        return sorted(sum(map(len, topics.values())) for topics in group.wait_stable(complete=wait).owned.values())

    with Sender(broker.bootstrap, folder, "run", [topic], "kafka-python:default", 50):
        group.step("A and C join")
        start("a")
        start("c")
        assert loads() == [3, 3]
        for number in range(times):
            group.step("A polls no more")
            group.stall("a")
            assert loads() == [6]
            newcomer = f"b{number}"
            start(newcomer)
            group.stall(newcomer)  # it is ready to join
            group.step("A polls again, B joins")
            group.resume("a")
            group.resume(newcomer)
            assert loads() == [2, 2, 2] or not wait
            if number + 1 < times:
                group.step("B leaves")
                group.stop(newcomer)
                assert loads() == [3, 3]
    group.close()
    return check(History.load(folder))


# long: several stalls; scenario/test_scenarios.py has a paused member that comes back, its claims judged by the same
# law R6
@pytest.mark.long
@pytest.mark.source("kafka-python 3.0.12: a claim is what was last assigned, whatever was lost since")
def test_a_fenced_member_claims_nothing_and_nothing_is_stranded(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=PARTITIONS)

    verdict = fenced_and_joined_by_another("cooperative-sticky", kafka_broker, unjudged_group(), topic, tmp_path, TIMES)

    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert verdict.checked["R6"] >= 6 * TIMES
    assert verdict.checked["T2"] == TIMES
    lost = [i for i in verdict.intervals if i.end_kind == "lost"]
    assert {(i.member, i.topic) for i in lost} == {("a", topic)}
    assert len(lost) == TIMES * PARTITIONS // 2


@pytest.mark.long
@pytest.mark.source("kafka-python 3.0.12: claims come from what was last assigned, and lost doesn't clear them")
def test_kafka_pythons_own_assignor_claims_what_it_lost(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """The control: the same script finds the false claim, whether or not a partition is stranded by it this time."""
    topic = kafka_topic(partitions=PARTITIONS)
    group, assignor = unjudged_group(), "kafka-python:cooperative-sticky"

    verdict = fenced_and_joined_by_another(assignor, kafka_broker, group, topic, tmp_path, wait=False)

    false_claims = [v for v in verdict.violations if v.law == "R6"]
    assert verdict.value is False
    assert "a joined generation" in false_claims[0].message
    assert false_claims[0].message.endswith("and owned nothing")


def test_java_cannot_be_told_to_stall(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    group = unjudged_group()
    group.start("j1", [kafka_topic()], ["range"], client="java")

    with pytest.raises(NotSupported, match="'j1' runs java, which does not support stall"):
        group.stall("j1")


def test_a_member_without_records_cannot_stall(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    """It stops between two polls, and a poll without records takes half a minute."""
    group = unjudged_group()
    group.start("m1", [kafka_topic()], ["range"])
    group.wait_stable()

    with pytest.raises(NotStable, match=r"'m1' .* still polls after 0.3 s; send records"):
        group.stall("m1", timeout_s=0.3)
