"""The assignor classes on the real kafka-python: its cluster metadata and its members."""

from __future__ import annotations

import logging

import pytest
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer import JoinGroupResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

import kafka_assignors
from kafka_assignors import CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor, StickyAssignor
from kafka_assignors.clients.kafka_python import assignors as kafka_python
from kafka_assignors.clients.kafka_python import leader
from kafka_assignors.core import strategies
from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.extras import install
from tests.support.assignors import golden
from tests.support.kafka_python.joins import cluster, join, plain
from tests.support.programs import python

CLASSES = [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]


def ask(assignor, metadata, topics_of):
    """The answer to fresh members of these subscriptions, as member -> topic -> partitions."""
    cls = type(assignor)
    return plain(
        assignor.assign(metadata, [join(m, cls().metadata(set(topics)).encode()) for m, topics in topics_of.items()])
    )


# ------------------------------------------------------------------------------------------------- what a member sends


@pytest.mark.source("apache/kafka 4.3.0 ConsumerProtocol.serializeSubscription")
@pytest.mark.parametrize(
    "row", [r for r in golden.rows("wire") if r["kind"] == "subscription"], ids=lambda r: r["name"]
)
def test_a_member_sends_javas_bytes(row):
    member = row["member"]
    assignor = kafka_python.assignor(row["assignor"])(rack=member.get("rack"))
    if "owned" in member:
        assignor.on_assignment(ConsumerProtocolAssignment(3, list(member["owned"].items()), None), member["generation"])

    sent = assignor.metadata(set(member["topics"])).encode()

    if row["user_data_byte_exact"]:
        assert sent.hex() == row["bytes"]["3"]
    else:  # Java lists topics in hash order
        assert sorted(sent) == sorted(bytes.fromhex(row["bytes"]["3"]))


@pytest.mark.parametrize("cls", CLASSES)
def test_answers_survive_kafka_pythons_codec(cls):
    assignor = cls()
    answer = assignor.assign(cluster({"t": [[1], [1]]}), [join("a", assignor.metadata({"t"}).encode())])

    assigned = ConsumerProtocolAssignment.decode(answer["a"].encode())

    assert answer["a"].encode().hex() == "0003 00000001 0001 74 00000002 00000000 00000001 ffffffff".replace(" ", "")
    assert sorted(assigned.partitions()) == [("t", 0), ("t", 1)]


def test_stickiness_survives_a_member_of_kafka_pythons_own_assignor():
    """Its user data has a version in front that Java cannot read; we can."""
    theirs, ours = StickyPartitionAssignor(), StickyAssignor()
    theirs.on_assignment(ConsumerProtocolAssignment(0, [("t", [2, 3])], b""), 4)
    ours.on_assignment(ConsumerProtocolAssignment(3, [("t", [0, 1])], None), 4)
    members = [join("a", theirs.metadata({"t"}).encode()), join("b", ours.metadata({"t"}).encode())]

    assert plain(ours.assign(cluster({"t": [[1]] * 4}), members)) == {"a": {"t": [2, 3]}, "b": {"t": [0, 1]}}


# ------------------------------------------------------------------------------------------------- the leader's answer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("range", "range"),
        ("roundrobin", "roundrobin"),
        ("sticky", "sticky"),
        ("cooperative_sticky", "cooperative-sticky"),
    ],
)
def test_the_answer_is_the_replay_of_the_same_bytes(file, name):
    """Every fifth golden round through kafka-python's own types."""
    assignor, compared = kafka_python.assignor(name)(), 0
    for step in list(golden.steps(file, name))[::5]:
        rack_of = {int(b): rack for b, rack in step.row["cluster"].get("brokers", {}).items()}
        topics = {
            topic: [[1]] * each if isinstance(each, int) else each
            for topic, each in step.row["cluster"]["topics"].items()
        }
        metadata = cluster(topics, rack_of or {1: None})
        members = [join(member_id, data, instance) for member_id, instance, data in golden.joined(step)]

        assert golden.canonical(plain(assignor.assign(metadata, members))) == golden.canonical(golden.assign(step))
        compared += 1
    assert compared > 80


