"""Judges a history and returns a verdict. Pure: the same events give the same verdict. The laws are in `laws`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import UnknownName
from kafka_assignors.history import timeline
from kafka_assignors.history.events import INCOMPLETE, Event, bodies
from kafka_assignors.history.timeline import Interval

from ..history import History, uncollected
from .delays import Delays, spread
from .laws import LAWS, NOTHING, Findings, Violation, judge_group, judge_records
from .laws.findings import ON_WIRE, SHOWN, all_named, named
from .ledger import GroupRecord, RunRecord
from .rebalance_costs import costs, gaps, rebalances_of

__all__ = ["LAWS", "Interval", "Verdict", "Violation", "check", "intervals"]

_LONGEST = 200
"""Characters of a client's error that a reason shows."""


@dataclass(frozen=True)
class Verdict:
    """The result of judging a history.

    Args:
        value: True: every law that applies holds. False: a law is broken. None: unknown, because events are missing.
        violations: Each with its witnesses.
        unknown: Reasons why something that had to be judged could not be.
        checked: law -> how often it was judged; a law with 0 was not shown to hold.
        skipped: law -> reason -> how often it applied and could not be judged.
        facts: Observations that do not affect the verdict, such as a torn last line.
        measures: ``steps`` (cost of each step: the fields of `rebalance_costs.Cost`), ``generations`` (per committed
            generation: group, generation, protocol, members), ``rebalances`` (group, and the fields of
            `history.rebalances.Rebalance` as JSON), ``downtime_ms`` and ``overlap_ms``
            (``group/topic-partition`` -> ms), ``longest_gap_ms``, ``zombie_ms`` (the longest time that a member was a
            zombie), ``assign_us`` (longest), ``acked``, ``nacked``, ``delays_ms`` (`delays.spread` of the records that
            were acknowledged during steps of a running group without a kill).
        intervals: Who owned what from when to when, as the members' callbacks tell it.
    """

    value: bool | None
    violations: tuple[Violation, ...]
    unknown: tuple[str, ...]
    checked: Mapping[str, int]
    skipped: Mapping[str, Mapping[str, int]]
    facts: tuple[str, ...]
    measures: Mapping[str, Any]
    intervals: tuple[Interval, ...]

    @property
    def words(self) -> str:
        """How many laws held, were broken, and had nothing to judge."""
        broken = {violation.law for violation in self.violations}
        successes = sum(1 for law, times in self.checked.items() if times and law not in broken)
        idle = len(LAWS) - successes - len(broken)
        part = "by a part of the history " if self.value is None else ""
        failed = f"{part}{len(broken)} {'law is' if len(broken) == 1 else 'laws are'} broken, " if broken else ""
        return f"{failed}{successes} of {len(LAWS)} laws held, {idle} had nothing to judge"

    @property
    def laws(self) -> str:
        """The laws that were judged, and how often."""
        return ", ".join(f"{law} ×{times}" for law, times in self.checked.items() if times) or "none"


@uncollected()
def check(history: History, require: Collection[str] = (), if_shown: Collection[str] = ()) -> Verdict:
    """Judge a history.

    Args:
        history: The events of a run.
        require: Laws that must be judged at least once; otherwise the verdict is unknown.
        if_shown: The same, but for laws of processes whose connections alone are seen and do not show what they need.

    Raises:
        UnknownName: A required law does not exist.

    Returns:
        The verdict. It is unknown if the history has problems, because a missing event may explain everything.
        Otherwise one broken law makes it False, even if other laws could not be judged.

    Cost: O(n log n) for n events and listed topic-partitions, plus the replays (A1).
    """
    known_laws([*require, *if_shown])
    run = RunRecord.of(history)
    findings = Findings(checked=dict.fromkeys(LAWS, 0))
    for record in run.groups.values():
        findings.unknown += [*_unread(record), *_given_up(record)]
        if (record.events["generation"] or record.events["start"]) and not record.generations:
            findings.unknown.append(
                f"group {record.group!r} has no generation from the coordinator log: the group was never created, or "
                "this part of the history is missing"
            )
            continue
        judge_group(record, run, findings)
    judge_records(run, findings)
    if any(record.broker_assigned for record in run.groups.values()):
        for law in LAWS:
            if not findings.checked[law] and law not in findings.skipped:
                findings.not_judged(law, NOTHING[law])
    if not any(findings.checked.values()) and not findings.unknown:
        findings.unknown.append("nothing to judge: the history has no generation and no sent record")
    shown = [law for law in if_shown if not all(why.startswith(ON_WIRE) for why in findings.skipped.get(law, ("",)))]
    for law in dict.fromkeys([*require, *shown]):
        if not findings.checked[law]:
            why = "; ".join(findings.skipped.get(law, ())) or "the history has no event that it judges"
            findings.unknown.append(f"law {law} is required but was not judged: {why}")
    findings.unknown = list(dict.fromkeys(findings.unknown))
    value: bool | None
    if history.problems:
        value = None
    elif findings.violations:
        value = False
    else:
        value = None if findings.unknown else True
    return Verdict(
        value,
        tuple(findings.violations),
        (*history.problems, *findings.unknown),
        findings.checked,
        {law: dict(findings.skipped[law]) for law in LAWS if law in findings.skipped},
        history.facts,
        _measures(run),
        tuple(span.interval for record in run.groups.values() for span in record.spans),
    )


def intervals(history: History) -> list[Interval]:
    """The ownership intervals of a history, as the members' callbacks tell them."""
    return timeline.intervals(history.events)


def known_laws(names: Collection[str]) -> None:
    """Raise `UnknownName`, whose message lists the laws, if one of these names is not a law's id."""
    for name in names:
        if name not in LAWS:
            raise UnknownName("law", name, LAWS)


