"""Deadlines of member processes, and whether a process is gone."""

from __future__ import annotations

from pathlib import Path

import psutil

from kafka_assignors.integration.history import History

DEADLINE_S = 20


GONE_S = 5
"""Nobody lives longer after the end of who started it."""


def gone(pid: int) -> bool:
    """Ended; a zombie that its new parent hasn't reaped yet counts."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def members_of(folder: Path) -> list[int]:
    """Process ids of the members that wrote to a folder."""
    return sorted({e.pid for e in History.load(folder).events if e.src == "member"})
