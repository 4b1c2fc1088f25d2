"""Live KIP-848 groups: what their broker will assign is planned, and what it assigned is told."""

from __future__ import annotations

import base64
import json
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer
from kafka import KafkaAdminClient

from kafka_assignors.core.broker_side import map_order
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError
from kafka_assignors.history.broker_group import (
    AWAY_EPOCH,
    CURRENT,
    GROUP,
    MEMBER,
    PATTERN,
    STABLE,
    TARGET,
    TARGET_EPOCH,
    UNRELEASED,
    UNREVOKED,
)
from kafka_assignors.history.coordinator_log import BrokerAssigned
from kafka_assignors.history.generations import Log, Logged
from kafka_assignors.history.rebalances import Rebalance, rebalances, with_hand_overs
from kafka_assignors.integration.broker import Broker
from kafka_assignors.operator.cli import plan as work
from kafka_assignors.operator.cli import why
from kafka_assignors.operator.live.advice import advice
from kafka_assignors.operator.live.broker_side import DRAWS, Targets, forecast
from kafka_assignors.operator.live.cluster import LiveCluster
from kafka_assignors.operator.live.group import Change, LiveGroup, LiveMember, LiveTopics, from_broker_log
from kafka_assignors.operator.live.monitor import Monitor, Reading
from tests.support.cli import answered, cli

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NAMES = {ID: "t"}
Owned = Mapping[str, Sequence[int]]
T = TypeVar("T")


def awaited(ask: Callable[[], T | None], within_s: float = 60) -> T:
    """What a call returns as soon as it isn't None."""
    deadline = time.monotonic() + within_s
    while (found := ask()) is None:
        assert time.monotonic() < deadline, f"not within {within_s:g} s"
    return found


def said(record: str, member: str | None = None, **fields: Any) -> BrokerAssigned:
    return BrokerAssigned(record, "g", member, fields or None, None)


def rows(partitions: Sequence[int]) -> list[dict[str, Any]]:
    return [{"topicId": ID, "partitions": list(partitions)}] if partitions else []


def joins(name: str, **fields: Any) -> BrokerAssigned:
    usual = {
        "instanceId": None, "rackId": None, "clientId": name, "clientHost": "/h", "subscribedTopicNames": ["t"],
        "subscribedTopicRegex": "", "rebalanceTimeoutMs": 3000, "serverAssignor": None,
    }  # fmt: skip
    return said(MEMBER, name, **{**usual, **fields})


def aims(epoch: int, target: Owned) -> list[BrokerAssigned]:
    """The records of a new target; members don't have it yet."""
    told = [said(GROUP, epoch=epoch)]
    told += [said(TARGET, name, topicPartitions=rows(partitions)) for name, partitions in target.items()]
    return [*told, said(TARGET_EPOCH, assignmentEpoch=epoch)]


def has(name: str, epoch: int, partitions: Sequence[int], state: int = STABLE, revoking: Sequence[int] = ()) -> Any:
    return said(
        CURRENT, name, memberEpoch=epoch, previousMemberEpoch=epoch - 1, state=state,
        assignedPartitions=rows(partitions), partitionsPendingRevocation=rows(revoking),
    )  # fmt: skip


def settled(epoch: int, target: Owned) -> list[BrokerAssigned]:
    return [*aims(epoch, target), *(has(name, epoch, partitions) for name, partitions in target.items())]


def read(records: Sequence[BrokerAssigned]) -> LiveGroup:
    return from_broker_log("g", records, NAMES)


def test_a_group_at_rest_is_stable_and_has_its_members_partitions() -> None:
    live = read([joins("a"), joins("b", serverAssignor="range"), *settled(3, {"a": [0, 1], "b": [2]})])

    assert (live.state, live.generation, live.protocol) == ("Stable", 3, "range")
    assert {m.client_id: [tp.partition for tp in m.assigned] for m in live.members} == {"a": [0, 1], "b": [2]}


def test_a_group_that_is_not_at_rest_says_what_it_waits_for() -> None:
    first = [joins("a"), *settled(2, {"a": [0, 1]}), joins("b")]
    assert read([*first, said(GROUP, epoch=3)]).state == "Assigning"
    aimed = [*first, *aims(3, {"a": [0], "b": [1]})]
    assert read(aimed).state == "Reconciling"
    assert read([*aimed, has("a", 2, [0], UNREVOKED, [1])]).state == "Reconciling"
    assert read([*aimed, has("a", 3, [0]), has("b", 3, [1])]).state == "Stable"
    assert read([]).state == "Empty"


