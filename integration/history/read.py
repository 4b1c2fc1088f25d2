"""Reads the events of a run in order and finds what is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from kafka_assignors.history.events import Event, file_stem, is_of
from kafka_assignors.history.events.bodies import EndBody, ExitBody, GenerationCommittedBody
from kafka_assignors.history.events.lines import MOST_FILES, Allowance, Unreadable, decoded, lines, opened

from . import clocks, manifest
from .form import fault_in
from .schema import fault_of
from .uncollected import uncollected


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
    @uncollected()
    def load(cls, folder: Path, *, without: Collection[str] = ()) -> History:
        """Read all ``*.jsonl`` files of a folder.

        A last line without a newline, which a killed writer leaves, is dropped and recorded as a fact. Problems are:
        any other unreadable or invalid line; a gap in a file's ``seq``; an ``end`` that does not match the lines before
        it; a file without an ``end``, unless the harness saw its writer killed; a missing file of a member whose end
        the harness saw; a folder that does not match its manifest; a process whose clocks differ from the others'; an
        event that is in two files; whatever is not a file of lines within the bounds of `lines`.

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
        if len(paths) > MOST_FILES:
            return cls((), (), (f"{folder} has {len(paths):,} *.jsonl files; a history has at most {MOST_FILES:,}",))
        allowance = Allowance()
        files = [_load(path, allowance) for path in paths]
        facts = [fact for file in files for fact in file.facts]
        problems = [problem for file in files for problem in file.problems]
        events = {file.name: [event for event in file.events if event.group not in without] for file in files}
        written = [event for its in events.values() for event in its]
        unsealed = {file.name: file.last for file in files if file.last is not None and file.last.kind != "end"}
        problems += manifest.problems(folder, {file.name: file.sha256 for file in files}, written)
        return cls.of(events, unsealed, facts, problems)

    @classmethod
    def of(
        cls,
        files: Mapping[str, Sequence[Event]],
        unsealed: Mapping[str, Event],
        facts: Sequence[str] = (),
        problems: Sequence[str] = (),
    ) -> History:
        """A history of files that were read.

        Args:
            files: File name -> its events, in written order.
            unsealed: Files without an ``end`` -> their last event.
            facts: What was observed when they were read.
            problems: Of the same time; those that the events show are added.
        """
        written = [event for events in files.values() for event in events]
        problems = [*problems, *_missing(written, unsealed), *clocks.problems(files)]
        history = cls((event for events in clocks.retimed(files).values() for event in events), facts, problems)
        return replace(history, problems=(*problems, *_twice(history.events, files)))


_WRITERS = ("member", "harness", "coordlog", "producer", "proxy")


@dataclass
class _File:
    """What was read of one file."""

    name: str
    events: list[Event] = field(default_factory=list)  # without its ``end``
    facts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    last: Event | None = None  # its last readable event, which may be its ``end``
    sha256: str | None = None  # of all its bytes, in hex; None if it was not read to its end


def _load(path: Path, allowance: Allowance) -> _File:
    file = _File(path.name)
    try:
        with opened(path) as opened_file:
            _read(lines(opened_file, allowance), file, allowance)
    except Unreadable as error:
        file.problems.insert(0, f"{path.name}: can't be read: {error}")  # before its bad lines, which are many
    return file


def _read(rows: Iterable[bytes], file: _File, allowance: Allowance) -> None:
    """Read the lines of one file. Raises `Unreadable` if the rest of it is not worth reading."""
    whole, sealed = hashlib.sha256(), ""  # the latter: of the lines before the last ``end``
    expected = 0
    for number, line in enumerate(rows, start=1):
        if not line.endswith(b"\n"):  # the last one: a complete file ends with a newline
            file.facts.append(f"{file.name}: dropped a torn last line of {len(line)} bytes")
            whole.update(line)
            break
        try:
            row = decoded(line[:-1])
            if (fault := fault_of(row) or fault_in(row)) is not None:
                raise ValueError(fault)
            event = Event.from_row(row)
        except ValueError as error:
            file.problems.append(f"{file.name}:{number}: unreadable: {error}")
            expected += 1
            allowance.forgive(number, len(line))
        else:
            if event.seq != expected:
                file.problems.append(f"{file.name}:{number}: seq {event.seq} instead of {expected}")
                allowance.forgive(number, 0)
            expected, file.last = event.seq + 1, event
            if is_of(event, EndBody):  # it closes the file; it is not an event of the run
                sealed = whole.hexdigest()
            else:
                file.events.append(event)
        whole.update(line)
    file.sha256 = whole.hexdigest()
    if file.last is not None and is_of(file.last, EndBody) and sealed != file.last.body.sha256:
        file.problems.append(f"{file.name}: its lines differ from the sealed ones: the file was changed")


def _missing(events: Iterable[Event], unsealed: Mapping[str, Event]) -> list[str]:
    """Compare the ends that the harness saw with how the files end."""
    recorded_processes, ended, joined = set(), {}, set()
    for event in events:
        process = event.group, event.member, event.incarnation
        if event.src == "member":
            recorded_processes.add(process)
        elif is_of(event, ExitBody):
            ended[process] = event.body.code
        elif is_of(event, GenerationCommittedBody):
            joined |= {(event.group, member.client_id) for member in event.body.members}
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


def _twice(events: Iterable[Event], files: Mapping[str, Sequence[Event]]) -> Iterator[str]:
    """The first event, in order of time, that is in two files: one of them is a copy of the other, or of a part."""
    for _, same in groupby(events, key=lambda event: (event.mono_ns, event.src, event.seq)):
        first, *others = same
        if others and len({event.to_json() for event in (first, *others)}) <= len(others):
            names = [
                name
                for name, its in files.items()
                if any(event.ts_ns == first.ts_ns and event.seq == first.seq for event in its)
            ]
            yield f"{' and '.join(names)} have event {first.seq} ({first.kind}) in common: one file is a copy"
            return
