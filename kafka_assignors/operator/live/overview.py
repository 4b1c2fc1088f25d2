"""All groups of a cluster at one moment: a line each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from ...coordinator import LogTail
from ...core.group import TopicPartition
from ...errors import AccessRefused, KafkaAssignorsError, NoSuchGroup
from ...history.broker_group import BROKER_S
from ...history.generations import GroupGeneration, Log, generations
from ...history.rebalances import apart
from .broker_side import Targets
from .cluster import LiveCluster
from .group import LiveGroup

READ = ("classic", "consumer")
"""Types of groups that can be read; of others only the type is told."""

_WILD = frozenset("*?[")
"""What makes a name a shell pattern."""

RECENT = 100_000
"""Offsets of each partition of the coordinator's log that are read for the last rebalances, the last ones."""


@dataclass(frozen=True)
class GroupLine:
    """A group at one moment. What isn't known is None, and `unknown` has the reasons.

    Args:
        kind: ``classic``, ``consumer`` (KIP-848), ``share``, …
        state: As Kafka names it: ``Stable``, ``Empty``, …
        protocol: The elected assignor, or the broker's; "" if there is none.
        lag: Records between the committed offsets and the ends of the partitions, in all; of partitions with a
            committed offset. Of a group without members, topics that the user may not see are left out.
        uncommitted: Assigned partitions without a committed offset.
        rebalanced_ms: Broker's wall clock at which the last rebalance wrote its first generation (KIP-848: its target).
        unknown: Reasons, one sentence each.
    """

    group: str
    kind: str
    state: str | None = None
    protocol: str = ""
    members: int | None = None
    lag: int | None = None
    uncommitted: int | None = None
    rebalanced_ms: int | None = None
    unknown: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The line as plain values; `kafka_assignors/operator/cli/schemas/groups.json` describes it."""
        return {**asdict(self), "unknown": list(self.unknown)}


def chosen(groups: Collection[str], patterns: Sequence[str], *, waiting: bool = False) -> list[str]:
    """The groups that a name or a shell pattern means, in order of their names; all without patterns.

    Raises:
        NoSuchGroup: A pattern fits none, unless the caller is `waiting`.

    >>> chosen(["billing", "billing-test", "mail"], ["billing*"])
    ['billing', 'billing-test']
    """
    fitting = {glob: {name for name in groups if name == glob or fnmatchcase(name, glob)} for glob in patterns}
    for pattern, names in fitting.items():
        if not names and not waiting:
            raise NoSuchGroup(f"no group fits {pattern!r}; without a name all groups are listed")
    return sorted(set().union(*fitting.values()) if patterns else groups)


def watchable(cluster: LiveCluster, patterns: Sequence[str], *, waiting: bool = False) -> list[str]:
    """The groups of a cluster that names or shell patterns (none: all) mean now, and whose members can be read.

    With `waiting`, a name without a group is taken, and there may be none yet. The cluster is asked only if needed.

    Raises:
        NoSuchGroup: A pattern fits no group that can be read, or there is none.
        ClusterError: The cluster doesn't answer.
    """
    if not open_ended(patterns):
        return list(dict.fromkeys(patterns))
    groups = {name for name, kind in cluster.groups().items() if kind.lower() in READ}
    awaited = [group for group in patterns if waiting and not set(group) & _WILD]
    fitting = chosen(groups.union(awaited), patterns, waiting=waiting)
    if not fitting and not waiting:
        raise NoSuchGroup("the cluster has no group that you may see")
    return fitting


def open_ended(patterns: Sequence[str]) -> bool:
    """Whether groups that begin later may be meant, too: by a shell pattern, or by no pattern at all.

    >>> open_ended([]), open_ended(["billing*"]), open_ended(["billing"])
    (True, True, False)
    """
    return not patterns or any(set(pattern) & _WILD for pattern in patterns)


def overview(cluster: LiveCluster, patterns: Sequence[str], note: Callable[[str], None]) -> list[GroupLine]:
    """The groups that names or shell patterns mean. `note` is called with sentences that the user should read.

    Raises:
        NoSuchGroup: A pattern fits none.
        ClusterError: The cluster doesn't answer.

    Cost: two or three requests a group, and one reading of the log's partitions that have these groups: the last
    `RECENT` offsets of each, the whole if one of the groups follows the consumer protocol.
    """
    kinds = cluster.groups()
    names = chosen(kinds, patterns)
    logs, refused = _logs(cluster, {name: kinds[name].lower() for name in names if kinds[name].lower() in READ})
    if refused:
        note(f"the last rebalances, and members of KIP-848 groups, are not told: {refused}")
    return [_line(cluster, name, kinds[name].lower(), logs.get(name)) for name in names]


def _logs(cluster: LiveCluster, kinds: Mapping[str, str]) -> tuple[dict[str, Log], str]:
    """Group -> its records; and why they can't be read, "" if they can."""
    if not kinds:
        return {}, ""
    # A member of a KIP-848 group is written once: a record of it that is left out would be a lost member.
    most = RECENT if set(kinds.values()) == {"classic"} else sys.maxsize
    try:
        with closing(LogTail(cluster.connection, list(kinds), most)) as tail:
            return dict(tail.history), ""
    except KafkaAssignorsError as refused:
        return {}, str(refused)


def _line(cluster: LiveCluster, name: str, kind: str, log: Log | None) -> GroupLine:
    if kind not in READ:
        return GroupLine(name, kind, unknown=(f"it is a {kind} group; classic and consumer groups are read",))
    unknown: list[str] = []
    live, last_ms = None, None
    if log is not None:
        live, last_ms = _logged(cluster, name, kind, log)
        if last_ms is None:
            older = "its records are compacted away" if log.whole else f"before the last {RECENT:,} offsets of the log"
            unknown.append(f"it never rebalanced, or {older}")
    if kind == "classic":
        try:
            live = cluster.group(name)
        except (NoSuchGroup, AccessRefused) as error:  # it may have been deleted meanwhile
            return GroupLine(name, kind, rebalanced_ms=last_ms, unknown=(*unknown, str(error)))
    if live is None:
        return GroupLine(name, kind, unknown=(*unknown, "its members are only in the coordinator's log"))
    lag, uncommitted = None, None
    assigned = {TopicPartition(*tp) for member in live.members for tp in member.assigned}
    try:
        positions = cluster.committed(name, {tp.topic for tp in assigned})
    except AccessRefused as error:
        unknown.append(str(error))
    else:
        lag = sum(position.lag or 0 for position in positions.values())
        uncommitted = len(assigned - positions.keys())
    protocol = live.protocol or (BROKER_S if kind == "consumer" and live.members else "")
    return GroupLine(name, kind, live.state, protocol, len(live.members), lag, uncommitted, last_ms, tuple(unknown))


def _logged(cluster: LiveCluster, name: str, kind: str, log: Log) -> tuple[LiveGroup | None, int | None]:
    """A KIP-848 group after its last record (None for a classic one), and its `rebalanced_ms`."""
    targets = Targets(cluster.topic_names)
    group_generations = generations(targets.take(log.records))
    return targets.group(name) if kind == "consumer" else None, rebalanced_ms(group_generations, whole=log.whole)


def rebalanced_ms(generations: Sequence[GroupGeneration], *, whole: bool) -> int | None:
    """When the first generation of the last rebalance was written (broker's wall clock, ms); None if there is none.

    The end of a group, and a generation that is written again, are no rebalances.
    """
    return max((rebalance.ts_ms for rebalance, _ in apart(generations, whole=whole) if rebalance.counted), default=None)
