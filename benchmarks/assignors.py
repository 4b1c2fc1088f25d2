"""A leader's assignment, against kafka-python's own assignors."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from .assign_call import Call
from .result import Result
from .workloads import WORKLOADS

PEERS = {
    "sticky": "kafka-python StickyPartitionAssignor",
    "range": "kafka-python RangePartitionAssignor",
    "roundrobin": "kafka-python RoundRobinPartitionAssignor",
}
_NOBODY: Mapping[str, dict[str, Any]] = {}
_PREPARE_S = 120
"""To draw the workload and to make the members' objects, beside the call itself."""


def run(quick: bool) -> Iterator[Result]:
    """W1-join … W7-join with the sticky assignors, decoded and as bytes; range and round robin where they are fit."""
    limit_s, budget_s, rounds = (3.0, 0.3, 1) if quick else (120.0, 3.0, 2)
    for name in _order(quick):
        call = Call(name, "sticky", ours=True, wire=False, limit_s=limit_s, budget_s=budget_s)
        decoded = _compare(f"{name}-join", call, rounds)
        yield decoded
        # Who came to no end without the bytes will not with them.
        hopeless = {who: said[-1] for who, said in decoded.raw.items() if "error" in said[-1]}
        yield _compare(f"{name}-join/wire", replace(call, wire=True), rounds, hopeless)
        if name in ("W1", "W4", "W5") and not (quick and name == "W4"):
            for strategy in ("range", "roundrobin"):
                yield _compare(f"{name}-join/{strategy}", replace(call, strategy=strategy), rounds)


def _order(quick: bool) -> Iterator[str]:
    """The million-partition workloads only in the full form: making their objects alone takes a minute."""
    return (name for name in WORKLOADS if not quick or name not in ("W2", "W7"))


def _compare(name: str, call: Call, rounds: int, hopeless: Mapping[str, dict[str, Any]] = _NOBODY) -> Result:
    """Ours and the peer by turns, a process for each. Who gave no result once is not asked again."""
    raw: dict[str, list[dict[str, Any]]] = {who: [hopeless[who]] if who in hopeless else [] for who in ("ours", "peer")}
    for _ in range(rounds):
        for who, said in raw.items():
            if not said or "error" not in said[-1]:
                said.append(_child(replace(call, ours=who == "ours")))
    value, peer = _median(raw["ours"]), _median(raw["peer"])
    notes = [f"{who}: {said[-1]['error']}" for who, said in raw.items() if "error" in said[-1]]
    moved = {who: said[0]["moves"] for who, said in raw.items() if "moves" in said[0]}
    if call.strategy == "sticky":
        notes.append("moves " + ", ".join(f"{who} {count}" for who, count in moved.items()) if moved else "")
    note = "; ".join(filter(None, notes))
    return Result(name, value, "ms CPU", PEERS[call.strategy], peer, note, raw)


def _median(said: list[dict[str, Any]]) -> float | None:
    if "error" in said[-1]:
        return None
    times: list[float] = [ms for each in said for ms in each["cpu_ms"]]
    return statistics.median(times)


def _child(call: Call) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.assign_call", call.to_json()]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=call.limit_s + call.budget_s + _PREPARE_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        return {"error": f"no result in {late.timeout:g} s, with its preparation"}
    if done.returncode != 0:
        return {"error": f"ended with {done.returncode}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"}
    said: dict[str, Any] = json.loads(done.stdout)
    return said
