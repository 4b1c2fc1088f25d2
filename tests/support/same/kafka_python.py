"""Calls of kafka-python's consumer and its transactional producer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.structs import OffsetAndMetadata

from kafka_assignors import RangeAssignor

from .subject import LIMIT_S, NONE, OTHER, OWN, RECORDS, Subject, make_calls

SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "group": (OWN, OWN, OWN, OTHER, NONE),
    "reset": ("earliest", "earliest", "latest", "none"),
    "auto": (False, True),
    "listener": (None, "notes", "notes", "awaits", "commits", "seeks", "raises on assigned", "raises on revoked"),
}
_FOREIGN = TopicPartition("nobody's", 7)
_OFFLINE = {"api_version": (3, 0), "request_timeout_ms": 300, "fetch_max_wait_ms": 50}


class OwnFault(Exception):
    """The service's own, of a callback."""


class Noting(ConsumerRebalanceListener):
    """Notes its calls; some raise, some use the consumer."""

    def __init__(self, subject: KafkaPythonSubject, kind: str) -> None:
        self.subject, self.kind = subject, kind

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.subject.note("assigned", set(assigned))
        if self.kind == "raises on assigned":
            raise OwnFault("of assigned")
        if self.kind == "seeks" and self.subject.first in assigned:
            self.subject.consumer.seek(self.subject.first, 4)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.subject.note("revoked", set(revoked))
        if self.kind == "raises on revoked":
            raise OwnFault("of revoked")


class Awaiting(AsyncConsumerRebalanceListener):
    """The same in coroutines; some commit."""

    def __init__(self, subject: KafkaPythonSubject, kind: str) -> None:
        self.subject, self.kind = subject, kind

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.subject.note("assigned", set(assigned))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.subject.note("revoked", set(revoked))
        if self.kind == "commits":
            self.subject.note("committed", await self.subject.consumer.commit_async())


class KafkaPythonSubject(Subject):
    """A KafkaConsumer under drawn calls."""

    def __init__(self, address: str, group: str, topic: str, settings: Mapping[str, Any]) -> None:
        super().__init__(address, group, topic, settings)
        self.first, self.second = TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)
        self.consumer = KafkaConsumer(
            bootstrap_servers=address, group_id=self.group, auto_offset_reset=settings["reset"],
            enable_auto_commit=settings["auto"], auto_commit_interval_ms=600_000, heartbeat_interval_ms=500,
            session_timeout_ms=10_000, partition_assignment_strategy=[RangeAssignor()],
            **(_OFFLINE if self.is_offline else {}),
        )  # fmt: skip
        kind = settings["listener"]
        waits = kind in ("awaits", "commits")
        self.listener: Any = None if kind is None else (Awaiting if waits else Noting)(self, kind)
        self._producer: Any = None

    @property
    def producer(self) -> Any:
        """A transactional producer, made when it is needed."""
        if self._producer is None:
            self._producer = KafkaProducer(
                bootstrap_servers=self.address, transactional_id=f"{self.topic}-txn", max_block_ms=5000
            )
        return self._producer

    def read(self, count: int) -> list[Any]:
        """Read so many records, or those that are left."""
        records: list[Any] = []
        deadline = time.monotonic() + LIMIT_S / 2
        while time.monotonic() < deadline and (self._is_joining() or (len(records) < count and self._has_more())):
            for part in self.consumer.poll(timeout_ms=500, max_records=1).values():
                records += part
        return [(record.topic, record.partition, record.offset, record.value) for record in records]

    def _is_joining(self) -> bool:
        return self.topic in (self.consumer.subscription() or ()) and not self.consumer.assignment()

    def _has_more(self) -> bool:
        if self.is_closed or self.first not in self.consumer.assignment() - self.consumer.paused():
            return False
        return int(self.consumer.position(self.first, timeout_ms=5000)) < RECORDS

    def iterate(self, count: int) -> list[Any]:
        """Read so many records one by one."""
        records = []
        while len(records) < count and self._has_more():
            record = next(self.consumer)
            records.append((record.partition, record.offset, record.key))
        return records

    def close(self, **how: Any) -> Any:
        """Close the consumer."""
        self.is_closed = True
        return self.consumer.close(**how)

    def end(self) -> None:
        """Close what the draw left open."""
        self.consumer.close()
        if self._producer is not None:
            self._producer.close(timeout=2)


def _with(subject: KafkaPythonSubject) -> None:
    subject.is_closed = True
    with subject.consumer:
        raise OwnFault("in the block")


def _committed(subject: KafkaPythonSubject) -> Any:
    """An asynchronous commit's outcome, and that of its callback."""
    future = subject.consumer.commit_async(callback=lambda *given: subject.note("commit", given[0]))
    deadline = time.monotonic() + LIMIT_S / 2
    while not future.is_done and time.monotonic() < deadline:
        subject.consumer.poll(timeout_ms=0, max_records=1) if subject.is_closed else time.sleep(0.01)
    return future.succeeded(), future.exception


