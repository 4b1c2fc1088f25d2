"""When a group is at rest: what is still to happen, by the coordinator log and by what its members have told."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.errors import WireError
from kafka_assignors.history.coordinator_log import CommittedMember, GroupCommitted, assigned

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
    names = names_of(committed, processes)
    present = sorted(names.values())
    if present != sorted(wanted):
        found.append(f"generation {committed.generation} has {present}, not {sorted(wanted)}")
    for member in committed.members:
        name = names[member.member_id]
        process = processes.get(name)
        if process is None:
            continue
        assignment = assigned_to(member)
        if process.generation != committed.generation:
            found.append(f"{name} is in generation {process.generation}")
        elif process.held != assignment:
            found.append(f"{name} holds {brief(process.held)}, was assigned {brief(assignment)}")
        elif process.revoked_in == committed.generation:
            found.append(f"{name} gave up partitions in generation {committed.generation} and will rejoin")
    if found:
        return found
    topics = partitions()
    found += _old_subscriptions(committed, processes, topics)
    found += _blind_leader(committed, processes, topics)
    owned = {tp for member in committed.members for tp in assigned_to(member)}
    there = {TopicPartition(t, p) for t, n in topics.items() for p in range(n)}
    if gone := owned - there:
        found.append(f"{brief(gone)} is owned, and doesn't exist any more")
    if complete and (missing := there - owned):
        found.append(f"nobody owns {brief(missing)}")
    return found


def names_of(committed: GroupCommitted, processes: Mapping[str, MemberProcess]) -> dict[str, str]:
    """Member id -> name: whoever told that id, else the client id.

    Of a static member whose instance id another has taken, the coordinator keeps the client id.
    """
    told = {process.member_id: name for name, process in processes.items()}
    return {member.member_id: told.get(member.member_id, member.client_id) for member in committed.members}


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


def _old_subscriptions(
    committed: GroupCommitted, processes: Mapping[str, MemberProcess], partitions: Mapping[str, int]
) -> list[str]:
    """Members that joined before they subscribed to what they do now, or before a topic came that they match."""
    found, names = [], names_of(committed, processes)
    for member in committed.members:
        process = processes.get(names[member.member_id])
        with suppress(WireError):  # the checker tells
            joined = set(decode_subscription(member.subscription).topics)
            if process is None:
                continue
            wanted = set(process.topics)
            if process.pattern is not None:
                wanted = {topic for topic in partitions if re.match(process.pattern, topic)}
            if joined != wanted:
                told = f"{', '.join(sorted(joined)) or 'nothing'}, not {', '.join(sorted(wanted)) or 'nothing'}"
                found.append(f"{process.config.member} joined generation {committed.generation} subscribing to {told}")
    return found


def _blind_leader(
    committed: GroupCommitted, processes: Mapping[str, MemberProcess], partitions: Mapping[str, int]
) -> list[str]:
    """A leader that assigned before its metadata had every partition (a cold start, new partitions) rejoins then."""
    names = names_of(committed, processes)
    leader = processes.get(names.get(committed.leader or "", ""))
    if leader is None or leader.view is None or leader.view[0] < committed.generation:
        return []
    if leader.view[0] > committed.generation:
        return [f"{leader.config.member} has assigned generation {leader.view[0]} already"]
    unseen = [t for t, n in partitions.items() if leader.view[1].get(t, 0) != n]
    return [f"{leader.config.member} assigned without having seen {', '.join(unseen)} as now"] if unseen else []
