"""A group's drawn life with recorded consumers of kafka-python, in place of light members."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer
from kafka.structs import MemberState

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor, StickyAssignor, record
from kafka_assignors.clients.kafka_python import private
from kafka_assignors.connection import Connection
from kafka_assignors.coordinator import LogTail
from kafka_assignors.history.rebalances import rebalances
from kafka_assignors.integration.topics import Topics
from kafka_assignors.recordings import read_group

from .compared import Agreement, compared
from .course import Course, Step

OURS = {
    "range": RangeAssignor, "roundrobin": RoundRobinAssignor, "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}  # fmt: skip
_SETTINGS = {
    "session_timeout_ms": 3000, "heartbeat_interval_ms": 300, "retry_backoff_ms": 50, "metadata_max_age_ms": 1000,
    "max_poll_interval_ms": 20_000, "enable_auto_commit": False, "metrics_enabled": False, "fetch_max_wait_ms": 100,
}  # fmt: skip


class ConsumerMember:
    """A consumer that is polled on a thread, with the methods of a `light.LightMember`.

    Args:
        folder: Where it is recorded; None: it isn't.
    """

    expelled = False

    def __init__(  # as many as a consumer's settings
        self, bootstrap: str, group: str, client_id: str, topics: Collection[str], assignor: str,
        folder: Path | str | None, *, instance_id: str | None = None,
    ) -> None:  # fmt: skip
        self.client_id, self.instance_id, self.topics = client_id, instance_id, frozenset(topics)
        self._to, self.led = folder, -1
        self._settings = {
            **_SETTINGS, "bootstrap_servers": bootstrap, "group_id": group, "client_id": client_id,
            "group_instance_id": instance_id, "partition_assignment_strategy": [OURS[assignor]],
        }  # fmt: skip
        self.consumer: Any = None
        self.member_ids: set[str] = set()
        self._asked: frozenset[str] | None = None
        self._again, self._done = False, threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"{group}/{client_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self.consumer = consumer = KafkaConsumer(**self._settings)
            if self._to is not None:
                record(consumer, self._to)
            consumer.subscribe(sorted(self.topics))
            while not self._done.is_set():
                if self._asked is not None:
                    asked, self._asked = self._asked, None
                    consumer.subscribe(sorted(asked))
                if self._again:
                    self._again = False
                    private.joining.request_rebalance(consumer._coordinator)
                consumer.poll(timeout_ms=100)
                self.member_ids.add(self.member_id)
                if consumer._coordinator._is_leader:
                    self.led = self.generation
        except BaseException as error:
            self._error = error

    @property
    def generation(self) -> int:
        return -1 if self.consumer is None else int(self.consumer.group_metadata().generation_id)

    @property
    def member_id(self) -> str:
        return "" if self.consumer is None else str(self.consumer.group_metadata().member_id)

    @property
    def stable(self) -> bool:
        if self.consumer is None or self._asked is not None or self._again:
            return False
        coordinator = self.consumer._coordinator
        return coordinator.state is MemberState.STABLE and not coordinator.need_rejoin()

    def failure(self) -> BaseException | None:
        return self._error

    def rejoin(self, topics: Collection[str] | None = None) -> None:
        if topics is not None:
            self.topics = self._asked = frozenset(topics)
        else:
            self._again = True

    async def leave(self) -> None:
        await asyncio.to_thread(self._end, left=True)

    async def kill(self) -> None:
        """End without a word: no request of the consumer's is sent any more."""
        await asyncio.to_thread(self._end, left=False)

    def _end(self, *, left: bool) -> None:
        self._done.set()
        self._thread.join(60)
        if self.consumer is None:
            return
        if left:
            self.consumer.close()
        else:
            self.consumer._coordinator._close_heartbeat()
            self.consumer._client.close()


@dataclass
class RecordedCourse(Course):
    """One group of consumers that record. `left` gets the member ids of those that were closed."""

    bootstrap: str = ""
    folder: Path | str = ""
    left: set[str] = field(default_factory=set)

    def _start(self, name: str, instance: str | None = None, topics: Sequence[str] = ()) -> None:
        heard = topics or list(self.topics)[:2]
        member = ConsumerMember(
            self.bootstrap, self.group, name, heard, self.assignor, self.folder, instance_id=instance
        )  # fmt: skip
        self.members[name] = member  # type: ignore[assignment]
        member.start()

    async def _leave(self, step: Step, name: str) -> None:
        member: Any = self.members[name]
        await super()._leave(step, name)
        self.left |= member.member_ids

    async def _restart(self, step: Step, names: Sequence[str]) -> None:
        members: list[Any] = [self.members[name] for name in names]
        await super()._restart(step, names)
        self.left |= {member_id for member in members for member_id in member.member_ids}

    async def _growth(self, step: Step) -> None:
        """A topic grows; the leader sees it by itself."""
        topic = self._random.choice(self._growing())
        count = self.topics[topic] + self._random.randint(1, 3)
        await asyncio.to_thread(self.grow, topic, count)
        self.topics[topic] = count
        step.truth[""] = (("partitions",),)


def played(bootstrap: str, folder: Path, groups: int, generations: int) -> dict[str, Agreement]:
    """Group -> how its recordings agree with its log, after a drawn life of so many generations each."""
    host, _, port = bootstrap.rpartition(":")
    topics, lock = Topics(bootstrap), threading.Lock()

    def grow(topic: str, count: int) -> None:
        with lock:
            topics.grow(topic, count)

    courses, names = [], list(OURS)
    for n in range(groups):
        group = f"recorded-{n}-{uuid.uuid4().hex[:6]}"
        counts = {f"{group}-{topic}": 4 for topic in "abc"}
        topics.create(counts)
        courses.append(
            RecordedCourse(
                (host, int(port)), group, n, names[n % len(names)], counts, grow,
                bootstrap=bootstrap, folder=folder,
            )
        )  # fmt: skip

    async def play() -> None:
        await asyncio.gather(*(course.begin() for course in courses))
        await asyncio.gather(*(course.play(generations) for course in courses))

    async def end() -> None:
        await asyncio.gather(*(course.end() for course in courses))

    try:
        asyncio.run(play())
        with closing(LogTail(Connection(bootstrap), [course.group for course in courses])) as tail:
            logs = tail.history
        agreements = {}
        for course in courses:
            recorded = read_group(course.group, [str(folder)], lambda: Connection(bootstrap), _ignore)
            agreements[course.group] = compared(rebalances(logs[course.group]), recorded.rebalances(), course.left)
    finally:
        asyncio.run(end())
        topics.close()
    return agreements


def _ignore(note: str) -> None:
    """Of a line that is being written: it is read whole later."""
