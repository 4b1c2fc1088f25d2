"""The coordinator's log of some groups, read from a cluster: first what it holds, then as it grows.

Nothing here joins a group or commits. kafka-python's errors pass through. Permission: Read on ``__consumer_offsets``.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError

from .connection import Connection, Right, needing
from .errors import ClusterError, NoSuchGroup
from .history.coordinator_log import COORDINATOR_TOPIC, decode, group_of, partition_of
from .history.generations import Log, Logged

_SILENT_S = 15
"""Seconds without a record after which the first reading gives up."""

MOST_READ = 1_000_000
"""Offsets of each partition of the log that are read at first, the last ones."""

_FOLLOWING: Mapping[str, int] = {"fetch_max_wait_ms": 1000, "fetch_min_bytes": 1 << 20}
"""How long a broker waits for so many new bytes: an answer to each commit of the groups would cost both sides more."""

_WHOLE_FETCH = 1_000_000
"""Records per poll. A fetch ends with a whole batch, and the coordinator writes each decision as a batch: with a lower
limit, a poll could end with a member's new subscription, and without the epoch that it caused."""


def log_consumer(connection: Connection, **settings: Any) -> KafkaConsumer:
    """A consumer for the coordinator's log; without a group id it neither joins nor commits."""
    ours: dict[str, Any] = {
        "group_id": None, "enable_auto_commit": False, "exclude_internal_topics": False,
        "allow_auto_create_topics": False, "metrics_enabled": False, "max_poll_records": _WHOLE_FETCH,
        "fetch_max_wait_ms": 100,  # it bounds how long a close takes
        "isolation_level": "read_committed",  # commits in a transaction count once it is committed
    }  # fmt: skip
    return KafkaConsumer(**connection.kafka_python(), **{**ours, **settings})


def log_partition(consumer: KafkaConsumer, connection: Connection, group: str) -> KafkaTopicPartition | None:
    """The partition of the coordinator's log that has a group's records; None: there is no log yet.

    Raises:
        AccessRefused: The user may not see the log, which therefore looks absent to a consumer.
    """
    if partitions := consumer.partitions_for_topic(COORDINATOR_TOPIC):
        return KafkaTopicPartition(COORDINATOR_TOPIC, partition_of(group, len(partitions)))
    with reading_log(connection), closing(KafkaAdminClient(**connection.kafka_python())) as admin:
        try:
            (topic,) = admin.describe_topics([COORDINATOR_TOPIC])
        except UnknownTopicOrPartitionError:  # nobody has looked for a coordinator yet
            return None
        if topic["error_code"] == TopicAuthorizationFailedError.errno:
            raise TopicAuthorizationFailedError(COORDINATOR_TOPIC)
    return None


def printed_id(topic_id: Any) -> str:
    """A topic's id as Kafka prints it, and as records of KIP-848 groups have it."""
    data = topic_id.bytes if isinstance(topic_id, uuid.UUID) else uuid.UUID(str(topic_id)).bytes
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def reading_log(connection: Connection) -> AbstractContextManager[None]:
    """A refusal in this context becomes `AccessRefused`, with the right that reading the log takes."""
    return needing(connection, Right("Read", "Topic", COORDINATOR_TOPIC))


