"""What happened in one group, from the rows of its events: its rebalances, with what a replay needs, and its owners.

Plain Python over `kafka_assignors.history`, for one group at a time: Spark calls it where the group's events are.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import Subscription
from kafka_assignors.history import departures, ownership
from kafka_assignors.history import rebalances as history
from kafka_assignors.history.causes import gone_from
from kafka_assignors.history.generations import GroupGeneration

from .. import schema
from . import committed

Owners = Mapping[TopicPartition, str]
"""topic-partition -> holder: the instance id of a static member, which survives restarts, else the member id."""

Counts = Sequence[tuple[int, Mapping[str, int]]]
"""Time (monotonic, ns), topic -> partition count; in order."""

_TOLD = ("generation_committed", "assign_begin", "assign_end", "fault_begin", "stop")


@dataclass(frozen=True)
class Replayable:
    """One rebalance of `history.rebalances`, and what a replay of its assignment needs."""

    run: str
    group: str
    number: int  # its number within the group, from 0
    outcome: history.Rebalance  # what happened in it, without its causes: they are in `trigger`
    trigger: str  # the difference from the rebalance before; see `schema.REBALANCES`
    begin_ns: int  # time at which its first generation was committed; monotonic, ns
    protocol: str
    members: tuple[tuple[str, str, Subscription | None], ...]  # (member id, holder, subscription; None: invalid bytes)
    partitions: Mapping[str, int] | None  # topic -> partition count as the leader saw it; None if no event has it
    racks: Mapping[str, Sequence[Sequence[str]]]  # topic -> its partitions' replicas' racks, likewise; empty: unknown
    leaders: Mapping[str, Sequence[str | None]]  # topic -> its partitions' leaders' racks, likewise
    owners: Owners  # the assignment of the last generation
    assign_us: int | None  # longest time that the leader took to assign, µs; None if its leader does not report it
    gone: Mapping[str, str] = field(default_factory=dict)  # holder -> why it left since the one before (`REBALANCES`)

    @property
    def rounds(self) -> tuple[int, ...]:
        """Its generations, in order."""
        return self.outcome.generations

    @property
    def generation(self) -> int:
        """The last generation."""
        return self.rounds[-1]

    @property
    def complete(self) -> bool:
        """Whether all inputs for a replay are known."""
        return self.partitions is not None and all(subscription is not None for _, _, subscription in self.members)


def event_rows(events: DataFrame) -> DataFrame:
    """The rows of all groups that `of_group` needs beside their commits."""
    detail = sf.col("detail")
    return events.where(sf.col("kind").isin(*_TOLD) & sf.col("group").isNotNull()).select(
        "run", "group", "mono_ns", "ts_ns", "seq", "kind", "generation", "protocol", "member", "member_id", "fault",
        "duration_us",
        *(detail[name].alias(name) for name in ("members", "leader", "topics", "racks", "leaders", "ts_ms")),
    )  # fmt: skip


def of_group(
    run: str, group: str, rows: Iterable[Mapping[str, Any]], counts: Counts
) -> tuple[list[Replayable], list[tuple[Any, ...]]]:
    """The rebalances of a group, and its ownership intervals as rows of `schema.GROUP_TIMELINE`.

    `rows` are those of `event_rows` and of `committed.commits` in any order; `counts` are those that the run saw.

    Cost: O(generations x (members + partitions)).
    """
    log: list[Mapping[str, Any]] = []
    made: dict[int, dict[TopicPartition, ownership.Commits]] = defaultdict(dict)
    views_of: dict[tuple[object, ...], Any] = {}
    took: dict[tuple[object, ...], int] = {}
    ends: list[tuple[int, str, str]] = []
    for row in sorted(rows, key=lambda row: (row["mono_ns"] or 0, row["seq"] or 0)):
        leader = row["generation"], row["member_id"]
        if row["kind"] == committed.COMMITS:
            times = ownership.Commits(row["first_ns"], row["last_ns"], row["last_ms"])
            made[row["n"]][TopicPartition(row["topic"], int(row["partition"]))] = times
        elif row["kind"] == "generation_committed":
            log.append(row)
        elif row["kind"] == "assign_begin":
            views_of[leader] = row
        elif row["kind"] == "assign_end" and row["duration_us"] is not None:
            took[leader] = row["duration_us"]
        elif row["kind"] == "stop" and row["member"]:
            ends.append((row["mono_ns"], row["member"], "stop"))
        elif row["kind"] == "fault_begin" and row["member"] and row["fault"]:
            ends.append((row["mono_ns"], row["member"], row["fault"]))
    generations = [committed.generation(row, made[n]) for n, row in enumerate(log, 1)]
    views = [_view(row, views_of, took, counts) for row in log]
    departed = _gone(generations, ends)
    mine = list(_rebalances(run, group, generations, views, departed))
    why = {
        (generation.number, holder): how if how == departures.LEFT else departures.UNPROVEN
        for generation, gone in zip(generations, departed, strict=True) for holder, how in gone.items()
    }  # fmt: skip
    owned = ownership.intervals([generation.committed for generation in generations], why)
    return mine, list(_rows(run, group, owned, triggers(mine)))


def _rows(
    run: str, group: str, intervals: Iterable[ownership.LoggedInterval], triggers: Iterable[tuple[str, str, int, str]]
) -> Iterator[tuple[Any, ...]]:
    began = {generation: trigger for _, _, generation, trigger in triggers}
    for iv in intervals:
        row = {
            **vars(iv), "run": run, "group": group, "dt": schema.utc_date(iv.ts_ns),
            "topic": iv.tp.topic, "partition": iv.tp.partition, "member": iv.holder, "incarnation": 0,
            "start_kind": "assigned", "source": "coordlog", "trigger": began.get(iv.generation_start),
        }  # fmt: skip
        yield tuple(row.get(name) for name in schema.GROUP_TIMELINE.names)


class _View(NamedTuple):
    """What the leader of a generation saw, and how long it took (µs), as in `Replayable`."""

    partitions: Mapping[str, int] | None
    racks: Mapping[str, Sequence[Sequence[str]]]
    leaders: Mapping[str, Sequence[str | None]]
    assign_us: int | None


def _view(
    row: Mapping[str, Any],
    views: Mapping[tuple[object, ...], Any],
    took: Mapping[tuple[object, ...], int],
    counts: Counts,
) -> _View:
    leader = row["generation"], row["leader"]
    if view := views.get(leader):
        partitions, racks, leaders = (json.loads(view[name] or "{}") for name in ("topics", "racks", "leaders"))
    else:  # foreign leader: the harness's latest knowledge by then, else its first
        candidates = [topics for ns, topics in counts if ns <= row["mono_ns"]][-1:] or [topics for _, topics in counts]
        partitions, racks, leaders = candidates[0] if candidates else None, {}, {}
    return _View(partitions, racks, leaders, took.get(leader))


def _rebalances(
    run: str,
    group: str,
    generations: Sequence[GroupGeneration],
    views: Sequence[_View],
    departed: Sequence[Mapping[str, str]],
) -> Iterator[Replayable]:
    """The rebalances of a group as `history.rebalances` counts them, each with what its replay needs."""
    place = {id(generation): n for n, generation in enumerate(generations)}
    before: Replayable | None = None
    since = 0  # the generation after the rebalance before
    for rebalance, rounds in zip(history.of_generations(generations), history.rounds_of(generations), strict=True):
        if not rebalance.counted:
            continue
        end = rounds[-1]
        gone = {
            holder: how for reasons in departed[since : place[id(rounds[0])] + 1] for holder, how in reasons.items()
        }
        times = [us for generation in rounds if (us := views[place[id(generation)]].assign_us) is not None]
        partitions, racks, leaders, _ = views[place[id(end)]]
        now = Replayable(
            run, group, 0 if before is None else before.number + 1, rebalance, "", rounds[0].committed.begin_ns,
            rebalance.protocol or "", tuple(_members(end)), partitions, racks, leaders, end.owners,
            max(times, default=None), gone,
        )  # fmt: skip
        now = replace(now, trigger=_trigger(before, now))
        yield now
        before, since = now, place[id(end)] + 1


def _members(generation: GroupGeneration) -> Iterator[tuple[str, str, Subscription | None]]:
    for holder, subscription in generation.subscriptions.items():
        # A replay makes its own claims.
        plain = (
            None
            if subscription is None
            else Subscription(tuple(sorted(set(subscription.topics))), rack=subscription.rack)
        )
        yield generation.members[holder].member_id, holder, plain


def _gone(generations: Sequence[GroupGeneration], ends: Iterable[tuple[int, str, str]]) -> list[dict[str, str]]:
    """Per generation: why each holder of the one before is not in it; `ends` are (ns, member, fault or stop)."""
    reasons, ends = gone_from(generations), list(ends)
    since = 0  # when the log first had these members together
    for before, now, gone in zip(generations, generations[1:], reasons[1:], strict=False):
        since = since or before.committed.begin_ns
        for holder in gone:
            name = before.members[holder].client_id or holder
            lately = [how for ns, member, how in ends if member == name and since < ns <= now.committed.begin_ns]
            if lately and lately[-1] != "stop":
                gone[holder] = lately[-1]
            elif lately and holder == before.members[holder].member_id:
                gone[holder] = departures.LEFT  # a dynamic member that is closed sends LeaveGroup; a static one expires
        if now.called.keys() != before.called.keys():
            since = 0
    return reasons


def _trigger(before: Replayable | None, after: Replayable) -> str:
    """The difference between two rebalances that triggered the second."""
    if before is None:
        return "join"
    causes = set(after.gone.values())
    was, now = (
        {holder: subscription for _, holder, subscription in rebalance.members} for rebalance in (before, after)
    )
    if now.keys() - (was.keys() - after.gone.keys()):
        causes.add("join")
    if before.partitions != after.partitions:
        causes.add("topic")
    if any(now[holder] != was[holder] for holder in now.keys() & was.keys()):
        causes.add("subscription")
    return "+".join(sorted(causes)) or "rejoin"


def triggers(rebalances: Iterable[Replayable]) -> list[tuple[str, str, int, str]]:
    """The trigger of each generation, as `timeline.TRIGGERS`."""
    # A generation may be written again when a static member rejoins: its first record has the trigger.
    first: dict[tuple[str, str, int], str] = {}
    for rebalance in rebalances:
        for generation in rebalance.rounds:
            first.setdefault((rebalance.run, rebalance.group, generation), rebalance.trigger)
    return [(*place, trigger) for place, trigger in first.items()]
