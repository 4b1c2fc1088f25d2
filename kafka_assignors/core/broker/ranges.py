"""The broker's ``range`` assignor: each topic in contiguous ranges, static members first.

Source: ``org.apache.kafka.coordinator.group.assignor.RangeAssignor`` of apache/kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..group import Group, Member
from ..group.assignment import Assignment


def assign(group: Group, order: Sequence[Member]) -> Assignment:
    """Give each topic's subscribers one range each, the longer ranges first; what members hold does not matter.

    `order` has the members by rank: static ones by instance id, then dynamic ones by member id (`static_first`).

    Cost: O(P + M * T).
    """
    assignment: Assignment = {member.member_id: {} for member in order}
    for topic, count in group.partitions.items():
        readers = [member.member_id for member in order if topic in member.topics]
        if not readers:
            continue
        share, longer = divmod(count, len(readers))
        first = 0
        for i, reader in enumerate(readers):
            beyond = first + share + (i < longer)
            if beyond > first:
                assignment[reader][topic] = list(range(first, beyond))
            first = beyond
    return assignment
