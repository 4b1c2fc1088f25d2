"""Members with early heartbeats: what each of them promises is tested of all, at default heartbeats."""

from __future__ import annotations

import pytest

DEFAULT_HEARTBEAT_MS, SESSION_MS = 3000, 45_000

EARLY = pytest.mark.parametrize(
    ("assignor", "member"),
    [
        ("cooperative-sticky", {}),
        ("kafka-python:cooperative-sticky", {"guarded": True}),
        ("cooperative-sticky", {"client": "bridge"}),
    ],
    ids=["ours", "kafka-python-guarded", "bridge"],
)
"""Assignor, and further arguments of `MemberGroup.start`."""
