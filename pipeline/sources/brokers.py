"""Describe the topics to read. The brokers are asked before Spark starts, because Spark's errors are stack traces."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import OffsetSpec
from kafka.structs import TopicPartition as KafkaTopicPartition

from kafka_assignors.connection import Connection, Right, denied, needing, require_access
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ClusterError, ConfigError
from kafka_assignors.history.coordinator_log import COORDINATOR_TOPIC

TIMEOUT_MS = 15_000
"""Timeout of a broker's answer, here and in Spark's consumers."""


ISOLATION = ("read_committed", "read_uncommitted")
"""Whether records of aborted transactions are read; the values of Kafka's ``isolation.level``."""

BLOCKS = 16
"""Number of evenly spread blocks of offsets in a sample of a topic-partition."""

Range = tuple[int, int]
"""The first offset, and the offset after the last."""


@dataclass(frozen=True)
class Part:
    """Bounds on the records to read; by default all are read.

    Args:
        since_ms: Start at the first record of each topic-partition with this or a later timestamp; wall clock.
        until_ms: Stop before the first record with this or a later timestamp; wall clock.
        offsets: Topic-partition -> first and last offset (inclusive; None: no bound).
        sample: Share of the offsets, above 0, at most 1.
        isolation: One of `ISOLATION`.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    offsets: Mapping[TopicPartition, tuple[int | None, int | None]] = field(default_factory=dict)
    sample: float = 1.0
    isolation: str = ISOLATION[0]


@dataclass(frozen=True)
class TopicSnapshot:
    """A snapshot of topics.

    `end` is the offset of the next record; with read_committed, that of the first one of an open transaction, if any.
    """

    cluster: str
    partitions: dict[str, int]  # topic -> partition count
    first: dict[TopicPartition, int] = field(default_factory=dict)  # the first existing offset
    end: dict[TopicPartition, int] = field(default_factory=dict)
    everywhere: dict[str, int] = field(default_factory=dict)  # partition counts of all topics except Kafka's own
    open: dict[TopicPartition, int] = field(default_factory=dict)  # offsets that an open transaction holds back, if any
    chosen: dict[TopicPartition, tuple[Range, ...]] | None = None  # the ranges to read, in order; None: all
    isolation: str = ISOLATION[0]
    sample: float = 1.0  # share of the wanted offsets to read

    @property
    def ranges(self) -> dict[TopicPartition, tuple[Range, ...]]:
        """The offset ranges to read, per topic-partition that has any."""
        if self.chosen is not None:
            return {tp: ranges for tp, ranges in self.chosen.items() if ranges}
        return {tp: ((self.first[tp], end),) for tp, end in self.end.items() if end > self.first[tp]}


def choose(first: int, end: int, bounds: Iterable[tuple[int | None, int | None]], sample: float) -> tuple[Range, ...]:
    """The offset ranges to read of one topic-partition, whose first offset and offset after the last are given.

    All `bounds` apply: first and last offsets (inclusive; None: no bound). `sample` is the share of the remaining
    offsets, above 0, at most 1; it includes the first and the last offset, in at most `BLOCKS` blocks of at least 1,000
    offsets. Ranges are not empty, and in order.

    >>> choose(10, 100, [(20, None), (None, 59)], 1)
    ((20, 60),)
    >>> choose(0, 30_000, [], 0.1)
    ((0, 1000), (14500, 15500), (29000, 30000))
    """
    for low, last in bounds:
        first, end = max(first, low or 0), end if last is None else min(end, last + 1)
    size = end - first
    if size <= 0:
        return ()
    wanted = math.ceil(size * sample)
    if wanted == size:
        return ((first, end),)
    blocks = max(1, min(BLOCKS, wanted // 1000))
    if blocks == 1:
        return ((end - wanted, end),)
    length = wanted // blocks
    starts = [first + (size - length) * i // (blocks - 1) for i in range(blocks)]
    return tuple((start, start + length) for start in starts)


def topics(
    bootstrap: str | Connection,
    names: Collection[str],
    *,
    may_be_empty: bool = False,
    option: str = "--topics",
    part: Part = Part(),
) -> TopicSnapshot:
    """Ask the brokers for topics. Errors name the `option` that named these.

    Raises:
        ConfigError: `part` names a nonexistent topic-partition.
        ClusterError: No broker answers; a topic is absent, has a partition without leader, or, unless `may_be_empty`,
            has no record.

    Cost: one connection, at most seven requests; at most `TIMEOUT_MS` if nobody answers.
    """
    with _asking(bootstrap) as client:
        descriptions = {t["name"]: t for t in client.describe_topics(list(names))}
        for name in names:
            with needing(Connection.of(bootstrap), Right("Read", "Topic", name)):
                _require_readable(name, descriptions.get(name, {}), option)
        partitions = {name: len(descriptions[name]["partitions"]) for name in names}
        tps = [KafkaTopicPartition(name, p) for name, count in partitions.items() for p in range(count)]
        first = client.list_partition_offsets(dict.fromkeys(tps, OffsetSpec.EARLIEST))
        high = client.list_partition_offsets(dict.fromkeys(tps, OffsetSpec.LATEST))
        latest = dict.fromkeys(tps, OffsetSpec.LATEST)
        end = client.list_partition_offsets(latest, isolation_level=part.isolation)
        if absent := part.offsets.keys() - set(tps):
            tp = min(absent)
            raise ConfigError(f"--offsets: {tp.topic}:{tp.partition} is not a topic-partition of {option}")
        dated = {
            ms: client.list_partition_offsets(dict.fromkeys(tps, ms)) if ms is not None else {}
            for ms in (part.since_ms, part.until_ms)
        }
        chosen = {TopicPartition(*tp): choose(first[tp].offset, end[tp].offset, _bounds(tp, part, dated), part.sample)
                  for tp in tps}  # fmt: skip
        for name, count in partitions.items():
            if not may_be_empty and not any(high[tp].offset > first[tp].offset for tp in tps if tp.topic == name):
                raise ClusterError(
                    f"{option}: {name!r} has {count} partitions but no records; remove it, or produce to it first"
                )
        everywhere = {t["name"]: len(t["partitions"]) for t in client.describe_topics() if not t.get("is_internal")}
        return TopicSnapshot(
            client.describe_cluster()["cluster_id"],
            partitions,
            {TopicPartition(*tp): first[tp].offset for tp in tps},
            {TopicPartition(*tp): end[tp].offset for tp in tps},
            everywhere,
            {TopicPartition(*tp): n for tp in tps if (n := high[tp].offset - end[tp].offset)},
            chosen,
            part.isolation,
            part.sample,
        )


def _bounds(
    tp: KafkaTopicPartition, part: Part, dated: Mapping[int | None, Mapping[KafkaTopicPartition, Any]]
) -> list[tuple[int | None, int | None]]:
    """First and last offsets. A broker answers -1 if no record has the timestamp or a later one."""
    bounds = [part.offsets.get(TopicPartition(*tp), (None, None))]
    if part.since_ms is not None:
        at = dated[part.since_ms][tp].offset
        bounds.append((at if at >= 0 else _NEVER, None))
    if part.until_ms is not None and (at := dated[part.until_ms][tp].offset) >= 0:
        bounds.append((None, at - 1))
    return bounds


_NEVER = 2**63 - 1
GROUP_PREFIX = "kafka-assignors"
"""Group id prefix of Spark's consumers. They never join or commit; but Spark's older way to fetch offsets looks up
commits, and needs the permission to do so."""


def coordinator_log(bootstrap: str | Connection) -> TopicSnapshot:
    """Describe ``__consumer_offsets``.

    Raises:
        ClusterError: No broker answers; the cluster never had a group.
        AccessRefused: The topic may not be read, or Spark may not look up commits of the group that it reads as.
    """
    snapshot = topics(bootstrap, [COORDINATOR_TOPIC], option="--group")
    reading_as = Right("Describe", "Group", f"{GROUP_PREFIX}-", prefixed=True)
    with _asking(bootstrap) as client, needing(Connection.of(bootstrap), reading_as):
        client.describe_groups([f"{GROUP_PREFIX}-"])
    return snapshot


@contextmanager
def _asking(bootstrap: str | Connection) -> Iterator[Any]:
    connection = Connection.of(bootstrap)
    require_access(connection)
    try:
        client = KafkaAdminClient(
            **{**connection.kafka_python(), "request_timeout_ms": TIMEOUT_MS}, bootstrap_timeout_ms=TIMEOUT_MS
        )
    except (kafka_errors.KafkaError, ValueError, OSError) as error:
        raise ClusterError(
            f"--bootstrap {str(bootstrap)!r}: no broker answered within {TIMEOUT_MS // 1000} s "
            f"({type(error).__name__}); is it running, and is its host:port correct?"
        ) from None
    try:
        yield client
    except kafka_errors.KafkaError as error:
        if (refused := denied(connection, error)) is not None:
            raise refused from None
        raise ClusterError(
            f"--bootstrap {str(bootstrap)!r}: {type(error).__name__} while requesting topics: {error}"
        ) from None
    finally:
        client.close()


def _require_readable(name: str, description: dict[str, object], option: str) -> None:
    code = description.get("error_code", 3)
    if code:
        why = kafka_errors.for_code(code)
        if why is kafka_errors.TopicAuthorizationFailedError:
            raise why(name)
        raise ClusterError(
            f"{option}: {name!r} cannot be read ({why.__name__}); is it spelled right, and was it created or deleted?"
        )
    rows: list[dict[str, int]] = description["partitions"]  # type: ignore[assignment]
    if leaderless := [p["partition_index"] for p in rows if p["leader_id"] < 0]:
        raise ClusterError(f"{option}: partitions {leaderless} of {name!r} have no leader; is a broker down?")
