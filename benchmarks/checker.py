"""The cost of a verdict over a long history without violations."""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from kafka_assignors.core import reading
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import AssignedPartitions, Subscription, encode_assignment, encode_subscription
from kafka_assignors.history.events import Event, partitions_json
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from tests.support.histories.story import seal

from .result import Result, WrongAnswer

TOPICS = {"orders": 12, "payments": 6, "audit": 3}
MEMBERS = ("m1", "m2", "m3")
_RECORDS_PER_GENERATION = 1000
_TICK_NS = 1_000_000


def run(quick: bool) -> Iterator[Result]:
    """``judge-100k``, and ``judge-1m`` in the full form: CPU seconds from a folder's files to the verdict.

    And ``events-100k``, ``events-1m``: from events in memory.
    """
    for events in (100_000, 1_000_000):
        if quick and events > 100_000:
            continue
        size = "100k" if events == 100_000 else "1m"
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), _events(events))
            seconds = []
            for _ in range(1 if events > 100_000 else 3):
                began = time.thread_time()
                history = History.load(Path(folder))
                verdict = check(history)
                seconds.append(time.thread_time() - began)
            if verdict.value is not True:
                raise WrongAnswer(f"a clean history is judged {verdict.value}: {verdict.violations or verdict.unknown}")
        yield Result(
            f"judge-{size}", statistics.median(seconds), "s", note=f"{len(history.events)} events",
            raw={"seconds": seconds},
        )  # fmt: skip
        name = f"events-{size}"
        history = History(_events(events))
        seconds = []
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(1 if events > 100_000 else 3):
            began = time.thread_time()
            verdict = check(history)
            seconds.append(time.thread_time() - began)
        grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
        if verdict.value is not True:
            why = [f"{broken.law}: {broken.message}" for broken in verdict.violations] or verdict.unknown
            raise WrongAnswer(f"a clean history is judged {verdict.value}: {why[0]}")
        judged = f"{len(history.events)} events, {grown_mb:.0f} MB besides the events; judged {verdict.laws}"
        raw = {"seconds": seconds, "grown_mb": grown_mb}
        yield Result(name, statistics.median(seconds), "s", note=judged, raw=raw)


def _write(folder: Path, events: Sequence[Event]) -> None:
    """The files of a run with these events, one for each source."""
    files: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        files[f"{event.src}.{event.member}.jsonl"].append(event)
    for name, rows in files.items():
        (folder / name).write_text("".join(event.to_json() + "\n" for event in rows), "utf-8")
        seal(folder / name)


def _events(size: int) -> list[Event]:
    """About `size` events: a group of three that is rebalanced after each thousand records, then a read-back."""
    history = Run()
    for member in MEMBERS:
        history.tell("start", "member", member, assignors=["range"], topics=[*TOPICS], config={"assignors": ["range"]})
    history.tell(
        "admin_change", "harness", MEMBERS[0], change="subscribe", target=MEMBERS[0],
        subscription={"topics": [*TOPICS][1:], "pattern": None},
    )  # fmt: skip
    assignment: dict[str, list[TopicPartition]] = {member: [] for member in MEMBERS}
    # Each record has two events, sent and read back; consume events and rebalances are few.
    while 2 * len(history.acks) + 60 * history.generation < size:
        assignment = history.rebalance(assignment)
        history.send(_RECORDS_PER_GENERATION)
    history.consume(assignment)
    history.read_back()
    return history.events


