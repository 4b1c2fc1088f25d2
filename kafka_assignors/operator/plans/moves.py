"""The moves of a decision, each with its reason, and the partitions that it withholds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from ...core.broker_side import BrokerSide
from ...core.group import TopicPartition
from ...core.group.claims import Claims
from ...core.group.indexed import UNASSIGNED, Ints
from ...core.sticky.racks import RackCosts, position_costs
from ...core.strategies import ByWork, strategy
from ...core.weighted.placing import modelled
from ...core.weighted.report import Load
from .certificate import positions
from .values import Decision, Move, number


def withheld(decision: Decision, claims: Claims) -> Mapping[TopicPartition, tuple[str, ...]]:
    """Partitions that no member gets in this rebalance -> the members that must revoke them first."""
    now, then = (positions(claims.indexed, assignment) for assignment in (decision.assignment, decision.target))
    missing = np.flatnonzero((now == UNASSIGNED) & (then != UNASSIGNED))
    return {partition: claims.holders(partition) for partition in claims.indexed.names(missing)}


def moves(decision: Decision, claims: Claims) -> tuple[Move, ...]:
    """Every partition whose new owner does not hold it yet, by topic and partition."""
    indexed, holder = claims.indexed, claims.holder
    then = positions(indexed, decision.target)
    moving = np.flatnonzero((then != UNASSIGNED) & (then != holder))
    contested: dict[int, str] = {}
    for position, member in zip(*(column.tolist() for column in claims.unsubscribed_at), strict=True):
        contested.setdefault(position, indexed.members[member].member_id)
    leaving: dict[int, str] = {}
    for position, member in zip(*(column.tolist() for column in claims.leaving_at), strict=True):
        leaving.setdefault(position, indexed.members[member].member_id)
    disputed = set(claims.disputed_at[0].tolist())
    why = _Reasons(decision, claims, then)
    partition_moves = []
    for at, partition in zip(moving.tolist(), indexed.names(moving), strict=True):
        new = indexed.members[then[at]].member_id
        if holder[at] != UNASSIGNED:
            old: str | None = indexed.members[holder[at]].member_id
            kind, text = why.of(at, int(holder[at]), int(then[at]))
        elif at in disputed:
            old, kind = None, "disputed"
            text = f"{' and '.join(claims.holders(partition))} claim it with the same generation"
        elif at in leaving:
            old, kind, text = leaving[at], "leaving", f"{leaving[at]} leaves the group"
        elif at in contested:
            old, kind = contested[at], "unsubscribed"
            text = f"{old} does not subscribe to {partition.topic} any more"
        else:
            old, kind, text = None, "unowned", "no member holds it: its owner left, or it is new"
        partition_moves.append(Move(partition, old, new, kind, text))
    return tuple(partition_moves)


class _Quotas:
    """What members have of each topic, before and after."""

    def __init__(self, claims: Claims, then: Ints) -> None:
        indexed = claims.indexed
        self.topics, self.topic = indexed.topics, indexed.topic_of()
        self.partitions = np.diff(indexed.first).tolist()
        self.readers = indexed.reads[indexed.subscription].sum(axis=0).tolist()
        self.had, self.has = (
            Counter(zip(self.topic[who != UNASSIGNED].tolist(), who[who != UNASSIGNED].tolist(), strict=True))
            for who in (claims.holder, then)
        )

    def why(self, at: int, old: int, new: int) -> str:
        """The text for a move that evens out a topic; "" for others."""
        t = int(self.topic[at])
        share, extra = divmod(self.partitions[t], self.readers[t])
        if self.had[t, old] <= share + (extra > 0) and self.had[t, new] >= share:
            return ""
        quota = f"{share} or {share + 1}" if extra else str(share)
        change = f"from {self.had[t, old]} to {self.has[t, old]} partitions of {self.topics[t]}"
        return f"its owner goes {change}, of which every subscriber has {quota}"


class _Reasons:
    """The reasons for moves of partitions that have a live owner."""

    def __init__(self, decision: Decision, claims: Claims, then: Ints) -> None:
        members = claims.indexed.members
        self.unit = decision.objective.unit
        self.racks = [member.rack for member in members]
        self.had = np.bincount(claims.holder[claims.holder != UNASSIGNED], minlength=len(members)).tolist()
        self.has = np.bincount(then[then != UNASSIGNED], minlength=len(members)).tolist()
        self.quotas = _Quotas(claims, then) if decision.objective.spread_first else None
        self.prices: RackCosts = position_costs(claims.indexed, decision.objective)
        made = strategy(decision.strategy, **decision.options)
        self.ids = [member.member_id for member in members]
        self.load: Load | None = None
        self.work: Mapping[str, float] = {}
        if isinstance(made, ByWork):
            model = modelled(claims, made.placing)
            self.load = decision.load
            self.work = dict(zip(self.ids, (model.loads(claims.holder) * model.unit).tolist(), strict=True))
            self.may_keep = model.kept != UNASSIGNED
            self.caps = dict(made.placing.also.max_work)
        self.broker = made.name if isinstance(made, BrokerSide) else ""
        self.rule = "" if made.uses_claims else f"{made.name} ignores which member holds the partition"
        if made.options.get("parity") == "java":
            self.rule = "Java's algorithm places it there"

    def of(self, at: int, old: int, new: int) -> tuple[str, str]:
        """Kind and text."""
        if self.rule:
            return "rule", self.rule
        if self.load is not None:
            return self._by_work(self.load, at, old, new)
        if why := self._by_racks(at, old, new):
            return "racks", why
        if self.quotas is not None and (why := self.quotas.why(at, old, new)):
            return "spread", why
        if self.had[old] > self.has[old]:
            change = f"from {self.had[old]} to {self.has[old]} partitions"
            return "balance", f"its owner goes {change}, the new one from {self.had[new]} to {self.has[new]}"
        if self.broker:
            return "rule", f"{self.broker} gives its owner other partitions instead"
        return (
            "exchange",
            "its owner gets other partitions instead, which fewer members may have or which cost less there",
        )

    def _by_racks(self, at: int, old: int, new: int) -> str:
        """The text for a move to a nearer rack; "" if it is none, or the assignor or the new owner knows no racks."""
        row = self.prices.rows[self.prices.of[at]]
        here, there = int(row[self.prices.rack[old]]), int(row[self.prices.rack[new]])
        if self.broker or self.racks[new] is None or there >= here:
            return ""
        saved = f"costs {number(there * self.unit)} instead of {number(here * self.unit)}"
        return f"on rack {self.racks[new]} it {saved} on {self.racks[old]}"

    def _by_work(self, load: Load, at: int, old: int, new: int) -> tuple[str, str]:
        """Kind and text of a move in a plan by work."""
        before, after = (self.ids[m] for m in (old, new))
        if not load.capacity[before]:
            return "standby", f"{before} is a standby that is not needed now"
        if not self.may_keep[at]:
            return "standby", f"members of a higher priority than {before} subscribe to its topic"
        if self.work[before] > self.caps.get(before, math.inf) * (load.caps or math.inf) * (1 + 1e-9):
            return "balance", f"its owner has {self.work[before]:,.4g} of work, above its hard cap; {after} has room"
        now = self.work[before] / load.capacity[before]
        change = f"its owner goes from {now:,.4g} to {load.work[before] / load.capacity[before]:,.4g} work / capacity"
        if now > load.limit * (1 + 1e-9):
            return "balance", f"{change}, {load.limit:,.4g} is the most allowed; {after} has room"
        return "exchange", f"{change}: it makes room for partitions that fit nowhere else"