def test_a_static_member_that_is_away_keeps_its_partitions() -> None:
    records = [joins("a"), joins("b", instanceId="i"), *settled(3, {"a": [0], "b": [1]}), has("b", AWAY_EPOCH, [])]
    live = read(records)

    assert live.state == "Stable"
    assert [m.assigned for m in live.members if m.instance_id] == [(TopicPartition("t", 1),)]


def group_of(counts: Mapping[str, int], *owned: Mapping[str, Sequence[int]]) -> tuple[LiveGroup, LiveTopics]:
    members = tuple(
        LiveMember(
            f"id-of-m{i}", f"m{i}", "h", frozenset(counts),
            tuple(TopicPartition(topic, p) for topic, partitions in each.items() for p in partitions),
        )
        for i, each in enumerate(owned)
    )  # fmt: skip
    ids = {topic: f"{'A' * 20}{'BCDEFGH'[i]}Q" for i, topic in enumerate(counts)}
    return LiveGroup("g", "Stable", "consumer", "", members, 3), LiveTopics(counts, ids=ids)


def test_even_loads_are_certain() -> None:
    """Six partitions for three: each member gives one, whatever id the third draws."""
    live, topics = group_of({"t": 6}, {"t": [0, 1, 2]}, {"t": [3, 4, 5]})
    told = forecast(live, topics, Change(add=1), "uniform")

    assert (told.cases, told.draws, told.others) == (DRAWS, DRAWS, ())
    assert (told.plan.loads, len(told.plan.moves)) == ({"m0": 2, "m1": 2, "new-1": 2}, 2)
    assert told.plan.replay() == told.plan


def test_who_gets_the_extra_partition_is_not() -> None:
    """Under range, who comes first gets the longer range: the newcomer's id decides."""
    live, topics = group_of({"t": 7}, {"t": [0, 1, 2, 3]}, {"t": [4, 5, 6]})
    told = forecast(live, topics, Change(add=1), "range")

    assert 0 < told.cases < told.draws
    assert len(told.others) == 1, "ids begin after 'id-of-…' or before: the newcomer is first or last"
    assert all(sorted(sum(map(len, t.values())) for t in each.values()) == [2, 2, 3] for each in told.others)
    answer = work.Answer(live, Change(add=1), {"range": told.plan}, topics, {"range": told})
    assert "Not certain" in "\n".join(work.lines(answer))


def test_members_are_taken_in_the_order_of_their_real_ids() -> None:
    """Eleven partitions for three: who comes first in the broker's map has a fourth one."""
    owned = [{"t": [0, 1, 2, 3, 4]}, {"t": [5, 6, 7, 8, 9]}, {"t": [10]}]
    live, topics = group_of({"t": 11}, *owned)
    first = set()
    for ids in permutations(("zebra", "amber", "night")):
        members = [replace(member, member_id=name) for member, name in zip(live.members, ids, strict=True)]
        told = forecast(replace(live, members=tuple(members)), topics, Change(), "uniform")
        order = told.plan.options["order"]
        by_map = {name: f"m{i}" for i, name in enumerate(ids)}
        assert order == [by_map[name] for name in map_order(ids)]
        first.add(tuple(order))
    assert len(first) == 6


def test_who_is_first_in_one_bucket_depends_on_when_the_newcomer_is_in_the_coordinators_map() -> None:
    """A third member doubles the slots of that map, in whose order the assignor's map gets two ids of one bucket."""
    ids = ("ac", "df")
    assert map_order(ids, ["new"]).index("ac") > map_order(ids, ["new"]).index("df")
    assert map_order([*ids, "new"]).index("ac") < map_order([*ids, "new"]).index("df")
    live, topics = group_of({"t": 4}, {"t": [0, 1]}, {"t": [2, 3]})
    members = tuple(replace(member, member_id=name) for member, name in zip(live.members, ids, strict=True))

    told = forecast(replace(live, members=members), topics, Change(add=1), "uniform")

    outcomes = [told.plan.target, *told.others]
    longest = {max(target, key=lambda name: len(target[name].get("t", ()))) for target in outcomes}
    assert {"m0", "m1"} <= longest


