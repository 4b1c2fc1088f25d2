"""Times in which a member could not know what it had lost: `zombie_ms` measures them, the judge excuses some. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .events import Event, is_of
from .events.bodies import FaultBody, GenerationBody, GenerationCommittedBody, StartBody, kinds_of

ZOMBIE_MS = 5000
"""Time in which a resumed member must notice its losses; a later overlap is its own fault."""

FENCED_MS = 1000
"""Time, beyond two heartbeats, in which a static member may not know that another process has its instance id."""

MemberKey = tuple[str, str, int]
"""One process: group, member name, incarnation."""

_MS = 1_000_000
_STANDS_STILL = ("pause", "stall", "assign_stall")
_CALLBACKS = ("revoke_end", "lost_begin", "assigned_begin")
"""Callbacks from which a process learns its assignment."""
_TELLING = frozenset((*_CALLBACKS, *kinds_of(FaultBody, StartBody, GenerationBody, GenerationCommittedBody)))
_NEVER = 1 << 63


@dataclass
class _Hindered:
    """A process under a proxy fault, or just after one.

    Args:
        since: Time of its last callback; before that, when the first fault began.
        faults: Number of faults in force.
        latest: Time by which it must have noticed the change after the last fault ended.
        evicted: Whether the coordinator went on without it.
    """

    since: int
    faults: int = 0
    latest: int = _NEVER
    evicted: bool = False


def zombies(events: Sequence[Event]) -> dict[MemberKey, list[tuple[int, int]]]:
    """Times, in monotonic ns, in which each process could not know what it had lost.

    "Callback" means ``revoke_end``, ``lost_begin`` or ``assigned_begin``.

    1. It is paused, does not poll, or hangs in its assign: from its ``fault_begin`` (fault = pause, stall,
       assign_stall) to its next callback after the ``fault_end``, at most `ZOMBIE_MS` later.
    2. It is static, it runs, and another process starts under its instance id: from that process's first ``generation``
       to its own next callback, at most two heartbeats and `FENCED_MS` later.
    3. A proxy hits its connections, and the coordinator commits a generation without it between its ``fault_begin``
       (src proxy), or its last callback during the fault, and its next callback: from that start to its next callback,
       at most `ZOMBIE_MS` after the last ``fault_end``. A fault alone does not make a zombie.

    Cost: O(n) for n events; each generation also costs the number of members under a fault at that time.
    """
    events = [event for event in events if event.kind in _TELLING]
    windows_of = _still_or_fenced(events)
    for key, windows in _cut_off(events).items():
        windows_of.setdefault(key, []).extend(windows)
    return windows_of


def _cut_off(events: Sequence[Event]) -> dict[MemberKey, list[tuple[int, int]]]:
    windows_of: dict[MemberKey, list[tuple[int, int]]] = {}
    hit: dict[MemberKey, _Hindered] = {}
    for event in events:
        if hit and is_of(event, GenerationCommittedBody):
            there = {member.client_id for member in event.body.members}
            for (group, member, _), hindrance in hit.items():
                hindrance.evicted |= group == event.group and member not in there
        if event.group is None or event.member is None:
            continue
        key = event.group, event.member, event.incarnation
        if event.src == "proxy" and event.kind == "fault_begin":
            hindrance = hit.setdefault(key, _Hindered(event.mono_ns))
            hindrance.faults, hindrance.latest = hindrance.faults + 1, _NEVER
        elif event.src == "proxy" and event.kind == "fault_end" and key in hit and hit[key].faults:
            hindrance = hit[key]
            hindrance.faults -= 1
            hindrance.latest = hindrance.latest if hindrance.faults else event.mono_ns + ZOMBIE_MS * _MS
        elif key in hit and event.kind in _CALLBACKS:
            hindrance = hit.pop(key)
            if hindrance.evicted:
                windows_of.setdefault(key, []).append((hindrance.since, min(hindrance.latest, event.mono_ns)))
            if hindrance.faults:
                hit[key] = _Hindered(event.mono_ns, hindrance.faults)
    for key, hindrance in hit.items():
        if hindrance.evicted:
            windows_of.setdefault(key, []).append((hindrance.since, hindrance.latest))
    return windows_of


def _still_or_fenced(events: Sequence[Event]) -> dict[MemberKey, list[tuple[int, int]]]:
    windows_of: dict[MemberKey, list[tuple[int, int]]] = {}
    paused: dict[MemberKey, int] = {}
    resumed: dict[MemberKey, tuple[int, int]] = {}
    instances: dict[tuple[str, str], list[tuple[MemberKey, int]]] = {}  # processes by start time
    fenced: set[MemberKey] = set()
    for event in events:
        if event.group is None or event.member is None:
            continue
        key = event.group, event.member, event.incarnation
        if is_of(event, FaultBody):
            if event.body.fault in _STANDS_STILL and event.kind == "fault_begin":
                paused[key] = event.mono_ns
            elif event.body.fault in _STANDS_STILL and key in paused:
                resumed[key] = paused.pop(key), event.mono_ns + ZOMBIE_MS * _MS
        elif key in resumed and event.kind in _CALLBACKS:
            begin, latest = resumed.pop(key)
            windows_of.setdefault(key, []).append((begin, min(latest, event.mono_ns)))
        elif event.instance_id is not None and is_of(event, StartBody):
            heartbeat_ms = event.body.config.heartbeat_interval_ms or 0
            instances.setdefault((event.group, event.instance_id), []).append((key, heartbeat_ms))
        elif event.kind == "generation" and event.instance_id is not None:
            older = instances.get((event.group, event.instance_id), [])
            for other, heartbeat_ms in older[: next((i for i, (k, _) in enumerate(older) if k == key), 0)]:
                # From now on the older process may not yet know.
                latest = event.mono_ns + (2 * heartbeat_ms + FENCED_MS) * _MS
                if other not in fenced:
                    fenced.add(other)
                    resumed[other] = event.mono_ns, latest
    for key, window in resumed.items():
        windows_of.setdefault(key, []).append(window)
    for key, begin in paused.items():
        windows_of.setdefault(key, []).append((begin, _NEVER))
    return windows_of
