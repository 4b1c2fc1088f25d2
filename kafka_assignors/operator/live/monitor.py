"""Groups of a live cluster, watched for long: by the coordinator's log, or by polling where the log may not be read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafka.errors import GroupIdNotFoundError, KafkaError

from ...coordinator import MOST_READ, LogTail
from ...core.group import TopicPartition
from ...errors import AccessRefused, ClusterError, NoSuchGroup
from ...history.generations import Log
from ...history.rebalances import Rebalance
from .broker_side import Targets
from .cluster import Hidden, LiveCluster
from .group import LiveGroup, LiveTopics
from .meter import LogMeter, PolledMeter, Totals, plan_gap
from .silence import Position

POLL_S = 5.0
"""Seconds between two descriptions of a group whose log may not be read."""

TOPICS_S = 30.0
"""Seconds between two looks at the topics' partition counts."""

LAGS_S = 15.0
"""Seconds between two looks at the committed offsets of the groups."""

GAP_S = 15.0
"""Seconds between two plans of a group that has no rest; a scrape rarely asks more often."""

_MOST_ASKED = 1_000
"""Topics above which one look would ask the cluster for too much."""


@dataclass(frozen=True)
class Reading:
    """A group now, and the sums since the start.

    Args:
        live: None until the group had its first generation, and of a group that the user may not see.
        gap: Partitions that a plan would move; up to `GAP_S` old while the group has rebalance after rebalance.
        may_miss: Whether rebalances may be missed: the group is polled, its log may not be read.
        rebalances: Those counted since the reading before. Empty if the group is polled.
        positions: Committed and end offsets of the partitions in which the group has committed, of the last look: the
            object is another one after each. Empty unless they are wanted.
        topics: The topics that it subscribes to; None if they aren't known.
        unknown: What the user may not see, a sentence each: the group, or some of its topics.
        in_part: Whether `live` may lack members: they don't record (`operator.recorded`).
        hidden: Ids of members of which nobody tells what they own.
        sums_known: Whether the sums of `totals` are whole; False if a counted rebalance is known in part.
        recorded: Members of `live` that record; None if the group isn't told by recordings.
    """

    group: str
    totals: Totals
    live: LiveGroup | None
    gap: int | None
    may_miss: bool
    rebalances: tuple[Rebalance, ...] = ()
    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    topics: LiveTopics | None = None
    in_part: bool = False
    hidden: frozenset[str] = frozenset()
    sums_known: bool = True
    recorded: int | None = None


