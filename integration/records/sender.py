"""Sends records through a partitioner, reads them back, and writes every placement to the history.

A record's value is JSON: ``{"run": …, "id": …}``, and ``"partition"`` if the record requests one. The id is unique
within the run. The header ``partitioner`` has the partitioner's name.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, Serializer, TopicPartition
from kafka.partitioner import Partitioner

from kafka_assignors.clients.kafka_python.private.consumer import forbid_topic_creation
from kafka_assignors.connection import Connection, Right, denied, needing
from kafka_assignors.errors import AccessRefused, ConfigError
from kafka_assignors.history.writer import EventWriter

from ..broker.ready import require_broker
from ..errors import HarnessError, NotDrained
from ..history.author import AUTHOR
from ..recording import RunFile
from ..registry import partitioner_named, settings_of_partitioner
from ..topics import Topics
from .own import Maker, Matcher
from .placement_rules import required_partition, rule_name

HEADER = "partitioner"
_IN_FLIGHT = 1000
_TIMEOUT_S = 60.0
_APPENDED = 1
"""The type of a record's time if it is when the broker appended it (``LogAppendTime``)."""
_TICK_S = 0.02
KEYS = 50
"""Number of distinct keys of the records that we make."""
ALL, LEADER = "all", "leader"
"""Required acknowledgement: from all in-sync replicas, or from the leader alone."""
Counts = dict[str, dict[int, int]]
"""topic -> partition -> records."""


class Record(NamedTuple):
    """One record to send. Only the partitioner ``explicit`` uses its `partition`, the requested one.

    A `value` of its own has no id; a function makes it, or key and value, of the id; None: ours, with an id.
    """

    topic: str
    key: bytes | None = None
    partition: int | None = None
    value: bytes | Maker | None = None


Values = Sequence[bytes] | Maker
"""Of records: in turn, or made of each id."""


def numbered(number: int, topics: Sequence[str], values: Values = (), keys: int = KEYS) -> Record:
    """The record with this number, from 0: topics and `values` take turns, and every fourth record has no key."""
    key = None if number % 4 == 3 else b"key-%d" % (number % keys)
    topic = topics[number % len(topics)]
    if callable(values):
        return Record(topic, key, value=values)
    return Record(topic, key, value=values[number % len(values)] if values else None)


@dataclass
class Sent:
    """Result of sending.

    Args:
        failed: Reasons for the first ten records that the broker did not acknowledge.
        mispredicted: Acknowledged records on another partition than the partitioner chose.
        counts: Acknowledged records per topic and partition.
        sender: What the ids of the records begin with.
    """

    acked: int = 0
    nacked: int = 0
    mispredicted: int = 0
    failed: list[str] = field(default_factory=list)
    counts: Counts = field(default_factory=dict)
    sender: str = ""


@dataclass
class ReadBack:
    """Records read back. `counts`: partitioner -> topic -> partition -> records; "": records without our header."""

    records: int = 0
    counts: dict[str, Counts] = field(default_factory=dict)


def send(  # seven settings of one send; the optional ones are keywords
    bootstrap: str | Connection,
    folder: Path,
    run: str,
    partitioner: str,
    records: Iterable[Record],
    *,
    acks: str = ALL,
    timeout_s: float = _TIMEOUT_S,
) -> Sent:
    """Send records and wait until the broker has answered for each.

    Args:
        bootstrap: ``host:port``, several separated by commas.
        folder: Where a new history file is created.
        run: Run id, written to every event and every value.
        partitioner: Its name, as `registry.partitioner_named` takes it.
        records: Sent in this order.
        acks: `ALL` or `LEADER`: the replicas that must have a record before it counts as sent. A record that only the
            leader has may be lost.
        timeout_s: Limit per record; a record not acknowledged by then counts as failed.

    Raises:
        UnknownName, ConfigError: The partitioner cannot be created, or `acks` is unknown.
        BrokerUnreachable: No broker answers.
    """
    with closing(_Channel(bootstrap, folder, run, partitioner, timeout_s, acks)) as channel:
        for record in records:
            channel.send(record)
        channel.flush()
        return channel.sent


