"""The causes of a group's rebalances by its members' recordings, against those by the coordinator's log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_assignors.history.causes import Cause
from kafka_assignors.history.rebalances import Rebalance

Shown = tuple[str, str, str, str]


@dataclass
class Agreement:
    """How many of the log's rebalances the recordings tell.

    Args:
        same: With the same generations, and the same causes of the same members.
        finer: The same, but that recordings tell that a member left where the log can't tell it from an expiry; and
            it had left.
        different: What both tell of the others.
    """

    same: int = 0
    finer: int = 0
    different: list[tuple[tuple[int, ...], list[Shown], list[Shown] | None]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.same + self.finer + len(self.different)

    @property
    def agreeing(self) -> float:
        """Share of the log's rebalances, 0 to 1."""
        return (self.same + self.finer) / self.total if self.total else 1.0

    def add(self, other: Agreement) -> None:
        self.same, self.finer = self.same + other.same, self.finer + other.finer
        self.different += other.different


def shown(causes: Sequence[Cause], left: Collection[str] = ()) -> list[Shown]:
    """Causes as kind, name, member id and instance id; those of `left` members, that expired or left, have left."""
    return sorted(
        (
            "left" if cause.kind == "left or expired" and cause.member_id in left else cause.kind,
            cause.who, cause.member_id, cause.instance_id,
        )
        for cause in causes
    )  # fmt: skip


def compared(by_log: Sequence[Rebalance], recorded: Sequence[Rebalance], left: Collection[str]) -> Agreement:
    """Compare rebalance by rebalance, by their generations; the ends of a group are compared, too."""
    rows: dict[tuple[int, ...], list[Rebalance]] = {}
    for rebalance in recorded:
        rows.setdefault(rebalance.generations, []).append(rebalance)
    agreement = Agreement()
    for rebalance in by_log:
        mine = rows.get(rebalance.generations)
        told = shown(mine.pop(0).causes) if mine else None
        due = shown(rebalance.causes)
        if told == due:
            agreement.same += 1
        elif told == shown(rebalance.causes, left):
            agreement.finer += 1
        else:
            agreement.different.append((rebalance.generations, due, told))
    return agreement


def counted(agreements: Mapping[str, Agreement]) -> Agreement:
    """All groups together."""
    whole = Agreement()
    for agreement in agreements.values():
        whole.add(agreement)
    return whole
