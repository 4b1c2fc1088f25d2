"""What a leader on kafka-python reads and answers, held against kafka-python's own public methods and types."""

from __future__ import annotations

import ast
import copy
import logging
import types
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import SyncGroupRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition

from kafka_assignors.clients.kafka_python import leader, private
from kafka_assignors.core.group import TopicPartition as OurTopicPartition
from kafka_assignors.core.wire import protocol
from kafka_assignors.core.wire.protocol import Subscription
from tests.support.assignors import golden
from tests.support.kafka_python.joins import cluster

GIVEN = {"orders": [0, 5], "payments": [1]}
DATA = protocol.encode_assignment(protocol.AssignedPartitions(GIVEN))


@pytest.fixture
def assigned():
    return leader.Assigned(memoryview(DATA))


@given(
    topics=st.dictionaries(st.sampled_from("abc"), st.lists(st.lists(st.integers(0, 4), min_size=1), max_size=4)),
    racks=st.dictionaries(st.integers(0, 3), st.sampled_from([None, "r1", "r2"]), min_size=1),
)
def test_metadata_are_those_of_the_public_methods(topics, racks):
    """Broker 4 is in no metadata: a replica that is gone."""
    metadata = cluster(topics, racks)

    counts = leader.partition_counts(metadata, {*topics, "missing"})
    assert counts == {t: len(metadata.partitions_for_topic(t)) for t in sorted(topics)}
    expected = {
        t: [
            {b.rack for b in metadata.brokers() if b.rack and metadata.is_replica_node(TopicPartition(t, p), b.node_id)}
            for p in range(n)
        ]
        for t, n in counts.items()
    }
    found = leader.replica_racks(metadata, counts)
    assert {t: list(rows) for t, rows in found.items()} == (expected if any(racks.values()) else {})
    leading = {t: [metadata.leader_for_partition(TopicPartition(t, p)) for p in range(n)] for t, n in counts.items()}
    leaders = {t: [racks.get(node) for node in nodes] for t, nodes in leading.items()}
    assert leader.leader_racks(metadata, counts) == (leaders if any(racks.values()) else {})


def test_members_are_read_alike_in_every_form():
    """As bytes, decoded by kafka-python, and both in one group; all subscriptions of the vectors in all versions."""
    data = [
        bytes.fromhex(each)
        for row in golden.rows("wire")
        if row["kind"] == "subscription"
        for each in row["bytes"].values()
    ]
    expected = [protocol.decode_subscription(each) for each in data]
    decoded = [ConsumerProtocolSubscription.decode(each) for each in data]

    assert leader.subscriptions(data) == expected
    assert leader.subscriptions(decoded) == expected
    mixed = [a if i % 2 else b for i, (a, b) in enumerate(zip(data, decoded, strict=True))]
    assert leader.subscriptions(mixed) == expected
    assert any(subscription.owned for subscription in expected)
    assert leader.subscriptions([*decoded, b"\0"])[-1].unread.startswith("sent 1 bytes that are no subscription")


def damaged(random: Random) -> bytes:
    """A subscription with bytes that are changed, lost or added."""
    owned = tuple(OurTopicPartition("t", p) for p in range(random.randint(0, 3)))
    sent = protocol.Subscription(
        ("orders", "t")[: random.randint(0, 2)], random.choice([None, b"", b"u"]), owned, 3, "r"
    )
    data = bytearray(protocol.encode_subscription(sent, random.randint(0, 3)))
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data) + 1)
        data[at : at + random.choice([0, 1, 1, 4])] = random.choice(
            [b"", b"\xff", b"\0", b"\xff" * 4, b"\x7f\xff\xff\xff", random.randbytes(3)]
        )
    return bytes(data)


@pytest.mark.slow
def test_what_kafka_python_cannot_decode_is_a_subscription_to_nothing():
    """kafka-python's leader decodes all members' bytes, and would fail again and again because of one."""
    random = Random(26)
    data = protocol.completed([damaged(random) for _ in range(3000)])
    told = dict(private.learning._undecodable(data))
    for few in range(0, 300, 10):
        assert dict(private.learning._undecodable(data[few : few + 10])) == {
            m - few: why for m, why in told.items() if few <= m < few + 10
        }
    sent = [protocol.EMPTY if m in told else each for m, each in enumerate(data)]
    read = leader.subscriptions([ConsumerProtocolSubscription.decode(each) for each in sent])

    assert all(isinstance(topic, str) for each in read for topic in each.topics)
    assert 500 < len(told) < 2500
    assert all("bytes that are no subscription" in why for why in told.values())
    assert leader.subscriptions([protocol.EMPTY]) == [protocol.Subscription(())]


