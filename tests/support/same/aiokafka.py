"""Calls of aiokafka's consumer and its transactional producer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from .subject import LIMIT_S, NONE, OTHER, OWN, RECORDS, Subject, make_calls

SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "group": (OWN, OWN, OWN, OTHER, NONE),
    "reset": ("earliest", "earliest", "latest", "none"),
    "auto": (False, True),
    "listener": (None, "notes", "notes", "waits", "commits", "seeks", "raises on assigned", "raises on revoked"),
}
_FOREIGN = TopicPartition("nobodys", 7)


class ListenerFault(Exception):
    """The service's own, of a callback."""


class NotingAll(ConsumerRebalanceListener):
    """Notes its calls; some raise, some use the consumer."""

    def __init__(self, subject: AiokafkaSubject, kind: str) -> None:
        self.subject, self.kind = subject, kind

    def on_partitions_assigned(self, assigned: Any) -> Any:
        self.subject.note("assigned", set(assigned))
        if self.kind == "raises on assigned":
            raise ListenerFault("of assigned")
        if self.kind == "seeks" and self.subject.first in assigned:
            self.subject.consumer.seek(self.subject.first, 4)

    def on_partitions_revoked(self, revoked: Any) -> Any:
        self.subject.note("revoked", set(revoked))
        if self.kind == "raises on revoked":
            raise ListenerFault("of revoked")
        if self.kind == "commits":
            return self._commit()
        return asyncio.sleep(0) if self.kind == "waits" else None

    async def _commit(self) -> None:
        self.subject.note("committed", await self.subject.consumer.commit())


class AiokafkaSubject(Subject):
    """An AIOKafkaConsumer under drawn calls."""

    def __init__(self, address: str, group: str, topic: str, settings: Mapping[str, Any]) -> None:
        super().__init__(address, group, topic, settings)
        self.first, self.second = TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)
        self.loop = asyncio.new_event_loop()
        self.consumer: Any = None
        self.wait(self._make)
        kind = settings["listener"]
        self.listener = None if kind is None else NotingAll(self, kind)
        self._producer: Any = None

    async def _make(self) -> None:
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.address, group_id=self.group, auto_offset_reset=self.settings["reset"],
            enable_auto_commit=self.settings["auto"], auto_commit_interval_ms=600_000, heartbeat_interval_ms=500,
            session_timeout_ms=10_000, request_timeout_ms=10_000,
        )  # fmt: skip

    def wait(self, call: Callable[[], Any], limit_s: float = LIMIT_S / 2) -> Any:
        """What a coroutine returns, within a limit."""

        async def called() -> Any:
            return await asyncio.wait_for(call(), limit_s)

        return self.loop.run_until_complete(called())

    def at_once(self, call: Callable[[], Any]) -> Any:
        """What a function returns that needs a running loop."""

        async def called() -> Any:
            return call()

        return self.loop.run_until_complete(called())

    async def producer(self) -> Any:
        """A transactional producer, made when it is needed."""
        if self._producer is None:
            producer = AIOKafkaProducer(bootstrap_servers=self.address, transactional_id=f"{self.topic}-txn")
            await producer.start()
            self._producer = producer
        return self._producer

    async def produced(self, name: str, *given: Any) -> Any:
        """What a method of the producer returns."""
        producer = await self.producer()
        return await getattr(producer, name)(*given)

    async def read(self, count: int) -> list[Any]:
        """Read so many records, or those that are left."""
        records: list[Any] = []
        deadline = time.monotonic() + LIMIT_S / 2 - 1
        while time.monotonic() < deadline and (self._is_joining() or (len(records) < count and await self._has_more())):
            for part in (await self.consumer.getmany(timeout_ms=300, max_records=1)).values():
                records += part
        return [(record.topic, record.partition, record.offset, record.value) for record in records]

    def _is_joining(self) -> bool:
        return self.topic in self.consumer.subscription() and not self.consumer.assignment()

    async def _has_more(self) -> bool:
        if self.is_closed or self.first not in self.consumer.assignment() - self.consumer.paused():
            return False
        return int(await self.consumer.position(self.first)) < RECORDS

    async def iterate(self, count: int) -> list[Any]:
        """Read so many records one by one."""
        records = []
        while len(records) < count and await self._has_more():
            record = await self.consumer.__anext__()
            records.append((record.partition, record.offset, record.key))
        return records

    def subscribe(self, topics: list[str], **more: Any) -> Any:
        """Subscribe, and wait for the group: what comes next must not depend on when it answers."""

        async def subscribed() -> Any:
            answer = self.consumer.subscribe(topics, **more)
            await self._settle(set(topics), more.get("listener"))
            return answer

        return self.wait(subscribed)

    async def start(self) -> Any:
        """Start the consumer; the same for what it has subscribed to before."""
        answer = await self.consumer.start()
        self.is_started = True
        await self._settle(set(self.consumer.subscription()), None)
        return answer

    is_started = False

    async def _settle(self, topics: set[str], listener: Any) -> None:
        if not self.is_started or self.is_closed or not topics:
            return
        deadline = time.monotonic() + LIMIT_S / 3
        while time.monotonic() < deadline and (
            {tp.topic for tp in self.consumer.assignment()} != topics
            or (listener is not None and self.group is not None and "assigned" not in self._names())
        ):
            await asyncio.sleep(0.02)

    def _names(self) -> list[str]:
        return [callback[0] for callback in self.callbacks]

    async def stop(self) -> Any:
        """Stop the consumer."""
        self.is_closed = True
        return await self.consumer.stop()

    async def _end(self) -> None:
        await self.consumer.stop()
        if self._producer is not None:
            await self._producer.stop()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def end(self) -> None:
        """Stop what the draw left running."""
        try:
            self.wait(self._end)
        except KafkaError:
            pass  # of a fetch that ends with it, by chance
        finally:
            self.loop.run_until_complete(self._cancel_all())
            self.loop.close()


