"""What the laws find: violations with their witnesses, and what couldn't be judged. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event

MS = 1_000_000
SHOWN = 5


@dataclass(frozen=True)
class Violation:
    """A law that was broken.

    Args:
        law: Its id.
        message: One sentence that explains.
        witnesses: The events that prove it.
    """

    law: str
    message: str
    witnesses: tuple[Event, ...]


@dataclass
class Findings:
    """What the laws found.

    Args:
        checked: law -> how often it was judged; a law that was never judged proves nothing.
        skipped: law -> why -> how often it applies and couldn't be judged.
        unknown: Why something couldn't be judged that should have been.
    """

    violations: list[Violation] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, dict[str, int]] = field(default_factory=dict)

    def judged(self, law: str, times: int = 1) -> None:
        """The law was judged."""
        self.checked[law] = self.checked.get(law, 0) + times

    def not_judged(self, law: str, why: str, times: int = 1) -> None:
        """The law applies, and for this reason it can't be judged."""
        reasons = self.skipped.setdefault(law, {})
        reasons[why] = reasons.get(why, 0) + times

    def broken(self, law: str, message: str, *witnesses: Event | None) -> None:
        """The law was broken."""
        self.violations.append(Violation(law, message, tuple(w for w in witnesses if w is not None)))


def named(tp: TopicPartition) -> str:
    """A topic-partition in a sentence."""
    return f"{tp.topic}-{tp.partition}"


def all_named(tps: Sequence[TopicPartition]) -> str:
    """Topic-partitions in a sentence, the first few of many."""
    more = f" and {len(tps) - SHOWN} more" if len(tps) > SHOWN else ""
    return ", ".join(map(named, tps[:SHOWN])) + more if tps else "nothing"
