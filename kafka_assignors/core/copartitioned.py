"""Co-partitioned topics: equal partition numbers at one member, sticky and optimal.

Topics are co-partitioned if equal keys are in equal partition numbers: the same number of partitions and the same
partitioner. A join or a table lookup then needs partition p of all of them at one member. The partitions p of
co-partitioned topics are one *bundle*, and a bundle is what this assignor places, as `sticky.assign` places partitions:
with the default goals, every member has its share of each set of co-partitioned topics, rounded down or up, then the
number of bundles per member is balanced, then racks, then the fewest bundles move.

Example: orders and payments have 4 partitions each, audit has 6, and two members read all. Each has 2 partitions of
orders, the same 2 of payments, and 3 of audit.

Source: the tasks of Kafka Streams (``StreamsPartitionAssignor``), the co-partitioned assignor of Faust.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConfigError
from .declaration import CooperativeOptions as Cooperative
from .declaration import MemberOptions, Option
from .group import Group, Member
from .group.assignment import Assignment
from .group.claims import Claims, resolve
from .group.facts import Fact, some
from .group.indexed import UNASSIGNED, Indexed, Ints
from .group.order import utf16
from .sticky import GOALS, sticky
from .sticky import objective as objective_
from .sticky.objective import Objective
from .sticky.racks import Priced, RackCosts, distinct, position_costs

Sets = tuple[tuple[str, ...], ...]
DEFAULT = Objective(goals=GOALS[2])
_BETWEEN = "+"  # no topic's name has it


def check(topics: Any) -> Sets | None:
    """Validate the option `topics`: None, or lists of two or more names, each name once; ConfigError otherwise."""
    if topics is None:
        return None
    if isinstance(topics, str) or not isinstance(topics, Sequence):
        raise ConfigError(f"topics must be a list of lists like [['orders', 'payments']], or None, not {topics!r}")
    seen: set[str] = set()
    for names in topics:
        if isinstance(names, str) or not isinstance(names, Sequence) or len(names) < 2:
            raise ConfigError(f"topics must have lists of two or more co-partitioned topics, not {names!r}")
        for name in names:
            if not isinstance(name, str):
                raise ConfigError(f"topics must have names of topics, not {name!r}")
            if name in seen:
                raise ConfigError(f"topics has {name!r} twice; a topic is in one set of co-partitioned topics")
            seen.add(name)
    return tuple(tuple(sorted(names, key=utf16)) for names in topics)


class CoPartitionedOptions(MemberOptions):
    """The options of ``copartitioned``."""

    topics = Option(
        "Sequence[Sequence[str]] | None", None, "a list of lists like [['orders', 'payments']], or None",
        "Sets of co-partitioned topics. None: topics with the same partition count and the same subscribers.",
        check,
    )  # fmt: skip
    rack_costs = objective_.StickyOptions.rack_costs.at(DEFAULT.rack_costs)
    goals = objective_.StickyOptions.goals.at(DEFAULT.goals)

    objective: Objective

    def validate(self) -> None:
        """The goals and the costs of racks make the objective."""
        self.objective = Objective(self.rack_costs, self.goals)


class CooperativeCoPartitionedOptions(CoPartitionedOptions, Cooperative):
    """The options of ``cooperative-copartitioned``."""


def assign(
    group: Group, claims: Claims | None = None, *, topics: Sets | None = None, objective: Objective = DEFAULT
) -> Assignment:
    """Assign bundles of partitions with equal numbers to members that subscribe to all of their topics.

    Args:
        group: Members in any order, with any claims.
        claims: `resolve(group)`, if the caller has it.
        topics: Sets of co-partitioned topics; other topics are placed alone. None: topics with the same partition count
            and the same subscribers are co-partitioned, as in Faust.
        objective: Goals and rack costs, of bundles. A bundle costs what its partitions cost.

    Of topics with different partition counts in one set, a bundle has the partitions that exist. A set that no member
    subscribes to as a whole is placed topic by topic. `facts` reports both.

    Cost: as `sticky.assign`. Deterministic under any order of members.

    >>> group = Group([Member("a", {"t", "u"}), Member("b", {"t", "u"})], {"t": 3, "u": 3})
    >>> assign(group)
    {'a': {'t': [0, 1], 'u': [0, 1]}, 'b': {'t': [2], 'u': [2]}}
    """
    claims = claims or resolve(group)
    return claims.indexed.assignment(owners(claims, topics=topics, objective=objective))


def owners(claims: Claims, *, topics: Sets | None = None, objective: Objective = DEFAULT) -> Ints:
    """`assign` as an array: int[P], the number of each position's new owner; `UNASSIGNED` if nobody subscribes."""
    indexed = claims.indexed
    if not indexed.topics:
        return np.full(indexed.size, UNASSIGNED)
    bundles = bundled(claims, topics, objective)
    placed = sticky.owners(bundles.claims, objective)
    owner = np.full(indexed.size, UNASSIGNED)
    owner[bundles.position] = placed[bundles.bundle]
    return owner


@dataclass(frozen=True)
class Bundles:
    """Bundles as the partitions of a group of their own, whose topics are sets of co-partitioned topics.

    Args:
        claims: That group; its members have the same numbers. A bundle's holder is who holds most of it.
        bundle: int[P'], the bundle of each partition that belongs to one, ascending.
        position: int[P'], the position of that partition in the real group.
    """

    claims: Claims
    bundle: Ints
    position: Ints

    def owners(self, owner: Ints) -> Ints:
        """int[B], the owner of each bundle under owners of partitions, if these keep bundles whole."""
        bundle_owners = np.full(self.claims.indexed.size, UNASSIGNED)
        bundle_owners[self.bundle] = owner[self.position]
        return bundle_owners

    def split(self, owner: Ints) -> Ints:
        """The bundles whose partitions have several owners."""
        return np.unique(self.bundle[self.owners(owner)[self.bundle] != owner[self.position]])


