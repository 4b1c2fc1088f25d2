"""Live groups: owners and lag as the coordinator tells them, silent members, and each rebalance as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from kafka_assignors.connection import Connection
from kafka_assignors.errors import AccessRefused, NoSuchGroup
from kafka_assignors.history.broker_group import BROKER_S
from kafka_assignors.history.rebalances import Rebalance
from kafka_assignors.operator.live.cluster import LiveCluster
from kafka_assignors.operator.live.group import LiveGroup
from kafka_assignors.operator.live.monitor import Monitor, Reading
from kafka_assignors.operator.live.overview import open_ended, watchable
from kafka_assignors.operator.live.silence import Silence, Silent
from kafka_assignors.operator.recorded import NO_OFFSETS, UNKNOWN, RecordedMonitor
from kafka_assignors.output import printable

FIND_S = 30.0
"""Seconds between two looks for groups that a pattern means."""

Changes = tuple[tuple[Rebalance, ...], bool, tuple[str, ...]]
"""What happened to a group since it was viewed before: `GroupView`'s `rebalances`, `log_read` and `polled`."""


@dataclass(frozen=True)
class Ownership:
    """One owned topic-partition. `lag` is in records (end offset - committed offset).

    It is None if nothing was committed yet, or if the user may not see the topic.
    """

    member: str
    topic: str
    partition: int
    lag: int | None


@dataclass(frozen=True)
class GroupView:
    """A group at one moment."""

    group: str
    state: str
    protocol: str
    members: tuple[str, ...]  # their client ids (member ids if members share one), idle members included
    owned: tuple[Ownership, ...]
    silent: tuple[Silent, ...] | None = ()  # members that commit nothing while their lag grows; None if that is unknown
    rebalances: tuple[Rebalance, ...] = ()  # those since the view before, as `why` tells them
    log_read: bool = False  # whether the coordinator's log is read; without it `rebalances` is empty
    polled: tuple[str, ...] = ()  # causes of the changes between two descriptions of a group whose log may not be read
    unknown: tuple[str, ...] = ()  # sentences: that the user may not see the group (`state`: `UNKNOWN`), or some topics
    recorded: int | None = None  # members that record; None if the group isn't told by recordings
    hidden: tuple[str, ...] = ()  # members of which nobody tells what they own

    def as_json(self) -> dict[str, Any]:
        """The view as plain values; `kafka_assignors/operator/cli/schemas/watch.json` describes it."""
        return {
            "group": self.group, "state": self.state, "protocol": self.protocol, "members": list(self.members),
            "owned": [vars(o) for o in self.owned],
            "silent": None if self.silent is None else [vars(silence) for silence in self.silent],
            "rebalances": [rebalance.as_json() for rebalance in self.rebalances], "log_read": self.log_read,
            "polled": list(self.polled), "unknown": list(self.unknown), "recorded": self.recorded,
            "hidden": list(self.hidden),
        }  # fmt: skip


