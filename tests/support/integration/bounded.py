"""``python -m tests.support.integration.bounded COMMAND…``: our command with little time and memory.

What its packages take is not counted: a process that was forked has those of all tests, one that was started its own.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

# Loaded before the limits are set: they are of what the command does.
import kafka_assignors.integration.checker
import kafka_assignors.integration.history
import kafka_assignors.integration.report.report  # noqa: F401
from kafka_assignors.__main__ import main

MEMORY_MB, CPU_S = 350, 5
"""On top of the packages, which take less than 150 MB."""


def _limit() -> None:
    pages, _ = Path("/proc/self/statm").read_text().split(maxsplit=1)
    for what, most in (
        (resource.RLIMIT_AS, int(pages) * resource.getpagesize() + (MEMORY_MB << 20)),
        (resource.RLIMIT_CPU, int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + 1 + CPU_S),
    ):
        resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    _limit()
    sys.exit(main())