def read_back(  # seven settings of one reading; the optional ones are keywords
    bootstrap: str | Connection,
    folder: Path,
    run: str,
    topics: Collection[str],
    *,
    committed: bool = False,
    timeout_s: float = _TIMEOUT_S,
    senders: Collection[str] = (),
    match: Matcher | None = None,
    dated: bool = False,
) -> ReadBack:
    """Read topics from their first record to their current end, and write an event per record.

    Args:
        bootstrap: ``host:port``, several separated by commas.
        folder: Where a new history file is created.
        run: Run id, written to every event.
        topics: Topics to read.
        committed: Use ``read_committed``: wait for transactions that are open now, and skip aborted records.
        timeout_s: Limit for the time without a record, e.g. while a transaction is open.
        senders: The `Sender.id` or `Sent.sender` of those whose records' ids are looked for anywhere in values, keys
            and headers. Empty: in the field ``id`` of values.
        match: Tells the id of a record instead.
        dated: Keep the times at which the broker appended records. Only for one whose clock is this machine's.

    Raises:
        ConfigError: A topic does not exist.
        HarnessError: `match` raises, or returns no text.
        BrokerUnreachable: No broker answers.
        NotDrained: The end was not reached, and no record came within `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    seen = ReadBack()
    wanted = re.compile(rf"(?:{'|'.join(map(re.escape, senders))})-\d+".encode()) if senders else None
    isolation: dict[str, Any] = {"isolation": "read_committed"} if committed else {}
    with (
        closing(_consumer(bootstrap)) as asker,
        closing(_consumer(bootstrap, committed)) as consumer,
        _writer(folder, "readback", run, "harness") as writer,
    ):
        partitions = {topic: consumer.partitions_for_topic(topic) for topic in sorted(topics)}
        if missing := [topic for topic, ids in partitions.items() if not ids]:
            with closing(Topics(bootstrap)) as there:  # distinguishes missing topics from hidden ones
                there.counts(missing, may="Read")
            raise ConfigError(f"{bootstrap} has no topic {', '.join(map(repr, missing))}; was it created?")
        tps = [TopicPartition(topic, p) for topic, ids in partitions.items() for p in sorted(ids)]
        may_read = [Right("Read", "Topic", topic) for topic in partitions]
        consumer.assign(tps)
        # A read_committed consumer gets no end offset behind an open transaction.
        asked_ns = time.monotonic_ns()
        begins, ends = asker.beginning_offsets(tps), asker.end_offsets(tps)
        for tp in tps:
            consumer.seek(tp, begins[tp])
        left = {tp for tp in tps if begins[tp] < ends[tp]}
        while left:
            if time.monotonic() > deadline:
                behind = ", ".join(f"{tp.topic}-{tp.partition} at {consumer.position(tp)}/{ends[tp]}" for tp in left)
                raise NotDrained(f"no record to read within {timeout_s:g} s before the end: {behind}")
            with needing(Connection.of(bootstrap), *may_read):
                polled = consumer.poll(timeout_ms=200)
            if polled:
                deadline = time.monotonic() + timeout_s
            for tp, records in polled.items():
                for record in records:
                    if record.offset < ends[tp]:
                        _take(writer, seen, record, match or wanted, dated=dated)
            # The position also passes control records and compacted offsets, which no poll returns.
            left = {tp for tp in left if consumer.position(tp) < ends[tp]}
        rows = [{"topic": tp.topic, "partition": tp.partition, "offset": ends[tp]} for tp in tps]
        writer.write("step", name="read_back", offsets=rows, asked_ns=asked_ns, **isolation)
    return seen


class Sender:
    """Sends records in the background at a limited rate, so that loss can be judged while a group changes.

    A context manager that calls `start` and `stop`.

    Args:
        topics: Used in turn.
        rate_per_s: Records per second over all topics; records that the producer cannot keep up with are skipped.
        keys: Number of distinct keys; every fourth record has none.
        acks: `ALL` or `LEADER`: the replicas that must have a record before it counts as sent.
        values: Of the records, in turn, and none has an id; or made of each id; empty: ours, with an id.

    Raises:
        ConfigError: `rate_per_s` or `keys` is not above 0, `topics` is empty, or `acks` is unknown.
        UnknownName: No partitioner has this name.
        BrokerUnreachable: No broker answers.
    """

    def __init__(
        self,
        bootstrap: str | Connection,
        folder: Path,
        run: str,
        topics: Collection[str],
        partitioner: str,
        rate_per_s: float,
        *,
        keys: int = KEYS,
        acks: str = ALL,
        values: Values = (),
    ) -> None:
        if rate_per_s <= 0 or keys <= 0 or not topics:
            raise ConfigError(f"a sender needs topics, a rate and keys, not {topics!r}, {rate_per_s!r} and {keys!r}")
        self._topics, self._keys, self._pause_s = sorted(topics), keys, 1 / rate_per_s
        self._values = values
        self._channel = _Channel(bootstrap, folder, run, partitioner, _TIMEOUT_S, acks)
        self._stop, self._hush, self._silent = threading.Event(), threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="sender", daemon=True)

    @property
    def id(self) -> str:
        """What the ids of its records begin with."""
        return self._channel.id

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def stop(self) -> Sent:
        """Stop, wait for the acknowledgements and return the result. May be called again.

        Raises:
            HarnessError: Sending failed; the cause is chained.
        """
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._channel.close()
        if self._error is not None:
            raise HarnessError(f"the background sender failed: {self._error}") from self._error
        return self._channel.sent

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Pause sending inside this block, which begins once every earlier record is acknowledged or has failed.

        Raises:
            HarnessError: The sender was never started, or has stopped.
        """
        self._hush.set()
        try:
            while not self._silent.wait(_TICK_S):
                if not self._thread.is_alive():
                    raise HarnessError(f"the background sender is not running: {self._error or 'start it'}")
            yield
        finally:
            self._hush.clear()

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        """The offset after the last acknowledged record of each partition of a topic; call it while it is `quiet`."""
        return {tp: end for tp, end in self._channel.ends.items() if tp.topic == topic}

    def __enter__(self) -> Sender:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.stop()
        except HarnessError:
            if kind is None:
                raise

    def _work(self) -> None:
        try:
            due = time.monotonic()
            for n in count():
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    break
                if self._hush.is_set():
                    self._be_quiet()
                self._channel.send(numbered(n, self._topics, self._values, self._keys))
                due = max(due + self._pause_s, time.monotonic() - 1)
            self._channel.flush()
        except BaseException as error:
            self._error = error

    def _be_quiet(self) -> None:
        self._channel.flush()
        self._silent.set()
        while self._hush.is_set() and not self._stop.wait(_TICK_S):
            pass
        self._silent.clear()


