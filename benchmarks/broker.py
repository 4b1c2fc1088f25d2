"""Start-up time of brokers."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.broker.cluster import Cluster, start_cluster
from kafka_assignors.jvm.cache import ENV as CACHE_ENV

from .result import Result

_COLD_LIMIT_S = 600
_COLD = "from kafka_assignors.integration.broker import start_broker; start_broker('jvm').close()"


def run(quick: bool) -> Iterator[Result]:
    """Wall seconds until brokers respond to clients, with their CPU time and memory at that moment. No peer.

    ``-1`` is one broker, ``-3`` three nodes in one JVM, ``-3-jvms`` one JVM per node; ``restart-1`` stops and starts
    one of three in one JVM, ``restart-killed`` starts a killed broker again, whose session must end first.
    ``cold-start`` downloads all jars into an empty cache, so it is not part of the quick form.
    """
    rounds = 2 if quick else 5
    # from here on, jars, formatted storage and class data exist (warm)
    start_broker("jvm").close()
    yield from _warm_start("warm-start-1", start_broker, rounds)
    yield from _warm_start("warm-start-3", lambda: start_cluster(backend="shared"), rounds)
    if not quick:
        yield from _warm_start("warm-start-3-jvms", start_cluster, rounds)
    yield _restart(rounds)
    yield _restart_killed(rounds)
    if not quick:
        yield _timed("cold-start", _cold_start, 1)


def _warm_start(name: str, start: Callable[[], Broker | Cluster], rounds: int) -> Iterator[Result]:
    figures: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        began = time.perf_counter()
        with start() as started:
            wall = time.perf_counter() - began
            processes = [psutil.Process(pid) for pid in started.pids()]
            used = sum(sum(process.cpu_times()[:2]) for process in processes)
            figures.append((wall, used, sum(process.memory_info().rss for process in processes) / 1e6))
    for suffix, unit, values in zip(("", "-cpu", "-memory"), ("s", "s", "MB"), zip(*figures, strict=True), strict=True):
        yield Result(f"{name}{suffix}", statistics.median(values), unit, raw={"rounds": list(values)})


def _restart(rounds: int) -> Result:
    with start_cluster(backend="shared") as cluster:

        def restart() -> float:
            began = time.perf_counter()
            cluster.nodes[0].restart()
            return time.perf_counter() - began

        restart()  # the first restart loads classes that only a restart needs
        return _timed("restart-1", restart, rounds)


def _restart_killed(rounds: int) -> Result:
    with start_broker("jvm") as broker:

        def restart() -> float:
            broker.kill()
            began = time.perf_counter()
            broker.restart()
            return time.perf_counter() - began

        return _timed("restart-killed", restart, rounds)


def _cold_start() -> float:
    """Start a broker in a new process with an empty cache: fetch and verify jars, format storage."""
    with tempfile.TemporaryDirectory() as cache:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", _COLD], env={**os.environ, CACHE_ENV: cache}, timeout=_COLD_LIMIT_S, check=True,
            cwd=Path(__file__).parents[1], stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return time.perf_counter() - began


def _timed(name: str, measure: Callable[[], float], rounds: int) -> Result:
    seconds = [measure() for _ in range(rounds)]
    return Result(name, statistics.median(seconds), "s", raw={"seconds": seconds})
