"""The first law that a history breaks, for histories that are changed thousands of times: no other one is judged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from functools import partial

from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import laws
from kafka_assignors.integration.checker.laws import Findings, exactly_once, finished, records
from kafka_assignors.integration.checker.laws.witnesses import outputs, places, processes
from kafka_assignors.integration.checker.ledger import GroupRecord, RunRecord
from kafka_assignors.integration.checker.transitions import Transition, transitions
from kafka_assignors.integration.history import History

_OF_RUNS = (
    records.placement,
    records.in_order,
    processes.topics_change_when_asked,
    places.one_place_each,
    places.nothing_from_nowhere,
    places.ends_are_ends,
    places.read_in_order,
)
_OF_READING = (records.contiguous, records.nothing_lost)
_WITH_RUN = (
    finished.commits_what_is_finished,
    exactly_once.one_output_each,
    exactly_once.no_zombies,
    exactly_once.outputs_in_order,
    outputs.outputs_of_committed_inputs,
)
"""What is missing here is judged with the whole history (`Kept.notice`): that takes longer, and changes no answer."""


class BrokenLaw(Exception):
    """The first law that a changed history breaks."""


class FirstFinding(Findings):
    """Findings that end with the first broken law."""

    def broken(self, law: str, message: str, *witnesses: Event | None) -> None:
        """Raises BrokenLaw."""
        raise BrokenLaw(law)


class Rules:
    """The laws in pieces. The piece that noticed the last change of a fact is asked first, then by their latest use."""

    def __init__(self) -> None:
        self._order: list[str] = []
        self._last: dict[Hashable, str] = {}

    def first_broken(self, events: Iterable[Event], facts: Collection[Hashable]) -> str | None:
        """A law that these events break; None if no piece finds one, or a group has nothing to judge.

        Args:
            facts: What was changed.
        """
        run = RunRecord.of(History(events))
        if any(not record.generations for record in run.groups.values()):
            return None
        pieces = _pieces(run)
        self._order += sorted(pieces.keys() - set(self._order))
        likely = [self._last[fact] for fact in facts if fact in self._last]
        for name in dict.fromkeys([*likely, *self._order]):
            if (piece := pieces.get(name)) is not None and (law := _broken_by(piece)) is not None:
                self._order.remove(name)
                self._order.insert(0, name)
                self._last |= dict.fromkeys(facts, name)
                return law
        return None


def _broken_by(piece: Callable[[Findings], None]) -> str | None:
    findings = FirstFinding()
    try:
        piece(findings)
    except BrokenLaw as law:
        return str(law)
    return findings.violations[0].law if findings.violations else None  # of the best of several trials


def _pieces(run: RunRecord) -> dict[str, Callable[[Findings], None]]:
    pieces: dict[str, Callable[[Findings], None]] = {law.__name__: partial(law, run) for law in _OF_RUNS}
    for group, record in run.groups.items():
        pieces |= {f"{group}: {law.__name__}": partial(law, record) for law in laws._OF_GROUPS}
        pieces |= {f"{group}: {law.__name__}": partial(law, record, run) for law in _WITH_RUN}
        pieces |= {f"{group}: {law.__name__}": partial(_of_changes, law, record) for law in laws._OF_CHANGES}
        pieces |= {f"{group}: {law.__name__}": partial(_of_reading, law, record, run) for law in _OF_READING}
    return pieces


def _of_changes(law: Callable[[Transition, Findings], None], record: GroupRecord, findings: Findings) -> None:
    for transition in transitions(record):
        law(transition, findings)


def _of_reading(law: Callable[..., None], record: GroupRecord, run: RunRecord, findings: Findings) -> None:
    law(record, records.runs_of_spans(record), run.acks, findings)
