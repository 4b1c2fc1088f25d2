"""The best there is, found without the engine: as a linear program over single partitions, and by trying everything.

An answer is worth a `golden.Score`: the sum of squared loads, partitions on a foreign rack, moves. Unknown racks, of a
member or of a partition, are foreign to nobody; who held a partition before is told by `golden.previous_owners`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from kafka_assignors.core.group import Group, TopicPartition
from kafka_assignors.core.group.assignment import Assignment, owners
from tests.support.assignors.golden import Score, previous_owners


def cost(group: Group, assignment: Assignment) -> Score:
    rack = {m.member_id: m.rack for m in group.members}
    now = owners(assignment)
    away = sum(foreign(group, tp, rack[m]) for tp, m in now.items())
    moved = sum(now.get(tp) != m for tp, m in previous_owners(group).items())
    return Score(sum(n * n for n in Counter(now.values()).values()), away, moved)


def foreign(group: Group, tp: TopicPartition, rack: str | None) -> bool:
    replicas = group.racks.get(tp.topic, ())
    on = replicas[tp.partition] if tp.partition < len(replicas) else ()
    return bool(rack and on and rack not in on)


def pairs(group: Group) -> list[list[tuple[int, bool, bool]]]:
    """Per partition that somebody subscribes to, who may have it: member index, on a foreign rack, moved."""
    before = previous_owners(group)
    table = []
    for topic, count in group.partitions.items():
        readers = [(i, m) for i, m in enumerate(group.members) if topic in m.topics]
        for tp in (TopicPartition(topic, p) for p in range(count)):
            had = before.get(tp)
            if readers:
                table.append([(i, foreign(group, tp, m.rack), had not in (None, m.member_id)) for i, m in readers])
    return table


def solved(group: Group) -> Score:
    """A linear program whose corners are integers: a unit flow from each partition to one of its readers' places.

    The n-th place of a member costs 2n - 1, so that its load costs the square; a foreign rack costs less than any
    place, a move less than any rack.
    """
    table = pairs(group)
    step = len(table) + 1
    arcs = [(p, m, away, moved) for p, readers in enumerate(table) for m, away, moved in readers]
    room = Counter(m for _, m, _, _ in arcs)
    places = [(m, n) for m, most in room.items() for n in range(1, most + 1)]
    if not arcs:
        return Score(0, 0, 0)
    price = [away * step + moved for _, _, away, moved in arcs] + [(2 * n - 1) * step**2 for _, n in places]
    rows = [p for p, *_ in arcs] + [step + m for _, m, *_ in arcs] + [step + m for m, _ in places]
    columns = [*range(len(arcs)), *range(len(arcs)), *range(len(arcs), len(price))]
    signs = [1] * (2 * len(arcs)) + [-1] * len(places)
    shape = (step + len(group.members), len(price))
    equal = csr_array((signs, (rows, columns)), shape=shape)
    wanted = [1] * len(table) + [0] * (shape[0] - len(table))
    solution: Any = linprog(price, A_eq=equal, b_eq=wanted, bounds=(0, 1), method="highs")
    assert solution.status == 0, solution.message
    taken = np.flatnonzero(solution.x[: len(arcs)] > 0.5)
    assert np.abs(solution.x - np.round(solution.x)).max() < 1e-6
    load = Counter(arcs[i][1] for i in taken)
    return Score(sum(n * n for n in load.values()), sum(arcs[i][2] for i in taken), sum(arcs[i][3] for i in taken))


MOST = 200_000
"""Ways of giving out that `tried` looks at."""


def tried(group: Group) -> Score | None:
    """Every way of giving the partitions out; None where there are more than `MOST`."""
    table = pairs(group)
    if prod(map(len, table)) > MOST:
        return None
    load = np.zeros((1, len(group.members)), np.int64)
    rest = np.zeros((1, 2), np.int64)
    for readers in table:
        load = np.repeat(load, len(readers), axis=0)
        rest = np.repeat(rest, len(readers), axis=0)
        turn = np.tile(np.array(readers, np.int64), (len(load) // len(readers), 1))
        load[np.arange(len(load)), turn[:, 0]] += 1
        rest += turn[:, 1:]
    ways = np.column_stack([(load**2).sum(axis=1), rest])
    best = ways[np.lexsort((ways[:, 2], ways[:, 1], ways[:, 0]))[0]]
    return Score(*best.tolist())


def best_of_all(group: Group, goals: Sequence[str]) -> tuple[int, ...] | None:
    """The best of every way of giving the partitions out, uneven ways included; None if there are more than `MOST`."""
    before, table = previous_owners(group), []
    for topic, count in group.partitions.items():
        readers = [(i, m) for i, m in enumerate(group.members) if topic in m.topics]
        for tp in (TopicPartition(topic, p) for p in range(count) if readers):
            had = before.get(tp)
            choices = [(i, foreign(group, tp, m.rack), had not in (None, m.member_id)) for i, m in readers]
            table.append((list(group.partitions).index(topic), np.array(choices, np.int64)))
    if prod(len(choices) for _, choices in table) > MOST:
        return None
    members, topics = len(group.members), len(group.partitions)
    counts, rest = np.zeros((1, topics * members), np.int64), np.zeros((1, 2), np.int64)
    for topic, readers in table:
        turn = np.tile(readers, (len(rest), 1))
        counts, rest = np.repeat(counts, len(readers), axis=0), np.repeat(rest, len(readers), axis=0)
        counts[np.arange(len(counts)), topic * members + turn[:, 0]] += 1
        rest += turn[:, 1:]
    loads = counts.reshape(len(counts), topics, members).sum(axis=1)
    values = {
        "spread": (counts**2).sum(axis=1),
        "balance": (loads**2).sum(axis=1),
        "racks": rest[:, 0],
        "moves": rest[:, 1],
    }
    ways = np.column_stack([values[name] for name in goals])
    return tuple(ways[np.lexsort(ways.T[::-1])[0]].tolist())
