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
        elif digest_of(path) != files[name]:
            yield f"{name}: its bytes aren't those that the manifest lists: the file was cut off or changed"
    if len(runs) != 1:
        yield f"{len(runs)} runs wrote into this folder: {', '.join(map(repr, runs)) or 'none'}; each needs its own"
    for run in sorted({event.run for event in events} - set(runs)):
        yield f"events of run {run!r}, which the manifest doesn't list"


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
