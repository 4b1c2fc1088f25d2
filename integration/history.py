"""The events of a run in order, and what is missing from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_assignors.events import Event


@dataclass(frozen=True)
class History:
    """Everything that is known to have happened.

    Args:
        events: In any order; kept by ``mono_ns``, events of one instant by ``src``, then ``seq``.
        facts: What a reader should know and no verdict depends on, such as the torn last line of a killed member.
        problems: Gaps and lines that can't be read. With any of these no verdict is possible: what is missing may be
            the very event that breaks a law.
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
    def load(cls, folder: Path) -> History:
        """Read all ``*.jsonl`` files of a folder.

        A last line without its newline is what a killed writer leaves behind: it is dropped and told as a fact. Any
        other line that can't be read, and any gap in a file's ``seq``, is a problem.

        Raises:
            FileNotFoundError: The folder doesn't exist, or has no such file.

        Cost: O(n log n) time, O(n) memory.
        """
        paths = sorted(folder.glob("*.jsonl"))
        if not paths:
            raise FileNotFoundError(f"no history in {folder}: a run's folder holds *.jsonl files")
        events: list[Event] = []
        facts: list[str] = []
        problems: list[str] = []
        for path in paths:
            _load(path, events, facts, problems)
        return cls(events, facts, problems)


def _load(path: Path, events: list[Event], facts: list[str], problems: list[str]) -> None:
    lines = path.read_bytes().split(b"\n")
    # A whole file ends with a newline, so its last piece is empty.
    torn = lines.pop()
    if torn:
        facts.append(f"{path.name}: dropped a torn last line of {len(torn)} bytes")
    expected = 0
    for number, line in enumerate(lines, start=1):
        try:
            event = Event.from_json(line.decode())
        except ValueError as error:
            problems.append(f"{path.name}:{number}: unreadable: {error}")
            expected += 1
            continue
        if event.seq != expected:
            problems.append(f"{path.name}:{number}: seq {event.seq} where {expected} was due")
        expected = event.seq + 1
        events.append(event)
