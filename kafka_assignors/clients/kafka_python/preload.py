"""Imports of what only a leader needs, on a thread, so that neither a start nor a join waits for them.

NumPy and the strategies take longer to import than kafka-python itself. A member needs them when it leads a group that
is not `small`. A static member that restarts gets its old assignment at once and leads nothing, so imports before its
join would only prolong the time in which nobody reads its partitions.
"""

from __future__ import annotations

import threading
from importlib import import_module

ANSWER_S = 0.5
"""A join that is answered sooner was no rebalance. One that takes longer waits for other members: time to import."""

_started = threading.Lock()  # taken by the first member of this process, and kept
_settled = threading.Event()


def start(*, racks: bool) -> None:
    """Start the thread, once per process; called before a join. A member with a rack may need SciPy, if it is there."""
    if _started.acquire(blocking=False):
        # Not a daemon: an interpreter that ends during an import of NumPy's extensions can crash.
        threading.Thread(target=_import, args=(racks,), name="kafka-assignors-preload").start()


def settled() -> None:
    """Called with a member's assignment."""
    _settled.set()


def _import(racks: bool) -> None:
    _settled.wait(ANSWER_S)
    import_module("...core.small", __package__)
    import_module("...core.reading", __package__)
    for late in ("numpy.ma", "encodings.utf_16_be"):  # else imported at a first call, while a group waits
        import_module(late)
    if racks:
        import_module("...core.sticky.maxflow", __package__).load()
