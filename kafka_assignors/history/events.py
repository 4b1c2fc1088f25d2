"""Events of a group: values <-> JSON lines, the format that members write, and the checker and Spark read.

A history is a folder of ``*.jsonl`` files, one per source, each with a gapless ``seq``. Events of all sources are
ordered by ``mono_ns``, the monotonic clock that all processes of one boot share. The kinds and their fields:
============================ ======= =================================================================================
kind                         src     fields of this kind
============================ ======= =================================================================================
start                        member  assignors[str] topics[str] config{} (early_heartbeats: its assignors or the guard
                                     promise them)
stop                         member
exit                         harness code signal asked?    (written by the harness after the process ended; asked:
                                     the harness stopped it, or expected its end)
assign_begin                 member  generation protocol members[str] topics{topic: count} racks{topic: [[rack]]}
                                     leaders{topic: [rack|null]} (leader's view)
assign_end                   member  generation protocol duration_us error?
generation                   member  generation protocol partitions[]        (on_assignment, even without a change)
assigned_begin assigned_end  member  generation partitions[]
revoke_begin revoke_end      member  generation partitions[]
rebalance_request            member  why (its assignor requests a rebalance, and the client joins again)
lost_begin lost_end          member  generation partitions[]
consume                      member  offsets[{topic partition first last count bytes}] (each run is contiguous)
finished                     member  offsets[{topic partition first last count bytes}] (records that its application has
                                     processed; its start's config has finishes=true)
commit_begin                 member  offsets[{topic partition offset}] transaction? (number of the transaction, if the
                                     member transforms; its start's config names the output topic)
commit_ok commit_fail        member  offsets[{topic partition offset}] error? transaction?
rewound                      member  offsets[{topic partition offset}] (after an aborted transaction: the new positions)
error                        any     error fatal message   (of the harness: why it gave up; or `INCOMPLETE`)
fault_begin fault_end        harness fault target (kill, pause, …); member and incarnation are the target's
                                     of a broker: fault=broker_kill|stop|pause|restart target (node N) coordinator
                             member  fault=stall target (from its last poll to the next), or assign_stall
                             proxy   fault=cut, delay, drop or reset, params{api side ms …}; the end has hits. If the
                                     target is one member, member and incarnation are the target's
admin_change                 harness change topics{topic: count} (create_topic, add_partitions, delete_topic, …);
                                     subscribe: member subscription{topics[str] | pattern}
admin_changed                harness change target topics{topic: count} (the brokers have made that change)
step                         harness name gap_ms? (a named step of a scenario, and how long a topic-partition may
                                     be without an owner during it); also
                                     stable: generation topics{topic: count} adopted_ns
                                     drained, read_back: offsets[{topic partition offset}] (ends); of a read_back
                                     isolation? (read_committed: without outputs of open or aborted transactions)
topics                       harness topics{topic: count} (of a member's subscription, from the brokers at its start)
not_stable                   harness waited_s members[str] due[str] generation? topics{topic: count}? (the group was
                                     not stable by the deadline: its expected members, and the unmet conditions)
not_drained                  harness waited_s left[{topic partition offset end}] (at the deadline the group had
                                     consumed up to offset, below end)
truncated                    harness offsets[{topic partition offset end}] (records lost with a new leader: the log
                                     ended at end, and then at offset, before new records were sent)
not_over                     harness waited_s awaited (another condition that was not met by its deadline)
closing                      harness (from here on the harness stops members, so revoked partitions need no owner)
generation_committed         coordlog generation protocol leader ts_ms members[{member_id instance_id client_id
                                     session_timeout_ms rebalance_timeout_ms subscription assigned[] assignment
                                     owned[]}]  (raw bytes as hex; ts_ms: when the join completed)
offset_committed             coordlog topic partition offset
broker_assigned              coordlog record fields{}? pattern? names{topic id: topic}? (of a KIP-848 group; without
                                     fields: deleted; names: of the topic ids in it that exist)
unread                       coordlog reason (a record of this group that the reader does not know)
ack nack                     producer partitioner topic partition offset value_id key_hash? error? predicted? (the
                                     partitioner's choice) expected? (its rule's partition, computed independently)
read_back                    harness topic partition offset value_id partitioner author? {group member incarnation
                                     transaction} (of an output: the member that produced it, and its transaction)
end                          any     sha256 (of all lines before it: the file is complete; a killed process writes none)
============================ ======= =================================================================================

A member's events also have ``log_bytes?``, if it is a service's process: how long its log was then.
``partitions`` is a list of ``{"topic": str, "partition": int}``; offsets are record offsets, ``last`` is inclusive.
Source: the fields follow Kafka's VerifiableConsumer events (apache/kafka tests/kafkatest) where they overlap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ..core.wire.protocol import decode_subscription
from ..errors import WireError
from .coordinator_log import BrokerAssigned, CommittedMember, GroupCommitted, OffsetCommitted, assigned

VERSION = 1
INCOMPLETE = "IncompleteRecord"
"""The harness's error if a member's events are not whole, so that nobody can judge what it did."""
COMMON = (
    "v", "run", "src", "seq", "ts_ns", "mono_ns", "group", "member", "incarnation", "pid", "member_id", "instance_id",
    "client", "kind",
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """One event of a history. The table above has the kinds, and the fields of each: `data`.

    Args:
        src: member, harness, coordlog, proxy or producer.
        seq: Position in its source's file, from 0, without gaps.
        ts_ns: Wall clock, nanoseconds since the epoch.
        mono_ns: Monotonic clock, nanoseconds; orders events of all processes of one boot.
    """

    kind: str
    run: str
    src: str
    seq: int
    ts_ns: int
    mono_ns: int
    group: str | None = None
    member: str | None = None
    incarnation: int = 0
    pid: int = 0
    member_id: str | None = None
    instance_id: str | None = None
    client: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line, without the newline."""
        row: dict[str, Any] = {"v": VERSION}
        row.update({name: getattr(self, name) for name in COMMON[1:]})
        row.update(self.data)
        return json.dumps({k: v for k, v in row.items() if v is not None}, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> Event:
        """Decode one line.

        Raises:
            ValueError: Not JSON, not an object, a missing common field, or an unknown version.
        """
        return cls.from_row(json.loads(line))

    @classmethod
    def from_row(cls, row: Any) -> Event:
        """Decode a line's JSON object; the event takes over its fields.

        Raises:
            ValueError: Not an object, a missing common field, or an unknown version.
        """
        if not isinstance(row, dict):
            raise ValueError(f"an event is a JSON object, not {type(row).__name__}: {row!r:.80}")
        if row.pop("v", None) != VERSION:
            raise ValueError(f"unknown event version in {row!r:.80}; this reader knows {VERSION}")
        common = {name: row.pop(name) for name in COMMON[1:] if name in row}
        missing = {"kind", "run", "src", "seq", "ts_ns", "mono_ns"} - set(common)
        if missing:
            raise ValueError(f"event lacks {', '.join(sorted(missing))}: {row!r:.80}")
        return cls(data=row, **common)


def file_stem(*names: object) -> str:
    """A file name without extension, of a group, a member, …; characters that a path cannot contain are replaced."""
    return ".".join(quote(str(name), safe=" ") for name in names)


def partitions_json(partitions: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """Topic-partitions as events carry them, sorted."""
    return [{"topic": t, "partition": p} for t, p in sorted(partitions)]


def committed(entry: GroupCommitted | OffsetCommitted | BrokerAssigned) -> tuple[str, dict[str, Any]]:
    """Kind and fields of the event for a coordinator record. Bytes that cannot be decoded stay as hex."""
    if isinstance(entry, BrokerAssigned):
        row = {"record": entry.record, "member_id": entry.member, "fields": entry.fields, "pattern": entry.pattern}
        return "broker_assigned", {name: value for name, value in row.items() if value is not None}
    if isinstance(entry, OffsetCommitted):
        return "offset_committed", {"topic": entry.topic, "partition": entry.partition, "offset": entry.offset}
    fields: dict[str, Any] = {
        "generation": entry.generation,
        "ts_ms": entry.ts_ms,
        "members": [_committed_member(member) for member in entry.members],
    }
    if entry.protocol is not None:
        fields["protocol"] = entry.protocol
    if entry.leader is not None:
        fields["leader"] = entry.leader
    return "generation_committed", fields


def _committed_member(member: CommittedMember) -> dict[str, Any]:
    row: dict[str, Any] = {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscription": member.subscription.hex(),
        "assignment": member.assignment.hex(),
        "assigned": [],
        "owned": [],
    }
    if member.instance_id is not None:
        row["instance_id"] = member.instance_id
    with suppress(WireError):
        row["assigned"] = partitions_json(assigned(member))
    with suppress(WireError):
        row["owned"] = partitions_json(decode_subscription(member.subscription).owned)
    return row
