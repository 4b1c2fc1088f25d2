"""One folder, one run, one manifest: which files a run wrote, and the SHA-256 of each as the harness saw it whole."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_assignors.history.events import Event, EventWriter

NAME = "manifest.json"
VERSION = 1
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
        known["files"] |= {path.name: _digest(path) for path in sorted(folder.glob("*.jsonl"))}
        _write(folder, known)


def problems(folder: Path, events: Iterable[Event]) -> Iterator[str]:
    """What of a folder isn't as its manifest says."""
    try:
        known = json.loads((folder / NAME).read_text("utf-8"))
        runs, files = list(known["runs"]), dict(known["files"])
        if known["v"] != VERSION:
            yield f"{NAME}: unknown version {known['v']!r}; this reader knows {VERSION}"
            return
    except FileNotFoundError:
        yield f"{NAME} is missing: which files the run wrote isn't known"
        return
    except (ValueError, KeyError, TypeError) as error:
        yield f"{NAME} can't be read: {type(error).__name__}: {error}"
        return
    there = {path.name: path for path in sorted(folder.glob("*.jsonl"))}
    yield from (f"{name}: is missing; the manifest lists it" for name in files if name not in there)
    for name, path in there.items():
        if name not in files:
            yield f"{name}: isn't in the manifest: it came later, or the harness ended before it could seal the run"
        elif _digest(path) != files[name]:
            yield f"{name}: its bytes aren't those that the manifest lists: the file was cut off or changed"
    if len(runs) != 1:
        yield f"{len(runs)} runs wrote into this folder: {', '.join(map(repr, runs)) or 'none'}; each needs its own"
    for run in sorted({event.run for event in events} - set(runs)):
        yield f"events of run {run!r}, which the manifest doesn't list"


def _read(folder: Path) -> dict[str, Any]:
    try:
        known = json.loads((folder / NAME).read_text("utf-8"))
        return {"v": VERSION, "runs": list(known["runs"]), "files": dict(known["files"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"v": VERSION, "runs": [], "files": {}}


def _with_run(known: dict[str, Any], run: str) -> dict[str, Any]:
    return {**known, "runs": [*known["runs"], *([] if run in known["runs"] else [run])]}


def _write(folder: Path, known: Mapping[str, Any]) -> None:
    """At once: whoever reads it meets the old one or the new one."""
    new = folder / f".{NAME}.{os.getpid()}"
    new.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    new.replace(folder / NAME)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
