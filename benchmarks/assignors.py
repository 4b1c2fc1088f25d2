"""A leader's assignment, against kafka-python's own assignors, aiokafka's, Java's and franz-go's."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka_assignors.errors import UnknownName

from .assign_call import Call
from .result import Result
from .workloads import WORKLOADS

SMALL = ("S1", "S2", "S3")

PEERS = {
    ("kafka-python", "sticky"): "kafka-python StickyPartitionAssignor",
    ("kafka-python", "cooperative-sticky"): "kafka-python CooperativeStickyAssignor",
    ("kafka-python", "range"): "kafka-python RangePartitionAssignor",
    ("kafka-python", "roundrobin"): "kafka-python RoundRobinPartitionAssignor",
    ("aiokafka", "sticky"): "aiokafka StickyPartitionAssignor",
    ("java", "sticky"): "Java StickyAssignor",
    ("java", "cooperative-sticky"): "Java CooperativeStickyAssignor",
    ("java", "range"): "Java RangeAssignor",
    ("java", "roundrobin"): "Java RoundRobinAssignor",
    ("franz-go", "sticky"): "franz-go StickyBalancer",
    ("franz-go", "cooperative-sticky"): "franz-go CooperativeStickyBalancer",
}
SAME_ALGORITHM = {"aiokafka": "kafka-python"}
"""Client -> client with the same algorithm: if the latter does not finish, the former is not measured."""

Said = dict[str, Any]
_PREPARE_S = 180
"""Seconds, besides the call, to draw the workload, create the members' objects and check the assignment."""


def run(quick: bool, only: str | None = None) -> Iterator[Result]:
    """The small groups, then W1-join … W7-join with the sticky assignors, decoded and as bytes.

    Args:
        quick: Only rows whose peers respond within half a minute, and no first calls (``/cold``).
        only: Workloads, separated by commas; all by default.
    """
    wanted = list(WORKLOADS) if only is None else only.split(",")
    if unknown := [name for name in wanted if name not in WORKLOADS]:
        raise UnknownName("workload", unknown[0], WORKLOADS)
    for name in wanted:
        yield from _quick(name) if quick else _small(name) if name in SMALL else _large(name)


def _small(name: str) -> Iterator[Result]:
    """Each strategy in turns with kafka-python's: decoded subscriptions to bytes, and bytes to bytes."""
    for row, call, _ in _small_rows(name, budget_s=1.0):
        yield _result(row, call, "kafka-python", _by_turns(call, ["kafka-python"], 5, {}))


def _small_rows(name: str, budget_s: float) -> Iterator[tuple[str, Call, str]]:
    """Row, our call and the peer, for a small group."""
    for strategy in ("range", "roundrobin", "sticky", "cooperative-sticky"):
        call = Call(name, strategy, "ours", wire=False, limit_s=10.0, budget_s=budget_s, encode=True)
        yield f"{name}-join/{strategy}", call, "kafka-python"
        yield f"{name}-join/{strategy}/wire", replace(call, wire=True), "kafka-python"


def _quick(name: str) -> Iterator[Result]:
    """The rows whose peers respond within half a minute. All calls of ours, Java's and franz-go's share one process,
    kafka-python's and aiokafka's another, because most of the time goes into making a workload."""
    rows = list(_small_rows(name, budget_s=0.2) if name in SMALL else _quick_rows(name))
    wanted: dict[str, list[Call]] = {"ours": [], "theirs": []}
    for _, call, client in rows:
        for variant in (call, replace(call, client=client)):
            calls = wanted["theirs" if variant.client in ("kafka-python", "aiokafka") else "ours"]
            if variant not in calls:
                calls.append(variant)
    figures = {
        variant.to_json(): got
        for calls in wanted.values()
        for variant, got in zip(calls, measured(*calls), strict=True)
    }
    for row, call, client in rows:
        both = {"ours": [figures[call.to_json()]], client: [figures[replace(call, client=client).to_json()]]}
        yield _result(row, call, client, both)


def _quick_rows(name: str) -> Iterator[tuple[str, Call, str]]:
    """Row, our call and the peer, for a workload W1 to W7."""
    decoded = Call(name, "sticky", "ours", wire=False, limit_s=60.0, budget_s=0.4)
    if name in ("W1", "W3", "W5"):
        yield f"{name}-join", decoded, "kafka-python"
    wire = replace(decoded, wire=True)
    if name == "W1":
        yield f"{name}-join/wire", wire, "kafka-python"
        yield f"{name}-join/wire/aiokafka", wire, "aiokafka"
    java = name in ("W1", "W5")
    for client in ("java", "franz-go") if java or name == "W2" else ("franz-go",):
        yield f"{name}-join/wire/{client}-sticky", wire, client
    if name not in ("W2", "W7"):
        for client in ("java", "franz-go") if java else ("franz-go",):
            yield f"{name}-join/wire/{client}-cooperative", replace(wire, strategy="cooperative-sticky"), client
    for strategy in ("range", "roundrobin") if java or name == "W4" else ():
        if java:
            yield f"{name}-join/{strategy}", replace(decoded, strategy=strategy), "kafka-python"
        yield f"{name}-join/{strategy}/wire/java", replace(wire, strategy=strategy), "java"


