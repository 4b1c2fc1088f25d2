"""What the laws find: violations with their witnesses, and what couldn't be judged. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.events import Event

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
        left_out: (law, why) -> how often it couldn't be judged, as it needs what a member of that client doesn't tell.
        unknown: Why something couldn't be judged that should have been.
    """

    violations: list[Violation] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)

    def judged(self, law: str, times: int = 1) -> None:
        """The law was judged."""
        self.checked[law] = self.checked.get(law, 0) + times

    def not_judged(self, law: str, why: str) -> None:
        """The law applies, but one of its facts can't be had."""
        self.left_out[law, why] = self.left_out.get((law, why), 0) + 1

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