@pytest.mark.parametrize("first", ["b", "t"])
def test_a_targets_record_decides_between_topics_of_one_bucket(first: str) -> None:
    """Ids of swapped halves have one hash: the broker's map lists them as the record of the target does."""
    ids = {"t": base64.urlsafe_b64encode(bytes([*range(16)])).decode()[:22]}
    ids["b"] = base64.urlsafe_b64encode(bytes([*range(8, 16), *range(8)])).decode()[:22]
    last = "t" if first == "b" else "b"
    target = [{"topicId": ids[topic], "partitions": [0, 1, 2]} for topic in (first, last)]
    current = [{"topicId": ids[topic], "partitions": [0, 1, 2]} for topic in ("b", "t")]
    records = [
        joins("a", subscribedTopicNames=["b", "t"]), said(GROUP, epoch=1), said(TARGET, "a", topicPartitions=target),
        said(TARGET_EPOCH, assignmentEpoch=1),
        said(CURRENT, "a", memberEpoch=1, previousMemberEpoch=0, state=STABLE, assignedPartitions=current,
             partitionsPendingRevocation=[]),
    ]  # fmt: skip
    live = from_broker_log("g", records, {id_: topic for topic, id_ in ids.items()})
    told = forecast(live, LiveTopics({"b": 3, "t": 3}, ids=ids), Change(add=1), "uniform")
    assert told.others == ()
    assert {name: list(topics) for name, topics in told.plan.target.items()} == {"a": [first], "new-1": [last]}


@pytest.mark.parametrize(
    ("asked", "alike"),
    [
        ([("t", ""), ("t", "")], None),
        ([("t", ""), ("", "^t")], False),
        ([("", "^t"), ("", "^t")], True),
        ([("", "^t"), ("", "^t.*")], False),
        ([("t", "^t"), ("t", "^t")], False),
    ],
)
def test_a_list_and_a_pattern_of_the_same_topics_are_different_subscriptions(
    asked: Sequence[tuple[str, str]], alike: bool | None
) -> None:
    """Both members read one topic; the broker compares what they ask for. A third joins as the first one did."""
    records = [
        joins(name, subscribedTopicNames=list(named), subscribedTopicRegex=pattern)
        for name, (named, pattern) in zip("ab", asked, strict=True)
    ]
    records += [BrokerAssigned(PATTERN, "g", None, {"topics": ["t"]}, each) for each in {p for _, p in asked if p}]
    live = read([*records, *settled(2, {"a": [0, 1, 2], "b": [3]})])
    told = forecast(live, LiveTopics({"t": 4}, ids={"t": ID}), Change(joining=("c",)), "uniform")
    assert told.plan.options.get("alike") is alike
    assert {member.member_id: set(member.topics) for member in told.plan.group.members} == {
        name: {"t"} for name in "abc"
    }
    assert told.plan.replay() == told.plan


def test_an_assignor_that_nobody_asks_for_or_that_is_not_kafkas_is_told() -> None:
    live, topics = group_of({"t": 6}, {"t": [0, 1, 2]}, {"t": [3, 4, 5]})

    def told(protocol: str) -> str:
        return "\n".join(work.lines(work.Answer(replace(live, protocol=protocol), Change(), {}, topics)))

    assert "uniform unless that was changed" in told("")
    assert "unless" not in told("range")
    assert "Unknown:[/] what the broker's assignor their-own will do" in told("their-own")


def test_who_leaves_makes_nothing_uncertain() -> None:
    live, topics = group_of({"t": 7, "u": 4}, {"t": [0, 1, 2], "u": [0]}, {"t": [3, 4], "u": [1, 2]}, {"t": [5, 6]})
    told = forecast(live, topics, Change(remove=("m2",), partitions={"u": 9}), "uniform")

    assert (told.cases, told.draws) == (1, 1)
    assert sorted(told.plan.loads.values()) == [8, 8]
    with pytest.raises(ConfigError, match="no such member"):
        forecast(live, topics, Change(remove=("nobody",)), "uniform")


