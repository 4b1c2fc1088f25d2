"""Changes one fact of a kept history, a field of an event or the event itself, and judges what is then left.

Which facts a law checks, and which are free, stands in ``integration/history/facts.json``. A changed file counts as
sealed again: only the form of the events and the laws can tell.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.history import History, clocks
from kafka_assignors.integration.history.form import fault_in
from kafka_assignors.integration.history.schema import fault_of
from tests.support.damage.first_law import Rules
from tests.support.places import ROOT

TABLE: Mapping[str, Mapping[str, Any]] = json.loads((ROOT / "integration/history/facts.json").read_text("utf-8"))
EVENT = "(event)"
"""The fact that an event happened: it is dropped, doubled, or changes places with the next one of its file."""
Row = dict[str, Any]
Path_ = tuple[str | int, ...]


class Fact(NamedTuple):
    """A kind of event, and a field by its path: ``offsets[].first``, or `EVENT`."""

    kind: str
    field: str


class Place(NamedTuple):
    """Where a fact stands in a kept history."""

    file: str
    line: int
    path: Path_


class Edit(NamedTuple):
    """What is done to a fact."""

    fact: Fact
    place: Place
    how: str


class Changed(NamedTuple):
    """The changed files of a kept history, and the edits that changed something."""

    files: dict[str, list[Row]]
    edits: list[Edit]


class Kept:
    """A kept history, whose lines can be changed one by one.

    The events of unchanged lines are read once, with what laws decode from them.
    """

    def __init__(self, folder: Path) -> None:
        self.files: dict[str, list[Row]] = {}
        self._sealed: dict[str, bool] = {}
        for path in sorted(folder.glob("*.jsonl")):
            rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            self._sealed[path.name] = bool(rows) and rows[-1]["kind"] == "end"
            self.files[path.name] = rows[:-1] if self._sealed[path.name] else rows
        self._events: dict[int, Event] = {}  # id of a row of `files` -> its event
        self._read = {name: _read(rows, {}) for name, rows in self.files.items()}
        for name, (events, faults) in self._read.items():
            assert not faults, f"{name} of a kept history: {faults[0]}"
            self._events |= {id(row): event for row, event in zip(self.files[name], events, strict=True)}
        as_written = {name: list(events) for name, (events, _) in self._read.items()}
        self._retimed = clocks.retimed(as_written) != as_written
        self._rules, self._values = Rules(), dict[Fact, list[Any]]()

    @cached_property
    def facts(self) -> Mapping[Fact, Sequence[Place]]:
        """Each fact, and where it stands."""
        places: dict[Fact, list[Place]] = defaultdict(list)
        for name, rows in self.files.items():
            for line, row in enumerate(rows):
                places[Fact(row["kind"], EVENT)].append(Place(name, line, ()))
                for path in _paths(row):
                    places[Fact(row["kind"], field_of(path))].append(Place(name, line, path))
        return dict(places)

    def verdict(self, changed: Mapping[str, Sequence[Row]] | None = None) -> Verdict:
        """The verdict with other lines in these files."""
        read = {**self._read, **{name: _read(rows, self._events) for name, rows in (changed or {}).items()}}
        files = {name: events for name, (events, _) in read.items()}
        faults = [fault for _, those in read.values() for fault in those]
        unsealed = {name: events[-1] for name, events in files.items() if events and not self._sealed[name]}
        return check(History.of(files, unsealed, problems=faults))

    def notice(self, changed: Changed) -> str | None:
        """What notices a change: ``form``, a law, or ``unknown``; None if the verdict is true all the same.

        A changed history is judged until the first law is broken, first by the laws that noticed the latest changes.
        Where none is, the whole verdict says what it is.
        """
        read = {name: _read(rows, self._events) for name, rows in changed.files.items()}
        if any(faults for _, faults in read.values()):
            return "form"
        if not self._retimed:
            events = [event for its, _ in {**self._read, **read}.values() for event in its]
            if (law := self._rules.first_broken(events, {edit.fact for edit in changed.edits})) is not None:
                return law
        verdict = self.verdict(changed.files)
        if verdict.violations:
            return verdict.violations[0].law
        return None if verdict.value is True else "unknown"

    def edited(self, edits: Iterable[Edit], random: Random) -> Changed:
        """The files after the edits: first of fields, then of events from the last one on, so that each finds its line.

        An edit that finds nothing to change, because another one took it away, does nothing.
        """
        edits = list(edits)
        dropped = {edit.place[:2] for edit in edits if edit.fact.field == EVENT and edit.how == "drop"}
        fields = sorted((edit for edit in edits if edit.fact.field != EVENT), key=lambda edit: len(edit.place.path))
        events = sorted((edit for edit in edits if edit.fact.field == EVENT), key=lambda edit: -edit.place.line)
        changed = Changed({}, [])
        for edit in [*(edit for edit in fields if edit.place[:2] not in dropped), *events]:
            before = changed.files.get(edit.place.file, self.files[edit.place.file])
            rows = list(before)
            with suppress(KeyError, IndexError, TypeError):  # the field is gone
                _apply(rows, edit, random, self._others(edit.fact))
            if rows != before:
                changed.files[edit.place.file] = rows
                changed.edits.append(edit)
        return changed

    def _others(self, fact: Fact) -> Sequence[Any]:
        """Values of this fact in all events."""
        if fact.field == EVENT:
            return ()
        if fact not in self._values:
            self._values[fact] = [_at(self.files[file][line], path) for file, line, path in self.facts[fact]]
        return self._values[fact]


HOWS = {
    EVENT: ("drop", "double", "swap"),
    "int": ("+1", "-1", "huge", "other", "absent"),
    "str": ("else", "other", "absent"),
    "bool": ("flip", "absent"),
    "list": ("shorter", "doubled", "empty", "other", "absent"),
    "dict": ("empty", "other", "absent", "value"),
    "NoneType": ("else", "absent"),
    "float": ("+1", "absent"),
    "time": ("earlier", "later"),
}
"""What can be done to a fact of a type."""
_TIMES = {"ts_ns": 10**9, "mono_ns": 10**9, "adopted_ns": 10**9, "asked_ns": 10**9, "ts_ms": 10**3}
"""Fields that are times -> a second in their unit. They are changed by half a minute."""
_DRAWS = 20
"""How often another value of a fact is drawn before it counts as the only one."""


def _read(rows: Sequence[Row], events_of: Mapping[int, Event]) -> tuple[list[Event], list[str]]:
    """The events of a file, numbered anew, and what the schema says against the others.

    Args:
        events_of: Id of a row -> its event; the events of other rows are read.
    """
    events, faults = [], []
    for seq, row in enumerate(rows):
        if (event := events_of.get(id(row))) is not None:
            events.append(event if event.seq == seq else replace(event, seq=seq))
            continue
        fault = fault_of(numbered := {**row, "seq": seq}) or fault_in(numbered)
        if fault is None:
            events.append(Event.from_row(numbered))
        else:
            faults.append(fault)
    return events, faults


def hows(kept: Kept, fact: Fact, place: Place) -> tuple[str, ...]:
    """What can be done to this fact here."""
    if fact.field == EVENT:
        return HOWS[EVENT]
    kind = type(_at(kept.files[place.file][place.line], place.path)).__name__
    if place.path[-1] in _TIMES:
        kind = "time"
    value = _at(kept.files[place.file][place.line], place.path)
    same = isinstance(place.path[-1], int) or (place.path == ("incarnation",) and value == 0)  # 0 if it is absent
    return tuple(how for how in HOWS[kind] if not (same and how == "absent"))


def entry(fact: Fact) -> Mapping[str, str] | None:
    """What the table says of a fact; None if it has no entry."""
    of_kind = TABLE.get(fact.kind, {}).get(fact.field)
    found_entry: Mapping[str, str] | None = TABLE["*"].get(fact.field) if of_kind is None else of_kind
    return found_entry


def field_of(path: Path_) -> str:
    """A path as the table writes it: elements of a list are ``[]``, names that data choose ``{}``."""
    text = ""
    for part in path:
        text += "[]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _paths(row: Row) -> Iterator[Path_]:
    for name, value in row.items():
        if name not in ("v", "run", "src", "seq", "kind"):
            yield from _below((name,), value)


_BY_NAME = ("topics", "racks", "leaders", "names", "config", "params", "fields", "subscription", "author")
"""Objects whose names are data, or whose contents count as one fact."""


def _below(path: Path_, value: Any) -> Iterator[Path_]:
    if not (isinstance(value, dict) and isinstance(path[-1], int)):  # its fields are facts, and the list is one
        yield path
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _below((*path, index), item)
    elif isinstance(value, dict) and path[-1] not in _BY_NAME:
        for name, item in value.items():
            yield from _below((*path, name), item)
    elif isinstance(value, dict) and path[-1] in ("config", "author", "params"):
        for name in value:
            yield (*path, name)


def _at(row: Any, path: Path_) -> Any:
    for part in path:
        row = row[part]
    return row


def _apply(rows: list[Row], edit: Edit, random: Random, others: Sequence[Any]) -> None:
    line, path = edit.place.line, edit.place.path
    if edit.fact.field == EVENT:
        if edit.how == "drop":
            del rows[line]
        elif edit.how == "double":
            rows.insert(line, rows[line])
        elif line + 1 < len(rows):
            one, other = rows[line], rows[line + 1]
            times = ("ts_ns", "mono_ns")
            rows[line] = {**other, **{name: one[name] for name in times}}
            rows[line + 1] = {**one, **{name: other[name] for name in times}}
        return
    row = copy.deepcopy(rows[line])
    parent = _at(row, path[:-1])
    value = parent[path[-1]]
    if edit.how == "absent":
        del parent[path[-1]]
    else:
        drawn = (random.choice(others) for _ in range(_DRAWS))
        other = next((drawn_value for drawn_value in drawn if drawn_value != value), value)
        parent[path[-1]] = _changed(value, edit.how, other, _TIMES.get(str(path[-1]), 1))
    rows[line] = row


def _changed(value: Any, how: str, other: Any, unit: int) -> Any:
    made = {
        "earlier": lambda: value - 30 * unit, "later": lambda: value + 30 * unit,
        "value": lambda: _with_another_value(value),
        "+1": lambda: value + 1, "-1": lambda: value - 1, "huge": lambda: 1 << 53, "else": lambda: "else",
        "flip": lambda: not value, "shorter": lambda: value[:-1], "doubled": lambda: [*value, *value[-1:]],
        "empty": lambda: type(value)(), "other": lambda: other,
    }  # fmt: skip
    return made[how]()


def _with_another_value(value: dict[str, Any]) -> dict[str, Any]:
    """An object whose first value is another one of its type."""
    if not value:
        return {"else": 1}
    name, first = next(iter(value.items()))
    changed = {int: lambda: first + 1, str: lambda: "else", list: lambda: first[:-1], bool: lambda: not first}
    return {**value, name: changed.get(type(first), lambda: None)()}
