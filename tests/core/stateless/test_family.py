"""MetaQ's and RocketMQ's placement, bit by bit; and what all placement without history has in common."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_assignors
from kafka_assignors.clients.kafka_python import ASSIGNORS
from kafka_assignors.core.group import Group, Member
from kafka_assignors.core.reading import decoded
from kafka_assignors.core.stateless import metaq, rocketmq
from kafka_assignors.core.stateless import range as range_
from kafka_assignors.core.stateless.ring import Ring, ketama, md5_word, numbered
from kafka_assignors.core.strategies import STRATEGIES, strategy
from kafka_assignors.core.wire.protocol import decode_assignment
from kafka_assignors.errors import ConfigError
from tests.support.assignors import family
from tests.support.assignors.groups import MEMBER_IDS, RACKS, TOPICS, groups
from tests.support.examples import examples

STATELESS = [name for name, each in STRATEGIES.items() if not each.uses_claims]
RINGS = [("metaq-consistent-hash", {}), ("rocketmq-consistent-hash", {}), ("consistent-hash", {"epsilon": None})]


def group_of(*names, partitions=4, topic="t"):
    return Group([Member(name, {topic}) for name in names], {topic: partitions})


@pytest.mark.source("apache/rocketmq ConsistentHashRouter.MD5Hash, run")
def test_rocketmqs_hash():
    keys = [b"A-0", b"MessageQueue [topic=t, brokerName=b, queueId=0]"]

    assert md5_word(keys).tolist() == [4153733401, 1143333663]
    assert numbered("MessageQueue [topic=t, brokerName=b, queueId=", range(1), "]") == keys[1:]


@pytest.mark.source("killme2008/Metamorphosis HashAlgorithm.KETAMA_HASH, ConsisHashStrategy, run")
def test_metaqs_hash():
    assert ketama([b"A-0"]).tolist() == [[435262711, 1786423515, 4271348207, 3371688699]]
    assert ketama([b"0-0"])[0, 0] == 53638855


def test_a_partition_is_the_next_points_and_the_last_of_those_on_one_point():
    """Java: the first key of ``tailMap(hash)``, inclusive, else the first of all; ``put`` replaces."""
    ring = Ring.of([np.array([30, 10]), np.array([20, 10]), np.array([40, 30])])
    hashes = np.array([0, 9, 10, 11, 20, 21, 30, 31, 40, 41])

    assert ring.owners(hashes).tolist() == [1, 1, 1, 1, 1, 2, 2, 2, 2, 1]
    # without a member, what its points covered is there again
    assert ring.among(np.array([0, 2])).owners(hashes).tolist() == [0, 0, 0, 2, 2, 2, 2, 2, 2, 0]
    assert ring.among(np.array([0])).owners(hashes).tolist() == [0] * 10
    assert ring.among(np.array([0, 1])).among(np.array([0])).owners(hashes).tolist() == [0] * 10


def test_names_are_hashed_as_java_writes_them():
    assert numbered("é\ud800-", [0, 11]) == [b"\xc3\xa9?-0", b"\xc3\xa9?-11"]


@settings(max_examples=examples(50))
@given(group=groups(racks=False))
def test_averages_are_rocketmqs(group):
    assert rocketmq.average(group) == family.per_topic(group, family.average)
    assert rocketmq.average_by_circle(group) == family.per_topic(group, family.circle)


@given(names=st.sets(st.sampled_from(MEMBER_IDS), min_size=1), partitions=st.integers(1, 250))
def test_metaqs_default_is_metaqs(names, partitions):
    group = group_of(*names, partitions=partitions)

    assert metaq.default(group) == family.per_topic(group, family.metaq)


@settings(max_examples=examples(50))
@given(
    group=groups(racks=False),
    broker=st.sampled_from(["kafka", "b", "", "é"]),
    virtual_nodes=st.sampled_from([1, 3, 10]),
)
def test_rocketmqs_consistent_hash_is_rocketmqs(group, broker, virtual_nodes):
    placed = rocketmq.consistent_hash(group, virtual_nodes=virtual_nodes, broker_name=broker)

    assert placed == family.per_topic(group, family.rocketmq_hash(virtual_nodes, broker))


@settings(max_examples=examples(30))
@given(group=groups(racks=False), broker_id=st.sampled_from([0, 7, 12345]))
def test_metaqs_consistent_hash_is_metaqs(group, broker_id):
    assert metaq.consistent_hash(group, broker_id=broker_id) == family.per_topic(group, family.metaq_hash(broker_id))


def test_all_rules_in_a_group_of_a_real_size():
    """Enough partitions to meet every point of a ring."""
    names = [f"consumer-{i}-{i * 7919:x}" for i in range(12)]
    members = [Member(name, {"orders", "audit"} if i % 3 else {"orders"}) for i, name in enumerate(names)]
    group = Group(members, {"orders": 700, "audit": 35})

    for name, rule in (
        ("average", family.average),
        ("average-by-circle", family.circle),
        ("metaq-default", family.metaq),
        ("metaq-consistent-hash", family.metaq_hash(0)),
        ("rocketmq-consistent-hash", family.rocketmq_hash(10, "kafka")),
    ):
        assert strategy(name).place(group) == family.per_topic(group, rule), name


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(group=groups(), data=st.data())
def test_rooms_are_shared_as_rocketmq_shares_them(group, data):
    racks = st.none() | st.sampled_from(RACKS)
    leaders = {t: data.draw(st.lists(racks, min_size=n, max_size=n)) for t, n in group.partitions.items()}
    group = Group(group.members, group.partitions, {}, leaders)

    for inner, rule in (
        ("average", family.average),
        ("average-by-circle", family.circle),
        ("rocketmq-consistent-hash", family.rocketmq_hash(10, "kafka")),
    ):
        placed = rocketmq.machine_room_nearby(group, inner=inner)
        assert placed == family.per_topic(group, family.nearby(group, rule)), inner


@settings(max_examples=examples(50))
@given(group=groups(racks=False))
def test_averages_and_metaqs_default_give_as_many_as_range(group):
    for static in (True, False):  # range puts static members first, which these do not
        alike = Group(
            [Member(m.member_id, m.topics, m.member_id if static else None) for m in group.members], group.partitions
        )
        counts = [
            {m: {t: len(ids) for t, ids in topics.items()} for m, topics in assign(alike).items()}
            for assign in (range_.assign, rocketmq.average, rocketmq.average_by_circle, metaq.default)
        ]
        assert counts[1:] == counts[:1] * 3
        assert rocketmq.average(alike) == range_.assign(alike)


@pytest.mark.source("issue: surplus members get none")
@pytest.mark.parametrize("name", ["metaq-default", "average", "average-by-circle"])
def test_members_without_a_partition(name):
    placed = strategy(name).place(group_of("a", "b", "c", "d", "e", partitions=3))

    assert placed == {"a": {"t": [0]}, "b": {"t": [1]}, "c": {"t": [2]}, "d": {}, "e": {}}


def test_metaq_sorts_partitions_as_strings():
    placed = metaq.default(group_of("a", "b", partitions=21))

    assert placed["a"]["t"] == [0, 1, *range(10, 19)]  # 0-0, 0-1, 0-10 … 0-18
    assert placed["b"]["t"] == [*range(2, 10), 19, 20]  # 0-19, 0-2, 0-20, 0-3 …


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(group=groups())
def test_claims_play_no_part(group):
    fresh = Group(
        [Member(m.member_id, m.topics, m.instance_id, m.rack) for m in group.members], group.partitions, group.racks
    )

    for name in STATELESS:
        assert strategy(name).place(group) == strategy(name).place(fresh), name


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(group=groups())
def test_static_members_have_the_same_after_a_full_restart(group):
    """Members get new member ids, and join in another order."""
    members = [Member(m.member_id, m.topics, m.member_id, m.rack) for m in group.members]
    again = [Member(f"{9 - i}-new", m.topics, m.instance_id, m.rack) for i, m in enumerate(members)]
    for name in STATELESS:
        before = strategy(name).place(Group(members, group.partitions, group.racks))
        after = strategy(name).place(Group(again, group.partitions, group.racks))
        assert {m.instance_id: after[m.member_id] for m in again} == before, name


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(group=groups(racks=False), data=st.data())
def test_when_a_member_leaves_only_its_partitions_move(group, data):
    gone = data.draw(st.sampled_from(group.members))
    stay = [member for member in group.members if member is not gone]
    for name, options in RINGS:
        able = strategy(name, **options)
        before = able.assign(decoded(name, group))[0]
        after = able.assign(decoded(name, Group(stay, group.partitions)))[0]
        for member in stay:
            for topic, partitions in before[member.member_id].items():
                assert set(partitions) <= set(after[member.member_id][topic]), name


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(group=groups())
def test_the_answer_in_bytes_is_the_answer(group):
    for name in STATELESS:
        read = decoded(name, group)
        assignment, facts = strategy(name).assign(read)
        written, facts_too = strategy(name).assign_bytes(read)
        assert {m: dict(decode_assignment(bytes(data)).partitions) for m, data in written.items()} == assignment, name
        assert facts_too == facts


def test_rooms_are_the_leaders_racks():
    members = [Member("a", {"t"}, rack="r1"), Member("b", {"t"}, rack="r2"), Member("c", {"t"}, rack="r2")]
    leaders = ["r1", "r2", "r2", "r2", "r3", "r3", "r1", None]
    placed = rocketmq.machine_room_nearby(Group(members, {"t": 8}, {"t": [{"r2"}] * 7}, {"t": leaders}))

    assert placed == {"a": {"t": [0, 4, 6, 7]}, "b": {"t": [1, 2, 5]}, "c": {"t": [3]}}


def test_rooms_are_replicas_racks_in_turn_where_leaders_are_unknown():
    """All replicas everywhere: one room would have everything if the first rack were taken."""
    members = [Member(name, {"t"}, rack=rack) for name, rack in zip("abc", RACKS, strict=True)]
    everywhere = Group(members, {"t": 6}, {"t": [RACKS] * 6})
    half = Group(members[:2], {"t": 6}, {"t": [RACKS] * 6})

    assert rocketmq.machine_room_nearby(everywhere) == {"a": {"t": [0, 3]}, "b": {"t": [1, 4]}, "c": {"t": [2, 5]}}
    assert rocketmq.machine_room_nearby(half) == {"a": {"t": [0, 2, 4]}, "b": {"t": [1, 3, 5]}}


def test_a_member_without_a_rack_stops_nobody_and_is_told():
    members = [Member("a", {"t"}, rack="r1"), Member("b", {"t"})]
    group = Group(members, {"t": 4}, {}, {"t": ["r1", "r1", "r9"]})

    placed, facts = strategy("machine-room-nearby").assign(decoded("machine-room-nearby", group))

    assert placed == {"a": {"t": [0, 1, 2, 3]}, "b": {}}  # r9's one partition, and that of no rack: to the first
    assert [(fact.kind, fact.subject) for fact in facts] == [
        ("member-without-rack", "b"),
        ("partition-without-rack", "t"),
    ]
    assert facts[1].text == "1 of 4 partitions of topic 't' are in no known rack: all its subscribers share them"


@pytest.mark.parametrize(
    ("name", "option", "value", "says"),
    [
        ("metaq-consistent-hash", "broker_id", -1, "broker_id must be an int from 0, not -1"),
        ("metaq-consistent-hash", "broker_id", "0", "not '0'"),
        ("metaq-consistent-hash", "broker_id", True, "not True"),
        ("rocketmq-consistent-hash", "virtual_nodes", 0, "virtual_nodes must be an int from 1 to 1000, not 0"),
        ("rocketmq-consistent-hash", "virtual_nodes", 10.0, "not 10.0"),
        ("rocketmq-consistent-hash", "broker_name", 5, "broker_name must be a string, not 5"),
        ("machine-room-nearby", "inner", "range", "inner must be one of average, average-by-circle, rocketmq-cons"),
        ("machine-room-nearby", "inner", None, "not None"),
        ("average", "virtual_nodes", 10, "assignor 'average' has no option 'virtual_nodes'; it has none"),
        (
            "consistent-hash",
            "epsilon",
            -0.1,
            "epsilon must be a number from 0, like 0.25, or None for no bound, not -0.1",
        ),
        ("consistent-hash", "epsilon", float("nan"), "not nan"),
        ("consistent-hash", "epsilon", float("inf"), "not inf"),
        (
            "consistent-hash",
            "epsilon",
            "0.1",
            "epsilon must be a number from 0, like 0.25, or None for no bound, not '0.1'",
        ),
        ("consistent-hash", "hash", "crc32", "hash must be one of md5, sha1, sha256, blake2b, not 'crc32'"),
        ("consistent-hash", "hash", ["md5"], "not ['md5']"),
        ("consistent-hash", "virtual_nodes", 1001, "not 1001"),
    ],
)
def test_an_option_that_cannot_work_is_refused_at_once(name, option, value, says):
    with pytest.raises(ConfigError) as at_once:
        strategy(name, **{option: value})
    assert says in str(at_once.value)
    if name != "average":  # whose constructor has no such argument at all
        with pytest.raises(ConfigError):
            ASSIGNORS[name].factory(**{option: value})


def test_every_strategy_is_a_class_of_the_package():
    assert len(STATELESS) == 10
    for name in STATELESS:
        cls = ASSIGNORS[name]
        assert cls.name == name
        assert getattr(kafka_assignors, cls.__name__) is cls


@pytest.mark.parametrize("name", ["metaq-consistent-hash", "rocketmq-consistent-hash", "consistent-hash"])
def test_two_members_of_one_identity_stop_nobody(name):
    """A member id that equals another's instance id: nothing real, but anybody can send it."""
    members = [Member("x", set(TOPICS)), Member("y", set(TOPICS), "x"), Member("z", set(TOPICS))]
    group = Group(members, dict.fromkeys(TOPICS, 10))

    placed = strategy(name).place(group)

    assert sum(len(ids) for topics in placed.values() for ids in topics.values()) == 40
