"""The partitioners for confluent-kafka, whose own are C functions to be named, and never Python.

>>> from producers import RoundRobinPartitioner
>>> with_python = {"bootstrap.servers": "localhost:9092"}, RoundRobinPartitioner()
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError
from typing import Any, NamedTuple

from .checked import CheckedPartitioner, is_partitioner
from .errors import ClientMissing, ConfigError
from .keyhash import DefaultPartitioner, KeyHashPartitioner, UniformPartitioner
from .partitioners import RandomPartitioner

try:
    from confluent_kafka import KafkaError, KafkaException, Producer
    from confluent_kafka.admin import AdminClient
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "confluent_kafka":
        raise
    raise ClientMissing(
        "producers.confluent needs confluent-kafka: pip install 'kafka-assignors[confluent]'", name="confluent_kafka"
    ) from missing

ANY = -1
"""confluent-kafka's way to name no partition (librdkafka's ``RD_KAFKA_PARTITION_UA``)."""

_TWINS = {
    "java": "murmur2_random",
    "librdkafka-murmur2": "murmur2_random",
    "librdkafka": "consistent_random",
    "sarama": "fnv1a_random",
    "fnv1a": "fnv1a_random",
}
# What a second client needs to reach the same cluster.
_CONNECTING = (
    "bootstrap.servers",
    "metadata.broker.list",
    "client.id",
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl.",
    "oauth_cb",
    "socket.",
    "broker.address.",
    "log_level",
    "logger",
)


def native_twin(partitioner: CheckedPartitioner) -> str | None:
    """The name of librdkafka's partitioner that places exactly alike, or None.

    Only partitioners that place records without a key at random have one: librdkafka knows nothing else (with its
    sticky interval off). A source of random numbers, a hook or counters of the user's need Python.
    """
    if not getattr(partitioner, "plain", False):
        return None
    if type(partitioner) is RandomPartitioner:
        return "random"
    if type(partitioner) in (DefaultPartitioner, KeyHashPartitioner) and partitioner.null_keys == "random":
        return _TWINS.get(partitioner.preset)
    return None


class PartitioningProducer(Producer):
    """A confluent-kafka ``Producer`` whose records a partitioner of this package places; all else is untouched.

    Args:
        config: As for ``Producer``, without ``partitioner``.
        partitioner: `DefaultPartitioner` by default: Java's placement. Where librdkafka has a twin (`native_twin`) it
            is used, and Python is not asked; attribute `native` has its name. Else the partition is chosen here and
            passed on as ``produce(partition=...)``.
        metadata_max_age_ms: Leaders and partition counts are asked for again after so long (one ``list_topics`` a
            topic, in a thread beside), and at once when librdkafka does not know the partition.
        metadata_timeout_ms: The longest that a ``produce`` waits for a topic that is not known yet.

    An adaptive `UniformPartitioner` counts backlog by itself, as fast as ``poll`` serves delivery callbacks.

    Raises:
        ConfigError: An argument that cannot work, or ``partitioner`` in `config`.
        InvalidPartition, NoPartitions: From ``produce``, see `CheckedPartitioner`.
        KafkaException: From ``produce``: the cluster did not answer and nothing is known of the topic yet.

    Cost: about 2 µs a record beside the partitioner; nothing with a twin.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        partitioner: CheckedPartitioner | None = None,
        *,
        metadata_max_age_ms: float = 30_000,
        metadata_timeout_ms: float = 10_000,
    ) -> None:
        chooser = DefaultPartitioner() if partitioner is None else partitioner
        if not is_partitioner(chooser):
            raise ConfigError(f"partitioner must be a partitioner of this package, not {chooser!r}")
        if "partitioner" in config:
            raise ConfigError(
                f"config names partitioner={config['partitioner']!r} of librdkafka; leave it out or use Producer"
            )
        for name, value in (("metadata_max_age_ms", metadata_max_age_ms), ("metadata_timeout_ms", metadata_timeout_ms)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise ConfigError(f"{name} must be a number above 0, not {value!r}")
        self.partitioner = chooser
        self.native = native_twin(chooser)
        settings = dict(config)
        if self.native is not None:
            settings = {"sticky.partitioning.linger.ms": 0, **settings, "partitioner": self.native}
        super().__init__(settings)
        adaptive = isinstance(chooser, UniformPartitioner) and chooser.adaptive
        if isinstance(chooser, UniformPartitioner) and adaptive:
            chooser.counts_sends()
        self._sent: Callable[[str, int, int], Callable[..., None]] | None = chooser.sent if adaptive else None
        racks = _Racks(settings) if chooser.sees_leaders else None
        self.cluster = Cluster(self, racks, metadata_max_age_ms / 1000, metadata_timeout_ms / 1000)

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = ANY,
        callback: Callable[[Any, Any], None] | None = None,
        on_delivery: Callable[[Any, Any], None] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """As ``Producer.produce``; without `partition` the partitioner chooses."""
        report = on_delivery or callback

        def send(where: int, heard: Callable[[Any, Any], None] | None) -> None:
            super(PartitioningProducer, self).produce(
                topic, value, key, where, on_delivery=heard, timestamp=timestamp, headers=headers
            )

        if self.native is not None or partition != ANY:
            send(partition, report)
            return
        key_bytes, value_bytes = _bytes(key), _bytes(value)
        self.cluster.learn(topic)
        for attempt in (1, 2):
            chosen = self.partitioner.partition(topic, key, key_bytes, value, value_bytes, self.cluster)
            done = (
                None
                if self._sent is None
                else self._sent(topic, chosen, len(key_bytes or b"") + len(value_bytes or b""))
            )
            try:
                send(chosen, report if done is None else _both(done, report))
                return
            except KafkaException as refused:
                if done is not None:
                    done()
                if attempt == 2 or refused.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise
                self.cluster.refresh(topic)  # librdkafka learns of it too
            except BaseException:
                if done is not None:
                    done()
                raise


class _Leader(NamedTuple):
    leader_id: int


class _Broker(NamedTuple):
    host: str
    rack: str | None


class Cluster:
    """What is known of the topics, in the words of kafka-python's ``ClusterMetadata``, which partitioners speak.

    Args:
        producer: Whose ``list_topics`` is asked.
        racks: Where racks are known from: ``list_topics`` does not tell them. None: nobody wants to know.
        max_age_s, timeout_s: See `PartitioningProducer`.
    """

    def __init__(self, producer: Producer, racks: _Racks | None, max_age_s: float, timeout_s: float) -> None:
        self._producer = weakref.ref(producer)  # the producer has this: a circle would keep it connected for long
        self._racks = racks
        self._max_age_s, self._timeout_s = max_age_s, timeout_s
        self._partitions: dict[str, dict[int, _Leader]] = {}
        self._due: dict[str, float] = {}  # topic -> when to ask again
        self._brokers: dict[int, _Broker] = {}
        self._lock = threading.Lock()
        self.asked = 0  # times list_topics was called

    def learn(self, topic: str) -> None:
        """Ask for the topic: at once, and waiting, when nothing is known of it; beside the sender when that is old.

        Raises:
            KafkaException: No answer, and nothing is known.
        """
        if time.monotonic() < self._due.get(topic, 0):
            return
        if topic in self._partitions:
            # A broker that stalls keeps an answer for long: who sends goes on with what is known.
            self._due[topic] = time.monotonic() + self._timeout_s
            threading.Thread(target=self._renew, args=(topic,), daemon=True, name=f"metadata of {topic}").start()
            return
        with self._lock:
            if topic in self._partitions:  # another thread has asked
                return
            deadline, pause = time.monotonic() + self._timeout_s, threading.Event()
            while True:
                self._ask(topic, self._timeout_s)
                if topic in self._partitions or time.monotonic() >= deadline:
                    return
                pause.wait(0.1)  # never set: a topic just made is not known everywhere at once

    def _renew(self, topic: str) -> None:
        try:
            self._ask(topic, self._timeout_s)  # without the lock, for which the sender of a new topic may wait
        except KafkaException:
            self._due[topic] = time.monotonic() + 1  # what is known has to do; librdkafka itself keeps trying

    def refresh(self, topic: str) -> None:
        """Ask for the topic now.

        Raises:
            KafkaException: No answer.
        """
        with self._lock:
            self._ask(topic, self._timeout_s)

    def _ask(self, topic: str, timeout_s: float) -> None:
        self.asked += 1
        producer = self._producer()
        if producer is None:  # only someone who kept the cluster alone gets here
            return
        answer = producer.list_topics(topic, timeout=timeout_s)
        found = answer.topics[topic].partitions
        racks = self._racks.last_heard(timeout_s) if self._racks is not None else {}
        self._brokers = {b.id: _Broker(b.host, racks.get(b.id)) for b in answer.brokers.values()}
        if found:
            # One step: a partitioner must not see half of a change.
            self._partitions[topic] = {p.id: _Leader(p.leader) for p in found.values()}
            rackless = self._racks is not None and any(p.leader not in racks for p in found.values())
            self._due[topic] = time.monotonic() + (min(1, self._max_age_s) if rackless else self._max_age_s)
        else:
            self._partitions.pop(topic, None)
            self._due.pop(topic, None)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Ids of all partitions; None for a topic that is not known."""
        known = self._partitions.get(topic)
        return set(known) if known is not None else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Ids of those with a leader."""
        known = self._partitions.get(topic)
        return None if known is None else {p for p, leader in known.items() if leader.leader_id != -1}

    def leader_for_partition(self, partition: Any) -> int | None:
        """Broker id; -1 without a leader, None for a partition that is not known."""
        known = self._partitions.get(partition.topic, {}).get(partition.partition)
        return None if known is None else known.leader_id

    def broker_metadata(self, broker_id: int) -> _Broker | None:
        """Host and rack of a broker."""
        return self._brokers.get(broker_id)

    def request_update(self) -> _Answered:
        """Ask for all known topics at once: what ``policy="refresh"`` waits for."""
        for topic in list(self._partitions):
            try:
                self.refresh(topic)
            except KafkaException:
                continue  # the one who waits has a deadline
        return _Answered()


class _Answered:
    """A future that is over."""

    def add_both(self, heard: Callable[..., object]) -> None:
        heard(None)


class _Racks:
    """Broker id -> rack, by an admin client of its own: only ``describe_cluster`` tells racks."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {name: value for name, value in config.items() if name.startswith(_CONNECTING)}
        self._admin: AdminClient | None = None
        self._asked: Any = None  # the future of the question under way
        self._known: dict[int, str | None] = {}

    def last_heard(self, timeout_s: float) -> Mapping[int, str | None]:
        """Racks as far as they are known; asks for them, and waits for the first answer alone.

        A question that went to a broker just when it died or stalled is answered late or never, and racks hardly ever
        change: the answer is taken when this is called the next time.

        Raises:
            KafkaException: The first answer did not come.
        """
        self._admin = self._admin or AdminClient(self._config)
        asked = self._asked or self._admin.describe_cluster(request_timeout=timeout_s)
        self._asked = None
        try:
            nodes = asked.result(0 if self._known else timeout_s + 1).nodes
        except TimeoutError:
            self._asked = asked
            if not self._known:
                raise KafkaException(
                    KafkaError(KafkaError._TIMED_OUT, "no answer that tells the brokers' racks")
                ) from None
        except KafkaException:
            if not self._known:
                raise
        else:  # a broker that is away keeps its rack
            self._known = {**self._known, **{node.id: node.rack for node in nodes}}
        return self._known


def _bytes(data: Any) -> bytes | None:
    """As confluent-kafka turns keys and values into bytes."""
    return data.encode() if isinstance(data, str) else data


def _both(done: Callable[..., None], report: Callable[[Any, Any], None] | None) -> Callable[[Any, Any], None]:
    def heard(error: Any, message: Any) -> None:
        done()
        if report is not None:
            report(error, message)

    return heard
