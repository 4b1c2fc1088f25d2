"""What a group's rebalances add up to while somebody watches. Pure: records or descriptions in, running totals out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ...core.fewest import least_changes
from ...core.group import TopicPartition
from ...errors import KafkaAssignorsError
from ...history.causes import KINDS, Restarts
from ...history.generations import GroupGeneration, Log, Logged, add
from ...history.rebalances import Rebalance, apart
from .group import LiveGroup, LiveTopics, as_group, from_generation

SETTLED_S = 5.0
"""A rebalance is counted once its group has been without a new generation for this long: a cooperative hand-over takes
several generations, and the causes are known at its end."""

_KEPT = 3
"""Counted rebalances whose records are kept: they tell who held what before the next one."""

_MOST_PLANNED = 200_000
"""Partitions above which no plan is computed: it would take seconds."""


@dataclass(frozen=True)
class Totals:
    """Sums over the rebalances since the start.

    Args:
        rebalances: Cause -> rebalances; each counts once, under the first of its causes; see `Rebalance.counted`.
        moved: Partitions that went from one holder to another.
        needless: Moves beyond the least that a balanced assignment needs; 0 where this isn't computed.
        ownerless_ms: Sum of each rebalance's lower bound on the longest time that a partition had no owner.
    """

    rebalances: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    moved: int = 0
    needless: int = 0
    ownerless_ms: float = 0.0

    def copy(self) -> Totals:
        """The sums now."""
        return replace(self, rebalances=dict(self.rebalances))


class RebalanceCount:
    """Adds rebalances up, each once; `rebalances` are the counted ones, until the caller takes them out."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.rebalances: list[Rebalance] = []

    def count(self, rebalance: Rebalance, seen: Rebalance | None) -> None:
        """Count a rebalance, or what further generations, which hand over what it withheld, add to it as `seen`."""
        totals = self.totals
        if seen is None:
            totals.rebalances[rebalance.causes[0].kind] += rebalance.counted
            seen = replace(rebalance, moved=0, living=0, least=None, returned=0, at_least_ms=0.0)
        self.totals = replace(
            totals,
            moved=totals.moved + max(0, rebalance.moved - seen.moved),
            needless=totals.needless + max(0, (rebalance.needless or 0) - (seen.needless or 0)),
            ownerless_ms=totals.ownerless_ms + max(0.0, rebalance.at_least_ms - seen.at_least_ms),
        )
        self.rebalances.append(rebalance)


class LogMeter(RebalanceCount):
    """Counts the rebalances that a group's records in the coordinator's log tell.

    Args:
        history: The group's records before the start. Their rebalances are not counted: they tell who was there.

    Attributes:
        rebalances: The counted ones, until the caller takes them out. One is told again if later generations hand over
            what it withheld.
    """

    def __init__(self, history: Log) -> None:
        super().__init__()
        self._generations: list[GroupGeneration] = []  # those that a later cause may need
        self._live: tuple[GroupGeneration, LiveGroup] | None = None
        self._fresh = 0  # generations since the last count
        self._last_s = 0.0
        self._restarts = Restarts()
        self._seen: dict[tuple[int, int], Rebalance] = {}  # (time, generation) -> as far as it is counted
        for record in history.records:
            add(self._generations, record)
        for rebalance, _ in apart(self._generations, whole=False):
            self._seen[_key(rebalance)] = self._with_final_causes(rebalance)
        self._forget()

    @property
    def live(self) -> LiveGroup | None:
        """The group as its last generation has it; None before the first."""
        if not self._generations:
            return None
        last = self._generations[-1]
        if self._live is None or self._live[0] is not last:
            self._live = last, from_generation(last.value)
        return self._live[1]

    @property
    def settled(self) -> bool:
        """Whether every rebalance is counted: none may go on."""
        return not self._fresh

    def add(self, records: Iterable[Logged], now_s: float) -> None:
        """Take the records since the last call, in order; `now_s` is of a clock that never goes back."""
        before = self._fresh
        for record in records:
            self._fresh += add(self._generations, record)
        if self._fresh > before:
            self._last_s = now_s
        settled = self._fresh > 0 and now_s - self._last_s >= SETTLED_S
        if self._fresh > before or settled:
            # Each generation is planned once: an exporter that planned more could not follow a storm.
            keys = {(rebalance.ts_ms, rebalance.generations) for rebalance in self._seen.values()}
            rebalances = list(apart(self._generations, whole=False, exclusions=keys))
            latest = max(self._seen, default=(0, 0))
            for rebalance, least in rebalances if settled else rebalances[:-1]:  # the last one may go on
                seen = self._seen.get(_key(rebalance))
                if seen is None and _key(rebalance) < latest:
                    continue  # a later generation of the first one kept: what it hands over is no longer known
                if seen is not None and set(rebalance.generations) <= set(seen.generations):
                    continue  # the first one kept, whose hand-over is no longer known as one
                # Nothing is needless where no living member lost a partition: the least need not be known.
                self._count(replace(rebalance, least=least() if rebalance.living else 0), seen)
            self._fresh = 0 if settled else 1
            self._forget()

    def _count(self, rebalance: Rebalance, seen: Rebalance | None) -> None:
        rebalance = self._with_final_causes(rebalance) if seen is None else replace(rebalance, causes=seen.causes)
        self.count(rebalance, seen)
        self._seen[_key(rebalance)] = rebalance

    def _with_final_causes(self, rebalance: Rebalance) -> Rebalance:
        return replace(rebalance, causes=self._restarts.final_causes(rebalance.ts_ms, rebalance.causes))

    def _forget(self) -> None:
        """Drop the generations that no later cause needs, so that memory stays bounded."""
        kept = sorted(self._seen)[-_KEPT:]
        if not kept:
            return
        self._seen = {key: self._seen[key] for key in kept}
        keys = ((g.ts_ms, g.value.generation) for g in self._generations)
        del self._generations[: next((n for n, key in enumerate(keys) if key == kept[0]), 0)]