def _unread(record: GroupRecord) -> list[str]:
    """Why parts of a group's history cannot be judged; each reason once."""
    torn = [g.number for g in record.generations if g.contradicts_itself]
    reasons = dict.fromkeys(event.body.reason for event in record.events.of(bodies.UnreadBody))
    unread = [f"the coordinator log of group {record.group!r} has {reason}" for reason in reasons]
    for name, _ in sorted(set(record.processes.values()) - set(record.starts), key=str):
        unread.append(f"member {name!r} of group {record.group!r} has no start event, so its configuration is unknown")
    if torn:
        unread.append(
            f"in group {record.group!r} raw assignments contradict their decoded form, in generation "
            + ", ".join(map(str, torn))
        )
    if unnamed := sorted(record.reconciliation.unnamed):
        unread.append(f"the history does not have the names of group {record.group!r}'s topics {', '.join(unnamed)}")
    return unread


def _given_up(record: GroupRecord) -> list[str]:
    """Conditions for which the harness waited in vain before the run ended or continued."""
    group = f"group {record.group!r}"
    reasons = []
    for unstable in (event.body for event in record.events.of(bodies.NotStableBody)):
        due = "; ".join(unstable.due[:SHOWN])
        reasons.append(f"{group} was not stable after {unstable.waited_s:g} s; due: {due}")
    for undrained in record.events.of(bodies.NotDrainedBody):
        left = sum(row.end - row.offset for row in undrained.body.left)
        places = all_named([row.tp for row in undrained.body.left])
        refused = "".join(f"; {words}" for words in _refused_at_last(record, undrained))
        reasons.append(f"{group} had {left} records left after {undrained.body.waited_s:g} s, in {places}{refused}")
    for missed in (event.body for event in record.events.of(bodies.NotOverBody)):
        reasons.append(f"the harness waited {missed.waited_s:g} s without success: {missed.awaited}")
    for event in record.events.of(bodies.ErrorBody):
        if event.src == "harness" and event.body.fatal:
            first_line, *_ = event.body.message.splitlines() or [""]
            error = event.body.error
            reasons.append(first_line if error == INCOMPLETE else f"the harness gave up: {error}: {first_line}")
    return reasons


def _refused_at_last(record: GroupRecord, by: Event[bodies.NotDrainedBody]) -> list[str]:
    """Of which partitions with records left a member's last commit was refused, and why: it stays behind as it reads.

    Members that have ended by then don't count.
    """
    left = {row.tp for row in by.body.left}
    ended = {
        (event.member, event.incarnation)
        for kind in (bodies.StopBody, bodies.ExitBody)
        for event in record.events.of(kind)
        if event.mono_ns <= by.mono_ns
    }
    answers = [event for kind in (bodies.CommitOkBody, bodies.CommitFailBody) for event in record.events.of(kind)]
    last: dict[TopicPartition, Event[bodies.CommitBody]] = {}
    for event in sorted(answers, key=lambda e: (e.mono_ns, e.seq)):
        if event.mono_ns <= by.mono_ns and (event.member, event.incarnation) not in ended:
            last |= {row.tp: event for row in event.body.offsets}
    places: dict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
    for tp, event in sorted(last.items()):
        if tp in left and isinstance(event.body, bodies.CommitFailBody):
            places[str(event.member), event.body.error[:_LONGEST]].append(tp)
    return [
        f"the last commit of {member} for {all_named(tps)} was refused{': ' if why else ''}{why}"
        for (member, why), tps in sorted(places.items())[:SHOWN]
    ]


def _measures(run: RunRecord) -> dict[str, Any]:
    downtime: dict[str, float] = defaultdict(float)
    overlap: dict[str, float] = defaultdict(float)
    longest = 0.0
    for record in run.groups.values():
        for gap in gaps(record):
            downtime[f"{record.group}/{named(gap.tp)}"] += gap.ms
            longest = max(longest, gap.ms)
        for interval in (span.interval for span in record.spans):
            if interval.overlap_prev_ms:
                overlap[f"{interval.group}/{interval.topic}-{interval.partition}"] += interval.overlap_prev_ms
    rebalances = {group: rebalances_of(record) for group, record in run.groups.items()}
    steps = [(record, cost) for group, record in run.groups.items() for cost in costs(record, rebalances[group])]
    waits: list[float] = []
    for record in run.groups.values():
        windows = [(c.from_ns, c.until_ns) for of, c in steps if of is record and not (c.first or c.killed)]
        waits += Delays.of(record, run.acked).within(*windows) if windows and run.acks else []
    assigned = [e.body.duration_us for r in run.groups.values() for e in r.events.of(bodies.AssignEndBody)]
    return {
        "steps": [asdict(cost) for _, cost in steps],
        "generations": [row for record in run.groups.values() for row in _generations(record)],
        "rebalances": [
            {"group": group, **rebalance.as_json()} for group, rows in rebalances.items() for rebalance in rows
        ],
        "downtime_ms": dict(downtime),
        "overlap_ms": dict(overlap),
        "longest_gap_ms": longest,
        "zombie_ms": max((s.interval.zombie_ms for r in run.groups.values() for s in r.spans), default=0.0),
        "assign_us": max(assigned, default=0),
        "acked": len(run.acks),
        "nacked": len(run.nacks),
        "delays_ms": spread(waits),
    }


def _generations(record: GroupRecord) -> list[dict[str, Any]]:
    return [
        {
            "group": record.group,
            "generation": generation.number,
            "protocol": generation.protocol,
            "members": len(generation.assigned),
        }
        for generation in record.generations
    ]
