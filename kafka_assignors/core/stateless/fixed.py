"""A fixed, user-written table of the partitions of each member. A fallback strategy places the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import AssignmentError, ConfigError
from ..declaration import MemberOptions, Option, among
from ..group import Group, Member, TopicPartition
from ..group.assignment import Assignment
from ..group.facts import Fact, ordered, some
from ..group.indexed import UNASSIGNED, Indexed, Ints
from ..group.order import utf16
from . import roundrobin
from .per_topic import by_identity

Table = Mapping[str, Mapping[str, Sequence[int]]]
"""Identity of a member (`Member.identity`) -> topic -> partition ids."""


def check(table: Any) -> Table:
    """Validate a table for `assign`; ConfigError, which says where, if it is none or has a partition twice."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"table must map a member's instance id to topics and partitions, not be {table!r}")
    given: dict[TopicPartition, str] = {}  # -> the member that has it
    for member, topics in table.items():
        if not isinstance(member, str) or not member:
            raise ConfigError(f"table: a member is named by its instance id (or member id), not by {member!r}")
        if not isinstance(topics, Mapping):
            raise ConfigError(f"table[{member!r}] must map topics to lists of partition ids, not be {topics!r}")
        for topic, partitions in topics.items():
            if not isinstance(topic, str) or not topic:
                raise ConfigError(f"table[{member!r}]: a topic is named by a string, not by {topic!r}")
            if not isinstance(partitions, list | tuple):
                raise ConfigError(f"table[{member!r}][{topic!r}] must be a list of partition ids, not {partitions!r}")
            for partition in partitions:
                if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
                    raise ConfigError(
                        f"table[{member!r}][{topic!r}]: a partition id is an int from 0, not {partition!r}"
                    )
                other = given.get(TopicPartition(topic, partition))
                if other is not None:
                    twice = f"twice to {member!r}" if other == member else f"to {other!r} and to {member!r}"
                    raise ConfigError(f"table gives {topic}-{partition} {twice}; a partition has one owner")
                given[TopicPartition(topic, partition)] = member
    return table


FALLBACKS = (
    "range", "roundrobin", "metaq-default", "metaq-consistent-hash", "average", "average-by-circle",
    "rocketmq-consistent-hash", "machine-room-nearby", "consistent-hash",
)  # fmt: skip
"""Strategies that ignore claims, and so may place the partitions that a table does not cover."""


class ConfigOptions(MemberOptions):
    """The options of ``config``."""

    table = Option(
        "Mapping[str, Mapping[str, Sequence[int]]] | None", None, "{instance id: {topic: [partition id, …]}}, or None",
        "Who gets which partitions; each partition once.",
        lambda table: check({} if table is None else table),
    )  # fmt: skip
    uncovered = Option(
        "str", "roundrobin", f"'error' or one of {', '.join(FALLBACKS)}",
        "The strategy for partitions that the table lacks or gives to an absent member; `error`: the leader raises.",
        among("error", *FALLBACKS), unsent="error",
    )  # fmt: skip


