"""The weights file: measured load per topic-partition, from the pipeline to the next assignment.

One JSON object: ``{"format": 1, "version": 1767225600000, "unit": "records_per_s", "written_ms": 1767225700000,
"expires_ms": 1767229200000, "weights": {"orders": [12.0, 0.0, 3.4]}}``. ``format`` is the version of the format;
``version`` identifies the weights and changes with them. The index in a topic's list is the partition.

A defect of a file is a value here, never an exception: a leader without weights must still assign.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from statistics import median
from typing import Any

from ...core.group import TopicPartition

FORMAT = 1
UNITS = ("records_per_s", "bytes_per_s", "lag_records", "cost_ms_per_s")
CLOCKS_MS = 300_000
"""How far the clocks of writer and reader may differ, in milliseconds: five minutes, as in Kerberos (RFC 4120)."""


@dataclass(frozen=True)
class Weights:
    """Usable weights.

    Args:
        version: Grows with every change of the weights; report it with the generation that used them.
        unit: One of `UNITS`.
        written_ms, expires_ms: Wall clock, milliseconds since the epoch.
        topics: topic -> weight per partition (index = partition), finite and not below 0.
    """

    version: int
    unit: str
    written_ms: int
    expires_ms: int
    topics: Mapping[str, tuple[float, ...]]

    def of(self, partitions: Mapping[str, int]) -> dict[TopicPartition, float]:
        """The weight of every partition of these topics (topic -> partition count, as the leader sees the cluster).

        A partition that was added later weighs the topic's median. An unmeasured topic is absent: its load is unknown,
        not 0. Cost: O(partitions).
        """
        weights: dict[TopicPartition, float] = {}
        for topic, count in partitions.items():
            if topic_weights := self.topics.get(topic):
                rest = median(topic_weights)
                for partition in range(count):
                    weight = topic_weights[partition] if partition < len(topic_weights) else rest
                    weights[TopicPartition(topic, partition)] = weight
        return weights

    def to_json(self) -> str:
        """The file's content, including the final newline."""
        row = {
            "format": FORMAT,
            "version": self.version,
            "unit": self.unit,
            "written_ms": self.written_ms,
            "expires_ms": self.expires_ms,
            "weights": {topic: list(weights) for topic, weights in self.topics.items()},
        }
        return json.dumps(row, allow_nan=False) + "\n"


@dataclass(frozen=True)
class NoWeights:
    """The reason why there are no usable weights.

    Args:
        kind: ``missing``, ``unreadable``, ``torn`` (incomplete), ``unknown-format``, ``invalid`` (complete, but a field
            is invalid), ``expired`` or ``future`` (written later than now by more than `CLOCKS_MS`).
        text: One sentence, to be logged once.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


def read(path: str | PathLike[str], now_ms: int | None = None) -> Weights | NoWeights:
    """Read a weights file: the weights, or why there are none. Never raises, whatever the file contains.

    `now_ms` is wall clock, milliseconds since the epoch; the machine's by default. Cost: one file read; O(partitions).
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return NoWeights("missing", f"weights file {str(path)!r} does not exist")
    except (OSError, ValueError) as error:
        return NoWeights("unreadable", f"weights file {str(path)!r} cannot be read: {error}")
    outcome = parse(data, time.time_ns() // 1_000_000 if now_ms is None else now_ms)
    if isinstance(outcome, Weights):
        return outcome
    return NoWeights(outcome.kind, f"weights file {str(path)!r}: {outcome.text}")


def parse(data: bytes, now_ms: int | None) -> Weights | NoWeights:
    """Parse a weights file: the weights, or why there are none.

    `now_ms` is wall clock, milliseconds since the epoch; None accepts expired and future weights.
    """
    try:
        row = json.loads(data)
    except (ValueError, RecursionError):
        return NoWeights("torn", f"{len(data)} bytes that are not complete JSON; was its writer killed?")
    if not isinstance(row, dict):
        return NoWeights("invalid", f"a JSON {type(row).__name__} instead of an object")
    if row.get("format") != FORMAT:
        return NoWeights("unknown-format", f"format {row.get('format')!r}; this version reads {FORMAT}")
    if wrong := _wrong(row):
        return NoWeights("invalid", wrong)
    if now_ms is not None and (untimely := _untimely(row, now_ms)):
        return untimely
    topics = {topic: tuple(map(float, weights)) for topic, weights in row["weights"].items()}
    return Weights(row["version"], row["unit"], row["written_ms"], row["expires_ms"], topics)


def _untimely(row: Mapping[str, Any], now_ms: int) -> NoWeights | None:
    # In integers, because a float can't have every integer of the file.
    if (early_ms := row["written_ms"] - now_ms) > CLOCKS_MS:
        text = f"version {row['version']} was written {early_ms // 1000} s in the future; are the clocks right?"
        return NoWeights("future", text)
    if (late_ms := now_ms - row["expires_ms"]) >= 0:
        text = f"version {row['version']} expired {late_ms // 1000} s ago; does the pipeline still run?"
        return NoWeights("expired", text)
    return None


def _wrong(row: Mapping[str, Any]) -> str | None:
    for name in ("version", "written_ms", "expires_ms"):
        if type(row.get(name)) is not int:
            return f"{name} is {row.get(name)!r}, not an integer"
    if row.get("unit") not in UNITS:
        return f"unit is {row.get('unit')!r}, not one of {', '.join(UNITS)}"
    if not isinstance(row.get("weights"), dict):
        return "weights is not an object of topic -> weight per partition"
    for topic, weights in row["weights"].items():
        if not isinstance(weights, list) or not weights:
            return f"topic {topic!r} has no list of weights"
        for partition, weight in enumerate(weights):
            if not _is_weight(weight):
                return f"{topic}-{partition} weighs {str(weight)[:40]!r}, not a number of at least 0"
    return None


def _is_weight(weight: object) -> bool:
    try:
        return type(weight) in (int, float) and math.isfinite(weight) and weight >= 0  # type: ignore[arg-type,operator]
    except OverflowError:  # an integer too large for a float
        return False