class GroupWatcher:
    """Asks the coordinator on each call; a context manager. kafka-python's errors pass through.

    Args:
        groups: Names or shell patterns; all groups without. Groups that a pattern means are sorted by trouble, and are
            looked for again every `FIND_S`.
        note: Called with a sentence that the user should read.
        follow: Whether rebalances are told. A single view of a classic group needs no right to read the log.

    A group or a topic that the user may not see is unknown, and noted once; the others are shown.

    Raises:
        ClusterError: No broker answers; or there is no such group.
        AccessRefused: The cluster refuses the user, or the user may see none of the groups.
    """

    def __init__(
        self, bootstrap: str | Connection, groups: Sequence[str], note: Callable[[str], None], *, follow: bool
    ) -> None:
        self._note, self._patterns = note, tuple(groups)
        self._noted: set[tuple[str, str]] = set()
        self._find_due = time.monotonic() + FIND_S
        self._cluster = LiveCluster(bootstrap)
        self._monitor: Monitor | None = None
        self._causes: dict[str, dict[str, int]] = {}
        try:
            self.groups = tuple(watchable(self._cluster, groups))
            self._pattern_groups = frozenset(self.groups) - frozenset(groups)
            self._silence = {group: Silence() for group in self.groups}
            if follow:
                self._follow()
        except BaseException:
            self._cluster.__exit__()
            raise

    def views(self, wait_s: float = 0.0) -> list[GroupView]:
        """All groups, `wait_s` seconds from now.

        Raises:
            ClusterError: No group has one of the names.
            AccessRefused: The user may see none of the groups, or may not read the coordinator's log, which alone has
                the members of KIP-848 groups, and there are no others.
        """
        if self._monitor is None:
            return self._there((group, ()) for group in self.groups)
        until = time.monotonic() + wait_s
        self._find(self._monitor)
        readings = self._monitor.read(wait_s)
        time.sleep(max(0.0, until - time.monotonic()))  # new records end a reading early
        return self._there(self._changes(readings))

    def _find(self, monitor: Monitor) -> None:
        """Look for groups that began or ended, if it is time and a pattern means them."""
        if not open_ended(self._patterns) or time.monotonic() < self._find_due:
            return
        self._find_due = time.monotonic() + FIND_S
        with suppress(NoSuchGroup):  # none fits now, or one has just ended: the groups stay, and are looked for again
            groups = tuple(watchable(self._cluster, self._patterns))
            monitor.watch(groups)
            self.groups = groups
            self._pattern_groups = frozenset(groups) - frozenset(self._patterns)
            self._silence = {group: self._silence.get(group) or Silence() for group in groups}

    def _changes(self, readings: Sequence[Reading]) -> Iterator[tuple[str, Changes]]:
        for reading in readings:
            counted = reading.totals.rebalances
            before = self._causes.get(reading.group, counted)
            self._causes[reading.group] = counted
            new = tuple(cause for cause, count in counted.items() for _ in range(count - before[cause]))
            yield reading.group, (reading.rebalances, not reading.may_miss, new if reading.may_miss else ())

    def _there(self, groups: Iterable[tuple[str, Changes | tuple[()]]]) -> list[GroupView]:
        """The views of groups. One that a pattern meant, or no name, may be gone meanwhile."""
        views, refusals = [], []
        for group, changes in groups:
            try:
                views.append(self._view(group, *changes))
            except NoSuchGroup:
                if group not in self._pattern_groups:
                    raise
            except AccessRefused as refused:
                refusals.append(refused)
                views.append(GroupView(group, UNKNOWN, "", (), (), unknown=(str(refused),)))
        if refusals and len(refusals) == len(views):
            raise refusals[0]
        self._note_unknown(views)
        return sorted(views, key=_trouble) if self._pattern_groups else views

    def _note_unknown(self, views: Sequence[GroupView]) -> None:
        """Note once what may not be seen; what the monitor refuses it has noted itself."""
        for view in views:
            if self._monitor is None or self._monitor.refusal(view.group) is None:
                for why in view.unknown:
                    if (view.group, why) not in self._noted:
                        self._noted.add((view.group, why))
                        self._note(f"group {view.group!r} is unknown in part: {why}")

    def _view(
        self, group: str, rebalances: tuple[Rebalance, ...] = (), log_read: bool = False, polled: tuple[str, ...] = ()
    ) -> GroupView:
        live = self._cluster.group(group)
        protocol = live.protocol
        if live.kind != "classic":
            monitor = self._follow()
            if (refused := monitor.refusal(group)) is not None:
                raise refused
            live = monitor.by_broker(group)
            protocol = live.protocol or BROKER_S
        names = live.names
        owner = {tp: member.member_id for member in live.members for tp in member.assigned}
        positions, hidden = self._cluster.visible_positions(group, owner)
        mine = {
            member.member_id: {
                tp: positions[tp] for tp in member.assigned if owner[tp] == member.member_id and tp in positions
            }
            for member in live.members
        }
        silent = self._silence[group].look(mine, time.monotonic())
        return GroupView(
            group, live.state, protocol, tuple(sorted(names.values())),
            tuple(
                Ownership(names[owner[tp]], tp.topic, tp.partition, positions[tp].lag if tp in positions else None)
                for tp in sorted(owner)
            ),
            tuple(Silent(names[silence.member], silence.for_s, silence.lag_growth) for silence in silent.values()),
            rebalances, log_read, polled, tuple(map(str, hidden.values())),
        )  # fmt: skip

    def _follow(self) -> Monitor:
        if self._monitor is None:
            self._monitor = Monitor(self._cluster, self.groups, self._note, planning=False)
        return self._monitor

    def __enter__(self) -> GroupWatcher:
        return self

    def __exit__(self, *error: object) -> None:
        if self._monitor is not None:
            self._monitor.__exit__(*error)
        self._cluster.__exit__(*error)


