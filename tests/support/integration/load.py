"""A group under planted work: slow partitions, records sent to chosen ones, and what the history says of both."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafka_assignors.core.wire import weighted as carried
from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.integration.history import History
from kafka_assignors.integration.records import Record, send

NS = 1_000_000_000


class Planted:
    """Work per record and records per second, by partition of one topic.

    Args:
        folder: Gets the file that members read (``app_work_file``).
        topic: The topic.
        partitions: Its partition count.
    """

    def __init__(self, folder: Path, topic: str, partitions: int) -> None:
        self.file, self.topic, self.partitions = folder / "work.json", topic, partitions
        self.seconds: dict[int, float] = {}
        self.rates: dict[int, float] = {}
        self.plant([], 0.0, 0.0)

    def plant(self, slow: Sequence[int], slow_s: float, others_s: float) -> None:
        """Let records of some partitions take so many seconds, and others' so many."""
        self.seconds = {p: slow_s if p in slow else others_s for p in range(self.partitions)}
        named = {f"{self.topic}-{p}": seconds for p, seconds in self.seconds.items()}
        whole = self.file.with_suffix(".new")
        whole.write_text(json.dumps(named), "utf-8")
        whole.replace(self.file)

    def settings(self) -> dict[str, object]:
        """Consumer settings of the members: small batches, and little fetched ahead."""
        return {"app_work_file": str(self.file), "max_poll_records": 10, "max_partition_fetch_bytes": 2048}

    @contextmanager
    def sent(self, bootstrap: str, folder: Path, per_s: float, hot: Sequence[int], share: float) -> Iterator[None]:
        """Send records inside the block, this part of them to the hot partitions."""
        rest = [p for p in range(self.partitions) if p not in hot]
        self.rates = {p: per_s * (share / len(hot) if p in hot else (1 - share) / len(rest)) for p in [*hot, *rest]}
        stop = threading.Event()

        def records() -> Iterator[Record]:
            due, sent = time.monotonic(), Counter[int]()
            while not stop.wait(max(0.0, due - time.monotonic())):
                p = min(self.rates, key=lambda p: ((sent[p] + 1) / self.rates[p], p))
                sent[p] += 1
                yield Record(self.topic, b"key-%d" % p, p)
                due += 1 / per_s

        thread = threading.Thread(target=send, args=(bootstrap, folder, "run", "explicit", records()))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def work_of(self, owned: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, float]:
        """Member -> seconds of work per second, as planted."""
        return {
            member: sum(self.rates[p] * self.seconds[p] for p in topics.get(self.topic, ()))
            for member, topics in owned.items()
        }


def unevenness(works: Mapping[str, float]) -> float:
    """Greatest work / mean."""
    return max(works.values()) / (sum(works.values()) / len(works))


def consumed_per_s(history: History, begin_ns: int, end_ns: int) -> float:
    """Records that the group consumed per second."""
    rows = [
        row
        for e in history.events
        if e.kind == "consume" and begin_ns <= e.mono_ns < end_ns
        for row in e.data["offsets"]
    ]
    return sum(row["count"] for row in rows) / ((end_ns - begin_ns) / NS)


def told(history: History, partitions: Mapping[str, int]) -> list[tuple[int, dict[str, carried.Carried]]]:
    """Of each committed generation, its time and what members told: client id -> user data."""
    found = []
    for event in history.events:
        if event.kind == "generation_committed":
            each = {}
            for member in event.data["members"]:
                sent = decode_subscription(bytes.fromhex(member["subscription"]))
                each[member["member_id"]] = carried.decode(sent.user_data, partitions)
            found.append((event.mono_ns, each))
    return found


def known(said: Mapping[str, carried.Carried], topic: str) -> set[int]:
    """The partitions whose weight somebody told."""
    return {int(p) for each in said.values() for p in each.weights.get(topic, ((), ()))[0]}
