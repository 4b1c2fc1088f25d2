"""Members with early heartbeats: what each of them promises is tested of all, at default heartbeats."""

from __future__ import annotations

import pytest

DEFAULT_HEARTBEAT_MS, SESSION_MS = 3000, 45_000


def early(*marks: pytest.MarkDecorator) -> pytest.MarkDecorator:
    """Parametrize a test by assignor and further arguments of `MemberGroup.start`; marks of all but the first."""
    return pytest.mark.parametrize(
        ("assignor", "member"),
        [
            pytest.param("cooperative-sticky", {}, id="ours"),
            pytest.param("kafka-python:cooperative-sticky", {"guarded": True}, id="kafka-python-guarded", marks=marks),
            pytest.param("cooperative-sticky", {"client": "bridge"}, id="bridge", marks=marks),
        ],
    )
