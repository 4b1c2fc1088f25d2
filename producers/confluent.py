"""The partitioners for confluent-kafka, whose own partitioners are C functions selected by name.

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

from .core.keys.keyed import preset_named
from .errors import ConfigError, NoPartitions, NotAuthorized, needs
from .partitioners.default import DefaultPartitioner
from .partitioners.interface.partitioner import CheckedPartitioner, is_partitioner, undo_by, with_fallbacks
from .partitioners.interface.record import Record
from .partitioners.key_hash import KeyHashPartitioner
from .partitioners.native_hash import TWINS
from .partitioners.random import RandomPartitioner
from .partitioners.uniform import UniformPartitioner, counting_backlog

with needs("confluent-kafka", "confluent_kafka", "confluent", __name__):
    from confluent_kafka import KafkaError, KafkaException, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.error import KeySerializationError, ValueSerializationError
    from confluent_kafka.serialization import MessageField, SerializationContext

ANY = -1
"""confluent-kafka's value for "no partition" (librdkafka's ``RD_KAFKA_PARTITION_UA``)."""

# Settings that a second client needs to connect to the same cluster.
_CONNECTING = (
    "bootstrap.servers", "metadata.broker.list", "client.id", "security.", "sasl.", "ssl.", "enable.ssl.", "oauth_cb",
    "https.", "socket.", "broker.address.", "log_level", "logger",
)  # fmt: skip


def native_twin(partitioner: CheckedPartitioner) -> str | None:
    """The name of librdkafka's partitioner with exactly the same placement, or None.

    Only partitioners that place records without a key at random or like an empty key have one, because librdkafka
    supports nothing else (with its sticky interval off). A random source, hook or counters of the user require Python.
    """
    if not getattr(partitioner, "plain", False):
        return None
    if type(partitioner) is RandomPartitioner:
        return "random"
    if type(partitioner) in (DefaultPartitioner, KeyHashPartitioner):
        hashes_null = preset_named(partitioner.preset).null_is_empty
        return TWINS.get(partitioner.preset) if hashes_null or partitioner.null_keys == "random" else None
    return None


class PartitioningProducer(Producer):
    """A confluent-kafka ``Producer`` whose records are placed by a partitioner of this package.

    Args:
        config: As for ``Producer``, without ``partitioner``. ``key.serializer`` and ``value.serializer`` work as with
            confluent-kafka's ``SerializingProducer``; the partitioner sees keys and values before and after them.
        partitioner: `DefaultPartitioner` by default: Java's placement. If librdkafka has a twin (`native_twin`), it is
            used instead of Python; attribute `native` has its name. Otherwise the partition is chosen here and passed
            as ``produce(partition=...)``.
        metadata_max_age_ms: Age after which leaders and partition counts are refreshed (one ``list_topics`` per topic,
            in a background thread). They are refreshed at once if librdkafka does not know the partition.
        metadata_timeout_ms: Maximum time that a ``produce`` waits for an unknown topic.

    An adaptive `UniformPartitioner` counts backlog without `attach`, as fast as ``poll`` serves delivery callbacks. A
    record that librdkafka rejects (``BufferError``: its queue is full) leaves no trace in the partitioner.

    ``AIOProducer`` creates its own ``Producer``, which no partitioner of this package can reach. Use
    `producers.aiokafka`, or pass the result of `producers.partition_for_key` to ``AIOProducer.produce(partition=...)``.

    Raises:
        ConfigError: An invalid argument, or ``partitioner`` or a serializer's builder in `config`.
        InvalidPartition, NoPartitions, NotAuthorized: From ``produce``, see `CheckedPartitioner`.
        KafkaException: From ``produce``: the cluster did not answer, and the topic is unknown.
        KeySerializationError, ValueSerializationError: From ``produce``: a serializer raised.

    Cost: about 1 µs per record in addition to the partitioner; none with a twin.
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
        needs_racks = any(getattr(candidate, "needs_leaders", False) for candidate in with_fallbacks(chooser))
        racks = _Racks(settings) if needs_racks else None
        self.cluster = ConfluentCluster(self, racks, metadata_max_age_ms / 1000, metadata_timeout_ms / 1000)
        plain = type(self) is PartitioningProducer and self._serializers is None and self._reports is None
        if plain and self.native is not None:
            self.__class__ = _Native

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

        Messages of one partition keep their order. The partition named by a message is used, as confluent-kafka 2.16
        documents, although its own implementation ignores it.
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
        """One message of a batch in the form for librdkafka, and its partition."""
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


