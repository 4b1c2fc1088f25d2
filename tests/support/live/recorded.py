"""What the members of a group would have recorded, made of the coordinator's log of its life."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.coordinator_log import CommittedMember, GroupCommitted, assigned
from kafka_assignors.history.events import Event, member_json, partitions_json
from kafka_assignors.history.generations import Log

GROUP = "g"


def events_of(
    log: Log,
    left: Mapping[str, int] | None = None,
    records: Callable[[CommittedMember], bool] = lambda _member: True,
    skew_ms: Mapping[str, int] | None = None,
) -> Iterator[Event]:
    """The events of the members of a classic group.

    Args:
        left: Member id -> when it asked to leave, ms.
        records: Whether a member records.
        skew_ms: Member id -> by how much its clock is late.
    """
    seq = 0
    ids: dict[str, CommittedMember] = {}

    def event(kind: str, member: CommittedMember, ms: int, data: Mapping[str, object]) -> Event:
        nonlocal seq
        seq += 1
        at_ns = 1_000_000 * (ms + (skew_ms or {}).get(member.member_id, 0))
        return Event(
            kind=kind, run="r", src="member", seq=seq, ts_ns=at_ns, mono_ns=at_ns, group=GROUP, member=member.client_id,
            member_id=member.member_id, instance_id=member.instance_id, client="kafka-python", data=data,
        )  # fmt: skip

    seen: set[tuple[int, str]] = set()
    for record in log.records:
        value = record.value
        if not isinstance(value, GroupCommitted):
            continue
        again = any(number == value.generation for number, _ in seen)
        for member in value.members:
            ids[member.member_id] = member
            if not records(member) or (value.generation, member.member_id) in seen:
                continue
            seen.add((value.generation, member.member_id))
            late = (skew_ms or {}).get(member.member_id, 0)
            if member.member_id == value.leader and not again:
                rows = [{**member_json(m), "session_timeout_ms": 0, "rebalance_timeout_ms": 0} for m in value.members]
                told = {"generation": value.generation, "protocol": value.protocol, "duration_us": 1, "members": rows}
                yield event("assign_end", member, record.ts_ms, told)
            partitions: set[TopicPartition] = assigned(member)
            told = {
                "generation": value.generation, "protocol": value.protocol, "leader": value.leader,
                "joined_ms": value.ts_ms + late, "host": member.client_host.removeprefix("/"),
                "partitions": partitions_json(partitions), "sent": member_json(member),
            }  # fmt: skip
            yield event("generation", member, record.ts_ms, told)
    for member_id, ms in (left or {}).items():
        if records(ids[member_id]):
            yield event("stop", ids[member_id], ms, {"reason": "its consumer was closed"})
