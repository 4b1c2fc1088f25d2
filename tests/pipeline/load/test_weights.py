"""Weights: what is measured is the true rate, small changes change nothing, and a killed writer leaves the old file."""

from __future__ import annotations

import math
import random
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from pyspark.testing import assertSchemaEqual

from kafka_assignors import WeightedAssignor
from kafka_assignors.clients.weights import Weights, parse, read
from kafka_assignors.core.wire.weighted import decode
from kafka_assignors.errors import ConfigError, MachineError
from kafka_assignors.integration.broker import Broker
from kafka_assignors.pipeline import schema
from kafka_assignors.pipeline.load import balance, keys, weights
from kafka_assignors.pipeline.sources import brokers
from kafka_assignors.pipeline.sources import read as pipeline_read
from tests.support.programs import ran

START = datetime(2026, 1, 2, tzinfo=timezone.utc)


def measured(*rates: float, unit: str = "records_per_s") -> weights.Measured:
    return weights.Measured(unit, START, START, {"t": rates}, {"t": (9,) * len(rates)})


def settled(before: Weights | None, *rates: float, now_ms: int = 1000, unit: str = "records_per_s") -> Weights:
    return weights.settle(measured(*rates, unit=unit), before, now_ms, now_ms + 50)


def test_weights_have_two_significant_digits() -> None:
    assert settled(None, 0, 0.012345, 1.26, 98.7, 1_234_567).topics == {"t": (0, 0.012, 1.3, 99, 1_200_000)}


def test_a_weight_changes_beyond_a_fifth_only() -> None:
    before = Weights(7, "records_per_s", 0, 0, {"t": (100, 100, 100, 100, 0, 0), "gone": (1,)})

    after = settled(before, 120, 80, 121, 79, 0, 0.001, 55.5)

    assert after.topics == {"t": (100, 100, 120, 79, 0, 0.001, 56)}
    assert (after.version, after.expires_ms) == (1000, 1050)


def test_the_version_stays_with_the_weights_and_grows_with_a_change() -> None:
    first = settled(None, 100)
    assert settled(first, 110, now_ms=2000) == Weights(1000, "records_per_s", 2000, 2050, {"t": (100,)})
    assert settled(first, 200, now_ms=2000).version == 2000
    assert settled(first, 200, now_ms=500).version == 1001  # the clock went back
    assert settled(first, 100, now_ms=2000, unit="bytes_per_s").version == 2000  # nothing to compare with


def test_any_walk_within_a_fifth_moves_nothing_and_no_weight_is_further_off() -> None:
    rng = random.Random(3)
    now, rates = settled(None, *(rng.uniform(1, 1000) for _ in range(20))), [0.0]
    for step in range(200):
        rates = [w * rng.uniform(0.5, 1.6) for w in now.topics["t"]]
        after = settled(now, *rates, now_ms=now.version + step)
        for rate, old, new in zip(rates, now.topics["t"], after.topics["t"], strict=True):
            assert new == old if abs(rate - old) <= 0.2 * old else abs(new - rate) <= 0.05 * rate
        now = after
    assert settled(now, *(w * rng.uniform(0.81, 1.19) for w in now.topics["t"]), now_ms=10**9).version == now.version


# Each child has a limit of `size` bytes per file; the signal that the limit sends ends it in the middle of its write.
KILLED = """
import os, resource, signal, sys
from pathlib import Path
from kafka_assignors.clients.weights import Weights
from kafka_assignors.pipeline.load.weights import write
path, sizes = Path(sys.argv[1]), range(*map(int, sys.argv[2:]))
signals = set()
for size in sizes:
    child = os.fork()
    if not child:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        write(path, Weights(2, "records_per_s", 0, 10**15, {"t": (2.0, 2.5)}))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    signals.add(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)
print(*signals)
"""


