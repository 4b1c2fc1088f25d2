"""The bytes of all members at once: the same as one member after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.core import strategies
from kafka_assignors.core.group import Group, Member, Partitions, TopicPartition
from kafka_assignors.core.group.indexed import UNASSIGNED, Indexed
from kafka_assignors.core.wire import bulk, protocol, userdata
from kafka_assignors.core.wire.protocol import AssignedPartitions, ProtocolReader, Subscription
from kafka_assignors.errors import WireError
from tests.support.assignors import golden

NAMES = st.text("ab.é\U00010000\ufffd", min_size=1, max_size=12)
FILES = {"range": "range", "roundrobin": "roundrobin", "sticky": "sticky", "cooperative_sticky": "cooperative-sticky"}


@st.composite
def owned(draw):
    """A group and an owner for each of its partitions, or none."""
    counts = draw(st.dictionaries(NAMES, st.integers(0, 9), max_size=5))
    members = draw(st.lists(NAMES, unique=True, max_size=5))
    indexed = Indexed(Group([Member(m, counts) for m in members], counts))
    owner = draw(st.lists(st.integers(UNASSIGNED, len(members) - 1), min_size=indexed.size, max_size=indexed.size))
    return indexed, np.array(owner, np.int64)


@given(case=owned(), block=st.sampled_from([1, 4, bulk._BLOCK]))
def test_assignments_are_those_of_one_member_at_a_time(case, block):
    indexed, owner = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "_BLOCK", block)  # small groups in several passes, as large ones are

        written = bulk.assignments(indexed, owner)

    one_by_one = {
        m: protocol.encode_assignment(AssignedPartitions(given)) for m, given in indexed.assignment(owner).items()
    }
    assert {m: bytes(data) for m, data in written.items()} == one_by_one
    assert list(written) == [member.member_id for member in indexed.group.members]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), FILES.items())
def test_the_answer_in_bytes_is_the_answer(file, name):
    """Every third golden round."""
    strategy = strategies.strategy(name)
    for step in list(golden.steps(file, name))[::3]:
        reading = golden.reading(step)
        assignment, facts = strategy.assign(reading)
        written, facts_too = strategy.assign_bytes(reading)

        assert facts == facts_too
        assert {m: protocol.decode_assignment(bytes(data)).partitions for m, data in written.items()} == assignment


def test_a_name_that_does_not_fit_is_refused():
    indexed = Indexed(Group([Member("a", ["x" * 32768])], {"x" * 32768: 1}))
    with pytest.raises(WireError, match="32768 bytes is longer than Kafka's 32767"):
        bulk.assignments(indexed, np.array([0]))


def one_at_a_time(data, at, known):
    """The claims of known topics and where they end; None where they are malformed."""
    reader, wanted, found = ProtocolReader(data, "claims", at), {name.encode() for name in known}, []
    try:
        for _ in range(reader.count(6)):
            size = reader.int16()
            if size < 0:
                return None
            name = reader.take(size)
            ids = [reader.int32() for _ in range(reader.count(4))]
            if name in wanted:
                found += [TopicPartition(name.decode(), p) for p in ids]
    except WireError:
        return None
    return tuple(found), reader.offset


CLAIMS = st.dictionaries(NAMES | st.sampled_from(["topic-00001", "topic-00002", "x" * 16, "x" * 17]),
                         st.lists(st.integers(-1, 2**31 - 1), max_size=3), max_size=4)  # fmt: skip


@st.composite
def claiming(draw):
    """The bytes of some members, where in them the claims begin, and topics they may name. Some are damaged."""
    data, at = [], []
    for _ in range(draw(st.integers(0, 5))):
        front = draw(st.binary(max_size=3))
        sent = bytearray(front + protocol.encode_partitions(draw(CLAIMS)) + draw(st.binary(max_size=5)))
        for place in draw(st.lists(st.integers(0, len(sent) - 1), max_size=2)):
            sent[place] = draw(st.sampled_from([0, 1, 2, 0x7F, 0xFF]))
        data.append(bytes(sent[: draw(st.integers(0, len(sent)))] if draw(st.booleans()) else sent))
        at.append(min(len(front), len(data[-1])))
    return data, at, draw(st.lists(NAMES | st.sampled_from(["topic-00001", "x" * 16]), max_size=4))


@given(
    case=claiming(),
    few=st.sampled_from([0, 1, 3, bulk._FEW]),
    block=st.sampled_from([1, 4, bulk._BLOCK]),
    table=st.sampled_from([0, 1, bulk._TABLE]),
)
def test_claims_are_those_of_one_member_at_a_time(case, few, block, table):
    """Malformed ones too: one member's bytes change nothing about another's."""
    data, at, known = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "_BLOCK", block)
        patch.setattr(bulk, "_FEW", few)  # all in steps, or all one by one, or the long ones alone
        patch.setattr(bulk, "_TABLE", table)

        found = bulk.claims(data, at, known)

    assert [each and (tuple(each[0]), each[1]) for each in found] == [
        one_at_a_time(*each, known) for each in zip(data, at, strict=True)
    ]
    assert [each and len(each[0]) for each in found] == [each and len(tuple(each[0])) for each in found]


@given(case=claiming(), heads=st.sampled_from([64, 1]))
def test_subscriptions_are_those_of_one_member_at_a_time(case, heads):
    topics, owned, versions = case[2], case[0], [3, 2, 1, 0, 9]
    data = [
        version.to_bytes(2, "big") + protocol.encode_subscription(Subscription(tuple(topics), rest), 0)[2:] + rest
        for version, rest in zip(versions, owned, strict=False)
    ]
    expected = [protocol.read_subscription(each) for each in data]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "_HEADS", heads)
        read = bulk.subscriptions(data)
        if any(each.version == protocol.MALFORMED for each in expected):
            assert [(each.version, each.unread) for each in read] == [(each.version, each.unread) for each in expected]
            return
        assert read == expected
        assert protocol.all_topics([*data, b"", *(each[:6] for each in data if each[2:6] != bytes(4))]) == {
            topic for each in expected for topic in each.topics
        }


def test_many_members_claims_are_one_members_claims():
    """Enough of both kinds for steps and for one by one; a name that nobody knows; user data of the other forms."""
    names = [f"topic-{t:05}" for t in range(40)]
    claimed = [[(topic, m) for topic in names[: m % 50]] + [("unknown", m)] for m in range(100)]
    data = [userdata.encode_sticky(owned, m - 1) for m, owned in enumerate(claimed)]
    data += [b"\0\1" + data[7], data[7][:-4], None, b"", b"\0", data[7] + b"more"]

    found = bulk.decode_all_sticky(data, names[:30])

    known = [each._replace(owned=Partitions.of(each.owned).among(names[:30])) for each in found]
    alone = [
        each._replace(owned=Partitions.of(each.owned).among(names[:30])) for each in map(userdata.decode_sticky, data)
    ]
    assert known == alone
    assert [each.owned.strange for each in found[:100]] == [1 + max(0, min(m % 50, 40) - 30) for m in range(100)]  # type: ignore[attr-defined]
