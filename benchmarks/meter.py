"""What the load meter costs a consumer."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Iterator
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

    The meter's time is measured apart, on the batches that the consumer returned: two runs differ by more than that.
    ``one-by-one`` is the worst case, polls that return one record each. ``-cpu`` has the same consumer without a meter
    for a peer.
    """
    records = 60_000 if quick else 400_000
    with start_broker("jvm") as broker:
        topic = f"meter-{uuid.uuid4().hex[:6]}"
        create_topics(broker.bootstrap, {topic: _PARTITIONS})
        _fill(broker.bootstrap, topic, records)
        for name, most, read in (("meter/default", 500, records), ("meter/one-by-one", 1, min(records, 20_000))):
            rounds = [
                _consumed(broker.bootstrap, topic, read, most, meter) for meter in (None, "work") * (2 if quick else 5)
            ]
            plain, metered = rounds[::2], rounds[1::2]
            batches = metered[0]["batches"]
            spent = statistics.median(_replayed(batches) for _ in range(5))
            used = statistics.median(each["cpu"] for each in plain)
            each_us, record_us = spent / len(batches) * 1e6, used / read * 1e6
            note = f"{len(batches):,} polls, {each_us:.2f} us each; {record_us:.1f} us of CPU a record"
            raw = {
                "spent_s": spent,
                "plain_cpu_s": [r["cpu"] for r in plain],
                "metered_cpu_s": [r["cpu"] for r in metered],
            }
            yield Result(f"{name}-share", 100 * spent / used, "% of CPU", note=note, raw=raw)
            yield Result(
                f"{name}-cpu",
                statistics.median(each["cpu"] for each in metered) / read * 1e6,
                "us/record",
                "without a meter",
                used / read * 1e6,
                raw=raw,
            )


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
        began, seen = time.process_time(), 0
        while seen < records - records // 10:
            polled = consumer.poll(1000)
            batches.append({partition: len(each) for partition, each in polled.items()})
            seen += sum(batches[-1].values())
        return {"cpu": (time.process_time() - began) * records / seen, "batches": batches}
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