class _Told(Partitioner):
    """Wraps a partitioner that has no ``on_choice`` hook and reports each partition it chooses."""

    def __init__(self, inner: Partitioner, on_choice: Any) -> None:
        self._inner, self._on_choice = inner, on_choice
        if hasattr(inner, "on_new_batch"):
            # The producer looks for the hook by name, so we add it only if the inner partitioner has it.
            self.on_new_batch = inner.on_new_batch

    def partition(self, topic: str, key: Any, serialized_key: bytes | None, *rest: Any) -> int:
        chosen: int = self._inner.partition(topic, key, serialized_key, *rest)
        self._on_choice(topic, serialized_key, chosen)
        return chosen


class _Json(Serializer):
    def serialize(self, _topic: str, _headers: Any, data: Mapping[str, Any] | bytes) -> bytes:
        if isinstance(data, bytes):
            return data
        return json.dumps(data, separators=(",", ":")).encode()


class _Pending(NamedTuple):
    record: Record
    value_id: str
    predicted: int | None
    expected: int | None
    future: Any  # None: refused before sending
    error: str = ""


class _Channel:
    """A producer, its history file, and its unanswered records. Used by one thread at a time."""

    def __init__(
        self, bootstrap: str | Connection, folder: Path, run: str, partitioner: str, timeout_s: float, acks: str
    ) -> None:
        if acks not in (ALL, LEADER):
            raise ConfigError(f"acks is {ALL!r} or {LEADER!r}, not {acks!r}")
        self._run, self._timeout_s = run, timeout_s
        self._name, self.id, self._numbers = partitioner, uuid.uuid4().hex[:8], count()
        self.sent = Sent(sender=self.id)
        self._rule_name = rule_name(partitioner)
        self._chosen: int | None = None
        self._pending: deque[_Pending] = deque()
        self.ends: dict[TopicPartition, int] = {}  # the offset after the last acknowledged record
        self._headers = [(HEADER, partitioner.encode())]
        chooser = self._chooser(partitioner)
        require_broker(bootstrap)
        self._connection = Connection.of(bootstrap)
        self._refused: AccessRefused | None = None
        self._producer = KafkaProducer(
            **self._connection.kafka_python(),
            partitioner=chooser,
            value_serializer=_Json(),
            acks="all" if acks == ALL else 1,
            enable_idempotence=acks == ALL,  # idempotence requires acks=all
            linger_ms=5,
            max_block_ms=int(timeout_s * 1000),
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        self._writer = _writer(folder, f"producer-{self.id}", run, "producer")

    def send(self, record: Record) -> None:
        """Pass a record on; blocks while too many are unanswered. AccessRefused if an earlier one was refused."""
        self._require_right()
        value_id = f"{self.id}-{next(self._numbers)}"
        ours: dict[str, Any] = {"run": self._run, "id": value_id}
        if record.partition is not None:
            ours["partition"] = record.partition
        self._chosen = None
        value: Any = ours if record.value is None else record.value
        if callable(value):
            made = value(value_id)
            key, value = made if isinstance(made, tuple) else (record.key, made)
            record = record._replace(key=key)
        try:
            future = self._producer.send(record.topic, value=value, key=record.key, headers=self._headers)
        except Exception as error:
            self._note(record, error)
            self._pending.append(_Pending(record, value_id, None, None, None, f"{type(error).__name__}: {error}"))
        else:
            partitions = len(self._producer.partitions_for(record.topic))
            expected = required_partition(self._rule_name, record.key, record.partition, partitions)
            self._pending.append(_Pending(record, value_id, self._chosen, expected, future))
        while self._pending and (len(self._pending) > _IN_FLIGHT or self._answered(self._pending[0])):
            self._settle(self._pending.popleft())

    def flush(self) -> None:
        self._producer.flush(timeout=self._timeout_s)
        while self._pending:
            self._settle(self._pending.popleft())
        self._require_right()

    def _require_right(self) -> None:
        if self._refused is not None:
            raise self._refused

    def close(self) -> None:
        """Close the producer; unanswered records then count as failed."""
        self._producer.close(timeout=5)
        while self._pending:
            self._settle(self._pending.popleft())
        self._writer.close()

    @staticmethod
    def _answered(pending: _Pending) -> bool:
        return pending.future is None or bool(pending.future.is_done)

    def _chooser(self, name: str) -> Partitioner:
        def note_choice(_topic: str, _key: bytes | None, partition: int) -> None:
            # The producer may ask twice for one record; the last answer counts.
            self._chosen = partition

        if "on_choice" in settings_of_partitioner(name):
            return partitioner_named(name, on_choice=note_choice)
        return _Told(partitioner_named(name), note_choice)

    def _note(self, record: Record, error: BaseException) -> None:
        self._refused = self._refused or denied(self._connection, error, Right("Write", "Topic", record.topic))

    def _settle(self, pending: _Pending) -> None:
        record = pending.record
        fields: dict[str, Any] = {"partitioner": self._name, "topic": record.topic, "value_id": pending.value_id}
        if record.key is not None:
            fields["key_hash"] = blake2b(record.key, digest_size=8).hexdigest()
        if pending.predicted is not None:
            fields["predicted"] = pending.predicted
        if pending.expected is not None:
            fields["expected"] = pending.expected
        error = pending.error
        if pending.future is not None:
            try:
                answer = pending.future.get(timeout=self._timeout_s)
            except Exception as failure:
                self._note(record, failure)
                error = f"{type(failure).__name__}: {failure}"
        if error:
            self.sent.nacked += 1
            self.sent.failed = [*self.sent.failed, f"{record.topic}: {error}"][:10]
            self._writer.write("nack", error=error, **fields)
            return
        self._writer.write("ack", partition=answer.partition, offset=answer.offset, **fields)
        self.sent.acked += 1
        at = TopicPartition(record.topic, answer.partition)
        self.ends[at] = max(self.ends.get(at, 0), answer.offset + 1)
        self.sent.mispredicted += pending.predicted not in (None, answer.partition)
        per_partition = self.sent.counts.setdefault(record.topic, {})
        per_partition[answer.partition] = per_partition.get(answer.partition, 0) + 1


def _take(
    writer: EventWriter, seen: ReadBack, record: Any, wanted: re.Pattern[bytes] | Matcher | None, *, dated: bool
) -> None:
    name = next((v.decode("utf-8", "replace") for k, v in record.headers if k == HEADER), "")
    fields: dict[str, Any] = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    fields["partitioner"] = name
    if dated and record.timestamp_type == _APPENDED:
        fields["appended_ms"] = record.timestamp
    if (author := next((value for key, value in record.headers if key == AUTHOR), None)) is not None:
        fields["author"] = json.loads(author)
    if callable(wanted):
        value_id = wanted(record)
    else:
        value_id = _value_id(record.value) if wanted is None else _id_within(record, wanted)
    writer.write("read_back", value_id=value_id, **fields)
    seen.records += 1
    per_partition = seen.counts.setdefault(name, {}).setdefault(record.topic, {})
    per_partition[record.partition] = per_partition.get(record.partition, 0) + 1


def _value_id(value: bytes | None) -> str | None:
    """The id in a record's value; None if the record is not ours."""
    try:
        record = json.loads(value or b"null")
    except ValueError:
        return None
    return record["id"] if isinstance(record, dict) and isinstance(record.get("id"), str) else None


def _id_within(record: Any, wanted: re.Pattern[bytes]) -> str | None:
    """The first id of an input in an output's value, key or headers."""
    for part in (record.value, record.key, *(value for _, value in record.headers)):
        if part and (match := wanted.search(part)):
            return match[0].decode()
    return None


def _consumer(bootstrap: str | Connection, committed: bool = False) -> Any:
    require_broker(bootstrap)
    consumer = KafkaConsumer(
        **Connection.of(bootstrap).kafka_python(),
        group_id=None,
        allow_auto_create_topics=False,
        metrics_enabled=False,
        max_poll_records=5000,
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    forbid_topic_creation(consumer)
    return consumer


def _writer(folder: Path, stem: str, run: str, src: str) -> RunFile:
    """A new file: each source has its own ``seq``."""
    for path in (folder / f"{stem}.{n}.jsonl" for n in count()):
        try:
            return RunFile(path, run, src)
        except ConfigError:
            if not path.exists():
                raise
    raise AssertionError("there is always another number")
