"""The processing of records, as long as a file says: the harness plants slow partitions, also while a group runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Work:
    """Stands for an application's work on records, as long as `file` says; None: no work.

    The file is JSON, ``{"orders-0": 0.01, "*": 0.001}``: seconds per record of a partition, and of all others. It is
    read again when it changes.
    """

    def __init__(self, file: str | None) -> None:
        self._file = None if file is None else Path(file)
        self._changed = -1
        self._seconds: Mapping[str, float] = {}

    def do(self, polled: Mapping[tuple[str, int], Sequence[Any]]) -> None:
        """Work on records."""
        if self._file is None:
            return
        if (changed := self._file.stat().st_mtime_ns) != self._changed:
            self._changed, self._seconds = changed, json.loads(self._file.read_text("utf-8"))
        rest = self._seconds.get("*", 0.0)
        time.sleep(sum(len(records) * self._seconds.get(f"{tp[0]}-{tp[1]}", rest) for tp, records in polled.items()))
