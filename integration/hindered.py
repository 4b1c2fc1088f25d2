"""When a member whose connections a proxy hit couldn't know what it had lost. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .history import History

_CALLBACKS = ("revoke_end", "lost_begin", "assigned_begin")
"""What tells a process what it has."""
_NEVER = 1 << 63


@dataclass
class _Hindered:
    """A process whose connections a proxy hits, or has just hit.

    Args:
        since: When its last callback was, or else when the first fault began.
        faults: How many are in force.
        latest: By when it must have noticed once they are over.
        evicted: The coordinator went on without it.
    """

    since: int
    faults: int = 0
    latest: int = _NEVER
    evicted: bool = False


def hindered(history: History, notice_ms: int) -> dict[tuple[str, str, int], list[tuple[int, int]]]:
    """Per process (group, member, incarnation) the times, in monotonic ns, that its network excuses.

    A fault alone excuses nothing: only if the coordinator committed a generation without the member, between the
    ``fault_begin`` (src proxy), or the member's last callback during the fault, and its next callback. That time ends
    with that callback, at the latest `notice_ms` after the last ``fault_end``.

    Cost: O(n) for n events, times the members that are hit at once for generations.
    """
    found: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    hit: dict[tuple[str, str, int], _Hindered] = {}
    for event in history.events:
        if event.kind == "generation_committed" and hit:
            there = {member["client_id"] for member in event.data["members"]}
            for (group, member, _), each in hit.items():
                each.evicted |= group == event.group and member not in there
        if event.group is None or event.member is None:
            continue
        key = event.group, event.member, event.incarnation
        if event.src == "proxy" and event.kind == "fault_begin":
            each = hit.setdefault(key, _Hindered(event.mono_ns))
            each.faults, each.latest = each.faults + 1, _NEVER
        elif event.src == "proxy" and event.kind == "fault_end" and key in hit and hit[key].faults:
            each = hit[key]
            each.faults -= 1
            each.latest = each.latest if each.faults else event.mono_ns + notice_ms * 1_000_000
        elif key in hit and event.kind in _CALLBACKS:
            each = hit.pop(key)
            if each.evicted:
                found.setdefault(key, []).append((each.since, min(each.latest, event.mono_ns)))
            if each.faults:
                hit[key] = _Hindered(event.mono_ns, each.faults)
    for key, each in hit.items():
        if each.evicted:
            found.setdefault(key, []).append((each.since, each.latest))
    return found
