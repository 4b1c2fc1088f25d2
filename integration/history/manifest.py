"""The manifest of a run's folder: the files that the run wrote, and the SHA-256 of each completed file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from kafka_assignors.history.events import Event

NAME = "manifest.json"
VERSION = 1


def problems(folder: Path, events: Iterable[Event]) -> Iterator[str]:
    """Differences between a folder and its manifest."""
    try:
        manifest = json.loads((folder / NAME).read_text("utf-8"))
        runs, files = list(manifest["runs"]), dict(manifest["files"])
        if manifest["v"] != VERSION:
            yield f"{NAME}: unknown version {manifest['v']!r}; this version reads {VERSION}"
            return
    except FileNotFoundError:
        yield f"{NAME} is missing, so the files of the run are unknown"
        return
    except (ValueError, KeyError, TypeError) as error:
        yield f"{NAME} can't be read: {type(error).__name__}: {error}"
        return
    there = {path.name: path for path in sorted(folder.glob("*.jsonl"))}
    yield from (f"{name}: the manifest lists it, but it is missing" for name in files if name not in there)
    for name, path in there.items():
        if name not in files:
            yield f"{name}: is not in the manifest: it was added later, or the harness ended before it sealed the run"
        elif digest_of(path) != files[name]:
            yield f"{name}: its bytes differ from the manifest: the file was cut off or changed"
    if len(runs) != 1:
        names = ", ".join(map(repr, runs)) or "none"
        yield f"{len(runs)} runs wrote into this folder: {names}; give each its own folder"
    for run in sorted({event.run for event in events} - set(runs)):
        yield f"events of run {run!r}, which the manifest does not list"


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