def test_each_target_of_the_broker_is_told_with_its_causes() -> None:
    records = [
        joins("a"), *settled(2, {"a": [0, 1, 2, 3]}), joins("b", serverAssignor="uniform"),
        *settled(3, {"a": [0, 1], "b": [2, 3]}),
        said(MEMBER, "b"), said(TARGET, "b"), said(CURRENT, "b"), *settled(4, {"a": [0, 1, 2, 3]}),
        *settled(5, {"a": [0, 1, 2, 3, 4]}),
    ]  # fmt: skip
    asked: list[int] = []

    def names() -> Mapping[str, str]:
        asked.append(1)
        return NAMES

    log = Targets(names).take(Logged(1000 * i, each) for i, each in enumerate(records))
    found = rebalances(Log(tuple(log), whole=True))
    assert len(asked) == 1

    assert [[cause.kind for cause in each.causes] for each in found] == [
        ["first"], ["joined", "assignor"], ["left or expired", "assignor"], ["partitions"],
    ]  # fmt: skip
    assert found[0].causes[0].detail == ""
    assert [each.generations for each in found] == [(2,), (3,), (4,), (5,)]
    assert [(each.moved, each.living, each.by_broker) for each in found] == [
        (0, 0, True), (2, 2, True), (2, 0, True), (0, 0, True),
    ]  # fmt: skip
    assert (found[1].protocol, found[1].least, found[1].needless) == ("uniform", 2, 0)


def test_a_topic_that_the_broker_learns_of_after_its_first_target_is_a_cause() -> None:
    records = [joins("a"), *settled(2, {"a": []}), *settled(3, {"a": [0, 1]})]
    log = Targets(lambda: NAMES).take(Logged(1000 * i, each) for i, each in enumerate(records))
    found = rebalances(Log(tuple(log), whole=True))

    assert [[(cause.kind, cause.detail) for cause in each.causes] for each in found] == [
        [("first", "")], [("partitions", "t: 0 -> 2 assigned")],
    ]  # fmt: skip


def handed_over(wait_ms: int) -> tuple[Rebalance, list[str]]:
    """b joins a, which releases two partitions; b is given one at once and the other at its next heartbeat."""
    steps: list[tuple[int, Any]] = [
        *((0, each) for each in (joins("a"), *settled(2, {"a": [0, 1, 2, 3]}), joins("b"))),
        *((10, each) for each in aims(3, {"a": [0, 1], "b": [2, 3]})),
        (20, has("b", 3, [], UNRELEASED)), (500, has("a", 2, [0, 1], UNREVOKED, [2, 3])),
        (600, has("a", 2, [0, 1], UNREVOKED, [3])), (600, has("b", 3, [2], UNRELEASED)),
        (700, has("a", 3, [0, 1])), (700 + wait_ms, has("b", 3, [2, 3])),
    ]  # fmt: skip
    targets = Targets(lambda: NAMES)
    log = Log(tuple(targets.take([Logged(ms, each) for ms, each in steps])), whole=True)
    found = with_hand_overs(rebalances(log), targets.hand_overs("g"))
    return found[-1], list(why.lines("g", True, found)) + advice(found)


def test_a_stop_of_a_kip_848_group_is_the_wait_for_the_next_heartbeat() -> None:
    """From a partition's release to its assignment; the setting is named with the figure that it would give."""
    found, told = handed_over(4200)

    assert (found.at_least_ms, found.at_most_ms, found.area_at_least_ms, found.area_at_most_ms) == (4200,) * 4
    [part] = found.parts
    assert (part.what, part.at_least_ms, part.at_most_ms) == ("given", 4200, 4200)
    assert (part.who, part.setting) == (("b",), "consumer.heartbeat.interval.ms")
    text = "\n".join(told)
    assert "4,200 partition-ms without owner, 2 partitions for up to 4.2 s; moved 2" in text
    assert "4.2 s[/] from the release by the old owners to the new owners' next heartbeats: b" in text
    assert (
        "waited up to 4.2 s for the next heartbeat of their new owners (b): consumer.heartbeat.interval.ms=1000" in text
    )
    assert "would make that at most 1.0 s" in text


def test_a_short_wait_needs_no_other_interval() -> None:
    _, told = handed_over(300)
    assert not any("consumer.heartbeat.interval.ms=" in line for line in told)


