"""How long one waits for a broker."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from integration.broker import start_broker
from kafka_assignors.jvm.cache import ENV as CACHE_ENV

from .result import Result

_COLD_LIMIT_S = 600
_COLD = "from integration.broker import start_broker; start_broker('jvm').close()"


def run(quick: bool) -> Iterator[Result]:
    """Wall seconds until it answers clients; nothing to compare with.

    ``cold-start`` downloads all jars into an empty cache, so it is not part of the quick form.
    """
    rounds = 2 if quick else 5
    start_broker("jvm").close()  # jars and formatted storage are there from here on: that is what warm means
    yield _timed("warm-start-1", _warm_start, rounds)
    yield _restart(rounds)
    if not quick:
        yield _timed("cold-start", _cold_start, 1)


def _warm_start() -> float:
    began = time.perf_counter()
    with start_broker("jvm"):
        return time.perf_counter() - began


def _restart(rounds: int) -> Result:
    with start_broker("jvm") as broker:

        def restart() -> float:
            broker.kill()
            began = time.perf_counter()
            broker.restart()
            return time.perf_counter() - began

        return _timed("restart-1", restart, rounds)


def _cold_start() -> float:
    """A process of its own with an empty cache: jars are fetched, verified, storage is formatted."""
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
