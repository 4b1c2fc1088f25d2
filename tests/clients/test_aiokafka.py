"""The assignors for aiokafka on its own types: the same placement as through kafka-python, and its traps refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import logging
import pickle
import random

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.protocol import ConsumerProtocol, ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError
from aiokafka.protocol.group import JoinGroupResponse_v5
from aiokafka.protocol.metadata import MetadataResponse_v1
from confluent_kafka import Producer
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from kafka_assignors.clients import aiokafka
from kafka_assignors.clients.kafka_python import assignors as kafka_python
from kafka_assignors.core.strategies import STRATEGIES
from kafka_assignors.core.wire import balance, userdata
from kafka_assignors.core.wire import weighted as carried
from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.extras import install
from tests.support.kafka_python.joins import cluster as kafka_python_cluster
from tests.support.kafka_python.joins import join, plain
from tests.support.programs import python

NAMES = [
    name
    for name in STRATEGIES
    if name not in ("cooperative-sticky", "cooperative-copartitioned", "config", "weighted", "lag")
]
OWN = [name for name in NAMES if name not in userdata.JAVAS]


def cluster(topics, brokers=None):
    """aiokafka's metadata as a broker's answer makes them. topics: name -> replica ids per partition."""
    metadata = ClusterMetadata()
    metadata.update_metadata(
        MetadataResponse_v1(
            brokers=[(node, "h", 9092, rack) for node, rack in (brokers or {1: None}).items()],
            controller_id=1,
            topics=[
                (0, name, False, [(0, p, nodes[0], nodes, nodes) for p, nodes in enumerate(replicas)])
                for name, replicas in topics.items()
            ],
        )
    )
    return metadata


class Coordinator(GroupCoordinator):
    """aiokafka's coordinator without a broker: what it is in a generation, and how it calls its assignor."""

    def __init__(self, assignor, generation=-1, instance_id=None):
        self._group_instance_id, self.generation, self.assignor = instance_id, generation, assignor
        self._closing = concurrent.futures.Future()

    def joins(self, topics):
        """What it sends, as the leader's client decodes it."""
        metadata = self.assignor.metadata(frozenset(topics))
        return ConsumerProtocol.METADATA.decode(metadata if isinstance(metadata, bytes) else metadata.encode())

    def sends(self, topics):
        """The very bytes it sends."""
        return self.assignor.metadata(frozenset(topics))

    def leads(self, cluster, joined):
        """How it assigns. joined: (member id, instance id, bytes), as in JoinGroup's answer."""
        response = JoinGroupResponse_v5(0, 0, 1, "", "", "", joined)
        members = {m: ConsumerProtocol.METADATA.decode(data) for m, _, data in response.members}
        return self.assignor.assign(cluster, members)

    def gets(self, given):
        self.assignor.on_assignment(ConsumerProtocolMemberAssignment(0, [*given.items()], b""))


def decoded(answer):
    return {m: dict(ConsumerProtocolMemberAssignment.decode(data).assignment) for m, data in answer.items()}


def group(rng, racks_and_instances):
    """A random group: topics, brokers, and members as (id, instance id, rack, topics, owned, generation)."""
    topics = {f"t{i}": rng.randrange(1, 7) for i in range(rng.randrange(1, 5))}
    brokers = {node: rng.choice("abc") for node in range(1, 4)}
    replicas = {topic: [rng.sample([1, 2, 3], 2) for _ in range(count)] for topic, count in topics.items()}
    free = [(topic, p) for topic, count in topics.items() for p in range(count)]
    rng.shuffle(free)
    members = []
    for i in range(rng.randrange(1, 6)):
        reads = sorted(rng.sample([*topics], rng.randrange(1, len(topics) + 1)))
        owned = {}
        for topic, p in free[i :: rng.randrange(3, 7)]:
            if topic in reads:
                owned.setdefault(topic, []).append(p)
        some = racks_and_instances and rng.random() < 0.7
        members.append((f"m-{rng.randrange(10**6)}", f"i-{i}" if some else None, rng.choice("abc") if some else None,
                        reads, owned, rng.randrange(3, 5)))  # fmt: skip
    return replicas, brokers, members


