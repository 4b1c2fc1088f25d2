"""How long a planned change may leave a topic-partition without an owner. Pure.

A change is planned if members only join, leave in order or ask for a rebalance, or if partitions are added. Members
hear at a heartbeat that the group rebalances:

* A member that leaves, or an eager one that gives up all, does so at the beginning of a rebalance. The others hear of
  it within a heartbeat interval.
* A cooperative member gives partitions up once it has adopted a generation, and joins again. The others have adopted
  that generation as well, and those with early heartbeats (ours, or guarded ones) ask again and again: they hear of it
  as soon as the time since their adoption has doubled. Every other client hears of it within a heartbeat interval.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import AdminChangeBody, ExitBody, FaultBody, GenerationBody
from kafka_assignors.history.timeline import Span

from .ledger import Generation, GroupRecord, Process
from .transitions import Transition, transitions

HANDOVER_MS = 1500
"""Time in which members with early heartbeats join again, adopt and give up. It takes them tens of milliseconds; a busy
machine takes longer, and half a default heartbeat shows that they did not wait for one."""
LATE_MS = 3000
"""Tolerance for all other members: as law T1 grants a group whose members must join again."""
ASSIGNMENT_INTERVAL_MS = 1000
"""Kafka's default of ``group.consumer.assignment.interval.ms``: how long a broker waits before it assigns again."""

UNSTABLE = "the group was not stable before and after"
UNPLANNED = "members did not only join and leave in order, or get new partitions"
UNEXPLAINED = "no trigger explains the generations"
FAULT = "a fault was in force"
UNASKED = "membership changed without a scenario action"
STATIC = "a static member that ends does not leave the group"
LOST = "its owner lost it"
ALONE = "no other member was in the group"
PROTOCOL = "the group changed its protocol"
UNTOLD = "the history does not have a member's heartbeat interval"
WORKING = "a process of the service may have worked on records until it joined"
WHYS = (UNSTABLE, UNPLANNED, UNEXPLAINED, FAULT, UNASKED, STATIC, LOST, ALONE, PROTOCOL, UNTOLD, WORKING)
"""Why a time without an owner has no limit."""

_MS = 1_000_000
_PLANNED_CHANGES = ("create_topic", "add_partitions")
_ENDS = ("stop", "exit")


@dataclass(frozen=True)
class Limit:
    """How long (`ms`) a topic-partition may be without an owner in a planned change, and how long it was (`waited_ms`).

    `why` says what the limit consists of. The wait lasts from the end of the owner's callback, or its ``stop``, to the
    end of the join that gave the partition to another member, on the coordinator's clock. The leader's time for
    assigning and the new owner's for adopting do not count, nor does time in which a member runs callbacks, works on
    records or commits.
    """

    ms: float
    waited_ms: float
    why: str