def test_what_a_decoded_member_owns():
    partitions = [ConsumerProtocolSubscription.TopicPartition(topic="t", partitions=[2, 0])]
    sent = ConsumerProtocolSubscription(version=1, topics=["t"], user_data=None, owned_partitions=partitions)
    owned = (OurTopicPartition("t", 2), OurTopicPartition("t", 0))

    assert leader.subscriptions([sent]) == [Subscription(("t",), None, owned, version=1)]


def test_an_answer_looks_like_any_other(assigned):
    whole = ConsumerProtocolAssignment(3, list(GIVEN.items()), None)

    assert isinstance(assigned, ConsumerProtocolAssignment)
    assert assigned.encode() == whole.encode() == DATA
    assert assigned.partitions() == whole.partitions()
    assert assigned.assigned_partitions == assigned.assignment == list(GIVEN.items())
    assert (assigned.version, assigned.user_data) == (3, None)
    assert assigned.encode() == DATA  # after it was looked into
    assert assigned == whole
    assert whole == assigned
    assert assigned == leader.Assigned(DATA)
    assert assigned != leader.Assigned(protocol.encode_assignment(protocol.AssignedPartitions({})))
    assert list(assigned) == list(whole)
    assert repr(assigned).endswith(repr(whole).partition("(")[2])
    with pytest.raises(AttributeError, match="nonsense"):
        _ = assigned.nonsense


@pytest.mark.parametrize("how", [{"version": 0}, {"header": False}, {"framed": True}, {"version": 3}])
def test_every_way_to_encode_is_kafka_pythons(assigned, how):
    assert assigned.encode(**how) == ConsumerProtocolAssignment(3, list(GIVEN.items()), None).encode(**how)


def test_what_is_changed_is_sent(assigned):
    assigned.assigned_partitions[0][1].append(7)
    assert ConsumerProtocolAssignment.decode(assigned.encode()).assigned_partitions[0] == ("orders", [0, 5, 7])

    other = leader.Assigned(DATA)
    other.assigned_partitions = [("new", [3])]
    other.user_data = b"x"
    assert other.encode() == ConsumerProtocolAssignment(3, [("new", [3])], b"x").encode()


def test_a_copy_is_one_of_its_own(assigned):
    for duplicate in (copy.deepcopy(leader.Assigned(DATA)), copy.copy(assigned)):
        duplicate.assigned_partitions = []
        assert assigned.encode() == DATA


def test_sync_group_sends_it_as_it_is(assigned):
    """The request that carries the answer to the broker."""
    request = SyncGroupRequest(
        version=3, group_id="g", generation_id=1, member_id="m", group_instance_id=None,
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(version=3, member_id="m", assignment=assigned)],
    )  # fmt: skip

    assert DATA in request.encode()


@pytest.mark.parametrize("name", ["_partitions", "replica_nodes", "leader_id"])
def test_a_cluster_that_hides_a_name_is_placed_without_racks_and_that_is_told_once(name, caplog, monkeypatch):
    """Renamed live: `tests/clients/kafka_python/test_renamed.py`; two are fields made of Kafka's schemas."""
    monkeypatch.setattr(private.names, "warned", set())
    metadata = cluster({"t": [[1, 2], [2, 1]]}, {1: "r1", 2: "r2"})
    known = metadata._partitions["t"]
    if name == "_partitions":
        metadata.partitions_for_topic = {"t": {0, 1}}.get
        del metadata._partitions
    else:
        for p, each in known.items():
            known[p] = types.SimpleNamespace(**{n: v for n, v in vars_of(each).items() if n != name})

    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        counts = leader.partition_counts(metadata, {"t", "missing"})
        replicas = leader.replica_racks(metadata, counts)
        leaders = leader.leader_racks(metadata, counts)

    assert counts == {"t": 2}
    both = [frozenset({"r1", "r2"})] * 2
    assert list(replicas["t"]) == (both if name == "leader_id" else [frozenset()] * 2)
    assert leaders["t"] == (["r1", "r2"] if name == "replica_nodes" else [None] * 2)
    told = [r.getMessage().partition(";")[0] for r in caplog.records]
    # Of the first, `check` tells when the assignor is attached.
    assert [name in each for each in told] == [True] * (name != "_partitions")


def vars_of(partition):
    return {name: getattr(partition, name) for name in ("replica_nodes", "leader_id")}


def test_private_names_of_kafka_python_stand_in_one_room():
    """What `private` names, no file outside names of anything but its own ``self``."""
    names = {name for use in private.names.USED for name in use.path.split(".") if name.startswith("_")}
    package = Path(private.__file__).parents[2]
    paths = [*package.glob("*.py"), *package.glob("confluent/*.py"), *package.glob("kafka_python/*.py")]
    assert len(paths) > 10
    for path in {*paths} - {package / "aiokafka.py", package / "aiokafka_recording.py"}:  # of another client
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in names | {"_coordinator"}:
                assert getattr(node.value, "id", "") in ("self", "one"), f"{path.name}:{node.lineno} {node.attr}"