def answers(name, seed, racks_and_instances):
    replicas, brokers, members = group(random.Random(seed), racks_and_instances)
    theirs, ours, whole = [], {}, []
    for member_id, instance_id, rack, topics, owned, generation in members:
        one, other = kafka_python.assignor(name)(rack=rack), aiokafka.Assignor(name, rack=rack)
        coordinator = Coordinator(other, generation, instance_id)
        coordinator.gets(owned)
        one.on_assignment(ConsumerProtocolAssignment(3, [*owned.items()], None), generation)
        theirs.append(join(member_id, one.metadata(set(topics)).encode(), instance_id))
        ours[member_id] = coordinator.joins(topics)
        whole.append((member_id, instance_id, coordinator.sends(topics)))
    metadata = cluster(replicas, brokers)
    return (
        plain(kafka_python.assignor(name)().assign(kafka_python_cluster(replicas, brokers), theirs)),
        decoded(aiokafka.Assignor(name).assign(metadata, ours)),
        decoded(Coordinator(aiokafka.Assignor(name)).leads(metadata, whole)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_both_adapters_place_alike_with_racks_and_static_members(name):
    for seed in range(25):
        theirs, _, ours = answers(name, seed, racks_and_instances=True)
        assert ours == theirs, seed


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_leader_that_cannot_see_the_answer_places_alike_without_racks(name):
    """And with them under names of our own, whose user data carry them."""
    for seed in range(25):
        theirs, ours, _ = answers(name, seed, racks_and_instances=name in OWN)
        assert ours == theirs, seed


@pytest.mark.parametrize("name", NAMES)
def test_a_member_sends_the_bytes_that_kafka_python_sends(name):
    """Under Java's names these are Java's (`test_kafka_python.test_a_member_sends_javas_bytes`)."""
    one, other = kafka_python.assignor(name)(rack="r1"), aiokafka.Assignor(name, rack="r1")
    for owned in (None, {"t": [0, 2], "u": [1]}):
        if owned is not None:
            one.on_assignment(ConsumerProtocolAssignment(3, [*owned.items()], None), 7)
            Coordinator(other, 7).gets(owned)
        assert other.metadata(["u", "t"]) == one.metadata({"t", "u"}).encode()


def test_generations_decide_between_claims():
    """aiokafka's own sticky assignor never sets one (aio-libs/aiokafka#1176)."""
    late, newer = (Coordinator(aiokafka.StickyAssignor(), generation) for generation in (3, 4))
    late.gets({"t": [0, 1]})
    newer.gets({"t": [0, 1]})

    answer = aiokafka.StickyAssignor().assign(
        cluster({"t": [[1]] * 2, "u": [[1]] * 2}), {"a": late.joins("tu"), "b": newer.joins("tu")}
    )

    assert decoded(answer) == {"a": {"u": [0, 1]}, "b": {"t": [0, 1]}}


@pytest.mark.parametrize(
    ("missing", "module", "extra"),
    [
        (["aiokafka"], "aiokafka", install("aiokafka")),
        (["confluent_kafka"], "confluent", install("confluent,kafka-python")),
        (["kafka"], "confluent", install("confluent,kafka-python")),
    ],
)
def test_without_its_client_an_adapter_says_what_to_install(missing, module, extra):
    hide = "".join(f"sys.modules[{name!r}] = None; " for name in missing)
    code = f"import sys; {hide}\ntry: import kafka_assignors.{module}\nexcept ImportError as error: print(error)"
    done = python("-c", code)
    assert extra in done.stdout, done.stderr


@pytest.mark.slow
def test_the_one_for_aiokafka_needs_no_kafka_python():
    code = (
        "import sys; sys.modules['kafka'] = None; import kafka_assignors.aiokafka as a; print(a.StickyAssignor().name)"
    )
    done = python("-c", code)
    assert (done.stdout, done.returncode) == ("sticky\n", 0)


def test_members_by_work_send_their_weights_and_capacity():
    made = aiokafka.WeightedAssignor(weights={("t", 0): 3.0, ("u", 1): 2.0}, capacity=2.0)
    told = carried.decode(decode_subscription(made.metadata(["t"])).user_data, {"t": 3, "u": 3})
    assert told.own.capacity == 2.0
    assert {topic: (ids.tolist(), values.tolist()) for topic, (ids, values) in told.weights.items()} == {
        "t": ([0], [pytest.approx(3.0, rel=0.022)])
    }


def test_a_partition_that_moved_to_a_member_rests_there():
    made = aiokafka.WeightedAssignor(weights={"t": [1.0]}, hysteresis=True)
    for partitions, moved in (([0], 0), ([0, 1], 1)):
        told = balance.encode(balance.Balance(1.0, 1.0, 3, 3, 0, moved))
        made.on_assignment(ConsumerProtocolMemberAssignment(0, [("t", partitions)], told))

    (resting,) = carried.decode(decode_subscription(made.metadata(["t"])).user_data, {"t": 3}).moving.resting
    assert resting == ("t", 1), "0 had no owner before"


def test_cooperative_sticky_is_refused_with_the_reason():
    with pytest.raises(ConfigError, match=r"aiokafka does not support cooperative-sticky: .* use StickyAssignor"):
        aiokafka.Assignor("cooperative-sticky")
    with pytest.raises(ConfigError, match=r"not support cooperative-copartitioned: .* use CoPartitionedAssignor\(\)"):
        aiokafka.Assignor("cooperative-copartitioned")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: aiokafka.Assignor("fair"), UnknownName, "unknown assignor 'fair'; known: range, "),
        (lambda: aiokafka.Assignor("weighted"), ConfigError, r"use WeightedAssignor\(weights="),
        (lambda: aiokafka.WeightedAssignor(**{"meter": "work"}), ConfigError, "have no load meter.* give weights= or"),
        (lambda: aiokafka.WeightedAssignor(**{"check_every_s": 20}), ConfigError, "can't ask for a rebalance"),
        (lambda: aiokafka.WeightedAssignor(weights={("t", 0): -1}), ConfigError, "finite and at least 0"),
        (lambda: aiokafka.LagAssignor(), ConfigError, "give lag= instead"),
        (lambda: aiokafka.RangeAssignor(rack=5), ConfigError, "rack must be a string like 'eu-1a' or None, not 5"),
        (
            lambda: aiokafka.CoPartitionedAssignor(topics=["t", "u"]),
            ConfigError,
            "two or more co-partitioned topics, not 't'",
        ),
        (lambda: aiokafka.StickyAssignor(goals=["spread"]), ConfigError, "goals must be "),
        (lambda: aiokafka.StickyAssignor(parity="go"), ConfigError, "parity must be 'java' or None, not 'go'"),
        (lambda: aiokafka.Assignor("range", parity="java"), ConfigError, "'range' has no option 'parity'"),
    ],
)
def test_a_wrong_configuration_is_refused_before_any_join(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "call", [lambda c: c.metadata(["t"]), lambda c: c.assign(None, {}), lambda c: c.on_assignment(0)]
)
def test_a_class_in_the_list_is_refused_with_what_to_write(call):
    with pytest.raises(ConfigError, match=r"partition_assignment_strategy=\[StickyAssignor\(\)\], not \[StickyAssign"):
        call(aiokafka.StickyAssignor)


