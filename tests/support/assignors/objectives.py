"""Groups and prices drawn for the objective."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from random import Random

from kafka_assignors.core.group import Group
from kafka_assignors.core.group.assignment import Assignment, owners
from kafka_assignors.core.sticky.objective import Objective
from tests.support.assignors import fuzz, golden


def drawn(seed):
    """A group with the racks of replicas and leaders, and a matrix of costs that lacks some pairs."""
    case, random = fuzz.draw(seed), Random(f"racks {seed}")
    group = case.reading("sticky").group
    leaders = {t: [case.brokers[nodes[0]] for nodes in placed] for t, placed in case.topics.items()}
    racks = [*sorted({rack for rack in case.brokers.values() if rack}), "elsewhere"]
    matrix = {
        a: {b: random.choice((0, 1, 2, 0.5, 0.02)) for b in racks if random.random() < 0.9}
        for a in racks
        if random.random() < 0.9
    }
    return Group(group.members, group.partitions, case.racks(), leaders), matrix


def price(group, racks, tp, member):
    """Written anew from the definition."""

    def at(table, nothing):
        rows = table.get(tp.topic, ())
        return rows[tp.partition] if tp.partition < len(rows) else nothing

    if racks == "none" or not member.rack:
        return Fraction(0)
    if racks == "leader":
        leader = at(group.leaders, None)
        return Fraction(int(leader is not None and leader != member.rack))
    on = at(group.racks, ())
    if racks == "replica":
        return Fraction(int(bool(on) and member.rack not in on))
    dearest = max((Fraction(str(c)) for row in racks.values() for c in row.values()), default=Fraction(0))
    costs = [
        Fraction(str(racks[member.rack][rack]))
        if rack in racks.get(member.rack, ())
        else (Fraction(0) if rack == member.rack else dearest)
        for rack in on
    ]
    return min(costs, default=Fraction(0))


def worth(group: Group, objective: Objective, assignment: Assignment) -> tuple[int, ...]:
    """The value of each goal, counted anew."""
    now, before = owners(assignment), golden.previous_owners(group)
    member = {m.member_id: m for m in group.members}
    counts = Counter((tp.topic, m) for tp, m in now.items())
    goals = {
        "spread": sum(n * n for n in counts.values()),
        "balance": sum(n * n for n in Counter(now.values()).values()),
        "racks": sum(price(group, objective.rack_costs, tp, member[m]) for tp, m in now.items()),
        "moves": sum(now.get(tp) != m for tp, m in before.items()),
    }
    return tuple(goals[name] for name in objective.goals)
