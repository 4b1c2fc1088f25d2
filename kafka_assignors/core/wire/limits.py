"""How much of what one member sends its leader reads: a leader that computes sends no heartbeats, and loses its group.

What is beyond a limit claims nothing, and is told as a fact. A broker stores 1,048,588 bytes for a whole group by
default (``message.max.bytes``), so that only groups of brokers with another setting can come near.
"""

from __future__ import annotations

SUBSCRIPTION_BYTES = 1 << 23
"""A longer subscription is not read; its member is assigned nothing."""

TOPICS = 50_000
"""A subscription to more topics is not read; claims that list more topics are not read."""

PARTITIONS = 1 << 20
"""Claims of more partitions of the group's topics are not read."""

UNKNOWN_PARTITIONS = 100_000
"""Of a topic that the leader's metadata do not have, claims of larger partition ids are not believed."""

UNPACKED_BYTES = 3 << 20
"""Claims that were compressed and take more are not read; a million partitions, each a run of its own, take 2 MB."""