def _large(name: str) -> Iterator[Result]:
    """Sticky and cooperative, decoded and as bytes; range and round robin where suitable."""
    rounds = 1
    call = Call(name, "sticky", "ours", wire=False, limit_s=60.0, budget_s=2.0)
    decoded = _by_turns(call, ["kafka-python"], rounds, {})
    yield _result(f"{name}-join", call, "kafka-python", decoded)
    # An assignor that did not finish without the bytes will not finish with them.
    hopeless = {client: figures[-1] for client, figures in decoded.items() if "error" in figures[-1]}

    call = replace(call, wire=True)
    figures = _by_turns(call, ["kafka-python", "aiokafka", "java", "franz-go"], rounds, hopeless)
    yield _result(f"{name}-join/wire", call, "kafka-python", figures)
    yield from _others(f"{name}-join/wire", call, figures, {"java": "java-sticky", "franz-go": "franz-go-sticky"})
    gave = figures["java"][-1].get("error", "")
    alike = {"java": {"error": _not_asked("java-sticky", gave)}} if "no result" in gave else {}
    call = replace(call, strategy="cooperative-sticky")
    figures = _by_turns(call, ["java", "franz-go"], rounds, alike)
    names = {"java": "java-cooperative", "franz-go": "franz-go-cooperative"}
    yield from _others(f"{name}-join/wire", call, figures, names)
    if name in ("W1", "W4", "W5"):
        for strategy in ("range", "roundrobin"):
            call = replace(call, strategy=strategy, wire=False)
            yield _result(
                f"{name}-join/{strategy}", call, "kafka-python", _by_turns(call, ["kafka-python"], rounds, {})
            )
            call = replace(call, wire=True)
            figures = _by_turns(call, ["java"], rounds, {})
            yield from _others(f"{name}-join/{strategy}/wire", call, figures, {"java": "java"})


def _by_turns(call: Call, peers: Sequence[str], rounds: int, hopeless: Mapping[str, Said]) -> dict[str, list[Said]]:
    """Ours and the peers in turns, each in its own process. A peer without a result is not measured again."""
    raw: dict[str, list[Said]] = {who: [] for who in ("ours", *peers)}
    for who, figures in hopeless.items():
        if who in raw:
            raw[who].append(figures)
    for _ in range(rounds):
        for who, peer_figures in raw.items():
            alike = raw.get(SAME_ALGORITHM.get(who, ""), [{}])[-1:]
            if alike and "no result" in alike[0].get("error", ""):
                peer_figures[:] = [{"error": _not_asked(SAME_ALGORITHM[who], alike[0]["error"])}]
            if not peer_figures or "error" not in peer_figures[-1]:
                peer_figures += measured(replace(call, client=who))
    return raw


def _not_asked(like: str, gave: str) -> str:
    return f"not measured: {like}'s, the same algorithm, returned {gave}"


def _others(name: str, call: Call, figures: Mapping[str, list[Said]], names: Mapping[str, str]) -> Iterator[Result]:
    """A row for each peer except kafka-python; for Java also its first call, in a cold JVM."""
    for client in figures:
        if client not in ("ours", "kafka-python"):
            row = f"{name}/{names.get(client, client)}"
            yield _result(row, call, client, figures)
            if client == "java":
                yield _result(f"{row}/cold", call, client, figures, cold=True)


def _result(name: str, call: Call, client: str, figures: Mapping[str, list[Said]], cold: bool = False) -> Result:
    raw = {"ours": figures["ours"], "peer": figures[client]}
    notes = [f"{who}: {processes[-1]['error']}" for who, processes in raw.items() if "error" in processes[-1]]
    if call.strategy in ("sticky", "cooperative-sticky"):
        notes += _quality({who: processes[0] for who, processes in raw.items() if "moves" in processes[0]})
    peaks = [process["peak_mb"] for process in raw["ours"] if "peak_mb" in process]
    notes += [f"ours: {max(peaks):g} MB at most"] if peaks else []
    value, peer = milliseconds(raw["ours"], cold), milliseconds(raw["peer"], cold)
    unit = "ms wall, first call" if cold else "ms CPU"
    return Result(name, value, unit, PEERS[client, call.strategy], peer, "; ".join(notes), raw)


def _quality(processes: Mapping[str, Said]) -> Iterator[str]:
    if processes:
        yield "moves " + ", ".join(f"{who} {process['moves']}" for who, process in processes.items())
    squares = {who: process["squares"] for who, process in processes.items() if "squares" in process}
    if len(set(squares.values())) > 1:
        yield "balance missed: squared loads " + ", ".join(f"{who} {sum_}" for who, sum_ in squares.items())


def milliseconds(processes: Sequence[Said], cold: bool) -> float | None:
    """Median over the second half of each process's calls (warm), or over the first calls (cold)."""
    if "error" in processes[-1]:
        return None
    times: list[float] = [process["wall_ms"][0] for process in processes]
    if not cold:
        times = [ms for process in processes for ms in process["cpu_ms"][len(process["cpu_ms"]) // 2 :]]
    return statistics.median(times)


def measured(*calls: Call) -> list[Said]:
    """What a process with these calls says, in their order; the error of those that it ends without."""
    command = [sys.executable, "-m", "benchmarks.assign_call", *(call.to_json() for call in calls)]
    limit_s = sum(call.limit_s + call.budget_s for call in calls) + _PREPARE_S
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        printed, why = done.stdout, f"ended with {done.returncode}: {(done.stderr.splitlines() or ['no message'])[-1]}"
    except subprocess.TimeoutExpired as late:
        printed = (late.stdout or b"").decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        why = f"no result in {late.timeout:g} s, with its preparation"
    figures: list[Said] = [json.loads(line) for line in printed.splitlines() if line.endswith("}")]
    return figures + [{"error": why}] * (len(calls) - len(figures))
