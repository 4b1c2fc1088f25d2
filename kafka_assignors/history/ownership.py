"""Owners of each topic-partition over time, and times without an owner, from a group's committed generations. Pure.

A group's records are in one partition of the coordinator's log, so they are ordered. A commit belongs to the generation
before it, because the coordinator rejects commits of an older one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.group import TopicPartition
from .departures import UNPROVEN

REVOKED = "revoked"
"""End of an interval whose member, in an eager group, gave the partition up and got it back."""
_TAKEN = ("reassigned", REVOKED)


class Commits(NamedTuple):
    """The first and the last commit of a topic-partition in one generation: mono_ns, and the last by the wall clock."""

    first_ns: int
    last_ns: int
    last_ms: int


@dataclass(frozen=True)
class Committed:
    """One record of a generation.

    Args:
        generation: Its number. A generation is written again when a static member rejoins.
        begin_ns: Time of the record, mono_ns.
        ts_ns: Time of the record, wall clock.
        joined_ms: Wall clock at which the join completed; None if the record lacks it.
        members: holder -> member id; a holder is an instance id, else a member id.
        timeouts: holder -> the shorter of its session and rebalance timeouts, ms, if known.
        eager: Whether all its members gave up their partitions before they joined.
        left: holder -> why, of those whose own recordings tell that they then asked to leave. None: the log has no
            such thing, and times must prove it. Those of recordings can't: a member may hear late that it has joined.
        removed: holder -> what it recorded when it heard that it had been removed from the group; the log has none.
    """

    generation: int
    begin_ns: int
    ts_ns: int
    joined_ms: int | None
    members: Mapping[str, str]
    timeouts: Mapping[str, int]
    assignments: Mapping[str, frozenset[TopicPartition]]
    commits: Mapping[TopicPartition, Commits] = field(default_factory=dict)
    eager: bool = False
    left: Mapping[str, str] | None = None
    removed: Mapping[str, str] = field(default_factory=dict)

    @property
    def join_ms(self) -> float:
        """Time from the completed join to this record, in which partitions that move have no owner."""
        return max(0.0, self.ts_ns / 1e6 - self.joined_ms) if self.joined_ms else 0.0

    def last_seen_ms(self, holder: str) -> int | None:
        """Time at which a member is last known to have been in the group: the join, or its last commit."""
        times = [self.commits[tp].last_ms for tp in self.assignments.get(holder, ()) if tp in self.commits]
        return max([*times, *filter(None, [self.joined_ms])], default=None)


@dataclass
class LoggedInterval:
    """One ownership interval of a topic-partition; see `schema.GROUP_TIMELINE`. Times in ns (monotonic) or ms."""

    tp: TopicPartition
    holder: str
    member_id: str
    generation_start: int
    start_ns: int
    ts_ns: int
    join_ms: float
    end_ns: int = 0
    end_kind: str = "open"
    generation_end: int | None = None
    first_commit_ns: int | None = None
    last_commit_ns: int | None = None
    gap_at_least_ms: float | None = None
    gap_at_most_ms: float | None = None
    overlap_prev_ms: float = 0.0
    moved: bool = False
    returned: bool = False


def intervals(log: Sequence[Committed], causes: Mapping[tuple[int, str], str]) -> list[LoggedInterval]:
    """Ownership intervals from the generations of a group, ordered by start.

    An interval begins when a generation assigns a topic-partition to a member that did not have it in the generation
    before, and ends when a generation no longer does. Eager members give up everything before they join, so that each
    of their generations ends all intervals (`REVOKED`) and begins others. A static member that rejoins stays the same
    holder. The log does not show when a member stopped consuming; its commits bound that time.

    `log` is in order; `causes` is (generation, holder) -> why the holder is not in it.

    Cost: O(generations x topic-partitions).
    """
    running: dict[tuple[str, TopicPartition], LoggedInterval] = {}
    all_intervals: list[LoggedInterval] = []
    last_ns, number = 0, None
    for now in log:
        there = {(holder, tp) for holder, tps in now.assignments.items() for tp in tps}
        again, number = now.generation == number, now.generation  # a generation that is written again stops nobody
        for key in set(running) if now.eager and not again else running.keys() - there:
            ended = running.pop(key)
            ended.end_ns, ended.generation_end = now.begin_ns, now.generation
            kept = key in there and now.members[ended.holder] == ended.member_id
            otherwise = REVOKED if kept else UNPROVEN if key in there else "reassigned"
            ended.end_kind = causes.get((now.generation, ended.holder), otherwise)
        for holder, tp in there:
            interval = running.get((holder, tp))
            if interval is None:
                interval = LoggedInterval(
                    tp, holder, now.members[holder], now.generation, now.begin_ns, now.ts_ns, now.join_ms
                )
                running[holder, tp] = interval
                all_intervals.append(interval)
            interval.member_id = now.members[holder]
            if made := now.commits.get(tp):
                interval.first_commit_ns = interval.first_commit_ns or made.first_ns
                interval.last_commit_ns = made.last_ns
        last_ns = max([last_ns, now.begin_ns, *(made.last_ns for made in now.commits.values())])
    for interval in running.values():
        interval.end_ns = last_ns
    all_intervals.sort(key=lambda iv: (iv.start_ns, iv.tp, iv.holder))
    of_tp: dict[TopicPartition, list[LoggedInterval]] = defaultdict(list)
    for interval in all_intervals:
        of_tp[interval.tp].append(interval)
    for mine in of_tp.values():
        _bound(mine)
    return all_intervals


def _bound(intervals: Sequence[LoggedInterval]) -> None:
    """Set the bounds of the time without an owner before each interval of a topic-partition.

    Lower bound: from the completed join, by which the previous owner was gone or had revoked it, to the record that
    assigned it to the next; the whole time since the previous owner was gone. Upper bound: between the commits on both
    sides, because a member that commits consumes.
    """
    after: list[int | None] = []
    commit: int | None = None
    for interval in reversed(intervals):
        commit = interval.first_commit_ns or commit
        after.append(commit)
    before: LoggedInterval | None = None
    until, last_commit = 0, None
    for interval, commit in zip(intervals, reversed(after), strict=True):
        if before is not None:
            interval.overlap_prev_ms = max(0, until - interval.start_ns) / 1e6
            since = 0 if before.end_kind in _TAKEN else (interval.start_ns - until) / 1e6
            interval.gap_at_least_ms = 0.0 if interval.overlap_prev_ms else max(0.0, interval.join_ms, since)
            if commit is not None and last_commit is not None:
                interval.gap_at_most_ms = max(0.0, (commit - last_commit) / 1e6)
            interval.moved = before.holder != interval.holder
            interval.returned = not interval.moved and before.end_kind in _TAKEN
        before, until = interval, max(until, interval.end_ns)
        last_commit = max(filter(None, (last_commit, interval.last_commit_ns)), default=None)