class _Native(PartitioningProducer):
    """A producer whose partitioner has a twin: a call through Python would take as long as librdkafka's own."""

    produce = Producer.produce


class _InBatch(NamedTuple):
    message: dict[str, Any]  # the caller's
    ours: dict[str, Any]
    chosen: bool  # by one of our partitioners
    done: Callable[..., None]
    taken_back: Callable[[], None]

    def undo(self) -> None:
        """Undo the choice, because librdkafka rejected the message."""
        self.done()
        self.taken_back()


def _validated(config: Mapping[str, Any]) -> dict[str, Any]:
    if "partitioner" in config:
        raise ConfigError(
            f"config names partitioner={config['partitioner']!r} of librdkafka; remove it or use Producer"
        )
    for name in ("key.serializer", "value.serializer"):
        if f"{name}.builder" in config:
            raise ConfigError(
                f"config has {name}.builder, which only SerializingProducer supports; give {name} instead"
            )
        if config.get(name) is not None and not callable(config[name]):
            raise ConfigError(f"{name} must be callable with (object, SerializationContext), not {config[name]!r}")
    return dict(config)


class _Serializers(NamedTuple):
    """The serialization that ``SerializingProducer`` does before it produces."""

    key: Callable[[Any, Any], Any] | None
    value: Callable[[Any, Any], Any] | None

    def __call__(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[Any, Any]:
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
    """Delivery reports of a producer that counts backlog: the partitioner gets all, the user those configured.

    Settings of reports are removed from `settings`, because librdkafka would withhold some.
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


class ConfluentCluster:
    """Metadata of the topics, behind the interface of kafka-python's ``ClusterMetadata``, which partitioners use.

    `racks` is the source of racks, which ``list_topics`` does not return; None if no partitioner needs them.
    """

    def __init__(self, producer: Producer, racks: _Racks | None, max_age_s: float, timeout_s: float) -> None:
        self._producer = weakref.ref(producer)  # weak: a cycle would keep the producer connected
        self._racks = racks
        self._max_age_s, self._timeout_s = max_age_s, timeout_s
        self._partitions: dict[str, dict[int, _Leader]] = {}
        self._due: dict[str, float] = {}  # topic -> time of the next refresh
        self._brokers: dict[int, _Broker] = {}
        self._locks: dict[str, threading.Lock] = {}  # topic -> see `_lock`
        self.asked = 0  # number of calls of list_topics

    def learn(self, topic: str) -> None:
        """Fetch metadata of the topic: wait for it if the topic is unknown; refresh it in the background if it is old.

        Raises:
            KafkaError: No answer, and the topic is unknown.
            NoPartitions: The topic name is invalid; NotAuthorized: the cluster refuses to describe the topic.
        """
        if time.monotonic() < self._due.get(topic, 0):
            return
        if topic in self._partitions:
            # A stalled broker answers late: meanwhile the sender uses the known metadata.
            self._due[topic] = time.monotonic() + self._timeout_s
            threading.Thread(target=self._renew, args=(topic,), daemon=True, name=f"metadata of {topic}").start()
            return
        with self._lock(topic):
            if topic in self._partitions:  # another thread has fetched it
                return
            deadline, pause = time.monotonic() + self._timeout_s, threading.Event()
            while True:
                self._ask(topic, self._timeout_s)
                if topic in self._partitions or time.monotonic() >= deadline:
                    return
                pause.wait(0.1)  # never set: not every broker knows a new topic at once

    def _lock(self, topic: str) -> threading.Lock:
        """Held while one thread fetches the topic: senders of other topics never wait for it."""
        return self._locks.setdefault(topic, threading.Lock())

    def _renew(self, topic: str) -> None:
        try:
            self._ask(topic, self._timeout_s)  # without the lock, for which the sender of a new topic may wait
        except KafkaException:
            self._due[topic] = time.monotonic() + 1  # keep the old metadata; librdkafka itself keeps trying
        except NoPartitions:
            pass  # the topic is forgotten: the next sender fetches it, and gets the error

    def refresh(self, topic: str) -> None:
        """Fetch the topic now.

        Raises:
            KafkaException: No answer.
            NoPartitions: The topic name is invalid; NotAuthorized: the cluster refuses to describe the topic.
        """
        with self._lock(topic):
            self._ask(topic, self._timeout_s)

    def doubt(self, topic: str) -> None:
        """Refresh the topic in the background when its next record comes."""
        self._due[topic] = 0

    def _ask(self, topic: str, timeout_s: float) -> None:
        self.asked += 1
        producer = self._producer()
        if producer is None:  # only if the caller kept the cluster but not the producer
            return
        answer = producer.list_topics(topic, timeout=timeout_s)
        described = answer.topics[topic]
        racks = self._racks.last_heard(timeout_s) if self._racks is not None else {}
        self._brokers = {b.id: _Broker(b.host, racks.get(b.id)) for b in answer.brokers.values()}
        if described.partitions:
            # Assign in one step: a partitioner must not see half of a change.
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
        """The known topics."""
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Ids of all partitions; None for an unknown topic."""
        leaders = self._partitions.get(topic)
        return set(leaders) if leaders is not None else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Ids of the partitions with a leader."""
        leaders = self._partitions.get(topic)
        return None if leaders is None else {p for p, leader in leaders.items() if leader.leader_id != -1}

    def leader_for_partition(self, partition: Any) -> int | None:
        """Broker id of the leader; -1 without a leader, None for an unknown partition."""
        leader = self._partitions.get(partition.topic, {}).get(partition.partition)
        return None if leader is None else leader.leader_id

    def broker_metadata(self, broker_id: int) -> _Broker | None:
        """Host and rack of a broker."""
        return self._brokers.get(broker_id)

    def request_update(self) -> _Answered:
        """Refresh all known topics now; ``policy="refresh"`` waits for it."""
        for topic in list(self._partitions):
            try:
                self.refresh(topic)
            except (KafkaException, NoPartitions):
                continue  # the waiting caller has a deadline
        return _Answered()


class _Answered:
    """A completed future."""

    def add_both(self, heard: Callable[..., object]) -> None:
        heard(None)


class _Racks:
    """Broker id -> rack, from an own admin client: only ``describe_cluster`` returns racks."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {name: value for name, value in config.items() if name.startswith(_CONNECTING)}
        self._admin: AdminClient | None = None
        self._asked: Any = None  # the future of the request in flight
        self._racks: dict[int, str | None] = {}

    def last_heard(self, timeout_s: float) -> Mapping[int, str | None]:
        """The racks known so far. Sends a request, and waits only for the first answer (or raises ``KafkaException``).

        A request to a broker that just died or stalled is answered late or never, and racks hardly ever change. So
        later answers are collected at the next call.
        """
        self._admin = self._admin or AdminClient(self._config)
        asked = self._asked or self._admin.describe_cluster(request_timeout=timeout_s)
        self._asked = None
        try:
            nodes = asked.result(0 if self._racks else timeout_s + 1).nodes
        except TimeoutError:
            self._asked = asked
            if not self._racks:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no response with the brokers' racks")) from None
        except KafkaException:
            if not self._racks:
                raise
        else:  # an absent broker keeps its rack
            self._racks = {**self._racks, **{node.id: node.rack for node in nodes}}
        return self._racks


def _bytes(data: Any) -> bytes | None:
    """Convert keys and values to bytes as confluent-kafka does."""
    return data.encode() if isinstance(data, str) else data