def bundled(claims: Claims, topics: Sets | None, objective: Objective) -> Bundles:
    """The bundles of a group, with their holders and rack costs. For the arguments see `assign`."""
    together, bundle, position = _bundles(claims.indexed, topics)
    together.costs = _costs(position_costs(claims.indexed, objective), bundle, position)
    holder = _holders(claims, together, bundle, position)
    nothing = np.zeros(0, np.int64), np.zeros(0, np.int64)
    return Bundles(Claims(together, holder, nothing, nothing, nothing, nothing, ()), bundle, position)


def sets(indexed: Indexed, topics: Sets | None) -> list[tuple[str, ...]]:
    """The sets of co-partitioned topics of a group; a topic that is alone is a set of its own."""
    columns = np.ascontiguousarray(indexed.reads.T)
    if topics is None:
        alike: dict[tuple[bytes, int], list[str]] = {}
        for topic, column in zip(indexed.topics, columns, strict=True):
            alike.setdefault((column.tobytes(), indexed.group.partitions[topic]), []).append(topic)
        return [tuple(topic_set) for topic_set in alike.values()]
    topic_sets, left = [], dict.fromkeys(indexed.topics)
    for names in topics:
        subset = tuple(name for name in names if name in left)
        if len(subset) > 1 and columns[[indexed.number[name] for name in subset]].all(axis=0).any():
            topic_sets.append(subset)
            for name in subset:
                del left[name]
    return [*topic_sets, *((name,) for name in left)]


def _bundles(indexed: Indexed, topics: Sets | None) -> tuple[Priced, Ints, Ints]:
    named = {_BETWEEN.join(names): names for names in sets(indexed, topics)}
    counts = indexed.group.partitions
    read: dict[frozenset[str], frozenset[str]] = {}
    for subscription in indexed.subscriptions:
        read[subscription] = frozenset(name for name, names in named.items() if subscription.issuperset(names))
    members = [Member(m.member_id, read[m.topics], m.instance_id, m.rack) for m in indexed.members]
    together = Priced(Group(members, {name: max(counts[t] for t in names) for name, names in named.items()}))
    bundle: list[Ints] = [np.zeros(0, np.int64)]
    position: list[Ints] = [np.zeros(0, np.int64)]
    for name, names in named.items():
        for topic in names:
            ids = np.arange(counts[topic])
            bundle.append(together.first[together.number[name]] + ids)
            position.append(indexed.first[indexed.number[topic]] + ids)
    of, at = np.concatenate(bundle), np.concatenate(position)
    order = np.lexsort((at, of))
    return together, of[order], at[order]


def _holders(claims: Claims, indexed: Indexed, bundle: Ints, position: Ints) -> Ints:
    """int[B], the member that holds most of a bundle, of several the first; `UNASSIGNED` if no subscriber holds any."""
    members = len(claims.indexed.members)
    has_holder = claims.holder[position] != UNASSIGNED
    bundle, member = bundle[has_holder], claims.holder[position][has_holder]
    may = indexed.reads[indexed.subscription[member], indexed.topic_of()[bundle]]
    cells, count = np.unique(bundle[may] * members + member[may], return_counts=True)
    order = np.lexsort((cells % members, -count, cells // members))
    of, first = np.unique(cells[order] // members, return_index=True)
    holder = np.full(indexed.size, UNASSIGNED)
    holder[of] = (cells[order] % members)[first]
    return holder


def _costs(costs: RackCosts, bundle: Ints, position: Ints) -> RackCosts:
    """Rack costs of bundles: the sums of their partitions'."""
    start = np.flatnonzero(np.diff(bundle, prepend=-1))
    sums = np.add.reduceat(costs.rows[costs.of[position]], start) if len(start) else costs.rows[:0]
    first, of = distinct(sums)
    # Row 0 must be free for all members.
    return RackCosts(of + 1, costs.rack, np.concatenate([np.zeros_like(costs.rows[:1]), sums[first]]))


def facts(group: Group, topics: Sets | None) -> Iterable[Fact]:
    """Sets of topics that are not co-partitioned in this group, and members that read a part of one."""
    if topics is None:
        return
    indexed = Indexed(group)
    for names in sets(indexed, topics):
        counts = {name: group.partitions[name] for name in names}
        if len(set(counts.values())) > 1:
            count_text = ", ".join(f"{name} {count}" for name, count in counts.items())
            text = (
                f"co-partitioned topics have different partition counts ({count_text}): equal keys may be in different "
                "partition numbers; give them the same count"
            )
            yield Fact("copartition-counts", names[0], text)
        if len(names) > 1:
            partial = [m.member_id for m in indexed.members if 0 < len(m.topics.intersection(names)) < len(names)]
            if partial:
                text = f"{some(partial)}: subscribe to a part of {', '.join(names)}, so they get none of these topics"
                yield Fact("copartition-subscribers", names[0], text)
    for names in topics:
        subset = [name for name in names if name in indexed.number]
        if len(subset) > 1 and tuple(subset) not in sets(indexed, topics):
            text = f"no member subscribes to all of {', '.join(subset)}; they are placed topic by topic"
            yield Fact("copartition-subscribers", subset[0], text)
