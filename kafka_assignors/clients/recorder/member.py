"""What one consumer does in its group, as the events of `kafka_assignors.history.events`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...output import printable
from ..fact_log import log
from .sender import EventSender


class JoinedMember(NamedTuple):
    """A member as its group's leader sees it: its id, its instance id, and what it sent."""

    member_id: str
    instance_id: str | None
    subscription: bytes


@dataclass
class _JoinUnderWay:
    """The join under way, as far as it is answered."""

    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leader: str | None = None
    joined_ms: int | None = None
    members: Sequence[JoinedMember] = ()
    assignments: Mapping[str, Any] = field(default_factory=dict)
    assign_us: int = 0


Places = frozenset[tuple[str, int]]

REFUSALS = {
    "UnknownMemberIdError": "the coordinator had removed the member: its session or its rebalance timeout had expired, "
    "or an administrator removed it",
    "IllegalGenerationError": "the group had gone on to another generation without the member",
    "FencedInstanceIdError": "another process has this group_instance_id now",
}
"""Error of a heartbeat's answer, as kafka-python and aiokafka name it -> what it means."""


class ServiceMember:
    """A consumer of a group. Its methods note what happens now; none of them waits.

    Args:
        sender: Where the events go.
        group, client, client_id, instance_id: Of the consumer.
        host: Of the machine.
        session_timeout_ms, rebalance_timeout_ms: As the consumer sends them when it joins; 0 if they aren't known.

    Attributes:
        owned: The partitions that it owns, as far as it is recorded.
    """

    def __init__(
        self, sender: EventSender, *, group: str, client: str, client_id: str, instance_id: str | None, host: str,
        session_timeout_ms: int = 0, rebalance_timeout_ms: int = 0,
    ) -> None:  # fmt: skip  # what a consumer's settings tell of it
        self._sender, self._host = sender, host
        self._client_id, self._instance_id = client_id, instance_id
        self._timeouts = session_timeout_ms, rebalance_timeout_ms
        self._common = {"group": group, "member": instance_id or client_id, "client": client}
        if instance_id:
            self._common["instance_id"] = instance_id
        self._member_id, self._generation = "", -1
        self._join = _JoinUnderWay()
        self._sent: Mapping[str, bytes] = {}
        self.owned: Places = frozenset()
        self._started = self._failed = False
        self.stopped = True

    def guarded(self, step: Callable[..., Any], /, *given: Any, **named: Any) -> None:
        """Do a step of the recorder. If it fails, that is logged, and this consumer goes on without a recorder."""
        if self._failed:
            return
        try:
            step(*given, **named)
        except Exception as error:
            self._failed = True
            text = printable(str(error))
            log.warning("record: a consumer isn't recorded any more, and goes on: %s: %s", type(error).__name__, text)

    def start(self, topics: Iterable[str], assignors: Sequence[str], config: Mapping[str, Any]) -> None:
        """Tell the subscription and settings, once."""
        if not self._started:
            self._started = True
            self._put("start", {"topics": sorted(topics), "assignors": list(assignors), "config": dict(config)})

    def joining(self, sent: Mapping[str, bytes]) -> None:
        """The member asks to join: assignor -> what it sends for it."""
        self._sent = sent

    def joined(
        self, member_id: str, generation: int, protocol: str, leader: str | None, members: Sequence[JoinedMember] = ()
    ) -> None:
        """Its join is answered; `members` are all of the group, if it leads."""
        self._member_id = member_id
        self._join = _JoinUnderWay(member_id, generation, protocol, leader, time.time_ns() // 1_000_000, members)

    def assigned(self, assignments: Mapping[str, Any], seconds: float) -> None:
        """As the leader it has assigned: member id -> bytes, or what has them as ``encode()``."""
        self._join.assignments, self._join.assign_us = assignments, round(1e6 * seconds)

    def synced(self) -> None:
        """The coordinator has taken the assignment, or given the member its own."""
        join = self._join
        if not join.assignments:
            return
        self._join = _JoinUnderWay(join.member_id, join.generation, join.protocol, join.leader, join.joined_ms)
        common_timeouts, client_id, host = self._timeouts, self._client_id, self._host

        def fields() -> dict[str, Any]:
            rows = []
            for member in join.members:
                own = member.member_id == join.member_id
                assignment = encoded(join.assignments.get(member.member_id, b""))
                timeouts = common_timeouts if own else (0, 0)
                rows.append(member_row(member, assignment, client_id if own else client_id_of(member), host, timeouts))
            return {
                "generation": join.generation, "protocol": join.protocol, "duration_us": join.assign_us,
                "members": rows,
            }  # fmt: skip

        size = sum(len(member.subscription) for member in join.members)
        self._put("assign_end", fields, 2 * size + 100 * len(join.members))

    def adopting(self, generation: int, protocol: str, assignment: bytes) -> None:
        """The member adopts an assignment."""
        self._adopting(generation, protocol, lambda: assignment, 2 * len(assignment))

    def _adopting(self, generation: int, protocol: str, assignment: Callable[[], bytes], size: int) -> None:
        self._generation, self.stopped = generation, False
        join, sent = self._join, self._sent.get(protocol, b"")
        same = join.generation == generation
        own = JoinedMember(self._member_id, self._instance_id, sent)
        timeouts, client_id, host = self._timeouts, self._client_id, self._host

        def fields() -> dict[str, Any]:
            row = member_row(own, assignment(), client_id, host, timeouts)
            answer = {"joined_ms": join.joined_ms, "leader": join.leader} if same else {}
            more = {name: value for name, value in answer.items() if value is not None}
            return {
                "generation": generation, "protocol": protocol, "partitions": row["assigned"], "host": host,
                "sent": row, **more,
            }  # fmt: skip

        self._put("generation", fields, 2 * len(sent) + size)

    def is_member(self, member_id: str, instance_id: str | None) -> None:
        """The client tells its ids only once it has joined; the coordinator makes a member id of the client id."""
        self._member_id, self._instance_id = member_id, instance_id
        self._client_id = self._client_id or client_id_of(JoinedMember(member_id, instance_id, b""))
        self._common["member"] = instance_id or self._client_id
        if instance_id:
            self._common["instance_id"] = instance_id

    def adopting_places(self, generation: int, partitions: Iterable[tuple[str, int]]) -> None:
        """The member adopts an assignment of which the client tells the partitions alone."""
        places = tuple(partitions)

        def assignment() -> bytes:
            from ...core.wire.protocol import AssignedPartitions, by_topic, encode_assignment

            return encode_assignment(AssignedPartitions(by_topic(places)))

        self._adopting(generation, "", assignment, 100 * len(places))

    def owns(self, partitions: Iterable[tuple[str, int]]) -> None:
        """The member owns these partitions from now on: what was given up and what is new is recorded."""
        now = frozenset((topic, number) for topic, number in partitions)
        before, self.owned = self.owned, now
        if gone := before - now:
            self._callback("revoke", gone)
        if new := now - before:
            self._callback("assigned", new)

    def gives_up(self, partitions: Iterable[tuple[str, int]], *, lost: bool = False) -> None:
        """The member revokes partitions, or learns that it lost them; those that it gave up before are left out."""
        gone = self.owned & {(topic, number) for topic, number in partitions}
        self.owned -= gone
        if gone:
            self._callback("lost" if lost else "revoke", gone)

    def refused(self, error: str) -> None:
        """The coordinator refused a heartbeat with an error; those that are no news of the membership are left out."""
        if error in REFUSALS:
            self._put("error", {"error": error, "message": REFUSALS[error]})

    def stop(self, reason: str) -> None:
        """The member leaves its group, or a static one is closed."""
        if not self.stopped:
            self.stopped = True
            self._put("stop", {"reason": reason})

    def close(self, *, static: bool) -> None:
        """Its consumer is closed."""
        stays = "; a static member stays in its group until its session ends" if static else ""
        self.stop(f"its consumer was closed{stays}")

    def _callback(self, name: str, places: Places) -> None:
        generation = self._generation

        def fields() -> dict[str, Any]:
            return {"generation": generation, "partitions": [{"topic": t, "partition": p} for t, p in sorted(places)]}

        for edge in ("begin", "end"):
            self._put(f"{name}_{edge}", fields, 100 * len(places))

    def _put(self, kind: str, fields: Any, size: int = 0) -> None:
        common = {**self._common, "member_id": self._member_id} if self._member_id else self._common
        self._sender.put(kind, common, fields, size)


def encoded(assignment: Any) -> bytes:
    """A leader's assignment of one member as bytes."""
    return bytes(assignment) if isinstance(assignment, bytes | bytearray | memoryview) else bytes(assignment.encode())


_ID = 37
"""Length of a dash and of the UUID with which the coordinator ends a member id."""


def client_id_of(member: JoinedMember) -> str:
    """The client id in a member id, as the coordinator makes it; of a static member, its instance id."""
    return member.instance_id or member.member_id[:-_ID]


def member_row(
    member: JoinedMember, assignment: bytes, client_id: str, host: str, timeouts: tuple[int, int]
) -> dict[str, Any]:
    """A member of a generation as events carry it."""
    from ...history.coordinator_log import CommittedMember
    from ...history.events import member_json

    session_ms, rebalance_ms = timeouts
    committed = CommittedMember(
        member.member_id, member.instance_id, client_id, host, rebalance_ms, session_ms, member.subscription, assignment
    )
    return member_json(committed)