@pytest.mark.parametrize("cls", CLASSES)
def test_members_may_still_be_bytes(cls):
    metadata = cluster({"t": [[1]] * 3})
    decoded = [join(m, cls().metadata({"t"}).encode()) for m in "ab"]
    raw = [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=m, group_instance_id=None, metadata=cls().metadata({"t"}).encode()
        )
        for m in "ab"
    ]

    assert plain(cls().assign(metadata, raw)) == plain(cls().assign(metadata, decoded))


@pytest.mark.parametrize("cls", [RangeAssignor, StickyAssignor, CooperativeStickyAssignor])
def test_racks_come_from_the_brokers(cls):
    metadata = cluster({"t": [[2], [1], [2], [1]]}, {1: "r1", 2: "r2"})
    members = [join(f"m-{rack}", cls(rack=rack).metadata({"t"}).encode()) for rack in ("r1", "r2")]

    assert plain(cls().assign(metadata, members)) == {"m-r1": {"t": [1, 3]}, "m-r2": {"t": [0, 2]}}
    assert list(leader.replica_racks(metadata, {"t": 2})["t"]) == [{"r2"}, {"r1"}]


def test_a_cooperative_move_takes_two_rounds():
    members = {"a": CooperativeStickyAssignor(), "b": CooperativeStickyAssignor()}
    members["a"].on_assignment(ConsumerProtocolAssignment(3, [("t", [0, 1])], None), 1)
    metadata, rounds = cluster({"t": [[1], [1]]}), []
    for generation in (2, 3):
        answer = members["a"].assign(metadata, [join(m, x.metadata({"t"}).encode()) for m, x in members.items()])
        for member_id, assignor in members.items():
            assignor.on_assignment(ConsumerProtocolAssignment.decode(answer[member_id].encode()), generation)
        rounds.append(plain(answer))

    assert rounds == [{"a": {"t": [0]}, "b": {}}, {"a": {"t": [0]}, "b": {"t": [1]}}]


# ------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("cls", CLASSES)
def test_an_empty_group_gets_an_empty_answer(cls):
    assert cls().assign(cluster({"t": [[1]]}), []) == {}


@pytest.mark.parametrize("cls", CLASSES)
def test_a_topic_that_is_not_in_the_metadata_is_left_out_and_told_once(cls, caplog):
    """It was never there, or was deleted while a member still subscribes to it."""
    assignor, metadata = cls(), cluster({"t": [[1]], "deleted": None})
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        for _ in range(3):
            assert ask(assignor, metadata, {"a": {"t", "deleted"}, "b": {"deleted"}}) == {"a": {"t": [0]}, "b": {}}

    told = [r.getMessage() for r in caplog.records if r.name == "kafka_assignors"]
    assert told == [f"{cls.name}: topic 'deleted' is subscribed by 2 members but absent from metadata; was it deleted?"]


def test_a_topic_that_the_leader_may_not_see_is_not_called_deleted(caplog):
    assignor, metadata = CLASSES[0](), cluster({"t": [[1]], "theirs": None, "deleted": None})
    metadata.unauthorized_topics = {"theirs"}
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        for _ in range(2):
            ask(assignor, metadata, {"a": {"t", "theirs", "deleted"}})

    told = [r.getMessage() for r in caplog.records if r.name == "kafka_assignors"]
    assert told == [
        f"{assignor.name}: topic 'deleted' is subscribed by 1 member but absent from metadata; was it deleted?",
        f"{assignor.name}: topic 'theirs' is subscribed by 1 member but hidden from this leader: its user lacks "
        "the permission Read on Topic theirs; an administrator can grant it with kafka-acls.sh",
    ]


@pytest.mark.parametrize("cls", CLASSES)
def test_a_fact_that_comes_back_is_told_again(cls, caplog):
    assignor, without, with_ = cls(), cluster({"t": None}), cluster({"t": [[1]]})
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        for metadata in (without, without, with_, without):
            ask(assignor, metadata, {"a": {"t"}})

    assert len([r for r in caplog.records if r.name == "kafka_assignors"]) == 2


@pytest.mark.parametrize("cls", CLASSES)
def test_a_topic_without_partitions_is_nobodys(cls, caplog):
    assert ask(cls(), cluster({"t": [[1]], "empty": []}), {"a": {"t", "empty"}}) == {"a": {"t": [0]}}
    assert "topic 'empty' is subscribed by 1 member but has no partitions" in caplog.text


