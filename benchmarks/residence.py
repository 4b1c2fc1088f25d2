"""Time from `send` to consumption when one consumer is slower than the others: lag-aware placement against KIP-794."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.producers import UniformPartitioner
from kafka_assignors.producers.group_lag import GroupLag

from .clusters import cluster
from .partitioners import choosing
from .result import Result, WrongAnswer, in_turns

PEER = "KIP-794"
FAST_S, SLOWER = 0.0025, 4
RECORD_BYTES, BATCH_BYTES = 100, 1000
COMMITS_MS = 1000
_DRAINED_S = 600


def run(quick: bool) -> Iterator[Result]:
    """``choice-…``: CPU time of a choice; ``p95-…``: residence times on a broker."""
    rounds, count = (3, 10_000) if quick else (15, 50_000)
    for partitions in (12, 1000):
        yield _choice(partitions, count, rounds)
    seconds, rates = (15, (600,)) if quick else (40, (600, 300))
    with start_broker() as broker:
        for rate in rates:
            yield _residence(broker.bootstrap, rate, seconds, COMMITS_MS)
        if not quick:
            yield _residence(broker.bootstrap, 600, seconds, 5000)


def _choice(partitions: int, count: int, rounds: int) -> Result:
    """CPU time per record without a key: lag that is read anew once a second, against no lag."""
    metadata, none = cluster({"t": partitions}), list[bytes | None]([None] * count)
    drain_s = {("t", p): float(p % 7) for p in range(partitions)}
    ours, peer, raw = in_turns(
        choosing(lambda: UniformPartitioner(lag=drain_s), metadata, none),
        choosing(UniformPartitioner, metadata, none),
        rounds,
    )
    return Result(f"choice-{partitions}", ours, "ns/record", f"{PEER} (UniformPartitioner without lag)", peer, raw=raw)


def _residence(bootstrap: str, rate: int, seconds: int, commits_ms: int) -> Result:
    """p95 over all records sent within `seconds`, each of them consumed; one of four consumers is four times slower."""
    measured = {}
    for name in ("ours", "peer"):
        topic = f"residence-{name}-{rate}-{commits_ms}"
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            admin.create_topics({topic: {"num_partitions": 4, "replication_factor": 1}})
            admin.wait_for_topics([topic])
        lag = GroupLag(topic, bootstrap_servers=bootstrap) if name == "ours" else None
        with lag or nullcontext():
            chooser = UniformPartitioner(lag=lag, batch_bytes=BATCH_BYTES, seed=1)
            measured[name] = _played(bootstrap, topic, chooser, rate, seconds, commits_ms)
    raw: dict[str, Any] = {}
    for name, (waited_s, placed) in measured.items():
        raw[name] = {
            **{f"p{q}_s": round(_quantile(waited_s, q), 3) for q in (50, 90, 95, 99)},
            "mean_s": round(statistics.fmean(waited_s), 3), "longest_s": round(max(waited_s), 3),
            "share_of_the_slow": round(placed[0] / placed.total(), 3), "records": placed.total(),
        }  # fmt: skip
    shares = [raw[name]["share_of_the_slow"] for name in ("ours", "peer")]
    note = f"share of the slow consumer {shares[0]:.1%}, {PEER} {shares[1]:.1%}"
    name = f"p95-{rate}-per-s" + ("" if commits_ms == COMMITS_MS else f"/commits-{commits_ms}-ms")
    return Result(name, raw["ours"]["p95_s"], "s", PEER, raw["peer"]["p95_s"], note, raw)


def _quantile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) * percent // 100, len(values) - 1)]


def _played(
    bootstrap: str, topic: str, partitioner: UniformPartitioner, rate: int, seconds: int, commits_ms: int
) -> tuple[list[float], Counter[int]]:
    """Residence time of every record in seconds, and records per partition."""
    waited_s: list[float] = []
    placed: Counter[int] = Counter()

    def consumed(partition: int, value: bytes) -> None:
        waited_s.append(time.monotonic() - float(value[:20]))
        placed[partition] += 1

    record_s = {p: FAST_S * (SLOWER if p == 0 else 1) for p in range(4)}
    with ExitStack() as last:
        last.enter_context(consuming(bootstrap, topic, topic, record_s, consumed, commits_ms))
        sending = last.enter_context(
            closing(KafkaProducer(bootstrap_servers=bootstrap, partitioner=partitioner, acks=1, linger_ms=5))
        )
        total, began = rate * seconds, time.monotonic()
        for i in range(total):
            ahead_s = began + i / rate - time.monotonic()
            if ahead_s > 0:
                time.sleep(ahead_s)
            sending.send(topic, b"%020.6f" % time.monotonic() + b"v" * (RECORD_BYTES - 20))
        sending.flush()
        deadline = time.monotonic() + _DRAINED_S
        while len(waited_s) < total:
            if time.monotonic() > deadline:
                raise WrongAnswer(f"{len(waited_s)} of {total} records were consumed within {_DRAINED_S} s")
            time.sleep(0.05)
    return waited_s, placed


@contextmanager
def consuming(
    bootstrap: str,
    topic: str,
    group: str,
    record_s: Mapping[int, float],
    consumed: Callable[[int, bytes], None],
    commits_ms: int = 200,
) -> Iterator[None]:
    """Inside, each partition of `record_s` has a consumer of its own, which takes that many seconds per record.

    `consumed` gets (partition, value) of each record, in the thread of its consumer.
    """
    ended = threading.Event()

    def consume(partition: int, seconds: float) -> None:
        with closing(
            KafkaConsumer(
                bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", max_poll_records=20,
                auto_commit_interval_ms=commits_ms, metrics_enabled=False,
            )
        ) as consumer:  # fmt: skip
            consumer.assign([TopicPartition(topic, partition)])
            while not ended.is_set():
                for records in consumer.poll(timeout_ms=100).values():
                    for record in records:
                        if ended.wait(seconds):
                            return
                        consumed(partition, record.value)

    threads = [threading.Thread(target=consume, args=place) for place in record_s.items()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(30)
