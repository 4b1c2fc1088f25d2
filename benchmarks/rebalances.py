"""The cost of a rebalance: assignors of four clients, five triggers, real members on a real broker."""

from __future__ import annotations

import lzma
import os
import statistics
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path
from typing import Any
from uuid import uuid4

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.checker.rebalance_costs import Cost
from kafka_assignors.integration.errors import HarnessError
from kafka_assignors.integration.history import History, manifest
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender
from kafka_assignors.integration.topics import create_topics

from .result import Result

TRIGGERS = ("join", "static restart", "leave", "partitions added", "kill")
MEASURES = ("generations", "stop_ms", "downtime_ms", "moves", "needless", "duplicates", "ms")

_RUNS, _QUICK_RUNS = 20, 1
_PARTITIONS, _ADDED = 12, 3
_SESSION_MS, _STATIC_SESSION_MS, _HEARTBEAT_MS = 3000, 60_000, 300
_RECORDS_PER_S = 60
_BROKER = {"broker.session.timeout.ms": "60000"}
"""Session timeout of the only node, long because on a busy machine no other node could take over from it."""
_SHOWN = 500
_TIMEOUT_S = 60
_TOGETHER = 3
"""Number of concurrent groups. A group mostly waits for sessions, heartbeats and processes."""


@dataclass(frozen=True)
class Row:
    """Members of one client with one assignor.

    Args:
        client: Name in the table.
        assignor: Protocol name.
        member: Client name in the harness.
        given: Assignor name in the harness.
        settings: Client settings that refresh metadata once a second, as in every row.
    """

    client: str
    assignor: str
    member: str
    given: str
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The row's name in the results."""
        return f"{self.client}/{self.assignor}"


def _rows() -> Iterator[Row]:
    fresh = {"metadata_max_age_ms": 1000}
    for assignor in ("cooperative-sticky", "sticky", "range"):
        yield Row("ours", assignor, "kafka-python", assignor, fresh)
    for assignor in ("cooperative-sticky", "sticky", "range", "roundrobin"):
        yield Row("kafka-python", assignor, "kafka-python", f"kafka-python:{assignor}", fresh)
    for assignor in ("cooperative-sticky", "sticky", "range"):
        yield Row("java", assignor, "java", assignor, fresh)
    for assignor in ("cooperative-sticky", "range"):
        yield Row("librdkafka", assignor, "confluent", assignor, {"topic_metadata_refresh_interval_ms": 1000})


ROWS = tuple(_rows())


@dataclass
class _Seen:
    """The results of a row's runs.

    Args:
        costs: trigger -> a cost for each run in which membership changed only by scenario actions.
        left_out: trigger -> number of other runs.
        failed: Reasons of runs that did not finish.
    """

    costs: dict[str, list[Cost]] = field(default_factory=lambda: defaultdict(list))
    left_out: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    failed: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    load: list[float] = field(default_factory=list)

    def take(self, verdict: Verdict, failed: str | None) -> None:
        """Add one run."""
        self.load.append(round(os.getloadavg()[0], 2))
        self.verdicts.append(verdict)
        for row in verdict.measures["steps"]:
            cost = Cost(**row)
            if cost.name not in TRIGGERS:
                continue
            if cost.asked:
                self.costs[cost.name].append(cost)
            else:
                self.left_out[cost.name] += 1
        if failed is not None:
            self.failed.append(failed)

    def lacks(self, runs: int) -> bool:
        """Whether a trigger has fewer than `runs` runs."""
        return any(len(self.costs[trigger]) < runs for trigger in TRIGGERS)


