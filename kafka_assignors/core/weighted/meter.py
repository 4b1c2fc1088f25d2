"""The work of a member's partitions, measured while it consumes. Pure: times and offsets are passed in.

Three figures per partition (`model.work`):

* seconds of processing per record: the time from handing out records until the next request. The time of a batch
  with records of several partitions is divided in proportion to the expected times, and corrects these
  expectations; batches of changing composition separate a slow partition from a fast one.
* rate: records that arrive per second, from end offsets. Without a second end offset, records consumed per second.
* lag: end offset - position.

All averages are plain means at first and exponential later: a figure is usable after one batch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from .model import DRAIN_S, Floats, work
from .options import WeightedOptions

RECORDS = 150
"""Number of records over which seconds per record are averaged."""
RATE_S = 45.0
"""Seconds over which the rate is averaged."""
MATURE_S = 5.0
"""Minimum seconds of arrivals for a usable rate."""
STALE_S = 30.0
"""Seconds without a second end offset after which records consumed per second replace arrivals."""
BATCH_S = 300.0
"""Maximum seconds of a batch. A longer one is ignored: the member was suspended, or the clock jumped."""
TOGETHER = 16
"""Records of one partition's consecutive batches that are averaged together: cheaper if a poll returns one record."""
_LEAST_S = 1e-9


@dataclass
class _Flow:
    """Arrivals of one partition.

    Args:
        position: The next record.
        end: The end offset; None if it is unknown.
        at: Time, in seconds, at which `end` last changed or was reached.
        since: Time at which the partition was first seen, and its position then.
        rate: Records per second, if known.
        seconds: The period over which `rate` is averaged.
    """

    position: int
    end: int | None
    at: float
    since: tuple[float, int]
    rate: float | None = None
    seconds: float = 0.0

    def arrivals(self, now: float) -> float | None:
        """Records that arrive per second; records consumed per second if arrivals stay unknown; None at the start."""
        if self.rate is not None and self.seconds >= MATURE_S:
            return self.rate
        spent = now - self.since[0]
        return max(self.position - self.since[1], 0) / spent if spent >= STALE_S else None


