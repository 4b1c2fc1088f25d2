"""Who made an output of a member that transforms: a header of the record, and a field of its ``read_back`` event."""

from __future__ import annotations

AUTHOR = "author"
"""The header's name; its value is JSON with group, member, incarnation and transaction."""
