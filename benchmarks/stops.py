"""How long partitions have no owner while a group changes, with every client's default settings."""

from __future__ import annotations

import lzma
import os
import statistics
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from kafka_assignors.errors import UnknownName
from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.checker.delays import Delays, spread
from kafka_assignors.integration.checker.ledger import RunRecord
from kafka_assignors.integration.checker.rebalance_costs import Cost
from kafka_assignors.integration.errors import HarnessError
from kafka_assignors.integration.history import History, manifest
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender
from kafka_assignors.integration.topics import create_topics
from tests.support.go import NoGo, go_member

from .result import Result

JOIN, LEAVE, ROLL, STATIC_ROLL, ADDED, KILL = "join", "leave", "roll", "static roll", "partitions added", "kill"
OURS = "ours/cooperative-sticky"

_RUNS, _QUICK_RUNS = 5, 1
_SESSION_MS, _HEARTBEAT_MS = 45_000, 3000
"""Default of kafka-python, librdkafka, Java and franz-go."""
_TIMEOUTS = {"aiokafka": (10_000, 3000), "java-consumer": (45_000, 5000), "confluent-consumer": (45_000, 5000)}
"""Default session timeout and heartbeat interval of other clients; in KIP-848 groups these are the broker's."""
_RECORDS_PER_S = 100
_BROKER = {"broker.session.timeout.ms": "60000"}
"""Session timeout of the only node, long because on a busy machine no other node could take over from it."""
_SHOWN = 500
_STABLE_S, _ADDED_S = 120, 420
"""Deadlines of one change. Clients look for new partitions once in five minutes."""
_NUMBER_ADDED = 3
_REST_S = (5.5, 8.5)
"""How long a group is left alone before a change: longer than the slowest heartbeat (5 s), so that no client is still
busy with the change before, and a drawn part of a heartbeat, as nobody deploys in step with heartbeats."""


@dataclass(frozen=True)
class Row:
    """Members of one client with one assignor, at the client's defaults.

    Args:
        client: Name in the table.
        assignor: Protocol name.
        member: Client name in the harness.
        given: Assignor name in the harness.
        settings: What the harness's member would set otherwise, at the client's default.
        hands_over: Whether a member leaves by `kafka_assignors.leave`, and not by its client's ``close``.
    """

    client: str
    assignor: str
    member: str
    given: str
    settings: Mapping[str, Any]
    hands_over: bool = False

    @property
    def name(self) -> str:
        """The row's name in the results."""
        return f"{self.client}/{self.assignor}"


def _rows() -> Iterator[Row]:
    cooperative = "cooperative-sticky"
    defaults = {"retry_backoff_ms": 100, "fetch_max_wait_ms": 500}
    librdkafka = {"fetch_wait_max_ms": 500}
    yield Row("ours", cooperative, "kafka-python", cooperative, defaults, hands_over=True)
    yield Row("ours-close", cooperative, "kafka-python", cooperative, defaults)
    yield Row("ours", "range", "kafka-python", "range", defaults)
    yield Row("bridge", cooperative, "bridge", cooperative, librdkafka, hands_over=True)
    yield Row("kafka-python", cooperative, "kafka-python", f"kafka-python:{cooperative}", defaults)
    yield Row("kafka-python", "range", "kafka-python", "kafka-python:range", defaults)
    yield Row("aiokafka", "range", "aiokafka", "aiokafka:range", defaults)
    yield Row("java", cooperative, "java", cooperative, defaults)
    yield Row("java", "range", "java", "range", defaults)
    yield Row("java-kip-848", "uniform", "java-consumer", "uniform", defaults)
    yield Row("librdkafka", cooperative, "confluent", cooperative, librdkafka)
    yield Row("librdkafka-kip-848", "uniform", "confluent-consumer", "uniform", librdkafka)
    yield Row("franz-go", cooperative, "franz-go", cooperative, {"fetch_max_wait_ms": 5000})


ROWS = tuple(_rows())


@dataclass(frozen=True)
class Shape:
    """A group and what happens to it.

    Args:
        members: At the beginning.
        partitions: Of its topic.
        changes: In this order.
        most: Only the first runs play it, this many, because it takes minutes.
        together: How many groups play it at the same time. More than one only where nearly all time is spent waiting:
            members that start beside it take a stop from 40 ms to 280 on two cores, and the figures are meant to be
            the clients', not the processor's.
    """

    members: int
    partitions: int
    changes: tuple[str, ...]
    most: int = _RUNS
    together: int = 1

    @property
    def name(self) -> str:
        """As in the results."""
        return f"{self.members}x{self.partitions}"


