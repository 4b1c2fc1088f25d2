"""Where a recording goes: a file of this process, or a topic that the user names; `otel` has OpenTelemetry."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ...errors import ConfigError

MOST_FILE_BYTES = 32 << 20
"""A file that is longer becomes the older one of two, in place of the one before: so at most twice this is kept."""
MOST_LINE_BYTES = 900_000
"""A line that is longer isn't sent to a topic: brokers take records of 1 MiB unless they are told otherwise."""


def host() -> str:
    """The name of this machine, as members of a group are told apart by it."""
    return socket.gethostname()


class FileSink:
    """Appends to ``HOST.PID.jsonl`` in a folder, readable by its user alone; ``HOST.PID.old.jsonl`` has what was
    before.

    Raises:
        ConfigError: `folder` is a file.
    """

    def __init__(self, folder: Path, most_bytes: int = MOST_FILE_BYTES) -> None:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"record: to={str(folder)!r} is a file; name a folder, each process writes a file in it")
        self._folder, self._most = folder, most_bytes
        self._torn = False

    @property
    def path(self) -> Path:
        """The file of this process."""
        return self._folder / f"{self._stem}.jsonl"

    @property
    def _stem(self) -> str:
        return f"{host().replace(os.sep, '-')}.{os.getpid()}"

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines. One that a full disk took a part of is ended before the next one, so that it damages no other.

        The file is opened each time: a process that becomes a daemon closes what it finds open.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            data = b"\n" * self._torn + b"".join(line + b"\n" for line in lines)
            self._torn = True
            while data:
                data = data[os.write(handle, data) :]
            self._torn = False
            long = os.fstat(handle).st_size > self._most
        finally:
            os.close(handle)
        if long:
            self.path.replace(self._folder / f"{self._stem}.old.jsonl")

    def fork(self) -> None:
        """The path has the new process's number already."""
        self._torn = False


class Producer(Protocol):
    """Sends to the topic."""

    def send(self, value: bytes) -> None:
        """Send a record; raises if it can't be."""

    def flush(self) -> None:
        """Wait until the brokers have what was sent; raises if they refuse it or don't answer."""


class TopicSink:
    """Sends each line as a record to a topic. `connect` makes its producer, when there is a first line."""

    def __init__(self, connect: Callable[[], Producer]) -> None:
        self._connect = connect
        self._producer: Producer | None = None

    def write(self, lines: Sequence[bytes]) -> None:
        """Send lines; those that are too long for a record are left out, and a ValueError says so."""
        if self._producer is None:
            self._producer = self._connect()
        short = [line for line in lines if len(line) <= MOST_LINE_BYTES]
        for line in short:
            self._producer.send(line)
        self._producer.flush()
        if len(short) < len(lines):
            raise ValueError(f"{len(lines) - len(short)} events are longer than {MOST_LINE_BYTES:,} bytes")

    def fork(self) -> None:
        """A producer's connections are its parent's."""
        self._producer = None
