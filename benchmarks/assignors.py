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
        quick: Shorter limits, and no workload of a million partitions.
        only: Workloads, separated by commas; all by default.
    """
    wanted = list(WORKLOADS) if only is None else only.split(",")
    if unknown := [name for name in wanted if name not in WORKLOADS]:
        raise UnknownName("workload", unknown[0], WORKLOADS)
    for name in wanted:
        yield from _small(name, quick) if name in SMALL else _large(name, quick)


def _small(name: str, quick: bool) -> Iterator[Result]:
    """Each strategy in turns with kafka-python's: decoded subscriptions to bytes, and bytes to bytes."""
    for strategy in ("range", "roundrobin", "sticky", "cooperative-sticky"):
        call = Call(name, strategy, "ours", wire=False, limit_s=10.0, budget_s=0.2 if quick else 1.0, encode=True)
        for suffix, each in (("", call), ("/wire", replace(call, wire=True))):
            said = _by_turns(each, ["kafka-python"], 1 if quick else 5, {})
            yield _result(f"{name}-join/{strategy}{suffix}", each, "kafka-python", said)


def _large(name: str, quick: bool) -> Iterator[Result]:
    """Sticky and cooperative, decoded and as bytes; range and round robin where suitable."""
    limit_s, budget_s, rounds = (3.0, 0.3, 1) if quick else (60.0, 2.0, 1)
    if quick and name in ("W2", "W7"):
        return  # a million partitions: creating their objects alone takes a minute
    call = Call(name, "sticky", "ours", wire=False, limit_s=limit_s, budget_s=budget_s)
    everybody = not quick or name in ("W1", "W5")
    decoded = _by_turns(call, ["kafka-python"], rounds, {})
    yield _result(f"{name}-join", call, "kafka-python", decoded)
    # An assignor that did not finish without the bytes will not finish with them.
    hopeless = {client: said[-1] for client, said in decoded.items() if "error" in said[-1]}

    call = replace(call, wire=True)
    said = _by_turns(call, ["kafka-python", *(["aiokafka", "java", "franz-go"] if everybody else [])], rounds, hopeless)
    yield _result(f"{name}-join/wire", call, "kafka-python", said)
    yield from _others(f"{name}-join/wire", call, said, {"java": "java-sticky", "franz-go": "franz-go-sticky"})
    if everybody:
        gave = said["java"][-1].get("error", "")
        alike = {"java": {"error": _not_asked("java-sticky", gave)}} if "no result" in gave else {}
        call = replace(call, strategy="cooperative-sticky")
        said = _by_turns(call, ["java", "franz-go"], rounds, alike)
        names = {"java": "java-cooperative", "franz-go": "franz-go-cooperative"}
        yield from _others(f"{name}-join/wire", call, said, names)
    if name in ("W1", "W4", "W5") and not (quick and name == "W4"):
        for strategy in ("range", "roundrobin"):
            call = replace(call, strategy=strategy, wire=False)
            yield _result(
                f"{name}-join/{strategy}", call, "kafka-python", _by_turns(call, ["kafka-python"], rounds, {})
            )
            if everybody:
                call = replace(call, wire=True)
                said = _by_turns(call, ["java"], rounds, {})
                yield from _others(f"{name}-join/{strategy}/wire", call, said, {"java": "java"})


def _by_turns(call: Call, peers: Sequence[str], rounds: int, hopeless: Mapping[str, Said]) -> dict[str, list[Said]]:
    """Ours and the peers in turns, each in its own process. A peer without a result is not measured again."""
    raw: dict[str, list[Said]] = {who: [] for who in ("ours", *peers)}
    for who, said in hopeless.items():
        if who in raw:
            raw[who].append(said)
    for _ in range(rounds):
        for who, said_ in raw.items():
            alike = raw.get(SAME_ALGORITHM.get(who, ""), [{}])[-1:]
            if alike and "no result" in alike[0].get("error", ""):
                said_[:] = [{"error": _not_asked(SAME_ALGORITHM[who], alike[0]["error"])}]
            if not said_ or "error" not in said_[-1]:
                said_.append(measured(replace(call, client=who)))
    return raw


def _not_asked(like: str, gave: str) -> str:
    return f"not measured: {like}'s, the same algorithm, returned {gave}"


def _others(name: str, call: Call, said: Mapping[str, list[Said]], names: Mapping[str, str]) -> Iterator[Result]:
    """A row for each peer except kafka-python; for Java also its first call, in a cold JVM."""
    for client in said:
        if client not in ("ours", "kafka-python"):
            row = f"{name}/{names.get(client, client)}"
            yield _result(row, call, client, said)
            if client == "java":
                yield _result(f"{row}/cold", call, client, said, cold=True)


def _result(name: str, call: Call, client: str, said: Mapping[str, list[Said]], cold: bool = False) -> Result:
    raw = {"ours": said["ours"], "peer": said[client]}
    notes = [f"{who}: {each[-1]['error']}" for who, each in raw.items() if "error" in each[-1]]
    if call.strategy in ("sticky", "cooperative-sticky"):
        notes += _quality({who: each[0] for who, each in raw.items() if "moves" in each[0]})
    peaks = [each["peak_mb"] for each in raw["ours"] if "peak_mb" in each]
    notes += [f"ours: {max(peaks):g} MB at most"] if peaks else []
    value, peer = milliseconds(raw["ours"], cold), milliseconds(raw["peer"], cold)
    unit = "ms wall, first call" if cold else "ms CPU"
    return Result(name, value, unit, PEERS[client, call.strategy], peer, "; ".join(notes), raw)


def _quality(said: Mapping[str, Said]) -> Iterator[str]:
    if said:
        yield "moves " + ", ".join(f"{who} {each['moves']}" for who, each in said.items())
    squares = {who: each["squares"] for who, each in said.items() if "squares" in each}
    if len(set(squares.values())) > 1:
        yield "balance missed: squared loads " + ", ".join(f"{who} {sum_}" for who, sum_ in squares.items())


def milliseconds(said: Sequence[Said], cold: bool) -> float | None:
    """Median over the second half of each process's calls (warm), or over the first calls (cold)."""
    if "error" in said[-1]:
        return None
    times: list[float] = [each["wall_ms"][0] for each in said]
    if not cold:
        times = [ms for each in said for ms in each["cpu_ms"][len(each["cpu_ms"]) // 2 :]]
    return statistics.median(times)


def measured(call: Call) -> Said:
    """What a process with this call says; its error if it ends without a result."""
    command = [sys.executable, "-m", "benchmarks.assign_call", call.to_json()]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=call.limit_s + call.budget_s + _PREPARE_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        return {"error": f"no result in {late.timeout:g} s, with its preparation"}
    if done.returncode != 0:
        return {"error": f"ended with {done.returncode}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"}
    said: Said = json.loads(done.stdout)
    return said
