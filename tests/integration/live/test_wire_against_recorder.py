"""What a service's connections show, against what the recorder in the same processes of the same run tells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.proxy import Tapped, WireTap
from kafka_assignors.integration.recorder import kafka_assignors_recorder as recorder
from tests.support.further import further
from tests.support.live.services import PROGRAMS, SOUND
from tests.support.waiting import until

pytestmark = pytest.mark.broker
PARTITIONS = 6
Place = tuple[str, int]
Row = Mapping[str, Any]

_COOPERATIVE = PROGRAMS["kafka-python"].replace("RangeAssignor", "CooperativeStickyAssignor")
_COMMITS_ALL = {"kafka-python": PROGRAMS["kafka-python"], "cooperative": _COOPERATIVE, **{
    name: PROGRAMS[name] for name in ("confluent-kafka", "aiokafka")
}}  # fmt: skip
"""Name -> a worker that commits what it has worked on."""


class Worker:
    """A process with the recorder, behind the tap."""

    def __init__(self, program: Path, name: str, group: str, topics: tuple[str, str], tap: WireTap) -> None:
        folder = program.parent
        self.tapped: Tapped = tap.listen(group, folder / f"{name}.wire", folder / f"{name}.log")
        self._record, self._tap = folder / f"{name}.record", tap
        with (folder / f"{name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(program), self.tapped.bootstrap, group, *topics, SOUND],
                env={
                    **os.environ, recorder.FILE: str(self._record), recorder.GROUP: group,
                    "PYTHONPATH": os.pathsep.join(
                        (str(Path(recorder.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))
                    ),
                },
                stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def wire(self) -> list[Row]:
        """What its connections show."""
        return _rows(self.tapped.rows)

    @property
    def recorded(self) -> list[Row]:
        """What its recorder tells."""
        return [row for path in self._record.parent.glob(f"{self._record.name}.*") for row in _rows(path)]

    def owned(self) -> int:
        """How many partitions it was last assigned, by its connections."""
        return len(([[]] + [row["partitions"] for row in self.wire if row["kind"] == "generation"])[-1])

    def end(self) -> None:
        """Ask it to end, and wait until all that it said is written."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        self._tap.close_process(self.tapped)


def _rows(path: Path) -> list[Row]:
    """The whole lines of a file."""
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def _places(row: Row) -> list[Place]:
    return [(place["topic"], place["partition"]) for place in row["partitions"]]


def _generations(rows: list[Row]) -> list[tuple[int, str, list[Place]]]:
    return [(row["generation"], row["member_id"], _places(row)) for row in rows if row["kind"] == "generation"]


def _commits(rows: list[Row], kind: str) -> list[tuple[str, int, int]]:
    return sorted(
        (o["topic"], o["partition"], o["offset"]) for row in rows if row["kind"] == kind for o in row["offsets"]
    )


def _owned(rows: list[Row]) -> Iterator[tuple[Place, int, int]]:
    """(partition, from, until): when callbacks gave a partition and took it, ns."""
    since: dict[Place, int] = {}
    for row in rows:
        if row["kind"] == "assigned_begin":
            since |= dict.fromkeys(_places(row), row["mono_ns"])
        elif row["kind"] in ("revoke_end", "lost_begin"):
            for place in _places(row):
                yield place, since.pop(place), row["mono_ns"]
        elif row["kind"] == "stop":
            for place, begin in since.items():
                yield place, begin, row["mono_ns"]
            since = {}


@pytest.mark.parametrize("client", further(_COMMITS_ALL))
def test_the_wire_agrees_with_the_recorder(
    client: str, kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A worker starts, another joins, the first leaves. The same generations, commits and ends; no shorter owning."""
    topics = kafka_topic(partitions=PARTITIONS), kafka_topic(partitions=1)
    group, program = f"g-{uuid.uuid4().hex[:8]}", tmp_path / "worker.py"
    program.write_text(_COMMITS_ALL[client], "utf-8")
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        for number in range(sent, sent + count):
            producer.send(topics[0], b"%d" % number, partition=number % PARTITIONS)
        sent += count
        producer.flush()

    def committed(*workers: Worker) -> int:
        ends: dict[Place, int] = {}
        for topic, partition, offset in (c for worker in workers for c in _commits(worker.wire, "commit_ok")):
            ends[topic, partition] = max(ends.get((topic, partition), 0), offset)
        return sum(ends.values())

    tap = WireTap.before(kafka_broker)
    assert tap is not None
    with tap:
        one = Worker(program, "one", group, topics, tap)
        until(lambda: one.owned() == PARTITIONS, "one has all partitions", 60)
        send(30)
        until(lambda: committed(one) == sent, "one has committed", 60)
        two = Worker(program, "two", group, topics, tap)
        until(lambda: one.owned() == two.owned() == PARTITIONS // 2, "each has half of them", 60)
        send(30)
        until(lambda: committed(one, two) == sent, "both have committed", 60)
        one.end()
        until(lambda: two.owned() == PARTITIONS, "two has all partitions", 60)
        send(30)
        until(lambda: committed(one, two) == sent, "two has committed", 60)
        two.end()
    producer.close()

    for worker in (one, two):
        wire, recorded = worker.wire, worker.recorded
        assert not [row for row in (*wire, *recorded) if row["kind"] == "error"]
        assert _generations(wire) == _generations(recorded)
        assert len(_generations(wire)) >= 2
        for kind in ("commit_begin", "commit_ok", "commit_fail"):
            assert _commits(wire, kind) == _commits(recorded, kind), kind
        assert [row["kind"] for row in wire].count("stop") == [row["kind"] for row in recorded].count("stop") == 1
        (seen,), (real,) = ([row for row in rows if row["kind"] == "start"] for rows in (wire, recorded))
        assert (seen["topics"], seen["assignors"]) == (real["topics"], real["assignors"])
        assert seen["config"]["session_timeout_ms"] == real["config"]["session_timeout_ms"]
        outer, inner = sorted(_owned(wire)), sorted(_owned(recorded))
        assert [place for place, _, _ in outer] == [place for place, _, _ in inner]
        for (place, begin, end), (_, inner_begin, inner_end) in zip(outer, inner, strict=True):
            assert begin <= inner_begin, (place, "was assigned before it was answered")
            assert end >= inner_end, (place, "was given up after the join without it")
