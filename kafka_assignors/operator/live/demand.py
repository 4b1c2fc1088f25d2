"""How many members a live group needs: its offsets, looked at again and again, and its delay at each size. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.group import TopicPartition
from ...core.strategies import strategy
from ..plans.sizing import shares
from ..scaling import FlowMeter, Flows, Proposal, Rules, Scaler, SizeDelay, delays, steps
from .group import LiveGroup, LiveTopics, as_group
from .silence import Position

BY_COUNT = ("range", "roundrobin", "sticky", "cooperative-sticky", "compact-sticky")
"""Assignors whose shares are planned as theirs; those of others are planned as `OTHERS`."""
OTHERS = "cooperative-sticky"

_MOST_STEPS = 12
"""Sizes below and above the current one that are looked at."""


@dataclass(frozen=True)
class Scaled:
    """An answer, and what it is made from.

    Args:
        sizes: The sizes that were compared, ascending.
        pace: Records per second that a member reads: given, measured, or what some member has read at least.
        measured: Whether the pace was given or measured.
        assignor: The assignor that the shares are planned with.
    """

    answer: Proposal
    sizes: tuple[SizeDelay, ...]
    flows: Flows
    pace: float
    measured: bool
    assignor: str


class Demand:
    """Measures one group, and answers.

    Args:
        pace: Records per second that a member reads; None: it is measured.
        at_once: See `Scaler`.
    """

    def __init__(self, rules: Rules, *, pace: float | None = None, at_once: bool = False) -> None:
        self._rules, self._pace = rules, pace
        self._meter, self._scaler = FlowMeter(), Scaler(rules, at_once=at_once)
        self._shares: tuple[LiveGroup, LiveTopics, Mapping[int, Sequence[Sequence[TopicPartition]]]] | None = None

    def add(self, live: LiveGroup, positions: Mapping[TopicPartition, Position], now_s: float) -> None:
        """Take a look. Partitions without a position, as nothing was committed there, count as empty."""
        owned = {
            member.member_id: {
                tp: (position.committed, position.end)
                for tp in member.assigned
                if (position := positions.get(TopicPartition(*tp))) is not None
            }
            for member in live.members
        }
        self._meter.add(owned, now_s)

    @property
    def flows(self) -> Flows:
        """The group as measured."""
        return self._meter.flows()

    def scaled(self, live: LiveGroup, topics: LiveTopics, now_s: float) -> Scaled | None:
        """The answer now; None if the group has no members, or none has read anything and no pace was given."""
        flows = self.flows
        pace = self._pace or flows.pace or flows.shown
        if not live.members or not pace or not sum(topics.counts.values()):
            return None
        measured = self._pace is not None or flows.pace is not None
        sizes = delays(self._planned(live, topics), flows.partitions, pace)
        answer = self._scaler.decide(now_s, len(live.members), sizes, measured=measured)
        return Scaled(answer, sizes, flows, pace, measured, planned_as(live))

    def _planned(self, live: LiveGroup, topics: LiveTopics) -> Mapping[int, Sequence[Sequence[TopicPartition]]]:
        if self._shares is None or self._shares[:2] != (live, topics):
            self._shares = live, topics, shares_of(live, topics, self._rules.most)
        return self._shares[2]


def planned_as(live: LiveGroup) -> str:
    """The assignor that a group's shares are planned with."""
    return live.protocol if live.protocol in BY_COUNT else OTHERS


def shares_of(
    live: LiveGroup, topics: LiveTopics, most: int | None = None
) -> Mapping[int, Sequence[Sequence[TopicPartition]]]:
    """Size -> the partitions of each member: at the current size, and where the largest share falls.

    Cost: a plan per size, of at most 25 sizes around the current one.
    """
    name, now = planned_as(live), len(live.members)
    counts = list(topics.counts.values())
    sizes = steps(counts, sum(counts) if most is None else most, by_topic=name == "range")
    below, above = [n for n in sizes if n < now][-_MOST_STEPS:], [n for n in sizes if n >= now][:_MOST_STEPS]
    return shares(as_group(live, topics), strategy(name), [*below, now, *above])
