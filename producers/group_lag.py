"""The lag of a consumer group, for ``UniformPartitioner(lag=...)``; needs kafka-python, whichever client sends.

>>> UniformPartitioner(lag=GroupLag("billing", bootstrap_servers="localhost:9092"))  # doctest: +SKIP
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka_assignors.connection import Right

from .core.lag import DrainMeter, LagReading
from .errors import ConfigError, needs

with needs("kafka-python", "kafka", "kafka-python", __name__):
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.admin import OffsetSpec
    from kafka.errors import GroupAuthorizationFailedError

log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 5.0
_TRANSIENT = 3  # failures in a row that nobody is told of: a coordinator that moves, a leader that is elected
_UNSEEN = 10  # samples without an offset of a topic before a warning: a new group commits after some seconds
_DEFAULTS = {"request_timeout_ms": 10_000}


class GroupLag:
    """How far a group is behind on each partition, in seconds: a source for ``UniformPartitioner(lag=...)``.

    A thread of its own asks the group's coordinator for committed offsets and the leaders for end offsets. Producers
    only read the latest answer. Producers of one process may share an instance.

    Args:
        group: The consumer group's id. Its members should commit at least every `window_s` / 3 (5 s is most clients'
            default), because consumed records that are not committed yet look like lag.
        interval_s: Mean time between two samples, at random distances so that they don't fall in step with commits. A
            sample is one request to the coordinator, and one to each leader for each topic that was sent to.
        window_s: Records consumed per second are counted over this time; the least lag in the last third of it counts.
        settings: As for ``KafkaAdminClient``: how to reach the cluster.

    It needs the rights Describe on the group and Describe on each topic, and `close` at the end (or ``with``). Use it
    in the process that made it: a forked process has no thread that asks, and its lag grows old.

    Raises:
        ConfigError: An argument is out of range.
        KafkaError: The cluster can't be reached. Later errors that last are logged once per kind; the lag grows old.

    Cost: no waiting in ``send``. Memory for ``window_s / interval_s`` samples of a number per partition.
    """

    def __init__(self, group: str, *, interval_s: float = 1.0, window_s: float = 15.0, **settings: Any) -> None:
        if not isinstance(group, str) or not group:
            raise ConfigError(f"group must be the id of a consumer group, not {group!r}")
        for name, value in (("interval_s", interval_s), ("window_s", window_s)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise ConfigError(f"{name} must be a number above 0, not {value!r}")
        if window_s < 4 * interval_s:
            raise ConfigError(
                f"window_s={window_s!r} must span several samples: 4 times interval_s={interval_s!r} or more"
            )
        self.group, self._interval_s = group, interval_s
        self._meter = DrainMeter[TopicPartition](window_s)
        self._asked: set[str] = set()
        self._readings: dict[str, LagReading] = {}  # replaced as a whole, so that readers need no lock
        self._failures = 0  # samples in a row
        self._warnings: set[tuple[str, type]] = set()
        self._unseen: Counter[str] = Counter()  # topic -> samples without an offset
        self._closing = threading.Event()
        self._connect: Callable[[], Any] = partial(KafkaAdminClient, **{**_DEFAULTS, **settings})
        self._admin: Any = self._connect()  # None between two connections
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"lag of {group}")
        self._thread.start()

    def __call__(self, topic: str) -> LagReading | None:
        """The latest reading; None before the first one, and for a topic that the group has not committed on."""
        self._asked.add(topic)
        return self._readings.get(topic)

    def close(self, timeout_s: float = 5.0) -> None:
        """End the thread and its connections; a request under way ends within `timeout_s` or on its own later."""
        self._closing.set()
        self._thread.join(timeout_s)

    def __enter__(self) -> GroupLag:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        pause_s = self._interval_s
        while not self._closing.wait(pause_s * random.uniform(0.5, 1.5)):
            self._failures = 0 if self._sample() else self._failures + 1
            pause_s = min(self._interval_s * 2 ** min(self._failures, 10), max(_LONGEST_PAUSE_S, self._interval_s))
            if self._failures:
                self._disconnect()  # kafka-python 3.0 asks the same coordinator for ever, also when it has moved
        self._disconnect()

    def _disconnect(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _sample(self) -> bool:
        """Ask once; whether everything was answered."""
        topics = sorted(self._asked)
        if not topics:
            return True
        try:
            self._admin = self._admin or self._connect()
            committed = self._admin.list_group_offsets(self.group)[self.group]
        except Exception as problem:  # whatever it is, the next sample may succeed
            return self._say("offsets committed by the group", problem)
        answered, offsets = True, {}
        for topic in topics:
            # Committed offsets first, end offsets then: the difference is never negative.
            places = {tp: at.offset for tp, at in committed.items() if tp.topic == topic and at.offset >= 0}
            if not places:
                self._nothing_of(topic)
                continue
            try:
                ends = self._admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
            except Exception as problem:
                answered = self._say(f"end offsets of topic {topic!r}", problem)
                continue
            offsets.update({tp: (places[tp], end.offset) for tp, end in ends.items()})
        self._readings = {**self._readings, **self._read(offsets)}
        return answered

    def _read(self, offsets: dict[TopicPartition, tuple[int, int]]) -> dict[str, LagReading]:
        now, topics = time.monotonic(), defaultdict[str, dict[int, float]](dict)
        for tp, seconds in self._meter.sample(now, offsets).items():
            topics[tp.topic][tp.partition] = seconds
        return {topic: LagReading(drain_s, now) for topic, drain_s in topics.items()}

    def _nothing_of(self, topic: str) -> None:
        """A coordinator leaves topics out that it may not show."""
        self._unseen[topic] += 1
        if self._unseen[topic] == _UNSEEN:
            why = f"it has committed no offset, or {_lacks('Topic', topic)}"
            log.warning("lag of group %r on topic %r is unknown: %s", self.group, topic, why)

    def _say(self, what: str, problem: Exception) -> bool:
        refused = isinstance(problem, GroupAuthorizationFailedError)
        if (refused or self._failures >= _TRANSIENT) and (what, type(problem)) not in self._warnings:
            self._warnings.add((what, type(problem)))
            why = _lacks("Group", self.group) if refused else repr(problem)
            log.warning("lag of group %r: %s are unknown: %s", self.group, what, why)
        return False


def _lacks(kind: str, name: str) -> str:
    right = Right("Describe", kind, name)
    return f"its user lacks the permission {right}; an administrator can grant it with kafka-acls.sh"
