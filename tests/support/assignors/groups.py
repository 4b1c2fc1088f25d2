"""Groups as hypothesis draws them: wrong claims of every kind, racks on a part of them, topics that are not there."""

from __future__ import annotations

from hypothesis import strategies as st

from kafka_assignors.core.group import Group, Member, TopicPartition

TOPICS = ("t", "u", "v", "w")
RACKS = ("r1", "r2", "r3")
MEMBER_IDS = ("a", "b", "c", "d", "é", "\U0001f600", "\ufb01")  # UTF-16 and code points order the last two differently


@st.composite
def groups(draw, *, racks=True, generations=(-1, 3), max_members=5, max_partitions=5):
    """A group of up to `max_members`; each claim names any partition, existing or not, in any of the generations."""
    ids = draw(st.lists(st.sampled_from(MEMBER_IDS), unique=True, min_size=1, max_size=max_members))
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, max_partitions), max_size=len(TOPICS)))
    claims = st.lists(
        st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(-1, max_partitions + 1)), max_size=8
    )
    members = [
        Member(
            member_id,
            draw(st.sets(st.sampled_from(TOPICS))),
            draw(st.none() | st.just(f"i-{member_id}")),
            draw(st.none() | st.sampled_from(RACKS)) if racks else None,
            draw(claims),
            draw(st.integers(*generations)),
        )
        for member_id in ids
    ]
    replicas = {
        topic: draw(st.lists(st.sets(st.sampled_from(RACKS), max_size=2), max_size=count))
        for topic, count in partitions.items()
        if racks and draw(st.booleans())
    }
    return Group(members, partitions, replicas)


def reordered(group, random):
    """The same group, everything that has no order in another one."""
    members = list(group.members)
    random.shuffle(members)
    partitions = list(group.partitions.items())
    random.shuffle(partitions)
    return Group(
        [Member(m.member_id, m.topics, m.instance_id, m.rack, random.sample(m.owned, len(m.owned)), m.generation)
         for m in members],
        dict(partitions),
        group.racks,
    )  # fmt: skip
