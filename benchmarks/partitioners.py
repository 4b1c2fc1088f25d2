"""One choice of a partition, against kafka-python's own DefaultPartitioner."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from kafka.partitioner import DefaultPartitioner as KafkaPythonDefault
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kafka_assignors.producers import DefaultPartitioner, RoundRobinPartitioner, UniformPartitioner, murmur2_batch
from kafka_assignors.producers.core.keys.keyed import preset_named
from kafka_assignors.producers.core.keys.murmur2 import unsigned
from kafka_assignors.producers.partitioners.native_hash import fastest

from .clusters import cluster
from .result import Result, WrongAnswer, cpu_ns, in_turns

PEER = "kafka-python DefaultPartitioner"
_SEED = 11
HAS_C_HASH = fastest("java") is not preset_named("java").place


def run(quick: bool) -> Iterator[Result]:
    """All results, the cheap ones first."""
    rounds, count = (3, 10_000) if quick else (9, 50_000)
    keys = _keys(count)
    none: list[bytes | None] = [None] * len(keys)
    long = _mixed(2_000 if quick else 10_000)[0]
    yield _hash("murmur2", long, rounds)
    yield _hash("murmur2-short", [key for key in keys[: len(long)] if key is not None], rounds)
    yield _batch(100_000 if quick else 1_000_000, rounds)
    for partitions in (12, 1000):
        metadata = cluster({"t": partitions})
        # The peer sorts all partitions for each record: at 1,000 partitions, a tenth of the keys is enough.
        fewer = len(keys) if partitions == 12 else count // 10
        theirs = choosing(KafkaPythonDefault, metadata, keys[:fewer])
        for suffix, make in _HASHES:
            new, seen = choosing(make, metadata, keys), choosing(_warm(make, metadata, keys), metadata, keys)
            yield _result(f"new-key-{partitions}{suffix}", new, theirs, rounds)
            yield _result(f"seen-key-{partitions}{suffix}", seen, theirs, rounds)
        theirs = choosing(KafkaPythonDefault, metadata, none[:fewer])
        yield _result(f"uniform-{partitions}", choosing(UniformPartitioner, metadata, none), theirs, rounds)
        yield _result(f"roundrobin-{partitions}", choosing(RoundRobinPartitioner, metadata, none), theirs, rounds)
    few, many = cluster({"t": 6}), cluster({"t": 10_000})
    for suffix, make in _HASHES:
        flat = choosing(make, many, keys), choosing(make, few, keys)
        yield _result(f"flat-new-key{suffix}", *flat, rounds, "6 partitions")
    for name, rule in (("uniform", UniformPartitioner), ("roundrobin", RoundRobinPartitioner)):
        flat = choosing(rule, many, none), choosing(rule, few, none)
        yield _result(f"flat-{name}", *flat, rounds, "6 partitions")


def _keys(count: int) -> list[bytes | None]:
    """Distinct keys of 6 to 40 bytes."""
    rng = random.Random(_SEED)
    return [b"user-%d-" % i + b"x" * rng.randrange(0, 22) for i in range(count)]


def _mixed(count: int) -> tuple[list[bytes], pa.Array]:
    """Random keys of 8 to 100 bytes: some of them one by one, all as an Arrow column."""
    rng = np.random.default_rng(_SEED)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(rng.integers(8, 101, count), out=offsets[1:])
    data = rng.integers(0, 256, int(offsets[-1]), np.uint8)
    column = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return column.slice(0, 5_000).to_pylist(), column


def _hash(name: str, given: list[bytes], rounds: int) -> Result:
    differ = [key for key in given if unsigned(key) != kafka_python_murmur2(key)]
    if differ:
        raise WrongAnswer(f"the hashes differ on {differ[0]!r}, so there is no comparison")
    ours, peer, raw = in_turns(
        lambda: cpu_ns(lambda: [unsigned(key) for key in given], len(given)),
        lambda: cpu_ns(lambda: [kafka_python_murmur2(key) for key in given], len(given)),
        rounds,
    )
    return Result(name, ours, "ns/key", "kafka-python murmur2", peer, raw=raw)


def _batch(count: int, rounds: int) -> Result:
    some, column = _mixed(count)
    if [kafka_python_murmur2(key) for key in some] != (murmur2_batch(column[: len(some)]).view(np.uint32)).tolist():
        raise WrongAnswer("the batch form differs from kafka-python's murmur2, so there is no comparison")
    ours, peer, raw = in_turns(
        lambda: cpu_ns(lambda: murmur2_batch(column), count),
        lambda: cpu_ns(lambda: [kafka_python_murmur2(key) for key in some], len(some)),
        rounds,
    )
    return Result("batch-mixed", ours, "ns/key", "kafka-python murmur2", peer, raw=raw)


def _without_c() -> DefaultPartitioner:
    """Measure without confluent_kafka, whose C hash we use if it is installed."""
    chooser = DefaultPartitioner()
    chooser._index, chooser._remember = preset_named("java").place, True
    return chooser


_HASHES = [("", DefaultPartitioner), ("/pure", _without_c)] if HAS_C_HASH else [("", DefaultPartitioner)]


def _warm(make: Callable[[], Any], metadata: Any, keys: list[bytes | None]) -> Callable[[], Any]:
    """Always return the same partitioner, which has already placed these keys."""
    chooser = make()
    choosing(lambda: chooser, metadata, keys)()
    return lambda: chooser


def choosing(make: Callable[[], Any], metadata: Any, keys: list[bytes | None]) -> Callable[[], float]:
    """A measurement with a new partitioner each time. It reads the topic before the timing."""

    def measure() -> float:
        partition = make().partition
        partition("t", None, None, b"v", b"v", metadata)

        def choose() -> None:
            for key in keys:
                partition("t", key, key, b"v", b"v", metadata)

        return cpu_ns(choose, len(keys))

    return measure


def _result(name: str, ours: Callable[[], float], theirs: Callable[[], float], rounds: int, peer: str = PEER) -> Result:
    value, peer_value, raw = in_turns(ours, theirs, rounds)
    return Result(name, value, "ns/key", peer, peer_value, raw=raw)
