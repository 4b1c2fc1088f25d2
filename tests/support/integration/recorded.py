"""A client with the classes and methods of kafka-python that the recorder wraps, without a broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from kafka_assignors.integration.recorder.kafka_assignors_recorder.kafka_python import wrap_consumer, wrap_coordinator
from kafka_assignors.integration.recorder.kafka_assignors_recorder.record import File

GROUP = "billing"


class Place(NamedTuple):
    topic: str
    partition: int


class Offset(NamedTuple):
    offset: Any


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    serialized_key_size: int = -1
    serialized_value_size: int = 10


class Protocol(IntEnum):
    EAGER = 0
    COOPERATIVE = 1


class Generation:
    member_id, generation_id = "", -1

    def is_lost(self) -> bool:
        return not self.member_id


class Subscription:
    """Of a consumer."""

    def __init__(self, listener: object) -> None:
        self.rebalance_listener = listener
        self.subscription, self.subscribed_pattern = {"t"}, None
        self.assignment: set[Place] = set()

    def assigned_partitions(self) -> set[Place]:
        return set(self.assignment)

    def partitions_auto_assigned(self) -> bool:
        return True


class Range:
    name = "range"


class Recording:
    """A client without a broker: what its methods do is `does`, method -> function of the consumer or coordinator.

    Args:
        prefix: Of the recorder's files.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.does: dict[str, Callable[..., Any]] = {}

    def do(self, method: str, subject: Any, *given: Any) -> Any:
        """What a method does; nothing else is said of it: it returns its name."""
        return self.does.get(method, lambda *_: method)(subject, *given)

    def files(self) -> list[Path]:
        """One per process."""
        return sorted(self.prefix.parent.glob(f"{self.prefix.name}.*"))

    def forget(self) -> None:
        """Leave out what was recorded."""
        for path in self.files():
            path.write_text("")

    def rows(self) -> list[dict[str, Any]]:
        """What was recorded."""
        return [json.loads(line) for path in self.files() for line in path.read_text().splitlines()]

    def events(self) -> list[tuple[str, Any]]:
        """What was recorded, in short: kind and partitions, or offsets."""
        return [(row["kind"], brief(row)) for row in self.rows()]


class Client(Recording):
    """A module of kafka-python's, recorded. `log`: the file that the process prints to."""

    def __init__(self, prefix: Path, log: Path | None = None) -> None:
        super().__init__(prefix)
        does = self.do

        class ConsumerCoordinator:
            def __init__(
                self, group_id: str = GROUP, protocol: Protocol = Protocol.COOPERATIVE, listener: object = None
            ) -> None:
                self.group_id, self.config = group_id, {"session_timeout_ms": 45000, "other": object()}
                self._subscription, self._generation = Subscription(listener), Generation()
                self._rebalance_protocol, self._assignors = protocol, {"range": Range()}

            async def _on_join_prepare_async(self, generation: int, member_id: str, timeout_ms: Any = None) -> Any:
                return does("prepare", self, generation, member_id)

            async def _on_join_complete_async(
                self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
            ) -> Any:
                return does("complete", self, generation, member_id, protocol, member_assignment_bytes)

            async def _on_close_prepare_async(self) -> Any:
                return does("close_prepare", self)

            async def _invoke_rebalance_listener_async(self, method_name: str, arg: Any) -> Any:
                return does("invoke", self, method_name, arg)

            async def _send_offset_commit_request(self, offsets: Any) -> Any:
                return does("commit", self, offsets)

        class KafkaConsumer:
            def __init__(self, **settings: Any) -> None:
                self._coordinator, self._closed = ConsumerCoordinator(**settings), False

            def poll(self, timeout_ms: int = 0, max_records: int | None = None, update_offsets: bool = True) -> Any:
                return does("poll", self)

            def __next__(self) -> Any:
                return does("next", self)

            def seek(self, partition: Any, offset: int) -> Any:
                return does("seek", self)

            def unsubscribe(self) -> Any:
                return does("unsubscribe", self)

            def close(self, autocommit: bool = True) -> Any:
                self._closed = True
                return does("close", self)

        self.module = SimpleNamespace(
            ConsumerCoordinator=ConsumerCoordinator,
            KafkaConsumer=KafkaConsumer,
            ConsumerProtocolAssignment=SimpleNamespace(decode=self._decode),
        )
        self.file = File(str(prefix), None if log is None else str(log))
        wrap_coordinator(self.file, GROUP, self.module)
        wrap_consumer(self.module)

    @staticmethod
    def _decode(data: bytes) -> Any:
        return SimpleNamespace(partitions=lambda: sorted(places(data)))

    def consumer(self, *, generation: int | None = 1, owned: bytes = b"", **settings: Any) -> Any:
        """A consumer that is a member by its first join, whose rows are left out; generation=None: it never joined."""
        consumer = self.module.KafkaConsumer(**settings)
        if generation is not None:
            actions, self.does = self.does, {"complete": adopt}
            result(consumer._coordinator._on_join_prepare_async(-1, ""))
            consumer._coordinator._generation.member_id = "id"
            result(consumer._coordinator._on_join_complete_async(generation, "id", "range", owned))
            self.does = actions
            self.forget()
        return consumer


def places(data: bytes) -> set[Place]:
    """The partitions of an assignment in these tests: its bytes."""
    return {Place("t", number) for number in data}


def adopt(coordinator: Any, *given: Any) -> str:
    """What the client does as it adopts an assignment."""
    coordinator._subscription.assignment = places(given[-1])
    return "complete"


def brief(row: dict[str, Any]) -> Any:
    """What matters of a row."""
    if "partitions" in row:
        return [place["partition"] for place in row["partitions"]]
    offsets: Iterable[dict[str, Any]] = row.get("offsets", ())
    if row["kind"] == "consume":
        return [(run["partition"], run["first"], run["last"], run["count"], run["bytes"]) for run in offsets]
    return [(place["partition"], place["offset"]) for place in offsets]


def result(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine that never waits returns or raises."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")
