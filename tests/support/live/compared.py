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
        untold: Those of a generation that the coordinator committed and replaced before it answered any member, and
            those of the next one: recordings name the first as missing, and tell the causes of both together.
        different: What both tell of the others.
    """

    same: int = 0
    finer: int = 0
    untold: int = 0
    different: list[tuple[tuple[int, ...], list[Shown], list[Shown] | None]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.same + self.finer + self.untold + len(self.different)

    @property
    def agreeing(self) -> float:
        """Share of the log's rebalances, 0 to 1."""
        return (self.same + self.finer) / self.total if self.total else 1.0

    def add(self, other: Agreement) -> None:
        self.same, self.finer, self.untold = (
            self.same + other.same, self.finer + other.finer, self.untold + other.untold
        )  # fmt: skip
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
    """Compare rebalance by rebalance, by the last of their generations; the ends of a group are compared, too."""
    rows: dict[int, list[Rebalance]] = {}
    for rebalance in recorded:
        rows.setdefault(rebalance.generations[-1], []).append(rebalance)
    agreement, unanswered = Agreement(), list[Rebalance]()
    for rebalance in by_log:
        mine = rows.get(rebalance.generations[-1])
        if not mine:
            unanswered.append(rebalance)
            continue
        told, together = mine.pop(0), [*unanswered, rebalance]
        unanswered.clear()
        causes = [cause for each in together for cause in each.causes]
        if any(cause.kind == "first" for cause in causes):
            causes = [cause for cause in causes if cause.kind == "first"]  # all who are there came since
        due, due_finer, answer = shown(causes), shown(causes, left), shown(told.causes)
        numbers = [number for each in together for number in each.generations]
        if told.generations == rebalance.generations and len(together) == 1:
            agreement.same += answer == due
            agreement.finer += due != answer == due_finer
            agrees = answer in (due, due_finer)
        else:
            agrees = answer in (due, due_finer) and _names(told, numbers, begins=told is recorded[0])
            agreement.untold += len(together) if agrees else 0
        if not agrees:
            agreement.different += [(each.generations, shown(each.causes), None) for each in together[:-1]]
            agreement.different.append((rebalance.generations, shown(rebalance.causes), answer))
    agreement.different += [(each.generations, shown(each.causes), None) for each in unanswered]
    return agreement


def _names(told: Rebalance, numbers: Collection[int], *, begins: bool) -> bool:
    """Whether a rebalance has these generations, or says that they are missing: what is before the first is."""
    first, last = told.missing or (0, -1)
    return all(n in told.generations or first <= n <= last or (begins and n < told.generations[0]) for n in numbers)


def counted(agreements: Mapping[str, Agreement]) -> Agreement:
    """All groups together."""
    whole = Agreement()
    for agreement in agreements.values():
        whole.add(agreement)
    return whole