def test_a_member_that_leaves_releases_what_it_had() -> None:
    steps: list[tuple[int, Any]] = [
        *((0, each) for each in (joins("a"), joins("b"), *settled(2, {"a": [0], "b": [1]}))),
        *((100, each) for each in (said(CURRENT, "b"), said(TARGET, "b"), said(MEMBER, "b"))),
        *((150, each) for each in aims(3, {"a": [0, 1]})), (2600, has("a", 3, [0, 1])),
    ]  # fmt: skip
    targets = Targets(lambda: NAMES)
    targets.take([Logged(ms, each) for ms, each in steps])

    assert [(each.ms, each.epoch, each.new) for each in targets.hand_overs("g")] == [(2500, 3, "a")]
    assert targets.hand_overs("another") == []


def test_a_topic_without_a_name_is_asked_for_once() -> None:
    asked: list[int] = []
    records = [joins("a"), *settled(2, {"a": [0]}), *settled(3, {"a": [0, 1]}), *settled(4, {"a": [1]})]
    Targets(lambda: asked.append(1) or {}).take(Logged(i, each) for i, each in enumerate(records))  # type: ignore[func-returns-value]

    assert asked == [1]


def test_a_group_that_is_deleted_has_no_further_generation() -> None:
    records = [joins("a"), *settled(2, {"a": [0]}), said(MEMBER, "a"), *aims(3, {}), said(TARGET_EPOCH), said(GROUP)]
    log = Targets(lambda: NAMES).take(Logged(i, each) for i, each in enumerate(records))

    assert [generation.value.generation for generation in log] == [2, 3]  # type: ignore[union-attr]