class Monitor:
    """Watches groups; a context manager. It joins no group and writes nothing.

    Args:
        cluster: The cluster, which stays open.
        note: Called with a sentence that the user should read, once per event.
        planning: Whether to plan each reading's `gap`; it is None otherwise.
        waiting: Whether a group may begin later; it is noted, and has no reading until its first generation.
        lags_s: Seconds between two looks at each group's `positions`; None: there is none.

    A group or a topic that the user may not see is noted, and the others are read.

    Raises:
        NoSuchGroup: There is no such group, and it isn't waited for.
        AccessRefused: The user may see none of the groups, or may not read the log, which KIP-848 groups need, and
            there are no others.
    """

    def __init__(
        self,
        cluster: LiveCluster,
        groups: Sequence[str],
        note: Callable[[str], None],
        *,
        planning: bool = True,
        waiting: bool = False,
        lags_s: float | None = None,
    ) -> None:
        self._cluster, self._groups, self._note = cluster, tuple(dict.fromkeys(groups)), note
        self._waiting, self._lags_s = waiting, lags_s
        self._refused: dict[str, AccessRefused] = {}  # groups that are not read
        self._hidden: dict[str, Hidden] = {}  # group -> its hidden topics
        self._noted: set[str] = set()
        self._kinds = {group: self._begins_as(group) for group in self._groups}
        self._require_one()
        self._targets = Targets(cluster.topic_names)
        self.reachable = True
        self._tail: LogTail | None = None
        self._log = {group: _no_history() for group in self._groups}
        self._positions: dict[str, Mapping[TopicPartition, Position]] = {}
        self._lags_due = 0.0
        self._polled: dict[str, PolledMeter] = {}
        self._log_refused: AccessRefused | None = None
        self._gaps: dict[str, _Gap] = {}
        self._topics: LiveTopics | None = None
        self._unplanned: Hidden = {}  # topics of some group that no plan knows
        self._plans = planning
        self._looked: float | None = None
        self._wanted: frozenset[str] = frozenset()
        self._open()

    def _begins_as(self, group: str) -> str:
        """The type of a group as it is now; ``classic`` if it has yet to begin."""
        try:
            return self._cluster.group(group).kind
        except NoSuchGroup as missing:
            if not self._waiting:
                raise
            self._note(f"{missing}; it is counted from its first member on")
            return "classic"
        except AccessRefused as refused:
            self._refuse(group, refused)
            return "classic"

    def _refuse(self, group: str, refused: AccessRefused) -> None:
        self._refused[group] = refused
        self._note_once(f"group {group!r} is unknown: {refused}")

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)

    def _require_one(self) -> None:
        """Raise why the first group may not be seen if none may."""
        if self._groups and not self._seen:
            raise self._refused[self._groups[0]]

    @property
    def _seen(self) -> list[str]:
        return [group for group in self._groups if group not in self._refused]

    def _most(self, groups: Collection[str]) -> int:
        """Offsets of the log to read for groups. A member of a KIP-848 group is written once: all of them then."""
        return MOST_READ if all(self._kinds[group] == "classic" for group in groups) else sys.maxsize

    def refusal(self, group: str) -> AccessRefused | None:
        """Why the user may not see a group; None if that isn't known."""
        return self._refused.get(group)

    def watch(self, groups: Sequence[str]) -> None:
        """Watch exactly these groups from now on. A new one is counted from now on, as all others were at the start.

        Raises:
            NoSuchGroup: A new group is gone again, and it isn't waited for.
            ClusterError, OSError, KafkaError: The cluster doesn't respond; the groups are then those before.
        """
        groups = tuple(dict.fromkeys(groups))
        new, gone = [g for g in groups if g not in self._log], [g for g in self._groups if g not in groups]
        if not new and not gone:
            return
        self._kinds |= {group: self._begins_as(group) for group in new}
        if self._tail is not None:  # it may fail: the groups are then those before
            self._tail.follow([group for group in groups if group not in self._refused], self._most(new))
        self._groups = groups
        for group in gone:
            self._forget(group)
        self._log |= {group: _no_history() for group in new}
        if self._tail is not None:
            self._take_history(self._tail, new)
        elif self._log_refused is not None:
            self._poll(new, self._log_refused)
        self._lags_due, self._looked = 0.0, None

    def _forget(self, group: str) -> None:
        del self._log[group], self._kinds[group]
        for by_group in (self._polled, self._refused, self._hidden, self._gaps, self._positions):
            by_group.pop(group, None)

    def _open(self) -> None:
        """Read the log as far as it goes, or poll the groups if it may not be read."""
        if not self._seen:
            return
        try:
            self._tail = LogTail(self._cluster.connection, self._seen, self._most(self._seen), follow=True)
        except AccessRefused as refused:
            self._poll_from_now_on(refused)
        except NoSuchGroup:  # the cluster has no log yet
            if not self._waiting:
                raise
        else:
            self._take_history(self._tail, self._seen)

    def _take_history(self, tail: LogTail, groups: Collection[str]) -> None:
        for group in groups:
            if group in tail.history:
                history = tail.history[group]
                self._log[group] = LogMeter(replace(history, records=tuple(self._targets.take(history.records))))

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tail is not None:
            self._tail.close()

    def read(self, timeout_s: float) -> list[Reading]:
        """All groups now; waits at most about `timeout_s` seconds for something new.

        A cluster that doesn't respond is noted, and asked again by the next call.
        """
        try:
            if self._tail is not None:
                self._read_log(self._tail, timeout_s)
            else:
                time.sleep(timeout_s)
                if not self._polled:
                    self._open()
                for group, meter in self._polled.items():
                    if (live := self._described(group)) is not None:
                        meter.add(live)
            self._look_at_lags()
            if self._plans:
                self._look_at_topics()
            self._mark_reachable()
        except (KafkaError, ClusterError, OSError) as error:
            self._lost(error)
            time.sleep(min(timeout_s, 1.0))
        return [self._reading(group) for group in self._groups]

    def _described(self, group: str) -> LiveGroup | None:
        """A group as its coordinator describes it; empty if it has yet to begin, or was deleted; None if refused."""
        try:
            live = self._cluster.group(group)
        except NoSuchGroup:
            live = LiveGroup(group, "Empty", "classic", "", ())
        except AccessRefused as refused:
            self._refuse(group, refused)
            return None
        self._refused.pop(group, None)
        return live

    def by_broker(self, group: str) -> LiveGroup:
        """State of a KIP-848 group after its last record; the group may be between two targets."""
        return self._targets.group(group)

    @property
    def wait_s(self) -> float:
        """The `timeout_s` for `read` that costs little."""
        return POLL_S if self._tail is None else 1.0

    def _read_log(self, tail: LogTail, timeout_s: float) -> None:
        try:
            new = tail.read(timeout_s)
        except AccessRefused as refused:
            tail.close()
            self._tail = None
            self._poll_from_now_on(refused)
            return
        now_s = time.monotonic()
        for group, records in new.items():
            self._log[group].add(self._targets.take(records), now_s)

    def _poll_from_now_on(self, refused: AccessRefused) -> None:
        self._log_refused = refused
        self._poll(self._seen, refused)
        self._require_one()
        self._note(f"may miss rebalances: groups are polled every {POLL_S:g} s, as the log can't be read: {refused}")

    def _poll(self, groups: Collection[str], log_refused: AccessRefused) -> None:
        for group in groups:
            if self._kinds[group] != "classic":  # kafka-python can't ask for the members of a KIP-848 group
                self._refuse(group, log_refused)
            elif group not in self._refused:
                self._polled[group] = meter = PolledMeter()
                meter.totals, meter.live = self._log[group].totals, self._log[group].live

    def _look_at_lags(self) -> None:
        now_s = time.monotonic()
        if self._lags_s is None or now_s < self._lags_due:
            return
        self._lags_due = now_s + self._lags_s
        for group in self._seen:
            live = self._live(group)
            topics = {tp.topic for member in (() if live is None else live.members) for tp in member.assigned}
            try:
                self._positions[group], hidden = self._cluster.visibly_committed(group, topics)
            except GroupIdNotFoundError:  # it has yet to begin
                self._positions[group], hidden = {}, {}
            except AccessRefused as refused:
                self._positions.pop(group, None)
                self._note_once(f"lag of group {group!r} is unknown: {refused}")
                continue
            self._hidden[group] = hidden
            for topic, why in hidden.items():
                self._note_once(f"lag of group {group!r} in topic {topic!r} is unknown: {why}")

    def _look_at_topics(self) -> None:
        lives = [live for group in self._groups if (live := self._live(group)) is not None]
        wanted = frozenset(topic for live in lives for member in live.members for topic in member.topics)
        now_s = time.monotonic()
        if wanted == self._wanted and self._looked is not None and now_s - self._looked < TOPICS_S:
            return
        self._wanted, self._looked = wanted, now_s
        if len(wanted) > _MOST_ASKED:
            self._topics = None
            return
        self._topics, self._unplanned = self._cluster.visible(wanted)
        for refused in self._unplanned.values():
            self._note_once(f"plan_gap is not told: {refused}")

    def _mark_reachable(self) -> None:
        if not self.reachable:
            self._note("the cluster responds again")
        self.reachable = True

    def _lost(self, error: Exception) -> None:
        if self.reachable:
            self._note(f"the cluster doesn't respond, and is asked again: {error or type(error).__name__}")
        self.reachable, self._looked = False, None

    def _live(self, group: str) -> LiveGroup | None:
        return self._meter(group).live

    def _meter(self, group: str) -> LogMeter | PolledMeter:
        return self._polled[group] if group in self._polled else self._log[group]

    def _reading(self, group: str) -> Reading:
        meter = self._meter(group)
        rebalances: tuple[Rebalance, ...] = ()
        if isinstance(meter, LogMeter):
            rebalances, meter.rebalances = tuple(meter.rebalances), []
        gap = self._gap(group, meter.live)
        refusals = [self._refused[group]] if group in self._refused else self._hidden.get(group, {}).values()
        return Reading(
            group, meter.totals.copy(), meter.live, gap, group in self._polled, rebalances,
            self._positions.get(group, {}), tuple(map(str, refusals)), self._topics_of(meter.live),
        )  # fmt: skip

    def _topics_of(self, live: LiveGroup | None) -> LiveTopics | None:
        if live is None or self._topics is None:
            return None
        hidden = any(topic in self._unplanned for member in live.members for topic in member.topics)
        return None if hidden else _of(self._topics, live)

    def _gap(self, group: str, live: LiveGroup | None) -> int | None:
        if live is None or self._topics is None:
            return None
        kept, now_s = self._gaps.get(group), time.monotonic()
        if kept is not None and not self._meter(group).settled and now_s - kept.at_s < GAP_S:
            return kept.gap
        if (topics := self._topics_of(live)) is None:
            return None
        if kept is None or (kept.live, kept.topics) != (live, topics):
            self._gaps[group] = kept = _Gap(live, topics, now_s, plan_gap(live, topics))
        return kept.gap


@dataclass(frozen=True)
class _Gap:
    live: LiveGroup
    topics: LiveTopics
    at_s: float  # monotonic clock
    gap: int | None


def _no_history() -> LogMeter:
    return LogMeter(Log((), whole=True))


def _of(topics: LiveTopics, live: LiveGroup) -> LiveTopics:
    """The topics that a group subscribes to."""
    mine = {topic for member in live.members for topic in member.topics}

    def only(values: Mapping[str, object]) -> dict[str, object]:
        return {topic: value for topic, value in values.items() if topic in mine}

    return LiveTopics(only(topics.counts), only(topics.racks), only(topics.leaders))  # type: ignore[arg-type]
