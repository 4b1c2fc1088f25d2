"""The manifest of a run's folder: the files that the run wrote, and the SHA-256 of each completed file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_assignors.history.events import Event
from kafka_assignors.history.events.lines import MOST_FILES, Allowance, Unreadable, decoded, opened, text_of

NAME = "manifest.json"
VERSION = 1
_SHOWN = 5


def problems(folder: Path, digests: Mapping[str, str | None], events: Iterable[Event]) -> Iterator[str]:
    """Differences between the folder of one run and its manifest.

    `digests` has the SHA-256, in hex, of the files that were read, whose events these are; None: a file could not be
    read to its end, which is a problem of its own.
    """
    try:
        runs, files = _listed(decoded(text_of(folder / NAME)))
    except FileNotFoundError:
        yield f"{NAME} is missing, so the files of the run are unknown"
        return
    except ValueError as error:
        yield f"{NAME} can't be read: {error}"
        return
    allowance = Allowance()
    there = {path.name: path for path in sorted(folder.glob("*.jsonl"))}
    yield from (f"{name}: the manifest lists it, but it is missing" for name in files if name not in there)
    for name, path in there.items():
        if name not in files:
            yield f"{name}: is not in the manifest: it was added later, or the harness ended before it sealed the run"
            continue
        try:
            digest = digests[name] if name in digests else digest_of(path, allowance)
        except Unreadable as error:
            yield f"{name}: can't be read: {error}"
            continue
        if digest is not None and digest != files[name]:
            yield f"{name}: its bytes differ from the manifest: the file was cut off or changed"
    if len(runs) != 1:
        names = ", ".join([*map(repr, runs[:_SHOWN]), *(["…"] if len(runs) > _SHOWN else [])]) or "none"
        yield f"{len(runs)} runs wrote into this folder: {names}; give each its own folder"
    for run in sorted({event.run for event in events} - set(runs)):
        yield f"events of run {run!r}, which the manifest does not list"


def _listed(manifest: Any) -> tuple[list[str], dict[str, str]]:
    """The runs and the files (name -> SHA-256) of a manifest. Raises ValueError if it is none that we know."""
    if not isinstance(manifest, dict) or manifest.get("v") != VERSION or isinstance(manifest["v"], (bool, float)):
        version = manifest.get("v") if isinstance(manifest, dict) else None
        raise ValueError(f"unknown version {version!r:.40}; this version reads {VERSION}")
    runs, files = manifest.get("runs"), manifest.get("files")
    if not isinstance(runs, list) or not all(isinstance(run, str) for run in runs):
        raise ValueError("its runs are not a list of names")
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        raise ValueError("its files are not an object with a SHA-256 for each name")
    if len(files) > MOST_FILES:
        raise ValueError(f"it lists {len(files):,} files; a history has at most {MOST_FILES:,}")
    return runs, files


def digest_of(path: Path, allowance: Allowance | None = None) -> str:
    """SHA-256 of a file's bytes, in hex. Raises `Unreadable` if it is no regular file, or longer than is allowed."""
    digest = hashlib.sha256()
    with opened(path) as file:
        while piece := file.read(1 << 20):
            if allowance is not None:
                allowance.take(len(piece))
            digest.update(piece)
    return digest.hexdigest()
