"""One measured number, and the file of raw results."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from kafka_assignors.errors import KafkaAssignorsError

RESULTS = Path(__file__).parent / "results"


class WrongAnswer(KafkaAssignorsError):
    """The measured code returned a wrong result, so its time is meaningless."""


@dataclass(frozen=True)
class Result:
    """One measured number with its peer.

    Args:
        name: Its name in README.md.
        value: Our result, in `unit`; smaller is better for every unit here. None: no result, see `note`.
        unit: ``ms``, ``ns/key``, …; CPU or wall time, see README.md.
        peer: Name of the peer, measured in turns in the same run; None without a comparison.
        peer_value: The peer's result, in `unit`; None if it has no result, see `note`.
        note: Remarks on the numbers.
        raw: Every measurement; kept in the results file, not printed.
        none: Whether it counts wrong answers: above 0 the benchmark fails.
    """

    name: str
    value: float | None
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    note: str = ""
    raw: dict[str, Any] = field(default_factory=dict)
    none: bool = False

    @property
    def wrong(self) -> str:
        """Why the answer is wrong; empty if it is right."""
        return f"{self.name}: {_short(self.value)} {self.unit}, and 0 is right" if self.none and self.value else ""

    @property
    def ratio(self) -> float | None:
        """peer / ours: above 1, ours is faster."""
        if not self.value or self.peer_value is None:
            return None
        return self.peer_value / self.value

    def row(self) -> dict[str, Any]:
        """The JSON line."""
        row: dict[str, Any] = {
            "name": self.name, "value": _short(self.value), "unit": self.unit, "peer": self.peer,
            "peer_value": _short(self.peer_value), "ratio": _short(self.ratio),
        }  # fmt: skip
        return {**row, "note": self.note} if self.note else row

    def text(self) -> str:
        """One line for people."""
        value = "no result" if self.value is None else f"{_short(self.value)} {self.unit}"
        line = f"{self.name:<28} {value:>18}"
        if self.peer is not None:
            theirs = "no result" if self.peer_value is None else f"{_short(self.peer_value)} {self.unit}"
            line += f"   {self.peer}: {theirs}"
        if self.ratio is not None:
            line += f"   ratio {self.ratio:.3g}"
        return line + (f"   ({self.note})" if self.note else "")


def in_turns(
    ours: Callable[[], float], peer: Callable[[], float], rounds: int
) -> tuple[float, float, dict[str, list[float]]]:
    """Measure both in turns, so a busy phase of the machine affects both; returns medians and all measurements."""
    raw: dict[str, list[float]] = {"ours": [], "peer": []}
    for turn in range(rounds):
        # The order alternates, because the second one may find warm caches or a busier machine.
        order: Sequence[tuple[str, Callable[[], float]]] = [("ours", ours), ("peer", peer)]
        for name, measure in order if turn % 2 == 0 else reversed(order):
            raw[name].append(measure())
    return statistics.median(raw["ours"]), statistics.median(raw["peer"]), raw


class ResultFile:
    """The raw results of one run: a first line about the machine, then a line per result.

    Args:
        name: Name of the benchmark.
        quick: Whether it was the quick form.
    """

    def __init__(self, name: str, quick: bool) -> None:
        RESULTS.mkdir(exist_ok=True)
        form = "quick" if quick else "full"
        self.path = RESULTS / f"{name}-{form}-{datetime.now(timezone.utc):%Y%m%d-%H%M%S}.jsonl"
        self._file: IO[str] = self.path.open("w", encoding="utf-8")
        self.write({"benchmark": name, "form": form, **_machine()})

    @property
    def place(self) -> Path:
        """Its path in the project."""
        return self.path.relative_to(RESULTS.parents[1])

    def add(self, result: Result) -> None:
        """Keep one result with all its measurements."""
        self.write({**result.row(), "raw": result.raw})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def write(self, row: dict[str, Any]) -> None:
        """Add a line."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


def _machine() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"), "commit": commit.stdout.strip() or None,
        "python": sys.version.split()[0], "system": platform.system(), "machine": platform.machine(),
        "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2),
        "versions": {name: version(name) for name in ("kafka-python", "numpy", "scipy")},
    }  # fmt: skip


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")


def cpu_ns(call: Callable[[], object], per: int) -> float:
    """CPU nanoseconds of this thread for one of `per` steps of a call."""
    began = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - began) / per
