"""The rules of Kafka's planned broker assignor ``uniform2``, for comparison: how many of each topic a member gets.

Modelled after the description of its three steps in apache/kafka d9754fd (``uniform2/Keep``, ``HandOut``,
``ShareBalancer``). Racks do not exist for it. Where it takes the cheapest of several moves, so does the model.
"""

from __future__ import annotations

from collections import Counter

from kafka_assignors.core.group import Group
from tests.support.assignors.golden import previous_owners

Counts = Counter[tuple[str, str]]


def shares(group: Group) -> tuple[Counts, Counts]:
    """(topic, member id) -> partitions that it gets, and that it had."""
    had = Counter((tp.topic, m) for tp, m in previous_owners(group).items())
    members = sorted(m.member_id for m in group.members)
    readers = {t: sorted(m.member_id for m in group.members if t in m.topics) for t in sorted(group.partitions)}
    readers = {t: subscribers for t, subscribers in readers.items() if subscribers and group.partitions[t]}
    given: Counts = Counter()
    size = Counter(dict.fromkeys(members, 0))
    left, base = {}, {}
    for topic, subscribers in readers.items():
        base[topic], left[topic] = divmod(group.partitions[topic], len(subscribers))
        for member in subscribers:
            given[topic, member] = base[topic]
            size[member] += base[topic]

    def give(topic: str, member: str, count: int = 1) -> None:
        given[topic, member] += count
        size[member] += count

    for topic, subscribers in readers.items():  # keep
        owners = sorted((m for m in subscribers if had[topic, m] > base[topic]), key=lambda m: (size[m], m))
        for member in owners[: left[topic]]:
            give(topic, member)
            left[topic] -= 1
    for topic in sorted(readers, key=lambda t: (len(readers[t]), t)):  # hand out
        for _ in range(left[topic]):
            give(topic, min((m for m in readers[topic] if given[topic, m] == base[topic]), key=lambda m: (size[m], m)))
    while True:  # balance: single moves, from the largest that can give to the smallest that can take
        moves = [
            (-size[a], size[b], cost(had, base, topic, a, b), a, b, topic)
            for topic, subscribers in readers.items()
            for a in subscribers
            if given[topic, a] > base[topic]
            for b in subscribers
            if given[topic, b] == base[topic] and size[a] >= size[b] + 2
        ]
        if not moves:
            return given, had
        *_, a, b, topic = min(moves)
        give(topic, a, -1)
        give(topic, b)


def cost(had: Counts, base: dict[str, int], topic: str, giver: str, receiver: str) -> int:
    return (had[topic, giver] > base[topic]) - (had[topic, receiver] > base[topic])


def worth(group: Group) -> tuple[int, int, int]:
    """Sums of squares of shares and of sizes, and partitions that leave their owner."""
    given, had = shares(group)
    size: Counter[str] = Counter()
    for (_, member), count in given.items():
        size[member] += count
    left = sum(max(count - given[key], 0) for key, count in had.items())
    return sum(n * n for n in given.values()), sum(n * n for n in size.values()), left