class RecordedGroupWatcher:
    """Groups by what their members recorded; a context manager. See `RecordedMonitor` for its arguments and errors."""

    def __init__(
        self,
        places: Sequence[str],
        connection: Callable[[], Connection],
        groups: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        self._monitor = RecordedMonitor(places, connection, groups, note)

    def views(self, wait_s: float = 0.0) -> list[GroupView]:
        """All groups that have a generation, `wait_s` seconds from now, in order of their names."""
        readings = self._monitor.read(wait_s)
        return [_recorded(reading, reading.live) for reading in readings if reading.live is not None]

    def __enter__(self) -> RecordedGroupWatcher:
        return self

    def __exit__(self, *error: object) -> None:
        self._monitor.__exit__(*error)


def _recorded(reading: Reading, live: LiveGroup) -> GroupView:
    names = live.names
    owned = sorted((tp, names[member.member_id]) for member in live.members for tp in member.assigned)
    return GroupView(
        reading.group, live.state, live.protocol, tuple(sorted(names.values())),
        tuple(Ownership(member, tp.topic, tp.partition, None) for tp, member in owned),
        silent=None, rebalances=reading.rebalances, unknown=(NO_OFFSETS, *reading.unknown),
        recorded=reading.recorded, hidden=tuple(sorted(names[member_id] for member_id in reading.hidden)),
    )  # fmt: skip


def _trouble(view: GroupView) -> tuple[int, int, str]:
    """The order of groups: those with silent members first, then by lag, the largest first; those unknown last."""
    return -len(view.silent or ()), -sum(ownership.lag or 0 for ownership in view.owned), view.group


def table(view: GroupView) -> Table:
    """A group: a row per member, with the lag of each of its partitions."""
    title = f"{view.group}: {view.state}, {view.protocol or '-'}"
    member_table = Table("member", "partitions", "lag", "lag per partition", "seen", title=Text(printable(title)))
    if view.unknown:
        member_table.caption = Text(printable(f"unknown: {'; '.join(view.unknown)}"), style="dim")
    silent = {silence.member: silence for silence in view.silent or ()}
    no_lag = "-" if view.recorded is None else UNKNOWN
    for member in view.members:
        mine = [o for o in view.owned if o.member == member]
        lags = [o.lag for o in mine if o.lag is not None]
        owns = "  ".join(f"{o.topic}-{o.partition}: {no_lag if o.lag is None else o.lag}" for o in mine)
        seen = f"[yellow]{_silence(silent[member])}[/]" if member in silent else UNKNOWN * (view.silent is None)
        partitions = UNKNOWN if member in view.hidden else str(len(mine))
        member_table.add_row(Text(printable(member)), partitions, str(sum(lags)) if lags else no_lag, owns or "-", seen)
    return member_table


def news(view: GroupView) -> Iterator[str]:
    """The rebalances of a view, a line each."""
    for rebalance in view.rebalances:
        at = time.strftime("%H:%M:%S", time.localtime(rebalance.ts_ms / 1000))
        unit = "epoch" if rebalance.by_broker else "generation"
        numbers = "-".join(map(str, dict.fromkeys((rebalance.generations[0], rebalance.generations[-1]))))
        causes = ", ".join(f"{cause.kind} {cause.who or cause.detail}".rstrip() for cause in rebalance.causes)
        part = any(cause.kind == "unknown" for cause in rebalance.causes)  # its cost is not known either
        cost = f"moved {UNKNOWN if part else rebalance.moved}"
        cost += f", needless {rebalance.needless}" if rebalance.needless and not part else ""
        stop = ", every member stopped" if rebalance.eager else ""
        yield printable(f"{at} {view.group} {unit} {numbers}: {causes}; {cost}{stop}")
    for cause in view.polled:
        yield printable(f"{view.group}: changed between two looks: {cause}")


def _silence(silent: Silent) -> str:
    return f"committed nothing for {silent.for_s:.0f} s, lag grew by {silent.lag_growth}"
