"""What the recorder of a service's consumer costs it (`kafka_assignors.integration.recorder`)."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import comb
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from kafka import KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from kafka_assignors.errors import UnknownName
from kafka_assignors.integration import recorder
from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.recorder.kafka_assignors_recorder import FILE, GROUP, LOG
from kafka_assignors.integration.recorder.kafka_assignors_recorder.kafka_python import wrap_consumer
from kafka_assignors.integration.recorder.kafka_assignors_recorder.record import File, RecordedMember
from kafka_assignors.integration.topics import create_topics

from .result import Result, WrongAnswer, in_turns

_RECORDS, _QUICK_RECORDS = 300_000, 60_000
_TURNS, _QUICK_TURNS = 21, 11
_VALUE, _BATCH, _PLACE = b"x" * 100, 500, TopicPartition("t", 0)
_WITH, _WITHOUT, _EMPTY = "recorder", "without", "an empty wrapper"
_BEGIN = """
import json, sys, time
bootstrap, topic, group, count, way = sys.argv[1:]
left, begun = int(count), None
def read(number):
    global left, begun
    if number and begun is None:
        begun = time.perf_counter(), time.process_time()
    left -= number
    return left > 0
def end():
    print(json.dumps({"wall": time.perf_counter() - begun[0], "cpu": time.process_time() - begun[1]}))
"""
_SERVICES = {
    "kafka-python": ("poll", "iterator"),
    "confluent-kafka": ("poll", "consume"),
    "aiokafka": ("getmany", "getone"),
}
"""Client -> the ways in which its service reads."""
_PROGRAMS = {
    "kafka-python": """
from kafka import KafkaConsumer
consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
)
if way == "poll":
    while read(sum(map(len, consumer.poll(timeout_ms=1000).values()))):
        pass
else:
    for _ in consumer:
        if not read(1):
            break
end()
consumer.close()
""",
    "confluent-kafka": """
from confluent_kafka import Consumer
consumer = Consumer(
    {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
)
consumer.subscribe([topic])
if way == "poll":
    while read(consumer.poll(1.0) is not None):
        pass
else:
    while read(len(consumer.consume(500, 1.0))):
        pass
end()
consumer.close()
""",
    "aiokafka": """
import asyncio
from aiokafka import AIOKafkaConsumer
async def main():
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    )
    await consumer.start()
    if way == "getmany":
        while read(sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))):
            pass
    else:
        async for _ in consumer:
            if not read(1):
                break
    end()
    await consumer.stop()
asyncio.run(main())
""",
}
"""Services as users write them, at defaults but for the beginning; each measures from its first record to its last."""
_EMPTY_WRAPPERS = {
    ("confluent-kafka", "poll"): """
import confluent_kafka
class Wrapped(confluent_kafka.Consumer):
    def poll(self, timeout, original=confluent_kafka.Consumer.poll):
        return original(self, timeout)
confluent_kafka.Consumer = Wrapped
""",
    ("aiokafka", "getone"): """
from aiokafka.consumer.fetcher import Fetcher
async def next_record(self, partitions, original=Fetcher.next_record):
    return await original(self, partitions)
Fetcher.next_record = next_record
""",
}
"""Where each record is a call of its own: what any recorder in Python costs that does nothing."""


def run(quick: bool, only: str | None = None) -> Iterator[Result]:
    """``CLIENT/WAY``: one consumer reads small records, with the recorder and without, in turns.

    ``…/cpu``: CPU time of the whole process, the client's thread included. ``…/apart``: of the recorder's own calls, on
    records in memory, as a whole consumer's time varies by more than they take; of kafka-python alone. ``…/empty``: a
    wrapper that only calls, in place of the recorder, where each record is a call.

    Args:
        quick: Fewer records.
        only: Clients, with commas in between.

    Raises:
        UnknownName: No client has such a name.
    """
    asked = list(_SERVICES) if only is None else only.split(",")
    if strange := [name for name in asked if name not in _SERVICES]:
        raise UnknownName("client", strange[0], _SERVICES)
    count, turns = (_QUICK_RECORDS, _QUICK_TURNS) if quick else (_RECORDS, _TURNS)
    with start_broker("jvm") as broker, tempfile.TemporaryDirectory() as name:
        topic = f"recorder-{uuid4().hex[:8]}"
        create_topics(broker.bootstrap, {topic: 1})
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=20, batch_size=1 << 17)
        for _ in range(count):
            producer.send(topic, _VALUE)
        producer.close()
        for client, way in [(one, way) for one in asked for way in _SERVICES[one]]:
            if client == "kafka-python":
                yield apart(way, count, turns, Path(name))
            seconds: dict[str, dict[str, list[float]]] = {clock: defaultdict(list) for clock in ("wall", "cpu")}
            for turn in range(turns):
                kinds = [_WITH, _WITHOUT, *([_EMPTY] if (client, way) in _EMPTY_WRAPPERS else [])]
                for kind in kinds if turn % 2 == 0 else reversed(kinds):
                    for clock, value in _read(broker.bootstrap, topic, count, client, way, kind, Path(name)).items():
                        seconds[clock][kind].append(value)
            for clock, values in seconds.items():
                ours, theirs = (1e6 * statistics.median(values[kind]) / count for kind in (_WITH, _WITHOUT))
                raw = {"seconds": values, "count": count, "load": os.getloadavg()[0]}
                note = overhead(values[_WITH], values[_WITHOUT])
                yield Result(f"{client}/{way}/{clock}", ours, "us/record", _WITHOUT, theirs, note, raw)
                if _EMPTY in values:
                    empty, note = (
                        1e6 * statistics.median(values[_EMPTY]) / count,
                        overhead(values[_EMPTY], values[_WITHOUT]),
                    )
                    yield Result(f"{client}/{way}/{clock}/empty", empty, "us/record", _WITHOUT, theirs, note)


def overhead(with_it: Sequence[float], without: Sequence[float]) -> str:
    """How much longer a turn took: the median of the turns' ratios, and where it lies (95 %).

    The bounds are order statistics of the ratios: whatever their distribution, their median lies in between with at
    least that probability (Conover 1999, "Practical Nonparametric Statistics", 3.2).
    """
    ratios = sorted(100 * (one / other - 1) for one, other in zip(with_it, without, strict=True))
    count = len(ratios)
    out = next(
        (k for k in range(count // 2, 0, -1) if 2 * sum(comb(count, n) for n in range(k)) <= 0.05 * 2**count), None
    )
    bounds = (
        "too few turns for bounds" if out is None else f"95 %: {ratios[out - 1]:+.1f} to {ratios[count - out]:+.1f}"
    )
    return f"{statistics.median(ratios):+.1f} % in {count} turns; {bounds}"


class _Coordinator:
    """Holds the recorder's member."""


