"""Limits on the data that a leader reads per member: a leader that computes too long sends no heartbeats and is fenced.

Data beyond a limit claims nothing and is reported as a fact. By default a broker stores at most 1,048,588 bytes per
group (``message.max.bytes``), so only groups on brokers with a higher setting can reach these limits.
"""

from __future__ import annotations

SUBSCRIPTION_BYTES = 1 << 23
"""Bytes. A longer subscription is ignored, and its member is assigned nothing."""

TOPICS = 50_000
"""A subscription to more topics, or claims that list more topics, are ignored."""

PARTITIONS = 1 << 20
"""Claims of more partitions of the group's topics are ignored."""

UNKNOWN_PARTITIONS = 100_000
"""If the leader's metadata lack a topic, claims of partition ids above this are ignored."""

UNPACKED_BYTES = 3 << 20
"""Bytes. Claims that decompress to more are ignored; a million partitions in a million runs take 2 MB."""
