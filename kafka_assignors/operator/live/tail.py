"""The coordinator's log of some groups, read on as it grows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ...connection import Right, needing
from ...errors import ClusterError
from ...history.coordinator_log import COORDINATOR_TOPIC, decode
from ...history.generations import Log, Logged
from .cluster import LiveCluster, group_of

_SILENT_S = 15
"""Seconds without a record after which the first reading gives up."""

MOST_READ = 1_000_000
"""Offsets of each partition of the log that are read at first, the last ones."""

_WAIT_MS = 1000
_MIN_BYTES = 1 << 20
"""How long a broker waits for so many new bytes: an answer to each commit of the groups would cost both sides more."""


class LogTail:
    """Reads the records of groups, first those in the log, then new ones; it joins no group and commits nothing.

    Args:
        cluster: The cluster, which stays open.
        groups: The groups.
        most: Offsets to read at first of each partition of the log, the last ones.

    Attributes:
        history: Group -> its records before the end that the log had at first.

    Raises:
        AccessRefused: The user may not read the log.
        ClusterError: The log does not exist yet, or the cluster stops responding.
    """

    def __init__(self, cluster: LiveCluster, groups: Sequence[str], most: int = MOST_READ) -> None:
        self._groups = frozenset(groups)
        self._connection = cluster.connection
        self._consumer = cluster.reader(
            fetch_max_wait_ms=_WAIT_MS, fetch_min_bytes=_MIN_BYTES, auto_offset_reset="earliest"
        )
        try:
            with self._needing():
                places = {cluster.coordinator_partition(self._consumer, group) for group in groups}
                self._consumer.assign(list(places))
                begins, ends = self._consumer.beginning_offsets(list(places)), self._consumer.end_offsets(list(places))
                first = {at: max(begin, ends[at] - most) for at, begin in begins.items()}
                for at, offset in first.items():
                    self._consumer.seek(at, offset)
            self.history = self._until(ends, whole=first == begins)
        except BaseException:
            self._consumer.close()
            raise

    def read(self, timeout_s: float) -> dict[str, list[Logged]]:
        """Group -> its new records; waits at most `timeout_s` seconds for the first.

        Raises:
            AccessRefused: The user may not read the log any more.
        """
        found: dict[str, list[Logged]] = {group: [] for group in self._groups}
        with self._needing():
            polled = self._consumer.poll(timeout_ms=int(1000 * timeout_s))
        for records in polled.values():
            for record in records:
                group = group_of(record.key)
                if group in found:
                    found[group].append(Logged(record.timestamp, decode(record.key, record.value)))
        return found

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _until(self, ends: Mapping[Any, int], *, whole: bool) -> dict[str, Log]:
        found: dict[str, list[Logged]] = {group: [] for group in self._groups}
        deadline = time.monotonic() + _SILENT_S
        at = dict.fromkeys(ends, -1)
        while any(at[place] < end for place, end in ends.items()):
            for group, records in self.read(0.5).items():
                found[group] += records
            now = {place: self._consumer.position(place) for place in ends}
            if now != at:
                deadline = time.monotonic() + _SILENT_S
            elif time.monotonic() > deadline:
                raise ClusterError(f"{COORDINATOR_TOPIC} returned no record for {_SILENT_S} s; are its leaders up?")
            at = now
        return {group: Log(tuple(records), whole) for group, records in found.items()}

    def _needing(self) -> AbstractContextManager[None]:
        return needing(self._connection, Right("Read", "Topic", COORDINATOR_TOPIC))
