"""When a member couldn't know what it had lost: what `zombie_ms` measures. What of that is excused: `laws.excuses`."""

from __future__ import annotations

from dataclasses import dataclass

from ..history import History

ZOMBIE_MS = 5000
"""A resumed member must notice within this time what it has lost; after that an overlap is its fault."""

FENCED_MS = 1000
"""Beside two heartbeats: how long a static member may not know that another has its instance id."""

MemberKey = tuple[str, str, int]
"""group, member name, incarnation: one process."""

_MS = 1_000_000
_STANDS_STILL = ("pause", "stall", "assign_stall")
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


def zombies(history: History) -> dict[MemberKey, list[tuple[int, int]]]:
    """Per process the times, in monotonic ns, in which it couldn't know what it had lost:

    1. It is paused, doesn't poll or stands still in its assign: from its ``fault_begin`` (fault = pause, stall,
       assign_stall) to its first ``revoke_end``, ``lost_begin`` or ``assigned_begin`` after the ``fault_end``,
       `ZOMBIE_MS` later at most.
    2. It is static and runs, and another is started under its instance id: from the first ``generation`` of that one to
       its own first such callback after that, two heartbeats and `FENCED_MS` later at most.
    3. A proxy hits its connections, and the coordinator commits a generation without it between the ``fault_begin``
       (src proxy), or its last callback during the fault, and its next callback: from there to that callback,
       `ZOMBIE_MS` after the last ``fault_end`` at most. A fault alone makes no zombie.

    Cost: O(n) for n events, times the members that are hit at once for generations.
    """
    found = _still_or_fenced(history)
    for key, windows in _cut_off(history).items():
        found.setdefault(key, []).extend(windows)
    return found


def _cut_off(history: History) -> dict[MemberKey, list[tuple[int, int]]]:
    found: dict[MemberKey, list[tuple[int, int]]] = {}
    hit: dict[MemberKey, _Hindered] = {}
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
            each.latest = each.latest if each.faults else event.mono_ns + ZOMBIE_MS * _MS
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


def _still_or_fenced(history: History) -> dict[MemberKey, list[tuple[int, int]]]:
    found: dict[MemberKey, list[tuple[int, int]]] = {}
    paused: dict[MemberKey, int] = {}
    resumed: dict[MemberKey, tuple[int, int]] = {}
    instances: dict[tuple[str, str], list[tuple[MemberKey, int]]] = {}  # processes in the order of their starts
    fenced: set[MemberKey] = set()
    for event in history.events:
        if event.group is None or event.member is None:
            continue
        key = event.group, event.member, event.incarnation
        if event.data.get("fault") in _STANDS_STILL and event.kind == "fault_begin":
            paused[key] = event.mono_ns
        elif event.data.get("fault") in _STANDS_STILL and event.kind == "fault_end" and key in paused:
            resumed[key] = paused.pop(key), event.mono_ns + ZOMBIE_MS * _MS
        elif key in resumed and event.kind in _CALLBACKS:
            begin, latest = resumed.pop(key)
            found.setdefault(key, []).append((begin, min(latest, event.mono_ns)))
        elif event.kind == "start" and event.instance_id is not None:
            heartbeat_ms = event.data.get("config", {}).get("heartbeat_interval_ms", 0)
            instances.setdefault((event.group, event.instance_id), []).append((key, heartbeat_ms))
        elif event.kind == "generation" and event.instance_id is not None:
            older = instances.get((event.group, event.instance_id), [])
            for other, heartbeat_ms in older[: next((i for i, (k, _) in enumerate(older) if k == key), 0)]:
                # What it tells from now on, it may still have to hear.
                latest = event.mono_ns + (2 * heartbeat_ms + FENCED_MS) * _MS
                if other not in fenced:
                    fenced.add(other)
                    resumed[other] = event.mono_ns, latest
    for key, window in resumed.items():
        found.setdefault(key, []).append(window)
    for key, begin in paused.items():
        found.setdefault(key, []).append((begin, _NEVER))
    return found
