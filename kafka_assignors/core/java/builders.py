"""Java's two builders of a sticky assignment, step for step: for equal and for unequal subscriptions.

Source: ``ConstrainedAssignmentBuilder`` and ``GeneralAssignmentBuilder`` in Kafka 4.3.0's ``AbstractStickyAssignor``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from ...errors import KafkaAssignorsError
from ..group import Group, Member, TopicPartition
from ..group.order import HashedSet, utf16

Lists = dict[str, list[TopicPartition]]
"""Member id -> its partitions, in Java's order."""

MAX_STEPS = 1_000_000
"""Maximum partitions examined in all passes of the local search; beyond it, Java would take minutes too."""


class NoAnswer(KafkaAssignorsError):
    """Java throws on this group, or does not terminate."""


class Racks:
    """Rack locality of members and partitions; `of_member` is empty if racks make no difference."""

    def __init__(self, group: Group, members: Mapping[str, Member], topics: Mapping[str, int]) -> None:
        self.of_member = {m.member_id: m.rack for m in members.values() if m.rack}
        self.of_partition: dict[TopicPartition, frozenset[str]] = {}
        self.near: dict[TopicPartition, int] = {}  # number of members that share a rack with it
        if not self.of_member:
            return
        crew = Counter(self.of_member.values())
        for topic, count in topics.items():
            replicas = group.racks.get(topic, ())
            for p in range(count):
                self.of_partition[TopicPartition(topic, p)] = replicas[p] if p < len(replicas) else frozenset()
        self.near = {tp: sum(crew[rack] for rack in on) for tp, on in self.of_partition.items()}
        union: frozenset[str] = frozenset().union(*self.of_partition.values())
        if not union & crew.keys() or all(on == union for on in self.of_partition.values()):
            self.of_member, self.of_partition = {}, {}

    def foreign(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether the member's rack has no replica of the partition."""
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self.of_partition.get(partition, ())

    def next_near(self, partition: TopicPartition, members: Sequence[str], first: int) -> int:
        """Index of the next member, in a circle from `first`, on a rack of the partition; -1 if none."""
        on = self.of_partition.get(partition, frozenset())
        for i in range(len(members)):
            index = (first + i) % len(members)
            if self.of_member.get(members[index]) in on:
                return index
        return -1


class Constrained:
    """Equal subscriptions: members keep partitions up to a quota, the rest is dealt in turn."""

    def __init__(self, topics: Mapping[str, int], racks: Racks, owned: Lists, doubled: set[TopicPartition]) -> None:
        self.topics, self.racks, self.owned, self.doubled = topics, racks, owned, doubled
        total = sum(topics.values())
        self.low, self.over_wanted = divmod(total, len(owned))
        self.high = self.low + (self.over_wanted > 0)
        self.over = 0  # members above the low quota
        self.lists: Lists = {member_id: [] for member_id in owned}
        self.under: list[str] = []
        self.exact: list[str] = []
        self.claimant = {tp: member_id for member_id, claims in owned.items() for tp in claims}
        self.transferred: dict[TopicPartition, str] = {}

    def build(self) -> tuple[Lists, dict[TopicPartition, str]]:
        """The assignment; and the partitions that move between claimants, with their receivers."""
        self.keep()
        taken = sorted((tp for given in self.lists.values() for tp in given), key=_by_name)
        everything = [TopicPartition(t, p) for t in sorted(self.topics, key=utf16) for p in range(self.topics[t])]
        left = _without(everything, taken)
        self.under.sort(key=utf16)
        self.exact.sort(key=utf16)
        left.sort(key=lambda tp: self.racks.near.get(tp, 0))
        if self.racks.of_member:
            left = self.deal_near(left)
        self.deal(left)
        if any(len(self.lists[member_id]) != self.low for member_id in self.under) or (
            self.under and self.over != self.over_wanted
        ):
            raise NoAnswer("Java throws: a member stays below the quota")
        return self.lists, self.transferred

    def keep(self) -> None:
        """Let members keep partitions on a near rack, up to their quota."""
        for member_id, claims in self.owned.items():
            mine = [tp for tp in claims if not self.racks.foreign(member_id, tp)]
            mine.sort(key=lambda tp: (tp.partition, utf16(tp.topic)))
            mine = [tp for tp in mine if tp not in self.doubled]
            quota = len(mine)
            if len(mine) < self.low:
                self.under.append(member_id)
            elif len(mine) >= self.high and self.over < self.over_wanted:
                self.over += 1
                if self.over == self.over_wanted:
                    self.exact.clear()
                quota = self.high
            else:
                quota = self.low
                if self.over < self.over_wanted:
                    self.exact.append(member_id)
            self.lists[member_id] += mine[:quota]

    def give(self, partition: TopicPartition, member_id: str) -> int:
        """Add a partition to a member; return its new count."""
        self.lists[member_id].append(partition)
        if partition in self.doubled or self.claimant.get(partition, member_id) != member_id:
            self.transferred[partition] = member_id
        return len(self.lists[member_id])

    def deal_near(self, left: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members on a near rack that are below their quota; return the rest."""
        turn, rest = 0, []
        for partition in left:
            index = self.racks.next_near(partition, self.under, turn)
            if index >= 0:
                member_id = self.under[index]
                have = self.give(partition, member_id)
                if have >= self.low:
                    del self.under[index]
                    if have < self.high and self.over < self.over_wanted:
                        self.exact.append(member_id)
                else:
                    index += 1
                turn = index % len(self.under) if self.under else 0
                continue
            index = self.racks.next_near(partition, self.exact, 0)
            if index < 0:
                rest.append(partition)
            elif self.give(partition, self.exact[index]) == self.high:
                del self.exact[index]
                self.over += 1
                if self.over == self.over_wanted:
                    self.exact.clear()
        return rest

    def deal(self, left: Iterable[TopicPartition]) -> None:
        """Deal partitions in turn to members below their quota."""
        turn = 0
        for partition in left:
            if self.under:
                turn %= len(self.under)
                member_id = self.under[turn]
                turn += 1
            elif self.exact:
                member_id = self.exact.pop(0)
            else:
                raise NoAnswer("Java throws: no more unfilled consumers to be assigned")
            have = self.give(partition, member_id)
            if have == self.low:
                turn -= 1
                del self.under[turn]
                self.exact.append(member_id)
            elif have == self.high:
                self.over += 1


class General:
    """Unequal subscriptions: keep valid claims, give the rest to the least loaded, then search locally."""

    def __init__(self, topics: Mapping[str, int], racks: Racks, owned: Lists, members: Mapping[str, Member]) -> None:
        self.topics, self.racks, self.members = topics, racks, members
        self.lists = {
            member_id: dict.fromkeys(given) for member_id, given in owned.items()
        }  # to remove from the middle
        self.count: dict[str, Counter[str]] = {}  # member -> topic -> partitions
        self.readers = {t: [m.member_id for m in members.values() if t in m.topics] for t in topics}
        self.owner = {tp: member_id for member_id, given in owned.items() for tp in given}
        self.most = {m: sum(topics.get(t, 0) for t in member.topics) for m, member in members.items()}
        self.movements = _Movements()
        self.queue: list[tuple[int, bytes, str]] = []  # the members by load
        self.revoking = False
        self.steps = 0

    def build(self) -> Lists:
        """The assignment."""
        earlier = self.earlier()
        taken = self.keep()
        self.count = {m: Counter(tp.topic for tp in given) for m, given in self.lists.items()}
        by_readers = sorted(self.topics, key=lambda t: (len(self.readers[t]), utf16(t)))
        everything = [TopicPartition(t, p) for t in by_readers for p in range(self.topics[t])]
        rank = {t: i for i, t in enumerate(by_readers)}
        left = _without(everything, sorted(taken, key=lambda tp: (rank[tp.topic], tp.partition)))
        self.queue = sorted(self.place(member_id) for member_id in self.lists)
        initializing = not self.queue[-1][0]
        rest = [tp for tp in left if not self.take(tp, near=True)] if self.racks.of_member else left
        for partition in rest:
            self.take(partition, near=False)

        everything = [tp for tp in everything if len(self.readers[tp.topic]) > 1]
        left = [tp for tp in left if len(self.readers[tp.topic]) > 1]
        fixed = {m: self.lists.pop(m) for m in [*self.lists] if not self.can_change(m)}
        self.queue = [entry for entry in self.queue if entry[2] not in fixed]
        before = {m: {**given} for m, given in self.lists.items()}
        if not self.revoking:
            self.search(left, earlier)
        if self.search(everything, earlier) and not initializing and _score(self.lists) >= _score(before):
            self.lists = before
        return {m: [*given] for m, given in {**self.lists, **fixed}.items()}

    def earlier(self) -> dict[TopicPartition, tuple[int, str]]:
        """Claims of generations before the newest: partition -> (generation, member)."""
        newest = max(m.generation for m in self.members.values())
        claims: dict[TopicPartition, tuple[int, str]] = {}
        for member_id, member in self.members.items():
            if member.generation < newest:
                for tp in member.owned:
                    if tp not in claims or member.generation > claims[tp][0]:
                        claims[tp] = (member.generation, member_id)
        return claims

    def keep(self) -> list[TopicPartition]:
        """Drop claims of unsubscribed topics or without a near rack; return the kept ones."""
        kept: list[TopicPartition] = []
        for member_id, given in self.lists.items():
            stay = [
                tp
                for tp in given
                if tp.topic in self.members[member_id].topics and not self.racks.foreign(member_id, tp)
            ]
            self.revoking |= len(stay) < len(given)
            self.lists[member_id] = dict.fromkeys(stay)
            kept += stay
        return kept

    def place(self, member_id: str) -> tuple[int, bytes, str]:
        """The member's sort key in the queue."""
        return len(self.lists[member_id]), utf16(member_id), member_id

    def take(self, partition: TopicPartition, *, near: bool) -> bool:
        """Give the partition to the first eligible member, if `near` on a near rack; return whether one took it."""
        for i, (_, _, member_id) in enumerate(self.queue):
            if partition.topic in self.members[member_id].topics and not (
                near and self.racks.foreign(member_id, partition)
            ):
                del self.queue[i]
                self.lists[member_id][partition] = None
                self.count[member_id][partition.topic] += 1
                self.owner[partition] = member_id
                insort(self.queue, self.place(member_id))
                return True
        return False

    def can_change(self, member_id: str) -> bool:
        """Whether the member could gain or lose a partition."""
        given = self.lists[member_id]
        return len(given) < self.most[member_id] or any(len(self.readers[tp.topic]) > 1 for tp in given)

    def balanced(self) -> bool:
        """Whether no member could take a partition from one that has at least two more."""
        if not self.queue or self.queue[0][0] >= self.queue[-1][0] - 1:
            return True
        highest: dict[str, int] = {}
        for load, _, member_id in self.queue:  # ascending: the last one counts
            for topic, count in self.count[member_id].items():
                if count:
                    highest[topic] = load
        return not any(
            load != self.most[member_id] and any(highest.get(t, 0) > load + 1 for t in self.members[member_id].topics)
            for load, _, member_id in self.queue
        )

    def search(self, partitions: Sequence[TopicPartition], earlier: Mapping[TopicPartition, tuple[int, str]]) -> bool:
        """Move partitions until loads are balanced or nothing improves; return whether any moved."""
        moved, seen = False, set()
        balanced = self.balanced()
        while True:
            modified = False
            for partition in partitions:
                if balanced:
                    break
                self.steps += 1
                if self.steps > MAX_STEPS:
                    raise NoAnswer(f"Java's search for balance takes more than {MAX_STEPS:,} steps")
                if self.improve(partition, earlier):
                    modified = True
                    balanced = self.balanced()
            moved |= modified
            if not modified:
                return moved
            state = frozenset(self.owner.items()), frozenset(self.movements.pair.items())
            if state in seen:
                raise NoAnswer("Java's algorithm does not terminate: it moves partitions in a circle")
            seen.add(state)

    def improve(self, partition: TopicPartition, earlier: Mapping[TopicPartition, tuple[int, str]]) -> bool:
        """Move the partition if that is an improvement; return whether it moved."""
        owner = self.owner[partition]
        load = len(self.lists[owner])
        if partition in earlier and load > len(self.lists[earlier[partition][1]]) + 1:
            self.move(partition, earlier[partition][1])
            return True
        # Java looks for a receiver on a near rack first, but then moves the partition to the least loaded one anyway.
        if any(load > len(self.lists[other]) + 1 for other in self.readers[partition.topic]):
            self.move(partition, next(m for _, _, m in self.queue if partition.topic in self.members[m].topics))
            return True
        return False

    def move(self, partition: TopicPartition, new: str) -> None:
        """Move the partition, or another one of its topic that this move returns to its old member."""
        partition = self.movements.instead_of(partition, self.owner[partition], new)
        old = self.owner[partition]
        for member_id in {old, new}:
            del self.queue[bisect_left(self.queue, self.place(member_id))]
        self.movements.record(partition, old, new)
        del self.lists[old][partition]
        self.lists[new][partition] = None
        self.count[old][partition.topic] -= 1
        self.count[new][partition.topic] += 1
        self.owner[partition] = new
        for member_id in {old, new}:
            insort(self.queue, self.place(member_id))


class _Movements:
    """Moves by old and new member: instead of a second move in reverse, the partition that moved first goes back."""

    def __init__(self) -> None:
        self.pair: dict[TopicPartition, tuple[str, str]] = {}
        self.moved: dict[tuple[str, str, str], HashedSet] = {}  # topic, from, to

    def instead_of(self, partition: TopicPartition, old: str, new: str) -> TopicPartition:
        old = self.pair.get(partition, (old, ""))[0]
        back = self.moved.get((partition.topic, new, old))
        return back.first() if back else partition

    def record(self, partition: TopicPartition, old: str, new: str) -> None:
        if partition in self.pair:
            start, end = self.pair.pop(partition)
            key = partition.topic, start, end
            self.moved[key].remove(partition)
            if not self.moved[key]:
                del self.moved[key]
            if start == new:
                return
            old = start
        self.pair[partition] = (old, new)
        self.moved.setdefault((partition.topic, old, new), HashedSet()).add(partition)


def _by_name(partition: TopicPartition) -> tuple[bytes, int]:
    return utf16(partition.topic), partition.partition


def _without(everything: Sequence[TopicPartition], taken: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Difference of lists in the same order. As in Java, a nonexistent taken partition hides those after it."""
    left: list[TopicPartition] = []
    i = 0
    for partition in everything:
        if i < len(taken) and taken[i] == partition:
            i += 1
        else:
            left.append(partition)
    return left


def _score(lists: Mapping[str, Collection[TopicPartition]]) -> int:
    """The sum of the differences of all pairs of loads."""
    loads = sorted(map(len, lists.values()))
    return sum((2 * i - len(loads) + 1) * load for i, load in enumerate(loads))
