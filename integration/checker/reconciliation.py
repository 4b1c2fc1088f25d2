"""A KIP-848 group in the checker's terms: targets are generations, members adopt by their own epochs. Pure.

A target assignment is a generation once its epoch is in the log; its number is that epoch. Nobody leads it, and no
member waits for another: the coordinator moves each member from what it has to the target, and logs every step
(`Current`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.broker_group import (
    CURRENT,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    BrokerGroup,
    as_generation,
    named,
    topic_ids,
)
from kafka_assignors.history.coordinator_log import BrokerAssigned
from kafka_assignors.history.events import Event, committed
from kafka_assignors.history.events.bodies import BrokerAssignedBody


@dataclass(frozen=True)
class Current:
    """What the coordinator's log says that one member has, from one record to its next."""

    event: Event[BrokerAssignedBody]  # the record. Without fields it removes the member.
    member_id: str
    client_id: str
    epoch: int
    assigned: frozenset[TopicPartition]  # its current assignment; empty once it is removed
    revoking: frozenset[TopicPartition]  # partitions that it has not yet acknowledged to have revoked
    removed: bool = False  # whether the record removes it: it left, its session ended, or a static member is replaced
    converted: bool = False  # removed because the coordinator converted the group, and it, to the classic protocol


@dataclass
class Reconciliation:
    """The records of one KIP-848 group, replayed.

    `targets` are the events that complete a target assignment, with the fields of a ``generation_committed`` (see
    `generation_in`).
    """

    targets: list[Event] = field(default_factory=list)
    currents: list[Current] = field(default_factory=list)  # every change of what a member has, in the order of the log
    unnamed: set[str] = field(default_factory=set)  # ids of topics whose names the history doesn't have
    in_classic: Mapping[str, int] = field(default_factory=dict)  # member id -> seq of its last classic generation

    @classmethod
    def of(
        cls, group: str, events: Sequence[Event[BrokerAssignedBody]], in_classic: Mapping[str, int] | None = None
    ) -> Reconciliation:
        """Replay ``broker_assigned`` events, which are in the order of the log."""
        reconciliation, state = cls(in_classic=in_classic or {}), BrokerGroup(group)
        names: dict[str, str] = {}
        for event in events:
            names |= event.body.names or {}
        left: dict[str, str] = {}  # instance id -> member id, of static members removed since the last target
        for event in events:
            row = event.body
            entry = BrokerAssigned(row.record, group, event.member_id, row.fields, row.pattern)
            before = state.members.get(entry.member or "")
            state.take(entry)
            names |= state.names
            reconciliation.unnamed |= topic_ids(entry.fields) - names.keys()
            reconciliation._step(event, state, before.client_id if before is not None else "", names)
            if (
                entry.record == MEMBER
                and entry.fields is None
                and before is not None
                and before.instance_id is not None
            ):
                left[before.instance_id] = before.member_id
            member = state.members.get(entry.member or "")
            # A static member that returns replaces its row within the same target.
            back = (
                entry.record == TARGET
                and entry.fields is not None
                and member is not None
                and member.instance_id in left
            )
            if entry.record == TARGET_EPOCH and entry.fields is not None:
                left.clear()
            elif not back or state.epoch != state.target_epoch:
                continue
            elif member is not None and member.instance_id is not None:
                del left[member.instance_id]
            _, fields = committed(as_generation(state, names))
            reconciliation.targets.append(replace(event, data={**event.data, **fields}))
        return reconciliation

    def _step(
        self, event: Event[BrokerAssignedBody], state: BrokerGroup, client_before: str, names: Mapping[str, str]
    ) -> None:
        record, member_id = event.body.record, event.member_id or ""
        member = state.members.get(member_id)
        if record not in (CURRENT, MEMBER):
            return
        if event.body.fields is None:
            if record == MEMBER:
                none: frozenset[TopicPartition] = frozenset()
                stays = self.in_classic.get(member_id, -1) > event.seq
                self.currents.append(Current(event, member_id, client_before, -1, none, none, True, stays))
        elif record == CURRENT and member is not None:
            has, gives_up = named(member.assigned, names), named(member.revoking, names)
            self.currents.append(Current(event, member_id, member.client_id, member.epoch, has, gives_up))

    def of_member(self, member_id: str) -> Sequence[Current]:
        """What one member had, in the order of the log."""
        return self._by_member.get(member_id, ())

    def between(self, member_id: str, from_ns: int, until_ns: int) -> Sequence[Current]:
        """What one member had from one time to another (monotonic ns), in order; nothing before its first record."""
        rows = self.of_member(member_id)
        first, end = (bisect_right(rows, ns, key=lambda row: row.event.mono_ns) for ns in (from_ns, until_ns))
        return rows[max(0, first - 1) : end]

    @cached_property
    def _by_member(self) -> dict[str, list[Current]]:
        by_member: dict[str, list[Current]] = defaultdict(list)
        for current in self.currents:
            by_member[current.member_id].append(current)
        return by_member

    @cached_property
    def reached(self) -> set[tuple[str, int]]:
        """(member id, epoch) for every epoch that a member reached."""
        return {(current.member_id, current.epoch) for current in self.currents if not current.removed}
