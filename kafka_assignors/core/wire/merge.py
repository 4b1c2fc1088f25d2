"""How a leader combines the figures that members send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..group import NO_GENERATION, Partitions
from ..group.indexed import Ints
from .protocol import Subscription
from .weighted import ByWorkData, Floats, Told


def inputs(heard: Sequence[tuple[str, Subscription, ByWorkData]], partitions: Mapping[str, int]) -> dict[str, Any]:
    """Combine the members' user data into options of the strategy: weights, capacities, priorities, hard caps, and
    members that revoked everything.

    If several members send a partition's weight, its owner's is used, preferring the newest generation; without an
    owner's, the heaviest. State and rest of a partition count from its owners alone. The result depends only on the
    bytes sent and the partition counts of the topics that members subscribe to, so a replay gives the same.
    """
    places = _Positions(partitions)
    weights, state = _Heard(places), _Heard(places)
    resting = np.zeros(places.size, bool)
    own: dict[str, dict[str, Any]] = {}
    eager: list[str] = []
    checks = 0
    for member_id, sent, carried in heard:
        for name, value in carried.own.options().items():
            own.setdefault(name, {})[member_id] = value
        checks = max(checks, carried.own.checks)
        if len(carried.compact_data.owned) and not len(sent.owned):
            eager.append(member_id)
        if not (carried.weights or carried.moving.state or len(carried.moving.resting)):
            continue
        owned = places.of(Partitions.of(sent.owned or carried.compact_data.owned))
        generation = max(sent.generation, carried.compact_data.generation)
        weights.hear(carried.weights, owned, generation)
        state.hear(carried.moving.state, owned, generation, others=False)
        rests = places.of(Partitions.of(carried.moving.resting))
        resting[rests[places.among(owned, rests)]] = True
    options = {
        "weights": weights.options(),
        **{name: dict(sorted(by_member.items())) for name, by_member in own.items()},
        "state": state.options(),
        "resting": {topic: ids.tolist() for topic, ids in places.named(resting)},
        "eager": sorted(eager),
        "checks": checks,
    }
    return {name: value for name, value in options.items() if value}


class _Positions:
    """The partitions of topics as consecutive positions, topics in order of their names."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.counts = dict(sorted(partitions.items()))
        ends = np.cumsum([0, *self.counts.values()]).tolist()
        self._first = dict(zip(self.counts, ends, strict=False))
        self.size: int = ends[-1]
        self._mark = np.zeros(self.size, bool)

    def at(self, topic: str, ids: Ints) -> Ints:
        """The positions of existing partitions of one topic."""
        positions: Ints = ids + self._first[topic]
        return positions

    def of(self, claimed: Partitions) -> Ints:
        """The positions of those topic-partitions that exist."""
        first = np.array([self._first.get(topic, 0) for topic in claimed.topics], np.int64)
        count = np.array([self.counts.get(topic, 0) for topic in claimed.topics], np.int64)
        claim_counts = np.array(claimed.counts, np.int64)
        ids = np.asarray(claimed.ids, np.int64)
        exist = (ids >= 0) & (ids < np.repeat(count, claim_counts))
        positions: Ints = (ids + np.repeat(first, claim_counts))[exist]
        return positions

    def among(self, some: Ints, those: Ints) -> NDArray[np.bool_]:
        """Which of those positions are among some."""
        self._mark[some] = True
        marks = self._mark[those]
        self._mark[some] = False
        return marks

    def named(self, marks: NDArray[np.bool_]) -> Iterator[tuple[str, Ints]]:
        """Topic -> ascending ids of the partitions that are marked, of topics that have any."""
        for topic, first in self._first.items():
            if len(ids := np.flatnonzero(marks[first : first + self.counts[topic]])):
                yield topic, ids


class _Heard:
    """A figure per partition, from several members."""

    def __init__(self, places: _Positions) -> None:
        self._places = places
        self._value = np.full(places.size, np.nan)
        self._rank = np.full(places.size, -3, np.int64)

    def hear(self, figures: Told, owned: Ints, generation: int, *, others: bool = True) -> None:
        """Take what one member tells, if it ranks above what others told.

        `owned` are positions that the member got in that generation; figures of other positions count if `others`.
        """
        if not figures:
            return
        at = np.concatenate([self._places.at(topic, ids) for topic, (ids, _) in figures.items()])
        values = np.concatenate([topic_figures for _, topic_figures in figures.values()])
        mine = self._places.among(owned, at)
        taken = ~np.isnan(values) & (mine | others)
        at, values, mine = at[taken], values[taken], mine[taken]
        ranks = np.where(mine, max(generation, NO_GENERATION), -2)
        better = (ranks > self._rank[at]) | ((ranks == self._rank[at]) & (values > self._value[at]))
        self._value[at[better]], self._rank[at[better]] = values[better], ranks[better]

    def options(self) -> dict[str, list[float | None]]:
        """The figures as an option of the strategy: by topic, up to the last one known."""
        mask = ~np.isnan(self._value)
        by_topic = {}
        for topic, ids in self._places.named(mask):
            here = self._places.at(topic, np.arange(ids[-1] + 1))
            by_topic[topic] = _option_values(self._value[here])
        return by_topic


def _option_values(values: Floats) -> list[float | None]:
    mask = (~np.isnan(values)).tolist()
    return [weight if flag else None for weight, flag in zip(values.tolist(), mask, strict=True)]
