"""Groups by what their members recorded (`kafka_assignors.record`), watched for long: as `live.monitor` by the log.

Recordings have no offsets, no partition counts, and no word of a member that doesn't record while another one of those
leads. What depends on that is unknown: it is None or empty in a `Reading`, and the reading says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import takewhile

from ..connection import Connection
from ..errors import KafkaAssignorsError, NoSuchGroup
from ..history.causes import Cause, Restarts
from ..history.events import INCOMPLETE, Event, is_of
from ..history.events.bodies import AssignEndBody, ErrorBody, GenerationBody, StopBody, kinds_of
from ..history.generations import GroupGeneration
from ..history.rebalances import Rebalance, apart, rounds_of
from ..history.recorded import recordings
from ..output import printable
from ..recordings import RecordingsTail, groups_in
from .live.group import LiveGroup, from_generation
from .live.meter import SETTLED_S, RebalanceCount
from .live.monitor import Reading

LOOK_S = 1.0
"""Seconds between two looks at the recordings."""

MOST_GROUPS = 1 << 14
"""Groups that are watched, the first ones."""

_KEPT = 3
"""Counted rebalances whose events are kept: they tell who was there before the next one."""

_MOST_EVENTS = 50_000
"""Events of a group that are kept: more than its members record in so few rebalances."""

UNKNOWN = "unknown"
"""State of a group that can't be known."""

NO_OFFSETS = "lag, silent members and the group's state: recordings don't have them"
"""What is unknown of every group."""