@pytest.mark.parametrize("cls", CLASSES)
def test_leaderless_partitions_are_assigned(cls):
    metadata = cluster({"t": [[1], [1], [1]]}, leaderless=[("t", 1), ("t", 2)])
    assert metadata.available_partitions_for_topic("t") == {0}
    assert ask(cls(), metadata, {"a": {"t"}}) == {"a": {"t": [0, 1, 2]}}


@pytest.mark.parametrize(("cls", "garbage"), [(StickyAssignor, golden.GARBAGE), (CooperativeStickyAssignor, b"\x01")])
def test_garbage_user_data_of_another_member_is_dropped_and_told(cls, garbage, caplog):
    sent = ConsumerProtocolSubscription(
        version=3, topics=["t"], user_data=garbage, owned_partitions=[], generation_id=-1, rack_id=None
    )
    members = [join("good", cls().metadata({"t"}).encode()), join("bad", sent.encode())]

    given = plain(cls().assign(cluster({"t": [[1], [1]]}), members))
    assert {member: len(topics["t"]) for member, topics in given.items()} == {"bad": 1, "good": 1}
    assert f"{cls.name}: member 'bad': {len(garbage)} bytes of user data" in caplog.text
    assert caplog.text.count("\n") == 1


def test_wrong_claims_are_told(caplog):
    stale, newer, other = (StickyAssignor() for _ in range(3))
    stale.on_assignment(ConsumerProtocolAssignment(3, [("t", [0, 9]), ("left", [0])], None), 3)
    newer.on_assignment(ConsumerProtocolAssignment(3, [("t", [0, 1])], None), 4)
    other.on_assignment(ConsumerProtocolAssignment(3, [("t", [1])], None), 4)
    members = [join(m, x.metadata({"t"}).encode()) for m, x in (("s", stale), ("n", newer), ("o", other))]

    StickyAssignor().assign(cluster({"t": [[1], [1]], "left": [[1]]}), members)

    for text in (
        "member 's' claims t-9 that do not exist; ignored",
        "member 's' claims partitions of 1 topic that nobody subscribes to; ignored",
        "member 's' claims t-0 that another member got in a newer generation; ignored",
        "t-1 is claimed by 'n', 'o' with the same generation; it is nobody's",
    ):
        assert text in caplog.text


def test_unknown_names_list_the_known_ones():
    known = "known: range, roundrobin, sticky, cooperative-sticky"
    for look_up in (kafka_python.assignor, strategies.strategy):
        with pytest.raises(UnknownName, match=f"unknown assignor 'fair'; {known}"):
            look_up("fair")
    assert [kafka_python.assignor(cls.name) for cls in CLASSES] == CLASSES
    assert kafka_python.ASSIGNORS.keys() == strategies.STRATEGIES.keys()


@pytest.mark.parametrize("cls", CLASSES)
def test_a_wrong_rack_is_refused_before_any_join(cls):
    for make in (lambda: cls(rack=5), lambda: cls.factory(rack=5)):
        with pytest.raises(ConfigError, match=r"rack must be a string like 'eu-1a' or None, not 5"):
            make()


# ------------------------------------------------------------------------------------------------- imports


def run(code):
    return python("-c", code)


def test_the_core_works_without_kafka_python_and_the_error_names_the_extra():
    done = run(
        "import sys; sys.modules['kafka'] = None\n"
        "import kafka_assignors\n"
        "from kafka_assignors.core import group\n"
        "from kafka_assignors.core.sticky import sticky\n"
        "print(sticky.assign(group.Group([group.Member('a', {'t'})], {'t': 1})))\n"
        "kafka_assignors.RangeAssignor\n"
    )

    assert done.stdout == "{'a': {'t': [0]}}\n"
    assert done.returncode == 1
    assert install("kafka-python") in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_scipy_is_not_imported_before_it_is_needed():
    done = run(
        "import sys, kafka_assignors.core.strategies, kafka_assignors.clients.kafka_python; "
        "print('scipy' in sys.modules)"
    )
    assert (done.stdout, done.returncode) == ("False\n", 0)


def test_the_package_offers_the_four_classes():
    assert [getattr(kafka_assignors, name) for name in ("RangeAssignor", "StickyAssignor")] == [CLASSES[0], CLASSES[2]]
    assert set(kafka_assignors.__all__) <= set(dir(kafka_assignors))
    with pytest.raises(AttributeError, match="no attribute 'FairAssignor'"):
        _ = kafka_assignors.FairAssignor
