"""A consumer group as values: members, what they claim, and the partitions to assign."""

from __future__ import annotations

from .values import NO_GENERATION, DictionaryEncoded, Group, Member, Partitions, TopicPartition, identity_of

__all__ = ["NO_GENERATION", "DictionaryEncoded", "Group", "Member", "Partitions", "TopicPartition", "identity_of"]
