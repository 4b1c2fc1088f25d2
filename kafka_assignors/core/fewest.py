"""The fewest changes of owner with which a group is balanced, without an assignment."""

from __future__ import annotations

from .group import Group
from .group.claims import resolve
from .sticky import sticky


def least_moves(group: Group) -> int:
    """The moves of `sticky`'s optimum for a group with members: balanced, then in the owners' racks, then fewest moves.

    Cost: that of `least_changes`.
    """
    return least_changes(group)[0]


def least_changes(group: Group) -> tuple[int, int]:
    """Changes of owner that `sticky`'s optimum makes: partitions that leave a member, and those that no member holds.

    Cost: O(claims + M log M) if all members subscribe alike and none has a rack. Otherwise that of `sticky.changes`, a
    fraction of `plan`'s, which computes an assignment, its target and a proof. The group must have members.
    """
    if (counts := _held_alike(group)) is not None:
        total = sum(max(group.partitions.get(topic, 0), 0) for topic in group.members[0].topics)
        low, above = divmod(total, len(counts))
        over = [many - low for many in counts if many > low]
        return sum(over) - min(above, len(over)), total - sum(counts)
    return sticky.changes(resolve(group))


def _held_alike(group: Group) -> list[int] | None:
    """Existing partitions that each member holds; None if members differ, a member has a rack, or claims collide."""
    topics = group.members[0].topics
    if any(member.topics != topics or member.rack for member in group.members):
        return None
    claimed = [[tp for tp in member.owned if 0 <= tp.partition < group.partitions.get(tp.topic, 0)]
               for member in group.members]  # fmt: skip
    if len({tp for owned in claimed for tp in owned}) < sum(map(len, claimed)):
        return None
    return [sum(tp.topic in topics for tp in owned) for owned in claimed]