class RecordedMeter(RebalanceCount):
    """Counts the rebalances that the members of one group record.

    A generation may be told by one member now, and by its leader later, so a rebalance is counted once nobody has told
    more of it for `SETTLED_S`, in order. One that is told after the next one is counted is left out.

    Args:
        history: The events before the start, of the kinds that `recordings` needs, in any order. Their rebalances are
            not counted.

    Attributes:
        recordings: The last generations.
        may_miss: Whether the sums may lack rebalances or their costs: members don't record, or events are lost.
    """

    def __init__(self, group: str, history: Iterable[Event]) -> None:
        super().__init__()
        self._group = group
        self._events = list(history)
        self._arrived: dict[int, float] = {}  # generation -> when its last event came
        self._unsettled = False
        self.recordings = recordings(self._events, group)
        self._counted: Sequence[GroupGeneration] = self.recordings.generations  # the last ones
        self._restarts = Restarts()
        for rebalance, _ in apart(self._counted, whole=False):
            self._restarts.final_causes(rebalance.ts_ms, rebalance.causes)
        self._seen = next(iter(self.recordings.rebalances(1)), None)  # the last counted one
        self.may_miss = False
        self._forget()

    @property
    def live(self) -> LiveGroup | None:
        """The group as its last generation has it; None before the first. Its state is unknown unless it is empty."""
        value = self.recordings.last
        if value is None:
            return None
        live = from_generation(value)
        return replace(live, kind="classic", state=UNKNOWN if live.members else live.state, leader=live.leader or None)

    def add(self, events: Iterable[Event], now_s: float) -> None:
        """Take the events since the last call, in any order; `now_s` is of a clock that never goes back."""
        new = [*events]
        self._arrived = {number: at_s for number, at_s in self._arrived.items() if now_s - at_s < SETTLED_S}
        if new:
            self.may_miss |= any(is_of(event, ErrorBody) and event.body.error == INCOMPLETE for event in new)
            for event in new:
                if is_of(event, GenerationBody) or is_of(event, AssignEndBody):
                    self._arrived[event.body.generation] = now_s
                elif event.kind == "stop":
                    self._arrived[_EMPTIED] = now_s
            self._events += new
            self.recordings, self._unsettled = recordings(self._events, self._group), True
        if self._unsettled:
            self._count_settled()

    def _count_settled(self) -> None:
        generations = self.recordings.generations
        end, place, grown, self._unsettled = 0, _place(self._counted, generations), False, False
        fresh: list[int] = []  # where each rebalance that is to be counted begins
        for rounds in rounds_of(generations):
            if end + len(rounds) > place:
                if self._arrived.keys() & {g.number if g.called else _EMPTIED for g in rounds}:
                    self._unsettled = True
                    break
                grown |= end < place
                fresh.append(end)
            end += len(rounds)
        if not fresh:
            return
        before = [self._seen] if grown else []

        def causes_of(rebalance: Rebalance) -> tuple[Cause, ...]:
            if before and rebalance.ts_ms == generations[fresh[0]].ts_ms:
                return rebalance.causes  # those as which it is counted are told below
            return self._restarts.final_causes(rebalance.ts_ms, rebalance.causes)

        rebalances = self.recordings.until(end).rebalances(len(fresh), causes_of)
        for start, rebalance in zip(fresh, rebalances, strict=True):
            seen = before.pop() if before else None
            self._seen = replace(rebalance, causes=seen.causes) if seen is not None else rebalance
            self.may_miss |= self._is_partial(start, rebalance)
            self.count(self._seen, seen)
        self._counted = generations[:end]
        self._forget()

    def _is_partial(self, start: int, rebalance: Rebalance) -> bool:
        """Whether a rebalance, or one directly before it, may be told in part."""
        if any(cause.kind == "unknown" for cause in rebalance.causes):
            return True
        if rebalance.missing is None:
            return False
        before, now = self.recordings.generations[start - 1 : start + 1]
        # A member that records all along would have told a generation that was completed.
        there = {m.member_id for m in before.members.values()} & {m.member_id for m in now.members.values()}
        return not there & self.recordings.members

    def _forget(self) -> None:
        """Drop the events that no later cause needs, so that memory stays bounded."""
        self.may_miss |= self.recordings.last_in_part
        rounds = list(rounds_of(self._counted))
        if not rounds:
            return
        first = max(0, len(rounds) - _KEPT)
        while first and rounds[first][0].number == rounds[first - 1][-1].number:
            first -= 1  # it is written again, by events of both
        self._counted = [generation for one in rounds[first:] for generation in one]
        begin_ns = 1_000_000 * min(generation.ts_ms for generation in self._counted)
        self._events = [event for event in self._events if event.ts_ns >= begin_ns]
        if len(self._events) > _MOST_EVENTS:
            self._events = sorted(self._events, key=lambda event: event.ts_ns)[-(_MOST_EVENTS // 2) :]
            self.may_miss = True


_EMPTIED = -1
"""Stands for the number of a generation without members: what tells it is that all stopped, unless others come."""

_TELLING = kinds_of(GenerationBody, AssignEndBody, StopBody, ErrorBody)
"""Kinds of which `recordings` makes something; what a member revokes or takes over is none of them."""


def _place(counted: Sequence[GroupGeneration], now: Sequence[GroupGeneration]) -> int:
    """How many of the generations `now` are counted: those up to the last one that is among `counted`."""
    if not counted:
        return 0
    names = set[tuple[int, str]]().union(*_named(counted))
    place = max((n for n, of_one in enumerate(_named(now), 1) if of_one & names), default=len(now))
    # A static member that returns writes its generation again: as often as before, it is counted.
    return place - max(0, _written(now[:place]) - _written(counted))


def _written(generations: Sequence[GroupGeneration]) -> int:
    """How often the last generation is written."""
    return sum(1 for _ in takewhile(lambda g: g.number == generations[-1].number, reversed(generations)))


def _named(generations: Sequence[GroupGeneration]) -> list[set[tuple[int, str]]]:
    """What tells each generation from others, also from those of a group that was deleted and began again."""
    before: Iterable[str] = ()
    named = []
    for generation in generations:
        named.append({(generation.number, holder) for holder in (generation.called or before)})
        before = generation.called or before
    return named


class RecordedMonitor:
    """Watches the groups of which members record, as the recordings grow; a context manager. Nothing is written.

    Args:
        places, connection: See `RecordingsTail`.
        patterns: Group ids or shell patterns, also of groups that begin later; all groups without.
        note: Called with a sentence that the user should read, once per event.
        waiting: Whether there may be no group yet that a pattern means.

    Raises:
        ConfigError, AccessRefused, ClusterError: As of `RecordingsTail`; later ones are noted, and all other places
            are read.
        NoSuchGroup: They have no group that the patterns mean; the message names those that they have.
    """

    wait_s = LOOK_S
    """The `timeout_s` for `read` that costs little."""

    def __init__(
        self,
        places: Sequence[str],
        connection: Callable[[], Connection],
        patterns: Sequence[str],
        note: Callable[[str], None],
        *,
        waiting: bool = False,
    ) -> None:
        self._places, self._patterns, self._note = places, tuple(dict.fromkeys(patterns)), note
        self._meters: dict[str, RecordedMeter] = {}
        self._failures: set[str] = set()
        self._full = False
        self.reachable = True
        self._tail = RecordingsTail(places, connection, note)
        try:
            events = self._tail.read()
            self._take(events, None)
            self._require(groups_in(events), waiting=waiting)
        except BaseException:
            self._tail.close()
            raise

    def _require(self, groups: set[str], *, waiting: bool) -> None:
        where = f"is recorded in {', '.join(self._places)}"
        names = f"it has {', '.join(sorted(groups))}" if groups else "it has no group"
        missing = [
            f"no generation of group {pattern!r} {where}; {names}"
            for pattern in self._patterns
            if not any(_fits(group, pattern) for group in groups)
        ]
        if not groups and not self._patterns:
            missing = [f"no generation of a group {where}"]
        for sentence in missing:
            if not waiting:
                raise NoSuchGroup(sentence)
            self._note(f"{sentence}; it is counted from its first member on")

    def __enter__(self) -> RecordedMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._tail.close()

    def read(self, timeout_s: float) -> list[Reading]:
        """All groups now, `timeout_s` seconds later. What can't be read is noted, and tried again by the next call."""
        time.sleep(timeout_s)
        failures: list[str] = []
        self._take(self._tail.read(lambda error: failures.append(_sentence(error))), time.monotonic())
        for failure in failures:
            if failure not in self._failures:
                self._note(f"not read, and tried again: {failure}")
        if self._failures and not failures:
            self._note("all recordings are read again")
        self._failures, self.reachable = set(failures), not failures
        return [_reading(group, meter) for group, meter in sorted(self._meters.items())]

    def _take(self, events: Iterable[Event], now_s: float | None) -> None:
        """Give each group its events; those until the start if `now_s` is None."""
        by_group: dict[str, list[Event]] = {}
        for event in events:
            if event.group and event.src == "member" and event.kind in _TELLING and self._means(event.group):
                by_group.setdefault(event.group, []).append(event)
        for group in by_group.keys() - self._meters.keys():
            if len(self._meters) >= MOST_GROUPS:
                if not self._full:
                    self._note(f"further groups are left out: the recordings have more than {MOST_GROUPS:,}")
                self._full = True
                continue
            self._meters[group] = RecordedMeter(group, () if now_s is not None else by_group.pop(group))
        if now_s is not None:
            for group, meter in self._meters.items():
                meter.add(by_group.get(group, ()), now_s)

    def _means(self, group: str) -> bool:
        return not self._patterns or any(_fits(group, pattern) for pattern in self._patterns)


def _fits(group: str, pattern: str) -> bool:
    return group == pattern or fnmatchcase(group, pattern)


def _sentence(error: Exception) -> str:
    return printable(str(error) if isinstance(error, KafkaAssignorsError) else f"{type(error).__name__}: {error}")


def _reading(group: str, meter: RecordedMeter) -> Reading:
    rebalances, meter.rebalances = tuple(meter.rebalances), []
    live, in_part = meter.live, meter.recordings.last_in_part
    unknown: tuple[str, ...] = ()
    if in_part and live is not None:
        why = "its leader doesn't record" if live.leader else "its members' client doesn't tell who leads"
        unknown = (f"members of generation {live.generation} that don't record, and what they own: {why}",)
    recorders = meter.recordings.members & {member.member_id for member in (() if live is None else live.members)}
    return Reading(
        group, meter.totals.copy(), live, None, meter.may_miss, rebalances, unknown=unknown, in_part=in_part,
        hidden=meter.recordings.hidden, sums_known=not meter.may_miss, recorded=len(recorders),
    )  # fmt: skip
