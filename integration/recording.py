"""Takes a run's folder, writes its history files, lists them in the folder's manifest and seals them on close."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from kafka_assignors.errors import ConfigError
from kafka_assignors.history.writer import EventWriter

from .history import manifest

_SEALING = threading.Lock()


@contextmanager
def run_folder(out: Path | None, *, resumed: bool = False) -> Iterator[Path]:
    """Take the folder of a run: no other run gets it, even if both start at once. A folder left empty is removed.

    Without `out` it is a new one, ``runs/<time>``, with ``-2``, ``-3`` … for further runs of the same second. If
    `resumed`, `out` may have files of earlier runs.

    Raises:
        ConfigError: `out` has files, another run is writing into it, or its path is not UTF-8.
    """
    _require_utf8((Path() if out is None else out).resolve())
    made = out is None or not out.exists()
    if out is None:
        folder = _new_folder(Path("runs") / time.strftime("%Y%m%d-%H%M%S"))
    else:
        out.mkdir(parents=True, exist_ok=True)
        folder = out
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however that ends
        except BlockingIOError:
            raise ConfigError(f"--out {folder}: another run is writing into it; name another folder") from None
        if not resumed and any(folder.iterdir()):
            raise ConfigError(f"--out {folder} is not empty; histories of two runs must not mix")
        yield folder
    finally:
        if made:
            with suppress(OSError):
                folder.rmdir()  # fails unless it is empty
        os.close(handle)


def _require_utf8(folder: Path) -> None:
    """Pages, manifests and messages name the folder in UTF-8, at the end of a run. ConfigError if they can't."""
    try:
        str(folder).encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(folder).decode("utf-8", "backslashreplace")
        raise ConfigError(f"--out {shown}: its name is not UTF-8; name another folder") from None


def _new_folder(wanted: Path) -> Path:
    """A new folder of that name, or with a number behind it."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            break
    return folder


class RunFile(EventWriter):
    """A harness file in a run's folder. Opening it adds the run to the manifest; closing it seals the folder."""

    def __init__(self, path: Path, run: str, src: str, **common: Any) -> None:
        super().__init__(path, run, src, **common)
        self._folder = path.parent
        with _SEALING:
            _write(self._folder, _with_run(_read(self._folder), run))

    def close(self) -> None:
        """Seal and close the file, then seal the folder. May be called twice."""
        done = self._file.closed
        super().close()
        if not done:
            seal(self._folder, self._run)


def seal(folder: Path, run: str) -> None:
    """Record the current contents of a run's folder in its manifest: each file with its SHA-256.

    The harness calls this whenever it has stopped a process that writes into the folder, so the last call sees every
    file complete. A listed file stays listed after it is gone. A second run in the same folder is listed too; judging
    the folder then reports it as a problem.
    """
    with _SEALING:
        listing = _with_run(_read(folder), run)
        listing["files"] |= {path.name: manifest.digest_of(path) for path in sorted(folder.glob("*.jsonl"))}
        _write(folder, listing)


def _read(folder: Path) -> dict[str, Any]:
    try:
        listing = json.loads((folder / manifest.NAME).read_text("utf-8"))
        return {"v": manifest.VERSION, "runs": list(listing["runs"]), "files": dict(listing["files"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"v": manifest.VERSION, "runs": [], "files": {}}


def _with_run(listing: dict[str, Any], run: str) -> dict[str, Any]:
    return {**listing, "runs": [*listing["runs"], *([] if run in listing["runs"] else [run])]}


def _write(folder: Path, listing: Mapping[str, Any]) -> None:
    """Replace the manifest atomically: a reader sees either the old version or the new one."""
    new = folder / f".{manifest.NAME}.{os.getpid()}"
    new.write_text(json.dumps(listing, indent=1) + "\n", "utf-8")
    new.replace(folder / manifest.NAME)
