"""The partitioners for confluent-kafka, whose own are C functions to be named, and never Python.

>>> from kafka_assignors.producers import RoundRobinPartitioner
>>> with_python = {"bootstrap.servers": "localhost:9092"}, RoundRobinPartitioner()
"""

from __future__ import annotations

import operator
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError
from itertools import chain
from typing import Any, NamedTuple

from .errors import ClientMissing, ConfigError, NoPartitions, NotAuthorized
from .partitioners.default import DefaultPartitioner
from .partitioners.interface.partitioner import CheckedPartitioner, is_partitioner, undo_by, with_fallbacks
from .partitioners.interface.record import Record
from .partitioners.key_hash import KeyHashPartitioner
from .partitioners.random import RandomPartitioner
from .partitioners.uniform import UniformPartitioner, counting_backlog

try:
    from confluent_kafka import KafkaError, KafkaException, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.error import KeySerializationError, ValueSerializationError
    from confluent_kafka.serialization import MessageField, SerializationContext
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "confluent_kafka":
        raise
    raise ClientMissing(
        "kafka_assignors.producers.confluent needs confluent-kafka: pip install 'kafka-assignors[confluent]'",
        name="confluent_kafka",
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
# The settings that a second client needs to reach the same cluster.
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
        config: As for ``Producer``, without ``partitioner``. ``key.serializer`` and ``value.serializer`` work as with
            confluent-kafka's ``SerializingProducer``; the partitioner sees keys and values before and after them.
        partitioner: `DefaultPartitioner` by default: Java's placement. Where librdkafka has a twin (`native_twin`) it
            is used, and Python is not asked; attribute `native` has its name. Else the partition is chosen here and
            passed on as ``produce(partition=...)``.
        metadata_max_age_ms: Leaders and partition counts are asked for again after so long (one ``list_topics`` a
            topic, in a thread beside), and at once when librdkafka does not know the partition.
        metadata_timeout_ms: The longest that a ``produce`` waits for a topic that is not known yet.

    An adaptive `UniformPartitioner` counts backlog by itself, as fast as ``poll`` serves delivery callbacks. A record
    that librdkafka does not take (``BufferError``: its queue is full) leaves no trace in the partitioner.

    ``AIOProducer`` makes a ``Producer`` of its own, which no partitioner of this package can reach. Use
    `producers.aiokafka`, or give ``AIOProducer.produce(partition=...)`` what `producers.partition_for_key`
    answers.

    Raises:
        ConfigError: An argument that cannot work, or ``partitioner`` or a serializer's builder in `config`.
        InvalidPartition, NoPartitions, NotAuthorized: From ``produce``, see `CheckedPartitioner`.
        KafkaException: From ``produce``: the cluster did not answer and nothing is known of the topic yet.
        KeySerializationError, ValueSerializationError: From ``produce``: a serializer raised.

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
        for name, value in (("metadata_max_age_ms", metadata_max_age_ms), ("metadata_timeout_ms", metadata_timeout_ms)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise ConfigError(f"{name} must be a number above 0, not {value!r}")
        settings = _validated(config)
        serializers = _Serializers(settings.pop("key.serializer", None), settings.pop("value.serializer", None))
        self._serializers = None if serializers == (None, None) else serializers
        self.partitioner = chooser
        self.native = native_twin(chooser)
        if self.native is not None:
            settings = {"sticky.partitioning.linger.ms": 0, **settings, "partitioner": self.native}
        uniform = counting_backlog(chooser)
        self._reports = None if uniform is None else _Reports(uniform, settings)
        super().__init__(settings)
        needs_racks = any(getattr(each, "needs_leaders", False) for each in with_fallbacks(chooser))
        racks = _Racks(settings) if needs_racks else None
        self.cluster = Cluster(self, racks, metadata_max_age_ms / 1000, metadata_timeout_ms / 1000)

    # The parameters are those of confluent-kafka's method.
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
        report, reports = callback or on_delivery, self._reports
        ready = (key, value) if self._serializers is None else self._serializers(topic, key, value, headers)
        key_ready, value_ready = ready
        if self.native is not None or partition != ANY:
            if reports is not None:
                report = reports.heard(_nothing, report)
            super().produce(topic, value_ready, key_ready, partition, report, None, timestamp, headers)
            return
        key_bytes, value_bytes = _bytes(key_ready), _bytes(value_ready)
        for attempt in (1, 2):
            self.cluster.learn(topic)
            chosen = self.partitioner.partition(topic, key, key_bytes, value, value_bytes, self.cluster)
            heard, done = report, _nothing
            if reports is not None:
                done = reports.sent(topic, chosen, len(key_bytes or b"") + len(value_bytes or b""))
                heard = reports.heard(done, report)
            try:
                super().produce(topic, value_ready, key_ready, chosen, heard, None, timestamp, headers)
                return
            except BaseException as refused:
                done()
                undo_by(self.partitioner, Record(topic, key, key_bytes, value, value_bytes, self.cluster), chosen)()
                if attempt == 2 or not _unknown_partition(refused):
                    raise
                self.cluster.refresh(topic)  # librdkafka learns of it too

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = ANY,
        callback: Callable[[Any, Any], None] | None = None,
        on_delivery: Callable[[Any, Any], None] | None = None,
    ) -> int:
        """As ``Producer.produce_batch``; the partitioner chooses for each message that names no partition.

        Messages of one partition keep their order. A partition that a message names is used; confluent-kafka 2.16
        documents that, but ignores it.
        """
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            return super().produce_batch(topic, messages, partition)  # type: ignore[no-any-return]  # it tells what is wrong
        sent: dict[int, list[_InBatch]] = {}
        try:
            for message in messages:
                placed, where = self._place(topic, message, partition, callback or on_delivery)
                sent.setdefault(where, []).append(placed)
            return sum(self._send_batch(topic, sent.pop(where), where) for where in list(sent))
        except BaseException:
            for placed in chain.from_iterable(sent.values()):
                placed.undo()
            raise

    def _place(
        self, topic: str, message: dict[str, Any], default: int, report: Callable[[Any, Any], None] | None
    ) -> tuple[_InBatch, int]:
        """One message of a batch as librdkafka shall get it, and its partition."""
        key, value, named = message.get("key"), message.get("value"), message.get("partition")
        ours = {name: data for name, data in message.items() if name not in ("_error", "partition")}
        if self._serializers is not None:
            ours["key"], ours["value"] = self._serializers(topic, key, value, message.get("headers"))
        report, done = message.get("callback") or report, _nothing
        undo: Callable[[], None] = _nothing
        where = default if named is None else operator.index(named)
        chosen = self.native is None and where == ANY
        key_bytes, value_bytes = _bytes(ours.get("key")), _bytes(ours.get("value"))
        if chosen:
            self.cluster.learn(topic)
            record = Record(topic, key, key_bytes, value, value_bytes, self.cluster)
            where = self.partitioner.partition(*record)
            undo = undo_by(self.partitioner, record, where)
        if self._reports is not None:
            if chosen:
                done = self._reports.sent(topic, where, len(key_bytes or b"") + len(value_bytes or b""))
            report = self._reports.heard(done, report)
        ours["callback"] = report
        return _InBatch(message, ours, chosen, done, undo), where

    def _send_batch(self, topic: str, batch: list[_InBatch], where: int) -> int:
        try:
            taken: int = super().produce_batch(topic, [placed.ours for placed in batch], where)
        except BaseException:
            for placed in batch:
                placed.undo()
            raise
        for placed in batch:
            error = placed.ours.get("_error")
            if error is not None:
                placed.message["_error"] = error
                placed.undo()
                if placed.chosen and error.code() == KafkaError._UNKNOWN_PARTITION:
                    self.cluster.doubt(topic)  # otherwise a retry would get the same error
        return taken


class _InBatch(NamedTuple):
    """One message of a batch."""

    message: dict[str, Any]  # the caller's
    ours: dict[str, Any]
    chosen: bool  # by a partitioner of ours
    done: Callable[..., None]
    taken_back: Callable[[], None]

    def undo(self) -> None:
        """The message was not taken by librdkafka."""
        self.done()
        self.taken_back()


def _validated(config: Mapping[str, Any]) -> dict[str, Any]:
    if "partitioner" in config:
        raise ConfigError(
            f"config names partitioner={config['partitioner']!r} of librdkafka; leave it out or use Producer"
        )
    for name in ("key.serializer", "value.serializer"):
        if f"{name}.builder" in config:
            raise ConfigError(
                f"config has {name}.builder, which works with SerializingProducer alone; give {name} instead"
            )
        if config.get(name) is not None and not callable(config[name]):
            raise ConfigError(f"{name} must be callable with (object, SerializationContext), not {config[name]!r}")
    return dict(config)


class _Serializers(NamedTuple):
    """The serialization that ``SerializingProducer`` does before it produces."""

    key: Callable[[Any, Any], Any] | None
    value: Callable[[Any, Any], Any] | None

    def __call__(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[Any, Any]:
        """Key and value as librdkafka takes them."""
        if self.key is not None:
            try:
                key = self.key(key, SerializationContext(topic, MessageField.KEY, headers))
            except Exception as problem:
                raise KeySerializationError(problem) from problem
        if self.value is not None:
            try:
                value = self.value(value, SerializationContext(topic, MessageField.VALUE, headers))
            except Exception as problem:
                raise ValueSerializationError(problem) from problem
        return key, value


class _Reports:
    """Delivery reports of a producer that counts backlog: the partitioner hears of all, the user as configured.

    Args:
        uniform: Counts backlog.
        settings: The producer's settings. Those about reports are removed: with them librdkafka would withhold some.
    """

    def __init__(self, uniform: UniformPartitioner, settings: dict[str, Any]) -> None:
        self.sent = uniform.sent
        self._default: Callable[[Any, Any], None] | None = settings.pop("on_delivery", None)
        if self._default is not None and not callable(self._default):
            raise ConfigError(f"on_delivery must be callable with (error, message), not {self._default!r}")
        self._only_errors = settings.pop("delivery.report.only.error", False)
        if not isinstance(self._only_errors, bool):
            raise ConfigError(f"delivery.report.only.error must be True or False, not {self._only_errors!r}")

    def heard(self, done: Callable[..., None], report: Callable[[Any, Any], None] | None) -> Callable[[Any, Any], None]:
        """The report for librdkafka."""
        report = report or self._default

        def heard(error: Any, message: Any) -> None:
            done()
            if report is not None and (error is not None or not self._only_errors):
                report(error, message)

        return heard


def _unknown_partition(refused: BaseException) -> bool:
    return isinstance(refused, KafkaException) and refused.args[0].code() == KafkaError._UNKNOWN_PARTITION


def _nothing(*_: object) -> None:
    pass


class _Leader(NamedTuple):
    leader_id: int


class _Broker(NamedTuple):
    host: str
    rack: str | None


class Cluster:
    """Metadata of the topics, behind the interface of kafka-python's ``ClusterMetadata``, which partitioners use.

    Args:
        producer: Whose ``list_topics`` is asked.
        racks: The source of racks, which ``list_topics`` does not return; None: no partitioner needs them.
        max_age_s, timeout_s: See `PartitioningProducer`.
    """

    def __init__(self, producer: Producer, racks: _Racks | None, max_age_s: float, timeout_s: float) -> None:
        self._producer = weakref.ref(producer)  # the producer has this: a circle would keep it connected for long
        self._racks = racks
        self._max_age_s, self._timeout_s = max_age_s, timeout_s
        self._partitions: dict[str, dict[int, _Leader]] = {}
        self._due: dict[str, float] = {}  # topic -> when to ask again
        self._brokers: dict[int, _Broker] = {}
        self._locks: dict[str, threading.Lock] = {}  # topic -> see `_lock`
        self.asked = 0  # times list_topics was called

    def learn(self, topic: str) -> None:
        """Ask for the topic: at once, and waiting, when nothing is known of it; beside the sender when that is old.

        Raises:
            KafkaException: No answer, and nothing is known.
            NoPartitions: The name cannot be a topic's; NotAuthorized: the cluster refuses to describe the topic.
        """
        if time.monotonic() < self._due.get(topic, 0):
            return
        if topic in self._partitions:
            # A broker that stalls answers late: meanwhile the sender uses the metadata it has.
            self._due[topic] = time.monotonic() + self._timeout_s
            threading.Thread(target=self._renew, args=(topic,), daemon=True, name=f"metadata of {topic}").start()
            return
        with self._lock(topic):
            if topic in self._partitions:  # another thread has asked
                return
            deadline, pause = time.monotonic() + self._timeout_s, threading.Event()
            while True:
                self._ask(topic, self._timeout_s)
                if topic in self._partitions or time.monotonic() >= deadline:
                    return
                pause.wait(0.1)  # never set: a topic just made is not known everywhere at once

    def _lock(self, topic: str) -> threading.Lock:
        """Held while one thread asks for the topic: senders of other topics never wait for it."""
        return self._locks.setdefault(topic, threading.Lock())

    def _renew(self, topic: str) -> None:
        try:
            self._ask(topic, self._timeout_s)  # without the lock, for which the sender of a new topic may wait
        except KafkaException:
            self._due[topic] = time.monotonic() + 1  # the old metadata has to do; librdkafka itself keeps trying
        except NoPartitions:
            pass  # the topic is forgotten: the next sender asks, and gets the error

    def refresh(self, topic: str) -> None:
        """Ask for the topic now.

        Raises:
            KafkaException: No answer.
            NoPartitions: See `learn`.
        """
        with self._lock(topic):
            self._ask(topic, self._timeout_s)

    def doubt(self, topic: str) -> None:
        """Ask for the topic when its next record comes, beside the sender."""
        self._due[topic] = 0

    def _ask(self, topic: str, timeout_s: float) -> None:
        self.asked += 1
        producer = self._producer()
        if producer is None:  # only someone who kept the cluster alone gets here
            return
        answer = producer.list_topics(topic, timeout=timeout_s)
        described = answer.topics[topic]
        racks = self._racks.last_heard(timeout_s) if self._racks is not None else {}
        self._brokers = {b.id: _Broker(b.host, racks.get(b.id)) for b in answer.brokers.values()}
        if described.partitions:
            # One step: a partitioner must not see half of a change.
            self._partitions[topic] = {p.id: _Leader(p.leader) for p in described.partitions.values()}
            rackless = self._racks is not None and any(p.leader not in racks for p in described.partitions.values())
            self._due[topic] = time.monotonic() + (min(1, self._max_age_s) if rackless else self._max_age_s)
            return
        self._partitions.pop(topic, None)
        self._due.pop(topic, None)
        if described.error is not None and described.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise NotAuthorized(topic)
        if described.error is not None and described.error.code() == KafkaError.TOPIC_EXCEPTION:
            raise NoPartitions(
                f"topic {topic!r}: {described.error.str()}; topics are named with letters, digits, '.', '_', '-'"
            )

    def topics(self) -> set[str]:
        """The topics that are known."""
        return set(self._partitions)

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
        """Ask for all known topics at once; ``policy="refresh"`` waits for it."""
        for topic in list(self._partitions):
            try:
                self.refresh(topic)
            except (KafkaException, NoPartitions):
                continue  # the one who waits has a deadline
        return _Answered()


class _Answered:
    """A future that is over."""

    def add_both(self, heard: Callable[..., object]) -> None:
        heard(None)


class _Racks:
    """Broker id -> rack, by an admin client of its own: only ``describe_cluster`` returns racks."""

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