def assign(
    group: Group, *, table: Table | None = None, fallback: Callable[[Group], Assignment] | None = roundrobin.assign
) -> Assignment:
    """Assign each member the partitions in the table, and let `fallback` place the rest.

    The rest is the partitions absent from the table, and those of a member that is absent or does not subscribe to
    their topic. The fallback sees only these, renumbered from 0 in each topic, and all members.

    Args:
        group: Members in any order; claims are ignored.
        table: As `check` accepts it; nonexistent partitions are ignored. None: empty.
        fallback: A strategy that ignores claims. None: it is an error if partitions are left.

    Raises:
        AssignmentError: Partitions are left and there is no fallback; it names them and says why.

    Cost: O(P log P + size of the table), and the fallback's. Deterministic.
    Source: ``AllocateMessageQueueByConfig`` of apache/rocketmq. There each client knows only its own list, and nobody
    consumes a queue that is in no list.

    >>> group = Group([Member("m1", {"t"}, "a"), Member("m2", {"t"}, "b")], {"t": 4})
    >>> assign(group, table={"a": {"t": [3]}, "gone": {"t": [0]}})
    {'m1': {'t': [0, 2, 3]}, 'm2': {'t': [1]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(owners(indexed, table or {}, fallback))


def owners(indexed: Indexed, table: Table, fallback: Callable[[Group], Assignment] | None) -> Ints:
    """`assign` as an array: int[P], the number of each position's owner; `UNASSIGNED` where nobody subscribes."""
    group = indexed.group
    number = {member.member_id: m for m, member in enumerate(indexed.members)}
    present = _present(group)
    owner = np.full(indexed.size, UNASSIGNED)
    for name, topics in table.items():
        for topic, partitions in topics.items():
            if name in present and topic in present[name].topics and topic in indexed.number:
                exist = [partition for partition in partitions if partition < group.partitions[topic]]
                owner[indexed.first[indexed.number[topic]] + np.array(exist, np.int64)] = number[
                    present[name].member_id
                ]
    left = {}  # topic -> int[n], partition ids
    for topic in {topic for member in group.members for topic in member.topics} & indexed.number.keys():
        first = indexed.first[indexed.number[topic]]
        free = np.flatnonzero(owner[first : first + group.partitions[topic]] == UNASSIGNED)
        if len(free):
            left[topic] = free
    if left and fallback is None:
        raise AssignmentError(_uncovered(group, table, left))
    if left and fallback is not None:
        for member_id, given in fallback(_alone(group, left)).items():
            for topic, ids in given.items():
                owner[indexed.first[indexed.number[topic]] + left[topic][ids]] = number[member_id]
    return owner


def _present(group: Group) -> dict[str, Member]:
    return {member.identity: member for member in sorted(group.members, key=by_identity, reverse=True)}


def _alone(group: Group, left: Mapping[str, Ints]) -> Group:
    """The group with only these partitions, renumbered; without claims, which use the old numbers."""
    members = [Member(m.member_id, m.topics, m.instance_id, m.rack) for m in group.members]
    racks = {t: [rows[p] if p < len(rows) else () for p in left[t]] for t, rows in group.racks.items() if t in left}
    leaders = {
        t: [rows[p] if p < len(rows) else None for p in left[t]] for t, rows in group.leaders.items() if t in left
    }
    return Group(members, {topic: len(ids) for topic, ids in left.items()}, racks, leaders)


def _uncovered(group: Group, table: Table, left: Mapping[str, Ints]) -> str:
    topics = sorted(left, key=utf16)
    names = [f"{topic}-{partition}" for topic in topics for partition in left[topic].tolist()]
    why = "; ".join(fact.text for fact in ordered(deviations(group, table)))
    return (
        f"the table leaves {some(names)} unassigned ({why}): complete it, start the members it names, or choose a "
        "strategy for such partitions (uncovered='roundrobin')"
    )


def deviations(group: Group, table: Table) -> Iterable[Fact]:
    """Facts about differences between the group and the table."""
    if not table:
        yield Fact("table-empty", "", "the table is empty")
        return
    present = _present(group)
    listed: dict[str, set[int]] = {}  # topic -> partitions in the table
    for name, topics in table.items():
        for topic, partitions in topics.items():
            listed.setdefault(topic, set()).update(partitions)
            beyond = [f"{topic}-{p}" for p in partitions if p >= group.partitions.get(topic, 0)]
            if beyond:
                yield Fact("table-missing", name, f"the table gives {name!r} {some(beyond)}, which does not exist")
            if name in present and topic not in present[name].topics:
                text = f"the table gives {name!r} topic {topic!r}, which it does not subscribe to"
                yield Fact("table-unsubscribed", name, text)
        if name not in present:
            yield Fact("table-absent", name, f"the table's member {name!r} is not in the group")
    for topic in {topic for member in group.members for topic in member.topics}:
        count = group.partitions.get(topic, 0)
        unlisted = [f"{topic}-{p}" for p in range(count) if p not in listed.get(topic, ())]
        if unlisted:
            yield Fact("table-incomplete", topic, f"the table does not have {some(unlisted)}")