class _Consumer:
    """Hands out records in memory as a consumer does."""

    def __init__(self, records: list[ConsumerRecord]) -> None:
        self._coordinator: Any = _Coordinator()
        self._batches = (records[first : first + _BATCH] for first in range(0, len(records), _BATCH))
        self._iterator: Iterator[ConsumerRecord] = iter(())

    def poll(self, update_offsets: bool = True) -> Any:  # noqa: ARG002 - the recorder looks at it
        return dict(zip((_PLACE,), self._batches, strict=False))

    def __next__(self) -> Any:
        for record in self._iterator:
            return record
        self._iterator = iter(self.poll(update_offsets=False).get(_PLACE, ()))
        return next(self._iterator)

    def seek(self) -> None: ...

    def unsubscribe(self) -> None: ...

    def close(self) -> None: ...

    def read(self, way: str) -> float:
        """CPU seconds that it takes to hand all records out."""
        begun = time.thread_time()
        if way == "poll":
            while self.poll():
                pass
        else:
            with suppress(StopIteration):
                while True:
                    self.__next__()
        return time.thread_time() - begun


def apart(way: str, count: int, turns: int, folder: Path) -> Result:
    """The recorder's calls alone."""
    records = [ConsumerRecord("t", 0, 0, n, 0, 0, None, _VALUE, [], None, -1, len(_VALUE), -1) for n in range(count)]

    class Recorded(_Consumer):
        pass

    wrap_consumer(SimpleNamespace(KafkaConsumer=Recorded))

    def with_it() -> float:
        consumer = Recorded(records)
        member = RecordedMember(File(str(folder / "apart")), "kafka-python", lambda: "m")
        member._started = True
        consumer._coordinator._kafka_assignors_member = member
        return float(consumer.read(way))

    ours, theirs, raw = in_turns(with_it, lambda: _Consumer(records).read(way), turns)
    us = 1e6 * (ours - theirs) / count
    return Result(f"kafka-python/{way}/apart", us, "us/record", raw={**raw, "count": count})


def _read(bootstrap: str, topic: str, count: int, client: str, way: str, kind: str, folder: Path) -> dict[str, float]:
    """Read all records in a new process and group; the seconds that it took.

    Raises:
        WrongAnswer: The service failed, or the recorder missed records.
    """
    group = f"g-{uuid4().hex[:8]}"
    record = folder / group
    environment = dict(os.environ)
    if kind == _WITH:
        log = folder / "log"
        log.touch()
        environment |= {
            FILE: str(record), GROUP: group, LOG: str(log), "PYTHONPATH": str(Path(recorder.__file__).parent),
        }  # fmt: skip
    wrapper = _EMPTY_WRAPPERS[client, way] if kind == _EMPTY else ""
    command = [sys.executable, "-c", _BEGIN + wrapper + _PROGRAMS[client], bootstrap, topic, group, str(count), way]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongAnswer(f"the service failed: {done.stderr.strip()[-300:]}")
    if kind == _WITH:
        rows = [json.loads(line) for path in folder.glob(f"{group}.*") for line in path.read_text().splitlines()]
        consumed = sum(run["count"] for row in rows if row["kind"] == "consume" for run in row["offsets"])
        if consumed < count:
            raise WrongAnswer(f"the recorder saw {consumed} of {count} records")
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds
