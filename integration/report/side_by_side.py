"""The result of a run in one line, and its assignors side by side. Pure; the page and the command show both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kafka_assignors.output import many

from ..checker import Verdict


class Judged(Protocol):
    """What is compared: the played and judged scenario of one group."""

    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def about(self) -> str: ...  # noqa: D102
    @property
    def assignor(self) -> str: ...  # noqa: D102
    @property
    def verdict(self) -> Verdict: ...  # noqa: D102
    @property
    def measures(self) -> Mapping[str, Any]: ...  # noqa: D102


class Row(NamedTuple):
    """One assignor in a scenario."""

    assignor: str
    title: str
    value: bool | None
    downtime_ms: float  # partition·ms without an owner, in steps of the running group without a kill
    stop_ms: float  # the longest of these times
    delays_ms: Mapping[str, float]  # `checker.delays.spread` of the records that were sent during these steps
    killed_ms: float | None  # the longest in steps with a kill, which contain a session timeout; None: no kill
    generations: int  # of these steps and those with a kill, as are the next five; the group's start does not count
    rebalances: int
    moves: int  # partitions that went from one member to another
    least: int | None  # the fewest moves that these rebalances need; None if a step doesn't tell it
    needless: int | None  # needless moves; None if a step doesn't tell them
    returned: int  # needless revokes: partitions that their member gave up and got back
    duplicates: int | None  # records read twice; None: what a process reads was not seen
    planned_duplicates: int | None  # of these, those of steps of the running group without a kill


def row_of(group: Judged) -> Row:
    """The sums of a group's steps."""
    steps: Sequence[Mapping[str, Any]] = group.measures["steps"]
    killed = [step["stop_ms"] for step in steps if step["killed"]]
    planned = [step for step in steps if not (step["killed"] or step["first"])]
    running = [step for step in steps if not step["first"]]
    needed, needless = ([step[name] for step in running] for name in ("least", "needless"))
    again = [step["duplicates"] for step in steps]
    return Row(
        group.assignor,
        group.title,
        group.verdict.value,
        sum(step["downtime_ms"] for step in planned),
        max((step["stop_ms"] for step in planned), default=0.0),
        group.measures["delays_ms"],
        max(killed, default=None),
        sum(step["generations"] for step in running),
        sum(step["rebalances"] for step in running),
        sum(step["moves"] for step in running),
        None if None in needed else sum(needed),
        None if None in needless else sum(needless),
        sum(step["returned"] for step in running),
        None if None in again else sum(again),
        None if None in again else sum(step["duplicates"] for step in planned),
    )


def compared(groups: Sequence[Judged]) -> list[Row]:
    """A row per group that played the same scenario as another one with another assignor."""
    played = [group.about for group in groups if group.about]
    return [row_of(group) for group in groups if played.count(group.about) > 1]


def result_words(groups: Sequence[Judged], verdicts: Sequence[Verdict] = ()) -> list[tuple[bool | None, str]]:
    """The result in a few words each, with whether it is good; None: it is no judgement.

    `verdicts` are of histories without a group.

    >>> result_words([])
    [(None, 'loss not judged'), (None, 'owners not judged')]
    """
    every = [*{id(verdict): verdict for verdict in (*(group.verdict for group in groups), *verdicts)}.values()]
    phrases = [
        _count(
            every, ("C3", "K1", "X1"), "lost", "records lost, doubled, or on another partition, in ", "place", "loss"
        ),
        _count(every, ("O1", "O2"), "double owners", "", "double owner", "owners"),
    ]
    rows = compared(groups)
    if rows:
        least = [row.least for row in rows if row.least is not None]
        lower_bound = f" of at least {min(least)}" if len(least) == len(rows) else ""
        phrases.append((None, f"moves {' / '.join(str(row.moves) for row in rows)}{lower_bound}"))
    return phrases


_REASONS = 5
"""Reasons at the top of a page; all are further below."""


def reasons(groups: Sequence[Judged], records: Verdict | None = None, others: Sequence[str] = ()) -> list[str]:
    """Why verdicts aren't true: first what is broken, then `others`, then what is unknown.

    `records`: the verdict without a group. With several verdicts, a reason begins with the title of its group.
    """
    of_title = {id(group.verdict): (group.title, group.verdict) for group in groups}  # several may share a history
    titled = [*of_title.values(), *([("records", records)] if records is not None else [])]
    named = [(f"{title}: " if len(titled) > 1 else "", verdict) for title, verdict in titled]
    every = [f"{name}{violation.message}" for name, verdict in named for violation in verdict.violations]
    every += others
    every += [f"{name}unknown: {reason}" for name, verdict in named for reason in verdict.unknown]
    more = len(every) - _REASONS
    return [*every[:_REASONS], f"and {more:,} more, below"] if more > 0 else every


def _count(
    verdicts: Sequence[Verdict], laws: Sequence[str], none: str, some: str, noun: str, what: str
) -> tuple[bool | None, str]:
    broken = sum(violation.law in laws for verdict in verdicts for violation in verdict.violations)
    if broken:
        return False, some + many(broken, noun)
    judged = any(verdict.checked.get(law) for verdict in verdicts for law in laws)
    return (True, f"0 {none}") if judged else (None, f"{what} not judged")
