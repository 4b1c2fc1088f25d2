"""The author of a transforming member's output: stored as a record header and in the record's ``read_back`` event."""

from __future__ import annotations

AUTHOR = "author"
"""Name of the header; its value is JSON with group, member, incarnation and transaction."""
