"""Who holds what, from what members claim: the newest generation is believed, whatever else is claimed is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .group import Group, Member, TopicPartition
from .order import utf16


@dataclass(frozen=True)
class Claims:
    """The claims of a group, resolved.

    Args:
        owner: topic-partition -> the one member whose claim is the newest and that still subscribes to the topic.
        disputed: topic-partition -> the subscribed members that claim it with the same, newest generation. It counts as
            nobody's, yet any of them may still hold it.
        ghosts: member id -> claims about partitions that do not exist.
        unsubscribed: member id -> claims about topics it does not subscribe to (any more).
        stale: member id -> claims that a newer generation of another member overrules.
    """

    owner: Mapping[TopicPartition, str]
    disputed: Mapping[TopicPartition, tuple[str, ...]]
    ghosts: Mapping[str, tuple[TopicPartition, ...]]
    unsubscribed: Mapping[str, tuple[TopicPartition, ...]]
    stale: Mapping[str, tuple[TopicPartition, ...]]

    def holders(self, partition: TopicPartition) -> tuple[str, ...]:
        """The members that may still hold a partition; none when it is free to give away."""
        owner = self.owner.get(partition)
        return self.disputed.get(partition, ()) if owner is None else (owner,)


def resolve(group: Group) -> Claims:
    """Believe the newest claim of each existing partition; of several equally new ones none.

    A claim about a topic the claimant left overrules older claims too: whoever made those lost the partition since.
    Never raises.

    Cost: O(claims + M log M). Deterministic under any order of members.
    Source: KIP-341, KIP-792; ``AbstractStickyAssignor`` believes any generation per topic, we look at each partition.
    """
    claimants: dict[TopicPartition, list[Member]] = {}  # those of the newest generation
    ghosts: dict[str, list[TopicPartition]] = {}
    unsubscribed: dict[str, list[TopicPartition]] = {}
    stale: dict[str, list[TopicPartition]] = {}
    for member in sorted(group.members, key=lambda m: (-m.generation, utf16(m.member_id))):
        for partition in dict.fromkeys(member.owned):
            if not 0 <= partition.partition < group.partitions.get(partition.topic, 0):
                ghosts.setdefault(member.member_id, []).append(partition)
                continue
            if partition.topic not in member.topics:
                unsubscribed.setdefault(member.member_id, []).append(partition)
            newest = claimants.setdefault(partition, [])
            if not newest or newest[0].generation == member.generation:
                newest.append(member)
            elif partition.topic in member.topics:
                stale.setdefault(member.member_id, []).append(partition)

    owner: dict[TopicPartition, str] = {}
    disputed: dict[TopicPartition, tuple[str, ...]] = {}
    for partition, members in claimants.items():
        holding = tuple(member.member_id for member in members if partition.topic in member.topics)
        if len(members) > 1 and holding:
            disputed[partition] = holding
        elif holding:
            owner[partition] = holding[0]
    return Claims(owner, disputed, _frozen(ghosts), _frozen(unsubscribed), _frozen(stale))


def _frozen(found: Mapping[str, list[TopicPartition]]) -> dict[str, tuple[TopicPartition, ...]]:
    return {member_id: tuple(sorted(partitions)) for member_id, partitions in sorted(found.items())}