class Run:
    """Writes the events of a run without violations."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.acks: list[Event] = []
        self.generation = 0
        self._clock = count(_TICK_NS, _TICK_NS)
        self._seq: dict[tuple[str, str | None], Iterator[int]] = {}
        self._ends = {TopicPartition(topic, p): 0 for topic, n in TOPICS.items() for p in range(n)}

    def tell(self, kind: str, src: str, member: str | None = None, **data: Any) -> Event:
        now = next(self._clock)
        seq = next(self._seq.setdefault((src, member), count()))
        group = None if src == "producer" or kind == "read_back" else "g"
        member_id = f"{member}-id" if src == "member" else None
        event = Event(kind, "run", src, seq, now, now, group, member, 0, 1, member_id, data=data)
        self.events.append(event)
        return event

    def rebalance(self, assignment: dict[str, list[TopicPartition]]) -> dict[str, list[TopicPartition]]:
        """An eager rebalance. Every second time m1 drops a topic, which moves partitions."""
        for member in MEMBERS:  # before it joins, so still in the generation before
            self._callback(member, "revoke", assignment[member])
        self.generation += 1
        view: dict[str, Any] = {"generation": self.generation, "protocol": "range"}
        ids = {member: f"{member}-id" for member in MEMBERS}
        topics = {m: tuple(TOPICS)[1 if m == "m1" and self.generation % 2 else 0 :] for m in MEMBERS}
        subscriptions = {m: encode_subscription(Subscription(topics[m], None)) for m in MEMBERS}
        leader = MEMBERS[0]
        self.tell("assign_begin", "member", leader, members=list(ids.values()), topics=TOPICS, racks={}, **view)
        self.tell("assign_end", "member", leader, duration_us=100, **view)
        answer = reading.replay("range", [(ids[m], None, subscriptions[m]) for m in MEMBERS], TOPICS)
        assignment = {m: [TopicPartition(t, p) for t, ps in answer[ids[m]].items() for p in ps] for m in MEMBERS}
        rows = [
            {
                "member_id": ids[m], "client_id": m, "subscription": subscriptions[m].hex(), "owned": [],
                "assignment": encode_assignment(AssignedPartitions(answer[ids[m]])).hex(),
                "assigned": partitions_json(assignment[m]),
            }
            for m in MEMBERS
        ]  # fmt: skip
        self.tell("generation_committed", "coordlog", leader=ids[leader], ts_ms=0, members=rows, **view)
        for member in MEMBERS:
            self.tell("generation", "member", member, partitions=partitions_json(assignment[member]), **view)
            self._callback(member, "assigned", assignment[member])
        stable: dict[str, Any] = {
            "generation": self.generation,
            "topics": TOPICS,
            "adopted_ns": self.events[-1].mono_ns,
        }
        self.tell("step", "harness", name="stable", **stable)
        return assignment

    def send(self, records: int) -> None:
        """Acknowledged records over all partitions."""
        places = list(self._ends)
        for i in range(records):
            place = places[i % len(places)]
            self.acks.append(
                self.tell("ack", "producer", partitioner="default", topic=place.topic, partition=place.partition,
                          offset=self._ends[place], value_id=str(len(self.acks)), predicted=place.partition)
            )  # fmt: skip
            self._ends[place] += 1

    def consume(self, assignment: dict[str, list[TopicPartition]]) -> None:
        """Consume all records, each by its current owner."""
        for member, partitions in assignment.items():
            offsets = [
                {"topic": tp.topic, "partition": tp.partition, "first": 0, "last": self._ends[tp] - 1,
                 "count": self._ends[tp], "bytes": self._ends[tp]}
                for tp in partitions if self._ends[tp]
            ]  # fmt: skip
            self.tell("consume", "member", member, offsets=offsets)
        self.tell("step", "harness", name="drained", offsets=self._offsets())

    def read_back(self) -> None:
        """Read back every acknowledged record."""
        for ack in self.acks:
            names = ("topic", "partition", "offset", "value_id", "partitioner")
            self.tell("read_back", "harness", **{name: ack.data[name] for name in names})
        self.tell("step", "harness", name="read_back", offsets=self._offsets())

    def _offsets(self) -> list[dict[str, Any]]:
        return [{"topic": tp.topic, "partition": tp.partition, "offset": end} for tp, end in self._ends.items()]

    def _callback(self, member: str, kind: str, partitions: list[TopicPartition]) -> None:
        for edge in ("begin", "end"):
            self.tell(f"{kind}_{edge}", "member", member, generation=self.generation,
                      partitions=partitions_json(partitions))  # fmt: skip
