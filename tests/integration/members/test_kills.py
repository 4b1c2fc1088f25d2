"""A member lives until SIGKILL: what it does before that moment isn't done by a dead one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafka_assignors.integration.members.faults import MemberFaults


def test_a_kill_is_recorded_after_the_signal() -> None:
    """A harness that stood still between the two, on a busy machine, made a living member's commits those of a dead."""
    seen: list[str] = []
    process = SimpleNamespace(named=lambda fault: {"fault": fault}, kill=lambda: seen.append("SIGKILL"))
    members: Any = SimpleNamespace(
        get=lambda _: process,
        count_from_here=lambda: None,
        write=lambda kind, **_: seen.append(kind),
        ended=lambda *_: seen.append("exit"),
    )

    MemberFaults(members).kill("m1")

    assert seen == ["SIGKILL", "fault_begin", "exit", "fault_end"]
