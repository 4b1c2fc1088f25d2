"""How many tests run at a time if nobody says: as many as keep the CPUs busy, as far as memory suffices."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

MOST = 8
"""Of tests with brokers: more would wait for the longest of them."""
NEED_MB = {True: 4000, False: 750}
"""Whether a worker has brokers, members and a Spark session -> the memory that these take together at most."""
_LIMITS = Path("/sys/fs/cgroup")


def workers(brokers: bool, cpus: int | None = None, memory_mb: int | None = None) -> int:
    """Workers for the tests with or without brokers.

    Without a broker, one test per CPU keeps the CPUs busy. Those with one wait for a quarter of their time, so there
    are three for two CPUs. More keep them no busier, and an overloaded machine is late for everything.
    """
    cpus = cpus or _cpus()
    memory_mb = memory_mb or _memory_mb()
    return max(1, min(memory_mb // NEED_MB[brokers], *((cpus + cpus // 2, MOST) if brokers else (cpus,))))


def _cpus() -> int:
    """Of this process, which a container may limit to a part of their time."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _limit("cpu.max").partition(" ")
    return min(usable, max(1, int(quota) // int(period))) if quota.isdigit() and period.isdigit() else usable


def _memory_mb() -> int:
    """What is free for this process, which a container may limit."""
    free, most = psutil.virtual_memory().available, _limit("memory.max")
    return min(free, int(most) if most.isdigit() else free) // 1_000_000


def _limit(name: str) -> str:
    """That of the container, as cgroups of version 2 have it; "" or "max" without one."""
    file = _LIMITS / name
    return file.read_text("ascii").strip() if file.is_file() else ""