class Planned:
    """The limits of one group."""

    def __init__(self, record: GroupRecord) -> None:
        self._record = record
        self._changes = list(transitions(record))
        self._ends = [change.end.mono_ns for change in self._changes]
        self._unplanned: dict[int, str | None] = {}
        self._hears: dict[tuple[int, int, bool], float | str] = {}

    def limit(self, before: Span, after: Span) -> Limit | str:
        """The limit of the time between two successive intervals of a partition; without one, why: one of `WHYS`."""
        at = bisect_left(self._ends, after.interval.start_ns)
        if at == len(self._ends) or (change := self._changes[at]).before is None:
            return UNSTABLE
        if change.rest is None or change.rest.mono_ns > before.interval.end_ns:
            return UNSTABLE
        if at not in self._unplanned:
            self._unplanned[at] = self._why_unplanned(change)
        if (why := self._unplanned[at]) is not None:
            return why
        if before.interval.end_kind not in ("revoked", "stop", "exit"):
            return LOST
        gone = self._leaving(before, change)
        committed = [change.before, *change.generations]
        rounds = self._rounds(committed, before, after)
        gave_up = self._gave_up(before)
        heard = [self._heard(one, other, gave_up and (not number or change.alone is not None))
                 for number, (one, other) in enumerate(rounds)]  # fmt: skip
        if isinstance(reason := next((answer for answer in heard if isinstance(answer, str)), None), str):
            return reason
        within = sum(answer for answer in heard if not isinstance(answer, str))
        early = gave_up and all(self._early(process) for one, other in rounds for process in self._shared(one, other))
        if gone is not None and not gave_up:
            within *= 2  # as T1 grants it
        ms = within + (HANDOVER_MS if early else LATE_MS)
        last = rounds[-1][1]
        begin_ns = before.interval.end_ns if gone is None else max(before.interval.end_ns, gone.mono_ns)
        until_ns = after.interval.start_ns if last.by_broker else min(after.interval.start_ns, last.completed_ns)
        waited_ms = (until_ns - begin_ns) / _MS
        if waited_ms > ms:
            waited_ms -= self._record.busy.surely_ms(begin_ns, until_ns)
            if waited_ms > ms >= waited_ms - len(rounds) * self._record.busy.perhaps_ms(begin_ns, until_ns):
                return WORKING
        return Limit(ms, waited_ms, _sentence(within, early, len(rounds)))

    def _why_unplanned(self, change: Transition) -> str | None:
        if not change.triggers and not change.requests:
            return UNEXPLAINED
        if any(trigger.kind.startswith("fault_") for trigger in change.triggers) or self._fault_at(change):
            return FAULT
        for trigger in change.triggers:
            body = trigger.body
            broke = isinstance(body, ExitBody) and body.code and not body.asked
            if broke or (isinstance(body, AdminChangeBody) and body.change not in _PLANNED_CHANGES):
                return UNPLANNED
        ended = {(e.member, e.incarnation) for e in change.triggers if e.kind in _ENDS}
        starts = (self._record.starts.get(process) for process in ended)
        if any(start is not None and start.instance_id is not None for start in starts):
            return STATIC  # a join, too, waits for it until its session ends
        committed = [g for g in (change.before, *change.generations) if g is not None]
        if len({generation.by_broker for generation in committed}) > 1:
            return PROTOCOL
        for one, other in pairwise(committed):
            if self._record.present(one) - self._record.present(other) - ended:
                return UNASKED
        return None

    def _fault_at(self, change: Transition) -> bool:
        """Whether a fault that began before the change had not ended. A killed member is gone, which is no fault."""
        rest_ns = 0 if change.rest is None else change.rest.mono_ns
        force: dict[tuple[object, ...], int] = {}
        for event in self._record.events.of(FaultBody):
            if event.mono_ns <= rest_ns and event.body.fault != "kill":
                key = event.body.fault, event.body.target, event.member, event.incarnation
                force[key] = force.get(key, 0) + (1 if event.kind == "fault_begin" else -1)
        return any(count > 0 for count in force.values())

    def _leaving(self, before: Span, change: Transition) -> Event | None:
        """The ``stop``, or else the ``exit``, of the owner, if it left in this change."""
        ends = [
            e for e in change.triggers if e.kind in ("stop", "exit") and (e.member, e.incarnation) == before.owner[1:]
        ]
        return min(ends, key=lambda e: e.mono_ns, default=None)

    def _gave_up(self, before: Span) -> bool:
        """Whether the owner gave it up because the generation that it had adopted no longer has it."""
        interval = before.interval
        if interval.end_kind != "revoked" or interval.generation_end is None or before.end is None:
            return False
        generation = self._record.generation_of(interval.generation_end, before.end.member_id)
        if generation is None or generation.by_broker or before.end.member_id not in generation.assigned:
            return False
        return before.tp not in generation.assigned[before.end.member_id or ""]

    def _rounds(self, committed: list[Generation], before: Span, after: Span) -> list[tuple[Generation, Generation]]:
        """The generations that followed until the partition had an owner, each with the one before it; at least one."""
        begun, end_ns = before.interval.generation_end, before.interval.end_ns
        first = 0
        for number, generation in enumerate(committed):
            if generation.event.mono_ns <= end_ns if begun is None else generation.number <= begun:
                first = number
        last = max((n for n, g in enumerate(committed) if g.number <= after.interval.generation_start), default=0)
        if last <= first:
            return [(committed[last], committed[last])]
        return [(committed[n], committed[n + 1]) for n in range(first, last)]

    def _shared(self, one: Generation, other: Generation) -> frozenset[Process]:
        return self._record.present(one) & self._record.present(other)

    def _heard(self, one: Generation, other: Generation, gave_up: bool) -> float | str:
        """Within how many ms the members of one generation hear that the next one's join has begun."""
        key = id(one), id(other), gave_up
        if key not in self._hears:
            self._hears[key] = self._slowest(one, other, gave_up)
        return self._hears[key]

    def _slowest(self, one: Generation, other: Generation, gave_up: bool) -> float | str:
        slowest = 0.0
        if not (shared := self._shared(one, other)):
            return ALONE
        for process in shared:
            start = self._record.starts.get(process)
            beat = None if start is None else start.body.config.heartbeat_interval_ms
            if beat is None:
                return UNTOLD
            early = gave_up and self._early(process)
            slowest = max(slowest, min(beat, self._since_adoption(one, other)) if early else beat)
        return slowest + (ASSIGNMENT_INTERVAL_MS if other.by_broker else 0)

    def _early(self, process: Process) -> bool:
        start = self._record.starts.get(process)
        return start is not None and bool(start.body.config.early_heartbeats)

    def _since_adoption(self, one: Generation, other: Generation) -> float:
        """How long after the first adoption of a generation the last callback ended that gave partitions up, in ms."""
        adopted_ns = self._adopted.get(one.number)
        at = bisect_right(self._revoked, other.completed_ns)
        return 0.0 if adopted_ns is None or not at else max(0.0, (self._revoked[at - 1] - adopted_ns) / _MS)

    @cached_property
    def _adopted(self) -> Mapping[int, int]:
        """Generation -> when its first member adopted it."""
        times: dict[int, int] = {}
        for event in self._record.events.of(GenerationBody):
            number = event.body.generation
            times[number] = min(times.get(number, event.mono_ns), event.mono_ns)
        return times

    @cached_property
    def _revoked(self) -> list[int]:
        """When callbacks ended that gave partitions up, in order."""
        return sorted(event.mono_ns for event in self._record.events["revoke_end"])


def _sentence(within_ms: float, early: bool, rounds: int) -> str:
    times = "" if rounds == 1 else f" over {rounds} generations"
    if early:
        return f"all members ask early whether the group rebalances again{times}"
    return f"its members hear within {within_ms:.0f} ms of a rebalance{times}"
