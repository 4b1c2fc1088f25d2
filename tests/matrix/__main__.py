"""``python -m tests.matrix play`` plays the matrix and keeps each history; a run that is kept is not played again.

``python -m tests.matrix table`` judges every kept history and prints the table of `docs/versions.md`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.jvm import kafka_versions
from tests.matrix.cells import MEMBERS, churn_of, exists
from tests.matrix.kept import SLUGS, Kept, every_kept, judge, keep, table

TOGETHER = 3  # groups on one broker: most of a churn is waiting for sessions to end


def play(kept: Kept, broker: Broker) -> str:
    """Play one cell on a running broker and keep its history; returns what it shows."""
    slug = f"{SLUGS[kept.whose]}-{uuid4().hex[:6]}"
    with tempfile.TemporaryDirectory() as folder:
        ran = run_scenario(
            churn_of(kept.whose, f"orders-{slug}"), broker, Path(folder), "run", group=slug, timeout_s=90
        )
        gave_up = judged(ran).gave_up
        keep(Path(folder), broker.version, kept.path)
    return judge(kept.path).cell + (f" ({gave_up})" if gave_up else "")


def main() -> int:
    """Play, or print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("what", choices=["play", "table"])
    parser.add_argument("--version", action="append", choices=kafka_versions(), help="default: all pinned")
    parser.add_argument("--whose", action="append", choices=list(MEMBERS), help="default: all members")
    parser.add_argument("--runs", type=int, default=1, help="runs per cell")
    parser.add_argument("--minutes", type=float, default=60, help="start no cell later")
    given = parser.parse_args()
    if given.what == "table":
        print(table({kept: judge(kept.path).cell for kept in every_kept()}))
        return 0
    until = time.monotonic() + 60 * given.minutes
    failed = 0
    for version in given.version or kafka_versions():
        cells = [
            Kept(version, whose, run)
            for run in range(given.runs)
            for whose in given.whose or MEMBERS
            if exists(version, whose)
        ]
        due = [kept for kept in cells if not kept.path.exists()]
        if not due or time.monotonic() > until:
            failed += len(due)
            continue
        with start_broker(version=version) as broker, ThreadPoolExecutor(TOGETHER) as pool:

            def one(kept: Kept, broker: Broker = broker) -> str:
                return play(kept, broker) if time.monotonic() < until else "not played"

            for kept, cell in zip(due, pool.map(one, due), strict=True):
                print(f"{kept.version} {kept.whose} run {kept.run}: {cell}", flush=True)
                failed += cell != "true"
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