class PolledMeter:
    """Counts the changes between two descriptions of a group: rebalances between them are missed."""

    settled = True

    def __init__(self) -> None:
        self.totals = Totals()
        self.live: LiveGroup | None = None

    def add(self, live: LiveGroup) -> None:
        """Take the group as its coordinator describes it now; a group in a rebalance is left out."""
        if live.state not in ("Stable", "Empty"):
            return
        before, self.live = self.live, live
        if before is None:
            return
        was = {m.instance_id or m.member_id: m for m in before.members}
        now = {m.instance_id or m.member_id: m for m in live.members}
        old, new = owners(before), owners(live)
        moved = sum(tp in new and new[tp] != owner for tp, owner in old.items())
        if was.keys() - now.keys():
            cause = "left or expired"
        elif now.keys() - was.keys():
            cause = "joined"
        elif old != new and any(was[holder].member_id != member.member_id for holder, member in now.items()):
            cause = "returned"  # with the same partitions it was no rebalance
        elif any(was[holder].topics != member.topics for holder, member in now.items()):
            cause = "subscription"
        elif before.protocol != live.protocol:
            cause = "assignor"
        elif old != new:
            cause = "unexplained"
        else:
            return
        self.totals.rebalances[cause] += 1
        self.totals = replace(self.totals, moved=self.totals.moved + moved)


def owners(live: LiveGroup) -> dict[TopicPartition, str]:
    """Topic-partition -> instance id of the member that owns it, or its member id."""
    return {tp: member.instance_id or member.member_id for member in live.members for tp in member.assigned}


def imbalance(live: LiveGroup) -> float | None:
    """The largest number of partitions at one member, over the least that is possible if all subscribe alike.

    1 is as even as whole partitions allow. None if nothing is assigned.
    """
    loads = [len(member.assigned) for member in live.members]
    return max(loads) / -(-sum(loads) // len(loads)) if any(loads) else None


def plan_gap(live: LiveGroup, topics: LiveTopics) -> int | None:
    """Partitions that cooperative-sticky would give to another owner if the group rebalanced as it is.

    None if there are no members, or too many partitions to plan at once.
    """
    if not live.members or sum(topics.counts.values()) > _MOST_PLANNED:
        return None
    try:
        return sum(least_changes(as_group(live, topics)))
    except KafkaAssignorsError:
        return None


def _key(rebalance: Rebalance) -> tuple[int, int]:
    return rebalance.ts_ms, rebalance.generations[0]
