"""Reads the events of a run in order and finds what is missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_assignors.history.events import Event, file_stem

from . import clocks, manifest
from .schema import fault_of


@dataclass(frozen=True)
class History:
    """All recorded events of a run.

    Args:
        events: In any order; kept sorted by ``mono_ns``, then ``src``, then ``seq``.
        facts: Observations that do not affect the verdict, such as the torn last line of a killed member.
        problems: Gaps, unreadable lines, and files that were cut off or changed. Any problem makes the verdict unknown:
            the missing event may be the one that breaks a law.
    """

    events: tuple[Event, ...]
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def __init__(self, events: Iterable[Event], facts: Sequence[str] = (), problems: Sequence[str] = ()) -> None:
        set_ = object.__setattr__
        set_(self, "events", tuple(sorted(events, key=lambda e: (e.mono_ns, e.src, e.seq))))
        set_(self, "facts", tuple(facts))
        set_(self, "problems", tuple(problems))

    @classmethod
    def load(cls, folder: Path, *, without: Collection[str] = ()) -> History:
        """Read all ``*.jsonl`` files of a folder.

        A last line without a newline, which a killed writer leaves, is dropped and recorded as a fact. Problems are:
        any other unreadable or invalid line; a gap in a file's ``seq``; an ``end`` that does not match the lines before
        it; a file without an ``end``, unless the harness saw its writer killed; a missing file of a member whose end
        the harness saw; a folder that does not match its manifest; a process whose clocks differ from the others'.

        Args:
            folder: Folder of one run.
            without: Groups to skip.

        Raises:
            FileNotFoundError: The folder does not exist, or has no ``*.jsonl`` file.

        Cost: O(n log n) time, O(n) memory.
        """
        left_out = tuple(f"{file_stem(group)}." for group in without)
        paths = sorted(path for path in folder.glob("*.jsonl") if not path.name.startswith(left_out))
        if not paths:
            raise FileNotFoundError(f"no history in {folder}: the folder of a run has *.jsonl files")
        facts: list[str] = []
        problems: list[str] = []
        files: dict[str, list[Event]] = {path.name: [] for path in paths}
        unsealed = {
            path.name: last for path in paths if (last := _load(path, files[path.name], facts, problems)) is not None
        }
        files = {name: [event for event in events if event.group not in without] for name, events in files.items()}
        written = [event for events in files.values() for event in events]
        problems += [*manifest.problems(folder, written), *_missing(written, unsealed), *clocks.problems(files)]
        return cls((event for events in clocks.retimed(files).values() for event in events), facts, problems)


_WRITERS = ("member", "harness", "coordlog", "producer", "proxy")


def _load(path: Path, events: list[Event], facts: list[str], problems: list[str]) -> Event | None:
    """Read one file; returns its last event unless that is its ``end``."""
    lines = path.read_bytes().split(b"\n")
    # A complete file ends with a newline, so its last piece is empty.
    torn = lines.pop()
    if torn:
        facts.append(f"{path.name}: dropped a torn last line of {len(torn)} bytes")
    expected, last = 0, None
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line.decode())
            if (fault := fault_of(row)) is not None:
                raise ValueError(fault)
            event = Event.from_row(row)
        except ValueError as error:
            problems.append(f"{path.name}:{number}: unreadable: {error}")
            expected += 1
            continue
        if event.seq != expected:
            problems.append(f"{path.name}:{number}: seq {event.seq} instead of {expected}")
        expected, last = event.seq + 1, event
        if event.kind != "end":  # `end` closes the file; it is not an event of the run
            events.append(event)
    if last is None or last.kind != "end":
        return last
    if hashlib.sha256(b"".join(line + b"\n" for line in lines[:-1])).hexdigest() != last.data.get("sha256"):
        problems.append(f"{path.name}: its lines differ from the sealed ones: the file was changed")
    return None


def _missing(events: Iterable[Event], unsealed: Mapping[str, Event]) -> list[str]:
    """Compare the ends that the harness saw with how the files end."""
    recorded_processes, ended, joined = set(), {}, set()
    for event in events:
        process = event.group, event.member, event.incarnation
        if event.src == "member":
            recorded_processes.add(process)
        elif event.kind == "exit":
            ended[process] = int(event.data["code"])
        elif event.kind == "generation_committed":
            joined |= {(event.group, member["client_id"]) for member in event.data["members"]}
    problems = []
    for name, last in unsealed.items():
        killed = ended.get((last.group, last.member, last.incarnation), 0) < 0
        if last.src in _WRITERS and not (last.src == "member" and killed):
            problems.append(
                f"{name}: has no end event: the file was cut off, or something other than the harness killed its writer"
            )
    begun = {process[:2] for process in recorded_processes}
    for process, code in ended.items():
        # A member killed at once may have written nothing, but not if it joined the group.
        if process not in recorded_processes and (code >= 0 or process[:2] in joined - begun):
            problems.append(f"the history of member {process[1]!r} of group {process[0]!r} is missing")
    return problems