def test_one_instance_serves_one_open_consumer():
    assignor = aiokafka.StickyAssignor()
    first, second = Coordinator(assignor, 7), Coordinator(assignor, 1)
    first.gets({"t": [0]})
    first.joins("t")
    with pytest.raises(ConfigError, match="StickyAssignor serves another consumer"):
        second.joins("t")

    first._closing.set_result(None)
    assert second.joins("t").user_data is None  # and nothing is left of the first


@pytest.mark.parametrize("name", OWN)
def test_garbage_user_data_are_told_once_and_survived(name, caplog):
    assignor = aiokafka.Assignor(name)
    member = Coordinator(assignor).joins("t")
    member.user_data = b"\x07garbage"
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        for _ in range(2):
            answer = assignor.assign(cluster({"t": [[1], [1]]}), {"a": member})

    assert decoded(answer) == {"a": {"t": [0, 1]}}
    told = [r.getMessage() for r in caplog.records if "user data" in r.getMessage()]
    assert told == [f"{name}: member 'a': user data has version 7, newer than 2; ignored"]


def test_the_alarm_comes_before_the_record_is_too_large(caplog):
    member = ConsumerProtocol.METADATA(3, ["t" * 249] * 2000, b"x" * 600_000)
    assignor = aiokafka.RangeAssignor()
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        assignor.assign(cluster({"t": [[1]]}), {"a": member})
    assert "the group's 1 members and their assignments take 1,098,010 bytes" in caplog.text
    assert "message.max.bytes" in caplog.text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_of_one_that_serves_a_consumer_starts_anew(name, duplicate):
    assignor = aiokafka.Assignor(name, rack="r1")
    first = Coordinator(assignor, 7)
    first.gets({"t": [0]})
    original = first.sends("t")

    other = duplicate(assignor)

    assert other.metadata(["t"]) == aiokafka.Assignor(name, rack="r1").metadata(["t"])
    Coordinator(other, 1).joins("t")
    assert first.sends("t") == original


@pytest.fixture(scope="module")
def mock_broker():
    """librdkafka's own cluster of one broker, which knows groups; it lives as long as its producer."""
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced"})
    producer.produce("t", b"")
    assert producer.flush(30) == 0
    (broker,) = producer.list_topics(timeout=30).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del producer


@pytest.mark.slow
def test_what_aiokafka_can_not_use_is_refused_where_the_consumer_is_started(mock_broker, caplog):
    """Where topics come after the start, by the first call for messages. It can be stopped, and the first goes on.

    The broker lets a new group wait for 3 s, so that there is one for all.
    """
    assignor = aiokafka.StickyAssignor()

    def make(assignor, *topics):
        return AIOKafkaConsumer(
            *topics, bootstrap_servers=mock_broker, group_id="g", heartbeat_interval_ms=300,
            partition_assignment_strategy=[assignor],
        )  # fmt: skip

    async def is_refused(used, message, *, subscribed):
        refused = make(used, *["t"] * subscribed)
        if not subscribed:
            await refused.start()
            refused.subscribe(["t"])
        told_by = refused.start if subscribed else refused.getone
        with pytest.raises(ConfigError, match=message) as told:
            await asyncio.wait_for(told_by(), 60)
        assert isinstance(told.value, KafkaError), "what aiokafka's users expect"
        await refused.stop()
        assert refused._coordinator._coordination_task.exception() is None

    async def scenario():
        async with make(assignor, "t") as first:
            held = first.assignment()
            assert held
            for subscribed in (True, False):
                await is_refused(type(assignor), "takes assignors as instances", subscribed=subscribed)
                await is_refused(assignor, "StickyAssignor serves another consumer", subscribed=subscribed)
                assert first.assignment() == held

    asyncio.run(scenario())
    assert not [r for r in caplog.records if r.name == "asyncio" or "Unexpected error" in r.getMessage()]
