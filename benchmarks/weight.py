"""What a consumer's environment weighs, with and without SciPy: ``python -m benchmarks.weight [--before WHEEL]``.

The wheel of this checkout is installed into empty environments beside kafka-python. Measured are megabytes on disk,
CPU of imports, resident memory of what an idle member imports, and assignments of large groups in new processes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka_assignors.core.reading import replay
from kafka_assignors.core.sticky import GOALS, maxflow

from .assign_call import Call, sent
from .result import Result, ResultFile, cpu_ns
from .workloads import make

ROOT = Path(__file__).parents[1]
RUNS = 10
IDLE_RUNS = 3
IMPORTS = {"kafka_assignors": "import kafka_assignors", "a client": "import kafka_assignors.clients.kafka_python"}
TIMED = "import time; began = time.process_time(); {}; print(1e3 * (time.process_time() - began))"
TOOLS = ("pip", "setuptools", "pkg_resources", "wheel", "_distutils_hack", "distutils-precedence.pth")
IDLE = """
from kafka import KafkaConsumer
from kafka_assignors.clients.kafka_python import CooperativeStickyAssignor, preload
assignor = CooperativeStickyAssignor()
preload.settled()
preload._import({racks})
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmRSS"].split()[0]) / 1024)
"""
LEADS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("sticky", {}) for name in ("W6", "W3", "W4", "W7")},
    **{f"{name}/spread": ("sticky", {"goals": GOALS[2]}) for name in ("W3", "W6")},
}
"""Workload -> strategy and options; W1 and W2, where all members subscribe alike, need no flow."""
TURNS = 1
PARTS = ("flows", "disk", "imports", "idle", "leads")


def environment(folder: Path, *packages: str) -> Path:
    """A new environment with these packages; its Python."""
    python = folder / "bin" / "python"
    for command in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "--quiet", *packages]):
        subprocess.run(list(map(str, command)), check=True)
    return python


def megabytes(python: Path) -> dict[str, float]:
    """Megabytes (2^20) on disk by package, largest first; compiled modules and libraries included."""
    (site,) = (python.parents[1] / "lib").glob("python*/site-packages")
    sizes: dict[str, float] = {}
    for entry in site.iterdir():
        name = entry.name.split("-")[0].partition(".")[0]
        if name in TOOLS or entry.name in TOOLS:
            continue
        files = [entry, *entry.rglob("*")]
        sizes[name] = sizes.get(name, 0) + sum(file.stat().st_blocks * 512 for file in files) / 2**20
    return {name: round(size, 2) for name, size in sorted(sizes.items(), key=lambda item: -item[1])}


def output(python: Path, folder: Path, *arguments: str) -> str:
    """What a new process prints that does not see the checkout."""
    done = subprocess.run([python, *arguments], capture_output=True, text=True, timeout=600, check=True, cwd=folder)
    return done.stdout


def imported(pythons: Mapping[str, Path], folder: Path) -> dict[str, dict[str, list[float]]]:
    """CPU milliseconds of each import, by import and environment, in turns."""
    raw: dict[str, dict[str, list[float]]] = {what: {who: [] for who in pythons} for what in IMPORTS}
    for run in range(RUNS + 1):
        for what, code in IMPORTS.items():
            for who, python in pythons.items():
                took = float(output(python, folder, "-c", TIMED.format(code)))
                if run:  # the first one compiles
                    raw[what][who].append(round(took, 2))
    return raw


def idle(pythons: Mapping[str, Path], folder: Path, racks: bool) -> dict[str, list[float]]:
    """Resident megabytes (2^20) of a process that imported what an idle member does, by environment, in turns."""
    raw: dict[str, list[float]] = {who: [] for who in pythons}
    for _ in range(IDLE_RUNS):
        for who, python in pythons.items():
            raw[who].append(round(float(output(python, folder, "-c", IDLE.format(racks=racks))), 1))
    return raw


def led(python: Path, folder: Path, workload: str, strategy: str, options: dict[str, Any]) -> dict[str, Any]:
    """An assignment from bytes to bytes in a new process: its calls, as `benchmarks.assign_call` tells them."""
    call = Call(workload, strategy, "ours", True, 120, 0.5, options)
    figures: dict[str, Any] = json.loads(output(python, folder, "-m", "benchmarks.assign_call", call.to_json()))
    if "error" in figures:
        raise RuntimeError(figures["error"])
    return figures


def leads(pythons: Mapping[str, Path], folder: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    """`led` of a workload, by environment, in turns."""
    raw: dict[str, list[dict[str, Any]]] = {who: [] for who in pythons}
    strategy, options = LEADS[name]
    for _ in range(TURNS):
        for who, python in pythons.items():
            raw[who].append(led(python, folder, name.partition("/")[0], strategy, options))
    return raw


def graphs(name: str) -> list[tuple[Any, ...]]:
    """The graphs of the maximum flows of one assignment, in this process."""
    strategy, options = LEADS[name]
    made, given = make(name.partition("/")[0]), sent(name.partition("/")[0], strategy, "ours")
    drawn: list[tuple[Any, ...]] = []
    real = maxflow.sent

    def kept(*graph: Any) -> Any:
        drawn.append(graph)
        return real(*graph)

    members = [(member, None, subscription) for member, subscription in given]
    with patch.object(maxflow, "sent", kept):
        replay(strategy, members, made.topics, **options)
    return drawn


def flows(name: str) -> list[dict[str, float]]:
    """Edges, nodes and the CPU milliseconds of each flow by us and by SciPy, the least of three in turns."""
    rows = []
    for graph in graphs(name):
        took: dict[str, list[float]] = {"ours": [], "scipy": []}
        for _ in range(3):
            for who, flow in (("ours", maxflow._by_us), ("scipy", maxflow._by_scipy)):
                took[who].append(cpu_ns(lambda flow=flow, graph=graph: flow(*graph), 1) / 1e6)  # type: ignore[misc]
        best = {who: round(min(ms), 3) for who, ms in took.items()}
        rows.append({"edges": len(graph[0]), "nodes": max(graph[3:]) + 1, **best})
    return rows


def warm(calls: Sequence[dict[str, Any]]) -> float:
    """CPU milliseconds of a call: the median of the later half of each process's calls."""
    return float(statistics.median(ms for call in calls for ms in call["cpu_ms"][len(call["cpu_ms"]) // 2 :]))


def measured_flows(file: ResultFile) -> None:
    """`flows` of every workload, kept and printed."""
    maxflow.load()
    for name in LEADS:
        rows = flows(name)
        ours, scipy = (sum(row[who] for row in rows) for who in ("ours", "scipy"))
        if rows:
            result = Result(f"flows/{name}", ours, "ms CPU", "SciPy", scipy, f"{len(rows)} flows", {"flows": rows})
            file.add(result)
            print(result.text(), flush=True)


def measure(file: ResultFile, folder: Path, before: str | None, parts: Sequence[str]) -> None:
    """The measurements of some parts; every one is kept as a line and printed."""
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", ROOT], check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    packages = {"ours": f"{wheel}[kafka-python]", "with solver": f"{wheel}[kafka-python,solver]"}
    if before:
        packages["before"] = f"{Path(before).resolve()}[kafka-python]"
    pythons = {who: environment(folder / who.replace(" ", "-"), package) for who, package in packages.items()}
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")  # the checkout itself would hide what is installed

    def keep(name: str, unit: str, values: Mapping[str, float], raw: Any) -> None:
        file.add(Result(name, values["ours"], unit, "with the extra solver", values["with solver"], "", raw))
        print(f"{name}: {', '.join(f'{who} {value:.4g}' for who, value in values.items())} {unit}", flush=True)

    if "disk" in parts:
        sizes = {who: megabytes(python) for who, python in pythons.items()}
        keep("disk", "MB", {who: sum(by_package.values()) for who, by_package in sizes.items()}, sizes)
    if "imports" in parts:
        for what, times in imported(pythons, folder).items():
            keep(f"import/{what}", "ms CPU", {who: statistics.median(ms) for who, ms in times.items()}, times)
    if "idle" in parts:
        for what, racks in (("idle", False), ("idle/with a rack", True)):
            megabytes_ = idle(pythons, folder, racks)
            keep(what, "MB", {who: statistics.median(mb) for who, mb in megabytes_.items()}, megabytes_)
    for name in LEADS if "leads" in parts else ():
        by = leads(pythons, folder, name)
        first = {who: statistics.median(call["cpu_ms"][0] for call in calls) for who, calls in by.items()}
        keep(f"lead/{name}/first", "ms CPU", first, by)
        keep(f"lead/{name}", "ms CPU", {who: warm(calls) for who, calls in by.items()}, {})


def main() -> None:
    """Measure, and keep the raw results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", metavar="WHEEL", help="an older wheel, measured beside")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some parts")
    given = parser.parse_args()
    file = ResultFile("weight", quick=False)
    with closing(file), tempfile.TemporaryDirectory() as folder:
        if "flows" in given.only:
            measured_flows(file)
        if {*given.only} != {"flows"}:
            measure(file, Path(folder).resolve(), given.before, given.only)
    print(file.place)


if __name__ == "__main__":
    main()