class Meter:
    """One member's measurements, and the weights of other partitions that it learned from the leader.

    `kind` is one of `options.KINDS`. A backlog should be consumed in `drain_s` seconds. Times are monotonic seconds.

    Raises:
        ConfigError: `kind` is unknown.
    """

    def __init__(self, kind: str = "work", drain_s: float = DRAIN_S) -> None:
        WeightedOptions.meter.of_consumer(kind)
        self.kind, self._drain_s = kind, drain_s
        self._seconds: dict[tuple[str, int], tuple[float, float]] = {}  # seconds per record, number of records
        self._flows: dict[tuple[str, int], _Flow] = {}
        self._known_weights: dict[tuple[str, int], tuple[float, int]] = {}  # weight, and its generation
        self._leader_weights: dict[tuple[str, int], float] = {}  # from the leader, for partitions new to this member
        self._settling = False
        self._batch: Mapping[tuple[str, int], int] = {}
        self._handed = 0.0
        self._run: tuple[str, int] | None = None  # the only partition of the last batches,
        self._run_records, self._run_s = 0, 0.0  # their records, and the seconds that these took

    def handed(self, counts: Mapping[tuple[str, int], int], now: float) -> None:
        """Note that records were handed out: topic-partition -> their number, 1 or more."""
        self._batch, self._handed = counts, now

    def asked(self, now: float) -> None:
        """Note that the next records were requested: the previous ones are processed. Cost: O(batch)."""
        batch = self._batch
        if not batch:
            return
        self._batch = {}
        spent = now - self._handed
        if not 0 <= spent <= BATCH_S:
            return
        if len(batch) == 1:
            ((only, n),) = batch.items()
            if only is not self._run:
                self._end_run()
                self._run = only
            self._run_records += n
            self._run_s += spent
            if self._run_records >= TOGETHER:
                self._end_run()
            return
        self._end_run()
        seconds = self._seconds
        typical = max(spent / sum(batch.values()), _LEAST_S)
        unknown = (typical, 0.0)
        factor = typical * sum(batch.values()) / sum(n * seconds.get(tp, unknown)[0] for tp, n in batch.items())
        for tp, n in batch.items():
            old, seen = seconds.get(tp, unknown)
            seconds[tp] = old + old * (factor - 1) * n / (seen + n), min(seen + n, RECORDS)

    def _end_run(self) -> None:
        """Average the seconds per record of the run."""
        self._add_run(self._seconds)
        self._run, self._run_records, self._run_s = None, 0, 0.0

    def _add_run(self, seconds: dict[tuple[str, int], tuple[float, float]]) -> None:
        only, n = self._run, self._run_records
        if only is not None and n:
            new = max(self._run_s / n, _LEAST_S)
            old, seen = seconds.get(only, (new, 0.0))
            seconds[only] = old + (new - old) * n / (seen + n), min(seen + n, RECORDS)

    def saw(self, partition: tuple[str, int], position: int, end: int | None, now: float) -> None:
        """Note an owned partition's position, and its end offset as last fetched; None before the first fetch."""
        flow = self._flows.get(partition)
        if flow is None or end is None or flow.end is None or end < flow.end or now < flow.at:
            fresh = flow is None or now < flow.at
            since = (now, position) if flow is None or fresh else flow.since
            self._flows[partition] = _Flow(position, end, now, since)
            return
        flow.position = position
        # While records wait in memory nothing is fetched, so an unchanged end offset is outdated.
        spent = now - flow.at
        if spent > 0 and (end != flow.end or position >= end):
            rate = (end - flow.end) / spent
            old = rate if flow.rate is None else flow.rate
            flow.rate = old + (rate - old) * spent / (flow.seconds + spent)
            flow.seconds = min(flow.seconds + spent, RATE_S)
            flow.end, flow.at = end, now

    def weights(self, owned: Collection[tuple[str, int]], generation: int, now: float) -> dict[str, Floats]:
        """The weights that this member knows: topic -> weight per partition, NaN if unknown.

        For its own partitions the current measurement, at first mixed with the leader's weight; for others the weight
        known in this generation or the one before.
        """
        seconds = dict(self._seconds)  # a join may run on another thread than the consumer's
        self._add_run(seconds)
        for partition in owned:
            weight = None if self._settling else self._weight(partition, seconds, now)
            if weight is None:
                if partition in self._known_weights:  # the leader's weight is still the best one known
                    self._known_weights[partition] = self._known_weights[partition][0], generation
            else:
                if (leader_weight := self._leader_weights.get(partition)) is not None:
                    share = min((now - self._flows[partition].since[0]) / RATE_S, 1.0)
                    weight = leader_weight + (weight - leader_weight) * share
                self._known_weights[partition] = weight, generation
        return _by_topic((partition, weight) for partition, (weight, _) in self._known_weights.items())

    def _weight(
        self, partition: tuple[str, int], seconds: Mapping[tuple[str, int], tuple[float, float]], now: float
    ) -> float | None:
        flow = self._flows.get(partition)
        if flow is None:
            return None
        lag = max((flow.end or 0) - flow.position, 0)
        if self.kind == "lag":
            return None if flow.end is None else float(lag)
        if (rate := flow.arrivals(now)) is None:
            return None
        if self.kind == "records":
            return work(rate, lag, 1.0, self._drain_s)
        if partition in seconds:
            return work(rate, lag, seconds[partition][0], self._drain_s)
        alike = [per_record for (topic, _), (per_record, _) in seconds.items() if topic == partition[0]]
        alike = alike or [per_record for per_record, _ in seconds.values()]
        return work(rate, lag, median(alike), self._drain_s) if alike else None

    def learn(
        self,
        leader_weights: Mapping[str, tuple[Iterable[int], Iterable[float]]],
        owned: Collection[tuple[str, int]],
        generation: int,
        *,
        settling: bool = False,
    ) -> None:
        """Adopt an assignment: store the leader's weights, and drop measurements of partitions that others own now.

        The weight of a partition that this member lost is kept for one more generation: its next owner learns it in
        the rebalance that follows a hand-over.

        While the group is `settling`, another rebalance hands over what this one withheld. Weights stay until then:
        with new ones, the leader might withhold something again.
        """
        self._settling = settling
        kept = {tp: entry for tp, entry in self._known_weights.items() if entry[1] >= generation - 1}
        for topic, (ids, weights) in leader_weights.items():
            for partition, weight in zip(ids, weights, strict=True):
                if not math.isnan(weight):  # NaN is unknown
                    kept[topic, int(partition)] = float(weight), generation
        mine = set(owned)
        new = {tp: weight for tp, (weight, _) in kept.items() if tp in mine and tp not in self._flows}
        self._leader_weights = {**{tp: weight for tp, weight in self._leader_weights.items() if tp in mine}, **new}
        self._known_weights = kept
        self._seconds = {tp: seconds for tp, seconds in self._seconds.items() if tp in mine}
        self._flows = {tp: flow for tp, flow in self._flows.items() if tp in mine}


def _by_topic(weights: Iterable[tuple[tuple[str, int], float]]) -> dict[str, Floats]:
    topics: dict[str, dict[int, float]] = {}
    for (topic, partition), weight in weights:
        topics.setdefault(topic, {})[partition] = weight
    weight_arrays = {}
    for topic, weight_of in topics.items():
        values = np.full(max(weight_of) + 1, np.nan)
        values[list(weight_of)] = list(weight_of.values())
        weight_arrays[topic] = values
    return weight_arrays
