"""What a service's processes printed, for a verdict that isn't true: the lines around what broke a law."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from kafka_assignors.history.events import Event, file_stem
from kafka_assignors.output import printable

from ..checker import Verdict
from ..checker.laws.told import time_of

_LINES, _LOGS = 5, 5
"""Lines on each side of a witness, and processes that are shown."""
_LONGEST = 300
_NEAR_BYTES = 64 * 1024
"""More than the shown lines of most logs have; a service may have printed gigabytes."""


def log_lines(folder: Path, verdict: Verdict, groups: Collection[str]) -> Iterator[str]:
    """The lines that processes printed before and after what broke a law: of those that the witnesses name.

    Of a process whose witness isn't its own event, and of all processes if no law is broken, these are the last lines.
    `folder` has the history of the verdict, and the logs; the members of `groups` are processes of a service.
    """
    places = _places(folder, verdict, groups)
    if not places:
        logs = (path for group in sorted(groups) for path in sorted(folder.glob(f"{file_stem(group)}.*.log")))
        places = dict.fromkeys(logs)
    for path, event in list(places.items())[:_LOGS]:
        *_, member, _incarnation, _log = path.name.split(".")
        size = path.stat().st_size
        end = size if event is None or event.log_bytes is None else min(size, event.log_bytes)
        before = _lines(path, max(0, end - _NEAR_BYTES), end)[-2 * _LINES if event is None else -_LINES :]
        after = _lines(path, end, end + _NEAR_BYTES)[:_LINES]
        if not (before or after):
            yield f"{printable(member)} printed nothing to {path}"
        elif event is None:
            yield f"{printable(member)} printed last, to {path}:"
        else:
            yield f"{printable(member)} printed before and after {time_of(event)} (event {event.seq}), to {path}:"
        yield from (f"  {line}" for line in before)
        if event is not None and (before or after):
            yield f"  -- {time_of(event)} --"
        yield from (f"  {line}" for line in after)
    if len(places) > _LOGS:
        yield f"{len(places) - _LOGS} more logs are in {folder}"


def _places(folder: Path, verdict: Verdict, groups: Collection[str]) -> Mapping[Path, Event | None]:
    """Log -> the event beside whose time it is shown: the last witness of the first broken law that has this process.

    None: the process told none of the law's witnesses.
    """
    places: dict[Path, Event | None] = {}
    for violation in verdict.violations:
        own: dict[Path, Event | None] = {}
        for witness in violation.witnesses:
            if witness.member and witness.group in groups:
                path = _log_of(folder, witness)
                if witness.log_bytes is not None:
                    own[path] = witness
                elif path.is_file():
                    own.setdefault(path, None)
        for path, event in own.items():
            if places.get(path) is None:
                places[path] = event
    return {path: event for path, event in places.items() if path.is_file()}


def _log_of(folder: Path, witness: Event) -> Path:
    """The log of a witness's process: it has the number of the first consumer that the process made."""
    stems = (file_stem(witness.group, witness.member, number) for number in range(witness.incarnation, -1, -1))
    paths = [folder / f"{stem}.log" for stem in stems]
    return next((path for path in paths if path.is_file()), paths[0])


def _lines(path: Path, begin: int, end: int) -> list[str]:
    """The lines of a part of a file; blank ones are left out."""
    with path.open("rb") as file:
        file.seek(begin)
        text = file.read(end - begin).decode("utf-8", "replace")
    return [printable(line)[:_LONGEST] for line in text.splitlines() if line.strip()]
