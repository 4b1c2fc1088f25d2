"""Write the events of one source to a history's file as they happen."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ..errors import ConfigError
from .events import COMMON, Event


class EventWriter:
    """Write events of one source to a new JSON lines file, from any thread.

    Each line is one unbuffered write, so a killed process tears at most its last line. `close` seals the file with a
    last event, ``end``, with the SHA-256 of all lines before it.

    Args:
        path: The file; created with its folder.
        common: Fields of every line: group, member, incarnation, client, instance_id.

    Raises:
        ConfigError: The file exists.
    """

    def __init__(self, path: Path, run: str, src: str, **common: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file: IO[bytes] = path.open("xb", buffering=0)
        except FileExistsError as error:
            raise ConfigError(f"{path} exists: another run or group wrote it; use a new folder") from error
        self._run, self._src, self._common = run, src, {"pid": os.getpid(), **common}
        self._seq, self._digest = 0, hashlib.sha256()
        self._lock = threading.RLock()  # a test may pause one process while another thread starts the next

    def write(self, kind: str, *, mono_ns: int | None = None, ts_ns: int | None = None, **data: Any) -> Event:
        """Write one event now and return it. Arguments such as group, member or pid override the writer's own."""
        common = {**self._common, **{k: data.pop(k) for k in tuple(data) if k in COMMON}}
        with self._lock:
            event = Event(
                kind=kind, run=self._run, src=self._src, seq=self._seq, data=data,
                ts_ns=time.time_ns() if ts_ns is None else ts_ns,
                mono_ns=time.monotonic_ns() if mono_ns is None else mono_ns, **common,
            )  # fmt: skip
            line = event.to_json().encode() + b"\n"
            self._file.write(line)
            self._digest.update(line)
            self._seq += 1
        return event

    def close(self) -> None:
        """Seal and close the file; writing after that raises ValueError. May be called twice."""
        with self._lock:  # nothing may be written between the digest and the seal
            if not self._file.closed:
                self.write("end", sha256=self._digest.hexdigest())
                self._file.close()

    def abandon(self) -> None:
        """Close the file without a seal, because events are known to be missing. May be called twice."""
        self._file.close()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
