"""The bytes of all members at once: the same as one member after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.core import bulk, protocol, strategies
from kafka_assignors.core.group import Group, Member
from kafka_assignors.core.indexed import FREE, Indexed
from kafka_assignors.core.protocol import AssignedPartitions
from kafka_assignors.errors import WireError

from . import golden

NAMES = st.text("ab.é\U00010000\ufffd", min_size=1, max_size=12)
FILES = {"range": "range", "roundrobin": "roundrobin", "sticky": "sticky", "cooperative_sticky": "cooperative-sticky"}


@st.composite
def owned(draw):
    """A group and an owner for each of its partitions, or none."""
    counts = draw(st.dictionaries(NAMES, st.integers(0, 9), max_size=5))
    members = draw(st.lists(NAMES, unique=True, max_size=5))
    indexed = Indexed(Group([Member(m, counts) for m in members], counts))
    owner = draw(st.lists(st.integers(FREE, len(members) - 1), min_size=indexed.size, max_size=indexed.size))
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


@pytest.mark.parametrize(("file", "name"), FILES.items())
def test_the_answer_in_bytes_is_the_answer(file, name):
    """Every golden round."""
    strategy = strategies.strategy(name)
    for step in golden.steps(file, name):
        reading = golden.reading(step)
        assignment, facts = strategy.answer(reading)
        written, facts_too = strategy.answer_bytes(reading)

        assert facts == facts_too
        assert {m: protocol.decode_assignment(bytes(data)).partitions for m, data in written.items()} == assignment


def test_a_name_that_does_not_fit_is_refused():
    indexed = Indexed(Group([Member("a", ["x" * 32768])], {"x" * 32768: 1}))
    with pytest.raises(WireError, match="32768 bytes is longer than Kafka's 32767"):
        bulk.assignments(indexed, np.array([0]))
