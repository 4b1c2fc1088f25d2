"""The events of a run in order, and what is missing from them."""

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
    """Everything that is known to have happened.

    Args:
        events: In any order; kept by ``mono_ns``, events of one instant by ``src``, then ``seq``.
        facts: What a reader should know and no verdict depends on, such as the torn last line of a killed member.
        problems: Gaps, lines that can't be read, files that were cut off or changed. With any of these no verdict is
            possible: what is missing may be the very event that breaks a law.
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

        Args:
            folder: Of one run.
            without: Groups of which nothing is read.

        A last line without its newline is what a killed writer leaves behind: it is dropped and told as a fact. Any
        other line that can't be read, or doesn't fit the schema, and any gap in a file's ``seq``, is a problem. So is a
        file whose ``end`` doesn't fit the lines before it, one without an ``end`` whose writer wasn't killed (as the
        harness saw), the file of a member that is missing while the harness saw the member's end, a folder that isn't
        as its manifest says, and a process whose clocks aren't the others'.

        Raises:
            FileNotFoundError: The folder doesn't exist, or has no such file.

        Cost: O(n log n) time, O(n) memory.
        """
        left_out = tuple(f"{file_stem(group)}." for group in without)
        paths = sorted(path for path in folder.glob("*.jsonl") if not path.name.startswith(left_out))
        if not paths:
            raise FileNotFoundError(f"no history in {folder}: a run's folder holds *.jsonl files")
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
    """Read one file; returns its last event if that isn't its ``end``."""
    lines = path.read_bytes().split(b"\n")
    # A whole file ends with a newline, so its last piece is empty.
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
            problems.append(f"{path.name}:{number}: seq {event.seq} where {expected} was due")
        expected, last = event.seq + 1, event
        if event.kind != "end":  # which is the file's, and nothing that happened
            events.append(event)
    if last is None or last.kind != "end":
        return last
    if hashlib.sha256(b"".join(line + b"\n" for line in lines[:-1])).hexdigest() != last.data.get("sha256"):
        problems.append(f"{path.name}: its lines aren't those that were sealed: the file was changed")
    return None


def _missing(events: Iterable[Event], unsealed: Mapping[str, Event]) -> list[str]:
    """What the harness saw end, held against what the files end with."""
    told, ended, joined = set(), {}, set()
    for event in events:
        process = event.group, event.member, event.incarnation
        if event.src == "member":
            told.add(process)
        elif event.kind == "exit":
            ended[process] = int(event.data["code"])
        elif event.kind == "generation_committed":
            joined |= {(event.group, member["client_id"]) for member in event.data["members"]}
    found = []
    for name, last in unsealed.items():
        killed = ended.get((last.group, last.member, last.incarnation), 0) < 0
        if last.src in _WRITERS and not (last.src == "member" and killed):
            found.append(f"{name}: has no end: the file was cut off, or its writer killed unseen")
    begun = {process[:2] for process in told}
    for process, code in ended.items():
        # One that was killed at once may have told nothing, but not if it came into the group.
        if process not in told and (code >= 0 or process[:2] in joined - begun):
            found.append(f"the history of member {process[1]!r} of group {process[0]!r} is missing")
    return found