Calls = dict[str, Callable[[KafkaPythonSubject], Any]]
VALID: Calls = {
    "subscribe": lambda s: s.consumer.subscribe([s.topic], listener=s.listener),
    "subscribe again": lambda s: s.consumer.subscribe([s.topic]),
    "subscribe to both": lambda s: s.consumer.subscribe([s.topic, s.other], listener=s.listener),
    "assign": lambda s: s.consumer.assign([s.first, s.second]),
    "assign nothing": lambda s: s.consumer.assign([]),
    "unsubscribe": lambda s: s.consumer.unsubscribe(),
    "assignment": lambda s: s.consumer.assignment(),
    "subscription": lambda s: s.consumer.subscription(),
    "seek": lambda s: s.consumer.seek(s.first, 5),
    "seek beyond": lambda s: s.consumer.seek(s.first, 5000),
    "seek to the beginning": lambda s: s.consumer.seek_to_beginning(),
    "seek to the end": lambda s: s.consumer.seek_to_end(s.first),
    "pause": lambda s: s.consumer.pause(s.first),
    "resume": lambda s: s.consumer.resume(s.first),
    "paused": lambda s: s.consumer.paused(),
    "configuration": lambda s: {name: value for name, value in s.consumer.config.items() if name != "kafka_client"},
    "metrics": lambda s: sorted(s.consumer.metrics().get("consumer-coordinator-metrics", ())),
    "group metadata": lambda s: s.consumer.group_metadata(),
    "close": lambda s: s.close(),
    "close without a commit": lambda s: s.close(autocommit=False),
    "leave a block by an error": _with,
}
ONLINE: Calls = {
    "read three": lambda s: s.read(3),
    "read the rest": lambda s: s.read(RECORDS),
    "iterate": lambda s: s.iterate(2),
    "commit": lambda s: s.consumer.commit(timeout_ms=5000),
    "commit an offset": lambda s: s.consumer.commit({s.first: OffsetAndMetadata(2, "m", -1)}, timeout_ms=5000),
    "commit later": _committed,
    "commit too long": lambda s: s.consumer.commit({s.first: OffsetAndMetadata(1, "x" * 9999, -1)}, timeout_ms=5000),
    "commit a foreign one": lambda s: s.consumer.commit({_FOREIGN: OffsetAndMetadata(1, "", -1)}, timeout_ms=3000),
    "committed": lambda s: s.consumer.committed(s.first, metadata=True, timeout_ms=5000),
    "position": lambda s: s.consumer.position(s.first, timeout_ms=5000),
    "ends": lambda s: (s.consumer.beginning_offsets([s.first]), s.consumer.end_offsets([s.first, s.second])),
    "offsets at a time": lambda s: s.consumer.offsets_for_times({s.first: 0}),
    # Of a closed consumer: whether it had learned them is chance.
    "partitions": lambda s: None if s.is_closed else s.consumer.partitions_for_topic(s.topic),
    "init transactions": lambda s: s.producer.init_transactions(),
    "begin a transaction": lambda s: s.producer.begin_transaction(),
    "send": lambda s: s.producer.send(s.outputs, b"output").get(10).topic,
    "send offsets": lambda s: s.producer.send_offsets_to_transaction(
        {s.first: OffsetAndMetadata(3, "", -1)}, s.consumer.group_metadata()
    ),
    "commit the transaction": lambda s: s.producer.commit_transaction(),
    "abort the transaction": lambda s: s.producer.abort_transaction(),
}
INVALID: Calls = {
    "subscribe to a number": lambda s: s.consumer.subscribe(7),
    "subscribe to numbers": lambda s: s.consumer.subscribe([7]),
    "subscribe to nothing": lambda s: s.consumer.subscribe(),
    "subscribe by both": lambda s: s.consumer.subscribe([s.topic], pattern="x.*"),
    "subscribe with a wrong listener": lambda s: s.consumer.subscribe([s.topic], listener=7),
    "assign a text": lambda s: s.consumer.assign("text"),
    "assign a number": lambda s: s.consumer.assign(7),
    "unsubscribe from": lambda s: s.consumer.unsubscribe(s.topic),
    "seek a text": lambda s: s.consumer.seek("text", 1),
    "seek below": lambda s: s.consumer.seek(s.first, -1),
    "seek to a text": lambda s: s.consumer.seek(s.first, "five"),
    "seek a foreign one": lambda s: s.consumer.seek(_FOREIGN, 1),
    "seek to the beginning of a foreign one": lambda s: s.consumer.seek_to_beginning(_FOREIGN),
    "seek to the end of a text": lambda s: s.consumer.seek_to_end("text"),
    "pause a foreign one": lambda s: s.consumer.pause(_FOREIGN),
    "pause a text": lambda s: s.consumer.pause("text"),
    "resume a foreign one": lambda s: s.consumer.resume(_FOREIGN),
    "highwater of a foreign one": lambda s: s.consumer.highwater(_FOREIGN),
    "poll below": lambda s: s.consumer.poll(timeout_ms=-1),
    "poll a text": lambda s: s.consumer.poll(timeout_ms="long"),
    "poll no records": lambda s: s.consumer.poll(max_records=0),
    "poll half a record": lambda s: s.consumer.poll(max_records=0.5),
    "poll what is unknown": lambda s: s.consumer.poll(nothing=1),
    "poll too much": lambda s: s.consumer.poll(1, 2, True, 4),
    "commit a text": lambda s: s.consumer.commit("text"),
    "commit a number": lambda s: s.consumer.commit({s.first: 5}),
    "commit what is unknown": lambda s: s.consumer.commit(nothing=1),
    "committed of a text": lambda s: s.consumer.committed("text"),
    "position of a text": lambda s: s.consumer.position("text"),
    "position of a foreign one": lambda s: s.consumer.position(_FOREIGN, timeout_ms=100),
    "offsets before time": lambda s: s.consumer.offsets_for_times({s.first: -5}),
    "close what is unknown": lambda s: s.consumer.close(nothing=1),
    "an unknown attribute": lambda s: s.consumer.nothing,
    "an unknown setting": lambda s: KafkaConsumer(nothing=1, bootstrap_servers=s.address),
}

if __name__ == "__main__":
    make_calls(KafkaPythonSubject, {**VALID, **ONLINE, **INVALID})