class LogTail:
    """Reads the records of groups, first those in the log, then new ones.

    Args:
        most: Offsets to read at first of each partition of the log, the last ones.
        progress: Called with the share of the first reading that is done, 0 to 1.
        follow: It goes on for long: brokers answer once a second, not at once.

    Attributes:
        history: Group -> its records when its first reading was done.

    Raises:
        AccessRefused: The user may not read the log.
        NoSuchGroup: The log does not exist yet.
        ClusterError: The cluster stops responding.

    Cost: reads the partitions of ``__consumer_offsets`` that have these groups, other groups' records included.
    """

    def __init__(
        self,
        connection: Connection,
        groups: Sequence[str],
        most: int = MOST_READ,
        progress: Callable[[float], None] | None = None,
        *,
        follow: bool = False,
    ) -> None:
        self._groups = frozenset(groups)
        self._connection = connection
        self._from: dict[str, int] = {}  # group that came later -> the offset that its first reading ended at
        self._consumer = log_consumer(connection, auto_offset_reset="earliest", **(_FOLLOWING if follow else {}))
        try:
            with reading_log(connection):
                partitions = list({self._partition(group) for group in groups})
                self._consumer.assign(partitions)
                begins, ends = self._consumer.beginning_offsets(partitions), self._consumer.end_offsets(partitions)
                firsts = {tp: max(begin, ends[tp] - most) for tp, begin in begins.items()}
                for tp, offset in firsts.items():
                    self._consumer.seek(tp, offset)
            records = self._until(firsts, ends, progress)
            self.history = {group: Log(tuple(records[group]), firsts == begins) for group in records}
        except BaseException:
            self._consumer.close()
            raise

    def read(self, timeout_s: float) -> dict[str, list[Logged]]:
        """Group -> its new records; waits at most `timeout_s` seconds for the first.

        Raises:
            AccessRefused: The user may not read the log any more.
        """
        records: dict[str, list[Logged]] = {group: [] for group in self._groups}
        with reading_log(self._connection):
            polled = self._consumer.poll(timeout_ms=int(1000 * timeout_s))
        for batch in polled.values():
            for record in batch:
                group = group_of(record.key)
                if group in records and record.offset >= self._from.get(group, 0):
                    records[group].append(Logged(record.timestamp, decode(record.key, record.value)))
        return records

    def follow(self, groups: Collection[str], most: int = MOST_READ) -> None:
        """Follow exactly these groups from now on; `history` then has the records so far of those that are new.

        `most` is the number of offsets to read for these of each partition of the log, the last ones.

        Raises:
            AccessRefused, NoSuchGroup, ClusterError: As in the beginning; the groups are then those before.

        Cost: reads the partitions of the new groups again.
        """
        new = [group for group in groups if group not in self._groups]
        if new:
            with closing(LogTail(self._connection, new, most)) as earlier, reading_log(self._connection):
                places = {group: earlier._partition(group) for group in new}
                ends = {tp: earlier._consumer.position(tp) for tp in earlier._consumer.assignment()}
                ours = {tp: self._consumer.position(tp) for tp in self._consumer.assignment()}
                self._consumer.assign([*ours, *(tp for tp in ends if tp not in ours)])
                for tp, offset in {**ends, **ours}.items():
                    self._consumer.seek(tp, offset)
                self._from |= {group: ends[tp] for group, tp in places.items()}
                self.history |= earlier.history
        self._groups = frozenset(groups)
        self._from = {group: offset for group, offset in self._from.items() if group in self._groups}
        self.history = {group: log for group, log in self.history.items() if group in self._groups}

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _partition(self, group: str) -> KafkaTopicPartition:
        partition = log_partition(self._consumer, self._connection, group)
        if partition is None:
            raise NoSuchGroup(
                f"{self._connection} has no group {group!r}, and no {COORDINATOR_TOPIC}: no group ever joined there"
            )
        return partition

    def _until(
        self,
        firsts: Mapping[KafkaTopicPartition, int],
        ends: Mapping[KafkaTopicPartition, int],
        progress: Callable[[float], None] | None,
    ) -> dict[str, list[Logged]]:
        records: dict[str, list[Logged]] = {group: [] for group in self._groups}
        deadline = time.monotonic() + _SILENT_S
        positions = dict(firsts)
        while behind := [tp for tp, end in ends.items() if positions[tp] < end]:
            if progress is not None:
                done = sum(min(positions[tp], ends[tp]) - first for tp, first in firsts.items())
                progress(done / sum(ends[tp] - first for tp, first in firsts.items()))
            for group, more in self.read(0.5).items():
                records[group] += more
            before, positions = positions, {tp: self._consumer.position(tp) for tp in ends}
            if positions != before:
                deadline = time.monotonic() + _SILENT_S
            elif time.monotonic() > deadline:
                silent = ", ".join(f"{tp.topic}-{tp.partition}: offset {positions[tp]} of {ends[tp]}" for tp in behind)
                raise ClusterError(f"no record of {silent} came for {_SILENT_S} s; are the leaders up?")
        return records
