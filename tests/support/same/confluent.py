"""Calls of confluent-kafka's consumers, also the deserializing and the asyncio one, and its transactional producer."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    Consumer,
    DeserializingConsumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.aio import AIOConsumer
from confluent_kafka.error import ConsumeError

from .subject import LIMIT_S, OTHER, OWN, RECORDS, Subject, make_calls

SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "kind": ("plain", "plain", "deserializing", "subclass", "asyncio"),
    "group": (OWN, OWN, OWN, OTHER),
    "reset": ("earliest", "earliest", "latest", "error"),
    "auto": (False, True),
    "store": (True, True, False),
    "eof": (False, True),
    "on_commit": (False, True),
    "listener": (None, "notes", "notes", "assigns", "commits", "raises on assigned", "raises on revoked"),
}
_WHENEVER = (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET)
"""Errors that a read leaves out: of which partition first, and in which poll, is chance."""


class CallbackFault(Exception):
    """The service's own, of a callback."""


class Mine(Consumer):
    """A service's own consumer."""

    def poll(self, *args: Any, **kwargs: Any) -> Any:
        """Polls as its parent does, and replaces the value."""
        message = super().poll(*args, **kwargs)
        if message is not None and message.error() is None:
            message.set_value({"read": message.value()})
        return message


class Blocking:
    """Waits for what the methods of an asyncio consumer return."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make: Callable[[], Any]) -> None:
        async def made() -> Any:
            return make()

        self._loop = loop
        self._consumer = loop.run_until_complete(made())

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._consumer, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            async def called() -> Any:
                return await method(*args, **kwargs)

            return self._loop.run_until_complete(called())

        return call


class ConfluentSubject(Subject):
    """A consumer of confluent-kafka under drawn calls."""

    def __init__(self, address: str, group: str, topic: str, settings: Mapping[str, Any]) -> None:
        super().__init__(address, group, topic, settings)
        self.first, self.second = TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)
        config = {
            "bootstrap.servers": address, "group.id": self.group, "auto.offset.reset": settings["reset"],
            "enable.auto.commit": settings["auto"], "auto.commit.interval.ms": 600_000, "log_level": 0,
            "enable.auto.offset.store": settings["store"], "enable.partition.eof": settings["eof"],
            "session.timeout.ms": 10_000, "heartbeat.interval.ms": 500,
        }  # fmt: skip
        if settings["on_commit"]:
            config["on_commit"] = lambda error, partitions: self.note("on_commit", error, partitions)
        self._loop = asyncio.new_event_loop()
        self.is_waiting = settings["kind"] == "asyncio"
        if self.is_waiting:
            self.consumer: Any = Blocking(self._loop, lambda: AIOConsumer(config, max_workers=4))
        elif settings["kind"] == "deserializing":
            config["value.deserializer"] = lambda value, _: {"read": value}
            self.consumer = DeserializingConsumer(config)
        else:
            self.consumer = (Mine if settings["kind"] == "subclass" else Consumer)(config)
        self.config, self.last = config, None
        self._producer: Any = None

    @property
    def producer(self) -> Any:
        """A transactional producer, made when it is needed."""
        if self._producer is None:
            self._producer = Producer({"bootstrap.servers": self.address, "transactional.id": f"{self.topic}-txn"})
        return self._producer

    def shown(self, value: Any) -> str:
        """A value as text; of a message, what it has."""
        if isinstance(value, Message):
            if value.error() is not None:  # of which partition first is chance
                return f"Message with {value.error()!r}"
            return f"Message {(value.topic(), value.partition(), value.offset(), value.key(), value.value())!r}"
        if isinstance(value, bytes) and value.startswith(b"CGMD"):
            return f"metadata with {value.count(bytes(1))} ends"
        return super().shown(value)

    def callbacks_of(self) -> dict[str, Callable[[Any, Any], Any]]:
        """The rebalance callbacks that the service sets."""
        kind = self.settings["listener"]
        if kind is None:
            return {}

        def assigned(consumer: Any, partitions: Any) -> None:
            self.note("assigned", type(consumer).__name__, partitions)
            if kind == "raises on assigned":
                raise CallbackFault("of assigned")
            if kind == "assigns" and not self.is_waiting:
                consumer.assign([TopicPartition(tp.topic, tp.partition, 4) for tp in partitions])

        def revoked(consumer: Any, partitions: Any) -> None:
            self.note("revoked", partitions)
            if kind == "raises on revoked":
                raise CallbackFault("of revoked")
            if kind == "commits" and not self.is_waiting:
                self.note("committed", consumer.commit(asynchronous=False))

        async def awaited(consumer: Any, partitions: Any) -> None:
            assigned(consumer, partitions)

        async def released(consumer: Any, partitions: Any) -> None:
            revoked(consumer, partitions)

        if self.is_waiting:
            return {"on_assign": awaited, "on_revoke": released}
        return {"on_assign": assigned, "on_revoke": revoked}

    def read(self, count: int) -> list[Any]:
        """Read so many records, or those that are left, one by one."""
        messages: list[Any] = []
        deadline = time.monotonic() + LIMIT_S / 2
        idle = 0
        while len(messages) < count and time.monotonic() < deadline and idle < 5:
            try:
                message = self.consumer.poll(0.2)
            except ConsumeError as error:  # a deserializing consumer raises it
                if error.code not in _WHENEVER:
                    raise
                continue
            if message is None:
                idle += bool(self.consumer.assignment()) or not self.is_subscribed
                continue
            error = message.error()
            if error is not None and error.code() in _WHENEVER:
                continue
            messages.append(message)
            if error is not None or message.offset() == RECORDS - 1:
                break
            self.last = message
        return messages

    is_subscribed = False

    def subscribe(self, topics: list[str], **callbacks: Any) -> Any:
        """Subscribe, and wait for the group: what comes next must not depend on when it answers."""
        if self.is_subscribed and not self.is_offline:
            self.unsubscribe()
        answer = self.consumer.subscribe(topics, **callbacks)
        self.is_subscribed = True
        self._settle(lambda: self.consumer.assignment())
        return answer

    def unsubscribe(self) -> Any:
        """Unsubscribe, and wait until the partitions are given up."""
        answer = self.consumer.unsubscribe()
        self.is_subscribed = False
        self._settle(lambda: not self.consumer.assignment())
        return answer

    def _settle(self, is_done: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT_S / 2
        while not self.is_offline and time.monotonic() < deadline and not is_done():
            with suppress(ConsumeError):  # of a deserializing consumer, which comes at once or later
                self.consumer.poll(0)  # calls back, and fetches nothing yet
            time.sleep(0.02)

    def seek(self, offset: int) -> Any:
        """Seek in the first partition, once its fetcher has begun."""
        deadline = time.monotonic() + LIMIT_S / 4
        while True:
            try:
                return self.consumer.seek(TopicPartition(self.topic, 0, offset))
            except KafkaException as error:
                is_early = error.args[0].code() == KafkaError._STATE and self.consumer.assignment()
                if not is_early or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def consume(self) -> Any:
        """Consume one record, where there are partitions and no ends of them are told."""
        if self.settings["eof"] or not self.consumer.assignment():
            return None
        return self.consumer.consume(1, 3.0)

    def commit_later(self) -> Any:
        """Commit, and poll until the callback has told its outcome; nothing is read meanwhile."""
        assignment = self.consumer.assignment()
        if self.is_subscribed and not assignment:
            return None
        answer = self.consumer.commit(asynchronous=True, offsets=[TopicPartition(self.topic, 0, 2)])
        self.consumer.pause(assignment)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and self.settings["on_commit"] and not self.callbacks:
            self.consumer.poll(0.1)
        self.consumer.resume(assignment)
        return answer

    def end(self) -> None:
        """Close what the draw left open."""
        try:
            self.consumer.close()
        except RuntimeError:  # it is closed
            pass
        finally:
            self._loop.close()


def _with(subject: ConfluentSubject) -> None:
    if subject.is_waiting:
        return
    with subject.consumer:
        raise CallbackFault("in the block")


def _topics(subject: ConfluentSubject) -> Any:
    topics = subject.consumer.list_topics(subject.topic, timeout=5).topics
    return {name: sorted(topic.partitions) for name, topic in topics.items()}


Calls = dict[str, Callable[[ConfluentSubject], Any]]
VALID: Calls = {
    "subscribe": lambda s: s.subscribe([s.topic], **s.callbacks_of()),
    "subscribe again": lambda s: s.subscribe([s.topic]),
    "subscribe to both": lambda s: s.subscribe([s.topic, s.other], **s.callbacks_of()),
    "assign": lambda s: s.consumer.assign([s.first, s.second]),
    "assign at an offset": lambda s: s.consumer.assign([TopicPartition(s.topic, 0, 4)]),
    "assign nothing": lambda s: s.consumer.assign([]),
    "unassign": lambda s: s.consumer.unassign(),
    "unsubscribe": lambda s: s.unsubscribe(),
    "assignment": lambda s: s.consumer.assignment(),
    "position": lambda s: s.consumer.position([s.first]),
    "pause": lambda s: s.consumer.pause([s.first]),
    "resume": lambda s: s.consumer.resume([s.first]),
    "configuration": lambda s: {name: str(type(value)) for name, value in s.config.items()},
    "type": lambda s: (type(s.consumer).__name__, type(s.consumer).__module__, Consumer.__name__, Consumer.__doc__),
    "group metadata": lambda s: s.consumer.consumer_group_metadata(),
    "close": lambda s: s.consumer.close(),
    "leave a block by an error": _with,
}
ONLINE: Calls = {
    "incremental assign": lambda s: s.consumer.incremental_assign([s.second]),
    "incremental unassign": lambda s: s.consumer.incremental_unassign([s.second]),
    "seek": lambda s: s.seek(5),
    "seek beyond": lambda s: s.seek(5000),
    "read three": lambda s: s.read(3),
    "read two": lambda s: s.read(2),
    "read the rest": lambda s: s.read(RECORDS),
    "consume one": lambda s: s.consume(),
    "commit": lambda s: s.consumer.commit(asynchronous=False),
    "commit the last": lambda s: s.consumer.commit(message=s.last, asynchronous=False),
    "commit an offset": lambda s: s.consumer.commit(offsets=[TopicPartition(s.topic, 0, 2)], asynchronous=False),
    "commit later": lambda s: s.commit_later(),
    "commit too long": lambda s: s.consumer.commit(
        offsets=[TopicPartition(s.topic, 0, 1, "x" * 9999)], asynchronous=False
    ),
    "commit a foreign one": lambda s: s.consumer.commit(offsets=[TopicPartition("nobodys", 7, 1)], asynchronous=False),
    "store offsets": lambda s: s.consumer.store_offsets(offsets=[TopicPartition(s.topic, 0, 3)]),
    "committed": lambda s: s.consumer.committed([s.first, s.second], timeout=5),
    "watermarks": lambda s: s.consumer.get_watermark_offsets(s.first, timeout=5),
    "offsets at a time": lambda s: s.consumer.offsets_for_times([TopicPartition(s.topic, 0, 0)], timeout=5),
    "topics": _topics,
    "init transactions": lambda s: s.producer.init_transactions(10),
    "begin a transaction": lambda s: s.producer.begin_transaction(),
    "send": lambda s: (s.producer.produce(s.outputs, b"output"), s.producer.flush(10)),
    "send offsets": lambda s: s.producer.send_offsets_to_transaction(
        [TopicPartition(s.topic, 0, 3)], s.consumer.consumer_group_metadata(), 10
    ),
    "commit the transaction": lambda s: s.producer.commit_transaction(10),
    "abort the transaction": lambda s: s.producer.abort_transaction(10),
}
INVALID: Calls = {
    "subscribe to a text": lambda s: s.consumer.subscribe(s.topic),
    "subscribe to a number": lambda s: s.consumer.subscribe(7),
    "subscribe to numbers": lambda s: s.consumer.subscribe([7]),
    "subscribe to nothing": lambda s: s.consumer.subscribe(),
    # The asyncio consumer takes it, and a read raises if a rebalance comes.
    "subscribe with a wrong callback": lambda s: None if s.is_waiting else s.consumer.subscribe([s.topic], on_revoke=7),
    "subscribe with too much": lambda s: s.consumer.subscribe([s.topic], print, print, print, print),
    "subscribe to two lists": lambda s: s.consumer.subscribe([s.topic], topics=[s.topic]),
    "subscribe to what is unknown": lambda s: s.consumer.subscribe([s.topic], on_nothing=print),
    "assign a text": lambda s: s.consumer.assign("text"),
    "assign texts": lambda s: s.consumer.assign(["text"]),
    "assign by name": lambda s: s.consumer.assign(partitions=[s.first]),
    "assign twice": lambda s: s.consumer.assign([s.first], [s.first]),
    "incremental assign of a text": lambda s: s.consumer.incremental_assign("text"),
    "incremental assign by name": lambda s: s.consumer.incremental_assign(partitions=[s.first]),
    "seek a text": lambda s: s.consumer.seek("text"),
    "seek nothing": lambda s: s.consumer.seek(),
    "pause a text": lambda s: s.consumer.pause("text"),
    "pause a foreign one": lambda s: s.consumer.pause([TopicPartition("nobodys", 7)]),
    "poll a text": lambda s: s.consumer.poll("long"),
    "poll what is unknown": lambda s: s.consumer.poll(nothing=1),
    "poll twice as much": lambda s: s.consumer.poll(1, 2),
    "consume nothing": lambda s: s.consumer.consume(0, 0.1),
    "consume below": lambda s: s.consumer.consume(-1, 0.1),
    "consume a text": lambda s: s.consumer.consume("many"),
    "consume what is unknown": lambda s: s.consumer.consume(nothing=1),
    "commit both": lambda s: s.consumer.commit(message=s.last or "text", offsets=[s.first]),
    "commit a text": lambda s: s.consumer.commit(message="text"),
    "commit texts": lambda s: s.consumer.commit(offsets=["text"]),
    "commit what is unknown": lambda s: s.consumer.commit(nothing=1),
    "commit by place": lambda s: s.consumer.commit(7),
    "store nothing": lambda s: s.consumer.store_offsets(),
    "store both": lambda s: s.consumer.store_offsets(message="text", offsets=[s.first]),
    "store a text": lambda s: s.consumer.store_offsets(message="text"),
    "committed of a text": lambda s: s.consumer.committed("text", timeout=1),
    "position of a text": lambda s: s.consumer.position("text"),
    "close with more": lambda s: s.consumer.close(1),
    "an unknown attribute": lambda s: s.consumer.nothing,
    "an attribute of its own": lambda s: setattr(s.consumer, "nothing", 1),
    "begin a transaction too early": lambda s: Producer({"transactional.id": "t"}).begin_transaction(),
    "begin a transaction with more": lambda s: s.producer.begin_transaction(1),
    "send offsets of a text": lambda s: s.producer.send_offsets_to_transaction("text", b"text"),
    "send no offsets": lambda s: s.producer.send_offsets_to_transaction(),
    "an attribute of the producer's": lambda s: s.producer.nothing,
    "a copy": lambda s: None if s.is_waiting else copy.copy(s.consumer),
    "an unknown setting": lambda s: Consumer({"nothing": 1}),
    "no settings": lambda s: Consumer(),
    "settings of text": lambda s: Consumer("text"),
    "a wrong callback in the settings": lambda s: Consumer({**s.config, "on_commit": 7}),
}

if __name__ == "__main__":
    make_calls(ConfluentSubject, {**VALID, **ONLINE, **INVALID})