class Members:
    """Members of librdkafka under the consumer protocol, in this process; polled by whoever waits."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], assignor: str | None = None) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"}
        if assignor is not None:
            self._settings["group.remote.assignor"] = assignor
        self._topics = list(topics)
        self.by_name: dict[str, Consumer] = {}

    def join(self, name: str) -> None:
        self.by_name[name] = Consumer({**self._settings, "client.id": name})
        self.by_name[name].subscribe(self._topics)

    def leave(self, name: str) -> None:
        self.by_name.pop(name).close()

    def owned(self) -> dict[str, dict[str, list[int]]]:
        for consumer in self.by_name.values():
            consumer.poll(0.02)
        found: dict[str, dict[str, list[int]]] = {}
        for name, consumer in self.by_name.items():
            mine = sorted((tp.topic, tp.partition) for tp in consumer.assignment())
            found[name] = {}
            for topic, partition in mine:
                found[name].setdefault(topic, []).append(partition)
        return found

    def settled(self, partitions: int) -> dict[str, dict[str, list[int]]]:
        """What each member owns, once they own all partitions, and each at least one."""

        def whole() -> dict[str, dict[str, list[int]]] | None:
            owned = self.owned()
            loads = [sum(map(len, topics.values())) for topics in owned.values()]
            return owned if sum(loads) == partitions and min(loads) >= min(1, partitions // len(loads)) else None

        return awaited(whole)

    def close(self) -> None:
        for name in list(self.by_name):
            self.leave(name)


@pytest.fixture
def members() -> Iterator[Callable[..., Members]]:
    with ExitStack() as stack:

        def made(*args: Any, **kwargs: Any) -> Members:
            found = Members(*args, **kwargs)
            stack.callback(found.close)
            return found

        yield made


# long: heartbeats of 5 s; core/broker/test_live_java.py has the broker's own plans, the tests above tell such groups
# by their records
@pytest.mark.long
@pytest.mark.broker
def test_the_brokers_plan_comes_true_and_its_rebalances_are_told(
    kafka_broker: Broker, kafka_topic: Callable[..., str], members: Callable[..., Members]
) -> None:
    topic, group, where = kafka_topic(partitions=4), f"g-{uuid.uuid4().hex[:8]}", ("-b", kafka_broker.bootstrap)
    life = members(kafka_broker.bootstrap, group, [topic])
    for name in ("m1", "m2"):
        life.join(name)
        life.settled(4)

    def planned(*asked: str) -> dict[str, Any]:
        def ready() -> Any:
            life.owned()
            done = cli("plan", group, *where, *asked, "--json")
            return answered("plan", done) if done.returncode == 0 else None

        found = awaited(ready)
        assert (found["kind"], [each["assignor"] for each in found["plans"]]) == (
            "consumer", ["uniform", "cooperative-sticky"],
        )  # fmt: skip
        return found["plans"][0]  # type: ignore[no-any-return]

    joining = planned("--add", "1")
    assert (joining["stops"], joining["forecast"]["draws"]) == ("only what moves", DRAWS)
    life.join("m3")
    after = life.settled(4)
    outcomes = [joining["plan"]["assignment"], *joining["forecast"]["others"]]
    called = {"m1": "m1", "m2": "m2", "m3": "new-1"}
    assert {called[name]: owned for name, owned in after.items()} in outcomes

    growing = planned("--add-partitions", f"{topic}:7")
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
    admin.create_partitions({topic: 7})
    admin.close()
    assert life.settled(7) == growing["plan"]["assignment"]

    leaving = planned("--remove", "m2")
    notes: list[str] = []
    with LiveCluster(kafka_broker.bootstrap) as cluster, Monitor(cluster, [group], notes.append) as monitor:
        life.leave("m2")
        assert life.settled(7) == leaving["plan"]["assignment"]

        def counted() -> Reading | None:
            life.owned()
            (reading,) = monitor.read(0.2)
            return reading if reading.totals.rebalances["left or expired"] else None

        reading = awaited(counted)
    assert sum(reading.totals.rebalances.values()) == 1
    assert reading.live is not None
    assert (reading.live.kind, reading.totals.moved, reading.gap) == ("consumer", leaving["unowned"], 0)
    assert notes == []

    told = answered("why", cli("why", group, *where, "--json"))["rebalances"]
    assert all(each["by_broker"] for each in told)
    causes = [(cause["kind"], cause["who"]) for each in told for cause in each["causes"]]
    if causes[1] == ("partitions", ""):
        del causes[1]  # the coordinator computed its first target before it knew the new topic
    assert causes == [
        ("first", ""), ("joined", "m2"), ("joined", "m3"), ("partitions", ""), ("left or expired", "m2"),
    ]  # fmt: skip
    text = " ".join(cli("why", group, *where).stdout.split())
    assert "assigned by the broker's default" in text
    assert "led by" not in text
    watched = json.loads(cli("watch", group, *where, "--once", "--json").stdout)
    assert (watched["state"], watched["protocol"], watched["members"]) == (
        "Stable",
        "the broker's default",
        ["m1", "m3"],
    )
    owners = {row["partition"]: row["member"] for row in watched["owned"]}
    assert owners == {p: name for name, owned in leaving["plan"]["assignment"].items() for p in owned[topic]}
    done = cli("vote", group, *where)
    assert (done.returncode, "KIP-848" in done.stderr) == (3, True)


@pytest.mark.broker
@pytest.mark.long  # long: twenty groups, heartbeats of 5 s; core/broker/test_live_java.py has the broker's own plans
@pytest.mark.timeout(900)
def test_what_a_joining_member_changes_is_what_was_planned(
    kafka_broker: Broker, kafka_topic: Callable[..., str], members: Callable[..., Members]
) -> None:
    draw = random.Random(848)
    certain = 0
    for i in range(20):
        counts = {kafka_topic(partitions=count): count for count in draw.choices(range(3, 16), k=draw.randint(1, 3))}
        group, many = f"g-{uuid.uuid4().hex[:8]}", draw.randint(1, 3)
        life = members(kafka_broker.bootstrap, group, list(counts), draw.choice([None, "uniform", "range"]))
        for m in range(many):
            life.join(f"m{m}")
            life.settled(sum(counts.values()))

        def asked(group: str = group, life: Members = life) -> Any:
            life.owned()
            done = cli("plan", group, "-b", kafka_broker.bootstrap, "--add", "1", "--json")
            return json.loads(done.stdout) if done.returncode == 0 else None

        told = awaited(asked)["plans"][0]
        life.join(f"m{many}")
        fact = life.settled(sum(counts.values()))
        fact["new-1"] = fact.pop(f"m{many}")
        outcomes = [told["plan"]["assignment"], *told["forecast"]["others"]]
        assert fact in outcomes, (i, counts, told)
        certain += len(outcomes) == 1
        life.close()
    assert certain > 0
