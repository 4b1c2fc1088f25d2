"""Takes events on a client's threads, and writes them on a thread of its own: bounded, and without a wait."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...output import printable
from ..fact_log import log

MOST_WAITING = 1_000
"""Events that may wait to be written; further ones are dropped, and their number is recorded."""
MOST_WAITING_BYTES = 16 << 20
"""Bytes of subscriptions and assignments in them."""
END_S = 1.0
"""How long the end of a process waits for its last events."""

Fields = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
"""An event's fields; or what makes them, called where the event is written."""


class Sink(Protocol):
    """Where events go. Its methods are called on the sender's thread."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Write lines of JSON, each without its newline; raises if they can't be written."""

    def fork(self) -> None:
        """This is a new process, which must not write where the old one does."""


@dataclass(frozen=True)
class _Noted:
    ts_ns: int
    mono_ns: int
    kind: str
    common: Mapping[str, Any]
    fields: Fields
    size: int


class EventSender:
    """Writes events in their order. None of its methods raises, or waits for the sink, but for `flush`.

    What the sink can't write is lost. That is logged once, and again if it fails after it has worked.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._renew()
        this = weakref.WeakMethod(self._fork)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: (call := this()) is not None and call())
        atexit.register(_flush_at_exit, weakref.ref(self))

    def _renew(self) -> None:
        self._lock, self._wake, self._idle = threading.Lock(), threading.Event(), threading.Event()
        self._waiting: deque[_Noted] = deque()
        self._bytes = self._dropped = self._seq = 0
        self._thread: threading.Thread | None = None
        self._run = secrets.token_hex(6)
        self._failing = False

    def _fork(self) -> None:
        """A child has no thread of its parent's, and its parent writes what waits."""
        self._renew()
        self._sink.fork()

    def put(self, kind: str, common: Mapping[str, Any], fields: Fields, size: int = 0) -> None:
        """Take an event that happens now. `size`: about how many bytes it keeps in memory, if many."""
        noted = _Noted(time.time_ns(), time.monotonic_ns(), kind, common, fields, size)
        with self._lock:
            if len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_WAITING_BYTES:
                self._dropped += 1
                return
            self._waiting.append(noted)
            self._bytes += size
            self._idle.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_on, name="kafka-assignors record", daemon=True)
                self._thread.start()
        self._wake.set()

    def flush(self, timeout_s: float = END_S) -> bool:
        """Wait until all events so far are written, or could not be; whether that was in time."""
        with self._lock:
            if self._thread is None:
                return True
        return self._idle.wait(timeout_s)

    def _write_on(self) -> None:
        while self._wake.wait():
            self._wake.clear()
            with self._lock:
                events, self._waiting = self._waiting, deque()
                dropped, self._dropped, self._bytes = self._dropped, 0, 0
            try:
                self._sink.write(self._lines(events, dropped))
                self._failing = False
            except Exception as error:
                self._fail(error)
            with self._lock:
                if not self._waiting:
                    self._idle.set()

    def _fail(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            text = printable(str(error)) or type(error).__name__
            log.warning("record: events of this process are lost, its consumers go on: %s", text)

    def _lines(self, noted: Sequence[_Noted] | deque[_Noted], dropped: int) -> list[bytes]:
        from ...history.events import INCOMPLETE, Event  # takes a while to import, so not on a client's thread

        def line(entry: _Noted) -> bytes:
            fields = entry.fields() if callable(entry.fields) else entry.fields
            event = Event(
                kind=entry.kind, run=self._run, src="member", seq=self._seq, ts_ns=entry.ts_ns,
                mono_ns=entry.mono_ns, pid=os.getpid(), data=fields, **entry.common,
            )  # fmt: skip
            self._seq += 1
            return event.to_json().encode("utf-8", "backslashreplace")

        lines = [line(entry) for entry in noted]
        if dropped and noted:
            self._seq += dropped
            message = f"{dropped} events before this one were dropped: they came faster than they could be written"
            fields = {"error": INCOMPLETE, "message": message}
            lines.append(line(_Noted(time.time_ns(), time.monotonic_ns(), "error", noted[-1].common, fields, 0)))
        return lines


def _flush_at_exit(sender: weakref.ref[EventSender]) -> None:
    if (there := sender()) is not None:
        there.flush()