@pytest.mark.slow
def test_a_writer_killed_at_any_byte_leaves_the_weights_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    old = Weights(1, "records_per_s", 0, 10**15, {"t": (1.0,)})
    weights.write(path, old)
    new = Weights(2, "records_per_s", 0, 10**15, {"t": (2.0, 2.5)})
    size = len(new.to_json())

    def killed(*sizes: int) -> str:
        command = [sys.executable, "-c", KILLED, str(path), *map(str, sizes)]
        return ran(*command, check=True).stdout.strip()

    assert killed(size) == str(signal.SIGXFSZ.value)  # at every byte from 0 to the last but one
    assert read(path) == old
    assert len(list(tmp_path.iterdir())) == 1 + size  # each left its own file, and none came in another's way

    assert killed(size, size + 1) == "0"  # the limit alone stops nobody
    assert read(path) == new
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.slow
def test_a_consumer_that_joins_while_the_file_is_replaced_reads_one_file_as_a_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each file has one weight for all partitions, and its own number of them: parts of two files would show."""
    path, files = tmp_path / "weights.json", {1.0: 3000, 1000.0: 2000}  # weight -> partitions

    def replaced(times: int) -> None:
        for n in range(times):
            weight = (1.0, 1000.0)[n % 2]
            weights.write(path, Weights(n, "records_per_s", 0, 10**15, {"t": (weight,) * files[weight]}))

    replaced(1)
    assignor, seen = WeightedAssignor(weights_file=path), set()
    with ThreadPoolExecutor(1) as writer:
        writing = writer.submit(replaced, 200)
        while not writing.done():
            found = read(path)
            assert isinstance(found, Weights), found
            (weight,) = set(found.topics["t"])
            assert len(found.topics["t"]) == files[weight]
            told = decode(assignor.metadata(["t"]).user_data, {"t": 3000}).weights["t"]
            (sent,) = set(told[1].tolist())
            seen.add(len(told[0]))
            assert len(told[0]) == files[1.0 if sent < 2 else 1000.0]
        writing.result()
    assert seen == set(files.values())
    assert caplog.records == []


def test_what_stands_in_the_way_of_new_weights(tmp_path: Path) -> None:
    path, target = tmp_path / "weights.json", weights.Target(tmp_path / "weights.json")
    assert weights.update(measured(1, 2), target)[1]["note"] is None
    weights.write(path, settled(None, 1, 2))
    first = path.read_bytes()

    _, said = weights.update(measured(1, 3), target)
    assert (said["changed"], said["partitions"], said["note"]) == (1, 2, None)
    assert path.read_bytes() == first  # it is replaced when the tables that tell of it are there
    path.write_bytes(first[:50])
    found, said = weights.update(measured(1, 3), target)
    weights.write(path, found)
    assert (said["changed"], said["note"]) == (
        2,
        "replaced: 50 bytes that are not complete JSON; was its writer killed?",
    )
    assert isinstance(read(path), Weights)
    path.write_text("127.0.0.1 localhost")
    with pytest.raises(ConfigError, match=r"is not a weights file"):
        weights.update(measured(1), target)
    assert path.read_text() == "127.0.0.1 localhost"
    with pytest.raises(MachineError, match="weights cannot be written to"):
        weights.write(path / "weights.json", settled(None, 1))  # a folder would have to stand where a file does


@pytest.mark.spark
@pytest.mark.broker
def test_measured_rates_are_the_true_ones(kafka_broker: Broker, kafka_topic, spark: SparkSession, tmp_path) -> None:
    """Half an hour of a producer with a hot partition, told by the records' own time, beside another topic."""
    hot, other = kafka_topic(4), kafka_topic(2)
    seconds, per_s = 1800, {(hot, 0): 1.0, (hot, 1): 0.1, (hot, 3): 0.25, (other, 1): 0.05}
    begin_ms, rng = int(START.timestamp() * 1000), random.Random(8)
    with KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, metrics_enabled=False) as producer:
        for (topic, partition), rate in per_s.items():
            for i in range(int(rate * seconds)):
                at_ms = begin_ms + int((i + rng.random()) / rate * 1000)
                producer.send(topic, b"v" * 100, b"k", partition=partition, timestamp_ms=at_ms)
        producer.flush(30)
    found = brokers.topics(kafka_broker.bootstrap, [hot, other])
    records = pipeline_read.records(spark, kafka_broker.bootstrap, found, "r")
    counts = keys.counted(records, "1 minute")
    placement = balance.placement(keys.windows(counts), found.partitions).persist()

    by_records = weights.measure(placement, found.partitions)
    by_bytes = weights.measure(placement, found.partitions, "bytes_per_s")
    kept, _ = weights.update(by_records, weights.Target(tmp_path / "weights.json"))
    weights.write(tmp_path / "weights.json", kept)
    table = weights.table(spark, "r", by_records, kept)
    placement.unpersist()

    for topic, count in found.partitions.items():
        true = [per_s.get((topic, partition), 0) for partition in range(count)]
        assert by_records.rates[topic] == pytest.approx(true, rel=0.05)
        assert by_bytes.rates[topic] == pytest.approx([101 * rate for rate in true], rel=0.05)
        assert by_records.samples[topic] == tuple(int(rate * seconds) for rate in true)
    assert 0 <= (by_records.observed_from - START).total_seconds() < 10
    assert 1790 <= (by_records.observed_to - START).total_seconds() <= 1800
    assert read(tmp_path / "weights.json") == kept
    assertSchemaEqual(table.schema, schema.PARTITION_WEIGHTS)
    rows = {(row["topic"], row["partition"]): row for row in table.collect()}
    assert len(rows) == 6
    assert (rows[hot, 2]["weight"], rows[hot, 2]["samples"], rows[hot, 2]["confidence"]) == (0, 0, 0)
    assert (rows[hot, 0]["weight"], rows[hot, 0]["samples"]) == (1.0, 1800)
    assert rows[hot, 0]["confidence"] == pytest.approx(1 - 1 / math.sqrt(1800))
    assert rows[hot, 0]["observed_from"].astimezone(timezone.utc) == by_records.observed_from
    assert parse((tmp_path / "weights.json").read_bytes(), kept.written_ms) == kept
