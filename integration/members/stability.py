"""Decides whether a group is stable, from the coordinator log and its members' reports."""

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
    """A stable group.

    Args:
        generation: The last committed one.
        protocol: The elected assignor.
        leader: Name of the member that assigned.
        owned: member name -> topic -> ascending partition ids.
        moves: Changes of owner since the previous `Stable`: topic-partition -> (old, new member name).
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
    """What must still happen before the group is stable; empty if it is.

    `partitions` returns topic -> partition count of all subscribed topics, and is called only when nothing else is due.
    With `complete`, partitions without an owner are waited for.
    """
    if committed is None:
        return ["the first generation"]
    reasons = []
    names = names_of(committed, processes)
    present = sorted(names.values())
    if present != sorted(wanted):
        reasons.append(f"generation {committed.generation} has {present}, not {sorted(wanted)}")
    for member in committed.members:
        name = names[member.member_id]
        process = processes.get(name)
        if process is None:
            continue
        assignment = assigned_to(member)
        by_broker = process.config.broker_assigned  # it reports changes only, so an epoch without any can't be seen
        if not by_broker and process.generation != committed.generation:
            reasons.append(f"{name} is in generation {process.generation}")
        elif process.owned != assignment:
            reasons.append(f"{name} holds {brief(process.owned)}, was assigned {brief(assignment)}")
        # A target assignment (KIP-848) has no leader: there, the coordinator tells who must revoke.
        elif not by_broker and committed.leader is not None and process.revoked_in == committed.generation:
            reasons.append(f"{name} revoked partitions in generation {committed.generation} and will rejoin")
    if reasons:
        return reasons
    topics = partitions()
    reasons += _old_subscriptions(committed, processes, topics)
    reasons += _blind_leader(committed, processes, topics)
    owned = {tp for member in committed.members for tp in assigned_to(member)}
    there = {TopicPartition(t, p) for t, n in topics.items() for p in range(n)}
    if gone := owned - there:
        reasons.append(f"{brief(gone)} is owned but does not exist any more")
    if complete and (missing := there - owned):
        reasons.append(f"no member owns {brief(missing)}")
    return reasons


def names_of(committed: GroupCommitted, processes: Mapping[str, MemberProcess]) -> dict[str, str]:
    """Member id -> name of the process that reported this id, else the client id.

    If another member has taken a static member's instance id, the coordinator keeps the old client id.
    """
    reported_names = {process.member_id: name for name, process in processes.items()}
    return {member.member_id: reported_names.get(member.member_id, member.client_id) for member in committed.members}


def assigned_to(member: CommittedMember) -> set[TopicPartition]:
    """The assignment of a committed member; empty if its bytes can't be decoded, which the checker reports."""
    with suppress(WireError):
        return assigned(member)
    return set()


def seen(processes: Mapping[str, MemberProcess]) -> list[str]:
    """Per member its generation, owned partitions and last error."""
    lines = []
    for name, process in sorted(processes.items()):
        error = f"; last error: {process.last_error}" if process.last_error else ""
        lines.append(f"{name}: generation {process.generation}, holds {brief(process.owned)}{error}")
    return lines


def _old_subscriptions(
    committed: GroupCommitted, processes: Mapping[str, MemberProcess], partitions: Mapping[str, int]
) -> list[str]:
    """Members that joined with an old subscription, or before a topic existed that their pattern matches."""
    reasons, names = [], names_of(committed, processes)
    for member in committed.members:
        process = processes.get(names[member.member_id])
        with suppress(WireError):  # the checker reports it
            joined = set(decode_subscription(member.subscription).topics)
            if process is None:
                continue
            wanted = set(process.topics)
            if process.pattern is not None:
                wanted = {topic for topic in partitions if re.match(process.pattern, topic)}
            if joined != wanted:
                difference = f"{', '.join(sorted(joined)) or 'nothing'}, not {', '.join(sorted(wanted)) or 'nothing'}"
                reasons.append(
                    f"{process.config.member} joined generation {committed.generation} subscribing to {difference}"
                )
    return reasons


def _blind_leader(
    committed: GroupCommitted, processes: Mapping[str, MemberProcess], partitions: Mapping[str, int]
) -> list[str]:
    """A leader that assigned before its metadata had every partition (a cold start, new partitions) will rejoin."""
    names = names_of(committed, processes)
    leader = processes.get(names.get(committed.leader or "", ""))
    if leader is None or leader.view is None or leader.view[0] < committed.generation:
        return []
    if leader.view[0] > committed.generation:
        return [f"{leader.config.member} has already assigned generation {leader.view[0]}"]
    unseen = [t for t, n in partitions.items() if leader.view[1].get(t, 0) != n]
    return [f"{leader.config.member} assigned with outdated metadata of {', '.join(unseen)}"] if unseen else []
