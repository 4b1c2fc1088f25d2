"""When a group is at rest: what is still to happen, by the coordinator log and by what its members have told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from kafka_assignors.core.coordlog import CommittedMember, GroupCommitted, assigned
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import WireError

from .process import MemberProcess, brief


@dataclass(frozen=True)
class Stable:
    """A group at rest.

    Args:
        generation: The last committed one.
        protocol: The elected assignor.
        leader: Name of the member that assigned.
        owned: member name -> topic -> ascending partition ids.
        moves: What changed hands since the `Stable` before: topic-partition -> (old, new member name).
        seconds: From the step that caused it to the last member's adoption.
        mono_ns: When that step began.
    """

    generation: int
    protocol: str
    leader: str
    owned: Mapping[str, Mapping[str, list[int]]]
    moves: Mapping[TopicPartition, tuple[str, str]]
    seconds: float
    mono_ns: int


def due(
    committed: GroupCommitted | None,
    processes: Mapping[str, MemberProcess],
    wanted: Collection[str],
    partitions: Callable[[], Mapping[str, int]],
    complete: bool,
) -> list[str]:
    """What is still to happen before a group is at rest; empty when it is.

    Args:
        committed: The last committed generation.
        processes: member name -> its process; what it has told is read.
        wanted: Names of the members that are to be in the group.
        partitions: topic -> partition count, of all subscribed topics; asked for only when the rest is done.
        complete: Partitions that nobody owns are a reason to wait.
    """
    if committed is None:
        return ["the first generation"]
    found = []
    present = sorted(m.client_id for m in committed.members)
    if present != sorted(wanted):
        found.append(f"generation {committed.generation} has {present}, not {sorted(wanted)}")
    for member in committed.members:
        process = processes.get(member.client_id)
        if process is None:
            continue
        assignment = assigned_to(member)
        if process.generation != committed.generation:
            found.append(f"{member.client_id} is in generation {process.generation}")
        elif process.held != assignment:
            found.append(f"{member.client_id} holds {brief(process.held)}, was assigned {brief(assignment)}")
        elif process.revoked_in == committed.generation:
            found.append(f"{member.client_id} gave up partitions in generation {committed.generation} and will rejoin")
    if not found:
        found += _blind_leader(committed, processes, partitions())
    if not found and complete:
        owned = {tp for member in committed.members for tp in assigned_to(member)}
        if missing := {TopicPartition(t, p) for t, n in partitions().items() for p in range(n)} - owned:
            found.append(f"nobody owns {brief(missing)}")
    return found


def assigned_to(member: CommittedMember) -> set[TopicPartition]:
    """What a committed member was given; bytes that aren't a consumer's give it nothing, and the checker tells."""
    with suppress(WireError):
        return assigned(member)
    return set()


def seen(processes: Mapping[str, MemberProcess]) -> list[str]:
    """Per member what it is in and holds, and what went wrong last."""
    lines = []
    for name, process in sorted(processes.items()):
        error = f"; last error: {process.last_error}" if process.last_error else ""
        lines.append(f"{name}: generation {process.generation}, holds {brief(process.held)}{error}")
    return lines


def _blind_leader(
    committed: GroupCommitted, processes: Mapping[str, MemberProcess], partitions: Mapping[str, int]
) -> list[str]:
    """A leader that assigned before its metadata had every topic (a cold start) rejoins once they have."""
    names = {member.member_id: member.client_id for member in committed.members}
    leader = processes.get(names.get(committed.leader or "", ""))
    if leader is None or leader.view is None or leader.view[0] != committed.generation:
        return []
    unseen = [t for t, n in partitions.items() if leader.view[1].get(t, 0) != n]
    return [f"{leader.config.member} assigned without having seen {', '.join(unseen)} as now"] if unseen else []
