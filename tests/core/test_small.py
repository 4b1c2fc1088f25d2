"""`small` and the strategies give the same bytes, and a member that starts imports no NumPy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.core import small, strategies
from kafka_assignors.core.reading import decode
from kafka_assignors.core.wire import userdata
from kafka_assignors.core.wire.protocol import Subscription, decode_assignment
from tests.support.programs import python

TOPICS = ("orders", "payments", "a", "\U0001f600", "￿")


@st.composite
def groups(draw, name):
    """Members after a few rebalances: what each got before, some of them gone or new, topics that grew."""
    topics = draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=4, unique=True))
    counts = {topic: draw(st.integers(1, 13)) for topic in topics}
    ids = [f"app-{draw(st.integers(0, 3))}-{m}" for m in range(draw(st.integers(1, 9)))]
    stamp = "-0d5f2f0e-3f0a-4b1e-8a52-0c2b6c1f5a7"
    ids = [each.rsplit("-", 1)[0] + stamp + str(m) if draw(st.booleans()) else each for m, each in enumerate(ids)]
    claimed: dict[str, list[tuple[str, int]]] = {each: [] for each in ids}
    positions = [(topic, p) for topic, count in counts.items() for p in range(count)]
    for place in positions:
        holder = draw(st.sampled_from([None, *ids[: draw(st.integers(1, len(ids)))]]))
        if holder is not None:
            claimed[holder].append(place)
    if draw(st.booleans()):
        claimed = {each: [] for each in ids}
    unequal = name in ("range", "roundrobin") and draw(st.booleans())
    members = []
    for each in ids:
        reads = tuple(draw(st.permutations(topics)))
        reads = reads[: draw(st.integers(0, len(reads)))] if unequal else reads
        instance = f"i-{each[-1]}" if draw(st.booleans()) else None
        owned = tuple(claimed[each])
        generation = 3 if owned else -1
        data = userdata.of_java(name, owned or None, generation)
        members.append(
            (each, instance, Subscription(reads, data, owned if name == "cooperative-sticky" else (), generation))
        )
    return members, counts


@pytest.mark.slow
@pytest.mark.parametrize("name", userdata.JAVAS)
@given(data=st.data())
def test_small_groups_get_the_strategys_bytes(name, data):
    members, counts = data.draw(groups(name))
    found = small.assigned(name, members, counts)

    subscribed = set().union(*(each.topics for _, _, each in members))
    if found is None:
        assert not subscribed
        return
    written, facts = strategies.strategy(name).assign_bytes(decode(name, members, {t: counts[t] for t in subscribed}))
    assert found == {member: bytes(each) for member, each in written.items()}
    assert list(found) == list(written)
    assert facts == ()


A, B = Subscription(("t",)), Subscription(("u",))


@pytest.mark.parametrize(
    ("name", "members", "counts"),
    [
        ("range", [("a", None, A._replace(rack="r"))], {"t": 2}),
        ("range", [("a", None, A._replace(unread="too long"))], {"t": 2}),
        ("range", [("a", None, A)], {}),
        ("range", [("a", None, A)], {"t": 0}),
        ("range", [("a", None, A)], {"t": small.PARTITIONS + 1}),
        ("range", [("a", None, A), ("a", None, A)], {"t": 2}),
        ("sticky", [("a", None, A)], {"t": small.STICKY_PARTITIONS + 1}),
        ("sticky", [("a", None, A._replace(version=userdata.ECHOING))], {"t": 2}),
        ("sticky", [("a", None, A), ("b", None, B)], {"t": 2, "u": 2}),
        ("sticky", [("a", None, A._replace(user_data=b"\1"))], {"t": 2}),
        ("sticky", [("a", None, A._replace(user_data=userdata.encode_sticky([("t", 2)], 1)))], {"t": 2}),
        ("sticky", [("a", None, A._replace(user_data=userdata.encode_sticky([("v", 0)], 1)))], {"t": 2}),
        ("sticky", [("a", None, A._replace(user_data=userdata.encode_sticky([], 1, b"{}")))], {"t": 2}),
        ("cooperative-sticky", [("a", None, A._replace(user_data=b"\1"))], {"t": 2}),
        ("cooperative-sticky", [(m, None, A._replace(owned=[("t", 0)], generation=1)) for m in "ab"], {"t": 2}),
    ],
)
def test_what_only_the_strategies_decide_is_declined(name, members, counts):
    assert small.assigned(name, members, counts) is None


def test_a_group_that_is_declined_elsewhere_is_assigned():
    """The cases above decline because of what they change, not because of what they share with this one."""
    for name in userdata.JAVAS:
        found = small.assigned(name, [("a", None, A)], {"t": 2})
        assert found is not None
        assert decode_assignment(found["a"]).partitions == {"t": [0, 1]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"])
def test_a_member_joins_and_leads_a_small_group_without_numpy(name):
    script = f"""
import sys
from kafka_assignors.clients.kafka_python import {name}, preload
from tests.support.kafka_python.joins import cluster, join, plain
preload._started.acquire()  # what the thread imports is not the question
assignor = {name}()
data = assignor.metadata(["t"]).encode()
answer = plain(assignor.assign(cluster({{"t": [[1]] * 4}}), [join("a", data), join("b", data)]))
assert sorted(len(each["t"]) for each in answer.values()) == [2, 2], answer
print([module for module in ("numpy", "scipy") if module in sys.modules])
"""
    done = python("-c", script, check=True)
    assert done.stdout == "[]\n"