async def _with(subject: AiokafkaSubject) -> None:
    subject.is_closed = True
    async with subject.consumer:
        raise ListenerFault("in the block")


def _looks(subject: AiokafkaSubject) -> Any:
    names = ("seek", "seek_to_end", "unsubscribe", "getmany", "getone", "commit", "stop")
    methods = [getattr(subject.consumer, name) for name in names]
    return [(method.__name__, asyncio.iscoroutinefunction(method), method.__doc__) for method in methods]


Calls = dict[str, Callable[[AiokafkaSubject], Any]]
VALID: Calls = {
    "subscribe": lambda s: s.subscribe([s.topic], listener=s.listener),
    "subscribe again": lambda s: s.subscribe([s.topic]),
    "subscribe to both": lambda s: s.subscribe([s.topic, s.other], listener=s.listener),
    "assign": lambda s: s.at_once(lambda: s.consumer.assign([s.first, s.second])),
    "unsubscribe": lambda s: s.at_once(lambda: s.consumer.unsubscribe()),
    "assignment": lambda s: s.consumer.assignment(),
    "subscription": lambda s: s.consumer.subscription(),
    "seek": lambda s: s.at_once(lambda: s.consumer.seek(s.first, 5)),
    "pause": lambda s: s.consumer.pause(s.first),
    "resume": lambda s: s.consumer.resume(s.first),
    "paused": lambda s: s.consumer.paused(),
    "looks": _looks,
    "settings": lambda s: {
        name: value for name, value in vars(s.consumer).items() if isinstance(value, (bool, int, str, type(None)))
    },
    "stop": lambda s: s.wait(s.stop),
}
ONLINE: Calls = {
    "start": lambda s: s.wait(s.start),
    "leave a block by an error": lambda s: s.wait(lambda: _with(s)),
    "seek beyond": lambda s: s.at_once(lambda: s.consumer.seek(s.first, 5000)),
    "seek to the beginning": lambda s: s.wait(lambda: s.consumer.seek_to_beginning()),
    "seek to the end": lambda s: s.wait(lambda: s.consumer.seek_to_end(s.first)),
    "seek to what is committed": lambda s: s.wait(lambda: s.consumer.seek_to_committed()),
    "read three": lambda s: s.wait(lambda: s.read(3)),
    "read the rest": lambda s: s.wait(lambda: s.read(RECORDS)),
    "iterate": lambda s: s.wait(lambda: s.iterate(2)),
    "commit": lambda s: s.wait(lambda: s.consumer.commit()),
    "commit an offset": lambda s: s.wait(lambda: s.consumer.commit({s.first: (2, "m")})),
    "commit too long": lambda s: s.wait(lambda: s.consumer.commit({s.first: (1, "x" * 9999)})),
    "commit a foreign one": lambda s: s.wait(lambda: s.consumer.commit({_FOREIGN: 1})),
    "committed": lambda s: s.wait(lambda: s.consumer.committed(s.first)),
    "position": lambda s: s.wait(lambda: s.consumer.position(s.first), 3),
    "ends": lambda s: s.wait(lambda: s.consumer.end_offsets([s.first, s.second])),
    "offsets at a time": lambda s: s.wait(lambda: s.consumer.offsets_for_times({s.first: 0})),
    "partitions": lambda s: s.consumer.partitions_for_topic(s.topic),
    "begin a transaction": lambda s: s.wait(lambda: s.produced("begin_transaction")),
    "send": lambda s: s.wait(lambda: s.produced("send_and_wait", s.outputs, b"output")).topic,
    "send offsets": lambda s: s.wait(lambda: s.produced("send_offsets_to_transaction", {s.first: 3}, s.group)),
    "commit the transaction": lambda s: s.wait(lambda: s.produced("commit_transaction")),
    "abort the transaction": lambda s: s.wait(lambda: s.produced("abort_transaction")),
    "read a foreign one": lambda s: s.wait(lambda: s.consumer.getone(_FOREIGN), 3),
    "read no records": lambda s: s.wait(lambda: s.consumer.getmany(max_records=0)),
}
INVALID: Calls = {
    "subscribe to a text": lambda s: s.at_once(lambda: s.consumer.subscribe(s.topic)),
    "subscribe to numbers": lambda s: s.at_once(lambda: s.consumer.subscribe([7])) if s.is_closed else None,
    "subscribe to nothing": lambda s: s.at_once(lambda: s.consumer.subscribe()),
    "subscribe by both": lambda s: s.at_once(lambda: s.consumer.subscribe([s.topic], pattern="x.*")),
    "subscribe with a wrong listener": lambda s: s.at_once(lambda: s.consumer.subscribe([s.topic], listener=7)),
    "assign a number": lambda s: s.at_once(lambda: s.consumer.assign(7)),
    "unsubscribe from": lambda s: s.at_once(lambda: s.consumer.unsubscribe(s.topic)),
    "seek a text": lambda s: s.at_once(lambda: s.consumer.seek("text", 1)),
    "seek below": lambda s: s.at_once(lambda: s.consumer.seek(s.first, -1)),
    "seek to a text": lambda s: s.at_once(lambda: s.consumer.seek(s.first, "five")),
    "seek a foreign one": lambda s: s.at_once(lambda: s.consumer.seek(_FOREIGN, 1)),
    "seek nothing": lambda s: s.at_once(lambda: s.consumer.seek()),
    "seek to the beginning of a foreign one": lambda s: s.wait(lambda: s.consumer.seek_to_beginning(_FOREIGN)),
    "seek to the end of a text": lambda s: s.wait(lambda: s.consumer.seek_to_end("text")),
    "seek to the committed of a text": lambda s: s.wait(lambda: s.consumer.seek_to_committed("text")),
    "seek to the end of what is unknown": lambda s: s.wait(lambda: s.consumer.seek_to_end(nothing=1)),
    "pause a foreign one": lambda s: s.consumer.pause(_FOREIGN),
    "pause a text": lambda s: s.consumer.pause("text"),
    "resume a foreign one": lambda s: s.consumer.resume(_FOREIGN),
    "read what is unknown": lambda s: s.wait(lambda: s.consumer.getmany(nothing=1)),
    "read one of a text": lambda s: s.wait(lambda: s.consumer.getone("text"), 0.1),
    "commit a text": lambda s: s.wait(lambda: s.consumer.commit("text")),
    "commit a number": lambda s: s.wait(lambda: s.consumer.commit({s.first: "five"})),
    "commit what is unknown": lambda s: s.wait(lambda: s.consumer.commit(nothing=1)),
    "committed of a text": lambda s: s.wait(lambda: s.consumer.committed("text")),
    "position of a text": lambda s: s.wait(lambda: s.consumer.position("text")),
    "position of a foreign one": lambda s: s.wait(lambda: s.consumer.position(_FOREIGN), 0.1),
    "offsets before time": lambda s: s.wait(lambda: s.consumer.offsets_for_times({s.first: -5})),
    "an unknown attribute": lambda s: s.consumer.nothing,
    "an unknown setting": lambda s: AIOKafkaConsumer(nothing=1),
}

if __name__ == "__main__":
    make_calls(AiokafkaSubject, {**VALID, **ONLINE, **INVALID})
