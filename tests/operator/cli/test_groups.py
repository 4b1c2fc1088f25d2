"""`groups` on a real broker: each group's line is what was made."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kafka_assignors.errors import NoSuchGroup
from kafka_assignors.history.generations import generations
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.group_watcher import GroupView, GroupWatcher, Ownership, _trouble
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.operator.live.overview import chosen, rebalanced_ms
from kafka_assignors.operator.live.silence import Silent
from tests.support.cli import answered, cli, valid
from tests.support.live.log import LogStory
from tests.support.programs import running


def test_which_groups_are_meant() -> None:
    known = ["billing", "billing-test", "mail", "a[b]"]

    assert chosen(known, []) == ["a[b]", "billing", "billing-test", "mail"]
    assert chosen(known, ["mail", "b*"]) == ["billing", "billing-test", "mail"]
    assert chosen(known, ["a[b]"]) == ["a[b]"]
    with pytest.raises(NoSuchGroup, match="'bil'"):
        chosen(known, ["mail", "bil"])


def test_groups_in_trouble_come_first() -> None:
    def view(group: str, lag: int | None, *silent: Silent) -> GroupView:
        return GroupView(group, "Stable", "range", ("m",), (Ownership("m", "t", 0, lag),), silent)

    calm, behind, unknown = view("a", 2), view("b", 70), view("c", None)
    stuck = view("d", 5, Silent("m", 60, 5))

    assert sorted([unknown, calm, behind, stuck], key=_trouble) == [stuck, behind, calm, unknown]


@pytest.mark.broker
def test_a_group_that_ends_is_missed_only_by_its_name(kafka_broker: Broker, kafka_topic: Callable[..., str]) -> None:
    topic, mark = kafka_topic(partitions=1), f"ends-{uuid.uuid4().hex[:8]}"
    place = TopicPartition(topic, 0)
    for name in ("a", "b"):
        with closing(KafkaConsumer(group_id=f"{mark}-{name}", bootstrap_servers=kafka_broker.bootstrap)) as consumer:
            consumer.assign([place])
            consumer.commit({place: OffsetAndMetadata(0, "", -1)})
    told: list[str] = []
    with (
        GroupWatcher(kafka_broker.bootstrap, [f"{mark}-*"], told.append, follow=False) as by_pattern,
        GroupWatcher(kafka_broker.bootstrap, [f"{mark}-a", f"{mark}-a"], told.append, follow=False) as by_name,
    ):
        assert [view.group for view in by_pattern.views()] == [f"{mark}-a", f"{mark}-b"]
        assert [view.group for view in by_name.views()] == [f"{mark}-a"], "a name given twice is one group"
        with closing(KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)) as admin:
            admin.delete_groups([f"{mark}-a"])
        assert [view.group for view in by_pattern.views()] == [f"{mark}-b"]
        with pytest.raises(NoSuchGroup, match=f"{mark}-a"):
            by_name.views()


def test_the_end_of_a_group_is_no_rebalance() -> None:
    story = LogStory().given({"a": [0, 1], "b": [2, 3]}).wait(60).given({"a": [0], "b": [2, 3], "c": [1]})
    joined_ms = story.records[-1].ts_ms
    story.wait(60).given({})

    assert rebalanced_ms(generations(story.log.records), whole=True) == joined_ms < story.records[-1].ts_ms
    assert rebalanced_ms([], whole=True) is None


# long: three groups; test_tour.py lists and watches a live one, the tests above have the order and the ends of groups
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.broker
def test_a_classic_a_broker_assigned_and_an_empty_group(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, mark = kafka_topic(partitions=4), f"groups-{uuid.uuid4().hex[:8]}"
    where = {"bootstrap_servers": kafka_broker.bootstrap}
    with closing(KafkaProducer(**where)) as producer:
        for n in range(20):
            producer.send(topic, b"x", partition=n % 4).get(timeout=10)
    with closing(KafkaConsumer(group_id=f"{mark}-empty", **where)) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(2, "", -1)})
    with (
        MemberGroup(kafka_broker.bootstrap, f"{mark}-classic", tmp_path / "1", "run") as classic,
        MemberGroup(kafka_broker.bootstrap, f"{mark}-broker", tmp_path / "2", "run") as by_broker,
    ):
        classic.start("m1", [topic], ["cooperative-sticky"])
        classic.wait_stable()
        by_broker.start("m1", [topic], ["uniform"], client="confluent-consumer")
        by_broker.start("m2", [topic], ["uniform"], client="confluent-consumer")
        by_broker.wait_stable()
        classic.drain()
        by_broker.drain()
        now_ms = time.time() * 1000
        lines = ("groups", f"{mark}*", "-b", kafka_broker.bootstrap)
        told = {
            each["group"].removeprefix(f"{mark}-"): each for each in answered("groups", cli(*lines, "--json"))["groups"]
        }
        text = cli(*lines, COLUMNS="120").stdout
        watched = cli("watch", f"{mark}*", "--once", "--json", "-b", kafka_broker.bootstrap)
        views = [valid("watch", json.loads(line)) for line in watched.stdout.splitlines()]
        every = cli("watch", "--once", "--json", "-b", kafka_broker.bootstrap)
        exported = ("exporter", f"{mark}*", f"{mark}-later", "--port", "0", "-b", kafka_broker.bootstrap, "--json")
        with running(sys.executable, "-m", "kafka_assignors", *exported) as (_, lines_of_exporter):
            serves = json.loads(lines_of_exporter.readline())

    assert told.keys() == {"classic", "broker", "empty"}
    assert {each["group"]: len(each["members"]) for each in views} == {
        f"{mark}-broker": 2, f"{mark}-classic": 1, f"{mark}-empty": 0,
    }  # fmt: skip
    assert {each["group"] for each in views} <= {json.loads(line)["group"] for line in every.stdout.splitlines()}
    assert serves["groups"] == [f"{mark}-broker", f"{mark}-classic", f"{mark}-empty", f"{mark}-later"]
    facts = {
        name: [each[key] for key in ("kind", "state", "members", "lag", "uncommitted")] for name, each in told.items()
    }
    assert facts == {
        "classic": ["classic", "Stable", 1, 0, 0],
        "broker": ["consumer", "Stable", 2, 0, 0],
        "empty": ["classic", "Empty", 0, 3, 0],
    }
    assert told["classic"]["protocol"] == "cooperative-sticky"
    for name in ("classic", "broker"):
        assert now_ms - 120_000 < told[name]["rebalanced_ms"] < now_ms
        assert told[name]["unknown"] == []
    assert told["empty"]["rebalanced_ms"] is None
    assert "never" in told["empty"]["unknown"][0]
    assert len(text.splitlines()) >= 4
    assert f"{mark}-classic" in text