SHAPES = (
    Shape(3, 12, (JOIN, LEAVE)),
    Shape(5, 60, (ROLL,)),
    Shape(10, 60, (JOIN, LEAVE)),
    Shape(5, 60, (STATIC_ROLL,), 2),
    Shape(30, 120, (JOIN, LEAVE), 2),
    Shape(3, 12, (ADDED, KILL), 1, together=3),
)
_QUICK = (OURS, "kafka-python/cooperative-sticky", "java/cooperative-sticky")
MEASURES = (
    "downtime_ms",
    "stop_ms",
    "generations",
    "moves",
    "above_least",
    "duplicates",
    "p50_ms",
    "p99_ms",
    "most_ms",
)


@dataclass
class _Change:
    """One change of one run: its costs, and the delays in ms of the records sent until the group was stable again."""

    costs: list[Cost] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)

    def measures(self) -> dict[str, float]:
        """Of a roll, over all of its replacements."""
        least = [cost.least for cost in self.costs]
        moves = sum(cost.moves for cost in self.costs)
        excess = {} if None in least else {"above_least": moves - sum(count or 0 for count in least)}
        return {
            "downtime_ms": sum(cost.downtime_ms for cost in self.costs),
            "stop_ms": max((cost.stop_ms for cost in self.costs), default=0.0),
            "generations": sum(cost.generations for cost in self.costs),
            "moves": moves,
            "duplicates": sum(cost.duplicates or 0 for cost in self.costs),
            **excess,
            **spread(self.delays),
        }


@dataclass
class _Runs:
    """The results of a row in a shape.

    Args:
        measures: change -> measure -> a value for each run in which membership changed only as asked.
        left_out: change -> number of other runs.
        failed: Reasons of runs that did not finish.
    """

    measures: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    left_out: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    failed: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    load: list[float] = field(default_factory=list)

    def take(self, history: History, changes: Sequence[str], failed: str | None) -> None:
        """Add one run."""
        verdict = check(history)
        self.load.append(round(os.getloadavg()[0], 2))
        self.verdicts.append(verdict)
        made = _changes(history, verdict)
        for change in changes:
            if (done := made.get(change)) is None:
                continue
            if not all(cost.asked for cost in done.costs):
                self.left_out[change] += 1
                continue
            for measure, value in done.measures().items():
                self.measures[change][measure].append(value)
        if failed is not None:
            self.failed.append(failed)


def run(
    quick: bool, runs: int | None = None, keep: Path | None = None, only: str | None = None, clients: str | None = None
) -> Iterator[Result]:
    """``MEMBERSxPARTITIONS/CHANGE/CLIENT/ASSIGNOR``: partition-ms without an owner; the rest in the raw results.

    Args:
        quick: A join and a leave with three rows, once.
        runs: Number of runs; 5 by default.
        keep: A folder for the compressed history of each run.
        only: Shapes, such as ``3x12,5x60``, or changes of one, such as ``5x60/roll``; all by default.
        clients: Names of rows, such as ``ours/cooperative-sticky,java/range``; all by default.

    Rows take turns in each run, so a busy phase of the machine affects all of them. Ctrl-C ends the runs and reports
    their results.
    """
    runs = runs or (_QUICK_RUNS if quick else _RUNS)
    rows = [row for row in ROWS if not quick or row.name in _QUICK]
    if clients is not None:
        rows = [_row(name) for name in clients.split(",")]
    shapes = _chosen(only, SHAPES[:1] if quick else SHAPES)
    program: tuple[str, ...] = ()
    if any(row.client == "franz-go" for row in rows):
        try:
            program = (str(go_member()), "franz-go")
        except NoGo as missing:
            print(f"franz-go: not measured: {missing}", file=sys.stderr)
            rows = [row for row in rows if row.client != "franz-go"]
    done = {(row.name, shape): _Runs() for shape in shapes for row in rows}
    with start_broker("jvm", settings=_BROKER) as broker, suppress(KeyboardInterrupt):
        for turn in range(runs):
            due = rows[turn % len(rows) :] + rows[: turn % len(rows)]
            for shape in shapes:
                if turn >= shape.most:
                    continue
                for first in range(0, len(due), shape.together):
                    beside = due[first : first + shape.together]
                    with ThreadPoolExecutor(shape.together) as pool:
                        jobs = [pool.submit(_play, broker.bootstrap, row, shape, program, keep, turn) for row in beside]
                    for row, job in zip(beside, jobs, strict=True):  # none is judged while another plays
                        history, failed = job.result()
                        of = done[row.name, shape]
                        of.take(history, shape.changes, failed)
                        _say(turn, row, shape, of, failed)
    yield from _results(rows, shapes, done)


