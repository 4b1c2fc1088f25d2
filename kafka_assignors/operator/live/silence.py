"""Members that commit nothing while their lag grows. Pure: positions in, what was seen out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...core.group import TopicPartition

SILENT_S = 15.0
"""Seconds without a commit after which a member is told: three intervals of the clients' automatic commits."""


@dataclass(frozen=True)
class Position:
    """Where a group is in a topic-partition: offsets in records. `committed` is None if nothing was committed."""

    committed: int | None
    end: int

    @property
    def lag(self) -> int | None:
        """Records still to consume."""
        return None if self.committed is None else max(0, self.end - self.committed)


@dataclass(frozen=True)
class Silent:
    """A member none of whose partitions' committed offsets changed for `for_s` seconds.

    Meanwhile `lag_growth` records were added to these partitions. Why is not known: the member may be stuck or
    stopped, or it keeps its offsets elsewhere.
    """

    member: str
    for_s: float
    lag_growth: int


class Silence:
    """Compares each look at a group with those before."""

    def __init__(self) -> None:
        self._since: dict[str, _Since] = {}

    def look(self, owned: Mapping[str, Mapping[TopicPartition, Position]], now_s: float) -> dict[str, Silent]:
        """The silent members; `owned` is member id -> the positions of its partitions.

        A member's time begins anew when its committed offsets or partitions change. `now_s` never goes back.
        """
        silent_members, kept = {}, {}
        for member, positions in owned.items():
            committed = {tp: position.committed for tp, position in positions.items()}
            ends = sum(position.end for position in positions.values())
            since = self._since.get(member)
            if since is None or since.committed != committed:
                since = _Since(now_s, committed, ends)
            kept[member] = since
            if ends > since.ends and now_s - since.at_s >= SILENT_S:
                silent_members[member] = Silent(member, now_s - since.at_s, ends - since.ends)
        self._since = kept
        return silent_members


@dataclass(frozen=True)
class _Since:
    at_s: float
    committed: Mapping[TopicPartition, int | None]
    ends: int  # sum of the end offsets
