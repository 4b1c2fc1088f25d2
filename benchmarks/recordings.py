"""What `kafka_assignors.record` costs a consumer, and whether its recordings tell the causes that the log tells."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from kafka import KafkaProducer

from kafka_assignors.clients.recorder.member import JoinedMember, ServiceMember
from kafka_assignors.clients.recorder.sender import EventSender
from kafka_assignors.clients.recorder.sinks import FileSink
from kafka_assignors.core.wire.protocol import AssignedPartitions, Subscription, encode_assignment, encode_subscription
from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.topics import create_topics
from tests.support.live.compared import counted
from tests.support.live.consumers import played

from .result import Result, WrongAnswer

_RECORDS, _QUICK_RECORDS = 300_000, 60_000
_TURNS, _QUICK_TURNS = 21, 7
_GROUPS, _GENERATIONS, _QUICK_GENERATIONS = 6, 90, 10
_REBALANCES = 200
_VALUE = b"x" * 100
_WITH, _WITHOUT = "record", "without"
_SERVICE = """
import json, sys, time
from kafka import KafkaConsumer
bootstrap, topic, group, count, folder = sys.argv[1:]
consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
)
if folder:
    import kafka_assignors
    kafka_assignors.record(consumer, to=folder)
left, begun = int(count), None
while left > 0:
    number = sum(map(len, consumer.poll(timeout_ms=1000).values()))
    if number and begun is None:
        begun = time.perf_counter(), time.process_time()
    left -= number
print(json.dumps({"wall": time.perf_counter() - begun[0], "cpu": time.process_time() - begun[1]}))
consumer.close()
"""
"""Measures from its first record to its last one; both ways have joined by then."""


def run(quick: bool) -> Iterator[Result]:
    """``poll/wall``, ``poll/cpu``, ``rebalance/member``, ``rebalance/leader``, ``causes/differs``."""
    count, turns = (_QUICK_RECORDS, _QUICK_TURNS) if quick else (_RECORDS, _TURNS)
    yield from _apart()
    settings = {"broker.session.timeout.ms": "60000"}  # its own session, which a busy machine must not end
    with start_broker("jvm", settings=settings) as broker, tempfile.TemporaryDirectory() as name:
        yield from _throughput(broker.bootstrap, count, turns, Path(name))
        yield causes(broker.bootstrap, _GROUPS, _QUICK_GENERATIONS if quick else _GENERATIONS)


def causes(bootstrap: str, groups: int, generations: int) -> Result:
    """The share of drawn rebalances whose causes by recordings are not those by the log."""
    with tempfile.TemporaryDirectory() as name:
        agreements = played(bootstrap, Path(name), groups, generations)
    whole = counted(agreements)
    note = f"of {whole.total} rebalances of {groups} groups; {whole.finer} told finer: left, not left or expired"
    raw = {
        "total": whole.total, "same": whole.same, "finer": whole.finer, "different": whole.different,
        "groups": {group: agreement.total for group, agreement in agreements.items()},
    }  # fmt: skip
    return Result("causes/differs", 100 * (1 - whole.agreeing), "%", note=note, raw=raw)


def _throughput(bootstrap: str, count: int, turns: int, folder: Path) -> Iterator[Result]:
    topic = f"recordings-{uuid4().hex[:8]}"
    create_topics(bootstrap, {topic: 1})
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, batch_size=1 << 17)
    for _ in range(count):
        producer.send(topic, _VALUE)
    producer.close()
    seconds: dict[str, dict[str, list[float]]] = {clock: defaultdict(list) for clock in ("wall", "cpu")}
    for turn in range(turns):
        for kind in (_WITH, _WITHOUT) if turn % 2 == 0 else (_WITHOUT, _WITH):
            for clock, value in _read(bootstrap, topic, count, folder / f"{turn}", kind).items():
                seconds[clock][kind].append(value)
    for clock, values in seconds.items():
        ours, theirs = (1e6 * statistics.median(values[kind]) / count for kind in (_WITH, _WITHOUT))
        pairs = [mine / other - 1 for mine, other in zip(values[_WITH], values[_WITHOUT], strict=True)]
        raw = {"seconds": values, "count": count, "load": os.getloadavg()[0]}
        note = f"median of {turns} pairs: {100 * statistics.median(pairs):+.2f} %"
        yield Result(f"poll/{clock}", ours, "us/record", _WITHOUT, theirs, note=note, raw=raw)


def _read(bootstrap: str, topic: str, count: int, folder: Path, kind: str) -> dict[str, float]:
    """Read all records in a new process and group; the seconds that it took.

    Raises:
        WrongAnswer: The service failed, or has recorded nothing.
    """
    to = str(folder) if kind == _WITH else ""
    command = [sys.executable, "-c", _SERVICE, bootstrap, topic, f"g-{uuid4().hex[:8]}", str(count), to]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongAnswer(f"the service failed: {done.stderr.strip()[-300:]}")
    if to and not any(json.loads(line)["kind"] == "stop" for path in folder.iterdir() for line in path.open()):
        raise WrongAnswer("the service's stop is not recorded")
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def _apart() -> Iterator[Result]:
    """The recorder's own calls on a client's threads, per rebalance: of a follower, and of a leader of 100 members."""
    partitions = [("orders", number) for number in range(10)]
    sent = encode_subscription(Subscription(("orders",)))
    assignment = encode_assignment(AssignedPartitions({"orders": tuple(range(10))}))
    ids = [f"app-{number:036d}" for number in range(100)]
    members = [JoinedMember(member_id, None, sent) for member_id in ids]
    for name, leads in (("member", False), ("leader", True)):
        with tempfile.TemporaryDirectory() as folder:
            sender = EventSender(FileSink(Path(folder)))
            member = ServiceMember(
                sender, group="g", client="kafka-python", client_id="app", instance_id=None, host="h"
            )
            times = []
            for generation in range(_REBALANCES):
                begun = time.thread_time()
                member.gives_up(partitions)
                member.joining({"range": sent})
                member.joined(ids[0], generation, "range", ids[0], members if leads else ())
                if leads:
                    member.assigned(dict.fromkeys(ids, assignment), 0.001)
                member.synced()
                member.adopting(generation, "range", assignment)
                member.owns(partitions)
                times.append(1e6 * (time.thread_time() - begun))
                sender.flush(10)
        yield Result(f"rebalance/{name}", statistics.median(times), "us", raw={"us": times})