def _row(name: str) -> Row:
    for row in ROWS:
        if row.name == name:
            return row
    raise UnknownName("client", name, [row.name for row in ROWS])


def _chosen(only: str | None, shapes: Sequence[Shape]) -> list[Shape]:
    """The shapes that ``--only`` names.

    Raises:
        UnknownName: It names something else.
    """
    if only is None:
        return list(shapes)
    named = {name for shape in shapes for name in (shape.name, *(f"{shape.name}/{change}" for change in shape.changes))}
    wanted = only.split(",")
    for name in wanted:
        if name not in named:
            raise UnknownName("group", name, sorted(named))
    return [s for s in shapes if s.name in wanted or any(f"{s.name}/{change}" in wanted for change in s.changes)]


def _say(turn: int, row: Row, shape: Shape, of: _Runs, failed: str | None) -> None:
    stops = ", ".join(
        f"{change} {measures['downtime_ms'][-1]:,.0f} partition-ms, longest {measures['stop_ms'][-1]:,.0f} ms"
        for change, measures in of.measures.items()
    )
    print(f"{turn + 1}: {row.name} {shape.name}: {stops}{f'; {failed}' if failed else ''}", file=sys.stderr)


def _play(
    bootstrap: str, row: Row, shape: Shape, program: tuple[str, ...], keep: Path | None, turn: int
) -> tuple[History, str | None]:
    """Play a shape's changes with one group; returns its history, and the reason if it did not finish."""
    run, failed = uuid4().hex, None
    topic = f"t-{run[:8]}"
    session_ms, heartbeat_ms = _TIMEOUTS.get(row.member, (_SESSION_MS, _HEARTBEAT_MS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        create_topics(bootstrap, {topic: shape.partitions})
        timeouts = {"session_timeout_ms": session_ms, "heartbeat_interval_ms": heartbeat_ms}
        try:
            with MemberGroup(bootstrap, f"g-{run[:8]}", folder, run, **timeouts) as group:
                with Sender(bootstrap, folder, run, [topic], "roundrobin", _RECORDS_PER_S):
                    _Course(group, row, shape, topic, program if row.client == "franz-go" else ()).play()
                group.drain(_STABLE_S)
            with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
                admin.delete_topics([topic])  # else the broker would be slower for the last runs than for the first
        except (HarnessError, KafkaError, OSError, RuntimeError) as error:
            failed = f"{type(error).__name__}: {error}"[:_SHOWN]  # reported; the other rows continue
        if keep is not None:
            _keep(folder, keep / f"{row.name.replace('/', '.')}.{shape.name}.{shape.changes[0]}.{turn}.tar.xz")
        return History.load(folder), failed


class _Course:
    """The changes of one group."""

    def __init__(self, group: MemberGroup, row: Row, shape: Shape, topic: str, program: tuple[str, ...]) -> None:
        self._group, self._row, self._shape, self._topic, self._program = group, row, shape, topic, program
        self._random = Random(topic)

    def play(self) -> None:
        static = STATIC_ROLL in self._shape.changes
        names = [f"m{number}" for number in range(1, self._shape.members + 1)]
        self._group.step("start")
        for name in names:
            self._start(name, static)
        self._group.wait_stable(timeout_s=_STABLE_S)
        for change in self._shape.changes:
            if change == JOIN:
                self._change(change, partial(self._start, "new"))
            elif change == LEAVE:
                self._change(change, partial(self._leave, names[1]))
            elif change == ROLL:
                for name in names:  # as a deployment does it: the new process first, then the old one ends
                    self._change(change, partial(self._start, f"{name}-new"))
                    self._change(change, partial(self._leave, name))
            elif change == STATIC_ROLL:
                for name in names:
                    self._change(change, partial(self._restart, name))
            elif change == ADDED:
                count = self._shape.partitions + _NUMBER_ADDED
                self._change(change, partial(self._group.topics.add_partitions, self._topic, count), _ADDED_S)
            else:
                self._change(change, partial(self._group.kill, names[0]))

    def _change(self, change: str, act: Callable[[], object], timeout_s: float = _STABLE_S) -> None:
        time.sleep(self._random.uniform(*_REST_S))
        self._group.step(change)
        act()
        self._group.wait_stable(timeout_s=timeout_s)

    def _start(self, name: str, static: bool = False) -> None:
        row = self._row
        settings: dict[str, Any] = {**row.settings, "instance_id": f"s-{name}" if static else None}
        self._group.start(name, [self._topic], [row.given], client=row.member, program=self._program, **settings)

    def _restart(self, name: str) -> None:
        self._group.stop(name)
        self._start(name, static=True)

    def _leave(self, name: str) -> None:
        if self._row.hands_over:
            self._group.leave(name)
        else:
            self._group.stop(name)


def _changes(history: History, verdict: Verdict) -> dict[str, _Change]:
    """Name of the change -> what it cost, and the delays of the records acknowledged until the group was stable."""
    made: dict[str, _Change] = defaultdict(_Change)
    run = RunRecord.of(history)
    waits = {name: Delays.of(record, run.acked) for name, record in run.groups.items()}
    for cost in (Cost(**row) for row in verdict.measures["steps"]):
        if cost.name:
            made[cost.name].costs.append(cost)
            made[cost.name].delays += waits[cost.group].within((cost.from_ns, cost.until_ns))
    return made


def _keep(folder: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wb", preset=9) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for file in sorted([*folder.glob("*.jsonl"), folder / manifest.NAME]):
            tar.add(file, file.name)


def _results(rows: Sequence[Row], shapes: Sequence[Shape], done: Mapping[tuple[str, Shape], _Runs]) -> Iterator[Result]:
    for shape in shapes:
        for change in shape.changes:
            ours = _median(done[OURS, shape], change) if any(row.name == OURS for row in rows) else None
            for row in rows:
                of = done[row.name, shape]
                raw: dict[str, Any] = dict(of.measures[change])
                peer = row.name != OURS
                yield Result(
                    f"{shape.name}/{change}/{row.name}",
                    ours if peer else _median(of, change),
                    "partition-ms",
                    row.name if peer else None,
                    _median(of, change) if peer else None,
                    f"{row.name}: {_note(raw, of.left_out[change])}",
                    raw,
                )
                if not peer:
                    longest = raw.get("stop_ms") or [None]
                    value = None if None in longest else statistics.median(longest)
                    yield Result(f"{shape.name}/{change}/{row.name}/longest", value, "ms")
    for row in rows:
        verdicts = [verdict for shape in shapes for verdict in done[row.name, shape].verdicts]
        failed = [why for shape in shapes for why in done[row.name, shape].failed]
        laws: dict[str, int] = defaultdict(int)
        for verdict in verdicts:
            for law in {violation.law for violation in verdict.violations}:
                laws[law] += 1
        broken = ", ".join(f"{law} in {times}" for law, times in sorted(laws.items())) or "none"
        raw = {
            "values": [verdict.value for verdict in verdicts],
            "broken": [v.message for verdict in verdicts for v in verdict.violations],
            "unknown": [why for verdict in verdicts for why in verdict.unknown],
            "failed": failed,
            "load": [load for shape in shapes for load in done[row.name, shape].load],
        }
        note = f"{len(verdicts)} runs; laws broken: {broken}; {len(failed)} did not finish"
        false = sum(verdict.value is False for verdict in verdicts)
        yield Result(
            f"{row.name}/verdict",
            false,
            "runs",
            note=note,
            raw=raw,
            none=row.client in ("ours", "ours-close", "bridge"),
        )


def _median(of: _Runs, change: str) -> float | None:
    values = of.measures[change]["downtime_ms"]
    return statistics.median(values) if values else None


def _note(raw: Mapping[str, Sequence[float]], left_out: int) -> str:
    if not raw.get("downtime_ms"):
        return f"no run, {left_out} left out because a member missed its session"
    cells = ", ".join(f"{measure} {_middle(raw[measure])}" for measure in MEASURES if raw.get(measure))
    return f"{len(raw['downtime_ms'])} runs: {cells}; {left_out} left out"


def _middle(values: Sequence[float]) -> str:
    """The median and, if different, the largest value."""
    median, most = f"{statistics.median(values):,.0f}", f"{max(values):,.0f}"
    return median if median == most else f"{median} ({most})"
