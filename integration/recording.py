"""Writes a run's history: files that name their run in the folder's manifest, and seal it when they are closed."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_assignors.history.writer import EventWriter

from .history import manifest

_SEALING = threading.Lock()


class RunFile(EventWriter):
    """A file of the harness in a run's folder: opening it names the run in the manifest, closing it seals that."""

    def __init__(self, path: Path, run: str, src: str, **common: Any) -> None:
        super().__init__(path, run, src, **common)
        self._folder = path.parent
        with _SEALING:
            _write(self._folder, _with_run(_read(self._folder), run))

    def close(self) -> None:
        """Seal and close the file, and then the folder. May be called twice."""
        done = self._file.closed
        super().close()
        if not done:
            seal(self._folder, self._run)


def seal(folder: Path, run: str) -> None:
    """Write down what a run's folder holds now: each file with the SHA-256 of its bytes.

    Called whenever the harness has ended something that wrote into it, so the last call sees every file whole. A file
    that was there before and is gone stays listed. A second run in the same folder is listed too, and refused when
    the folder is judged.
    """
    with _SEALING:
        known = _with_run(_read(folder), run)
        known["files"] |= {path.name: manifest.digest_of(path) for path in sorted(folder.glob("*.jsonl"))}
        _write(folder, known)


def _read(folder: Path) -> dict[str, Any]:
    try:
        known = json.loads((folder / manifest.NAME).read_text("utf-8"))
        return {"v": manifest.VERSION, "runs": list(known["runs"]), "files": dict(known["files"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"v": manifest.VERSION, "runs": [], "files": {}}


def _with_run(known: dict[str, Any], run: str) -> dict[str, Any]:
    return {**known, "runs": [*known["runs"], *([] if run in known["runs"] else [run])]}


def _write(folder: Path, known: Mapping[str, Any]) -> None:
    """At once: whoever reads it meets the old one or the new one."""
    new = folder / f".{manifest.NAME}.{os.getpid()}"
    new.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    new.replace(folder / manifest.NAME)