def run(quick: bool, runs: int | None = None, keep: Path | None = None) -> Iterator[Result]:
    """``CLIENT/ASSIGNOR/TRIGGER``: the longest stop; all measures in the raw results. ``…/verdict``: laws broken.

    Args:
        quick: Only the rows of cooperative-sticky, each once.
        runs: Number of runs per row; 20 by default.
        keep: A folder for the compressed history of each run.

    Each round runs every row once, so a busy phase of the machine affects all rows. A run in which a member missed its
    session is repeated, at most half as many times as there are runs. Ctrl-C ends the rounds and reports their results.
    """
    runs = runs or (_QUICK_RUNS if quick else _RUNS)
    rows = [row for row in ROWS if not quick or row.assignor == "cooperative-sticky"]
    seen = {row.name: _Seen() for row in rows}
    with start_broker("jvm", settings=_BROKER) as broker, ThreadPoolExecutor(_TOGETHER) as pool:
        try:
            for turn in range(runs + runs // 2):
                due = [row for row in rows if turn < runs or seen[row.name].lacks(runs)]
                first = turn % max(len(due), 1)
                due = due[first:] + due[:first]
                kept = [None if keep is None else keep / f"{row.name.replace('/', '.')}.{turn}.tar.xz" for row in due]
                played = pool.map(_run_triggers, [broker.bootstrap] * len(due), due, kept)
                for row, (verdict, failed) in zip(due, played, strict=True):
                    seen[row.name].take(verdict, failed)
                    stops = ", ".join(f"{t} {each[-1].stop_ms:.0f}" for t, each in seen[row.name].costs.items())
                    print(
                        f"{turn + 1}: {row.name}: longest stop in ms: {stops}{f'; {failed}' if failed else ''}",
                        file=sys.stderr,
                    )
        except KeyboardInterrupt:
            pool.shutdown(wait=True, cancel_futures=True)
    yield from _results(rows, seen)


def _run_triggers(bootstrap: str, row: Row, keep: Path | None) -> tuple[Verdict, str | None]:
    """Run all five triggers on one group; returns the verdict, and the reason if the run did not finish."""
    run = uuid4().hex
    topic, failed = f"t-{run[:8]}", None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        create_topics(bootstrap, {topic: _PARTITIONS})
        timeouts = {"session_timeout_ms": _SESSION_MS, "heartbeat_interval_ms": _HEARTBEAT_MS}
        try:
            with MemberGroup(bootstrap, f"g-{run[:8]}", folder, run, **timeouts) as group:
                with Sender(bootstrap, folder, run, [topic], "default", _RECORDS_PER_S):
                    _change(group, row, topic)
                group.drain(_TIMEOUT_S)
            with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
                admin.delete_topics(
                    [topic]
                )  # otherwise the broker would be slower for the last runs than for the first
        except (HarnessError, KafkaError, OSError, RuntimeError) as error:
            failed = f"{type(error).__name__}: {error}"[:_SHOWN]  # reported; the other rows continue
        if keep is not None:
            _keep(folder, keep)
        return check(History.load(folder)), failed


def _change(group: MemberGroup, row: Row, topic: str) -> None:
    def start(member: str, **settings: Any) -> None:
        group.start(member, [topic], [row.given], client=row.member, **row.settings, **settings)

    static = {"instance_id": "s1", "session_timeout_ms": _STATIC_SESSION_MS}
    group.step("start")
    start("m1")
    start("m2")
    start("s1", **static)
    group.wait_stable(timeout_s=_TIMEOUT_S)
    for trigger in TRIGGERS:
        group.step(trigger)
        if trigger == "join":
            start("m3")
        elif trigger == "static restart":
            group.stop("s1")
            start("s1", **static)
        elif trigger == "leave":
            group.stop("m2")
        elif trigger == "partitions added":
            group.add_partitions(topic, _PARTITIONS + _ADDED)
        else:
            group.kill("m3")
        group.wait_stable(timeout_s=_TIMEOUT_S)


def _keep(folder: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wb", preset=9) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for each in sorted([*folder.glob("*.jsonl"), folder / manifest.NAME]):
            tar.add(each, each.name)


def _results(rows: Sequence[Row], seen: Mapping[str, _Seen]) -> Iterator[Result]:
    for row in rows:
        mine = seen[row.name]
        peer = seen.get(f"kafka-python/{row.assignor}") if row.client == "ours" else None
        for trigger in TRIGGERS:
            costs = mine.costs[trigger]
            raw: dict[str, Any] = {m: [asdict(cost)[m] for cost in costs] for m in MEASURES}
            theirs = [cost.stop_ms for cost in peer.costs[trigger]] if peer is not None else []
            yield Result(
                f"{row.name}/{trigger}",
                statistics.median(raw["stop_ms"]) if costs else None,
                "ms",
                f"kafka-python/{row.assignor}" if peer is not None else None,
                statistics.median(theirs) if theirs else None,
                _note(raw, len(costs), mine.left_out[trigger]),
                raw,
            )
        laws: dict[str, int] = defaultdict(int)
        for verdict in mine.verdicts:
            for law in {violation.law for violation in verdict.violations}:
                laws[law] += 1
        false = sum(verdict.value is False for verdict in mine.verdicts)
        broken = ", ".join(f"{law} in {times}" for law, times in sorted(laws.items())) or "none"
        told = f"{len(mine.verdicts)} runs; laws broken: {broken}; {len(mine.failed)} did not finish"
        details = {
            "values": [verdict.value for verdict in mine.verdicts],
            "broken": [v.message for verdict in mine.verdicts for v in verdict.violations],
            "unknown": [why for verdict in mine.verdicts for why in verdict.unknown],
            "failed": mine.failed,
            "load": mine.load,
        }
        yield Result(f"{row.name}/verdict", false, "runs", note=told, raw=details, none=row.client == "ours")


def _note(raw: Mapping[str, Sequence[float]], runs: int, left_out: int) -> str:
    if not runs:
        return f"no run, {left_out} left out because a member missed its session"
    cells = ", ".join(f"{measure} {spread(raw[measure])}" for measure in MEASURES if measure != "stop_ms")
    return f"{runs} runs, p95 {percentile(raw['stop_ms'], 95):.0f} ms; {cells}; {left_out} left out"


def percentile(values: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile."""
    return sorted(values)[ceil(len(values) * percent / 100) - 1]


def spread(values: Sequence[float]) -> str:
    """The median and, if different, p95."""
    median, late = f"{statistics.median(values):,.0f}", f"{percentile(values, 95):,.0f}"
    return median if median == late else f"{median} ({late})"
