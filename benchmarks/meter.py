"""What the load meter costs a consumer."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from kafka import KafkaConsumer, KafkaProducer

from kafka_assignors import WeightedAssignor
from kafka_assignors.core.weighted.meter import Meter
from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.topics import create_topics
from kafka_assignors.kafka_python import meter as kafka_meter

from .result import Result

_PARTITIONS = 24
_BYTES = 200


def run(quick: bool) -> Iterator[Result]:
    """CPU time of the meter, as a part of the consumer's own while it reads a backlog and does nothing else with it.

    ``-share``: what the meter adds to the polls, measured apart on the batches that the consumer returned.
    ``-cpu``: CPU time of a process that consumes with a meter, and of one without for a peer. Each run is a process of
    its own, and the two take turns. ``-thread``: the same of the thread that polls alone. ``one-by-one`` is the worst
    case, polls that return one record each.
    """
    records = 60_000 if quick else 400_000
    with start_broker("jvm") as broker:
        topic = f"meter-{uuid.uuid4().hex[:6]}"
        create_topics(broker.bootstrap, {topic: _PARTITIONS})
        _fill(broker.bootstrap, topic, records)
        for name, most, read in (("meter/default", 500, records), ("meter/one-by-one", 1, min(records, 40_000))):
            seen: dict[str | None, list[dict[str, Any]]] = {None: [], "work": []}
            for turn in range(4 if quick else 10):
                # The order alternates: a busy phase of the machine, or a warm cache, helps both sides equally often.
                for meter in (None, "work") if turn % 2 == 0 else ("work", None):
                    seen[meter].append(_apart(broker.bootstrap, topic, read, most, meter))
            yield from _results(name, read, seen[None], seen["work"])


def _results(name: str, records: int, plain: list[dict[str, Any]], metered: list[dict[str, Any]]) -> Iterator[Result]:
    batches = metered[0].pop("batches")
    for each in (*plain, *metered):
        each.pop("batches", None)
    spent = statistics.median(_replayed(batches) for _ in range(5))
    used = statistics.median(each["cpu_s"] for each in plain)
    raw = {"spent_s": spent, "plain": plain, "metered": metered}
    note = f"{len(batches):,} polls, {spent / len(batches) * 1e6:.2f} us each; {used / records * 1e6:.1f} us a record"
    yield Result(f"{name}-share", 100 * spent / used, "% of CPU", note=note, raw=raw)
    for of, figure in (("cpu", "cpu_s"), ("thread", "thread_s")):
        ours, peer = ([each[figure] / records * 1e6 for each in side] for side in (metered, plain))
        apart = [a / b - 1 for a, b in zip(ours, peer, strict=True)]
        note = f"in pairs {min(apart):+.1%} to {max(apart):+.1%}, median {statistics.median(apart):+.2%}"
        yield Result(
            f"{name}-{of}", statistics.median(ours), "us/record", "without a meter", statistics.median(peer), note
        )


def _apart(*arguments: Any) -> dict[str, Any]:
    """`_consumed` in a process of its own: a consumer that was closed leaves memory behind, which slows the next."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_consumed, *arguments).result()


def _fill(bootstrap: str, topic: str, records: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20)
    for n in range(records):
        producer.send(topic, b"x" * _BYTES, partition=n % _PARTITIONS)
    producer.flush()
    producer.close()


def _consumed(bootstrap: str, topic: str, records: int, most: int, meter: str | None) -> dict[str, Any]:
    """CPU time to read so many records from the beginning, and the partitions' counts of each poll."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=uuid.uuid4().hex, auto_offset_reset="earliest",
        enable_auto_commit=False, max_poll_records=most,
        partition_assignment_strategy=[WeightedAssignor.factory(meter=meter)],
    )  # fmt: skip
    try:
        seen, batches = 0, []
        while seen < records // 20:  # the join, and the first fetches
            seen += sum(map(len, consumer.poll(1000).values()))
        before, began, thread, seen = (
            resource.getrusage(resource.RUSAGE_SELF),
            time.process_time(),
            time.thread_time(),
            0,
        )
        while seen < records - records // 10:
            polled = consumer.poll(1000)
            batches.append({partition: len(each) for partition, each in polled.items()})
            seen += sum(batches[-1].values())
        spent, of_thread = time.process_time() - began, time.thread_time() - thread
        after = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "cpu_s": spent * records / seen, "thread_s": of_thread * records / seen, "batches": batches,
            "switches": after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw,
        }  # fmt: skip
    finally:
        consumer.close()


def _replayed(batches: list[dict[Any, int]]) -> float:
    """CPU seconds of all that the meter adds to these polls."""
    meter = Meter()

    class Poller:
        def poll(self) -> None: ...

        def fetch_records(self) -> Any:
            return polled

    def tick(now: float) -> None:
        for partition in partitions:
            meter.saw(partition, 5, 10, now)

    partitions = {partition for batch in batches for partition in batch}
    plain, poller = Poller(), Poller()
    kafka_meter.measure(poller, poller, meter, tick)
    spent = []
    for each in (plain, poller):
        began = time.process_time()
        for batch in batches:
            polled = ({partition: range(n) for partition, n in batch.items()},)
            each.poll()
            each.fetch_records()
        spent.append(time.process_time() - began)
    return spent[1] - spent[0]
