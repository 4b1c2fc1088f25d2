"""What the brokers say about the topics to read, asked before Spark does: its own answer would be a stack trace."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import OffsetSpec
from kafka.structs import TopicPartition as KafkaTopicPartition

from kafka_assignors.core.coordlog import COORDINATOR_TOPIC
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError

TIMEOUT_MS = 15_000
"""How long a broker may take to answer, here and in Spark's consumers."""


@dataclass(frozen=True)
class Topics:
    """Topics as they were at one moment.

    Args:
        cluster: Cluster id.
        partitions: topic -> partition count.
        first: Topic-partition -> the first offset that is still there.
        end: Topic-partition -> the offset that the next record will have.
        everywhere: topic -> partition count of every topic of the cluster, Kafka's own left out.
    """

    cluster: str
    partitions: dict[str, int]
    first: dict[TopicPartition, int] = field(default_factory=dict)
    end: dict[TopicPartition, int] = field(default_factory=dict)
    everywhere: dict[str, int] = field(default_factory=dict)


def topics(bootstrap: str, names: Collection[str], *, may_be_empty: bool = False, option: str = "--topics") -> Topics:
    """Ask the brokers for topics.

    Args:
        bootstrap: ``host:port[,host:port]``.
        names: Topics.
        may_be_empty: A topic without a record is fine.
        option: The option that named them, for the errors.

    Raises:
        ConfigError: No broker answers; a topic is absent, has a partition without leader, or, unless it `may_be_empty`,
            holds no record.

    Cost: one connection, four requests; at most `TIMEOUT_MS` when nobody answers.
    """
    with _asking(bootstrap) as client:
        found = {t["name"]: t for t in client.describe_topics(list(names))}
        for name in names:
            _require_readable(name, found.get(name, {}), option)
        partitions = {name: len(found[name]["partitions"]) for name in names}
        tps = [KafkaTopicPartition(name, p) for name, count in partitions.items() for p in range(count)]
        first = client.list_partition_offsets(dict.fromkeys(tps, OffsetSpec.EARLIEST))
        end = client.list_partition_offsets(dict.fromkeys(tps, OffsetSpec.LATEST))
        for name, count in partitions.items():
            if not may_be_empty and not any(end[tp].offset > first[tp].offset for tp in tps if tp.topic == name):
                raise ConfigError(
                    f"{option}: {name!r} has {count} partitions and no record; leave it out, or produce to it first"
                )
        everywhere = {t["name"]: len(t["partitions"]) for t in client.describe_topics() if not t.get("is_internal")}
        return Topics(
            client.describe_cluster()["cluster_id"],
            partitions,
            {TopicPartition(*tp): first[tp].offset for tp in tps},
            {TopicPartition(*tp): end[tp].offset for tp in tps},
            everywhere,
        )


def coordinator_log(bootstrap: str) -> Topics:
    """The topic that tells what groups did.

    Raises:
        ConfigError: No broker answers; no group has ever been here, or its topic may not be read.
    """
    return topics(bootstrap, [COORDINATOR_TOPIC], option="--group")


@contextmanager
def _asking(bootstrap: str) -> Iterator[Any]:
    try:
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap.split(","), bootstrap_timeout_ms=TIMEOUT_MS, request_timeout_ms=TIMEOUT_MS
        )
    except (kafka_errors.KafkaError, ValueError, OSError) as error:
        raise ConfigError(
            f"--bootstrap {bootstrap!r}: no broker answered within {TIMEOUT_MS // 1000} s "
            f"({type(error).__name__}); is it running, and is this its host:port?"
        ) from None
    try:
        yield client
    except kafka_errors.KafkaError as error:
        raise ConfigError(
            f"--bootstrap {bootstrap!r}: {type(error).__name__} while asking for topics: {error}"
        ) from None
    finally:
        client.close()


def _require_readable(name: str, said: dict[str, object], option: str) -> None:
    code = said.get("error_code", 3)
    if code:
        why = kafka_errors.for_code(code)
        raise ConfigError(
            f"{option}: {name!r} cannot be read ({why.__name__}); is it spelled right, and was it created or deleted?"
        )
    rows: list[dict[str, int]] = said["partitions"]  # type: ignore[assignment]
    if leaderless := [p["partition_index"] for p in rows if p["leader_id"] < 0]:
        raise ConfigError(f"{option}: partitions {leaderless} of {name!r} have no leader; is a broker down?")
