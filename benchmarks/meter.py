"""What the load meter costs a consumer."""

from __future__ import annotations

import multiprocessing
import statistics
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from kafka import KafkaConsumer, KafkaProducer

from kafka_assignors import WeightedAssignor
from kafka_assignors.clients.kafka_python import meter as kafka_meter
from kafka_assignors.core.weighted.meter import Meter
from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.topics import create_topics

from .result import Result

_PARTITIONS = 24
_BYTES = 200


def run(quick: bool) -> Iterator[Result]:
    """CPU time of the meter, as a part of the consumer's own while it reads a backlog and does nothing else with it.

    ``-share``: what the meter adds to the polls, measured apart on the batches that the consumer returned.
    ``-cpu``: the process's CPU time with the meter, against that without it: one consumer polls in short turns with
    and without its meter, so that neither drift of the process nor other work on the machine favours a side.
    ``one-by-one`` is the worst case, polls that return one record each.
    """
    records = 60_000 if quick else 400_000
    with start_broker("jvm") as broker:
        topic = f"meter-{uuid.uuid4().hex[:6]}"
        create_topics(broker.bootstrap, {topic: _PARTITIONS})
        _fill(broker.bootstrap, topic, records)
        for name, most, polls in (("meter/default", 500, 5), ("meter/one-by-one", 1, 250)):
            read = records if most > 1 else min(records, 20_000 if quick else 100_000)
            rounds = [_apart(broker.bootstrap, topic, read, most, polls) for _ in range(1 if quick else 5)]
            yield from _results(name, rounds)


def _results(name: str, rounds: list[dict[str, Any]]) -> Iterator[Result]:
    batches = rounds[0]["batches"]
    records = sum(sum(batch.values()) for batch in batches)
    spent = statistics.median(_replayed(batches) for _ in range(5)) / records * 1e6
    ours, peer = ([us for round_figures in rounds for us in round_figures[side]] for side in ("metered", "plain"))
    # Turns come in pairs, one of each side.
    more = sorted(a / b - 1 for a, b in zip(ours, peer, strict=True))
    used, each_us = statistics.median(peer), spent * records / len(batches)
    raw = {
        "spent_us": spent,
        "rounds": [
            {name: value for name, value in round_figures.items() if name != "batches"} for round_figures in rounds
        ],
    }
    note = f"{len(batches):,} polls, {each_us:.2f} us each; {used:.1f} us of CPU a record"
    yield Result(f"{name}-share", 100 * spent / used, "% of CPU", note=note, raw=raw)
    quarter = len(more) // 4
    note = (
        f"{len(more)} pairs of turns: median {statistics.median(more):+.2%}, the middle half {more[quarter]:+.1%} to "
        f"{more[-quarter - 1]:+.1%}"
    )
    yield Result(f"{name}-cpu", statistics.median(ours), "us/record", "without a meter", used, note)


def _apart(*arguments: Any) -> dict[str, Any]:
    """`_consumed` in a process of its own: consumers that were closed leave memory behind, which slows later ones."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_consumed, *arguments).result()


def _fill(bootstrap: str, topic: str, records: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20)
    for n in range(records):
        producer.send(topic, b"x" * _BYTES, partition=n % _PARTITIONS)
    producer.flush()
    producer.close()


def _consumed(bootstrap: str, topic: str, records: int, most: int, polls: int) -> dict[str, Any]:
    """Read so many records from the beginning, and turn the meter off and on every few polls.

    Returns:
        ``metered``, ``plain``: CPU us per record of each turn; ``batches``: the partitions' counts of each poll.
    """
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=uuid.uuid4().hex, auto_offset_reset="earliest",
        enable_auto_commit=False, max_poll_records=most,
        partition_assignment_strategy=[WeightedAssignor.factory(meter="work")],
    )  # fmt: skip
    try:
        seen, batches = 0, []
        while seen < records // 20:  # the join, and the first fetches
            seen += sum(map(len, consumer.poll(1000).values()))
        places = [(consumer._coordinator, "poll"), (consumer._fetcher, "fetch_records")]
        metered = [getattr(*place) for place in places]
        cpu_us: dict[str, list[float]] = {"metered": [], "plain": []}
        while seen < records - records // 10:
            for side in ("metered", "plain")[:: 1 if len(cpu_us["plain"]) % 2 else -1]:
                for (owner, name), method in zip(places, metered, strict=True):
                    setattr(owner, name, method if side == "metered" else method.__wrapped__)
                began, many = time.process_time(), 0
                for _ in range(polls):
                    polled = consumer.poll(1000)
                    batches.append({partition: len(batch) for partition, batch in polled.items()})
                    many += sum(batches[-1].values())
                cpu_us[side].append((time.process_time() - began) / max(many, 1) * 1e6)
                seen += many
        return {**cpu_us, "batches": batches}
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
    for instance in (plain, poller):
        began = time.process_time()
        for batch in batches:
            polled = ({partition: range(n) for partition, n in batch.items()},)
            instance.poll()
            instance.fetch_records()
        spent.append(time.process_time() - began)
    return spent[1] - spent[0]
