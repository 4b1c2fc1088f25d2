"""Convert measured load to the weights of the next assignment.

A weight that followed every measurement would move partitions at every rebalance. So a weight has two significant
digits and changes only if the load has changed by more than a fifth; the version changes only if a weight does.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kafka_assignors.clients.weights import Weights, parse
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError, MachineError

from .. import schema
from .timestamps import impossible

COUNTED = {"records_per_s": "records", "bytes_per_s": "bytes"}
"""unit -> the column of `schema.PLACEMENT` that it is computed from."""

HYSTERESIS = 0.2


@dataclass(frozen=True)
class Target:
    """The file (None: only the table), the unit (one of `COUNTED`) and the lifetime of the weights."""

    path: Path | None = None
    unit: str = "records_per_s"
    minutes: int = 60


@dataclass(frozen=True)
class Measured:
    """The load of some topics over one period."""

    unit: str  # one of `COUNTED`
    observed_from: datetime | None  # time of the first record; None if there is none
    observed_to: datetime | None  # time of the last
    rates: Mapping[str, tuple[float, ...]]  # topic -> rate per partition (index = partition); 0 without records
    samples: Mapping[str, tuple[int, ...]]  # topic -> records per partition

    @property
    def loads(self) -> dict[TopicPartition, float]:
        """The rate of each topic-partition."""
        return {TopicPartition(t, p): rate for t, rates in self.rates.items() for p, rate in enumerate(rates)}


def measure(
    placement: DataFrame, partitions: Mapping[str, int], unit: str = "records_per_s", sample: float = 1.0
) -> Measured:
    """Load per second and topic-partition, from the first record of all topics to the last.

    One period for all topics makes their weights comparable. A period below one second counts as one, because a burst
    is not a rate. Windows with impossible timestamps are left out: one would make the period millennia long.

    `placement` is the `schema.PLACEMENT` of one run, and counts the share `sample` of all records.

    Cost: one small job; driver memory of O(partitions).
    """
    rows = (
        placement.where(~impossible())
        .groupBy("topic", "partition")
        .agg(
            sf.sum("records").alias("samples"),
            sf.sum(COUNTED[unit]).alias("load"),
            # as numbers: Python would get timestamps in its local time zone, whose hours differ in length
            sf.min(sf.unix_micros("first_ts")).alias("first_us"),
            sf.max(sf.unix_micros("last_ts")).alias("last_us"),
        )
        .collect()
    )
    begin, end = min((row["first_us"] for row in rows), default=0), max((row["last_us"] for row in rows), default=0)
    seconds = max(1.0, (end - begin) / 1e6)
    loads = {(row["topic"], row["partition"]): row for row in rows}
    rates: dict[str, tuple[float, ...]] = {}
    samples: dict[str, tuple[int, ...]] = {}
    for topic, count in partitions.items():
        partition_rows = [loads.get((topic, partition)) for partition in range(count)]
        rates[topic] = tuple(row["load"] / seconds / sample if row else 0.0 for row in partition_rows)
        samples[topic] = tuple(row["samples"] if row else 0 for row in partition_rows)
    return Measured(unit, _utc(begin) if rows else None, _utc(end) if rows else None, rates, samples)


def _utc(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)


def settle(measured: Measured, previous: Weights | None, now_ms: int, expires_ms: int) -> Weights:
    """The weights to use from now on, of two significant digits; topics without a measurement are left out.

    A weight within `HYSTERESIS` of its `previous` value, even an expired one, keeps that. The version stays if no
    weight changed; then only the times are renewed. Otherwise it is `now_ms`, the wall clock, so that versions grow
    even if a file was lost; if the clock went back, it is the previous one + 1.
    """
    before = previous.topics if previous and previous.unit == measured.unit else {}
    topics = {
        topic: tuple(_settled(rate, _at(before.get(topic, ()), partition)) for partition, rate in enumerate(rates))
        for topic, rates in measured.rates.items()
    }
    version = now_ms
    if previous:
        version = previous.version if topics == before else max(now_ms, previous.version + 1)
    return Weights(version, measured.unit, now_ms, expires_ms, topics)


def _at(weights: tuple[float, ...], partition: int) -> float | None:
    return weights[partition] if partition < len(weights) else None


def _settled(rate: float, before: float | None) -> float:
    if before is not None and abs(rate - before) <= HYSTERESIS * before:
        return before
    return float(f"{rate:.1e}")


def table(spark: SparkSession, run: str, measured: Measured, weights: Weights) -> DataFrame:
    """`schema.PARTITION_WEIGHTS`, a row per topic-partition."""
    rows = [
        (run, topic, partition, weight, weights.unit, measured.observed_from, measured.observed_to, samples,
         1 - 1 / math.sqrt(samples) if samples else 0.0, weights.version)
        for topic in measured.rates
        for partition, (weight, samples) in enumerate(zip(weights.topics[topic], measured.samples[topic], strict=True))
    ]  # fmt: skip
    return spark.createDataFrame(rows, schema.PARTITION_WEIGHTS)


def previous(path: Path) -> tuple[Weights | None, str | None]:
    """The weights in a file that will be replaced, even if expired, and a note if the file has a defect.

    Raises:
        ConfigError: The file cannot be read, or is not a weights file and must not be overwritten.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None, None
    except OSError as error:
        raise ConfigError(f"--weights {str(path)!r} cannot be read ({error.strerror}); name another file") from None
    content = parse(data, None)
    if isinstance(content, Weights):
        return content, None
    if b'"format"' not in data[:40] and data.strip():
        raise ConfigError(f"--weights {str(path)!r} is not a weights file; name another file, or remove it")
    return None, f"replaced: {content.text}"


def update(measured: Measured, target: Target) -> tuple[Weights, dict[str, Any]]:
    """Settle measured weights against those in the target's file.

    Returns:
        The weights, and a report: ``file`` (null: none), ``version``, ``unit``, ``written_ms``, ``expires_ms``,
        ``partitions``, ``changed`` (number of partitions) and ``note`` (a defect of the previous file, else null).

    Raises:
        ConfigError: The file cannot be read, or is not a weights file and must not be overwritten.
    """
    before, note = previous(target.path) if target.path else (None, None)
    now_ms = time.time_ns() // 1_000_000
    weights = settle(measured, before, now_ms, now_ms + 60_000 * target.minutes)
    previous_weights = before.topics if before and before.unit == weights.unit else {}
    changed = sum(
        weight != _at(previous_weights.get(topic, ()), partition)
        for topic, all_ in weights.topics.items()
        for partition, weight in enumerate(all_)
    )
    return weights, {
        "file": str(target.path) if target.path else None,
        "version": weights.version,
        "unit": weights.unit,
        "written_ms": weights.written_ms,
        "expires_ms": weights.expires_ms,
        "partitions": sum(map(len, weights.topics.values())),
        "changed": changed,
        "note": note,
    }


def write(path: Path, weights: Weights) -> None:
    """Replace a weights file atomically: a reader sees the old file or the new one, even if the writer is killed.

    Raises:
        MachineError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, because a rename between file systems is a copy.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                os.fchmod(handle, 0o644)  # mkstemp's file is private; consumers may run as other users
                file.write(weights.to_json())
                file.flush()
                os.fsync(handle)  # else a power failure can leave an empty file under the new name
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise MachineError(f"weights cannot be written to {str(path)!r}: {error.strerror}") from error
