"""Groups of a live cluster, watched for long: by the coordinator's log, or by polling where the log may not be read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafka.errors import KafkaError

from ...coordinator import MOST_READ, LogTail
from ...errors import AccessRefused, ClusterError, NoSuchGroup
from ...history.generations import Log
from ...history.rebalances import Rebalance
from .broker_side import Targets
from .cluster import LiveCluster
from .group import LiveGroup, LiveTopics
from .meter import LogMeter, PolledMeter, Totals, plan_gap

POLL_S = 5.0
"""Seconds between two descriptions of a group whose log may not be read."""

TOPICS_S = 30.0
"""Seconds between two looks at the topics' partition counts."""

GAP_S = 15.0
"""Seconds between two plans of a group that has no rest; a scrape rarely asks more often."""

_MOST_ASKED = 1_000
"""Topics above which one look would ask the cluster for too much."""


@dataclass(frozen=True)
class Reading:
    """A group now, and the sums since the start.

    Args:
        live: None until the group had its first generation.
        gap: Partitions that a plan would move; up to `GAP_S` old while the group has rebalance after rebalance.
        may_miss: Whether rebalances may be missed: the group is polled, its log may not be read.
        rebalances: Those counted since the reading before. Empty if the group is polled.
    """

    group: str
    totals: Totals
    live: LiveGroup | None
    gap: int | None
    may_miss: bool
    rebalances: tuple[Rebalance, ...] = ()


class Monitor:
    """Watches groups; a context manager. It joins no group and writes nothing.

    Args:
        cluster: The cluster, which stays open.
        note: Called with a sentence that the user should read, once per event.
        planning: Whether to plan each reading's `gap`; it is None otherwise.
        waiting: Whether a group may begin later; it is noted, and has no reading until its first generation.

    Raises:
        NoSuchGroup: There is no such group, and it isn't waited for.
        AccessRefused: The user may not see a group, or may not read the log, which a KIP-848 group needs.
    """

    def __init__(
        self,
        cluster: LiveCluster,
        groups: Sequence[str],
        note: Callable[[str], None],
        *,
        planning: bool = True,
        waiting: bool = False,
    ) -> None:
        self._cluster, self._groups, self._note = cluster, tuple(dict.fromkeys(groups)), note
        self._waiting = waiting
        kinds = {self._begins_as(group) for group in self._groups}
        self._by_broker = kinds != {"classic"}
        self._targets = Targets(cluster.topic_names)
        self.reachable = True
        self._tail: LogTail | None = None
        self._log = {group: LogMeter(Log((), whole=True)) for group in self._groups}
        self._polled: dict[str, PolledMeter] = {}
        self._gaps: dict[str, _Gap] = {}
        self._topics: LiveTopics | None = None
        self._plans, self._planning = planning, True
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

    def _open(self) -> None:
        """Read the log as far as it goes, or poll the groups if it may not be read."""
        try:
            # A member of a KIP-848 group is written once: a record of it that is left out would be a lost member.
            self._tail = self._follow()
        except AccessRefused as refused:
            self._poll_from_now_on(refused)
        except NoSuchGroup:  # the cluster has no log yet
            if not self._waiting:
                raise
        else:
            for group, history in self._tail.history.items():
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
                    meter.add(self._described(group))
            if self._plans:
                self._look_at_topics()
            self._mark_reachable()
        except (KafkaError, ClusterError, OSError) as error:
            self._lost(error)
            time.sleep(min(timeout_s, 1.0))
        return [self._reading(group) for group in self._groups]

    def _described(self, group: str) -> LiveGroup:
        """A group as its coordinator describes it; empty if it has yet to begin, or was deleted."""
        try:
            return self._cluster.group(group)
        except NoSuchGroup:
            return LiveGroup(group, "Empty", "classic", "", ())

    def by_broker(self, group: str) -> LiveGroup:
        """State of a KIP-848 group after its last record; the group may be between two targets."""
        return self._targets.group(group)

    @property
    def wait_s(self) -> float:
        """The `timeout_s` for `read` that costs little."""
        return POLL_S if self._tail is None else 1.0

    def _follow(self) -> LogTail:
        most = sys.maxsize if self._by_broker else MOST_READ
        return LogTail(self._cluster.connection, self._groups, most, follow=True)

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
        if self._by_broker:
            raise refused  # kafka-python can't ask for the members of a KIP-848 group
        self._note(f"may miss rebalances: groups are polled every {POLL_S:g} s, as the log can't be read: {refused}")
        for group in self._groups:
            self._polled[group] = meter = PolledMeter()
            meter.totals, meter.live = self._log[group].totals, self._log[group].live

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
        try:
            self._topics = self._cluster.topics(wanted)
        except AccessRefused as refused:
            if self._planning:
                self._note(f"plan_gap is not told: {refused}")
            self._planning, self._topics = False, None
        else:
            self._planning = True

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
        return Reading(group, meter.totals.copy(), meter.live, gap, group in self._polled, rebalances)

    def _gap(self, group: str, live: LiveGroup | None) -> int | None:
        if live is None or self._topics is None:
            return None
        kept, now_s = self._gaps.get(group), time.monotonic()
        if kept is not None and not self._meter(group).settled and now_s - kept.at_s < GAP_S:
            return kept.gap
        topics = _of(self._topics, live)
        if kept is None or (kept.live, kept.topics) != (live, topics):
            self._gaps[group] = kept = _Gap(live, topics, now_s, plan_gap(live, topics))
        return kept.gap


@dataclass(frozen=True)
class _Gap:
    live: LiveGroup
    topics: LiveTopics
    at_s: float  # monotonic clock
    gap: int | None


def _of(topics: LiveTopics, live: LiveGroup) -> LiveTopics:
    """The topics that a group subscribes to."""
    mine = {topic for member in live.members for topic in member.topics}

    def only(values: Mapping[str, object]) -> dict[str, object]:
        return {topic: value for topic, value in values.items() if topic in mine}

    return LiveTopics(only(topics.counts), only(topics.racks), only(topics.leaders))  # type: ignore[arg-type]
