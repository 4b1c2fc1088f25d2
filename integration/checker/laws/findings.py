"""The laws' findings: violations with witnesses, and what could not be judged. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event

MS = 1_000_000
BEAT_MS = 300
"""The harness's heartbeat interval. Laws' limits include it; members with a longer one get the difference on top."""
SHOWN = 5
ON_WIRE = "its process is seen on its connections alone, which do not show "
"""Why a law is not judged of such a process; what is not shown follows."""


@dataclass(frozen=True)
class Violation:
    """A broken law, one sentence that explains the violation, and the events that prove it."""

    law: str
    message: str
    witnesses: tuple[Event, ...]


@dataclass
class Findings:
    """The results of all laws.

    Args:
        checked: law -> how often it was judged; a law with 0 was not shown to hold.
        skipped: law -> reason -> how often it applied and could not be judged.
    """

    violations: list[Violation] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # reasons why something that had to be judged could not be
    checked: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, dict[str, int]] = field(default_factory=dict)

    def judged(self, law: str, times: int = 1) -> None:
        """Count a law as judged."""
        self.checked[law] = self.checked.get(law, 0) + times

    def not_judged(self, law: str, why: str, times: int = 1) -> None:
        """Count a law as skipped for a reason: it applies and cannot be judged."""
        reasons = self.skipped.setdefault(law, {})
        reasons[why] = reasons.get(why, 0) + times

    def broken(self, law: str, message: str, *witnesses: Event | None) -> None:
        """Record a violation."""
        self.violations.append(Violation(law, message, tuple(w for w in witnesses if w is not None)))


def named(tp: TopicPartition) -> str:
    """A topic-partition as text."""
    return f"{tp.topic}-{tp.partition}"


def all_named(tps: Sequence[TopicPartition]) -> str:
    """Topic-partitions as text; a long list is cut after `SHOWN`."""
    more = f" and {len(tps) - SHOWN} more" if len(tps) > SHOWN else ""
    return ", ".join(map(named, tps[:SHOWN])) + more if tps else "nothing"
