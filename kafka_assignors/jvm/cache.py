"""The cache folder, and locks for processes that share it."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import JarError

ENV = "KAFKA_ASSIGNORS_CACHE"


def cache_folder() -> Path:
    """The folder for jars and other downloads; may not exist yet.

    `KAFKA_ASSIGNORS_CACHE` if set, else ``<sys.prefix>/cache`` in a virtual environment, else the user's.
    """
    if named := os.environ.get(ENV):
        return Path(named).expanduser().resolve()
    if sys.prefix != sys.base_prefix:
        return Path(sys.prefix) / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kafka-assignors"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-assignors"


@contextmanager
def one_at_a_time(path: Path, timeout_s: float = 900) -> Iterator[None]:
    """Lock `path` until its holder ends in any way; JarError if another holds it for `timeout_s` seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + timeout_s
    notice_shown = False
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise JarError(
                        f"another process has been filling {path.parent} for {timeout_s:.0f} s (it holds {path}); "
                        f"stop it, or set {ENV} to another folder"
                    ) from None
                if not notice_shown:
                    print(f"waiting for another process that is filling {path.parent}", file=sys.stderr)
                    notice_shown = True
                time.sleep(0.1)
        yield


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a text file atomically: a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text)
    part.chmod(mode)
    part.replace(path)
